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
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/nodescaler/sample/life"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// belongs has a pod be one of a workload's.
func belongs(workload string) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) { p.Workload, p.Name = workload, workload+"-"+p.Name }
}

// rate is what a small machine costs an hour.
var rate = pricing.DefaultBook().Rate(sample.Small, "pve1", sample.Noon)

// quota gives namespaces a quota of so many small machines, pods and orders.
func quota(namespace string, machines, pods, orders int) func(*sample.World) {
	return func(w *sample.World) {
		w.Quotas = append(w.Quotas, nodescaler.Quota{Namespace: namespace, Rate: rate * pricing.Rate(machines), Replicas: pods, Orders: orders})
	}
}

// coming adds replicas that are to come.
func coming(workload string, count, ahead int) func(*sample.World) {
	return func(w *sample.World) {
		like := nodescaler.Pod{Workload: workload, Requests: pricing.Resources{CPU: 900, Memory: pricing.GiB}}
		w.Future = append(w.Future, nodescaler.Future{Like: like, Count: count, Ahead: ahead})
	}
}

// crowd adds so many pods that wait of a workload, or bare ones of a namespace: two to a machine.
func crowd(workload string, n int) func(*sample.World) {
	return func(w *sample.World) {
		for i := range n {
			w.Pod(fmt.Sprintf("%04d", i), "", 900, 1000, belongs(workload))
		}
	}
}

func bare(namespace string, n int) func(*sample.World) {
	return func(w *sample.World) {
		for i := range n {
			w.Pod(fmt.Sprintf("%s/bare-%04d", namespace, i), "", 900, 1000, func(p *nodescaler.Pod) { p.Workload = "" })
		}
	}
}

// orders is how many machines are ordered for which namespaces with quotas.
func orders(p nodescaler.Plan) map[string]int {
	by := map[string]int{}
	for _, a := range p.Actions {
		if a.Kind == nodescaler.Buy {
			by[strings.Join(a.For, "+")]++
		}
	}
	return by
}

