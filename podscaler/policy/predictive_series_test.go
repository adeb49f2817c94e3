package policy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// looks are seconds after noon and what is read then; NaN is nothing.
type looks [][2]float64

func (l looks) periods(length, span time.Duration) (values []float64, lost bool) {
	s := series{length: length}
	for _, look := range l {
		now := noon.Add(time.Duration(look[0] * float64(time.Second)))
		var r *reading
		if !math.IsNaN(look[1]) {
			r = &reading{now, span, look[1]}
		}
		ended, gone := s.look(now, r)
		values, lost = append(values, ended...), lost || gone
	}
	return values, lost
}

func TestReadingsBecomePeriods(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name         string
		length, span time.Duration
		looks        looks
		want         []float64
	}{
		{"the last reading is the minute's mean", time.Minute, time.Minute, looks{{0, 5}, {15, 1}, {30, 2}, {45, 3}, {60, 4}, {120, 8}}, []float64{4, 8}},
		{"a look that is late", time.Minute, time.Minute, looks{{0.1, 5}, {30, 9}, {60.1, 4}, {120.2, 8}}, []float64{4, 8}},
		{"short readings side by side", time.Minute, 15 * time.Second, looks{{0, 9}, {15, 1}, {30, 2}, {45, 3}, {60, 4}}, []float64{2.5}},
		{"readings that overlap are not counted twice", time.Minute, 30 * time.Second, looks{{0, 9}, {15, 7}, {30, 1}, {45, 7}, {60, 3}}, []float64{2}},
		{"a reading longer than the period", time.Minute, 5 * time.Minute, looks{{0, 9}, {60, 3}, {120, 4}}, []float64{3, 4}},
		{"out of step with the minutes", time.Minute, 15 * time.Second, looks{{14, 1}, {29, 1}, {44, 1}, {59, 1}, {74, 7}}, []float64{1}},
		{"less than half was measured: a gap and no zero", time.Minute, 15 * time.Second, looks{{0, 9}, {15, 1}, {30, nan}, {45, nan}, {60, nan}, {75, 6}, {90, 6}, {105, 6}, {120, 6}}, []float64{nan, 6}},
		{"nobody looked for three minutes", time.Minute, time.Minute, looks{{0, 9}, {60, 4}, {240, 6}}, []float64{4, nan, nan, 6}},
		{"begun in the middle, with a window that reaches back", time.Minute, time.Minute, looks{{50, 9}, {65, 7}}, []float64{7}},
		{"begun at the end, with too little", time.Minute, 15 * time.Second, looks{{50, 9}, {65, 7}}, []float64{nan}},
		{"a load of nothing is a value", time.Minute, time.Minute, looks{{0, 0}, {60, 0}}, []float64{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, lost := c.looks.periods(c.length, c.span)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0.01, 0)); diff != "" || lost {
				t.Errorf("lost %v, periods (-want +got):\n%s", lost, diff)
			}
		})
	}
}

func TestAClockThatIsPutBackOrFarAheadBeginsAnew(t *testing.T) {
	for _, l := range []looks{{{600, 1}, {60, 1}}, {{0, 1}, {60 * 60 * 24 * 30, 1}}} {
		if values, lost := l.periods(time.Minute, time.Minute); !lost || len(values) > 0 {
			t.Errorf("%v: lost %v, with values %v", l, lost, values)
		}
	}
}

// Whenever one looks, a load that is always the same is that in every period that is known, periods
// come one after the other without one omitted, and no time makes more of a load than was there.
func TestPeriodsAreNeitherInventedNorLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := time.Duration(rapid.IntRange(10, 300).Draw(t, "span")) * time.Second
		s, at, periods := series{length: time.Minute}, noon.Add(time.Duration(rapid.IntRange(0, 59_999).Draw(t, "begin"))*time.Millisecond), 0
		first := at.Truncate(time.Minute)
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			var r *reading
			if rapid.IntRange(0, 4).Draw(t, "unknown") > 0 {
				r = &reading{at, span, 7}
			}
			ended, lost := s.look(at, r)
			for _, v := range ended {
				if !math.IsNaN(v) && math.Abs(v-7) > 1e-9 {
					t.Fatalf("a load of 7 is %v", v)
				}
			}
			periods += len(ended)
			if want := int(at.Sub(first) / time.Minute); lost || periods != want {
				t.Fatalf("%d periods after %s, should be %d (lost %v)", periods, at.Sub(first), want, lost)
			}
			if len(s.readings) > 100 {
				t.Fatalf("%d readings are kept", len(s.readings))
			}
			at = at.Add(time.Duration(rapid.IntRange(1, 200_000).Draw(t, "ms")) * time.Millisecond)
		}
	})
}

