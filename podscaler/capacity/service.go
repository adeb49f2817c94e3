package capacity

import "math"

// Service is what is learnt of a service while it runs: the CPU time of a request, the CPU that a
// pod may have, and how response times grow with the load. It begins with what a pod requests,
// believes what it sees the more the more often it has seen it, and forgets, so that another
// release of the service is another service after some minutes of a like load. After a busy hour
// a quiet one says little.
//
// Of response times it knows one curve: the quantile that the objective is about is
//
//	base / (1 − x)^bend,  x = (work/quota + pooling) / pods
//
// as of pods that share their CPU among the requests they hold. Base is learnt. Work is the CPU
// time asked for a second, and pooling what a service of few pods wastes, for some are idle while
// others queue. Away from where it was learnt the curve errs, and that is all right: it is learnt
// where the service runs, and where it runs is where it is read.
type Service struct {
	objective  float64  // in seconds
	request    float64  // of a pod, in cores
	demand     estimate // of all that was used over all that was answered
	used       estimate // of it: the cores
	answered   estimate // and the requests a second
	quota      estimate
	base       estimate // as a part of the objective
	miss       estimate // of the curve: how far what was seen was from it, as a part
	held       float64  // the highest load of late at which the objective held
	work, pods estimate // at which the curve was learnt, forgetting as it does
}

// Seen is what was measured of a service over a while in which its pods stayed about the same.
// What is not a number was not measured.
type Seen struct {
	Arrivals    float64 // a second
	Completions float64 // a second
	InFlight    float64
	CPU         float64 // cores that all pods used
	Pods        float64 // ready, on the mean
	Busiest     float64 // cores that the busiest pod used
	Request     float64 // cores that each pod requests
	Latency     float64 // the objective's quantile, in seconds
	// Whole is whether it was measured for all of the while, so that what came and what was used
	// for it belong together.
	Whole bool
	// Steady is whether load and pods stayed about the same, so that the latency is theirs. Queued
	// is whether pods held more requests than they can work on all the while.
	Steady, Queued bool
	// Full is whether they did for as long as the busiest was measured, which need not be all of
	// it.
	Full bool
	// Counted is whether requests in flight were, and not worked out from how long answers take.
	Counted bool
	// Waiting is whether what pods hold waits for something else than their CPU, which they hardly
	// use: it is no queue.
	Waiting bool
}

const (
	// bend is how sharply response times turn upwards, of pods that share their CPU among the
	// requests they hold and get the next one by who has least.
	bend = 0.4
	// pooling is how many pods' work is lost to there being few.
	pooling = 0.7
	// tight is the part of the objective that a request takes alone from which on it is: the more
	// of it is left to wait in, the less is lost.
	tight = 0.3
	// The load that holds the objective lies between these, by any measurement.
	lowestCeiling, highestCeiling = 0.2, 0.93
	// FirstCeiling is where it lies until something was seen.
	FirstCeiling = 0.72
	// stride is how much further than it has held the objective is taken to hold: away from where
	// it was learnt the curve promises what it does not know.
	stride = 0.25
	// atCeiling is how much quick answers count at least where pods are as full as the ceiling lets
	// them be. A few slow ones may have pushed it down to where pods are all but idle, and it would
	// stay there for hours, dear as it is.
	atCeiling = 0.3
	// slower is how much slower than expected pods that are not idle have to answer to be believed
	// at once. With more or fewer pods the curve errs; until a mean shows it, a machine that is
	// needed might be gone.
	slower = 1.06
	// MeanShare is what the mean of response times is of their quantile, about.
	MeanShare = 0.6
	// full is a load beyond which response times only show how long there has been too much of it.
	full = 0.97
	// farOff is as far as the curve is taken to be off at once, in powers of e.
	farOff = 3
	// Queue is how many requests a pod holds that works without a pause.
	Queue = 3
)

// estimate is a mean that forgets: no more than most values count, and the first of them is what
// was believed before.
type estimate struct{ value, weight, most float64 }

