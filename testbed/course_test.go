package testbed

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

func TestACourseTellsOfItsReplicas(t *testing.T) {
	at := func(minutes, from, to int) sim.Change {
		return sim.Change{At: time.Duration(minutes) * time.Minute, From: from, To: to}
	}
	unknown := Number(math.NaN())
	for name, c := range map[string]struct {
		courses []Course
		want    Trial
	}{
		"nothing happens": {
			[]Course{{Start: 3, Most: 8}},
			Trial{MaxReplicasMinutes: unknown, SpanReplicaMinutes: 30, SpanChanges: 1, Path: []Moment{{0, 3}, {1200, 3}}},
		},
		"full from the start": {
			[]Course{{Start: 8, Most: 8, Changes: []sim.Change{at(7, 8, 5)}}},
			Trial{Shrinks: 1, SpanReplicaMinutes: 2*8 + 8*5, SpanChanges: 2, Path: []Moment{{0, 8}, {420, 5}, {1200, 5}}},
		},
		"up and down": {
			[]Course{{Start: 1, Most: 8, Changes: []sim.Change{at(2, 1, 2), at(4, 2, 8), at(10, 8, 7), at(11, 7, 6)}}},
			Trial{
				MaxReplicasMinutes: 4, Growths: 2, ReplicasAdded: 7, Shrinks: 2, SpanReplicaMinutes: 5*8 + 7 + 4*6, SpanChanges: 3,
				Path: []Moment{{0, 1}, {120, 2}, {240, 8}, {600, 7}, {660, 6}, {1200, 6}},
			},
		},
		"two workloads, the slower of which counts": {
			[]Course{{Start: 1, Most: 2, Changes: []sim.Change{at(6, 1, 2)}}, {Start: 1, Most: 4, Changes: []sim.Change{at(3, 1, 2), at(6, 2, 4)}}},
			Trial{
				MaxReplicasMinutes: 6, Growths: 3, ReplicasAdded: 4, SpanReplicaMinutes: 3 + 9*6, SpanChanges: 3,
				Path: []Moment{{0, 2}, {180, 3}, {360, 6}, {1200, 6}},
			},
		},
		"two workloads, one of which never has all": {
			[]Course{{Start: 2, Most: 2}, {Start: 1, Most: 4}},
			Trial{MaxReplicasMinutes: unknown, SpanReplicaMinutes: 30, SpanChanges: 1, Path: []Moment{{0, 3}, {1200, 3}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got Trial
			told := &Telling{Machines: []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute}}
			got.Follow(&Experiment{Span: &Range{5 * time.Minute, 15 * time.Minute}, Path: true}, c.courses, told, 20*time.Minute)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestASpanThatTheRunDoesNotCoverIsUnknown(t *testing.T) {
	for _, e := range []*Experiment{{}, {Span: &Range{0, time.Hour}}} {
		var got Trial
		got.Follow(e, []Course{{Start: 1, Most: 1}}, &Telling{}, time.Minute)
		if !math.IsNaN(float64(got.SpanReplicaMinutes)) || !math.IsNaN(float64(got.SpanChanges)) {
			t.Errorf("span %v: %+v", e.Span, got)
		}
	}
}

// The paths that the rules of each policy give by hand. Those of the HPA up to 1.11 are counted
// from its first decision elsewhere: 4 at 0 and 8 at 3 minutes.
func TestTheShippedPathsAreThoseOfTheRules(t *testing.T) {
	type path = []Moment
	for name, want := range map[string]map[string]path{
		"frss-expansion": {
			"hpa-paper": {{0, 1}, {180, 2}, {360, 4}, {540, 8}, {720, 8}},
			"hpa-1.11":  {{0, 1}, {30, 4}, {210, 8}, {720, 8}},
			"hpa-v2":    {{0, 1}, {15, 5}, {30, 8}, {720, 8}},
			"fastslow":  {{0, 1}, {30, 8}, {720, 8}},
		},
		"frss-shrink": {
			"hpa-v2":   {{0, 8}, {34.5 * 60, 3}, {62 * 60, 7}, {74.5 * 60, 3}, {5400, 3}},
			"fastslow": {{0, 8}, {38.5 * 60, 7}, {47.5 * 60, 6}, {56.5 * 60, 5}, {62 * 60, 7}, {78.5 * 60, 6}, {87.5 * 60, 5}, {5400, 5}},
		},
	} {
		data := must.Get(File(name))(t)
		e := must.Get(Parse(data))(t)
		got := map[string]path{}
		for _, run := range mustRun(t, e, Options{Trials: 1}).Runs {
			if want[run.Policy] != nil {
				got[run.Policy] = run.Path
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-rules +simulated):\n%s", name, diff)
		}
	}
}

func TestMachinesAreCountedThatAreThereOrComing(t *testing.T) {
	var told Telling
	for i, machines := range []map[nodescaler.Phase]int{
		{nodescaler.Joined: 1, nodescaler.Spare: 2},
		{nodescaler.Joined: 1, nodescaler.Ordered: 1, nodescaler.Spare: 2},
		{nodescaler.Joined: 2, nodescaler.Spare: 1},
		{nodescaler.Joined: 1},
	} {
		told.Hear(&loop.Step{Observed: loop.Observed{Machines: machines}}, time.Duration(30*(i+1))*time.Second)
	}
	var got Trial
	got.Follow(&Experiment{}, []Course{{Start: 1, Most: 1}}, &told, 5*time.Minute)
	if diff := cmp.Diff([]Count{{0, 1}, {60, 2}, {120, 1}, {300, 1}}, got.Machines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestResultsKeepTheCourseOfOneTrialOfEachPolicy(t *testing.T) {
	data := must.Get(File("slo-cost"))(t)
	e := must.Get(Parse(data))(t)
	for _, run := range mustRun(t, e, Options{Users: []int{10, 60}, Trials: 2, Duration: 5 * time.Minute}).Runs {
		want := run.Users == 60 && run.Trial == 1
		if got := len(run.Path) > 0 && len(run.Machines) > 0; got != want {
			t.Errorf("%s at %d, trial %d: kept %v, want %v", run.Policy, run.Users, run.Trial, got, want)
		}
		if n := len(run.Machines); want && (run.Machines[0].Seconds != 0 || run.Machines[n-1].Seconds != 300) {
			t.Errorf("%s: machines are told from %v s to %v s, want from 0 to 300", run.Policy, run.Machines[0].Seconds, run.Machines[n-1].Seconds)
		}
	}
}
