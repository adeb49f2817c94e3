package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// node is a node of the cluster with what runs on it.
type node struct {
	obs     nodescaler.Node
	machine *machine
	pods    []*pod
	used    nodescaler.Used
	away    bool // its host is down, or its machine boots again
	losses  int  // how often that happened
}

// pod is a replica of a service.
type pod struct {
	obs      nodescaler.Pod
	svc      *service
	srv      *server
	node     *node
	made     time.Duration
	dead     bool // its machine is down
	chosen   bool // to go first when the service shrinks
	gone     bool
	starts   int           // of its containers
	measured time.Duration // when its CPU use was last taken, or it became ready,
	busy     float64       // and what it had used by then
}

// Observe returns the cluster as the API server would list it.
func (w *World) Observe(context.Context) (loop.ClusterState, error) {
	s := loop.ClusterState{
		Nodes:    make([]nodescaler.Node, len(w.nodes)),
		Replicas: make(map[string]int, len(w.services)),
	}
	for i, n := range w.nodes {
		s.Nodes[i] = n.obs
	}
	count := 0
	for _, svc := range w.services {
		count += len(svc.pods)
	}
	s.Pods = make([]nodescaler.Pod, 0, count)
	for _, svc := range w.services {
		s.Replicas[svc.cfg.Name] = svc.replicas
		for _, p := range svc.pods {
			s.Pods = append(s.Pods, p.obs)
			if w.blind > 0 {
				last := &s.Pods[len(s.Pods)-1]
				last.CPU, last.Memory = podscaler.Sample{}, podscaler.Sample{}
			}
		}
		if svc.cfg.Unavailable > 0 {
			s.Budgets = append(s.Budgets, nodescaler.Budget{Workload: svc.cfg.Name, Allowed: svc.allowed()})
		}
	}
	return s, nil
}

// allowed is how many more of the service's pods may be evicted now.
func (s *service) allowed() int {
	healthy := 0
	for _, p := range s.pods {
		if p.obs.Ready && !p.obs.Terminating {
			healthy++
		}
	}
	return max(0, healthy-(s.replicas-s.cfg.Unavailable))
}

// SetReplicas changes how many replicas a service wants.
func (w *World) SetReplicas(_ context.Context, workload string, n int) error {
	s := w.service(workload)
	if s == nil {
		return fmt.Errorf("workload %s does not exist", workload)
	}
	if n < 0 {
		return fmt.Errorf("replicas of %s: must be 0 or more, was %d", workload, n)
	}
	s.stats.score.Changes = append(s.stats.score.Changes, Change{w.now, s.replicas, n})
	s.replicas = n
	s.sync()
	return nil
}

// Choose says which pods of a service go first when it shrinks.
func (w *World) Choose(_ context.Context, workload string, pods []string) error {
	s := w.service(workload)
	if s == nil {
		return fmt.Errorf("workload %s does not exist", workload)
	}
	for _, p := range s.pods {
		p.chosen = slices.Contains(pods, p.obs.Name)
	}
	return nil
}

// SetDraining cordons a node, or lets it take pods again.
func (w *World) SetDraining(_ context.Context, name string, draining bool) error {
	for _, n := range w.nodes {
		if n.obs.Name == name {
			n.obs.Cordoned, n.obs.Draining = draining, draining
			w.dirty = true
			return nil
		}
	}
	return fmt.Errorf("node %s does not exist", name)
}

// Evict moves a pod away: it ends, and its service makes another.
func (w *World) Evict(_ context.Context, name string) error {
	for _, s := range w.services {
		for _, p := range s.pods {
			if p.obs.Name != name {
				continue
			}
			if p.obs.Terminating {
				return nil
			}
			if s.cfg.Unavailable > 0 && s.allowed() <= 0 {
				return fmt.Errorf("evict %s: %w", name, loop.ErrBudget)
			}
			s.stats.score.Moves++
			p.terminate()
			s.sync()
			return nil
		}
	}
	return fmt.Errorf("pod %s does not exist", name)
}

// sync makes or ends pods until there are as many as wanted, as a ReplicaSet does.
func (s *service) sync() {
	alive := make([]*pod, 0, len(s.pods))
	for _, p := range s.pods {
		if !p.obs.Terminating {
			alive = append(alive, p)
		}
	}
	for range s.replicas - len(alive) {
		s.create()
	}
	if extra := len(alive) - s.replicas; extra > 0 {
		s.rank(alive)
		for _, p := range alive[:extra] {
			p.terminate()
		}
	}
	s.world.dirty = true
}

// rank sorts pods by how soon they are given up: without a node, not ready, chosen to go, on a node
// with more of their like, young. Kubernetes compares ages by their order of magnitude only and
// lets chance decide within one; here the youngest goes.
func (s *service) rank(pods []*pod) {
	like := map[*node]int{}
	for _, p := range pods {
		if p.node != nil { // ready or not, as the ReplicaSet counts them
			like[p.node]++
		}
	}
	rank := func(p *pod) int {
		switch {
		case p.node == nil:
			return 0
		case p.obs.Phase == podscaler.Pending:
			return 1
		case !p.obs.Ready:
			return 2
		}
		return 3
	}
	chosen := func(p *pod) int {
		if p.chosen {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(pods, func(a, b *pod) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(chosen(a), chosen(b)),
			cmp.Compare(like[b.node], like[a.node]),
			b.obs.ReadyChanged.Compare(a.obs.ReadyChanged),
			cmp.Compare(b.made, a.made),
			strings.Compare(b.obs.Name, a.obs.Name),
		)
	})
}

