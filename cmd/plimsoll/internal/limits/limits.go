// Package limits is the verb that shares out a node: fair limits for the pods on it.
package limits

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-helpers/resource"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// limitsQuestion is what the limits verb is asked.
type limitsQuestion struct {
	file    string
	node    pricing.Resources
	rule    rightsize.Rule
	example bool
	format  cli.Output
}

// limitsAnswer is how a node is shared out.
type limitsAnswer struct {
	Rule   rightsize.Rule    `json:"rule"`
	Node   pricing.Resources `json:"node"`
	Limits []rightsize.Limit `json:"limits"`
}

const limitsLong = `Compute fair limits for the pods of a node. It reads a file and changes nothing.

Pods share the node by their requests, under one of three rules. None of them adds CPU to memory.

  drf      Each pod gets the same multiple of its request in its dominant resource, the one of which it requests
           the larger part of the node, until a resource is used up.
  mlf-drs  A pod counts in its dominant resource with its request or an even share, whichever is more, and in the
           other with its request. The node is shared in proportion.
  ffmra    Each resource is split into a part for the pods that it is dominant for, shared evenly, and one for
           the others, shared by requests.

The file has Pods, as manifests or as kubectl prints them. A share below the request is reported, because it cannot be
set as a limit.

--example computes the figures of the survey by Nguyen and Bhoi that describes these rules, beside its own.`

// New returns the command.
func New(env *cli.Env) *cobra.Command {
	var ask limitsQuestion
	cmd := &cobra.Command{
		Use:   "limits --pods FILE --node cpu=CORES,memory=SIZE",
		Short: "Compute fair limits for the pods of a node",
		Long:  limitsLong,
		Example: "  kubectl get pods -A --field-selector spec.nodeName=w1 -o yaml | plimsoll limits --pods - --node cpu=2,memory=1890Mi\n" +
			"  plimsoll limits --example",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ask.example {
				return ask.showExample(cmd, env)
			}
			if err := cli.RequireFlags(cmd, "pods", "node"); err != nil {
				return err
			}
			return ask.shareOut(env)
		},
	}
	cmd.Flags().StringVar(&ask.file, "pods", "", "the pods, a `file` of YAML or JSON; - is standard input")
	cli.AddFlag(cmd, &ask.node, parseCapacity, "node", "capacity", "", "what the node has for pods, such as cpu=2,memory=1890Mi")
	cli.AddFlag(cmd, &ask.rule, rightsize.ParseRule, "rule", "rule", string(rightsize.DRF), "share by drf, mlf-drs or ffmra")
	cmd.Flags().BoolVar(&ask.example, "example", false, "compute the figures of a paper, beside its own")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

// parseCapacity reads what a node has: cpu=2,memory=1890Mi.
func parseCapacity(text string) (pricing.Resources, error) {
	var node pricing.Resources
	var err error
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(part, "=")
		switch {
		case seen[name]:
			err = fmt.Errorf("must be there once, was %q", text)
		case name == "cpu":
			node.CPU, err = cli.Positive(pricing.ParseMilliCPU)(amount)
		case name == "memory":
			node.Memory, err = cli.Positive(pricing.ParseBytes)(amount)
		default:
			return node, fmt.Errorf("must be cpu=CORES,memory=SIZE, was %q", text)
		}
		if err != nil {
			return node, fmt.Errorf("%s: %w", name, err)
		}
		seen[name] = true
	}
	if len(seen) < 2 {
		return node, fmt.Errorf("must be cpu=CORES,memory=SIZE, was %q", text)
	}
	return node, nil
}

// shareOut answers for the pods of a file.
func (ask *limitsQuestion) shareOut(env *cli.Env) error {
	data, err := env.Input(ask.file)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("--pods: %w", err))
	}
	pods, notes, err := readPods(data)
	if err != nil {
		return cli.Misconfigured(ask.file, err)
	}
	limits, err := rightsize.FairLimits(ask.rule, ask.node, demands(pods, resource.PodRequests))
	if err != nil {
		return cli.Misconfigured(ask.file, err)
	}
	for _, note := range notes {
		fmt.Fprintf(env.Stderr, "note: %s\n", note)
	}
	answer := &limitsAnswer{Rule: ask.rule, Node: ask.node, Limits: limits}
	return ask.format.Print(env.Stdout, answer, answer.table)
}

// readPods reads pods from any number of documents and lists, and notes what is omitted.
func readPods(data []byte) (pods []*corev1.Pod, notes []string, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		found, err := podsOf(document)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range found {
			requests := resource.PodRequests(p, resource.PodResourcesOptions{})
			switch {
			case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
				notes = append(notes, fmt.Sprintf("pod %s is omitted: it has ended", podName(p)))
			case requests.Cpu().IsZero() && requests.Memory().IsZero():
				notes = append(notes, fmt.Sprintf("pod %s is omitted: it requests nothing, which shares go by", podName(p)))
			default:
				pods = append(pods, p)
			}
		}
	}
	if len(pods) == 0 {
		return nil, nil, errors.New("pods: must be one or more that run and request something, was none")
	}
	return pods, notes, nil
}

