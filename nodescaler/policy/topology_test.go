package policy

import (
	"fmt"
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/planner"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestPodsAreSpreadOverZonesAndNodes(t *testing.T) {
	running := func(p *nodescaler.Pod) {
		sample.SpreadBy(sample.Zone, 1)(p)
		p.Phase = podscaler.Running
	}
	for _, c := range []struct {
		name    string
		world   *sample.World
		want    []string
		reasons []string
		all     bool // have a place
	}{
		{name: "over two zones, a machine in each", world: sample.Zoned("a", "b").Waiting(4, sample.SpreadBy(sample.Zone, 1)), want: []string{"Buy w-a small pve2", "Buy w-b small pve1"}},
		{name: "apart by zone", world: sample.Zoned("a", "b").Waiting(2, sample.SpreadBy(sample.Zone, 0)), want: []string{"Buy w-a small pve2", "Buy w-b small pve1"}},
		{
			name: "apart by zone, more than there are", world: sample.Zoned("a", "b").Waiting(3, sample.SpreadBy(sample.Zone, 0)),
			want: []string{"Buy w-a small pve2", "Buy w-b small pve1"}, reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "from the zone of one that runs", world: sample.Zoned("a", "b").Node("n1", "pve1").In("a").Pod("x", "n1", 100, 100, running).Waiting(1, sample.SpreadBy(sample.Zone, 0)),
			want: []string{"Buy w-b small pve2"},
		},
		{
			name: "the zone with fewer is used though the other has room", world: sample.Zoned("a", "b").Node("n1", "pve1").In("a").Pod("x", "n1", 100, 100, running).
				Node("n2", "pve2").In("b").Pod("y", "n2", 1750, 100).Waiting(1, sample.SpreadBy(sample.Zone, 1)),
			want: []string{"Buy w-b small pve3"},
		},
		{
			name: "room in a zone that may take one more", world: sample.Zoned("a", "b").Node("n1", "pve1").In("a").Pod("x", "n1", 100, 100, running).
				Node("n2", "pve2").In("b").Pod("y", "n2", 1700, 100, running).Waiting(1, sample.SpreadBy(sample.Zone, 1)),
			reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "a zone without nodes takes no more than the skew allows", world: sample.Zoned("a", "c").Node("n1", "pve1").In("a").Pod("x", "n1", 1800, 100).
				Waiting(2, sample.SpreadBy(sample.Zone, 1)).Change(func(w *sample.World) { w.Pools[0].Max = 1 }),
			want: []string{"Buy w-c small pve2"}, reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "a machine on its way that is too small opens no zone", world: sample.Zoned("a", "b").Machine("w-1", "pve1", nodescaler.Ordered, func(m *nodescaler.Machine) {
				m.Pool, m.Created, m.Since = "w-a", sample.Noon, sample.Noon
			}).Change(func(w *sample.World) {
				w.Pools[1].Shapes = []pricing.Shape{sample.Large}
				for i := range w.Hosts {
					w.Hosts[i].Room = sample.Large.Resources().Times(2)
				}
			}).Pod("p", "", 7000, 100, sample.SpreadBy(sample.Zone, 0)),
			want: []string{"Buy w-b large pve2"},
		},
		{name: "apart by a label that no pool has", world: sample.New().Waiting(1, sample.SpreadBy(sample.Zone, 0)), want: []string{"Buy w small pve1"}},
		{
			name: "apart by a label that no pool has, and required elsewhere", world: sample.New().Waiting(1, sample.SpreadBy(sample.Zone, 0)).Change(func(w *sample.World) {
				w.Pods[0].Affinity = nodescaler.Affinity{{}, {{Key: "disk", Operator: nodescaler.In, Values: []string{"ssd"}}}}
			}), reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "apart in the one zone that there is, so where there is none", world: sample.Zoned("a", "").Node("n1", "pve1").In("a").Pod("x", "n1", 100, 100, running, func(p *nodescaler.Pod) {
				p.Has = []string{"app=web"}
			}).Waiting(1, sample.SpreadBy(sample.Zone, 0)).Change(func(w *sample.World) { w.Pools[1].Labels = nil }),
			want: []string{"Buy w- small pve2"},
		},
		{name: "no pool has a zone", world: sample.New().Waiting(1, sample.SpreadBy(sample.Zone, 1)), reasons: []string{nodescaler.NoDomain}},
		{name: "two to a node", world: sample.New().Waiting(5, sample.SpreadBy(nodescaler.HostLabel, 2)), want: []string{"Buy w small pve2", "Buy w small pve3", "Buy w small pve1"}},
		{
			name: "as many on each node, which have room for all", world: sample.New().Node("n1", "pve1").Pod("x", "n1", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).
				Node("n2", "pve2").Pod("y", "n2", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).Node("n3", "pve3").Pod("z", "n3", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).
				Change(func(w *sample.World) {
					for i := range 9 {
						w.Pod(fmt.Sprintf("w%d", i), "", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1))
					}
				}),
			all: true, reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "as many on each node, of which one has room for one more", world: sample.New().Node("n1", "pve1").Pod("x", "n1", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).
				Node("n2", "pve2").Pod("y", "n2", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).Pod("f", "n2", 1600, 100).
				Change(func(w *sample.World) {
					for i := range 4 {
						w.Pod(fmt.Sprintf("w%d", i), "", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1))
					}
				}),
			all: true, want: []string{"Buy w small pve3"}, reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "any number to a node", world: sample.New().Node("n1", "pve1").Pod("x", "n1", 1700, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).Waiting(5, sample.SpreadBy(nodescaler.HostLabel, math.MaxInt32)),
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "a node that has its share takes no more", world: sample.New().Node("n1", "pve1").Pod("x", "n1", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).
				Node("n2", "pve2").Pod("y", "n2", 1800, 100).Waiting(1, sample.SpreadBy(nodescaler.HostLabel, 1)),
			want: []string{"Buy w small pve3"},
		},
		{
			name: "one more on a node, and two on a new one", world: sample.New().Node("n1", "pve1").Pod("x", "n1", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 2)).
				Node("n2", "pve2").Pod("y", "n2", 1800, 100).Waiting(3, sample.SpreadBy(nodescaler.HostLabel, 2)),
			want: []string{"Buy w small pve3"}, reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "all nodes have as many and room for one more", world: sample.New().Node("n1", "pve1").Pod("x", "n1", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).
				Node("n2", "pve2").Pod("y", "n2", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).Waiting(2, sample.SpreadBy(nodescaler.HostLabel, 1)),
			reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "none repelled by a pod of its zone", world: sample.Zoned("a", "b").Node("n1", "pve1").In("a").Pod("x", "n1", 100, 100, func(p *nodescaler.Pod) {
				p.Topology = []nodescaler.Topology{{Key: sample.Zone, Mark: "app=web"}}
			}).Waiting(1, sample.SpreadBy(sample.Zone, 0)),
			want: []string{"Buy w-b small pve2"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := sample.Decide(t, withUnneeded(t, nil), &c.world.Snapshot)
			sample.Expect(t, plan, c.want, c.reasons...)
			if c.all && len(plan.Unplaced) > 0 {
				t.Errorf("without a place: %v", plan.Unplaced)
			}
		})
	}
}

