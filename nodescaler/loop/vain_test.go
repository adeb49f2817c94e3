package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// town is a cluster that lives: controllers create the pods that they may, a scheduler places
// them, machines boot.
type town struct {
	now      time.Time
	cluster  loop.ClusterState
	machines loop.MachineState
	may      map[string]int // pods that a workload's controller can create
	says     bool           // the controller says so
	last     string         // the namespace whose pods are of the lowest priority
	born     int
	paid     time.Duration // machines' time
}

var townsize = pricing.Shape{Name: "small", CPU: 4000, Memory: 8 * pricing.GiB}

const (
	townStep = 15 * time.Second
	townBoot = 90 * time.Second
)

func newTown() *town {
	t := &town{
		now: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), may: map[string]int{},
		cluster: loop.ClusterState{Replicas: map[string]int{}},
	}
	t.machines.Hosts = []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: townsize.Resources().Times(40)}, Online: true}}
	return t
}

// asks has a workload ask for replicas, of which so many can be created.
func (t *town) asks(workload string, replicas, may int) *town {
	t.cluster.Replicas[workload], t.may[workload] = replicas, may
	return t
}

func (t *town) Observe(context.Context) (loop.ClusterState, error) {
	s := t.cluster
	s.Nodes, s.Pods = slices.Clone(s.Nodes), slices.Clone(s.Pods)
	return s, nil
}

func (t *town) List(context.Context) (loop.MachineState, error) {
	return loop.MachineState{Hosts: t.machines.Hosts, Machines: slices.Clone(t.machines.Machines)}, nil
}
func (t *town) SetReplicas(_ context.Context, w string, n int) error {
	t.cluster.Replicas[w] = n
	return nil
}

func (t *town) SetDraining(_ context.Context, node string, is bool) error {
	for i := range t.cluster.Nodes {
		if n := &t.cluster.Nodes[i]; n.Name == node {
			n.Cordoned, n.Draining = is, is
		}
	}
	return nil
}

func (t *town) Evict(_ context.Context, pod string) error {
	t.cluster.Pods = slices.DeleteFunc(t.cluster.Pods, func(p nodescaler.Pod) bool { return p.Name == pod })
	return nil
}

func (t *town) Create(_ context.Context, o loop.Order) error {
	t.machines.Machines = append(t.machines.Machines, nodescaler.Machine{
		Name: nodescaler.MachineName(o.Action.Pool, o.ID), Order: o.ID, Pool: o.Action.Pool, Shape: *o.Action.Shape, Host: o.Action.Host,
		Phase: nodescaler.Ordered, Created: o.At, Since: o.At,
	})
	return nil
}

func (t *town) Delete(_ context.Context, machine string) error {
	t.machines.Machines = slices.DeleteFunc(t.machines.Machines, func(m nodescaler.Machine) bool { return m.Name == machine })
	t.cluster.Nodes = slices.DeleteFunc(t.cluster.Nodes, func(n nodescaler.Node) bool { return n.Name == machine })
	return nil
}

func (t *town) Read(context.Context, *podscaler.Workload, time.Time) (podscaler.Window, error) {
	return podscaler.Window{}, nil
}

