package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
)

const (
	zoneLabel    = corev1.LabelTopologyZone
	nodePoolName = "default"
)

// karpenter has Karpenter's scheduler plan, as its provisioner does: the requirements of volumes,
// the topology, the scheduler, and of each machine the cheapest that it says will do.
func (w *world) karpenter(ctx context.Context) ([]machine, error) {
	log.SetLogger(logr.Discard())
	ctx = (&options.Options{CPURequests: 1000, IgnoreDRARequests: true, FeatureGates: options.DefaultFeatureGates()}).ToContext(ctx)
	known, real := w.client(), clock.RealClock{}
	volumes, needs := scheduling.NewVolumeTopology(known), map[types.UID][]requirements.Requirements{}
	for _, p := range w.pods {
		of, err := volumes.GetRequirements(ctx, p)
		if err != nil {
			return nil, err
		}
		if len(of) > 0 {
			needs[p.UID] = of
		}
	}
	pools := []*v1.NodePool{nodePool()}
	shapes := map[string][]*cloudprovider.InstanceType{nodePoolName: w.instanceTypes()}
	cluster := state.NewCluster(real, known, nil)
	// One worker, as with the CPU that it asks for by default.
	opts := []scheduling.Options{scheduling.DisableReservedCapacityFallback, scheduling.NumConcurrentReconciles(1)}
	topology, err := scheduling.NewTopology(ctx, known, cluster, nil, pools, shapes, w.pods, opts...)
	if err != nil {
		return nil, err
	}
	s := scheduling.NewScheduler(ctx, known, pools, cluster, nil, topology, shapes, nil,
		events.NewRecorder(&record.FakeRecorder{}), real, needs, nil, opts...)
	results, err := s.Solve(ctx, w.pods)
	if err != nil {
		return nil, err
	}
	results = results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
	var machines []machine
	for _, n := range results.NewNodeClaims {
		m, err := w.launched(n)
		if err != nil {
			return nil, err
		}
		machines = append(machines, m)
	}
	return machines, nil
}

// launched is the cheapest machine that the claim allows, and of equals the first by name.
func (w *world) launched(n *scheduling.NodeClaim) (machine, error) {
	var best *cloudprovider.InstanceType
	var at *cloudprovider.Offering
	for _, it := range n.InstanceTypeOptions {
		for _, o := range it.Offerings.Available().Compatible(n.Requirements) {
			if best == nil || o.Price < at.Price || o.Price == at.Price && (it.Name < best.Name || it == best && o.Zone() < at.Zone()) {
				best, at = it, o
			}
		}
	}
	if best == nil {
		return machine{}, errors.New("a node claim has no instance type")
	}
	m := machine{offer: w.offer(best.Name), zone: at.Zone(), disk: slices.Min(n.Requirements.Get(diskLabel).Values())}
	for _, p := range n.Pods {
		m.pods = append(m.pods, p.Namespace+"/"+p.Name)
	}
	return m, nil
}

func (w *world) offer(name string) offer {
	return w.offers[slices.IndexFunc(w.offers, func(o offer) bool { return o.Name == name })]
}

// nodePool has either kind of disk; zones are in what is on offer.
func nodePool() *v1.NodePool {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: nodePoolName, UID: nodePoolName}}
	p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "example.com", Kind: "Class", Name: "default"}
	p.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{{Key: diskLabel, Operator: corev1.NodeSelectorOpIn, Values: disks}}
	return p
}

// instanceTypes are the shapes, on offer in each zone.
func (w *world) instanceTypes() (all []*cloudprovider.InstanceType) {
	for i := range w.offers {
		o := &w.offers[i]
		it := &cloudprovider.InstanceType{
			Name: o.Name, Capacity: list(int64(o.CPU), int64(o.Memory)),
			Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(reserved.CPU), resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(int64(reserved.Memory), resource.BinarySI),
			}},
			Requirements: requirements.NewRequirements(
				requirements.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, o.Name),
				requirements.NewRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64"),
				requirements.NewRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, "linux"),
				requirements.NewRequirement(zoneLabel, corev1.NodeSelectorOpIn, zones...),
				requirements.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, v1.CapacityTypeOnDemand),
			),
		}
		for _, zone := range zones {
			it.Offerings = append(it.Offerings, &cloudprovider.Offering{
				Available: true, Price: float64(o.price) / 1e6,
				Requirements: requirements.NewLabelRequirements(map[string]string{v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand, zoneLabel: zone}),
			})
		}
		all = append(all, it)
	}
	return all
}

// cached answers for claims and volumes as a cache of them does: the fake client alone would encode
// and decode each.
type cached struct {
	client.Client
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
}

func (w *world) client() *cached {
	c := &cached{fake.NewClientBuilder().Build(), map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, map[string]*corev1.PersistentVolume{}}
	for _, o := range w.claims {
		c.claims[client.ObjectKeyFromObject(o)] = o
	}
	for _, o := range w.volumes {
		c.volumes[o.Name] = o
	}
	return c
}

func (c *cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.PersistentVolumeClaim:
		if o := c.claims[key]; o != nil {
			o.DeepCopyInto(into)
			return nil
		}
	case *corev1.PersistentVolume:
		if o := c.volumes[key.Name]; o != nil {
			o.DeepCopyInto(into)
			return nil
		}
	default:
		return c.Client.Get(ctx, key, into, opts...)
	}
	return fmt.Errorf("there is no %T %s", into, key)
}
