package rightsize

import (
	"math/big"
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// Shared is a node whose containers share what it has as limits, by what they request. What
// everything else on it requests is set aside first. All that is shared and all that is set aside
// are never more than the node has.
type Shared struct {
	name   string
	left   pricing.Resources // of what is allocatable, for those that share
	among  []sharer
	shares []share // of each of them; nil until they are asked for
}

// sharer is a container that shares its node.
type sharer struct {
	Container
	pod    string
	rule   Rule
	policy Policy
	acts   bool // its limits are set, and not only recommended
	within Range
}

// share is what a sharer may use. A short one is less than the container requests, so that no limit
// can be set to it.
type share struct {
	limits pricing.Resources
	short  bool
}

// NewShared returns a node that nothing is on.
func NewShared(name string, allocatable pricing.Resources) *Shared {
	return &Shared{name: name, left: allocatable}
}

// SetAside takes what a pod requests whose containers do not share.
func (n *Shared) SetAside(requests pricing.Resources) { n.left = n.left.Minus(requests) }

// Add has the containers of a pod share that its workload does not leave alone. What the pod
// requests beside them is set aside. A pod with limits that are its requests keeps them, since a
// resize may not change its class of service.
func (n *Shared) Add(pod string, requests pricing.Resources, size *Pod, w *Wants) {
	var share pricing.Resources
	for _, c := range size.Containers {
		s := sharer{c, pod, w.Limits, w.Policies.of(c.Name), w.Held == nil && w.Mode.Acts(), size.Ranges.Container}
		if asks := s.asks(); !s.policy.Off && asks != (pricing.Resources{}) && !guaranteed(size.Containers) {
			n.among = append(n.among, s)
			share = share.Plus(asks)
		}
	}
	beside := requests.Minus(share)
	n.SetAside(pricing.Resources{CPU: max(beside.CPU, 0), Memory: max(beside.Memory, 0)})
}

// guaranteed reports whether all containers request their limits, which is a class of service.
func guaranteed(all []Container) bool {
	return !slices.ContainsFunc(all, func(c Container) bool {
		return c.Limits.CPU == 0 || c.Limits.Memory == 0 || c.asks() != c.Limits
	})
}

func (c *Container) asks() (all pricing.Resources) {
	for _, r := range both {
		r.set(&all, c.request(r))
	}
	return all
}

// share shares the node. Where a share would be less than its container requests, the request is
// set aside as well, and the others share the rest.
func (n *Shared) share() []share {
	if n.shares != nil {
		return n.shares
	}
	n.shares = make([]share, len(n.among))
	left, in := n.left, make([]int, len(n.among))
	for i := range in {
		in[i] = i
	}
	for before := len(in) + 1; len(in) < before; {
		before = len(in)
		n.split(left, in)
		in = slices.DeleteFunc(in, func(i int) bool {
			s, asks := &n.shares[i], n.among[i].asks()
			if s.short = !asks.Within(s.limits); s.short {
				left = left.Minus(asks)
			}
			return s.short
		})
	}
	return n.shares
}

// split shares out what is left among some. Those of each rule share a part of it that is in
// proportion to what they request: so no workload gets more than another by its rule.
func (n *Shared) split(left pricing.Resources, in []int) {
	for _, rule := range Rules() {
		at := map[string]int{}
		var demands []Demand
		var ours, all pricing.Resources
		for _, i := range in {
			s := &n.among[i]
			asks := s.asks()
			all = all.Plus(asks)
			if s.rule == rule {
				ours = ours.Plus(asks)
				name := s.pod + "/" + s.Name
				at[name] = i
				demands = append(demands, Demand{Pod: name, Requests: asks})
			}
		}
		if len(demands) == 0 {
			continue
		}
		var part pricing.Resources
		for _, r := range both {
			r.set(&part, portion(r.of(left), r.of(ours), r.of(all)))
		}
		// A rule wants some of everything. What the node lacks is not shared below.
		limits, err := FairLimits(rule, pricing.Resources{CPU: max(part.CPU, 1), Memory: max(part.Memory, 1)}, demands)
		for _, l := range limits {
			for _, r := range both {
				if err != nil || r.of(part) <= 0 {
					r.set(&l.Limits, 0)
				}
			}
			n.shares[at[l.Pod]].limits = l.Limits
		}
	}
}

// portion is the part of an amount that is to it as some is to all, rounded down.
func portion(amount, some, all int64) int64 {
	if amount <= 0 || all == 0 {
		return 0
	}
	part := new(big.Int).Mul(big.NewInt(amount), big.NewInt(some))
	return part.Quo(part, big.NewInt(all)).Int64()
}

// with is the node when the containers of a pod have changed.
func (n *Shared) with(pod string, changes []Change) *Shared {
	w := &Shared{name: n.name, left: n.left, among: slices.Clone(n.among)}
	for i := range w.among {
		s := &w.among[i]
		for _, c := range changes {
			if s.pod == pod && s.Name == c.Container {
				s.Requests = c.Requests
			}
		}
	}
	return w
}

// Took takes in that a pod was changed, so that the next one is judged by it.
func (n *Shared) Took(pod string, changes []Change) {
	for i := range n.among {
		s := &n.among[i]
		for _, c := range changes {
			if s.pod == pod && s.Name == c.Container {
				s.Requests, s.Limits, n.shares = c.Requests, c.Limits, nil
			}
		}
	}
}
