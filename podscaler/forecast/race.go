package forecast

import (
	"cmp"
	"fmt"
	"math"
)

// Race takes the forecast of the entrant that was best over the last few periods, as HPA+ does:
// by the mean relative percentage difference (Eq. 15 of the paper), which is the difference over
// the mean of forecast and value. Where even the best is above a threshold no one is believed, and
// whoever asks has to scale by what is measured. It needs as many periods as its window has.
//
// It is here to be compared with, and to show who leads when and why. It loses to an Ensemble: the
// best of five periods is mostly the luckiest of five, and the difference weighs a forecast that is
// too high like one that is too low. Counts of a few a period differ by more than the threshold for
// no reason but chance.

// RaceSettings is the settings of a Race.
type RaceSettings struct {
	// Entrants are the forecasters that compete; AR, HoltWinters and Last, unless set.
	Entrants []Spec `json:"entrants,omitempty"`
	// Window is over how many periods they are compared; 5, unless set.
	Window int `json:"window,omitempty"`
	// Threshold is the difference above which no one is believed; 0.3, unless set.
	Threshold float64 `json:"threshold,omitempty"`
	// Horizon is how many periods ahead the forecasts are compared; 1, unless set.
	Horizon int `json:"horizon,omitempty"`
}

// Entrant is a model in a race or an ensemble, and what it is called there.
type Entrant struct {
	Name  string
	Model Model
}

// The codes of a verdict's reason.
const (
	BestOfWindow  = "BestOfWindow"  // the leader had the least difference, and not too much of it
	TooFewSamples = "TooFewSamples" // no one has forecast a whole window yet
	NobodyClose   = "NobodyClose"   // even the best differed by more than the threshold
)

// Verdict says who leads a race and why, or why no one is believed.
type Verdict struct {
	Leader  string  // "" for no one
	Reason  string  // a code
	Message string  // a sentence with the numbers
	Places  []Place // the entrants in their order
}

// Place is how an entrant did.
type Place struct {
	Name       string
	Samples    int     // of the window
	Difference float64 // the mean over them; it counts when there is a whole window of them
}

// Race is a Model that speaks for its leader, and does not know where no one leads.
type Race struct {
	entrants  []runner
	window    int
	threshold float64
	horizon   int
	t         int
	verdict   Verdict
}

type runner struct {
	Entrant
	ahead []float64 // forecasts on their way, a ring; NaN for none
	past  ring      // differences
	n     int       // differences in a row, up to the window
}

func init() {
	register("Race", "takes the forecast of whoever was closest in the last few periods.", func(s Spec) (Model, error) {
		c := settings(s.Race)
		if len(c.Entrants) == 0 {
			c.Entrants = []Spec{{Type: "AR"}, {Type: "HoltWinters"}, {Type: "Last"}}
		}
		entrants, err := enter("race.entrants", c.Entrants)
		if err != nil {
			return nil, err
		}
		return NewRace(entrants, c)
	})
}

// enter makes the models of a list.
func enter(key string, specs []Spec) (entrants []Entrant, err error) {
	var f faults
	for i, s := range specs {
		m, err := New(s)
		if err != nil {
			f = append(f, fmt.Errorf("%s[%d]: %w", key, i, err))
			continue
		}
		entrants = append(entrants, Entrant{Name: cmp.Or(s.Name, s.Type), Model: m})
	}
	return entrants, f.err()
}

// checkEntrants finds what is wrong with a list of models.
func (f *faults) checkEntrants(key string, entrants []Entrant) {
	f.unless(len(entrants) > 0, key, "must have one at least", len(entrants))
	seen := map[string]bool{}
	for i, e := range entrants {
		f.unless(e.Name != "" && !seen[e.Name], fmt.Sprintf("%s[%d]", key, i), "must have a name of its own", fmt.Sprintf("%q", e.Name))
		seen[e.Name] = true
	}
}

// NewRace returns a race of models that were made elsewhere, by settings whose entrants do not
// count. At equal differences the first of the list leads.
func NewRace(entrants []Entrant, c RaceSettings) (*Race, error) {
	c.Window = cmp.Or(c.Window, 5)
	c.Threshold = cmp.Or(c.Threshold, 0.3)
	c.Horizon = cmp.Or(c.Horizon, 1)
	var f faults
	f.checkEntrants("race.entrants", entrants)
	f.unless(c.Window >= 1 && c.Window <= 10080, "race.window", "must be from 1 to 10080 periods", c.Window)
	f.unless(c.Threshold > 0 && c.Threshold <= 2, "race.threshold", "must be above 0 and at most 2", c.Threshold)
	f.unless(c.Horizon >= 1 && c.Horizon <= 10080, "race.horizon", "must be from 1 to 10080 periods", c.Horizon)
	if f.err() != nil {
		return nil, f.err()
	}
	r := &Race{window: c.Window, threshold: c.Threshold, horizon: c.Horizon}
	for _, e := range entrants {
		r.entrants = append(r.entrants, runner{Entrant: e, ahead: nothing(c.Horizon), past: newRing(c.Window)})
	}
	r.decide()
	return r, nil
}

