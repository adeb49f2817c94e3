package rightsize

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// Ranges are what the LimitRanges of a pod's namespace allow together. The API server refuses pods,
// and resizes, that are not within them, so that what is recommended is brought within them first,
// as the Vertical Pod Autoscaler's admission controller does.
//
// It differs from that one in seven ways. Where a LimitRange and the policy contradict each other,
// the LimitRange counts. Containers without a recommendation stay as they are. What is raised for a
// minimum is rounded up, and limits are, so that a pod keeps its class of service. The default is a
// limit among those of the pod. Sidecars are sized, and count. Limits keep to the
// maxLimitRequestRatio of the container, and together to that of the pod. And what would not be
// admitted stays as it is. testbed/peers/vpa has the API server's own LimitRanger judge.
type Ranges struct {
	Container Range `json:"container,omitzero"`
	// Pod bounds the sums over the pod's containers.
	Pod Range `json:"pod,omitzero"`
}

// Range is one type of them. An amount of 0 is no bound.
type Range struct {
	// Min bounds requests and limits, Max limits.
	Min pricing.Resources `json:"min,omitzero"`
	Max pricing.Resources `json:"max,omitzero"`
	// Default is the limit of a container that sets none. Pods have no default.
	Default pricing.Resources `json:"default,omitzero"`
	// Ratio is how many thousandths of its request a limit may be.
	Ratio pricing.Resources `json:"ratio,omitzero"`
}

// And is what two ranges allow together. Of two defaults the last counts.
func (g Range) And(o Range) Range {
	for _, r := range both {
		least := func(a, b int64) int64 {
			if a == 0 || b > 0 && b < a {
				return b
			}
			return a
		}
		r.set(&g.Min, max(r.of(g.Min), r.of(o.Min)))
		r.set(&g.Max, least(r.of(g.Max), r.of(o.Max)))
		r.set(&g.Ratio, least(r.of(g.Ratio), r.of(o.Ratio)))
		if v := r.of(o.Default); v > 0 {
			r.set(&g.Default, v)
		}
	}
	return g
}

// admitted is what is recommended for a pod, within its ranges, and what of it is otherwise.
func (p *Pod) admitted(recommended []Recommendation) (all []Recommendation, why []Reason) {
	if p.Ranges == (Ranges{}) {
		return recommended, nil
	}
	all = slices.Clone(recommended)
	for _, r := range both {
		for _, part := range []func(*Recommendation) *pricing.Resources{
			func(rec *Recommendation) *pricing.Resources { return &rec.Target },
			func(rec *Recommendation) *pricing.Resources { return &rec.Lower },
			func(rec *Recommendation) *pricing.Resources { return &rec.Upper },
		} {
			p.together(r, all, part)
			for i := range all {
				if c := p.container(&all[i], r); c != nil {
					r.set(part(&all[i]), p.Ranges.Container.admits(r, c, r.of(*part(&all[i]))))
				}
			}
		}
		for i := range all {
			if was, is := r.of(recommended[i].Target), r.of(all[i].Target); was != is && p.container(&all[i], r) != nil {
				why = append(why, because(ReasonLimitRange, "container %s: a LimitRange of its namespace admits %s of %s, not %s",
					all[i].Container, r.text(is), r, r.text(was)))
			}
		}
	}
	return all, why
}

// container is the pod's that a resource is recommended for, or nil.
func (p *Pod) container(rec *Recommendation, r Resource) *Container {
	i := slices.IndexFunc(p.Containers, func(c Container) bool { return c.Name == rec.Container })
	if i < 0 || !rec.Has(r) {
		return nil
	}
	return &p.Containers[i]
}

// proportion is what a container requests, and the limit that it has or gets without.
func (g *Range) proportion(r Resource, c *Container) (request, limit int64) {
	request, limit = c.request(r), r.of(c.Limits)
	if limit == 0 && r.of(g.Default) > 0 {
		limit = max(request, r.of(g.Default))
	}
	if request == 0 {
		request = limit
	}
	return request, limit
}

func (g *Range) limited(r Resource, c *Container) bool {
	_, limit := g.proportion(r, c)
	return limit > 0
}

