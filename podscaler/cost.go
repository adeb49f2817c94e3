package podscaler

import (
	"github.com/plimsoll/plimsoll/pricing"
)

// String prints the target as it is read: 40 per 30m.
func (t CostTarget) String() string { return t.Target.String() + " per " + pricing.Short(t.Per) }

// Current returns what c comes to over the target's period, counted and measured as the target
// says; it is not known if c is not.
func (t CostTarget) Current(c Cost) (cost pricing.Micros, known bool) {
	var rate pricing.Rate
	switch t.Count {
	case CountJoined:
		rate = c.Joined
	case CountOrdered:
		rate = c.Ordered
	default:
		rate = c.Predicted
	}
	if t.Measure == MeasureProjected {
		return c.Spent + rate.For(c.PeriodLeft), c.Known
	}
	return rate.For(t.Per), c.Known
}

// Basis says in words what Current counts and how it measures.
func (t CostTarget) Basis() string {
	var count string
	switch t.Count {
	case CountJoined:
		count = "joined machines"
	case CountOrdered:
		count = "joined and ordered machines"
	default:
		count = "joined, ordered and needed machines"
	}
	measure := "at the present rate"
	if t.Measure == MeasureProjected {
		measure = "spent so far and to come"
	}
	return count + ", " + measure
}
