// Package worlds draws worlds at random, and compares policies over many of them. A world is an
// ordinary experiment, of one load and one trial, made from a seed: the same seed gives the same
// world. What a policy was tuned on says little of where it was never tried.
package worlds

import (
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// What worlds are drawn from. Most are drawn evenly by their logarithm, so that a tenth and a
// tenfold of the middle are as likely.
const (
	leastService, mostService = 5 * time.Millisecond, 5 * time.Second // of CPU for a request
	leastPod, mostPod         = 50, 8000                              // thousandths of a CPU
	leastLead, mostLead       = 15 * time.Second, 15 * time.Minute    // of a machine
	leastScrape, mostScrape   = 5 * time.Second, 2 * time.Minute
	leastPods, mostPods       = 2, 40 // that an HPA at 60 % needs at the peak of one workload
	leastThink, mostThink     = 100 * time.Millisecond, 10 * time.Second
	leastWait, mostWait       = 1, 20 // times the CPU that a request takes

	// Requests are what takes time to simulate. The load is in cores, and how long a request takes
	// is drawn from what keeps their number between these: the more cores, the longer.
	leastRequests, mostRequests = 3000, 1_000_000
	// slowest bounds how long a request takes on a pod of its own, which may have little CPU.
	slowest = 10 * time.Second
	// length is that of most worlds; where machines take over long, they last twice as long.
	length, long = 2 * time.Hour, 5 * time.Minute
)

// sizes are the vCPUs that machines have.
var sizes = []int{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}

// dice are a stream of chance.
type dice struct{ next func() float64 }

func newDice(seed uint64, of string) dice { return dice{timing.Stream(seed, "world "+of).Float64} }

func (d dice) even(lo, hi float64) float64 { return lo + (hi-lo)*d.next() }
func (d dice) log(lo, hi float64) float64  { return lo * math.Pow(hi/lo, d.next()) }
func (d dice) under(chance float64) bool   { return d.next() < chance }
func (d dice) count(lo, hi int) int        { return lo + int(d.next()*float64(hi-lo+1)) }

func (d dice) duration(lo, hi, unit time.Duration) time.Duration {
	return min(max(time.Duration(d.log(float64(lo), float64(hi))).Round(unit), lo), hi)
}

// world is what is drawn from a seed.
type world struct {
	seed     uint64
	length   time.Duration
	machines []int // vCPUs of the shapes; policies that order one only order the first
	max      int   // machines
	start    int
	warm     bool // it starts with what the first load needs
	lead     time.Duration
	podStart time.Duration
	clones   int // at a time
	scrape   time.Duration
	scraped  bool        // latencies are, not CPU alone
	balance  sim.Balance // of requests
	quota    float64     // what a pod may use, in parts of what it requests
	faults   []fault
	services []service
}

// fault makes clones fail.
type fault struct {
	at    time.Duration
	count int
}

// service is a workload.
type service struct {
	name        string
	kind        sim.Kind
	think       time.Duration // 0 of open loads
	shape       string        // of the load
	curve       sim.Curve     // in users, or requests a second
	cpu, quota  pricing.MilliCPU
	pods        float64 // that an HPA at 60 % needs at the peak
	demand      time.Duration
	wait        time.Duration // of a request, for something else than CPU; 0 of most
	spread      float64
	tail        float64
	concurrency int
	quantile    int
	target      time.Duration
	window      time.Duration
	start, max  int // replicas
	unavailable int
}

// draw makes a world of its seed.
func draw(seed uint64) *world {
	d := newDice(seed, "machines")
	w := &world{seed: seed, length: length, balance: sim.LeastOfTwo, quota: 1}
	w.lead = d.duration(leastLead, mostLead, time.Second)
	if w.lead > long {
		w.length *= 2
	}
	w.clones = d.count(1, 4)
	w.podStart = d.duration(time.Second, time.Minute, time.Second)
	w.warm = d.under(0.6)
	w.scrape, w.scraped = d.duration(leastScrape, mostScrape, time.Second), d.under(0.5)
	if d.under(0.2) {
		w.balance = sim.AtRandom
	}
	switch at := d.next(); {
	case at < 0.2:
		w.quota = 0.8
	case at < 0.4:
		w.quota = 1.5
	}
	if d.under(0.3) {
		for range d.count(1, 3) {
			w.faults = append(w.faults, fault{time.Duration(d.even(0, 0.8*w.length.Seconds())) * time.Second, d.count(1, 3)})
		}
	}
	w.serve(newDice(seed, "users"))
	w.equip(newDice(seed, "shapes"))
	return w
}

// serve draws who uses what: one workload, or two, of which one is used by users who wait for
// their answers and the other gets requests that do not.
func (w *world) serve(d dice) {
	switch at := d.next(); {
	case at < 0.35:
		w.add("web", sim.Open, 1)
	case at < 0.70:
		w.add("web", sim.Sleep, 1)
	case at < 0.80:
		w.add("web", sim.Pace, 1)
	default:
		w.add("web", sim.Sleep, 2)
		w.add("batch", sim.Open, 2)
	}
}

// add draws a workload, one of so many.
func (w *world) add(name string, kind sim.Kind, of float64) {
	d := newDice(w.seed, name)
	s := service{name: name, kind: kind}
	s.cpu = pod(d.log(leastPod, mostPod))
	s.quota = pod(w.quota * float64(s.cpu))
	s.pods = d.log(leastPods, mostPods)
	var level sim.Curve
	s.shape, level = d.load(w.length)
	s.request(d, level, w.length, of)
	if s.tail = 0; d.under(0.3) {
		s.tail = math.Round(10*d.even(1.5, 3)) / 10
	} else {
		s.spread = math.Round(d.even(0, 80)) / 100
	}
	s.concurrency = max(int(math.Ceil(float64(s.quota)/1000)), int(d.log(1, 65)))
	s.elsewhere(newDice(w.seed, name+" wait"))
	if s.quantile = 90; d.under(0.3) {
		s.quantile = 95
	}
	s.target = (time.Duration(d.log(2, 10) * float64(s.alone()))).Round(time.Millisecond)
	s.window = max(time.Minute, 4*w.scrape, (2 * s.target).Round(time.Second))
	if d.under(0.3) {
		s.unavailable = 1
	}
	s.used(d, level)
	s.start, s.max = 1, int(6*s.pods)+10
	if w.warm {
		s.start = max(1, int(math.Ceil(s.pods*level.At(0))))
	}
	w.services = append(w.services, s)
}

// pod rounds the CPU of a pod to what people write.
func pod(milli float64) pricing.MilliCPU {
	unit := 10.0
	if milli >= 1000 {
		unit = 100
	}
	return pricing.MilliCPU(unit * math.Round(milli/unit))
}

// cores are what the load takes at its peak.
func (s *service) cores() float64 { return 0.6 * s.pods * float64(s.quota) / 1000 }

// speed is how fast a request is served that is alone on a pod.
func (s *service) speed() float64 { return min(1, float64(s.quota)/1000) }

// alone is how long one takes then.
func (s *service) alone() time.Duration {
	return time.Duration(float64(s.demand)/s.speed()) + s.wait
}

// elsewhere draws whether requests wait for something else, as a database, and for how long. Pods
// then take at least as many at a time as keep their CPU busy.
func (s *service) elsewhere(d dice) {
	if !d.under(0.2) {
		return
	}
	times := d.log(leastWait, mostWait)
	s.wait = (time.Duration(times * float64(s.demand))).Round(time.Millisecond)
	s.concurrency = max(s.concurrency, int(math.Ceil(d.log(1, 4)*(1+times)*float64(s.quota)/1000)))
}

// request draws what a request takes. Where even the longest are too many, there are fewer pods.
func (s *service) request(d dice, level sim.Curve, length time.Duration, of float64) {
	// The CPU seconds of all requests, as if the world were this workload's alone.
	work := s.cores() * mean(level, length) * length.Seconds() * of
	hi := min(mostService.Seconds(), slowest.Seconds()*s.speed())
	if most := hi * mostRequests; work > most {
		s.pods *= most / work
		work = most
	}
	lo := max(leastService.Seconds(), work/mostRequests)
	hi = max(lo, min(hi, work/leastRequests))
	seconds := time.Duration(d.log(lo, hi) * float64(time.Second))
	s.demand = max(seconds.Round(100*time.Microsecond), leastService)
}

// used draws who sends the requests that make the load.
func (s *service) used(d dice, level sim.Curve) {
	rate := s.cores() / s.demand.Seconds()
	think := d.log(leastThink.Seconds(), mostThink.Seconds())
	users := rate
	switch s.kind {
	case sim.Sleep:
		think = max(think, 5/rate) // so that there are five users at least
		users = rate * (think + s.alone().Seconds())
	case sim.Pace:
		think = max(think, 5/rate, 3*s.alone().Seconds())
		users = rate * think
	case sim.Open:
		think = 0
	}
	s.think = time.Duration(think * float64(time.Second)).Round(time.Millisecond)
	for _, p := range level {
		l := users * p.Level
		if s.kind != sim.Open {
			l = math.Round(l)
		}
		s.curve = append(s.curve, sim.Point{At: p.At, Level: short(l)})
	}
}

// short leaves a level four digits, as a person would write it.
func short(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-3)
	if unit >= 1 {
		return math.Round(v)
	}
	return math.Round(v/unit) / math.Round(1/unit)
}

