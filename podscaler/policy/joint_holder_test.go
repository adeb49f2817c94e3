package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// swings is what is learnt of a load that needs some replicas and, every period, for a minute more.
func swings(low, high, times int, every time.Duration) *regrets {
	var r regrets
	for at := time.Duration(0); at < time.Duration(times)*every; at += 15 * time.Second {
		n := low
		if at%every < time.Minute {
			n = high
		}
		r.see(start.Add(at), n, false)
	}
	return &r
}

func TestReplicasAreKeptByWhatGivingThemUpHasCost(t *testing.T) {
	for _, c := range []struct {
		name     string
		r        *regrets
		min, max time.Duration
	}{
		{"a load that stands still", swings(6, 6, 20, 5*time.Minute), shortKeep, shortKeep},
		{"within what is kept anyway", swings(6, 18, 20, 2*time.Minute), shortKeep, shortKeep},
		{"one replica more, once", swings(6, 7, 2, 5*time.Minute), shortKeep, shortKeep},
		{"every five minutes", swings(6, 18, 12, 5*time.Minute), 4 * time.Minute, 5 * time.Minute},
		{"every twenty minutes", swings(6, 18, 12, 20*time.Minute), 19 * time.Minute, 20 * time.Minute},
		{"every two hours is dearer to bridge than to miss", swings(6, 18, 12, 2*time.Hour), shortKeep, shortKeep},
	} {
		if got := c.r.keep(); got < c.min || got > c.max {
			t.Errorf("%s: keeps for %s, should for %s to %s", c.name, got, c.min, c.max)
		}
	}
}

func TestKeepingIsForgottenWithTheLoadThatTaughtIt(t *testing.T) {
	r := swings(6, 18, 12, 5*time.Minute)
	for i := range 2 * remembered {
		at := start.Add(2*time.Hour + time.Duration(i)*3*time.Hour)
		r.see(at, 18, false)
		r.see(at.Add(time.Minute), 6, false)
	}
	if got := r.keep(); got != shortKeep {
		t.Errorf("after %d times of three hours keeps for %s, should for %s", 2*remembered, got, shortKeep)
	}
}

// What works off a queue is more than what is needed once it is gone, and nothing is learnt of the
// difference.
func TestWhatWorksOffAQueueIsNotRegretted(t *testing.T) {
	type stretch struct {
		replicas int
		over     time.Duration
		queued   bool
	}
	for _, c := range []struct {
		name string
		load []stretch
		want []gap
	}{
		{"a start with a queue, and a crowd", []stretch{{20, time.Minute, true}, {4, 8 * time.Minute, false}, {20, 2 * time.Minute, true}, {15, time.Minute, false}}, nil},
		{"a crowd that comes back", []stretch{{15, time.Minute, false}, {4, 5 * time.Minute, false}, {22, time.Minute, true}, {15, time.Minute, false}}, []gap{{6*time.Minute + 5*time.Second, 11}}},
		{"half of it", []stretch{{15, time.Minute, false}, {4, 5 * time.Minute, false}, {22, time.Minute, true}, {9, time.Minute, false}}, []gap{{6*time.Minute + 5*time.Second, 5}}},
		{"after a queue of twenty minutes, of which three count", []stretch{{15, time.Minute, false}, {4, 5 * time.Minute, false}, {22, 20 * time.Minute, true}, {15, time.Minute, false}}, []gap{{8*time.Minute + 5*time.Second, 11}}},
		{"those that are needed all the while", []stretch{{15, time.Minute, false}, {22, 20 * time.Minute, true}, {15, time.Minute, false}}, nil},
		{"as many again within a queue of few", []stretch{{15, time.Minute, false}, {4, 5 * time.Minute, false}, {3, time.Minute, true}, {4, time.Minute, false}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r regrets
			now := start
			for _, s := range c.load {
				for end := now.Add(s.over); now.Before(end); now = now.Add(5 * time.Second) {
					r.see(now, s.replicas, s.queued)
				}
			}
			if !slices.Equal(r.gaps, c.want) {
				t.Errorf("regrets %v, should %v", r.gaps, c.want)
			}
		})
	}
}

// What was not seen was not given up: it may have been needed all the time.
func TestATimeInWhichNothingIsKnownIsNotRegretted(t *testing.T) {
	p := unlearned(t)
	w := &podscaler.Workload{SLO: podscaler.SLO{Target: 100 * time.Millisecond}, Pod: pricing.Resources{CPU: 500}}
	for i := range 12 {
		at := start.Add(time.Duration(i) * 20 * time.Minute)
		p.holder.regrets.see(at, 6, false)
		if r := p.Desired(&podscaler.View{Now: at.Add(15 * time.Second), Workload: w, Replicas: 6}); r.Known {
			t.Fatalf("without any signal it knows: %+v", r)
		}
	}
	if got := p.holder.regrets.keep(); got != shortKeep || len(p.holder.regrets.gaps) > 0 {
		t.Errorf("replicas are kept for %s by %d gaps, want %s by none", got, len(p.holder.regrets.gaps), shortKeep)
	}
}
