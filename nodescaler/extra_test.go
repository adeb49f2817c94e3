package nodescaler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func storage(n int64) pricing.Amounts {
	return pricing.Amounts{{Name: pricing.EphemeralStorage, N: n}}
}

func attachable(n int64) pricing.Amounts {
	return pricing.Amounts{{Name: AttachableVolumes + "few", N: n}}
}

func TestExtrasOfANewMachine(t *testing.T) {
	diskless, disk := pricing.Shape{Name: "s", CPU: 2000}, pricing.Shape{Name: "s", CPU: 2000, Disk: 41 * pricing.GiB}
	for _, c := range []struct {
		name  string
		says  pricing.Amounts
		shape pricing.Shape
		age   time.Duration // of its nodes
		nodes []pricing.Amounts
		want  pricing.Amounts
	}{
		{name: "nothing is known", shape: diskless, want: storage(pricing.Boundless)},
		{name: "a disk", shape: disk, want: storage(34 << 30)},
		{name: "a disk of next to nothing", shape: pricing.Shape{Disk: pricing.MiB}, want: storage(1)},
		{name: "a disk and devices", says: gpus(2), shape: disk, want: storage(34 << 30).Plus(gpus(2))},
		{name: "devices", says: gpus(2), shape: diskless, want: storage(pricing.Boundless).Plus(gpus(2))},
		{name: "storage is said", says: storage(7), shape: disk, want: storage(7)},
		{name: "nodes have less", says: gpus(2), shape: disk, age: time.Hour, nodes: []pricing.Amounts{storage(30 << 30).Plus(gpus(1))}, want: storage(30 << 30).Plus(gpus(1))},
		{name: "nodes have more", says: gpus(2), shape: disk, age: time.Hour, nodes: []pricing.Amounts{storage(38 << 30).Plus(gpus(4))}, want: storage(38 << 30).Plus(gpus(2))},
		{name: "one of two is broken", says: gpus(2), shape: disk, age: time.Hour, nodes: []pricing.Amounts{storage(30 << 30).Plus(gpus(2)), storage(30 << 30)}, want: storage(30 << 30).Plus(gpus(2))},
		{name: "none has any", says: gpus(2), shape: diskless, age: time.Hour, nodes: []pricing.Amounts{storage(30 << 30)}, want: storage(30 << 30)},
		{name: "they are new", says: gpus(2), shape: disk, age: time.Minute, nodes: []pricing.Amounts{nil}, want: storage(34 << 30).Plus(gpus(2))},
		{name: "nodes that say nothing of it", shape: disk, age: time.Hour, nodes: []pricing.Amounts{nil}, want: storage(34 << 30)},
		{name: "nodes take few volumes", shape: disk, age: time.Hour, nodes: []pricing.Amounts{storage(30 << 30).Plus(attachable(3))},
			want: storage(30 << 30).Plus(attachable(3))},
		{name: "the driver is not on every node", shape: disk, age: time.Hour,
			nodes: []pricing.Amounts{storage(30 << 30).Plus(attachable(pricing.Boundless)), storage(30 << 30).Plus(attachable(3)), storage(30 << 30).Plus(attachable(pricing.Boundless))},
			want:  storage(30 << 30).Plus(attachable(3))},
		{name: "new nodes take few volumes", shape: disk, age: time.Minute, nodes: []pricing.Amounts{attachable(3)}, want: storage(34 << 30).Plus(attachable(pricing.Boundless))},
		{name: "the pool says how many", says: attachable(2), shape: disk, age: time.Minute, nodes: []pricing.Amounts{attachable(3)}, want: storage(34 << 30).Plus(attachable(2))},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
			s := &Snapshot{Now: now, Pools: []Pool{{Name: "w", Shapes: []pricing.Shape{c.shape}, Extra: c.says}}}
			for i, has := range c.nodes {
				name := string(rune('a' + i))
				s.Machines = append(s.Machines, Machine{Name: name, Pool: "w", Shape: c.shape, Phase: Joined})
				s.Nodes = append(s.Nodes, Node{Name: name, Machine: name, Pool: "w", Ready: true, Joined: now.Add(-c.age), Extra: has})
			}
			x := NewIndex(s)
			if d := cmp.Diff(c.want, x.Pool("w").Extras(c.shape)); d != "" {
				t.Error(d)
			}
			if s.Pools[0].Seen != nil {
				t.Error("the snapshot was written to")
			}
		})
	}
}

