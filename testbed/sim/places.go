package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Place is where a machine is that a world begins with.
type Place struct {
	Pool  *nodescaler.Pool // its first shape is the machine's
	Host  string
	Spare bool
}

// Places are where the machines are that the world begins with, pool by pool. They are spread over
// the hosts by the room that is left, and the spares by how many machines are on each. With an
// error come those that found a place.
func (c *Config) Places() ([]Place, error) {
	hosts := slices.Clone(c.Hosts)
	slices.SortFunc(hosts, func(a, b nodescaler.Host) int { return strings.Compare(a.Name, b.Name) })
	var out []Place
	for i := range c.Pools {
		pool := &c.Pools[i]
		n, spares := c.Initial[pool.Name], c.Spares[pool.Name]
		if n+spares > 0 && len(pool.Shapes) == 0 {
			return out, fmt.Errorf("pool %s: must have a shape, to start with %d machines", pool.Name, n+spares)
		}
		for j := range n + spares {
			host := roomiest(hosts, out, pool, j >= n)
			if host == "" {
				return out, fmt.Errorf("pool %s: %w for the machines it starts with", pool.Name, ErrNoRoom)
			}
			out = append(out, Place{pool, host, j >= n})
		}
	}
	return out, nil
}

// roomiest is the host for one machine more, or "". Spares take no room, so one that has most of it
// may have most of them; but a machine that a host could not hold by itself was never made there.
func roomiest(hosts []nodescaler.Host, taken []Place, pool *nodescaler.Pool, spare bool) string {
	best, most, fewest := "", pricing.Bytes(-1), math.MaxInt
	shape := pool.Shapes[0].Resources()
	for i := range hosts {
		h := &hosts[i]
		free, carried := left(h, taken)
		room, n := free, 0
		if spare {
			room, n = h.Room, carried
		}
		if !pool.Takes(h) || !shape.Within(room) {
			continue
		}
		if n < fewest || n == fewest && free.Memory > most {
			best, most, fewest = h.Name, free.Memory, n
		}
	}
	return best
}

// left is what a host's room is less the machines on it, and how many those are, spares included.
func left(h *nodescaler.Host, taken []Place) (free pricing.Resources, carried int) {
	free = h.Room
	for _, p := range taken {
		if p.Host != h.Name {
			continue
		}
		carried++
		if !p.Spare {
			free = free.Minus(p.Pool.Shapes[0].Resources())
		}
	}
	return free, carried
}
