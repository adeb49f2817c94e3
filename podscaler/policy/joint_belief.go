package policy

import (
	"cmp"
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/pricing"
)

// beliefs are what joint takes for granted of a workload, held against what it has learnt. What was learnt is what
// it goes by, so that a belief that was wrong is no error of its model any more after some minutes; but what made it
// wrong may be something to mend. It decides nothing.
type beliefs struct {
	takes   belief // CPU of a request
	usual   belief // the same over hours
	slow    belief // response times, against those of pods that share their CPU
	tail    belief // answers that take twice as long as the objective's quantile, of those beyond it
	large   belief // CPU time of a request alone, as a part of the objective
	starved belief // CPU that pods request, against what full ones use
	changed belief // CPU of a request, against the usual
	late    belief // seconds that measurements are late
	boots   belief // lead of machines, against the one that is guessed
}

// belief is how far something is from what is believed: a mean that forgets, in logarithms, so that one moment
// that is far off does not stand for all others.
type belief struct {
	mean, weight float64 // weight in windows
	seen         time.Time
	said         bool
}

// turn is from where a belief is said to be wrong, and below what it is no more.
type turn struct{ on, off float64 }

// Each is beyond what comes of chance, and of quotas a sixth below the requests, where all else is as believed.
var (
	slowTurn    = turn{1.6, 1.5}
	tailTurn    = turn{0.21, 0.18}
	largeTurn   = turn{0.5, 0.45}
	starvedTurn = turn{4. / 3, 1.25}
	changedTurn = turn{1.35, 1.2}
	lateTurn    = turn{30, 20}
	bootsTurn   = turn{2, 1.75}
)

const (
	// lasting is how many windows the mean goes over, and enough how many have to have been seen before anything
	// is said. What is usual takes longer: another release is to be told from it for a good while.
	lasting, enough           = 10, 5
	usualLasting, usualEnough = 180, 60
	// nightly is for how long it is remembered while nothing tells of it, as by night.
	nightly = 24 * time.Hour
)

// see takes in a value for a part of a window. What was seen longer ago than oldest is forgotten.
func (b *belief) see(now time.Time, v, part float64) { b.recall(now, v, part, lasting, oldest) }

// recall is see for what is remembered for longer.
func (b *belief) recall(now time.Time, v, part, lasts float64, forget time.Duration) {
	if v = math.Log(v); part <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if now.Sub(b.seen) > forget {
		*b = belief{}
	}
	b.seen = now
	b.weight = min(b.weight+part, lasts)
	b.mean += (v - b.mean) * min(part/b.weight, 1)
}

// value is the mean.
func (b *belief) value() float64 { return math.Exp(b.mean) }

// judge sees whether it is said to be wrong.
func (b *belief) judge(now time.Time, t turn) {
	switch v := b.value(); {
	case b.weight < enough || now.Sub(b.seen) > oldest:
		b.said = false
	case v >= t.on:
		b.said = true
	case v < t.off:
		b.said = false
	}
}

// see holds what was seen against what is believed, for the part of a window that has passed since the last time.
func (b *beliefs) see(v *podscaler.View, s *capacity.Service, seen *capacity.Seen, part float64) {
	now := v.Now
	if times, known := s.Slowness(seen, v.Workload.SLO.Quantile); known {
		b.slow.see(now, times, part)
	}
	if twice, known := tail(v, seen); known {
		b.tail.see(now, twice, part)
	}
	if s.Measured() {
		b.large.see(now, s.Alone()/v.Workload.SLO.Target.Seconds(), part)
		b.seeDemand(now, s, seen, part)
	}
	if full, known := s.Full(); known && seen.Full {
		b.starved.see(now, float64(v.Workload.Pod.CPU)/1000/full, part)
	}
	if lag, known := behind(v); known {
		b.late.see(now, max(lag.Seconds(), 1), part)
	}
	if lead := v.Room.MachineLead; lead > 0 {
		b.boots.see(now, float64(lead)/float64(guessedMachineLead), part)
	}
	b.slow.judge(now, slowTurn)
	b.tail.judge(now, tailTurn)
	b.large.judge(now, largeTurn)
	b.starved.judge(now, starvedTurn)
	b.changed.judge(now, changedTurn)
	b.late.judge(now, lateTurn)
	b.boots.judge(now, bootsTurn)
}

// seeDemand holds what a request takes against what it took in the last hours. On idle pods it is what pods use
// that do nothing.
func (b *beliefs) seeDemand(now time.Time, s *capacity.Service, seen *capacity.Seen, part float64) {
	demand := seen.CPU / seen.Completions
	if !seen.Whole || !(demand > 0) || !(seen.CPU >= 0.1*s.Quota()*seen.Pods) {
		return
	}
	b.takes.see(now, demand, part)
	b.usual.recall(now, demand, part, usualLasting, nightly)
	if b.usual.weight >= usualEnough {
		times := demand / b.usual.value()
		b.changed.see(now, max(times, 1/times), part)
	}
}

