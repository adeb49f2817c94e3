package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/sight"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/targets"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Config is what a Cluster is made from.
type Config struct {
	REST *rest.Config
	// Mode is what may be written; empty is ReadOnly.
	Mode Mode
	// Namespace is where the lease is kept, and Lease its name. Only Lead needs them.
	Namespace, Lease string
	// HandOff is how expected replicas are published; only Expect needs it.
	HandOff HandOff
	// Buffers has the room that CapacityBuffers ask for observed, and their statuses written.
	Buffers bool
	// Usage measures pods' CPU; nil leaves it unknown.
	Usage Usage
	// Machine names the machine and the pool behind a node; "" for nodes that are not ours. Nil
	// goes by the label plimsoll.dev/pool: the machine has the node's name. The node is only to be
	// read, and holds its name, uid, labels, provider id and system UUID.
	Machine func(*corev1.Node) (machine, pool string)
	// StaleAfter is how long the API server may be unreachable before reads return ErrStale; 0 is
	// 30 s.
	StaleAfter time.Duration
	// Log receives what no status, event or error can carry; nil drops it.
	Log *slog.Logger
}

// Cluster is the cluster port over watched copies of objects. Its reading methods make no request,
// except for the scales of kinds that are not watched and, at first, for pods' CPU. Its writing
// methods make one or two.
type Cluster struct {
	cfg     Config
	log     *slog.Logger
	copies  *copies.Copies
	client  kubernetes.Interface
	objects dynamic.Interface
	targets *targets.Resolver

	wake     *signal
	changed  *signal
	expected *expectations
	lead     lease
	reports  reports
	events   events
	unmarked denials // where pods may not be marked

	// observed is what the last Observe saw, and what writing goes by.
	observed atomic.Pointer[sight.Sight]
	meter    *meter
}

var (
	_ loop.Cluster    = (*Cluster)(nil)
	_ loop.PodDeleter = (*Cluster)(nil)
	_ loop.Parallel   = (*Cluster)(nil)
)

// wakeEvery is how often Wake is signalled at most.
const wakeEvery = 200 * time.Millisecond

// New makes a cluster. It makes no request.
func New(cfg Config) (*Cluster, error) {
	switch cfg.Mode {
	case "", ReadOnly, Recommend, Active:
	default:
		return nil, fmt.Errorf("cluster: mode: must be %s, %s or %s, was %q", ReadOnly, Recommend, Active, cfg.Mode)
	}
	if cfg.StaleAfter < 0 {
		return nil, fmt.Errorf("cluster: stale after: must not be negative, was %s", cfg.StaleAfter)
	}
	if err := cfg.HandOff.check(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if cfg.Machine == nil {
		cfg.Machine = byLabel
	}
	c := &Cluster{
		cfg: cfg, log: cfg.Log, wake: newSignal(wakeEvery), changed: newSignal(wakeEvery),
		expected: newExpectations(), reports: newReports(), events: newEvents(),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.meter = newMeter(cfg.Usage, c.log)
	c.lead = lease{to: cfg.REST, namespace: cfg.Namespace, name: cfg.Lease, log: c.log}
	held, err := copies.New(cfg.REST, copies.Options{StaleAfter: cfg.StaleAfter, Buffers: cfg.Buffers, Log: c.log, Handler: c.handler})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c.copies, c.client, c.objects = held, held.Client, held.Objects
	c.targets = targets.New(held, c.Leading)
	return c, nil
}

// Run keeps the copies up to date and sends events, until the context is done.
func (c *Cluster) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	parts.Go(func() { c.sendEvents(ctx) })
	parts.Go(func() { c.meter.run(ctx) })
	err := c.copies.Run(ctx)
	cancel()
	parts.Wait()
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// Synced waits until the cluster can be observed. If the context ends first, it returns why it
// cannot be observed yet.
func (c *Cluster) Synced(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.Fresh()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Fresh returns nil, or an error that wraps ErrStale and names what may be stale.
func (c *Cluster) Fresh() error { return c.copies.Fresh() }

// Unready is what came of asking the API server last whether it is ready, if it did not say so.
func (c *Cluster) Unready() error { return c.copies.Unready() }

// handler reports changes that cannot wait for the next step.
func (c *Cluster) handler(i copies.Kind) toolscache.ResourceEventHandler {
	edited := func(before, after any) {
		if isEdited(before, after) {
			c.changed.ring()
		}
	}
	switch i {
	case copies.Pods:
		return toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(o any, first bool) { c.wake.podCame(nil, o, first) },
			UpdateFunc: func(before, after any) { c.wake.podCame(before, after, false) },
		}
	case copies.Deployments, copies.StatefulSets:
		return toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) { c.targets.ScaleChanged(before, after) }}
	case copies.Autoscalers, copies.VMPools, copies.PriceBooks:
		return toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.changed.ring() }, UpdateFunc: edited, DeleteFunc: func(any) { c.changed.ring() },
		}
	case copies.Proposals: // an answer is a change of the spec; others come of a step
		return toolscache.ResourceEventHandlerFuncs{UpdateFunc: edited}
	default:
		return toolscache.ResourceEventHandlerFuncs{}
	}
}