// A domain is opened by a machine that can be had now: another one is passed over for it, though it
// comes first by name.
func TestPodsGoWhereAMachineCanBeHad(t *testing.T) {
	running := func(p *nodescaler.Pod) {
		sample.SpreadBy(sample.Zone, 1)(p)
		p.Phase = podscaler.Running
	}
	world := func(change ...func(*sample.World)) *sample.World {
		w := sample.Zoned("a", "b").Change(func(w *sample.World) {
			w.Pools[0].Hosts, w.Pools[1].Hosts = []string{"pve1"}, []string{"pve2"}
		})
		for _, c := range change {
			c(w)
		}
		return w
	}
	full := func(w *sample.World) { w.Hosts[0].Room = sample.Small.Resources() }
	nodes := func(w *sample.World) {
		w.Node("n1", "pve1").In("a").Pod("x", "n1", 1750, 100, running).Node("n2", "pve2").In("b").Pod("y", "n2", 1750, 100, running)
	}
	other := func(w *sample.World) { w.Machine("other", "pve1", nodescaler.Joined) }
	dear := func(w *sample.World) {
		w.Pools[0].Shapes, w.Hosts[0].Room = []pricing.Shape{sample.Large}, sample.Large.Resources()
		w.Limit = w.Prices.Rate(sample.Small, "pve2", sample.Noon)
	}
	for _, c := range []struct {
		name    string
		world   *sample.World
		want    []string
		reasons []string
	}{
		{name: "spread, and a host is full", world: world(full, nodes).Waiting(1, sample.SpreadBy(sample.Zone, 1)), want: []string{"Buy w-b small pve2"}},
		{name: "apart, and a host is full", world: world(full, other).Waiting(1, sample.SpreadBy(sample.Zone, 0)), want: []string{"Buy w-b small pve2"}},
		{name: "together, and a host is full", world: world(full, other).Waiting(2, joins(sample.Zone, "app=web", "app=web")), want: []string{"Buy w-b small pve2"}},
		{name: "a zone is beyond the limit", world: world(dear).Waiting(1, sample.SpreadBy(sample.Zone, 1)), want: []string{"Buy w-b small pve2"}},
		{
			name: "both hosts are full", world: world(full, nodes, func(w *sample.World) { w.Hosts[1].Room = sample.Small.Resources() }).Waiting(1, sample.SpreadBy(sample.Zone, 1)),
			reasons: []string{"NoRoom"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sample.Expect(t, sample.Decide(t, withUnneeded(t, nil), &c.world.Snapshot), c.want, c.reasons...)
		})
	}
}

