package replay

import (
	"fmt"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// Elascale (Khazaei et al., 2017) is the threshold rule that most of the early scalers have. When
// its score is at the upper bound or above it a replica is added, and below the lower bound one is
// taken away. Between the two nothing happens. The idea is that one replica hurts no one.
//
// The score is a weighted sum of the use of CPU, memory and network. In this world pods have one
// use, the part of their capacity that is taken, so all three weights are its. The bounds are left
// to the operator. Here the upper one is the excess, for that is the use that must not be
// surpassed, and the band below it is as wide as the HPA's: twice the tolerance, of the excess.
//
// It needs no profile and no past. Where what changes is mostly the noise of counts it does well,
// for it does not follow. It loses where the load itself changes by more than a pod a minute. And
// where a pod more or less moves the use by more than the band is wide, below five pods or so, it
// goes up and down for ever.

func init() {
	register(Kind{
		Name: "elascale", Title: "adds a pod where use is at the excess, and takes one away where it is well below (Elascale)",
		Knob: Excess, New: newElascale,
	})
}

type elascale struct{ upper, lower float64 }

func newElascale(s Setting) (Scaler, error) {
	if s.Excess > 1 {
		return nil, fmt.Errorf("excess: must be up to 1 for who goes by use, which is never more, was %v", s.Excess)
	}
	return &elascale{upper: s.Excess, lower: s.Excess * (1 - 2*s.Tolerance)}, nil
}

func (e *elascale) Next(p capacity.Period) int {
	switch {
	case p.Use >= e.upper-slack:
		return p.Pods + 1
	case p.Use < e.lower-slack:
		return p.Pods - 1
	}
	return p.Pods
}

// slack keeps a sum of rounded numbers from being on the wrong side of a bound.
const slack = 1e-9