func TestStartTimesAreFromBeingAskedForToBeingReady(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	pod := func(name string, readyAt int) podscaler.Pod {
		if readyAt < 0 {
			return podscaler.Pod{Name: name, Phase: podscaler.Pending}
		}
		return podscaler.Pod{Name: name, Phase: podscaler.Running, Ready: true, ReadyChanged: at(readyAt)}
	}
	var s startTimes
	for _, look := range []struct {
		at   int
		pods []podscaler.Pod
		want []time.Duration
	}{
		// There at the first look: since when is unknown.
		{0, []podscaler.Pod{pod("a", -1), pod("b", -50)}, nil},
		{15, []podscaler.Pod{pod("a", 10), pod("c", -1), pod("d", 12)}, []time.Duration{12 * time.Second}},
		// A pod that is ready again has not been started.
		{30, []podscaler.Pod{pod("a", 25), pod("c", -1), pod("d", 28)}, []time.Duration{12 * time.Second}},
		{120, []podscaler.Pod{pod("a", 25), pod("c", 95), pod("d", 28)}, []time.Duration{12 * time.Second, 95 * time.Second}},
	} {
		s.look(at(look.at), look.pods)
		if diff := cmp.Diff(look.want, s.recent); diff != "" {
			t.Errorf("after %ds (-want +got):\n%s", look.at, diff)
		}
	}
	if lead, known := s.usual(); !known || lead != 95*time.Second {
		t.Errorf("usual is %s (known %v), should be 95s", lead, known)
	}
	for i := range 100 {
		s.look(at(130+10*i), []podscaler.Pod{pod(fmt.Sprint(i), 133+10*(i-1))})
	}
	if lead, _ := s.usual(); lead != 3*time.Second || len(s.recent) != startsKept {
		t.Errorf("usual is %s of %d, should be 3s of the last %d", lead, len(s.recent), startsKept)
	}
}

func TestTheHorizonReachesAsFarAsPodsTake(t *testing.T) {
	for _, c := range []struct {
		period, since, lead time.Duration
		horizon, want       int
	}{
		{time.Minute, 0, time.Minute, 0, 1},
		{time.Minute, time.Second, time.Minute, 0, 2},
		{time.Minute, 0, 3 * time.Second, 0, 1},
		{time.Minute, 45 * time.Second, 15 * time.Second, 0, 1},
		{time.Minute, 45 * time.Second, 95 * time.Second, 0, 3},
		{15 * time.Second, 0, 95 * time.Second, 0, 7},
		{10 * time.Second, 0, time.Hour, 0, mostAhead},
		{time.Minute, 45 * time.Second, 10 * time.Minute, 1, 1},
	} {
		p := predictive{series: series{length: c.period}, horizon: c.horizon}
		if got := p.ahead(c.since, c.lead); got != c.want {
			t.Errorf("%+v: %d periods", c, got)
		}
	}
}

// clocked is a forecaster that keeps the time of day of the first value that it sees.
type clocked struct{ clock, first int }

func (c *clocked) SetClock(period int) { c.clock = period }

func (c *clocked) Observe(float64) {
	if c.first < 0 {
		c.first = c.clock
	}
}

func (c *clocked) Predict(int) (float64, bool) { return 1, true }

// withClock is a policy whose forecaster is that.
func withClock(t *testing.T, c *clocked) *predictive {
	t.Helper()
	p := must.Get(newPredictive(Predictive{}))(t).(*predictive)
	p.foresight.model, p.foresight.by = c, must.Get(forecast.NewCalibrated(c, forecast.Calibration{}))(t)
	return p
}

// The first value is of the minute in which the first look was, a history's of that of its first
// reading.
func TestForecastersKnowTheMinuteOfDay(t *testing.T) {
	seen, relived := &clocked{first: -1}, &clocked{first: -1}
	p, w := withClock(t, seen), podscaler.Workload{}
	for i := range 5 {
		p.observe(&podscaler.View{
			Now: noon.Add(time.Duration(i)*time.Minute + 20*time.Second), Workload: &w,
			Window: podscaler.Window{Arrivals: podscaler.Known(1), Over: time.Minute},
		})
	}
	withClock(t, relived).relive(&podscaler.History{
		End: noon, Step: time.Minute, Over: time.Minute, Arrivals: []float64{-1, -1, 1, 1, 1, 1},
	})
	if seen.first != 720 || seen.clock != 723 {
		t.Errorf("values were of the minutes %d to %d, should be of 720 to 723", seen.first, seen.clock)
	}
	// The first reading ends at 11:57.
	if relived.first != 717 {
		t.Errorf("the history begins in the minute %d, should be in 717", relived.first)
	}
}
