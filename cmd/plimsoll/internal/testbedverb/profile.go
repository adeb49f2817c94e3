package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/live"
)

// testbedProfile is what the profile verb is asked.
type testbedProfile struct {
	profiling testbed.Profiling
	seed      uint64
	out       string
	format    cli.Output

	// The others are of a Deployment in a cluster.
	workload [2]string // its namespace and name
	url      *url.URL
	target   time.Duration
	p        float64
	kube     connect.Kube
}

// inCluster are the flags that say something of a Deployment only.
var inCluster = []string{"url", "target", "p", "kubeconfig", "context"}

func newTestbedProfileCommand(env *cli.Env) *cobra.Command {
	var ask testbedProfile
	cmd := &cobra.Command{
		Use:   "profile NAME|FILE",
		Short: "Measure how much load pods serve, and print the profile for policy Predictive",
		Long: "Measure how much load the pods of a workload serve together: for each number of pods, the highest load at which\n" +
			"the objective still holds, of requests that do not wait for the earlier ones. Print the measurements, and the line and the\n" +
			"parabola that fit them best.\n\n" +
			"The workload is an experiment's, in the simulated world, or with --workload a Deployment in a cluster. That is scaled to\n" +
			"each number of pods, k6 sends requests at even intervals to --url, and the replicas are put back at the end, and after an\n" +
			"interrupt. It is refused while an autoscaler acts on the Deployment. With the defaults it takes about ten minutes, in\n" +
			"which the service is overloaded again and again: do not measure one that people use.",
		Example: "  plimsoll testbed profile policies\n" +
			"  plimsoll testbed profile my-own.yaml --pods 20 --for 10m -o json\n" +
			"  plimsoll testbed profile --workload shop/web --url http://10.0.0.20/ --target 300ms --out profile.yaml\n" +
			"  plimsoll simulate --trace load.csv --profile profile.yaml",
		RunE: func(cmd *cobra.Command, args []string) error { return ask.begin(cmd, env, args) },
	}
	f := cmd.Flags()
	cli.AddFlag(cmd, &ask.profiling.Pods, parsePods, "pods", "numbers", "", "the numbers of pods to measure; a single one is the most (default: 8, and 1,2,4,8 with --workload)")
	cli.AddFlag(cmd, &ask.profiling.Length, cli.Positive(cli.ParseDuration), "for", "duration", "", "how long each load lasts: a minute at least, or with --workload 20 times the target (default: 5m, and 30s with --workload)")
	f.Uint64Var(&ask.seed, "seed", 0, "the seed of all random choices, in place of the experiment's")
	f.StringVar(&ask.out, "out", "", "a `file` to write the profile to, as plimsoll simulate --profile reads it")
	cli.AddFlag(cmd, &ask.workload, parseWorkload, "workload", "namespace/name", "", "a Deployment to measure in a cluster, in place of an experiment")
	cli.AddFlag(cmd, &ask.url, cli.ParseURL, "url", "address", "", "with --workload only: where its pods answer requests, by GET, with 200")
	cli.AddFlag(cmd, &ask.target, cli.Positive(cli.ParseDuration), "target", "duration", "", "with --workload only: within what time answers are good")
	cli.AddFlag(cmd, &ask.p, podscaler.ParseQuantile, "p", "quantile", "95th", "with --workload only: how many of the answers have to be good")
	ask.kube.Add(cmd)
	for _, name := range []string{"kubeconfig", "context"} {
		f.Lookup(name).Usage = "with --workload only: " + f.Lookup(name).Usage
	}
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

// parsePods reads rising numbers of pods. Of a single one, all from 1 up to it are meant: one
// number alone makes no profile.
func parsePods(text string) ([]int, error) {
	pods, err := parseCounts(text)
	if err != nil {
		return nil, err
	}
	if !slices.IsSorted(pods) || len(slices.Compact(slices.Clone(pods))) < len(pods) {
		return nil, fmt.Errorf("must rise, as 1,2,4,8 do, was %q", text)
	}
	if len(pods) == 1 {
		pods = upTo(pods[0])
	}
	return pods, nil
}

// upTo are the numbers from 1 on.
func upTo(most int) (pods []int) {
	for n := range most {
		pods = append(pods, n+1)
	}
	return pods
}

func parseWorkload(text string) (names [2]string, err error) {
	namespace, name, both := strings.Cut(text, "/")
	if !both || namespace == "" || name == "" || strings.Contains(name, "/") {
		return names, fmt.Errorf("must be the namespace and the name of a Deployment, such as default/web, was %q", text)
	}
	return [2]string{namespace, name}, nil
}

// begin looks at what the verb is asked.
func (ask *testbedProfile) begin(cmd *cobra.Command, env *cli.Env, args []string) error {
	given := cmd.Flags().Changed
	if ask.out != "" && len(ask.profiling.Pods) == 1 {
		return cli.SeeHelp(cmd, cli.Misused("--pods: must be two numbers or more with --out, for one makes no profile, was %d", ask.profiling.Pods[0]))
	}
	if given("workload") {
		return ask.beginInCluster(cmd, env, args)
	}
	if len(args) != 1 {
		return cli.SeeHelp(cmd, cli.Misused("profile takes one experiment, a name or a file, or --workload, was given %d", len(args)))
	}
	for _, name := range inCluster {
		if given(name) {
			return cli.SeeHelp(cmd, cli.Misused("--%s: must be given with --workload only, was with %s", name, args[0]))
		}
	}
	data, err := readFile(env, args[0])
	if err != nil {
		return err
	}
	if testbed.Replays(data) {
		return cli.Misused("profile: must be given an experiment in the simulated world, was given %s, which replays counts", args[0])
	}
	e, err := parseExperiment(args[0], data)
	if err != nil {
		return err
	}
	if given("seed") {
		e.Seed = ask.seed
	}
	p := ask.with(upTo(8), 5*time.Minute)
	p.Guess, p.To = 1, 0.005
	found, err := p.Simulate(cmd.Context(), e)
	if err != nil {
		return interrupted(cli.Misused("%s: %w", e.Name, err))
	}
	slo := e.Workloads[0].SLO
	return ask.print(env, found, float64(slo.P), slo.Target)
}

// with is the profiling with what was not given.
func (ask *testbedProfile) with(pods []int, length time.Duration) testbed.Profiling {
	p := ask.profiling
	if p.Pods == nil {
		p.Pods = pods
	}
	if p.Length == 0 {
		p.Length = length
	}
	return p
}

// interrupted is what people read after an interrupt, or else the error.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("interrupted")
	}
	return err
}

