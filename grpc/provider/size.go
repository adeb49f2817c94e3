package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// sizing makes changes of size one after the other, so that two of them do not take the same room.
type sizing struct {
	mu     sync.Mutex
	last   time.Time // of an order
	parted map[string]parted
}

// parted is a machine that was reclaimed, by its id. Who asks for it again when it is gone, because
// the first answer did not arrive or the node is still listed, has got what they want.
type parted struct {
	group, name string
	at          time.Time
}

// partedLasts is how long that is remembered: longer than anybody lists the node of a machine that
// is gone.
const partedLasts = time.Hour

// part remembers a machine that was reclaimed.
func (s *sizing) part(m *seen, now time.Time) {
	if s.parted == nil {
		s.parted = map[string]parted{}
	}
	for id, p := range s.parted {
		if now.Sub(p.at) > partedLasts {
			delete(s.parted, id)
		}
	}
	s.parted[instanceID(m.machine)] = parted{m.group.id, m.machine.Name, now}
}

// hasParted reports whether a node is that of a machine of the group that was reclaimed.
func (s *sizing) hasParted(g *group, n *externalgrpc.ExternalGrpcNode) bool {
	p, was := s.parted[n.GetProviderID()]
	return was && p.group == g.id && (n.GetName() == p.name || n.GetName() == n.GetProviderID())
}

// change is a change of a group's size: the view of it, and the group. One that no one waits for
// any more is taken for lost by who asked, and asked again.
func (s *Server) change(ctx context.Context, id string) (*view, *group, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, status.FromContextError(err).Err()
	}
	v := s.memory.renew(ctx)
	g, err := v.seenGroup(id)
	if err != nil {
		return nil, nil, err
	}
	if err := s.memory.healthy(ctx); err != nil {
		return nil, nil, status.Errorf(codes.Unavailable, "nothing is changed while the machines cannot be seen: %s", err)
	}
	return v, g, nil
}

// NodeGroupIncreaseSize orders machines: all of them, or none.
func (s *Server) NodeGroupIncreaseSize(ctx context.Context, r *externalgrpc.NodeGroupIncreaseSizeRequest) (*externalgrpc.NodeGroupIncreaseSizeResponse, error) {
	if r.GetDelta() <= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "delta: must be greater than 0, was %d", r.GetDelta())
	}
	s.size.mu.Lock()
	defer s.size.mu.Unlock()
	v, g, err := s.change(ctx, r.GetId())
	if err != nil {
		return nil, err
	}
	have := v.target(g)
	if _, most := v.limits(g); have+int(r.GetDelta()) > most || g.retired {
		return nil, status.Errorf(codes.OutOfRange, "delta: the group %s has %d machines and must have no more than %d, was %d", g.id, have, most, r.GetDelta())
	}
	if err := s.withinLimit(v, g, int(r.GetDelta())); err != nil {
		return nil, err
	}
	defer s.memory.renew(context.WithoutCancel(ctx))
	// What is begun is finished, whoever goes away meanwhile.
	return &externalgrpc.NodeGroupIncreaseSizeResponse{}, s.order(context.WithoutCancel(ctx), v, g, int(r.GetDelta()))
}

// moment is the time that new orders are named by: one that none was named by before. An order with
// the name of another would be taken for that one, asked for again.
func (s *Server) moment(v *view) time.Time {
	at := s.cfg.Now().Truncate(time.Millisecond) // as much of it as a name has
	if !at.After(s.size.last) {
		at = s.size.last.Add(time.Millisecond)
	}
	// By one who had the machines before us, and a clock that was ahead.
	for v.orders[nodescaler.OrderID(at, 0)] {
		at = at.Add(time.Millisecond)
	}
	s.size.last = at
	return at
}

// order orders n machines. If one is refused, those before it are taken back.
func (s *Server) order(ctx context.Context, v *view, g *group, n int) error {
	at := s.moment(v)
	shape := g.shape
	var taken []string
	for i := range n {
		id := nodescaler.OrderID(at, i)
		err := s.cfg.Machines.Create(ctx, loop.Order{ID: id, At: at, Action: nodescaler.Action{
			Kind: nodescaler.Buy, Order: id, Pool: g.pool.Name, Shape: &shape,
			Rate: s.pricer.rate(g, at),
			Reasons: []nodescaler.Reason{{
				Code: nodescaler.PodsPending, Text: fmt.Sprintf("cluster-autoscaler asks for %d more of %s", n, g.id),
			}},
		}})
		if err == nil {
			taken = append(taken, nodescaler.MachineName(g.pool.Name, id))
			continue
		}
		code := codes.ResourceExhausted
		switch {
		case !errors.Is(err, loop.ErrRefused): // then there may be a machine all the same
			code = codes.Unavailable
			taken = append(taken, nodescaler.MachineName(g.pool.Name, id))
		case errors.Is(err, loop.ErrUnseen): // an outage that began after the last look
			code = codes.Unavailable
		}
		return status.Errorf(code, "order %d of %d: %s", i+1, n, errors.Join(err, s.takeBack(ctx, taken)))
	}
	return nil
}

