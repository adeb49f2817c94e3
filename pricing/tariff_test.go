package pricing_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func zone(t *testing.T, name string) pricing.Zone {
	t.Helper()
	var z pricing.Zone
	must.Do(t, z.UnmarshalText([]byte(name)))
	return z
}

// tariffBook charges by the windows given, in Berlin, where the clocks of 2026 go from 02:00 to
// 03:00 on 29 March and from 03:00 to 02:00 on 25 October.
func tariffBook(t *testing.T, windows ...pricing.Tariff) *pricing.Book {
	t.Helper()
	b := plainBook()
	b.Zone = zone(t, "Europe/Berlin")
	b.Tariffs = windows
	must.Do(t, b.Validate())
	return b
}

func window(from, to pricing.Clock, days ...pricing.Weekday) pricing.Tariff {
	return pricing.Tariff{From: from, To: to, Weekdays: days, Percent: new(pricing.Hundred / 2)}
}

func TestWindowsHoldFromStartUntilEndByTheClockOnTheWall(t *testing.T) {
	night := tariffBook(t, window(clock(22, 0), clock(6, 0)))
	friday := tariffBook(t, window(clock(22, 0), clock(6, 0), 5))
	weekend := tariffBook(t, window(clock(0, 0), clock(24, 0), 6, 0))
	early := tariffBook(t, window(clock(2, 30), clock(5, 0)))
	for _, c := range []struct {
		name string
		book *pricing.Book
		utc  string
		want bool
	}{
		{"winter, before", night, "2026-01-07T20:59:59Z", false},
		{"winter, start", night, "2026-01-07T21:00:00Z", true},
		{"winter, end", night, "2026-01-08T05:00:00Z", false},
		{"winter, before the end", night, "2026-01-08T04:59:59Z", true},
		{"summer, start", night, "2026-07-01T20:00:00Z", true},
		{"summer, end", night, "2026-07-02T04:00:00Z", false},
		{"Friday night", friday, "2026-01-09T23:30:00Z", true},
		{"Friday's night on Saturday", friday, "2026-01-10T04:30:00Z", true},
		{"Thursday's night on Friday", friday, "2026-01-09T04:30:00Z", false},
		{"Friday's end", friday, "2026-01-10T05:00:00Z", false},
		{"Saturday's first minute", weekend, "2026-01-09T23:00:00Z", true},
		{"Sunday's last", weekend, "2026-01-11T22:59:00Z", true},
		{"Monday's first", weekend, "2026-01-11T23:00:00Z", false},
		{"spring, before the hour that is skipped", early, "2026-03-29T00:59:59Z", false},
		{"spring, after it", early, "2026-03-29T01:00:00Z", true},
		{"autumn, 02:45 the first time", early, "2026-10-25T00:45:00Z", true},
		{"autumn, 02:15 the second time", early, "2026-10-25T01:15:00Z", false},
		{"autumn, 02:30 the second time", early, "2026-10-25T01:30:00Z", true},
	} {
		at := must.Get(time.Parse(time.RFC3339, c.utc))(t)
		if got := c.book.Rate(shape(1000, 0), "", at) == 500_000_000; got != c.want {
			t.Errorf("%s: at %s the window holds: %v, want %v", c.name, c.utc, got, c.want)
		}
	}
}

func TestNextChangeKnowsWhenTheClocksChange(t *testing.T) {
	early := tariffBook(t, window(clock(2, 30), clock(5, 0)))
	for after, want := range map[string]string{
		"2026-03-28T12:00:00Z":     "2026-03-29T01:00:00Z", // 03:00, the first moment past 02:30
		"2026-03-29T01:00:00Z":     "2026-03-29T03:00:00Z",
		"2026-10-24T12:00:00Z":     "2026-10-25T00:30:00Z", // 02:30 the first time
		"2026-10-25T00:30:00Z":     "2026-10-25T01:00:00Z", // back to 02:00
		"2026-10-25T01:00:00Z":     "2026-10-25T01:30:00Z", // 02:30 the second time
		"2026-10-25T01:30:00Z":     "2026-10-25T04:00:00Z",
		"2026-06-01T00:30:00.001Z": "2026-06-01T03:00:00Z",
	} {
		at := must.Get(time.Parse(time.RFC3339, after))(t)
		got, ok := early.NextChange(at)
		if !ok || got.Format(time.RFC3339) != want {
			t.Errorf("after %s the tariff next changes at %s, %v, want %s", after, got.Format(time.RFC3339), ok, want)
		}
	}
}

// TestALeapYearEndsInAZoneOfRules asks on the last day of a leap year that no zone's table reaches,
// where ZoneBounds says that the offset ended before that day.
func TestALeapYearEndsInAZoneOfRules(t *testing.T) {
	b := tariffBook(t, window(clock(22, 0), clock(6, 0)))
	at := time.Date(2048, time.December, 31, 6, 30, 0, 0, time.UTC)
	for _, want := range []string{"2048-12-31T21:00:00Z", "2049-01-01T05:00:00Z", "2049-01-01T21:00:00Z"} {
		next, ok := b.NextChange(at)
		if !ok || next.Format(time.RFC3339) != want {
			t.Fatalf("after %s the tariff next changes at %s, %v, want %s", at, next, ok, want)
		}
		at = next
	}
}

