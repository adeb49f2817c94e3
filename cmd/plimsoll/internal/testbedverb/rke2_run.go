package testbedverb

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/rke2"
	rke2trial "github.com/plimsoll/plimsoll/testbed/rke2/trial"
)

// worldRKE2 is the world on a cluster of RKE2.
const worldRKE2 = "rke2"

// checkBench wants what that world needs, and not where it is another's.
func (ask *testbedRun) checkBench(cmd *cobra.Command) error {
	if ask.world != worldRKE2 {
		for _, name := range []string{"config", "folder"} {
			if cmd.Flags().Changed(name) {
				return cli.SeeHelp(cmd, cli.Misused("--%s: must be given with --world rke2 only, was with %s", name, ask.world))
			}
		}
		return nil
	}
	if ask.options.Parallel > 1 {
		return cli.SeeHelp(cmd, cli.Misused("--parallel: must be 1 or omitted in world rke2, for there is one test bed, was %d", ask.options.Parallel))
	}
	return cli.RequireFlags(cmd, "config", "out")
}

// onBench is the world on the test bed that is up.
func (ask *testbedRun) onBench(env *cli.Env, experiment string, file []byte) (testbed.World, error) {
	b, site, connection, err := ask.bench.open(env)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	kubeconfig, err := b.Kubeconfig()
	if err != nil {
		return nil, err
	}
	kube.LogTo(slog.New(slog.NewTextHandler(env.Stderr, nil)))
	cluster, err := rke2trial.Reached(kubeconfig)
	if err != nil {
		return nil, err
	}
	identity, err := rke2trial.NewIdentity(experiment, file, ask.options.Flags(), site)
	if err != nil {
		return nil, err
	}
	w := &rke2trial.World{
		Site: site, CA: connection.CA, Cluster: cluster, Identity: identity, Report: func(string) {},
		Keep: func(run string) rke2.Store { return rke2.Folder(filepath.Join(ask.out, worldRKE2, run)) },
	}
	if !ask.quiet {
		w.Report = func(line string) { fmt.Fprintln(env.Stderr, line) }
	}
	return w, nil
}
