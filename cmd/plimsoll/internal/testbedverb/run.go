package testbedverb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab/trial"
	"github.com/plimsoll/plimsoll/testbed/replay"
	testreport "github.com/plimsoll/plimsoll/testbed/report"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// runIn are the worlds that experiments with users run in today; those that replay counts have one
// of their own.
var runIn = []string{"sim", "lab", worldRKE2}

// testbedRun is what the run verb is asked.
type testbedRun struct {
	world   string
	options testbed.Options
	seed    uint64
	load    string
	trace   testbed.Trace
	traces  []string // as they were given
	out     string
	quiet   bool
	format  cli.Output
	bench   testbedRKE2 // of the world on a cluster of RKE2
	random  testbedWorlds
	journal string
}

func newTestbedRunCommand(env *cli.Env) *cobra.Command {
	var ask testbedRun
	cmd := &cobra.Command{
		Use:   "run NAME|FILE",
		Short: "Run an experiment and print its results",
		Long: "Run an experiment and print its results. It is a built-in experiment, by its name, or a file.\n\n" +
			"All policies meet the same chance, which is drawn from the seed, the trial and the level of load. In the\n" +
			"simulated world the same experiment with the same seed gives the same results, byte for byte. In the lab\n" +
			"each trial takes as long as it lasts, and half a minute to begin: use --policies, --users, --trials and\n" +
			"--for. Experiments that replay counted loads are played there for ten minutes beside their model. With --world rke2, runs are made on the test bed that plimsoll testbed rke2 up has built; they can\n" +
			"be interrupted and continued with the same --out. It exits with 99 if an assertion is missed.\n\n" +
			"joint-random is a world that is drawn from a seed, --from. With --worlds N it runs every policy in N worlds, the seeds\n" +
			"--from and every second one after it, and prints how cost and lateness are distributed, and the worst worlds for policy\n" +
			"Joint. Odd seeds are for tuning; even ones are kept for reports: tune on no even one.",
		Example: "  plimsoll testbed run slo-cost --out out/slo-cost\n" +
			"  plimsoll testbed run slo-cost --users 60,120 --policies hpa60,slocost-b --trials 3\n" +
			"  plimsoll testbed run slo-cost --world lab --users 10,40 --policies slocost-b --trials 1 --for 5m --out out/lab\n" +
			"  plimsoll testbed run my-own.yaml -o json\n" +
			"  plimsoll testbed run joint-random --worlds 100 --from 1\n" +
			"  plimsoll testbed run joint-random --from 17 --policies joint --journal world-17.ndjson",
		RunE: func(cmd *cobra.Command, args []string) error { return ask.begin(cmd, env, args) },
	}
	ask.random.flags(cmd)
	cmd.Flags().StringVar(&ask.world, "world", "sim", "the world it runs in: sim, which is simulated, or lab or rke2, which take real time")
	ask.bench.flags(cmd)
	for _, name := range []string{"config", "folder"} {
		f := cmd.Flags().Lookup(name)
		f.Usage = "with --world rke2 only: " + f.Usage
	}
	ask.flags(cmd)
	return cmd
}

func newRKE2RunCommand(env *cli.Env) *cobra.Command {
	ask := testbedRun{world: worldRKE2}
	cmd := &cobra.Command{
		Use:   "run NAME|FILE --config FILE --out FOLDER",
		Short: "Run an experiment on the test bed and print its results",
		Long: "Run an experiment on the test bed that is up, as plimsoll testbed run --world rke2 does. Every run begins with the\n" +
			"experiment's machines and pods, and takes some minutes longer than its trial. Finished runs are kept below --out: if\n" +
			"the program ends early, run it again with the same arguments, and it continues.",
		Example: "  plimsoll testbed rke2 run slo-cost --config site.yaml --policies hpa60,slocost-b --users 10,60 --trials 3 --out out/rke2",
		RunE:    func(cmd *cobra.Command, args []string) error { return ask.begin(cmd, env, args) },
	}
	ask.bench.flags(cmd)
	ask.flags(cmd)
	return cmd
}

// begin looks at what the verb is asked.
func (ask *testbedRun) begin(cmd *cobra.Command, env *cli.Env, args []string) error {
	if len(args) != 1 {
		return cli.SeeHelp(cmd, cli.Misused("run takes one experiment, a name or a file, was given %d", len(args)))
	}
	if cmd.Flags().Changed("seed") {
		ask.options.Seed = &ask.seed
	}
	if err := ask.checkRandom(cmd, args[0]); err != nil {
		return err
	}
	if ask.random.count > 0 {
		return ask.runRandom(cmd.Context(), env)
	}
	data, err := ask.file(env, args[0])
	if err != nil {
		return err
	}
	if testbed.Replays(data) {
		return ask.replay(cmd, env, args[0], data)
	}
	if !slices.Contains(runIn, ask.world) {
		return cli.SeeHelp(cmd, cli.Misused("--world: must be one of %s, was %q", strings.Join(runIn, ", "), ask.world))
	}
	if err := ask.checkBench(cmd); err != nil {
		return err
	}
	return ask.run(cmd.Context(), env, args[0], data)
}

