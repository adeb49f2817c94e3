package testbed

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Range is a duration between two bounds: 81s..99s, or 3s for exactly that.
type Range timing.Range

// UnmarshalText reads one duration, or two with .. between them.
func (r *Range) UnmarshalText(text []byte) error {
	from, to, two := strings.Cut(string(text), "..")
	if !two {
		to = from
	}
	lo, errLo := time.ParseDuration(from)
	hi, errHi := time.ParseDuration(to)
	if errLo != nil || errHi != nil {
		return fmt.Errorf("must be a duration like 3s or a range of them like 81s..99s, was %q", text)
	}
	if hi < lo {
		return fmt.Errorf("must not end before it starts, was %q", text)
	}
	*r = Range{lo, hi}
	return nil
}

// MarshalText writes the range as it is read.
func (r Range) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String prints the range as it is read.
func (r Range) String() string {
	if r.Min == r.Max {
		return pricing.Short(r.Min)
	}
	return pricing.Short(r.Min) + ".." + pricing.Short(r.Max)
}

// Share is a part of something: 20%.
type Share float64

// UnmarshalText reads percent.
func (s *Share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	// The exponent shifts the point in the text: 15/100 is not always the float nearest .15.
	v, err := strconv.ParseFloat(number+"e-2", 64)
	if !percent || err != nil {
		return fmt.Errorf("must be a percentage like 20%%, was %q", text)
	}
	*s = Share(v)
	return nil
}

// MarshalText writes percent.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String prints percent.
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', 6, 64) + "%" }

// Quantile is a quantile as people write it: 90th, p99, 0.95.
type Quantile float64

// UnmarshalText reads a quantile.
func (q *Quantile) UnmarshalText(text []byte) error {
	v, err := podscaler.ParseQuantile(string(text))
	*q = Quantile(v)
	return err
}

// MarshalText writes the quantile as it is read.
func (q Quantile) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// String prints the quantile as a percentile: 90th.
func (q Quantile) String() string { return strconv.FormatFloat(float64(q)*100, 'g', 6, 64) + "th" }

// Curve is a level over time, as points joined by straight lines: 0s 30, 10m 30, 10m 150. Two
// points at one time make a step.
type Curve sim.Curve

// UnmarshalText reads points of a time and a level each.
func (c *Curve) UnmarshalText(text []byte) error {
	var out Curve
	for i, point := range strings.Split(string(text), ",") {
		at, level, ok := parsePoint(point)
		if !ok {
			return fmt.Errorf("must be points of a time and a level from 0 up like 0s 30, 10m 150; point %d was %q", i+1, strings.TrimSpace(point))
		}
		if i > 0 && at < out[i-1].At {
			return fmt.Errorf("must have its points in order of time; point %d was %q", i+1, strings.TrimSpace(point))
		}
		out = append(out, sim.Point{At: at, Level: level})
	}
	*c = out
	return nil
}

func parsePoint(s string) (at time.Duration, level float64, ok bool) {
	fields := strings.Fields(s)
	if len(fields) != 2 {
		return 0, 0, false
	}
	at, errAt := time.ParseDuration(fields[0])
	level, errLevel := strconv.ParseFloat(fields[1], 64)
	return at, level, errAt == nil && errLevel == nil && at >= 0 && level >= 0 && !math.IsInf(level, 1)
}

// MarshalText writes the curve as it is read.
func (c Curve) MarshalText() ([]byte, error) {
	points := make([]string, len(c))
	for i, p := range c {
		points[i] = pricing.Short(p.At) + " " + strconv.FormatFloat(p.Level, 'g', -1, 64)
	}
	return []byte(strings.Join(points, ", ")), nil
}
