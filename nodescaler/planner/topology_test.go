package planner

import (
	"maps"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Pods that end count where pods are kept apart, and not where they are spread.
func TestWhichPodsOfANodeCountForARule(t *testing.T) {
	const mark = "app=web"
	has := func(ends bool, marks ...string) *nodescaler.Pod {
		return &nodescaler.Pod{Pod: podscaler.Pod{Terminating: ends}, Has: marks}
	}
	crowd := nodescaler.Crowd{has(false, "app=api"), has(false, "app=api", mark), has(true, mark)}
	if n := marked(crowd, &nodescaler.Topology{Mark: mark, Skew: 1}); n != 1 {
		t.Errorf("spread: %d count, want 1", n)
	}
	if n := marked(crowd, &nodescaler.Topology{Mark: mark}); n != 2 {
		t.Errorf("apart: %d count, want 2", n)
	}
	if first(crowd, mark) != crowd[1] || len(first(crowd, "app=db").Has) != 0 {
		t.Error("the first pod with the mark is another")
	}
}

// A pod begins its group where none of it is there and none was given a domain, by the same label
// and mark.
func TestWhichPodsBeginTheirGroup(t *testing.T) {
	const mark = "app=web"
	p := &nodescaler.Pod{Has: []string{mark}, Topology: []nodescaler.Topology{{Key: "other", Mark: mark, Skew: 1}, {Key: sample.Zone, Mark: mark, Together: true}}}
	for _, c := range []struct {
		name  string
		given given
		n     int
		want  bool
	}{
		{"one was given a zone", given{mark, sample.Zone, "a"}, 1, false},
		{"it was taken back", given{mark, sample.Zone, "a"}, 0, true},
		{"one with another mark was", given{"app=api", sample.Zone, "a"}, 1, true},
		{"one was given a domain of another label", given{mark, "rack", "a"}, 1, true},
		{"one was given a domain to be spread over", given{mark, "other", "a"}, 1, true},
	} {
		w := sample.Zoned("a").Waiting(1, func(w *nodescaler.Pod) { w.Has, w.Topology = p.Has, p.Topology })
		y := &topology{turn: scanOf(w).turn, given: map[given]int{c.given: c.n}}
		if got := y.begins(p); got != c.want {
			t.Errorf("%s: it begins %t", c.name, got)
		}
	}
}

// The fewest pods are counted of domains with nodes, and of others once a pod was given one.
func TestTheFewestPodsOfADomain(t *testing.T) {
	const mark = "app=web"
	for _, c := range []struct {
		name  string
		has   map[string]int
		given map[string]int
		min   int
		want  int
	}{
		{name: "no domain"},
		{name: "one without nodes is not counted", has: map[string]int{"a": 3}, want: 3},
		{name: "it is, once a pod was given it", has: map[string]int{"a": 3}, given: map[string]int{"b": 1}, want: 1},
		{name: "those that were given count", has: map[string]int{"a": 3, "b": 1}, given: map[string]int{"b": 1}, want: 2},
		{name: "as many domains as there are to be", has: map[string]int{"a": 3, "b": 2}, min: 2, want: 2},
		{name: "fewer", has: map[string]int{"a": 3, "b": 2}, min: 3},
	} {
		y := &topology{given: map[given]int{}}
		for domain, n := range c.given {
			y.given[given{mark, sample.Zone, domain}] = n
		}
		r := &rule{Topology: nodescaler.Topology{Key: sample.Zone, Mark: mark, MinDomains: c.min}, has: c.has, open: map[string]where{"a": onNode, "b": onOffer}}
		if got := y.least(r); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Into each group go as many pods as nodes with room take of it.
func TestHowManyPodsNodesTakeOfEachGroup(t *testing.T) {
	rule := sample.SpreadBy(nodescaler.HostLabel, 2)
	w := sample.New().Node("n1", "pve1").Pod("x", "n1", 100, 100, rule).Node("n2", "pve2").Pod("y", "n2", 1800, 100).Waiting(3, rule)
	s := scanOf(w)
	p := s.X.Pending[0]
	y := &topology{turn: s.turn, asked: map[nodescaler.Topology]int{p.Topology[0]: 3}}
	if got := y.level(p, p, &p.Topology[0]); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("%v, want 1 of the first and none of the second: a node without room takes none", got)
	}
}

// A domain can take a pod where a machine of it is on its way, if the pool is known and holds it.
func TestADomainIsOpenThroughAMachineOnItsWay(t *testing.T) {
	for _, c := range []struct {
		pool string
		cpu  pricing.MilliCPU
		want map[string]where
	}{
		{"w-a", 1000, map[string]where{"a": onNode}},
		{"w-a", 1900, map[string]where{}},
		{"gone", 1000, map[string]where{}},
	} {
		s := scanOf(sample.Zoned("a"))
		y := &topology{turn: s.turn, due: []dueMachine{{pool: c.pool, shape: sample.Small}}, nodes: map[[3]string]*nodescaler.Node{}}
		r := &rule{Topology: nodescaler.Topology{Key: sample.Zone}, open: map[string]where{}}
		y.look(&nodescaler.Pod{Requests: pricing.Resources{CPU: c.cpu}}, r)
		if !maps.Equal(r.open, c.want) {
			t.Errorf("%s, %d: %v are open, want %v", c.pool, c.cpu, r.open, c.want)
		}
	}
}

// A node that is to come, or that a rule wants there to be, has no pod yet.
func TestNodesToComeHaveNoPodOfAGroup(t *testing.T) {
	for _, c := range []struct {
		name   string
		min    int
		world  func(*sample.World)
		coming []*nodescaler.Machine
		want   []int
	}{
		{name: "the only node has one already", want: []int{1, 1, 1}},
		{name: "a second one is on its way", coming: []*nodescaler.Machine{{}}, want: []int{1, 0}},
		{name: "two nodes must have some", min: 2, want: []int{1, 0}},
		{name: "one must", min: 1, want: []int{1, 1, 1}},
		{name: "another has none, and no room", world: func(w *sample.World) {
			w.Node("n0", "pve1").Pod("z", "n0", 1800, 100)
			slices.Reverse(w.Nodes)
		}, want: []int{1, 0}},
	} {
		rule := func(p *nodescaler.Pod) {
			sample.SpreadBy(nodescaler.HostLabel, 2)(p)
			p.Topology[0].MinDomains = c.min
		}
		w := sample.New().Node("n1", "pve1").Pod("x", "n1", 100, 100, rule).Waiting(3, rule)
		if c.world != nil {
			c.world(w)
		}
		s := scanOf(w)
		s.coming = c.coming
		p := s.X.Pending[0]
		y := &topology{turn: s.turn, asked: map[nodescaler.Topology]int{p.Topology[0]: 3}}
		if got := y.level(p, p, &p.Topology[0]); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
