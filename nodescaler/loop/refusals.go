package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// What was refused is left alone for a while, for twice as long when it is refused again, and is
// forgotten when it was not for long. The longest is more than unneeded waits after an order
// before it gives anything back.
const (
	firstRest   = 2 * time.Minute
	longestRest = 16 * time.Minute
)

// refusals are the orders that were refused of late. Whoever plans without knowing of them plans
// the same again, to be refused again, though another host, shape or pool could help the pods
// that wait. A restart forgets them, and is refused once more.
type refusals []rest

// rest is a kind of order that is left alone.
type rest struct {
	pool      string
	order     nodescaler.RefusedOrder
	at, until time.Time
	machines  int // of the pool, as of the last look, that are to stay
}

// note remembers that an order was refused. Further ones of the same plan make it no longer.
func (r *refusals) note(a *nodescaler.Action, o *Outcome, now time.Time) {
	n := rest{pool: a.Pool, at: now, order: nodescaler.RefusedOrder{Shape: *a.Shape, Host: a.Host}}
	what := fmt.Sprintf("no %s is ordered of pool %s on %s", a.Shape.Name, a.Pool, a.Host)
	if o.Refused == PoolRefused {
		n.order, what = nodescaler.RefusedOrder{}, "no machine is ordered of pool "+a.Pool
	}
	length := firstRest
	if i := r.find(&n); i >= 0 {
		last := (*r)[i]
		if length = min(2*last.until.Sub(last.at), longestRest); now.Before(last.until) {
			return
		}
		*r = slices.Delete(*r, i, i+1)
	}
	n.until = now.Add(length)
	n.order.Why = nodescaler.Reason{
		Code: nodescaler.RefusedLately, Text: fmt.Sprintf("%s until %s: %s", what, n.until.UTC().Format(time.TimeOnly), o.Error),
	}
	*r = append(*r, n)
}

// find finds what was remembered of the same kind of order.
func (r *refusals) find(n *rest) int {
	return slices.IndexFunc(*r, func(o rest) bool {
		return o.pool == n.pool && o.order.Shape == n.order.Shape && o.order.Host == n.order.Host
	})
}

// taken forgets that orders like one that was taken were refused.
func (r *refusals) taken(a *nodescaler.Action) {
	*r = slices.DeleteFunc(*r, func(o rest) bool {
		return o.pool == a.Pool && (o.order.All() || o.order.Shape == *a.Shape && o.order.Host == a.Host)
	})
}

// see forgets what was refused of a pool of which a machine has gone since, or is about to: there
// may be room now for what was refused.
func (r *refusals) see(machines []nodescaler.Machine) {
	if len(*r) == 0 {
		return
	}
	of := map[string]int{}
	for i := range machines {
		if m := &machines[i]; m.Phase != nodescaler.Deleting {
			of[m.Pool]++
		}
	}
	*r = slices.DeleteFunc(*r, func(o rest) bool { return of[o.pool] < o.machines })
	for i := range *r {
		o := &(*r)[i]
		o.machines = of[o.pool]
	}
}

// now are those that are left alone now, by pool. A clock that was set back forgets.
func (r *refusals) now(at time.Time) map[string][]nodescaler.RefusedOrder {
	*r = slices.DeleteFunc(*r, func(o rest) bool { return at.Before(o.at) || at.Sub(o.until) > longestRest })
	by := map[string][]nodescaler.RefusedOrder{}
	for _, o := range *r {
		if at.Before(o.until) {
			by[o.pool] = append(by[o.pool], o.order)
		}
	}
	return by
}

// without are the pools, with what they refuse. Those that refuse everything are closed.
func without(pools []nodescaler.Pool, refused map[string][]nodescaler.RefusedOrder) []nodescaler.Pool {
	if len(refused) == 0 {
		return pools
	}
	pools = slices.Clone(pools) // they are the owner's
	for i := range pools {
		p := &pools[i]
		p.Refused = slices.Clone(p.Refused)
		for _, o := range refused[p.Name] {
			switch {
			case !o.All():
				p.Refused = append(p.Refused, o)
			case p.Closed == nil:
				p.Closed = &o.Why
			}
		}
	}
	return pools
}
