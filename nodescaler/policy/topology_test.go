package policy

import (
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
)

const zoneLabel = "topology.kubernetes.io/zone"

// spreadBy are pods that have a rule of topology, and count for it.
func spreadBy(key string, skew int) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) {
		p.Has, p.Topology = []string{"app=web"}, []nodescaler.Topology{{Key: key, Mark: "app=web", Skew: skew}}
	}
}

// zoned has a pool for each zone, and nodes of them: w-a-1 is in zone a.
func zoned(zones ...string) *world {
	w := aWorld()
	pool := w.Pools[0]
	w.Pools = nil
	for _, z := range zones {
		pool.Name, pool.Labels = "w-"+z, map[string]string{zoneLabel: z}
		w.Pools = append(w.Pools, pool)
	}
	return w
}

// in makes the last node one of a zone's pool.
func (w *world) in(zone string) *world {
	n := &w.Nodes[len(w.Nodes)-1]
	n.Labels, n.Pool = map[string]string{zoneLabel: zone, nodescaler.HostLabel: n.Name}, "w-"+zone
	w.Machines[len(w.Machines)-1].Pool = n.Pool
	return w
}

func (w *world) waiting(n int, rule func(*nodescaler.Pod)) *world {
	for i := range n {
		w.pod(string(rune('p'+i)), "", 100, 100, rule)
	}
	return w
}

func TestPodsAreSpreadOverZonesAndNodes(t *testing.T) {
	running := func(p *nodescaler.Pod) {
		spreadBy(zoneLabel, 1)(p)
		p.Phase = podscaler.Running
	}
	for _, c := range []struct {
		name    string
		world   *world
		want    []string
		reasons []string
	}{
		{name: "over two zones, a machine in each", world: zoned("a", "b").waiting(4, spreadBy(zoneLabel, 1)), want: []string{"Buy w-a small pve2", "Buy w-b small pve1"}},
		{name: "apart by zone", world: zoned("a", "b").waiting(2, spreadBy(zoneLabel, 0)), want: []string{"Buy w-a small pve2", "Buy w-b small pve1"}},
		{
			name: "apart by zone, more than there are", world: zoned("a", "b").waiting(3, spreadBy(zoneLabel, 0)),
			want: []string{"Buy w-a small pve2", "Buy w-b small pve1"}, reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "from the zone of one that runs", world: zoned("a", "b").node("n1", "pve1").in("a").pod("x", "n1", 100, 100, running).waiting(1, spreadBy(zoneLabel, 0)),
			want: []string{"Buy w-b small pve2"},
		},
		{
			name: "the zone with fewer is used though the other has room", world: zoned("a", "b").node("n1", "pve1").in("a").pod("x", "n1", 100, 100, running).
				node("n2", "pve2").in("b").pod("y", "n2", 1750, 100).waiting(1, spreadBy(zoneLabel, 1)),
			want: []string{"Buy w-b small pve3"},
		},
		{
			name: "room in a zone that may take one more", world: zoned("a", "b").node("n1", "pve1").in("a").pod("x", "n1", 100, 100, running).
				node("n2", "pve2").in("b").pod("y", "n2", 1700, 100, running).waiting(1, spreadBy(zoneLabel, 1)),
			reasons: []string{nodescaler.PodsFitExisting},
		},
		{name: "no pool has a zone", world: aWorld().waiting(1, spreadBy(zoneLabel, 1)), reasons: []string{nodescaler.NoDomain}},
		{name: "two to a node", world: aWorld().waiting(5, spreadBy(nodescaler.HostLabel, 2)), want: []string{"Buy w small pve2", "Buy w small pve3", "Buy w small pve1"}},
		{
			name: "any number to a node", world: aWorld().node("n1", "pve1").pod("x", "n1", 1700, 100, spreadBy(nodescaler.HostLabel, 1)).waiting(5, spreadBy(nodescaler.HostLabel, math.MaxInt32)),
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "a node that has its share takes no more", world: aWorld().node("n1", "pve1").pod("x", "n1", 100, 100, spreadBy(nodescaler.HostLabel, 1)).
				node("n2", "pve2").pod("y", "n2", 1800, 100).waiting(1, spreadBy(nodescaler.HostLabel, 1)),
			want: []string{"Buy w small pve3"},
		},
		{
			name: "one more on a node, and two on a new one", world: aWorld().node("n1", "pve1").pod("x", "n1", 100, 100, spreadBy(nodescaler.HostLabel, 2)).
				node("n2", "pve2").pod("y", "n2", 1800, 100).waiting(3, spreadBy(nodescaler.HostLabel, 2)),
			want: []string{"Buy w small pve3"}, reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "all nodes have as many and room for one more", world: aWorld().node("n1", "pve1").pod("x", "n1", 100, 100, spreadBy(nodescaler.HostLabel, 1)).
				node("n2", "pve2").pod("y", "n2", 100, 100, spreadBy(nodescaler.HostLabel, 1)).waiting(2, spreadBy(nodescaler.HostLabel, 1)),
			reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "none repelled by a pod of its zone", world: zoned("a", "b").node("n1", "pve1").in("a").pod("x", "n1", 100, 100, func(p *nodescaler.Pod) {
				p.Topology = []nodescaler.Topology{{Key: zoneLabel, Mark: "app=web"}}
			}).waiting(1, spreadBy(zoneLabel, 0)),
			want: []string{"Buy w-b small pve2"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, decide(t, withUnneeded(t, nil), &c.world.Snapshot), c.want, c.reasons...)
		})
	}
}
