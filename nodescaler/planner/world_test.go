package planner

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

var (
	noon  = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	small = pricing.Shape{Name: "small", CPU: 2000, Memory: 4 * pricing.GiB}
	large = pricing.Shape{Name: "large", CPU: 8000, Memory: 16 * pricing.GiB}
)

// world is a snapshot in the making.
type world struct{ nodescaler.Snapshot }

// aWorld is a pool of up to ten small machines on three hosts, each with room for four.
func aWorld() *world {
	w := &world{nodescaler.Snapshot{Now: noon, Prices: pricing.DefaultBook()}}
	w.Pools = []nodescaler.Pool{{
		Name: "w", Shapes: []pricing.Shape{small}, Max: 10,
		Reserved: pricing.Resources{CPU: 200, Memory: 512 * pricing.MiB},
	}}
	for _, name := range []string{"pve1", "pve2", "pve3"} {
		w.Hosts = append(w.Hosts, nodescaler.Host{Host: pricing.Host{Name: name, Room: small.Resources().Times(4)}, Online: true})
	}
	return w
}

func with[T any](list []T, v T, change []func(*T)) []T {
	for _, c := range change {
		c(&v)
	}
	return append(list, v)
}

// machine adds a machine that was ordered an hour ago and is in the phase since then.
func (w *world) machine(name, host string, phase nodescaler.Phase, change ...func(*nodescaler.Machine)) *world {
	w.Machines = with(w.Machines, nodescaler.Machine{
		Name: name, Order: name, Pool: "w", Shape: small, Host: host, Phase: phase,
		Created: w.Now.Add(-time.Hour), Since: w.Now.Add(-time.Hour),
	}, change)
	return w
}

// node adds a machine and the node that it became.
func (w *world) node(name, host string, change ...func(*nodescaler.Node)) *world {
	w.machine(name, host, nodescaler.Joined)
	w.Nodes = with(w.Nodes, nodescaler.Node{
		Name: name, Machine: name, Pool: "w", Ready: true, Joined: w.Now.Add(-time.Hour),
		Allocatable: w.Pools[0].Capacity(small),
	}, change)
	return w
}

// pod adds a pod of so many thousandths of a CPU and MiB; without a node it is unschedulable.
func (w *world) pod(name, node string, cpu pricing.MilliCPU, mib pricing.Bytes, change ...func(*nodescaler.Pod)) *world {
	phase := podscaler.Running
	if node == "" {
		phase = podscaler.Pending
	}
	w.Pods = with(w.Pods, nodescaler.Pod{
		Pod: podscaler.Pod{Name: name, Phase: phase}, Workload: "ns/app", Node: node, Unschedulable: node == "",
		Requests: pricing.Resources{CPU: cpu, Memory: mib * pricing.MiB}, Created: w.Now.Add(-time.Minute),
	}, change)
	return w
}

// pods adds n like pods to a node.
func (w *world) pods(n int, name, node string, cpu pricing.MilliCPU, mib pricing.Bytes) *world {
	for i := range n {
		w.pod(fmt.Sprintf("%s-%02d", name, i), node, cpu, mib)
	}
	return w
}

func (w *world) change(f func(*world)) *world { f(w); return w }

// at returns the same world at another time.
func (w *world) at(d time.Duration) *nodescaler.Snapshot {
	s := copied(&w.Snapshot)
	s.Now = s.Now.Add(d)
	return s
}

// shut has the first pool make no machines.
func shut(w *world) {
	w.Pools[0].Closed = &nodescaler.Reason{Code: "PoolPaused", Text: "3 machines failed in a row"}
}

// paused is why a pool is held.
var paused = nodescaler.Reason{Code: "Paused", Text: "paused by ann"}

func heldUp(w *world) { w.Pools[0].HeldUp = &paused }

func heldDown(w *world) { w.Pools[0].HeldDown = &paused }

