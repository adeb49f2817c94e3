package main

import (
	"context"

	"github.com/spf13/cobra"
)

// run runs the command line in an environment, and returns what to exit with.
func run(ctx context.Context, env *Env) int {
	env, flush := env.guarded()
	defer flush()
	root := newRootCommand(env)
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if verb := strayVerb(cmd); err == nil && verb != "" {
		err = unknownVerb(cmd, verb)
	}
	if err != nil {
		report(env.Stderr, err)
	}
	return exitCode(err)
}

func newRootCommand(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "plimsoll",
		Short:         "Decide pods and virtual machines in one plan, at the lowest price",
		SilenceErrors: true, // run reports them, with hints
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true // ours refuses shells it does not know
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpCommand(newHelpCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if strayVerb(cmd) == "" { // run refuses it
			help(cmd, args)
		}
	})
	root.AddCommand(
		newCompletionCommand(env),
		newConvertCommand(env),
		newCostCommand(env),
		newDemoCommand(env),
		newDoctorCommand(env),
		newExplainCommand(env),
		newLimitsCommand(env),
		newManifestsCommand(env),
		newPVECommand(env),
		newPauseCommand(env),
		newPlanCommand(env),
		newPriceCommand(env),
		newResumeCommand(env),
		newRunCommand(env),
		newSimulateCommand(env),
		newTestbedCommand(env),
		newVersionCommand(env),
	)
	return verbsOnly(root)
}

// verbsOnly makes a command that does nothing but lead to its verbs: alone it prints its help,
// and what is not one of them is refused.
func verbsOnly(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownVerb(cmd, args[0])
	}
	return cmd
}

// strayVerb is a word on the command line where a verb is looked for that is not there. Beside --help the library
// looks at no words, and would print the help of something else.
func strayVerb(cmd *cobra.Command) string {
	if !cmd.HasAvailableSubCommands() {
		return ""
	}
	return cmd.Flags().Arg(0)
}

func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [verb]...",
		Short: "Explain a verb",
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return withCode(exitUsage, err)
			case len(rest) > 0:
				return unknownVerb(verb, rest[0])
			}
			return verb.Help()
		},
	}
}