// flags are those of all worlds.
func (ask *testbedRun) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	cli.AddFlag(cmd, &ask.options.Users, parseCounts, "users", "numbers", "", "these numbers of users in place of the experiment's, such as 10,60")
	f.StringSliceVar(&ask.options.Scenarios, "scenarios", nil, "only these scenarios")
	f.StringSliceVar(&ask.options.Policies, "policies", nil, "only these policies")
	f.StringVar(&ask.load, "load", "", "how users behave in place of the experiment's: sleep, pace or open; a --trace stays open")
	cli.AddFlag(cmd, &ask.options.Trials, cli.AtLeastOne, "trials", "number", "", "trials of every policy at every level, in place of the experiment's")
	cli.AddFlag(cmd, &ask.options.Duration, cli.Positive(cli.ParseDuration), "for", "duration", "", "how long a trial lasts, such as 30m, in place of the experiment's")
	cli.AddFlag(cmd, &ask.options.Duration, cli.Positive(cli.ParseDuration), "duration", "duration", "", "what --for says")
	_ = f.MarkHidden("duration") // there is one of that name
	cmd.MarkFlagsMutuallyExclusive("for", "duration")
	f.StringArrayVar(&ask.traces, "trace", nil, "a `file` with a recorded load, lines of minute,count: as one scenario more; or, repeatable, in place of\n"+
		"the traces of an experiment that replays counts, from days on such as load.csv@3,10")
	cli.AddFlag(cmd, &ask.trace.From, cli.Positive(cli.ParseDuration), "trace-from", "duration", "", "how far into the recording to begin, such as 288h")
	cli.AddFlag(cmd, &ask.trace.Length, cli.Positive(cli.ParseDuration), "trace-length", "duration", "", "how much of the recording to play (default: all that is left)")
	cli.AddFlag(cmd, &ask.trace.Peak, cli.AboveZero, "trace-peak", "number", "", "requests a second in its busiest minute (default: as recorded)")
	f.Uint64Var(&ask.seed, "seed", 0, "the seed of all random choices, in place of the experiment's")
	cli.AddFlag(cmd, &ask.options.Parallel, cli.AtLeastOne, "parallel", "number", "", "runs at a time (default: one a processor)")
	f.StringVar(&ask.out, "out", "", "a `folder` to write results.json, report.html and the figures to")
	f.StringVar(&ask.journal, "journal", "", "a `file` to write every step to, of one run in the simulated world; plimsoll explain reads it")
	f.BoolVar(&ask.quiet, "quiet", false, "do not print progress")
	cli.AddOutput(cmd, &ask.format)
}

// readTrace reads the recorded load, if one is asked for.
func (ask *testbedRun) readTrace(env *cli.Env) error {
	t := &ask.trace
	if len(ask.traces) > 1 {
		return cli.Misused("--trace: must be given once but for experiments that replay counts, was %s", strings.Join(ask.traces, ", "))
	}
	if len(ask.traces) == 1 {
		t.File = ask.traces[0]
	}
	if t.File == "" {
		if t.From > 0 || t.Length > 0 || t.Peak > 0 {
			return cli.Misused("--trace-from, --trace-length and --trace-peak: must be omitted without --trace")
		}
		return nil
	}
	data, err := env.ReadFile(t.File)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("--trace: %s: %w", t.File, err))
	}
	counted, err := replay.ReadCSV(t.File, bytes.NewReader(data))
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("--trace: %w", err))
	}
	t.Curve = sim.Minutes(counted.Counts)
	ask.options.Trace = t
	return nil
}

