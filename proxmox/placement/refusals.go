package placement

import (
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// toldElsewhere are reasons that need not be told again for each pool: the hosts say them, or the
// pools in the loop's words, or they are over in a moment.
var toldElsewhere = []string{CodeHostUnknown, CodeHostNotInPool, CodeHostOffline, CodeHostInMaintenance, CodeTemplateUnread}

// Refusals are those of a pool. Where no host makes any of its machines, for want of more than
// room, it refuses all.
func (g *Ground) Refusals(p *Pool, shapes []pricing.Shape) (all []nodescaler.RefusedOrder) {
	works := false
	for i := range g.Hosts {
		for _, s := range shapes {
			r := g.unfit(p, s, g.Hosts[i].Name)
			works = works || r == nil || Scarce(r.Code)
			if r != nil && !slices.Contains(toldElsewhere, r.Code) {
				all = append(all, nodescaler.RefusedOrder{Shape: s, Host: g.Hosts[i].Name, Why: *r})
			}
		}
	}
	if !works && len(all) > 0 {
		return []nodescaler.RefusedOrder{{Why: all[0].Why}}
	}
	return all
}
