package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/pricing"
)

// The predictive policy asks what load there will be when pods that are asked for now are ready,
// and sizes for the most that is expected until then. It goes by the requests that are offered, a
// period at a time, which do not stop at what pods can serve as their CPU does; a profile says how
// many pods serve them. With a race of forecasters at the mean over 0.9 it is HPA+, as published.
//
// It needs the arrivals, and a profile: measured, or learned from the pods' CPU. Where it knows no
// arrivals, no profile or no forecast it scales as an HPA on CPU does, and the arrivals of the
// moment are a floor below all of it.
//
// It loses to an oracle: a flash crowd is not foretold, and is followed a period late. It loses
// pods where nothing is to be gained, where pods are ready in seconds and the load is noise. A
// profile that is given and no longer true is not noticed; one that is learned follows over some
// minutes. After a restart it learns from the days past, where Prometheus has them. Elsewhere it
// knows only what comes: for ten periods it shrinks nothing, and the time of day means nothing to
// it until a day has passed.

// Predictive is the settings of the predictive policy.
type Predictive struct {
	// Forecaster says what the load will be; unset is Ensemble.
	Forecaster string `json:"forecaster,omitempty"`
	// Members are the forecasters that an Ensemble weighs, or that compete in a Race; unset are
	// its own.
	Members []string `json:"members,omitempty"`
	// Period is what arrivals are meant over before they are learned from; unset is 1m.
	Period *podscaler.Duration `json:"period,omitempty"`
	// Horizon is how many periods ahead the load is looked for; unset is as many as pods take to be
	// ready, which is measured.
	Horizon int `json:"horizon,omitempty"`
	// Lead is how long pods take while none has been seen to start; unset is one period.
	Lead *podscaler.Duration `json:"lead,omitempty"`
	// Quantile has pods sized for the load that is not exceeded with that chance; unset is the
	// mean.
	Quantile *float64 `json:"quantile,omitempty"`
	// MarginalValue has pods added while one more is expected to save so many requests a second;
	// in place of the mean or a quantile.
	MarginalValue *float64 `json:"marginalValue,omitempty"`
	// Excess is the part of the pods' capacity that the load is to take. Unset is 0.9, with
	// Quantile or MarginalValue, which make room themselves, 1; and 0.7 of a profile that is
	// learned, which says when the CPU is full and not when answers become slow.
	Excess *float64 `json:"excess,omitempty"`
	// ReactiveFloor keeps as many pods as the arrivals of the moment need, even if less is
	// forecast; unset is true.
	ReactiveFloor *bool `json:"reactiveFloor,omitempty"`
	// Profile says what pods serve; unset is learned.
	Profile PredictiveProfile `json:"profile,omitzero"`
	// CPU is what an HPA on the pods' CPU would have for a target, by whose rules it goes while
	// nothing is known of what comes; unset is 80 % of the request.
	CPU PredictiveCPU `json:"cpu,omitzero"`
}

// PredictiveProfile is one of several ways to say how many requests a second pods serve.
type PredictiveProfile struct {
	Linear    *LinearProfile    `json:"linear,omitempty"`
	Quadratic *QuadraticProfile `json:"quadratic,omitempty"`
	Table     []ProfilePoint    `json:"table,omitempty"`
	Learned   *LearnedProfile   `json:"learned,omitempty"`
}

// LinearProfile has x pods serve perPod·x + base.
type LinearProfile struct {
	PerPod float64 `json:"perPod"`
	Base   float64 `json:"base,omitempty"`
}

// QuadraticProfile has x pods serve a·x² + b·x + c.
type QuadraticProfile struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
	C float64 `json:"c,omitempty"`
}

// ProfilePoint is a measurement: so many pods served so many requests a second together.
type ProfilePoint struct {
	Pods  int     `json:"pods"`
	Total float64 `json:"total"`
}

// LearnedProfile is found out from the pods' CPU and the requests that come.
type LearnedProfile struct {
	// CPU is what a pod may use; unset is what it requests.
	CPU Quantity `json:"cpu,omitempty"`
}

