package capacity

import "math"

// What is believed of a service before anything of it was seen, beside what was seen of it since. None of it
// decides anything: it is there to tell in what a service is another than it was taken for.

const (
	// aloneQuantile is what the quantile of response times is of the mean time of a request that has a pod for itself, where
	// requests are about the same size, and sharing how sharply it rises where pods share their CPU among them and each
	// request goes to who has least: of pods as loaded as these are, rather than near their ceiling, where bend holds.
	aloneQuantile, sharing = 1.15, 0.6
	// usualQuantile is the one that sharing is of.
	usualQuantile = 0.9
	// idle is a load below which response times are made by other things than sharing, and crowded one beyond which
	// they tell how long a queue is.
	idle, crowded = 0.1, 0.9
	// relevant is the part of the objective that response times have to come to for it to matter what makes them.
	relevant = 0.25
	// fullOften is how often pods have to have been seen full to know what they may use.
	fullOften = 10
)

// Alone is how long a request takes on the mean that has a pod for itself, in seconds; 0 if it is not known. It works
// on one core at a time, however many the pod has.
func (s *Service) Alone() float64 { return s.demand.value / min(s.quota.value, 1) }

// Slowness is how many times as long response times are, by the quantile given, as those of pods that share the CPU
// that they have among requests of about one size, each of which goes to the least loaded. It is not known where what
// was seen tells nothing of it, or response times are too short to matter.
func (s *Service) Slowness(seen *Seen, quantile float64) (times float64, known bool) {
	busy := seen.Arrivals * s.Alone() / seen.Pods
	x := s.Load(seen.Arrivals*s.demand.value, seen.Pods)
	if !s.Measured() || !(0 < quantile && quantile < 1) || !seen.Steady || seen.Queued || !(busy >= idle) || !(x <= crowded) || !(seen.Latency >= relevant*s.objective) {
		return 0, false
	}
	// What sharing adds is spread about as times between chance events are, so that it grows with the quantile as theirs.
	added := (math.Pow(1-x, -sharing) - 1) * math.Log(1-quantile) / math.Log(1-usualQuantile)
	times = seen.Latency / (aloneQuantile * s.Alone() * (1 + added))
	return times, finite(times)
}

// Full is the CPU that pods were seen to use that had more to do than they could, in cores, and whether enough of
// them were to know it.
func (s *Service) Full() (cores float64, known bool) {
	return s.quota.value, s.quota.weight >= fullOften
}
