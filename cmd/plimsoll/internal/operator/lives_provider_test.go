package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
)

// In some lives cluster-autoscaler scales the pool, through the external provider of the process
// that leads.

// viaProvider reports whether a life has a cluster-autoscaler.
func viaProvider(seed uint64) bool { return rand.New(rand.NewPCG(seed, 7)).IntN(8) == 0 }

// autoscaler is cluster-autoscaler in a life.
type autoscaler struct {
	*life
	client *upstream.Client
	begun  bool
	rng    *rand.Rand
	lost   float64 // the share of its calls that are not answered
}

func (l *life) newAutoscaler() error {
	l.autoscaler = &autoscaler{life: l, rng: rand.New(rand.NewPCG(l.seed, 9))}
	return l.autoscaler.restart()
}

// restart has cluster-autoscaler begin anew, with what it knew forgotten.
func (a *autoscaler) restart() (err error) {
	flags := nodepolicy.DefaultUnneeded()
	flags.ScaleDownUnneededTime, flags.ScaleDownDelayAfterAdd = nodescaler.Duration(3*time.Minute), nodescaler.Duration(2*time.Minute)
	a.begun = false
	a.client, err = upstream.New(upstream.Config{
		Provider: externalgrpc.NewCloudProviderClient(a), Cluster: a, Unneeded: flags, Now: a.sim.Now,
		Expander: []upstream.Expander{upstream.LeastWaste, upstream.Price}[a.seed%2],
		Log:      func(format string, args ...any) { a.note("AUTOSCALER "+format, args...) },
	})
	return err
}

// scan has it look and act once, if there is a process that answers.
func (a *autoscaler) scan() (err error) {
	if !a.works() {
		return nil
	}
	if !a.begun {
		err = a.client.Begin(a.ctx)
		a.begun = err == nil
	}
	if err == nil {
		_, err = a.client.Once(a.ctx)
	}
	if err != nil {
		a.note("AUTOSCALER fails: %v", err)
	}
	return err
}

// Invoke calls the provider of the process that leads.
func (a *autoscaler) Invoke(ctx context.Context, method string, in, out any, how ...grpc.CallOption) error {
	err := upstream.InProcess{Server: a.leads.server}.Invoke(ctx, method, in, out, how...)
	if err == nil && a.rng.Float64() < a.lost {
		err = errors.New("the answer was lost")
	}
	what := path.Base(method)
	if err != nil {
		what += ", failed"
	}
	a.meet(what, a.sim.Now())
	return err
}

// NewStream is not called: the contract has no streams.
func (a *autoscaler) NewStream(ctx context.Context, s *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return upstream.InProcess{}.NewStream(ctx, s, method)
}

// calm has it get all answers. People delete the nodes of machines that they have removed, for
// cluster-autoscaler does nothing while too many nodes are not ready.
func (a *autoscaler) calm() {
	a.lost = 0
	a.nodes = slices.DeleteFunc(a.nodes, func(n *townNode) bool {
		_, there := a.running[n.SystemUUID]
		if !there {
			a.note("A PERSON DELETES NODE %s", n.Name)
		}
		return !there
	})
}

// Observe is the cluster as cluster-autoscaler sees it.
func (a *autoscaler) Observe(context.Context) (upstream.Sight, error) {
	s := upstream.Sight{State: a.picture(), ProviderIDs: map[string]string{}}
	for i := range s.State.Nodes {
		n := &s.State.Nodes[i]
		n.Machine, n.Pool, n.Taints = "", "", nil
		n.Draining = a.node(n.Name).marked
		s.ProviderIDs[n.Name] = n.ProviderID
	}
	return s, nil
}

// Mark taints a node as one that is about to be deleted.
func (a *autoscaler) Mark(_ context.Context, node string, marked bool) error {
	n := a.node(node)
	if n == nil {
		return errors.New("no such node")
	}
	n.marked, n.Cordoned = marked, marked
	a.note("AUTOSCALER marks %s: %t", node, marked)
	return nil
}

// Evict asks for a pod to be moved.
func (a *autoscaler) Evict(_ context.Context, pod string) error {
	_, err := a.evict(pod)
	return err
}

// offer has a process answer cluster-autoscaler by its own fleet from now on.
func (p *process) offer(cfg *Config) (err error) {
	if p.server == nil {
		p.server, err = provider.New(provider.Config{Machines: p, Limit: cfg.Limit, Now: p.now})
	}
	cfg.Offer = func(pools []nodescaler.Pool, prices *pricing.Book) error {
		var all []provider.Pool
		for _, pool := range pools {
			all = append(all, provider.Pool{Pool: pool})
		}
		return p.server.Configure(all, prices)
	}
	return err
}

// The machines of a process as its provider has them.

var errFollows = errors.New("this process does not lead")

func (p *process) List(ctx context.Context) (loop.MachineState, error) {
	if p.leads != p {
		return loop.MachineState{}, errFollows
	}
	return p.fleet.ForAutoscaler().List(ctx)
}

func (p *process) Create(ctx context.Context, o loop.Order) error {
	if p.leads != p {
		return fmt.Errorf("%w: %w", loop.ErrRefused, errFollows)
	}
	if len(o.Action.Reasons) == 0 {
		p.fault("order %s has no reason", o.ID)
	}
	p.bought = p.sim.Now()
	return p.fleet.ForAutoscaler().Create(ctx, o)
}

func (p *process) Delete(ctx context.Context, machine string) error {
	if p.leads != p {
		return errFollows
	}
	p.returned = p.sim.Now()
	return p.fleet.ForAutoscaler().Delete(ctx, machine)
}

// providerHappenings are what lives with a cluster-autoscaler may meet besides, by kind.
var providerHappenings = map[string]func(*life, *rand.Rand){
	"cluster-autoscaler restarts": func(l *life, _ *rand.Rand) {
		if err := l.autoscaler.restart(); err != nil {
			l.fault("cluster-autoscaler does not start: %v", err)
		}
	},
	"provider's answers lost": func(l *life, r *rand.Rand) {
		if l.autoscaler.lost = 0; r.IntN(2) == 0 {
			l.autoscaler.lost = r.Float64() / 2
		}
	},
}
