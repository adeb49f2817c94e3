package pve

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
)

func TestWhatIsPastIsWatchedForAsLong(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for _, c := range []struct {
		name string
		seen []time.Duration // after the start, as the clock says
		then time.Duration
		now  time.Duration
		want time.Duration
	}{
		{"nothing", []time.Duration{0}, 0, 0, 0},
		{"watched all the time", []time.Duration{0, 15 * time.Second, 30 * time.Second}, 10 * time.Second, 40 * time.Second, 30 * time.Second},
		{"from before the beginning", []time.Duration{0, 15 * time.Second}, -time.Hour, 20 * time.Second, 20 * time.Second},
		{"as long as counts between two looks", []time.Duration{0, stride}, 0, stride, stride},
		{"and not more", []time.Duration{0, stride + time.Second}, 0, stride + time.Second, stride},
		{"six hours ahead", []time.Duration{0, 10 * time.Second, 6 * time.Hour}, 0, 6 * time.Hour, stride + 10*time.Second},
		{"not looked at for six hours", []time.Duration{0}, 0, 6 * time.Hour, stride},
		{"since after the leap", []time.Duration{0, 6 * time.Hour, 6*time.Hour + 30*time.Second}, 6 * time.Hour, 6*time.Hour + 30*time.Second, 30 * time.Second},
		{"since a time that was leapt over", []time.Duration{0, 6 * time.Hour, 6*time.Hour + 30*time.Second}, time.Hour, 6*time.Hour + 30*time.Second, 30 * time.Second},
		{"ahead and back", []time.Duration{0, 10 * time.Second, 6 * time.Hour, 20 * time.Second, 40 * time.Second}, 0, 40 * time.Second, 40 * time.Second},
		{"back before it", []time.Duration{0, time.Minute, 30 * time.Second, 50 * time.Second}, 30 * time.Second, 50 * time.Second, 20 * time.Second},
		{"what is yet to come", []time.Duration{0}, time.Hour, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s steady
			for _, d := range c.seen {
				s.see(at(d))
			}
			if got := s.since(at(c.then), at(c.now)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// On any clock, nothing is taken to be past for longer than it was watched, nor for longer than the
// clock says; and a clock that is watched and does not leap is believed.
func TestNoClockShortensAWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s steady
		wall := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		s.see(wall)
		type stamp struct {
			at      time.Time     // as it is kept
			watched time.Duration // since it was made, as an observer with a good clock counts
			whole   bool          // no leap since
		}
		var stamps []stamp
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			stamps = append(stamps, stamp{at: wall, whole: true})
			passed := time.Duration(rapid.Int64Range(0, int64(3*stride)).Draw(t, "passed"))
			leaps := time.Duration(0)
			if rapid.IntRange(0, 4).Draw(t, "leaps") == 0 {
				leaps = time.Duration(rapid.Int64Range(int64(-8*time.Hour), int64(8*time.Hour)).Draw(t, "by"))
			}
			wall = wall.Add(passed + leaps)
			back := s.see(wall)
			if back != (passed+leaps < 0) {
				t.Fatalf("a step of %s is said to go back: %t", passed+leaps, back)
			}
			for i := range stamps {
				stamps[i].watched += min(max(passed+leaps, 0), stride)
				stamps[i].whole = stamps[i].whole && passed+leaps >= 0 && passed+leaps <= stride
				if back && stamps[i].at.After(wall) { // as the fleet does
					stamps[i].at, stamps[i].watched, stamps[i].whole = wall, 0, true
				}
			}
			for _, k := range stamps {
				got := s.since(k.at, wall)
				switch {
				case got < 0 || got > wall.Sub(k.at):
					t.Fatalf("%s past, the clock says %s", got, wall.Sub(k.at))
				case got > k.watched:
					t.Fatalf("%s past, and it was watched for %s", got, k.watched)
				case k.whole && got != k.watched:
					t.Fatalf("%s past, and %s without any leap", got, k.watched)
				}
			}
		}
	})
}

func TestLeapsThatAreRememberedAreSoMany(t *testing.T) {
	var s steady
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i := range 2 * maxLeaps {
		s.see(now)
		if want := min(i+1, maxLeaps); len(s.leaps) != want {
			t.Fatalf("after %d leaps %d are remembered, want %d", i+1, len(s.leaps), want)
		}
		now = now.Add(time.Hour)
	}
}

// A wait is over at its end, and not only after it.
func TestClockWaitsNoLongerThanAsked(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	begun := now
	f := assemble(FleetConfig{Now: func() time.Time { return now }})
	f.settler.observe()
	now = now.Add(stride - time.Second)
	if f.watch.past(begun, nodescaler.Duration(stride)) {
		t.Error("a wait is over a second before its end")
	}
	if now = now.Add(time.Second); !f.watch.past(begun, nodescaler.Duration(stride)) {
		t.Error("a wait is not over at its end")
	}
}

// What was stamped by a clock that ran ahead is of now when the clock goes back, and what is past
// stays as it is.
func TestClockThatGoesBackCorrectsWhatLiesAhead(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	past, ahead := now.Add(-time.Hour), now.Add(time.Hour)
	f := assemble(FleetConfig{Now: func() time.Time { return now }})
	f.roster.machines["a"] = &tracked{Intent: intents.Intent{Created: past, Leaving: intents.Leaving{Returned: ahead}}}
	f.ownership.taken = map[int]time.Time{1: past, 2: ahead}
	f.settler.observe()
	if m := f.roster.machines["a"]; m.unsaved || !m.Returned.Equal(ahead) || !f.ownership.taken[2].Equal(ahead) {
		t.Errorf("the clock did not go back, and %+v, %v", m.Intent, f.ownership.taken)
	}
	now = now.Add(-time.Minute)
	f.settler.observe()
	if m := f.roster.machines["a"]; !m.unsaved || !m.Returned.Equal(now) || !m.Created.Equal(past) || !f.ownership.taken[1].Equal(past) || !f.ownership.taken[2].Equal(now) {
		t.Errorf("at %s the clock has gone back, and %+v, %v", now, m.Intent, f.ownership.taken)
	}
}
