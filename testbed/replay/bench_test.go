package replay

import (
	"runtime"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// BenchmarkAMinute is what a minute takes, and what of memory it leaves behind: nothing.
func BenchmarkAMinute(b *testing.B) {
	trace := MMPP(28, 1)
	scaled := must.Get(Scale(trace, threeDays, 5, Default()))(b)
	for _, name := range []string{"hpa", "hpa-v2", "naive", "ar", "ensemble", "ensemble-quantile", "ensemble-marginal", "hpa-plus", "oracle"} {
		b.Run(name, func(b *testing.B) {
			p := must.Get(NewPlayer(kind(b, name), published(0.1), nil))(b)
			must.Do(b, p.Warm(scaled.Counts[:threeDays]))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				must.Do(b, p.Feed(scaled.Counts[i%len(scaled.Counts)]))
			}
		})
	}
}

// A million minutes are held one at a time, but for what a scaler has learned.
func TestAMillionMinutesTakeNoMoreMemoryThanADay(t *testing.T) {
	race.Skip(t)
	trace := MMPP(7, 1)
	for name, minutes := range map[string]int{"hpa": 1e6, "naive": 1e6, "hpa-v2": 1e5, "hpa-plus": 1e5, "ensemble-marginal": 2e4} {
		p := must.Get(NewPlayer(kind(t, name), published(0.1), nil))(t)
		play := func(minutes int) uint64 {
			for i := range minutes {
				must.Do(t, p.Feed(trace.Counts[i%len(trace.Counts)]))
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		day := play(MinutesADay)
		if long := play(minutes); long > day+64<<10 {
			t.Errorf("%s: %d bytes after a day, %d after %d minutes more", name, day, long, minutes)
		}
		if got := p.Result().Minutes; got != minutes+MinutesADay {
			t.Errorf("%s: %d minutes", name, got)
		}
	}
}
