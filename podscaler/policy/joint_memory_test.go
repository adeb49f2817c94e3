package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// A queue that stays for days is as much to remember as one of some hours, and shows the same.
func TestALongQueueIsBounded(t *testing.T) {
	var p pause
	for i := range 50_000 {
		p.see(count{start.Add(time.Duration(i) * 15 * time.Second), 1000 + float64(i%2) + 10*float64(i), 100, 3}, 10, true)
		if len(p.queue) > mostCounts {
			t.Fatalf("%d counts are remembered after %d runs", len(p.queue), i+1)
		}
	}
	if first := p.queue[0].at; !first.Equal(start) {
		t.Errorf("the queue began at %s, and is taken to have at %s", start, first)
	}
	if got := p.estimate(); got < longestPause {
		t.Errorf("a queue that grows on and on is of users who pause for %vs", got)
	}
}

// A source that counts requests in flight no more is one that does not, after a while.
func TestRequestsThatAreCountedNoMoreKeepNoReplicas(t *testing.T) {
	p, w := unlearned(t), shop(500)
	const lost = 200
	replicas, said := 12, false
	for i := range lost + 400 {
		cores := 2.0
		if i >= lost/2 {
			cores = 0.4
		}
		v := manyPods(w, replicas, cores/float64(replicas), start.Add(time.Hour+time.Duration(i)*15*time.Second))
		if i >= lost {
			v.Window.InFlight = podscaler.Reading{}
		}
		r := p.Desired(v)
		if i < lost {
			continue // as if they were held
		}
		if i < lost+int(longKeep/(15*time.Second)) && r.Replicas < replicas {
			t.Fatalf("run %d: goes down to %d while it may be a gap", i, r.Replicas)
		}
		replicas = r.Replicas
		for _, why := range r.Reasons {
			said = said || strings.Contains(why.Text, "have not been counted for 30m")
		}
	}
	if replicas > 4 || !said {
		t.Errorf("there are %d replicas for 0.4 cores (said why: %v)", replicas, said)
	}
}