// isEdited reports edits of specs. The status is written by us, and needs no action.
func isEdited(before, after any) bool {
	was, ok := before.(metav1.Object)
	is, too := after.(metav1.Object)
	return ok && too && (was.GetGeneration() != is.GetGeneration() || !maps.Equal(was.GetAnnotations(), is.GetAnnotations()) ||
		!maps.Equal(was.GetLabels(), is.GetLabels()) || (was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil))
}

// Wake is signalled when a pod turns unschedulable: at once, and then at most every 200 ms.
func (c *Cluster) Wake() <-chan struct{} { return c.wake.c }

// Changed is signalled when one of our own objects comes, goes or is edited; changes of status do
// not count.
func (c *Cluster) Changed() <-chan struct{} { return c.changed.c }

// Autoscalers returns all WorkloadAutoscalers, sorted by namespace and name. They are only to be
// read.
func (c *Cluster) Autoscalers() ([]*v1alpha1.WorkloadAutoscaler, error) {
	return read[*v1alpha1.WorkloadAutoscaler](c, copies.Autoscalers)
}

// Pools returns all VMPools, sorted by name. They are only to be read.
func (c *Cluster) Pools() ([]*v1alpha1.VMPool, error) {
	return read[*v1alpha1.VMPool](c, copies.VMPools)
}

// PriceBooks returns all PriceBooks, sorted by name. They are only to be read.
func (c *Cluster) PriceBooks() ([]*v1alpha1.PriceBook, error) {
	return read[*v1alpha1.PriceBook](c, copies.PriceBooks)
}

// read returns the copies of a kind, if they are known to be up to date.
func read[T metav1.Object](c *Cluster, i copies.Kind) ([]T, error) {
	if err := c.Fresh(); err != nil {
		return nil, err
	}
	return copies.Sorted[T](c.copies, i), nil
}

const labelPool = "plimsoll.dev/pool"

// byLabel names the machine behind a node by the label that every machine of ours joins with.
// Machine, virtual machine and node have one name.
func byLabel(n *corev1.Node) (machine, pool string) {
	if pool = n.Labels[labelPool]; pool == "" {
		return "", ""
	}
	return n.Name, pool
}

// Leading reports whether this process certainly leads now, so that it may write.
func (c *Cluster) Leading() bool { return time.Now().Before(c.lead.until()) }

// Lead waits until this process leads, runs work, and gives the lead back once work returned. The
// context of work ends when the lead is lost or ctx is done. It returns nil when work returned by
// itself or ctx is done, and an error that wraps ErrNotLeader when the lead was lost; it can then
// be called again. Identities must differ between processes.
func (c *Cluster) Lead(ctx context.Context, identity string, work func(context.Context)) error {
	if !c.cfg.Mode.allows(Recommend) {
		return fmt.Errorf("lead: %w: needs %s, is %s", ErrForbidden, Recommend, c.cfg.Mode)
	}
	return c.lead.run(ctx, identity, work)
}
