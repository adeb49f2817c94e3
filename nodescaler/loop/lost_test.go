package loop

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestPodsAreLostWithTheirHostOrTheirNode(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	host := func(name string, online bool) nodescaler.Host {
		return nodescaler.Host{Host: pricing.Host{Name: name}, Online: online}
	}
	w := &decider{
		o: &Observation{Cluster: ClusterState{Replicas: map[string]int{"shop/web": 6}}}, Memory: &Memory{},
		snap: nodescaler.Snapshot{
			Now:   now,
			Hosts: []nodescaler.Host{host("here", true), host("away", false)},
			Machines: []nodescaler.Machine{
				{Name: "runs", Host: "here"}, {Name: "gone", Host: "away"}, {Name: "silent", Host: "here"}, {Name: "new", Host: "here"},
				{Name: "elsewhere", Host: "unknown"},
			},
		},
	}
	for _, n := range []struct {
		name  string
		ready bool
		age   time.Duration
	}{
		{"runs", true, time.Hour}, {"gone", true, time.Hour}, {"silent", false, time.Hour}, {"new", false, time.Minute}, {"elsewhere", true, time.Hour},
	} {
		w.snap.Nodes = append(w.snap.Nodes, nodescaler.Node{Name: n.name, Machine: n.name, Ready: n.ready, Joined: now.Add(-n.age)})
		w.snap.Pods = append(w.snap.Pods, nodescaler.Pod{Pod: podscaler.Pod{Name: "on-" + n.name}, Workload: "shop/web", Node: n.name})
	}
	w.snap.Pods = append(w.snap.Pods, nodescaler.Pod{Pod: podscaler.Pod{Name: "waits"}, Workload: "shop/web"})
	w.index()
	var lost []string
	for _, p := range w.podsOf("shop/web", false) {
		if p.Lost {
			lost = append(lost, p.Name)
		}
	}
	slices.Sort(lost)
	if diff := cmp.Diff([]string{"on-gone", "on-silent"}, lost); diff != "" {
		t.Errorf("lost, -want +got:\n%s", diff)
	}
}
