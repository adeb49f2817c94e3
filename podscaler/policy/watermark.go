package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// The watermark policy keeps a load between two marks. Above the high one it grows, rounding up,
// to as many replicas as bring the load down to it. Below the low one it shrinks, rounding down, to
// as many as bring it up to that. Between them nothing is done. A step goes so many percent
// and no further, and after each there is a pause.
//
// It needs what each pod uses of a resource, or its containers, or series of the view's window by
// name. Where a service registry is
// read, too, pods that it does not send requests to carry none of the load.
//
// It loses where the band is narrow. One pod fewer of r carries r/(r−1) of the load, so that
// with high/low at or below that a shrink lands above the high mark and is taken back:
// antiOscillation refuses it, and the last pod too many stays. It follows the load and predicts
// nothing, so it is late by a pod's start and a machine's boot, a step at a time. It knows neither
// the SLO nor a price: an administrator has to find out which marks keep the one at which of the
// other.

// Watermark is the settings of the watermark policy.
type Watermark struct {
	// Algorithm says what is held against the marks; unset is Average.
	Algorithm Algorithm `json:"algorithm,omitempty"`
	// High and Low are the marks of the pods' CPU; one of them is enough, and the load is then
	// kept on its side. Without them and without Metrics they are 80 % and 40 % of a pod's
	// request.
	High Quantity `json:"high,omitempty"`
	Low  Quantity `json:"low,omitempty"`
	// Metrics are what is looked at in place of the CPU alone; the one that wants most counts.
	Metrics []WatermarkMetric `json:"metrics,omitempty"`
	// Tolerance is how far beyond a mark the load may be with nothing done; unset is 0.01. The
	// workload's behavior overrides it by direction.
	Tolerance *float64 `json:"tolerance,omitempty"`
	// UpLimitPercent and DownLimitPercent are how far one step may go, in percent of the
	// replicas, and at least one replica; 0 turns the direction off. Unset are 50 and 20.
	UpLimitPercent   *int `json:"upLimitPercent,omitempty"`
	DownLimitPercent *int `json:"downLimitPercent,omitempty"`
	// Cooldown is how long after the last change, whichever way it went, there is no further
	// one up or down; unset are 1m and 5m.
	Cooldown ByDirection `json:"cooldown,omitzero"`
	// Delay is how long the load must have been above the high mark, or below the low one;
	// unset is 0s.
	Delay ByDirection `json:"delay,omitzero"`
	// Multiple is what the replicas are a multiple of; unset is 1.
	Multiple int `json:"multiple,omitempty"`
	// ConvergeTo is the mark that the load is brought nearer to while it is between both, by
	// one Multiple a step; unset means None.
	ConvergeTo Converge `json:"convergeTo,omitempty"`
	// AntiOscillation leaves as many replicas as carry the load below the high mark; unset is
	// true.
	AntiOscillation *bool `json:"antiOscillation,omitempty"`
	// TolerateZero takes a load of 0 for one; else nothing is done at 0, which is what a
	// broken measurement looks like, too.
	TolerateZero bool `json:"tolerateZero,omitempty"`
	// CPUInitializationPeriod is how long after its start a pod's samples count only if it is
	// ready and was so throughout them; unset is the workload's readiness.
	CPUInitializationPeriod *podscaler.Duration `json:"cpuInitializationPeriod,omitempty"`
	// InitialReadinessDelay is how long after its start a change of readiness is still part of
	// starting; unset is the workload's readiness.
	InitialReadinessDelay *podscaler.Duration `json:"initialReadinessDelay,omitempty"`
}

// WatermarkMetric is a metric and its marks, of which one is enough.
type WatermarkMetric struct {
	Type MetricType `json:"type"`
	// Name is that of the resource for Resource and ContainerResource, such as cpu or memory, and a
	// series in the view's window for all others.
	Name string `json:"name"`
	// Container is the container that is looked at; for ContainerResource.
	Container string   `json:"container,omitempty"`
	High      Quantity `json:"high,omitempty"`
	Low       Quantity `json:"low,omitempty"`
}

