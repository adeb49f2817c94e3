package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

var t0 = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// house is a cluster and a Proxmox VE kept in memory: what is done to it changes it, and what was
// done is written down.
type house struct {
	resting map[string]bool // pools in which no machine is started again
	*testing.T
	cfg  Config
	term *term
	now  time.Time

	autoscalers map[string]*v1alpha1.WorkloadAutoscaler
	pools       map[string]*v1alpha1.VMPool
	books       map[string]*v1alpha1.PriceBook
	replicas    map[string]int // of targets, by the autoscaler that scales them
	findings    map[string][]kube.Finding
	nodes       []nodescaler.Node
	machines    []nodescaler.Machine
	paused      map[string]nodescaler.Reason
	braked      map[string]nodescaler.Reason
	refuses     map[string][]nodescaler.RefusedOrder
	unread      map[string]nodescaler.Reason
	news        chan struct{}
	made        func()  // called once a machine was made
	cores       float64 // what each pod uses
	broken      map[string]error
	amiss       map[string][]podscaler.Reason
	latency     podscaler.Reading
	window      podscaler.Window                  // what else is measured
	containers  []rightsize.Container             // of every pod
	ranges      rightsize.Ranges                  // of its namespace
	uses        map[string]podscaler.ContainerUse // what each container of every pod uses
	sizes       map[string]rightsize.Pod          // of the pods that were resized
	unready     map[string]bool
	rollout     podscaler.Rollout // of every target
	sizer       *kube.Finding     // of every target
	frozen      bool              // the objects that are read have the statuses of the beginning

	done      []string
	refused   int // orders
	told      []string
	collected []string
	usable    []string // the pools that the fleet was configured with
	measured  []time.Time
	writing   sync.Mutex // of statuses
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{
		T: t, now: t0, autoscalers: map[string]*v1alpha1.WorkloadAutoscaler{}, pools: map[string]*v1alpha1.VMPool{},
		books: map[string]*v1alpha1.PriceBook{}, replicas: map[string]int{}, findings: map[string][]kube.Finding{}, broken: map[string]error{},
		sizes: map[string]rightsize.Pod{}, uses: map[string]podscaler.ContainerUse{}, containers: []rightsize.Container{{Name: "app", Requests: pricing.Resources{CPU: 500, Memory: 256 * pricing.MiB}}},
		paused: map[string]nodescaler.Reason{}, amiss: map[string][]podscaler.Reason{}, cores: 0.25,
	}
	metrics, err := NewMetrics(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	quick := nodepolicy.DefaultUnneeded()
	quick.ScaleDownUnneededTime, quick.ScaleDownDelayAfterAdd, quick.ScaleDownDelayAfterFailure = 0, 0, 0
	h.cfg = Config{
		Cluster: cluster{h}, Identity: "me", PodScaler: true, NodeScaler: true, Active: true, PriceBook: "default", Interval: 10 * time.Second,
		Nodes: nodepolicy.Spec{Policy: "unneeded", Unneeded: &quick}, Signals: measured{h}, Links: &Links{}, Metrics: metrics,
		ReadFile: func(name string) ([]byte, error) {
			if name != "/etc/token" {
				return nil, errors.New("no such file")
			}
			return []byte("K10::node:secret"), nil
		},
		Fleet:      func(context.Context, func(error)) (Fleet, error) { return fleet{h}, nil },
		Containers: h.measure,
		Now:        func() time.Time { return h.now }, Log: slog.New(slog.DiscardHandler),
	}
	return h
}

// begin makes a process of it that leads.
func (h *house) begin() *house {
	h.Helper()
	h.term = &term{Config: h.cfg, said: map[types.UID]any{}}
	if h.term.Journal == nil {
		h.term.Journal = &lastStep{}
	}
	if h.cfg.Fleet != nil {
		h.term.fleet = fleet{h}
	}
	if err := h.term.begin(); err != nil {
		h.Fatal(err)
	}
	return h
}

// steps makes so many steps, an interval apart.
func (h *house) steps(n int) {
	h.Helper()
	for range n {
		if err := h.term.step(h.Context(), h.now); err != nil {
			h.Fatal(err)
		}
		h.term.beside.Wait()
		h.now = h.now.Add(h.cfg.Interval)
	}
}

// looks reports whether the next step only looks at shop/web, as a scaler does that remembers
// nothing.
func (h *house) looks() bool {
	h.Helper()
	var last lastStep
	h.term.Journal = &last
	h.steps(1)
	ws := workloadStep(&last.Step, "shop/web")
	return ws != nil && ws.Decision == nil
}

// lastStep is a journal of one record.
type lastStep struct{ loop.Step }

func (l *lastStep) Append(s *loop.Step) error {
	l.Step = *s
	hear(s)
	return nil
}

func (h *house) autoscaler(text string) *v1alpha1.WorkloadAutoscaler {
	h.Helper()
	a := &v1alpha1.WorkloadAutoscaler{}
	if err := yaml.UnmarshalStrict([]byte(text), a); err != nil {
		h.Fatal(err)
	}
	a.Namespace, a.UID = "shop", types.UID("wla-"+a.Name)
	h.autoscalers["shop/"+a.Name] = a
	return a
}

// web is an autoscaler by CPU, of which each pod may use half a core.
func (h *house) web(more string) *v1alpha1.WorkloadAutoscaler {
	h.Helper()
	h.replicas["shop/web"] = 4
	return h.autoscaler(`
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  policy: HPA
  minReplicas: 1
  maxReplicas: 10
  runPeriod: 10s
  hpa: {metrics: [{type: Resource, name: cpu, averageValue: 500m}]}
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
` + more)
}

func (h *house) pool(name string, more string) *v1alpha1.VMPool {
	h.Helper()
	p := &v1alpha1.VMPool{}
	text := fmt.Sprintf(`
metadata: {name: %s}
spec:
  min: 0
  max: 5
  shapes: [{name: small, cpu: 2, memory: 4GiB}]
  template: {vmid: 9000}
  pvePool: plimsoll
  vmids: {first: 1000, last: 1099}
  iso: {storage: discs}
  region: lab
  join: {kind: rke2, servers: [rke2.lab], tokenFile: /etc/token, providerID: {scheme: uuid}}
%s`, name, more)
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		h.Fatal(err)
	}
	p.UID = types.UID("pool-" + name)
	h.pools[name] = p
	return p
}

