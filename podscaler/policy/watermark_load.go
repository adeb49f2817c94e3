package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler"
)

// side says whether a load is above, between or below its marks.
type side int

const (
	between side = iota
	aboveHigh
	belowLow
)

// marks are a metric's marks in thousandths, 0 for one that there is not, and how far beyond
// them nothing is done.
type marks struct {
	high, low float64
	band      band
	written   func(thousandths float64) string
}

func (w *watermark) marksOf(v *podscaler.View, m *WatermarkMetric) marks {
	written := func(thousandths float64) string { return printAmount(m.Type, m.Name, thousandths) }
	b := marks{float64(m.High), float64(m.Low), bandOf(v, w.tolerance), written}
	if m.High == 0 && m.Low == 0 {
		request := float64(v.Workload.Pod.CPU)
		b.high, b.low = request*defaultHigh/100, request*defaultLow/100
	}
	return b
}

// The marks with their tolerances. The slack keeps a load that is on one in decimals from being
// beyond it in floats.
func (b marks) top() float64    { return b.high * (1 + b.band.up) }
func (b marks) bottom() float64 { return b.low * (1 - b.band.down) }

func (b marks) side(value float64) side {
	const slack = 1e-9
	switch {
	case b.high > 0 && value > b.top()*(1+slack):
		return aboveHigh
	case b.low > 0 && value < b.bottom()*(1-slack):
		return belowLow
	}
	return between
}

// fill is what a pod without a sample counts as, so that it makes the change smaller: nothing
// on the way up, and all that it may have on the way down. Without a high mark that is the low
// one, for which nothing would be done, either.
func (b marks) fill(s side) float64 {
	switch {
	case s == aboveHigh:
		return 0
	case b.high > 0:
		return b.top()
	}
	return b.low
}

// String says where a load would be left alone.
func (b marks) String() string {
	switch {
	case b.high == 0:
		return "not below " + b.written(b.bottom())
	case b.low == 0:
		return "not above " + b.written(b.top())
	}
	return fmt.Sprintf("within %s and %s", b.written(b.bottom()), b.written(b.top()))
}

// amount prints thousandths, to the nearest.
func amount(thousandths float64) Quantity {
	return Quantity(min(math.Round(thousandths), math.MaxInt64/2))
}

// load is what a metric measures: what is held against the marks, how many pods carry it, and
// what that is together, which stays the same with other replicas.
type load struct {
	value, demand float64 // in thousandths
	pods          int
	in            string
}

// load is that of the pods which count, of no more than are registered: the others get no
// requests.
func (w *watermark) load(t tally, registered int) load {
	if w.absolute {
		return load{t.total, t.total * float64(t.ready), t.ready, "in all with"}
	}
	n := min(t.ready, registered)
	return load{t.total / float64(n), t.total, n, "over"}
}

// of says what is measured, of how many pods.
func (b marks) of(l load) string {
	return fmt.Sprintf("%s %s %d pods", b.written(l.value), l.in, l.pods)
}

// filled counts the pods without a sample as ready ones with that much each.
func (t tally) filled(each float64) tally {
	return tally{ready: t.ready + t.missing, unready: t.unready, total: t.total + each*float64(t.missing)}
}

// measure returns a metric's sum over the pods that count, or why it is unknown.
func (w *watermark) measure(v *podscaler.View, m *WatermarkMetric) (t tally, why string) {
	if m.Type.perPod() {
		of, why := perPod(v, m.Type, m.Name, m.Container)
		if why != "" {
			return t, why
		}
		of.filter = true
		if t = w.startup.tally(v, of); t.ready == 0 {
			return t, noSample(v.Pods, m.Container)
		}
	} else {
		total, why := whole(v, m.Name)
		if why != "" {
			return t, why
		}
		if t = (tally{ready: serving(v.Pods), total: total}); t.ready == 0 {
			return t, "no pod is ready to carry it"
		}
	}
	if t.total < 0 {
		return t, fmt.Sprintf("it is %s, which no load is", amount(t.total))
	}
	return t, ""
}

