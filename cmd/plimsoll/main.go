// Plimsoll is an autoscaler for Kubernetes on Proxmox VE. It decides how many pods a service
// needs and which virtual machines should exist to carry them, in one plan, at the lowest price.
package main

import (
	"context"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/demoverb"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/testbedverb"
)

func main() {
	ctx, env := cli.FromProcess()
	env.Exit(run(ctx, env))
}

// run runs the command line in an environment, and returns what to exit with.
func run(ctx context.Context, env *cli.Env) int {
	env.Version = readBuild(debug.ReadBuildInfo()).Version
	return cli.Run(ctx, env,
		newCompletionCommand,
		newConvertCommand,
		newCostCommand,
		newDashboardCommand,
		demoverb.New,
		newDoctorCommand,
		newExplainCommand,
		newInitCommand,
		newLimitsCommand,
		newManifestsCommand,
		newPVECommand,
		newPauseCommand,
		newPlanCommand,
		newPriceCommand,
		newReplayCommand,
		newResumeCommand,
		newRolloutCommand,
		newRunCommand,
		func(env *cli.Env) *cobra.Command { return testbedverb.NewSimulate(env, sitePrometheus) },
		newTemplateCommand,
		testbedverb.New,
		newTopCommand,
		newVersionCommand,
	)
}
