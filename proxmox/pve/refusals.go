package pve

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// What orders would be refused is told with the hosts, so that nobody plans what cannot be had. It need not be all:
// what is not told is refused when it is ordered.

// toldElsewhere are reasons that need not be told again for each pool: the hosts say them, or the pools in the loop's words, or
// they are over in a moment.
var toldElsewhere = []string{CodeHostUnknown, CodeHostNotInPool, CodeHostOffline, CodeHostInMaintenance, CodeTemplateUnread}

// refusals are what orders would be refused on this ground whatever room the hosts have, by pool.
func (f *Fleet) refusals(g *ground) map[string][]nodescaler.RefusedOrder {
	all := map[string][]nodescaler.RefusedOrder{}
	for name, p := range f.pools {
		if refused := g.refusals(p); len(refused) > 0 {
			all[name] = refused
		}
	}
	return all
}

// refusals are those of a pool. Where no host makes any of its machines, for want of more than room, it refuses all.
func (g *ground) refusals(p *Pool) (all []nodescaler.RefusedOrder) {
	works := false
	for i := range g.hosts {
		for _, s := range p.Shapes {
			r := g.unfit(p, s, g.hosts[i].name)
			works = works || r == nil || slices.Contains(scarce, r.Code)
			if r != nil && !slices.Contains(toldElsewhere, r.Code) {
				all = append(all, nodescaler.RefusedOrder{Shape: s, Host: g.hosts[i].name, Why: *r})
			}
		}
	}
	if !works && len(all) > 0 {
		return []nodescaler.RefusedOrder{{Why: all[0].Why}}
	}
	return all
}

// withExhausted adds the pools that might have more machines and have no VMID left. That ends by itself when one has
// cooled down, so it is true at this moment only.
func (f *Fleet) withExhausted(all map[string][]nodescaler.RefusedOrder) map[string][]nodescaler.RefusedOrder {
	used := f.usedIDs()
	all = maps.Clone(all)
	for name, p := range f.pools {
		if f.firstFree(p, 0, func(id int) bool { return used[id] }) == 0 && f.count(p) < p.Max {
			all[name] = []nodescaler.RefusedOrder{{Why: exhausted(p)}}
		}
	}
	return all
}
