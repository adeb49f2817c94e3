package pve

import (
	"maps"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/placement"
)

// What orders would be refused is told with the hosts, so that nobody plans what cannot be had. It
// need not be all: what is not told is refused when it is ordered.

// refusals are what orders would be refused on this ground whatever room the hosts have, by pool.
func (in *intake) refusals(g *placement.Ground) map[string][]nodescaler.RefusedOrder {
	all := map[string][]nodescaler.RefusedOrder{}
	for name, p := range in.catalogue.pools {
		if refused := g.Refusals(g.Pools[name], p.Shapes); len(refused) > 0 {
			all[name] = refused
		}
	}
	return all
}

// withExhausted adds the pools that might have more machines and have no VMID left. That ends by
// itself when one has cooled down, so it is true at this moment only.
func (in *intake) withExhausted(all map[string][]nodescaler.RefusedOrder) map[string][]nodescaler.RefusedOrder {
	used := in.usedIDs()
	all = maps.Clone(all)
	for name, p := range in.catalogue.pools {
		if in.view.firstFree(p, 0, func(id int) bool { return used[id] }) == 0 && in.count(p) < p.Max {
			all[name] = []nodescaler.RefusedOrder{{Why: exhausted(p)}}
		}
	}
	return all
}
