package policy

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Values are of periods of 15 s, and a jump that is measured over a minute takes four of them to be
// seen whole.
func TestALoadThatClimbsSteadilyIsExpectedToGoOn(t *testing.T) {
	calm := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	rough := []float64{1, 1.3, 0.7, 1, 1.4, 0.9, 1.2, 0.7, 0.8, 1.4, 0.6, 1.2, 1.1, 1}
	for _, c := range []struct {
		name   string
		values []float64
		rise   float64
	}{
		{"nothing is known", nil, 0},
		{"one value too few", []float64{1, 1.1, 1.2, 1.3, 1.4, 1.5}, 0},
		{"one value too few, after a while of nothing", slices.Concat(calm, []float64{1.1, 1.2, 1.3}), 0},
		{"the beginning of one, after a while of nothing", slices.Concat(calm, []float64{1.1, 1.2, 1.3, 1.4}), 0},
		{"one after loads that went up and down", slices.Concat(rough, []float64{1.1, 1.2, 1.3, 1.4, 1.5, 1.6}), 0.1},
		{"a climb", []float64{1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6}, 0.1},
		{"a climb after a while of nothing", []float64{1, 1, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6}, 0.1},
		{"one that is a little uneven", []float64{1, 1.09, 1.22, 1.28, 1.4, 1.52, 1.6}, 0.1},
		{"one that has come to its end", []float64{1, 1.1, 1.2, 1.3, 1.4, 1.4, 1.4}, 0},
		{"one that chance makes uneven, over three minutes", []float64{1, 1.01, 1.06, 1.05, 1.1, 1.15, 1.14, 1.16, 1.22, 1.25, 1.24, 1.31, 1.3}, 0.025},
		{"one that chance makes uneven, a period sooner", []float64{1, 1.01, 1.06, 1.05, 1.1, 1.15, 1.14, 1.16, 1.22, 1.25, 1.24, 1.31}, 0},
		{"two jumps in three minutes", []float64{1, 1, 1, 1, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.7}, 0},
		{"too small a one", []float64{1, 1.02, 1.04, 1.06, 1.08, 1.1, 1.12}, 0},
		{"a fall", []float64{2, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4}, 0},
		{"a jump, seen in its middle", []float64{1, 1, 1.5, 2, 2.5, 3, 3}, 0},
		{"a jump, seen a period earlier", []float64{1, 1, 1, 1.5, 2, 2.5, 3}, 0},
		{"a jump after a while of nothing, when it is seen whole", slices.Concat(calm, []float64{1.5, 2, 2.5, 3}), 0},
		{"a jump after a while of nothing, a period later", slices.Concat(calm, []float64{1.5, 2, 2.5, 3, 3}), 0},
		{"a jump, seen a period later", []float64{1, 1.5, 2, 2.5, 3, 3, 3}, 0},
		{"a gap in what was seen", []float64{1, 1.1, math.NaN(), 1.3, 1.4, 1.5, 1.6}, 0},
		{"a gap at its end", []float64{1, 1.1, 1.2, 1.3, 1.4, 1.5, math.NaN()}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := climbs(t, c.values)
			if got := o.climb; math.Abs(got-c.rise) > 1e-9 {
				t.Errorf("climbs by %v a period, should by %v", got, c.rise)
			}
		})
	}
}

func climbs(t interface{ Fatal(...any) }, values []float64) *forecaster {
	o, err := newForecaster(0.75)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		o.close(v)
	}
	return o
}

// What climbs for three minutes climbs with a queue as well.
func TestAQueueIsNoClimb(t *testing.T) {
	o := climbs(t, nil)
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for i := range 20 {
		o.observe(at.Add(time.Duration(i)*period), 1+0.1*float64(i), i == 10, true)
		want := climbing < i && i < 10 || i > 3*minutely
		if got := o.climb > 0; got != want {
			t.Errorf("after period %d: climbs %v, should %v", i, got, want)
		}
	}
}

// What was seen before a long silence, or by a clock that has gone back since, says nothing of
// what climbs now.
func TestAClimbIsForgottenWhereTimeJumps(t *testing.T) {
	for _, jump := range []time.Duration{11 * time.Minute, -time.Hour} {
		o := climbs(t, nil)
		at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
		for i := range 12 {
			at = at.Add(period)
			o.observe(at, 1+0.1*float64(i), false, true)
		}
		if o.climb == 0 {
			t.Fatal("a climb is not seen")
		}
		if o.observe(at.Add(jump), 2.1, false, true); o.climb != 0 {
			t.Errorf("%s later it still climbs by %v", jump, o.climb)
		}
	}
}

// A jump that is measured over a minute is a climb of four periods and then none. Wherever in the
// periods it lies, and however high it is, it is taken for one no longer than until it is seen
// whole.
func TestAJumpIsNotTakenForAClimbForLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, by := rapid.Float64Range(0.1, 10).Draw(t, "from"), rapid.Float64Range(0.1, 100).Draw(t, "by")
		at := rapid.Float64Range(0, 10).Draw(t, "at")
		o := climbs(t, nil)
		for i := range 30 {
			o.close(from + by*min(max((float64(i)-at)/4, 0), 1))
			if rise := o.climb; rise != 0 && (float64(i) < at+3 || float64(i) > at+5) {
				t.Fatalf("after %d periods it climbs by %v", i+1, rise)
			}
		}
	})
}
