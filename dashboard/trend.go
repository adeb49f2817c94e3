package dashboard

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// fold is how the numbers of one bucket become one.
type fold int

const (
	mean fold = iota
	highest
	latest
)

// number is one of a chart. What was not measured is not a number, and null in JSON.
type number float32

var unknown = number(math.NaN())

// MarshalJSON writes the number.
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return strconv.AppendFloat(nil, f, 'g', 6, 32), nil
	}
	return []byte("null"), nil
}

// resolutions are how finely a trend is kept, and for how long: as a chart shows it, in memory that
// does not grow with the journal.
var resolutions = []struct {
	width   time.Duration
	buckets int
}{
	{10 * time.Second, 750}, // 2 hours and some
	{2 * time.Minute, 750},  // a day and some
	{15 * time.Minute, 700}, // a week and some
	{time.Hour, 1488},       // 2 months
}

// trend is how some numbers went over time.
type trend struct {
	folds  []fold
	levels []level // by resolution
}

// level is a trend at one resolution. Its buckets follow each other in time without a gap, and lie
// in one array: there are many of them in a large cluster.
type level struct {
	width   time.Duration
	keep    int
	columns int
	first   int64 // the number of buckets of this width before the first one
	cells   []cell
}

// cell is one number of a bucket, of so many values.
type cell struct {
	value number
	of    int32
}

func newTrend(folds ...fold) *trend {
	t := &trend{folds: folds}
	for _, r := range resolutions {
		t.levels = append(t.levels, level{width: r.width, keep: r.buckets, columns: len(folds)})
	}
	return t
}

// add puts the numbers of a moment in; those that are unknown change nothing.
func (t *trend) add(at time.Time, values ...number) {
	for i := range t.levels {
		bucket := t.levels[i].at(at)
		for k, v := range values {
			if v == v {
				bucket[k].add(v, t.folds[k])
			}
		}
	}
}

func (c *cell) add(v number, how fold) {
	switch {
	case c.of == 0 || how == latest:
		c.value = v
	case how == highest:
		c.value = max(c.value, v)
	case how == mean:
		c.value += (v - c.value) / number(c.of+1)
	}
	c.of++
}

// at is the bucket of a moment. The level begins anew with one that is too far from its others, as
// when a clock that was ahead is put right.
func (l *level) at(at time.Time) []cell {
	n := at.UnixNano() / int64(l.width)
	switch {
	case len(l.cells) == 0 || n >= l.end()+int64(l.keep) || n < l.end()-int64(l.keep):
		l.first, l.cells = n, nil
	case n < l.first:
		l.first, l.cells = n, append(make([]cell, int(l.first-n)*l.columns), l.cells...)
	}
	if missing := int(n + 1 - l.end()); missing > 0 {
		l.cells = append(l.cells, make([]cell, missing*l.columns)...)
	}
	if over := l.len() - l.keep; over > l.keep/4 { // moved rarely, so that a record costs little
		l.first, l.cells = l.first+int64(over), slices.Clone(l.cells[over*l.columns:])
	}
	return l.bucket(n)
}

func (l *level) len() int { return len(l.cells) / l.columns }

// end is the number of buckets of this width before the one after the last.
func (l *level) end() int64 { return l.first + int64(l.len()) }

// since is the first bucket of those that are kept.
func (l *level) since() int64 { return max(l.first, l.end()-int64(l.keep)) }

func (l *level) bucket(n int64) []cell {
	i := int(n-l.first) * l.columns
	return l.cells[i : i+l.columns]
}

// points are a trend's numbers between two moments, at the finest resolution that reaches back far
// enough and has no more than a chart can show. Times are the beginnings of buckets.
func (t *trend) points(from, to time.Time) (times []time.Time, columns [][]number) {
	l := t.finest(from, to)
	columns = make([][]number, len(t.folds))
	for n := max(from.UnixNano()/int64(l.width), l.since()); n < l.end(); n++ {
		at := time.Unix(0, n*int64(l.width)).UTC()
		if at.After(to) {
			break
		}
		times = append(times, at)
		for k, c := range l.bucket(n) {
			if c.of == 0 {
				c.value = unknown
			}
			columns[k] = append(columns[k], c.value)
		}
	}
	return times, columns
}

func (t *trend) finest(from, to time.Time) *level {
	oldest := t.begin()
	if from.Before(oldest) {
		from = oldest
	}
	for i := range t.levels {
		l := &t.levels[i]
		if to.Sub(from) <= l.width*time.Duration(l.keep) && !time.Unix(0, l.since()*int64(l.width)).After(from) {
			return l
		}
	}
	return &t.levels[len(t.levels)-1]
}

// begin is since when the coarsest resolution reaches back.
func (t *trend) begin() time.Time {
	l := &t.levels[len(t.levels)-1]
	return time.Unix(0, l.since()*int64(l.width)).UTC()
}

// forgotten reports whether nothing was added for longer than any resolution reaches back.
func (t *trend) forgotten(now time.Time) bool {
	l := &t.levels[len(t.levels)-1]
	return now.UnixNano()/int64(l.width) >= l.end()+int64(l.keep)
}
