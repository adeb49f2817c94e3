package podscaler

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Cron is a point in the week, the month or the year that comes again and again, written as cron
// writes it: "0 8 * * 1-5" is eight o'clock on weekdays. The zero Cron never comes.
type Cron struct {
	text string
	// A bit is set for every value at which it comes.
	minute, hour, day, month, weekday uint64
	// anyDay and anyWeekday say that the field has a star: of two that have none, either is enough.
	anyDay, anyWeekday bool
}

// cronField is one of the five fields.
type cronField struct {
	name      string
	low, high int
	names     []string // of the values from low on
}

var cronFields = [5]cronField{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// cronWords are the expressions that have names.
var cronWords = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// ParseCron reads the five fields minute, hour, day of month, month and day of week. Each is a
// star, a value or a range, with a step or without, or a list of these. Months and days of the week
// may be named, and 7 is Sunday, as is 0. A day need only be in one of the two day fields if
// neither has a star, and a star with a step above 1 counts as a list, as in Kubernetes and KEDA.
// 1/2 is Monday, Wednesday and Friday.
// @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually are read, too.
func ParseCron(s string) (Cron, error) {
	c := Cron{text: s}
	written := s
	if word, ok := cronWords[strings.ToLower(strings.TrimSpace(s))]; ok {
		written = word
	}
	fields := strings.Fields(written)
	if len(fields) != len(cronFields) {
		return Cron{}, fmt.Errorf("must have five fields: minute, hour, day of month, month, day of week, as in 0 8 * * 1-5, was %q", s)
	}
	for i, into := range []*uint64{&c.minute, &c.hour, &c.day, &c.month, &c.weekday} {
		set, err := cronFields[i].read(fields[i])
		if err != nil {
			return Cron{}, fmt.Errorf("%s %w in %q", cronFields[i].name, err, s)
		}
		*into = set
	}
	const sunday, seventh = 1, 1 << 7
	if c.weekday&seventh != 0 {
		c.weekday = c.weekday&^seventh | sunday
	}
	c.anyDay, c.anyWeekday = hasStar(fields[2]), hasStar(fields[4])
	if !c.comes() {
		return Cron{}, fmt.Errorf("must be a date that comes: no month of it has that day, was %q", s)
	}
	return c, nil
}

// hasStar reports whether a part of a field that was read is a star, or one with a step of 1.
func hasStar(field string) bool {
	for part := range strings.SplitSeq(field, ",") {
		values, every, stepped := strings.Cut(part, "/")
		if step, _ := strconv.Atoi(every); values == "*" && (!stepped || step == 1) {
			return true
		}
	}
	return false
}

// read returns the values of a field as bits.
func (f *cronField) read(s string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(s, ",") {
		values, every, stepped := strings.Cut(part, "/")
		low, high, err := f.span(values, stepped)
		if err != nil {
			return 0, err
		}
		step := 1
		if stepped {
			if step, err = strconv.Atoi(every); err != nil || step < 1 || step > f.high {
				return 0, fmt.Errorf("must have a step between 1 and %d, was %q", f.high, part)
			}
		}
		for v := low; v <= high; v += step {
			set |= 1 << v
		}
	}
	return set, nil
}

// span reads a star, a value or a range. A value that is followed by a step goes on to the end.
func (f *cronField) span(s string, stepped bool) (low, high int, err error) {
	if s == "*" {
		return f.low, f.high, nil
	}
	from, to, ranged := strings.Cut(s, "-")
	if low, err = f.value(from); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		if high, err = f.value(to); err != nil {
			return 0, 0, err
		}
	case stepped && f.high == 7:
		high = max(low, 6) // 7 is another name of Sunday, and not the day after Saturday
	case stepped:
		high = f.high
	default:
		high = low
	}
	if f.high == 7 && ranged && high == 0 && low > 0 {
		high = 7 // fri-sun goes on to the end of the week
	}
	if high < low {
		return 0, 0, fmt.Errorf("must be a range that goes up, was %q", s)
	}
	return low, high, nil
}

func (f *cronField) value(s string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(s, name) {
			return f.low + i, nil
		}
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < f.low || v > f.high || s[0] == '+' {
		also := ""
		if f.names != nil {
			also = fmt.Sprintf(" or one of %s to %s", f.names[0], f.names[len(f.names)-1])
		}
		return 0, fmt.Errorf("must be between %d and %d%s, was %q", f.low, f.high, also, s)
	}
	return v, nil
}

// String returns the expression as it was written.
func (c Cron) String() string { return c.text }

// MarshalText writes the expression.
func (c Cron) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// UnmarshalText reads an expression, as ParseCron does.
func (c *Cron) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCron(string(text))
	return err
}

// Last returns when the expression came last in a time zone, at t or before it.
func (c *Cron) Last(t time.Time, zone *time.Location) (time.Time, bool) {
	m, ok := c.last(t, zone)
	return m.at, ok
}

// IsZero reports whether there is no expression.
func (c Cron) IsZero() bool { return c.minute == 0 }

// Equal reports whether two expressions come at the same times for the same reasons.
func (c Cron) Equal(d Cron) bool { c.text, d.text = "", ""; return c == d }

