package kube

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/sight"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// Objects are what Read takes.
type Objects = sight.Objects

// Read returns nodes and pods as Observe would, where there is no cluster to observe: to play one
// load through our policies and through others.
func Read(o *Objects) nodescaler.Snapshot { return sight.Read(o) }

// Observe returns the cluster as it is now. Replicas holds every target that is Known.
func (c *Cluster) Observe(ctx context.Context) (loop.ClusterState, error) {
	if err := c.Fresh(); err != nil {
		return loop.ClusterState{}, err
	}
	return c.look(ctx), nil
}

// Addresses returns the IPs of all pods that have one, by namespace/name.
func (c *Cluster) Addresses() map[string]string {
	all := copies.All[*kept.Pod](c.copies, copies.Pods)
	addresses := make(map[string]string, len(all))
	for _, p := range all {
		if p.Address != "" {
			addresses[p.Said.Name] = p.Address
		}
	}
	return addresses
}

// look puts together what the copies hold.
func (c *Cluster) look(ctx context.Context) loop.ClusterState {
	resolved, usage := c.targets.Resolve(ctx), c.meter.samples(ctx)
	state, seen := sight.Look(listsOf(c.copies), resolved, usage, c.cfg.Machine, time.Now())
	state.Proposals = approvals{c}.all()
	seen.Ranges = rangesOf(c.copies)
	c.observed.Store(seen)
	return state
}

func listsOf(c *copies.Copies) *sight.Lists {
	// Of a CapacityBuffer that both versions show the newer counts.
	all := slices.Concat(copies.Sorted[*kept.Buffer](c, copies.Buffers), copies.Sorted[*kept.Buffer](c, copies.OldBuffers))
	slices.SortStableFunc(all, func(a, b *kept.Buffer) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return &sight.Lists{
		Nodes: copies.Sorted[*kept.Node](c, copies.Nodes), Pods: copies.All[*kept.Pod](c, copies.Pods),
		Namespaces: copies.All[*metav1.PartialObjectMetadata](c, copies.Namespaces), Owners: copies.All[*metav1.PartialObjectMetadata](c, copies.Owners),
		Scaled:     slices.Concat(copies.All[*kept.Scaled](c, copies.Deployments), copies.All[*kept.Scaled](c, copies.StatefulSets)),
		DaemonSets: copies.Sorted[*kept.DaemonSet](c, copies.DaemonSets), Disruptions: copies.Sorted[*kept.Disruption](c, copies.Disruptions),
		Volumes: copies.Sorted[*kept.Volume](c, copies.Volumes), Claims: copies.All[*kept.Claim](c, copies.Claims), Classes: copies.All[*kept.Class](c, copies.Classes),
		Attachables: copies.All[*kept.Attachable](c, copies.Attachables), Attachments: copies.All[*kept.Attachment](c, copies.Attachments),
		DeviceClaims: copies.All[*kept.DeviceClaim](c, copies.DeviceClaims), DeviceTemplates: copies.All[*kept.DeviceClaim](c, copies.DeviceTemplates),
		Publications: copies.All[*kept.Published](c, copies.Publications), Templates: copies.All[*kept.Template](c, copies.PodTemplates),
		Buffers: slices.CompactFunc(all, func(a, b *kept.Buffer) bool { return a.UID == b.UID }),
	}
}

// Picture is the cluster as it was at one look.
type Picture struct {
	State loop.ClusterState
	// Capacity is what each node has in all, and ProviderIDs who provides it, by node.
	Capacity    map[string]pricing.Resources
	ProviderIDs map[string]string
	Autoscalers []*v1alpha1.WorkloadAutoscaler
	Pools       []*v1alpha1.VMPool
	PriceBooks  []*v1alpha1.PriceBook
	// Targets are what the autoscalers scale. Whose else they are is not looked for.
	Targets []Target
	// Unread are the kinds that could not be read, each with the reason. Without them less is known
	// of which pods may move, and of whose they are.
	Unread []error
}

// Look reads the cluster once, without watches, for commands that only report. Nodes and pods must
// be readable. Other kinds that are not readable are skipped and listed in the result.
func Look(ctx context.Context, cfg Config) (*Picture, error) {
	cfg.Mode = ReadOnly
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	p := &Picture{Capacity: map[string]pricing.Resources{}, ProviderIDs: map[string]string{}}
	// What is not read only forbids or allows writes, and Look writes nothing.
	if p.Unread, err = c.copies.ReadOnce(ctx, cfg.REST, p.note, copies.Proposals, copies.HPAs, copies.ScaledObjects, copies.Verticals, copies.Attachments, copies.LimitRanges); err != nil {
		return nil, err
	}
	p.State = c.look(ctx)
	p.Targets = c.observed.Load().Targets
	p.Autoscalers = copies.Sorted[*v1alpha1.WorkloadAutoscaler](c.copies, copies.Autoscalers)
	p.Pools, p.PriceBooks = copies.Sorted[*v1alpha1.VMPool](c.copies, copies.VMPools), copies.Sorted[*v1alpha1.PriceBook](c.copies, copies.PriceBooks)
	return p, nil
}

// note keeps what of a node is not in the loop's words.
func (p *Picture) note(o runtime.Object) {
	if n, ok := o.(*corev1.Node); ok {
		p.Capacity[n.Name], p.ProviderIDs[n.Name] = kept.Resources(n.Status.Capacity), n.Spec.ProviderID
	}
}
