package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// Run runs the command line in an environment, with the given verbs, and returns the exit code.
func Run(ctx context.Context, env *Env, verbs ...func(*Env) *cobra.Command) int {
	env, flush := env.guarded()
	defer flush()
	root := newRoot()
	for _, verb := range verbs {
		root.AddCommand(verb(env))
	}
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if verb := strayVerb(cmd); err == nil && verb != "" {
		err = unknownVerb(cmd, verb)
	}
	if err != nil {
		Report(env.Stderr, err)
	}
	return ExitCode(err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "plimsoll",
		Short:         "Plan pods and virtual machines together, at the lowest price",
		SilenceErrors: true, // Run reports them, with hints
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true // ours refuses shells it does not know
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpCommand(newHelpCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if strayVerb(cmd) == "" { // Run refuses it
			help(cmd, args)
		}
	})
	return VerbsOnly(root)
}

// VerbsOnly makes a command that does nothing but lead to its verbs: alone it prints its help,
// and what is not one of them is refused.
func VerbsOnly(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownVerb(cmd, args[0])
	}
	return cmd
}

// strayVerb is an unknown word in the place of a verb on the command line. Beside --help the
// library ignores such words, and would print the help of another command.
func strayVerb(cmd *cobra.Command) string {
	if !cmd.HasAvailableSubCommands() {
		return ""
	}
	return cmd.Flags().Arg(0)
}

func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [verb or topic]...",
		Short: "Help about any command or topic",
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return WithCode(ExitUsage, err)
			case len(rest) > 0:
				return unknownVerb(verb, rest[0])
			}
			return verb.Help()
		},
	}
}
