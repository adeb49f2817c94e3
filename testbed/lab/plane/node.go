package plane

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// node is a node of the API server.
type node struct {
	name   string
	labels map[string]string
	halted bool // its machine does not run
	seen   time.Duration
	sample sample
}

func (n *node) isHalted() bool { return n != nil && n.halted }

// observedNode takes a node as the API server has it now.
func (p *Plane) observedNode(o *corev1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	n := p.nodes[o.Name]
	if n == nil {
		n = &node{name: o.Name, seen: now}
		p.nodes[o.Name] = n
	}
	_, halted := o.Annotations[AnnotationHalted]
	n.labels = maps.Clone(o.Labels)
	n.halt(p, halted, now)
}

// removedNode handles a node that the API server has no more. Its machine may go on for all that is
// known, so its pods do until they are removed, too.
func (p *Plane) removedNode(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, name)
}

func (n *node) halt(p *Plane, halted bool, now time.Duration) {
	if n.halted == halted {
		return
	}
	n.halted, n.seen, n.sample = halted, now, sample{}
	for pod := range p.all {
		if pod.obs.node == n.name {
			pod.halt(halted, now)
		}
	}
}

// all goes through the pods, those too that only finish what they had.
func (p *Plane) all(yield func(*pod) bool) {
	for _, pod := range p.pods {
		if !yield(pod) {
			return
		}
	}
	for pod := range p.ended {
		if !yield(pod) {
			return
		}
	}
}
