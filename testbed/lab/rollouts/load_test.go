package rollouts

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/serving"
)

// The load of the lab's services, in which pods are so busy that it shows when two of a service are
// away at once.
const (
	replicas = 4 // of a service, of which one may be away
	target   = 250 * time.Millisecond
	budget   = .05 // of the requests may be later, by the objective
	perPod   = 14. // requests a second, with which a pod is busy for more than half of the time
	demand   = 40 * time.Millisecond
	spread   = .5
	cores    = 1.1
)

// The late share says whether pods were missing: with one of four away all is well for as long as
// you like, and with two away for a fifth of the time the objective is missed.
func TestTheLoadTellsWhetherTooManyPodsAreAway(t *testing.T) {
	always := func(n int) func(time.Duration) int { return func(time.Duration) int { return n } }
	if late := lateShare(always(replicas - 1)); late > budget/2 {
		t.Errorf("with one away %.1f %% are late, of %.0f %% that may be", 100*late, 100*budget)
	}
	sometimes := func(at time.Duration) int {
		if at%(50*time.Second) < 10*time.Second {
			return replicas - 2
		}
		return replicas
	}
	if late := lateShare(sometimes); late < 2*budget {
		t.Errorf("with two away at times %.1f %% are late, and %.0f %% may be", 100*late, 100*budget)
	}
}

// lateShare sends the load of a service to as many of its pods as are there, for twenty minutes.
// Pods that are away are given no request.
func lateShare(there func(at time.Duration) int) float64 {
	pods := make([]*serving.Pod[time.Duration], replicas)
	for i := range pods {
		p := serving.New[time.Duration](cores, 64, 0)
		pods[i] = &p
	}
	chance := rand.New(rand.NewPCG(1, 2))
	law := serving.Demand{Mean: demand, Spread: spread}
	asked, late := 0, 0
	finish := func(until time.Duration) {
		for _, p := range pods {
			for due, busy := p.Due(); busy && due <= until; due, busy = p.Due() {
				if began, out := p.Finish(due); out && due-began > target {
					late++
				}
			}
		}
	}
	for at := time.Duration(0); at < 20*time.Minute; asked++ {
		at += time.Duration(chance.ExpFloat64() * float64(time.Second) / (perPod * replicas))
		finish(at)
		serving.Pick(pods[:there(at)], serving.LeastOfTwo, chance).Accept(at, law.Draw(chance), 0, at)
	}
	return float64(late) / float64(asked)
}
