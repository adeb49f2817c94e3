package podscaler_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// anyBehavior draws a valid behavior: none, an HPA's without one, or rules.
func anyBehavior(t *rapid.T) *podscaler.Behavior {
	switch rapid.SampledFrom([]string{"none", "legacy", "rules"}).Draw(t, "behavior") {
	case "none":
		return nil
	case "legacy":
		b := podscaler.LegacyBehavior()
		b.Down.Window = anyDuration(t, 0, 120, "window")
		b.Up.Cooldown, b.Down.Cooldown = anyDuration(t, 0, 90, "up cooldown"), anyDuration(t, 0, 90, "down cooldown")
		return b
	}
	return &podscaler.Behavior{Up: anyRules(t, "up"), Down: anyRules(t, "down")}
}

func anyRules(t *rapid.T, name string) podscaler.Rules {
	r := podscaler.Rules{
		Window: anyDuration(t, 0, 120, name+" window"),
		Select: rapid.SampledFrom([]podscaler.Select{"", podscaler.SelectMax, podscaler.SelectMin, podscaler.SelectDisabled}).Draw(t, name+" select"),
	}
	for range rapid.IntRange(1, 3).Draw(t, name+" policies") {
		limit := podscaler.StepLimit{Period: anyDuration(t, 1, 120, "period")}
		if rapid.Bool().Draw(t, "in pods") {
			limit.Pods = rapid.IntRange(1, 10).Draw(t, "pods")
		} else {
			limit.Percent = rapid.IntRange(1, 150).Draw(t, "percent")
		}
		r.Policies = append(r.Policies, limit)
	}
	return r
}

func anyDuration(t *rapid.T, low, high int, name string) time.Duration {
	return time.Duration(rapid.IntRange(low, high).Draw(t, name)) * time.Second
}

func anyWorkload(t *rapid.T) podscaler.Workload {
	low := rapid.IntRange(0, 5).Draw(t, "min")
	w := podscaler.Workload{
		Name: "shop/web", Min: low, Max: low + rapid.IntRange(1, 60).Draw(t, "max - min"),
		Cooldown: anyDuration(t, 0, 90, "cooldown"), Behavior: anyBehavior(t),
	}
	if rapid.Bool().Draw(t, "fallback") {
		w.Fallback = anyFallback(t, &w)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "schedules") {
		w.Schedules = append(w.Schedules, anySchedule(t, i, &w))
	}
	must.Do(t, w.Validate())
	return w
}

func anyFallback(t *rapid.T, w *podscaler.Workload) *podscaler.Fallback {
	return &podscaler.Fallback{
		After: anyDuration(t, 0, 120, "fallback after"), Replicas: rapid.IntRange(max(1, w.Min), w.Max).Draw(t, "fallback"),
		Behavior: rapid.SampledFrom([]podscaler.FallbackBehavior{
			podscaler.FallbackStatic, podscaler.FallbackCurrentIfHigher, podscaler.FallbackCurrentIfLower,
		}).Draw(t, "fallback behavior"),
	}
}

// anySchedule draws a window that opens and closes every few minutes.
func anySchedule(t *rapid.T, i int, w *podscaler.Workload) podscaler.Schedule {
	cron := func(name string, first int) podscaler.Cron {
		c := must.Get(podscaler.ParseCron(fmt.Sprintf("%d/%d * * * *", first, rapid.IntRange(2, 15).Draw(t, name))))(t)
		return c
	}
	s := podscaler.Schedule{Name: fmt.Sprint(i), Start: cron("start", 0), End: cron("end", 1), Ramp: anyDuration(t, 0, 180, "ramp")}
	low := rapid.IntRange(w.Min, w.Max).Draw(t, "floor")
	if rapid.Bool().Draw(t, "has a floor") {
		s.Min = &low
	}
	if s.Min == nil || rapid.Bool().Draw(t, "has a ceiling") {
		s.Max = new(rapid.IntRange(low, w.Max).Draw(t, "ceiling"))
	}
	return s
}

// life is a scaler whose decisions are carried out, now and then crossed by another client.
type life struct {
	scaler   *podscaler.Scaler
	wish     *wish
	replicas int
	second   int
	zeroed   bool // what a status would say
}

func begin(w podscaler.Workload, replicas int) *life {
	l := &life{wish: &wish{}, replicas: replicas}
	l.scaler = podscaler.NewScaler(w, l.wish)
	return l
}

func (l *life) view() *podscaler.View {
	return &podscaler.View{Now: after(l.second), Workload: l.scaler.Workload(), Replicas: l.replicas, ScaledToZero: l.zeroed}
}

func (l *life) decide(wish int) podscaler.Decision {
	l.wish.replicas = wish
	d := l.scaler.Decide(l.view())
	if d.To != d.From {
		l.zeroed = d.To == 0
	}
	return d
}

