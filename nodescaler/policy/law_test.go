package policy

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/race"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// Lives take ten times as long under the race detector, and it needs few of them.
func init() {
	if race.On {
		if err := flag.Set("rapid.checks", "20"); err != nil {
			panic(err)
		}
	}
}

// The laws are kept by every policy there is, so that a new one is held to them by being
// registered.

// rarely is true for one draw in ten.
func rarely(t *rapid.T, what string) bool { return rapid.IntRange(0, 9).Draw(t, what) == 0 }

// anyWorld draws a cluster that could be: pods lie on nodes that hold them, names are unique,
// machines belong to pools. Everything else may be as it likes, also what nodes say they are.
func anyWorld(t *rapid.T) *sample.World {
	return drawWorld(t, sample.OneOf(t, "disguised", false, false, true))
}

func drawWorld(t *rapid.T, disguised bool) *sample.World {
	w := &sample.World{Snapshot: nodescaler.Snapshot{Now: sample.Noon, Prices: pricing.DefaultBook()}}
	for i := range rapid.IntRange(1, 4).Draw(t, "hosts") {
		w.Hosts = append(w.Hosts, nodescaler.Host{
			Host:   pricing.Host{Name: fmt.Sprintf("pve%d", i+1), Room: sample.Small.Resources().Times(rapid.IntRange(0, 8).Draw(t, "room"))},
			Online: !rarely(t, "offline"), Cordoned: rarely(t, "host cordoned"),
		})
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "pools") {
		w.Pools = append(w.Pools, nodescaler.Pool{
			Name: fmt.Sprintf("w%d", i), Shapes: sample.OneOf(t, "shapes", []pricing.Shape{sample.Small}, []pricing.Shape{sample.Large, sample.Small}),
			Reserved: pricing.Resources{CPU: 200, Memory: 512 * pricing.MiB}, PodSlots: sample.OneOf(t, "slots", 0, 4),
			Min: rapid.IntRange(0, 2).Draw(t, "min"), Max: rapid.IntRange(2, 9).Draw(t, "max"),
			Hosts:      sample.OneOf(t, "pool hosts", nil, []string{"pve1", "pve2"}),
			Labels:     sample.OneOf(t, "labels", nil, map[string]string{"disk": "ssd"}),
			Taints:     sample.OneOf(t, "taints", nil, nil, []nodescaler.Taint{{Key: "gpu", Effect: "NoSchedule"}}),
			Disruption: sample.OneOf(t, "disruption", nodescaler.Disruption{}, nodescaler.Disruption{Drift: nodescaler.DriftReplace, ExpireAfter: nodescaler.Duration(70 * time.Minute)}),
		})
		if rarely(t, "closed") {
			w.Pools[i].Closed = &nodescaler.Reason{Code: "PoolPaused", Text: "its machines failed"}
		}
		if rarely(t, "held up") {
			w.Pools[i].HeldUp = &sample.Paused
		}
		if rarely(t, "held down") {
			w.Pools[i].HeldDown = &sample.Paused
		}
		if rarely(t, "refused") {
			w.Pools[i].Refused = []nodescaler.RefusedOrder{{
				Shape: sample.OneOf(t, "shape refused", sample.Small, pricing.Shape{}), Host: sample.OneOf(t, "host refused", "pve1", "pve2"), Why: nodescaler.Reason{Code: "StorageFull", Text: "no room"},
			}}
		}
		if rarely(t, "devices") {
			w.Pools[i].Extra = pricing.Amounts{{Name: "gpu", N: 2}}
		}
		if rarely(t, "maintenance") {
			w.Pools[i].Maintenance = []string{sample.OneOf(t, "in maintenance", "pve1", "pve2")}
		}
	}
	for i := range rapid.IntRange(0, 7).Draw(t, "machines") {
		anyMachine(w, t, fmt.Sprintf("m-%d", i))
	}
	if disguised {
		disguise(w, t)
	}
	if rarely(t, "control plane") {
		w.Nodes = append(w.Nodes, nodescaler.Node{Name: "control", Ready: true, Allocatable: sample.Small.Resources()})
	}
	for i := range rapid.IntRange(0, 25).Draw(t, "pods") {
		anyPod(w, t, fmt.Sprintf("ns/p%02d", i))
	}
	for _, app := range []string{"ns/a", "ns/b"} {
		if rapid.Bool().Draw(t, "budget") {
			w.Budgets = append(w.Budgets, nodescaler.Budget{Workload: app, Allowed: rapid.IntRange(0, 3).Draw(t, "allowed")})
		}
	}
	if rarely(t, "future") {
		w.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/a", Requests: pricing.Resources{CPU: 700, Memory: pricing.GiB}}, Count: 3}}
	}
	return w
}

