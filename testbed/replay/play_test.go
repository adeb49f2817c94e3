package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// tenAPod is a world in which each pod serves 10 requests a second and is to be all busy.
func tenAPod(t testing.TB) Setting {
	t.Helper()
	p := must.Get(capacity.Linear(10, 0))(t)
	s := Default()
	s.Profile, s.Excess, s.Tolerance, s.Max = p, 1, 0, 20
	return s
}

// aSecond is a trace of so many requests a second, minute by minute.
func aSecond(rates ...float64) *Trace {
	t := &Trace{Name: "by hand"}
	for _, r := range rates {
		t.Counts = append(t.Counts, r*secondsAMinute)
	}
	return t
}

func kind(t testing.TB, name string) Kind {
	t.Helper()
	return must.Get(Find(name))(t)
}

// byHand is what came of a run, in requests a second.
type byHand struct {
	Pods                  []int
	Served, Lost, Waiting float64
	Moves, Turns          int
}

func playByHand(t *testing.T, trace *Trace, name string, s Setting) (got byHand) {
	t.Helper()
	r := must.Get(Play(trace, 0, kind(t, name), s, func(_ int, p capacity.Period, _, _ string) {
		got.Pods = append(got.Pods, p.Pods)
	}))(t)
	got.Served, got.Lost, got.Waiting = r.Served/secondsAMinute, r.Lost/secondsAMinute, r.Waiting/secondsAMinute
	got.Moves, got.Turns = r.Moves, r.Turns
	return got
}

// A minute's pods are set by what was known as the one before ended, and what they cannot serve is
// lost as the next begins.
func TestPodsAreSetByTheMinutesBefore(t *testing.T) {
	for _, c := range []struct {
		kind string
		turn func(*Setting)
		want byHand
	}{
		{kind: "oracle", want: byHand{Pods: []int{2, 4, 1, 3, 3}, Served: 117, Moves: 3, Turns: 2}},
		{kind: "naive", want: byHand{Pods: []int{1, 2, 4, 1, 3}, Served: 10 + 20 + 3 + 10 + 29, Lost: 10 + 20 + 15, Moves: 4, Turns: 2}},
		// Its use is 1 at most, which is the target: it never grows.
		{kind: "hpa", want: byHand{Pods: []int{1, 1, 1, 1, 1}, Served: 10 + 10 + 3 + 10 + 10, Lost: 10 + 30 + 15, Waiting: 19}},
		{
			kind: "hpa", turn: func(s *Setting) { s.Excess = 0.5 },
			want: byHand{Pods: []int{1, 2, 4, 1, 2}, Served: 10 + 20 + 3 + 10 + 20, Lost: 10 + 20 + 15, Waiting: 9, Moves: 4, Turns: 2},
		},
		{
			kind: "naive", turn: func(s *Setting) { s.Min, s.Max = 2, 3 },
			want: byHand{Pods: []int{2, 2, 3, 2, 3}, Served: 20 + 20 + 3 + 20 + 29, Lost: 20 + 5, Moves: 3, Turns: 2},
		},
	} {
		s := tenAPod(t)
		if c.turn != nil {
			c.turn(&s)
		}
		trace := aSecond(20, 40, 3, 25, 29)
		got := playByHand(t, trace, c.kind, s)
		if sum := got.Served + got.Lost + got.Waiting; sum < 117-1e-9 || sum > 117+1e-9 {
			t.Errorf("%s: %v of 117 requests a second", c.kind, sum)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.kind, diff)
		}
	}
}

