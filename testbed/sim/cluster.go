package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// cluster is the nodes, and the services whose pods run on them.
type cluster struct {
	calendar
	cfg      Config
	nodes    []*node    // by name
	services []*service // by name
	servers  int

	departures departures
	dirty      bool     // the scheduler has something to look at
	blind      int      // faults that have taken the metrics away
	noise      []*Fault // of neighbours
	startup    *rand.Rand
	unplaced   func() // is called when a pod fits nowhere
}

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
func (c *cluster) Observe(context.Context) (loop.ClusterState, error) {
	s := loop.ClusterState{
		Nodes:    make([]nodescaler.Node, len(c.nodes)),
		Replicas: make(map[string]int, len(c.services)),
	}
	for i, n := range c.nodes {
		s.Nodes[i] = n.obs
	}
	count := 0
	for _, svc := range c.services {
		count += len(svc.pods)
	}
	s.Pods = make([]nodescaler.Pod, 0, count)
	for _, svc := range c.services {
		s.Replicas[svc.cfg.Name] = svc.replicas
		for _, p := range svc.pods {
			s.Pods = append(s.Pods, p.obs)
			if c.blind > 0 {
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
func (c *cluster) SetReplicas(_ context.Context, workload string, n int) error {
	s := c.service(workload)
	if s == nil {
		return fmt.Errorf("workload %s does not exist", workload)
	}
	if n < 0 {
		return fmt.Errorf("replicas of %s: must be 0 or more, was %d", workload, n)
	}
	s.stats.score.Changes = append(s.stats.score.Changes, Change{c.now, s.replicas, n})
	s.replicas = n
	s.sync()
	return nil
}

// Choose says which pods of a service go first when it shrinks.
func (c *cluster) Choose(_ context.Context, workload string, pods []string) error {
	s := c.service(workload)
	if s == nil {
		return fmt.Errorf("workload %s does not exist", workload)
	}
	for _, p := range s.pods {
		p.chosen = slices.Contains(pods, p.obs.Name)
	}
	return nil
}

// SetDraining cordons a node, or lets it take pods again.
func (c *cluster) SetDraining(_ context.Context, name string, draining bool) error {
	for _, n := range c.nodes {
		if n.obs.Name == name {
			n.obs.Cordoned, n.obs.Draining = draining, draining
			c.dirty = true
			return nil
		}
	}
	return fmt.Errorf("node %s does not exist", name)
}

// Evict moves a pod away: it ends, and its service makes another.
func (c *cluster) Evict(_ context.Context, name string) error {
	for _, s := range c.services {
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
	c := s.world
	s.made++
	p := &pod{svc: s, made: c.now}
	p.obs = nodescaler.Pod{
		Pod:      podscaler.Pod{Name: fmt.Sprintf("%s-%06d", s.cfg.Name, s.made), Phase: podscaler.Pending},
		Workload: s.cfg.Name, Requests: s.cfg.Requests, Extra: s.cfg.Extra, Priority: s.cfg.Priority, Created: c.clock(),
		Selector: s.cfg.Selector, Tolerations: s.cfg.Tolerations,
	}
	c.servers++
	p.srv = newServer(c.servers, s, p, c.now)
	s.pods = append(s.pods, p)
	c.dirty = true
}

// terminate ends a pod: it gets no more requests, and goes when it has answered those it has
// or its grace is over.
func (p *pod) terminate() {
	if p.obs.Terminating {
		return
	}
	c := p.svc.world
	p.obs.Terminating = true
	p.svc.endpoint(p.srv, false)
	if p.obs.Phase == podscaler.Pending || p.dead || p.srv.Load() == 0 {
		p.remove()
		return
	}
	c.later(p.svc.cfg.Grace, p.remove)
}

// remove ends what is left of a pod.
func (p *pod) remove() {
	if p.gone {
		return
	}
	c := p.svc.world
	p.gone = true
	p.svc.endpoint(p.srv, false)
	p.svc.fail(c.now, p.srv.drop(c.now))
	p.svc.pods = slices.DeleteFunc(p.svc.pods, func(o *pod) bool { return o == p })
	p.svc.stats.score.PodTime += c.now - p.made
	if n := p.node; n != nil {
		n.pods = slices.DeleteFunc(n.pods, func(o *pod) bool { return o == p })
		n.used = n.used.Without(&p.obs)
	}
	c.dirty = true
}

// schedule binds every waiting pod that a node has room for: the important and the old ones
// first, onto the node that is left with most to spare (kube-scheduler's LeastAllocated). Of its
// other scores none is modelled, and of equal nodes the first by name is taken.
func (c *cluster) schedule() {
	c.dirty = false
	var pending []*pod
	for _, s := range c.services {
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
		if n := c.pick(p); n != nil {
			c.bind(p, n)
		} else if !p.obs.Unschedulable {
			p.obs.Unschedulable = true
			c.unplaced()
		}
	}
}

func (c *cluster) pick(p *pod) *node {
	var best *node
	top := -1.0
	for _, n := range c.nodes {
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

func (c *cluster) bind(p *pod, n *node) {
	p.node, p.obs.Node, p.obs.Unschedulable = n, n.obs.Name, false
	p.dead = n.away // and the scheduler does not know it yet
	n.pods = append(n.pods, p)
	n.used = n.used.With(&p.obs)
	if len(c.noise) > 0 {
		p.srv.resize(c.now, p.svc.quota*c.left(n.machine.obs.Host))
	}
	c.start(p)
}

// start starts a bound pod's containers.
func (c *cluster) start(p *pod) {
	p.starts++
	start := p.starts // one that a dead machine cut short never comes to its end
	c.later(c.cfg.Delays.PodStart.Draw(c.startup), func() {
		if !p.gone && !p.dead && !p.obs.Terminating && !p.obs.Ready && p.starts == start {
			p.run()
		}
	})
}

// run lets a pod serve.
func (p *pod) run() {
	c := p.svc.world
	p.obs.Phase, p.obs.Started = podscaler.Running, c.clock()
	p.measured, p.busy = c.now, p.srv.Used(c.now)
	p.setReady(true)
}

func (p *pod) setReady(is bool) {
	if p.obs.Ready == is {
		return
	}
	c := p.svc.world
	p.obs.Ready, p.obs.ReadyChanged = is, c.clock()
	p.svc.endpoint(p.srv, is && !p.obs.Terminating)
}

func (c *cluster) addNode(n *node) {
	at, _ := slices.BinarySearchFunc(c.nodes, n.obs.Name, func(n *node, name string) int {
		return strings.Compare(n.obs.Name, name)
	})
	c.nodes = slices.Insert(c.nodes, at, n)
	c.dirty = true
}

// removeNode takes a node away, and the pods on it with it.
func (c *cluster) removeNode(n *node) {
	c.nodes = slices.DeleteFunc(c.nodes, func(o *node) bool { return o == n })
	for _, p := range n.pods {
		p.svc.endpoint(p.srv, false) // all first: what one loses must not be sent to the next
	}
	for _, p := range slices.Clone(n.pods) {
		p.obs.Terminating = true
		p.remove()
		p.svc.sync()
	}
}

func (c *cluster) service(name string) *service {
	for _, s := range c.services {
		if s.cfg.Name == name {
			return s
		}
	}
	return nil
}

// level is a service's at present. Users of a load that is shared are whole ones: were each
// service's rounded by itself, some would be nobody's, or several's.
func (c *cluster) level(s *service) float64 {
	if !s.cfg.Load.Shared {
		return s.cfg.Load.Level.At(c.now)
	}
	var parts []float64
	own := 0
	for _, o := range c.services {
		if o == s {
			own = len(parts)
		}
		if o.cfg.Load.Shared {
			parts = append(parts, o.cfg.Load.Level.At(c.now))
		}
	}
	return float64(apportion(parts)[own])
}

// share gives every pod what its host's neighbours leave.
func (c *cluster) share() {
	for _, s := range c.services {
		for _, p := range s.pods {
			if p.node != nil {
				p.srv.resize(c.now, s.quota*c.left(p.node.machine.obs.Host))
			}
		}
	}
}

// left is the part of its CPU that a pod on the host gets.
func (c *cluster) left(host string) float64 {
	left := 1.0
	for _, f := range c.noise {
		if f.Host == "" || f.Host == host {
			left *= f.Left
		}
	}
	return left
}

// lose takes a node from the cluster's sight, step by step, until it is back.
func (c *cluster) lose(n *node) {
	for _, p := range n.pods {
		p.dead = true
		p.svc.fail(c.now, p.srv.drop(c.now))
	}
	if n.away { // it was booting: the cluster has not heard of it since it was lost before
		return
	}
	n.away = true
	n.losses++
	loss := n.losses
	still := func() bool { return n.machine.node == n && n.away && n.losses == loss }
	c.later(nodeGrace, func() {
		if !still() {
			return
		}
		n.obs.Ready = false
		for _, p := range n.pods {
			p.setReady(false)
		}
	})
	c.later(nodeGrace+nodeToleration, func() {
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

// restart starts the pods that are still bound to a node that has come back.
func (c *cluster) restart(n *node) {
	for _, p := range n.pods {
		if p.dead {
			p.dead = false
			p.setReady(false)
			c.start(p)
		}
	}
}

// How Kubernetes takes the loss of a node: after the grace it is not ready and its pods get no
// more requests; that taints it, and after the toleration of the taint its pods are given up and
// made again. Both are the defaults since Kubernetes 1.32.
const (
	nodeGrace      = 50 * time.Second
	nodeToleration = 300 * time.Second
)
