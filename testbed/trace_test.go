package testbed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// recorded is a trace of 60, 120 and 30 requests a minute.
func recorded() *Trace {
	return &Trace{File: "runs/Shop.csv", Curve: sim.Minutes([]float64{60, 120, 30})}
}

func TestATraceIsOneScenarioMore(t *testing.T) {
	e := must.Get(Parse(read(t, "experiments/six-scenarios.yaml")))(t)
	trace := recorded()
	trace.From, trace.Length, trace.Peak = time.Minute, time.Minute, 50
	with := must.Get(e.With(Options{Trace: trace, Scenarios: []string{"Shop"}}))(t)
	want := []Scenario{{Name: "Shop", Duration: time.Minute, Kind: sim.Open, Curve: Curve{{At: 0, Level: 50}}}}
	if diff := cmp.Diff(want, with.Load.Scenarios); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	beside := must.Get(e.With(Options{Trace: trace, Scenarios: []string{"flash"}}))(t)
	if diff := cmp.Diff([]string{"flash", "Shop"}, beside.LevelNames()); diff != "" {
		t.Errorf("beside one of the file's (-want +got):\n%s", diff)
	}
	if len(e.Load.Scenarios) != 6 {
		t.Error("the experiment itself was changed")
	}
}

// A trace has the requests that came, regardless of those before them: they are no users who pause.
func TestATraceStaysOpenWhateverUsersDo(t *testing.T) {
	e := must.Get(Parse(read(t, "experiments/six-scenarios.yaml")))(t)
	with := must.Get(e.With(Options{Trace: recorded(), Load: sim.Pace}))(t)
	for _, j := range with.loads() {
		want := sim.Pace
		if j.Level.Scenario == "Shop" {
			want = sim.Open
		}
		if j.Load.Kind != want {
			t.Errorf("%s is %s, not %s", j.Level, j.Load.Kind, want)
		}
	}
}

func TestFaultsOfATraceNameTheirOption(t *testing.T) {
	six := must.Get(Parse(read(t, "experiments/six-scenarios.yaml")))(t)
	users := must.Get(Parse(read(t, "experiments/slo-cost.yaml")))(t)
	for name, c := range map[string]struct {
		e      *Experiment
		change func(*Trace)
		want   string
	}{
		"of users":       {users, func(*Trace) {}, "trace: must not be given for slo-cost, which has users, was \"runs/Shop.csv\""},
		"begins late":    {six, func(t *Trace) { t.From = 3 * time.Minute }, "trace-from: must be before the end of runs/Shop.csv, which is at 3m, was 3m"},
		"lasts too long": {six, func(t *Trace) { t.Length = time.Hour }, "trace-length: must not go beyond the end of runs/Shop.csv, which is at 3m, was 1h"},
		"a scenario's":   {six, func(t *Trace) { t.File = "flash.csv" }, "trace: must be a file whose name is not a scenario's, too, was \"flash.csv\""},
		"nothing":        {six, func(t *Trace) { t.Curve, t.Peak = sim.Curve{{At: 0, Level: 0}, {At: time.Minute, Level: 0}}, 5 }, "trace-peak: must be omitted where nothing was recorded, was 5"},
	} {
		trace := recorded()
		c.change(trace)
		if _, err := c.e.With(Options{Trace: trace}); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant: %s", name, err, c.want)
		}
	}
}