func (h *house) book(name, spec string) {
	h.Helper()
	b := &v1alpha1.PriceBook{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("book-" + name)}}
	if err := yaml.UnmarshalStrict([]byte(spec), &b.Spec); err != nil {
		h.Fatal(err)
	}
	h.books[name] = b
}

// node makes a machine that has joined.
func (h *house) node(pool, order string) {
	name := nodescaler.MachineName(pool, order)
	h.machines = append(h.machines, nodescaler.Machine{
		Name: name, Order: order, Pool: pool, Shape: pricing.Shape{Name: "small", CPU: 2000, Memory: 4 * pricing.GiB}, Host: "pve1",
		Phase: nodescaler.Joined, Created: t0.Add(-time.Hour), Since: t0.Add(-time.Hour),
	})
	h.nodes = append(h.nodes, nodescaler.Node{
		Name: name, Machine: name, Pool: pool, Ready: true, Joined: t0.Add(-time.Hour), Allocatable: pricing.Resources{CPU: 2000, Memory: 4 * pricing.GiB},
	})
	h.sort()
}

func (h *house) sort() {
	slices.SortFunc(h.machines, func(a, b nodescaler.Machine) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(h.nodes, func(a, b nodescaler.Node) int { return strings.Compare(a.Name, b.Name) })
}

// Observe has as many pods of every workload as were asked for, four to a node that is not
// cordoned.
func (h *house) Observe(context.Context) (loop.ClusterState, error) {
	s := loop.ClusterState{Nodes: slices.Clone(h.nodes), Replicas: map[string]int{}, Rollouts: map[string]podscaler.Rollout{}}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Machine == "" {
			n.Machine, n.Pool = h.cfg.Links.Machine(&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: corev1.NodeSpec{ProviderID: n.ProviderID},
				Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: n.SystemUUID}},
			})
		}
	}
	n, open := 0, slices.DeleteFunc(slices.Clone(h.nodes), func(n nodescaler.Node) bool { return n.Cordoned })
	for _, name := range slices.Sorted(maps.Keys(h.replicas)) {
		if len(h.findings[name]) == 0 || h.findings[name][0].Code == v1alpha1.ReasonForeignAutoscaler {
			s.Replicas[name], s.Rollouts[name] = h.replicas[name], h.rollout
		}
		for i := range h.replicas[name] {
			p := nodescaler.Pod{
				Pod:      podscaler.Pod{Name: fmt.Sprintf("%s-%02d", name, i), Phase: podscaler.Pending},
				Workload: name, Requests: pricing.Resources{CPU: 500, Memory: 256 * pricing.MiB}, Created: t0, Unschedulable: true,
			}
			if size, resized := h.sizes[p.Name]; resized && len(size.Containers) > 0 {
				p.Requests = size.Containers[0].Requests
			}
			if n/4 < len(open) {
				p.Node, p.Unschedulable, p.Phase, p.Ready = open[n/4].Name, false, podscaler.Running, true
				p.Started, p.ReadyChanged = t0.Add(-time.Hour), t0.Add(-time.Hour)
				p.Ready = !h.unready[p.Name]
				p.CPU = podscaler.Sample{Known: true, Value: h.cores, At: h.now, Span: 15 * time.Second}
			}
			n++
			s.Pods = append(s.Pods, p)
		}
	}
	return s, h.broken["observe"]
}