// podsOf reads the pods of a document: a Pod, or a list of them.
func podsOf(document []byte) ([]*corev1.Pod, error) {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	text, err := yaml.YAMLToJSON(document)
	if err != nil || string(text) == "null" { // between separators, or comments only
		return nil, err
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, orMistyped("", err)
	}
	switch list.Kind {
	case "List", "PodList":
	case "Pod":
		pod, err := podOf("", text)
		return []*corev1.Pod{pod}, err
	default:
		return nil, fmt.Errorf("kind: must be Pod, PodList or List, was %q", list.Kind)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i, item := range list.Items {
		if pods[i], err = podOf(fmt.Sprintf("items[%d].", i), item); err != nil {
			return nil, err
		}
	}
	return pods, nil
}

// podOf reads a pod as the API server does, which takes no number and no true or false for a text.
// Its faults name the pod, if it has a name.
func podOf(path string, text []byte) (*corev1.Pod, error) {
	var pod corev1.Pod
	err := json.Unmarshal(text, &pod)
	switch {
	case err == nil && pod.Kind == "Pod", err == nil && pod.Kind == "" && string(text) != "null":
		return &pod, nil
	case err == nil:
		return nil, fmt.Errorf("%skind: must be Pod, was %q", path, pod.Kind)
	}
	var all any
	if json.Unmarshal(text, &all) == nil {
		err = cmp.Or(notQuantity(strings.TrimSuffix(path, "."), all, false), orMistyped(path, err))
	}
	var named struct {
		Metadata struct{ Namespace, Name any }
	}
	_ = json.Unmarshal(text, &named) // as far as it goes
	words := corev1.Pod{}
	words.Namespace, _ = named.Metadata.Namespace.(string)
	if words.Name, _ = named.Metadata.Name.(string); words.Name != "" {
		err = fmt.Errorf("pod %s: %w", podName(&words), err)
	}
	return nil, err
}

// orMistyped says which key has a value of another type than it must have, if that is what err
// says.
func orMistyped(path string, err error) error {
	wrong, is := errors.AsType[*json.UnmarshalTypeError](err)
	if !is {
		return err
	}
	must := map[reflect.Kind]string{
		reflect.String: "a text, in quotes where YAML takes it for a number, or for true or false (on, off, yes, no, y, n)",
		reflect.Struct: "a mapping", reflect.Map: "a mapping", reflect.Slice: "a list", reflect.Bool: "true or false",
	}[wrong.Type.Kind()]
	was := map[string]string{"array": "a list", "object": "a mapping", "bool": "true or false"}[wrong.Value]
	rule := fmt.Sprintf("must be %s, was %s", cmp.Or(must, "a number"), cmp.Or(was, "a "+wrong.Value))
	if at := strings.TrimSuffix(path+wrong.Field, "."); at != "" {
		rule = at + ": " + rule
	}
	return errors.New(rule)
}

// notQuantity looks for a text that is to be a quantity and is not; here says whether texts are to
// be.
func notQuantity(path string, at any, here bool) error {
	switch at := at.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(at)) {
			below := here || slices.Contains([]string{"requests", "limits", "overhead", "allocatedResources"}, key)
			if err := notQuantity(strings.TrimPrefix(path+"."+key, "."), at[key], below); err != nil {
				return err
			}
		}
	case []any:
		for i := range at {
			if err := notQuantity(fmt.Sprintf("%s[%d]", path, i), at[i], false); err != nil {
				return err
			}
		}
	case string:
		if _, err := apiresource.ParseQuantity(at); here && err != nil {
			return fmt.Errorf("%s: must be a quantity such as 500m or 1Gi, was %q", path, at)
		}
	}
	return nil
}

// podName distinguishes pods of the same name in two namespaces.
func podName(p *corev1.Pod) string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// demands are what pods ask for, as ask reads it.
func demands(pods []*corev1.Pod, ask func(*corev1.Pod, resource.PodResourcesOptions) corev1.ResourceList) []rightsize.Demand {
	all := make([]rightsize.Demand, len(pods))
	for i, p := range pods {
		all[i] = rightsize.Demand{Pod: podName(p), Requests: amountsOf(ask(p, resource.PodResourcesOptions{}))}
	}
	return all
}

func amountsOf(list corev1.ResourceList) pricing.Resources {
	return pricing.Resources{CPU: pricing.MilliCPU(list.Cpu().MilliValue()), Memory: pricing.Bytes(list.Memory().Value())}
}

// mebibytes prints memory as manifests have it.
func mebibytes(b pricing.Bytes) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(b)/float64(pricing.MiB)), ".0") + "Mi"
}

func millicores(c pricing.MilliCPU) string { return fmt.Sprintf("%dm", c) }

// orNone prints an amount, or none for nothing.
func orNone[T ~int64](amount T, text func(T) string) string {
	if amount == 0 {
		return "none"
	}
	return text(amount)
}

func (a *limitsAnswer) table(w io.Writer) {
	fmt.Fprintf(w, "%s on %s and %s\n\n", strings.ToUpper(string(a.Rule)), millicores(a.Node.CPU), mebibytes(a.Node.Memory))
	fmt.Fprintln(w, "POD\tDOMINANT\tCPU REQUEST\tCPU LIMIT\tMEMORY REQUEST\tMEMORY LIMIT")
	var lines []string
	for _, l := range a.Limits {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Pod, l.Dominant,
			orNone(l.Requests.CPU, millicores), orNone(l.Limits.CPU, millicores),
			orNone(l.Requests.Memory, mebibytes), orNone(l.Limits.Memory, mebibytes))
		for _, r := range l.Reasons {
			if r.Code != rightsize.ReasonShare {
				lines = append(lines, fmt.Sprintf("%s: %s: %s", l.Pod, r.Code, r.Text))
			}
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	}
}
