package loop

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestFirstSeenStepOnlyLooks(t *testing.T) {
	h := newHouse()
	h.broken["observe"] = errors.New("no API server")
	r := h.runner(replicas(5), actions(order("b")))
	_, _ = r.Once(t.Context(), t0)
	delete(h.broken, "observe")
	s, _ := r.Once(t.Context(), t0.Add(10*time.Second))
	expect(t, "done at the first step that sees", []string(nil), h.done)
	expect(t, "problems", []string{CodeLooking}, codes(s))
}

func TestFirstListOnlyLooks(t *testing.T) {
	h := newHouse()
	h.broken["list"] = errors.New("x")
	r := h.runner(replicas(2), actions(order("b")))
	_, _ = r.Once(t.Context(), t0)
	delete(h.broken, "list")
	s, _ := r.Once(t.Context(), t0.Add(10*time.Second))
	expect(t, "done at the first step that sees machines", []string(nil), h.done)
	expect(t, "problems", []string{CodeLooking}, codes(s))
}

func TestMachineThatIsMissedOnceIsStillCharged(t *testing.T) {
	h := newHouse()
	r := h.runner(replicas(2), nil)
	all := h.machines.Machines
	var s Step
	for i := range 7 {
		h.machines.Machines = all
		if i == 2 {
			h.machines.Machines = nil
		}
		s, _ = r.Once(t.Context(), t0.Add(time.Duration(i)*10*time.Minute))
	}
	if got, want := s.Observed.Cost.Spent, 9*pricing.Unit; got < want {
		t.Errorf("an hour of one machine cost %s, want 10 or a little less", got)
	}
}

func TestEvictionsOfARefusedCordonAreRefusedToo(t *testing.T) {
	h := newHouse()
	plan := actions(
		nodescaler.Action{Kind: nodescaler.Cordon, Node: "worker-a"}, // says no reason
		nodescaler.Action{Kind: nodescaler.Evict, Node: "worker-a", Pod: "web-1", Reasons: why},
	)
	steps(t, h.runner(replicas(2), plan), 2)
	expect(t, "done", []string(nil), h.done)
}

func TestNaNSignalKeepsTheRecord(t *testing.T) {
	h := newHouse()
	var out bytes.Buffer
	r := h.runner(podsSay(func(*podscaler.View) podscaler.Recommendation { return podscaler.Recommendation{} }), nil)
	r.Signals = nan{h}
	r.Journal = NewNDJSON(&out)
	for i := range 2 {
		if _, err := r.Once(t.Context(), t0.Add(time.Duration(i)*10*time.Second)); err != nil {
			t.Error(err)
		}
	}
}

func TestReplicasOnTheirWayStayFuture(t *testing.T) {
	h := newHouse()
	var future []int
	r := h.runner(replicas(7), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		n := 0
		for _, f := range s.Future {
			n += f.Count
		}
		future = append(future, n)
		return nodescaler.Plan{}
	}))
	r.Workloads[0].RunPeriod = 20 * time.Second
	steps(t, r, 6)
	if slices.Contains(future[slices.Index(future, 5):], 0) {
		t.Errorf("future pods %v: replicas that were decided on were forgotten", future)
	}
}

// A clock that was put back makes machines that were made in its future. They are charged for from
// now on.
func TestMachinesThatAreMadeLaterByAClockThatWasPutBackAreCharged(t *testing.T) {
	for _, phase := range []nodescaler.Phase{nodescaler.Joined, nodescaler.Spare} {
		h := newHouse()
		m := &h.machines.Machines[0]
		m.Created, m.Since, m.Phase = t0.Add(time.Hour), t0.Add(2*time.Hour), phase
		r := h.runner(replicas(2), nil)
		s := steps(t, r, 2)
		expect(t, "problems", 0, len(s.Problems))
		h.machines.Machines = nil
		s = steps(t, r, 1)
		expect(t, "problems once it is gone", 0, len(s.Problems))
	}
}