// ByDirection is a time for growing and one for shrinking.
type ByDirection struct {
	Up   *podscaler.Duration `json:"up,omitempty"`
	Down *podscaler.Duration `json:"down,omitempty"`
}

// Algorithm says what is held against watermarks.
type Algorithm string

// The algorithms.
const (
	Average  Algorithm = "Average"  // what a pod carries in the mean
	Absolute Algorithm = "Absolute" // the whole, such as a latency or the length of a queue
)

// Converge names the watermark that a load between both is brought nearer to.
type Converge string

// What to converge to.
const (
	ConvergeNone Converge = "None"
	ConvergeHigh Converge = "High" // fewer pods, each with more to do
	ConvergeLow  Converge = "Low"  // more pods, each with less to do
)

func init() {
	register("Watermark", "keeps a load between a high and a low mark: beyond them it changes the replicas in limited steps, between them it does nothing.", func(s Spec) (podscaler.Policy, error) {
		if s.Watermark == nil {
			return newWatermark(Watermark{})
		}
		return newWatermark(*s.Watermark)
	})
}

type watermark struct {
	absolute     bool
	metrics      []WatermarkMetric // without marks if they are of the request
	tolerance    float64
	up, down     *course
	multiple     int
	converge     Converge
	steady       bool // antiOscillation
	tolerateZero bool
	startup      startup
}

// course is a direction: what it is limited by, and since when the load has been on its side,
// zero if it is not.
type course struct {
	percent         int
	cooldown, delay time.Duration
	since           time.Time
}

// The marks of CPU where none are given, in percent of the request.
const (
	defaultHigh = 80
	defaultLow  = 40
)

func newWatermark(c Watermark) (podscaler.Policy, error) {
	var f podscaler.Faults
	w := &watermark{
		absolute:  c.Algorithm == Absolute,
		metrics:   c.Metrics,
		tolerance: 0.01,
		up:        newCourse(c.UpLimitPercent, c.Cooldown.Up, c.Delay.Up, 50, time.Minute),
		down:      newCourse(c.DownLimitPercent, c.Cooldown.Down, c.Delay.Down, 20, 5*time.Minute),
		multiple:  cmp.Or(c.Multiple, 1),
		converge:  cmp.Or(c.ConvergeTo, ConvergeNone),
		steady:    c.AntiOscillation == nil || *c.AntiOscillation, tolerateZero: c.TolerateZero,
		startup: startupOf(&f, "watermark", c.CPUInitializationPeriod, c.InitialReadinessDelay),
	}
	if len(w.metrics) == 0 {
		w.metrics = []WatermarkMetric{{Type: Resource, Name: "cpu", High: c.High, Low: c.Low}}
	}
	if c.Tolerance != nil {
		w.tolerance = *c.Tolerance
	}
	f.Unless(slices.Contains([]Algorithm{"", Average, Absolute}, c.Algorithm), "watermark.algorithm", "must be Average or Absolute", strconv.Quote(string(c.Algorithm)))
	f.Unless(len(c.Metrics) == 0 || c.High == 0 && c.Low == 0, "watermark.metrics", "must be empty with watermark.high or watermark.low, which are marks of the cpu", len(c.Metrics))
	f.Unless(w.tolerance >= 0 && w.tolerance < 1, "watermark.tolerance", "must be at least 0 and below 1", w.tolerance)
	w.up.validate(&f, "up", math.MaxInt32)
	w.down.validate(&f, "down", 100)
	f.Unless(w.multiple >= 1 && w.multiple <= math.MaxInt32, "watermark.multiple", "must be between 1 and 2147483647", w.multiple)
	f.Unless(slices.Contains([]Converge{ConvergeNone, ConvergeHigh, ConvergeLow}, w.converge), "watermark.convergeTo", "must be None, High or Low", strconv.Quote(string(w.converge)))
	w.validateMarks(&f, len(c.Metrics) == 0)
	if f != nil {
		return nil, errors.Join(f...)
	}
	return w, nil
}

