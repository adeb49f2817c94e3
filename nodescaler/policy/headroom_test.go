package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// room asks for headroom of so many pods of a size.
func room(count int, cpu pricing.MilliCPU, change ...func(*nodescaler.Pod)) func(*sample.World) {
	return func(w *sample.World) {
		name := fmt.Sprintf("ns/room%d", len(w.Headroom)+1)
		like := nodescaler.Pod{Workload: "ns/CapacityBuffer/" + name[3:], Requests: pricing.Resources{CPU: cpu, Memory: 100 * pricing.MiB}}
		for _, c := range change {
			c(&like)
		}
		w.Headroom = append(w.Headroom, nodescaler.Headroom{Name: name, Like: like, Count: count})
	}
}

func most(n int) func(*sample.World) { return func(w *sample.World) { w.Pools[0].Max = n } }

// counts are the numbers of a plan's headroom.
func counts(p nodescaler.Plan) (all []string) {
	for _, h := range p.Headroom {
		why := ""
		if h.Why != nil {
			why = " " + h.Why.Code
		}
		all = append(all, fmt.Sprintf("%s %d/%d+%d%s", h.Name, h.Ready, h.Wanted, h.Coming, why))
	}
	return all
}

// Small machines have 1800m for pods.
func TestHeadroomBuysMachines(t *testing.T) {
	tests := []struct {
		name   string
		world  *sample.World
		change []func(*sample.World)
		want   []string
		room   []string
		reason string
	}{
		{name: "none is asked for", world: full(1)},
		{name: "there is room on a node", world: sample.New().Node("w-1", "pve1").Pod("p", "w-1", 300, 100), change: []func(*sample.World){room(1, 1500)},
			room: []string{"ns/room1 1/1+0"}},
		{name: "there is no room", world: full(1), change: []func(*sample.World){room(1, 1500)},
			want: []string{"Buy w small pve2"}, room: []string{"ns/room1 0/1+1"}, reason: nodescaler.HeadroomWanted},
		{name: "there is some", world: sample.New().Node("w-1", "pve1"), change: []func(*sample.World){room(2, 1500)},
			want: []string{"Buy w small pve2"}, room: []string{"ns/room1 1/2+1"}},
		{name: "a machine is coming", world: full(1).Machine("w-2", "pve2", nodescaler.Booting, lately), change: []func(*sample.World){room(1, 1500)},
			room: []string{"ns/room1 0/1+1"}},
		{name: "a pod that waits comes first", world: full(1).Node("w-2", "pve2").Pod("q", "", 1500, 100), change: []func(*sample.World){room(1, 1500)},
			want: []string{"Buy w small pve3"}, room: []string{"ns/room1 0/1+1"}},
		{name: "a pod that waits has the last machine", world: full(1).Pod("q", "", 1500, 100), change: []func(*sample.World){room(1, 1500), most(2)},
			want: []string{"Buy w small pve2"}, room: []string{"ns/room1 0/1+0 PoolFull"}, reason: nodescaler.HeadroomShort},
		{name: "a pod that waits has the machine that is coming", world: full(1).Machine("w-2", "pve2", nodescaler.Booting, lately).Pod("q", "", 1500, 100), change: []func(*sample.World){room(1, 1500)},
			want: []string{"Buy w small pve3"}, room: []string{"ns/room1 0/1+1"}},
		{name: "two of them", world: full(1), change: []func(*sample.World){room(1, 900), room(1, 900)},
			want: []string{"Buy w small pve2"}, room: []string{"ns/room1 0/1+1", "ns/room2 0/1+1"}},
		{name: "pods that are to be apart", world: full(1), change: []func(*sample.World){room(2, 100, sample.Lonely)},
			want: []string{"Buy w small pve2"}, room: []string{"ns/room1 1/2+1"}},
		{name: "one that fits no machine", world: full(1), change: []func(*sample.World){room(1, 9000)},
			room: []string{"ns/room1 0/1+0 TooBig"}},
		{name: "nothing", world: full(1), change: []func(*sample.World){room(0, 900)}, room: []string{"ns/room1 0/0+0"}},
		{name: "beyond a quota of pods", world: full(1), change: []func(*sample.World){room(3, 900), func(w *sample.World) {
			w.Quotas = []nodescaler.Quota{{Namespace: "ns", Replicas: 2}}
		}}, want: []string{"Buy w small pve2"}, room: []string{"ns/room1 0/3+1 NamespaceQuota"}},
		{name: "beyond the cost limit", world: full(1), change: []func(*sample.World){room(1, 900), func(w *sample.World) {
			w.Limit = w.Prices.Rate(sample.Small, "", sample.Noon)
		}}, room: []string{"ns/room1 0/1+0 HeadroomShort"}},
	}
	for _, policy := range []string{"joint", "unneeded"} {
		for _, c := range tests {
			t.Run(policy+"/"+c.name, func(t *testing.T) {
				w := &sample.World{Snapshot: *sample.Copy(&c.world.Snapshot)}
				for _, change := range c.change {
					w.Change(change)
				}
				p := sample.Decide(t, build(t, Spec{Policy: policy}), w.At(0))
				var reasons []string
				if c.reason != "" {
					reasons = []string{c.reason}
				}
				sample.Expect(t, p, c.want, reasons...)
				if d := cmp.Diff(c.room, counts(p)); d != "" {
					t.Errorf("headroom (-want +got):\n%s%s", d, sample.Reasons(p))
				}
			})
		}
	}
}

