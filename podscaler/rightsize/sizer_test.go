package rightsize

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// t0 is when the process leads.
var t0 = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func TestKillsThatMayHaveCountedBeforeDoNotCount(t *testing.T) {
	resized := func(pod string, ago time.Duration, applied bool) *Resized {
		return &Resized{Pod: pod, At: t0.Add(-ago), Applied: applied}
	}
	for _, c := range []struct {
		name string
		ago  time.Duration // before the process led
		last *Resized
		now  *Resized // by the process itself
		want bool
	}{
		{name: "while it leads", ago: -time.Minute, want: true},
		{name: "just before, when perhaps no process looked", ago: 4 * time.Minute, want: true},
		{name: "long before", ago: 6 * time.Minute},
		{name: "none", ago: 1e6 * time.Hour},
		{name: "since a resize", ago: time.Minute, last: resized("shop/a", 2*time.Minute, true), want: true},
		{name: "before it", ago: 3 * time.Minute, last: resized("shop/a", 2*time.Minute, true)},
		{name: "before another pod's, which may have followed its own", ago: 3 * time.Minute, last: resized("shop/b", 2*time.Minute, true)},
		{name: "before one that was refused", ago: 3 * time.Minute, last: resized("shop/a", 2*time.Minute, false), want: true},
		{name: "long before, and a longer time before that it was resized", ago: time.Hour, last: resized("shop/a", 2*time.Hour, true)},
		{name: "before a resize that a clock which jumped puts into the future", ago: time.Minute, last: resized("shop/b", -time.Hour, true), want: true},
		{name: "seen once the pod has been given more", ago: -time.Minute, now: resized("shop/a", -2*time.Minute, true)},
		{name: "seen once another pod has", ago: -time.Minute, now: resized("shop/b", -2*time.Minute, true), want: true},
	} {
		s := NewSizer(&Wants{Last: c.last}, t0)
		if c.now != nil {
			s.Done(*c.now)
		}
		if got := s.counts("shop/a", "app", t0.Add(-c.ago)); got != c.want {
			t.Errorf("%s: counts %v", c.name, got)
		}
	}
}

// Pods have random sizes and uses; some are not ready, some have a resize under way, some are
// refused one. They are resized one by one, none that was refused of late, and never while
// something holds them. Once all are left alone nothing remains to be done.
func TestPodsAreResizedOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := make([]Candidate, rapid.IntRange(1, 5).Draw(t, "pods"))
		for i := range pods {
			requests := pricing.Resources{CPU: pricing.MilliCPU(rapid.IntRange(0, 2000).Draw(t, "cpu")), Memory: pricing.Bytes(rapid.IntRange(0, 2000).Draw(t, "memory")) * pricing.MiB}
			pods[i] = Candidate{Name: fmt.Sprint("shop/", i), Ready: true, Pod: Pod{Running: true, Started: t0, Containers: []Container{{Name: "app", Requests: requests}}}}
		}
		cores, bytes := rapid.Float64Range(0.01, 3).Draw(t, "cores"), rapid.Float64Range(1e6, 3e9).Draw(t, "bytes")
		w := &Wants{Mode: InPlace}
		s := NewSizer(w, t0)
		refused := map[string]time.Time{}
		for round := range 60 {
			now := t0.Add(time.Duration(round) * time.Minute)
			calm := round > 30
			w.Held = nil
			if !calm && rapid.IntRange(0, 3).Draw(t, "held") == 0 {
				w.Held = &Reason{Code: "Paused"}
			}
			pending := false
			for i := range pods {
				p := &pods[i]
				p.Ready = calm || rapid.IntRange(0, 5).Draw(t, "ready") > 0
				if p.Resize = ResizeDone; !calm && rapid.IntRange(0, 9).Draw(t, "pending") == 0 {
					p.Resize, pending = ResizePending, true
				}
			}
			s.Learn(now, pods, used(pods, now, cores, bytes))
			says, order := s.Decide(now, w, pods)
			if says.Reason.Code == "" {
				t.Fatalf("round %d: no reason", round)
			}
			if order == nil {
				continue
			}
			if w.Held != nil || pending || round == 0 {
				t.Fatalf("round %d: %s is resized: held %v, pending %v", round, order.Pod, w.Held, pending)
			}
			if at, was := refused[order.Pod]; was && now.Sub(at) < refusedFor {
				t.Fatalf("round %d: %s is resized, which was refused at %s", round, order.Pod, at)
			}
			if last := says.Last; last != nil && last.Pod != order.Pod {
				for _, p := range pods {
					if p.Name == last.Pod && !p.Ready {
						t.Fatalf("round %d: %s is resized while %s, the last one, is not ready", round, order.Pod, last.Pod)
					}
				}
			}
			err := ""
			if !calm && rapid.Bool().Draw(t, "refused") {
				err, refused[order.Pod] = "no", now
			}
			for i := range pods {
				if pods[i].Name == order.Pod && err == "" {
					pods[i].Containers = []Container{{Name: "app", Requests: order.Changes[0].Requests}}
				}
			}
			s.Done(order.Done(now, err))
		}
		switch code := s.Says().Reason.Code; code {
		case ReasonUnchanged, ReasonWithinBounds, ReasonQoSFixed:
		default:
			t.Fatalf("in the end: %v", s.Says().Reason)
		}
	})
}

func used(pods []Candidate, now time.Time, cores, bytes float64) map[string][]podscaler.ContainerUse {
	all := map[string][]podscaler.ContainerUse{}
	for _, p := range pods {
		all[p.Name] = []podscaler.ContainerUse{{
			Name: "app", CPU: podscaler.Sample{Known: true, Value: cores, At: now, Span: time.Minute}, Memory: podscaler.Sample{Known: true, Value: bytes, At: now},
		}}
	}
	return all
}
