// Package sample makes the small clusters that tests of node scaling decide on, holds every plan to
// what all policies keep, and prints plans as short lines.
package sample

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Zone is the label that says which zone a node is in.
const Zone = nodescaler.ZoneLabel

// What all worlds are made of.
var (
	Noon  = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	Small = pricing.Shape{Name: "small", CPU: 2000, Memory: 4 * pricing.GiB}
	Large = pricing.Shape{Name: "large", CPU: 8000, Memory: 16 * pricing.GiB}
)

// World is a snapshot in the making.
type World struct{ nodescaler.Snapshot }

// New is a pool of up to ten small machines on three hosts, each with room for four.
func New() *World {
	w := &World{Snapshot: nodescaler.Snapshot{Now: Noon, Prices: pricing.DefaultBook()}}
	w.Pools = []nodescaler.Pool{{
		Name: "w", Shapes: []pricing.Shape{Small}, Max: 10,
		Reserved: pricing.Resources{CPU: 200, Memory: 512 * pricing.MiB},
	}}
	for _, name := range []string{"pve1", "pve2", "pve3"} {
		w.Hosts = append(w.Hosts, nodescaler.Host{Host: pricing.Host{Name: name, Room: Small.Resources().Times(4)}, Online: true})
	}
	return w
}

// Limited is a world whose machines may cost so much in all as n small ones, with disks that cost.
func Limited(n int) *World {
	w := New().Dear(pricing.Unit / 100)
	w.Limit = pricing.Rate(n) * w.Prices.Rate(w.Pools[0].Shapes[0], "", Noon)
	return w
}

// Zoned has a pool for each zone: w-a is in zone a.
func Zoned(zones ...string) *World {
	w := New()
	pool := w.Pools[0]
	w.Pools = nil
	for _, z := range zones {
		pool.Name, pool.Labels = "w-"+z, map[string]string{Zone: z}
		w.Pools = append(w.Pools, pool)
	}
	return w
}

// ZonedByHost has one pool, whose nodes have their host as their zone.
func ZonedByHost() *World {
	return New().Change(func(w *World) { w.Pools[0].HostIsZone = true })
}

// OnHost labels the last node with the host that it is on.
func (w *World) OnHost() *World {
	n := &w.Nodes[len(w.Nodes)-1]
	n.Labels = map[string]string{Zone: w.Machines[len(w.Machines)-1].Host, nodescaler.HostLabel: n.Name}
	return w
}

// With is a list and one more, changed.
func With[T any](list []T, v T, change []func(*T)) []T {
	for _, c := range change {
		c(&v)
	}
	return append(list, v)
}

// Machine adds a machine that was ordered an hour ago and is in the phase since then.
func (w *World) Machine(name, host string, phase nodescaler.Phase, change ...func(*nodescaler.Machine)) *World {
	w.Machines = With(w.Machines, nodescaler.Machine{
		Name: name, Order: name, Pool: "w", Shape: Small, Host: host, Phase: phase,
		Created: w.Now.Add(-time.Hour), Since: w.Now.Add(-time.Hour),
	}, change)
	return w
}

// Node adds a machine and the node that it became.
func (w *World) Node(name, host string, change ...func(*nodescaler.Node)) *World {
	w.Machine(name, host, nodescaler.Joined)
	w.Nodes = With(w.Nodes, nodescaler.Node{
		Name: name, Machine: name, Pool: "w", Ready: true, Joined: w.Now.Add(-time.Hour),
		Allocatable: w.Pools[0].Capacity(Small),
	}, change)
	return w
}

// Spare adds a machine that is stopped, with its node.
func (w *World) Spare(name, host string, change ...func(*nodescaler.Machine)) *World {
	w.Node(name, host, Draining, NotReady)
	m := &w.Machines[len(w.Machines)-1]
	m.Phase = nodescaler.Spare
	for _, c := range change {
		c(m)
	}
	return w
}

// Pod adds a pod of so many thousandths of a CPU and MiB; without a node it is unschedulable.
func (w *World) Pod(name, node string, cpu pricing.MilliCPU, mib pricing.Bytes, change ...func(*nodescaler.Pod)) *World {
	phase := podscaler.Running
	if node == "" {
		phase = podscaler.Pending
	}
	w.Pods = With(w.Pods, nodescaler.Pod{
		Pod: podscaler.Pod{Name: name, Phase: phase}, Workload: "ns/app", Node: node, Unschedulable: node == "",
		Requests: pricing.Resources{CPU: cpu, Memory: mib * pricing.MiB}, Created: w.Now.Add(-time.Minute),
	}, change)
	return w
}

// Several adds n like pods to a node.
func (w *World) Several(n int, name, node string, cpu pricing.MilliCPU, mib pricing.Bytes) *World {
	for i := range n {
		w.Pod(fmt.Sprintf("%s-%02d", name, i), node, cpu, mib)
	}
	return w
}

// Waiting adds n pods with a rule that wait for a node.
func (w *World) Waiting(n int, rule func(*nodescaler.Pod)) *World {
	for i := range n {
		w.Pod(string(rune('p'+i)), "", 100, 100, rule)
	}
	return w
}

// In makes the last node one of a zone's pool.
func (w *World) In(zone string) *World {
	n := &w.Nodes[len(w.Nodes)-1]
	n.Labels, n.Pool = map[string]string{Zone: zone, nodescaler.HostLabel: n.Name}, "w-"+zone
	w.Machines[len(w.Machines)-1].Pool = n.Pool
	return w
}

// Change changes the world.
func (w *World) Change(f func(*World)) *World { f(w); return w }

// At returns the same world at another time.
func (w *World) At(d time.Duration) *nodescaler.Snapshot {
	s := Copy(&w.Snapshot)
	s.Now = s.Now.Add(d)
	return s
}

// Disked gives all machines the disks of the pool's first shape.
func (w *World) Disked() *World {
	for i := range w.Machines {
		if w.Machines[i].Shape == Small {
			w.Machines[i].Shape.Disk = w.Pools[0].Shapes[0].Disk
		}
	}
	return w
}

// Dear makes disks cost something: 20 GB at so many millionths of a unit.
func (w *World) Dear(perGB pricing.Micros) *World {
	w.Prices.PerDiskGB = perGB
	w.Pools[0].Shapes[0].Disk = 20 * pricing.GB
	for i := range w.Machines {
		w.Machines[i].Shape.Disk = 20 * pricing.GB
	}
	return w
}

// Copy copies everything in the snapshot that a policy could write to.
func Copy(s *nodescaler.Snapshot) *nodescaler.Snapshot {
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
		n.Conditions = slices.Clone(n.Conditions)
		n.Labels, n.Taints = maps.Clone(n.Labels), slices.Clone(n.Taints)
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		p.Selector, p.Tolerations = maps.Clone(p.Selector), slices.Clone(p.Tolerations)
	}
	return &c
}

// OneOf draws one of the values.
func OneOf[T any](t *rapid.T, what string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, what)
}
