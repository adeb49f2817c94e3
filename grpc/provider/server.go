package provider

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// Config is what a server is made of. Pools and Prices are those to begin with: Configure replaces
// them.
type Config struct {
	Pools    []Pool
	Machines loop.Machines
	Prices   *pricing.Book // nil is the default book
	// Limit is what all machines together may cost an hour, whoever ordered them; 0 is no limit.
	Limit pricing.Rate
	// GPULabel is the label of nodes with a GPU; empty is one that no node has.
	GPULabel string
	// Fresh is how old the memory of the machines may grow before it is read anew; 0 is half a
	// second. What we change ourselves is seen at once.
	Fresh time.Duration
	Now   func() time.Time // nil is time.Now
}

// Server serves cluster-autoscaler's external provider and expander.
type Server struct {
	externalgrpc.UnimplementedCloudProviderServer
	externalgrpc.UnimplementedExpanderServer
	cfg    Config
	pricer pricer
	memory memory
	size   sizing
	// count counts calls into counted; it is made when the server first serves.
	counting sync.Mutex
	count    grpc.UnaryServerInterceptor
	counted  prometheus.Registerer
}

// New makes a server. It makes no call.
func New(cfg Config) (*Server, error) {
	groups, err := newGroups(cfg.Pools)
	if err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Fresh == 0 {
		cfg.Fresh = 500 * time.Millisecond
	}
	if cfg.GPULabel == "" {
		cfg.GPULabel = "plimsoll.dev/gpu"
	}
	s := &Server{
		cfg:    cfg,
		memory: memory{machines: cfg.Machines, pools: groups, groups: groups, now: cfg.Now, fresh: cfg.Fresh},
	}
	s.memory.rooms = s.rooms
	s.pricer.price(cfg.Prices)
	return s, nil
}

// Configure gives the server other pools and prices; nil is the default book. Prices count at once,
// and groups come and go with the next Refresh.
func (s *Server) Configure(pools []Pool, prices *pricing.Book) error {
	groups, err := newGroups(pools)
	if err != nil {
		return err
	}
	s.pricer.price(prices)
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.pools = groups
	return nil
}

// pricer is what machines and pods cost, by the book that was configured last.
type pricer struct{ book atomic.Pointer[pricing.Book] }

func (pr *pricer) price(book *pricing.Book) {
	if book == nil {
		book = pricing.DefaultBook()
	}
	pr.book.Store(book)
}

func (pr *pricer) prices() *pricing.Book { return pr.book.Load() }

// Healthy is why the machines cannot be read now, or nil. Answers are then given as of the last
// time that they could.
func (s *Server) Healthy(ctx context.Context) error { return s.memory.healthy(ctx) }

// NodeGroups lists the groups.
func (s *Server) NodeGroups(ctx context.Context, _ *externalgrpc.NodeGroupsRequest) (*externalgrpc.NodeGroupsResponse, error) {
	v := s.memory.listing(ctx)
	answer := &externalgrpc.NodeGroupsResponse{}
	for _, g := range v.groups {
		answer.NodeGroups = append(answer.NodeGroups, v.message(g))
	}
	return answer, nil
}

func (v *view) message(g *group) *externalgrpc.NodeGroup {
	least, most := v.offered(g)
	return &externalgrpc.NodeGroup{Id: g.id, MinSize: int32(least), MaxSize: int32(most), Debug: g.String()}
}

// NodeGroupForNode finds the group of a node; nodes that are not ours have one with an empty id.
func (s *Server) NodeGroupForNode(ctx context.Context, r *externalgrpc.NodeGroupForNodeRequest) (*externalgrpc.NodeGroupForNodeResponse, error) {
	v := s.memory.look(ctx)
	if !v.known {
		return nil, errUnknown
	}
	n := r.GetNode()
	if m := v.find(n.GetProviderID(), n.GetName()); m != nil {
		return &externalgrpc.NodeGroupForNodeResponse{NodeGroup: v.message(m.group)}, nil
	}
	if g := v.lostBy(n); g != nil {
		return &externalgrpc.NodeGroupForNodeResponse{NodeGroup: v.message(g)}, nil
	}
	return &externalgrpc.NodeGroupForNodeResponse{NodeGroup: &externalgrpc.NodeGroup{}}, nil
}

// errUnknown is the answer to what depends on machines that were never seen. It is not an empty
// list.
var errUnknown = status.Error(codes.Unavailable, "the machines have not been seen since the start; Proxmox VE does not answer")

// NodeGroupTargetSize is how many machines a group is to have.
func (s *Server) NodeGroupTargetSize(ctx context.Context, r *externalgrpc.NodeGroupTargetSizeRequest) (*externalgrpc.NodeGroupTargetSizeResponse, error) {
	v, g, err := s.group(ctx, r.GetId())
	if err != nil {
		return nil, err
	}
	return &externalgrpc.NodeGroupTargetSizeResponse{TargetSize: int32(v.target(g))}, nil
}

