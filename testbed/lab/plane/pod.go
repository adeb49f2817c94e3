package plane

import (
	"net/http"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/serving"
)

// pod is a pod that the API server has, or had. One that does not serve has no application.
type pod struct {
	serving.Pod[*call]
	plane *Plane
	app   *application
	obs   *observed
	timer *time.Timer // at the next end of a request
	ends  *time.Timer // when the grace of a terminating pod is over
	dead  bool        // its machine does not run
	got   map[outcome]*series

	began    bool          // its containers have run
	taken    bool          // its CPU use was taken since they began to,
	measured time.Duration // when it was, or they began,
	used     float64       // and what it had used by then
	origin   float64       // what it had used when they began
	sample   sample
}

// observed takes a pod as the API server has it now.
func (p *Plane) observed(o *observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	old := p.pods[o.key()]
	if old != nil && old.obs.uid != o.uid {
		p.end(old, now)
		old = nil
	}
	if old == nil {
		old = p.add(o, now)
	}
	// How it serves is settled when it is first seen: containers read their settings at their
	// start.
	o.behavior, o.fault = old.obs.behavior, old.obs.fault
	if old.obs.terminating {
		// KWOK has the grace shortened to nothing to take the object away, even if the process
		// needs more.
		o.grace = old.obs.grace
	}
	old.obs = o
	if o.address != "" {
		p.at[o.address] = old
	}
	old.settle(now)
	if o.running && !old.began {
		old.began = true
		old.restart(now)
	}
	old.halt(p.nodes[o.node].isHalted(), now)
	old.endpoint(o.ready && !o.terminating)
	if o.terminating {
		old.terminate()
	}
}

func (p *Plane) add(o *observed, now time.Duration) *pod {
	new := &pod{plane: p, obs: o, got: map[outcome]*series{}}
	if o.behavior.serves {
		new.app = p.application(o)
		new.Pod = serving.New[*call](o.behavior.quota, o.behavior.concurrency, now)
		new.app.balance = o.behavior.balance
	}
	p.pods[o.key()] = new
	return new
}

// removed is called for a pod that the API server has no more.
func (p *Plane) removed(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod := p.pods[key]; pod != nil {
		p.end(pod, p.now())
	}
}

// end takes a pod away. A process outlives its object as long as it has requests and its grace is
// not over, as KWOK deletes pods the moment they are to go.
func (p *Plane) end(pod *pod, now time.Duration) {
	delete(p.pods, pod.obs.key())
	if p.at[pod.obs.address] == pod {
		delete(p.at, pod.obs.address)
	}
	pod.settle(now)
	pod.endpoint(false)
	if pod.Load() == 0 || pod.dead || pod.obs.grace == 0 {
		pod.drop(now)
		pod.forget()
		return
	}
	p.ended[pod] = true
	pod.terminate()
}

// terminate lets a pod finish what it has until its grace is over.
func (d *pod) terminate() {
	if d.ends != nil {
		return
	}
	d.ends = time.AfterFunc(d.obs.grace, func() {
		d.plane.mu.Lock()
		defer d.plane.mu.Unlock()
		now := d.plane.now()
		d.settle(now)
		d.drop(now)
	})
}

// forget ends what is left of a pod that has ended and has nothing to do any more.
func (d *pod) forget() {
	delete(d.plane.ended, d)
	for _, t := range []*time.Timer{d.timer, d.ends} {
		if t != nil {
			t.Stop()
		}
	}
}

// endpoint adds or removes a pod among those that get requests.
func (d *pod) endpoint(in bool) {
	if d.app == nil || d.obs.fault != nil {
		return
	}
	at := slices.Index(d.app.ready, d)
	switch {
	case in && at < 0:
		d.app.ready = append(d.app.ready, d)
	case !in && at >= 0:
		d.app.ready = slices.Delete(d.app.ready, at, at+1)
	}
}

// settle answers every request whose time has come, each as of its own time: a timer that comes
// late makes answers late, and never the pod slower.
func (d *pod) settle(now time.Duration) {
	for due, busy := d.Due(); busy && due <= now; due, busy = d.Due() {
		c, _ := d.Finish(due) // none waits for anything else
		took := due - c.start
		d.plane.late.observe((now - due).Seconds())
		if c.gone {
			record(d.got, outcome{0, "DC"}, d.obs.behavior.edges, took)
			continue
		}
		record(d.got, outcome{http.StatusOK, "-"}, d.obs.behavior.edges, took)
		c.done <- Answer{Code: http.StatusOK, Flags: "-", Pod: d.obs.name, Took: took}
	}
	if d.plane.ended[d] && d.Load() == 0 {
		d.forget()
	}
}

// arm sets the timer to the next end of a request.
func (d *pod) arm(now time.Duration) {
	due, busy := d.Due()
	switch {
	case !busy && d.timer != nil:
		d.timer.Stop()
	case !busy:
	case d.timer == nil:
		d.timer = time.AfterFunc(due-now, d.ring)
	default:
		d.timer.Reset(due - now)
	}
}

func (d *pod) ring() {
	d.plane.mu.Lock()
	defer d.plane.mu.Unlock()
	now := d.plane.now()
	d.settle(now)
	d.arm(now)
}

// drop fails every request that a pod has, as a process does that is killed.
func (d *pod) drop(now time.Duration) {
	for _, c := range d.Drop(now) {
		c.done <- failed(http.StatusServiceUnavailable, "UC", "pod %s was killed before it had answered", d.obs.name)
	}
	d.arm(now)
	if d.plane.ended[d] {
		d.forget()
	}
}

// halt is what becomes of a pod when its machine stops, or runs again: what it had is lost. That it
// does not answer any more is known to those who ask it before Kubernetes knows.
func (d *pod) halt(halted bool, now time.Duration) {
	if d.dead == halted {
		return
	}
	d.dead = halted
	d.settle(now)
	if halted {
		d.drop(now)
	}
	d.restart(now)
}