// leastTargets is how many times the target a load lasts at least. Until pods that have too much to
// do are late by the target, a load looks as if it held: so they seem to serve more by at most a
// twentieth.
const leastTargets = 20

func (ask *testbedProfile) beginInCluster(cmd *cobra.Command, env *cli.Env, args []string) error {
	p := ask.with([]int{1, 2, 4, 8}, 30*time.Second)
	p.To = 0.02 // noise does not let it be much less
	switch {
	case len(args) > 0:
		return cli.SeeHelp(cmd, cli.Misused("profile takes one experiment or --workload, was given %s besides", args[0]))
	case cmd.Flags().Changed("seed"):
		return cli.SeeHelp(cmd, cli.Misused("--seed: must be omitted with --workload, where nothing is drawn"))
	}
	if err := cli.RequireFlags(cmd, "url", "target"); err != nil {
		return err
	}
	if p.Length < leastTargets*ask.target {
		return cli.SeeHelp(cmd, cli.Misused("--for: must be at least %d times --target, %s, was %s", leastTargets, leastTargets*ask.target, p.Length))
	}
	found, err := ask.measure(cmd.Context(), env, p)
	if err != nil {
		return err
	}
	return ask.print(env, found, ask.p, ask.target)
}

// measure measures the Deployment.
func (ask *testbedProfile) measure(ctx context.Context, env *cli.Env, p testbed.Profiling) (*testbed.Profiled, error) {
	cfg, _, err := ask.kube.Config(env)
	if err != nil {
		return nil, err
	}
	report := func(line string) { fmt.Fprintln(env.Stderr, line) }
	s := &live.Service{Namespace: ask.workload[0], Name: ask.workload[1], Patience: 10 * time.Minute, Report: report}
	s.Send.URL, s.Send.Duration, s.Send.Target, s.Send.Quantile = ask.url.String(), p.Length, ask.target, ask.p
	if err := s.Connect(cfg); err != nil {
		return nil, connect.Unread(err)
	}
	if s.K6, err = (lab.Toolbox{Progress: report}).Path(ctx, lab.ToolK6); err != nil {
		if errors.Is(err, lab.ErrNoGo) {
			err = cli.WithHint("or install k6", cli.WithCode(cli.ExitUnreachable, err))
		}
		return nil, err
	}
	if s.Folder, err = env.TempFolder("plimsoll-profile-"); err != nil {
		return nil, err
	}
	found, err := s.Measure(ctx, p)
	if err == nil {
		return found, nil
	}
	named := fmt.Errorf("%s: %w", strings.Join(ask.workload[:], "/"), err)
	switch {
	case errors.Is(err, live.ErrLeft): // which an interrupt must not hide
		return nil, named
	case apierrors.IsNotFound(err):
		return nil, cli.WithCode(cli.ExitConfig, named)
	case ctx.Err() == nil && errors.As(err, new(*url.Error)): // the cluster, or the service
		return nil, cli.WithCode(cli.ExitUnreachable, named)
	}
	return nil, interrupted(named)
}

