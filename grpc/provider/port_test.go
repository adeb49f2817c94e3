package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// port is a machine port in memory that behaves: orders wait, become machines when the test lets
// them, and are remembered.
type port struct {
	mu       sync.Mutex
	machines []nodescaler.Machine
	room     int // how many more orders are taken
	down     error
	next     int
	unseen   bool // since the last look
}

func (p *port) List(context.Context) (loop.MachineState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return loop.MachineState{Machines: slices.Clone(p.machines)}, p.down
}

func (p *port) Create(_ context.Context, o loop.Order) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.machines, func(m nodescaler.Machine) bool { return m.Order == o.ID }) {
		return nil // ordered twice
	}
	if p.unseen {
		return fmt.Errorf("%w: Frozen: LookFailed", loop.ErrUnseen)
	}
	if p.room == 0 {
		return fmt.Errorf("%w: no host has room", loop.ErrRefused)
	}
	p.room--
	p.next++
	p.machines = append(p.machines, nodescaler.Machine{
		Name: nodescaler.MachineName(o.Action.Pool, o.ID), Order: o.ID, Pool: o.Action.Pool, Shape: *o.Action.Shape,
		ProviderID: fmt.Sprintf("proxmox://lab/%d", 1000+p.next), Phase: nodescaler.Ordered, Since: o.At,
	})
	return nil
}

func (p *port) Delete(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.machines {
		if m := &p.machines[i]; m.Name == name {
			if m.Phase == nodescaler.Ordered && m.Created.IsZero() {
				p.machines = slices.Delete(p.machines, i, i+1)
				return nil
			}
			m.Phase = nodescaler.Deleting
			return nil
		}
	}
	return fmt.Errorf("machine %s does not exist", name)
}

// set puts every machine into a phase.
func (p *port) set(phase nodescaler.Phase, more func(m *nodescaler.Machine)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.machines {
		m := &p.machines[i]
		m.Phase, m.Created = phase, time.Unix(1, 0)
		if more != nil {
			more(m)
		}
	}
}

func (p *port) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machines = slices.DeleteFunc(p.machines, func(m nodescaler.Machine) bool { return m.Phase == nodescaler.Deleting })
}

var (
	small = pricing.Shape{Name: "small", CPU: 2000, Memory: 8 * pricing.GiB, Disk: 40 * pricing.GiB}
	large = pricing.Shape{Name: "large", CPU: 8000, Memory: 32 * pricing.GiB}
)

func pools() []Pool {
	return []Pool{
		{Pool: nodescaler.Pool{
			Name: "workers", Shapes: []pricing.Shape{small, large}, Max: 5,
			Reserved: pricing.Resources{CPU: 300, Memory: pricing.GiB}, Extra: pricing.Amounts{{Name: "nvidia.com/gpu", N: 2}},
			Labels: map[string]string{"topology.kubernetes.io/region": "lab"},
			Taints: []nodescaler.Taint{{Key: "batch", Value: "yes", Effect: "NoSchedule"}},
		}},
		{Pool: nodescaler.Pool{Name: "edge", Shapes: []pricing.Shape{small}, Min: 1, Max: 3, PodSlots: 50}},
	}
}

// made makes a server over a port, with a clock that the test moves by every look.
func made(t *testing.T, change func(*Config)) (*Server, *port) {
	t.Helper()
	p := &port{room: 100}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cfg := Config{Pools: pools(), Machines: p, Prices: pricing.DefaultBook(), Now: func() time.Time {
		now = now.Add(time.Second)
		return now
	}}
	if change != nil {
		change(&cfg)
	}
	s := must.Get(New(cfg))(t)
	return s, p
}

// groupOf is the id of the group of a pool and shape.
func groupOf(t *testing.T, s *Server, prefix string) string {
	t.Helper()
	all := must.Get(s.NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{}))(t)
	for _, g := range all.NodeGroups {
		if strings.HasPrefix(g.Id, prefix) {
			return g.Id
		}
	}
	t.Fatalf("no group %s among %v", prefix, all.NodeGroups)
	return ""
}

func increase(t *testing.T, s *Server, id string, by int32) error {
	t.Helper()
	_, err := s.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: id, Delta: by})
	return err
}

func target(t *testing.T, s *Server, id string) int32 {
	t.Helper()
	answer := must.Get(s.NodeGroupTargetSize(t.Context(), &externalgrpc.NodeGroupTargetSizeRequest{Id: id}))(t)
	return answer.TargetSize
}

func instances(t *testing.T, s *Server, id string) []*externalgrpc.Instance {
	t.Helper()
	answer := must.Get(s.NodeGroupNodes(t.Context(), &externalgrpc.NodeGroupNodesRequest{Id: id}))(t)
	return answer.Instances
}

// fake is how cluster-autoscaler names a machine that has not registered.
func fake(id string) *externalgrpc.ExternalGrpcNode {
	return &externalgrpc.ExternalGrpcNode{ProviderID: id, Name: id}
}

func remove(t *testing.T, s *Server, group string, ids ...string) error {
	t.Helper()
	r := &externalgrpc.NodeGroupDeleteNodesRequest{Id: group}
	for _, id := range ids {
		r.Nodes = append(r.Nodes, fake(id))
	}
	_, err := s.NodeGroupDeleteNodes(t.Context(), r)
	return err
}

var defaultPrices = pricing.DefaultBook()

var errDown = errors.New("no route to host")
