package policy

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// A pod is full of what it used while there was a queue, however short that was.
func TestPodsAreFullWhereTheyQueueWhileTheyAreMeasured(t *testing.T) {
	const span = 15 * time.Second
	for _, c := range []struct {
		name  string
		queue string        // by run, five seconds apart: x is a queue
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
		{"a queue for all of a window, whatever the sample's times", "xxxxxxxxxxxxx", 90 * time.Second, span, true},
		{"a gap within it", "xxx.xx", 0, span, false},
		{"a sample between two runs", "....xx", 2 * time.Second, time.Second, true},
		{"a sample of no time", "...xxx", 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s sights
			w := &podscaler.Workload{Pod: pricing.Resources{CPU: 600}}
			for i, x := range c.queue {
				now := start.Add(time.Duration(i) * 5 * time.Second)
				of := world{demand: 0.05, rate: 60, latency: 2, busiest: 0.5, age: c.age}
				if x == 'x' {
					of.flying = 150
				}
				v := of.view(w, now)
				for p := range v.Pods {
					v.Pods[p].CPU.Span = c.over
				}
				s.add(v, time.Minute)
			}
			if seen := s.over(time.Minute); seen.Full != c.want {
				t.Errorf("full %v, should be %v", seen.Full, c.want)
			}
		})
	}
}

// A crowd that spares serve within half a minute leaves no queue as long as a window, and what a pod may use is
// learnt from it all the same: pods that are taken for larger than they are would be given up again at once.
func TestJointLearnsWhatAPodMayUseFromAShortQueue(t *testing.T) {
	made, err := newJoint(Joint{})
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*joint)
	w := &podscaler.Workload{
		Name: "shop/web", Min: 1, Max: 100, Pod: pricing.Resources{CPU: 600},
		SLO: podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute},
	}
	before := world{demand: 0.05, rate: 30, latency: 0.2, flying: 4}
	crowd := world{demand: 0.05, rate: 60, latency: 2, flying: 150, busiest: 0.5}
	for i := range 60 {
		of := before
		if 40 <= i && i < 47 { // 30 s
			of = crowd
		}
		p.Desired(of.view(w, start.Add(time.Duration(i)*5*time.Second)))
	}
	if got := p.service.Quota(); got > 0.53 || got < 0.5 {
		t.Errorf("full pods used 0.5 cores for half a minute, and are taken to have %.3g", got)
	}
}
