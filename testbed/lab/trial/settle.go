package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/live"
)

func span(r testbed.Range) timing.Range { return timing.Range(r) }

// kubelet is what a node's kubelet keeps for itself of the memory, over what the experiment
// reserves.
const kubelet = 100 * pricing.MiB

// atOnce is how long the machines take that are there when a trial begins. Nothing is drawn for
// them: the first machine that is ordered in a trial has the luck of the first one, as in the
// simulated world.
var atOnce = timing.Machine{
	Clone: timing.Range{Min: 1, Max: 1}, Boot: timing.Range{Min: 1, Max: 1}, Delete: timing.Range{Min: 1, Max: 1},
}

// proxmox is the experiment's hosts and pools.
func (r *run) proxmox() *machines.Part {
	d := &r.Delays
	return &machines.Part{
		Hosts: len(r.Hosts), Seed: r.SeedOf(r.job), Times: atOnce,
		Site: func(s *settings.Site) {
			s.ClonesPerStorage = d.Clones
			like := s.Pools[0]
			s.Pools = nil
			for i := range r.Pools {
				s.Pools = append(s.Pools, r.pool(i, like))
			}
		},
	}
}

// pool is one of the experiment's pools, made as the lab makes its own.
func (r *run) pool(i int, like settings.Pool) settings.Pool {
	p := &r.Pools[i]
	disk := like.Shapes[0].Disk
	like.Name, like.Min, like.Max, like.PodSlots, like.Labels = p.Name, p.Min, p.Max, p.PodSlots, p.Labels
	if most := r.job.Policy.MaxMachines; most > 0 {
		like.Max = min(like.Max, most)
	}
	like.VMIDs = placement.VMIDs{First: 5000 + 1000*i, Last: 5999 + 1000*i}
	like.Placement.Hosts = p.Hosts
	like.Reserved = pricing.Resources{CPU: p.Reserved.CPU, Memory: p.Reserved.Memory + kubelet}
	like.Join.KubeletArgs = []string{fmt.Sprintf("system-reserved=cpu=%dm,memory=%d", p.Reserved.CPU, p.Reserved.Memory)}
	like.Shapes = nil
	for _, s := range p.Shapes {
		s.Memory -= s.Memory % pricing.MiB // as Proxmox VE has it
		if s.Disk == 0 {
			s.Disk = disk
		}
		like.Shapes = append(like.Shapes, s)
	}
	for _, t := range p.Taints {
		like.Taints = append(like.Taints, settings.Taint(t))
	}
	return like
}

// settle brings about what the experiment begins with: its machines are nodes and its pods ready.
// The machines come first. Were the pods there before them, node policies would order more.
func (r *run) settle(ctx context.Context) error {
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	var err error
	if r.client, err = client.New(r.lab.REST(), client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	r.plimsoll = &product.Part{Program: r.program, PVE: r.pve, Settings: r.settings("1s", starting, "start.ndjson")}
	if err := r.lab.Add(ctx, r.plimsoll); err != nil {
		return err
	}
	offer, err := r.offer()
	if err != nil {
		return err
	}
	const patience = 5 * time.Minute
	if err := errors.Join(r.create(ctx, offer...), await(ctx, "the first machines", patience, r.joined)); err != nil {
		return err
	}
	if err := errors.Join(r.create(ctx, r.service()...), await(ctx, "the first pods", patience, r.ready)); err != nil {
		return err
	}
	if err := r.lab.Stop(ctx, r.plimsoll.Name()); err != nil {
		return err
	}
	d := &r.Delays
	return r.pve.Cluster().SetTimes(timing.Machine{Clone: span(d.Clone), Boot: span(d.Boot), Delete: span(d.Delete)})
}

// starting is the node policy that makes the machines that there are to be at the start.
var starting = map[string]any{"policy": "unneeded", "unneeded": map[string]any{
	"scanInterval": "1s", "enforceNodeGroupMinSize": true,
	// The first order may come before the template was seen, and is soon to be tried again.
	"initialNodeGroupBackoffDuration": "1s", "maxNodeGroupBackoffDuration": "1s",
}}

// settings are Plimsoll's.
func (r *run) settings(interval, nodes any, journal string) map[string]any {
	return map[string]any{
		"mode": "Active", "interval": interval, "nodes": nodes,
		"journal": map[string]any{"file": filepath.Join(r.folder, journal)},
	}
}

func (r *run) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := r.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// offer is the experiment's prices and pools.
func (r *run) offer() ([]client.Object, error) {
	prices, err := product.Object("PriceBook", v1alpha1.DefaultPriceBook, r.Prices)
	if err != nil {
		return nil, err
	}
	all := []client.Object{&unstructured.Unstructured{Object: prices}}
	pools, err := product.Pools(r.pve)
	for _, p := range pools {
		all = append(all, &unstructured.Unstructured{Object: p})
	}
	return all, err
}

// service is the experiment's workload.
func (r *run) service() []client.Object {
	w := &r.Workloads[0]
	namespace, _ := live.Names(w)
	all := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		live.Deployment(w, containers(w)),
	}
	if b := live.Budget(w); b != nil {
		all = append(all, b)
	}
	return all
}

