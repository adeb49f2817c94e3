package copies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// Patience is the timeout of a call. An API server that accepts calls and answers none would
// otherwise block the caller.
const Patience = 15 * time.Second

// Options are how copies are held.
type Options struct {
	// StaleAfter is how long the API server may be unreachable before copies are stale; 0 is 30 s.
	StaleAfter time.Duration
	// Buffers has CapacityBuffers watched, too, and the forms of pods that they name.
	Buffers bool
	Log     *slog.Logger
	// Handler is what changes of a kind are reported to.
	Handler func(Kind) toolscache.ResourceEventHandler
}

// Copies are the copies of each kind, and the clients beside them, which share their connections.
type Copies struct {
	Client  kubernetes.Interface
	Objects dynamic.Interface
	Served  *Served

	how     Options
	cache   cache.Cache
	watches *watches
	held    [NumberOfKinds]held
}

// New makes the clients. It makes no request, and holds no copies yet.
func New(to *rest.Config, how Options) (*Copies, error) {
	if to == nil {
		return nil, errors.New("no connection is configured")
	}
	c := &Copies{how: how, watches: newWatches(how.StaleAfter)}
	cfg := rest.CopyConfig(to)
	server, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	c.watches.under = strings.TrimSuffix(server.Path, "/")
	cfg.Timeout = 0 // a watch lasts; calls have deadlines of their own
	if cfg.QPS == 0 {
		// The API server's priority and fairness limits us. A limit of our own would keep an
		// eviction waiting behind hundreds of statuses.
		cfg.QPS = -1
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.watches.next = next
		return c.watches
	})
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	if c.Client, err = kubernetes.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	if c.Objects, err = dynamic.NewForConfigAndClient(cfg, client); err != nil {
		return nil, err
	}
	c.Served = NewServed(c.Client)
	c.cache, err = c.newCache(cfg, client)
	return c, err
}

// newCache makes the cache. The resource names of kinds are known here, so that the cache can be
// made and used while the API server does not answer.
func (c *Copies) newCache(cfg *rest.Config, by *http.Client) (cache.Cache, error) {
	known, err := newScheme()
	if err != nil {
		return nil, err
	}
	how := map[client.Object]cache.ByObject{}
	for i := range Kinds {
		k := &Kinds[i]
		how[k.ask()] = cache.ByObject{Transform: c.keepOf(Kind(i)), Field: k.fields}
	}
	return cache.New(cfg, cache.Options{
		HTTPClient: by, Scheme: known, Mapper: names(), ByObject: how,
		DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector, err error) {
			c.how.Log.Warn("watch interrupted", "resource", r.TypeDescription(), "err", err)
		},
	})
}

// keepOf is the transform of the copies of a kind.
func (c *Copies) keepOf(i Kind) toolscache.TransformFunc {
	switch {
	case c.how.Buffers && (i == Deployments || i == StatefulSets):
		return kept.KeepForm
	case Kinds[i].keep != nil:
		return Kinds[i].keep
	}
	return kept.Keep
}

// Run keeps the copies up to date, until the context is done.
func (c *Copies) Run(ctx context.Context) error {
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
	for i := range NumberOfKinds {
		if Kinds[i].ForBuffers && !c.how.Buffers {
			c.held[i].absent.Store(true)
		} else if Kinds[i].added {
			part(func() error { return c.startAdded(ctx, i) })
		} else if err := c.start(ctx, i); err != nil {
			cancel(err)
		}
	}
	part(func() error { return c.cache.Start(ctx) })
	part(func() error { c.watches.ask(ctx, c.Client.Discovery().RESTClient()); return nil })
	parts.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Fresh returns nil, or an error that wraps errStale and names what may be stale.
func (c *Copies) Fresh() error {
	for i := range c.held {
		if _, ok := c.held[i].synced(); ok {
			continue
		}
		switch missing := c.Missing(Kind(i)); {
		case missing == "":
			return fmt.Errorf("%w: %s have not been read yet", ErrStale, Kinds[i].Resource)
		case !Kinds[i].rival:
			return fmt.Errorf("%w: %s have not been read: %s", ErrStale, Kinds[i].Resource, missing)
		}
	}
	return c.watches.fresh()
}

// Missing says which right is missing to read a kind of which there are no copies, or nothing.
func (c *Copies) Missing(i Kind) string {
	k := &Kinds[i]
	if _, ok := c.held[i].synced(); ok || !c.watches.denied(k.path()) {
		return ""
	}
	return "the right to list and watch " + schema.GroupResource{Group: k.Group, Resource: k.Resource}.String() + " is missing"
}

// Hold adds to the copies of a kind what was read, where it is not watched.
func (c *Copies) Hold(i Kind, all ...any) error {
	informer := c.held[i].informer.Load()
	if informer == nil {
		made := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, Kinds[i].ask(), 0, nil)
		informer = &made
		c.held[i].informer.Store(informer)
	}
	for _, o := range all {
		short, err := c.keepOf(i)(o)
		if err != nil {
			return err
		}
		if err := (*informer).GetStore().Add(short); err != nil {
			return err
		}
	}
	return nil
}

