package provider

import (
	"context"
	"math/big"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
)

// offer is an option with what it costs.
type offer struct {
	option *externalgrpc.Option
	cost   *big.Int // of its nodes per hour
	worth  *big.Int // of the room that its pods ask for, per hour; 0 if no pods are known
}

// BestOptions returns the cheapest option: the one whose nodes cost least for the pods that they
// would hold, priced by what those ask for. Where options hold the same pods, that is the least
// cost. Ties go to the lesser cost in all, to fewer nodes, and to the name.
func (s *Server) BestOptions(ctx context.Context, r *externalgrpc.BestOptionsRequest) (*externalgrpc.BestOptionsResponse, error) {
	v := s.memory.look(ctx)
	now := s.cfg.Now()
	var offers []offer
	for i, o := range r.GetOptions() {
		g, err := v.group(o.GetNodeGroupId())
		if err != nil {
			continue // another provider's, or one that is gone: we have no price for it
		}
		if o.GetNodeCount() <= 0 {
			return nil, status.Errorf(codes.InvalidArgument, "options[%d].nodeCount: must be greater than 0, was %d", i, o.GetNodeCount())
		}
		cost := big.NewInt(int64(s.pricer.rate(g, now)))
		offers = append(offers, offer{o, cost.Mul(cost, big.NewInt(int64(o.GetNodeCount()))), s.worth(o)})
	}
	if len(offers) == 0 {
		return nil, status.Errorf(codes.NotFound, "options: at least one must be of our node groups, of %d none was", len(r.GetOptions()))
	}
	if slices.ContainsFunc(offers, func(o offer) bool { return o.worth.Sign() == 0 }) {
		for i := range offers { // pods that are not known cannot be held against each other
			offers[i].worth.SetInt64(1)
		}
	}
	best := slices.MinFunc(offers, compareOffers)
	return &externalgrpc.BestOptionsResponse{Options: []*externalgrpc.Option{{
		NodeGroupId: best.option.GetNodeGroupId(), NodeCount: best.option.GetNodeCount(), Debug: best.option.GetDebug(),
	}}}, nil
}

// worth is what the room costs that an option's pods ask for.
func (s *Server) worth(o *externalgrpc.Option) *big.Int {
	pods := o.GetPodBytes()
	if len(o.GetPod()) > 0 {
		pods = o.GetPod()
	}
	sum := new(big.Int)
	for _, text := range pods {
		room, err := requests(text)
		if err != nil {
			continue // see Option.podBytes
		}
		sum.Add(sum, big.NewInt(int64(s.pricer.prices().RoomRate(room, s.cfg.Now()))))
	}
	return sum
}

// compareOffers orders offers by cost for their worth, without dividing.
func compareOffers(a, b offer) int {
	left, right := new(big.Int).Mul(a.cost, b.worth), new(big.Int).Mul(b.cost, a.worth)
	if c := left.Cmp(right); c != 0 {
		return c
	}
	if c := a.cost.Cmp(b.cost); c != 0 {
		return c
	}
	if c := a.option.GetNodeCount() - b.option.GetNodeCount(); c != 0 {
		return int(c)
	}
	return strings.Compare(a.option.GetNodeGroupId(), b.option.GetNodeGroupId())
}
