package policy

import (
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/planner"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
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
		{
			name: "a zone without nodes takes no more than the skew allows", world: zoned("a", "c").node("n1", "pve1").in("a").pod("x", "n1", 1800, 100).
				waiting(2, spreadBy(zoneLabel, 1)).change(func(w *world) { w.Pools[0].Max = 1 }),
			want: []string{"Buy w-c small pve2"}, reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "a machine on its way that is too small opens no zone", world: zoned("a", "b").machine("w-1", "pve1", nodescaler.Ordered, func(m *nodescaler.Machine) {
				m.Pool, m.Created, m.Since = "w-a", noon, noon
			}).change(func(w *world) {
				w.Pools[1].Shapes = []pricing.Shape{large}
				for i := range w.Hosts {
					w.Hosts[i].Room = large.Resources().Times(2)
				}
			}).pod("p", "", 7000, 100, spreadBy(zoneLabel, 0)),
			want: []string{"Buy w-b large pve2"},
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

// joins is for pods that go where others with the mark are, and have it themselves if they are some of those.
func joins(key, mark string, own ...string) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) {
		p.Has, p.Topology = own, []nodescaler.Topology{{Key: key, Mark: mark, Together: true}}
	}
}

func TestPodsGoWhereThoseAreThatTheyAreToBeWith(t *testing.T) {
	web := func(p *nodescaler.Pod) { p.Has = []string{"app=web"} }
	running := func(p *nodescaler.Pod) {
		web(p)
		p.Phase = podscaler.Running
	}
	for _, c := range []struct {
		name    string
		world   *world
		want    []string
		reasons []string
	}{
		{
			name: "in the zone of one that runs", world: zoned("a", "b").node("n1", "pve1").in("b").pod("x", "n1", 1700, 100, running).
				waiting(1, func(p *nodescaler.Pod) {
					joins(zoneLabel, "app=web")(p)
					p.Requests.CPU = 1000
				}),
			want: []string{"Buy w-b small pve2"},
		},
		{
			name: "all in one zone, though none is there yet", world: zoned("a", "b").waiting(3, func(p *nodescaler.Pod) {
				joins(zoneLabel, "app=web", "app=web")(p)
				p.Requests.CPU = 1000
			}),
			want: []string{"Buy w-a small pve2", "Buy w-a small pve3", "Buy w-a small pve1"},
		},
		{
			name: "of pods that wait too, by whichever name", world: zoned("a", "b").waiting(1, joins(zoneLabel, "app=db")).
				pod("z", "", 100, 100, func(p *nodescaler.Pod) {
					p.Has, p.Selector = []string{"app=db"}, map[string]string{zoneLabel: "b"}
				}).pod("z2", "", 100, 100, func(p *nodescaler.Pod) {
				p.Has, p.Topology, p.Selector = []string{"app=db"}, []nodescaler.Topology{{Key: zoneLabel, Mark: "app=none"}}, map[string]string{zoneLabel: "b"}
			}),
			want: []string{"Buy w-b small pve1"},
		},
		{name: "of none that there is", world: zoned("a").waiting(1, joins(zoneLabel, "app=web")), reasons: []string{nodescaler.NoDomain}},
		{
			name: "on the node of one that runs", world: zoned("a").node("n1", "pve1").in("a").node("n2", "pve2").in("a").pod("x", "n2", 100, 100, running).
				waiting(2, joins(nodescaler.HostLabel, "app=web")),
			reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "on the node of one that runs, which is full", world: zoned("a").node("n1", "pve1").in("a").pod("x", "n1", 1750, 100, running).
				waiting(1, joins(nodescaler.HostLabel, "app=web")),
			reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "all on one node, beside others", world: aWorld().pod("a", "", 1000, 100).waiting(3, func(p *nodescaler.Pod) {
				joins(nodescaler.HostLabel, "app=web", "app=web")(p)
				p.Requests.CPU = 600
			}),
			want: []string{"Buy w small pve2", "Buy w small pve1"},
		},
		{
			name: "more than a node holds", world: aWorld().waiting(4, func(p *nodescaler.Pod) {
				joins(nodescaler.HostLabel, "app=web", "app=web")(p)
				p.Requests.CPU = 600
			}),
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "more than a node has slots for", world: aWorld().change(func(w *world) { w.Pools[0].PodSlots = 3 }).pods(3, "a", "", 300, 100).
				waiting(3, joins(nodescaler.HostLabel, "app=web", "app=web")),
			want: []string{"Buy w small pve2", "Buy w small pve1"},
		},
		{
			name: "none in the zone of one that it is not to be with", world: zoned("a", "b").node("n1", "pve1").in("a").pod("x", "n1", 100, 100, func(p *nodescaler.Pod) {
				p.Topology = []nodescaler.Topology{{Key: zoneLabel, Mark: "app=web"}}
			}).waiting(1, web),
			want: []string{"Buy w-b small pve2"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, decide(t, withUnneeded(t, nil), &c.world.Snapshot), c.want, c.reasons...)
		})
	}
}