const (
	// Between beyond and afar times the objective's quantile the time has to lie that good answers take at most: counts at
	// two times that are close together do not tell how fast they fall, and far from the quantile nobody minds.
	beyond, afar = 1.25, 4
	// tailQuantile is the lowest quantile to tell it by: of lower ones a good part takes twice as long by chance.
	tailQuantile = 0.9
	// plainly is how many answers should lie beyond that time of a heavy tail, to tell it from none, and hardly the least
	// part that is told of one.
	plainly, hardly = 5, 0.02
)

// tail is which part of the answers that take longer than the objective's quantile takes twice as long as that: by how many
// are not good, as if they fell with a power of the time. Where errors may be what is not good nothing is known.
func tail(v *podscaler.View, seen *capacity.Seen) (twice float64, known bool) {
	slo, w := &v.Workload.SLO, &v.Window
	good, known := w.Good.Number()
	slowest, times := 1-slo.Quantile, cmp.Or(w.GoodWithin, slo.Target).Seconds()/seen.Latency
	if !known || !seen.Steady || seen.Queued || !(tailQuantile <= slo.Quantile && slo.Quantile < 1) || !(beyond <= times && times <= afar) {
		return 0, false
	}
	if errors, known := w.Errors.Number(); known && errors > max(1-good, 0)/2 {
		return 0, false
	}
	index := func(part float64) float64 { return math.Log(slowest/part) / math.Log(times) }
	requests := seen.Arrivals * measured(v).Seconds()
	if heavy := math.Log2(1 / tailTurn.on); index(plainly/requests) < heavy {
		return 0, false
	}
	twice = max(math.Exp2(-index(max(1-good, 0))), hardly)
	return twice, twice < 1
}

// behind is how late the newest of the pods' CPU samples is, beyond the time after which there should be another.
func behind(v *podscaler.View) (lag time.Duration, known bool) {
	for i := range v.Pods {
		c := &v.Pods[i].CPU
		if _, ok := c.Number(); !ok || c.At.IsZero() || !serves(&v.Pods[i]) {
			continue
		}
		if l := v.Now.Sub(c.At) - c.Span; !known || l < lag {
			lag, known = l, true
		}
	}
	return lag, known
}

// larger is what would help where a request has less than a core to itself.
func larger(quota float64) string {
	if quota >= 1 {
		return ""
	}
	return "; pods with more cpu each would take less in all"
}

// wrong says which of what is believed is not so, with what was seen and what it means.
func (b *beliefs) wrong(v *podscaler.View, s *capacity.Service) []podscaler.Reason {
	var all []podscaler.Reason
	add := func(said bool, format string, args ...any) {
		if said {
			all = append(all, podscaler.Because(podscaler.ReasonModelOff, format, args...))
		}
	}
	demand, _ := s.Demand()
	add(b.slow.said, "response times are %.1f times those of pods that share %.3g cores each among requests of one size, sent to the least loaded: requests are balanced "+
		"unevenly or are of very different sizes, pods get less cpu than they request, or time is spent elsewhere, which more pods do not shorten", b.slow.value(), s.Quota())
	add(b.tail.said, "of the slowest %.3g %% of the answers %.0f %% take at least twice as long as the quickest of them, where of requests of one size hardly any do: a few "+
		"are far larger than the others or are held up elsewhere, which more pods do not shorten, and behind them others wait", 100*(1-v.Workload.SLO.Quantile), 100*b.tail.value())
	add(b.large.said, "a request takes %.3g ms of cpu, which is %.0f %% of the objective on an idle pod of %.3g cores: that leaves little for requests to share, and pods are "+
		"filled to %.0f %% where %.0f %% was believed%s", 1000*demand, 100*b.large.value(), s.Quota(), 100*s.Ceiling(1), 100*capacity.FirstCeiling, larger(s.Quota()))
	add(b.starved.said, "full pods use %.3g cores and request %.3g: somebody else takes it, or they cannot use more at a time", s.Quota(), float64(v.Workload.Pod.CPU)/1000)
	add(b.changed.said, "a request takes %.3g ms of cpu, and took %.3g in the last hours: it is another release, or there are other requests", 1000*b.takes.value(), 1000*b.usual.value())
	add(b.late.said, "the newest that is measured of what pods use is %s older than it should be, by the samples' own times, or its clock is slow: the rest may be as old, and what is decided is for the load of then",
		inSeconds(time.Duration(b.late.value()*float64(time.Second))))
	add(b.boots.said, "machines take up to %s to carry replicas, where %s was believed: they start slowly, or more are ordered at a time than can be made; what climbs sooner waits, unless spares stand by",
		inSeconds(v.Room.MachineLead), pricing.Short(guessedMachineLead))
	return all
}