// Headroom may be spread, kept apart or together where no pod is.
func TestHeadroomMayHaveRules(t *testing.T) {
	together := func(p *nodescaler.Pod) {
		p.Has, p.Topology = []string{"app=web"}, []nodescaler.Topology{{Key: nodescaler.HostLabel, Mark: "app=web", Together: true}}
	}
	for _, policy := range []string{"joint", "unneeded"} {
		for _, c := range []struct {
			name string
			like func(*nodescaler.Pod)
			want []string
			room string
		}{
			{"spread over nodes, of which there is one", sample.SpreadBy(nodescaler.HostLabel, 1), nil, "ns/room1 2/2+0"},
			{"spread over nodes, of which there are to be two", func(p *nodescaler.Pod) {
				sample.SpreadBy(nodescaler.HostLabel, 1)(p)
				p.Topology[0].MinDomains = 2
			}, []string{"Buy w small pve2"}, "ns/room1 1/2+1"},
			{"together", together, nil, "ns/room1 2/2+0"},
		} {
			t.Run(policy+"/"+c.name, func(t *testing.T) {
				w := full(1).Change(room(2, 100, c.like)).Change(func(w *sample.World) { w.Nodes[0].Labels = map[string]string{nodescaler.HostLabel: "w-1"} })
				p := sample.Decide(t, build(t, Spec{Policy: policy}), w.At(0))
				sample.Expect(t, p, c.want)
				if d := cmp.Diff([]string{c.room}, counts(p)); d != "" {
					t.Errorf("headroom (-want +got):\n%s%s", d, sample.Reasons(p))
				}
			})
		}
	}
}

// later is what a policy plans in 40 minutes in which nothing is done.
func later(t *testing.T, policy string, w *sample.World) []string {
	p := build(t, Spec{Policy: policy})
	var all []string
	for at := time.Duration(0); at <= 40*time.Minute; at += time.Minute {
		for _, line := range sample.Lines(sample.Decide(t, p, w.At(at))) {
			if !slices.Contains(all, line) {
				all = append(all, line)
			}
		}
	}
	return all
}

func TestHeadroomKeepsMachines(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		for _, c := range []struct {
			name  string
			world *sample.World
			want  []string
		}{
			{"a node that nothing needs goes", full(1).Node("w-2", "pve2"), []string{"Cordon w-2"}},
			{"one that headroom needs stays", full(1).Node("w-2", "pve2").Change(room(1, 900)), nil},
			{"one whose headroom has a place elsewhere goes", full(1).Node("w-2", "pve2").Node("w-3", "pve3").Change(room(1, 900)), []string{"Cordon w-2"}},
			{"one whose pods would take the place of headroom stays", sample.New().Node("w-1", "pve1").Pod("p", "w-1", 200, 100).Node("w-2", "pve2").Pod("q", "w-2", 200, 100).Change(room(1, 1600)), nil},
		} {
			t.Run(policy+"/"+c.name, func(t *testing.T) {
				var got []string
				for _, line := range later(t, policy, c.world) {
					if line[:5] != "Evict" {
						got = append(got, line)
					}
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
			})
		}
	}
}