func (h *house) note(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	verb, _, _ := strings.Cut(what, " ")
	if err := h.broken[verb]; err != nil {
		return err
	}
	h.done = append(h.done, what)
	return nil
}

func (h *house) SetReplicas(_ context.Context, workload string, n int) error {
	err := h.note("scale %s to %d", workload, n)
	if err == nil {
		h.replicas[workload] = n
	}
	return err
}

func (h *house) Choose(_ context.Context, workload string, pods []string) error {
	return h.note("choose %s of %s", strings.Join(pods, " "), workload)
}

func (h *house) Expect(_ context.Context, workload string, more int) error {
	return h.note("expect %d more of %s", more, workload)
}

func (h *house) SetDraining(_ context.Context, node string, draining bool) error {
	for i := range h.nodes {
		if h.nodes[i].Name == node {
			h.nodes[i].Draining, h.nodes[i].Cordoned = draining, draining
		}
	}
	return h.note("drain %s %v", node, draining)
}

// measure is what each container of every pod was last measured to use.
func (h *house) measure() map[string][]podscaler.ContainerUse {
	all := map[string][]podscaler.ContainerUse{}
	for name, replicas := range h.replicas {
		for i := range replicas {
			for _, container := range slices.Sorted(maps.Keys(h.uses)) {
				u := h.uses[container]
				u.Name, u.CPU.At, u.Memory.At = container, h.now, h.now
				all[fmt.Sprintf("%s-%02d", name, i)] = append(all[fmt.Sprintf("%s-%02d", name, i)], u)
			}
		}
	}
	return all
}

func (h *house) Size(pod string) (rightsize.Pod, bool) {
	if p, ok := h.sizes[pod]; ok {
		return p, true
	}
	return rightsize.Pod{Running: true, Started: t0.Add(-time.Hour), Containers: h.containers, Ranges: h.ranges}, true
}