func (s *service) create() {
	w := s.world
	s.made++
	p := &pod{svc: s, made: w.now}
	p.obs = nodescaler.Pod{
		Pod:      podscaler.Pod{Name: fmt.Sprintf("%s-%06d", s.cfg.Name, s.made), Phase: podscaler.Pending},
		Workload: s.cfg.Name, Requests: s.cfg.Requests, Extra: s.cfg.Extra, Priority: s.cfg.Priority, Created: w.clock(),
		Selector: s.cfg.Selector, Tolerations: s.cfg.Tolerations,
	}
	w.servers++
	p.srv = newServer(w.servers, s, p, w.now)
	s.pods = append(s.pods, p)
	w.dirty = true
}

// terminate ends a pod: it gets no more requests, and goes when it has answered those it has
// or its grace is over.
func (p *pod) terminate() {
	if p.obs.Terminating {
		return
	}
	w := p.svc.world
	p.obs.Terminating = true
	p.svc.endpoint(p.srv, false)
	if p.obs.Phase == podscaler.Pending || p.dead || p.srv.Load() == 0 {
		p.remove()
		return
	}
	w.later(p.svc.cfg.Grace, p.remove)
}

// remove ends what is left of a pod.
func (p *pod) remove() {
	if p.gone {
		return
	}
	w := p.svc.world
	p.gone = true
	p.svc.endpoint(p.srv, false)
	p.svc.fail(w.now, p.srv.drop(w.now))
	p.svc.pods = slices.DeleteFunc(p.svc.pods, func(o *pod) bool { return o == p })
	p.svc.stats.score.PodTime += w.now - p.made
	if n := p.node; n != nil {
		n.pods = slices.DeleteFunc(n.pods, func(o *pod) bool { return o == p })
		n.used = n.used.Without(&p.obs)
	}
	w.dirty = true
}

// schedule binds every waiting pod that a node has room for: the important and the old ones
// first, onto the node that is left with most to spare (kube-scheduler's LeastAllocated). Of its
// other scores none is modelled, and of equal nodes the first by name is taken.
func (w *World) schedule() {
	w.dirty = false
	var pending []*pod
	for _, s := range w.services {
		for _, p := range s.pods {
			if p.node == nil && !p.obs.Terminating {
				pending = append(pending, p)
			}
		}
	}
	slices.SortStableFunc(pending, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(b.obs.Priority, a.obs.Priority), cmp.Compare(a.made, b.made))
	})
	for _, p := range pending {
		if n := w.pick(p); n != nil {
			w.bind(p, n)
		} else if !p.obs.Unschedulable {
			p.obs.Unschedulable = true
			w.wake()
		}
	}
}

func (w *World) pick(p *pod) *node {
	var best *node
	top := -1.0
	for _, n := range w.nodes {
		if nodescaler.Refusal(&p.obs, &n.obs, n.used) != "" {
			continue
		}
		left, all := n.obs.Allocatable.Minus(n.used.Requests).Minus(p.obs.Requests), n.obs.Allocatable
		spare := part(left.CPU, all.CPU) + part(left.Memory, all.Memory)
		if spare > top+1e-9 {
			best, top = n, spare
		}
	}
	return best
}

// part is how much of all is left; nothing, where none exists or it is overcommitted.
func part[T pricing.MilliCPU | pricing.Bytes](left, all T) float64 {
	if left <= 0 || all <= 0 {
		return 0
	}
	return float64(left) / float64(all)
}

func (w *World) bind(p *pod, n *node) {
	p.node, p.obs.Node, p.obs.Unschedulable = n, n.obs.Name, false
	p.dead = n.away // and the scheduler does not know it yet
	n.pods = append(n.pods, p)
	n.used = n.used.With(&p.obs)
	if len(w.noise) > 0 {
		p.srv.resize(w.now, p.svc.quota*w.left(n.machine.obs.Host))
	}
	w.start(p)
}

// start starts a bound pod's containers.
func (w *World) start(p *pod) {
	p.starts++
	start := p.starts // one that a dead machine cut short never comes to its end
	w.later(w.cfg.Delays.PodStart.Draw(w.chance.start), func() {
		if !p.gone && !p.dead && !p.obs.Terminating && !p.obs.Ready && p.starts == start {
			p.run()
		}
	})
}

// run lets a pod serve.
func (p *pod) run() {
	w := p.svc.world
	p.obs.Phase, p.obs.Started = podscaler.Running, w.clock()
	p.measured, p.busy = w.now, p.srv.Used(w.now)
	p.ready(true)
}

func (p *pod) ready(is bool) {
	if p.obs.Ready == is {
		return
	}
	w := p.svc.world
	p.obs.Ready, p.obs.ReadyChanged = is, w.clock()
	p.svc.endpoint(p.srv, is && !p.obs.Terminating)
}

func (w *World) addNode(n *node) {
	at, _ := slices.BinarySearchFunc(w.nodes, n.obs.Name, func(n *node, name string) int {
		return strings.Compare(n.obs.Name, name)
	})
	w.nodes = slices.Insert(w.nodes, at, n)
	w.dirty = true
}

// removeNode takes a node away, and the pods on it with it.
func (w *World) removeNode(n *node) {
	w.nodes = slices.DeleteFunc(w.nodes, func(o *node) bool { return o == n })
	for _, p := range n.pods {
		p.svc.endpoint(p.srv, false) // all first: what one loses must not be sent to the next
	}
	for _, p := range slices.Clone(n.pods) {
		p.obs.Terminating = true
		p.remove()
		p.svc.sync()
	}
}
