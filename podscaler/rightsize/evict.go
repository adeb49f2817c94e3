package rightsize

import (
	"math"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// leastReplicas is how many pods there must be for one to be evicted, where nothing else is wanted.
const leastReplicas = 2

// evictions are the last recommendation that pods were evicted for, and since when.
type evictions struct {
	For map[string]pricing.Resources `json:"for,omitempty"` // by container; nil is unknown
	At  time.Time                    `json:"at,omitzero"`
}

// note notes an eviction. All pods that are older than the first one for a recommendation may be
// evicted for it.
func (e *evictions) note(at time.Time, recommended []Recommendation) {
	if e.same(recommended) {
		return
	}
	*e = evictions{map[string]pricing.Resources{}, at}
	for i := range recommended {
		e.For[recommended[i].Container] = recommended[i].Target
	}
}

// same reports whether what is recommended is what pods were evicted for, but for a difference
// that a pod within its bounds would not be resized for.
func (e *evictions) same(recommended []Recommendation) bool {
	if e.For == nil {
		return false
	}
	for i := range recommended {
		rec := &recommended[i]
		for _, r := range rec.Resources {
			was, is := r.of(e.For[rec.Container]), r.of(rec.Target)
			if math.Abs(float64(is-was)) >= driftPart*float64(max(was, 1)) {
				return false
			}
		}
	}
	return true
}

// before reports whether a pod was made after others were evicted for the present recommendation.
// A Sizer that does not know of evictions takes a pod for such a one until it is old.
func (e *evictions) before(now time.Time, recommended []Recommendation, pod *Pod) bool {
	switch {
	case pod.Started.IsZero():
		return true
	case e.For == nil:
		return now.Sub(pod.Started) < driftAge
	}
	return e.same(recommended) && pod.Started.After(e.At)
}

// stays returns why a pod is not evicted although its node has no room for it, or nil. Half of the
// replicas may be away at most, and of fewer than two none.
func (s *Sizer) stays(now time.Time, w *Wants, pods []Candidate, p *Candidate) *Reason {
	least, ready := w.MinReplicas, 0
	if least == 0 {
		least = leastReplicas
	}
	for i := range pods {
		if pods[i].Ready && pods[i].Name != p.Name {
			ready++
		}
	}
	var r Reason
	switch must := w.Replicas - max(w.Replicas/2, 1); {
	case p.Pinned != "":
		r = because(ReasonEvictionHeld, "it is not evicted: %s", p.Pinned)
	case len(pods) < least:
		r = because(ReasonEvictionHeld, "it is not evicted: there must be %d pods for that (rightsize.minReplicas), and there are %d", least, len(pods))
	case ready < must:
		r = because(ReasonEvictionHeld, "it is not evicted: of %d replicas %d others must be ready for that, and %d are", w.Replicas, must, ready)
	case s.evicted.before(now, s.says.Recommended, &p.Pod):
		r = because(ReasonEvictedBefore, "it was made after pods were evicted for what is recommended now, or less than %s ago, and is not evicted for the same", pricing.Short(driftAge))
	default:
		return nil
	}
	return &r
}