// Where no node of a pool was seen, its machines take as many volumes as there are, however few
// other nodes take.
func TestOtherNodesLimitsAreNoPoolsOwn(t *testing.T) {
	shape := pricing.Shape{Name: "s", CPU: 2000, Memory: 4 << 30}
	x := NewIndex(&Snapshot{
		Pools: []Pool{{Name: "w", Shapes: []pricing.Shape{shape}}},
		Nodes: []Node{{Name: "control", Ready: true, Extra: attachable(1)}},
	})
	if p := (&Pod{Extra: attachable(20)}); !x.Pool("w").Holds(p, shape, "") || Refusal(p, x.Node("control").Node, Used{}) != InsufficientResource {
		t.Errorf("a new machine has %v, the node %v", x.Pool("w").Extras(shape), x.Node("control").Extra)
	}
}

// A device's plugin starts on the node, after it.
func TestANodeWithoutItsPoolsDeviceIsStartingWhileItIsNew(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		age   time.Duration
		has   pricing.Amounts
		ready bool
	}{
		{"with the device", time.Minute, gpus(1), true},
		{"without", time.Minute, storage(1), false},
		{"without, and not new", NodeStartup, storage(1), true},
	} {
		s := &Snapshot{
			Now: now, Pools: []Pool{{Name: "w", Extra: gpus(2).Plus(storage(5))}},
			Nodes: []Node{{Name: "a", Machine: "a", Pool: "w", Ready: true, Joined: now.Add(-c.age), Extra: c.has}},
		}
		if got := NewIndex(s).Node("a").Ready; got != c.ready || !s.Nodes[0].Ready {
			t.Errorf("%s: ready %v", c.name, got)
		}
	}
}

func TestDaemonsTakeDevicesAndStorage(t *testing.T) {
	p := &Pool{Extra: gpus(1).Plus(storage(10)), Daemons: Daemons{Static: Used{Extra: storage(1)}, Sets: []*Pod{
		{Pod: podscaler.Pod{Name: "logs"}, Extra: storage(4)}, {Pod: podscaler.Pod{Name: "more logs"}, Extra: storage(6)},
	}}}
	if d := cmp.Diff(gpus(1).Plus(storage(5)), p.Empty(pricing.Shape{CPU: 2000}).Extra); d != "" {
		t.Error(d)
	}
}

func TestPlacesOfReplicasWithDevices(t *testing.T) {
	s := &Snapshot{
		Pools: []Pool{{Name: "w", Shapes: []pricing.Shape{{Name: "s", CPU: 4000, Memory: 4 << 30}}, Max: 3, Extra: gpus(2)}},
		Hosts: []Host{{Host: pricing.Host{Name: "h", Room: pricing.Resources{CPU: 40000, Memory: 40 << 30}}, Online: true}},
		Nodes: []Node{{Name: "n", Ready: true, Allocatable: pricing.Resources{CPU: 4000, Memory: 4 << 30}, Extra: gpus(3)}},
		Pods:  []Pod{{Pod: podscaler.Pod{Name: "ns/on"}, Node: "n", Extra: gpus(1)}},
	}
	like := Pod{Requests: pricing.Resources{CPU: 100, Memory: 1 << 20}, Extra: gpus(1)}
	places := Share(NewIndex(s), []Ask{{Workload: "ns/a", Like: like, Replicas: 1, Most: 20}})
	if p := places[0]; p.Most != 2 || p.PerMachine != 2 {
		t.Errorf("places %+v, want 2 on the node and 2 on each machine", p)
	}
	if n := NewIndex(s).Most(&like); n != 2+3*2 {
		t.Errorf("room for %d at most, want 8", n)
	}
}

