package testbed

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// swapped is the minimal experiment with two scenarios, the second of which is as o says.
func swapped(t *testing.T, o string) (*Experiment, error) {
	t.Helper()
	data := must.Get(readGood("minimal"))(t)
	text := strings.Replace(string(data), "users: [10, 30]", "scenarios: [{name: plain, curve: 0s 20}, {name: other, curve: 0s 20, otherwise: "+o+"}]", 1)
	return Parse([]byte(text))
}

func TestAScenarioHasTheWorldThatItAsksForAlone(t *testing.T) {
	const o = "{think: 3s, demand: {mean: 95ms, spread: 0%, tail: 2}, quota: 400m, balance: random, delays: {boot: 5m, podStart: 1s}, " +
		"signals: {latency: exact, metricsEvery: 15s, late: 60s}, faults: [{at: 1m, kind: noisy-neighbour, left: 50%, for: 1m}]}"
	e := must.Get(swapped(t, o))(t)
	jobs := e.loads()
	plain, other := jobs[0], jobs[1]
	plain.Policy, other.Policy = &e.Policies[0], &e.Policies[0]
	if diff := cmp.Diff(e.In(plain.Level), e, cmp.Comparer(func(a, b *Experiment) bool { return a == b })); diff != "" {
		t.Errorf("the plain scenario is changed: %s", diff)
	}
	c := e.In(other.Level).config(&other)
	w := c.Workloads[0]
	want := sim.Demand{Mean: 95 * time.Millisecond, Tail: 2}
	if w.Demand != want || w.Quota != 400 || w.Balance != sim.AtRandom || w.Load.Think != 3*time.Second {
		t.Errorf("the workload is %+v", w)
	}
	if c.Delays.Boot.Min != 5*time.Minute || c.Late != time.Minute || len(c.Faults) != 1 || c.Faults[0].Left != .5 {
		t.Errorf("the world is %+v", c)
	}
	if e.Workloads[0].Quota != 500 || e.Signals.Late != 0 || len(e.Faults) != 0 || jobs[0].Load.Think != time.Second {
		t.Error("it reaches the experiment itself")
	}
}

func TestWhatAScenarioHasOtherwiseIsRefusedWhereItIsWrong(t *testing.T) {
	for o, want := range map[string]string{
		"{demand: {mean: 0s, spread: 20%}}":                                       "load.scenarios[1].otherwise.demand.mean: must be longer than 0s",
		"{demand: {mean: 5ms, spread: 20%, tail: 2}}":                             "otherwise.demand.spread: must be 0% with a tail",
		"{demand: {mean: 5ms, spread: 0%, tail: 1}}":                              "otherwise.demand.tail: must be above 1",
		"{balance: randm}":                                                        "otherwise.balance: must be one of least-of-two, random",
		"{signals: {latency: exact, metricsEvery: 15s, late: 1500ms}}":            "otherwise.signals.late: must be whole seconds",
		"{faults: [{at: 1m, kind: noisy-neighbour, for: 1m}]}":                    "otherwise.faults[0].left: must be above 0% and below 100%",
		"{faults: [{at: 1m, kind: noisy-neighbour, left: 50%}]}":                  "otherwise.faults[0].for: must be longer than 0s",
		"{faults: [{at: 1m, kind: clone-fails, left: 50%}]}":                      "otherwise.faults[0].left: must be above 0% and below 100%",
		"{faults: [{at: 1m, kind: noisy-neighbour, host: x, left: 1%, for: 1m}]}": "otherwise.faults[0].host: must be one of pve1",
		"{delays: {boot: -1s, podStart: 3s}}":                                     "otherwise.delays.boot: must not be negative",
	} {
		if _, err := swapped(t, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", o, err, want)
		}
	}
}

func TestStepsTellHowOftenTheModelWasOff(t *testing.T) {
	off := podscaler.Decision{From: 2, To: 2, Reasons: []podscaler.Reason{podscaler.Because(podscaler.ReasonModelOff, "by far")}}
	grow := podscaler.Decision{From: 2, To: 3, Reasons: []podscaler.Reason{podscaler.Because(podscaler.ReasonModelUncertain, "9 %% sure")}}
	bought := nodescaler.Plan{Actions: []nodescaler.Action{{Kind: nodescaler.Buy}, {Kind: nodescaler.Cordon}, {Kind: nodescaler.Return}}}
	var got Telling
	if known := got.ModelOff(); known == known {
		t.Errorf("%g before any decision", known)
	}
	got.Hear(&loop.Step{Workloads: []loop.WorkloadStep{{Decision: &off}, {}}}, 0)
	got.Hear(&loop.Step{
		Workloads: []loop.WorkloadStep{{Decision: &grow}}, Plan: bought,
		Outcomes: []loop.Outcome{{Action: -1}, {Action: 0}, {Action: 1}, {Action: 2, Error: "no"}},
	}, time.Minute)
	if got.ModelOff() != .5 || got.ModelUnsure() != .5 || got.Decisions != 1 || !cmp.Equal(got.Machines, []time.Duration{time.Minute}) {
		t.Errorf("heard %+v", got)
	}
}
