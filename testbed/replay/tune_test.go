package replay

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

var whole = flag.Bool("whole", false, "tune on weeks in place of days, which takes minutes")

// tuneLoads are those that settings are tuned on, each with a week more than is tuned on, or with
// what of it is recorded: three that were recorded, three drawn from what was fitted to these, and
// made-up ones by seed.
func tuneLoads(t testing.TB) (all []*Trace) {
	for _, name := range []string{"nasa_jul95", "nasa_aug95", "wc98_may"} {
		recorded := recordedTrace(t, name)
		all = append(all, recorded)
		for seed := range uint64(2) {
			all = append(all, Draw(fmt.Sprintf("%s drawn %d", name, seed+1), must.Get(Fit(recorded, 6))(t), 28*MinutesADay, seed+1))
		}
	}
	for seed := range uint64(6) {
		all = append(all, Diurnal(28, seed+1))
	}
	for seed := range uint64(5) {
		all = append(all, MMPP(28, seed+1))
	}
	return all
}

// inTurn does things one after the other.
func inTurn(n int, do func(int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// What was tuned on three weeks is better than the default in the one after them, which it has not
// seen, for 15 of 20 loads or more. By itself the test has days for weeks. These teach less: for as
// many it is better or is not offered, and for half of all it is offered and better.
func TestTunedSettingsAreBetterInTheNextWeek(t *testing.T) {
	race.Skip(t)
	week, loads, fewest := MinutesADay, tuneLoads(t), 10
	if *whole {
		week, fewest = MinutesAWeek, 15
	}
	offered, better := 0, 0
	for _, load := range loads {
		s, seen := Default(), FewestWeeks*week
		load.Counts = load.Counts[:min(seen+week, len(load.Counts))]
		scaled := must.Get(Scale(load, week, 5, s))(t)
		tuned := must.Get(tune(&Trace{Name: scaled.Name, Counts: scaled.Counts[:seen]}, s, week, inTurn))(t)
		chosen, checked := tuned.Gain()
		best := &tuned.Tried[tuned.Best]
		var next [2]Result
		for i, c := range []policy.Predictive{{}, best.Settings} {
			played := must.Get(walk(scaled, week, week, s, c))(t)
			next[i] = played.Checked()
		}
		gain := 1 - s.Cost(next[1])/s.Cost(next[0])
		if tuned.Offered() {
			offered++
			if gain > 0 {
				better++
			}
		}
		t.Logf("%-18s offered %-5v %-58s gains %4.1f %% in the weeks that chose it, %4.1f %% in the one that checked it, %4.1f %% in the next: lost %.3f %% to %.3f %%, pods %.2f to %.2f",
			load.Name, tuned.Offered(), best, 100*chosen, 100*checked, 100*gain, 100*next[0].LostPart(), 100*next[1].LostPart(), next[0].MeanPods(), next[1].MeanPods())
	}
	t.Logf("of %d loads %d are offered settings, which are better in the next week for %d", len(loads), offered, better)
	if len(loads) != 20 || better < fewest || offered-better > 5 {
		t.Errorf("of %d loads %d are offered settings, %d of them worse ones; of 20 should be %d with better ones, and 5 with worse ones at most",
			len(loads), offered, offered-better, fewest)
	}
}

// A load that never needs a second pod has nothing to tune.
func TestNothingIsOfferedWhereNothingIsBetter(t *testing.T) {
	idle := &Trace{Name: "idle", Counts: slices.Repeat([]float64{60}, 3*MinutesADay)}
	tuned := must.Get(tune(idle, Default(), MinutesADay, inTurn))(t)
	if tuned.Offered() || tuned.Best != 0 {
		t.Errorf("%s is offered", &tuned.Tried[tuned.Best])
	}
	if _, err := Tune(idle, Default(), inTurn); err == nil || !strings.Contains(err.Error(), "must have a load of 3 weeks at least") {
		t.Errorf("of three days: %v", err)
	}
}

// The last week chooses nothing, and what it does not confirm is not offered. 375 lost requests are
// worth a pod-minute.
func TestTheLastWeekConfirmsAChoice(t *testing.T) {
	weeks := func(pods ...int) (all []Result) {
		for _, n := range pods {
			all = append(all, Result{Minutes: 1, PodMinutes: n, Arrived: 7500, Lost: 375})
		}
		return all
	}
	for _, c := range []struct {
		other   []Result
		best    int
		offered bool
	}{
		{weeks(80, 90, 90), 1, true},
		{weeks(80, 110, 99), 1, true},
		{weeks(80, 90, 100), 1, false},
		{weeks(80, 90, 101), 1, false},
		{weeks(101, 100, 10), 0, false},
		{weeks(100, 100, 10), 0, false},
	} {
		tuned := &Tuned{Tried: []Tried{{Weeks: weeks(100, 100, 100)}, {Weeks: c.other}}, setting: Default()}
		if tuned.Best = tuned.best(); tuned.Best != c.best || tuned.Offered() != c.offered {
			t.Errorf("%v: %d is best, offered %v; should be %d, %v", c.other, tuned.Best, tuned.Offered(), c.best, c.offered)
		}
	}
	s := Default()
	if got := s.Cost(Result{PodMinutes: 7, Lost: 750}); math.Abs(got-9) > 1e-9 {
		t.Errorf("7 pod-minutes and 750 lost requests cost %v, should be 9", got)
	}
}