func TestNodesHaveTheDevicesThatTheirPoolPromises(t *testing.T) {
	const gpu, nic = DeviceClass + "gpu", DeviceClass + "nic"
	amounts := func(n ...int64) pricing.Amounts {
		return pricing.AmountsOf(map[string]int64{gpu: n[0], nic: n[1]})
	}
	pools := []Pool{{Name: "w", Extra: amounts(2, 1)}, {Name: "plain"}}
	nodes := []Node{
		{Name: "whole", Pool: "w", Devices: 3}, {Name: "part", Pool: "w", Devices: 1}, {Name: "none", Pool: "w"},
		{Name: "plain", Pool: "plain", Devices: 3}, {Name: "other", Devices: 3},
	}
	got := WithDevices(nodes, pools)
	for i, want := range []pricing.Amounts{amounts(2, 1), amounts(1, 1), nil, nil, nil} {
		if n := got[i]; n.Extra.String() != want.String() || nodes[i].Extra != nil {
			t.Errorf("%s has %q, want %q, and was given %q", n.Name, n.Extra, want, nodes[i].Extra)
		}
	}
}

func TestWhatNodesLeaveToPodsCounts(t *testing.T) {
	const gib = pricing.GiB
	shape, now := pricing.Shape{Name: "s", CPU: 4000, Memory: 64 * gib}, time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	said := pricing.Resources{CPU: 3800, Memory: 63 * gib}
	less, more := pricing.Resources{CPU: 3900, Memory: 62 * gib}, pricing.Resources{CPU: 4000, Memory: 64 * gib}
	type node struct {
		shows           pricing.Resources
		joined          time.Duration // ago
		unwell, drifted bool
	}
	for _, c := range []struct {
		name   string
		nodes  []node
		before map[pricing.Shape]pricing.Resources
		want   pricing.Resources
	}{
		{name: "no node yet", want: said},
		{name: "there was one", before: map[pricing.Shape]pricing.Resources{shape: less}, want: pricing.Resources{CPU: 3800, Memory: 62 * gib}},
		{name: "less of one resource", nodes: []node{{shows: less}}, want: pricing.Resources{CPU: 3800, Memory: 62 * gib}},
		{name: "more than is said", nodes: []node{{shows: more}}, want: said},
		{name: "more than there was", nodes: []node{{shows: more}}, before: map[pricing.Shape]pricing.Resources{shape: less}, want: said},
		{name: "the newest has less", nodes: []node{{shows: more, joined: time.Hour}, {shows: less}}, want: pricing.Resources{CPU: 3800, Memory: 62 * gib}},
		{name: "the newest has more", nodes: []node{{shows: more}, {shows: less, joined: time.Hour}}, want: said},
		{name: "it is not ready", nodes: []node{{shows: less, unwell: true}}, want: said},
		{name: "it drifted", nodes: []node{{shows: less, drifted: true}}, want: said},
		{name: "it shows nothing", nodes: []node{{}}, want: said},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Snapshot{Now: now, Pools: []Pool{{Name: "w", Shapes: []pricing.Shape{shape}, Reserved: pricing.Resources{CPU: 200, Memory: gib}, Allocatable: c.before}}}
			for i, n := range c.nodes {
				name := string(rune('a' + i))
				m := Machine{Name: name, Pool: "w", Shape: shape, Phase: Joined}
				if n.drifted {
					m.Drifted = "it is of another template"
				}
				s.Machines = append(s.Machines, m)
				s.Nodes = append(s.Nodes, Node{Name: name, Machine: name, Pool: "w", Ready: !n.unwell, Joined: now.Add(-n.joined), Allocatable: n.shows})
			}
			remembered := len(c.before)
			if d := cmp.Diff(c.want, NewIndex(s).Pool("w").Capacity(shape)); d != "" {
				t.Error(d)
			}
			if len(c.before) != remembered || s.Pools[0].Allocatable != nil && c.before == nil {
				t.Error("the snapshot was changed")
			}
		})
	}
}

