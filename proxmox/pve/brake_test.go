package pve

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func TestHowManyMayGoUndrained(t *testing.T) {
	for _, c := range []struct {
		b    brake
		want bool
	}{
		{brake{}, false},
		{brake{pool: tally{1, 0}, all: tally{1, 0}}, false},
		{brake{pool: tally{1, 1}, all: tally{1, 1}}, true},
		{brake{pool: tally{19, 1}, all: tally{19, 1}}, true},
		{brake{pool: tally{20, 1}, all: tally{20, 1}}, false},
		{brake{pool: tally{20, 2}, all: tally{20, 2}}, true},
		{brake{pool: tally{29, 2}, all: tally{100, 2}}, true},
		{brake{pool: tally{100, 9}, all: tally{100, 9}}, false},
		{brake{pool: tally{100, 10}, all: tally{100, 10}}, true},
		{brake{pool: tally{100, 0}, all: tally{100, 0}, frozen: true}, true},
		{brake{pool: tally{1, 0}, all: tally{10, 1}}, false},
		{brake{pool: tally{1, 0}, all: tally{29, 2}}, true},
		{brake{pool: tally{1, 0}, all: tally{30, 2}}, false},
		{brake{pool: tally{1, 0}, all: tally{30, 3}}, true},
	} {
		if c.b.holds() != c.want {
			t.Errorf("%+v: holds is %t, want %t", c.b, c.b.holds(), c.want)
		}
	}
}

// For any requests and any clock: of a pool never more go undrained in an hour than the brake lets,
// unless a person resumed it in between.
func TestNoHourTakesMoreThanTheBrakeLets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s steady
		machines := rapid.IntRange(1, 45).Draw(t, "machines")
		wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s.see(wall)
		var really time.Duration  // by a good clock
		var went []time.Duration  // by a good clock, since a person resumed it
		var charges []time.Time   // as they are kept
		frozen := map[int]bool{}  // machines that wait
		gone := map[int]bool{}    // and those that went
		resumed := map[int]bool{} // those that a person let go
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			passed := time.Duration(rapid.Int64Range(0, int64(15*time.Minute)).Draw(t, "passed"))
			leap := time.Duration(0)
			if rapid.IntRange(0, 5).Draw(t, "leaps") == 0 {
				leap = time.Duration(rapid.Int64Range(int64(-8*time.Hour), int64(8*time.Hour)).Draw(t, "by"))
			}
			// It is looked at twice a minute.
			for left := passed; left > 0; left -= 30 * time.Second {
				wall = wall.Add(min(left, 30*time.Second))
				s.see(wall)
			}
			really, wall = really+passed, wall.Add(leap)
			if s.see(wall) {
				for i := range charges {
					charges[i] = soonest(charges[i], wall)
				}
			}
			if rapid.IntRange(0, 15).Draw(t, "resumes") == 0 {
				for m := range frozen {
					resumed[m] = true
				}
				frozen, went = map[int]bool{}, nil
			}
			m := rapid.IntRange(0, machines-1).Draw(t, "machine")
			if gone[m] {
				continue
			}
			b := brake{pool: tally{machines: machines}, frozen: len(frozen) > 0}
			for _, at := range charges {
				if s.since(at, wall) < brakeWindow {
					b.pool.gone++
				}
			}
			if b.holds() && !resumed[m] {
				frozen[m] = true
				continue
			}
			gone[m], charges = true, append(charges, wall)
			if resumed[m] {
				continue
			}
			went = append(went, really)
			n := 0
			for _, at := range went {
				if really-at < brakeWindow {
					n++
				}
			}
			if n > max(1, machines/10) {
				t.Fatalf("%d of %d machines went undrained within an hour", n, machines)
			}
		}
	})
}
