package testbed

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Trace is a recorded load: so many requests in every minute. They come by themselves, however
// long answers take.
type Trace struct {
	File   string        // where it was read from; its scenario has the file's name
	Curve  sim.Curve     // requests a second
	From   time.Duration // into the recording
	Length time.Duration // 0 is all that is left of it
	// Peak is how many requests a second the busiest minute is to have; 0 leaves it as recorded.
	Peak float64
}

// scenario is the trace as a load, beside others.
func (t *Trace) scenario(f *Faults, others []Scenario) Scenario {
	end := t.Curve[len(t.Curve)-1].At
	f.Must(t.From < end, "trace-from", fmt.Sprintf("must be before the end of %s, which is at %s", t.File, pricing.Short(end)), t.From)
	length := t.Length
	if length == 0 {
		length = end - t.From
	}
	f.Must(t.From+length <= end, "trace-length", fmt.Sprintf("must not go beyond the end of %s, which is at %s", t.File, pricing.Short(end)), t.Length)
	curve := t.Curve.From(min(t.From, end)).Until(length)
	if t.Peak > 0 {
		f.Must(curve.Max() > 0, "trace-peak", "must be omitted where nothing was recorded", t.Peak)
		curve = curve.Scaled(t.Peak / max(curve.Max(), 1e-9))
	}
	f.Must(curve.Max() <= sim.MaxLevel, "trace", mostUsers+" requests a second", curve.Max())
	name := strings.TrimSuffix(filepath.Base(t.File), filepath.Ext(t.File))
	taken := slices.ContainsFunc(others, func(s Scenario) bool { return s.Name == name })
	f.Must(!taken, "trace", "must be a file whose name is not a scenario's, too", t.File)
	return Scenario{Name: name, Curve: Curve(curve), Duration: length, Kind: sim.Open}
}
