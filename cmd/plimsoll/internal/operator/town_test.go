package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// town is a Kubernetes cluster whose nodes are the virtual machines of an emulated Proxmox VE: it
// has a scheduler, controllers, kubelets and an API that may be stale, refuse or not answer. Its
// time is the emulator's.
type town struct {
	sim      *pvesim.Cluster
	rng      *rand.Rand
	links    *Links
	reserved pricing.Resources
	breaks   func(config map[string]string) bool // says which machines never become nodes

	mu          sync.Mutex // statuses are written several at once
	autoscalers map[string]*v1alpha1.WorkloadAutoscaler
	pools       map[string]*v1alpha1.VMPool
	books       map[string]*v1alpha1.PriceBook

	services []*service
	pods     []*townPod
	nodes    []*townNode
	running  map[string]bool // system UUIDs of the machines that run
	headroom []nodescaler.Headroom
	made     int // pods

	there  pvesim.Inventory // as of the last pass
	did    []string         // to the cluster, in this step
	inbox  inbox
	scaled func(s *service, to int) // sees what is scaled, before it is

	// what was seen of late, for those who are shown old pictures
	kept                  []loop.ClusterState
	stale                 int                  // how old a picture the API shows
	blind, refuses, stuck bool                 // it answers nothing, writes nothing, evicts nothing
	recent                map[string]time.Time // until when an event of a kind is recent
	meeting               sync.Mutex
	met                   map[meeting]int
	// said is how often an action was done, a condition stated or an event sent.
	said map[string]int
}

// service is a Deployment. Pods that are apart share no node with one another.
type service struct {
	name       string
	replicas   int
	asks       pricing.Resources
	apart      bool
	volumes    bool          // its pods have one each
	available  int           // at least, by its disruption budget
	cores      float64       // what all its pods use
	memory     pricing.Bytes // what each of them uses
	version    int           // of its template, with which pods are replaced one by one
	goingFirst map[string]bool
}

type townPod struct {
	name            string
	of              *service
	node            string
	created, starts time.Time
	ends            time.Time // zero until it is asked to go
	refused         bool      // by the scheduler
	asks            pricing.Resources
	version         int
	pinned          string                // why it must not be evicted
	infeasible      bool                  // what it was to be resized to
	odd             func(*nodescaler.Pod) // what it asks for that the scheduler finds nowhere
}

type townNode struct {
	nodescaler.Node
	vmid   int
	ready  time.Time
	off    bool      // its machine was stopped, and has not booted since
	lost   time.Time // since when it is not ready; zero if it is
	marked bool      // by cluster-autoscaler, which is about to delete it
	sick   time.Time // since when a condition says so; zero if none does
	// until when volumes are attached whose pods are gone
	detaching map[string]time.Time
}

func (n *townNode) isReady(now time.Time, running map[string]bool) bool {
	return running[n.SystemUUID] && !n.off && !now.Before(n.ready)
}

// booted makes a machine a node that was given what it joins with, or has its kubelet start again.
func (w *town) booted(b pvesim.Boot) {
	if w.breaks != nil && w.breaks(b.Config) {
		return
	}
	ready := b.At.Add(5*time.Second + time.Duration(w.rng.IntN(15))*time.Second)
	for _, n := range w.nodes {
		if n.SystemUUID == b.UUID {
			if !n.sick.IsZero() && w.rng.IntN(3) > 0 { // that helps most of the time
				n.sick = time.Time{}
			}
			n.ready, n.off = ready, false
			return
		}
	}
	if !strings.Contains(string(b.UserData), "hostname: "+b.Name+"\n") {
		return
	}
	w.nodes = append(w.nodes, &townNode{vmid: b.VMID, ready: ready, Node: nodescaler.Node{
		Name: b.Name, ProviderID: fmt.Sprintf("proxmox://home/%d", b.VMID), SystemUUID: b.UUID, Joined: ready,
		Allocatable: townShapes[b.Config["cores"]].Resources().Minus(w.reserved),
	}})
}

