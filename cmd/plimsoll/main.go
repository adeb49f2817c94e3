// Plimsoll is an autoscaler for Kubernetes on Proxmox VE. It decides how many pods a service
// needs and which virtual machines should exist to carry them, in one plan, at the lowest price.
package main

import (
	"context"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/convert"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/demoverb"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/explainverb"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/limits"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/manifests"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/replay"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/steer"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/template"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/testbedverb"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/topics"
)

func main() {
	ctx, env := cli.FromProcess()
	env.Exit(run(ctx, env))
}

// run runs the command line in an environment, and returns what to exit with.
func run(ctx context.Context, env *cli.Env) int {
	env.Version = readBuild(debug.ReadBuildInfo()).Version
	return cli.Run(ctx, env, append(topics.Commands(),
		steer.NewApprove,
		newCompletionCommand,
		convert.New,
		costs.New,
		newDashboardCommand,
		demoverb.New,
		newDoctorCommand,
		explainverb.New,
		newInitCommand,
		limits.New,
		newManCommand,
		func(env *cli.Env) *cobra.Command {
			return manifests.New(env, newManifestsInstallCommand(env), newManifestsKindsCommand(env))
		},
		newPVECommand,
		steer.NewPause,
		newPlanCommand,
		newPriceCommand,
		steer.NewReject,
		replay.New,
		steer.NewResume,
		steer.NewRollout,
		newRunCommand,
		func(env *cli.Env) *cobra.Command { return testbedverb.NewSimulate(env, sitePrometheus) },
		template.New,
		testbedverb.New,
		newTopCommand,
		newVersionCommand,
	)...)
}