func (e *estimate) learn(v, weight float64) {
	if !finite(v) || weight <= 0 {
		return
	}
	e.weight = min(e.weight+weight, max(e.most, weight))
	e.value += (v - e.value) * weight / e.weight
}

// NewService returns what is believed of a service before anything was seen: its pods use what they
// request at most, request being in cores, and nothing is known of its requests. The objective is
// in seconds.
func NewService(request, objective float64) *Service {
	return &Service{
		objective: objective,
		request:   max(request, 0.001),
		used:      estimate{most: 60},
		answered:  estimate{most: 60},
		quota:     estimate{value: max(request, 0.001), weight: 1, most: 20},
		base:      estimate{value: math.Pow(1-FirstCeiling, bend), weight: 2, most: 40},
		work:      estimate{most: 40},
		pods:      estimate{most: 40},
		miss:      estimate{most: 12},
	}
}

// See learns from what was measured.
func (s *Service) See(seen Seen) {
	if !(seen.Pods > 0) {
		return
	}
	if seen.Request > 0 && seen.Request != s.request {
		s.resize(seen.Request)
	}
	s.seeDemand(&seen)
	s.seeQuota(&seen)
	s.seeLatency(&seen)
}

func (s *Service) seeDemand(seen *Seen) {
	switch v := seen.CPU / seen.Completions; {
	case seen.Completions > 0 && v > 0:
		weight := 1.0
		if !seen.Whole {
			weight = 0.05
		}
		s.learnDemand(seen.CPU, seen.Completions, weight)
	case s.demand.weight == 0 && seen.InFlight > Queue*seen.Pods && !seen.Waiting && seen.Arrivals > 0:
		// Nothing has been measured of the CPU: full pods use what they request, on what comes.
		s.learnDemand(seen.Pods*s.quota.value, seen.Arrivals, 0.05)
	}
}

// learnDemand adds what was used and what was answered, so that quiet hours, in which pods use CPU
// for nothing, count for as few requests as they had.
func (s *Service) learnDemand(cpu, requests, weight float64) {
	if each := cpu / requests; !finite(each) || each <= 0 {
		return
	}
	s.used.learn(cpu, weight)
	s.answered.learn(requests, weight)
	s.demand.value, s.demand.weight = s.used.value/s.answered.value, s.used.weight
}

// seeQuota goes by pods that have more to do than they can: what they use is what they may. A pod
// that uses more than it was believed to be able to is believed at once, and disbelieved as
// quickly: on an idle node one may use for once what none has on a full one. Until something is
// known of response times a short queue is not enough: pods that start are another thing, and there
// is caution enough until then. Where requests in flight are not counted, pods are believed to have
// what they request in any case.
func (s *Service) seeQuota(seen *Seen) {
	before := s.quota.value
	slow := seen.Latency > s.objective && seen.Busiest > s.atWork()
	switch {
	case !finite(seen.Busiest) || seen.Busiest <= 0:
	case seen.Busiest > s.quota.value:
		s.quota.value, s.quota.weight = seen.Busiest, 1
	case seen.Full && (seen.Queued || s.pods.weight > 0) && slow:
		s.quota.learn(seen.Busiest, 1)
	case !seen.Counted && seen.Queued && slow && s.quota.value > s.request:
		s.quota.learn(max(seen.Busiest, s.request), 1)
	}
	s.anchor(before)
}

// resize goes on with pods that request another amount. They may use as large a part of it as the
// others could, and no more than it until that is seen. Where the curve was learnt, they are as
// full.
func (s *Service) resize(request float64) {
	was := s.Load(s.work.value, 1)
	s.quota.value, s.quota.weight = request*min(s.quota.value/s.request, 1), 1
	s.request = request
	if is := s.Load(s.work.value, 1); was > 0 && finite(is/was) {
		s.pods.value *= is / was
	}
}

// atWork is the CPU above which a pod that holds requests works on them. One that uses less waits
// for something else: it has what it requests, if it can use as much.
func (s *Service) atWork() float64 { return min(s.quota.value, s.request) / 2 }

