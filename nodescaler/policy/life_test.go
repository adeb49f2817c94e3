package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// life is a small world that carries actions out: machines boot, a scheduler binds pods, evicted
// pods come back elsewhere.
type life struct {
	sample.World
	wanted map[string]int // replicas by size, as 300m
	marks  map[string]marks
	born   int
	top    int // the most machines that ran, or were on their way
}

// marks are what a workload's pods have and repel.
type marks struct {
	has, repels []string
	topology    []nodescaler.Topology
}

// drawMarks has some workloads keep their pods apart from each other, or from those of another.
func drawMarks(t *rapid.T) map[string]marks {
	all := map[string]marks{}
	for _, app := range []string{"ns/app300", "ns/app700", "ns/app1100"} {
		m := marks{has: []string{app}}
		for _, other := range []string{"ns/app1100", "ns/app300", "ns/app700"} {
			if rapid.IntRange(0, 3).Draw(t, app+" repels "+other) == 0 {
				m.repels = append(m.repels, other)
			}
		}
		all[app] = m
	}
	return all
}

const (
	step = 20 * time.Second
	boot = 90 * time.Second
)

// live lets the world go on for a while under the policy, and returns what was done.
func (l *life) live(t sample.Fatal, p nodescaler.Policy, d time.Duration) (done []string) {
	for end := l.Now.Add(d); l.Now.Before(end); l.Now = l.Now.Add(step) {
		l.arrive()
		l.control()
		l.schedule()
		x := nodescaler.NewIndex(&l.Snapshot)
		plan := p.Decide(x)
		running, _ := l.machines()
		l.top = max(l.top, running)
		if v := nodescaler.Check(x, plan); len(v) > 0 {
			t.Fatalf("the plan breaks the rules: %v", v)
		}
		done = append(done, sample.Lines(plan)...)
		for _, a := range plan.Actions {
			l.do(a)
		}
	}
	return done
}

// machines counts those that live.
func (l *life) machines() (running, spares int) {
	for i := range l.Machines {
		switch m := &l.Machines[i]; {
		case m.Kept():
			spares++
		case m.Phase.Live():
			running++
		}
	}
	return running, spares
}

// arrive moves machines through their phases, and takes away what has left.
func (l *life) arrive() {
	l.Pods = slices.DeleteFunc(l.Pods, func(p nodescaler.Pod) bool { return p.Terminating })
	l.Machines = slices.DeleteFunc(l.Machines, func(m nodescaler.Machine) bool { return m.Phase == nodescaler.Deleting })
	for i := range l.Machines {
		m := &l.Machines[i]
		if m.Waking() && l.Now.Sub(m.Woken) >= step {
			m.Phase, m.Since = nodescaler.Joined, l.Now
			l.ready(m.Name, true)
		}
		if m.Phase == nodescaler.Ordered && l.Now.Sub(m.Created) >= boot {
			m.Phase, m.Since = nodescaler.Joined, l.Now
			l.Nodes = append(l.Nodes, nodescaler.Node{
				Name: m.Name, Machine: m.Name, Pool: m.Pool, Ready: true, Joined: l.Now, Labels: l.labels(m),
				Allocatable: m.Shape.Resources().Minus(pricing.Resources{CPU: 100, Memory: 256 * pricing.MiB}),
			})
			l.Pod("daemon/"+m.Name, m.Name, 100, 256, sample.Daemon)
		}
	}
}

// labels are those of the pool, and the node's name.
func (l *life) labels(m *nodescaler.Machine) map[string]string {
	labels := map[string]string{nodescaler.HostLabel: m.Name}
	for i := range l.Pools {
		if l.Pools[i].Name == m.Pool {
			maps.Copy(labels, l.Pools[i].Labels)
		}
	}
	return labels
}

// ready says of a machine's node whether it is heard.
func (l *life) ready(machine string, is bool) {
	for i := range l.Nodes {
		if l.Nodes[i].Machine == machine {
			l.Nodes[i].Ready = is
		}
	}
}

// control makes as many pods as are wanted, as a workload's controller does.
func (l *life) control() {
	for _, size := range []int{300, 700, 1100} {
		app := fmt.Sprintf("ns/app%d", size)
		there := 0
		l.Pods = slices.DeleteFunc(l.Pods, func(p nodescaler.Pod) bool {
			if p.Workload != app || p.Terminating {
				return false
			}
			there++
			return there > l.wanted[app]
		})
		for ; there < l.wanted[app]; there++ {
			l.born++
			l.Pod(fmt.Sprintf("%s-%04d", app, l.born), "", pricing.MilliCPU(size), 200, func(p *nodescaler.Pod) {
				p.Workload, p.Has, p.Repels, p.Topology = app, l.marks[app].has, l.marks[app].repels, l.marks[app].topology
			})
		}
	}
}

