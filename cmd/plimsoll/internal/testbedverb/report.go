package testbedverb

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed"
	testreport "github.com/plimsoll/plimsoll/testbed/report"
)

func newTestbedReportCommand(env *cli.Env) *cobra.Command {
	var out string
	var format cli.Output
	cmd := &cobra.Command{
		Use:   "report FOLDER...",
		Short: "Write the report of one experiment, or compare several",
		Long: "Write the figures and the report of an experiment again, from the experiment.yaml and the results.json that\n" +
			"run --out wrote into a folder.\n\n" +
			"With several folders, compare the first with each of the others. With --out, write the comparison to a page with\n" +
			"figures.",
		Example: "  plimsoll testbed report out/slo-cost\n" +
			"  plimsoll testbed report out/sim out/lab --out out/worlds",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return cli.SeeHelp(cmd, cli.Misused("report takes a folder or more, was given none"))
			case len(args) > 1:
				return besides(env, args, out, format)
			case out != "" || cmd.Flags().Changed("output"):
				return cli.SeeHelp(cmd, cli.Misused("--out and --output: must only be given with several folders, was given %s", args[0]))
			}
			return reportAgain(env, args[0])
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "a `folder` to write the page and the figures of several to")
	cli.AddOutput(cmd, &format)
	return cmd
}

// reportAgain writes the report of what a run has left in a folder.
func reportAgain(env *cli.Env, folder string) error {
	file, err := readFile(env, filepath.Join(folder, "experiment.yaml"))
	if err != nil {
		return err
	}
	if testbed.Replays(file) {
		return replayAgain(env, folder, file)
	}
	r, err := readRun(env, folder)
	if err != nil {
		return err
	}
	return writeReport(env, folder, r)
}

// readRun reads what a run has left in a folder.
func readRun(env *cli.Env, folder string) (*testreport.Report, error) {
	path := filepath.Join(folder, "experiment.yaml")
	file, err := readFile(env, path)
	if err != nil {
		return nil, err
	}
	if testbed.Replays(file) {
		return nil, cli.Misused("report: %s: must be of an experiment with users to be laid beside another, and replays counts", folder)
	}
	e, err := parseExperiment(path, file)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(folder, "results.json")
	data, err := env.ReadFile(name)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("report: %w", err))
	}
	r, err := testbed.ReadResults(bytes.NewReader(data))
	if err != nil {
		return nil, cli.Misconfigured(name, err)
	}
	if err := e.Made(r); err != nil {
		return nil, cli.Misconfigured(path, err)
	}
	return &testreport.Report{Experiment: e, Results: r, File: file}, nil
}

// besides lays what is in several folders side by side.
func besides(env *cli.Env, folders []string, out string, format cli.Output) error {
	var b testreport.Beside
	for _, folder := range folders {
		r, err := readRun(env, folder)
		if err != nil {
			return err
		}
		if b.Experiment == nil {
			b.Experiment = r.Experiment
		}
		b.Sources = append(b.Sources, testbed.Source{Name: folder, Results: r.Results})
	}
	byWorld(b.Sources)
	contrasts, err := testbed.Beside(b.Sources)
	if err != nil {
		return cli.Misused("report: %w", err)
	}
	for i := range b.Sources {
		for _, w := range b.Sources[i].Warnings() {
			fmt.Fprintf(env.Stderr, "warning: %s: %s\n", b.Sources[i].Name, w)
		}
	}
	if out != "" {
		if err := writePage(env, out, b.Figures(), b.WriteHTML); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if format == cli.OutputTable {
		t := testbed.Worlds(b.Sources, contrasts)
		return t.Print(env.Stdout)
	}
	return format.Print(env.Stdout, contrasts, nil)
}

// byWorld names sources by their worlds, if no two are of the same.
func byWorld(all []testbed.Source) {
	of := map[string]bool{}
	for i := range all {
		of[all[i].World] = true
	}
	for i := range all {
		if len(of) == len(all) {
			all[i].Name = all[i].World
		}
	}
}

// writeOut writes everything about an experiment into a folder.
func writeOut(env *cli.Env, folder string, r *testreport.Report) error {
	if err := env.WriteFile(filepath.Join(folder, "results.json"), r.Results.Write); err != nil {
		return err
	}
	return writeReport(env, folder, r)
}

// writeExperiment writes the experiment's file, which a report is rebuilt from.
func writeExperiment(env *cli.Env, folder string, file []byte) error {
	return env.WriteFile(filepath.Join(folder, "experiment.yaml"), func(w io.Writer) error {
		_, err := w.Write(file)
		return err
	})
}

// writeReport writes the report and the figures into a folder.
func writeReport(env *cli.Env, folder string, r *testreport.Report) error {
	return writePage(env, folder, testreport.Figures(r.Experiment, r.Results), r.WriteHTML)
}

// writePage writes a page and its figures into a folder.
func writePage(env *cli.Env, folder string, figures []testreport.Figure, html func(io.Writer) error) error {
	for _, f := range figures {
		err := env.WriteFile(filepath.Join(folder, f.Name+".svg"), func(w io.Writer) error {
			_, err := w.Write(f.SVG)
			return err
		})
		if err != nil {
			return err
		}
	}
	page := filepath.Join(folder, "report.html")
	if err := env.WriteFile(page, html); err != nil {
		return err
	}
	fmt.Fprintln(env.Stderr, "the report is", page)
	return nil
}
