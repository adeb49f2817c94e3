package provider

import (
	"context"
	"math/big"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/pricing"
)

// rate is what a machine of the group costs per hour, wherever it will be: a template node has
// no host, and a real one of the same group must cost the same.
func (pr *pricer) rate(g *group, at time.Time) pricing.Rate { return pr.prices().Rate(g.shape, "", at) }

// PricingNodePrice is what a node costs over a stretch of time.
func (s *Server) PricingNodePrice(ctx context.Context, r *externalgrpc.PricingNodePriceRequest) (*externalgrpc.PricingNodePriceResponse, error) {
	g, err := s.memory.look(ctx).priced(r.GetNode())
	if err != nil {
		return nil, err
	}
	from, to, err := stretch(r.GetStartTime(), r.GetEndTime(), r.GetStartTimestamp(), r.GetEndTimestamp())
	if err != nil {
		return nil, err
	}
	return &externalgrpc.PricingNodePriceResponse{Price: s.pricer.cost(func(at time.Time) pricing.Rate { return s.pricer.rate(g, at) }, from, to)}, nil
}

// priced finds the group of a node by its labels: a template node has nothing else to go by.
func (v *view) priced(n *externalgrpc.ExternalGrpcNode) (*group, error) {
	pool, shape := n.GetLabels()[PoolLabel], n.GetLabels()[ShapeLabel]
	if m := v.find(n.GetProviderID(), n.GetName()); m != nil {
		return m.group, nil
	}
	for _, g := range v.groups {
		if g.pool.Name == pool && g.shape.Name == shape {
			return g, nil
		}
	}
	return nil, status.Errorf(codes.NotFound,
		"node: must be a machine of ours, or have the labels %s and %s of one of our pools, was %q with %q and %q", PoolLabel, ShapeLabel, n.GetName(), pool, shape)
}

// PricingPodPrice is what the room that a pod asks for costs over a stretch of time, in the same
// unit as a node's price. What having a machine costs is not in it, for pods share one.
func (s *Server) PricingPodPrice(_ context.Context, r *externalgrpc.PricingPodPriceRequest) (*externalgrpc.PricingPodPriceResponse, error) {
	text := r.GetPodBytes()
	if len(text) == 0 {
		text = r.GetPod()
	}
	room, err := requests(text)
	if err != nil {
		return nil, err
	}
	from, to, err := stretch(r.GetStartTime(), r.GetEndTime(), r.GetStartTimestamp(), r.GetEndTimestamp())
	if err != nil {
		return nil, err
	}
	return &externalgrpc.PricingPodPriceResponse{Price: s.pricer.cost(func(at time.Time) pricing.Rate { return s.pricer.prices().RoomRate(room, at) }, from, to)}, nil
}

// cost adds up a rate where prices change, exactly.
func (pr *pricer) cost(rateAt func(time.Time) pricing.Rate, from, to time.Time) float64 {
	sum := new(big.Int)
	for p := range pr.prices().Periods(from, to) {
		rate := big.NewInt(int64(rateAt(p.From)))
		sum.Add(sum, rate.Mul(rate, big.NewInt(int64(p.To.Sub(p.From)))))
	}
	units, _ := new(big.Rat).SetFrac(sum, new(big.Int).Mul(big.NewInt(1e9), big.NewInt(int64(time.Hour)))).Float64()
	return units
}

// longest is the longest stretch of time that is priced: tariffs are gone through one by one.
const longest = 10 * 366 * 24 * time.Hour

// stretch reads a stretch of time from the fields of either generation.
func stretch(from, to, newFrom, newTo *timestamppb.Timestamp) (time.Time, time.Time, error) {
	if newFrom != nil {
		from = newFrom
	}
	if newTo != nil {
		to = newTo
	}
	if from == nil || to == nil || from.CheckValid() != nil || to.CheckValid() != nil {
		return time.Time{}, time.Time{}, status.Errorf(codes.InvalidArgument, "startTimestamp, endTimestamp: must both be times, were %v and %v", from, to)
	}
	a, b := from.AsTime(), to.AsTime()
	if b.Before(a) || b.Sub(a) > longest {
		return a, b, status.Errorf(codes.InvalidArgument, "endTimestamp: must be no earlier than %s and at most 10 years later, was %s", a.Format(time.RFC3339), b.Format(time.RFC3339))
	}
	return a, b, nil
}
