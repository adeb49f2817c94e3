package pricing

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Tariff is what differs in a window of the day. In a plain book it is either a percentage of
// every price in the book, the shapes', the hosts' and the fixed ones included, or prices in
// place of the book's own. In a derived book it is a percentage of the price of energy, or
// another price of energy.
//
// Windows go by the clock on the wall of the book's zone. An hour that the clock skips in
// spring is skipped, and one that it goes through twice in autumn counts twice.
type Tariff struct {
	Name string `json:"name,omitempty"`
	// From and To bound the window, To not included. A window whose To is not after its From
	// crosses midnight.
	From Clock `json:"from" strict:"required"`
	To   Clock `json:"to" strict:"required"`
	// Weekdays are the days on which the window starts; empty for all. One that crosses
	// midnight on Friday lasts into Saturday.
	Weekdays []Weekday `json:"weekdays,omitempty"`
	Percent  *Percent  `json:"percent,omitempty"`
	Prices
	PerHost *Micros `json:"pricePerHostHour,omitempty"`
	PerKWh  *Micros `json:"pricePerKWh,omitempty"`
}

// Label is the tariff's name, or its window if it has none.
func (t *Tariff) Label() string {
	if t.Name != "" {
		return t.Name
	}
	return t.window()
}

// window prints when the tariff is in force: 22:00–06:00, Sat Sun 00:00–24:00.
func (t *Tariff) window() string {
	var days strings.Builder
	for _, d := range t.Weekdays {
		days.WriteString(d.String() + " ")
	}
	return fmt.Sprintf("%s%s–%s", days.String(), t.From, t.To)
}

// startsOn reports whether the window starts on a day of the week.
func (t *Tariff) startsOn(d Weekday) bool {
	return len(t.Weekdays) == 0 || slices.Contains(t.Weekdays, d)
}

// covers reports whether the window holds a time of day on a day of the week.
func (t *Tariff) covers(d Weekday, at Clock) bool {
	if t.From < t.To {
		return t.From <= at && at < t.To && t.startsOn(d)
	}
	return at >= t.From && t.startsOn(d) || at < t.To && t.startsOn((d+6)%7)
}

// tariffAt returns the tariff in force, or nil outside all windows.
func (b *Book) tariffAt(at time.Time) *Tariff {
	if i := b.tariffIndex(at); i >= 0 {
		return &b.Tariffs[i]
	}
	return nil
}

// tariffIndex returns the index of the tariff in force, or -1.
func (b *Book) tariffIndex(at time.Time) int {
	if len(b.Tariffs) == 0 {
		return -1
	}
	local := at.In(b.Zone.location())
	clock := Clock(local.Hour()*60 + local.Minute())
	for i := range b.Tariffs {
		if b.Tariffs[i].covers(Weekday(local.Weekday()), clock) {
			return i
		}
	}
	return -1
}

const day = 24 * time.Hour

// NextChange returns when, after a moment, the next tariff comes into force or the present one
// ends. It returns false if the prices never change.
func (b *Book) NextChange(after time.Time) (time.Time, bool) {
	if len(b.Tariffs) == 0 {
		return time.Time{}, false
	}
	after = after.Round(0)
	now := b.tariffIndex(after)
	// Tariffs depend on the clock on the wall alone. A week in which it is neither put forward
	// nor back shows all there is to come.
	quiet := after
	for t := after; t.Sub(quiet) <= 7*day; {
		local := t.In(b.Zone.location())
		t = b.nextMark(local)
		// On the last day of a leap year, the end may lie before the day: the zone's rule counts
		// 365 days. Nothing shifts then.
		if _, shift := local.ZoneBounds(); shift.After(local) && !shift.After(t) {
			t, quiet = shift, shift
		}
		if b.tariffIndex(t) != now {
			return t.In(after.Location()), true
		}
	}
	return time.Time{}, false
}

// nextMark returns when a window next starts or ends, on any day, if the clock were never changed.
func (b *Book) nextMark(local time.Time) time.Time {
	hour, minute, second := local.Clock()
	intoDay := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute +
		time.Duration(second)*time.Second + time.Duration(local.Nanosecond())
	next := 2 * day
	for i := range b.Tariffs {
		for _, mark := range []Clock{b.Tariffs[i].From, b.Tariffs[i].To} {
			wait := time.Duration(mark)*time.Minute - intoDay
			if wait <= 0 {
				wait += day
			}
			next = min(next, wait)
		}
	}
	return local.Add(next)
}

// Period is a time of constant prices.
type Period struct {
	From, To time.Time
	Tariff   *Tariff // in force; nil outside all windows
}

// Periods divides a stretch of time where prices change.
func (b *Book) Periods(from, to time.Time) iter.Seq[Period] {
	return func(yield func(Period) bool) {
		for from.Before(to) {
			end, ok := b.NextChange(from)
			if !ok || end.After(to) {
				end = to
			}
			if !yield(Period{From: from, To: end, Tariff: b.tariffAt(from)}) {
				return
			}
			from = end
		}
	}
}

// Clock is a time of day in minutes from midnight; 24:00 is the day's end.
type Clock int

// String prints hours and minutes.
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", c/60, c%60) }

// MarshalText writes hours and minutes.
func (c Clock) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads hours and minutes, 00:00 to 24:00.
func (c *Clock) UnmarshalText(text []byte) error {
	if string(text) == "24:00" {
		*c = 24 * 60
		return nil
	}
	t, err := time.Parse("15:04", string(text))
	if err != nil || len(text) != len("15:04") {
		return fault("must be a time of day from 00:00 to 24:00", string(text))
	}
	*c = Clock(t.Hour()*60 + t.Minute())
	return nil
}

// Weekday is a day of the week.
type Weekday time.Weekday

// String prints the day's first three letters.
func (d Weekday) String() string { return time.Weekday(d).String()[:3] }

// MarshalText writes the day's first three letters.
func (d Weekday) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a day as Mon or Monday.
func (d *Weekday) UnmarshalText(text []byte) error {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := day.String(); string(text) == name || string(text) == name[:3] {
			*d = Weekday(day)
			return nil
		}
	}
	return fault("must be a day of the week: Mon, Tue, Wed, Thu, Fri, Sat or Sun", string(text))
}

// Zone is a time zone by its name.
type Zone struct{ *time.Location }

// location returns the zone, UTC if it is not set.
func (z Zone) location() *time.Location {
	if z.Location == nil {
		return time.UTC
	}
	return z.Location
}

// MarshalText writes the zone's name.
func (z Zone) MarshalText() ([]byte, error) { return []byte(z.location().String()), nil }

// UnmarshalText reads a name of the IANA time zone database. Local is refused: the same book
// would charge differently on the next machine.
func (z *Zone) UnmarshalText(text []byte) error {
	name := string(text)
	location, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return fault("must be UTC or the name of a time zone, such as Europe/Berlin", name)
	}
	z.Location = location
	return nil
}
