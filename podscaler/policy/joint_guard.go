package policy

import (
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// guard bounds what the model may ask for, by what an HPA would go by: the CPU that pods use of
// what they may, and whether the objective holds. It knows nothing of requests, curves or
// forecasts, so that an error in those costs no more than the guard lets it.
//
// What is safe is what an HPA at guardLoad would ask for that looks back for as long as replicas
// are kept. No more than guardTimes as many and guardMore are asked for: pods are all but idle
// then, and more of them shorten nothing. Where even idle pods would miss the objective by far, it
// is given up, and pods are kept at guardLoad.
type guard struct {
	counts []need    // what was safe, oldest first; each above those after it
	last   time.Time // when it was last seen
	cores  float64   // that pods used when that was last known
	// missed is for how long idle pods would have missed the objective by far, less the time in
	// which they would not.
	missed time.Duration
	off    bool      // it bounds nothing from above
	never  bool      // it gives up nothing
	times  float64   // how many times the objective they were at when it was given up
	since  time.Time // when that was; zero while it is not
}

const (
	// guardLoad is how full of what they may use a careful owner would set an HPA to keep pods.
	guardLoad = 0.6
	// guardTimes of what is safe, and guardMore, are asked for at most.
	guardTimes, guardMore = 3, 6
	// airyLoad is a load up to which response times show what they would be on idle pods: they
	// rise by the power of sharing. ByFar is how many times the objective those are where it is
	// given up.
	airyLoad, sharing, byFar = 0.7, 0.6, 1.25
	// missedFor is how many windows have to have shown it: of machines that boot, or a neighbour
	// that leaves, more pods do help.
	// Where it is missed by more they are fewer, and never one alone.
	missedFor, soonest = 5, 4
	// trusted is how many times what they request pods are taken to be able to use at most: what
	// was seen of the rest may be gone once the node is full.
	trusted = 2
	// triedAgain is how long after it was given up it is tried again if it has not held since.
	triedAgain = 24 * time.Hour
)

// see takes in what pods use that may use so many cores each. Where they hold a queue they are
// full: what was measured may be older.
func (g *guard) see(v *podscaler.View, quota float64, queued bool) {
	serves, quota := serving(v.Pods), safely(v, quota)
	cores, known := used(v.Pods)
	if known {
		g.cores = cores
	}
	safe := max(ceil(g.cores/(quota*guardLoad)), 1)
	if queued || !known && len(g.counts) == 0 {
		safe = max(safe, ceil(float64(serves)/guardLoad))
	}
	for len(g.counts) > 0 && v.Now.Sub(g.counts[0].at) > longKeep {
		g.counts = g.counts[1:]
	}
	for n := len(g.counts) - 1; n >= 0 && g.counts[n].replicas <= safe; n-- {
		g.counts = g.counts[:n]
	}
	g.counts = append(g.counts, need{at: v.Now, replicas: safe})
	load := cores / (quota * float64(serves))
	g.judge(v, known && !queued && load <= airyLoad, load)
	g.last = v.Now
}

// judge gives the objective up, or tries it again, by what response times would be on idle pods,
// where those that there are show it.
func (g *guard) judge(v *podscaler.View, shown bool, load float64) {
	latency, known := v.Window.Latency.Number()
	times := latency / v.Workload.SLO.Target.Seconds()
	best := times * math.Pow(1-load, sharing)
	passed := min(max(v.Now.Sub(g.last), 0), measured(v))
	switch {
	case g.last.IsZero() || !known:
	case times <= 1 || g.beyond() && v.Now.Sub(g.since).Abs() >= triedAgain:
		g.missed, g.since = 0, time.Time{}
	case shown && best >= byFar:
		g.missed += time.Duration(float64(passed) * min((best-1)/(byFar-1), soonest))
	default:
		g.missed = max(g.missed-passed, 0)
	}
	if !g.never && !g.beyond() && g.missed >= missedFor*measured(v) {
		g.times, g.since = best, v.Now
	}
}

// beyond reports whether the objective is given up.
func (g *guard) beyond() bool { return !g.since.IsZero() }

// least is how many are asked for at least where pods may be so full. Where it is not known what
// they use, it is what they used.
func (g *guard) least(v *podscaler.View, quota, load float64) int {
	cores, known := used(v.Pods)
	if !known {
		cores = g.cores
	}
	return max(ceil(cores/(safely(v, quota)*load)), 1)
}

// safely is how much of what a pod may use is relied on.
func safely(v *podscaler.View, quota float64) float64 {
	return min(quota, trusted*float64(v.Workload.Pod.CPU)/1000)
}

// most is how many are asked for at most.
func (g *guard) most() int {
	if g.off || len(g.counts) == 0 {
		return math.MaxInt32
	}
	return guardTimes*g.counts[0].replicas + guardMore
}
