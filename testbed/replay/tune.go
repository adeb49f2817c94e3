package replay

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler/policy"
)

// The settings of the policy Predictive are searched by walk-forward validation: the first week is
// only learned from, and in each later one the policy knows the weeks before it. What costs least
// in these is chosen, but for the last. That one chooses nothing, and says whether the choice was
// chance: the best of a dozen is better than the default on the weeks that chose it on any load.

const (
	// MinutesAWeek is what is learned from, chosen by and checked at a time.
	MinutesAWeek = 7 * MinutesADay
	// FewestWeeks are one to learn from, one to choose by and one to check the choice.
	FewestWeeks = 3
)

// Tuned is what came of a search.
type Tuned struct {
	// Tried are all settings that were played, those of the default first.
	Tried []Tried
	// Best is the index of those that cost least in the weeks that choose.
	Best    int
	setting Setting
}

// Tried is what came of settings in each week after the first. The profile and the horizon are
// those of the replay, and not among the settings.
type Tried struct {
	Settings policy.Predictive
	Weeks    []Result
}

// Chosen is what came of settings in all weeks that choose, and Checked in the one that does not.
func (t *Tried) Chosen() (all Result) {
	for _, w := range t.Weeks[:len(t.Weeks)-1] {
		all = all.plus(w, 1)
	}
	return all
}

// Checked is what came of settings in the last week.
func (t *Tried) Checked() Result { return t.Weeks[len(t.Weeks)-1] }

// plus adds what came of other minutes, so many times.
func (r Result) plus(o Result, times int) Result {
	by := float64(times)
	r.Minutes += times * o.Minutes
	r.PodMinutes += times * o.PodMinutes
	r.Arrived, r.Served, r.Lost = r.Arrived+by*o.Arrived, r.Served+by*o.Served, r.Lost+by*o.Lost
	return r
}

// perPod is what a pod serves beside another, in requests a second.
func (s Setting) perPod() float64 {
	if more := s.Profile.Total(2) - s.Profile.Total(1); more > 0 {
		return more
	}
	return s.Profile.Total(1)
}

// LostPerPodMinute is how many lost requests cost as much as a minute of a pod: the price's part of
// what it can serve.
func (s Setting) LostPerPodMinute() float64 { return s.Price * s.perPod() * secondsAMinute }

// Cost is what a run comes to in pod-minutes, with those that its lost requests are worth.
func (s Setting) Cost(r Result) float64 { return float64(r.PodMinutes) + r.Lost/s.LostPerPodMinute() }

// Gain is the part of the default's cost that the best settings save, in the weeks that choose and
// in the one that does not.
func (t *Tuned) Gain() (chosen, checked float64) {
	first, best := &t.Tried[0], &t.Tried[t.Best]
	saved := func(from, to Result) float64 { return 1 - t.setting.Cost(to)/t.setting.Cost(from) }
	return saved(first.Chosen(), best.Chosen()), saved(first.Checked(), best.Checked())
}

// Offered reports whether the best settings are better than the default's in the week that did not
// choose them, too.
func (t *Tuned) Offered() bool {
	_, gain := t.Gain()
	return gain > 0
}

// steps are what is tried: the default, then how much room is made, then who forecasts, then the
// floor, each with the best of the steps before.
func steps(s Setting) [][]func(*policy.Predictive) {
	var room, who []func(*policy.Predictive)
	for _, v := range []float64{0.6, 0.7, 0.8, 1} {
		room = append(room, func(c *policy.Predictive) { c.Excess = &v })
	}
	for _, v := range []float64{0.8, 0.9, 0.95, 0.99} {
		room = append(room, func(c *policy.Predictive) { c.Quantile = &v })
	}
	// Pods that save less than they cost are omitted, by the price itself.
	worth, err := strconv.ParseFloat(strconv.FormatFloat(s.Price*s.perPod(), 'g', 3, 64), 64)
	if err == nil && worth > 0 {
		room = append(room, func(c *policy.Predictive) { c.MarginalValue = &worth })
	}
	for _, name := range []string{"Race", "AR", "Last"} {
		who = append(who, func(c *policy.Predictive) { c.Forecaster = name })
	}
	return [][]func(*policy.Predictive){
		{func(*policy.Predictive) {}}, room, who, {func(c *policy.Predictive) { c.ReactiveFloor = new(false) }},
	}
}

// TuneFrom is how many minutes of a load are only learned from: a week, and what is no whole one.
func TuneFrom(minutes int) (int, error) { return tuneFrom(minutes, MinutesAWeek) }

func tuneFrom(minutes, week int) (int, error) {
	if minutes < FewestWeeks*week {
		return 0, fmt.Errorf("must have a load of %d weeks at least, one to learn from, one to choose by and one to check the choice, had %.3g days",
			FewestWeeks, float64(minutes)/MinutesADay)
	}
	return week + minutes%week, nil
}

// Tune searches the settings of the policy Predictive that cost least on a load of FewestWeeks or
// more. each does so many things, of which none waits for another.
func Tune(t *Trace, s Setting, each func(n int, do func(i int) error) error) (*Tuned, error) {
	return tune(t, s, MinutesAWeek, each)
}

func tune(t *Trace, s Setting, week int, each func(n int, do func(i int) error) error) (*Tuned, error) {
	train, err := tuneFrom(len(t.Counts), week)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	out := &Tuned{setting: s}
	for _, step := range steps(s) {
		tried := make([]Tried, len(step))
		var from policy.Predictive
		if len(out.Tried) > 0 {
			from = out.Tried[out.Best].Settings
		}
		err := each(len(step), func(i int) (err error) {
			c := from
			step[i](&c)
			tried[i], err = walk(t, train, week, s, c)
			return err
		})
		if err != nil {
			return nil, err
		}
		out.Tried = append(out.Tried, tried...)
		out.Best = out.best()
	}
	return out, nil
}

// best are the settings that cost least in the weeks that choose; of the same the first.
func (t *Tuned) best() (best int) {
	least := math.Inf(1)
	for i := range t.Tried {
		if cost := t.setting.Cost(t.Tried[i].Chosen()); cost < least {
			best, least = i, cost
		}
	}
	return best
}

// walk plays settings week by week, after the minutes that are only learned from.
func walk(t *Trace, train, week int, s Setting, c policy.Predictive) (Tried, error) {
	out := Tried{Settings: c}
	p, err := NewPlayer(predictiveBy(c), s, nil)
	if err == nil {
		err = p.Warm(t.Counts[:train])
	}
	var before Result
	for rest := t.Counts[train:]; err == nil && len(rest) > 0; rest = rest[min(week, len(rest)):] {
		err = p.Feed(rest[:min(week, len(rest))]...)
		now := p.Result()
		out.Weeks, before = append(out.Weeks, now.plus(before, -1)), now
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", t.Name, err)
	}
	return out, err
}

// String is the settings that are not the default's.
func (t *Tried) String() string {
	c, words := &t.Settings, []string{}
	for _, number := range []struct {
		name  string
		value *float64
	}{{"excess", c.Excess}, {"quantile", c.Quantile}, {"marginalValue", c.MarginalValue}} {
		if number.value != nil {
			words = append(words, fmt.Sprintf("%s %v", number.name, *number.value))
		}
	}
	if c.Forecaster != "" {
		words = append(words, "forecaster "+c.Forecaster)
	}
	if c.ReactiveFloor != nil {
		words = append(words, fmt.Sprintf("reactiveFloor %v", *c.ReactiveFloor))
	}
	return cmp.Or(strings.Join(words, ", "), "the default")
}