// wish is what one metric asks for, and what the asking rests on.
type wish struct {
	name         string
	side         side
	replicas     int
	demand, high float64
	written      func(thousandths float64) string
}

// wishes are those of the metrics that are known, and how many are not.
func (w *watermark) wishes(d *draft, registered int) (known []wish, blind int) {
	for i := range w.metrics {
		m := &w.metrics[i]
		t, why := w.measure(d.view, m)
		b := w.marksOf(d.view, m)
		if why == "" && b.high == 0 && b.low == 0 {
			why = "the pods request no cpu that its watermarks could be in percent of"
		}
		if why != "" {
			d.reasons = append(d.reasons, failed(m.Type, titleOf(m.Name, m.Container), why))
			blind++
			continue
		}
		known = append(known, w.wish(d, titleOf(m.Name, m.Container), t, b, registered))
	}
	return known, blind
}

// wish holds a load against its marks. What is unknown is filled in against the change; if the
// load is then no longer beyond the mark, nothing is asked for.
func (w *watermark) wish(d *draft, name string, t tally, b marks, registered int) wish {
	before := w.load(t, registered)
	now, note := before, ""
	at := b.side(before.value)
	x := wish{name: name, replicas: d.view.Replicas, high: b.high, written: b.written}
	if before.value == 0 && !w.tolerateZero {
		d.because(podscaler.ReasonZeroNotTolerated, "%s is 0 over %d pods, which may be no measurement: %d stay (tolerateZero)", name, before.pods, d.view.Replicas)
		return x
	}
	if t.missing > 0 && at != between {
		now = w.load(t.filled(b.fill(at)), registered)
		note = fmt.Sprintf(" (%s before counting in %d without a sample)", b.written(before.value), t.missing)
		if b.side(now.value) != at {
			at = between
		}
	}
	x.side, x.demand = at, now.demand
	switch is := fmt.Sprintf("%s is %s%s", name, b.of(now), note); at {
	case aboveHigh:
		x.replicas = w.needed(now.demand / b.high)
		d.because(podscaler.ReasonAboveHighWatermark, "%s, above %s: %d wanted to bring it to %s", is, b.written(b.top()), x.replicas, b.written(b.high))
	case belowLow:
		x.replicas = w.carried(now.demand / b.low)
		d.because(podscaler.ReasonBelowLowWatermark, "%s, below %s: %d wanted to bring it to %s", is, b.written(b.bottom()), x.replicas, b.written(b.low))
	default:
		d.because(podscaler.ReasonWithinWatermarks, "%s, %s: %d stay", is, b, d.view.Replicas)
		w.approach(d, &x, t, b, registered)
		return x
	}
	if there := d.view.Replicas; at == aboveHigh && x.replicas < there || at == belowLow && x.replicas > there {
		d.because(podscaler.ReasonAlreadyAskedFor, "%d wanted, and %d asked for already: %d stay", x.replicas, there, there)
		x.replicas = there
	}
	return x
}

// approach brings a load between its marks nearer to one of them, if it stays between them.
func (w *watermark) approach(d *draft, x *wish, t tally, b marks, registered int) {
	to, mark, fill := w.next(d.view.Replicas), b.low, 0.0
	if w.converge == ConvergeHigh {
		to, mark, fill = w.previous(d.view.Replicas), b.high, b.fill(belowLow)
	}
	if w.converge == ConvergeNone || to < w.multiple {
		return
	}
	const slack = 1e-9
	demand := w.load(t.filled(fill), registered).demand
	each := demand / float64(to)
	if b.high > 0 && each > b.high*(1+slack) || b.low > 0 && each < b.low*(1-slack) {
		return
	}
	x.replicas, x.demand = to, demand
	d.because(podscaler.ReasonConvergeToWatermark, "%s would be %s with %d replicas, nearer to the watermark of %s", x.name, b.written(each), to, b.written(mark))
}

// printVersions prints how many instances there are of each version.
func printVersions(versions map[string]int) string {
	var all []string
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		all = append(all, fmt.Sprintf("%d of %s", versions[v], v))
	}
	return strings.Join(all, ", ")
}
