package policy

import (
	"math"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A pod is full of what it used while there was a queue, however short that was.
func TestPodsAreFullWhereTheyQueueWhileTheyAreMeasured(t *testing.T) {
	const span = 15 * time.Second
	for _, c := range []struct {
		name  string
		queue string        // by run, five seconds apart: x is counted, and i inferred
		age   time.Duration // of the sample at the last of them
		over  time.Duration // that it is of
		want  bool
	}{
		{"no queue", "......", 0, span, false},
		{"a queue all the while", "xxxxxx", 0, span, true},
		{"a queue since the sample began", "..xxxx", 0, span, true},
		{"a queue that began within it", "...xxx", 0, span, false},
		{"a queue that was gone before it ended", "xxxxx.", 0, span, false},
		{"a queue that was gone after it ended", "xxxxx.", 5 * time.Second, span, true},
		{"a queue that was gone at the run after it", "xxxxx.", 2 * time.Second, span, false},
		{"a sample from before the first run", "xxxxxx", 20 * time.Second, span, false},
		{"a queue for all of a window, and a sample from before it", "xxxxxxxxxxxxx", 60 * time.Second, span, false},
		{"a queue for longer than a window, and an old sample over a minute", "xxxxxxxxxxxxxxxxxxxxxxxxx", 30 * time.Second, time.Minute, true},
		{"the same where the queue began within it", "......xxxxxxxxxxxxxxxxxxx", 30 * time.Second, time.Minute, true},
		{"the same where it began later", ".......xxxxxxxxxxxxxxxxxx", 30 * time.Second, time.Minute, false},
		{"a queue for all of a window, and a sample without a time", "xxxxxxxxxxxxx", -1, span, true},
		{"one run, and a sample without a time", "x", -1, span, false},
		{"no queue at the start of it", ".xxxxxxxxxxxx", -1, span, false},
		{"requests in flight that were not counted", "iiiiiiiiiiiii", 0, span, false},
		{"a gap within it", "xxx.xx", 0, span, false},
		{"a sample between two runs", "....xx", 2 * time.Second, time.Second, true},
		{"a sample of no time", "...xxx", 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s sights
			w := shop(600)
			for i, x := range c.queue {
				now := start.Add(time.Duration(i) * 5 * time.Second)
				of := world{demand: 0.05, rate: 60, latency: 2, busiest: 0.5, age: c.age}
				if x == 'x' {
					of.flying = 150
				}
				v := of.view(w, now)
				if x == 'i' {
					v.Window.InFlight = podscaler.Reading{}
				}
				for p := range v.Pods {
					v.Pods[p].CPU.Span = c.over
				}
				s.add(v, time.Minute)
			}
			if seen := s.over(time.Minute, 0.5, capacity.NewService(0.5, 0.3)); seen.Full != c.want {
				t.Errorf("full %v, should be %v", seen.Full, c.want)
			}
		})
	}
}

// A crowd that spares serve within half a minute leaves no queue as long as a window. What a pod
// may use is learnt from it all the same, or pods would be given up at once.
func TestJointLearnsWhatAPodMayUseFromAShortQueue(t *testing.T) {
	p := unlearned(t)
	w := shop(600)
	before := world{demand: 0.05, rate: 30, latency: 0.2, flying: 4}
	crowd := world{demand: 0.05, rate: 60, latency: 2, flying: 150, busiest: 0.5}
	for i := range 60 {
		of := before
		if 40 <= i && i < 47 { // 30 s
			of = crowd
		}
		p.Desired(of.view(w, start.Add(time.Duration(i)*5*time.Second)))
	}
	if got := p.estimator.service.Quota(); got > 0.53 || got < 0.5 {
		t.Errorf("full pods used 0.5 cores for half a minute, and are taken to have %.3g", got)
	}
}

// A start with a queue needs more than what is needed then, and when a crowd comes later nothing
// was given up.
func TestJointRegretsNothingThatWorkedOffAQueue(t *testing.T) {
	p := unlearned(t)
	w := shop(500)
	now := start
	for _, x := range []struct {
		over time.Duration
		is   world
	}{
		{time.Minute, world{demand: 0.05, rate: 60, latency: 2, flying: 150}},
		{8 * time.Minute, world{demand: 0.05, rate: 30, latency: 0.2, flying: 4}},
		{time.Minute, world{demand: 0.05, rate: 60, latency: 2, flying: 150}},
		{time.Minute, world{demand: 0.05, rate: 30, latency: 0.2, flying: 4}},
	} {
		for end := now.Add(x.over); now.Before(end); now = now.Add(5 * time.Second) {
			p.Desired(x.is.view(w, now))
		}
	}
	if len(p.holder.regrets.gaps) > 0 {
		t.Errorf("regrets %v", p.holder.regrets.gaps)
	}
}

// world is a service as it is: what is seen of six pods of half a core at a run.
type world struct {
	demand  float64 // CPU of a request, in seconds
	rate    float64
	latency float64
	flying  float64
	age     time.Duration // of the samples of CPU, which have no time if it is negative
	lead    time.Duration // of machines
	busiest float64       // cores of each pod, unless it is what requests take
	slow    float64       // part of the requests that misses the objective
}

func (w *world) view(wl *podscaler.Workload, now time.Time) *podscaler.View {
	v := &podscaler.View{Now: now, Workload: wl, Replicas: 6, Pods: make([]podscaler.Pod, 6)}
	cpu, at := w.busiest, now.Add(-w.age)
	if w.age < 0 {
		at = time.Time{}
	}
	if cpu == 0 {
		cpu = w.rate * w.demand / 6
	}
	for i := range v.Pods {
		v.Pods[i] = podscaler.Pod{
			Phase: podscaler.Running, Ready: true, ReadyChanged: start,
			CPU: podscaler.Sample{Known: true, Value: cpu, At: at, Span: 15 * time.Second},
		}
	}
	v.Window = podscaler.Window{
		Latency: podscaler.Known(w.latency), Good: podscaler.Known(1 - w.slow), Arrivals: podscaler.Known(w.rate), InFlight: podscaler.Known(w.flying),
	}
	v.Room.MachineLead = w.lead
	return v
}

// unlearned is a joint policy that has seen nothing.
func unlearned(t *testing.T) *joint {
	t.Helper()
	p := must.Get(newJoint(Joint{}))(t)
	return p.(*joint)
}

// shop is a workload whose pods request so many millicores.
func shop(cpu pricing.MilliCPU) *podscaler.Workload {
	return &podscaler.Workload{
		Name: "shop/web", Min: 1, Max: 100, Pod: pricing.Resources{CPU: cpu},
		SLO: podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute},
	}
}

// In the first minute what joins a queue has not been answered, and the runs before the first
// sample of CPU say nothing of it.
func TestAFirstQueueDoesNotMakeRequestsSeemCheap(t *testing.T) {
	s := sights{
		{at: start, cpu: math.NaN(), inFlight: 1000, arrivals: 490, pods: 1, jammed: start},
		{at: start.Add(5 * time.Second), cpu: 0.5, inFlight: 3000, arrivals: 490, pods: 1, jammed: start},
	}
	seen := s.over(time.Minute, 0.6, capacity.NewService(0.6, 0.3))
	if seen.CPU != 0.5 || seen.Completions != 90 {
		t.Errorf("pods used %v cores for %v requests a second, want 0.5 for 90", seen.CPU, seen.Completions)
	}
}
