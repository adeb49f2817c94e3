package pvesim

import (
	"iter"
	"sync"
	"time"
)

// engine runs the processes of the emulated world, one at a time and in a fixed order. All state of
// the cluster is guarded by its lock, and a process holds that lock whenever it runs: between two
// waits nothing else happens.
type engine struct {
	mu    sync.Mutex
	now   time.Time
	speed float64 // of the wall clock; 0 lets time pass only while somebody waits
	born  int
	procs []*process // those that are not over, oldest first
	idle  []*fiber   // whose processes are over
	wall  time.Time  // of the wall clock when now was last brought up to date
	kick  chan struct{}
	over  chan struct{} // closed when the cluster is
}

// process is code that takes emulated time. Only its own body calls wait and sleep.
type process struct {
	e     *engine
	born  int
	on    *fiber
	body  func(p *process)
	wake  time.Time
	ready func() bool
	done  bool
	ended chan struct{}
}

// fiber is the coroutine that processes run on, one after another. It is kept for the next process,
// since the race detector never frees what it keeps of a coroutine.
type fiber struct {
	runs   *process
	resume func() (struct{}, bool)
	cancel func()
	yield  func(struct{}) bool
}

// killed is what a process that is killed unwinds with, so that its deferred calls run.
type killed struct{}

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
			if _, ok := r.(killed); !ok {
				panic(r)
			}
		}
	}()
	p.body(p)
	return true
}

// start begins a process; it first runs when the engine settles.
func (e *engine) start(body func(p *process)) *process {
	e.born++
	p := &process{e: e, born: e.born, body: body, wake: e.now, ended: make(chan struct{})}
	if last := len(e.idle) - 1; last >= 0 {
		p.on, e.idle = e.idle[last], e.idle[:last]
	} else {
		p.on = newFiber()
	}
	p.on.runs = p
	e.procs = append(e.procs, p)
	return p
}

// wait lets time pass until ready, at most limit, and reports whether it is ready. Deferred calls
// of a process that is being killed must not wait.
func (p *process) wait(limit time.Duration, ready func() bool) bool {
	if ready != nil && ready() {
		return true
	}
	p.wake, p.ready = p.e.now.Add(limit), ready
	if !p.on.yield(struct{}{}) {
		panic(killed{})
	}
	return ready != nil && ready()
}

// until lets time pass until ready.
func (p *process) until(ready func() bool) { p.wait(never, ready) }

// sleep lets time pass.
func (p *process) sleep(d time.Duration) {
	if d > 0 {
		p.wait(d, nil)
	}
}

// kill ends a process where it waits. A process cannot kill itself: it returns.
func (p *process) kill() {
	if p.done {
		return
	}
	p.on.cancel()
	p.e.bury(p)
}

func (e *engine) bury(p *process) {
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
func (e *engine) settle() {
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
func (e *engine) next() *process {
	for _, p := range e.procs {
		if !p.wake.After(e.now) || p.ready != nil && p.ready() {
			return p
		}
	}
	return nil
}

// soonest is when the next process wakes.
func (e *engine) soonest() (time.Time, bool) {
	var at time.Time
	for _, p := range e.procs {
		if at.IsZero() || p.wake.Before(at) {
			at = p.wake
		}
	}
	return at, len(e.procs) > 0
}

// do runs a process to its end and returns then. The caller does not hold the lock.
func (e *engine) do(body func(p *process)) {
	p := e.launch(body)
	e.nudge()
	<-p.ended
}

// launch starts a process, and runs it to its end if time passes only while somebody waits.
func (e *engine) launch(body func(p *process)) *process {
	e.mu.Lock()
	defer e.mu.Unlock() // whatever panics: who closes the cluster then must not wait for ever
	e.catchUp()
	p := e.start(body)
	e.settle()
	for e.speed == 0 && !p.done {
		at, _ := e.soonest() // p itself is there
		e.now = at
		e.settle()
	}
	return p
}

// Now is the time in the emulated cluster.
func (e *engine) Now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.catchUp()
	return e.now
}

// Advance lets time pass in a cluster whose time passes only while somebody waits.
func (e *engine) Advance(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	until := e.now.Add(d)
	e.settle()
	for {
		at, ok := e.soonest()
		if !ok || at.After(until) {
			break
		}
		e.now = at
		e.settle()
	}
	e.now = until
}

// with gives f the cluster's state between two moments of it.
func (e *engine) with(f func()) {
	defer e.nudge()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.catchUp()
	f()
	e.settle()
}

// catchUp moves the time to where the wall clock says it is, if it follows it.
func (e *engine) catchUp() {
	if e.speed == 0 {
		return
	}
	now := time.Now()
	e.now = e.now.Add(time.Duration(float64(now.Sub(e.wall)) * e.speed))
	e.wall = now
}

// follow keeps processes running by the wall clock until the cluster is closed.
func (e *engine) follow() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-e.over:
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
			pause = time.Duration(float64(at.Sub(e.now)) / e.speed)
		}
		e.mu.Unlock()
		timer.Reset(max(pause, 0))
	}
}

// nudge makes follow look again: somebody may now wake sooner.
func (e *engine) nudge() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// Close ends every process. A cluster that is not used any more must be closed.
func (e *engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.over:
		return
	default:
		close(e.over)
	}
	for len(e.procs) > 0 {
		p := e.procs[len(e.procs)-1]
		if p.done { // it panicked
			e.bury(p)
			continue
		}
		p.kill()
	}
	for _, f := range e.idle {
		f.cancel()
	}
	e.idle = nil
}

// flock is a lock that is waited for: that on a VM's configuration, or on a storage. One process
// holds it alone, or several share it.
type flock struct {
	held   bool
	shared int
}

// lock takes the lock for this process alone, or reports that it could not within the limit.
func (p *process) lock(l *flock, limit time.Duration) bool {
	if !p.wait(limit, func() bool { return !l.held && l.shared == 0 }) {
		return false
	}
	l.held = true
	return true
}

func (l *flock) unlock() { l.held = false }

func (l *flock) unshare() { l.shared-- }