func anyMachine(w *sample.World, t *rapid.T, name string) {
	pool := &w.Pools[rapid.IntRange(0, len(w.Pools)-1).Draw(t, "pool")]
	age := time.Duration(rapid.IntRange(0, 40).Draw(t, "age")) * time.Minute
	m := nodescaler.Machine{
		Name: name, Order: name, Pool: pool.Name, Shape: sample.OneOf(t, "shape", pool.Shapes...),
		Host:    w.Hosts[rapid.IntRange(0, len(w.Hosts)-1).Draw(t, "host")].Name,
		Phase:   sample.OneOf(t, "phase", nodescaler.Joined, nodescaler.Joined, nodescaler.Joined, nodescaler.Joined, nodescaler.Ordered, nodescaler.Booting, nodescaler.Deleting, nodescaler.Failed),
		Created: w.Now.Add(-age), Since: w.Now.Add(-age / 2),
	}
	switch rapid.IntRange(0, 11).Draw(t, "spare") {
	case 0, 1:
		m.Phase, m.Problem = nodescaler.Spare, sample.OneOf(t, "spare's problem", "", "", "NoMemory: the host has none")
	case 2:
		m.Keep = true // to become one
	case 3:
		m.Woken = m.Since
	}
	m.Drifted = sample.OneOf(t, "drifted", "", "", "", "its template was changed")
	if !rarely(t, "unlisted") {
		w.Machines = append(w.Machines, m)
	}
	if m.Phase != nodescaler.Joined && m.Phase != nodescaler.Spare && !m.Waking() || rarely(t, "no node") {
		return
	}
	n := nodescaler.Node{
		Name: name, Machine: name, Pool: pool.Name, Allocatable: pool.Capacity(m.Shape), PodSlots: pool.PodSlots,
		Labels: pool.Labels, Taints: pool.Taints, Ready: !rarely(t, "not ready"), Joined: m.Since,
	}
	if !rarely(t, "nothing besides") {
		n.Extra = pool.Extras(m.Shape)
	}
	n.Draining = rarely(t, "draining")
	n.Cordoned = n.Draining != rarely(t, "cordoned")
	if rarely(t, "nobody's") {
		n.Machine = ""
	}
	w.Nodes = append(w.Nodes, n)
}

// disguise has nodes and machines say who they are, and some of it contradict the rest: renamed
// nodes, two of one machine, one with another's provider ID or UUID, machines that an adapter
// holds, claims on disks.
func disguise(w *sample.World, t *rapid.T) {
	machines := len(w.Machines)
	for i := range w.Machines {
		m := &w.Machines[i]
		m.ProviderID = sample.OneOf(t, "provider ID", "proxmox://r/"+m.Name, "proxmox://r/"+m.Name, "")
		m.SystemUUID = sample.OneOf(t, "UUID", "uuid-"+m.Name, "uuid-"+m.Name, "")
		if rarely(t, "held") {
			m.Held = &nodescaler.Reason{Code: "ForeignDisk", Text: "a person's disk is attached"}
		}
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		n.ProviderID = sample.OneOf(t, "node's provider ID", "proxmox://r/"+n.Machine, "")
		n.SystemUUID = sample.OneOf(t, "node's UUID", "uuid-"+n.Machine, "UUID-"+n.Machine, "")
		if rarely(t, "renamed") {
			n.Name += ".example.org"
		}
		if machines > 0 && rarely(t, "another's ID") {
			n.ProviderID = "proxmox://r/" + w.Machines[rapid.IntRange(0, machines-1).Draw(t, "whose")].Name
		}
		if rarely(t, "another's UUID") {
			n.SystemUUID = "uuid-strange"
		}
		if rarely(t, "claims") {
			n.LocalClaims = []string{"ns/data"}
		}
		n.ClaimsUnknown = rarely(t, "claims unknown")
	}
	for range rapid.IntRange(0, 2).Draw(t, "duplicates") {
		if len(w.Nodes) == 0 {
			break
		}
		n := w.Nodes[rapid.IntRange(0, len(w.Nodes)-1).Draw(t, "duplicate of")]
		n.Name = fmt.Sprintf("%s-%d", sample.OneOf(t, "named", "aa", "zz"), len(w.Nodes))
		n.Ready = rapid.Bool().Draw(t, "duplicate ready")
		w.Nodes = append(w.Nodes, n)
	}
	ids := nodescaler.NewIdentities(w.Machines) // as the adapters know it
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if m := ids.Of(nodescaler.Identity{Name: n.Name, ProviderID: n.ProviderID, SystemUUID: n.SystemUUID}).Machine; m != nil {
			n.Machine, n.Pool = m.Name, m.Pool
		} else if !rarely(t, "labelled") {
			n.Machine = ""
		}
	}
}

