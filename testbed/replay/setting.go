package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// Setting is the world of a run and what is asked of its scaler. Default fills it.
type Setting struct {
	// Profile is what so many pods serve, in requests a second.
	Profile capacity.Profile
	// Excess is how much of the pods' capacity the load is to take, and the HPA's target, for which
	// 1 is the most. Above 1 requests are lost on purpose.
	Excess float64
	// Tolerance is how far the HPA lets use be from its target.
	Tolerance float64
	// Stabilization is how many minutes after a shrink of the HPA's the next may come.
	Stabilization int
	Min, Max      int
	// Timeout is how many minutes a request waits before it is lost. 1 is for those that time
	// out in seconds.
	Timeout int
	// Quantile is what ensemble-quantile has room for: the load that is not exceeded with this
	// chance.
	Quantile float64
	// Price is what ensemble-marginal pays for a pod's minute: the part of its capacity that must
	// be expected to serve requests that would be lost without it.
	Price float64
	// Race is how the entrants of hpa-plus compete. Window and threshold, unset, are those that
	// were published; the entrants are AR, HoltWinters and Last, which need no minutes of training.
	Race forecast.RaceSettings
	// Season is the minutes of a season: a day's.
	Season int
	// Seed is what those who learn by chance begin with.
	Seed uint64
	// Clock says how long training takes; nil leaves it unknown.
	Clock func() time.Duration
	// Models, if set, makes the forecasters of scalers, such as from what was forecast before. One
	// that it returns nil for is made anew.
	Models func(forecast.Spec) (forecast.Model, error)

	models pool // shared with runs in step; nil for none
}

// Default is the setting of the published experiments: the profile that was measured, P(x) = 125·x
// + 209 requests a second, the normal excess, Kubernetes' tolerance, and a time-out of one minute.
func Default() Setting {
	p, err := capacity.Linear(125, 209)
	if err != nil {
		panic(err) // of two constants
	}
	return Setting{
		Profile: p, Excess: 0.9, Tolerance: 0.1, Stabilization: 1, Min: 1, Max: 1000, Timeout: 1,
		Quantile: 0.95, Price: 0.05, Season: MinutesADay, Seed: 1,
	}
}

// Validate returns every fault of the setting.
func (s Setting) Validate() error {
	_, lineErr := capacity.NewLoss(s.Profile, s.Timeout)
	errs := []error{
		lineErr,
		capacity.HPA{Target: 1, Tolerance: s.Tolerance, Min: s.Min, Max: s.Max, Stabilization: s.Stabilization}.Validate(),
		inside("excess", s.Excess, mostExcess),
		inside("quantile", s.Quantile, 1),
		inside("price", s.Price, 1),
	}
	if s.Season < 2 {
		errs = append(errs, fmt.Errorf("season: must be 2 minutes at least, was %d", s.Season))
	}
	return errors.Join(errs...)
}

// mostExcess is above every excess that anybody means: half of what comes is lost.
const mostExcess = 2

// inside returns the fault of a setting that must be between 0 and a bound.
func inside(key string, x, below float64) error {
	if x > 0 && x < below {
		return nil
	}
	return fmt.Errorf("%s: must be above 0 and below %v, was %v", key, below, x)
}

// pods is how many serve a load at the excess. What is not known (NaN) takes the least.
func (s Setting) pods(load float64) int {
	// The excess divides the load here, for a sizing refuses one above 1.
	size := capacity.Sizing{Profile: s.Profile, Excess: 1, Min: s.Min, Max: s.Max}
	n, ok := size.Pods(load / s.Excess)
	if !ok {
		return s.Min
	}
	return n
}

// clearing is how many pods serve who is left waiting: they are known, so that they need no
// headroom, and come before all who arrive, who may wait in turn where requests wait at all.
func (s Setting) clearing(p capacity.Period) int { return s.With(Excess, 1).pods(p.Left) }

// Knob is the setting by which a scaler's replicas are traded for what it loses.
type Knob string

// The knobs.
const (
	Excess   Knob = "excess"
	Quantile Knob = "quantile"
	Price    Knob = "price"
)

// With returns the setting with a knob turned.
func (s Setting) With(k Knob, value float64) Setting {
	switch k {
	case Excess:
		s.Excess = value
	case Quantile:
		s.Quantile = value
	case Price:
		s.Price = value
	}
	return s
}

// Of returns what the knob is turned to.
func (k Knob) Of(s Setting) float64 {
	switch k {
	case Quantile:
		return s.Quantile
	case Price:
		return s.Price
	default:
		return s.Excess
	}
}
