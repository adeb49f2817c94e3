package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed"
)

// testbedProfile is what the profile verb is asked.
type testbedProfile struct {
	profiling testbed.Profiling
	seed      uint64
	format    cli.Output
}

func newTestbedProfileCommand(env *cli.Env) *cobra.Command {
	var ask testbedProfile
	cmd := &cobra.Command{
		Use:   "profile NAME|FILE",
		Short: "Measure how much load pods serve, and print the profile for policy Predictive",
		Long: "Measure how much load the pods of an experiment's workload serve together, in the simulated world: for 1, 2, 3 pods\n" +
			"and so on, the highest load of independent requests at which the objective still holds. Print the measurements, and the\n" +
			"line and the parabola that fit them best.",
		Example: "  plimsoll testbed profile policies\n" +
			"  plimsoll testbed profile my-own.yaml --pods 20 --for 10m -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.SeeHelp(cmd, cli.Misused("profile takes one experiment, a name or a file, was given %d", len(args)))
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
			if cmd.Flags().Changed("seed") {
				e.Seed = ask.seed
			}
			return ask.run(cmd.Context(), env, e)
		},
	}
	cli.AddFlag(cmd, &ask.profiling.Pods, cli.AtLeastOne, "pods", "number", "8", "the most pods to measure")
	cli.AddFlag(cmd, &ask.profiling.Length, cli.Positive(cli.ParseDuration), "for", "duration", "5m", "how long each load lasts, a minute at least")
	cmd.Flags().Uint64Var(&ask.seed, "seed", 0, "the seed of all random choices, in place of the experiment's")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

func (ask *testbedProfile) run(ctx context.Context, env *cli.Env, e *testbed.Experiment) error {
	p, err := ask.profiling.Measure(ctx, e)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return errors.New("interrupted")
	case err != nil:
		return cli.Misused("%s: %w", e.Name, err)
	}
	slo := e.Workloads[0].SLO
	return ask.format.Print(env.Stdout, p, func(w io.Writer) {
		fmt.Fprintf(w, "%s: requests a second, %.4g %% of them within %s\n\npods\ttotal\ta pod\n", p.Workload, 100*float64(slo.P), slo.Target)
		for _, x := range p.Points {
			fmt.Fprintf(w, "%d\t%.1f\t%.2f\n", x.Pods, float64(x.Total), float64(x.PerPod))
		}
		fmt.Fprintln(w)
		if l := p.Linear; l != nil {
			fmt.Fprintf(w, "line\t%.4g·x %+.4g\t%.2g left over\n", float64(l.B), float64(l.C), float64(l.Residual))
		}
		if q := p.Quadratic; q != nil {
			fmt.Fprintf(w, "parabola\t%.4g·x² %+.4g·x %+.4g\t%.2g left over\n", float64(q.A), float64(q.B), float64(q.C), float64(q.Residual))
		}
		if block, err := p.Block(); err == nil {
			fmt.Fprintf(w, "\nfor the block predictive of a WorkloadAutoscaler (experiment files have numbers without quotes):\n%s\n", block)
		}
	})
}