func newCourse(percent *int, cooldown, delay *podscaler.Duration, defaultPercent int, defaultCooldown time.Duration) *course {
	c := &course{percent: defaultPercent, cooldown: defaultCooldown}
	if percent != nil {
		c.percent = *percent
	}
	if cooldown != nil {
		c.cooldown = time.Duration(*cooldown)
	}
	if delay != nil {
		c.delay = time.Duration(*delay)
	}
	return c
}

func (c *course) validate(f *podscaler.Faults, name string, most int) {
	f.Unless(c.percent >= 0 && c.percent <= most, "watermark."+name+"LimitPercent", fmt.Sprintf("must be between 0 and %d", most), c.percent)
	f.Unless(c.cooldown >= 0, "watermark.cooldown."+name, "must be at least 0", c.cooldown)
	f.Unless(c.delay >= 0, "watermark.delay."+name, "must be at least 0", c.delay)
}

// validateMarks looks at the metrics; alone says that there is but the CPU, whose marks are not
// in a list and may be missing.
func (w *watermark) validateMarks(f *podscaler.Faults, alone bool) {
	for i, m := range w.metrics {
		key := fmt.Sprintf("watermark.metrics[%d]", i)
		if alone {
			key = "watermark"
		}
		validateType(f, key, m.Type, m.Name, m.Container)
		f.Unless(m.High >= 0, key+".high", "must be above 0", m.High)
		f.Unless(m.Low >= 0, key+".low", "must be above 0", m.Low)
		f.Unless(m.High == 0 || m.High > m.Low, key+".high", fmt.Sprintf("must be above low, which is %s", m.Low), m.High)
		f.Unless(alone || m.High != 0 || m.Low != 0, key, "must have a high or a low watermark", "none")
		if alone && m.High == 0 && m.Low == 0 {
			continue // both are of the request
		}
		f.Unless(w.converge != ConvergeHigh || m.High != 0, key+".high", "must be set to converge to it", m.High)
		f.Unless(w.converge != ConvergeLow || m.Low != 0, key+".low", "must be set to converge to it", m.Low)
	}
}

func (w *watermark) check(of *podscaler.Workload) error {
	var f podscaler.Faults
	for _, m := range w.metrics {
		f.Unless(m.High != 0 || m.Low != 0 || of.Pod.CPU > 0, "pod.cpu", "must be above 0 without watermark.high and watermark.low, which are then in percent of it", int64(of.Pod.CPU))
	}
	f.Unless(of.Min >= 1, "minReplicas", "must be at least 1 for policy Watermark, which multiplies what is there", of.Min)
	multiple := fmt.Sprintf("must be a multiple of watermark.multiple, which is %d", w.multiple)
	f.Unless(of.Min%w.multiple == 0, "minReplicas", multiple, of.Min)
	f.Unless(of.Max%w.multiple == 0, "maxReplicas", multiple, of.Max)
	return errors.Join(f...)
}

// warnings are of bands in which the smallest shrink there is, to minReplicas, would already land
// above the high mark.
func (w *watermark) warnings(of *podscaler.Workload) (all []podscaler.Reason) {
	least := max(of.Min, 1)
	from := least + w.multiple
	for i := range w.metrics {
		b := w.marksOf(&podscaler.View{Workload: of}, &w.metrics[i])
		if b.high == 0 || b.low == 0 || b.high*float64(least) > b.low*float64(from) {
			continue
		}
		comes := "will be taken back"
		if w.steady {
			comes = "will not be made (antiOscillation)"
		}
		all = append(all, podscaler.Because(podscaler.ReasonNarrowBand,
			"the high watermark of %s is %.4g times the low one, and %d replicas in place of %d carry %.4g times the load each: that shrink %s",
			titleOf(w.metrics[i].Name, w.metrics[i].Container), b.high/b.low, least, from, float64(from)/float64(least), comes))
	}
	return all
}

