package capacity

import "math"

// airy is a load up to which response times tell what they would be of pods that are all but idle.
const airy = 0.4

// sharing is how sharply response times rise where pods share their CPU among requests and each
// goes to the least loaded: of pods as loaded as these are, rather than near their ceiling, where
// bend holds.
const sharing = 0.6

// AtBest is how many times the objective response times would be of pods that are as empty as they
// are ever kept, by what was seen of them: what is less than 1 holds it. Of pods that are too full
// to tell it is not known, unless it is held.
func (s *Service) AtBest(seen *Seen) (times float64, known bool) {
	x, got := s.Load(seen.Arrivals*s.demand.value, seen.Pods), seen.Latency/s.objective
	if !s.Measured() || !seen.Steady || seen.Queued || !(got > 0) || !(x >= 0 && x <= full) || x > airy && got >= 1 {
		return 0, false
	}
	return got * min(math.Pow((1-x)/(1-lowestCeiling), bend), 1), true
}

// AtBestAlone is the same by the CPU that requests take, which is known before pods are empty. It
// is told only of a service that misses its objective and has never been seen to hold it: where few
// requests take far more than the others most may.
func (s *Service) AtBestAlone(seen *Seen) (times float64, known bool) {
	if s.held > 0 || !s.Measured() || !(seen.Latency > s.objective) {
		return 0, false
	}
	return s.Alone() / s.objective * math.Pow(1-lowestCeiling, -sharing), true
}

// Alone is how long a request takes on the mean that has a pod for itself, in seconds; 0 if it is
// not known. It works on one core at a time, however many the pod has.
func (s *Service) Alone() float64 { return s.demand.value / min(s.quota.value, 1) }
