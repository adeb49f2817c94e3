package podscaler_test

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestScenario25QuantilesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]float64{
		"99th": .99, "90th": .90, "99.9th": .999, "p95": .95, "0.95": .95,
		"p99.9": .999, "92nd": .92, "93rd": .93, "51st": .51, "p50": .5, "0.999": .999,
	} {
		if got, err := podscaler.ParseQuantile(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), should be %v", text, got, err, want)
		}
	}
	const form = "must be a quantile written as 99th, 99.9th, p95 or 0.95"
	const limits = "must be a quantile above 0th and below 100th"
	for text, rule := range map[string]string{
		"100th": limits, "0th": limits, "p100": limits, "p0": limits, "0.0": limits, "999th": limits,
		"abc": form, "1": form, "99": form, "": form, "95%": form, ".95": form, "P95": form, "1.5": form, "p": form, "-5th": form, "99th ": form,
	} {
		_, err := podscaler.ParseQuantile(text)
		if want := rule + `, was "` + text + `"`; err == nil || err.Error() != want {
			t.Errorf("%q: %v, should be refused with %s", text, err, want)
		}
	}
}

func TestCurrentCostIsCountedAndMeasuredAsTheTargetSays(t *testing.T) {
	hourly := func(units int) pricing.Rate { return pricing.RateOf(pricing.Micros(units) * pricing.Unit) }
	cost := podscaler.Cost{
		Known:  true,
		Joined: hourly(20), Ordered: hourly(40), Predicted: hourly(50),
		Spent: 6 * pricing.Unit, PeriodLeft: 6 * time.Minute,
	}
	for _, c := range []struct {
		count   podscaler.CostCount
		measure podscaler.CostMeasure
		want    string
	}{
		{podscaler.CountJoined, podscaler.MeasureRate, "10"},
		{podscaler.CountOrdered, podscaler.MeasureRate, "20"},
		{podscaler.CountPredicted, podscaler.MeasureRate, "25"},
		{"", "", "25"},
		{podscaler.CountJoined, podscaler.MeasureProjected, "8"},
		{podscaler.CountPredicted, podscaler.MeasureProjected, "11"},
	} {
		target := podscaler.CostTarget{Target: 40 * pricing.Unit, Per: 30 * time.Minute, Count: c.count, Measure: c.measure}
		if got, known := target.Current(cost); !known || got.String() != c.want {
			t.Errorf("%s: %s (known %v), should be %s", target.Basis(), got, known, c.want)
		}
	}
	if _, known := (podscaler.CostTarget{Per: time.Hour}).Current(podscaler.Cost{Joined: 1}); known {
		t.Error("an unknown cost is taken for known")
	}
}

func FuzzParseQuantile(f *testing.F) {
	for _, s := range []string{"99th", "p95", "0.95", "1", "100th"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if q, err := podscaler.ParseQuantile(s); err == nil && (q <= 0 || q >= 1) {
			t.Errorf("%q is read as %v", s, q)
		}
	})
}