func TestQuotasHoldWhatExceedsThem(t *testing.T) {
	for _, c := range []struct {
		name   string
		change []func(*sample.World)
		want   map[string]int
		held   []string // namespace/pods
	}{
		{"none", []func(*sample.World){crowd("zed/app", 6)}, map[string]int{"": 3}, nil},
		{"of another", []func(*sample.World){crowd("zed/app", 6), quota("y*", 1, 1, 1)}, map[string]int{"": 3}, nil},
		{"room for all", []func(*sample.World){crowd("zed/app", 6), quota("zed", 3, 6, 3)}, map[string]int{"zed": 3}, nil},
		{"money", []func(*sample.World){crowd("zed/app", 6), quota("z*", 2, 0, 0)}, map[string]int{"zed": 2}, []string{"zed/2"}},
		{"pods", []func(*sample.World){crowd("zed/app", 6), quota("*", 0, 4, 0)}, map[string]int{"zed": 2}, []string{"zed/2"}},
		{"orders", []func(*sample.World){crowd("zed/app", 6), quota("*", 0, 0, 2)}, map[string]int{"zed": 2}, []string{"zed/2"}},
		{"orders of the hour before", []func(*sample.World){crowd("zed/app", 6), quota("*", 0, 0, 2), func(w *sample.World) { w.Ordered = map[string]int{"zed": 1} }}, map[string]int{"zed": 1}, []string{"zed/4"}},
		{"bare pods", []func(*sample.World){bare("zed", 6), quota("*", 2, 0, 0)}, map[string]int{"zed": 2}, []string{"zed/2"}},
		{"two workloads share it", []func(*sample.World){crowd("zed/a", 3), crowd("zed/b", 3), quota("*", 0, 4, 0)}, map[string]int{"zed": 2}, []string{"zed/2"}},
		{"each has its own", []func(*sample.World){crowd("yak/a", 4), crowd("zed/b", 4), quota("*", 1, 0, 0)}, map[string]int{"yak": 1, "zed": 1}, []string{"yak/2", "zed/2"}},
		{"the first that fits", []func(*sample.World){crowd("zed/a", 6), quota("zed", 1, 0, 0), quota("*", 3, 0, 0)}, map[string]int{"zed": 1}, []string{"zed/4"}},
		{"it has what it may have", []func(*sample.World){func(w *sample.World) {
			w.Node("w-1", "pve1").Pod("x", "w-1", 900, 1000, belongs("zed/app")).Pod("y", "w-1", 900, 1000, belongs("zed/app"))
		}, crowd("zed/app", 2), quota("zed", 1, 0, 0)}, map[string]int{}, []string{"zed/2"}},
		{"others are not held", []func(*sample.World){crowd("shop/app", 4), crowd("zed/app", 6), quota("zed", 1, 0, 0)}, map[string]int{"": 2, "zed": 1}, []string{"zed/4"}},
	} {
		for _, policy := range Names() {
			if policy == "pending" && (c.name == "others are not held" || c.name == "orders of the hour before") {
				continue // three at once, and none apart
			}
			t.Run(policy+" "+c.name, func(t *testing.T) {
				w := sample.New()
				for _, change := range c.change {
					w.Change(change)
				}
				w.Change(func(w *sample.World) { w.Hosts[0].Room = sample.Small.Resources().Times(12) })
				plan := sample.Decide(t, build(t, Spec{Policy: policy}), &w.Snapshot)
				if d := cmp.Diff(c.want, orders(plan)); d != "" {
					t.Errorf("ordered (-want +got):\n%s%s", d, sample.Reasons(plan))
				}
				by := map[string]int{}
				for _, h := range plan.Held {
					if by[h.Namespace] += h.Pods; h.Why.Code != nodescaler.NamespaceQuota || h.Why.Text == "" {
						t.Errorf("held: %+v", h)
					}
				}
				var held []string
				for n, pods := range by {
					held = append(held, fmt.Sprintf("%s/%d", n, pods))
				}
				slices.Sort(held)
				// It does not know pods from machines.
				if d := cmp.Diff(c.held, held); d != "" && policy != "pending" {
					t.Errorf("held (-want +got):\n%s%s", d, sample.Reasons(plan))
				}
				if (len(c.held) > 0) != slices.Contains(sample.Codes(plan), nodescaler.NamespaceQuota) {
					t.Errorf("what is held: %s", sample.Reasons(plan))
				}
			})
		}
	}
}

func TestQuotasHoldReplicasThatAreToCome(t *testing.T) {
	for _, c := range []struct {
		name          string
		count, ahead  int
		machines, max int
		want          int
	}{
		{"room for all", 4, 0, 2, 0, 2},
		{"a million", 1_000_000, 0, 2, 0, 2},
		{"a million ahead", 0, 1_000_000, 2, 0, 2},
		{"pods", 9, 1_000_000, 0, 4, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sample.New().Change(coming("zed/app", c.count, c.ahead)).Change(quota("zed", c.machines, c.max, 0))
			plan := sample.Decide(t, build(t, Spec{Policy: "joint"}), &w.Snapshot)
			if got := orders(plan)["zed"]; got != c.want {
				t.Errorf("%d machines are ordered, want %d:%s", got, c.want, sample.Reasons(plan))
			}
		})
	}
}