func (h *house) Resize(_ context.Context, workload, pod string, changes []rightsize.Change) error {
	what := "resize " + pod
	for _, c := range changes {
		what += fmt.Sprintf(" %s %s %dMi", c.Container, c.Requests.CPU, c.Requests.Memory/pricing.MiB)
		if c.Limits != (pricing.Resources{}) {
			what += fmt.Sprintf(" of %s %dMi", c.Limits.CPU, c.Limits.Memory/pricing.MiB)
		}
	}
	err := h.note("%s", what)
	if err != nil {
		return err
	}
	p, _ := h.Size(pod)
	p.Containers = slices.Clone(p.Containers)
	for i := range p.Containers {
		for _, c := range changes {
			if c.Container == p.Containers[i].Name {
				p.Containers[i].Requests, p.Containers[i].Limits = c.Requests, c.Limits
			}
		}
	}
	h.sizes[pod] = p
	return nil
}

func (h *house) Recreate(_ context.Context, _, pod string) error { return h.note("recreate %s", pod) }

func (h *house) Evict(_ context.Context, pod string) error { return h.note("evict %s", pod) }

func (h *house) List(context.Context) (loop.MachineState, error) {
	hosts := []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: pricing.Resources{CPU: 64000, Memory: 256 * pricing.GiB}}, Online: true}}
	return loop.MachineState{Hosts: hosts, Machines: slices.Clone(h.machines), Refused: h.refuses}, h.broken["list"]
}

func (h *house) Create(_ context.Context, o loop.Order) error {
	if why, is := h.paused[o.Action.Pool]; is {
		h.refused++
		return fmt.Errorf("%w: %s", loop.ErrRefused, why)
	}
	err := h.note("create %s", o.Action.Pool)
	if err == nil {
		h.node(o.Action.Pool, o.ID)
		if h.made != nil {
			h.made()
		}
	}
	return err
}

func (h *house) Delete(_ context.Context, name string) error {
	h.machines = slices.DeleteFunc(h.machines, func(m nodescaler.Machine) bool { return m.Name == name })
	h.nodes = slices.DeleteFunc(h.nodes, func(n nodescaler.Node) bool { return n.Name == name })
	return h.note("delete %s", name)
}

// fleet is the house's machines; Wake is another thing to a house.
type fleet struct{ *house }

func (h fleet) Rest(pools map[string]bool) { h.resting = pools }

func (h fleet) Stash(_ context.Context, name string) error {
	h.phase(name, nodescaler.Spare)
	return h.note("stash %s", name)
}

func (h fleet) Wake(_ context.Context, name string) error {
	h.phase(name, nodescaler.Booting)
	return h.note("wake %s", name)
}

func (h fleet) Reboot(_ context.Context, name string) error { return h.note("reboot %s", name) }

func (h *house) phase(name string, p nodescaler.Phase) {
	for i := range h.machines {
		if m := &h.machines[i]; m.Name == name {
			m.Phase = p
		}
	}
}

func (h *house) Run(ctx context.Context) { <-ctx.Done() }

func (h *house) Configure(pools []settings.Pool, _ *pricing.Book) error {
	h.usable = nil
	for _, p := range pools {
		h.usable = append(h.usable, p.Name)
	}
	return nil
}

func (h *house) Paused() map[string]nodescaler.Reason { return h.paused }
func (h *house) ForAutoscaler() loop.Machines         { return h }
func (h *house) Braked() map[string]nodescaler.Reason { return h.braked }
func (h *house) Unread() map[string]nodescaler.Reason { return h.unread }
func (h *house) News() <-chan struct{}                { return h.news }

func (h *house) Collect(_ context.Context, spare func(pve.Orphan) bool) (pve.Report, error) {
	for _, p := range []string{"workers", "db", "gone"} {
		if !spare(pve.Orphan{Kind: pve.MachineWithoutNode, Pool: p}) {
			h.collected = append(h.collected, "machine of "+p)
		}
		if !spare(pve.Orphan{Kind: pve.DiscWithoutMachine, Pool: p}) {
			h.collected = append(h.collected, "disc of "+p)
		}
	}
	return pve.Report{}, nil
}

// cluster is the house as the cluster, whose Run is another than the fleet's.
type cluster struct{ *house }