// refuse has the first pool make no machines on hosts.
func refuse(hosts ...string) func(*world) {
	return func(w *world) {
		for _, h := range hosts {
			w.Pools[0].Refused = append(w.Pools[0].Refused, nodescaler.RefusedOrder{Shape: small, Host: h, Why: nodescaler.Reason{Code: "StorageFull", Text: "no room on " + h}})
		}
	}
}

func draining(n *nodescaler.Node) { n.Cordoned, n.Draining = true, true }

func notReady(n *nodescaler.Node) { n.Ready = false }

func daemon(p *nodescaler.Pod) { p.Daemon = true }

func leaving(p *nodescaler.Pod) { p.Terminating = true }

// fatal is what laws and tests have in common.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// decide asks the policy and holds it to what every policy has to keep.
func decide(t fatal, p nodescaler.Policy, s *nodescaler.Snapshot) nodescaler.Plan {
	t.Helper()
	before := copied(s)
	plan := p.Decide(s)
	if !reflect.DeepEqual(before, s) { // cmp would take most of the time that the laws take
		t.Fatalf("the snapshot was written to: %s", cmp.Diff(before, s))
	}
	if v := nodescaler.Check(s, plan); len(v) > 0 {
		t.Fatalf("the plan breaks the rules: %v\n%v", v, lines(plan))
	}
	if !plan.LookAgain.After(s.Now) {
		t.Fatalf("look again at %v, now is %v", plan.LookAgain, s.Now)
	}
	return plan
}

// lines prints a plan's actions, each as a short line.
func lines(p nodescaler.Plan) []string {
	var out []string
	for _, a := range p.Actions {
		switch a.Kind {
		case nodescaler.Buy:
			line := fmt.Sprintf("Buy %s %s %s", a.Pool, a.Shape.Name, a.Host)
			if a.Keep {
				line += " to keep"
			}
			out = append(out, line)
		case nodescaler.Evict:
			out = append(out, "Evict "+a.Pod)
		case nodescaler.Return, nodescaler.Stash, nodescaler.Wake:
			out = append(out, string(a.Kind)+" "+a.Machine)
		default:
			out = append(out, string(a.Kind)+" "+a.Node)
		}
	}
	return out
}

// tell prints all reasons, for failures.
func tell(p nodescaler.Plan) string {
	out := ""
	for _, r := range p.Reasons {
		out += "\n  " + r.String()
	}
	for i, a := range p.Actions {
		for _, r := range a.Reasons {
			out += fmt.Sprintf("\n  %s: %s", lines(nodescaler.Plan{Actions: p.Actions[i : i+1]})[0], r)
		}
	}
	return out
}

// expect compares the plan with the actions, and with codes that must be among its reasons.
func expect(t *testing.T, p nodescaler.Plan, actions []string, reasons ...string) {
	t.Helper()
	if d := cmp.Diff(actions, lines(p)); d != "" {
		t.Errorf("actions (-want +got):\n%s%s", d, tell(p))
	}
	for _, code := range reasons {
		if !slices.Contains(codes(p), code) {
			t.Errorf("no reason %s in:%s", code, tell(p))
		}
	}
	for _, r := range p.Reasons {
		if r.Code == "" || r.Text == "" {
			t.Errorf("a reason says too little: %+v", r)
		}
	}
}

// limited is a world whose machines cost so much in all as n small ones, and whose disks cost
// something.
func limited(n int) *world {
	w := aWorld().dear(pricing.Unit / 100)
	w.Limit = pricing.Rate(n) * w.Prices.Rate(w.Pools[0].Shapes[0], "", noon)
	return w
}

// disked gives all machines the disks of the pool's first shape.
func (w *world) disked() *world {
	for i := range w.Machines {
		if w.Machines[i].Shape == small {
			w.Machines[i].Shape.Disk = w.Pools[0].Shapes[0].Disk
		}
	}
	return w
}