// namedBy are the nodes that name the machine in any way, found the slow way.
func namedBy(s *nodescaler.Snapshot, m *nodescaler.Machine) (nodes []*nodescaler.Node) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Name == m.Name || n.Machine == m.Name || m.ProviderID != "" && n.ProviderID == m.ProviderID ||
			m.SystemUUID != "" && strings.EqualFold(n.SystemUUID, m.SystemUUID) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// mustStay reports whether the machine must not be taken down, found the slow way.
func mustStay(s *nodescaler.Snapshot, m *nodescaler.Machine) bool {
	nodes := namedBy(s, m)
	return m.Held != nil || len(nodes) > 1 || slices.ContainsFunc(nodes, func(n *nodescaler.Node) bool {
		return len(n.LocalClaims) > 0 || n.ClaimsUnknown || n.Ready && m.Phase == nodescaler.Failed ||
			m.SystemUUID != "" && n.SystemUUID != "" && !strings.EqualFold(n.SystemUUID, m.SystemUUID)
	})
}

// For all that nodes report: a machine that something holds is neither emptied, stopped nor
// destroyed by any policy, none is deleted with pods on any of its nodes, and drains of what is
// held are taken back.
func TestNoPolicyTakesDownWhatIsHeld(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		p, w := build(t, anySpec(t, name)), drawWorld(t, true)
		at := time.Duration(0)
		for range rapid.IntRange(2, 8).Draw(t, "steps") {
			at += sample.OneOf(t, "step", 10*time.Second, time.Minute, 11*time.Minute, time.Hour)
			s := w.At(at)
			plan := sample.Decide(t, p, s)
			for i := range s.Machines {
				m := &s.Machines[i]
				nodes := namedBy(s, m)
				for _, a := range plan.Actions {
					down := a.Machine == m.Name || slices.ContainsFunc(nodes, func(n *nodescaler.Node) bool { return n.Name == a.Node })
					if a.Kind == nodescaler.Buy || a.Kind == nodescaler.Uncordon || a.Kind == nodescaler.Wake || !down {
						continue
					}
					if mustStay(s, m) {
						t.Fatalf("at %v %v is done to %s, which is held by %+v:%s", at, sample.Lines(plan), m.Name, nodes, sample.Reasons(plan))
					}
				}
			}
			obey(w, plan)
		}
	})
}