// comes reports whether there is a day that the expression names.
func (c *Cron) comes() bool {
	if c.anyDay || !c.anyWeekday {
		return true
	}
	for month, days := range [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31} {
		if c.month&(1<<(month+1)) != 0 && bits.TrailingZeros64(c.day) <= days {
			return true
		}
	}
	return false
}

// on reports whether the expression comes on a day.
func (c *Cron) on(day time.Time) bool {
	if c.month&(1<<day.Month()) == 0 {
		return false
	}
	inMonth, inWeek := c.day&(1<<day.Day()) != 0, c.weekday&(1<<day.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// moment is when an expression comes: an instant, and what the clock on the wall shows then, as if
// it were in UTC. Where the clock is put forward, what it skips comes at that instant, in the order
// of what it would have shown.
type moment struct{ at, wall time.Time }

// before reports whether m comes before n.
func (m moment) before(n moment) bool {
	if m.at.Equal(n.at) {
		return m.wall.Before(n.wall)
	}
	return m.at.Before(n.at)
}

// reach is how far an expression is looked for. 29 February on a given day of the week comes every
// 40 years at worst.
const reach = 41 * 366 * 24 * time.Hour

// last returns when the expression came last, at t or before it.
func (c *Cron) last(t time.Time, zone *time.Location) (moment, bool) {
	for at := t; t.Sub(at) < reach; {
		shift := at.In(zone)
		since, _ := shift.ZoneBounds()
		offset := offsetAt(shift)
		oldest := t.Add(-reach)
		if since.After(oldest) {
			oldest = since
		}
		if wall, ok := c.latest(onWall(at, offset), onWall(oldest, offset)); ok {
			return moment{wall.Add(-offset), wall}, true
		}
		if since.IsZero() {
			break
		}
		before := offsetAt(since.Add(-1).In(zone))
		// The hour was skipped.
		if wall, ok := c.latest(onWall(since, offset).Add(-1), onWall(since, before)); ok {
			return moment{since, wall}, true
		}
		at = since.Add(-1)
	}
	return moment{}, false
}

// next returns when the expression comes next after t.
func (c *Cron) next(t time.Time, zone *time.Location, within time.Duration) (moment, bool) {
	for at, end := t.Add(1), t.Add(within); !at.After(end); {
		shift := at.In(zone)
		_, until := shift.ZoneBounds()
		if !until.IsZero() && !until.After(at) {
			// The last day of a leap year: the zone's rule counts 365 days.
			until = at.Truncate(24 * time.Hour).Add(24 * time.Hour)
		}
		offset, newest := offsetAt(shift), end
		if !until.IsZero() && !until.After(end) {
			newest = until.Add(-1)
		}
		if wall, ok := c.earliest(onWall(at, offset), onWall(newest, offset)); ok {
			return moment{wall.Add(-offset), wall}, true
		}
		if newest.Equal(end) {
			break
		}
		after := offsetAt(until.In(zone))
		// The hour was skipped.
		if wall, ok := c.earliest(onWall(until, offset), onWall(until, after).Add(-1)); ok {
			return moment{until, wall}, true
		}
		at = until
	}
	return moment{}, false
}

func offsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// onWall returns what a clock shows that is so far ahead of UTC.
func onWall(t time.Time, offset time.Duration) time.Time { return t.UTC().Add(offset) }

// latest returns the last time on the wall from oldest to newest at which the expression comes.
func (c *Cron) latest(newest, oldest time.Time) (time.Time, bool) {
	day := newest.Truncate(24 * time.Hour)
	for top := newest.Sub(day); !day.Add(top).Before(oldest); top = 24*time.Hour - 1 {
		if c.on(day) {
			for h := int(top / time.Hour); h >= 0; h-- {
				m := min(int((top-time.Duration(h)*time.Hour)/time.Minute), 59)
				set := c.minute & (1<<(m+1) - 1)
				if c.hour&(1<<h) == 0 || set == 0 {
					continue
				}
				at := day.Add(time.Duration(h)*time.Hour + time.Duration(bits.Len64(set)-1)*time.Minute)
				return at, !at.Before(oldest)
			}
		}
		day = day.AddDate(0, 0, -1)
	}
	return time.Time{}, false
}

// earliest returns the first time on the wall from oldest to newest at which the expression comes.
func (c *Cron) earliest(oldest, newest time.Time) (time.Time, bool) {
	oldest = oldest.Add(time.Minute - 1).Truncate(time.Minute)
	day := oldest.Truncate(24 * time.Hour)
	for from := oldest.Sub(day); !day.Add(from).After(newest); from = 0 {
		if c.on(day) {
			for h := int(from / time.Hour); h < 24; h++ {
				m := max(int((from-time.Duration(h)*time.Hour)/time.Minute), 0)
				set := c.minute >> m << m
				if c.hour&(1<<h) == 0 || set == 0 {
					continue
				}
				at := day.Add(time.Duration(h)*time.Hour + time.Duration(bits.TrailingZeros64(set))*time.Minute)
				return at, !at.After(newest)
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}, false
}