// draft is a recommendation in the making.
type draft struct {
	view    *podscaler.View
	want    int
	known   bool // whether want says anything, where a policy keeps account of it
	expects podscaler.Forecast
	reasons []podscaler.Reason
}

func (d *draft) because(code, format string, args ...any) {
	d.reasons = append(d.reasons, podscaler.Because(code, format, args...))
}

func (d *draft) unknown() podscaler.Recommendation {
	return podscaler.Recommendation{Reasons: d.reasons}
}

// Desired is the most replicas that any metric asks for, as far as a step and the pauses let it.
func (w *watermark) Desired(v *podscaler.View) podscaler.Recommendation {
	d := &draft{view: v}
	registered, trusted := w.registered(d)
	if registered == 0 && !w.absolute {
		w.remember(v.Now, nil, true)
		d.because(podscaler.ReasonNothingRegistered, "no instance is registered: there is a load, and no instance to share it among")
		return d.unknown()
	}
	wishes, blind := w.wishes(d, registered)
	w.remember(v.Now, wishes, blind > 0)
	if len(wishes) == 0 {
		return d.unknown()
	}
	for _, x := range wishes {
		d.want = max(d.want, x.replicas)
	}
	switch {
	case d.want < v.Replicas && blind > 0:
		d.reasons = append(d.reasons, incomplete(blind, len(w.metrics), v.Replicas, d.want))
		return d.unknown()
	case d.want < v.Replicas && !trusted:
		d.because(podscaler.ReasonRegistrationUnknown, "the registry could not be asked, so %d replicas are not reduced to %d: %s", v.Replicas, d.want, cmp.Or(v.Window.Registered.Why, "it answers with no number"))
		return d.unknown()
	}
	w.delay(d)
	w.limit(d)
	w.settle(d, wishes)
	w.coolDown(d)
	return podscaler.Recommendation{Replicas: d.want, Known: true, Reasons: d.reasons}
}

// registered is how many instances the registry knows of, as many as there may be where it was
// not asked or did not answer; trusted says that there was nothing to ask, or an answer. If it
// knows other instances than are ready, or some of another version than the rest, a reason says so.
func (w *watermark) registered(d *draft) (n int, trusted bool) {
	v := d.view
	if versions := v.Window.RegisteredVersions; len(versions) > 1 && !v.Rollout.InProgress {
		d.because(podscaler.ReasonRegistrationMismatch, "instances of %d versions are registered, and no rollout is under way: %s", len(versions), printVersions(versions))
	}
	said := v.Window.Registered
	count, known := said.Number()
	if !known {
		return math.MaxInt, said == podscaler.Reading{}
	}
	n = floor(count)
	if ready := serving(v.Pods); n != ready {
		d.because(podscaler.ReasonRegistrationMismatch, "%d pods are ready, and %d instances are registered", ready, n)
	}
	return n, true
}

// remember keeps since when the load has been above or below its marks. A metric that is
// unknown may be on either side: it does not end a time above, and does not let one below last.
func (w *watermark) remember(now time.Time, wishes []wish, blind bool) {
	is := func(s side) func(wish) bool { return func(x wish) bool { return x.side == s } }
	above := slices.ContainsFunc(wishes, is(aboveHigh))
	below := !blind && len(wishes) > 0 && !slices.ContainsFunc(wishes, func(x wish) bool { return x.side != belowLow })
	w.up.mark(now, above, !above && !blind)
	w.down.mark(now, below, !below)
}

// mark begins a time on this side, or ends it. A clock that was put back begins it anew.
func (c *course) mark(now time.Time, begin, end bool) {
	switch {
	case end:
		c.since = time.Time{}
	case begin && (c.since.IsZero() || now.Before(c.since)):
		c.since = now
	}
}

