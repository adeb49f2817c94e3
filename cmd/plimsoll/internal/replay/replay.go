// Package replay is the verb that decides the steps of a recording again, or plays its load by
// other settings.
package replay

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/journals"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

const replayLong = `Decide the steps of a recording again and compare. The recording is the folder that plimsoll run writes where its
configuration has recording.folder, or one of its files. Nothing is asked of a cluster.

Without changes, the same version must decide the same: if it does not, replay exits with 99. With another policy,
other prices or another limit, the first step is shown that is decided otherwise, and the sums of both.

Every step is decided on what there was when it was recorded. What another decision would have led to is not
followed. With --what-if it is: the load of the recording is played in a simulated cluster, once by the recorded settings and
once by the changed ones, and what they come to is printed side by side.`

// replayQuestion is what the replay verb is asked.
type replayQuestion struct {
	from, to             time.Time
	policy, nodes, price string
	limit                *pricing.Rate // nil is the recorded one
	changed              bool
	format               cli.Output
	whatIf               whatIfQuestion
}

// New returns the command.
func New(env *cli.Env) *cobra.Command {
	var ask replayQuestion
	cmd := &cobra.Command{
		Use:   "replay FOLDER | FILE",
		Short: "Decide a recording again, by the same rules or others, and compare; or play its load",
		Long:  replayLong,
		Example: "  plimsoll replay /var/lib/plimsoll/recording\n" +
			"  plimsoll replay recording --node-policy unneeded --from 2026-03-01T08:00:00Z\n" +
			"  plimsoll replay recording --prices prices.yaml --limit 40 -o json\n" +
			"  plimsoll replay recording --what-if --workload shop/web --objective p90=500ms",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.SeeHelp(cmd, cli.Misused("replay takes one folder or file of a recording, was given %d", len(args)))
			}
			for _, name := range []string{"policy", "node-policy", "prices", "limit"} {
				ask.changed = ask.changed || cmd.Flags().Changed(name)
			}
			if err := ask.whatIf.check(cmd, ask.changed); err != nil {
				return cli.SeeHelp(cmd, err)
			}
			if ask.whatIf.asked {
				return ask.playWhatIf(cmd.Context(), cmd, env, args[0])
			}
			return ask.answer(env, args[0])
		},
	}
	cli.AddFlag(cmd, &ask.from, cli.ParseTime, "from", "time", "", "compare from this time on; earlier steps are decided for what they leave in memory")
	cli.AddFlag(cmd, &ask.to, cli.ParseTime, "to", "time", "", "end before this time")
	cli.AddFlag(cmd, &ask.policy, cli.OneOf(podpolicy.Names()...), "policy", "name", "", "scale every workload by this policy, with its defaults")
	cli.AddFlag(cmd, &ask.nodes, cli.OneOf(nodepolicy.Names()...), "node-policy", "name", "", "decide on machines by this policy, with its defaults")
	cmd.Flags().StringVar(&ask.price, "prices", "", "price machines by this price book, a YAML `file`")
	cli.AddFlag(cmd, &ask.limit, parseLimit, "limit", "rate", "", "what all machines together may cost an hour; 0 is no limit")
	ask.whatIf.addFlags(cmd)
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

// replayAnswer is what came of it.
type replayAnswer struct {
	recording.Comparison
	// Whole is whether the steps remember all that the recorded ones did.
	Whole bool `json:"memoryWhole"`
}

var errDifferent = errors.New("the same rules decide otherwise")

func (ask *replayQuestion) answer(env *cli.Env, path string) error {
	replay, err := ask.replay(env)
	if err != nil {
		return err
	}
	var answer replayAnswer
	err = journals.ReadRecording(path, func(m *recording.Moment) error {
		at := m.Observation.Time
		if !ask.to.IsZero() && !at.Before(ask.to) {
			return nil
		}
		s, same, err := replay.Decide(m)
		if err == nil && !at.Before(ask.from) {
			answer.Add(m, &s, same)
		}
		return err
	})
	if err != nil {
		return err
	}
	if answer.Steps == 0 {
		return fmt.Errorf("%s: holds no step in that time", path)
	}
	answer.Whole = replay.Whole()
	if err := ask.format.Print(env.Stdout, &answer, answer.table); err != nil {
		return err
	}
	if !answer.Whole {
		fmt.Fprintln(env.Stderr, "note: the recording begins within a term of leadership: what was remembered from before is missing, and steps may differ by that")
	}
	if !ask.changed && answer.Whole && answer.Same < answer.Steps {
		return cli.WithCode(cli.ExitThreshold, errDifferent)
	}
	return nil
}

// replay is what decides again, with the changes that were asked for.
func (ask *replayQuestion) replay(env *cli.Env) (*recording.Replay, error) {
	r := &recording.Replay{}
	if ask.nodes != "" {
		r.Nodes = &nodepolicy.Spec{Policy: ask.nodes}
	}
	var prices *pricing.Book
	if ask.price != "" {
		var err error
		if prices, err = resources.ReadPrices(env, "--prices", ask.price); err != nil {
			return nil, err
		}
	}
	r.Change = func(in *loop.Intent) {
		if prices != nil {
			in.Prices = prices
		}
		if ask.limit != nil {
			in.Limit = *ask.limit
		}
		if ask.policy == "" {
			return
		}
		for i := range in.Workloads {
			if in.Workloads[i].Policy != nil {
				in.Workloads[i].Policy = podpolicy.Spec{Policy: ask.policy}
			}
		}
	}
	return r, nil
}

func (a *replayAnswer) table(w io.Writer) {
	terms := "1 term"
	if a.Terms > 1 {
		terms = fmt.Sprintf("%d terms", a.Terms)
	}
	fmt.Fprintf(w, "%d steps of %s, %s to %s: %d are decided as they were\n", a.Steps, terms,
		a.From.Format(time.RFC3339), a.To.Format(time.RFC3339), a.Same)
	if d := a.First; d != nil {
		fmt.Fprintf(w, "\nFirst difference: %s at %s\n", d.ID, d.Time.Format(time.RFC3339))
		for _, l := range d.Recorded {
			fmt.Fprintln(w, "  - "+l)
		}
		for _, l := range d.Decided {
			fmt.Fprintln(w, "  + "+l)
		}
	}
	if len(a.Workloads) > 0 {
		fmt.Fprint(w, "\nWORKLOAD\tDECISIONS\tMEAN REPLICAS\tNOW\n")
	}
	for _, x := range a.Workloads {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\n", x.Workload, x.Decisions, x.Recorded, x.Decided)
	}
	if len(a.Machines) > 0 {
		fmt.Fprint(w, "\nACTION\tSTEPS WITH IT\tNOW\n")
	}
	for _, x := range a.Machines {
		fmt.Fprintf(w, "%s\t%d\t%d\n", x.Action, x.Recorded, x.Decided)
	}
}

// parseLimit reads an amount an hour; 0 is no limit.
func parseLimit(text string) (*pricing.Rate, error) {
	amount, err := pricing.ParseMicros(text)
	if err != nil {
		return nil, err
	}
	if amount < 0 {
		return nil, fmt.Errorf("must be an amount an hour, or 0 for no limit, was %q", text)
	}
	return new(pricing.RateOf(amount)), nil
}