// PredictiveCPU is a target for the pods' CPU, of which one is enough.
type PredictiveCPU struct {
	AverageUtilization int      `json:"averageUtilization,omitempty"`
	AverageValue       Quantity `json:"averageValue,omitempty"`
}

func init() {
	register("Predictive", "forecasts the requests that will come when new pods are ready, and has as many pods as serve them.", func(s Spec) (podscaler.Policy, error) {
		if s.Predictive == nil {
			return newPredictive(Predictive{})
		}
		return newPredictive(*s.Predictive)
	})
}

type predictive struct {
	foresight foresight
	excess    float64
	floor     bool
	profile   *capacity.Profile // nil if it is learned
	shape     string            // how the profile reads
	// What a pod may use, of a profile that is learned; 0 is the request.
	cpu      Quantity
	hpa      *hpa
	byShare  bool // the HPA's target is a part of the request
	series   series
	starts   startTimes
	horizon  int // 0 is by the start times
	lead     time.Duration
	demand   capacity.Demand
	seen     int // periods with a value
	learnt   bool
	cores    meanUse
	settings Predictive
}

// warmUp is how many periods with a value must have been seen before anything is shrunk. A policy
// that has just been started does not know what it knew before: not that a peak is near, and not
// that the load just fell for a minute.
const warmUp = 10

// mostAhead is how many periods are looked ahead at most.
const mostAhead = 60

func newPredictive(c Predictive) (podscaler.Policy, error) {
	var f podscaler.Faults
	period := time.Duration(*cmp.Or(c.Period, new(podscaler.Duration(time.Minute))))
	p := &predictive{
		excess: c.excess(), floor: *cmp.Or(c.ReactiveFloor, new(true)), settings: c, horizon: c.Horizon,
		series: series{length: period}, lead: time.Duration(*cmp.Or(c.Lead, new(podscaler.Duration(period)))),
	}
	f.Unless(period >= 10*time.Second && period <= time.Hour, "predictive.period", "must be from 10s to 1h", period)
	f.Unless(c.Horizon >= 0 && c.Horizon <= mostAhead, "predictive.horizon", fmt.Sprintf("must be from 1 to %d", mostAhead), c.Horizon)
	f.Unless(p.lead > 0 && p.lead <= 24*time.Hour, "predictive.lead", "must be above 0s and at most 24h", p.lead)
	f.Unless(c.Horizon == 0 || c.Lead == nil, "predictive.lead", "must be omitted with predictive.horizon, which counts instead", p.lead)
	f.Unless(p.excess > 0 && p.excess <= 1, "predictive.excess", "must be above 0 and at most 1", p.excess)
	if q := c.Quantile; q != nil {
		f.Unless(*q > 0 && *q < 1, "predictive.quantile", "must be above 0 and below 1", *q)
		f.Unless(c.MarginalValue == nil, "predictive.quantile", "must be omitted with predictive.marginalValue", *q)
	}
	if m := c.MarginalValue; m != nil {
		f.Unless(*m > 0 && !math.IsInf(*m, 0), "predictive.marginalValue", "must be above 0", *m)
	}
	p.readProfile(&f, c.Profile)
	p.readCPU(&f, c.CPU)
	if f.Err() == nil {
		p.foresight.build(&f, c, p.ahead(0, p.lead))
	}
	return p, f.Err()
}

// excess is the part of the capacity that is to be taken.
func (c *Predictive) excess() float64 {
	switch given := c.Profile.Linear != nil || c.Profile.Quadratic != nil || c.Profile.Table != nil; {
	case c.Excess != nil:
		return *c.Excess
	case !given:
		return 0.7
	case c.Quantile != nil || c.MarginalValue != nil:
		return 1
	}
	return 0.9
}

