// Plimsoll is an autoscaler for Kubernetes on Proxmox VE. It decides how many pods a service
// needs and which virtual machines should exist to carry them, in one plan, at the lowest price.
package main

import (
	"context"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/demoverb"
)

func main() {
	ctx, env := cli.FromProcess()
	env.Exit(run(ctx, env))
}

// run runs the command line in an environment, and returns what to exit with.
func run(ctx context.Context, env *cli.Env) int {
	return cli.Run(ctx, env, append(helpTopics(),
		newCompletionCommand,
		newConvertCommand,
		newCostCommand,
		newDashboardCommand,
		demoverb.New,
		newDoctorCommand,
		newExplainCommand,
		newInitCommand,
		newLimitsCommand,
		newManCommand,
		newManifestsCommand,
		newPVECommand,
		newPauseCommand,
		newPlanCommand,
		newPriceCommand,
		newReplayCommand,
		newResumeCommand,
		newRolloutCommand,
		newRunCommand,
		newSimulateCommand,
		newTemplateCommand,
		newTestbedCommand,
		newTopCommand,
		newVersionCommand,
	)...)
}