// pass lets the time of a step pass.
func (t *town) pass() {
	t.now, t.paid = t.now.Add(townStep), t.paid+townStep*time.Duration(len(t.machines.Machines))
	for i := range t.machines.Machines {
		m := &t.machines.Machines[i]
		if m.Phase == nodescaler.Ordered && t.now.Sub(m.Created) >= townBoot {
			m.Phase, m.Since = nodescaler.Joined, t.now
			t.cluster.Nodes = append(t.cluster.Nodes, nodescaler.Node{
				Name: m.Name, Machine: m.Name, Pool: m.Pool, Ready: true, Joined: t.now, Allocatable: m.Shape.Resources(),
			})
		}
	}
	t.cluster.Failing = map[string]string{}
	for w, replicas := range t.cluster.Replicas {
		t.control(w, replicas)
	}
	slices.SortFunc(t.cluster.Pods, func(a, b nodescaler.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, last := range []bool{false, true} {
		t.schedule(last)
	}
}

// control creates a workload's pods, as many as it may.
func (t *town) control(w string, replicas int) {
	there := 0
	t.cluster.Pods = slices.DeleteFunc(t.cluster.Pods, func(p nodescaler.Pod) bool {
		if p.Workload != w {
			return false
		}
		there++
		return there > replicas
	})
	for ; there < min(replicas, t.may[w]); there++ {
		t.born++
		t.cluster.Pods = append(t.cluster.Pods, nodescaler.Pod{
			Pod: podscaler.Pod{Name: fmt.Sprintf("%s-%05d", w, t.born), Phase: podscaler.Pending}, Workload: w, Created: t.now,
			Unschedulable: true, Requests: pricing.Resources{CPU: 1000, Memory: pricing.GiB},
		})
	}
	if t.says && there < replicas {
		t.cluster.Failing[w] = "FailedCreate: exceeded quota"
	}
}

// schedule binds pods, of the last namespace or of all others.
func (t *town) schedule(last bool) {
	used := map[string]nodescaler.Used{}
	for i := range t.cluster.Pods {
		used[t.cluster.Pods[i].Node] = used[t.cluster.Pods[i].Node].With(&t.cluster.Pods[i])
	}
	for i := range t.cluster.Pods {
		p := &t.cluster.Pods[i]
		for j := range t.cluster.Nodes {
			n := &t.cluster.Nodes[j]
			if p.Node == "" && (p.Namespace() == t.last) == last && nodescaler.Refusal(p, n, used[n.Name]) == "" {
				p.Node, p.Phase, p.Ready, p.Unschedulable = n.Name, podscaler.Running, true, false
				used[n.Name] = used[n.Name].With(p)
			}
		}
	}
}

// asIs is a pod policy that leaves replicas to people.
type asIs struct{}

func (asIs) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Known: true, Replicas: v.Replicas, Reasons: []podscaler.Reason{{Code: "AsIs", Text: "as it is"}}}
}

// runner is a loop over the town that has just been started.
func (t *town) runner(tb testing.TB, policy string) *loop.Runner {
	nodes := must.Get(nodepolicy.New(nodepolicy.Spec{Policy: policy}))(tb)
	r := &loop.Runner{
		Ports:  loop.Ports{Cluster: t, Machines: t, Signals: t},
		Intent: loop.Intent{Prices: pricing.DefaultBook(), Pools: []nodescaler.Pool{{Name: "worker", Shapes: []pricing.Shape{townsize}, Max: 12}}},
		Memory: loop.Memory{Nodes: nodes},
	}
	for _, w := range slices.Sorted(func(yield func(string) bool) {
		for w := range t.cluster.Replicas {
			if !yield(w) {
				return
			}
		}
	}) {
		r.Workloads = append(r.Workloads, loop.Scaled(podscaler.Workload{Name: w, Min: 0, Max: 2_000_000, Pod: pricing.Resources{CPU: 1000, Memory: pricing.GiB}}, asIs{}))
	}
	return r
}

// live goes on for a time.
func (t *town) live(tb testing.TB, r *loop.Runner, d time.Duration) (last loop.Step) {
	for end := t.now.Add(d); t.now.Before(end); {
		t.pass()
		last = must.Get(r.Once(tb.Context(), t.now))(tb)
	}
	return last
}

