package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/manual"
)

func newManCommand(env *cli.Env) *cobra.Command {
	out := ""
	cmd := &cobra.Command{
		Use:   "man [VERB]...",
		Short: "Print a manual page, or write all of them",
		Long:  "Print the manual page of a verb, or write all pages to a folder. Releases have them as an archive.",
		Example: "  plimsoll man price | man -l -\n" +
			"  plimsoll man --out ~/.local/share/man/man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if out != "" && len(args) > 0 {
				return cli.SeeHelp(cmd, cli.Misused("--out: must be given alone, was given with %q", args[0]))
			}
			if out != "" {
				return writeManual(env, cmd.Root(), out)
			}
			verb, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return cli.SeeHelp(cmd, cli.Misused("man takes a verb such as price, was given %q", args))
			}
			_, err = io.WriteString(env.Stdout, manual.Page(verb, version))
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the `folder` to write all pages to")
	return cmd
}

// writeManual writes the page of every verb.
func writeManual(env *cli.Env, root *cobra.Command, folder string) error {
	for _, verb := range manual.Pages(root) {
		write := func(w io.Writer) error {
			_, err := io.WriteString(w, manual.Page(verb, version))
			return err
		}
		if err := env.WriteFile(filepath.Join(folder, manual.Name(verb)+".1"), write); err != nil {
			return cli.WithCode(cli.ExitConfig, fmt.Errorf("--out: %w", err))
		}
	}
	return nil
}

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
