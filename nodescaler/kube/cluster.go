package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Errors that callers branch on. What is returned wraps them and says more.
var (
	// ErrStale is returned by a read while the copies are incomplete or may be stale.
	ErrStale = errors.New("the picture of the cluster may be old")
	// ErrForbidden is returned by a write that the mode does not allow. No request was made.
	ErrForbidden = errors.New("not allowed in this mode")
	// ErrNotLeader is returned by a write while leadership is not certain. No request was made.
	ErrNotLeader = errors.New("not the leader")
	// ErrConflicted is returned by SetReplicas for a workload with a finding, or whose autoscaler
	// is no longer Active. No request was made.
	ErrConflicted = errors.New("not ours to scale")
	// ErrChanged is returned by a write when another client changed the object after it was
	// observed.
	ErrChanged = errors.New("changed by another client")
)

// Mode is what a Cluster may write.
type Mode string

// The modes. Each allows what the earlier ones allow, too.
const (
	ReadOnly  Mode = "ReadOnly"  // nothing at all
	Recommend Mode = "Recommend" // the lease, statuses of our own kinds, and events
	// Active allows to write replicas and those that are expected, deletion costs and requests of
	// pods, draining marks, evictions, nodes whose machine is gone, and ScalingProposals.
	Active Mode = "Active"
)

// allows reports whether the mode allows what needs another.
func (m Mode) allows(need Mode) bool {
	rank := map[Mode]int{"": 0, ReadOnly: 0, Recommend: 1, Active: 2}
	return rank[m] >= rank[need]
}

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
	http    *http.Client
	client  kubernetes.Interface
	objects dynamic.Interface
	cache   cache.Cache
	watches *watches
	scales  *scales

	held     [numberOfCopies]held
	wake     *signal
	changed  *signal
	meddling *meddling
	expected *expectations
	lead     leadership
	reports  reports
	events   events
	unmarked denials // where pods may not be marked

	// observed is what the last Observe saw, and what writing goes by.
	observed atomic.Pointer[sight]
	meter    *meter
}

var (
	_ loop.Cluster    = (*Cluster)(nil)
	_ loop.PodDeleter = (*Cluster)(nil)
)

// patience is the timeout of a call. An API server that accepts calls and answers none would
// otherwise block the caller.
const patience = 15 * time.Second

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
		cfg: cfg, log: cfg.Log, watches: newWatches(cfg.StaleAfter), wake: newSignal(wakeEvery), changed: newSignal(wakeEvery),
		meddling: newMeddling(), expected: newExpectations(), reports: newReports(), events: newEvents(),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.meter = newMeter(cfg.Usage, c.log)
	if err := c.connect(cfg.REST); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return c, nil
}

// connect makes the clients, which share their connections.
func (c *Cluster) connect(to *rest.Config) error {
	if to == nil {
		return errors.New("no connection is configured")
	}
	cfg := rest.CopyConfig(to)
	cfg.Timeout = 0 // a watch lasts; calls have deadlines of their own
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = 50, 100
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.watches.next = next
		return c.watches
	})
	var err error
	if c.http, err = rest.HTTPClientFor(cfg); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfigAndClient(cfg, c.http); err != nil {
		return err
	}
	if c.objects, err = dynamic.NewForConfigAndClient(cfg, c.http); err != nil {
		return err
	}
	c.scales = &scales{
		kinds: discovery.ToServerResourcesInterfaceWithContext(c.client.Discovery()), objects: c.objects,
		groups: map[string]known[*metav1.APIResourceList]{}, read: map[reference]known[*autoscalingv1.Scale]{},
	}
	c.cache, err = c.newCache(cfg)
	return err
}

// Run keeps the copies up to date and sends events, until the context is done.
func (c *Cluster) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	part := func(do func() error) {
		parts.Go(func() {
			if err := do(); err != nil {
				cancel(err)
			}
		})
	}
	for i := range numberOfCopies {
		if watchedKinds[i].forBuffers && !c.cfg.Buffers {
			c.held[i].absent.Store(true)
		} else if watchedKinds[i].added {
			part(func() error { return c.startAdded(ctx, i) })
		} else if err := c.start(ctx, i); err != nil {
			cancel(err)
		}
	}
	part(func() error { return c.cache.Start(ctx) })
	part(func() error { c.watches.ask(ctx, c.client.Discovery().RESTClient()); return nil })
	part(func() error { c.sendEvents(ctx); return nil })
	part(func() error { c.meter.run(ctx); return nil })
	parts.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
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
func (c *Cluster) Fresh() error {
	for i := range c.held {
		if _, ok := c.held[i].synced(); !ok {
			return fmt.Errorf("%w: %s have not been read yet", ErrStale, watchedKinds[i].resource)
		}
	}
	return c.watches.fresh()
}

// Wake is signalled when a pod turns unschedulable: at once, and then at most every 200 ms.
func (c *Cluster) Wake() <-chan struct{} { return c.wake.c }

// Changed is signalled when one of our own objects comes, goes or is edited; changes of status do
// not count.
func (c *Cluster) Changed() <-chan struct{} { return c.changed.c }

// Autoscalers returns all WorkloadAutoscalers, sorted by namespace and name. They are only to be
// read.
func (c *Cluster) Autoscalers() ([]*v1alpha1.WorkloadAutoscaler, error) {
	return read[*v1alpha1.WorkloadAutoscaler](c, autoscalers)
}

// Pools returns all VMPools, sorted by name. They are only to be read.
func (c *Cluster) Pools() ([]*v1alpha1.VMPool, error) { return read[*v1alpha1.VMPool](c, vmPools) }

// PriceBooks returns all PriceBooks, sorted by name. They are only to be read.
func (c *Cluster) PriceBooks() ([]*v1alpha1.PriceBook, error) {
	return read[*v1alpha1.PriceBook](c, priceBooks)
}

// read returns the copies of a kind, if they are known to be up to date.
func read[T metav1.Object](c *Cluster, i copies) ([]T, error) {
	if err := c.Fresh(); err != nil {
		return nil, err
	}
	return kept[T](c, i), nil
}