// readProfile reads the profile from the one field that is set, if one is.
func (p *predictive) readProfile(f *podscaler.Faults, c PredictiveProfile) {
	var given []string
	take := func(key, shape string, profile capacity.Profile, err error) {
		given, p.profile, p.shape = append(given, key), &profile, shape
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				_, rule, _ := strings.Cut(strings.TrimSpace(line), " profile: ")
				*f = append(*f, fmt.Errorf("predictive.profile.%s: %s", key, rule))
			}
		}
	}
	if l := c.Linear; l != nil {
		profile, err := capacity.Linear(l.PerPod, l.Base)
		take("linear", fmt.Sprintf("%.6g·x%+.6g", l.PerPod, l.Base), profile, err)
	}
	if q := c.Quadratic; q != nil {
		profile, err := capacity.Quadratic(q.A, q.B, q.C)
		take("quadratic", fmt.Sprintf("%.6g·x²%+.6g·x%+.6g", q.A, q.B, q.C), profile, err)
	}
	if c.Table != nil {
		points := make([]capacity.Point, len(c.Table))
		for i, row := range c.Table {
			points[i] = capacity.Point(row)
		}
		profile, err := capacity.Table(points...)
		take("table", fmt.Sprintf("a table of %d rows", len(points)), profile, err)
	}
	if l := c.Learned; l != nil {
		given, p.cpu = append(given, "learned"), l.CPU
		f.Unless(l.CPU >= 0, "predictive.profile.learned.cpu", "must be above 0", l.CPU)
	}
	f.Unless(len(given) <= 1, "predictive.profile", "must be given in one way", strings.Join(given, " and "))
}

func (p *predictive) readCPU(f *podscaler.Faults, c PredictiveCPU) {
	f.Unless(c.AverageUtilization >= 0, "predictive.cpu.averageUtilization", "must be above 0", c.AverageUtilization)
	f.Unless(c.AverageValue >= 0, "predictive.cpu.averageValue", "must be above 0", c.AverageValue)
	f.Unless(c.AverageUtilization == 0 || c.AverageValue == 0, "predictive.cpu", "must have one target", "averageUtilization and averageValue")
	m := Metric{Type: Resource, Name: "cpu", AverageUtilization: c.AverageUtilization, AverageValue: c.AverageValue}
	if c.AverageUtilization == 0 && c.AverageValue == 0 {
		m.AverageUtilization = 80
	}
	p.hpa, p.byShare = &hpa{metrics: []Metric{m}, tolerance: 0.1}, m.AverageUtilization != 0
}

func (p *predictive) check(w *podscaler.Workload) error {
	var f podscaler.Faults
	f.Unless(w.Min > 0, "minReplicas", "must be at least 1 for policy Predictive, which goes by the pods' CPU where nothing else is known", w.Min)
	f.Unless(!p.byShare || w.Pod.CPU > 0, "pod.cpu", "must be above 0 without predictive.cpu.averageValue, for the target of the CPU is in percent of it", int64(w.Pod.CPU))
	f.Unless(p.profile != nil || p.cpu > 0 || w.Pod.CPU > 0, "pod.cpu", "must be above 0 for a profile that is learned without predictive.profile.learned.cpu", int64(w.Pod.CPU))
	f.Unless(p.series.length >= w.RunPeriod, "predictive.period", fmt.Sprintf("must be at least the run period, which is %s", w.RunPeriod), p.series.length)
	return f.Err()
}

// Desired is what the load needs until new pods are ready, or what can be said in its place.
func (p *predictive) Desired(v *podscaler.View) podscaler.Recommendation {
	d := &draft{view: v}
	arrivals, measured := p.observe(v)
	profile, known := p.profileNow(v)
	switch {
	case !measured:
		d.because(podscaler.ReasonArrivalsUnknown, "the requests that come are unknown%s, and their forecast grows stale: the CPU may grow the workload, and nothing shrinks it", inBrackets(v.Window.Arrivals.Why))
		p.byCPU(d)
		if d.want < v.Replicas {
			return d.unknown()
		}
	case !known:
		d.because(podscaler.ReasonProfileUnknown, "what a pod serves has not been learned yet, from the CPU of pods that are not all busy and the requests that come: it goes by CPU")
		p.byCPU(d)
	default:
		if !p.bySize(d, profile) {
			p.byCPU(d)
		}
		p.keepFloor(d, profile, arrivals)
	}
	if p.seen < warmUp && d.known && d.want < v.Replicas {
		d.because(podscaler.ReasonTooLittleHistory, "%d wanted, but only %d periods have been seen since the start, and nothing is shrunk before there are %d", d.want, p.seen, warmUp)
		d.want = v.Replicas
	}
	return podscaler.Recommendation{Replicas: d.want, Known: d.known, Reasons: d.reasons, Forecast: d.expects}
}