// One replica's claim may be lost, or in another zone: that is no reason to expect the same of
// those of others.
func TestAnotherReplicaIsLikeTheFirstButForItsClaims(t *testing.T) {
	wl := &podscaler.Workload{Name: "shop/db"}
	lost := map[string]string{nodescaler.SelectNowhere: "a node with the volume of claim db-0, whose volume is gone"}
	zone := func(is string) []nodescaler.Affinity {
		return []nodescaler.Affinity{{{{Key: "zone", Operator: nodescaler.In, Values: []string{is}}}}}
	}
	for _, c := range []struct {
		name    string
		pods    []nodescaler.Pod
		cpu     pricing.MilliCPU
		nowhere bool
		volumes []nodescaler.Affinity
	}{
		{name: "none"},
		{name: "one that goes nowhere", pods: []nodescaler.Pod{{Selector: lost, Requests: pricing.Resources{CPU: 1}}}, cpu: 1, nowhere: true},
		{name: "the first that stays", cpu: 2, pods: []nodescaler.Pod{
			{Pod: podscaler.Pod{Terminating: true}, Requests: pricing.Resources{CPU: 1}}, {Requests: pricing.Resources{CPU: 2}}, {Requests: pricing.Resources{CPU: 3}},
		}},
		{name: "one with a claim of its own that is lost", pods: []nodescaler.Pod{{Selector: lost, Another: &nodescaler.Claims{}}}},
		{name: "one with a claim that only one may have", pods: []nodescaler.Pod{{Another: &nodescaler.Claims{Selector: lost}}}, nowhere: true},
		{name: "one with a claim that it shares", pods: []nodescaler.Pod{{Volumes: zone("a")}}, volumes: zone("a")},
		{name: "one with a claim of its own in a zone", pods: []nodescaler.Pod{{Volumes: zone("a"), Another: &nodescaler.Claims{Volumes: zone("b")}}}, volumes: zone("b")},
	} {
		w := &decider{snap: nodescaler.Snapshot{Pods: c.pods}, byWorkload: map[string][]int{}}
		for i := range c.pods {
			w.byWorkload[wl.Name] = append(w.byWorkload[wl.Name], i)
		}
		if p := w.like(wl); p.Requests.CPU != c.cpu || p.Nowhere() != c.nowhere || !cmp.Equal(p.Volumes, c.volumes) {
			t.Errorf("%s: %v, nowhere %v, volumes %v", c.name, p.Requests, p.Nowhere(), p.Volumes)
		}
	}
}

func TestARecordReadsBackAsItWas(t *testing.T) {
	h := newHouse()
	var out bytes.Buffer
	r := h.runner(replicas(3), actions(order("b")))
	p := pricing.DefaultBook()
	r.Prices = p
	r.Journal = NewNDJSON(&out)
	want := steps(t, r, 2)
	var got []Step
	must.Do(t, Read(&out, func(s *Step) error { got = append(got, *s); return nil }))
	if d := cmp.Diff(want, got[1]); d != "" {
		t.Errorf("%s", d)
	}
}

type nan struct{ *house }

func (nan) Read(context.Context, *podscaler.Workload, time.Time) (podscaler.Window, error) {
	return podscaler.Window{Latency: podscaler.Reading{Known: true, Value: math.NaN()}}, nil
}

func TestMachineIsChargedUntilItIsGone(t *testing.T) {
	h := newHouse()
	r := h.runner(replicas(2), nil)
	_, _ = r.Once(t.Context(), t0)
	h.machines.Machines = nil
	_, _ = r.Once(t.Context(), t0.Add(6*time.Minute))
	s, _ := r.Once(t.Context(), t0.Add(time.Hour))
	expect(t, "spent", pricing.Unit, s.Observed.Cost.Spent)
}

func TestLostOrderIsToldOnce(t *testing.T) {
	h := newHouse()
	h.lag = true
	r := h.runner(replicas(2), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		if s.Now.After(t0.Add(15 * time.Second)) {
			return nodescaler.Plan{}
		}
		return nodescaler.Plan{Actions: []nodescaler.Action{order("b")}}
	}))
	var lost []time.Duration
	for at := time.Duration(0); at < 4*time.Minute; at += 10 * time.Second {
		s, _ := r.Once(t.Context(), t0.Add(at))
		if slices.Contains(codes(s), CodeOrderLost) {
			lost = append(lost, at)
		}
	}
	expect(t, "told", []time.Duration{140 * time.Second}, lost)
}