// A machine that drifted goes, and its headroom with it where that has no other place and none can
// be made.
func TestHeadroomYieldsToReplacements(t *testing.T) {
	one := func(w *sample.World) { w.Pools[0].Max = len(w.Nodes) }
	w := sample.New().Node("w-1", "pve1").Pod("p", "w-1", 300, 100).Node("w-2", "pve2").
		Change(room(1, 1700)).Change(one).Change(replaces()).Change(drifted("w-1"))
	if got := later(t, "joint", w); !slices.Contains(got, "Cordon w-1") {
		t.Errorf("planned was %q", got)
	}
	w = full(1).Change(room(1, 200)).Change(replaces()).Change(drifted("w-1"))
	if got := later(t, "joint", w); !slices.Contains(got, "Buy w small pve2") {
		t.Errorf("with room for more, planned was %q", got)
	}
}

// The price of headroom is its part of the machines that it lies on.
func TestHeadroomHasAPrice(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Change(room(2, 450))
	w.Node("free", "pve2")
	w.Nodes[1].Machine, w.Nodes[1].Pool, w.Machines = "", "", w.Machines[:1]
	p := sample.Decide(t, build(t, Spec{Policy: "joint"}), w.At(0))
	whole := w.Prices.Rate(sample.Small, "pve1", sample.Noon)
	if got := p.Headroom[0].Rate; got != 0 && got != whole/4 && got != whole/2 {
		t.Errorf("it costs %s/h, and the machine %s/h", got, whole)
	}
	w = full(1).Change(room(1, 1800))
	p = sample.Decide(t, build(t, Spec{Policy: "joint"}), w.At(0))
	if got := p.Headroom[0].Rate; got != whole {
		t.Errorf("a whole machine's costs %s/h, and the machine %s/h", got, whole)
	}
}

// withoutRoom are the lines of a plan that are for pods.
func withoutRoom(p nodescaler.Plan) (lines []string) {
	for i := range p.Actions {
		a := &p.Actions[i]
		if !slices.ContainsFunc(a.Reasons, func(r nodescaler.Reason) bool { return r.Code == nodescaler.HeadroomWanted }) {
			lines = append(lines, sample.Lines(nodescaler.Plan{Actions: p.Actions[i : i+1]})...)
		}
	}
	return lines
}

// Headroom takes nothing from pods that wait: at the first look, in which nothing is reclaimed,
// they get what they get without it.
func TestHeadroomTakesNothingFromPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		w.Headroom = nil
		spec := Spec{Policy: sample.OneOf(t, "policy", "joint", "unneeded")}
		build := func() nodescaler.Policy {
			p := must.Get(New(spec))(t)
			return p
		}
		without := sample.Decide(t, build(), w.At(0))
		for range rapid.IntRange(1, 2).Draw(t, "headrooms") {
			w.Change(room(rapid.IntRange(0, 5).Draw(t, "count"), pricing.MilliCPU(rapid.IntRange(0, 2000).Draw(t, "cpu"))))
		}
		with := sample.Decide(t, build(), w.At(0))
		if d := cmp.Diff(without.Unplaced, with.Unplaced); d != "" {
			t.Fatalf("pods without a place, -without headroom +with:\n%s", d)
		}
		grows := func(lines []string) []string {
			return slices.DeleteFunc(slices.Clone(lines), func(s string) bool { return s[:3] != "Buy" && s[:4] != "Wake" })
		}
		if a, b := grows(withoutRoom(without)), grows(withoutRoom(with)); !slices.Equal(a, b) {
			t.Fatalf("without headroom %q, with it %q", a, b)
		}
		for _, h := range with.Headroom {
			if h.Ready+h.Coming > h.Wanted || (h.Missing() > 0) != (h.Why != nil) && h.Why == nil {
				t.Fatalf("%+v", h)
			}
		}
	})
}
