package testbed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// takers are the hosts that may carry machines of the pool.
func (e *Experiment) takers(p *Pool) []Host {
	if len(p.Hosts) == 0 {
		return e.Hosts
	}
	var out []Host
	for _, h := range e.Hosts {
		if slices.Contains(p.Hosts, h.Name) {
			out = append(out, h)
		}
	}
	return out
}

// holds reports whether the host has room for a machine of the shape, if it carries no other.
func (h Host) holds(s pricing.Shape) bool {
	return s.Resources().Within(pricing.Resources{CPU: h.CPU, Memory: h.Memory})
}

// validateRoom wants hosts to have room for every shape, and for all machines that a trial starts
// with. Faults of hosts and pools are reported before, and would be reported again.
func (e checker) validateRoom() {
	before := len(*e.f)
	for i := range e.Pools {
		hosts := e.takers(&e.Pools[i])
		for j, s := range e.Pools[i].Shapes {
			fits := slices.ContainsFunc(hosts, func(h Host) bool { return h.holds(s) })
			e.f.Must(fits, fmt.Sprintf("pools[%d].shapes[%d]", i, j), "must fit onto a host of the pool", resources(s.Resources()))
		}
	}
	if len(*e.f) > before {
		return
	}
	places, err := e.placesOf(&Policy{})
	if err == nil {
		return
	}
	for i := range e.Pools {
		placed := 0
		for _, at := range places {
			if at.Pool.Name == e.Pools[i].Name {
				placed++
			}
		}
		if start := e.Pools[i].Start; placed < start {
			e.f.Must(false, fmt.Sprintf("pools[%d].start", i), fmt.Sprintf("must fit onto the hosts, which have room for %d beside the machines of the pools before", placed), start)
			return
		}
	}
}

// placesOf are where the machines are that a policy's trials start with.
func (e *Experiment) placesOf(p *Policy) ([]sim.Place, error) {
	c := e.ground(p)
	return c.Places()
}

// listed puts what there is in a row.
func listed[T any](all []T, text func(T) string) string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = text(all[i])
	}
	return cmp.Or(strings.Join(out, ", "), string(absent))
}

// String is the toleration as kubectl writes it.
func (t Toleration) String() string {
	out := t.Key
	if t.Value != "" {
		out += "=" + t.Value
	}
	if t.Effect != "" {
		out += ":" + t.Effect
	}
	return out
}

// validateWhere wants a workload's pods to run on machines of some pool. It asks for one thing
// after the other, as what is not so may come of what was not before.
func (e checker) validateWhere(path string, w *Workload) {
	before := len(*e.f)
	pod := nodescaler.Pod{Selector: w.Selector}
	for i, t := range w.Tolerations {
		pod.Tolerations = append(pod.Tolerations, nodescaler.Toleration{Key: t.Key, Value: t.Value, Effect: t.Effect})
		if t.Effect != "" {
			e.f.OneOf(fmt.Sprintf("%s.tolerations[%d].effect", path, i), t.Effect, taintEffects)
		}
	}
	left := e.Pools
	narrow := func(key, rule, was string, fits func(*Pool) bool) {
		left = slices.DeleteFunc(slices.Clone(left), func(p Pool) bool { return !fits(&p) })
		e.f.Must(len(left) > 0 || len(*e.f) > before, path+key, rule, words(was))
	}
	narrow(".selector", "must be among the labels of some pool", listed(slices.Sorted(maps.Keys(w.Selector)), func(key string) string {
		return key + "=" + w.Selector[key]
	}), func(p *Pool) bool {
		return nodescaler.Accepts(&pod, &nodescaler.Node{Labels: p.Labels}) == ""
	})
	narrow(".tolerations", "must cover the taints of some pool that the selector allows", listed(w.Tolerations, Toleration.String), func(p *Pool) bool {
		return nodescaler.Tolerates(&pod, p.forNodes(0).Taints)
	})
	extra := pricing.AmountsOf(w.Resources)
	amounts(e.f, path+".resources", w.Resources)
	narrow(".resources", "must be on a machine of some pool that the pods may run on", extra.String(), func(p *Pool) bool {
		pool := p.forNodes(0)
		return slices.ContainsFunc(p.Shapes, func(s pricing.Shape) bool { return pool.Extras(s).Lacks(extra, nil) == "" })
	})
	narrow(".requests", "must fit onto a machine of some pool that the pods may run on", string(resources(w.Requests)), func(p *Pool) bool {
		return slices.ContainsFunc(p.Shapes, func(s pricing.Shape) bool { return w.Requests.Within(s.Resources().Minus(p.Reserved)) })
	})
}