// townShapes are the shapes of machines, by their cores.
var townShapes = map[string]pricing.Shape{
	"2": {Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB, Disk: 20 * pricing.GiB},
	"4": {Name: "large", CPU: 4 * pricing.Core, Memory: 8 * pricing.GiB, Disk: 20 * pricing.GiB},
}

// lostFor is how long pods stay on a node that is not ready, as Kubernetes has it.
const lostFor = 5 * time.Minute

// pass has kubelets, controllers and the scheduler do their work.
func (w *town) pass() {
	now := w.sim.Now()
	w.running = map[string]bool{}
	stopped := map[string]bool{}
	w.there = w.sim.Inventory()
	for _, v := range w.there.VMs {
		if _, uuid, named := strings.Cut(v.Config["smbios1"], "uuid="); named {
			uuid, _, _ = strings.Cut(uuid, ",")
			w.running[uuid], stopped[uuid] = v.State == "running", v.State == "stopped"
		}
	}
	there := map[string]*townNode{}
	for _, n := range w.nodes {
		n.off = n.off || stopped[n.SystemUUID] // its kubelet starts again when it has booted
		if n.Ready = n.isReady(now, w.running); n.Ready {
			n.lost = time.Time{}
		} else if n.lost.IsZero() {
			n.lost = now
		}
		there[n.Name] = n
	}
	for _, p := range w.pods { // those of a node that is lost for long are replaced
		if n := there[p.node]; n != nil && !n.lost.IsZero() && now.Sub(n.lost) > lostFor && p.ends.IsZero() {
			p.ends = now
		}
	}
	w.pods = slices.DeleteFunc(w.pods, func(p *townPod) bool {
		n := there[p.node]
		switch {
		case p.node != "" && n == nil: // the node is no more, and its pods are collected
			return true
		case p.ends.IsZero():
			return false
		case p.node == "":
			return true
		}
		gone := n.Ready && !now.Before(p.ends)
		if gone && p.of.volumes {
			if n.detaching == nil {
				n.detaching = map[string]time.Time{}
			}
			n.detaching["pv-of-"+p.name] = now.Add(20 * time.Second)
		}
		return gone
	})
	for _, s := range w.services {
		w.control(s, now)
	}
	w.schedule(now)
}

// control makes as many pods of a service as are asked for.
func (w *town) control(s *service, now time.Time) {
	var stay []*townPod
	for _, p := range w.pods {
		if p.of == s && p.ends.IsZero() {
			stay = append(stay, p)
		}
	}
	for i := len(stay); i < s.replicas; i++ {
		w.create(s, now)
	}
	if old := w.old(s); old != nil && len(stay) == s.replicas && w.ready(s) == s.replicas {
		old.ends = now.Add(5 * time.Second)
		w.create(s, now)
	}
	slices.SortStableFunc(stay, func(a, b *townPod) int { // those that go first are first
		rank := func(p *townPod) int {
			switch {
			case p.node == "":
				return 0
			case s.goingFirst[p.name]:
				return 1
			}
			return 2
		}
		return rank(a) - rank(b)
	})
	for i := 0; i < len(stay)-s.replicas; i++ {
		stay[i].ends = now.Add(5 * time.Second)
	}
}

// create makes a pod of a service.
func (w *town) create(s *service, now time.Time) {
	w.made++
	w.pods = append(w.pods, &townPod{name: fmt.Sprintf("%s-%d", s.name, w.made), of: s, created: now, asks: s.asks, version: s.version})
}

// old is a pod of a service that is of an earlier version, if there is one.
func (w *town) old(s *service) *townPod {
	i := slices.IndexFunc(w.pods, func(p *townPod) bool { return p.of == s && p.ends.IsZero() && p.version != s.version })
	if i < 0 {
		return nil
	}
	return w.pods[i]
}

// schedule places pods on nodes that are ready and open and have room.
func (w *town) schedule(now time.Time) {
	for _, p := range w.pods {
		if p.refused = p.odd != nil; p.refused || p.node != "" || !p.ends.IsZero() {
			continue
		}
		var fit []*townNode
		for _, n := range w.nodes {
			if n.Ready && !n.Cordoned && w.holds(n, p) {
				fit = append(fit, n)
			}
		}
		if p.refused = len(fit) == 0; !p.refused {
			p.node, p.starts = fit[w.rng.IntN(len(fit))].Name, now.Add(3*time.Second)
		}
	}
}

