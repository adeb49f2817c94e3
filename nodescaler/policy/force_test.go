package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
)

// ends has drains of the first pool end after a time.
func ends(after time.Duration) func(*sample.World) {
	return func(w *sample.World) { w.Pools[0].Disruption.TerminationGracePeriod = nodescaler.Duration(after) }
}

// kept is a pod that must not be evicted.
func kept(p *nodescaler.Pod) { p.Pinned = "annotated" }

// blocked is a drifted node with a pod that nothing may evict, and a node with room for it.
func blocked(change ...func(*nodescaler.Pod)) *sample.World {
	return sample.New().Node("w-1", "pve1").Pod("p", "w-1", 900, 100, change...).Node("w-2", "pve2").
		Change(replaces()).Change(drifted("w-1"))
}

// playDrain plays a drain of w-1, of which only the cordon is done, and returns what is planned of
// it and its pod, by when.
func playDrain(t *testing.T, w *sample.World, until time.Duration) map[string]time.Duration {
	p := build(t, Spec{Policy: "joint"})
	first := map[string]time.Duration{}
	for at := time.Duration(0); at <= until; at += 10 * time.Second {
		for _, line := range sample.Lines(sample.Decide(t, p, w.At(at))) {
			if strings.HasSuffix(line, " w-2") || strings.HasSuffix(line, " q") {
				continue
			}
			if _, known := first[line]; !known {
				first[line] = at
			}
			name, is := strings.CutPrefix(line, "Cordon ")
			for i := range w.Nodes {
				if is && w.Nodes[i].Name == name {
					sample.Draining(&w.Nodes[i])
				}
			}
			if name, is = strings.CutPrefix(line, "Uncordon "); is {
				for i := range w.Nodes {
					if w.Nodes[i].Name == name {
						w.Nodes[i].Cordoned, w.Nodes[i].Draining = false, false
					}
				}
			}
		}
	}
	return first
}

func TestDrainsEnd(t *testing.T) {
	budget := func(w *sample.World) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app", Allowed: 0}} }
	long := func(p *nodescaler.Pod) { kept(p); p.Grace = 5 * time.Minute }
	begins := 10 * time.Second // after the first look
	for _, c := range []struct {
		name  string
		world *sample.World
		want  map[string]time.Duration
	}{
		{"a pod that must not be evicted keeps its node", blocked(kept), map[string]time.Duration{}},
		{"so does one whose budget allows none", blocked().Change(budget), map[string]time.Duration{}},
		{"with an end it does until then", blocked(kept).Change(ends(20 * time.Minute)), map[string]time.Duration{"Cordon w-1": begins, "DeletePod p": begins + 20*time.Minute - nodescaler.DefaultGrace}},
		{"a budget counts until then", blocked().Change(budget).Change(ends(20 * time.Minute)), map[string]time.Duration{"Cordon w-1": begins, "DeletePod p": begins + 20*time.Minute - nodescaler.DefaultGrace}},
		{"a pod with more time to end goes earlier", blocked(long).Change(ends(20 * time.Minute)), map[string]time.Duration{"Cordon w-1": begins, "DeletePod p": begins + 15*time.Minute}},
		{"one with more time than there is goes at once", blocked(long).Change(ends(2 * time.Minute)), map[string]time.Duration{"Cordon w-1": begins, "DeletePod p": begins, "Uncordon w-1": begins + 15*time.Minute + 10*time.Second}},
		{"one that can be evicted is", blocked().Change(ends(20 * time.Minute)), map[string]time.Duration{"Cordon w-1": begins, "Evict p": begins, "DeletePod p": begins + 20*time.Minute - nodescaler.DefaultGrace}},
		{"one that ends has until the end", blocked(sample.Leaving, long).Change(ends(20 * time.Minute)), map[string]time.Duration{"Cordon w-1": begins, "DeletePod p": begins + 20*time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, playDrain(t, c.world, 21*time.Minute)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// Only what is wrong with a machine ends its drain: one that is dear, or not needed, is kept by its
// pods. So is one whose owner keeps the node.
func TestDrainsEndForACause(t *testing.T) {
	for name, w := range map[string]*sample.World{
		"not needed": sample.New().Node("w-1", "pve1").Pod("p", "w-1", 100, 100, kept).Node("w-2", "pve2").Pod("q", "w-2", 900, 100).Change(ends(time.Minute)),
		"pinned node": blocked(kept).Change(ends(time.Minute)).Change(func(w *sample.World) {
			w.Nodes[0].Pinned = "annotated"
		}),
	} {
		if got := playDrain(t, w, 30*time.Minute); len(got) > 0 {
			t.Errorf("%s: planned was %v", name, got)
		}
	}
}

// The grace that a pod is given is no longer than its own, and than what is left of the drain.
func TestDeletedPodsHaveTimeToEnd(t *testing.T) {
	w := blocked(func(p *nodescaler.Pod) { kept(p); p.Grace = 5 * time.Minute }).Change(ends(2 * time.Minute))
	p := build(t, Spec{Policy: "joint"})
	sample.Decide(t, p, w.At(0))
	plan := sample.Decide(t, p, w.At(10*time.Second))
	i := slices.IndexFunc(plan.Actions, func(a nodescaler.Action) bool { return a.Kind == nodescaler.DeletePod })
	if i < 0 || plan.Actions[i].Grace != nodescaler.Duration(2*time.Minute) || plan.Actions[i].Reasons[0].Code != nodescaler.DrainEnds {
		t.Errorf("planned was %+v", plan.Actions)
	}
}

// A machine whose pods are gone waits until their volumes are detached, but not for ever.
func TestMachinesWaitForTheirVolumes(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("q", "w-2", 900, 100)
	p := build(t, Spec{Policy: "joint"})
	sample.Decide(t, p, w.At(0))
	returned := func(at time.Duration) bool {
		plan := sample.Decide(t, p, w.At(at))
		for _, line := range sample.Lines(plan) {
			if line == "Cordon w-1" {
				sample.Draining(&w.Nodes[0])
			}
		}
		return slices.Contains(sample.Lines(plan), "Return w-1")
	}
	for at := 10 * time.Second; !w.Nodes[0].Draining; at += 10 * time.Second {
		if returned(at); at > time.Hour {
			t.Fatal("it is not drained")
		}
	}
	start := time.Hour
	w.Nodes[0].Attached = []string{"pv-1"}
	if returned(start) || returned(start+5*time.Minute) {
		t.Error("it is returned with a volume attached")
	}
	if !returned(start + 7*time.Minute) {
		t.Error("it waits for ever")
	}
	w.Nodes[0].Attached = nil
	if !returned(start + 8*time.Minute) {
		t.Error("it stays without a volume")
	}
}
