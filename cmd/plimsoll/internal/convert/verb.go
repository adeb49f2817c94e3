package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

// New returns the command.
func New(env *cli.Env) *cobra.Command {
	var (
		files []string
		o     Options
	)
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Convert other autoscalers' manifests to WorkloadAutoscalers, and kproximate's values to a VMPool",
		Long: `Convert other autoscalers' manifests to WorkloadAutoscalers: Kubernetes' HorizontalPodAutoscaler and
VerticalPodAutoscaler, KEDA's ScaledObject with triggers of types prometheus, cpu, memory and cron, the
CustomPodAutoscaler of the paper on SLO and cost, and Datadog's WatermarkPodAutoscaler with marks of resources. KEDA's
TriggerAuthentications are read from the same files, and for a VerticalPodAutoscaler what scales its workload, or the
workload itself, by which replicas are known.
Of the values.yaml of kproximate's chart it makes a VMPool. What a pool needs and the values lack is an example, which a
note names. No secret is printed.

The output is in mode Recommend and changes nothing. Keys that cannot be converted are listed with their reason, on
standard error and in comments of the output, and so are faults of what is not converted. Objects of other kinds are skipped.

It exits with 0 if everything was converted, with 1 if something was not, and with 3 if the file cannot be read or
holds no such manifest without faults.`,
		Example: "  kubectl get hpa web -o yaml | plimsoll convert -f - > web.yaml\n" +
			"  kubectl get vpa,deployments -o yaml | plimsoll convert -f - > sizes.yaml\n" +
			"  plimsoll convert -f nginx-autoscaler.yaml --window-unit m | kubectl apply -f -\n" +
			"  helm get values kproximate -o yaml | plimsoll convert -f - > vmpools.yaml",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "filename"); err != nil {
				return err
			}
			var all [][]byte
			for _, file := range files {
				data, err := env.Input(file)
				if err != nil {
					return cli.WithCode(cli.ExitConfig, fmt.Errorf("--filename: %w", err))
				}
				all = append(all, data)
			}
			return printConverted(env, strings.Join(files, ", "), bytes.Join(all, []byte("\n---\n")), o)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "the manifests, a `file` of YAML; - is standard input; repeatable")
	cli.AddFlag(cmd, &o.WindowUnit, readUnit, "window-unit", "unit", "", "the unit of a CustomPodAutoscaler's slo.window, which is a bare number: ms, s, m or h")
	return cmd
}

func readUnit(text string) (time.Duration, error) {
	units := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour}
	unit, ok := units[text]
	if !ok {
		return 0, fmt.Errorf("must be ms, s, m or h, was %q", text)
	}
	return unit, nil
}

// printConverted converts manifests and prints what came of them.
func printConverted(env *cli.Env, file string, data []byte, o Options) error {
	results, others, err := Manifests(data, o)
	switch {
	case errors.Is(err, ErrUnit):
		return cli.WithHint("say it with --window-unit; the paper's experiments measure over minutes: --window-unit m", cli.WithCode(cli.ExitUsage, err))
	case err != nil && !slices.ContainsFunc(results, func(r Result) bool { return r.To != nil || r.Pool != nil }):
		return cli.Misconfigured(file, err)
	case len(results) == 0:
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("%s: must hold one of %s, was %s", file, Kinds(), orNothing(others)))
	}
	lost := 0
	for i, r := range results {
		if err := printResult(env, i, &r); err != nil {
			return err
		}
		lost += len(r.Lost)
	}
	printNotes(env, results)
	for _, other := range others {
		fmt.Fprintf(env.Stderr, "note: skipped %s: its kind is not supported\n", other)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: what has faults was not converted:\n  %s", file, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	case lost > 0:
		return fmt.Errorf("%s could not be carried over", cli.Count(lost, "key", "keys"))
	}
	return nil
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "empty"
	}
	return strings.Join(names, ", ")
}

// printNotes prints each note once on standard error, with the autoscalers that it is about.
func printNotes(env *cli.Env, results []Result) {
	about, texts := map[string][]string{}, []string(nil)
	add := func(from, text string) {
		if _, known := about[text]; !known {
			texts = append(texts, text)
		}
		if !slices.Contains(about[text], from) {
			about[text] = append(about[text], from)
		}
	}
	for i := range results {
		r := &results[i]
		for _, note := range r.Notes {
			add(r.From, note)
		}
		for _, l := range r.Lost {
			add(r.From, "not carried over: "+l.String())
		}
	}
	for _, text := range texts {
		fmt.Fprintf(env.Stderr, "note: %s: %s\n", strings.Join(about[text], ", "), text)
	}
}

// printResult prints a manifest, with what it lacks in its comments.
func printResult(env *cli.Env, n int, r *Result) error {
	var out bytes.Buffer
	if n > 0 {
		out.WriteString("---\n")
	}
	if r.To == nil && r.Pool == nil {
		comment(&out, r.From+" was not converted.")
	} else {
		comment(&out, "From "+r.From+". It only recommends: set mode to Active when that one is gone.")
	}
	if r.Fault != nil {
		for line := range strings.Lines(r.Fault.Error()) {
			comment(&out, line)
		}
	}
	for _, note := range r.Notes {
		comment(&out, note)
	}
	for _, l := range r.Lost {
		comment(&out, "not carried over: "+l.String())
	}
	var err error
	switch {
	case r.To != nil:
		err = writeObject(&out, &r.To.TypeMeta, &r.To.ObjectMeta, r.To.Spec)
	case r.Pool != nil:
		err = writeObject(&out, &r.Pool.TypeMeta, &r.Pool.ObjectMeta, r.Pool.Spec)
	}
	if err != nil {
		return err
	}
	_, err = env.Stdout.Write(out.Bytes())
	return err
}

// comment writes a line that YAML does not read, for any text.
func comment(out *bytes.Buffer, text string) {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	out.WriteString("# " + strings.Join(strings.Fields(printable), " ") + "\n")
}

// writeObject writes what people write of an object: all but what the API server fills in.
func writeObject(w io.Writer, kind *metav1.TypeMeta, meta *metav1.ObjectMeta, spec any) error {
	type metadata struct {
		Namespace   string            `json:"namespace,omitempty"`
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	text, err := json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Spec       any      `json:"spec"`
	}{kind.APIVersion, kind.Kind, metadata{meta.Namespace, meta.Name, meta.Labels, meta.Annotations}, spec})
	if err != nil {
		return err
	}
	return cli.WriteYAML(w, text)
}
