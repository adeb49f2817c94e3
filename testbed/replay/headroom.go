package replay

import (
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

func init() {
	register(Kind{
		Name: "ensemble-quantile", Title: "has room for the load that the ensemble expects not to be exceeded with the chance of the quantile",
		Knob: Quantile, New: func(s Setting) (Scaler, error) { return newRoomy(s, (*roomy).byQuantile) },
	})
	register(Kind{
		Name: "ensemble-marginal", Title: "adds pods while the requests that the next is expected to save are worth its price",
		Knob: Price, New: func(s Setting) (Scaler, error) { return newRoomy(s, (*roomy).byWorth) },
	})
}

// roomy sets pods by all that may come and how likely it is, rather than by what is expected and
// an excess: calm hours get little headroom and restless ones much. It needs errors like those that
// it has seen, and loses where a day begins that is like no other.
type roomy struct {
	setting Setting
	model   *forecast.Calibrated
	pods    func(*roomy, forecast.Distribution) int
}

func newRoomy(s Setting, pods func(*roomy, forecast.Distribution) int) (Scaler, error) {
	m, err := newModel(forecast.Spec{Type: "Ensemble"}, s)
	if err != nil {
		return nil, err
	}
	c, err := forecast.NewCalibrated(m, forecast.Calibration{})
	return &roomy{setting: s, model: c, pods: pods}, err
}

func (r *roomy) Warm(arrivals []float64) { r.model.Train(arrivals) }

func (r *roomy) Next(p capacity.Period) int {
	r.model.Observe(p.Arrived)
	if d := r.model.Forecast(1); d.Known {
		return max(r.pods(r, d), r.setting.clearing(p))
	}
	// How far off the forecasts are is not known yet; an excess is headroom that needs no errors.
	return max(r.setting.pods(p.Arrived), r.setting.clearing(p))
}

func (r *roomy) Size() (bytes int, known bool) { return forecast.Size(r.model) }

func (r *roomy) byQuantile(d forecast.Distribution) int {
	return r.setting.With(Excess, 1).pods(d.Quantile(r.setting.Quantile))
}

// byWorth adds pods while the next is expected to serve more of what would be lost without it than
// the price, as a part of what it can serve. On a profile that only flattens no later pod is worth
// more than one that was not.
func (r *roomy) byWorth(d forecast.Distribution) int {
	pods := r.setting.Min
	room := r.setting.Profile.Total(float64(pods))
	short := d.Above(room)
	for pods < r.setting.Max && short > 0 {
		more := r.setting.Profile.Total(float64(pods + 1))
		left := d.Above(more)
		if short-left <= r.setting.Price*(more-room) {
			break
		}
		pods, room, short = pods+1, more, left
	}
	return pods
}
