package testbedverb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

const tuneHelp = `
With --tune it searches the settings of the policy Predictive that cost least on the load, in pod-minutes. Requests
that are lost cost as much as the minutes of a pod that would have had to serve --price of what it can for them. The
first week is learned from, the settings are chosen by the weeks after it, and checked on the last week. They are
printed to be pasted, or nothing is offered if they are no better than the default there. The LSTMs are not tried: in
the median of ten recorded days they forecast no better than AR, and they take far longer.
`

// tuneAnswer is what came of a search.
type tuneAnswer struct {
	Load    string  `json:"load"`
	Weeks   int     `json:"weeks"`
	Profile string  `json:"profile"`
	Lost    float64 `json:"lostRequestsPerPodMinute"` // that cost as much
	// Gains are in percent of the default's cost.
	Chosen  float64 `json:"gainWhereChosenPercent"`
	Checked float64 `json:"gainWhereCheckedPercent"`
	Offered bool    `json:"offered"`
	// Spec is to be pasted, if it is offered.
	Spec  *v1alpha1.PolicySpec `json:"spec,omitempty"`
	Tried []tuneRow            `json:"tried"`
}

// tuneRow is what came of settings in some weeks.
type tuneRow struct {
	Settings   string  `json:"settings"`
	Weeks      string  `json:"weeks"` // chosen, of those that choose; or checked
	PodMinutes int     `json:"podMinutes"`
	Lost       float64 `json:"lostPercent"`
	Cost       float64 `json:"cost"`
	Saved      float64 `json:"savedPercent"` // of the default's cost
}

// checkTune refuses flags that mean nothing to a search, and takes the price of a lost request.
func (ask *simulation) checkTune(cmd *cobra.Command) (faults []error) {
	if !ask.tune {
		return nil
	}
	for _, name := range []string{"policies", "excess", "quantile", "train", "season", "tolerance", "out"} {
		if f := cmd.Flags().Lookup(name); f.Changed {
			faults = append(faults, fmt.Errorf("--%s: must be omitted with --tune, was %s", name, f.Value))
		}
	}
	if ask.format == cli.OutputCSV {
		faults = append(faults, errors.New("--output: must be table, json or yaml with --tune, was csv"))
	}
	if cmd.Flags().Changed("price") {
		if len(ask.price) != 1 {
			faults = append(faults, fmt.Errorf("--price: must be one number with --tune, was %s", cmd.Flags().Lookup("price").Value))
		}
		ask.setting.Price = ask.price[0]
	}
	return faults
}

// tuned searches settings on a load, and prints what it offers.
func (ask *simulation) tuned(ctx context.Context, env *cli.Env, load *replay.Trace) error {
	if ask.profile.usual {
		fmt.Fprintf(env.Stderr, "note: pods are taken to serve %s requests a second, which is another application: say what yours serve with --profile\n", ask.profile.words)
	}
	meter := newMeterOf("minutes", env, ask.quiet)
	var done, total atomic.Int64
	each := func(n int, do func(int) error) error {
		total.Add(int64(n))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(ask.parallel)
		for i := range n {
			g.Go(func() error {
				if ctx.Err() != nil {
					return errors.New("interrupted, and nothing is offered")
				}
				err := do(i)
				runs := int(done.Add(1))
				meter.hear(testbed.Progress{Done: runs, Total: int(total.Load()), Requests: runs * len(load.Counts)})
				return err
			})
		}
		return g.Wait()
	}
	t, err := replay.Tune(load, ask.setting, each)
	meter.stop()
	if err != nil {
		return err
	}
	a := ask.tuneAnswer(t, load)
	if ask.format != cli.OutputTable {
		return ask.format.Print(env.Stdout, a, nil)
	}
	return a.print(env.Stdout)
}