// run runs an experiment, prints and writes what came of it, and fails if it was cut short or
// an assertion was missed.
func (ask *testbedRun) run(ctx context.Context, env *cli.Env, name string, file []byte) error {
	e, err := parseExperiment(name, file)
	if err != nil {
		return err
	}
	ask.options.Load = sim.Kind(ask.load)
	if err := ask.readTrace(env); err != nil {
		return err
	}
	ask.options.Version = env.Version
	narrowed, err := e.With(ask.options)
	if err != nil {
		return cli.Misused("--%s", strings.ReplaceAll(err.Error(), "\n", "\n--"))
	}
	if ask.options.World, err = ask.inWorld(env, e.Name, file); err != nil {
		return err
	}
	if w := ask.options.World; w != nil {
		if err := w.Check(narrowed); err != nil {
			return cli.Misused("--world %s: %w", ask.world, err)
		}
	}
	// The experiment is written first: a folder that cannot be written to is better known
	// before the runs than after them.
	if ask.out != "" {
		if err := writeExperiment(env, ask.out, file); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	closed, err := ask.record(env, narrowed)
	if err != nil {
		return err
	}
	meter := newMeter(env, ask.quiet)
	ask.options.Progress = meter.hear
	r, err := testbed.Run(ctx, e, ask.options)
	took := meter.stop()
	err = errors.Join(err, closed())
	if r == nil {
		return err
	}
	for _, w := range r.Warnings() {
		fmt.Fprintln(env.Stderr, "warning:", w)
	}
	if err := ask.print(env, func(w io.Writer) error { return printTables(w, e, r) }, r.Write); err != nil {
		return err
	}
	if ask.out != "" {
		if err := writeOut(env, ask.out, &testreport.Report{Experiment: e, Results: r, File: file, Took: took}); err != nil {
			return err
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("interrupted: %d of %d runs were made", len(r.Runs), r.Planned)
	}
	if err != nil {
		return fmt.Errorf("%d of %d runs were made: %w", len(r.Runs), r.Planned, err)
	}
	return missed(e.Judge(r))
}

// inWorld is the world that it is asked for, or nil for the simulated one.
func (ask *testbedRun) inWorld(env *cli.Env, experiment string, file []byte) (testbed.World, error) {
	switch ask.world {
	case "lab":
		w, err := ask.lab(env)
		if err != nil {
			return nil, err
		}
		return w, nil
	case worldRKE2:
		return ask.onBench(env, experiment, file)
	}
	return nil, nil
}

// lab is the world of labs, whose files are kept under --out if it is given.
func (ask *testbedRun) lab(env *cli.Env) (*trial.World, error) {
	program, err := env.Program()
	if err != nil {
		return nil, err
	}
	kube.LogTo(slog.New(slog.NewTextHandler(env.Stderr, nil)))
	w := &trial.World{Program: program, Folder: filepath.Join(ask.out, "lab")}
	if ask.out == "" {
		if w.Folder, err = env.TempFolder("plimsoll-lab-"); err != nil {
			return nil, err
		}
		fmt.Fprintln(env.Stderr, "what the labs leave behind is kept in", w.Folder)
	}
	if !ask.quiet {
		w.Lab.Progress = func(line string) { fmt.Fprintln(env.Stderr, line) }
	}
	return w, nil
}

// missed is the error for assertions that did not hold.
func missed(verdicts []testbed.Verdict) error {
	var errs []error
	for _, v := range verdicts {
		if !v.Held {
			errs = append(errs, fmt.Errorf("missed: %s (%s)", v.Assertion, v.Numbers()))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return cli.WithCode(cli.ExitThreshold, errors.Join(errs...))
}

// print prints results as they were asked for: as tables, or as they are written to a file.
func (ask *testbedRun) print(env *cli.Env, tables, write func(io.Writer) error) error {
	var text bytes.Buffer
	if ask.format == cli.OutputTable {
		write = tables
	}
	if err := write(&text); err != nil {
		return err
	}
	if ask.format == cli.OutputYAML {
		return cli.WriteYAML(env.Stdout, text.Bytes())
	}
	_, err := env.Stdout.Write(text.Bytes())
	return err
}

// printTables prints what a person wants to know: the results, how they are beside the
// reference's, whether the claims come out, and whether the assertions hold.
func printTables(w io.Writer, e *testbed.Experiment, r *testbed.Results) error {
	tables := e.Tables(r)
	if t, ok := e.Side(r); ok {
		tables = append(tables, t)
	}
	if len(e.Claims) > 0 {
		tables = append(tables, e.Claimed(r))
	}
	return printParts(w, tables, e.Judge(r))
}

// printParts prints tables and verdicts, each apart from the one before.
func printParts(w io.Writer, tables []testbed.Table, verdicts []testbed.Verdict) error {
	for i := range tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := tables[i].Print(w); err != nil {
			return err
		}
	}
	if len(verdicts) > 0 {
		fmt.Fprintln(w)
	}
	for _, v := range verdicts {
		fmt.Fprintln(w, v)
	}
	return nil
}

// parseCounts reads numbers of things, of each of which there must be one.
func parseCounts(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := cli.AtLeastOne(part)
		if err != nil {
			return nil, fmt.Errorf("must be whole numbers from 1 up such as 10,60, was %q", text)
		}
		out = append(out, n)
	}
	return out, nil
}
