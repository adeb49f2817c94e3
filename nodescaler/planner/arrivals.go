package planner

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// arrivals are the machines that are not there yet, and what they were planned to carry.
type arrivals struct {
	*turn
	more   []dueMachine // that the plan adds
	filled map[string]nodescaler.Used
}

// dueMachine is a machine that is not there yet, and what it was planned to carry.
type dueMachine struct {
	name, pool string
	host       string
	shape      pricing.Shape
	rate       pricing.Rate
	used       nodescaler.Used
	crowd      nodescaler.Crowd // of its node, which is starting
}

// due are the machines on their way, and those that the plan adds, with what they were planned to
// carry.
func (t *arrivals) due() []dueMachine {
	all := make([]dueMachine, 0, len(t.coming)+len(t.more))
	for _, m := range t.coming {
		d := dueMachine{name: m.Name, pool: m.Pool, host: m.Host, shape: m.Shape, rate: t.X.Rate(m.Shape, m.Host), used: t.filled[m.Name]}
		if n := t.X.NodeOf(m.Name); n != nil { // what does not wait for the rest of it may be on it
			for _, p := range n.Held() {
				d.used, d.crowd = d.used.With(p), d.crowd.With(p)
			}
		}
		all = append(all, d)
	}
	for _, m := range t.more {
		m.used = t.filled[m.name]
		all = append(all, m)
	}
	return all
}

// fill puts a pod onto a machine that is not there yet.
func (t *arrivals) fill(machine string, p *nodescaler.Pod) {
	if t.counts() {
		t.filled[machine] = t.filled[machine].With(p)
		t.places.crowds[machine] = t.places.crowds[machine].With(p)
	}
}

// counts reports whether what the plan puts on machines that are not there yet is counted.
func (t *turn) counts() bool { return t.Tenants != nil || t.fills }

// boughtFor notes for which pods and namespaces the plan's last action adds a machine, whose room
// is left to others.
func (t *arrivals) boughtFor(o *packing.Offer, b *bundle) {
	a := &t.Plan.Actions[len(t.Plan.Actions)-1]
	a.Pods = b.names
	switch {
	case t.Tenants != nil:
		a.For = slices.Sorted(maps.Keys(charge(t.Draft, o, b)))
	case !t.fills:
		return
	}
	name := a.Machine
	if name == "" {
		name = nodescaler.MachineName(a.Pool, a.Order)
	}
	t.more = append(t.more, dueMachine{name: name, pool: o.Pool, host: a.Host, shape: o.Shape, rate: o.Rate})
	for _, p := range b.pods {
		t.fill(name, p)
	}
}

// charges is what namespaces with quotas take of nodes and of machines on their way by a packing.
// A machine that is on its way is paid for by those who wait for it.
func (t *arrivals) charges(wants []want, r packing.Result) map[string]nodescaler.Take {
	all, coming := map[string]nodescaler.Take{}, map[string]*bundle{}
	for i := range r.Placements {
		bin := r.Placements[i].Bin
		if bin == "" {
			continue
		}
		if coming[bin] == nil {
			coming[bin] = &bundle{}
		}
		coming[bin].add(&wants[i])
	}
	due := map[string]dueMachine{}
	for _, m := range t.due() {
		due[m.name] = m
	}
	for bin, b := range coming {
		m, is := due[bin]
		for namespace, take := range charge(t.Draft, &packing.Offer{Pool: m.pool, Shape: m.shape, Rate: m.rate}, b) {
			if take.Orders = 0; !is || m.used.Pods > 0 { // others pay for it
				take.Rate = 0
			}
			all[namespace] = plus(all[namespace], take)
		}
	}
	return all
}
