package policy

import (
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Predict is what the machines would cost that pending and coming replicas still need: what
// unneeded would order now, beside what is there and on its way. A new policy for each
// question has no memory that could keep it from ordering.
func Predict(x *nodescaler.Index) pricing.Rate {
	p, err := New(Spec{Policy: "unneeded"})
	if err != nil {
		panic(err) // its defaults are valid
	}
	sum := pricing.Rate(0)
	for _, a := range p.Decide(x).Actions {
		if a.Kind == nodescaler.Buy {
			sum += a.Rate
		}
	}
	return sum
}
