package podscaler

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var budgetStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func budgetView(w *Workload, at time.Duration, rate, good Reading) *View {
	return &View{Now: budgetStart.Add(at), Workload: w, Window: Window{Arrivals: rate, Good: good}}
}

func TestErrorBudget(t *testing.T) {
	w := &Workload{SLO: SLO{Quantile: 0.99, Target: time.Second, Window: time.Minute}}
	loose := &Workload{SLO: SLO{Quantile: 0.9, Target: time.Second, Window: time.Minute}}
	for _, c := range []struct {
		name  string
		w     *Workload
		span  time.Duration // late requests from here on
		late  float64
		burn  map[time.Duration]float64
		alert time.Duration // its long window
		left  float64
	}{
		{"nothing is late", w, 2 * time.Hour, 0, map[time.Duration]float64{time.Hour: 0}, 0, 1},
		{"as much as may be, for an hour", w, time.Hour, .01, map[time.Duration]float64{time.Hour: 1, 5 * time.Minute: 1, 6 * time.Hour: 1. / 6}, 0, 1 - 1./720},
		{"twenty times for an hour", w, time.Hour, .2, map[time.Duration]float64{time.Hour: 20}, time.Hour, 1 - 20./720},
		{"ten times for six hours", w, 6 * time.Hour, .1, map[time.Duration]float64{time.Hour: 10, 6 * time.Hour: 10}, 6 * time.Hour, 1 - 60./720},
		{"twice for two days", w, 48 * time.Hour, .02, map[time.Duration]float64{6 * time.Hour: 2, 72 * time.Hour: 4. / 3}, 72 * time.Hour, 1 - 96./720},
		{"all is late that may be a tenth", loose, time.Hour, 1, map[time.Duration]float64{time.Hour: 10}, time.Hour, 1 - 10./720},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b ErrorBudget
			for at := time.Duration(0); at <= c.span; at += 15 * time.Second {
				b.See(budgetView(c.w, at, Known(10), Known(1-c.late)))
			}
			s := b.Spent(c.w.SLO, budgetStart.Add(c.span))
			for window, want := range c.burn {
				if got := s.Over(window); math.Abs(got-want) > 0.01*max(want, 1) {
					t.Errorf("over %s the rate is %.4g, want %.4g", window, got, want)
				}
			}
			if math.Abs(s.Left-c.left) > 0.001 {
				t.Errorf("%.4g are left, want %.4g", s.Left, c.left)
			}
			var long time.Duration
			if a := s.Burning(); a != nil {
				long = a.Long
			}
			if long != c.alert {
				t.Errorf("burning over %s, want %s", long, c.alert)
			}
		})
	}
	var none ErrorBudget
	none.See(budgetView(w, 0, Known(1), Known(0)))
	if s := none.Spent(SLO{}, budgetStart); s != nil {
		t.Errorf("a budget without an objective: %+v", s)
	}
}

// The budget of random runs is what a count of every run makes of it, up to what the oldest part of
// a window holds; what is unknown is not counted, and no alert comes of what was not observed.
func TestLawErrorBudgetIsWhatWasObserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &Workload{SLO: SLO{Quantile: rapid.SampledFrom([]float64{.5, .9, .99, .999}).Draw(t, "quantile"), Target: time.Second, Window: 5 * time.Minute}}
		type run struct {
			at        time.Time
			all, late float64
		}
		var b ErrorBudget
		var runs []run
		at, last := time.Duration(0), time.Duration(-1)
		for range rapid.IntRange(1, 300).Draw(t, "runs") {
			rate := Reading{Known: rapid.IntRange(0, 9).Draw(t, "known") > 0, Value: rapid.Float64Range(0, 1000).Draw(t, "rate")}
			good := Reading{Known: rapid.IntRange(0, 9).Draw(t, "answered") > 0, Value: rapid.Float64Range(0, 1).Draw(t, "good")}
			b.See(budgetView(w, at, rate, good))
			if last >= 0 && rate.Known && good.Known {
				all := rate.Value * min(at-last, w.SLO.Window).Seconds()
				runs = append(runs, run{budgetStart.Add(at), all, all * (1 - good.Value)})
			}
			last = at
			at += time.Duration(rapid.IntRange(1, 3600).Draw(t, "pause")) * time.Second
		}
		now := budgetStart.Add(last)
		s := b.Spent(w.SLO, now)
		if s == nil {
			if slices.ContainsFunc(runs, func(r run) bool { return r.all > 0 }) {
				t.Fatal("requests were counted, and there is no budget")
			}
			return
		}
		for _, burn := range s.Burn {
			window := time.Duration(burn.Over)
			share := func(allOver, lateOver time.Duration) float64 {
				all, late := 0.0, 0.0
				for _, r := range runs {
					if now.Sub(r.at) < allOver {
						all += r.all
					}
					if now.Sub(r.at) < lateOver {
						late += r.late
					}
				}
				if late == 0 {
					return 0
				}
				return late / all * min(1, float64(last)/float64(window)) / s.Late
			}
			part := window / budgetParts
			least, most := share(window+part, window-part), share(window-part, window+part)
			if !(burn.Rate >= least*(1-1e-9)) || !(burn.Rate <= most*(1+1e-9)) {
				t.Fatalf("over %s the rate is %.6g, want between %.6g and %.6g", window, burn.Rate, least, most)
			}
		}
		if a := s.Burning(); a != nil && float64(last) < float64(a.Long)*min(a.Rate*s.Late, NearlyAllLate)*(1-1e-9) {
			t.Fatalf("after %s an alert over %s: even with all late so much cannot have been spent", last, a.Long)
		}
	})
}