// Of zones that are alike the one is opened that costs least.
func TestPodsGoToTheCheapestZone(t *testing.T) {
	for name, rule := range map[string]func(*nodescaler.Pod){
		"spread": sample.SpreadBy(sample.Zone, 1), "apart": sample.SpreadBy(sample.Zone, 0), "together": joins(sample.Zone, "app=web", "app=web"),
	} {
		w := sample.Zoned("a", "b").Waiting(1, rule).Change(func(w *sample.World) {
			w.Pools[0].Shapes, w.Pools[1].Shapes = []pricing.Shape{sample.Large}, []pricing.Shape{sample.Small, sample.Large}
			for i := range w.Hosts {
				w.Hosts[i].Room = sample.Large.Resources()
			}
		})
		t.Run(name, func(t *testing.T) {
			sample.Expect(t, sample.Decide(t, withUnneeded(t, nil), &w.Snapshot), []string{"Buy w-b small pve1"})
		})
	}
}

// joins is for pods that go where others with the mark are, and have it themselves if they are some
// of those.
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
		world   *sample.World
		want    []string
		reasons []string
	}{
		{
			name: "in the zone of one that runs", world: sample.Zoned("a", "b").Node("n1", "pve1").In("b").Pod("x", "n1", 1700, 100, running).
				Waiting(1, func(p *nodescaler.Pod) {
					joins(sample.Zone, "app=web")(p)
					p.Requests.CPU = 1000
				}),
			want: []string{"Buy w-b small pve2"},
		},
		{
			name: "all in one zone, though none is there yet", world: sample.Zoned("a", "b").Waiting(3, func(p *nodescaler.Pod) {
				joins(sample.Zone, "app=web", "app=web")(p)
				p.Requests.CPU = 1000
			}),
			want: []string{"Buy w-a small pve2", "Buy w-a small pve3", "Buy w-a small pve1"},
		},
		{
			name: "of pods that wait too, by whichever name", world: sample.Zoned("a", "b").Waiting(1, joins(sample.Zone, "app=db")).
				Pod("z", "", 100, 100, func(p *nodescaler.Pod) {
					p.Has, p.Selector = []string{"app=db"}, map[string]string{sample.Zone: "b"}
				}).Pod("z2", "", 100, 100, func(p *nodescaler.Pod) {
				p.Has, p.Topology, p.Selector = []string{"app=db"}, []nodescaler.Topology{{Key: sample.Zone, Mark: "app=none"}}, map[string]string{sample.Zone: "b"}
			}),
			want: []string{"Buy w-b small pve1"},
		},
		{name: "of none that there is", world: sample.Zoned("a").Waiting(1, joins(sample.Zone, "app=web")), reasons: []string{nodescaler.NoDomain}},
		{
			name: "on the node of one that runs", world: sample.Zoned("a").Node("n1", "pve1").In("a").Node("n2", "pve2").In("a").Pod("x", "n2", 100, 100, running).
				Waiting(2, joins(nodescaler.HostLabel, "app=web")),
			reasons: []string{nodescaler.PodsFitExisting},
		},
		{
			name: "on the node of one that runs, which is full", world: sample.Zoned("a").Node("n1", "pve1").In("a").Pod("x", "n1", 1750, 100, running).
				Waiting(1, joins(nodescaler.HostLabel, "app=web")),
			reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "all on one node, beside others", world: sample.New().Pod("a", "", 1000, 100).Waiting(3, func(p *nodescaler.Pod) {
				joins(nodescaler.HostLabel, "app=web", "app=web")(p)
				p.Requests.CPU = 600
			}),
			want: []string{"Buy w small pve2", "Buy w small pve1"},
		},
		{
			name: "more than a node holds", world: sample.New().Waiting(4, func(p *nodescaler.Pod) {
				joins(nodescaler.HostLabel, "app=web", "app=web")(p)
				p.Requests.CPU = 600
			}),
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.NoDomain},
		},
		{
			name: "so large that their sum is no number", world: sample.New().Waiting(2, func(p *nodescaler.Pod) {
				joins(nodescaler.HostLabel, "app=web", "app=web")(p)
				p.Requests.Memory = 5 << 60
			}),
			reasons: []string{"TooBig"},
		},
		{
			name: "one that no machine holds keeps none from joining", world: sample.New().Waiting(3, func(p *nodescaler.Pod) {
				joins(nodescaler.HostLabel, "app=web", "app=web")(p)
				if p.Requests.CPU = 600; p.Name == "p" {
					p.Requests.CPU = 9000
				}
			}),
			want: []string{"Buy w small pve1"}, reasons: []string{"TooBig"},
		},
		{
			name: "more than a node has slots for", world: sample.New().Change(func(w *sample.World) { w.Pools[0].PodSlots = 3 }).Several(3, "a", "", 300, 100).
				Waiting(3, joins(nodescaler.HostLabel, "app=web", "app=web")),
			want: []string{"Buy w small pve2", "Buy w small pve1"},
		},
		{
			name: "none in the zone of one that it is not to be with", world: sample.Zoned("a", "b").Node("n1", "pve1").In("a").Pod("x", "n1", 100, 100, func(p *nodescaler.Pod) {
				p.Topology = []nodescaler.Topology{{Key: sample.Zone, Mark: "app=web"}}
			}).Waiting(1, web),
			want: []string{"Buy w-b small pve2"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sample.Expect(t, sample.Decide(t, withUnneeded(t, nil), &c.world.Snapshot), c.want, c.reasons...)
		})
	}
}