func (w *town) holds(n *townNode, p *townPod) bool {
	for _, o := range w.pods {
		if o.node == n.Name && o.of == p.of && p.of.apart {
			return false
		}
	}
	return w.fits(n, p, p.asks)
}

// fits reports whether a node has room for a pod of a size, beside the others on it.
func (w *town) fits(n *townNode, p *townPod, size pricing.Resources) bool {
	for _, o := range w.pods {
		if o.node == n.Name && o != p {
			size = size.Plus(o.asks)
		}
	}
	return size.CPU <= n.Allocatable.CPU && size.Memory <= n.Allocatable.Memory
}

// moving reports whether a pod is about to start or to go.
func (w *town) moving() bool {
	now := w.sim.Now()
	return slices.ContainsFunc(w.pods, func(p *townPod) bool {
		n := w.node(p.node)
		switch {
		case n == nil:
			return p.node == "" && !p.refused
		case !n.Ready:
			return false
		}
		return !p.ends.IsZero() || now.Before(p.starts)
	})
}

// ready are the pods of a service that serve.
func (w *town) ready(s *service) (n int) {
	now := w.sim.Now()
	for _, p := range w.pods {
		if p.of == s && w.serves(p, now) {
			n++
		}
	}
	return n
}

func (w *town) serves(p *townPod, now time.Time) bool {
	n := w.node(p.node)
	return n != nil && n.Ready && p.ends.IsZero() && !now.Before(p.starts)
}

func (w *town) node(name string) *townNode {
	if i := slices.IndexFunc(w.nodes, func(n *townNode) bool { return n.Name == name }); i >= 0 {
		return w.nodes[i]
	}
	return nil
}

func (w *town) service(workload string) *service {
	if i := slices.IndexFunc(w.services, func(s *service) bool { return s.name == workload }); i >= 0 {
		return w.services[i]
	}
	return nil
}

