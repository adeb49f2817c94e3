package testbedverb

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/replay"
	testreport "github.com/plimsoll/plimsoll/testbed/report"
)

// bench plays a load against scalers, several at a time.
type bench struct {
	ask   *simulation
	env   *cli.Env
	load  *replay.Trace // as it is played
	train int
	day   span // the minutes of the test that are kept one by one

	minutes, runs atomic.Int64 // that were played
	work          atomic.Int64 // minutes that were learnt from or played
}

// span is a run of minutes, from the first to before the last.
type span struct{ from, to int }

// course is a scaler with the settings at which it is played: those that were asked for come first,
// the others are there to compare scalers at as many pod-minutes.
type course struct {
	kind   replay.Kind
	values []float64
	asked  int
	shown  int // the index of the value at which its day is kept
}

// finely are the settings that are played besides those that were asked for.
var finely = map[replay.Knob][]float64{
	replay.Excess:   {0.6, 0.7, 0.8, 1, 1.1, 1.2},
	replay.Quantile: {0.3, 0.5, 0.7, 0.8, 0.98, 0.995},
	replay.Price:    {0.0001, 0.001, 0.005, 0.05, 0.2, 0.5},
}

// outcome is what came of a course.
type outcome struct {
	course  int
	asked   int
	results []replay.Result // at all of its values
	day     testreport.Day
	err     error
}

// piece is how many minutes are played between looks at whether to go on.
const piece = 4096

// play plays all courses. When it is interrupted, it leaves those under way to the end of the
// process: training cannot be stopped.
func (b *bench) play(ctx context.Context) ([]outcome, time.Duration, error) {
	b.day = busiest(b.load.Counts[b.train:])
	courses := b.courses()
	total := 0
	for i := range courses {
		total += len(courses[i].values)
	}
	meter := newMeterOf("minutes", b.env, b.ask.quiet)
	all, err := b.each(ctx, courses, func() {
		done := b.minutes.Load()
		meter.hear(testbed.Progress{
			Done: int(b.runs.Load()), Total: total, Requests: int(done),
			Part: float64(b.work.Load()) / float64(total*len(b.load.Counts)),
		})
	})
	return all, meter.stop(), err
}

// each plays the courses, as many at a time as was asked for, and calls progress now and then while
// it goes on.
func (b *bench) each(ctx context.Context, courses []course, progress func()) ([]outcome, error) {
	var next atomic.Int64
	came := make(chan outcome, len(courses)) // so that no course waits for a reader that has left
	for range min(b.ask.parallel, len(courses)) {
		go func() {
			for i := int(next.Add(1)) - 1; i < len(courses); i = int(next.Add(1)) - 1 {
				came <- b.one(ctx, i, &courses[i])
			}
		}()
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	all := make([]outcome, len(courses))
	for left := len(courses); left > 0; {
		select {
		case o := <-came:
			if o.err != nil && ctx.Err() == nil {
				return nil, fmt.Errorf("%s: %w", courses[o.course].kind.Name, o.err)
			}
			all[o.course] = o
			left--
		case <-ticker.C:
			progress()
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted: %d of %d scalers were played, and no results are written", len(courses)-left, len(courses))
		}
	}
	progress()
	return all, nil
}

// courses are the scalers in the order of their names, the oracle at the head.
func (b *bench) courses() []course {
	var all []course
	for _, k := range b.ask.kinds {
		c := course{kind: k}
		switch k.Knob {
		case replay.Quantile:
			c.values = slices.Clone(b.ask.quantile)
		case replay.Price:
			c.values = slices.Clone(b.ask.price)
		default:
			c.values = slices.Clone(b.ask.excess)
		}
		c.asked, c.shown = len(c.values), nearest(c.values, k.Knob.Of(b.ask.setting))
		for _, v := range finely[k.Knob] {
			// Who goes by use cannot be asked for more than all of it.
			if _, err := k.New(b.ask.setting.With(k.Knob, v)); err == nil && !slices.Contains(c.values, v) {
				c.values = append(c.values, v)
			}
		}
		if k.Name == oracle {
			all = slices.Insert(all, 0, c)
			continue
		}
		all = append(all, c)
	}
	return all
}

// nearest is the index of the value nearest to one.
func nearest(values []float64, to float64) int {
	best := 0
	for i, v := range values {
		if math.Abs(v-to) < math.Abs(values[best]-to)-1e-9 {
			best = i
		}
	}
	return best
}

// busiest is the day with most requests, of the days from the first minute on, or all where there
// is not a day.
func busiest(counts []float64) span {
	best, most := span{0, min(len(counts), replay.MinutesADay)}, -1.0
	for from := 0; from+replay.MinutesADay <= len(counts); from += replay.MinutesADay {
		sum := 0.0
		for _, n := range counts[from : from+replay.MinutesADay] {
			sum += n
		}
		if sum > most {
			best, most = span{from, from + replay.MinutesADay}, sum
		}
	}
	return best
}

// one plays a course.
func (b *bench) one(ctx context.Context, i int, c *course) outcome {
	o := outcome{course: i, asked: c.asked, day: testreport.Day{Kind: c.kind.Name, Knob: c.kind.Knob, Value: c.values[c.shown]}}
	setting := b.ask.setting
	begun := b.env.Now()
	setting.Clock = func() time.Duration { return b.env.Now().Sub(begun) }
	hear := func(j int) replay.Hear {
		if j != c.shown {
			return nil
		}
		return func(i int, p capacity.Period, leader, _ string) {
			if b.day.from <= i && i < b.day.to {
				o.day.Hear(p, leader)
			}
		}
	}
	s, err := replay.NewSweep(c.kind, setting, c.values, hear)
	if err == nil {
		err = s.Warm(b.load.Counts[:b.train])
		b.work.Add(int64(b.train * len(c.values)))
	}
	for rest := b.load.Counts[b.train:]; err == nil && len(rest) > 0; {
		n := min(piece, len(rest))
		if err = s.Feed(rest[:n]...); err == nil {
			err = ctx.Err()
		}
		rest = rest[n:]
		b.minutes.Add(int64(n * len(c.values)))
		b.work.Add(int64(n * len(c.values)))
	}
	if err != nil {
		o.err = err
		return o
	}
	b.runs.Add(int64(len(c.values)))
	o.results = s.Results()
	for j := range o.results {
		o.results[j].Trace = b.load.Name
	}
	return o
}