// equip draws machines that hold the largest pod and are no larger than all that is needed at the
// peak, and as many as four times the pods of an HPA at 60 % would fill.
func (w *world) equip(d dice) {
	largest, need := 0, 0
	for i := range w.services {
		s := &w.services[i]
		largest, need = max(largest, int(s.cpu)), need+int(s.pods*float64(s.cpu))
	}
	fit := slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return 1000*n < largest+reserved })
	usual := slices.DeleteFunc(slices.Clone(fit), func(n int) bool { return n > fit[0] && 1000*n > need })
	w.machines = []int{usual[d.count(0, len(usual)-1)]}
	if other := fit[d.count(0, len(fit)-1)]; d.under(0.25) && other != w.machines[0] {
		w.machines = append(w.machines, other)
	}
	w.max, w.start = 2, 0
	for i := range w.services {
		s := &w.services[i]
		each := min(nodescaler.DefaultPodSlots/len(w.services), (1000*w.machines[0]-reserved)/int(s.cpu))
		w.max += int(math.Ceil(4 * s.pods / float64(each)))
		w.start += (s.start + each - 1) / each
	}
	if w.max = max(w.max, w.start); !w.warm {
		w.start = 1
	}
}

// reserved is what the system takes of every machine, in thousandths of a CPU.
const reserved = 200