func anyPod(w *sample.World, t *rapid.T, name string) {
	p := nodescaler.Pod{
		Pod:         podscaler.Pod{Name: name, Phase: sample.OneOf(t, "pod phase", podscaler.Running, podscaler.Running, podscaler.Running, podscaler.Failed), Terminating: rarely(t, "terminating")},
		Workload:    sample.OneOf(t, "workload", "ns/a", "ns/b", "ns/c", ""),
		Requests:    pricing.Resources{CPU: sample.OneOf[pricing.MilliCPU](t, "cpu", 0, 100, 300, 900, 5000), Memory: sample.OneOf(t, "memory", 0, 100*pricing.MiB, pricing.GiB)},
		Priority:    sample.OneOf(t, "priority", 0, 0, 0, -20, 100),
		Created:     w.Now.Add(-time.Minute),
		Selector:    sample.OneOf(t, "selector", nil, nil, nil, map[string]string{"disk": "ssd"}),
		Tolerations: sample.OneOf(t, "tolerations", nil, nil, []nodescaler.Toleration{{Key: "gpu"}}),
		Extra:       sample.OneOf(t, "extra", nil, nil, nil, nil, pricing.Amounts{{Name: "gpu", N: 1}}, pricing.Amounts{{Name: pricing.EphemeralStorage, N: 1 << 30}}),
		Daemon:      rarely(t, "daemon"), Pinned: sample.OneOf(t, "pinned", "", "", "", "", "", "", "local storage"),
	}
	var used nodescaler.Used
	i := rapid.IntRange(-1, len(w.Nodes)-1).Draw(t, "node")
	if i >= 0 {
		for j := range w.Pods {
			if o := &w.Pods[j]; o.Node == w.Nodes[i].Name && !o.Finished() {
				used = used.With(o)
			}
		}
		n := w.Nodes[i]
		n.Ready, n.Cordoned = true, false // it was, when the pod came
		if nodescaler.Refusal(&p, &n, used) == "" {
			p.Node = n.Name
		}
	}
	if p.Node == "" {
		p.Unschedulable = !rarely(t, "not tried yet")
		if i >= 0 && rarely(t, "preempts") {
			p.Nominated, p.Pinned = w.Nodes[i].Name, "the scheduler makes room for it there"
		}
	}
	w.Pods = append(w.Pods, p)
}

// anySpec draws settings under which the clocks run out within minutes.
func anySpec(t *rapid.T, name string) Spec {
	p, u := DefaultPending(), DefaultUnneeded()
	p.Pool, p.Parallel, p.LoadHeadroom = sample.OneOf(t, "pool", "", "w0"), rapid.IntRange(1, 4).Draw(t, "parallel"), sample.OneOf(t, "headroom", 0, 0.2, 1)
	p.CountAs = sample.OneOf(t, "countAs", CountShape, CountAllocatable)
	u.ScaleDownUtilizationThreshold = sample.OneOf(t, "threshold", 0.5, 1)
	u.ScaleDownUnneededTime = sample.OneOf(t, "unneeded time", 0, minutes(1), minutes(10))
	u.ScaleDownDelayAfterAdd = sample.OneOf(t, "after add", 0, minutes(2), minutes(10))
	u.ScaleDownDelayAfterFailure = sample.OneOf(t, "after failure", 0, minutes(3))
	u.MaxDrainParallelism, u.MaxEmptyBulkDelete = rapid.IntRange(1, 3).Draw(t, "drains"), rapid.IntRange(1, 3).Draw(t, "empty")
	u.OKTotalUnreadyCount = sample.OneOf(t, "ok unready", 0, 3)
	u.EnforceNodeGroupMinSize = rapid.Bool().Draw(t, "min")
	j := DefaultJoint()
	j.Spares.Most, j.Spares.Worth = rapid.IntRange(0, 4).Draw(t, "spares"), sample.OneOf(t, "worth", 0.1, 30, 1000)
	j.Spares.BudgetPercent = sample.OneOf(t, "budget", 0, 1, 5.0)
	return Spec{Policy: name, Pending: &p, Unneeded: &u, Joint: &j}
}

// obey does to the nodes and pods what the plan says, as far as that can be seen at once.
func obey(w *sample.World, plan nodescaler.Plan) {
	for _, a := range plan.Actions {
		for i := range w.Nodes {
			if n := &w.Nodes[i]; n.Name == a.Node && (a.Kind == nodescaler.Cordon || a.Kind == nodescaler.Uncordon) {
				n.Cordoned, n.Draining = a.Kind == nodescaler.Cordon, a.Kind == nodescaler.Cordon
			}
		}
		for i := range w.Pods {
			if p := &w.Pods[i]; p.Name == a.Pod && a.Kind == nodescaler.Evict {
				p.Terminating = true
			}
		}
		for i := range w.Machines {
			if m := &w.Machines[i]; m.Name == a.Machine {
				switch {
				case a.Kind == nodescaler.Stash:
					m.Phase, m.Since, m.Keep = nodescaler.Spare, w.Now, false
				case a.Kind == nodescaler.Wake && m.Phase == nodescaler.Spare:
					m.Phase, m.Since, m.Woken = nodescaler.Booting, w.Now, w.Now
				case a.Kind == nodescaler.Wake:
					m.Keep = false
				}
			}
		}
	}
}

func forEachPolicy(t *testing.T, law func(t *rapid.T, name string)) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) { law(t, name) }))
	}
}

