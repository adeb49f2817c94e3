// Package engine runs the processes of an emulated world, one at a time, in time of its own.
package engine

import (
	"iter"
	"sync"
	"time"
)

// Never is longer than any cluster lives.
const Never = 100 * 365 * 24 * time.Hour

// Engine runs the processes of the emulated world, one at a time and in a fixed order. All state of
// the cluster is guarded by its lock, and a process holds that lock whenever it runs: between two
// waits nothing else happens.
type Engine struct {
	mu    sync.Mutex
	Clock time.Time
	Speed float64 // of the wall clock; 0 lets time pass only while a caller waits
	born  int
	procs []*Process // those that are not over, oldest first
	idle  []*fiber   // whose processes are over
	wall  time.Time  // of the wall clock when now was last brought up to date
	kick  chan struct{}
	Over  chan struct{} // closed when the cluster is
}

// Process is code that takes emulated time. Only its own body calls wait and sleep.
type Process struct {
	e     *Engine
	Born  int
	on    *fiber
	body  func(p *Process)
	wake  time.Time
	ready func() bool
	done  bool
	ended chan struct{}
}

// fiber is the coroutine that processes run on, one after another. It is kept for the next process,
// since the race detector never frees what it keeps of a coroutine.
type fiber struct {
	runs   *Process
	resume func() (struct{}, bool)
	cancel func()
	yield  func(struct{}) bool
}

// New is an engine whose time begins at start, and passes by the wall clock times speed.
func New(start time.Time, speed float64) *Engine {
	return &Engine{Clock: start, Speed: speed, wall: time.Now(), kick: make(chan struct{}, 1), Over: make(chan struct{})}
}

// Begin lets time follow the wall clock, if it is to.
func (e *Engine) Begin() {
	if e.Speed > 0 {
		go e.follow()
	}
}

// Killed is what a process that is killed unwinds with, so that its deferred calls run.
type Killed struct{}

func newFiber() *fiber {
	f := &fiber{}
	f.resume, f.cancel = iter.Pull(func(yield func(struct{}) bool) {
		f.yield = yield
		for f.run() && yield(struct{}{}) {
		}
	})
	return f
}

// run runs the fiber's process to its end, and reports whether another may follow.
func (f *fiber) run() (whole bool) {
	p := f.runs
	defer func() {
		p.done = true
		if r := recover(); r != nil {
			if _, ok := r.(Killed); !ok {
				panic(r)
			}
		}
	}()
	p.body(p)
	return true
}

// Start begins a process; it first runs when the engine settles.
func (e *Engine) Start(body func(p *Process)) *Process {
	e.born++
	p := &Process{e: e, Born: e.born, body: body, wake: e.Clock, ended: make(chan struct{})}
	if last := len(e.idle) - 1; last >= 0 {
		p.on, e.idle = e.idle[last], e.idle[:last]
	} else {
		p.on = newFiber()
	}
	p.on.runs = p
	e.procs = append(e.procs, p)
	return p
}

// Wait lets time pass until ready, at most limit, and reports whether it is ready. Deferred calls
// of a process that is being killed must not wait.
func (p *Process) Wait(limit time.Duration, ready func() bool) bool {
	if ready != nil && ready() {
		return true
	}
	p.wake, p.ready = p.e.Clock.Add(limit), ready
	if !p.on.yield(struct{}{}) {
		panic(Killed{})
	}
	return ready != nil && ready()
}

// Wakes is when the process wakes, or now if it waits for something.
func (p *Process) Wakes(now time.Time) time.Time {
	if p.ready != nil {
		return now
	}
	return p.wake
}

// Until lets time pass until ready.
func (p *Process) Until(ready func() bool) { p.Wait(Never, ready) }

// Sleep lets time pass.
func (p *Process) Sleep(d time.Duration) {
	if d > 0 {
		p.Wait(d, nil)
	}
}

// Kill ends a process where it waits. A process cannot kill itself: it returns.
func (p *Process) Kill() {
	if p.done {
		return
	}
	p.on.cancel()
	p.e.bury(p)
}

func (e *Engine) bury(p *Process) {
	p.done = true
	close(p.ended)
	for i, q := range e.procs {
		if q == p {
			e.procs = append(e.procs[:i], e.procs[i+1:]...)
			return
		}
	}
}

