package pricing_test

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

func TestAmountsAreShownWithTheirUnitAndEnoughDecimals(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{pricing.Micros(1_200_000).Display("EUR"), "€1.20"},
		{pricing.Micros(-40_000).Display("EUR"), "−€0.040"},
		{pricing.Micros(3_500_000).Display("units"), "3.50 units"},
		{pricing.Micros(0).Display("USD"), "$0.00"},
		{pricing.Micros(1).Display("GBP"), "£0.0000010"},
		{pricing.Rate(31_000_000).Display("EUR"), "€0.031/h"},
		{pricing.Rate(-2_500_000_000).Display("units"), "−2.500 units/h"},
		{pricing.Rate(1).Display("EUR"), "€0.000000001/h"},
		{pricing.Rate(31_000_000).PerMonth().Display("EUR"), "€22.63"},
	} {
		if c.got != c.want {
			t.Errorf("shown as %q, want %q", c.got, c.want)
		}
	}
}

func TestDurationsPrintWithoutZerosAtTheirEnd(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * time.Minute: "30m", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Second: "10s",
		time.Hour + 10*time.Second: "1h0m10s", 20 * time.Minute: "20m", 10 * time.Hour: "10h", 0: "0s",
	} {
		if got := pricing.Short(d); got != want {
			t.Errorf("%s prints as %s, want %s", d, got, want)
		}
	}
}