// decide holds every plan to nodescaler.Check, and the snapshot to what it was.
func TestNoPlanBreaksTheRules(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		p := build(t, anySpec(t, name))
		at := time.Duration(0)
		for range rapid.IntRange(1, 4).Draw(t, "worlds") {
			w := anyWorld(t)
			for range rapid.IntRange(1, 4).Draw(t, "steps") {
				at += sample.OneOf(t, "step", 5*time.Second, 10*time.Second, time.Minute, 11*time.Minute, time.Hour)
				plan := sample.Decide(t, p, w.At(at))
				obey(w, plan)
				for _, r := range plan.Reasons {
					if r.Code == "" || r.Text == "" {
						t.Fatalf("a reason says too little: %+v", r)
					}
				}
			}
		}
	})
}

func TestPlanDoesNotDependOnTheSnapshotsOrder(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		spec, w := anySpec(t, name), anyWorld(t)
		a, b := build(t, spec), build(t, spec)
		for _, at := range []time.Duration{0, time.Minute, 12 * time.Minute, 25 * time.Minute} {
			s, shuffled := w.At(at), w.At(at)
			shuffled.Pods = rapid.Permutation(s.Pods).Draw(t, "pods")
			shuffled.Nodes = rapid.Permutation(s.Nodes).Draw(t, "nodes")
			shuffled.Machines = rapid.Permutation(s.Machines).Draw(t, "machines")
			shuffled.Hosts = rapid.Permutation(s.Hosts).Draw(t, "hosts")
			shuffled.Pools = rapid.Permutation(s.Pools).Draw(t, "pools")
			if d := cmp.Diff(sample.Decide(t, a, s), sample.Decide(t, b, shuffled)); d != "" {
				t.Fatalf("at %v: %s", at, d)
			}
		}
	})
}

func TestSameSnapshotSamePlan(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		spec, w := anySpec(t, name), anyWorld(t)
		if d := cmp.Diff(sample.Decide(t, build(t, spec), &w.Snapshot), sample.Decide(t, build(t, spec), w.At(0))); d != "" {
			t.Fatal(d)
		}
	})
}

// A pod that waits has a reason, with a machine for it or what is in the way of one, by the
// policies that look at pods one by one.
func TestNoPodWaitsWithoutAReason(t *testing.T) {
	forAll := []string{nodescaler.ClusterUnhealthy, nodescaler.NoHostRoom, nodescaler.PoolBackingOff, "PoolPaused", sample.Paused.Code}
	explains := func(r nodescaler.Reason) bool {
		return strings.Contains(r.Text, "ns/waits") || strings.Contains(r.Text, "in the way of") || slices.Contains(forAll, r.Code)
	}
	for _, name := range []string{"joint", "unneeded"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			p, w := build(t, anySpec(t, name)), anyWorld(t)
			w.Pods = slices.DeleteFunc(w.Pods, func(p nodescaler.Pod) bool { return p.Node == "" })
			w.Pods = append(w.Pods, nodescaler.Pod{
				Pod: podscaler.Pod{Name: "ns/waits"}, Workload: "ns/d", Created: w.Now, Unschedulable: true,
				Requests: pricing.Resources{CPU: sample.OneOf[pricing.MilliCPU](t, "cpu", 300, 3000), Memory: pricing.GiB},
			})
			for _, at := range []time.Duration{0, 10 * time.Second} {
				plan := sample.Decide(t, p, w.At(at))
				said := plan.Reasons
				for i := range plan.Actions {
					said = slices.Concat(said, plan.Actions[i].Reasons)
				}
				if !slices.ContainsFunc(said, explains) {
					t.Fatalf("at %v nothing is said of it:%s", at, sample.Reasons(plan))
				}
			}
		}))
	}
}

// givesBack counts the plan's actions that lead to fewer machines.
func givesBack(p nodescaler.Plan) int {
	n := 0
	for _, a := range p.Actions {
		if a.Kind == nodescaler.Cordon || a.Kind == nodescaler.Evict || a.Kind == nodescaler.Return {
			n++
		}
	}
	return n
}

// settled makes the world one in which nothing is ordered, so that only giving back is left.
func settled(w *sample.World) *sample.World {
	w.Future = nil
	for i := range w.Pods {
		w.Pods[i].Unschedulable = false
	}
	for i := range w.Pools {
		w.Pools[i].Min = 0
	}
	return w
}

