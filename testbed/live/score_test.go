package live

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var t0 = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// step is what a step saw a number of seconds after the start: so many replicas and machines, at 10
// units an hour each, and what was spent. The first machine is old, the others were created 85 s
// after the start, and one more is only ordered.
func step(seconds, replicas, machines int, spent pricing.Micros) *loop.Step {
	loads := []loop.MachineLoad{{Name: "ordered"}}
	for i := range machines {
		created := t0.Add(85 * time.Second)
		if i == 0 {
			created = t0.Add(-time.Hour)
		}
		loads = append(loads, loop.MachineLoad{Name: fmt.Sprint("m", i), Created: created})
	}
	return &loop.Step{
		ID: "d-000001", Time: t0.Add(time.Duration(seconds) * time.Second),
		Observed: loop.Observed{
			Hosts:    []loop.HostLoad{{Name: "pve1", Machines: loads}},
			Machines: map[nodescaler.Phase]int{nodescaler.Ordered: 1, nodescaler.Joined: machines},
			Cost:     loop.Cost{Known: true, Ordered: pricing.RateOf(pricing.Micros(machines) * 10 * pricing.Unit), Spent: spent},
		},
		Workloads: []loop.WorkloadStep{{Workload: "default/web", Replicas: replicas}},
	}
}

