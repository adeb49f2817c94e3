package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab/trial"
	testreport "github.com/plimsoll/plimsoll/testbed/report"
	"github.com/plimsoll/plimsoll/testbed/sim"
	"github.com/spf13/cobra"
)

func newTestbedCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "testbed",
		Short: "Run experiments: policies against each other, under the same load and luck",
	}
	cmd.AddCommand(newTestbedListCommand(env), newTestbedShowCommand(env), newTestbedRunCommand(env), newTestbedReportCommand(env), newTestbedPVECommand(env), newTestbedLabCommand(env))
	return verbsOnly(cmd)
}

// listed is an experiment in the list.
type listed struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Shows    string   `json:"shows"`
	Policies []string `json:"policies"`
	Levels   []string `json:"levels"`
	Trials   int      `json:"trials"`
}

// listedPolicy is a pod policy in the list.
type listedPolicy struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

// catalogue is what there is to run.
type catalogue struct {
	Experiments []listed       `json:"experiments"`
	Policies    []listedPolicy `json:"policies"`
}

func (c catalogue) table(w io.Writer) {
	for _, l := range c.Experiments {
		fmt.Fprintf(w, "%s\t%s\t%d policies, %d levels, %d trials\n", l.Name, l.Title, len(l.Policies), len(l.Levels), l.Trials)
	}
	fmt.Fprintln(w)
	for _, p := range c.Policies {
		fmt.Fprintf(w, "%s\t%s\n", strings.ToLower(p.Name), p.Summary)
	}
}

func newTestbedListCommand(env *Env) *cobra.Command {
	var format output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the experiments that come with the program, and the pod policies they may compare",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			var all catalogue
			for _, name := range testbed.Names() {
				e, _, err := readExperiment(env, name)
				if err != nil {
					return err
				}
				all.Experiments = append(all.Experiments, listed{e.Name, e.Title, e.Shows, e.PolicyNames(), e.LevelNames(), e.Trials})
			}
			for _, p := range podpolicy.All() {
				all.Policies = append(all.Policies, listedPolicy(p))
			}
			return format.print(env.Stdout, all, all.table)
		},
	}
	addOutput(cmd, &format)
	return cmd
}

func newTestbedShowCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Print the file of an experiment that comes with the program, to be copied and changed",
		Example: "  plimsoll testbed show slo-cost > my-own.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return seeHelp(cmd, misused("show takes the name of one experiment, was given %d", len(args)))
			}
			data, err := testbed.File(args[0])
			if err != nil {
				return withHint("see plimsoll testbed list", withCode(exitUsage, err))
			}
			_, err = env.Stdout.Write(data)
			return err
		},
	}
}

// readExperiment reads an experiment by its name, or else by its file's.
func readExperiment(env *Env, name string) (*testbed.Experiment, []byte, error) {
	data, err := testbed.File(name)
	if err != nil {
		if !strings.ContainsAny(name, `/\.`) {
			return nil, nil, withHint("see plimsoll testbed list", withCode(exitUsage, err))
		}
		if data, err = env.ReadFile(name); err != nil {
			return nil, nil, withCode(exitConfig, fmt.Errorf("experiment: %w", err))
		}
	}
	e, err := testbed.Parse(data)
	if err != nil {
		return nil, nil, misconfigured(name, err)
	}
	return e, data, nil
}

// worlds are those that experiments run in today.
var worlds = []string{"sim", "lab"}

// testbedRun is what the run verb is asked.
type testbedRun struct {
	world   string
	options testbed.Options
	seed    uint64
	load    string
	out     string
	quiet   bool
	format  output
}