// spare adds a machine that is stopped, with its node.
func (w *world) spare(name, host string, change ...func(*nodescaler.Machine)) *world {
	w.node(name, host, draining, notReady)
	m := &w.Machines[len(w.Machines)-1]
	m.Phase = nodescaler.Spare
	for _, c := range change {
		c(m)
	}
	return w
}

func drifted(m *nodescaler.Machine) { m.Drifted = "its template was changed" }

// dear makes disks cost something: 20 GB at so many millionths of a unit.
func (w *world) dear(perGB pricing.Micros) *world {
	w.Prices.PerDiskGB = perGB
	w.Pools[0].Shapes[0].Disk = 20 * pricing.GB
	for i := range w.Machines {
		w.Machines[i].Shape.Disk = 20 * pricing.GB
	}
	return w
}

// lookedAt is the policy after its first look, in which it only orders.
func lookedAt(t *testing.T, p nodescaler.Policy, w *world) nodescaler.Policy {
	t.Helper()
	quiet := &world{*copied(&w.Snapshot)}
	quiet.Pods, quiet.Future = nil, nil
	decide(t, p, quiet.at(0))
	return p
}

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

// secondPool adds a pool x of large machines.
func secondPool(change ...func(*nodescaler.Pool)) func(*world) {
	return func(w *world) {
		w.Pools = with(w.Pools, nodescaler.Pool{Name: "x", Max: 2, Shapes: []pricing.Shape{large}}, change)
	}
}

// oneOf draws one of the values.
func oneOf[T any](t *rapid.T, what string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, what)
}

// sparing is a policy that holds machines as joint does before it knows more, and keeps spares.
type sparing struct{ *Planner }

func withSpares(most int) sparing {
	r := DefaultRules()
	r.EnforceNodeGroupMinSize, r.CapacityBufferPodInjectionEnabled = true, true
	r.ScaleDownUtilizationThreshold, r.ScaleDownDelayAfterAdd = 1, 0
	r.Spares = &Spared{Most: most, Worth: 30}
	r.Hold = func(n *nodescaler.NodeLoad) time.Duration {
		if len(n.Held()) == 0 {
			return 0
		}
		return 3 * time.Minute
	}
	return sparing{New(r)}
}

func (s sparing) Decide(seen *nodescaler.Snapshot) nodescaler.Plan {
	s.See(seen, 3*time.Minute)
	plan := s.Scan(nodescaler.NewIndex(seen))
	plan.LookAgain = seen.Now.Add(1)
	return plan
}

// copied copies everything in the snapshot that a policy could write to.
func copied(s *nodescaler.Snapshot) *nodescaler.Snapshot {
	c := *s
	c.Pools, c.Hosts, c.Machines, c.Nodes = slices.Clone(s.Pools), slices.Clone(s.Hosts), slices.Clone(s.Machines), slices.Clone(s.Nodes)
	c.Pods, c.Future, c.Budgets = slices.Clone(s.Pods), slices.Clone(s.Future), slices.Clone(s.Budgets)
	for i := range c.Pools {
		p := &c.Pools[i]
		p.Refused, p.Maintenance = slices.Clone(p.Refused), slices.Clone(p.Maintenance)
		p.Shapes, p.Hosts, p.Labels, p.Taints = slices.Clone(p.Shapes), slices.Clone(p.Hosts), maps.Clone(p.Labels), slices.Clone(p.Taints)
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Labels, n.Taints = maps.Clone(n.Labels), slices.Clone(n.Taints)
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		p.Selector, p.Tolerations = maps.Clone(p.Selector), slices.Clone(p.Tolerations)
	}
	return &c
}

// codes is the codes of all of a plan's reasons and its actions', sorted.
func codes(p nodescaler.Plan) []string {
	var out []string
	for _, r := range p.Reasons {
		out = append(out, r.Code)
	}
	for _, a := range p.Actions {
		for _, r := range a.Reasons {
			out = append(out, r.Code)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
