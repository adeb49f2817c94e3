package policy

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// The fast-slow policy grows at once to what the load needs and shrinks a pod at a time: growth
// that comes too late loses requests, and pods that are kept too long only cost. Outside of a
// dead band around the target it wants the sum of the pods' use over the target, rounded up.
//
// It needs each pod's CPU, or a series of the view's window by name.
//
// It loses money where load goes away for good: a pod every nine minutes, twenty pods take three
// hours. It loses the one expansion that it is made for where pods are limited near their
// request: use cannot be seen above the limit, so that from one pod it grows in the ratio of
// limit to target a run, as an HPA does. The dead band keeps pods at 49 % of a target of 60 %
// for good, and like an HPA it sees neither the SLO nor a price.

// FastSlow is the settings of the fast-slow policy.
type FastSlow struct {
	// Metric is a series in the view's window, by name; unset is the pods' CPU.
	Metric string `json:"metric,omitempty"`
	// Target is what a pod is to use: of the CPU in percent of its request, where unset is 60;
	// of a series in its own unit.
	Target *Quantity `json:"target,omitempty"`
	// Tolerance is how far the use may be from the target with nothing done, as a part of it;
	// unset is 0.2. The workload's behavior overrides it by direction.
	Tolerance *float64 `json:"tolerance,omitempty"`
	// ScaleUpFactor is how many replicas a run may add for each that there is; unset is 9, which
	// makes ten of one.
	ScaleUpFactor *float64 `json:"scaleUpFactor,omitempty"`
	// DownStep is how many replicas are taken away at a time; unset is 1.
	DownStep *int `json:"downStep,omitempty"`
	// DownWindow is how long after a shrinking, and after all replicas were last needed, none is
	// taken away; unset is 9m.
	DownWindow *podscaler.Duration `json:"downWindow,omitempty"`
}

func init() {
	register("FastSlow", "grows at once to what the load needs, and shrinks a pod at a time with a long wait between.", func(s Spec) (podscaler.Policy, error) {
		if s.FastSlow == nil {
			return newFastSlow(FastSlow{})
		}
		return newFastSlow(*s.FastSlow)
	})
}

type fastSlow struct {
	metric            string // "" is CPU
	target            float64
	tolerance, factor float64
	step              int
	window            time.Duration
	startup           startup

	// needed is when all replicas were last needed, as far as is known: a run whose need is
	// unknown counts, and so does the first, as nothing is known of what was before it.
	needed time.Time
}

func newFastSlow(c FastSlow) (podscaler.Policy, error) {
	var f podscaler.Faults
	target := *cmp.Or(c.Target, new(Quantity(60_000)))
	p := &fastSlow{
		metric: c.Metric, target: float64(target) / 1000,
		tolerance: *cmp.Or(c.Tolerance, new(0.2)), factor: *cmp.Or(c.ScaleUpFactor, new(9.0)), step: *cmp.Or(c.DownStep, new(1)),
		window:  time.Duration(*cmp.Or(c.DownWindow, new(podscaler.Duration(9*time.Minute)))),
		startup: startupOf(&f, "fastSlow", nil, nil),
	}
	f.Unless(c.Metric == "" || c.Target != nil, "fastSlow.target", "must be set for a metric other than CPU", c.Metric)
	f.Unless(target > 0, "fastSlow.target", "must be above 0", target)
	f.Unless(0 <= p.tolerance && p.tolerance < 1, "fastSlow.tolerance", "must be at least 0 and below 1", p.tolerance)
	f.Unless(p.factor > 0 && !math.IsInf(p.factor, 0), "fastSlow.scaleUpFactor", "must be above 0", p.factor)
	f.Unless(p.step >= 1, "fastSlow.downStep", "must be at least 1", p.step)
	f.Unless(p.window >= 0, "fastSlow.downWindow", "must be at least 0", p.window)
	return p, f.Err()
}

func (p *fastSlow) check(w *podscaler.Workload) error {
	var f podscaler.Faults
	f.Unless(p.metric != "" || w.Pod.CPU > 0, "pod.cpu", "must be above 0 for fastSlow.target, which is in percent of it", int64(w.Pod.CPU))
	f.Unless(w.Min > 0, "minReplicas", "must be at least 1 for policy FastSlow, which multiplies what is there", w.Min)
	return f.Err()
}

// Desired is what the load needs, as far as one run may go towards it.
func (p *fastSlow) Desired(v *podscaler.View) podscaler.Recommendation {
	if p.needed.IsZero() {
		p.needed = v.Now
	}
	u, why := p.look(v)
	if why != nil {
		p.needed = v.Now
		return podscaler.Recommendation{Reasons: []podscaler.Reason{*why}}
	}
	want, reasons := p.want(v, &u)
	allowed := p.shrunk
	if want >= v.Replicas {
		p.needed, allowed = v.Now, p.grown
	}
	to, limit := allowed(v, want)
	if limit != nil {
		reasons = append(reasons, *limit)
	}
	if to != v.Replicas {
		reasons = append(reasons, p.predicted(v, &u, to))
	}
	return podscaler.Recommendation{Replicas: to, Known: true, Reasons: reasons}
}

// use is what a run sees that the pods use, in thousandths.
type use struct {
	tally
	goal float64 // what a pod is to use
	full float64 // what a pod without a sample counts as on the way down
}

