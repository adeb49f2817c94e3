package replay

import "github.com/plimsoll/plimsoll/podscaler/capacity"

func init() {
	register(Kind{
		Name: "oracle", Title: "knows the next minute's requests, and sets the pods that serve them at the excess",
		Knob: Excess, New: newOracle,
	})
}

// oracle is what no one can better at the same excess, and no one can be.
type oracle struct {
	setting Setting
	next    float64
}

func newOracle(s Setting) (Scaler, error) { return &oracle{setting: s}, nil }

func (o *oracle) Foresee(arrivals float64) { o.next = arrivals }

func (o *oracle) Next(capacity.Period) int { return o.setting.pods(o.next) }