func TestWithoutChangesThereIsNoNextOne(t *testing.T) {
	for name, b := range map[string]*pricing.Book{
		"no tariffs": plainBook(),
		"always":     tariffBook(t, window(clock(0, 0), clock(24, 0))),
	} {
		if at, ok := b.NextChange(noon); ok {
			t.Errorf("%s: a change is said to come at %s", name, at)
		}
	}
}

// TestNextChangeIsTheFirstMinuteThatDiffers checks against a walk, minute by minute, over the
// days about a change of clocks or any other.
func TestNextChangeIsTheFirstMinuteThatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := plainBook()
		b.Zone, b.Tariffs = drawZone(t), drawTariffs(t, false)
		start := rapid.OneOf(
			rapid.Int64Range(1_767_000_000, 1_799_000_000),
			rapid.Int64Range(1_774_600_000, 1_774_900_000), // Europe's spring of 2026
			rapid.Int64Range(1_792_700_000, 1_793_000_000), // its autumn
		).Draw(t, "start") / 60 * 60
		after := time.Unix(start, 0).UTC()
		tariff := func(at time.Time) pricing.Period {
			for p := range b.Periods(at, at.Add(time.Nanosecond)) {
				return p
			}
			panic("no period")
		}
		now, minutes := tariff(after).Tariff, 0
		for at := after.Add(time.Minute); minutes < 8*24*60; at = at.Add(time.Minute) {
			if minutes++; tariff(at).Tariff != now {
				if next, ok := b.NextChange(after); !ok || !next.Equal(at) {
					t.Fatalf("after %s the tariff changes at %s, not at %s, %v", after, at, next, ok)
				}
				return
			}
		}
		if next, ok := b.NextChange(after); ok && next.Before(after.Add(8*24*time.Hour)) {
			t.Fatalf("after %s nothing changes for 8 days, but a change is said to come at %s", after, next)
		}
	})
}

func TestPeriodsJoinUpAndStandStill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := plainBook()
		b.Zone, b.Tariffs = drawZone(t), drawTariffs(t, false)
		from := drawMoment(t)
		to := from.Add(time.Duration(rapid.Int64Range(1, int64(30*24*time.Hour)).Draw(t, "length")))
		at := from
		for p := range b.Periods(from, to) {
			if !p.From.Equal(at) || !p.From.Before(p.To) {
				t.Fatalf("a period from %s to %s follows %s", p.From, p.To, at)
			}
			s := shape(1000, pricing.GB)
			if first, last := b.Rate(s, "", p.From), b.Rate(s, "", p.To.Add(-1)); first != last {
				t.Fatalf("from %s to %s the rate goes from %s to %s", p.From, p.To, first, last)
			}
			at = p.To
		}
		if !at.Equal(to) {
			t.Fatalf("the periods end at %s, not at %s", at, to)
		}
	})
}

func TestTimesOfDayDaysAndZonesAreReadStrictly(t *testing.T) {
	var c pricing.Clock
	var d pricing.Weekday
	var z pricing.Zone
	for _, good := range []struct {
		into interface{ UnmarshalText([]byte) error }
		text string
		want func() bool
	}{
		{&c, "00:00", func() bool { return c == 0 }},
		{&c, "23:59", func() bool { return c == 1439 }},
		{&c, "24:00", func() bool { return c == 1440 }},
		{&d, "Mon", func() bool { return d == 1 }},
		{&d, "Sunday", func() bool { return d == 0 }},
		{&z, "Europe/Berlin", func() bool { return z.String() == "Europe/Berlin" }},
	} {
		if err := good.into.UnmarshalText([]byte(good.text)); err != nil || !good.want() {
			t.Errorf("%q is not read: %v", good.text, err)
		}
	}
	for _, bad := range []struct {
		into       interface{ UnmarshalText([]byte) error }
		text, rule string
	}{
		{&c, "24:01", "must be a time of day"},
		{&c, "6:00", "must be a time of day"},
		{&c, "06:00:00", "must be a time of day"},
		{&c, "1320", "must be a time of day"},
		{&d, "mo", "must be a day of the week"},
		{&z, "Local", "must be UTC or the name of a time zone"},
		{&z, "", "must be UTC or the name of a time zone"},
		{&z, "Europe/Atlantis", "must be UTC or the name of a time zone"},
	} {
		if err := bad.into.UnmarshalText([]byte(bad.text)); err == nil || !strings.Contains(err.Error(), bad.rule) || !strings.Contains(err.Error(), bad.text) {
			t.Errorf("%q: %v, want %q and the value", bad.text, err, bad.rule)
		}
	}
}

func BenchmarkNextChange(b *testing.B) {
	book := plainBook()
	must.Do(b, book.Zone.UnmarshalText([]byte("Europe/Berlin")))
	book.Tariffs = []pricing.Tariff{nightTariff()}
	for b.Loop() {
		book.NextChange(noon)
	}
}