// schedule binds each pod to the first node that takes it.
func (l *life) schedule() {
	used, crowds := map[string]nodescaler.Used{}, map[string]nodescaler.Crowd{}
	for i := range l.Pods {
		used[l.Pods[i].Node] = used[l.Pods[i].Node].With(&l.Pods[i])
		crowds[l.Pods[i].Node] = crowds[l.Pods[i].Node].With(&l.Pods[i])
	}
	for i := range l.Pods {
		p := &l.Pods[i]
		for j := range l.Nodes {
			n := &l.Nodes[j]
			if p.Node == "" && nodescaler.Refusal(p, n, used[n.Name]) == "" && crowds[n.Name].Clash(p) == nil && l.spreads(p, n, crowds) {
				p.Node, p.Phase, p.Unschedulable = n.Name, podscaler.Running, false
				used[n.Name], crowds[n.Name] = used[n.Name].With(p), crowds[n.Name].With(p)
			}
		}
	}
}

// spreads reports whether the pod's rules of topology let it go to the node, by their definition.
func (l *life) spreads(p *nodescaler.Pod, n *nodescaler.Node, crowds map[string]nodescaler.Crowd) bool {
	for _, t := range p.Topology {
		domain, is := n.Labels[t.Key]
		if !is {
			return false
		}
		counts := map[string]int{}
		for _, other := range l.Nodes {
			if d, is := other.Labels[t.Key]; is {
				counts[d] += 0
				for _, q := range crowds[other.Name] {
					if slices.Contains(q.Has, t.Mark) {
						counts[d]++
					}
				}
			}
		}
		least := counts[domain]
		for _, n := range counts {
			least = min(least, n)
		}
		if len(counts) < t.MinDomains {
			least = 0
		}
		if t.Skew == 0 && counts[domain] > 0 || t.Skew > 0 && counts[domain]+1-least > t.Skew {
			return false
		}
	}
	return true
}

func (l *life) do(a nodescaler.Action) {
	node := func(n nodescaler.Node) bool { return n.Name == a.Node }
	machine := func() *nodescaler.Machine {
		return &l.Machines[slices.IndexFunc(l.Machines, func(m nodescaler.Machine) bool { return m.Name == a.Machine })]
	}
	switch a.Kind {
	case nodescaler.Buy:
		l.Machines = append(l.Machines, nodescaler.Machine{
			Name: nodescaler.MachineName(a.Pool, a.Order), Order: a.Order, Pool: a.Pool, Shape: *a.Shape, Host: a.Host,
			Phase: nodescaler.Ordered, Created: l.Now, Since: l.Now, Keep: a.Keep,
		})
	case nodescaler.Stash:
		m := machine()
		m.Phase, m.Since, m.Keep = nodescaler.Spare, l.Now, false
		l.ready(m.Name, false)
	case nodescaler.Wake:
		m := machine()
		if m.Phase == nodescaler.Spare {
			m.Phase, m.Since, m.Woken = nodescaler.Booting, l.Now, l.Now
		}
		m.Keep = false
		if a.Node != "" {
			n := &l.Nodes[slices.IndexFunc(l.Nodes, node)]
			n.Cordoned, n.Draining = false, false
		}
	case nodescaler.Cordon, nodescaler.Uncordon:
		n := &l.Nodes[slices.IndexFunc(l.Nodes, node)]
		n.Cordoned, n.Draining = a.Kind == nodescaler.Cordon, a.Kind == nodescaler.Cordon
	case nodescaler.Evict, nodescaler.DeletePod:
		l.Pods[slices.IndexFunc(l.Pods, func(p nodescaler.Pod) bool { return p.Name == a.Pod })].Terminating = true
	case nodescaler.Return:
		m := machine()
		m.Phase, m.Since = nodescaler.Deleting, l.Now
		l.Nodes = slices.DeleteFunc(l.Nodes, node)
		l.Pods = slices.DeleteFunc(l.Pods, func(p nodescaler.Pod) bool { return a.Node != "" && p.Node == a.Node })
	}
}

func (l *life) waiting() (names []string) {
	for i := range l.Pods {
		if l.Pods[i].Node == "" {
			names = append(names, l.Pods[i].Name)
		}
	}
	return names
}

// After any load: once it is steady, every pod runs, and nothing more is done; and once it is gone,
// so are the machines.
func TestPoliciesComeToRest(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			l := &life{World: *sample.New(), wanted: map[string]int{}, marks: drawMarks(t)}
			l.Pools[0].Max, l.Pools[0].Min = 30, rapid.IntRange(0, 2).Draw(t, "min")
			for i := range l.Hosts {
				l.Hosts[i].Room = sample.Small.Resources().Times(12)
			}
			p := build(t, Spec{Policy: name})
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				for _, size := range []string{"300", "700", "1100"} {
					l.wanted["ns/app"+size] = rapid.IntRange(0, 6).Draw(t, size)
				}
				l.live(t, p, time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes"))*time.Minute)
			}
			l.live(t, p, 60*time.Minute)
			if done := l.live(t, p, 20*time.Minute); name == "unneeded" && len(done) > 0 {
				t.Fatalf("under a steady load, after an hour: %s", strings.Join(done, ", "))
			}
			if w := l.waiting(); name == "unneeded" && len(w) > 0 {
				t.Fatalf("under a steady load, after an hour %v wait", w)
			}
			clear(l.wanted)
			l.live(t, p, 90*time.Minute)
			least := l.Pools[0].Min
			if name == "pending" {
				least = max(least, 1) // it keeps its last node
			}
			if got := len(l.Machines); got > least {
				t.Fatalf("without load there are %d machines, want %d at most", got, least)
			}
		}))
	}
}

