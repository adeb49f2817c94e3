package policy

import (
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// forecaster forecasts the offered work, a value a period. It reads no history: of the past the
// arrivals are known, and what a request took then is not; and what it goes by is an hour old at
// most.
type forecaster struct {
	model     *forecast.Calibrated
	certainty float64
	off       *switches
	end       time.Time // of the present period
	sum       float64
	n         int
	// foretold are the forecasts that are on their way, a ring, and beside each the value that
	// there was when it was made.
	foretold [judgedAt]struct{ mean, last float64 }
	at       int
	// missed and still are how far the forecasts were off of late, and how far the last values
	// were.
	missed, still float64
	judged        float64
	// recent are the last values that were seen without a queue between them, and minutes those of
	// the last minutes, oldest first. Climb is by how much the load climbs in a period, by these.
	recent, minutes []float64
	climb           float64
}

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
	// the last value's errors theirs may come to: a false trend costs machines.
	tried, better = 12, 0.85
	// steepest is the most that is expected of a forecast, as a part of what there is.
	steepest = 1.5
	// climbing is how many periods a load has to have climbed for, and by climbed of what it was,
	// to be expected to go on as it did. Forecasts of a climb are judged after minutes, when much
	// of it is over. A jump is no climb by this. Measured over a minute it rises for four periods,
	// so that one of three thirds gets a quarter of the rise at most; of a climb each gets at least
	// even of a third.
	climbing, climbed, even = 6, 0.15, 0.8
	// One of three minutes is seen by its minutes. They have no measurement in common, so that
	// chance is less of each of their rises, and a smaller part of an even share is enough. A jump
	// is in one of them, or in two, and a queue that it makes as well.
	minutely, evenMinutes = 4, 0.7
)

// newForecaster weighs what is there now against what goes on as it went, by how each has done of
// late: where loads jump about, it is the last value that speaks.
func newForecaster(certainty float64) (*forecaster, error) {
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
	f := &forecaster{model: c, certainty: certainty, off: &switches{}}
	for i := range f.foretold {
		f.foretold[i].mean = math.NaN()
	}
	return f, err
}

// observe takes in the work of now. A period is over once a run sees that it is; those that no run
// has seen are gaps. What grows while there is a queue may be the queue, and no climb, unless it
// does so for minutes; and until what a request takes has been measured it may be what is learnt of
// that.
func (f *forecaster) observe(now time.Time, work float64, queued, measured bool) {
	if f.end.IsZero() || now.Sub(f.end) > farthest*period || f.end.Sub(now) > period {
		f.end, f.sum, f.n = now.Add(period), 0, 0
		f.recent, f.minutes, f.climb = nil, nil, 0
	}
	for ; !now.Before(f.end); f.end = f.end.Add(period) {
		value := math.NaN()
		if f.n > 0 {
			value = f.sum / float64(f.n)
		}
		f.close(value)
		f.sum, f.n = 0, 0
	}
	f.sum, f.n = f.sum+work, f.n+1
	if queued {
		f.recent = nil
		f.climb = f.climbs()
	}
	if !measured {
		f.minutes = nil
	}
}

// close ends a period, and judges by its value what was foretold of it.
func (f *forecaster) close(value float64) {
	f.model.Observe(value)
	f.recent, f.minutes = latest(f.recent, value, climbing+1), latest(f.minutes, value, 3*minutely+1)
	f.climb = f.climbs()
	g := &f.foretold[f.at%judgedAt]
	f.at++
	if miss := math.Abs(value - g.mean); !math.IsNaN(miss) {
		f.judged++
		share := 1 / min(f.judged, 40)
		f.missed += (miss - f.missed) * share
		f.still += (math.Abs(value-g.last) - f.still) * share
	}
	g.last, g.mean = value, math.NaN()
	if mean, ok := f.model.Predict(judgedAt); ok {
		g.mean = mean
	}
}

// believed reports whether forecasts have lately been better than to expect what there is.
func (f *forecaster) believed() bool { return f.judged >= tried && f.missed < better*f.still }

// latest are the last values, so many at most, with one more.
func latest[T any](values []T, value T, most int) []T {
	values = append(values, value)
	return values[max(len(values)-most, 0):]
}

// climbs is by how much the load climbs in a period, where it has done so steadily; 0 where it has
// not.
func (f *forecaster) climbs() float64 {
	return max(rise(f.recent, climbing, climbing/3, even), rise(f.minutes, 3*minutely, minutely, evenMinutes))
}

// rise is by how much the load rose in each of the last periods. It is 0 unless it rose by climbed
// and in each step of them by a part of an even share.
func rise(loads []float64, periods, step int, part float64) float64 {
	first := len(loads) - 1 - periods
	if first < 0 {
		return 0
	}
	seen := loads[first:]
	all := seen[periods] - seen[0]
	if !(all >= climbed*seen[0]) {
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
func (f *forecaster) look(v *podscaler.View, offered float64) forecastOf {
	l := forecastOf{podLead: guessedPodLead, machineLead: guessedMachineLead}
	if v.Room.PodLead > 0 {
		l.podLead = v.Room.PodLead
	}
	if v.Room.MachineLead > 0 {
		l.machineLead = max(v.Room.MachineLead, l.podLead)
	}
	if f.off.forecast {
		return l
	}
	if rise := f.climb; rise > 0 {
		old := measured(v) / 2 // on the mean
		l.expect(offered+rise*float64(l.podLead+old)/float64(period), offered+rise*float64(l.machineLead+old)/float64(period))
	}
	if f.believed() {
		pod, machine := f.model.Forecast(periods(l.podLead)), f.model.Forecast(periods(l.machineLead))
		if pod.Known && machine.Known {
			l.expect(pod.Quantile(f.certainty), machine.Quantile(f.certainty))
		}
	}
	l.pod, l.machine = min(l.pod, steepest*offered), min(l.machine, steepest*offered)
	return l
}

// expect notes what the load may come to, beside what it may come to for another reason.
func (f *forecastOf) expect(pod, machine float64) {
	f.pod, f.machine, f.known = max(f.pod, pod), max(f.machine, machine), true
}

// periods is how many periods a lead comes to.
func periods(d time.Duration) int {
	return min(max(ceil(float64(d)/float64(period)), 1), farthest)
}

// forecastOf are the loads that are expected.
type forecastOf struct {
	pod, machine         float64 // cores, as the quantile has it
	podLead, machineLead time.Duration
	known                bool
}

// guessedPodLead and guessedMachineLead are how long replicas and machines take to come until some
// have.
const guessedPodLead, guessedMachineLead = 30 * time.Second, 2 * time.Minute