// containers are those of a pod. Nothing runs in them.
func containers(w *testbed.Workload) []corev1.Container {
	all := []corev1.Container{{Name: "server", Image: "lab.plimsoll.dev/server", Resources: live.Server(w)}}
	if live.Beside(w) > 0 {
		all = append(all, corev1.Container{Name: "sidecar", Image: "lab.plimsoll.dev/sidecar", Resources: live.Sidecar(w)})
	}
	return all
}

// journalFile is the name of the trial's journal, in the run's folder.
const journalFile = "journal.ndjson"

// take lets Plimsoll scale the workload, with the experiment's policies. It starts anew, as it does
// in the simulated world: policies remember nothing of how the start was brought about, and no
// money is spent.
func (r *run) take(ctx context.Context) error {
	a, err := live.Autoscaler(&r.Workloads[0], r.job.Policy, v1alpha1.Signals{
		Preset: v1alpha1.PresetIstio, Prometheus: &v1alpha1.Prometheus{URL: r.lab.Endpoint("prometheus", "api")},
	})
	if err != nil {
		return err
	}
	if err := r.client.Create(ctx, a); err != nil {
		return err
	}
	if r.job.Policy.Upstream() {
		err = r.handOver(ctx)
	} else {
		r.plimsoll.Settings = r.settings(nodescaler.Duration(r.Tick), r.job.Policy.Nodes.Spec(), journalFile)
	}
	if err != nil {
		return err
	}
	if err := r.lab.Start(ctx, r.plimsoll.Name()); err != nil {
		return err
	}
	var first time.Time
	err = await(ctx, "Plimsoll's first look at the machines", time.Minute, func(context.Context) error { return r.looked(&first) })
	if err != nil {
		return err
	}
	if r.job.Policy.Upstream() {
		if err := r.autoscale(ctx); err != nil {
			return err
		}
	}
	// As in the simulated world, samples are there right before the steps that go by them. They are
	// taken at whole seconds, which Kubernetes cuts times to. By the HPA's rule, one of a new pod
	// counts if its span began after the pod became ready, and for want of a fraction of a second
	// it would not.
	return r.plane.SampleFrom(ctx, first.Add(r.Signals.MetricsEvery-ahead).Truncate(time.Second))
}

// ahead is how long before its step a sample is taken at least: time enough for it to be read.
const ahead = 100 * time.Millisecond

// looked waits until the journal has a step that has seen the machines, and gives the first one's
// time.
func (r *run) looked(first *time.Time) error {
	looked := false
	err := r.eachStep(func(s *loop.Step) error {
		if first.IsZero() {
			*first = s.Time
		}
		looked = looked || s.Observed.Cost.Known
		return nil
	})
	if err == nil && !looked {
		err = errors.New("no step has seen them")
	}
	return err
}

// eachStep reads the trial's journal.
func (r *run) eachStep(read func(*loop.Step) error) error {
	file, err := os.Open(filepath.Join(r.folder, journalFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	return loop.Read(file, read)
}

// joined wants the machines that are there from the start to be nodes.
func (r *run) joined(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return err
	}
	want := 0
	for i := range r.Pools {
		want += r.Pools[i].Start
	}
	if n := len(slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return !live.NodeReady(&n) })); n != want {
		return fmt.Errorf("%d of %d machines have joined", n, want)
	}
	return nil
}

// ready wants all pods of the start to have been ready for a moment.
func (r *run) ready(ctx context.Context) error {
	namespace, _ := live.Names(&r.Workloads[0])
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(live.Labels(&r.Workloads[0]))); err != nil {
		return err
	}
	ready := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !live.PodReady(&p) })
	if n := r.Workloads[0].Replicas.Start; len(ready) != n {
		return fmt.Errorf("%d of %d pods are ready", len(ready), n)
	}
	return nil
}