// picture is the cluster as it is.
func (w *town) picture() loop.ClusterState {
	now := w.sim.Now()
	s := loop.ClusterState{Replicas: map[string]int{}, Rollouts: map[string]podscaler.Rollout{}}
	for _, n := range w.nodes {
		node := n.Node
		node.Machine, node.Pool = w.links.Machine(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: corev1.NodeSpec{ProviderID: n.ProviderID},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: n.SystemUUID}},
		})
		if n.marked {
			node.Taints = []nodescaler.Taint{{Key: taintOfAutoscaler, Effect: "NoSchedule"}}
		}
		node.Attached = w.attached(n, now)
		if !n.sick.IsZero() {
			node.Conditions = []nodescaler.NodeCondition{{Type: sickness, Status: "True", Since: n.sick}}
		}
		if !n.lost.IsZero() {
			node.Conditions = append(node.Conditions, nodescaler.NodeCondition{Type: nodescaler.Ready, Status: "Unknown", Since: n.lost})
		}
		s.Nodes = append(s.Nodes, node)
	}
	slices.SortFunc(s.Nodes, func(a, b nodescaler.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range w.services {
		s.Replicas[o.name] = o.replicas
		if w.old(o) != nil {
			s.Rollouts[o.name] = podscaler.Rollout{InProgress: true, Why: "some are of an earlier version"}
		}
		s.Budgets = append(s.Budgets, nodescaler.Budget{Workload: o.name, Allowed: max(0, w.ready(o)-o.available)})
	}
	s.Headroom, s.Proposals = w.headroom, w.inbox.all
	for _, p := range w.pods {
		s.Pods = append(s.Pods, w.shown(p, now))
	}
	slices.SortFunc(s.Pods, func(a, b nodescaler.Pod) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// attached are the volumes of pods that are on a node, or were a moment ago.
func (w *town) attached(n *townNode, now time.Time) (all []string) {
	for _, p := range w.pods {
		if p.node == n.Name && p.of.volumes {
			all = append(all, "pv-of-"+p.name)
		}
	}
	for v, until := range n.detaching {
		if now.Before(until) {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// shown is a pod as it is read.
func (w *town) shown(p *townPod, now time.Time) nodescaler.Pod {
	out := nodescaler.Pod{
		Pod: podscaler.Pod{Name: p.name, Phase: podscaler.Pending, Terminating: !p.ends.IsZero()}, Workload: p.of.name, Node: p.node,
		Requests: p.asks, Created: p.created, Unschedulable: p.refused, Pinned: p.pinned,
	}
	if p.odd != nil {
		out.Workload = ""
		p.odd(&out)
	}
	if p.of.apart {
		out.Has, out.Repels = []string{"app=" + p.of.name}, []string{"app=" + p.of.name}
	}
	if p.node != "" && !now.Before(p.starts) {
		out.Phase, out.Started, out.ReadyChanged, out.Ready = podscaler.Running, p.starts, p.starts, w.serves(p, now)
		out.CPU = w.uses(p, now)
		out.CPU.Known = out.Ready
	}
	return out
}

// uses is the CPU that a pod uses: no more than it asks for.
func (w *town) uses(p *townPod, now time.Time) podscaler.Sample {
	use := min(float64(p.asks.CPU)/1000, p.of.cores/float64(max(1, w.ready(p.of))))
	return podscaler.Sample{Known: true, Value: use, At: now, Span: 15 * time.Second}
}

var errNoAnswer = errors.New("the API server does not answer")

// The town as the cluster's API.

func (w *town) Observe(context.Context) (loop.ClusterState, error) {
	w.kept = append(w.kept, w.picture())
	w.kept = w.kept[max(0, len(w.kept)-10):]
	if w.blind {
		w.meet("observe, no answer", w.sim.Now())
		return loop.ClusterState{}, errNoAnswer
	}
	w.meet(map[bool]string{false: "observe", true: "observe, stale"}[w.stale > 0], w.sim.Now())
	return w.kept[max(0, len(w.kept)-1-w.stale)], nil
}

func (w *town) write(ctx context.Context, what string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.blind || w.refuses {
		w.meet(what+", refused", w.sim.Now())
		return errNoAnswer
	}
	w.meet(what, w.sim.Now())
	return nil
}

func (w *town) SetReplicas(ctx context.Context, workload string, n int) error {
	err := w.write(ctx, "scale")
	if s := w.service(workload); err == nil {
		w.scaled(s, n)
		w.did = append(w.did, fmt.Sprintf("scale %s %d", workload, n))
		s.replicas = n
	}
	return err
}

func (w *town) Choose(ctx context.Context, workload string, pods []string) error {
	err := w.write(ctx, "choose")
	if s := w.service(workload); err == nil {
		s.goingFirst = map[string]bool{}
		for _, p := range pods {
			s.goingFirst[p] = true
		}
	}
	return err
}

func (w *town) Expect(ctx context.Context, _ string, _ int) error { return w.write(ctx, "expect") }

func (w *town) SetDraining(ctx context.Context, node string, draining bool) error {
	n := w.node(node)
	if err := w.write(ctx, "cordon"); err != nil {
		return err
	}
	if n == nil {
		return errors.New("no such node")
	}
	n.Draining, n.Cordoned = draining, draining
	w.did = append(w.did, map[bool]string{true: "cordon ", false: "uncordon "}[draining]+node)
	return nil
}

func (w *town) Evict(ctx context.Context, pod string) error {
	if err := w.write(ctx, "evict"); err != nil {
		return err
	}
	goes, err := w.evict(pod)
	if goes {
		w.did = append(w.did, "evict "+pod)
	}
	return err
}

// DeletePod has a pod go past any budget.
func (w *town) DeletePod(ctx context.Context, pod string, grace time.Duration) error {
	if err := w.write(ctx, "delete pod"); err != nil {
		return err
	}
	if i := slices.IndexFunc(w.pods, func(p *townPod) bool { return p.name == pod }); i >= 0 {
		if ends := w.sim.Now().Add(grace); w.pods[i].ends.IsZero() || ends.Before(w.pods[i].ends) {
			w.pods[i].ends = ends
		}
		w.did = append(w.did, "delete pod "+pod)
	}
	return nil
}

// taintOfAutoscaler is what cluster-autoscaler marks nodes with that it is about to delete.
const taintOfAutoscaler = "ToBeDeletedByClusterAutoscaler"

// evict asks a pod to go, if its budget allows that, and reports whether it goes.
func (w *town) evict(pod string) (goes bool, err error) {
	i := slices.IndexFunc(w.pods, func(p *townPod) bool { return p.name == pod })
	if i < 0 {
		return false, nil
	}
	p := w.pods[i]
	if w.stuck || w.serves(p, w.sim.Now()) && w.ready(p.of) <= p.of.available {
		w.meet("evict, budget", w.sim.Now())
		return false, loop.ErrBudget
	}
	p.ends = w.sim.Now().Add(time.Duration(2+w.rng.IntN(28)) * time.Second)
	return true, nil
}

func (w *town) Run(ctx context.Context) error                             { <-ctx.Done(); return nil }
func (w *town) Synced(context.Context) error                              { return nil }
func (w *town) Fresh() error                                              { return nil }
func (w *town) Wake() <-chan struct{}                                     { return nil }
func (w *town) Changed() <-chan struct{}                                  { return nil }
func (w *town) About(_ client.Object, e kube.Event)                       { hear(e) }
func (w *town) AboutPod(_, _ string, e kube.Event) bool                   { hear(e); return true }
func (w *town) AboutNode(_ string, e kube.Event) bool                     { hear(e); return true }
func (w *town) Autoscalers() ([]*v1alpha1.WorkloadAutoscaler, error)      { return list(w.autoscalers) }
func (w *town) Pools() ([]*v1alpha1.VMPool, error)                        { return list(w.pools) }
func (w *town) PriceBooks() ([]*v1alpha1.PriceBook, error)                { return list(w.books) }
func (w *town) Lead(context.Context, string, func(context.Context)) error { return nil }

// Size is a pod as it is, and Resize has its kubelet give it another size, if that fits.
func (w *town) Size(pod string) (rightsize.Pod, bool) {
	i := slices.IndexFunc(w.pods, func(p *townPod) bool { return p.name == pod })
	if i < 0 {
		return rightsize.Pod{}, false
	}
	p := w.pods[i]
	size := rightsize.Pod{Running: w.serves(p, w.sim.Now()), Started: p.starts, Containers: []rightsize.Container{{Name: "app", Requests: p.asks}}}
	if p.infeasible {
		size.Resize = rightsize.ResizeInfeasible
	}
	return size, true
}

func (w *town) Resize(ctx context.Context, _, pod string, changes []rightsize.Change) error {
	if err := w.write(ctx, "resize"); err != nil {
		return err
	}
	i := slices.IndexFunc(w.pods, func(p *townPod) bool { return p.name == pod })
	if i < 0 {
		return errors.New("no such pod")
	}
	p := w.pods[i]
	n := w.node(p.node)
	if p.infeasible = n == nil || !w.fits(n, p, changes[0].Requests); !p.infeasible {
		p.asks = changes[0].Requests
		w.did = append(w.did, "resize "+pod)
	}
	return nil
}

// Recreate evicts a pod that its node has no room for.
func (w *town) Recreate(ctx context.Context, _, pod string) error {
	if i := slices.IndexFunc(w.pods, func(p *townPod) bool { return p.name == pod }); i < 0 || !w.pods[i].infeasible {
		return errors.New("its node has room for what it was to be resized to")
	}
	return w.Evict(ctx, pod)
}

// containers is what they use.
func (w *town) containers() map[string][]podscaler.ContainerUse {
	now, all := w.sim.Now(), map[string][]podscaler.ContainerUse{}
	for _, p := range w.pods {
		if w.serves(p, now) && !w.blind {
			memory := podscaler.Sample{Known: true, Value: float64(p.of.memory), At: now}
			all[p.name] = []podscaler.ContainerUse{{Name: "app", CPU: w.uses(p, now), Memory: memory}}
		}
	}
	return all
}

func (w *town) Targets(context.Context) ([]kube.Target, error) {
	var all []kube.Target
	for _, name := range slices.Sorted(maps.Keys(w.autoscalers)) {
		s := w.service(name)
		t := kube.Target{Workload: name, Known: s != nil}
		if s == nil {
			t.Findings = []kube.Finding{{Code: v1alpha1.ReasonTargetNotFound, Text: "there is no such Deployment"}}
		} else {
			t.Replicas = s.replicas
			t.Rollout = podscaler.Rollout{InProgress: w.old(s) != nil}
		}
		all = append(all, t)
	}
	return all, nil
}

func (w *town) SetStatus(ctx context.Context, o client.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.write(ctx, "status"); err != nil {
		return err
	}
	conditions := func(of []metav1.Condition) {
		for _, c := range of {
			w.said["condition "+c.Type+" "+string(c.Status)]++
		}
	}
	switch o := o.(type) {
	case *v1alpha1.WorkloadAutoscaler:
		conditions(o.Status.Conditions)
		hear(o.Status)
		if a := w.autoscalers[o.Namespace+"/"+o.Name]; a != nil {
			a.Status = o.Status
		}
	case *v1alpha1.VMPool:
		conditions(o.Status.Conditions)
		hear(o.Status)
		if p := w.pools[o.Name]; p != nil {
			p.Status = o.Status
		}
	case *v1alpha1.PriceBook:
		w.books[o.Name].Status = o.Status
	}
	return nil
}

// The town as the fleet sees it.

func (w *town) listed(context.Context) (all []pve.Node, err error) {
	if w.blind {
		return nil, errNoAnswer
	}
	for _, n := range w.nodes {
		all = append(all, pve.Node{
			Name: n.Name, ProviderID: n.ProviderID, SystemUUID: n.SystemUUID, Ready: n.Ready, JoinedAt: n.Joined, ReadySince: n.ready,
		})
	}
	return all, nil
}

func (w *town) lastLook(_ context.Context, id nodescaler.Identity) (s nodescaler.Sight, err error) {
	if w.blind {
		return s, errNoAnswer
	}
	for _, n := range w.nodes {
		if n.Name != id.Name && n.ProviderID != id.ProviderID && !strings.EqualFold(n.SystemUUID, id.SystemUUID) {
			continue
		}
		seen := nodescaler.SeenNode{Identity: n.Identity(), Ready: n.Ready, Open: !n.Cordoned}
		for _, p := range w.pods {
			if p.node == n.Name {
				seen.Pods = append(seen.Pods, p.name)
			}
		}
		s.Nodes = append(s.Nodes, seen)
	}
	return s, nil
}

func (w *town) removeNode(ctx context.Context, name string) error {
	if err := w.write(ctx, "delete node"); err != nil {
		return err
	}
	w.nodes = slices.DeleteFunc(w.nodes, func(n *townNode) bool { return n.Name == name })
	return nil
}

// townSignals measures the town.
type townSignals struct{ *town }

func (townSignals) Configure(map[string]signals.Source) error { return nil }
func (townSignals) Prepare(context.Context, time.Time)        {}
func (townSignals) Recall(context.Context, time.Time, map[string]podscaler.Lack, func(string, *podscaler.History, error)) {
}

func (townSignals) Findings(string) []podscaler.Reason { return nil }

func (m townSignals) Read(_ context.Context, wl *podscaler.Workload, _ time.Time) (podscaler.Window, error) {
	if m.blind {
		return podscaler.Window{}, errNoAnswer
	}
	s := m.service(wl.Name)
	busy := s.cores / max(0.1, m.cores(s))
	return podscaler.Window{Latency: podscaler.Known(0.1 / max(0.05, 1-busy)), Arrivals: podscaler.Known(10 * s.cores)}, nil
}

// cores are those that the pods which serve may use.
func (w *town) cores(s *service) (n float64) {
	now := w.sim.Now()
	for _, p := range w.pods {
		if p.of == s && w.serves(p, now) {
			n += float64(p.asks.CPU) / 1000
		}
	}
	return n
}
