package main

import (
	"fmt"
	"io"
	"path/filepath"

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
