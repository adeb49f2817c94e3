package rightsize

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
)

// stuckPods are pods that their nodes can never hold as they were resized.
func stuckPods(n int, started time.Time) []Candidate {
	pods := make([]Candidate, n)
	for i := range pods {
		pods[i] = Candidate{Name: fmt.Sprint("shop/", i), Ready: true, Pod: Pod{
			Running: true, Started: started, Resize: ResizeInfeasible,
			Containers: []Container{{Name: "app", Requests: pricing.Resources{CPU: 100, Memory: 64 * pricing.MiB}}},
		}}
	}
	return pods
}

// auto is a Sizer that has seen pods use more than they request for so many minutes.
func auto(w *Wants, pods []Candidate, minutes int) (*Sizer, time.Time) {
	s := NewSizer(w, t0)
	now := t0
	for i := range minutes {
		now = t0.Add(time.Duration(i) * time.Minute)
		s.Learn(now, pods, used(pods, now, 1, 1e9))
		s.Decide(now, &Wants{Mode: Off}, pods)
	}
	return s, now
}

func TestWhatKeepsAPodFromBeingEvicted(t *testing.T) {
	for _, c := range []struct {
		name   string
		pods   int
		change func(w *Wants, pods []Candidate)
		want   string // why the first is not evicted; empty if it is
	}{
		{name: "nothing", pods: 2},
		{name: "it is the only one", pods: 1, want: "EvictionHeld: pod shop/0: it is not evicted: there must be 2 pods for that (rightsize.minReplicas), and there are 1"},
		{name: "it is the only one, which is allowed", pods: 1, change: func(w *Wants, _ []Candidate) { w.MinReplicas = 1 }},
		{name: "more are asked for", pods: 4, change: func(w *Wants, _ []Candidate) { w.MinReplicas = 5 }, want: "EvictionHeld: pod shop/0: it is not evicted: there must be 5 pods for that (rightsize.minReplicas), and there are 4"},
		{name: "half of the others are ready", pods: 4, change: func(_ *Wants, pods []Candidate) { pods[3].Ready = false }},
		{name: "fewer are", pods: 4, change: func(_ *Wants, pods []Candidate) {
			pods[1].Ready, pods[2].Ready, pods[3].Ready = false, false, false
		}, want: "EvictionHeld: pod shop/0: it is not evicted: of 4 replicas 2 others must be ready for that, and 0 are"},
		{name: "replicas are missing", pods: 2, change: func(w *Wants, _ []Candidate) { w.Replicas = 4 }, want: "EvictionHeld: pod shop/0: it is not evicted: of 4 replicas 2 others must be ready for that, and 1 are"},
		{name: "it must not be", pods: 2, change: func(_ *Wants, pods []Candidate) { pods[0].Pinned, pods[1].Pinned = "bare", "bare" }, want: "EvictionHeld: pod shop/0: it is not evicted: bare"},
		{name: "it is young, and nothing is known of evictions", pods: 2, change: func(_ *Wants, pods []Candidate) {
			pods[0].Started, pods[1].Started = t0.Add(-time.Hour), t0.Add(-time.Hour)
		}, want: "EvictedBefore: pod shop/0: it was made after pods were evicted for what is recommended now, or less than 12h ago, and is not evicted for the same"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, pods := &Wants{Mode: Auto, Replicas: c.pods}, stuckPods(c.pods, t0.Add(-13*time.Hour))
			s, now := auto(w, pods, 3)
			if c.change != nil {
				c.change(w, pods)
			}
			says, order := s.Decide(now, w, pods)
			got := ""
			if order == nil {
				got = says.Reason.Code + ": " + says.Reason.Text
			} else if !order.Evict || order.Pod != "shop/0" || len(order.Changes) > 0 {
				t.Errorf("%+v", order)
			}
			if got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A pod without requests can be given some as it is created, and no earlier.
func TestAPodWithoutRequestsIsMadeAnewWhereItGetsSome(t *testing.T) {
	for _, creates := range []bool{false, true} {
		w, pods := &Wants{Mode: Auto, Replicas: 2, Creates: creates}, stuckPods(2, t0.Add(-13*time.Hour))
		for i := range pods {
			pods[i].Resize, pods[i].Containers = ResizeDone, []Container{{Name: "app"}}
		}
		s, now := auto(w, pods, 3)
		says, order := s.Decide(now, w, pods)
		if evicts := order != nil && order.Evict; evicts != creates || !creates && says.Reason.Code != ReasonQoSFixed {
			t.Errorf("created so %v: %+v, %v", creates, order, says.Reason)
		}
	}
}

// Nodes have no room for any pod, wherever it is made again. Each pod is evicted once for a
// recommendation, also if the process is killed in between. There are never so many at a time that
// fewer than half are ready.
func TestEvictionsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "pods")
		w := &Wants{Mode: Auto, Replicas: n, MinReplicas: rapid.IntRange(0, 3).Draw(t, "min")}
		pods := stuckPods(n, t0.Add(-20*time.Hour))
		s, now := auto(w, pods, 3)
		ready := map[string]time.Time{}
		evicted := map[string]int{}
		for range 120 {
			now = now.Add(time.Minute)
			alive := 0
			for i := range pods {
				if pods[i].Ready = !now.Before(ready[pods[i].Name]); pods[i].Ready {
					alive++
				}
			}
			s.Learn(now, pods, used(pods, now, 1, 1e9))
			says, order := s.Decide(now, w, pods)
			if rapid.IntRange(0, 9).Draw(t, "killed") == 0 {
				s = NewSizer(&Wants{Saved: says.Saved, Last: says.Last}, now)
				continue
			}
			if order == nil {
				continue
			}
			if !order.Evict || n < max(w.MinReplicas, 1) || w.MinReplicas == 0 && n < 2 || n > 1 && alive-1 < n-n/2-1 {
				t.Fatalf("%s: %+v, of %d pods %d are ready", now, order, n, alive)
			}
			if evicted[order.Pod]++; evicted[order.Pod] > 1 {
				t.Fatalf("%s: %s is evicted again", now, order.Pod)
			}
			s.Done(order.Done(now, ""))
			for i := range pods {
				if pods[i].Name == order.Pod {
					pods[i].Started = now.Add(time.Second)
					ready[order.Pod] = now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "takes")) * time.Minute)
				}
			}
		}
		least := w.MinReplicas
		if least == 0 {
			least = leastReplicas
		}
		if want := map[bool]int{true: n}[n >= least]; len(evicted) != want {
			t.Fatalf("%d of %d pods were evicted, with %d at least: %v", len(evicted), n, least, s.Says().Reason)
		}
	})
}