// inBrackets puts a reason into a sentence, if there is one.
func inBrackets(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// observe takes in what is to be learned from, and returns the arrivals of the moment.
func (p *predictive) observe(v *podscaler.View) (arrivals float64, measured bool) {
	p.starts.look(v.Now, v.Pods)
	p.cores.look(v.Pods)
	arrivals, measured = v.Window.Arrivals.Number()
	measured = measured && arrivals >= 0 && arrivals <= forecast.Most
	var r *reading
	if measured {
		r = &reading{v.Now, p.measuredOver(v), arrivals}
	}
	ended, lost := p.series.look(v.Now, r)
	if lost {
		p.forget()
	}
	p.foresight.clock(p.series.since(len(ended)), p.series.length)
	for i, value := range ended {
		p.foresight.observe(value)
		if math.IsNaN(value) {
			continue
		}
		p.seen++
		if cores, used, ok := p.cores.mean(); ok && i == len(ended)-1 {
			p.demand.Observe(cores, value, used >= 0.95*p.cpuOf(v))
		}
	}
	if len(ended) > 0 {
		p.cores = meanUse{}
	}
	return arrivals, measured
}

// forget is what a restart does, but for what pods take to start.
func (p *predictive) forget() {
	var f podscaler.Faults
	p.foresight, p.demand, p.seen, p.learnt, p.cores = foresight{}, capacity.Demand{}, 0, false, meanUse{}
	p.foresight.build(&f, p.settings, p.ahead(0, p.lead))
}

// measuredOver is how long the time is that arrivals are meant over, as far as they were measured
// throughout.
func (p *predictive) measuredOver(v *podscaler.View) time.Duration {
	over := cmp.Or(v.Window.Over, v.Workload.SLO.Window, time.Minute)
	if since := v.Window.Since; !since.IsZero() {
		over = min(over, max(v.Now.Sub(since), 0))
	}
	return over
}

// cpuOf is how many cores a pod may use.
func (p *predictive) cpuOf(v *podscaler.View) float64 {
	if p.cpu > 0 {
		return float64(p.cpu) / 1000
	}
	return float64(v.Workload.Pod.CPU) / 1000
}

// profileNow is the profile, if it is known.
func (p *predictive) profileNow(v *podscaler.View) (capacity.Profile, bool) {
	if p.profile != nil {
		return *p.profile, true
	}
	profile, ok := p.demand.Profile(p.cpuOf(v))
	if each, known := p.demand.PerRequest(); known {
		p.shape = fmt.Sprintf("%.4g·x, learned from %.4g ms of CPU a request", p.cpuOf(v)/each, 1000*each)
	}
	return profile, ok
}

// ahead is how many periods ahead is as far as lead from a moment that is so long after the last
// period's end.
func (p *predictive) ahead(since, lead time.Duration) int {
	if p.horizon > 0 {
		return p.horizon
	}
	return min(max(ceil((since+lead).Seconds()/p.series.length.Seconds()), 1), mostAhead)
}

// bySize has as many replicas as serve what is expected; ok says that something is.
func (p *predictive) bySize(d *draft, profile capacity.Profile) (ok bool) {
	lead, seen := p.starts.usual()
	if !seen {
		lead = p.lead
	}
	h := p.ahead(d.view.Now.Sub(p.series.start), lead)
	e := p.foresight.until(h, p.settings.Quantile, p.settings.MarginalValue != nil)
	if !e.known {
		d.because(podscaler.ReasonForecastUnknown, "nothing is foretold for the next %s: %s", p.within(h), p.foresight.why())
		return false
	}
	said, load := fmt.Sprintf("%.4g requests/s expected", e.mean), e.mean
	switch {
	case p.settings.MarginalValue != nil:
		said += fmt.Sprintf(", and pods that save less than %.4g of them omitted", *p.settings.MarginalValue)
	case p.settings.Quantile != nil:
		load = e.quantile
		said += fmt.Sprintf(", with a chance of %.4g no more than %.4g", *p.settings.Quantile, e.quantile)
	}
	d.expects = podscaler.Forecast{Load: load, Unit: podscaler.RequestsPerSecond, Within: time.Duration(h) * p.series.length}
	d.want, d.known = p.pods(d.view, profile, load, e.distribution), true
	d.because(podscaler.ReasonForecast, "%s within %s by %s: with %.4g of the capacity %s, %d wanted",
		said, p.within(h), p.foresight.who(), p.excess, p.shape, d.want)
	return true
}

// within is so many periods, for people.
func (p *predictive) within(h int) string { return pricing.Short(time.Duration(h) * p.series.length) }

// pods is how many replicas a load needs: one at least, and the most allowed of a load that no
// number serves. By their marginal value it is how many save at least that much each of what may
// come; what one more saves falls from pod to pod as long as pods add no more than the ones before
// them.
func (p *predictive) pods(v *podscaler.View, profile capacity.Profile, load float64, of forecast.Distribution) int {
	if p.settings.MarginalValue != nil {
		load = of.Quantile(1)
	}
	need := profile.Inverse(load / p.excess)
	if math.IsInf(need, 1) {
		need = float64(v.Workload.Max)
	}
	n := ceil(need)
	if p.settings.MarginalValue != nil {
		short := func(pods int) float64 { return of.Above(p.excess * profile.Total(float64(pods))) }
		n = sort.Search(n, func(n int) bool { return short(n)-short(n+1) < *p.settings.MarginalValue })
	}
	return max(n, 1)
}

// keepFloor has at least as many replicas as serve the arrivals of the moment. Where nothing else
// is known they may grow by it.
func (p *predictive) keepFloor(d *draft, profile capacity.Profile, arrivals float64) {
	if !p.floor {
		return
	}
	least := p.pods(d.view, profile, arrivals, forecast.Distribution{Mean: arrivals, Known: true})
	if d.known && d.want >= least || !d.known && least <= d.view.Replicas {
		return
	}
	d.because(podscaler.ReasonReactiveFloor, "%.4g requests/s come now, which at %.4g of the capacity %s take %d", arrivals, p.excess, p.shape, least)
	d.want, d.known = least, true
}

// byCPU is what an HPA would do.
func (p *predictive) byCPU(d *draft) {
	r := p.hpa.Desired(d.view)
	d.want, d.known = r.Replicas, r.Known
	d.reasons = append(d.reasons, r.Reasons...)
}

// meanUse is what the pods use while a period lasts.
type meanUse struct {
	cores, pods float64
	looks       int
}

// look adds up the pods that serve. While one of them has no sample, as one that has just become
// ready has none, their use is unknown.
func (m *meanUse) look(pods []podscaler.Pod) {
	var cores []float64
	for i := range pods {
		p := &pods[i]
		if !p.Ready || p.Terminating || p.Phase != podscaler.Running {
			continue
		}
		use, ok := p.CPU.Number()
		if !ok || use < 0 {
			return
		}
		cores = append(cores, use)
	}
	slices.Sort(cores) // in another order they would add up differently by a hair
	for _, use := range cores {
		m.cores += use
	}
	m.pods += float64(len(cores))
	m.looks++
}

// mean is what all pods used together, and each of them.
func (m *meanUse) mean() (all, each float64, ok bool) {
	if m.pods == 0 {
		return 0, 0, false
	}
	return m.cores / float64(m.looks), m.cores / m.pods, true
}
