package podscaler

import (
	"bytes"
	"fmt"
	"time"
)

// Duration is a time.Duration that is written in configuration as people say it: 10s, 15m.
type Duration time.Duration

// String prints the duration as it is written.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as it is printed.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration. A number without a unit is refused, because its reader would
// have to guess the unit.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil && bytes.ContainsAny(text, "dw") {
		return fmt.Errorf("must be a duration such as 30s or 5m, in ms, s, m or h, was %q", text)
	}
	if err != nil {
		return fmt.Errorf("must be a duration such as 30s or 5m, was %q", text)
	}
	*d = Duration(v)
	return nil
}
