package podscaler

import (
	"fmt"
	"regexp"
	"strconv"
)

// quantileForms are the ways in which people write a quantile: p95, 99.9th, 0.95.
var quantileForms = regexp.MustCompile(`^(?:p(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)(?:st|nd|rd|th)|(0\.\d+))$`)

// ParseQuantile reads a quantile as people write it: 99th, 99.9th, p95, 0.95. A bare 1 or 99 is
// refused, because it could be meant in percent or not, and so are 0 and 100 %, which no
// latency objective can hold.
func ParseQuantile(s string) (float64, error) {
	m := quantileForms.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("must be a quantile written as 99th, 99.9th, p95 or 0.95, was %q", s)
	}
	// The exponent shifts the point in the text: 99.9/100 would not be the float nearest .999.
	digits := m[3]
	if percent := m[1] + m[2]; percent != "" {
		digits = percent + "e-2"
	}
	q, err := strconv.ParseFloat(digits, 64)
	if err != nil || q <= 0 || q >= 1 {
		return 0, fmt.Errorf("must be a quantile above 0th and below 100th, was %q", s)
	}
	return q, nil
}
