// Package explainverb is the verb explain: a workload of a cluster, a decision of a journal, or a
// code.
package explainverb

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/explain"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/journals"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/steer"
)

// New returns the command.
func New(env *cli.Env) *cobra.Command {
	var (
		file   string
		reason string
		follow bool
		format cli.Output
		ask    = stateQuestion{format: &format}
	)
	cmd := &cobra.Command{
		Use:   "explain WORKLOAD | last|N|ID | --reason CODE | --follow",
		Short: "Explain a workload, a decision or a reason code",
		Long: `Explain a workload, a decision or a reason code.

A workload is named as its WorkloadAutoscaler, web or shop/web. Its status has its state and the last
decision about it.

A decision is read from a journal, a file with one record a line. plimsoll run writes one where its
configuration names a file, and plimsoll demo -o json prints one. last is the last record that changed
something.

With --follow, print every decision as it is appended to the journal.

With --reason, print what a code means and what to do about it.`,
		Example: "  plimsoll explain web -n shop\n" +
			"  plimsoll explain --reason PoolAtMax\n" +
			"  plimsoll demo -o json > day.ndjson\n" +
			"  plimsoll explain last --journal day.ndjson\n" +
			"  plimsoll demo -o json --for 10s | plimsoll explain d-000042 --journal -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("reason") {
				return explainReason(cmd, env, reason, args, format)
			}
			if follow {
				return explainFollow(cmd, env, args, file, format)
			}
			if len(args) != 1 {
				return cli.SeeHelp(cmd, cli.Misused("explain takes one workload, or one decision: last, a number or an id such as d-000042, was given %d", len(args)))
			}
			which, err := explain.ParseWhich(args[0])
			if err != nil && file == "" {
				if ask.namespace, ask.name, err = steer.WorkloadOf(cmd, args[0], ask.namespace); err != nil {
					return cli.SeeHelp(cmd, err)
				}
				return ask.answer(cmd.Context(), env)
			}
			if err != nil {
				return cli.SeeHelp(cmd, cli.Misused("decision: %w; a workload is explained without --journal", err))
			}
			return explainDecision(cmd, env, which, args[0], file, format)
		},
	}
	cmd.Flags().StringVar(&file, "journal", "", "the journal, a `file` of one record a line; - is standard input (default $"+journals.Variable+")")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print each decision as it is appended to the journal")
	addReason(cmd, &reason)
	steer.AddNamespace(cmd, &ask.namespace, "the workload's namespace")
	ask.kube.Add(cmd)
	cli.AddOutput(cmd, &format)
	return cmd
}

// explainDecision prints a decision of a journal.
func explainDecision(cmd *cobra.Command, env *cli.Env, which explain.Which, named, file string, format cli.Output) error {
	if err := ofWorkloads(cmd, named); err != nil {
		return cli.SeeHelp(cmd, err)
	}
	file, err := journalFile(cmd, env, file)
	if err != nil {
		return err
	}
	journal, err := journals.Open(env, file)
	if err != nil {
		return fmt.Errorf("--journal: %w", err)
	}
	step, err := explain.Find(journal, which)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return format.Print(env.Stdout, step, func(w io.Writer) { fmt.Fprint(w, explain.Tree(step)) })
}

// journalFile is the journal that is given, or the one that the environment names.
func journalFile(cmd *cobra.Command, env *cli.Env, given string) (string, error) {
	if file := cmp.Or(given, env.Getenv(journals.Variable)); file != "" {
		return file, nil
	}
	return "", cli.SeeHelp(cmd, cli.Misused("--journal: must be given, or %s be set", journals.Variable))
}

// ofWorkloads refuses flags that say where a workload is beside a decision, which is in a journal.
// A workload that is called like one is named with its namespace.
func ofWorkloads(cmd *cobra.Command, decision string) error {
	var faults []error
	for _, name := range []string{"namespace", "kubeconfig", "context"} {
		if f := cmd.Flags().Lookup(name); f.Changed {
			faults = append(faults, cli.Misused("--%s: must be omitted with decision %s, which is read from a journal, was %q", name, decision, f.Value))
		}
	}
	return errors.Join(faults...)
}