func TestARestartedPolicyIsNeverFasterToGiveBack(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		spec := anySpec(t, name)
		old, fresh := build(t, spec), build(t, spec)
		before, w := anyWorld(t), settled(anyWorld(t))
		at := time.Duration(0)
		for range rapid.IntRange(1, 20).Draw(t, "steps before") {
			sample.Decide(t, old, before.At(at))
			at += time.Minute
		}
		for range 30 {
			was, is := sample.Decide(t, old, w.At(at)), sample.Decide(t, fresh, w.At(at))
			if givesBack(was) > 0 {
				return
			}
			if givesBack(is) > 0 {
				t.Fatalf("at %v the restarted policy does %v, the other waits:%s", at, sample.Lines(is), sample.Reasons(was))
			}
			at += time.Minute
		}
	})
}

// What is not seen is not gone: when nodes stop being ready, or hosts are away, nothing is
// reclaimed for it but machines that never were nodes.
func TestUnknownNeverShrinks(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		spec, w := anySpec(t, name), anyWorld(t)
		p := build(t, spec)
		at := time.Duration(0)
		for range rapid.IntRange(1, 25).Draw(t, "minutes") {
			obey(w, sample.Decide(t, p, w.At(at)))
			at += time.Minute
		}
		dark := sample.OneOf(t, "dark", "nodes", "hosts")
		for i := range w.Nodes {
			w.Nodes[i].Ready = w.Nodes[i].Ready && dark != "nodes"
		}
		for i := range w.Hosts {
			w.Hosts[i].Online = w.Hosts[i].Online && dark != "hosts"
		}
		s := w.At(at)
		x := nodescaler.NewIndex(s)
		wasReady := func(n string) bool { return x.NodeOf(n) != nil }
		for i, a := range sample.Decide(t, p, s).Actions {
			neverJoined := a.Kind == nodescaler.Return && dark == "nodes" && !wasReady(a.Machine)
			if a.Kind == nodescaler.Buy || a.Kind == nodescaler.Uncordon || a.Kind == nodescaler.Wake || neverJoined || slices.Contains(longUnready(w, at), a.Node) {
				continue
			}
			t.Fatalf("%s dark, action %d: %+v", dark, i, a)
		}
	})
}

// longUnready is the nodes that the world has shown as not ready throughout, for so long that
// they may be reclaimed for it.
func longUnready(w *sample.World, at time.Duration) []string {
	var names []string
	x := nodescaler.NewIndex(&w.Snapshot)
	for _, n := range w.Nodes {
		limit := 20 * time.Minute
		if m := x.Machine(n.Machine); m != nil && m.Keep {
			limit = 15 * time.Minute // what is to become a spare has nothing to lose
		}
		if !n.Ready && at > limit {
			names = append(names, n.Name)
		}
	}
	return names
}

func TestOneNodeLessReadyNeverTakesMore(t *testing.T) {
	forEachPolicy(t, func(t *rapid.T, name string) {
		spec, w := anySpec(t, name), anyWorld(t)
		a, b := build(t, spec), build(t, spec)
		at := time.Duration(0)
		for range rapid.IntRange(1, 25).Draw(t, "minutes") {
			sample.Decide(t, a, w.At(at))
			obey(w, sample.Decide(t, b, w.At(at)))
			at += time.Minute
		}
		s, dark := w.At(at), w.At(at)
		if len(w.Nodes) == 0 {
			return
		}
		dark.Nodes[rapid.IntRange(0, len(w.Nodes)-1).Draw(t, "node")].Ready = false
		x := nodescaler.NewIndex(s)
		count := func(p nodescaler.Plan) (n int) {
			for _, a := range p.Actions {
				// Nobody's capacity, and goes where more of that is wanted.
				spare := x.Machine(a.Machine) != nil && x.Machine(a.Machine).Kept()
				if !spare && (a.Kind == nodescaler.Cordon || a.Kind == nodescaler.Return) {
					n++
				}
			}
			return n
		}
		more, less := sample.Decide(t, a, s), sample.Decide(t, b, dark)
		if count(less) > count(more) {
			t.Fatalf("%v with one node less ready, %v before:%s", sample.Lines(less), sample.Lines(more), sample.Reasons(less))
		}
	})
}

