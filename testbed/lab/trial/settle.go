package trial

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
)

func span(r testbed.Range) timing.Range { return timing.Range(r) }

// kubelet is what a node's kubelet keeps for itself of the memory, over what the experiment reserves.
const kubelet = 100 * pricing.MiB

// proxmox is the experiment's hosts and pools.
func (r *run) proxmox() *machines.Part {
	d := &r.Delays
	return &machines.Part{
		Hosts: len(r.Hosts), Seed: r.SeedOf(r.job),
		Times: timing.Machine{Clone: span(d.Clone), Boot: span(d.Boot), Delete: span(d.Delete)},
		Site: func(s *pve.Site) {
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
func (r *run) pool(i int, like pve.Pool) pve.Pool {
	p := &r.Pools[i]
	disk := like.Shapes[0].Disk
	like.Name, like.Min, like.Max, like.PodSlots, like.Labels = p.Name, p.Min, p.Max, p.PodSlots, p.Labels
	if most := r.job.Policy.MaxMachines; most > 0 {
		like.Max = min(like.Max, most)
	}
	like.VMIDs = pve.VMIDs{First: 5000 + 1000*i, Last: 5999 + 1000*i}
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
		like.Taints = append(like.Taints, pve.Taint(t))
	}
	return like
}

// settle puts into the cluster what the experiment begins with.
func (r *run) settle(ctx context.Context) error {
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	var err error
	if r.client, err = client.New(r.lab.REST(), client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	if err := r.install(ctx); err != nil {
		return err
	}
	objects, err := r.objects()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := r.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s: %w", o.GetName(), err)
		}
	}
	patience := 5*time.Minute + r.Delays.Clone.Max + r.Delays.Boot.Max
	return await(ctx, "the experiment's start", patience, r.settled)
}

// objects are what the experiment begins with: its prices, its pools and its workload.
func (r *run) objects() ([]client.Object, error) {
	namespace, _ := names(&r.Workloads[0])
	all := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	prices, err := product.Object("PriceBook", v1alpha1.DefaultPriceBook, r.Prices)
	if err != nil {
		return nil, err
	}
	all = append(all, &unstructured.Unstructured{Object: prices})
	pools, err := product.Pools(r.pve)
	if err != nil {
		return nil, err
	}
	for _, p := range pools {
		all = append(all, &unstructured.Unstructured{Object: p})
	}
	w := &r.Workloads[0]
	all = append(all, deployment(w, edgesAround(w.SLO.Target)))
	if b := budget(w); b != nil {
		all = append(all, b)
	}
	return all, nil
}

// journal is where Plimsoll writes its steps.
func (r *run) journal() string { return filepath.Join(r.folder, "journal.ndjson") }

// install starts Plimsoll with the experiment's node policy.
func (r *run) install(ctx context.Context) error {
	return r.lab.Add(ctx, &product.Part{Program: r.program, PVE: r.pve, Settings: map[string]any{
		"mode": "Active", "interval": nodescaler.Duration(r.Tick), "nodes": r.job.Policy.Nodes.Spec(),
		"journal": map[string]any{"file": r.journal()},
	}})
}

// take lets Plimsoll scale the workload, and returns when it has looked at it.
func (r *run) take(ctx context.Context) error {
	a, err := autoscaler(&r.Workloads[0], r.job.Policy, r.lab.Endpoint("prometheus", "api"))
	if err != nil {
		return err
	}
	return r.client.Create(ctx, a)
}
