package nodescaler

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestTheFirstQuotaThatFitsCounts(t *testing.T) {
	s := &Snapshot{Quotas: []Quota{{Namespace: "shop", Orders: 1}, {Namespace: "team-*", Orders: 2}, {Namespace: "*-test", Orders: 3}}}
	for namespace, want := range map[string]int{"shop": 1, "shops": 0, "team-": 2, "team-a": 2, "team-a-test": 2, "a-test": 3, "": 0, "[": 0} {
		got := 0
		if q := s.QuotaOf(namespace); q != nil {
			got = q.Orders
		}
		if got != want {
			t.Errorf("%q has quota %d, want %d", namespace, got, want)
		}
	}
}

func TestNamespacesOfPods(t *testing.T) {
	for _, c := range []struct{ workload, name, want string }{
		{"", "shop/web-1", "shop"}, {"shop/web", "shop/web-1", "shop"}, {"shop/Deployment/web", "shop/web-1", "shop"}, {"shop/web", "", "shop"}, {"", "web-1", ""},
	} {
		p := Pod{Workload: c.workload, Pod: podscaler.Pod{Name: c.name}}
		if got := p.Namespace(); got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
}

// The whole price of a machine is divided between the namespaces with pods on it, by their
// requests. No namespace pays less for a pod than the least that a machine which holds it can cost.
func TestMachinesAreSplitWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := pricing.Shape{Name: "m", CPU: 4000, Memory: 8 * pricing.GiB}
		x := NewIndex(&Snapshot{
			Pools: []Pool{{Name: "w", Shapes: []pricing.Shape{shape}}}, Quotas: []Quota{{Namespace: "*", Orders: 1}},
			Hosts: []Host{{Host: pricing.Host{Name: "pve1"}, Online: true}},
		})
		rate := x.Rate(shape, "pve1")
		var pods []*Pod
		var used pricing.Resources
		least := map[string]pricing.Rate{}
		for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
			r := pricing.Resources{CPU: pricing.MilliCPU(rapid.IntRange(0, 2000).Draw(t, "cpu")), Memory: pricing.Bytes(rapid.IntRange(0, 4096).Draw(t, "mib")) * pricing.MiB}
			if used = used.Plus(r); !used.Within(shape.Resources()) {
				break
			}
			p := &Pod{Workload: rapid.SampledFrom([]string{"a/x", "b/x", "b/y"}).Draw(t, "workload"), Requests: r, Pod: podscaler.Pod{Name: fmt.Sprint(i)}}
			pods = append(pods, p)
			least[p.Namespace()] += x.Tenants().Least(r)
		}
		if len(pods) == 0 {
			return
		}
		all, parts := pricing.Rate(0), Split(rate, shape.Resources(), pods)
		for namespace, part := range parts {
			if all += part; part < least[namespace] {
				t.Fatalf("%s pays %s, less than the least of %s", namespace, part, least[namespace])
			}
		}
		if all < rate || all > rate+pricing.Rate(len(parts)) {
			t.Fatalf("%s are paid of %s", all, rate)
		}
	})
}

// Replicas that are shared out keep to quotas, and what one namespace wants beyond its own takes no
// place from others. What costs nothing is bounded by the number of replicas alone.
func TestRoomUnderAQuota(t *testing.T) {
	rates := func(r pricing.Rate) Tenant { return Tenant{Quota: &Quota{Rate: r}} }
	for _, c := range []struct {
		name   string
		tenant Tenant
		each   pricing.Rate
		want   int
	}{
		{"no bounds", Tenant{Quota: &Quota{}}, 1, math.MaxInt},
		{"three of one", rates(3), 1, 3},
		{"none of what costs more", rates(3), 4, 0},
		{"any number of what costs nothing", rates(3), 0, math.MaxInt},
		{"as many replicas as are left", Tenant{Quota: &Quota{Replicas: 5}, Takes: Take{Replicas: 3}}, 1, 2},
		{"none beyond", Tenant{Quota: &Quota{Replicas: 5}, Takes: Take{Replicas: 7}}, 1, 0},
	} {
		if got := c.tenant.room(Take{}, c.each); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestPlacesAreSharedWithinQuotas(t *testing.T) {
	shape := pricing.Shape{Name: "m", CPU: 4000, Memory: 8 * pricing.GiB}
	one := Pod{Requests: pricing.Resources{CPU: 1000, Memory: pricing.GiB}}
	snapshot := func() *Snapshot {
		return &Snapshot{
			Pools: []Pool{{Name: "w", Shapes: []pricing.Shape{shape}, Max: 4}},
			Hosts: []Host{{Host: pricing.Host{Name: "pve1", Room: shape.Resources().Times(9)}, Online: true}},
		}
	}
	rate := NewIndex(snapshot()).Rate(shape, "pve1")
	for _, c := range []struct {
		name       string
		quota      Quota
		shop, zeds int
	}{
		{"none", Quota{Namespace: "other", Replicas: 1}, 0, 16},
		{"pods, of both its workloads", Quota{Namespace: "zed", Replicas: 5}, 11, 5},
		{"money", Quota{Namespace: "z*", Rate: rate}, 11, 5}, // the least that five come to
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot()
			s.Quotas = []Quota{c.quota}
			ask := func(workload string) Ask {
				like := one
				like.Workload = workload
				worth := make([]float64, 100)
				for i := range worth {
					worth[i] = map[bool]float64{true: 9, false: 1}[NamespaceOf(workload) == "zed"]
				}
				return Ask{Workload: workload, Like: like, Most: 100, Bid: podscaler.Bid{Known: true, Want: 100, Worth: worth}}
			}
			p := Share(NewIndex(s), []Ask{ask("shop/a"), ask("zed/a"), ask("zed/b")})
			if shop, zeds := p[0].Most, p[1].Most+p[2].Most; shop != c.shop || zeds != c.zeds {
				t.Errorf("shop has %d places and zed %d, want %d and %d", shop, zeds, c.shop, c.zeds)
			}
		})
	}
}

