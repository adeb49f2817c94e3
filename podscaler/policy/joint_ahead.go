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
	// foretold are the forecasts that are on their way, a ring, and beside each the value that there
	// was when it was made.
	foretold [judgedAt]struct{ mean, last float64 }
	at       int
	// off and still are how far the forecasts were off of late, and how far the last values were.
	off, still float64
	judged     float64
}

const (
	// period is what a forecast counts time in: machines take some of them, and users come and go in as
	// many.
	period = 15 * time.Second
	// farthest is how many periods it looks ahead at most: ten minutes.
	farthest = 40
	// judgedAt is the horizon by which forecasters are told apart, in periods: what a machine takes.
	judgedAt = 8
	// tried is how many forecasts have to be judged before any is believed, and better how much of the
	// last value's errors theirs may come to: a trend that is none costs machines.
	tried, better = 12, 0.85
	// steepest is the most that is expected of a forecast, as a part of what there is.
	steepest = 1.5
)

// newOutlook weighs what is there now against what goes on as it went, by how each has done of late:
// where loads jump about, it is the last value that speaks.
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

// observe takes in the work of now. A period is over once a run sees that it is; those that no run has
// seen are gaps.
func (o *outlook) observe(now time.Time, work float64) {
	if o.end.IsZero() || now.Sub(o.end) > farthest*period {
		o.end, o.sum, o.n = now.Add(period), 0, 0
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
}

// close ends a period, and judges by its value what was foretold of it.
func (o *outlook) close(value float64) {
	o.model.Observe(value)
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

// look says what loads are expected by when a replica comes, and by when a machine does.
func (p *joint) look(v *podscaler.View, offered float64) forecastOf {
	f := forecastOf{podLead: guessedPodLead, machineLead: guessedMachineLead}
	if v.Room.PodLead > 0 {
		f.podLead = v.Room.PodLead
	}
	if v.Room.MachineLead > 0 {
		f.machineLead = max(v.Room.MachineLead, f.podLead)
	}
	if p.load == nil || !p.load.believed() {
		return f
	}
	pod, machine := p.load.model.Forecast(periods(f.podLead)), p.load.model.Forecast(periods(f.machineLead))
	if f.known = pod.Known && machine.Known; f.known {
		f.pod, f.machine = min(pod.Quantile(p.certainty), steepest*offered), min(machine.Quantile(p.certainty), steepest*offered)
	}
	return f
}

// periods is how many periods a lead comes to.
func periods(d time.Duration) int {
	return min(max(ceil(float64(d)/float64(period)), 1), farthest)
}
