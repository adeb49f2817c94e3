package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// errMetricsGone is what a reading ends with while a fault has taken the metrics away.
var errMetricsGone = errors.New("the metrics server does not answer")

// errNothingYet is what a reading ends with until what is late has come for the first time.
var errNothingYet = errors.New("nothing has been measured yet")

// Read returns what was measured of a workload over its objective's window.
func (c *cluster) Read(_ context.Context, wl *podscaler.Workload, _ time.Time) (podscaler.Window, error) {
	if c.blind > 0 {
		return podscaler.Window{}, errMetricsGone
	}
	s := c.service(wl.Name)
	if s == nil {
		return podscaler.Window{}, fmt.Errorf("workload %s is not measured", wl.Name)
	}
	window := wl.SLO.Window
	if window <= 0 {
		window = time.Minute
	}
	if window > s.cfg.Window {
		return podscaler.Window{}, fmt.Errorf("workload %s is measured over %s, not over %s", wl.Name, s.cfg.Window, window)
	}
	now := c.now - c.cfg.Late
	if now < 0 {
		return podscaler.Window{}, errNothingYet
	}
	out := podscaler.Window{InFlight: podscaler.Known(float64(s.stats.flying(now)))}
	// Only whole seconds are counted, and only those the world has lived through.
	span := min(window, now).Truncate(time.Second)
	if to := now.Truncate(time.Second); span > 0 {
		out.Arrivals = podscaler.Known(float64(s.stats.starts.between(to-span, to)) / span.Seconds())
	}
	if wl.SLO.Target > 0 {
		s.stats.answers(now, window, wl.SLO, &out)
	}
	return out, nil
}

// answers reads the objective's quantile and the fraction of good requests over the window.
func (s *stats) answers(now, window time.Duration, slo podscaler.SLO, into *podscaler.Window) {
	if s.hist != nil {
		grown := s.hist.window(now, window)
		into.Latency.Value, into.Latency.Known = bucketQuantile(slo.Quantile, s.hist.edges, grown)
		into.Good.Value, into.GoodWithin, into.Good.Known = goodFraction(slo.Target, s.hist.edges, grown)
		return
	}
	secs := slices.Clone(s.recent.secs[s.recent.since(now-window):s.recent.since(now)])
	if len(secs) == 0 {
		return
	}
	n := 0
	for _, v := range secs {
		if within(v, slo.Target) {
			n++
		}
	}
	into.Latency, into.Good = podscaler.Known(quantile(secs, slo.Quantile)), podscaler.Known(float64(n)/float64(len(secs)))
}

// measure takes every ready pod's CPU use since the last time, or since it became ready, and the
// memory that it has in use, as metrics-server does.
func (c *cluster) measure() {
	for _, s := range c.services {
		for _, p := range s.pods {
			if !p.obs.Ready || p.dead {
				continue
			}
			busy := p.srv.Used(c.now)
			if span := c.now - p.measured; span > 0 {
				cpu := podscaler.Sample{Known: true, Value: (busy - p.busy) / span.Seconds(), At: c.clock(), Span: span}
				c.publish(p, cpu, s.cfg.Memory.of(p.srv.Load(), cpu))
			}
			p.measured, p.busy = c.now, busy
		}
	}
}

// of is a sample of memory with so many requests in the pod, taken with one of CPU.
func (m Memory) of(requests int, cpu podscaler.Sample) podscaler.Sample {
	if m == (Memory{}) {
		return podscaler.Sample{}
	}
	cpu.Value = float64(m.Base + pricing.Bytes(requests)*m.PerRequest)
	return cpu
}

// publish lets samples be read, at once or late.
func (c *cluster) publish(p *pod, cpu, memory podscaler.Sample) {
	show := func() { p.obs.CPU, p.obs.Memory = cpu, memory }
	if c.cfg.Late == 0 {
		show()
		return
	}
	c.later(c.cfg.Late, show)
}

// flying is how many requests were in flight at a time, to the second.
func (s *stats) flying(at time.Duration) int {
	if s.past == nil {
		return s.inFlight
	}
	return s.past[int(at/time.Second)%len(s.past)]
}
