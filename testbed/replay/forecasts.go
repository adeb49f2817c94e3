package replay

import (
	"strings"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// elsewhere are the forecasters that are no kind of their own: naive is Last, and a race that
// trusts no forecaster needs a fallback, which hpa-plus has.
var elsewhere = map[string]bool{"last": true, "race": true}

func init() {
	register(Kind{
		Name: "naive", Title: "sizes on the requests of the last minute", Knob: Excess,
		New: func(s Setting) (Scaler, error) { return newSized(forecast.Spec{Type: "Last"}, s) },
	})
	for _, d := range forecast.All() {
		name := strings.ToLower(d.Name)
		if elsewhere[name] {
			continue
		}
		register(Kind{
			Name: name, Title: "sizes on a forecaster that " + strings.TrimSuffix(d.Summary, "."), Knob: Excess,
			New: func(s Setting) (Scaler, error) { return newSized(forecast.Spec{Type: name}, s) },
		})
	}
}

// sized sets the pods that serve the forecast at the excess.
type sized struct {
	setting Setting
	model   forecast.Model
}

func newSized(spec forecast.Spec, s Setting) (Scaler, error) {
	m, err := newModel(spec, s)
	return &sized{setting: s, model: m}, err
}

// newModel returns a forecaster. Where its settings do not say, its season and its seed are the
// setting's.
func newModel(spec forecast.Spec, s Setting) (forecast.Model, error) {
	spec = spec.WithSeason(s.Season).WithSeed(s.Seed)
	if s.Models != nil {
		if m, err := s.Models(spec); m != nil || err != nil {
			return m, err
		}
	}
	if s.models != nil {
		return s.models.of(spec)
	}
	return forecast.New(spec)
}

func (f *sized) Warm(arrivals []float64) { forecast.Train(f.model, arrivals) }

func (f *sized) Next(p capacity.Period) int {
	f.model.Observe(p.Arrived)
	load, ok := f.model.Predict(1)
	if !ok {
		load = p.Arrived // nothing better is known
	}
	return max(f.setting.pods(load), f.setting.clearing(p))
}

func (f *sized) Size() (bytes int, known bool) { return forecast.Size(f.model) }
