package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// foresight is the forecaster with what it is asked.
type foresight struct {
	name     string
	model    forecast.Model
	by       *forecast.Calibrated
	day      int // periods
	observed int
}

// build makes the forecaster that the settings name, for decisions so many periods ahead.
func (o *foresight) build(f *podscaler.Faults, c Predictive, h int) {
	o.name = cmp.Or(c.Forecaster, "Ensemble")
	o.day = int(24 * time.Hour / time.Duration(*cmp.Or(c.Period, new(podscaler.Duration(time.Minute)))))
	members := o.members(f, c)
	if f.Err() != nil {
		return
	}
	ensemble, race := forecast.EnsembleSettings{Members: members, Horizon: h}, forecast.RaceSettings{Entrants: members, Horizon: h}
	if c.Quantile != nil {
		ensemble.Quantile = *c.Quantile
	}
	var err error
	s := forecast.Spec{Type: o.name, Ensemble: &ensemble, Race: &race}.WithSeason(o.day)
	if o.model, err = forecast.New(s); err == nil {
		o.by, err = forecast.NewCalibrated(o.model, forecast.Calibration{Horizons: horizons(h, c.Horizon > 0)})
	}
	if err != nil {
		*f = append(*f, fmt.Errorf("predictive.%w", err))
	}
}

// members are the forecasters that are named to be weighed, or to compete.
func (o *foresight) members(f *podscaler.Faults, c Predictive) (members []forecast.Spec) {
	several := strings.EqualFold(o.name, "Ensemble") || strings.EqualFold(o.name, "Race")
	f.Unless(len(c.Members) == 0 || several, "predictive.members", "may be there only with forecaster Ensemble or Race", o.name)
	for i, m := range c.Members {
		key, name := fmt.Sprintf("predictive.members[%d]", i), strings.ToLower(m)
		f.Unless(slices.Contains(forecast.Names(), name), key, "must be one of "+strings.Join(forecast.Names(), ", "), strconv.Quote(m))
		f.Unless(name != "ensemble" && name != "race", key, "must be a forecaster that has no members itself", strconv.Quote(m))
		members = append(members, forecast.Spec{Type: m}.WithSeason(o.day))
	}
	return members
}

// horizons are those whose errors are followed; one between them has the spread of the next. Beyond
// one that is fixed none is ever asked for, and each costs a forecast a period.
func horizons(h int, fixed bool) []int {
	all := append([]int{1, 2, 3, 5, 8, 15, 30, mostAhead}, h)
	return slices.DeleteFunc(all, func(i int) bool { return fixed && i > h })
}

// clock says when the period of the next value begins. A day begins at midnight UTC.
func (o *foresight) clock(start time.Time, length time.Duration) {
	forecast.SetClock(o.model, int(start.Sub(start.Truncate(24*time.Hour))/length))
}

// observe takes a period's value.
func (o *foresight) observe(value float64) {
	o.by.Observe(value)
	o.observed++
}

// relive takes the values of days past.
func (o *foresight) relive(values []float64) {
	o.by.Relive(values)
	o.observed += len(values)
}

// expected is the most that is expected in some time.
type expected struct {
	known          bool
	mean, quantile float64
	distribution   forecast.Distribution // of the period with the highest mean
}

// until is the most that is expected in any of the next h periods: pods that are taken away are
// gone at once, and what comes before new ones are ready needs them.
func (o *foresight) until(h int, quantile *float64, distribution bool) (e expected) {
	for i := 1; i <= h; i++ {
		mean, ok := o.by.Predict(i)
		if !ok {
			return expected{}
		}
		higher := !e.known || mean > e.mean
		if quantile != nil || distribution {
			d := o.by.Forecast(i)
			if !d.Known {
				return expected{}
			}
			if quantile != nil {
				e.quantile = max(e.quantile, d.Quantile(*quantile))
			}
			if higher {
				e.distribution = d
			}
		}
		if higher {
			e.known, e.mean = true, mean
		}
	}
	return e
}

// who names who made the forecast.
func (o *foresight) who() string {
	switch m := o.model.(type) {
	case *forecast.Race:
		return "Race (" + m.Verdict().Message + ")"
	case *forecast.Ensemble:
		first := forecast.Vote{}
		for _, v := range m.Votes() {
			if v.Weight > first.Weight {
				first = v
			}
		}
		return fmt.Sprintf("Ensemble (%s has %.0f %% of the vote)", first.Name, 100*first.Weight)
	}
	return o.name
}

// why says why there is no forecast.
func (o *foresight) why() string {
	if r, ok := o.model.(*forecast.Race); ok && r.Verdict().Leader == "" {
		return r.Verdict().Message
	}
	return fmt.Sprintf("%s knows too little after %d periods", o.name, o.observed)
}