// drawn is a world with tenants that keep to their quotas.
func drawn(t *rapid.T) *sample.World {
	w := sample.New()
	w.Pools[0].Max = rapid.IntRange(1, 12).Draw(t, "max")
	w.Limit = rate * pricing.Rate(rapid.SampledFrom([]int{0, 0, 3, 8}).Draw(t, "limit"))
	if rapid.Bool().Draw(t, "large") {
		w.Pools[0].Shapes = append(w.Pools[0].Shapes, sample.Large)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		w.Node(fmt.Sprintf("w-%d", i), []string{"pve1", "pve2", "pve3"}[i])
		w.Several(rapid.IntRange(0, 3).Draw(t, "on it"), fmt.Sprintf("shop/old-%d", i), fmt.Sprintf("w-%d", i), 400, 300)
	}
	for i, n := range []string{"shop/a", "shop/b", "club/c"} {
		for k := range rapid.IntRange(0, 4).Draw(t, n) {
			w.Pod(fmt.Sprintf("%d-%d", i, k), "", pricing.MilliCPU(rapid.IntRange(1, 18).Draw(t, "cpu")*100), 300, belongs(n))
		}
	}
	w.Quotas = append(w.Quotas, nodescaler.Quota{Namespace: "shop", Rate: 1000 * rate, Replicas: 1000, Orders: 1000})
	return w
}

// offender adds what a namespace wants that may have little, or nothing at all.
func offender(t *rapid.T, w *sample.World) {
	q := nodescaler.Quota{
		Namespace: "zed", Rate: rate / 2 * pricing.Rate(rapid.IntRange(0, 5).Draw(t, "rate")),
		Replicas: rapid.IntRange(0, 5).Draw(t, "replicas"), Orders: rapid.IntRange(0, 3).Draw(t, "orders"),
	}
	if (q == nodescaler.Quota{Namespace: "zed"}) {
		q.Orders = 1
	}
	w.Quotas = append(w.Quotas, q)
	for i := range rapid.IntRange(0, 30).Draw(t, "workloads") {
		w.Change(coming(fmt.Sprintf("zed/w-%02d", i), rapid.SampledFrom([]int{0, 3, 1_000_000}).Draw(t, "count"), rapid.SampledFrom([]int{0, 1_000_000}).Draw(t, "ahead")))
	}
	for i := range rapid.IntRange(0, 30).Draw(t, "pods") {
		w.Pod(fmt.Sprintf("zed/bare-%02d", i), "", pricing.MilliCPU(rapid.IntRange(0, 18).Draw(t, "cpu")*100), 200, func(p *nodescaler.Pod) {
			p.Workload = ""
			p.Created = w.Now.Add(-time.Hour) // before all others
		})
	}
}

// However much a namespace wants beyond its quota: for the others the same is ordered as if it were
// not there, before anything of its own, also where the pool or the limit has no room for all. And
// what is ordered for it is within its quota.
func TestNoNamespaceGetsLessForAnother(t *testing.T) {
	for _, policy := range Names() {
		t.Run(policy, rapid.MakeCheck(func(t *rapid.T) {
			w := drawn(t)
			alone := bought(sample.Decide(t, build(t, Spec{Policy: policy}), &w.Snapshot))
			offender(t, w)
			plan := sample.Decide(t, build(t, Spec{Policy: policy}), &w.Snapshot)
			all := bought(plan)
			exceeds := len(plan.Held) > 0 || slices.Contains(sample.Codes(plan), nodescaler.BeyondAllPools)
			if exceeds && (len(all) < len(alone) || !slices.Equal(alone, all[:len(alone)])) {
				t.Fatalf("alone %q are ordered, and beside another namespace %q%s", alone, all, sample.Reasons(plan))
			}
			q, takes := w.QuotaOf("zed"), nodescaler.Take{}
			for _, a := range plan.Actions {
				if slices.Contains(a.For, "zed") {
					takes.Orders++
					if len(a.For) == 1 && len(alone) == 0 {
						takes.Rate += a.Rate
					}
				}
			}
			if q.Rate > 0 && takes.Rate > q.Rate || q.Orders > 0 && takes.Orders > q.Orders {
				t.Fatalf("%+v is ordered, of %+v%s", takes, q, sample.Reasons(plan))
			}
		}))
	}
}