// admits is the request next to an amount with which the container's request and limit are within
// the range, if the limit stays in proportion.
func (g *Range) admits(r Resource, c *Container, amount int64) int64 {
	least, most := r.of(g.Min), int64(math.MaxInt64)
	if request, limit := g.proportion(r, c); limit > 0 {
		least = max(least, partOf(least, request, limit, true))
		if high := r.of(g.Max); high > 0 {
			most = partOf(high, request, limit, false)
		}
	}
	return min(max(amount, least), most)
}

// together brings a part of the recommendations within what is allowed for all containers of the
// pod together, each in proportion.
func (p *Pod) together(r Resource, all []Recommendation, part func(*Recommendation) *pricing.Resources) {
	g := &p.Ranges.Pod
	least, most := r.of(g.Min), r.of(g.Max)
	var starts Start // which may come to the least by themselves
	for _, s := range p.Starts {
		r.set(&starts.Requests, max(r.of(starts.Requests), r.of(s.Requests)))
		r.set(&starts.Limits, max(r.of(starts.Limits), r.of(s.Limits)))
	}
	if requests, of := p.sum(r, all, part, false); of > 0 && max(requests, r.of(starts.Requests)) < least {
		p.scale(r, all, part, least-(requests-of), of, true)
	}
	limits, of := p.sum(r, all, part, true)
	// Each was rounded up.
	for pass := 0; pass < 4 && of > 0 && max(limits, r.of(starts.Limits)) < least; pass++ {
		p.scale(r, all, part, least-(limits-of), of, true)
		limits, of = p.sum(r, all, part, true)
	}
	if most == 0 {
		return
	}
	if of > 0 && limits > most {
		p.scale(r, all, part, max(most-(limits-of), 0), of, false)
		for range all { // each limit was rounded up, or its request to 1
			if limits, _ = p.sum(r, all, part, true); limits > most {
				p.lower(r, all, part, limits-most)
			}
		}
	}
	// Not all have limits.
	if requests, of := p.sum(r, all, part, false); of > 0 && requests > most {
		p.scale(r, all, part, max(most-(requests-of), 0), of, false)
	}
}

// lower takes so much off the limit of the container with the largest amount, of those that have a
// limit, as far as it is above 1.
func (p *Pod) lower(r Resource, all []Recommendation, part func(*Recommendation) *pricing.Resources, excess int64) {
	largest, of := int64(1), -1
	for i := range all {
		c := p.container(&all[i], r)
		if v := r.of(*part(&all[i])); c != nil && v > largest && p.Ranges.Container.limited(r, c) {
			largest, of = v, i
		}
	}
	if of >= 0 {
		request, limit := p.Ranges.Container.proportion(r, p.container(&all[of], r))
		r.set(part(&all[of]), max(largest-partOf(excess, request, limit, true), 1))
	}
}

// sum is what the pod's containers would request, or be limited to, and how much of that is of
// those that something is recommended for.
func (p *Pod) sum(r Resource, all []Recommendation, part func(*Recommendation) *pricing.Resources, limits bool) (sum, recommended int64) {
	for i := range p.Containers {
		c := &p.Containers[i]
		at := slices.IndexFunc(all, func(rec Recommendation) bool { return rec.Container == c.Name && rec.Has(r) })
		amount := c.request(r)
		if at >= 0 {
			amount = r.of(*part(&all[at]))
		}
		amount = min(amount, most) // an upper bound may be none
		if limits {
			request, limit := p.Ranges.Container.proportion(r, c)
			amount = min(proportional(limit, request, amount), math.MaxInt64>>16)
		}
		if sum += amount; at >= 0 {
			recommended += amount
		}
	}
	return sum, recommended
}

// scale has what is recommended come to a total, of what it comes to, and each to 1 at least.
func (p *Pod) scale(r Resource, all []Recommendation, part func(*Recommendation) *pricing.Resources, to, of int64, up bool) {
	for i := range all {
		if p.container(&all[i], r) != nil {
			r.set(part(&all[i]), max(partOf(r.of(*part(&all[i])), to, of, up), 1))
		}
	}
}