func newTestbedRunCommand(env *Env) *cobra.Command {
	var ask testbedRun
	cmd := &cobra.Command{
		Use:   "run NAME|FILE",
		Short: "Run an experiment and print what came of it",
		Long: "Run an experiment and print what came of it: one that comes with the program, by its name, or a file.\n\n" +
			"Every policy has the same luck: it is drawn from the seed, the trial and the level of load. The same\n" +
			"experiment with the same seed gives the same results, byte for byte. Exits with 99 if an assertion of the\n" +
			"experiment is missed.",
		Example: "  plimsoll testbed run slo-cost --out out/slo-cost\n" +
			"  plimsoll testbed run slo-cost --users 60,120 --policies hpa60,slocost-b --trials 3\n" +
			"  plimsoll testbed run my-own.yaml -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return seeHelp(cmd, misused("run takes one experiment, a name or a file, was given %d", len(args)))
			}
			if !slices.Contains(worlds, ask.world) {
				return seeHelp(cmd, misused("--world: must be one of %s, was %q", strings.Join(worlds, ", "), ask.world))
			}
			if cmd.Flags().Changed("seed") {
				ask.options.Seed = &ask.seed
			}
			return ask.run(cmd.Context(), env, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&ask.world, "world", "sim", "the world it runs in: sim, which is simulated, or lab, which takes real time")
	addFlag(cmd, &ask.options.Users, parseCounts, "users", "numbers", "", "these numbers of users in place of the experiment's, such as 10,60")
	f.StringSliceVar(&ask.options.Scenarios, "scenarios", nil, "only these scenarios")
	f.StringSliceVar(&ask.options.Policies, "policies", nil, "only these policies")
	f.StringVar(&ask.load, "load", "", "how users behave in place of the experiment's: sleep, pace or open")
	addFlag(cmd, &ask.options.Trials, atLeastOne, "trials", "number", "", "trials of every policy at every level, in place of the experiment's")
	addFlag(cmd, &ask.options.Duration, positive(parseDuration), "duration", "duration", "", "how long a trial lasts, such as 30m, in place of the experiment's")
	f.Uint64Var(&ask.seed, "seed", 0, "where all chance comes from, in place of the experiment's")
	addFlag(cmd, &ask.options.Parallel, atLeastOne, "parallel", "number", "", "runs at a time (default: one a processor)")
	f.StringVar(&ask.out, "out", "", "a `folder` to write results.json, report.html and the figures to")
	f.BoolVar(&ask.quiet, "quiet", false, "do not say how far it is")
	addOutput(cmd, &ask.format)
	return cmd
}

