package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/planner"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

func anyNode(*nodescaler.NodeLoad) bool { return true }

func TestSpares(t *testing.T) {
	min := func(n int) func(*sample.World) { return func(w *sample.World) { w.Pools[0].Min = n } }
	for name, c := range map[string]struct {
		w       *sample.World
		want    string
		without string // what could go besides without the pods of ns/gone
	}{
		"an empty node is spare, and one with daemons only": {
			w:    sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Pod("d", "w-2", 100, 100, sample.Daemon),
			want: "w-1: spare; w-2: spare",
		},
		"pods move to the fullest node": {
			w: sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Node("w-3", "pve1").
				Pod("a", "w-1", 100, 100).Pod("b", "w-2", 900, 100).Pod("c", "w-3", 800, 100),
			want: "w-1: spare to w-2; w-2: NodeTakesPods; w-3: spare to w-2",
		},
		"room that one leaves is not there for the next": {
			w: sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Node("w-3", "pve1").
				Pod("a", "w-1", 700, 100).Pod("b", "w-2", 900, 100).Pod("c", "w-3", 1000, 100),
			want: "w-1: spare to w-3; w-2: NoPlaceElsewhere; w-3: NodeTakesPods",
		},
		"a pool keeps its minimum": {
			w:    sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Change(min(1)),
			want: "w-1: spare; w-2: PoolAtMin",
		},
		"a pod that must not be evicted keeps its node": {
			w:    sample.New().Node("w-1", "pve1").Pod("a", "w-1", 1, 1, pinned).Node("w-2", "pve1").Pod("b", "w-2", 1000, 1),
			want: "w-1: PodPinned; w-2: spare to w-1",
		},
		"a node that starts is waited for, though nothing is on it": {
			w: sample.New().Node("w-1", "pve1").Node("w-2", "pve1", func(n *nodescaler.Node) { n.Ready = false }).
				Node("w-3", "pve1", func(n *nodescaler.Node) { n.Ready, n.Joined = false, n.Joined.Add(59*time.Minute) }).Pod("a", "w-1", 2000, 1).Pod("b", "", 1000, 1),
			want: "w-1: NoPlaceElsewhere; w-2: spare; w-3: NodeNotReady",
		},
		"pods that wait have room first": {
			w:    sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Pod("a", "", 1000, 1),
			want: "w-1: NodeTakesPods; w-2: spare",
		},
		"a host that is away may be carrying anything": {
			w: sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("b", "w-2", 100, 1).
				Change(func(w *sample.World) { w.Hosts[0].Online = false }),
			want: "w-1: HostOffline; w-2: NoPlaceElsewhere",
		},
		"without some pods, what is left of their node may fit": {
			w: sample.New().Node("w-1", "pve1").Node("w-2", "pve1").
				Pod("a", "w-1", 1000, 1).Pod("g", "w-1", 100, 1, of("ns/gone")).Pod("b", "w-2", 800, 1).Pod("h", "w-2", 900, 1, of("ns/gone")),
			want: "w-1: NoPlaceElsewhere; w-2: NoPlaceElsewhere", without: "w-1",
		},
		"a pod that is gone pins nothing": {
			w:    sample.New().Node("w-1", "pve1").Pod("g", "w-1", 1000, 1, of("ns/gone"), pinned).Node("w-2", "pve1").Pod("b", "w-2", 1700, 1),
			want: "w-1: PodPinned; w-2: NoPlaceElsewhere", without: "w-1",
		},
		"pods that moved leave once more": {
			w: sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Node("w-3", "pve1").
				Pod("a", "w-1", 200, 1).Pod("g", "w-2", 1000, 1, of("ns/gone")).Pod("c", "w-3", 700, 1, pinned),
			want: "w-1: spare to w-2; w-2: NodeTakesPods; w-3: PodPinned", without: "w-2",
		},
		"and the pool's minimum counts what is spare": {
			w: sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Pod("g", "w-2", 1000, 1, of("ns/gone")).
				Change(min(1)),
			want: "w-1: spare; w-2: PoolAtMin", without: "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := nodescaler.NewIndex(&c.w.Snapshot)
			s := planner.NewSurplus(x, anyNode)
			if diff := cmp.Diff(c.want, verdicts(s)); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(s.Without(podsOf(x, "ns/gone")), " "); got != c.without {
				t.Errorf("without ns/gone could go %q, want %q", got, c.without)
			}
		})
	}
}

func of(workload string) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) { p.Workload = workload }
}

func verdicts(s *planner.Surplus) string {
	var all []string
	for _, found := range s.List() {
		text := "spare"
		switch {
		case found.Kept != nil:
			text = found.Kept.Code
		case len(found.To) > 0:
			text += " to " + strings.Join(found.To, ",")
		}
		all = append(all, found.Node+": "+text)
	}
	return strings.Join(all, "; ")
}