func journal(steps ...*loop.Step) func(func(*loop.Step) error) error {
	return func(f func(*loop.Step) error) error {
		for _, s := range steps {
			if err := f(s); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestJournalIsScoredForTheTimeOfTheTrialAlone(t *testing.T) {
	grow := step(30, 2, 1, 5*pricing.Unit)
	grow.Workloads[0].Decision = &podscaler.Decision{Workload: "default/web", From: 2, To: 6}
	grow.Plan.Actions = []nodescaler.Action{{Kind: nodescaler.Buy}, {Kind: nodescaler.Evict}, {Kind: nodescaler.Buy}}
	grow.Outcomes = []loop.Outcome{{Action: -1, Workload: "default/web"}, {Action: 0}, {Action: 1}, {Action: 2, Error: "no room"}}
	early := step(-30, 9, 9, 0)
	early.Plan.Actions = []nodescaler.Action{{Kind: nodescaler.Buy}}
	early.Outcomes = []loop.Outcome{{Action: 0}}
	late := step(300, 9, 9, 99*pricing.Unit)
	late.Plan.Actions = early.Plan.Actions
	late.Outcomes = early.Outcomes

	got, err := tallied(journal(early, step(-6, 2, 1, 2*pricing.Unit), grow, step(90, 6, 2, 6*pricing.Unit), late), t0, t0.Add(2*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var trial testbed.Trial
	e := &testbed.Experiment{
		Workloads: []testbed.Workload{{Name: "default/web", Replicas: testbed.Replicas{Start: 2, Max: 6}}},
		Span:      &testbed.Range{Min: 0, Max: time.Minute}, Path: true,
	}
	if err := got.put(&trial, e, &testbed.Job{Policy: &testbed.Policy{}}); err != nil {
		t.Fatal(err)
	}
	want := testbed.Trial{
		// 2 replicas for 90 s, 6 for 30; a machine for 120 s, and one for 35.
		PodMinutes: 6, VMHours: testbed.Rounded(155. / 3600),
		// 6 at 90 s and 30 s of two machines, less 2 at −6 s and 6 s of one.
		CostUnits: testbed.Rounded(6 + 20./120 - 2 - 10./600),
		Orders:    1, PodMoves: 1, Decisions: 1, UpheavalPerHour: 60,
		MaxReplicasMinutes: 0.5, Growths: 1, ReplicasAdded: 4, SpanReplicaMinutes: 4, SpanChanges: 2, RateMax: 20, SpareUnits: testbed.Number(math.NaN()), Path: []testbed.Moment{{Replicas: 2}, {Seconds: 30, Replicas: 6}, {Seconds: 120, Replicas: 6}},
		// One of them ordered.
		Machines: []testbed.Count{{Machines: 2}, {Seconds: 90, Machines: 3}, {Seconds: 120, Machines: 3}},
	}
	if diff := cmp.Diff(want, trial); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestJournalThatProvesNothingIsRefused(t *testing.T) {
	unknown := step(-6, 2, 1, 0)
	unknown.Observed.Cost.Known = false
	broken := step(10, 2, 1, 0)
	broken.Problems = []nodescaler.Reason{{Code: loop.CodePlanRefused, Text: "no"}}
	for name, steps := range map[string][]*loop.Step{
		"no step before the trial":  {step(10, 1, 1, 0), step(20, 1, 1, 0)},
		"no step in it":             {step(-10, 1, 1, 0), step(500, 1, 1, 0)},
		"a plan that was refused":   {step(-6, 2, 1, 0), broken},
		"a cost that was not known": {unknown, step(10, 1, 1, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tallied(journal(steps...), t0, t0.Add(time.Minute))
			if err == nil {
				err = got.put(&testbed.Trial{}, &testbed.Experiment{}, &testbed.Job{Policy: &testbed.Policy{}})
			}
			if err == nil {
				t.Error("was scored")
			}
		})
	}
}

func TestARunWarnsIfItsMachineDidNotKeepUp(t *testing.T) {
	for _, c := range []struct {
		name string
		late *k6.Spell
		want bool
	}{
		{"nothing is known", nil, false},
		{"a hair", &k6.Spell{Mean: 1, P90: 2, P99: 30}, false},
		{"most answers", &k6.Spell{Mean: 6, P90: 7, P99: 8}, true},
		{"every tenth answer", &k6.Spell{Mean: 2, P90: 11, P99: 15}, true},
	} {
		var trial testbed.Trial
		scoreLate(&trial, &k6.Summary{P50: 110, P90: 200, Served: &k6.Spell{P90: 190}, Late: c.late})
		if got := trial.Warning != ""; got != c.want {
			t.Errorf("%s: warns %q", c.name, trial.Warning)
		}
		if c.late != nil && (trial.LateMs != testbed.Number(c.late.P90) || trial.ServedP90Ms != 190) {
			t.Errorf("%s: late by %v, served in %v", c.name, trial.LateMs, trial.ServedP90Ms)
		}
	}
}

// Where cluster-autoscaler decides on machines, the journal has no order: those that come in the
// trial were ordered, and those that go were returned, once each.
func TestMachinesOfAnotherAreCountedAsTheyComeAndGo(t *testing.T) {
	going := step(90, 2, 3, 6*pricing.Unit)
	going.Observed.Hosts[0].Machines[3].Phase = nodescaler.Deleting // m2
	blind := step(95, 2, 0, 6*pricing.Unit)
	blind.Observed.Cost.Known, blind.Observed.Hosts = false, nil
	seen := []*loop.Step{step(-6, 2, 1, 2*pricing.Unit), step(30, 2, 3, 5*pricing.Unit), going, blind, step(100, 2, 2, 7*pricing.Unit), step(110, 2, 1, 8*pricing.Unit)}
	got := must.Get(tallied(journal(seen...), t0, t0.Add(2*time.Minute)))(t)
	if err := got.onlyWatched(); err != nil {
		t.Fatal(err)
	}
	if got.orders != 2 || got.returns != 2 {
		t.Errorf("%d ordered and %d returned, want 2 and 2", got.orders, got.returns)
	}
	seen[1].Plan.Actions = []nodescaler.Action{{Kind: nodescaler.Buy}}
	seen[1].Outcomes = []loop.Outcome{{Action: 0}}
	got = must.Get(tallied(journal(seen...), t0, t0.Add(2*time.Minute)))(t)
	if err := got.onlyWatched(); err == nil {
		t.Error("an order of Plimsoll's own was let pass")
	}
}

func TestTheRequestsOfEachMinuteAreKept(t *testing.T) {
	var trial testbed.Trial
	load := &k6.Summary{Requests: 30, Failed: 2, Good: 18, Minutes: []k6.Minute{{Requests: 20, Failed: 2, Late: 8, Quantile: 900}, {Requests: 10, Late: 2, Quantile: 100}, {}}}
	if err := scoreLoad(&trial, load, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	want := []testbed.Minute{{Requests: 20, Late: 8}, {Requests: 10, Late: 2}, {}}
	if diff := cmp.Diff(want, trial.Minutes); diff != "" || trial.WorstMinute != .4 || trial.SLOViolationMinutes != 1 {
		t.Errorf("the worst minute is %v, %d are over; -want +got:\n%s", trial.WorstMinute, trial.SLOViolationMinutes, diff)
	}
}