// held are the copies of one kind. They are there once start has run.
type held struct {
	informer atomic.Pointer[toolscache.SharedIndexInformer]
	absent   atomic.Bool // the cluster has no such kind, as far as was seen
}

// synced returns the version of the copies, and whether there are any.
func (h *held) synced() (string, bool) {
	informer := h.informer.Load()
	if informer == nil {
		return "", h.absent.Load()
	}
	return (*informer).LastSyncResourceVersion(), (*informer).HasSynced() || h.absent.Load()
}

// start makes the cache hold copies of a kind.
func (c *Copies) start(ctx context.Context, i Kind) error {
	k := &Kinds[i]
	c.watches.heed(k.path())
	got, err := c.cache.GetInformer(ctx, k.ask(), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("%s: %w", k.Resource, err)
	}
	informer, ok := got.(toolscache.SharedIndexInformer)
	if !ok {
		return fmt.Errorf("%s: copies are held by a %T", k.Resource, got)
	}
	if _, err := informer.AddEventHandler(c.how.Handler(i)); err != nil {
		return fmt.Errorf("%s: %w", k.Resource, err)
	}
	c.held[i].informer.Store(&informer)
	if !k.Foreign {
		c.watches.follow(k.path(), c.held[i].synced)
	}
	return nil
}

// startAdded starts a kind that not every cluster has, once this one has it. A foreign one may go
// again before it is read.
func (c *Copies) startAdded(ctx context.Context, i Kind) error {
	k := &Kinds[i]
	every := time.Second // until it is known whether it is there, then less often
	for started := false; ; {
		asking, cancel := context.WithTimeout(ctx, Patience)
		list, err := c.Served.List(asking, k.gvk().GroupVersion().String())
		cancel()
		there := err == nil && !c.superseded(ctx, i) && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Resource })
		if err == nil {
			c.held[i].absent.Store(!there)
			every = kindsAge / 2
		}
		if there && !started {
			started = true
			if err := c.start(ctx, i); err != nil || !k.Foreign {
				return err
			}
		}
		if _, ok := c.held[i].synced(); there && ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// superseded reports whether a newer version of CapacityBuffers is watched instead.
func (c *Copies) superseded(ctx context.Context, i Kind) bool {
	if i != OldBuffers {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	newest, served, err := c.Served.Buffers(asking)
	return err != nil || served && newest.Version == Kinds[Buffers].version
}

// Sorted returns the copies of a kind, sorted by namespace and name. They are only to be read.
func Sorted[T metav1.Object](c *Copies, i Kind) []T {
	all := All[T](c, i)
	slices.SortFunc(all, func(a, b T) int {
		if a.GetNamespace() != b.GetNamespace() {
			return strings.Compare(a.GetNamespace(), b.GetNamespace())
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return all
}

// All returns the copies of a kind in no order, for callers that sort them otherwise or look
// them up.
func All[T metav1.Object](c *Copies, i Kind) []T {
	informer := c.held[i].informer.Load()
	if informer == nil {
		return nil
	}
	list := (*informer).GetStore().List()
	all := make([]T, 0, len(list))
	for _, o := range list {
		if t, ok := o.(T); ok {
			all = append(all, t)
		}
	}
	return all
}

// One returns one copy, by name or namespace/name.
func One[T metav1.Object](c *Copies, i Kind, key string) (T, bool) {
	var none T
	informer := c.held[i].informer.Load()
	if informer == nil {
		return none, false
	}
	o, ok, err := (*informer).GetStore().GetByKey(key)
	if err != nil || !ok {
		return none, false
	}
	t, ok := o.(T)
	return t, ok
}

// Unready is what came of asking the API server last whether it is ready, if it did not say so.
func (c *Copies) Unready() error {
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	return c.watches.unready
}