// Waits reports whether requests wait for something else than pods' CPU: the busiest pod had a
// queue of them all the while that its CPU was measured, and used little.
func (s *Service) Waits(seen *Seen) bool {
	return seen.Full && seen.Busiest > 0 && seen.Busiest <= s.atWork()
}

// anchor keeps the curve where it was learnt while pods turn out to have more or less than they
// were taken to have, and so to have been less or more full.
func (s *Service) anchor(quota float64) {
	if quota == s.quota.value || s.pods.weight == 0 {
		return
	}
	was := min((s.work.value/quota+s.pooling(quota))/s.pods.value, full)
	is := min(s.Load(s.work.value, s.pods.value), full)
	if times := math.Pow((1-is)/(1-was), bend); finite(times) {
		s.base.value *= times
	}
}

// seeLatency moves the curve through what was seen. Where pods are full, response times show how
// long the queue has been growing, and nothing of the curve. Slow answers are believed sooner than
// quick ones, unless pods are idle and the objective holds, and quick ones from near the ceiling
// sooner than those of idle pods.
func (s *Service) seeLatency(seen *Seen) {
	x := s.Load(seen.Arrivals*s.demand.value, seen.Pods)
	if !seen.Steady || seen.Queued || !finite(seen.Latency) || seen.Latency <= 0 || !(x >= 0 && x <= full) {
		return
	}
	expected := s.base.value * math.Pow(1-x, -bend)
	got := seen.Latency / s.objective
	if seen.Waiting && got > 1 {
		return // they wait for something that emptier pods do not have
	}
	weight := max(x*x, atCeiling*math.Pow(min(x/s.Ceiling(1), 1), 2))
	if got > slower*expected && (got > 1 || x > s.Ceiling(1)/2) {
		weight = 2
	}
	if s.held -= s.held / 2000; got < 1 {
		s.held = max(s.held, x)
	}
	s.base.learn(got*math.Pow(1-x, bend), weight)
	s.work.learn(seen.Arrivals*s.demand.value, weight)
	s.pods.learn(seen.Pods, weight)
	s.miss.learn(min(math.Abs(math.Log(got/expected)), farOff), 1)
}

// Demand returns the CPU time of a request in seconds, and whether anything is known of it.
func (s *Service) Demand() (float64, bool) { return s.demand.value, s.demand.weight > 0 }

// Measured is whether the CPU time of requests has been measured often enough to give pods up by
// it.
func (s *Service) Measured() bool { return s.demand.weight >= 10 }

// Quota is the CPU that a pod may have, in cores, as far as it was seen.
func (s *Service) Quota() float64 { return s.quota.value }

// Confidence is how much has been seen of what can be, from 0 to 1.
func (s *Service) Confidence() float64 {
	return min(s.demand.weight/20, 1) * min((s.base.weight-2)/8, 1)
}

// Miss is by how much the curve was off lately, as a part of what it said.
func (s *Service) Miss() float64 { return math.Exp(s.miss.value) - 1 }

// pooling is how many pods' work is lost to there being few: the less, the more of the objective is
// left for requests to wait in.
func (s *Service) pooling(quota float64) float64 {
	if s.demand.weight == 0 {
		return pooling
	}
	return pooling * min(1, s.demand.value/quota/(tight*s.objective))
}

// Load is how full so many pods are of so much work a second: 1 is as full as they can be.
func (s *Service) Load(work, pods float64) float64 {
	return (work/s.quota.value + s.pooling(s.quota.value)) / pods
}

// Ceiling is the load at which response times are at so large a part of the objective.
func (s *Service) Ceiling(part float64) float64 {
	c := 1 - math.Pow(s.base.value/part, 1/bend)
	return min(max(c, lowestCeiling), max(FirstCeiling, s.held+stride), highestCeiling)
}

// Pods is how many pods do so much work a second at a load, not rounded.
func (s *Service) Pods(work, load float64) float64 {
	if work <= 0 {
		return 0
	}
	return (work/s.quota.value + s.pooling(s.quota.value)) / load
}

// Wasted is how many cores are lost because requests do not spread evenly over few pods.
func (s *Service) Wasted() float64 { return s.quota.value * s.pooling(s.quota.value) }
