package operator

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

// blurs is for how long after a fault a process may have an old picture without knowing it.
const blurs = 6 * time.Minute

// apiHappenings are what the lives with an API server may meet besides, by kind. They last until
// another of the kind ends them, or all is calm.
var apiHappenings = map[string]func(*life, *rand.Rand){
	"watches break": func(l *life, r *rand.Rand) {
		l.api.meets(r, "breaks", kubesim.Faults{Breaks: time.Duration(1+r.IntN(60)) * time.Second})
	},
	"watches mute":  func(l *life, r *rand.Rand) { l.api.meets(r, "mute", kubesim.Faults{Mute: true}) },
	"410 Gone":      func(l *life, r *rand.Rand) { l.api.meets(r, "gone", kubesim.Faults{Gone: r.Float64()}) },
	"API conflicts": func(l *life, r *rand.Rand) { l.api.meets(r, "crossed", kubesim.Faults{Crossed: r.Float64()}) },
	"answers lost":  func(l *life, r *rand.Rand) { l.api.meets(r, "lost", kubesim.Faults{Lost: r.Float64()}) },
	"API slow": func(l *life, r *rand.Rand) {
		l.api.meets(r, "slow", kubesim.Faults{Slow: time.Duration(1+r.IntN(10)) * time.Second})
	},
	"API busy":    func(l *life, r *rand.Rand) { l.api.meets(r, "busy", kubesim.Faults{Busy: r.Float64()}) },
	"API unready": func(l *life, r *rand.Rand) { l.api.meets(r, "unready", kubesim.Faults{Unready: true}) },
	"API forbids": func(l *life, r *rand.Rand) {
		what := one(r, []string{"pods", "nodes", "deployments.apps", "poddisruptionbudgets.policy", "leases.coordination.k8s.io"})
		l.api.meets(r, "forbidden", kubesim.Faults{Forbidden: []string{what}})
	},
	"API compacts": func(l *life, r *rand.Rand) {
		l.api.server.Compact()
		one(r, l.api.seats).client.Break()
	},
	"node finalizer": func(l *life, r *rand.Rand) {
		if len(l.nodes) > 0 {
			l.api.holding[one(r, l.nodes).Name] = l.sim.Now().Add(time.Duration(1+r.IntN(20)) * time.Minute)
		}
	},
	"pod finalizer": func(l *life, r *rand.Rand) { // pods that leave take longer
		for _, p := range l.pods {
			if !p.ends.IsZero() {
				p.ends = p.ends.Add(time.Duration(r.IntN(10)) * time.Minute)
			}
		}
	},
}

// apiFaults are what kinds of happenings of all lives are where there is an API server.
var apiFaults = map[string]func(*rand.Rand) kubesim.Faults{
	"API stale": func(r *rand.Rand) kubesim.Faults {
		return kubesim.Faults{Late: time.Duration(1+r.IntN(60)) * time.Second}
	},
	"API silent": func(r *rand.Rand) kubesim.Faults {
		hangs := r.IntN(2) == 0
		return kubesim.Faults{Hangs: hangs, Refused: !hangs}
	},
	"API writes fail": func(r *rand.Rand) kubesim.Faults { return kubesim.Faults{Errors: r.Float64()} },
}

// moreEventsOf draws what happens besides, of kinds that not every life meets.
func moreEventsOf(seed, stream uint64, of map[string]func(*life, *rand.Rand)) (all []event) {
	rng := rand.New(rand.NewPCG(seed, stream))
	kinds := slices.Sorted(maps.Keys(of))
	some := slices.DeleteFunc(kinds, func(string) bool { return rng.IntN(3) > 0 })
	for range 4 + rng.IntN(12) {
		if len(some) > 0 {
			all = append(all, event{time.Duration(rng.Int64N(int64(troubleFor))), some[rng.IntN(len(some))], rng.Uint64()})
		}
	}
	return all
}

// happens has something happen in a life.
func (l *life) happens(e event) {
	r := rand.New(rand.NewPCG(e.n, 4))
	switch fault := apiFaults[e.kind]; {
	case l.api != nil && fault != nil:
		l.api.meets(r, e.kind, fault(r))
	case apiHappenings[e.kind] != nil:
		apiHappenings[e.kind](l, r)
	case providerHappenings[e.kind] != nil:
		providerHappenings[e.kind](l, r)
	case rolloutHappenings[e.kind] != nil:
		rolloutHappenings[e.kind](l, r)
	case lifecycleHappenings[e.kind] != nil:
		lifecycleHappenings[e.kind](l, r)
	case approveHappenings[e.kind] != nil:
		approveHappenings[e.kind](l, r)
	default:
		happenings[e.kind](l, r)
	}
}

// meets has one process or both meet a fault, or what there was of it ends.
func (a *apiServer) meets(r *rand.Rand, kind string, f kubesim.Faults) {
	if r.IntN(2) == 0 {
		f = kubesim.Faults{}
	}
	of := a.seats
	if r.IntN(2) == 0 {
		of = []*seat{one(r, a.seats)}
	}
	a.blurred = a.sim.Now().Add(24 * time.Hour)
	for _, s := range of {
		a.note("FAULT of %s: %s %s", s.name, kind, f)
		s.meets(kind, f)
	}
}

// meets has a process meet a fault besides those of other kinds.
func (s *seat) meets(kind string, f kubesim.Faults) {
	s.faults[kind] = f
	var all kubesim.Faults
	for _, f := range s.faults {
		all.Refused, all.Hangs = all.Refused || f.Refused, all.Hangs || f.Hangs
		all.Unready, all.Mute = all.Unready || f.Unready, all.Mute || f.Mute
		all.Errors, all.Busy, all.Lost = max(all.Errors, f.Errors), max(all.Busy, f.Busy), max(all.Lost, f.Lost)
		all.Crossed, all.Gone = max(all.Crossed, f.Crossed), max(all.Gone, f.Gone)
		all.Slow, all.Late = max(all.Slow, f.Slow), max(all.Late, f.Late)
		all.Breaks = max(all.Breaks, f.Breaks)
		all.Forbidden = append(all.Forbidden, f.Forbidden...)
	}
	s.client.Fail(all)
}

// calm ends all faults of the API server.
func (a *apiServer) calm() {
	a.blurred = a.sim.Now().Add(blurs)
	for _, s := range a.seats {
		clear(s.faults)
		s.client.Fail(kubesim.Faults{})
	}
	clear(a.holding)
}
