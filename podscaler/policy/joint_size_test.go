package policy

import (
	"math"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Of a quantile of 0.9 a tenth of the requests may miss the objective.
func TestForecastsAreReadAtAHigherQuantileWhileTheErrorBudgetBurns(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  float64
		dear bool
		want float64
	}{
		{"nothing is missed", 0, false, 0.75},
		{"all that may be is", 0.1, false, 0.75},
		{"half as much again", 0.15, false, 1 - 0.25/1.5},
		{"twice as much", 0.2, false, 0.875},
		{"everything", 1, false, 0.875},
		{"everything, and the machines cost too much", 1, true, 0.75},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &joint{certainty: 0.75, budget: errorBudget{bad: c.bad, part: 0.1}}
			v := &podscaler.View{Workload: &podscaler.Workload{}}
			if c.dear {
				v.Workload.Cost = podscaler.CostTarget{Target: 40 * pricing.Unit, Per: time.Hour}
				rate := pricing.RateOf(50 * pricing.Unit)
				v.Cost = podscaler.Cost{Known: true, Joined: rate, Ordered: rate, Predicted: rate}
			}
			if got := p.quantile(v); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("reads forecasts at %v, should at %v", got, c.want)
			}
		})
	}
}