// live runs through a random past.
func (l *life) live(t *rapid.T, runs int, check func(podscaler.Decision)) {
	for range runs {
		l.second += rapid.IntRange(1, 45).Draw(t, "seconds")
		d := l.decide(rapid.IntRange(-5, 70).Draw(t, "wish"))
		check(d)
		l.replicas = d.To
		if rapid.IntRange(0, 19).Draw(t, "meddle") == 0 {
			l.replicas = rapid.IntRange(0, 70).Draw(t, "another owner's replicas")
		}
	}
}

func TestDecisionsStayWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorkload(t)
		begin(w, rapid.IntRange(0, 70).Draw(t, "replicas")).live(t, 20, func(d podscaler.Decision) {
			paused := d.From == 0 && d.To == 0
			if !paused && (d.To < w.Min || d.To > w.Max) {
				t.Fatalf("from %d to %d, outside of %d and %d; %v", d.From, d.To, w.Min, w.Max, d.Reasons)
			}
			if len(d.Reasons) == 0 {
				t.Fatal("a decision without a reason")
			}
		})
	})
}

// What a fallback and a schedule make of it, their owner has asked for.
func TestUnknownChangesNothingWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorkload(t)
		begin(w, rapid.IntRange(0, 70).Draw(t, "replicas")).live(t, 20, func(d podscaler.Decision) {
			asked := mentions(d, podscaler.ReasonFallback) || mentions(d, podscaler.ReasonScheduleFloor) || mentions(d, podscaler.ReasonScheduleCeiling)
			if !d.Known && !asked && d.To != d.From && d.From >= w.Min && d.From <= w.Max {
				t.Fatalf("unknown, yet from %d to %d; %v", d.From, d.To, d.Reasons)
			}
		})
	})
}

// A schedule's bounds hold at every moment, wherever the policy and the fallback want to go.
func TestAnOpenScheduleIsObeyed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorkload(t)
		plain := w
		plain.Behavior, plain.Cooldown, plain.Fallback = nil, 0, nil
		l := begin(w, rapid.IntRange(w.Min, w.Max).Draw(t, "replicas"))
		l.live(t, 10, func(d podscaler.Decision) {
			if d.From == 0 {
				return
			}
			// The least and the most that a scaler goes to which nothing else binds are the bounds.
			bound := func(n int) int {
				s := podscaler.NewScaler(plain, &wish{n})
				v := *l.view()
				v.Replicas = s.Decide(&podscaler.View{Now: v.Now, Workload: s.Workload(), Replicas: d.From}).To
				return s.Decide(&v).To
			}
			if low, high := bound(0), bound(1000); d.To < low || d.To > high {
				t.Fatalf("from %d to %d, outside of %d and %d; %v", d.From, d.To, low, high, d.Reasons)
			}
		})
	})
}

// A scaler that has forgotten everything shrinks no further than the one that remembers, at any
// moment of the handover.
func TestARestartIsNeverFasterToShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorkload(t)
		old := begin(w, rapid.IntRange(0, 70).Draw(t, "replicas"))
		old.live(t, rapid.IntRange(1, 20).Draw(t, "runs"), func(podscaler.Decision) {})
		old.second += rapid.IntRange(1, 45).Draw(t, "seconds")
		fresh := begin(w, old.replicas)
		fresh.second, fresh.zeroed = old.second, old.zeroed
		next := rapid.IntRange(0, 70).Draw(t, "wish")
		was, is := old.decide(next), fresh.decide(next)
		if is.To < min(was.To, was.From) {
			t.Fatalf("from %d, the old goes to %d and the fresh one to %d\nold: %v\nfresh: %v", was.From, was.To, is.To, was.Reasons, is.Reasons)
		}
	})
}

// Nor does it catch up and overtake later on, while less and less is wanted. (With a cool-down
// it may: the two then act at different moments, on different wishes.)
func TestARestartStaysBehindOnTheWayDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorkload(t)
		w.Cooldown = 0
		if b := w.Behavior; b != nil {
			b.Up.Cooldown, b.Down.Cooldown = 0, 0
		}
		old := begin(w, rapid.IntRange(w.Min, w.Max).Draw(t, "replicas"))
		old.live(t, rapid.IntRange(1, 12).Draw(t, "runs"), func(podscaler.Decision) {})
		fresh := begin(w, old.replicas)
		fresh.second, fresh.zeroed = old.second, old.zeroed
		least, next := old.replicas, old.replicas
		for range 20 {
			pause := rapid.IntRange(1, 45).Draw(t, "seconds")
			old.second, fresh.second = old.second+pause, fresh.second+pause
			next = rapid.IntRange(0, next).Draw(t, "wish")
			was, is := old.decide(next), fresh.decide(next)
			old.replicas, fresh.replicas = was.To, is.To
			least = min(least, was.To)
			if is.To < least {
				t.Fatalf("the old went down to %d at most, the fresh one to %d; %v", least, is.To, is.Reasons)
			}
		}
	})
}
