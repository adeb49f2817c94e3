package explainverb

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/reasons"
)

// addReason adds the flag that asks what a code means, with the codes as its completions.
func addReason(cmd *cobra.Command, code *string) {
	cmd.Flags().StringVar(code, "reason", "", "explain a `code` of a reason, a condition, an event or an action, such as PoolAtMax")
	// The table is read when it is asked for, and not at the start of every verb.
	complete := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return reasons.Codes(), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("reason", complete); err != nil {
		panic(err)
	}
}

// explainReason prints what a code means, and what to do about it.
func explainReason(cmd *cobra.Command, env *cli.Env, code string, args []string, format cli.Output) error {
	if len(args) > 0 {
		return cli.SeeHelp(cmd, cli.Misused("--reason: must be given alone, was given with %q", args[0]))
	}
	r, found := reasons.Find(code)
	if !found {
		return cli.WithHint("docs/reasons.md lists all codes", cli.Misused("--reason: must be a code such as PoolAtMax, was %q%s",
			code, cli.DidYouMean("", code, reasons.Codes())))
	}
	return format.Print(env.Stdout, r, func(w io.Writer) {
		fmt.Fprintf(w, "%s (%s)\n  meaning     %s\n  what to do  %s\n", r.Code, r.Group, r.Meaning, r.Do)
	})
}
