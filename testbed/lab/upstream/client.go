package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
)

// Cluster is the Kubernetes side: what runs, and the two things that are done to it.
type Cluster interface {
	Observe(ctx context.Context) (Sight, error)
	// Mark taints a node as one that is about to be deleted and closes it, or takes both back.
	Mark(ctx context.Context, node string, marked bool) error
	// Evict asks for a pod to be moved. ErrBudget is wrapped when a disruption budget does not
	// allow it now.
	Evict(ctx context.Context, pod string) error
}

// ErrBudget is what Evict answers when a disruption budget does not allow it now.
var ErrBudget = loop.ErrBudget

// Sight is the cluster at one moment. Nodes that are marked are Draining and Cordoned; whose they
// are is not filled in.
type Sight struct {
	State       loop.ClusterState
	ProviderIDs map[string]string // by node
	// Buffers are the replicas that CapacityBuffers keep room for.
	Buffers []nodescaler.Future
}

// Expander chooses among groups that could take the pods that wait.
type Expander string

// The expanders, as cluster-autoscaler calls them.
const (
	LeastWaste Expander = "least-waste"
	Price      Expander = "price"
)

// Config is what a client is made from.
type Config struct {
	Provider externalgrpc.CloudProviderClient
	Cluster  Cluster
	// Unneeded are cluster-autoscaler's flags.
	Unneeded nodepolicy.Unneeded
	Expander Expander // empty is least-waste, as it is with cluster-autoscaler
	Now      func() time.Time
	// Log takes a line about all that is done, and about what cannot be; nil drops it.
	Log func(format string, args ...any)
}

// Client is a cluster-autoscaler at work. It is for one goroutine.
type Client struct {
	cfg    Config
	policy nodescaler.Policy
	memory
	scans, evictions atomic.Int64
}

// memory is what one scan leaves to the next.
type memory struct {
	groupOf   map[string]string       // of nodes that are in one, by name; until the next refresh
	templates map[string]*corev1.Node // by group
	showed    map[string]time.Time    // when a node of a group last showed what its nodes look like
	listed    map[string][]*externalgrpc.Instance
	renewed   time.Time            // when all lists were
	open      map[string]bool      // groups with an increase that has not come about
	unseen    map[string]time.Time // since when instances are listed that are no nodes, by id
	short     map[string]time.Time // since when groups list fewer instances than their target
	leaving   map[string]time.Time // when the deletion of nodes was asked for, by id
	backoffs  map[string]*backoff
	asked     struct{ gpuLabel, gpuTypes bool }
}

// callTime is how long a call may take, which is the grpc_timeout of our manifests.
const callTime = 5 * time.Second

// New makes a client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.Expander == "" {
		cfg.Expander = LeastWaste
	}
	if cfg.Expander != LeastWaste && cfg.Expander != Price {
		return nil, fmt.Errorf("expander: must be %s or %s, was %q", LeastWaste, Price, cfg.Expander)
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	c := &Client{cfg: cfg, memory: memory{
		groupOf: map[string]string{}, templates: map[string]*corev1.Node{}, showed: map[string]time.Time{}, listed: map[string][]*externalgrpc.Instance{},
		open: map[string]bool{}, unseen: map[string]time.Time{}, short: map[string]time.Time{}, leaving: map[string]time.Time{}, backoffs: map[string]*backoff{},
	}}
	var err error
	c.policy, err = c.decider()
	return c, err
}

// decider is a policy that decides whenever it is asked: when that is, the client says.
func (c *Client) decider() (nodescaler.Policy, error) {
	settings := c.cfg.Unneeded
	settings.ScanInterval, settings.FrequentLoopsEnabled = 1, false
	return nodepolicy.New(nodepolicy.Spec{Policy: "unneeded", Unneeded: &settings})
}

// Begin is what is asked before the first scan: which groups there are, and what is in them.
func (c *Client) Begin(ctx context.Context) error {
	groups, err := c.groups(ctx)
	if err != nil {
		return err
	}
	return c.listAll(ctx, groups)
}

// End says that no one will ask any more.
func (c *Client) End(ctx context.Context) error {
	_, err := call(ctx, c.cfg.Provider.Cleanup, &externalgrpc.CleanupRequest{})
	return err
}

// Once makes one scan, and says whether it ordered machines: then cluster-autoscaler may scan again
// at once. A scan that cannot see the provider or the cluster ends where it is, and changes
// nothing.
func (c *Client) Once(ctx context.Context) (ordered bool, err error) {
	s := &scan{Client: c, now: c.cfg.Now()}
	if s.sight, err = c.cfg.Cluster.Observe(ctx); err != nil {
		return false, fmt.Errorf("cluster: %w", err)
	}
	if err := s.look(ctx); err != nil {
		return false, err
	}
	if shrunk, err := s.tidy(ctx); shrunk || err != nil {
		return false, err
	}
	chosen, err := s.choose(ctx)
	if err != nil {
		return false, err
	}
	plan := c.policy.Decide(nodescaler.NewIndex(s.snapshot(chosen)))
	for _, r := range plan.Reasons {
		c.cfg.Log("%s: %s", r.Code, r.Text)
	}
	ordered, err = s.increase(ctx, &plan, chosen)
	return ordered, errors.Join(err, s.shrink(ctx, &plan))
}

// call makes a call with the time that calls have.
func call[Q, A any](ctx context.Context, to func(context.Context, *Q, ...grpc.CallOption) (*A, error), q *Q) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	a, err := to(ctx, q)
	if err != nil {
		name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", q), "*externalgrpc."), "Request")
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// scan is one look at everything, and what is done about it.
type scan struct {
	*Client
	now   time.Time
	sight Sight
	all   []*group
}

// group is a node group as the provider lists it.
type group struct {
	id       string
	min, max int
	template *corev1.Node
	target   int
	nodes    []*nodescaler.Node       // that have joined
	coming   []*externalgrpc.Instance // that are no nodes yet
	failed   []*externalgrpc.Instance // that never will be, by what the provider says
}

func (s *scan) group(id string) *group {
	i := slices.IndexFunc(s.all, func(g *group) bool { return g.id == id })
	if i < 0 {
		return nil
	}
	return s.all[i]
}
