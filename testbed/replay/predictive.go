package replay

import (
	"math"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/policy"
)

func init() {
	register(Kind{
		Name: "predictive", Title: "is the policy Predictive a period ahead, with the arrivals of the moment as a floor and an HPA's five minutes before it shrinks",
		Knob: Excess, New: func(s Setting) (Scaler, error) { return predictiveBy(policy.Predictive{Excess: &s.Excess}).New(s) },
	})
}

// predictiveBy is the policy Predictive a period ahead, by settings that say the rest.
func predictiveBy(c policy.Predictive) Kind {
	return Kind{Name: "predictive", Knob: Excess, New: adapted(func(s Setting) policy.Spec {
		c := c
		c.Horizon, c.Profile = 1, policy.PredictiveProfile{Table: tableOf(s.Profile, s.Max)}
		return policy.Spec{Policy: "Predictive", Predictive: &c}
	})}
}

// tableOf is what up to so many pods serve, in the form of a policy's setting: a row for each
// number of pods from which on another serves more or less than the one before.
func tableOf(p capacity.Profile, most int) []policy.ProfilePoint {
	rows := []policy.ProfilePoint{{Pods: 1, Total: p.Total(1)}}
	for pods, gain := 2, math.NaN(); pods <= max(most, 2); pods++ {
		last := rows[len(rows)-1]
		row := policy.ProfilePoint{Pods: pods, Total: p.Total(float64(pods))}
		if row.Total <= last.Total {
			break // a table rises; beyond the peak no pods help
		}
		more := p.Total(float64(pods)) - p.Total(float64(pods-1))
		if math.Abs(more-gain) <= 1e-9*row.Total {
			rows[len(rows)-1] = row
			continue
		}
		rows, gain = append(rows, row), more
	}
	return rows
}
