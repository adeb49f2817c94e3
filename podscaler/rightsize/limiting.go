package rightsize

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// ContainerLimits is what a container may use in the pods of a workload, by their shares of their
// nodes. A resource is 0 that the container has no share of, or that is left alone.
type ContainerLimits struct {
	Container   string
	Least, Most pricing.Resources
	Reasons     []Reason
}

// limitsOf are the shares of a workload's pods, by container. Pods are sorted by name.
func limitsOf(pods []Candidate) (all []ContainerLimits) {
	by := map[string]*ContainerLimits{}
	for i := range pods {
		n := pods[i].Node
		if n == nil {
			continue
		}
		for at, share := range n.share() {
			s := &n.among[at]
			if s.pod != pods[i].Name {
				continue
			}
			if by[s.Name] == nil {
				by[s.Name] = &ContainerLimits{Container: s.Name}
			}
			by[s.Name].take(s, share, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[name])
	}
	return all
}

// take takes in the share of one pod. The reasons are those of the pod with the least CPU, and of
// the first one that has no share.
func (l *ContainerLimits) take(s *sharer, share share, n *Shared) {
	limits, why := s.controlled(share.limits), s.why(share, n)
	why.Text = fmt.Sprintf("pod %s: %s", s.pod, why.Text)
	at := slices.IndexFunc(l.Reasons, func(r Reason) bool { return r.Code == why.Code })
	switch {
	case at < 0:
		l.Reasons = append(l.Reasons, why)
	case !share.short && limits.CPU < l.Least.CPU:
		l.Reasons[at] = why
	}
	if share.short {
		return
	}
	if at < 0 {
		l.Least = limits
	}
	for _, r := range both {
		r.set(&l.Least, min(r.of(l.Least), r.of(limits)))
		r.set(&l.Most, max(r.of(l.Most), r.of(limits)))
	}
}

// controlled are the amounts of the resources that are not left alone.
func (s *sharer) controlled(of pricing.Resources) pricing.Resources {
	for _, r := range both {
		if !s.policy.controls(r) {
			r.set(&of, 0)
		}
	}
	return of
}

// why says what its share is, or that it has none.
func (s *sharer) why(share share, n *Shared) Reason {
	text := func(of pricing.Resources) string {
		return CPU.text(int64(of.CPU)) + " and " + Memory.text(int64(of.Memory))
	}
	rule := strings.ToUpper(string(s.rule))
	if share.short {
		return because(ReasonBelowRequest, "container %s: by %s it has %s of node %s, less than it requests, %s: a limit cannot be, and others share what it leaves",
			s.Name, rule, text(share.limits), n.name, text(s.asks()))
	}
	return because(ReasonShare, "container %s: by %s it has %s of the %s that containers of node %s share", s.Name, rule, text(share.limits), text(n.left), n.name)
}

// limit returns the changes of a pod with its shares of the node as limits, and why. Those of its
// limits alone are changes, too.
func (n *Shared) limit(p *Candidate, changes []Change) (fit []Change, why []Reason) {
	if len(changes) > 0 {
		n = n.with(p.Name, changes)
	}
	shares, next := n.share(), map[int]pricing.Resources{}
	var stays []Reason
	for i := range n.among {
		if s := &n.among[i]; s.pod == p.Name {
			limits, held := s.next(shares[i], p.uses(s.Name))
			if shares[i].short {
				held = append(held, s.why(shares[i], n))
			}
			next[i], stays = limits, append(stays, held...)
		}
	}
	stays = append(stays, n.wait(next)...)
	fit = slices.Clone(changes)
	for _, i := range slices.Sorted(maps.Keys(next)) {
		s := &n.among[i]
		at := slices.IndexFunc(fit, func(c Change) bool { return c.Container == s.Name })
		if at >= 0 {
			fit[at].Limits = next[i]
		} else if next[i] != s.Limits {
			fit = append(fit, Change{s.Name, s.Sidecar, s.Requests, next[i]})
		}
		if next[i] != s.keeps() {
			why = append(why, s.why(shares[i], n))
		}
	}
	fit, held := p.withinRanges(fit, changes)
	stays = append(stays, held...)
	if len(fit) > 0 && guaranteed(p.changed(fit)) {
		return changes, []Reason{because(ReasonQoSFixed, "its shares of node %s are what it requests, and limits at that would be another class of service", n.name)}
	}
	return fit, append(why, stays...)
}

// withinRanges has the limits of a resource stay in proportion to requests, as changes have them,
// where the pod's ranges admit nothing else.
func (p *Pod) withinRanges(fit, changes []Change) (within []Change, why []Reason) {
	fit, plain := slices.Clone(fit), p.changed(changes)
	for _, r := range both {
		against := p.against(r, p.changed(fit))
		if against == "" {
			continue
		}
		why = append(why, because(ReasonLimitRange, "its limits of %s do not become its shares of its node: %s", r, against))
		for i := range fit {
			at := slices.IndexFunc(plain, func(c Container) bool { return c.Name == fit[i].Container })
			r.set(&fit[i].Limits, r.of(plain[at].Limits))
		}
	}
	return slices.DeleteFunc(fit, func(c Change) bool {
		return slices.ContainsFunc(p.Containers, func(was Container) bool {
			return was.Name == c.Container && was.Requests == c.Requests && was.Limits == c.Limits
		})
	}), why
}

// changed are the containers of a pod after changes.
func (p *Pod) changed(changes []Change) []Container {
	all := slices.Clone(p.Containers)
	for i := range all {
		for _, c := range changes {
			if c.Container == all[i].Name {
				all[i].Requests, all[i].Limits = c.Requests, c.Limits
			}
		}
	}
	return all
}

// uses is how much memory a container of the pod was last measured to use.
func (p *Candidate) uses(container string) podscaler.Sample {
	for _, use := range p.Uses {
		if use.Name == container {
			return use.Memory
		}
	}
	return podscaler.Sample{}
}

// keeps are its limits as they are, which must not be below its requests.
func (s *sharer) keeps() pricing.Resources {
	limits := s.Limits
	for _, r := range both {
		if r.of(limits) > 0 {
			r.set(&limits, max(r.of(limits), r.of(s.Requests)))
		}
	}
	return limits
}

// next are the limits that it is to have, and why one stays that should be less. One that is less
// than its share is only raised by a tenth or more: pods come and go, and each would have all
// others on its node resized. No memory is taken away that is in use, as far as is known.
func (s *sharer) next(share share, uses podscaler.Sample) (next pricing.Resources, stays []Reason) {
	next = s.keeps()
	for _, r := range both {
		old, limit := r.of(next), s.within.limits(r, r.of(share.limits), s.request(r))
		lowers := old == 0 || limit < old
		switch {
		case share.short || limit == 0 || !s.policy.controls(r) || limit == old:
		case !lowers && float64(limit) < float64(old)*(1+driftPart):
		case slices.Contains(s.Restarts, r):
			stays = append(stays, because(ReasonRestarts, "container %s would restart with another limit of %s: its resize policy says so, and the limit stays", s.Name, r))
		case r == Memory && lowers && !uses.Known:
			stays = append(stays, because(ReasonBelowUse, "container %s: its limit of memory stays until it is known how much it uses", s.Name))
		case r == Memory && lowers && uses.Value > float64(limit):
			stays = append(stays, because(ReasonBelowUse, "container %s: its share of memory, %s, is less than it uses, %s: the limit stays",
				s.Name, r.text(limit), r.text(amount(uses.Value))))
		default:
			r.set(&next, limit)
		}
	}
	return next, stays
}

// takes is what a sharer takes of its node with these limits. Without a limit, or with one that is
// not ours to set, that is its share.
func (s *sharer) takes(limits pricing.Resources, share share) pricing.Resources {
	all := share.limits
	for _, r := range both {
		switch limit := r.of(limits); {
		case share.short:
			r.set(&all, s.request(r))
		case s.acts && limit > 0:
			r.set(&all, limit)
		}
	}
	return all
}

// wait takes back what a pod's limits are raised by if the node has no room for that: others are
// lowered first.
func (n *Shared) wait(next map[int]pricing.Resources) (stays []Reason) {
	left := n.left
	for i, share := range n.share() {
		limits, mine := next[i]
		if !mine {
			limits = n.among[i].Limits
		}
		left = left.Minus(n.among[i].takes(limits, share))
	}
	for _, r := range both {
		if r.of(left) >= 0 {
			continue
		}
		for _, i := range slices.Sorted(maps.Keys(next)) {
			s, limits := &n.among[i], next[i]
			if old := r.of(s.keeps()); old > 0 && r.of(limits) > old {
				r.set(&limits, old)
				next[i] = limits
				stays = append(stays, because(ReasonOverNode, "container %s: its limit of %s is raised when others on node %s were lowered, which has no room for both", s.Name, r, n.name))
			}
		}
	}
	return stays
}
