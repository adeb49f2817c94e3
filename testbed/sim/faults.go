package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Fault is something that goes wrong at a time.
type Fault struct {
	At   time.Duration
	Kind FaultKind
	Host string        // of HostDies, and of NoisyNeighbour, where none means all
	For  time.Duration // how long it lasts; of HostDies 0 is for good
	// Count is how many of the next clones fail.
	Count int
	// Left is the part of their CPU that a noisy neighbour leaves to the pods.
	Left float64
}

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of fault.
const (
	CloneFails    FaultKind = "clone-fails"    // the next clones fail
	HostDies      FaultKind = "host-dies"      // a host stops, and every machine on it
	MetricsVanish FaultKind = "metrics-vanish" // no signal can be read
	// NoisyNeighbour is another owner's work on a host. The pods on it get less CPU than they are
	// promised, and nothing that is measured of them says why.
	NoisyNeighbour FaultKind = "noisy-neighbour"
)

// FaultKinds are all of them.
var FaultKinds = []FaultKind{CloneFails, HostDies, MetricsVanish, NoisyNeighbour}

// How Kubernetes takes the loss of a node: after the grace it is not ready and its pods get no
// more requests; that taints it, and after the toleration of the taint its pods are given up and
// made again. Both are the defaults since Kubernetes 1.32.
const (
	nodeGrace      = 50 * time.Second
	nodeToleration = 300 * time.Second
)

// Inject lets a fault happen now.
func (w *World) Inject(f Fault) error {
	switch f.Kind {
	case CloneFails:
		w.cloning.failing += max(1, f.Count)
	case HostDies:
		return w.kill(f.Host, f.For)
	case MetricsVanish:
		w.blind++
		w.later(f.For, func() { w.blind-- })
	case NoisyNeighbour:
		return w.crowd(f)
	default:
		return fmt.Errorf("fault kind: must be one of %s, was %q", FaultKinds, f.Kind)
	}
	return nil
}

// crowd takes CPU from the pods on a host, or on all, for a time. Neighbours that overlap take one
// after the other.
func (w *World) crowd(f Fault) error {
	if f.Host != "" && w.host(f.Host) == nil {
		return fmt.Errorf("host %q does not exist", f.Host)
	}
	w.noise = append(w.noise, &f)
	w.share()
	w.later(f.For, func() {
		w.noise = slices.DeleteFunc(w.noise, func(o *Fault) bool { return o == &f })
		w.share()
	})
	return nil
}

// share gives every pod what its host's neighbours leave.
func (w *World) share() {
	for _, s := range w.services {
		for _, p := range s.pods {
			if p.node != nil {
				p.srv.resize(w.now, s.quota*w.left(p.node.machine.obs.Host))
			}
		}
	}
}

// left is the part of its CPU that a pod on the host gets.
func (w *World) left(host string) float64 {
	left := 1.0
	for _, f := range w.noise {
		if f.Host == "" || f.Host == host {
			left *= f.Left
		}
	}
	return left
}

// kill stops a host. What its pods were doing is lost; the cluster learns of it later.
func (w *World) kill(name string, lasts time.Duration) error {
	h := w.host(name)
	if h == nil {
		return fmt.Errorf("host %q does not exist", name)
	}
	w.down[name]++ // faults may overlap: the host is back when the last of them is over
	if lasts > 0 {
		w.later(lasts, func() {
			if w.down[name]--; w.down[name] == 0 {
				w.revive(h)
			}
		})
	}
	if !h.Online {
		return nil
	}
	h.Online = false
	for _, m := range w.machines {
		if m.obs.Host == name {
			m.dead = true
			if m.node != nil {
				w.lose(m.node)
			}
		}
	}
	return nil
}

// lose takes a node from the cluster's sight, step by step, until it is back.
func (w *World) lose(n *node) {
	for _, p := range n.pods {
		p.dead = true
		p.svc.fail(w.now, p.srv.drop(w.now))
	}
	if n.away { // it was booting: the cluster has not heard of it since it was lost before
		return
	}
	n.away = true
	n.losses++
	loss := n.losses
	still := func() bool { return n.machine.node == n && n.away && n.losses == loss }
	w.later(nodeGrace, func() {
		if !still() {
			return
		}
		n.obs.Ready = false
		for _, p := range n.pods {
			p.ready(false)
		}
	})
	w.later(nodeGrace+nodeToleration, func() {
		if !still() {
			return
		}
		for _, p := range slices.Clone(n.pods) {
			p.obs.Terminating = true
			p.remove()
			p.svc.sync()
		}
	})
}

// revive brings a host back: its machines boot, and their nodes and pods start again.
func (w *World) revive(h *nodescaler.Host) {
	h.Online = true
	for _, m := range w.machines {
		if m.obs.Host != h.Name || !m.dead {
			continue
		}
		m.dead = false
		if m.obs.Phase == nodescaler.Booting || m.obs.Phase == nodescaler.Joined {
			m.boot(w)
		}
	}
}

// restart starts the pods that are still bound to a node that has come back.
func (w *World) restart(n *node) {
	for _, p := range n.pods {
		if p.dead {
			p.dead = false
			p.ready(false)
			w.start(p)
		}
	}
}