// look returns the use of the pods, or why it is unknown.
func (p *fastSlow) look(v *podscaler.View) (u use, why *podscaler.Reason) {
	unknown := func(kind MetricType, why string) (use, *podscaler.Reason) {
		r := failed(kind, p.name(), why)
		return use{}, &r
	}
	kind := Pods
	if p.metric == "" {
		kind = Resource
	}
	of, fault := perPod(v, kind, cmp.Or(p.metric, podscaler.ResourceCPU), "")
	of.filter = kind == Resource
	u.goal = 1000 * p.target
	u.full = u.goal
	if kind == Resource {
		request := float64(v.Workload.Pod.CPU)
		u.goal = request * p.target / 100
		u.full = max(request, u.goal)
	}
	total, noTotal := whole(v, p.metric)
	switch {
	case kind == Resource && u.goal <= 0:
		return unknown(kind, "the pods request no cpu that it could be in percent of")
	case fault == "":
		u.tally = p.startup.tally(v, of)
	case len(v.Pods) > 0 && noTotal == "":
		u.tally = shared(v.Pods, total)
	default:
		return unknown(kind, fault)
	}
	if u.ready == 0 {
		return unknown(kind, "no ready pod has a sample")
	}
	return u, nil
}

// shared is the tally of a series that has one value, which the ready pods bear.
func shared(pods []podscaler.Pod, total float64) tally {
	t := tally{total: total}
	for i := range pods {
		switch p := &pods[i]; {
		case p.Terminating || p.Phase == podscaler.Failed:
		case p.Phase == podscaler.Running && p.Ready:
			t.ready++
		default:
			t.unready++
		}
	}
	return t
}

// want is the pods that the load fills to the target; in the dead band those that there are.
// Pods of unknown use count as an HPA counts them, so as to make the change smaller. Use above
// the target never shrinks the workload, nor does use below it grow it.
func (p *fastSlow) want(v *podscaler.View, u *use) (int, []podscaler.Reason) {
	total, n, before, note := u.total, u.ready, u.total/(u.goal*float64(u.ready)), ""
	switch {
	case before < 1:
		total += u.full * float64(u.missing)
		n += u.missing
	case before > 1:
		n += u.missing + u.unready
	}
	ratio, want, band := total/(u.goal*float64(n)), ceil(total/u.goal), bandOf(v, p.tolerance)
	if n > u.ready {
		note = fmt.Sprintf(" (%s over the %d whose use is known)", p.print(before), u.ready)
	}
	asked := want
	turned, past := (before-1)*(ratio-1) < 0, (ratio-1)*float64(want-v.Replicas) < 0
	if turned || past || band.holds(ratio) {
		want = v.Replicas
	}
	reasons := []podscaler.Reason{podscaler.Because(podscaler.ReasonValidMetricFound, "%s is %s of %s over %d pods%s: %d wanted",
		p.name(), p.print(ratio), p.print(1), n, note, want)}
	switch {
	case band.holds(ratio):
		reasons = append(reasons, podscaler.Because(podscaler.ReasonWithinTolerance, "%s is from %s to %s: %d replicas stay",
			p.print(ratio), p.print(1-band.down), p.print(1+band.up), want))
	case past && !turned:
		reasons = append(reasons, podscaler.Because(podscaler.ReasonAlreadyAskedFor, "%d would do, and %d are asked for already", asked, want))
	}
	return want, reasons
}

// grown is how many of the wanted replicas one run may reach, and the limit if that bound.
func (p *fastSlow) grown(v *podscaler.View, want int) (int, *podscaler.Reason) {
	most := ceil(float64(v.Replicas) * (1 + p.factor))
	if want <= most {
		return want, nil
	}
	r := podscaler.Because(podscaler.ReasonScaleUpLimit, "%d wanted, at most %d in one run from %d: %.4g for each", want, most, v.Replicas, p.factor)
	return most, &r
}

// shrunk is how far a run may go down to the wanted replicas, and the limit if one bound: the
// time since all were needed or since the last step, or the step itself.
func (p *fastSlow) shrunk(v *podscaler.View, want int) (int, *podscaler.Reason) {
	since, code, what := p.needed, podscaler.ReasonScaleDownStabilized, "all replicas may have been needed"
	if v.Past.Down.After(since) {
		since, code, what = v.Past.Down, podscaler.ReasonCooldown, "the last shrinking was"
	}
	age := v.Now.Sub(since)
	if age < p.window {
		r := podscaler.Because(code, "%d wanted, but %s %s ago: %gs left of %s", want, what, pricing.Short(age), (p.window - age).Seconds(), pricing.Short(p.window))
		return v.Replicas, &r
	}
	least := v.Replicas - p.step
	if want >= least {
		return want, nil
	}
	r := podscaler.Because(podscaler.ReasonScaleDownLimit, "%d wanted, at least %d in one run from %d: %d at a time", want, least, v.Replicas, p.step)
	return least, &r
}

// predicted says what the use will be once there are as many pods as are proposed, and allowed.
func (p *fastSlow) predicted(v *podscaler.View, u *use, to int) podscaler.Reason {
	to = min(max(to, v.Workload.Min, 1), v.Workload.Max)
	return podscaler.Because(podscaler.ReasonPredictedUse, "%s will be %s with %d pods", p.name(), p.print(u.total/(u.goal*float64(to))), to)
}

func (p *fastSlow) name() string { return cmp.Or(p.metric, "cpu") }

// print writes a multiple of the target.
func (p *fastSlow) print(ratio float64) string {
	unit := ""
	if p.metric == "" {
		unit = "%"
	}
	return fmt.Sprintf("%.4g%s", ratio*p.target, unit)
}
