package serving

import (
	"math"
	"time"
)

// Pod is the serving side of a pod. Times are since whatever beginning its owner chose, and must not
// go back. T is what the owner remembers of a request.
//
// All requests in service progress at one rate, so a virtual clock that counts CPU seconds per
// request orders their ends once and for all: arrivals and departures move the clock's speed, never
// the order.
type Pod[T any] struct {
	quota   float64 // cores
	slots   int     // requests in service at a time
	serving []request[T]
	waiting []request[T]
	virtual float64
	last    time.Duration // when virtual was last brought up to date
	used    float64       // CPU seconds
	due     time.Duration // the next end of a request
}

// request is one request in a pod; serving is a heap of them by finish.
type request[T any] struct {
	finish float64 // the pod's virtual time at which it is done
	need   float64 // CPU seconds
	of     T
}

// New returns an idle pod that shares quota cores among at most slots requests at a time, none of
// which uses more than one core.
func New[T any](quota float64, slots int, now time.Duration) Pod[T] {
	return Pod[T]{quota: quota, slots: slots, last: now}
}

// rate is the virtual clock's speed: what one request gets of a core.
func (p *Pod[T]) rate() float64 {
	return min(1, p.quota/float64(len(p.serving)))
}

func (p *Pod[T]) advance(now time.Duration) {
	if n := len(p.serving); n > 0 && now > p.last {
		dt := (now - p.last).Seconds() * p.rate()
		p.virtual += dt
		p.used += dt * float64(n)
	}
	p.last = now
}

// Accept takes in a request that needs some seconds of CPU, or lets it wait.
func (p *Pod[T]) Accept(now time.Duration, need float64, of T) {
	p.advance(now)
	r := request[T]{need: need, of: of}
	if len(p.serving) >= p.slots {
		p.waiting = append(p.waiting, r)
		return
	}
	p.begin(r)
	p.plan(now)
}

func (p *Pod[T]) begin(r request[T]) {
	if len(p.serving) == 0 {
		p.virtual = 0
	}
	r.finish = p.virtual + r.need
	h := append(p.serving, r)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].finish <= r.finish {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = r
	p.serving = h
}

// Finish takes out the request whose end is due, and lets the next waiting one in. There must be one.
func (p *Pod[T]) Finish(now time.Duration) T {
	p.advance(now)
	done := p.serving[0]
	p.virtual = max(p.virtual, done.finish)
	p.removeFirst()
	if len(p.waiting) > 0 {
		next := p.waiting[0]
		p.waiting[0] = request[T]{} // the array lives on
		p.waiting = p.waiting[1:]
		p.begin(next)
	}
	p.plan(now)
	return done.of
}

func (p *Pod[T]) removeFirst() {
	h := p.serving
	last := len(h) - 1
	moved := h[last]
	h[last] = request[T]{}
	h = h[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h[child+1].finish < h[child].finish {
			child++
		}
		if h[child].finish >= moved.finish {
			break
		}
		h[i] = h[child]
		i = child
	}
	if last > 0 {
		h[i] = moved
	}
	p.serving = h
}

// Resize changes how many cores the requests share from now on. What they have got stays theirs.
func (p *Pod[T]) Resize(now time.Duration, quota float64) {
	p.advance(now)
	p.quota = quota
	p.plan(now)
}

// plan sets when the next request ends.
func (p *Pod[T]) plan(now time.Duration) {
	if len(p.serving) > 0 {
		left := max(0, p.serving[0].finish-p.virtual) / p.rate()
		p.due = now + time.Duration(math.Ceil(left*1e9))
	}
}

// Due is when the next request ends if none comes or goes before, and whether there is one.
func (p *Pod[T]) Due() (time.Duration, bool) { return p.due, len(p.serving) > 0 }

// Drop takes every request out, unserved: those in service, then those that waited.
func (p *Pod[T]) Drop(now time.Duration) []T {
	p.advance(now)
	var lost []T
	for _, r := range append(p.serving, p.waiting...) {
		lost = append(lost, r.of)
	}
	p.serving, p.waiting = nil, nil
	return lost
}

// Each calls do with every request that the pod has, in no order that means anything.
func (p *Pod[T]) Each(do func(T)) {
	for i := range p.serving {
		do(p.serving[i].of)
	}
	for i := range p.waiting {
		do(p.waiting[i].of)
	}
}

// Load is how many requests the pod has.
func (p *Pod[T]) Load() int { return len(p.serving) + len(p.waiting) }

// Used is the CPU time that the pod has used so far, in seconds.
func (p *Pod[T]) Used(now time.Duration) float64 {
	p.advance(now)
	return p.used
}
