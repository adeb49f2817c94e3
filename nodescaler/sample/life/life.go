// Package life has a small world carry out what a policy decides: machines boot, a scheduler binds
// pods, evicted pods come back elsewhere. A Week of it is what policies are compared by.
package life

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Life is a small world that carries actions out: machines boot, a scheduler binds pods, evicted
// pods come back elsewhere.
type Life struct {
	sample.World
	Wanted map[string]int // replicas by size, as 300m
	Marks  map[string]Marks
	Top    int // the most machines that ran, or were on their way
	born   int
}

// Marks are what a workload's pods have and repel. Unseen are rules that the scheduler alone knows.
type Marks struct {
	Has, Repels      []string
	Topology, Unseen []nodescaler.Topology
}

// Step is how often Live decides, and Boot how long a machine takes from its order until it is a
// node.
const (
	Step = 20 * time.Second
	Boot = 90 * time.Second
)

// Live lets the world go on for a while under the policy, and returns what was done.
func (l *Life) Live(t sample.Fatal, p nodescaler.Policy, d time.Duration) (done []string) {
	for end := l.Now.Add(d); l.Now.Before(end); l.Now = l.Now.Add(Step) {
		l.Arrive()
		l.Control()
		l.Schedule()
		x := nodescaler.NewIndex(&l.Snapshot)
		plan := p.Decide(x)
		running, _ := l.Count()
		l.Top = max(l.Top, running)
		if v := nodescaler.Check(x, plan); len(v) > 0 {
			t.Fatalf("the plan breaks the rules: %v", v)
		}
		done = append(done, sample.Lines(plan)...)
		for _, a := range plan.Actions {
			l.Do(a)
		}
	}
	return done
}

// Count counts those that live.
func (l *Life) Count() (running, spares int) {
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

// Arrive moves machines through their phases, and takes away what has left.
func (l *Life) Arrive() {
	l.Pods = slices.DeleteFunc(l.Pods, func(p nodescaler.Pod) bool { return p.Terminating })
	l.Machines = slices.DeleteFunc(l.Machines, func(m nodescaler.Machine) bool { return m.Phase == nodescaler.Deleting })
	for i := range l.Machines {
		m := &l.Machines[i]
		if m.Waking() && l.Now.Sub(m.Woken) >= Step {
			m.Phase, m.Since = nodescaler.Joined, l.Now
			l.ready(m.Name, true)
		}
		if m.Phase == nodescaler.Ordered && l.Now.Sub(m.Created) >= Boot {
			m.Phase, m.Since = nodescaler.Joined, l.Now
			l.Nodes = append(l.Nodes, nodescaler.Node{
				Name: m.Name, Machine: m.Name, Pool: m.Pool, Ready: true, Joined: l.Now, Labels: l.LabelsOf(m),
				Allocatable: m.Shape.Resources().Minus(pricing.Resources{CPU: 100, Memory: 256 * pricing.MiB}),
			})
			l.Pod("daemon/"+m.Name, m.Name, 100, 256, sample.Daemon)
		}
	}
}

// LabelsOf is those of the pool, and the node's name.
func (l *Life) LabelsOf(m *nodescaler.Machine) map[string]string {
	labels := map[string]string{nodescaler.HostLabel: m.Name}
	for i := range l.Pools {
		if l.Pools[i].Name == m.Pool {
			maps.Copy(labels, l.Pools[i].NodeOn(m.Shape, m.Host).Labels)
		}
	}
	return labels
}

// ready says of a machine's node whether it is heard.
func (l *Life) ready(machine string, is bool) {
	for i := range l.Nodes {
		if l.Nodes[i].Machine == machine {
			l.Nodes[i].Ready = is
		}
	}
}

// Control makes as many pods as are wanted, as a workload's controller does.
func (l *Life) Control() {
	for _, size := range []int{300, 700, 1100} {
		app := fmt.Sprintf("ns/app%d", size)
		there := 0
		l.Pods = slices.DeleteFunc(l.Pods, func(p nodescaler.Pod) bool {
			if p.Workload != app || p.Terminating {
				return false
			}
			there++
			return there > l.Wanted[app]
		})
		for ; there < l.Wanted[app]; there++ {
			l.born++
			l.Pod(fmt.Sprintf("%s-%04d", app, l.born), "", pricing.MilliCPU(size), 200, func(p *nodescaler.Pod) {
				p.Workload, p.Has, p.Repels, p.Topology = app, l.Marks[app].Has, l.Marks[app].Repels, l.Marks[app].Topology
			})
		}
	}
}

// Schedule binds each pod to the first node that takes it.
func (l *Life) Schedule() {
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
func (l *Life) spreads(p *nodescaler.Pod, n *nodescaler.Node, crowds map[string]nodescaler.Crowd) bool {
	for _, t := range slices.Concat(p.Topology, l.Marks[p.Workload].Unseen) {
		domain, is := n.Labels[t.Key]
		if !is {
			return false
		}
		counts := map[string]int{}
		for _, other := range l.Nodes {
			if d, is := other.Labels[t.Key]; is && !(t.Tolerated && (other.Cordoned || !other.Ready)) {
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

// Do carries an action out.
func (l *Life) Do(a nodescaler.Action) {
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
	case nodescaler.Reboot:
		machine().Rebooted = l.Now
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

// Waiting names the pods that wait for a node.
func (l *Life) Waiting() (names []string) {
	for i := range l.Pods {
		if l.Pods[i].Node == "" {
			names = append(names, l.Pods[i].Name)
		}
	}
	return names
}

// Rate is what all machines cost an hour.
func (l *Life) Rate() (sum pricing.Rate) {
	x := nodescaler.NewIndex(&l.Snapshot)
	for _, m := range x.Machines {
		sum += x.Rate(m.Shape, m.Host)
	}
	return sum
}