// print prints what was found, and then writes it to the file: what took minutes is not lost if
// that cannot be written.
func (ask *testbedProfile) print(env *cli.Env, p *testbed.Profiled, part float64, target time.Duration) error {
	err := ask.format.Print(env.Stdout, p, func(w io.Writer) {
		fmt.Fprintf(w, "%s\n\npods\ttotal\ta pod\n", objective(p, part, target))
		for _, x := range p.Points {
			fmt.Fprintf(w, "%d\t%.1f\t%.2f\n", x.Pods, float64(x.Total), float64(x.PerPod))
		}
		fmt.Fprintln(w)
		if l := p.Linear; l != nil {
			fmt.Fprintf(w, "line\t%.4g·x %+.4g\t%s\n", float64(l.B), float64(l.C), fits(l))
		}
		if q := p.Quadratic; q != nil {
			fmt.Fprintf(w, "parabola\t%.4g·x² %+.4g·x %+.4g\t%s\n", float64(q.A), float64(q.B), float64(q.C), fits(q))
		}
		if block, err := p.Block(); err == nil {
			fmt.Fprintf(w, "\nfor the block predictive of a WorkloadAutoscaler (experiment files have numbers without quotes):\n%s\n", block)
		}
	})
	if err != nil || ask.out == "" {
		return err
	}
	if err := env.WriteFile(ask.out, func(w io.Writer) error { return writeProfile(w, p, part, target) }); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

func objective(p *testbed.Profiled, part float64, target time.Duration) string {
	return fmt.Sprintf("%s: requests a second, %.4g %% of them within %s", p.Workload, 100*part, target)
}

func fits(f *testbed.FittedProfile) string {
	return fmt.Sprintf("R² %.4f, %.2g left over", float64(f.R2), float64(f.Residual))
}

// writeProfile writes the profile with what it was made of.
func writeProfile(w io.Writer, p *testbed.Profiled, part float64, target time.Duration) error {
	text, err := p.File()
	if err != nil {
		return err
	}
	_, fit, err := p.Profile()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "# %s\n# %s, of\n", objective(p, part, target), fits(fit))
	for _, x := range p.Points {
		fmt.Fprintf(w, "#   {pods: %d, total: %.4g}\n", x.Pods, float64(x.Total))
	}
	_, err = fmt.Fprintln(w, text)
	return err
}
