package testbedverb

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

func newTestbedLabCommand(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run a real control plane with simulated nodes and pods on this machine",
		Long: "Run a real control plane on this machine: etcd, kube-apiserver, kube-controller-manager with the real\n" +
			"HorizontalPodAutoscaler, and kube-scheduler; nodes and pods by KWOK; Prometheus; an emulated Proxmox VE whose machines\n" +
			"become nodes; and simulated request serving. It listens on loopback, without root and without containers. Go builds the\n" +
			"programs when they are first needed, which takes about ten minutes.",
	}
	cmd.AddCommand(newLabUpCommand(env), newLabDownCommand(env), newLabStatusCommand(env), newLabToolsCommand(env))
	return cli.VerbsOnly(cmd)
}

// labFolder is which lab is meant.
type labFolder struct{ name, data string }

func addLabFolder(cmd *cobra.Command, into *labFolder) {
	cli.AddFlag(cmd, &into.name, parseLabName, "name", "name", "lab", "the name of the lab")
	cmd.Flags().StringVar(&into.data, "data", "", "the `folder` of the lab (default: one of that name in this user's cache)")
}

var labName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

func parseLabName(text string) (string, error) {
	if !labName.MatchString(text) {
		return "", fmt.Errorf("must be at most 40 lower-case letters, digits and hyphens, was %q", text)
	}
	return text, nil
}

// folder is the folder of the lab.
func (f *labFolder) folder() (string, error) {
	if f.data != "" {
		return filepath.Abs(f.data)
	}
	cache, err := lab.CacheFolder("")
	if err != nil {
		return "", cli.WithCode(cli.ExitConfig, err)
	}
	return filepath.Join(cache, "labs", f.name), nil
}

// option names the lab on the command line of another verb.
func (f *labFolder) option() string {
	switch {
	case f.data != "":
		return " --data " + f.data
	case f.name != "lab":
		return " --name " + f.name
	}
	return ""
}

// labFault gives an error of a lab its code.
func labFault(err error) error {
	if errors.Is(err, lab.ErrNoGo) {
		return cli.WithCode(cli.ExitConfig, err)
	}
	return err
}

func newLabToolsCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "tools",
		Short: "Build the programs that a lab runs, and print their paths",
		Long: "Build the programs that labs are made of, each once on this machine, and say where they are. A k6 on PATH that runs\n" +
			"the scripts is taken in place of one that is built; " + lab.K6Variable + " names another, or is " + lab.BuildK6 + " to have it built.",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			box := lab.Toolbox{Progress: func(line string) { fmt.Fprintln(env.Stderr, line) }}
			for _, t := range lab.Tools {
				file, err := box.Path(cmd.Context(), t)
				if err != nil {
					return labFault(err)
				}
				fmt.Fprintln(env.Stdout, file)
			}
			return nil
		},
	}
}