// step is the world some time after the one before: pods of a workload wait, are placed or are
// gone, and there is a node with room or not.
type step struct {
	after   time.Duration
	waiting int
	room    bool
	marked  bool
}

func TestPodsThatWaitBesideRoomAreNotHelped(t *testing.T) {
	const s, m = time.Second, time.Minute
	placed := -1
	var wait []step
	for range 7 {
		wait = append(wait, step{40 * s, 2, true, false}) // 4m40s
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"for five minutes", append(wait[:7:7], step{40 * s, 2, true, false}, step{40 * s, 2, true, true}, step{m, 3, true, true}, step{m, 1, false, true})},
		{"without room", append([]step{{m, 2, false, false}, {3 * m, 2, false, false}, {3 * m, 2, false, false}, {3 * m, 2, false, false}}, step{3 * m, 2, true, false}, step{59 * s, 2, true, false}, step{s, 2, true, true})},
		{"room that comes and goes", append(wait[:7:7], step{30 * s, 2, false, false}, step{30 * s, 2, true, false}, step{59 * s, 2, true, false}, step{s, 2, true, true})},
		{"then one is placed", append(wait[:7:7], step{40 * s, 2, true, false}, step{40 * s, 2, true, true}, step{20 * s, placed, true, false}, step{20 * s, 2, true, false})},
		{"there was no look for long", append(wait[:7:7], step{5 * m, 2, true, false}, step{40 * s, 2, true, false})},
		{"the clock is put back", append(wait[:7:7], step{40 * s, 2, true, false}, step{-time.Hour, 2, true, false}, step{40 * s, 2, true, false})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var u Unhelped
			now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
			for i, w := range c.steps {
				now = now.Add(w.after)
				s := &Snapshot{Now: now}
				s.Nodes = []Node{{Name: "n", Ready: w.room, Allocatable: pricing.Resources{CPU: 4000, Memory: pricing.GiB}}}
				for k := range max(w.waiting, 2) {
					p := Pod{Workload: "ns/a", Pod: podscaler.Pod{Name: fmt.Sprintf("ns/a-%d", k)}, Requests: pricing.Resources{CPU: 500}, Unschedulable: true}
					if w.waiting == placed && k == 0 {
						p.Node, p.Unschedulable = "n", false
					}
					s.Pods = append(s.Pods, p)
				}
				u.Mark(NewIndex(s))
				last := &s.Pods[len(s.Pods)-1]
				if got := s.NotHelped(last) != ""; got != w.marked {
					t.Fatalf("step %d, %+v: marked %t", i, w, got)
				}
				if n := len(NewIndex(s).Pending); w.marked && n != 0 {
					t.Fatalf("step %d: %d pods are pending", i, n)
				}
			}
		})
	}
}

// Each time they are left alone for longer, up to a limit, and tried again after it.
func TestPodsThatAreNotHelpedAreTriedEverLessOften(t *testing.T) {
	var u Unhelped
	began := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	var rests []time.Duration
	since, tried := time.Time{}, time.Duration(0)
	for at := time.Duration(0); at < 24*time.Hour; at += 20 * time.Second {
		s := &Snapshot{Now: began.Add(at)}
		s.Nodes = []Node{{Name: "n", Ready: true, Allocatable: pricing.Resources{CPU: 4000, Memory: pricing.GiB}}}
		s.Pods = []Pod{{Workload: "ns/a", Pod: podscaler.Pod{Name: "ns/a-1"}, Requests: pricing.Resources{CPU: 500}, Unschedulable: true}}
		u.Mark(NewIndex(s))
		switch marked := s.NotHelped(&s.Pods[0]) != ""; {
		case marked && since.IsZero():
			since = s.Now
		case !marked && !since.IsZero():
			rests, since = append(rests, s.Now.Sub(since)), time.Time{}
			fallthrough
		case !marked:
			tried += 20 * time.Second
		}
	}
	want := []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 4 * time.Hour, 4 * time.Hour, 4 * time.Hour}
	if len(rests) < 7 || fmt.Sprint(rests[:7]) != fmt.Sprint(want[:7]) || tried > time.Hour {
		t.Errorf("left alone for %v, want %v; tried for %s", rests, want, tried)
	}
}