// A person scales a Deployment of two pods to 500, and no more pods can be created: by a quota, a
// webhook that is away, a security policy, a service account that is missing. Six hours cost what
// two pods need, and a few minutes.
func TestReplicasThatCanNeverBeCostNextToNothing(t *testing.T) {
	for _, policy := range nodepolicy.Names() {
		for _, mode := range []string{"Active", "Recommend"} {
			for _, says := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s says %t", policy, mode, says), func(t *testing.T) {
					w := newTown().asks("shop/web", 2, 2)
					w.says = says
					r := w.runner(t, policy)
					if mode == "Recommend" {
						r.Workloads[0].Held = &nodescaler.Reason{Code: "Recommending", Text: "mode Recommend"}
					}
					w.live(t, r, 10*time.Minute)
					w.asks("shop/web", 500, 2)
					w.paid = 0
					s := w.live(t, r, 6*time.Hour)
					// 11 machines for what is counted of 3 minutes, and until they are empty and
					// deleted.
					most := 6*time.Hour + 11*20*time.Minute
					// which counts no replicas that are to come
					if says || mode == "Recommend" || policy == "pending" {
						most = 6 * time.Hour
					}
					if w.paid > most || len(w.machines.Machines) != 1 {
						t.Errorf("six hours cost %.1f machine hours, want %.1f at most; %d machines at the end", w.paid.Hours(), most.Hours(), len(w.machines.Machines))
					}
					code := loop.CodeReplicasNotCreated
					if says {
						code = loop.CodeReplicaFailure
					}
					if why := s.Workloads[0].Unplanned; why == nil || why.Code != code {
						t.Errorf("why: %+v, want %s", why, code)
					}
					t.Logf("%.2f machine hours", w.paid.Hours())
				})
			}
		}
	}
}

// A process that dies again and again while 500 replicas are asked for buys no machine for them.
func TestRestartsBuyNothingForReplicasThatCanNeverBe(t *testing.T) {
	for _, policy := range nodepolicy.Names() {
		w := newTown().asks("shop/web", 2, 2)
		w.live(t, w.runner(t, policy), 10*time.Minute)
		w.asks("shop/web", 500, 2)
		w.paid = 0
		for range 30 {
			w.live(t, w.runner(t, policy), 2*time.Minute)
		}
		if w.paid > time.Hour {
			t.Errorf("%s: an hour cost %.1f machine hours", policy, w.paid.Hours())
		}
	}
}

// What can be created is bought for at once, however long it was not.
func TestReplicasThatAreCreatedLateGetTheirMachines(t *testing.T) {
	for _, policy := range nodepolicy.Names() {
		w := newTown().asks("shop/web", 40, 2)
		r := w.runner(t, policy)
		w.live(t, r, time.Hour)
		w.may["shop/web"] = 40
		w.live(t, r, 15*time.Minute)
		if n := len(w.machines.Machines); n != 10 {
			t.Errorf("%s: %d machines, want the 10 that 40 pods need", policy, n)
		}
	}
}

// A namespace with a thousand workloads that ask for a million replicas each, and with hundreds of
// pods that wait, delays no other. The machines of another come as if it were not there, and what
// it gets is within its quota. Its pods are of a lower priority: who is put onto room that is
// there, the scheduler decides.
func TestAGreedyNamespaceDelaysNoOther(t *testing.T) {
	for _, policy := range nodepolicy.Names() {
		t.Run(policy, func(t *testing.T) {
			ready := func(greedy bool) (at time.Duration, machines int, most time.Duration) {
				w := newTown()
				ask := func(each int) {
					for i := range 1000 {
						w.asks(fmt.Sprintf("greed/w-%04d", i), each, 0)
					}
				}
				if greedy {
					ask(0)
					w.asks("greed/x", 400, 400).last = "greed"
				}
				w.asks("shop/web", 4, 4)
				r := w.runner(t, policy)
				hour := pricing.DefaultBook().Rate(townsize, "pve1", w.now)
				r.Quotas = []nodescaler.Quota{{Namespace: "shop", Rate: 9 * hour}, {Namespace: "*", Rate: 2 * hour, Orders: 10}}
				w.live(t, r, 20*time.Minute)
				if w.asks("shop/web", 30, 30); greedy {
					ask(1_000_000)
				}
				for began := w.now; ; {
					took := time.Now()
					w.live(t, r, townStep)
					most = max(most, time.Since(took))
					waits := slices.ContainsFunc(w.cluster.Pods, func(p nodescaler.Pod) bool { return p.Workload == "shop/web" && p.Node == "" })
					if at = w.now.Sub(began); !waits || at > 10*time.Minute {
						return at, len(w.machines.Machines), most
					}
				}
			}
			alone, _, _ := ready(false)
			beside, machines, took := ready(true)
			if beside > alone || machines > 10 {
				t.Errorf("30 pods are placed after %s alone and after %s beside others; %d machines", alone, beside, machines)
			}
			t.Logf("after %s, %d machines, a step takes %s at most", beside, machines, took)
		})
	}
}

