package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

func newCompletionCommand(env *cli.Env) *cobra.Command {
	write := map[string]func(root *cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(env.Stdout, true) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(env.Stdout) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(env.Stdout, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(env.Stdout) },
	}
	shells := slices.Sorted(maps.Keys(write))
	return &cobra.Command{
		Use:       "completion " + strings.Join(shells, "|"),
		Short:     "Print a shell completion script",
		Long:      "Print a script that makes a shell complete plimsoll's command lines, for instance with\n\n  source <(plimsoll completion bash)",
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.SeeHelp(cmd, cli.Misused("completion takes one shell of %s, was given %d", strings.Join(shells, ", "), len(args)))
			}
			script, ok := write[args[0]]
			if !ok {
				return cli.SeeHelp(cmd, cli.Misused("completion: must be one of %s, was %q", strings.Join(shells, ", "), args[0]))
			}
			return script(cmd.Root())
		},
	}
}