// A node whose pods are spread, or kept apart or together, is emptied where the others let them go.
func TestNodesWithPodsByRulesOfTopologyAreEmptied(t *testing.T) {
	rule := func(change func(*nodescaler.Topology)) func(*nodescaler.Pod) {
		return func(p *nodescaler.Pod) {
			p.Phase, p.Has, p.Topology = podscaler.Running, []string{"app=web"}, []nodescaler.Topology{{Key: zoneLabel, Mark: "app=web"}}
			change(&p.Topology[0])
		}
	}
	spread := func(skew int) func(*nodescaler.Pod) { return rule(func(r *nodescaler.Topology) { r.Skew = skew }) }
	apart := rule(func(*nodescaler.Topology) {})
	together := rule(func(r *nodescaler.Topology) { r.Together = true })
	for _, c := range []struct {
		name  string
		pods  func(*nodescaler.Pod)
		zones string // of the nodes n1 and on, each with a pod
		spare string // may go, all others being kept
	}{
		{"spread, and the zone has another node", spread(1), "aab", "n1"},
		{"spread, and it was the only node of its zone", spread(1), "ab", "n1"},
		{"spread by two", spread(2), "abb", "n1"},
		{"apart, and the other zones have one each", apart, "abc", ""},
		{"together", together, "aa", "n1"},
		{"together, where another is", together, "ab", "n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := zoned("a", "b", "c")
			for i, zone := range c.zones {
				name := "n" + string(rune('1'+i))
				w.node(name, "pve1").in(string(zone)).pod("p-"+name, name, 100, 100, c.pods)
			}
			x := nodescaler.NewIndex(&w.Snapshot)
			s := planner.NewSurplus(x, func(n *nodescaler.NodeLoad) bool { return n.Name == "n1" })
			got := ""
			for _, found := range s.List() {
				if found.Kept == nil {
					got += found.Node
				}
			}
			if got != c.spare {
				t.Errorf("%q may go, want %q: %+v", got, c.spare, s.List())
			}
		})
	}
}

// Two pods of a node leave it at once: were one still there, the other could go to a zone that is full without it.
func TestPodsLeaveANodeAtOnce(t *testing.T) {
	spread := spreadBy(zoneLabel, 2)
	w := zoned("a", "b", "c").
		node("n1", "pve1").in("a").pod("p1", "n1", 100, 100, spread).pod("q1", "n1", 100, 100, spread).
		node("n2", "pve1").in("a").pod("p2", "n2", 1800, 100).
		node("n3", "pve1").in("b").pod("p3", "n3", 100, 100, spread).
		node("n4", "pve1").in("c").pod("p4", "n4", 100, 100, spread).pod("q4", "n4", 100, 100, spread)
	s := planner.NewSurplus(nodescaler.NewIndex(&w.Snapshot), func(n *nodescaler.NodeLoad) bool { return n.Name == "n1" })
	if got := s.List()[0]; got.Kept == nil || got.Kept.Code != nodescaler.NoPlaceElsewhere {
		t.Errorf("%+v", got)
	}
}
