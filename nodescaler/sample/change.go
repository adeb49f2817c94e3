package sample

import (
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Shut has the first pool make no machines.
func Shut(w *World) {
	w.Pools[0].Closed = &nodescaler.Reason{Code: "PoolPaused", Text: "3 machines failed in a row"}
}

// Paused is why a pool is held.
var Paused = nodescaler.Reason{Code: "Paused", Text: "paused by ann"}

// HeldUp has the first pool not grow.
func HeldUp(w *World) { w.Pools[0].HeldUp = &Paused }

// HeldDown has the first pool not shrink.
func HeldDown(w *World) { w.Pools[0].HeldDown = &Paused }

// Refuse has the first pool make no machines on hosts.
func Refuse(hosts ...string) func(*World) {
	return func(w *World) {
		for _, h := range hosts {
			w.Pools[0].Refused = append(w.Pools[0].Refused, nodescaler.RefusedOrder{Shape: Small, Host: h, Why: nodescaler.Reason{Code: "StorageFull", Text: "no room on " + h}})
		}
	}
}

// SecondPool adds a pool x of large machines.
func SecondPool(change ...func(*nodescaler.Pool)) func(*World) {
	return func(w *World) {
		w.Pools = With(w.Pools, nodescaler.Pool{Name: "x", Max: 2, Shapes: []pricing.Shape{Large}}, change)
	}
}

// Drifted is a machine whose template was changed since.
func Drifted(m *nodescaler.Machine) { m.Drifted = "its template was changed" }

// Draining is a node that is being emptied.
func Draining(n *nodescaler.Node) { n.Cordoned, n.Draining = true, true }

// NotReady is a node that is not ready.
func NotReady(n *nodescaler.Node) { n.Ready = false }

// Daemon is a pod of a daemon set.
func Daemon(p *nodescaler.Pod) { p.Daemon = true }

// Leaving is a pod that ends.
func Leaving(p *nodescaler.Pod) { p.Terminating = true }

// Lonely is a pod that shares no node with another of its kind.
func Lonely(p *nodescaler.Pod) { p.Has, p.Repels = []string{"app=web"}, []string{"app=web"} }

// SpreadBy are pods that have a rule of topology, and count for it.
func SpreadBy(key string, skew int) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) {
		p.Has, p.Topology = []string{"app=web"}, []nodescaler.Topology{{Key: key, Mark: "app=web", Skew: skew}}
	}
}

// Prefers are pods that would rather have something, and have the mark that they look for.
func Prefers(all ...nodescaler.Preference) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) { p.Prefers, p.Noted = all, []string{"app=web"} }
}

// WantsLabel prefers nodes with a label.
func WantsLabel(weight int, key, value string) nodescaler.Preference {
	return nodescaler.Preference{Weight: weight, Affinity: nodescaler.Affinity{{{Key: key, Operator: nodescaler.In, Values: []string{value}}}}}
}

// WantsZone is a preference for a rule of zones.
func WantsZone(change func(*nodescaler.Topology)) nodescaler.Preference {
	w := nodescaler.Preference{Weight: 100, Rule: nodescaler.Topology{Key: Zone, Mark: "app=web"}}
	change(&w.Rule)
	return w
}