func podsOf(x *nodescaler.Index, workload string) []*nodescaler.Pod {
	var pods []*nodescaler.Pod
	for i := range x.Nodes {
		for _, p := range x.Nodes[i].Pods {
			if p.Workload == workload {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

func TestNodesThatMustStayAreNotLookedAt(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve1")
	s := planner.NewSurplus(nodescaler.NewIndex(&w.Snapshot), func(n *nodescaler.NodeLoad) bool { return n.Name != "w-1" })
	if got := verdicts(s); got != "w-2: spare" {
		t.Error(got)
	}
}

// TestWhatIsSpareCanBeSpared packs the pods of the nodes that could go into the others. Looking
// for more changes nothing.
func TestWhatIsSpareCanBeSpared(t *testing.T) {
	rules := [][]nodescaler.Topology{nil, {{Key: "zone", Mark: "a", Skew: 1}}, {{Key: "zone", Mark: "a"}}, {{Key: "zone", Mark: "a", Together: true}}}
	rapid.Check(t, func(t *rapid.T) {
		w := sample.New()
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			name := fmt.Sprint("w-", i)
			w.Node(name, "pve1")
			w.Nodes[i].Labels = map[string]string{"zone": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone")}
			for j := range rapid.IntRange(0, 3).Draw(t, "pods") {
				w.Pod(fmt.Sprintf("%s-%d", name, j), name, pricing.MilliCPU(100*rapid.IntRange(0, 9).Draw(t, "cpu")), 100,
					of(rapid.SampledFrom([]string{"ns/stays", "ns/gone"}).Draw(t, "workload")),
					func(p *nodescaler.Pod) {
						p.Topology = rapid.SampledFrom(rules).Draw(t, "rule")
						p.Has = []string{"a"}
					})
			}
		}
		w.Pools[0].Min = rapid.IntRange(0, 2).Draw(t, "min")
		x := nodescaler.NewIndex(&w.Snapshot)
		s := planner.NewSurplus(x, anyNode)
		var spare []string
		for _, found := range s.List() {
			if found.Kept == nil {
				spare = append(spare, found.Node)
			}
		}
		mustFit(t, w, spare, "")
		s.Without(podsOf(x, "ns/stays"))
		more := s.Without(podsOf(x, "ns/gone"))
		mustFit(t, w, append(spare, more...), "ns/gone")
		if fresh := planner.NewSurplus(x, anyNode).Without(podsOf(x, "ns/gone")); !slices.Equal(fresh, more) {
			t.Fatalf("%v are spare without ns/gone, and %v after others were tried", fresh, more)
		}
	})
}

func mustFit(t *rapid.T, w *sample.World, spare []string, gone string) {
	t.Helper()
	if distinct := slices.Compact(slices.Sorted(slices.Values(spare))); len(distinct) != len(spare) || len(w.Nodes)-len(spare) < min(w.Pools[0].Min, len(w.Nodes)) {
		t.Fatalf("%v of %d nodes are spare", spare, len(w.Nodes))
	}
	var p packing.Problem
	for i := range w.Nodes {
		n := &w.Nodes[i]
		free := n.Allocatable
		for j := range w.Pods {
			pod := &w.Pods[j]
			switch {
			case pod.Node != n.Name || pod.Workload == gone:
			case slices.Contains(spare, n.Name):
				p.Items = append(p.Items, packing.Item{Name: pod.Name, Requests: pod.Requests})
			default:
				free = free.Minus(pod.Requests)
			}
		}
		if !slices.Contains(spare, n.Name) {
			p.Bins = append(p.Bins, packing.Bin{Name: n.Name, Free: free, Slots: 110})
		}
	}
	for _, placed := range packing.Solve(p).Placements {
		if placed.Bin == "" {
			t.Fatalf("%v cannot all go: %s: %s", spare, placed.Item, placed.Text)
		}
	}
}

func TestSparesLeaveTheSnapshotAsItIs(t *testing.T) {
	s := fleet()
	before := sample.Copy(s)
	x := nodescaler.NewIndex(s)
	spares := planner.NewSurplus(x, anyNode)
	spares.Without(podsOf(x, "ns/app-007"))
	if diff := cmp.Diff(before, s); diff != "" {
		t.Error(diff)
	}
	for i := range x.Nodes {
		if !slices.IsSortedFunc(x.Nodes[i].Pods, func(a, b *nodescaler.Pod) int { return strings.Compare(a.Name, b.Name) }) {
			t.Fatalf("the pods of %s are not sorted any more", x.Nodes[i].Name)
		}
	}
}

// BenchmarkSpares looks at 1,000 nodes, and then at each of the 400 workloads on them.
func BenchmarkSpares(b *testing.B) {
	s := fleet()
	x := nodescaler.NewIndex(s)
	groups := map[string][]*nodescaler.Pod{}
	for i := range x.Nodes {
		for _, p := range x.Nodes[i].Pods {
			groups[p.Workload] = append(groups[p.Workload], p)
		}
	}
	b.Run("nodes", func(b *testing.B) {
		for b.Loop() {
			planner.NewSurplus(x, anyNode)
		}
	})
	b.Run("workloads", func(b *testing.B) {
		spares := planner.NewSurplus(x, anyNode)
		for b.Loop() {
			for _, pods := range groups {
				spares.Without(pods)
			}
		}
	})
}