// takeBack takes back those of the orders that are there.
func (s *Server) takeBack(ctx context.Context, names []string) error {
	v := s.memory.renew(ctx)
	var faults []error
	for _, name := range names {
		if v.named[name] == nil {
			continue
		}
		if err := s.cfg.Machines.Delete(ctx, name); err != nil {
			faults = append(faults, fmt.Errorf("%s is ordered and could not be taken back: %w", name, err))
		}
	}
	return errors.Join(append(faults, s.memory.healthy(ctx))...)
}

// giveBack gives machines back, one after the other. Where one cannot be, those before it are
// going, and stay so when they are asked for again.
func (s *Server) giveBack(ctx context.Context, v *view, names []string) error {
	defer s.memory.renew(context.WithoutCancel(ctx))
	for i, name := range names {
		if err := s.cfg.Machines.Delete(context.WithoutCancel(ctx), name); err != nil {
			return status.Errorf(codes.Unavailable, "%s: %s; %d of %d are going", name, err, i, len(names))
		}
		s.size.part(v.named[name], s.cfg.Now())
	}
	return nil
}

// NodeGroupDeleteNodes gives machines back. Those that are going already are not reclaimed a second
// time.
func (s *Server) NodeGroupDeleteNodes(ctx context.Context, r *externalgrpc.NodeGroupDeleteNodesRequest) (*externalgrpc.NodeGroupDeleteNodesResponse, error) {
	s.size.mu.Lock()
	defer s.size.mu.Unlock()
	v, g, err := s.change(ctx, r.GetId())
	if err != nil {
		return nil, err
	}
	going, err := s.going(v, g, r.GetNodes())
	if err != nil {
		return nil, err
	}
	return &externalgrpc.NodeGroupDeleteNodesResponse{}, s.giveBack(ctx, v, going)
}

// going names the machines among nodes that are not going or gone already. One node that is not the
// group's refuses them all.
func (s *Server) going(v *view, g *group, nodes []*externalgrpc.ExternalGrpcNode) ([]string, error) {
	var going []string
	sound := 0
	for i, n := range nodes {
		key := fmt.Sprintf("nodes[%d]", i)
		if n.GetProviderID() == "" && n.GetName() == "" {
			return nil, status.Errorf(codes.InvalidArgument, "%s: must have a provider id or a name, had neither", key)
		}
		m := v.find(n.GetProviderID(), n.GetName())
		switch {
		case m == nil && (v.lostBy(n) == g || s.size.hasParted(g, n)):
			continue
		case m == nil:
			return nil, status.Errorf(codes.NotFound, "%s: must be a machine of ours, was %q (%q)", key, n.GetProviderID(), n.GetName())
		case m.group != g:
			return nil, status.Errorf(codes.InvalidArgument, "%s: must be of the group %s, %s is of %s", key, g.id, m.machine.Name, m.group.id)
		case m.machine.Phase == nodescaler.Deleting || slices.Contains(going, m.machine.Name):
			continue
		}
		going = append(going, m.machine.Name)
		if m.machine.Phase != nodescaler.Failed {
			sound++
		}
	}
	// Failed machines may go regardless of the minimum: they are no capacity.
	if have := v.sound[g.pool.Name]; sound > 0 && !g.retired && have-sound < g.pool.Min {
		return nil, status.Errorf(codes.FailedPrecondition,
			"nodes: the pool %s must keep %d machines that have not failed, %d of %d were to go", g.pool.Name, g.pool.Min, sound, have)
	}
	return going, nil
}

// NodeGroupDecreaseTargetSize takes back orders that have not become machines. It never deletes
// one.
func (s *Server) NodeGroupDecreaseTargetSize(ctx context.Context, r *externalgrpc.NodeGroupDecreaseTargetSizeRequest) (*externalgrpc.NodeGroupDecreaseTargetSizeResponse, error) {
	if r.GetDelta() >= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "delta: must be less than 0, was %d", r.GetDelta())
	}
	s.size.mu.Lock()
	defer s.size.mu.Unlock()
	v, g, err := s.change(ctx, r.GetId())
	if err != nil {
		return nil, err
	}
	var waiting []string
	for _, m := range v.machines[g] {
		if m.Phase == nodescaler.Ordered && m.Created.IsZero() {
			waiting = append(waiting, m.Name)
		}
	}
	n := -int64(r.GetDelta())
	if n > int64(len(waiting)) {
		return nil, status.Errorf(codes.FailedPrecondition,
			"delta: of the group %s no more than %d orders are not machines yet, and machines are not deleted this way, was %d", g.id, len(waiting), r.GetDelta())
	}
	// Names end with the time of the order, so that the last are the youngest.
	return &externalgrpc.NodeGroupDecreaseTargetSizeResponse{}, s.giveBack(ctx, v, waiting[len(waiting)-int(n):])
}
