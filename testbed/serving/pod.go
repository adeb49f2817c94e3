package serving

import (
	"math"
	"time"
)

// Pod is the serving side of a pod. Times are since a beginning that its owner chose, and must
// not go back. T is what the owner remembers of a request.
//
// All requests in service progress at one rate, so a virtual clock that counts CPU seconds per
// request orders their ends once and for all: arrivals and departures move the clock's speed, never
// the order.
type Pod[T any] struct {
	quota   float64 // cores
	slots   int     // requests in service at a time, those that are away included
	serving []request[T]
	away    []request[T] // in a slot, waiting for something else than this pod's CPU
	waiting []request[T]
	virtual float64
	last    time.Duration // when virtual was last brought up to date
	used    float64       // CPU seconds
	due     time.Duration // when the next request has its CPU time, or is back
}

// request is one request in a pod; serving and away are heaps of them by finish.
type request[T any] struct {
	finish float64 // the pod's virtual time at which it has its CPU; nanoseconds where it is away
	need   float64 // CPU seconds
	wait   float64 // seconds that it is away after that
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

// Accept takes in a request that needs some seconds of CPU, and then waits for some in its slot for
// something else, as a database; or lets it wait for a slot.
func (p *Pod[T]) Accept(now time.Duration, need, wait float64, of T) {
	p.advance(now)
	r := request[T]{need: need, wait: wait, of: of}
	if len(p.serving)+len(p.away) >= p.slots {
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
	p.serving = push(p.serving, r)
}

func push[T any](h []request[T], r request[T]) []request[T] {
	h = append(h, r)
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
	return h
}

// Finish moves on the request that is due, of which there must be one: out, and the next waiting
// one in, or away, where it has had its CPU and waits for something else. It reports whether it is
// out.
func (p *Pod[T]) Finish(now time.Duration) (of T, out bool) {
	p.advance(now)
	var done request[T]
	if p.back(p.due) {
		done = p.away[0]
		p.away = removeFirst(p.away)
	} else {
		done = p.serving[0]
		p.serving = removeFirst(p.serving)
		p.virtual = max(p.virtual, done.finish)
		if done.wait > 0 {
			done.finish = float64(now) + 1e9*done.wait
			p.away = push(p.away, done)
			p.plan(now)
			return done.of, false
		}
	}
	if len(p.waiting) > 0 {
		next := p.waiting[0]
		p.waiting[0] = request[T]{} // the array lives on
		p.waiting = p.waiting[1:]
		p.begin(next)
	}
	p.plan(now)
	return done.of, true
}

// back reports whether the first of those that are away is back by then.
func (p *Pod[T]) back(by time.Duration) bool {
	return len(p.away) > 0 && math.Ceil(p.away[0].finish) <= float64(by)
}

func removeFirst[T any](h []request[T]) []request[T] {
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
	return h
}

// Resize changes how many cores the requests share from now on. What they have got stays theirs.
func (p *Pod[T]) Resize(now time.Duration, quota float64) {
	p.advance(now)
	p.quota = quota
	p.plan(now)
}

// plan sets when the next request is due.
func (p *Pod[T]) plan(now time.Duration) {
	p.due = math.MaxInt64
	if len(p.serving) > 0 {
		left := max(0, p.serving[0].finish-p.virtual) / p.rate()
		p.due = now + time.Duration(math.Ceil(left*1e9))
	}
	if p.back(p.due) {
		p.due = time.Duration(math.Ceil(p.away[0].finish))
	}
}

// Due is when the next request is to be moved on if none comes or goes before, and whether there is
// one.
func (p *Pod[T]) Due() (time.Duration, bool) { return p.due, len(p.serving)+len(p.away) > 0 }

// Drop takes every request out, unserved: those in service, those away, then those that waited.
func (p *Pod[T]) Drop(now time.Duration) []T {
	p.advance(now)
	var lost []T
	p.Each(func(of T) { lost = append(lost, of) })
	p.serving, p.away, p.waiting = nil, nil, nil
	return lost
}

// Each calls do with every request that the pod has, in no order that means anything.
func (p *Pod[T]) Each(do func(T)) {
	for i := range p.serving {
		do(p.serving[i].of)
	}
	for i := range p.away {
		do(p.away[i].of)
	}
	for i := range p.waiting {
		do(p.waiting[i].of)
	}
}

// Load is how many requests the pod has.
func (p *Pod[T]) Load() int { return len(p.serving) + len(p.away) + len(p.waiting) }

// Used is the CPU time that the pod has used so far, in seconds.
func (p *Pod[T]) Used(now time.Duration) float64 {
	p.advance(now)
	return p.used
}
