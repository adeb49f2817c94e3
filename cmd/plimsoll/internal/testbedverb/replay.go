package testbedverb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab/counted"
	"github.com/plimsoll/plimsoll/testbed/replay"
	"github.com/plimsoll/plimsoll/testbed/replay/hpaplus"
	testreport "github.com/plimsoll/plimsoll/testbed/report"
)

// usersOnly are the flags that mean nothing to an experiment that replays counts.
var usersOnly = []string{"users", "scenarios", "load", "for", "duration", "trace-from", "trace-length", "trace-peak"}

// labToo are those of them that mean something in the lab, and simulatedOnly the flags that mean
// nothing there.
var (
	labToo        = []string{"for", "duration"}
	simulatedOnly = []string{"trials", "parallel"}
)

// parseReplay reads what a file says of an experiment that replays counts.
func parseReplay(name string, data []byte) (*hpaplus.Experiment, error) {
	e, err := hpaplus.Parse(data)
	if err != nil {
		return nil, cli.Misconfigured(name, err)
	}
	return e, nil
}

// replay runs an experiment under counted loads.
func (ask *testbedRun) replay(cmd *cobra.Command, env *cli.Env, name string, file []byte) error {
	e, err := parseReplay(name, file)
	if err != nil {
		return err
	}
	inLab := ask.world == hpaplus.Cluster && e.InCluster()
	if err := ask.checkReplay(cmd, e, inLab); err != nil {
		return cli.SeeHelp(cmd, err)
	}
	o, err := ask.replayOptions(env)
	if err != nil {
		return err
	}
	if inLab {
		return ask.replayInLab(cmd, env, e, o, file)
	}
	if _, err := e.With(o); err != nil {
		return cli.Misused("--%s", strings.ReplaceAll(err.Error(), "\n", "\n--"))
	}
	if ask.out != "" {
		if err := writeExperiment(env, ask.out, file); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	meter := newMeter(env, ask.quiet)
	o.Progress = meter.hear
	r, err := hpaplus.Run(cmd.Context(), e, o)
	took := meter.stop()
	if r == nil {
		return err
	}
	printed := ask.print(env, func(w io.Writer) error { return replayTables(w, e, r) }, r.Write)
	written := ask.writeReplay(env, &testreport.Replay{Experiment: e, Results: r, File: file, Took: took})
	if err := errors.Join(printed, written); err != nil {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("interrupted: %d of %d draws and recordings were played", r.Done, r.Planned)
	}
	if err != nil {
		return fmt.Errorf("%d of %d draws and recordings were played: %w", r.Done, r.Planned, err)
	}
	return missed(e.Judge(r))
}

func (ask *testbedRun) replayOptions(env *cli.Env) (hpaplus.Options, error) {
	began := env.Now()
	o := hpaplus.Options{
		Rows: ask.options.Policies, Trials: ask.options.Trials, Seed: ask.options.Seed, Parallel: ask.options.Parallel,
		Version: env.Version,
		Clock:   func() time.Duration { return env.Now().Sub(began) },
	}
	for _, given := range ask.traces {
		sources, err := hpaplus.Sources(given, func(name string) (*replay.Trace, error) {
			data, err := env.ReadFile(name)
			if err != nil {
				return nil, err
			}
			return replay.ReadCSV(name, bytes.NewReader(data))
		})
		if err != nil {
			return o, cli.WithCode(cli.ExitConfig, fmt.Errorf("--trace: %w", err))
		}
		o.Traces = append(o.Traces, sources...)
	}
	return o, nil
}

// checkReplay refuses flags that mean nothing to the experiment where it is played.
func (ask *testbedRun) checkReplay(cmd *cobra.Command, e *hpaplus.Experiment, inLab bool) error {
	given := cmd.Flags().Changed
	if given("world") && ask.world != hpaplus.World && !inLab {
		worlds := hpaplus.World
		if e.InCluster() {
			worlds += ", " + hpaplus.Cluster
		}
		return cli.Misused("--world: must be %s or omitted for %s, which replays counted loads minute by minute, was %q", worlds, e.Name, ask.world)
	}
	for _, flag := range usersOnly {
		if given(flag) && !(inLab && slices.Contains(labToo, flag)) {
			return cli.Misused("--%s: must be omitted for %s, which replays counted loads, was %q", flag, e.Name, cmd.Flag(flag).Value)
		}
	}
	for _, flag := range simulatedOnly {
		if given(flag) && inLab {
			return cli.Misused("--%s: must be omitted with --world %s for %s, which is played once there, was %q", flag, ask.world, e.Name, cmd.Flag(flag).Value)
		}
	}
	return nil
}

// usualFor is how long an experiment is played in the lab.
const usualFor = 10 * time.Minute

// replayInLab plays the experiment in a lab and by its model, and prints both beside the paper.
func (ask *testbedRun) replayInLab(cmd *cobra.Command, env *cli.Env, e *hpaplus.Experiment, o hpaplus.Options, file []byte) error {
	small, err := e.Reduce(o, int(cmp.Or(ask.options.Duration, usualFor)/counted.Period))
	if err != nil {
		return cli.Misused("--%s", strings.ReplaceAll(err.Error(), "\n", "\n--"))
	}
	w, err := ask.lab(env)
	if err != nil {
		return err
	}
	if ask.out != "" {
		if err := writeExperiment(env, ask.out, file); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	c, err := small.Play(cmd.Context(), (&counted.World{Folder: filepath.Join(w.Folder, e.Name), Lab: w.Lab}).Play)
	if err != nil {
		return labFault(err)
	}
	err = ask.print(env, func(out io.Writer) error { return printParts(out, []testbed.Table{c.Table()}, nil) }, c.Write)
	if err != nil || ask.out == "" {
		return err
	}
	return errors.Join(
		env.WriteFile(filepath.Join(ask.out, "contrast.json"), c.Write),
		env.WriteFile(filepath.Join(ask.out, "minutes.csv"), c.WriteMinutes),
	)
}

// replayTables prints the results, how they are beside what was published, and the assertions.
func replayTables(w io.Writer, e *hpaplus.Experiment, r *hpaplus.Results) error {
	tables := e.Tables(r)
	if t, ok := e.Side(r); ok {
		tables = append(tables, t)
	}
	return printParts(w, tables, e.Judge(r))
}

// writeReplay writes everything about the run into the folder, if one is asked for.
func (ask *testbedRun) writeReplay(env *cli.Env, p *testreport.Replay) error {
	if ask.out == "" {
		return nil
	}
	return errors.Join(
		env.WriteFile(filepath.Join(ask.out, "results.json"), p.Results.Write),
		env.WriteFile(filepath.Join(ask.out, "times.json"), p.Results.WriteTimes),
		writePage(env, ask.out, p.Figures(), p.WriteHTML),
	)
}

// replayAgain writes the report of a run again.
func replayAgain(env *cli.Env, folder string, file []byte) error {
	e, err := parseReplay(filepath.Join(folder, "experiment.yaml"), file)
	if err != nil {
		return err
	}
	data, err := env.ReadFile(filepath.Join(folder, "results.json"))
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("report: %w", err))
	}
	r, err := hpaplus.ReadResults(bytes.NewReader(data))
	if err != nil {
		return cli.Misconfigured(filepath.Join(folder, "results.json"), err)
	}
	times, err := env.ReadFile(filepath.Join(folder, "times.json"))
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("report: %w", err))
	}
	if r.Times, err = hpaplus.ReadTimes(bytes.NewReader(times)); err != nil {
		return cli.Misconfigured(filepath.Join(folder, "times.json"), err)
	}
	p := &testreport.Replay{Experiment: e, Results: r, File: file}
	return writePage(env, folder, p.Figures(), p.WriteHTML)
}