// With spares, too: under a steady load nothing is done in the end and every pod runs, and without
// any load there are the spares and no more.
func TestJointWithSparesComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{World: *sample.New(), wanted: map[string]int{}, marks: drawMarks(t)}
		l.Pools[0].Max, l.Pools[0].Min = 30, rapid.IntRange(0, 2).Draw(t, "min")
		for i := range l.Hosts {
			l.Hosts[i].Room = sample.Small.Resources().Times(12)
		}
		j := DefaultJoint()
		if j.Spares.Most = rapid.IntRange(0, 4).Draw(t, "most"); j.Spares.Most == 0 {
			j.Spares.BudgetPercent = 5
		}
		p := build(t, Spec{Policy: "joint", Joint: &j})
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			for _, size := range []string{"300", "700", "1100"} {
				l.wanted["ns/app"+size] = rapid.IntRange(0, 6).Draw(t, size)
			}
			l.live(t, p, time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes"))*time.Minute)
		}
		l.live(t, p, 120*time.Minute)
		if done := l.live(t, p, 20*time.Minute); len(done) > 0 {
			t.Fatalf("under a steady load, after two hours: %s", strings.Join(done, ", "))
		}
		if w := l.waiting(); len(w) > 0 {
			t.Fatalf("under a steady load, after two hours %v wait", w)
		}
		clear(l.wanted)
		l.live(t, p, 120*time.Minute)
		running, spares := l.machines()
		most := j.Spares.Most
		if most == 0 {
			most = max(l.top, 1)
		}
		if running > l.Pools[0].Min || spares != most {
			t.Fatalf("without load %d machines run and %d are spares, want %d at most and %d", running, spares, l.Pools[0].Min, most)
		}
	})
}

// However pods are to be spread over nodes and zones: once the load is steady they all run, and no
// machine is there for nothing.
func TestPodsThatAreSpreadAllRun(t *testing.T) {
	const zone = "topology.kubernetes.io/zone"
	for _, name := range []string{"unneeded", "joint"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			l := &life{World: *sample.New(), wanted: map[string]int{}, marks: map[string]marks{}}
			zones := rapid.IntRange(1, 3).Draw(t, "zones")
			pool := l.Pools[0]
			l.Pools = nil
			for i := range zones {
				pool.Name, pool.Max, pool.Labels = fmt.Sprintf("w%d", i), 30, map[string]string{zone: fmt.Sprintf("z%d", i)}
				l.Pools = append(l.Pools, pool)
			}
			for i := range l.Hosts {
				l.Hosts[i].Room = sample.Small.Resources().Times(30)
			}
			mosts := map[string]int{}
			for _, size := range []string{"300", "700", "1100"} {
				app, most := "ns/app"+size, 6
				m := marks{has: []string{app}}
				switch rapid.IntRange(0, 5).Draw(t, app) {
				case 0:
					m.topology = []nodescaler.Topology{{Key: nodescaler.HostLabel, Mark: app, Skew: rapid.IntRange(1, 3).Draw(t, "skew")}}
				case 1:
					m.topology = []nodescaler.Topology{{Key: zone, Mark: app, Skew: rapid.IntRange(1, 2).Draw(t, "skew"), MinDomains: rapid.IntRange(0, zones).Draw(t, "least")}}
				case 2:
					m.topology, most = []nodescaler.Topology{{Key: zone, Mark: app}}, zones
				case 3:
					m.topology = []nodescaler.Topology{{Key: zone, Mark: app, Skew: 1}, {Key: nodescaler.HostLabel, Mark: app, Skew: 2}}
				}
				l.marks[app], mosts[app] = m, most
			}
			p := build(t, Spec{Policy: name})
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				for _, app := range slices.Sorted(maps.Keys(mosts)) {
					l.wanted[app] = rapid.IntRange(0, mosts[app]).Draw(t, app)
				}
				l.live(t, p, time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes"))*time.Minute)
			}
			l.live(t, p, 60*time.Minute)
			if w := l.waiting(); len(w) > 0 {
				t.Fatalf("after an hour %v wait: %+v", w, l.marks)
			}
			for _, n := range l.Nodes {
				if !slices.ContainsFunc(l.Pods, func(p nodescaler.Pod) bool { return p.Node == n.Name && !p.Daemon }) {
					t.Fatalf("after an hour %s is empty: %+v", n.Name, l.marks)
				}
			}
		}))
	}
}
