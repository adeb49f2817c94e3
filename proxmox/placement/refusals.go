package placement

import (
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// saidElsewhere are reasons that need no mention for each pool: the hosts say them, or the pools in
// the loop's words, or they are over in a moment.
var saidElsewhere = []string{CodeHostUnknown, CodeHostNotInPool, CodeHostOffline, CodeHostInMaintenance, CodeTemplateUnread}

// Refusals are those of a pool. Where no host makes any of its machines, for want of more than
// room, it refuses all.
func (g *Ground) Refusals(p *Pool, shapes []pricing.Shape) (all []nodescaler.RefusedOrder) {
	works := false
	for i := range g.Hosts {
		for _, s := range shapes {
			r := g.unfit(p, s, g.Hosts[i].Name)
			works = works || r == nil || Scarce(r.Code)
			if r == nil {
				r = g.failing(p, s, g.Hosts[i].Name)
			}
			if r != nil && !slices.Contains(saidElsewhere, r.Code) {
				all = append(all, nodescaler.RefusedOrder{Shape: s, Host: g.Hosts[i].Name, Why: *r})
			}
		}
	}
	if !works && len(all) > 0 {
		return []nodescaler.RefusedOrder{{Why: all[0].Why}}
	}
	return all
}
