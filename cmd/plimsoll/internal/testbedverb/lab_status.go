package testbedverb

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

func newLabStatusCommand(env *cli.Env) *cobra.Command {
	var (
		which  labFolder
		format cli.Output
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state and addresses of a lab's parts",
		Long: fmt.Sprintf("Show for each part of a lab whether it is up, and where. Exits with %d if no lab is up, and with %d if a part\nof it has ended or is not up yet.",
			cli.ExitUnreachable, cli.ExitFailed),
		Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			data, err := which.folder()
			if err != nil {
				return err
			}
			return labStatus(env, data, format)
		},
	}
	addLabFolder(cmd, &which)
	cli.AddOutput(cmd, &format)
	return cmd
}

// labStatus prints how a lab is.
func labStatus(env *cli.Env, data string, format cli.Output) error {
	r, err := lab.Look(data)
	if errors.Is(err, lab.ErrNoLab) {
		return cli.WithHint("see plimsoll testbed lab up", cli.WithCode(cli.ExitUnreachable, err))
	}
	if err != nil {
		return err
	}
	if err := format.Print(env.Stdout, r, func(w io.Writer) { statusTable(w, r, env.Now()) }); err != nil {
		return err
	}
	if !r.Up {
		return cli.WithHint("see plimsoll testbed lab up", cli.WithCode(cli.ExitUnreachable, fmt.Errorf("the lab in %s is not up", data)))
	}
	for _, p := range r.Parts {
		if p.State == lab.StateEnded {
			return cli.WithHint("what it said is in "+lab.Log(data, p.Name), fmt.Errorf("%s has ended: %s", p.Name, p.Fault))
		}
	}
	for _, p := range r.Parts {
		if p.State != lab.StateUp {
			return fmt.Errorf("the lab in %s is not all up yet: %s is %s", data, p.Name, p.State)
		}
	}
	return nil
}

func statusTable(w io.Writer, r *lab.Report, now time.Time) {
	fmt.Fprintf(w, "PART\tSTATE\tPID\tAGE\tENDPOINTS\n")
	for _, p := range r.Parts {
		pid := "-"
		if p.PID > 0 {
			pid = fmt.Sprint(p.PID)
		}
		var where []string
		for _, e := range p.Endpoints {
			where = append(where, e.Name+" "+e.URL)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.State, pid, now.Sub(p.Since).Round(time.Second), strings.Join(where, ", "))
	}
	fmt.Fprintf(w, "kubeconfig\t%s\n", r.Kubeconfig)
}
