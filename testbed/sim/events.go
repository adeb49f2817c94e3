package sim

import (
	"errors"
	"time"
)

// calendar is the present, and what is to happen.
type calendar struct {
	begin  time.Time     // the time of day of the world's start
	now    time.Duration // since then
	agenda agenda
	err    error // what broke the run
}

// every does something again and again, first after one interval.
func (c *calendar) every(interval time.Duration, do func()) {
	var again func()
	again = func() {
		do()
		c.later(interval, again)
	}
	c.later(interval, again)
}

// later does something after a time.
func (c *calendar) later(after time.Duration, do func()) { c.agenda.add(c.now+after, do) }

// clock is the present as a time of day.
func (c *calendar) clock() time.Time { return c.begin.Add(c.now) }

// must ends the run with err, if there is one.
func (c *calendar) must(err error) { c.err = errors.Join(c.err, err) }

// Now is how long the world has lived.
func (c *calendar) Now() time.Duration { return c.now }

// event is something that happens to the world at a time.
type event struct {
	at  time.Duration
	seq uint64 // events of one time happen in the order they were planned in
	do  func()
}

// agenda is a heap of events.
type agenda struct {
	heap []event
	seq  uint64
}

func (a *agenda) add(at time.Duration, do func()) {
	a.seq++
	a.heap = append(a.heap, event{at, a.seq, do})
	i := len(a.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !a.less(i, up) {
			break
		}
		a.heap[i], a.heap[up] = a.heap[up], a.heap[i]
		i = up
	}
}

func (a *agenda) less(i, j int) bool {
	x, y := &a.heap[i], &a.heap[j]
	return x.at < y.at || x.at == y.at && x.seq < y.seq
}

// next is the time of the earliest event, or never.
func (a *agenda) next() time.Duration {
	if len(a.heap) == 0 {
		return never
	}
	return a.heap[0].at
}

func (a *agenda) pop() event {
	top := a.heap[0]
	last := len(a.heap) - 1
	a.heap[0] = a.heap[last]
	a.heap[last] = event{}
	a.heap = a.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && a.less(child+1, child) {
			child++
		}
		if !a.less(child, i) {
			break
		}
		a.heap[i], a.heap[child] = a.heap[child], a.heap[i]
		i = child
	}
	return top
}

// never is later than every event.
const never = time.Duration(1<<63 - 1)