// bought is what is ordered, without the hosts that are chosen for it.
func bought(p nodescaler.Plan) (all []string) {
	for _, a := range p.Actions {
		if a.Kind == nodescaler.Buy {
			all = append(all, a.Shape.Name+" "+a.Host)
		}
	}
	return all
}

// However a namespace's wants change, alone its machines never cost more than its quota, nor are
// more ordered in an hour, and those within it always come.
func TestANamespaceNeverCostsMoreThanItsQuota(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		t.Run(policy, rapid.MakeCheck(func(t *rapid.T) {
			l := &life.Life{World: *sample.New(), Wanted: map[string]int{}}
			l.Pools[0].Max = 30
			for i := range l.Hosts {
				l.Hosts[i].Room = sample.Small.Resources().Times(12)
			}
			machines := rapid.IntRange(1, 4).Draw(t, "quota")
			l.Quotas = []nodescaler.Quota{{Namespace: "*", Rate: rate * pricing.Rate(machines)}}
			p := build(t, Spec{Policy: policy})
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				for _, size := range []string{"300", "700", "1100"} {
					l.Wanted["ns/app"+size] = rapid.SampledFrom([]int{0, 1, 5, 200}).Draw(t, size)
				}
				for range rapid.IntRange(1, 12).Draw(t, "minutes") {
					l.Live(t, p, time.Minute)
					if n := len(l.Machines); n > machines {
						t.Fatalf("there are %d machines, and the quota is of %d", n, machines)
					}
				}
			}
			l.Wanted = map[string]int{"ns/app700": 2}
			if l.Live(t, p, 30*time.Minute); len(l.Waiting()) > 0 {
				t.Fatalf("%v wait", l.Waiting())
			}
		}))
	}
}

// helped is a life in which it is remembered which pods machines did not help.
type helped struct {
	nodescaler.Policy
	nodescaler.Unhelped
}

func (h *helped) Decide(x *nodescaler.Index) nodescaler.Plan {
	seen := *x.Snapshot
	marked := nodescaler.NewIndex(&seen)
	h.Mark(marked)
	return h.Policy.Decide(marked)
}

// Nine pods wait for what no machine has: a volume that is not bound, a constraint that is not
// known here.
func TestPodsThatNoMachineHelpsAreNotBoughtForRepeatedly(t *testing.T) {
	for _, policy := range Names() {
		t.Run(policy, func(t *testing.T) {
			l := &life.Life{World: *sample.New(), Wanted: map[string]int{}}
			l.Pools[0].Max = 20
			for i := range l.Hosts {
				l.Hosts[i].Room = sample.Small.Resources().Times(12)
			}
			stuck := func() {
				for i := range 9 {
					l.Pod(fmt.Sprintf("ns/stuck-%d", i), "", 500, 500, func(p *nodescaler.Pod) { p.Workload, p.Phase = "ns/stuck", podscaler.Pending })
				}
			}
			stuck()
			p := &helped{Policy: build(t, Spec{Policy: policy})}
			hours, said := time.Duration(0), 0
			for end := l.Now.Add(6 * time.Hour); l.Now.Before(end); l.Now = l.Now.Add(life.Step) {
				l.Arrive()
				plan := p.Decide(nodescaler.NewIndex(&l.Snapshot))
				for _, a := range plan.Actions {
					l.Do(a)
				}
				if slices.Contains(sample.Codes(plan), nodescaler.PodsNotHelped) {
					said++
				}
				hours += life.Step * time.Duration(len(l.Machines))
			}
			least := 0
			if policy == "pending" {
				least = 1 // it keeps its last node
			}
			if hours > 11*time.Hour || said == 0 || len(l.Machines) > least {
				t.Errorf("in six hours they cost %.1f machine hours, and there are %d machines at the end; said %d times", hours.Hours(), len(l.Machines), said)
			}
			t.Logf("%.1f machine hours", hours.Hours())
		})
	}
}