// settle runs every process that has something to do now.
func (e *Engine) settle() {
	for {
		p := e.next()
		if p == nil {
			return
		}
		p.ready = nil
		_, alive := p.on.resume()
		if p.done {
			e.bury(p)
		}
		if p.done && alive {
			p.on.runs = nil
			e.idle = append(e.idle, p.on)
		}
	}
}

// next is the oldest process that need not wait any longer.
func (e *Engine) next() *Process {
	for _, p := range e.procs {
		if !p.wake.After(e.Clock) || p.ready != nil && p.ready() {
			return p
		}
	}
	return nil
}

// soonest is when the next process wakes.
func (e *Engine) soonest() (time.Time, bool) {
	var at time.Time
	for _, p := range e.procs {
		if at.IsZero() || p.wake.Before(at) {
			at = p.wake
		}
	}
	return at, len(e.procs) > 0
}

// Do runs a process to its end and returns then. The caller does not hold the lock.
func (e *Engine) Do(body func(p *Process)) {
	p := e.launch(body)
	e.nudge()
	<-p.ended
}

// launch starts a process, and runs it to its end if time passes only while a caller waits.
func (e *Engine) launch(body func(p *Process)) *Process {
	e.mu.Lock()
	defer e.mu.Unlock() // even after a panic: closing the cluster then must not wait for ever
	e.catchUp()
	p := e.Start(body)
	e.settle()
	for e.Speed == 0 && !p.done {
		at, _ := e.soonest() // p itself is there
		e.Clock = at
		e.settle()
	}
	return p
}

// Now is the time in the emulated cluster.
func (e *Engine) Now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.catchUp()
	return e.Clock
}

// Advance lets time pass in a cluster whose time passes only while a caller waits.
func (e *Engine) Advance(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	until := e.Clock.Add(d)
	e.settle()
	for {
		at, ok := e.soonest()
		if !ok || at.After(until) {
			break
		}
		e.Clock = at
		e.settle()
	}
	e.Clock = until
}

// With gives f the cluster's state between two moments of it.
func (e *Engine) With(f func()) {
	defer e.nudge()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.catchUp()
	f()
	e.settle()
}

// catchUp moves the time to where the wall clock says it is, if it follows it.
func (e *Engine) catchUp() {
	if e.Speed == 0 {
		return
	}
	now := time.Now()
	e.Clock = e.Clock.Add(time.Duration(float64(now.Sub(e.wall)) * e.Speed))
	e.wall = now
}

// follow keeps processes running by the wall clock until the cluster is closed.
func (e *Engine) follow() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-e.Over:
			return
		case <-e.kick:
		case <-timer.C:
		}
		e.mu.Lock()
		e.catchUp()
		e.settle()
		at, ok := e.soonest()
		pause := time.Hour
		if ok {
			pause = time.Duration(float64(at.Sub(e.Clock)) / e.Speed)
		}
		e.mu.Unlock()
		timer.Reset(max(pause, 0))
	}
}

// nudge makes follow look again: a process may now wake sooner.
func (e *Engine) nudge() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// Close ends every process. A cluster that is not used any more must be closed.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.Over:
		return
	default:
		close(e.Over)
	}
	for len(e.procs) > 0 {
		p := e.procs[len(e.procs)-1]
		if p.done { // it panicked
			e.bury(p)
			continue
		}
		p.Kill()
	}
	for _, f := range e.idle {
		f.cancel()
	}
	e.idle = nil
}

// Flock is a lock that is waited for: that on a VM's configuration, or on a storage. One process
// holds it alone, or several share it.
type Flock struct {
	Held   bool
	Shared int
}

// Lock takes the lock for this process alone, or reports that it could not within the limit.
func (p *Process) Lock(l *Flock, limit time.Duration) bool {
	if !p.Wait(limit, func() bool { return !l.Held && l.Shared == 0 }) {
		return false
	}
	l.Held = true
	return true
}

// Unlock ends the exclusive hold.
func (l *Flock) Unlock() { l.Held = false }

// Unshare ends one of the shared holds.
func (l *Flock) Unshare() { l.Shared-- }