// partOf is amount × by ÷ of, rounded.
func partOf(amount, by, of int64, up bool) int64 {
	n := new(big.Int).Mul(big.NewInt(amount), big.NewInt(by))
	if up {
		n.Add(n, big.NewInt(of-1))
	}
	if n.Quo(n, big.NewInt(of)); !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

// limits is a limit that the range of a container allows beside a request.
func (g *Range) limits(r Resource, limit, request int64) int64 {
	most := limit
	if high := r.of(g.Max); high > 0 {
		most = min(most, high)
	}
	most = min(most, g.widest(r, request))
	if limit == 0 {
		return 0
	}
	return max(most, request)
}

// widest is the largest limit that the ratio allows beside a request.
func (g *Range) widest(r Resource, request int64) int64 {
	ratio := r.of(g.Ratio)
	if ratio == 0 {
		return math.MaxInt64
	}
	most := partOf(request, ratio, 1000, false)
	if g.exceeds(r, request, most) {
		most--
	}
	return most
}

// exceeds reports whether a limit is above the ratio. The API server divides as floating point, by
// which 16.1 times a request is too much of 16.1.
func (g *Range) exceeds(r Resource, request, limit int64) bool {
	return r.of(g.Ratio) > 0 && limit > 0 && float64(limit)/float64(request)*1000 > float64(r.of(g.Ratio))
}

// against is what the API server's LimitRanger has against a pod with such containers, for a
// resource, or "". Where it wants a limit that is not there, its defaults have given one.
func (p *Pod) against(r Resource, all []Container) string {
	for i := range all {
		if why := p.Ranges.Container.against(r, all[i].request(r), r.of(all[i].Limits)); why != "" {
			return "container " + all[i].Name + " would " + why
		}
	}
	for _, s := range p.Starts {
		start := Container{Requests: s.Requests, Limits: s.Limits}
		if why := p.Ranges.Container.against(r, start.request(r), r.of(s.Limits)); why != "" {
			return "an init container would " + why
		}
	}
	requests, limits := p.comesTo(r, all)
	if why := p.Ranges.Pod.against(r, requests, limits); why != "" {
		return "the pod would " + why
	}
	return ""
}

// comesTo is what the pod requests and is limited to with such containers, as it starts or runs.
func (p *Pod) comesTo(r Resource, all []Container) (requests, limits int64) {
	for i := range all {
		requests, limits = requests+all[i].request(r), limits+r.of(all[i].Limits)
	}
	for _, s := range p.Starts {
		start := Container{Requests: s.Requests, Limits: s.Limits}
		request, limit, beside := start.request(r), r.of(s.Limits), s.Sidecars
		for i := range all {
			if all[i].Sidecar && beside > 0 {
				request, limit, beside = request+all[i].request(r), limit+r.of(all[i].Limits), beside-1
			}
		}
		requests, limits = max(requests, request), max(limits, limit)
	}
	return requests, limits
}

func (g *Range) against(r Resource, request, limit int64) string {
	switch least, most := r.of(g.Min), r.of(g.Max); {
	case request < least:
		return fmt.Sprintf("request %s, at least %s", r.text(request), r.text(least))
	case limit > 0 && limit < least:
		return fmt.Sprintf("be limited to %s, at least %s", r.text(limit), r.text(least))
	case most > 0 && max(request, limit) > most:
		return fmt.Sprintf("be limited to %s, at most %s", r.text(max(request, limit)), r.text(most))
	case g.exceeds(r, request, limit):
		return fmt.Sprintf("be limited to %s, at most %.3g times its request, %s", r.text(limit), float64(r.of(g.Ratio))/1000, r.text(request))
	}
	return ""
}

// inRatio lowers limits until those of the pod are no more of its requests than is allowed, each by
// the same part of what it is above its request.
func (p *Pod) inRatio(recommended []Recommendation, changes []Change) {
	for _, r := range both {
		if r.of(p.Ranges.Pod.Ratio) == 0 {
			continue
		}
		var room int64
		requests, limits := p.comesTo(r, p.changed(changes))
		above := make([]int64, len(changes))
		for i := range changes {
			c := Container{Name: changes[i].Container, Requests: changes[i].Requests, Limits: changes[i].Limits}
			sized := slices.ContainsFunc(recommended, func(rec Recommendation) bool { return rec.Container == c.Name && rec.Has(r) })
			if sized && r.of(c.Limits) > 0 {
				above[i] = r.of(c.Limits) - c.request(r)
				room += above[i]
			}
		}
		excess := min(limits-p.Ranges.Pod.widest(r, requests), room)
		for i := range changes {
			if excess > 0 {
				r.set(&changes[i].Limits, r.of(changes[i].Limits)-partOf(above[i], excess, room, true))
			}
		}
	}
}