// Requests that may wait another minute are served first, and by scalers that size on forecasts
// always, for they are known.
func TestWhoWaitsIsServedFirst(t *testing.T) {
	s := tenAPod(t)
	s.Timeout = 2
	for name, want := range map[string]byHand{
		// 10 wait after the first minute. In the second there is room for two pods' worth.
		"naive":  {Pods: []int{1, 2, 1, 1}, Served: 10 + 20 + 10 + 4, Moves: 2, Turns: 1},
		"oracle": {Pods: []int{2, 1, 1, 1}, Served: 44, Moves: 1},
		"hpa":    {Pods: []int{1, 1, 1, 1}, Served: 10 + 10 + 10 + 10, Waiting: 4},
	} {
		got := playByHand(t, aSecond(20, 10, 10, 4), name, s)
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The worked numbers of the paper's models: Def. 1, Eq. 13 and the loss of the discrete model.
func TestWorkedNumbersComeOutOfARun(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		turn       func(*Setting)
		rates      []float64
		want       byHand
	}{
		{
			name: "two pods serve 459 of 500, and 41 are lost in the next period", kind: "naive",
			turn:  func(s *Setting) { s.Min, s.Max = 2, 2 },
			rates: []float64{500, 0}, want: byHand{Pods: []int{2, 2}, Served: 459, Lost: 41},
		},
		{
			name: "five pods that serve 800 at a target of 0.8 become six", kind: "hpa",
			turn:  func(s *Setting) { s.Min, s.Excess = 5, 0.8 },
			rates: []float64{800, 0}, want: byHand{Pods: []int{5, 6}, Served: 800, Moves: 1},
		},
		{
			name: "1000 a second take eight pods at an excess of 0.85", kind: "naive",
			turn:  func(s *Setting) { s.Excess = 0.85 },
			rates: []float64{0, 1000, 1000}, want: byHand{Pods: []int{1, 1, 8}, Served: 1334, Lost: 666, Moves: 1},
		},
		{
			name: "eight at 0.9", kind: "oracle", turn: func(s *Setting) { s.Excess = 0.9 },
			rates: []float64{1000, 0}, want: byHand{Pods: []int{8, 1}, Served: 1000, Moves: 1},
		},
		{
			name: "and seven at 0.95", kind: "oracle", turn: func(s *Setting) { s.Excess = 0.95 },
			rates: []float64{1000, 0}, want: byHand{Pods: []int{7, 1}, Served: 1000, Moves: 1},
		},
	} {
		s := Default()
		c.turn(&s)
		got := playByHand(t, aSecond(c.rates...), c.kind, s)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Where the HPA's tolerance reaches full use it never grows, however much is lost.
func TestAnHPANearFullUseIsStuck(t *testing.T) {
	s := Default()
	s.Excess = 0.95
	r, err := Play(aSecond(300, 600, 900, 1200, 1500, 1500), 0, kind(t, "hpa"), s, nil)
	if err != nil || r.PodMinutes != 6 || r.Moves != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	s.Tolerance = 0.05
	if r, err = Play(aSecond(300, 600, 900, 1200, 1500, 1500), 0, kind(t, "hpa"), s, nil); err != nil || r.Moves == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The HPA as it is shipped looks back five minutes before it shrinks.
func TestTheHPAOfTodayShrinksToTheMostOfFiveMinutes(t *testing.T) {
	s := tenAPod(t)
	s.Excess, s.Min = 0.5, 2
	var rates []float64
	for range 3 {
		rates = append(rates, 20, 20, 5, 5, 5, 5, 5, 5)
	}
	v2 := playByHand(t, aSecond(rates[:12]...), "hpa-v2", s)
	if diff := cmp.Diff([]int{2, 4, 4, 4, 4, 4, 4, 2, 2, 4, 4, 4}, v2.Pods); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhoLeadsIsTold(t *testing.T) {
	s := Default()
	s.Race.Entrants = []forecast.Spec{{Name: "same", Type: "Last"}, {Type: "AR"}}
	var leaders, whys []string
	rates := []float64{400, 400, 400, 400, 400, 400, 400, 2000, 400, 400}
	r := must.Get(Play(aSecond(rates...), 0, kind(t, "hpa-plus"), s, func(_ int, _ capacity.Period, leader, why string) {
		leaders, whys = append(leaders, leader), append(whys, why)
	}))(t)
	// The first forecast is judged in the second minute, and five make a window. Two that were far
	// off are 0.53 in the mean of five.
	want := []string{"", "hpa", "hpa", "hpa", "hpa", "hpa", "same", "same", "same", "hpa"}
	if diff := cmp.Diff(want, leaders); diff != "" {
		t.Errorf("leaders (-want +got):\n%s\n%s", diff, strings.Join(whys, "\n"))
	}
	for i, why := range map[int]string{
		1: "no forecaster has forecast the last 5 periods",
		8: "same was the closest over the last 5 periods: it differed by 0.2667",
		9: "same was the closest over the last 5 periods, and differed by 0.5333, more than 0.3",
	} {
		if whys[i] != why {
			t.Errorf("minute %d: %q, want %q", i, whys[i], why)
		}
	}
	parts := []Lead{{"", 0.1}, {"hpa", 0.6}, {"same", 0.3}}
	if diff := cmp.Diff(parts, r.Leaders, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestTrainingIsTimedByTheCallersClock(t *testing.T) {
	trace := Diurnal(1, 1)
	for name, want := range map[string]bool{"ensemble": true, "hpa-plus": true, "hpa": false, "oracle": false} {
		s := Default()
		if r, err := Play(trace, 1000, kind(t, name), s, nil); err != nil || r.TrainingKnown {
			t.Errorf("%s without a clock: %+v, %v", name, r, err)
		}
		now := time.Duration(0)
		s.Clock = func() time.Duration { now += time.Second; return now }
		r := must.Get(Play(trace, 1000, kind(t, name), s, nil))(t)
		if r.TrainingKnown != want || want && r.Training != time.Second || r.SizeKnown != want || want && r.Size < 100 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestScalersAreFoundByNameOrRefusedWithAReason(t *testing.T) {
	if k, err := Find("HPA-Plus"); err != nil || k.Name != "hpa-plus" {
		t.Errorf("%+v, %v", k, err)
	}
	_, err := Find("SLOCost")
	if want := `scaler: must be one that goes by arrivals or use, was "SLOCost", which goes by response times, ` +
		`and a replay has none: plimsoll testbed run policies --trace FILE has`; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if _, err = Find("hpa+"); err == nil || !strings.HasPrefix(err.Error(), "scaler: must be one of ") || !strings.Contains(err.Error(), "naive") {
		t.Errorf("%v", err)
	}
	for i, k := range Kinds() {
		if i > 0 && Kinds()[i-1].Name >= k.Name || k.Title == "" || k.Knob == "" || k.Name != strings.ToLower(k.Name) {
			t.Errorf("%+v", k)
		}
	}
}

func TestEveryFaultOfASettingIsNamed(t *testing.T) {
	s := Setting{Excess: 2, Tolerance: -1, Quantile: 1, Season: 1}
	want := "profile: must be set\n" +
		"timeout: must be 1 period at least, was 0\n" +
		"min: must be 1 at least, was 0\n" +
		"tolerance: must be 0 or more, was -1\n" +
		"stabilization: must be 1 period at least, was 0\n" +
		"excess: must be above 0 and below 2, was 2\n" +
		"quantile: must be above 0 and below 1, was 1\n" +
		"price: must be above 0 and below 1, was 0\n" +
		"season: must be 2 minutes at least, was 1"
	if err := s.Validate(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

func TestRunsThatCannotBeAreRefused(t *testing.T) {
	over := Default()
	over.Excess = 1.1
	bad := Default()
	bad.Race.Entrants = []forecast.Spec{{Type: "Tarot"}}
	for _, c := range []struct {
		trace *Trace
		train int
		kind  string
		s     Setting
		want  string
	}{
		{aSecond(1), 0, "hpa", Default(), "by hand: must have 2 minutes at least, had 1"},
		{aSecond(1, -1), 0, "hpa", Default(), "by hand: minute 1: count: must be 0 or more, was -60"},
		{aSecond(1, 1), 2, "hpa", Default(), "by hand: train: must be from 0 to 1 minutes, was 2"},
		{aSecond(1, 1), -1, "hpa", Default(), "by hand: train: must be from 0 to 1 minutes, was -1"},
		{aSecond(1, 1), 0, "hpa", over, "hpa: target: must be above 0 and up to 1, was 1.1"},
		{aSecond(1, 1), 0, "hpa-plus", over, "hpa-plus: target: must be above 0 and up to 1, was 1.1"},
		{aSecond(1, 1), 0, "hpa-v2", over, "hpa-v2: excess: must be up to 1 for who goes by use, which is never more, was 1.1"},
		{aSecond(1, 1), 0, "hpa-plus", bad, "hpa-plus: forecaster: must be one of " + strings.Join(forecast.Names(), ", ") + `, was "Tarot"`},
	} {
		if _, err := Play(c.trace, c.train, kind(t, c.kind), c.s, nil); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}
