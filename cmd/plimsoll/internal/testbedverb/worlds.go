package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/worlds"
)

// testbedWorlds is which random worlds are run.
type testbedWorlds struct {
	count int // of worlds that are compared over; 0 is one that is run as any experiment
	from  uint64
}

// firstWorld is the seed of the first world unless another is given.
const firstWorld = 1

// random are the flags of random worlds.
var random = []string{"worlds", "from"}

func (r *testbedWorlds) flags(cmd *cobra.Command) {
	cli.AddFlag(cmd, &r.count, cli.AtLeastOne, "worlds", "number", "", "with joint-random only: compare the policies over so many worlds")
	cmd.Flags().Uint64Var(&r.from, "from", firstWorld, "with joint-random only: the `seed` of the first world; odd ones are for tuning, even ones for reports")
}

// overWorlds are the flags that mean something to a comparison over worlds.
var overWorlds = []string{"worlds", "from", "policies", "parallel", "quiet", "output", "world"}

// checkRandom refuses flags that mean nothing to what is run.
func (ask *testbedRun) checkRandom(cmd *cobra.Command, name string) error {
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case name != worlds.Name && slices.Contains(random, f.Name):
			errs = append(errs, cli.Misused("--%s: must be omitted but for %s, was %q with %s", f.Name, worlds.Name, f.Value, name))
		case ask.random.count > 0 && !slices.Contains(overWorlds, f.Name):
			errs = append(errs, cli.Misused("--%s: must be omitted with --worlds, was %q: run one world with --from alone", f.Name, f.Value))
		}
	})
	if name == worlds.Name && ask.random.count > 0 && ask.world != "sim" {
		errs = append(errs, cli.Misused("--world: must be sim with --worlds, was %q", ask.world))
	}
	if len(errs) > 0 {
		return cli.SeeHelp(cmd, errors.Join(errs...))
	}
	return nil
}

// file is what the experiment's file says; a random world has none, and is drawn.
func (ask *testbedRun) file(env *cli.Env, name string) ([]byte, error) {
	if name == worlds.Name {
		return worlds.File(ask.random.from), nil
	}
	return readFile(env, name)
}

// runRandom compares policies over random worlds, and prints what came of it.
func (ask *testbedRun) runRandom(ctx context.Context, env *cli.Env) error {
	o := worlds.Options{
		From: ask.random.from, Count: ask.random.count, Policies: ask.options.Policies, Parallel: ask.options.Parallel,
		Version: env.Version,
	}
	for _, name := range o.Policies {
		if _, err := cli.OneOf(worlds.Policies()...)(name); err != nil {
			return cli.Misused("--policies: %w", err)
		}
	}
	meter := newMeter(env, ask.quiet)
	o.Progress = meter.hear
	r, err := worlds.Run(ctx, o)
	meter.stop()
	if r == nil {
		return err
	}
	printed := ask.print(env, func(w io.Writer) error { return printWorlds(w, r) }, r.Write)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("interrupted: %d of %d worlds were run", len(r.Worlds), r.Planned)
	}
	return errors.Join(printed, err)
}

// printWorlds prints how the policies did, and how the worst worlds are run again.
func printWorlds(w io.Writer, r *worlds.Report) error {
	if err := printParts(w, r.Tables(), nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.Commands(), "\n"))
	return err
}

// record has the steps of the run written to the journal, if one is asked for, and returns what
// ends it.
func (ask *testbedRun) record(env *cli.Env, e *testbed.Experiment) (func() error, error) {
	if ask.journal == "" {
		return func() error { return nil }, nil
	}
	if ask.options.World != nil {
		return nil, cli.Misused("--journal: must be omitted with --world %s, was %q", ask.world, ask.journal)
	}
	if n := len(e.Policies) * len(e.LevelNames()) * e.Trials; n != 1 {
		return nil, cli.Misused("--journal: must be of one run, and there are %d: choose one with --policies, --users or --scenarios, and --trials 1", n)
	}
	f, err := env.Create(ask.journal)
	if err != nil {
		return nil, fmt.Errorf("--journal: %w", err)
	}
	ask.options.World = testbed.Recorded(loop.NewNDJSON(f))
	return f.Close, nil
}