// delay takes a change back while the load has not been beyond its mark for long enough.
func (w *watermark) delay(d *draft) {
	c, mark := w.up, "above the high"
	if d.want < d.view.Replicas {
		c, mark = w.down, "below the low"
	}
	lasted := d.view.Now.Sub(c.since)
	if d.want == d.view.Replicas || c.since.IsZero() || lasted >= c.delay {
		return
	}
	d.because(podscaler.ReasonWatermarkDelay, "%d wanted, but the load has been %s watermark for %s: %gs left of %s",
		d.want, mark, pricing.Short(lasted), (c.delay - lasted).Seconds(), pricing.Short(c.delay))
	d.want = d.view.Replicas
}

// limit cuts a change to what one step may be.
func (w *watermark) limit(d *draft) {
	from := d.view.Replicas
	if most := w.highest(from); d.want > from && d.want > most {
		d.because(podscaler.ReasonScaleUpLimit, "%d wanted, at most %d in one step of %d%% from %d", d.want, most, w.up.percent, from)
		d.want = most
	}
	if least := w.lowest(from); d.want < from && d.want < least {
		d.because(podscaler.ReasonScaleDownLimit, "%d wanted, at least %d in one step of %d%% from %d", d.want, least, w.down.percent, from)
		d.want = least
	}
}

// highest is how many replicas one step may lead to: some percent more, and in any case the
// next multiple.
func (w *watermark) highest(replicas int) int {
	if w.up.percent == 0 {
		return replicas
	}
	most := replicas + max(1, replicas*w.up.percent/100)
	return min(max(w.roundDown(most), w.next(replicas)), math.MaxInt32)
}

// lowest is how few replicas one step may lead to.
func (w *watermark) lowest(replicas int) int {
	if w.down.percent == 0 {
		return replicas
	}
	least := replicas - max(1, replicas*w.down.percent/100)
	return max(min(w.roundUp(least), w.previous(replicas)), 0)
}

func (w *watermark) roundDown(n int) int    { return n / w.multiple * w.multiple }
func (w *watermark) roundUp(n int) int      { return w.roundDown(n + w.multiple - 1) }
func (w *watermark) next(replicas int) int  { return w.roundDown(replicas) + w.multiple }
func (w *watermark) previous(from int) int  { return w.roundUp(from) - w.multiple }
func (w *watermark) atLeastOne(n int) int   { return max(n, w.multiple) }
func (w *watermark) needed(by float64) int  { return w.atLeastOne(w.roundUp(ceil(by))) }
func (w *watermark) carried(by float64) int { return w.atLeastOne(w.roundDown(floor(by))) }

// settle has a shrink leave as many replicas as carry the load at the high mark: with fewer, the
// next step would be to grow again.
func (w *watermark) settle(d *draft, wishes []wish) {
	for _, x := range wishes {
		if !w.steady || x.high == 0 || d.want >= d.view.Replicas {
			continue
		}
		if least := min(w.needed(x.demand/x.high), d.view.Replicas); d.want < least {
			d.because(podscaler.ReasonWouldOscillate, "%d wanted, with %s at %s then, above its high watermark of %s: %d stay",
				d.want, x.name, x.written(x.demand/float64(d.want)), x.written(x.high), least)
			d.want = least
		}
	}
}

// coolDown takes a change back that comes too soon after the last one, whichever way that went.
// Where no last one is known there may have been one just before the first run: growth does
// not wait for it, shrinking does.
func (w *watermark) coolDown(d *draft) {
	past, left := d.view.Past, w.up.cooldown
	last, what := past.Up, "the last change of replicas"
	if past.Down.After(last) {
		last = past.Down
	}
	if d.want < d.view.Replicas {
		left = w.down.cooldown
		if last.IsZero() {
			last, what = past.Since, "the first run"
		}
	}
	all, ago := left, d.view.Now.Sub(last)
	left -= ago
	if d.want == d.view.Replicas || last.IsZero() || left <= 0 {
		return
	}
	d.because(podscaler.ReasonCooldown, "%d wanted, but %s was %s ago: %gs left of %s", d.want, what, pricing.Short(ago), left.Seconds(), pricing.Short(all))
	d.want = d.view.Replicas
}
