package plane

import "time"

// sample is CPU use over a span that ended at a time, as metrics-server keeps one of everything.
// Its zero value says that nothing is known yet.
type sample struct {
	at    time.Duration
	span  time.Duration
	cores float64
}

func (s sample) known() bool { return s.span > 0 }

// freshest is how long containers must have run for a first sample to be made of them: shorter
// than that, what a start costs would be taken for the rule.
const freshest = 10 * time.Second

// Sample takes the CPU use of every pod and node since the time before.
func (p *Plane) Sample() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	used := map[string]float64{} // by node, in seconds
	for pod := range p.all {
		if pod.began && !pod.dead {
			used[pod.obs.node] += pod.take(now)
		}
	}
	span := now - p.sampled
	for name, n := range p.nodes {
		if n.sample = (sample{}); !n.halted && n.seen <= p.sampled && span > 0 {
			n.sample = sample{now, span, used[name] / span.Seconds()}
		}
	}
	p.sampled = now
}

// take samples one pod, and returns what it has used since the time before.
func (d *pod) take(now time.Duration) float64 {
	d.settle(now)
	total := d.total(now)
	used, span := total-d.used, now-d.measured
	if span > 0 && (d.taken || span >= freshest) {
		d.sample = sample{now, span, used / span.Seconds()}
	}
	d.taken, d.measured, d.used = true, now, total
	return used
}

// restart begins the measuring of a pod whose containers have just begun to run.
func (d *pod) restart(now time.Duration) {
	d.sample, d.taken, d.measured, d.used = sample{}, false, now, d.total(now)
	d.origin = d.used
}

// total is the CPU time that a pod would have used if it had been there all the time, in seconds.
// Only differences of it mean something.
func (d *pod) total(now time.Duration) float64 {
	return d.Used(now) + d.obs.behavior.steady*now.Seconds()
}
