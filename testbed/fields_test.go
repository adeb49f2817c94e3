package testbed

import (
	"encoding"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

func TestFieldsAreReadAsTheyAreWritten(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		text string
		into encoding.TextUnmarshaler
		want any
	}{
		{"81s..99s", new(Range), &Range{81 * s, 99 * s}},
		{"3s", new(Range), &Range{3 * s, 3 * s}},
		{"1m30s..2m", new(Range), &Range{90 * s, 120 * s}},
		{"20%", new(Share), new(Share(0.2))},
		{"15%", new(Share), new(Share(0.15))},
		{"0.1%", new(Share), new(Share(0.001))},
		{"90th", new(Quantile), new(Quantile(0.9))},
		{"99.9th", new(Quantile), new(Quantile(0.999))},
		{"0s 30", new(Curve), &Curve{{Level: 30}}},
		{"0s 30, 10m 30, 10m 150,20m 0.5", new(Curve), &Curve{
			{Level: 30}, {At: 600 * s, Level: 30}, {At: 600 * s, Level: 150}, {At: 1200 * s, Level: 0.5},
		}},
	} {
		if err := c.into.UnmarshalText([]byte(c.text)); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if diff := cmp.Diff(c.want, c.into); diff != "" {
			t.Errorf("%s: %s", c.text, diff)
		}
		text := must.Get(c.into.(encoding.TextMarshaler).MarshalText())(t)
		again := cloneZero(c.into)
		if err := again.UnmarshalText(text); err != nil || !cmp.Equal(c.into, again) {
			t.Errorf("%s is written as %s, which is read as %v, %v", c.text, text, again, err)
		}
	}
}

// cloneZero returns a new field of the same type.
func cloneZero(f encoding.TextUnmarshaler) encoding.TextUnmarshaler {
	switch f.(type) {
	case *Range:
		return new(Range)
	case *Share:
		return new(Share)
	case *Quantile:
		return new(Quantile)
	}
	return new(Curve)
}

func TestFieldsRefuseWhatCouldBeMeantOtherwise(t *testing.T) {
	for _, c := range []struct {
		into  encoding.TextUnmarshaler
		texts []string
	}{
		{new(Range), []string{"", "3", "3s..", "..3s", "9s..3s", "1s..2s..3s", "1s - 2s"}},
		{new(Share), []string{"", "20", "0.2", "%", "x%", "NaN%", "1e2%%"}},
		{new(Curve), []string{"", "30", "0s", "0s x", "5 30", "0s 30 40", "0s 30,", "5m 1, 0s 1", "0s -1", "-1s 1", "0s NaN", "0s Inf"}},
	} {
		for _, text := range c.texts {
			if err := c.into.UnmarshalText([]byte(text)); err == nil {
				t.Errorf("%T takes %q for %v", c.into, text, c.into)
			}
		}
	}
}

// A step of a curve is two points at one time, which the simulator reads as a jump.
func TestStepsOfACurveJump(t *testing.T) {
	var c Curve
	must.Do(t, c.UnmarshalText([]byte("0s 30, 10m 30, 10m 150")))
	if before, after := sim.Curve(c).At(10*time.Minute-1), sim.Curve(c).At(10*time.Minute); before != 30 || after != 150 {
		t.Errorf("it goes from %g to %g, want from 30 to 150", before, after)
	}
}
