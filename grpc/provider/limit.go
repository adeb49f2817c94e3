package provider

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// bill is what the machines of a view cost, whoever ordered them.
func (s *Server) bill(v *view) *nodescaler.Index {
	snapshot := &nodescaler.Snapshot{
		Now: s.cfg.Now(), Hosts: v.state.Hosts, Machines: v.state.Machines, Prices: s.pricer.prices(), Limit: s.cfg.Limit,
	}
	named := map[string]bool{}
	for _, g := range v.groups {
		if !named[g.pool.Name] {
			named[g.pool.Name] = true
			snapshot.Pools = append(snapshot.Pools, g.pool.Pool)
		}
	}
	return nodescaler.NewIndex(snapshot)
}

// rooms is how many more machines of each group the hard limit allows; nil without one.
func (s *Server) rooms(v *view) map[*group]int {
	if s.cfg.Limit <= 0 {
		return nil
	}
	all, bill := make(map[*group]int, len(v.groups)), s.bill(v)
	for _, g := range v.groups {
		_, most := v.limits(g)
		all[g], _ = bill.Affords(&g.pool.Pool, g.shape, most-v.target(g))
	}
	return all
}

// withinLimit refuses machines with which all would cost more than they may.
func (s *Server) withinLimit(v *view, g *group, n int) error {
	fit, rate := s.bill(v).Affords(&g.pool.Pool, g.shape, n)
	if fit == n {
		return nil
	}
	book := s.pricer.prices()
	return status.Errorf(codes.ResourceExhausted, "delta: all machines would cost %s with %d more of %s, and must cost at most %s, which allows %d, was %d",
		rate.Display(book.Unit), fit+1, g.id, s.cfg.Limit.Display(book.Unit), fit, n)
}
