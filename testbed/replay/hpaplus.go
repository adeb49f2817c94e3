package replay

import (
	"cmp"
	"errors"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

func init() {
	register(Kind{
		Name: "hpa-plus", Title: "sizes on the forecast that was best over the last five minutes, and is the HPA where none was good (Eq. 15)",
		Knob: Excess, New: newHPAPlus,
	})
}

// hpaPlus is the paper's engine. It needs a profile, and days to train its entrants. It loses to
// the luckiest of five minutes, and where there are so few requests that no forecast is near.
type hpaPlus struct {
	race     *forecast.Race
	setting  Setting
	fallback *hpa
	leader   string
	why      string
}

// fallbackName is who leads where no one is believed.
const fallbackName = "hpa"

func newHPAPlus(s Setting) (Scaler, error) {
	race, err := newRace(s)
	back, backErr := hpaOf(s)
	return &hpaPlus{race: race, setting: s, fallback: back}, errors.Join(err, backErr)
}

// contestants are the entrants of a race that names none: different ideas that cost microseconds a
// minute, and need no training to speak of.
var contestants = []forecast.Spec{{Type: "AR"}, {Type: "HoltWinters"}, {Type: "Last"}}

func newRace(s Setting) (*forecast.Race, error) {
	specs := s.Race.Entrants
	if len(specs) == 0 {
		specs = contestants
	}
	entrants := make([]forecast.Entrant, 0, len(specs))
	for _, spec := range specs {
		m, err := newModel(spec, s)
		if err != nil {
			return nil, err
		}
		entrants = append(entrants, forecast.Entrant{Name: cmp.Or(spec.Name, spec.Type), Model: m})
	}
	return forecast.NewRace(entrants, s.Race)
}

func (h *hpaPlus) Warm(arrivals []float64) { h.race.Train(arrivals) }

func (h *hpaPlus) Next(p capacity.Period) int {
	h.race.Observe(p.Arrived)
	// The HPA is asked in any case, for it counts the minutes since pods became fewer.
	byUse := h.fallback.Next(p)
	v := h.race.Verdict()
	h.leader, h.why = v.Leader, v.Message
	if load, ok := h.race.Predict(1); ok {
		return h.setting.pods(load)
	}
	h.leader = fallbackName
	return byUse
}

func (h *hpaPlus) Active() (leader, why string) { return h.leader, h.why }

func (h *hpaPlus) Size() (bytes int, known bool) { return forecast.Size(h.race) }