// group finds a group whose machines are known.
func (s *Server) group(ctx context.Context, id string) (*view, *group, error) {
	v := s.memory.look(ctx)
	g, err := v.seenGroup(id)
	return v, g, err
}

// seenGroup finds a group in a view of machines that were seen.
func (v *view) seenGroup(id string) (*group, error) {
	g, err := v.group(id)
	if err == nil && !v.known {
		err = errUnknown
	}
	return g, err
}

// NodeGroupNodes lists the machines of a group, those included that are only ordered.
func (s *Server) NodeGroupNodes(ctx context.Context, r *externalgrpc.NodeGroupNodesRequest) (*externalgrpc.NodeGroupNodesResponse, error) {
	v, g, err := s.group(ctx, r.GetId())
	if err != nil {
		return nil, err
	}
	answer := &externalgrpc.NodeGroupNodesResponse{}
	for _, m := range v.machines[g] {
		answer.Instances = append(answer.Instances, instance(m))
		for _, id := range m.LostIDs {
			if v.lost[id] == g {
				answer.Instances = append(answer.Instances, lostInstance(id))
			}
		}
	}
	return answer, nil
}

// lostInstance reports an id that no machine has any more: it goes, so no one waits for its node.
func lostInstance(id string) *externalgrpc.Instance {
	return &externalgrpc.Instance{Id: id, Status: &externalgrpc.InstanceStatus{InstanceState: externalgrpc.InstanceStatus_instanceDeleting}}
}

// What is wrong with an instance. Only those of the class "out of resources" make
// cluster-autoscaler say so; it treats all alike.
const (
	outOfResources = 1
	otherError     = 99
)

func instance(m *nodescaler.Machine) *externalgrpc.Instance {
	i := &externalgrpc.Instance{Id: instanceID(m), Status: &externalgrpc.InstanceStatus{}}
	switch m.Phase {
	case nodescaler.Ordered, nodescaler.Booting:
		i.Status.InstanceState = externalgrpc.InstanceStatus_instanceCreating
	case nodescaler.Joined:
		i.Status.InstanceState = externalgrpc.InstanceStatus_instanceRunning
	case nodescaler.Spare: // none of our groups has one
	case nodescaler.Deleting:
		i.Status.InstanceState = externalgrpc.InstanceStatus_instanceDeleting
	case nodescaler.Failed:
		// Only a machine that is being created and has an error is given up and deleted.
		i.Status.InstanceState = externalgrpc.InstanceStatus_instanceCreating
		i.Status.ErrorInfo = &externalgrpc.InstanceErrorInfo{
			ErrorCode: "MachineFailed", ErrorMessage: m.Problem, InstanceErrorClass: otherError,
		}
		if m.NoRoom {
			i.Status.ErrorInfo.ErrorCode, i.Status.ErrorInfo.InstanceErrorClass = "NoRoom", outOfResources
		}
	}
	return i
}

// instanceID is what cluster-autoscaler knows a machine by.
func instanceID(m *nodescaler.Machine) string {
	if m.ProviderID != "" {
		return m.ProviderID
	}
	return m.Name
}

// GPULabel names the label of nodes with a GPU.
func (s *Server) GPULabel(context.Context, *externalgrpc.GPULabelRequest) (*externalgrpc.GPULabelResponse, error) {
	return &externalgrpc.GPULabelResponse{Label: s.cfg.GPULabel}, nil
}

// GetAvailableGPUTypes lists no types: pools with GPUs are distinguished by their labels.
func (s *Server) GetAvailableGPUTypes(context.Context, *externalgrpc.GetAvailableGPUTypesRequest) (*externalgrpc.GetAvailableGPUTypesResponse, error) {
	return &externalgrpc.GetAvailableGPUTypesResponse{}, nil
}

// Refresh reads the machines anew, and is the only moment at which groups come and go. It succeeds
// always: its failure would stop all scaling, and one host that is down is no reason to. What
// cannot be read is said by Healthy, and by the answers that need it.
func (s *Server) Refresh(ctx context.Context, _ *externalgrpc.RefreshRequest) (*externalgrpc.RefreshResponse, error) {
	s.memory.refresh(ctx)
	return &externalgrpc.RefreshResponse{}, nil
}

// Cleanup touches nothing: cluster-autoscaler ends, and its machines do not.
func (s *Server) Cleanup(context.Context, *externalgrpc.CleanupRequest) (*externalgrpc.CleanupResponse, error) {
	return &externalgrpc.CleanupResponse{}, nil
}
