package sim

import (
	"math"
	"slices"
	"sort"
	"time"
)

// stats is what is measured of a service, as its operators would see it and exactly.
type stats struct {
	svc      *service
	inFlight int
	// Requests in flight at the latest seconds, a ring; nil where readings are of now.
	past   []int
	recent recent
	hist   *histogram // nil when latencies are read exactly
	starts counter
	score  Score
	minute []float32 // latencies of the minute that is running
	lost   int       // requests of that minute that failed
	late   int       // and that were answered after the goal
}

// Score is what became of a service in a run.
type Score struct {
	Workload string
	Requests int // answered, or failed
	Failed   int
	Good     int // answered within the goal
	// Unfinished are those beside them that are on their way or wait in a pod, and Overdue those of
	// them that were sent longer ago than the goal.
	Unfinished, Overdue int
	// Over is by how many seconds all requests together exceed the goal, the overdue ones so far.
	Over      float64
	Latencies Sketch
	Minutes   []Minute
	// PodTime is the time of all pods that existed, from creation until they were gone.
	PodTime time.Duration
	Moves   int // pods that were evicted
	Changes []Change
}

// Minute is one minute of a service.
type Minute struct {
	Requests, Failed int
	Late             int // of Requests, answered after the goal
	Overdue          int // beside them, not answered by the end, and sent longer ago than the goal
	// Latency is the goal's quantile of the minute's requests, in seconds; +Inf when so many
	// failed that it lies among them.
	Latency  float64
	Violated bool
	Level    float64 // users, or requests a second
	Ready    int     // pods at the end of the minute
	Replicas int
	Machines int
}

// Change is a change of replicas.
type Change struct {
	At       time.Duration
	From, To int
}

func (s *stats) sent(now time.Duration) { s.starts.add(now) }

func (s *stats) done(now, start time.Duration) {
	seconds := float32((now - start).Seconds())
	s.recent.add(now, seconds)
	s.minute = append(s.minute, seconds)
	s.score.Latencies.Add(float64(seconds))
	s.score.Requests++
	if now-start <= s.svc.cfg.LatencyGoal {
		s.score.Good++
	} else {
		s.late++
		s.score.Over += (now - start - s.svc.cfg.LatencyGoal).Seconds()
	}
	if s.hist != nil {
		s.hist.add(now - start)
	}
}

// failed counts a request that got no answer. It is no part of the latencies, which would
// look the better for it; it is a bad request of its minute.
func (s *stats) failed() {
	s.score.Requests++
	s.score.Failed++
	s.lost++
}

// endMinute closes the minute that is running.
func (s *stats) endMinute(level float64, machines int) {
	svc := s.svc
	n := len(s.minute) + s.lost
	m := Minute{Requests: n, Failed: s.lost, Level: level, Ready: len(svc.ready), Replicas: svc.replicas, Machines: machines}
	q := svc.cfg.GoalQuantile
	switch {
	case n == 0 && s.inFlight > 0: // none of them was answered all minute
		m.Latency, m.Violated = math.Inf(1), true
	case n > 0:
		m.Latency = math.Inf(1)
		// The failed ones are behind all that were answered.
		if rank := int(math.Ceil(q*float64(n)-1e-9)) - 1; rank < len(s.minute) {
			m.Latency = float64(nth(s.minute, max(rank, 0)))
		}
		m.Violated = !within(float32(m.Latency), svc.cfg.LatencyGoal)
	}
	m.Late = s.late
	m.Overdue, _ = s.overdue(svc.world.now)
	s.score.Minutes = append(s.score.Minutes, m)
	s.minute, s.lost, s.late = s.minute[:0], 0, 0
}

// overdue counts the requests without an answer that exceed the goal by now, and by how many
// seconds they do.
func (s *stats) overdue(now time.Duration) (n int, over float64) {
	for _, p := range s.svc.pods {
		p.srv.Each(func(r request) {
			if by := now - r.start - s.svc.cfg.LatencyGoal; by > 0 {
				n++
				over += by.Seconds()
			}
		})
	}
	return n, over
}

// within reports whether a latency keeps a goal. Latencies are kept in single precision, in which
// one of exactly the goal must still keep it.
func within(seconds float32, goal time.Duration) bool { return seconds <= float32(goal.Seconds()) }

// recent are the latest latencies, by the time of their answers.
type recent struct {
	keep time.Duration
	at   []time.Duration
	secs []float32
}

func (r *recent) add(now time.Duration, seconds float32) {
	if n := len(r.at); n > 4096 && n == cap(r.at) {
		r.prune(now)
	}
	r.at = append(r.at, now)
	r.secs = append(r.secs, seconds)
}

