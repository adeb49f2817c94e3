package podscaler_test

import (
	"testing"

	"github.com/plimsoll/plimsoll/podscaler"
)

func TestTheDecisiveReasonIsAGuardsLastOrThePolicysFirst(t *testing.T) {
	for _, c := range []struct {
		codes []string
		want  string
	}{
		{nil, ""},
		{[]string{podscaler.ReasonSizedForLoad, podscaler.ReasonMarginalPrice, podscaler.ReasonDesiredWithinRange}, podscaler.ReasonSizedForLoad},
		{[]string{podscaler.ReasonPaidPlacesFilled, podscaler.ReasonSizedForLoad, podscaler.ReasonScaleDownStabilized, podscaler.ReasonMarginalPrice, podscaler.ReasonDesiredWithinRange}, podscaler.ReasonPaidPlacesFilled},
		{[]string{podscaler.ReasonValidMetricFound, podscaler.ReasonScaleUpLimit, podscaler.ReasonScaleDownStabilized}, podscaler.ReasonScaleDownStabilized},
		{[]string{podscaler.ReasonSizedForLoad, podscaler.ReasonMarginalPrice, podscaler.ReasonScaleUpLimit}, podscaler.ReasonScaleUpLimit},
		{[]string{podscaler.ReasonValidMetricFound, podscaler.ReasonDesiredWithinRange}, podscaler.ReasonValidMetricFound},
	} {
		var all []podscaler.Reason
		for _, code := range c.codes {
			all = append(all, podscaler.Because(code, "%s", code))
		}
		if got := podscaler.Decisive(all); got.Code != c.want || got.Text != c.want {
			t.Errorf("of %v it is %s, want %s", c.codes, got, c.want)
		}
	}
}
