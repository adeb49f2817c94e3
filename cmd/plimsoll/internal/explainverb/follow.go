package explainverb

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/explain"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/journals"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// explainFollow prints the decisions that come, until the program is interrupted. Of a file those
// that are appended, of standard input all.
func explainFollow(cmd *cobra.Command, env *cli.Env, args []string, file string, format cli.Output) error {
	if len(args) > 0 {
		return cli.SeeHelp(cmd, cli.Misused("--follow: must be given without a workload or a decision, was given %q", args[0]))
	}
	file, err := journalFile(cmd, env, file)
	if err != nil {
		return err
	}
	print := func(s *loop.Step) error {
		if !s.Decided() {
			return nil
		}
		return format.Print(env.Stdout, s, func(w io.Writer) { fmt.Fprint(w, explain.Tree(s)) })
	}
	if file == "-" {
		return loop.Read(journals.Records(env, env.Stdin), print)
	}
	err = journals.Follow(cmd.Context(), env, file, io.SeekEnd, print)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
