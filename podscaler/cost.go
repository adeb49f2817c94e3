package podscaler

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// costForms are the ways in which people write a cost target: 40 per 30m, 40/30m.
var costForms = regexp.MustCompile(`^(\d+(?:\.\d{1,6})?)(?: per |/)(\S+)$`)

// ParseCostTarget reads an amount with its period: 40 per 30m, or 40/30m. A bare amount is
// refused: 40 an hour and 40 in half an hour are two different clusters.
func ParseCostTarget(s string) (CostTarget, error) {
	const rule = "must be an amount with at most 6 decimals and its period, as in 40 per 30m or 40/30m"
	m := costForms.FindStringSubmatch(s)
	if m == nil {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return CostTarget{}, fmt.Errorf("needs its period, as in %s per 1h, was %q", s, s)
		}
		return CostTarget{}, fmt.Errorf("%s, was %q", rule, s)
	}
	target, err := pricing.ParseMicros(m[1])
	if err != nil || target == 0 {
		return CostTarget{}, fmt.Errorf("must have an amount above 0 and below 10¹² units, was %q", s)
	}
	per, err := time.ParseDuration(m[2])
	if err != nil || per <= 0 {
		return CostTarget{}, fmt.Errorf("must have a period above 0 such as 30m or 1h, was %q", s)
	}
	return CostTarget{Target: target, Per: per}, nil
}

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
