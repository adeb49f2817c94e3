package topics

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

// Commands are commands that do nothing and have only help, which is how the library has topics:
// plimsoll help lists them below the verbs.
func Commands() []func(*cli.Env) *cobra.Command {
	var all []func(*cli.Env) *cobra.Command
	for _, topic := range All {
		all = append(all, func(env *cli.Env) *cobra.Command {
			cmd := &cobra.Command{Use: topic.Name, Short: topic.Short}
			cmd.SetHelpFunc(func(*cobra.Command, []string) { fmt.Fprint(env.Stdout, topic.Text()) })
			return cmd
		})
	}
	return all
}