// run runs an experiment, prints and writes what came of it, and fails if it was cut short or
// an assertion was missed.
func (ask *testbedRun) run(ctx context.Context, env *Env, name string) error {
	e, file, err := readExperiment(env, name)
	if err != nil {
		return err
	}
	ask.options.Load = sim.Kind(ask.load)
	ask.options.Version = readBuild(debug.ReadBuildInfo()).Version
	if _, err := e.With(ask.options); err != nil {
		return misused("--%s", strings.ReplaceAll(err.Error(), "\n", "\n--"))
	}
	// The experiment is written first: a folder that cannot be written to is better known
	// before the runs than after them.
	if ask.out != "" {
		if err := writeExperiment(env, ask.out, file); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if ask.world == "lab" {
		if ask.options.World, err = ask.lab(env); err != nil {
			return err
		}
		narrowed, err := e.With(ask.options)
		if err == nil {
			err = ask.options.World.Check(narrowed)
		}
		if err != nil {
			return misused("--world lab: %w", err)
		}
	}
	meter := newMeter(env, ask.quiet)
	ask.options.Progress = meter.hear
	r, err := testbed.Run(ctx, e, ask.options)
	took := meter.stop()
	if r == nil {
		return err
	}
	if err := ask.print(env, e, r); err != nil {
		return err
	}
	if ask.out != "" {
		if err := writeOut(env, ask.out, &testreport.Report{Experiment: e, Results: r, File: file, Took: took}); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("interrupted: %d of %d runs were made", len(r.Runs), r.Planned)
	}
	return missed(e.Judge(r))
}

// lab is the world of labs, whose files are kept under --out if it is given.
func (ask *testbedRun) lab(env *Env) (testbed.World, error) {
	program, err := env.Program()
	if err != nil {
		return nil, err
	}
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
	return withCode(exitThreshold, errors.Join(errs...))
}

// print prints the results as they were asked for.
func (ask *testbedRun) print(env *Env, e *testbed.Experiment, r *testbed.Results) error {
	if ask.format == outputTable {
		return printTables(env.Stdout, e, r)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		return err
	}
	if ask.format == outputYAML {
		return writeYAML(env.Stdout, text.Bytes())
	}
	_, err := env.Stdout.Write(text.Bytes())
	return err
}

// printTables prints what a person wants to know: the results, how they stand beside the
// reference's, whether the claim comes out, and whether the assertions hold.
func printTables(w io.Writer, e *testbed.Experiment, r *testbed.Results) error {
	var b bytes.Buffer
	tables := []testbed.Table{e.Overview(r)}
	if t, ok := e.Side(r); ok {
		tables = append(tables, t)
	}
	for i := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := tables[i].Print(&b); err != nil {
			return err
		}
	}
	if e.Claim != nil {
		fmt.Fprintf(&b, "\n%s\n", testbed.Sentence(e.Claim.Try(r)))
	}
	verdicts := e.Judge(r)
	if len(verdicts) > 0 {
		b.WriteByte('\n')
	}
	for _, v := range verdicts {
		fmt.Fprintln(&b, v)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func newTestbedReportCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "report FOLDER",
		Short: "Draw the figures and write the report of an experiment again",
		Long:  "Draw the figures and write the report of an experiment again, from the experiment.yaml and the results.json that run --out has left in a folder.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return seeHelp(cmd, misused("report takes one folder, was given %d", len(args)))
			}
			e, file, err := readExperiment(env, filepath.Join(args[0], "experiment.yaml"))
			if err != nil {
				return err
			}
			data, err := env.ReadFile(filepath.Join(args[0], "results.json"))
			if err != nil {
				return withCode(exitConfig, fmt.Errorf("report: %w", err))
			}
			r, err := testbed.ReadResults(bytes.NewReader(data))
			if err != nil {
				return misconfigured(filepath.Join(args[0], "results.json"), err)
			}
			return writeReport(env, args[0], &testreport.Report{Experiment: e, Results: r, File: file})
		},
	}
}

// writeOut writes everything about an experiment into a folder.
func writeOut(env *Env, folder string, r *testreport.Report) error {
	if err := writeFile(env, filepath.Join(folder, "results.json"), r.Results.Write); err != nil {
		return err
	}
	return writeReport(env, folder, r)
}

// writeExperiment writes the experiment's file, which a report is rebuilt from.
func writeExperiment(env *Env, folder string, file []byte) error {
	return writeFile(env, filepath.Join(folder, "experiment.yaml"), func(w io.Writer) error {
		_, err := w.Write(file)
		return err
	})
}

// writeReport writes the report and the figures into a folder.
func writeReport(env *Env, folder string, r *testreport.Report) error {
	for _, f := range testreport.Figures(r.Experiment, r.Results) {
		err := writeFile(env, filepath.Join(folder, f.Name+".svg"), func(w io.Writer) error {
			_, err := w.Write(f.SVG)
			return err
		})
		if err != nil {
			return err
		}
	}
	page := filepath.Join(folder, "report.html")
	if err := writeFile(env, page, r.WriteHTML); err != nil {
		return err
	}
	fmt.Fprintln(env.Stderr, "the report is", page)
	return nil
}

// writeFile makes a file of what write writes.
func writeFile(env *Env, name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	f, err := env.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	return errors.Join(err, f.Close())
}

// parseCounts reads numbers of things, of each of which there must be one.
func parseCounts(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := atLeastOne(part)
		if err != nil {
			return nil, fmt.Errorf("must be whole numbers from 1 up such as 10,60, was %q", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// atLeastOne reads a number of things of which there must be one.
func atLeastOne(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("must be a whole number from 1 up, was %q", text)
	}
	return n, nil
}