// prune forgets what is older than any window that will be asked for.
func (r *recent) prune(now time.Duration) {
	i := r.since(now - r.keep)
	r.at = r.at[:copy(r.at, r.at[i:])]
	r.secs = r.secs[:copy(r.secs, r.secs[i:])]
}

// since is the index of the first answer after t.
func (r *recent) since(t time.Duration) int {
	return sort.Search(len(r.at), func(i int) bool { return r.at[i] > t })
}

// counter counts events by the second, for rates over the last minutes.
type counter struct {
	keep   int // seconds that are asked for
	second []int
	from   int // the second that second[0] is
}

func (c *counter) add(now time.Duration) {
	i := int(now/time.Second) - c.from
	for len(c.second) <= i {
		c.second = append(c.second, 0)
	}
	c.second[i]++
	if i >= 2*c.keep+60 {
		old := len(c.second) - c.keep - 2
		c.second = c.second[:copy(c.second, c.second[old:])]
		c.from += old
	}
}

// between counts the events of the whole seconds in [from, to).
func (c *counter) between(from, to time.Duration) int {
	n := 0
	lo, hi := int(from/time.Second)-c.from, int(to/time.Second)-c.from
	for i := max(lo, 0); i < min(hi, len(c.second)); i++ {
		n += c.second[i]
	}
	return n
}

// nth returns the element of v, none of which is negative, that is at index k once v is sorted. It
// reorders v. Such numbers are in the order of their bits: of eleven bits at a time it counts how
// many elements have which, and looks on among those of the element at k.
func nth(v []float32, k int) float32 {
	for shift := 21; shift >= 0 && len(v) > 128; shift -= 11 {
		digit := func(x float32) uint32 { return math.Float32bits(x) >> shift & 2047 }
		var counts [2048]uint32
		for _, x := range v {
			counts[digit(x)]++
		}
		of := uint32(0)
		for ; k >= int(counts[of]); of++ {
			k -= int(counts[of])
		}
		n := 0
		for i, x := range v {
			if digit(x) == of {
				v[i], v[n] = v[n], x
				n++
			}
		}
		v = v[:n]
	}
	slices.Sort(v)
	return v[k]
}

// quantile returns the q-quantile of v by nearest rank; it reorders v.
func quantile(v []float32, q float64) float64 {
	rank := int(math.Ceil(q*float64(len(v))-1e-9)) - 1
	return float64(nth(v, min(max(rank, 0), len(v)-1)))
}

// Sketch counts positive values in buckets that are at most 0.1 % wide, so that quantiles of
// many millions take little room. The zero value is empty.
type Sketch struct {
	buckets []uint32
	n       int
	sum     float64
}

// A float32's exponent and the first ten bits of its mantissa make the bucket: 2⁻¹⁷ (8 µs)
// is the first, 2¹⁵ (9 h) the last.
const (
	sketchShift = 13
	sketchLow   = (127 - 17) << 10
	sketchSize  = 32 << 10
)

// Add counts a value, in seconds.
func (s *Sketch) Add(v float64) {
	if s.buckets == nil {
		s.buckets = make([]uint32, sketchSize)
	}
	i := int(math.Float32bits(float32(v))>>sketchShift) - sketchLow
	s.buckets[min(max(i, 0), sketchSize-1)]++
	s.n++
	s.sum += v
}

// Mean returns the mean of all values; NaN when empty.
func (s *Sketch) Mean() float64 { return s.sum / float64(s.n) }

// Count is how many values were added.
func (s *Sketch) Count() int { return s.n }

// Quantile returns the q-quantile, right to 0.1 %; NaN when empty.
func (s *Sketch) Quantile(q float64) float64 {
	if s.n == 0 {
		return math.NaN()
	}
	left := int(math.Ceil(q*float64(s.n) - 1e-9))
	for i, c := range s.buckets {
		left -= int(c)
		if left <= 0 && c > 0 {
			low := math.Float32frombits(uint32(i+sketchLow) << sketchShift)
			high := math.Float32frombits(uint32(i+sketchLow+1) << sketchShift)
			return float64(low+high) / 2
		}
	}
	return math.NaN()
}

// Merge counts everything that o has counted.
func (s *Sketch) Merge(o *Sketch) {
	if o.n == 0 {
		return
	}
	if s.buckets == nil {
		s.buckets = make([]uint32, sketchSize)
	}
	for i, c := range o.buckets {
		s.buckets[i] += c
	}
	s.n += o.n
	s.sum += o.sum
}