// A node whose pods are spread, or kept apart or together, is emptied where the others let them go
// while it is there still, cordoned.
func TestNodesWithPodsByRulesOfTopologyAreEmptied(t *testing.T) {
	rule := func(change func(*nodescaler.Topology)) func(*nodescaler.Pod) {
		return func(p *nodescaler.Pod) {
			p.Phase, p.Has, p.Topology = podscaler.Running, []string{"app=web"}, []nodescaler.Topology{{Key: sample.Zone, Mark: "app=web"}}
			change(&p.Topology[0])
		}
	}
	spread := func(skew int) func(*nodescaler.Pod) { return rule(func(r *nodescaler.Topology) { r.Skew = skew }) }
	overHosts := func(skew int) func(*nodescaler.Pod) {
		return rule(func(r *nodescaler.Topology) { r.Key, r.Skew = nodescaler.HostLabel, skew })
	}
	heeding := rule(func(r *nodescaler.Topology) { r.Skew, r.Tolerated = 1, true })
	apart := rule(func(*nodescaler.Topology) {})
	together := rule(func(r *nodescaler.Topology) { r.Together = true })
	for _, c := range []struct {
		name  string
		pods  func(*nodescaler.Pod)
		zones string // of the nodes n1 and on, each with a pod
		spare string // may go, all others being kept
	}{
		{"spread, and the zone has another node", spread(1), "aab", "n1"},
		{"spread, and it was the only node of its zone", spread(1), "ab", ""},
		{"spread where no cordoned node counts, and it was", heeding, "ab", "n1"},
		{"spread by two, and it was", spread(2), "ab", "n1"},
		{"spread by two, and the other zone has so many", spread(2), "abb", ""},
		{"spread over nodes", overHosts(1), "aaa", ""},
		{"spread over nodes by two", overHosts(2), "aaa", "n1"},
		{"apart, and the other zones have one each", apart, "abc", ""},
		{"together", together, "aa", "n1"},
		{"together, where another is", together, "ab", "n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sample.Zoned("a", "b", "c")
			for i, zone := range c.zones {
				name := "n" + string(rune('1'+i))
				w.Node(name, "pve1").In(string(zone)).Pod("p-"+name, name, 100, 100, c.pods)
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

// Two pods of a node leave it at once: were one still there, the other could go to a zone that is
// full without it.
func TestPodsLeaveANodeAtOnce(t *testing.T) {
	spread := sample.SpreadBy(sample.Zone, 2)
	w := sample.Zoned("a", "b", "c").
		Node("n1", "pve1").In("a").Pod("p1", "n1", 100, 100, spread).Pod("q1", "n1", 100, 100, spread).
		Node("n2", "pve1").In("a").Pod("p2", "n2", 1800, 100).
		Node("n3", "pve1").In("b").Pod("p3", "n3", 100, 100, spread).
		Node("n4", "pve1").In("c").Pod("p4", "n4", 100, 100, spread).Pod("q4", "n4", 100, 100, spread)
	s := planner.NewSurplus(nodescaler.NewIndex(&w.Snapshot), func(n *nodescaler.NodeLoad) bool { return n.Name == "n1" })
	if got := s.List()[0]; got.Kept == nil || got.Kept.Code != nodescaler.NoPlaceElsewhere {
		t.Errorf("%+v", got)
	}
}