// without is the world with no spare in it, nor any node of one.
func without(w *sample.World) *sample.World {
	x := nodescaler.NewIndex(&w.Snapshot)
	bare := &sample.World{Snapshot: *sample.Copy(&w.Snapshot)}
	bare.Machines, bare.Nodes = nil, nil
	for i := range w.Machines {
		if m := &w.Machines[i]; !m.Kept() {
			bare.Machines = append(bare.Machines, *m)
		}
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		m := x.Machine(n.Machine)
		if m == nil {
			m = x.Machine(n.Name)
		}
		if m == nil || !m.Kept() {
			bare.Nodes = append(bare.Nodes, *n)
		}
	}
	return bare
}

// partings takes out of a plan what lets spares go, of which there is one return at most.
func partings(t sample.Fatal, p nodescaler.Plan) nodescaler.Plan {
	n := 0
	p.Actions = slices.DeleteFunc(slices.Clone(p.Actions), func(a nodescaler.Action) bool {
		gone := a.Kind == nodescaler.Return && a.Reasons[0].Code == nodescaler.SpareUnneeded
		if gone {
			n++
		}
		return gone
	})
	if len(p.Actions) == 0 {
		p.Actions = nil
	}
	if n > 1 {
		t.Fatalf("%d spares are reclaimed at once", n)
	}
	return p
}

// A spare takes a place in its pool and room while it is made, and but for being let go is nothing
// else to a policy that keeps none.
func TestSparesAreNothingToPoliciesWithoutThem(t *testing.T) {
	for _, name := range []string{"pending", "unneeded"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			spec, w := anySpec(t, name), drawWorld(t, false)
			w.Limit = 0
			for i := range w.Pools {
				w.Pools[i].Max = 100
			}
			for i := range w.Machines {
				if m := &w.Machines[i]; m.Kept() { // stopped it takes no room
					m.Phase, m.Keep = nodescaler.Spare, false
				}
			}
			a, b := build(t, spec), build(t, spec)
			bare := without(w)
			for _, at := range []time.Duration{0, time.Minute, 12 * time.Minute, 25 * time.Minute} {
				with, without := partings(t, sample.Decide(t, a, w.At(at))), sample.Decide(t, b, bare.At(at))
				if d := cmp.Diff(without, with); d != "" {
					t.Fatalf("at %v, with the spares (+) and without (-):\n%s", at, d)
				}
			}
		}))
	}
}

// What joint does with spares in any world: at most as many are kept as may be, and one is only
// ordered while no pod waits for a machine.
func TestJointOrdersNoMoreSparesThanMayBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, w := anySpec(t, "joint"), anyWorld(t)
		p := build(t, spec)
		at, peak := time.Duration(0), map[string]int{}
		for range rapid.IntRange(2, 6).Draw(t, "steps") {
			at += sample.OneOf(t, "step", 5*time.Second, time.Minute, time.Hour)
			s := w.At(at)
			kept, had, ordered, others := map[string]int{}, map[string]int{}, map[string]int{}, 0
			for i := range s.Machines {
				if m := &s.Machines[i]; m.Kept() && m.Drifted == "" {
					kept[m.Pool]++
				} else if !m.Kept() && m.Phase.Live() {
					had[m.Pool]++
				}
			}
			for pool, n := range had {
				peak[pool] = max(peak[pool], n)
			}
			plan := sample.Decide(t, p, s)
			for _, a := range plan.Actions {
				switch {
				case a.Kind == nodescaler.Buy && a.Keep:
					ordered[a.Pool]++
				case a.Kind == nodescaler.Buy || a.Kind == nodescaler.Wake:
					others++
				}
			}
			for pool, n := range ordered {
				most := spec.Joint.Spares.Most
				if auto := max(peak[pool], 1); spec.Joint.Spares.BudgetPercent > 0 && (most == 0 || auto < most) {
					most = auto
				}
				if kept[pool]+n > most {
					t.Fatalf("%d spares of pool %s are ordered with %d there, of at most %d:%s", n, pool, kept[pool], most, sample.Reasons(plan))
				}
			}
			if len(ordered) > 0 && others > 0 {
				t.Fatalf("spares are ordered beside machines that are waited for: %v", sample.Lines(plan))
			}
			obey(w, plan)
		}
	})
}
