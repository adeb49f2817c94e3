package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

func newLabDownCommand(env *cli.Env) *cobra.Command {
	var (
		which labFolder
		wipe  bool
	)
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a lab",
		Args:  cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := which.folder()
			if err != nil {
				return err
			}
			return labDown(cmd.Context(), env, data, wipe)
		},
	}
	addLabFolder(cmd, &which)
	cmd.Flags().BoolVar(&wipe, "wipe", false, "remove the lab's folder, too")
	return cmd
}

// labDown takes a lab down. That none is up is no fault: it is what was asked for.
func labDown(ctx context.Context, env *cli.Env, data string, wipe bool) error {
	was, err := lab.TakeDown(ctx, data)
	switch {
	case errors.Is(err, lab.ErrNoLab):
		fmt.Fprintf(env.Stdout, "%s\n", err)
		return nil
	case err != nil:
		return err
	case !was.Up:
		fmt.Fprintf(env.Stdout, "the lab in %s was not up\n", data)
	}
	for _, p := range slices.Backward(was.Parts) {
		if p.State == lab.StateUp {
			fmt.Fprintf(env.Stdout, "stopped %s\n", p.Name)
		}
	}
	if wipe {
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		fmt.Fprintf(env.Stdout, "removed %s\n", data)
	}
	return nil
}
