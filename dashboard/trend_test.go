package dashboard

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// measured is one moment of the slow twin, which keeps everything.
type measured struct {
	at     time.Time
	values [3]number
}

// TestTrendsAreWhatTheirMomentsAre compares each point with what a look at all moments gives.
func TestTrendsAreWhatTheirMomentsAre(t *testing.T) {
	begin := time.Date(2026, 6, 1, 6, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		trend, at := newTrend(mean, highest, latest), begin
		var all []measured
		gap := rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour}).Draw(t, "gap")
		for range rapid.IntRange(2, 400).Draw(t, "moments") {
			at = at.Add(time.Duration(rapid.Int64Range(1, int64(2*gap)).Draw(t, "step")))
			m := measured{at: at}
			for k := range m.values {
				if m.values[k] = number(rapid.IntRange(-1, 50).Draw(t, "value")); m.values[k] < 0 {
					m.values[k] = unknown
				}
			}
			all = append(all, m)
			trend.add(at, m.values[:]...)
		}
		from := begin.Add(time.Duration(rapid.Int64Range(0, int64(at.Sub(begin))).Draw(t, "from")))
		level := trend.finest(from, at)
		times, columns := trend.points(from, at)
		if len(times) == 0 || len(times) > level.keep+1 {
			t.Fatalf("%d points from %s to %s", len(times), from, at)
		}
		if last := times[len(times)-1]; at.Sub(last) >= level.width {
			t.Fatalf("the last point is of %s, the last moment of %s", last, at)
		}
		for i, p := range times {
			want := twin(all, p, p.Add(level.width))
			for k := range columns {
				if got := columns[k][i]; math.Abs(float64(got-want[k])) > 1e-3 || (got == got) != (want[k] == want[k]) {
					t.Fatalf("%s, column %d: %v, want %v", p, k, got, want[k])
				}
			}
		}
	})
}

func twin(all []measured, from, to time.Time) [3]number {
	sum, n, most, last := 0.0, 0, unknown, unknown
	for _, m := range all {
		if m.at.Before(from) || !m.at.Before(to) {
			continue
		}
		if v := m.values[0]; v == v {
			sum, n = sum+float64(v), n+1
		}
		if v := m.values[1]; v == v && (most != most || v > most) {
			most = v
		}
		if v := m.values[2]; v == v {
			last = v
		}
	}
	return [3]number{number(sum / float64(n)), most, last} // 0/0 is unknown too
}

// TestTrendsAreBounded lives a year of moments a minute apart.
func TestTrendsAreBounded(t *testing.T) {
	trend, at := newTrend(mean), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 365 * 24 * 60 {
		at = at.Add(time.Minute)
		trend.add(at, 1)
	}
	for i := range trend.levels {
		if l := &trend.levels[i]; l.len() > l.keep+l.keep/4 || cap(l.cells) > 2*l.keep {
			t.Errorf("%s: %d buckets in room for %d, of at most %d", l.width, l.len(), cap(l.cells), l.keep)
		}
	}
	for _, back := range []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour} {
		times, _ := trend.points(at.Add(-back), at)
		if first := times[0]; first.Sub(at.Add(-back)).Abs() > time.Hour || len(times) > 1500 || len(times) < 100 {
			t.Errorf("%s back: %d points from %s", back, len(times), first)
		}
	}
}
