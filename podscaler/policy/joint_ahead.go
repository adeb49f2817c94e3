package policy

import (
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// outlook forecasts the offered work, a value a period.
type outlook struct {
	model *forecast.Calibrated
	end   time.Time // of the present period
	sum   float64
	n     int
	// foretold are the forecasts that are on their way, a ring, and beside each the value that
	// there was when it was made.
	foretold [judgedAt]struct{ mean, last float64 }
	at       int
	// off and still are how far the forecasts were off of late, and how far the last values were.
	off, still float64
	judged     float64
	// recent are the last values that were seen without a queue between them, and minutes those of
	// the last minutes, oldest first. Climb is by how much the load climbs in a period, by these.
	recent, minutes []float64
	climb           float64
	wavers          wavers
}

// wavers is how far apart loads are that have next to no measurement in common, squared and on the
// mean.
type wavers struct{ mean, n float64 }

const (
	// period is what a forecast counts time in: machines take some of them, and users come and go
	// in as many.
	period = 15 * time.Second
	// farthest is how many periods it looks ahead at most: ten minutes.
	farthest = 40
	// judgedAt is the horizon by which forecasters are distinguished, in periods: what a machine
	// takes.
	judgedAt = 8
	// tried is how many forecasts have to be judged before any is believed, and better how much of
	// the last value's errors theirs may come to: a trend that is none costs machines.
	tried, better = 12, 0.85
	// steepest is the most that is expected of a forecast, as a part of what there is.
	steepest = 1.5
	// climbing is how many periods a load has to have climbed for, and by climbed of what it was,
	// to be expected to go on as it did: it takes minutes until forecasts of a climb are judged,
	// and by then much of it is over. A jump is no climb by this. Measured over a minute it rises
	// for four periods, so that one of three thirds gets a quarter of the rise at most; of a climb
	// each gets at least even of a third.
	climbing, climbed, even = 6, 0.15, 0.8
	// One of three minutes is told by its minutes, which have no measurement in common, so that
	// chance is less of each of their rises and a smaller part of an even share is enough; a jump
	// is in one of them, or in two, and a queue that it makes as well.
	minutely, evenMinutes = 4, 0.7
	// A climb may be seen sooner, after so many periods, where it is by that many times more than
	// loads so far apart have differed of late. Its first periods are its smallest, for each value
	// is measured over a minute and has the time before in it, so that a part of an even share is
	// enough of each. A jump without a queue passes for a climb by this for the period or two in
	// which all of them rise by it.
	soon, plain, uneven = 4, 2, 0.15
	// wavering is how many loads what they waver by is a mean of, plenty from how many on it is
	// gone by, and outlier how many times as far off as the others one may be then to count in
	// full.
	wavering, plenty, outlier = 40, 8, 3
)

// newOutlook weighs what is there now against what goes on as it went, by how each has done of
// late: where loads jump about, it is the last value that speaks.
func newOutlook(certainty float64) (*outlook, error) {
	e, err := forecast.New(forecast.Spec{Type: "Ensemble", Ensemble: &forecast.EnsembleSettings{
		Members: []forecast.Spec{
			{Type: "Last"},
			{Type: "HoltWinters", HoltWinters: &forecast.HoltWinters{Season: 1, Damping: 0.97, Memory: 240}},
			{Type: "Theta", Theta: &forecast.Theta{Season: 1, Memory: 60}},
		},
		Horizon: judgedAt, Quantile: certainty,
	}})
	if err != nil {
		return nil, err
	}
	c, err := forecast.NewCalibrated(e, forecast.Calibration{Horizons: []int{1, 2, 4, judgedAt, 12, 20, farthest}, Window: 480})
	o := &outlook{model: c}
	for i := range o.foretold {
		o.foretold[i].mean = math.NaN()
	}
	return o, err
}

// observe takes in the work of now. A period is over once a run sees that it is; those that no run
// has seen are gaps. What grows while there is a queue may be the queue, and no climb, unless it
// does so for minutes; and until what a request takes has been measured it may be what is learnt of
// that.
func (o *outlook) observe(now time.Time, work float64, queued, measured bool) {
	if o.end.IsZero() || now.Sub(o.end) > farthest*period || o.end.Sub(now) > period {
		o.end, o.sum, o.n = now.Add(period), 0, 0
		o.recent, o.minutes, o.climb = nil, nil, 0
	}
	for ; !now.Before(o.end); o.end = o.end.Add(period) {
		value := math.NaN()
		if o.n > 0 {
			value = o.sum / float64(o.n)
		}
		o.close(value)
		o.sum, o.n = 0, 0
	}
	o.sum, o.n = o.sum+work, o.n+1
	if queued {
		o.recent = nil
		o.climb = o.climbs()
	}
	if !measured {
		o.minutes = nil
	}
}

// close ends a period, and judges by its value what was foretold of it.
func (o *outlook) close(value float64) {
	o.model.Observe(value)
	o.recent, o.minutes = latest(o.recent, value, climbing+1), latest(o.minutes, value, 3*minutely+1)
	o.climb = o.climbs()
	if before := len(o.recent) - 1 - soon; before >= 0 {
		o.wavers.see(value - o.recent[before])
	}
	f := &o.foretold[o.at%judgedAt]
	o.at++
	if miss := math.Abs(value - f.mean); !math.IsNaN(miss) {
		o.judged++
		share := 1 / min(o.judged, 40)
		o.off += (miss - o.off) * share
		o.still += (math.Abs(value-f.last) - o.still) * share
	}
	f.last, f.mean = value, math.NaN()
	if mean, ok := o.model.Predict(judgedAt); ok {
		f.mean = mean
	}
}

// believed reports whether forecasts have lately been better than to expect what there is.
func (o *outlook) believed() bool { return o.judged >= tried && o.off < better*o.still }

// latest are the last values, so many at most, with one more.
func latest(values []float64, value float64, most int) []float64 {
	values = append(values, value)
	return values[max(len(values)-most, 0):]
}

// climbs is by how much the load climbs in a period, where it has done so steadily or plainly; 0
// where it has not.
func (o *outlook) climbs() float64 {
	climb := max(rise(o.recent, climbing, climbing/3, even, 0), rise(o.minutes, 3*minutely, minutely, evenMinutes, 0))
	if o.wavers.n >= plenty {
		climb = max(climb, rise(o.recent, soon, 1, uneven, plain*math.Sqrt(o.wavers.mean)))
	}
	return climb
}

// see takes in how far apart two loads are.
func (w *wavers) see(apart float64) {
	square := apart * apart
	if math.IsNaN(square) {
		return
	}
	if w.n++; w.n > plenty && w.mean > 0 {
		square = min(square, outlier*outlier*w.mean)
	}
	w.mean += (square - w.mean) / min(w.n, wavering)
}

// rise is by how much the load rose in each of the last periods, if it did so by climbed and by
// more than least in all, and in each step of them by a part of an even share; 0 if not.
func rise(loads []float64, periods, step int, part, least float64) float64 {
	first := len(loads) - 1 - periods
	if first < 0 {
		return 0
	}
	seen := loads[first:]
	all := seen[periods] - seen[0]
	if !(all >= climbed*seen[0] && all >= least) {
		return 0
	}
	share := all * float64(step) / float64(periods)
	for i := 0; i < periods; i += step {
		if !(seen[i+step]-seen[i] >= part*share) {
			return 0
		}
	}
	return all / float64(periods)
}

// look says what loads are expected by when a replica comes, and by when a machine does.
func (p *joint) look(v *podscaler.View, offered float64) forecastOf {
	f := forecastOf{podLead: guessedPodLead, machineLead: guessedMachineLead}
	if v.Room.PodLead > 0 {
		f.podLead = v.Room.PodLead
	}
	if v.Room.MachineLead > 0 {
		f.machineLead = max(v.Room.MachineLead, f.podLead)
	}
	if p.load == nil || p.off.forecast {
		return f
	}
	if rise := p.load.climb; rise > 0 {
		old := measured(v) / 2 // on the mean
		f.expect(offered+rise*float64(f.podLead+old)/float64(period), offered+rise*float64(f.machineLead+old)/float64(period))
	}
	if p.load.believed() {
		pod, machine := p.load.model.Forecast(periods(f.podLead)), p.load.model.Forecast(periods(f.machineLead))
		if pod.Known && machine.Known {
			f.expect(pod.Quantile(p.certainty), machine.Quantile(p.certainty))
		}
	}
	f.pod, f.machine = min(f.pod, steepest*offered), min(f.machine, steepest*offered)
	return f
}

// expect notes what the load may come to, beside what it may come to for another reason.
func (f *forecastOf) expect(pod, machine float64) {
	f.pod, f.machine, f.known = max(f.pod, pod), max(f.machine, machine), true
}

// periods is how many periods a lead comes to.
func periods(d time.Duration) int {
	return min(max(ceil(float64(d)/float64(period)), 1), farthest)
}