func (ask *simulation) tuneAnswer(t *replay.Tuned, load *replay.Trace) *tuneAnswer {
	s := ask.setting
	chosen, checked := t.Gain()
	a := &tuneAnswer{
		Load: load.Name, Weeks: 1 + len(t.Tried[0].Weeks), Profile: ask.profile.words, Lost: rounded(s.LostPerPodMinute()),
		Chosen: rounded(100 * chosen), Checked: rounded(100 * checked), Offered: t.Offered(),
	}
	row := func(tried *replay.Tried, weeks string, r, beside replay.Result) {
		a.Tried = append(a.Tried, tuneRow{
			tried.String(), weeks, r.PodMinutes, rounded(100 * r.LostPart()), math.Round(s.Cost(r)), rounded(100 * (1 - s.Cost(r)/s.Cost(beside))),
		})
	}
	first, best := &t.Tried[0], &t.Tried[t.Best]
	for i := range t.Tried {
		row(&t.Tried[i], "chosen", t.Tried[i].Chosen(), first.Chosen())
	}
	row(first, "checked", first.Checked(), first.Checked())
	if t.Best > 0 {
		row(best, "checked", best.Checked(), first.Checked())
	}
	if a.Offered {
		a.Spec = ask.tunedSpec(best)
	}
	return a
}

// tunedSpec is the part of a WorkloadAutoscaler that has the settings, with the profile that they
// were tuned for.
func (ask *simulation) tunedSpec(best *replay.Tried) *v1alpha1.PolicySpec {
	c, profile := &best.Settings, ask.profile.given
	p := &v1alpha1.Predictive{
		Forecaster: v1alpha1.Forecaster(c.Forecaster), ReactiveFloor: c.ReactiveFloor,
		Excess: ratio(c.Excess), Quantile: ratio(c.Quantile), MarginalValue: ratio(c.MarginalValue),
		Profile: &v1alpha1.PredictiveProfile{},
	}
	switch {
	case profile.Linear != nil:
		p.Profile.Linear = &v1alpha1.LinearProfile{PerPod: v1alpha1.Ratio(digits(profile.Linear.PerPod)), Base: v1alpha1.Number(digits(profile.Linear.Base))}
	case profile.Quadratic != nil:
		q := profile.Quadratic
		p.Profile.Quadratic = &v1alpha1.QuadraticProfile{A: v1alpha1.Number(digits(q.A)), B: v1alpha1.Number(digits(q.B)), C: v1alpha1.Number(digits(q.C))}
	}
	for _, row := range profile.Table {
		p.Profile.Table = append(p.Profile.Table, v1alpha1.ProfilePoint{Pods: int32(row.Pods), Total: v1alpha1.Ratio(digits(row.Total))})
	}
	return &v1alpha1.PolicySpec{Policy: "Predictive", Predictive: p}
}

// digits writes a number as Kubernetes objects have it, with nine digits after the point at most.
func digits(v float64) string {
	text := strconv.FormatFloat(v, 'f', 9, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func ratio(v *float64) *v1alpha1.Ratio {
	if v == nil {
		return nil
	}
	return new(v1alpha1.Ratio(digits(*v)))
}

// print prints what was tried, what it came to, and what is to be pasted.
func (a *tuneAnswer) print(w io.Writer) error {
	fmt.Fprintf(w, "Policy Predictive on %d weeks of %s: week 1 is learned from, the last one chooses nothing.\n"+
		"A pod-minute costs as much as %.4g lost requests.\n\n", a.Weeks, a.Load, a.Lost)
	err := cli.OutputTable.Print(w, nil, func(w io.Writer) {
		fmt.Fprintln(w, "settings\tweeks\tpod-minutes\tlost\tcost\tsaved")
		for i := range a.Tried {
			r, weeks := &a.Tried[i], fmt.Sprintf("2 to %d", a.Weeks-1)
			if r.Weeks == "checked" {
				weeks = fmt.Sprintf("%d, unseen", a.Weeks)
			} else if a.Weeks == replay.FewestWeeks {
				weeks = "2"
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%.3f %%\t%.0f\t%+.1f %%\n", r.Settings, weeks, r.PodMinutes, r.Lost, r.Cost, r.Saved)
		}
	})
	last := &a.Tried[len(a.Tried)-1]
	switch {
	case err != nil:
		return err
	case last.Settings == a.Tried[0].Settings:
		_, err = fmt.Fprintln(w, "\nNothing is offered: no other settings cost less than the default.")
		return err
	case !a.Offered:
		_, err = fmt.Fprintf(w, "\nNothing is offered: in week %d, which did not choose it, %s costs no less than the default.\n", a.Weeks, last.Settings)
		return err
	}
	fmt.Fprintf(w, "\nOffered, for the spec of the WorkloadAutoscaler:\n\n")
	return cli.OutputYAML.Print(w, a.Spec, nil)
}