// nothing returns n forecasts that were never made.
func nothing(n int) []float64 {
	none := make([]float64, n)
	for i := range none {
		none[i] = math.NaN()
	}
	return none
}

// SetClock passes the time of day on.
func (r *Race) SetClock(period int) {
	for i := range r.entrants {
		SetClock(r.entrants[i].Model, period)
	}
}

// RelativeDifference is a term of Eq. 15: the difference of forecast and value over their mean,
// between 0 and 2. Where both are 0 the forecast was right, and differs by 0.
func RelativeDifference(forecast, value float64) float64 {
	if forecast == value {
		return 0
	}
	return 2 * math.Abs(forecast-value) / (forecast + value)
}

// Observe takes the next period's value and decides who leads from there.
func (r *Race) Observe(v float64) {
	for i := range r.entrants {
		r.entrants[i].observe(v, r.t, r.window, r.horizon)
	}
	r.t++
	r.decide()
}

// observe judges the forecast for this period. A gap judges no one; whoever had no forecast for a
// value has to run a whole window again.
func (e *runner) observe(v float64, t, window, horizon int) {
	slot := &e.ahead[t%len(e.ahead)]
	switch f := *slot; {
	case gap(v):
	case math.IsNaN(f):
		e.n = 0
	default:
		e.past.push(RelativeDifference(f, v))
		e.n = min(e.n+1, window)
	}
	e.Model.Observe(v)
	f, ok := e.Model.Predict(horizon)
	if !ok {
		f = math.NaN()
	}
	*slot = f
}

// difference is the mean over the samples there are: Eq. 15, where there is a window of them.
func (e *runner) difference() float64 {
	sum := 0.0
	for i := range e.n {
		sum += e.past.back(i)
	}
	return sum / float64(max(e.n, 1))
}

func (r *Race) decide() {
	v := Verdict{Places: make([]Place, 0, len(r.entrants))}
	best := -1
	for i := range r.entrants {
		e := &r.entrants[i]
		v.Places = append(v.Places, Place{Name: e.Name, Samples: e.n, Difference: e.difference()})
		if e.n >= r.window && (best < 0 || v.Places[i].Difference < v.Places[best].Difference) {
			best = i
		}
	}
	switch {
	case best < 0:
		v.Reason = TooFewSamples
		v.Message = fmt.Sprintf("no forecaster has forecast the last %d periods", r.window)
	case v.Places[best].Difference > r.threshold:
		v.Reason = NobodyClose
		v.Message = fmt.Sprintf("%s was the closest over the last %d periods, and differed by %.4f, more than %v",
			v.Places[best].Name, r.window, v.Places[best].Difference, r.threshold)
	default:
		v.Leader, v.Reason = v.Places[best].Name, BestOfWindow
		v.Message = fmt.Sprintf("%s was the closest over the last %d periods: it differed by %.4f",
			v.Leader, r.window, v.Places[best].Difference)
	}
	r.verdict = v
}

// Verdict says who leads at present and why.
func (r *Race) Verdict() Verdict { return r.verdict }

// Predict is the leader's.
func (r *Race) Predict(h int) (float64, bool) {
	for i := range r.entrants {
		if e := &r.entrants[i]; e.Name == r.verdict.Leader {
			return e.Model.Predict(h)
		}
	}
	return 0, false
}

// Train trains the entrants on all but the last of the history, and has them run the rest.
func (r *Race) Train(history []float64) {
	cut := max(len(history)-r.window-r.horizon, 0)
	for i := range r.entrants {
		Train(r.entrants[i].Model, history[:cut])
	}
	for _, v := range history[cut:] {
		r.Observe(v)
	}
}

// Size is the memory of the entrants that report it.
func (r *Race) Size() int {
	bytes := 20 * wordBytes
	for i := range r.entrants {
		model, _ := Size(r.entrants[i].Model)
		bytes += model + (r.horizon+15)*wordBytes + r.entrants[i].past.size()
	}
	return bytes
}