// What the tenants of these attacks write is written at each step; a minute is four steps.
const minute = int(time.Minute / townStep)

// tenant is the name of one of its workloads.
func tenant(i int) string { return fmt.Sprintf("shop/w-%02d", i%24) }

var attacks = map[string]func(w *town, step int){
	"workloads take turns": func(w *town, step int) {
		turn := step / (3 * minute)
		w.asks(tenant(turn), 0, 0).asks(tenant(turn+1), 500, 0)
	},
	"workloads take turns, each for a moment": func(w *town, step int) {
		for i := range 24 {
			w.asks(tenant(i), 0, 0)
		}
		if step%(15*minute) == 0 {
			w.asks(tenant(step/(15*minute)), 500, 0)
		}
	},
	"new workloads come": func(w *town, step int) {
		if at := step % (4 * minute); at == 0 {
			w.asks(tenant(0), 500, 0)
		} else if at == 3*minute {
			delete(w.cluster.Replicas, tenant(0))
		} else if at > 3*minute {
			w.asks(tenant(0), 0, 0)
		}
	},
	"pods trickle": func(w *town, step int) {
		if pods := step / (2 * minute) % 68; pods > 36 { // an hour later it is forgotten
			w.asks(tenant(1), 0, 0)
		} else {
			w.asks(tenant(1), 500, pods)
		}
	},
	"two pods at a time come of what was promised": func(w *town, step int) {
		for i := range 12 {
			w.asks(tenant(i), 2, 0)
		}
		w.asks(tenant(step%12), 2, 2).asks(tenant((step+11)%12), 0, 0)
	},
	"each decision is taken back": func(w *town, _ int) {
		w.asks("shop/pinned", 1, 1)
	},
	"controllers say late that they are refused": func(w *town, step int) {
		turn := step / (15 * minute)
		w.asks(tenant(turn), 0, 0).asks(tenant(turn+1), 500, 0).says = step%(15*minute) > 0
	},
}

// A tenant of whose replicas hardly any become pods writes what it likes for half a day. The pool
// is bought for that for a small part of the time.
func TestATenantHoldsNoCapacityThatNoPodUses(t *testing.T) {
	for attack, write := range attacks {
		for _, policy := range []string{"joint", "unneeded"} { // the others plan for pods only
			t.Run(attack+" "+policy, func(t *testing.T) {
				w := newTown().asks("other/web", 2, 2).asks("shop/pinned", 1, 1)
				for i := range 24 {
					w.asks(tenant(i), 0, 0)
				}
				r := w.runner(t, policy)
				for i := range r.Workloads {
					if r.Workloads[i].Name == "shop/pinned" && attack == "each decision is taken back" {
						r.Workloads[i].Min = 500
					}
				}
				w.live(t, r, 10*time.Minute)
				used := time.Duration(0) // by pods, of machines' time
				w.paid = 0
				for step := range 12 * 60 * minute {
					write(w, step)
					w.live(t, r, townStep)
					used += townStep * time.Duration((len(w.cluster.Pods)+3)/4)
				}
				vain := (w.paid - used).Hours() / (11 * 12)
				t.Logf("%.0f %% of the pool's time is bought for nothing", 100*vain)
				if vain > 0.25 {
					t.Errorf("%.0f %% of the pool's time is bought for nothing: %.1f machine hours beside %.1f that pods need", 100*vain, w.paid.Hours(), used.Hours())
				}
			})
		}
	}
}
