package planner

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// market is the machines that could be ordered now.
type market struct{ *turn }

// backoffOf is for how long the pool is left alone.
func (t *market) backoffOf(pool string) *backoff {
	if t.backoffs[pool] == nil {
		t.backoffs[pool] = &backoff{
			first:   time.Duration(t.rules.InitialNodeGroupBackoffDuration),
			longest: time.Duration(t.rules.MaxNodeGroupBackoffDuration),
			forget:  time.Duration(t.rules.NodeGroupBackoffResetTimeout),
		}
	}
	return t.backoffs[pool]
}

// makes reports whether the pool's machines are made now, as far as is known: none failed of late.
func (t *market) makes(pool string) bool {
	p := t.X.Pool(pool)
	return p != nil && p.Shut() == nil && !t.backoffs[pool].on(t.X.Now)
}

// shut says why the pool's machines are not made now, or nil.
func (t *market) shut(p *nodescaler.PoolSize) *nodescaler.Reason {
	if b := t.backoffs[p.Name]; p.Shut() == nil && b.on(t.X.Now) {
		r := draft.Because(nodescaler.PoolBackingOff, "one failed at %s, and none is ordered until %s", b.failed.UTC().Format(time.TimeOnly), b.until.UTC().Format(time.TimeOnly))
		return &r
	}
	return p.Shut()
}

// mayBuy reports whether the machine may be ordered, now that no spare was to be had in its
// place: the packing had it as one that could be woken, and spares take places of the pool.
func (t *market) mayBuy(o packing.Offer) bool { return t.Room[o.Pool] > 0 && t.carries(o) }

// carries reports whether the machine would be made: its pool was perhaps only looked at for
// spares, and there may be no room for it beside those that were woken, which the packing knew
// nothing of.
func (t *market) carries(o packing.Offer) bool {
	p, h := t.X.Pool(o.Pool), t.X.Host(o.Host)
	return t.makes(o.Pool) && p.Makes(o.Shape, h.Host) && o.Shape.Resources().Within(t.Free[o.Host])
}

// spread is the host with the most memory left of those on which the offer costs the same, so
// that losing one host loses as little as may be. To the packing all are alike, and it would
// fill them by name. Room that later purchases are planned for is left to them. A host that has
// a price of its own and carries nothing is woken only if all the others are full.
func (t *market) spread(o packing.Offer, planned map[string]pricing.Resources, may func(host string) bool) string {
	left := maps.Clone(t.Free)
	for host, r := range planned {
		left[host] = left[host].Minus(r)
	}
	return t.hostFor(o, left, may, func(a, b string) int { return -cmp.Compare(left[a].Memory, left[b].Memory) })
}

// hostFor is the host that comes first of those with room on which the offer costs the same, and
// that may be chosen: any without such a rule. A host that has a price of its own and carries
// nothing comes after all others.
func (t *market) hostFor(o packing.Offer, left map[string]pricing.Resources, may func(host string) bool, order func(a, b string) int) string {
	best, p := o.Host, t.X.Pool(o.Pool)
	wakes := t.asleep(t.X.Host(best))
	for i := range t.X.Hosts {
		h := &t.X.Hosts[i]
		if !wakes && order(h.Name, best) >= 0 || !o.Shape.Resources().Within(left[h.Name]) {
			continue
		}
		if p.Makes(o.Shape, h.Host) && t.X.Rate(o.Shape, h.Name) == o.Rate && !t.asleep(h) && (may == nil || may(h.Name)) {
			best, wakes = h.Name, false
		}
	}
	return best
}

// takesAll reports whether a machine like the offered one on the host takes the pods, its room
// aside.
func (t *market) takesAll(o *packing.Offer, host string, pods []*nodescaler.Pod) bool {
	p := t.X.Pool(o.Pool)
	if !p.HostIsZone {
		return true // as on the host that it is offered on
	}
	n := p.NodeOn(o.Shape, host)
	return !slices.ContainsFunc(pods, func(pod *nodescaler.Pod) bool {
		return nodescaler.Accepts(pod, n) != "" || t.places.domains.Repelled(pod, n)
	})
}

// asleep reports whether a host has a price of its own and carries nothing.
func (t *market) asleep(h *nodescaler.HostRoom) bool {
	return h != nil && t.Free[h.Name] == h.Room && t.X.Book().HostRate(h.Name, t.X.Now) > 0
}

// live is how many machines the pool will have, with those that the plan has ordered and woken so
// far.
func (t *market) live(p *nodescaler.PoolSize) int {
	return p.Live + p.Places() - t.Room[p.Name] + t.wokenOf(p.Name)
}

// wokenOf counts the pool's machines that the plan wakes.
func (t *market) wokenOf(pool string) int {
	n := 0
	for _, m := range t.X.Spares {
		if m.Pool == pool && t.Woken[m.Name] {
			n++
		}
	}
	return n
}

// running is how many machines of the pool run on the host or will, those included that the plan
// wakes.
func (t *market) running(pool, host string) (n int) {
	for _, m := range t.X.Machines {
		if m.Pool == pool && m.Host == host && m.Phase.Live() {
			n++
		}
	}
	for _, m := range t.X.Spares {
		if m.Pool == pool && m.Host == host && t.Woken[m.Name] {
			n++
		}
	}
	return n
}