// A pool's nodes have hosts as zones if its newest has, regardless of what was promised or shown
// before.
func TestNodesShowWhetherHostsAreZones(t *testing.T) {
	type node struct {
		zone    string
		joined  time.Duration // ago
		drifted bool
	}
	for _, c := range []struct {
		name   string
		before bool
		zone   string // that the pool says
		nodes  []node
		want   bool
	}{
		{name: "no node yet"},
		{name: "there was one", before: true, want: true},
		{name: "its host", nodes: []node{{zone: "h1"}}, want: true},
		{name: "another host, since it was moved", nodes: []node{{zone: "h2"}}, want: true},
		{name: "another zone", before: true, nodes: []node{{zone: "rack-1"}}},
		{name: "the newest has another zone", before: true, nodes: []node{{zone: "h1", joined: time.Hour}, {zone: "rack-1"}}},
		{name: "the newest has its host", nodes: []node{{zone: "h1"}, {zone: "rack-1", joined: time.Hour}}, want: true},
		{name: "the newest has none", before: true, nodes: []node{{zone: "h1", joined: time.Hour}, {joined: NodeStartup}}},
		{name: "the newest has none yet", before: true, nodes: []node{{zone: "h1", joined: time.Hour}, {}}, want: true},
		{name: "one that drifted has none", before: true, nodes: []node{{joined: time.Hour, drifted: true}}, want: true},
		{name: "one that drifted has its host", nodes: []node{{zone: "h1", drifted: true}}, want: true},
		{name: "the pool says its zone", zone: "rack-1", nodes: []node{{zone: "h1"}}},
	} {
		now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
		s := &Snapshot{Now: now, Pools: []Pool{{Name: "w", HostIsZone: c.before, Labels: map[string]string{ZoneLabel: c.zone}}}}
		for _, h := range []string{"h1", "h2"} {
			s.Hosts = append(s.Hosts, Host{Host: pricing.Host{Name: h}, Online: true})
		}
		for i, n := range c.nodes {
			name := string(rune('a' + i))
			m := Machine{Name: name, Pool: "w", Host: "h1", Phase: Joined}
			if n.drifted {
				m.Drifted = "it is of another template"
			}
			s.Machines = append(s.Machines, m)
			s.Nodes = append(s.Nodes, Node{Name: name, Machine: name, Pool: "w", Ready: true, Joined: now.Add(-n.joined), Labels: map[string]string{ZoneLabel: n.zone}})
		}
		if got := NewIndex(s).Pool("w").HostIsZone; got != c.want || s.Pools[0].HostIsZone != c.before {
			t.Errorf("%s: hosts are zones: %t, and in the snapshot: %t", c.name, got, s.Pools[0].HostIsZone)
		}
	}
}

// A pool's shapes are types while its newest node does not show another one.
func TestShapesAreTypesUnlessNodesShowOthers(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		is      string // the node's type
		joined  time.Duration
		drifted string
		want    bool
	}{
		{name: "its shape", is: "small", want: true},
		{name: "another type", is: "k3s"},
		{name: "another type, of one that drifted", is: "k3s", drifted: "its shape is another", want: true},
		{name: "none yet", want: true},
		{name: "none", joined: NodeStartup},
	} {
		s := &Snapshot{
			Now: now, Pools: []Pool{{Name: "w", ShapeIsType: true}},
			Machines: []Machine{{Name: "a", Pool: "w", Host: "h1", Phase: Joined, Shape: pricing.Shape{Name: "small"}, Drifted: c.drifted}},
			Nodes:    []Node{{Name: "a", Machine: "a", Pool: "w", Ready: true, Joined: now.Add(-c.joined), Labels: map[string]string{TypeLabel: c.is}}},
		}
		if got := NewIndex(s).Pool("w").ShapeIsType; got != c.want || !s.Pools[0].ShapeIsType {
			t.Errorf("%s: shapes are types: %t, and in the snapshot: %t", c.name, got, s.Pools[0].ShapeIsType)
		}
	}
}

// A daemon that selects a shape takes room of its machines alone.
func TestDaemonsOfAShapeTakeRoomThere(t *testing.T) {
	small, large := pricing.Shape{Name: "small", CPU: 4000}, pricing.Shape{Name: "large", CPU: 8000}
	for _, c := range []struct {
		is           string // that the daemon selects
		types        bool
		small, large pricing.MilliCPU // free
	}{
		{"large", true, 4000, 7000},
		{"of-another", true, 3000, 7000}, // a label that nodes get later
		{"large", false, 3000, 7000},
	} {
		agent := &Pod{Selector: map[string]string{TypeLabel: c.is}, Requests: pricing.Resources{CPU: 1000}}
		p := Pool{ShapeIsType: c.types, Shapes: []pricing.Shape{small, large}, Daemons: Daemons{Sets: []*Pod{agent}}}
		if s, l := p.Empty(small).Free.CPU, p.Empty(large).Free.CPU; s != c.small || l != c.large {
			t.Errorf("%+v: %d and %d are free", c, s, l)
		}
	}
}