func (cluster) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (h *house) Synced(context.Context) error { return h.broken["synced"] }
func (h *house) Fresh() error                 { return h.broken["fresh"] }
func (h *house) Approvals() loop.Approvals    { return nil }
func (h *house) Wake() <-chan struct{}        { return nil }
func (h *house) Changed() <-chan struct{}     { return nil }
func (h *house) About(o client.Object, e kube.Event) {
	hear(e)
	h.told = append(h.told, fmt.Sprintf("%s %s %s: %s", kindOf(o), o.GetName(), e.Reason, e.Note))
}

func (h *house) AboutPod(name, _ string, e kube.Event) bool {
	hear(e)
	h.told = append(h.told, fmt.Sprintf("Pod %s %s: %s", name, e.Reason, e.Note))
	return true
}

func (h *house) AboutNode(name string, e kube.Event) bool {
	hear(e)
	h.told = append(h.told, fmt.Sprintf("Node %s %s: %s", name, e.Reason, e.Note))
	return true
}

func list[T any](all map[string]*T) ([]*T, error) {
	var out []*T
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out, nil
}

// copied lists copies of objects, whose statuses may be written meanwhile.
func copied[T any](h *house, all map[string]*T) ([]*T, error) {
	h.writing.Lock()
	defer h.writing.Unlock()
	out, err := list(all)
	for i, o := range out {
		c := *o
		out[i] = &c
	}
	return out, err
}

func (h *house) Autoscalers() ([]*v1alpha1.WorkloadAutoscaler, error) {
	return copied(h, h.autoscalers)
}
func (h *house) Pools() ([]*v1alpha1.VMPool, error)         { return copied(h, h.pools) }
func (h *house) PriceBooks() ([]*v1alpha1.PriceBook, error) { return copied(h, h.books) }

func (h *house) Targets(context.Context) ([]kube.Target, error) {
	var all []kube.Target
	for _, name := range slices.Sorted(maps.Keys(h.autoscalers)) {
		_, there := h.replicas[name]
		t := kube.Target{Workload: name, Known: there, Replicas: h.replicas[name], Findings: h.findings[name], Sized: h.sizer, Rollout: h.rollout}
		if !there {
			t.Findings = []kube.Finding{{Code: v1alpha1.ReasonTargetNotFound, Text: "there is no Deployment web"}}
		}
		all = append(all, t)
	}
	return all, nil
}

func (h *house) SetStatus(_ context.Context, o client.Object) error {
	if err := h.broken["status"]; err != nil {
		return err
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	switch o := o.(type) {
	case *v1alpha1.WorkloadAutoscaler:
		hear(o.Status)
		if !h.frozen {
			h.autoscalers[o.Namespace+"/"+o.Name].Status = o.Status
		}
	case *v1alpha1.VMPool:
		hear(o.Status)
		h.pools[o.Name].Status = o.Status
	case *v1alpha1.PriceBook:
		hear(o.Status)
		h.books[o.Name].Status = o.Status
	}
	return nil
}

func (h *house) Lead(ctx context.Context, _ string, work func(context.Context)) error {
	work(ctx)
	return nil
}

// measured is the house as the signals.
type measured struct{ *house }

func (m measured) Configure(map[string]signals.Source) error { return nil }
func (h *house) Prepare(_ context.Context, now time.Time)    { h.measured = append(h.measured, now) }
func (h *house) Recall(context.Context, time.Time, map[string]podscaler.Lack, func(string, *podscaler.History, error)) {
}

func (h *house) Findings(w string) []podscaler.Reason { return h.amiss[w] }
func (h *house) Read(context.Context, *podscaler.Workload, time.Time) (podscaler.Window, error) {
	w := h.window
	w.Latency = h.latency
	return w, nil
}

// said are an object's conditions, as type=status reason.
func said(all []metav1.Condition) map[string]string {
	out := map[string]string{}
	for _, c := range all {
		out[c.Type] = string(c.Status) + " " + c.Reason
	}
	return out
}

func (h *house) expect(what string, want, got any) {
	h.Helper()
	if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
		h.Errorf("%s: %s, want %s", what, g, w)
	}
}
