package rightsize

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Resource is what a container requests.
type Resource string

// The resources.
const (
	CPU    Resource = "cpu"
	Memory Resource = "memory"
)

var both = []Resource{CPU, Memory}

// of returns the amount of a resource in its own unit, millicores or bytes.
func (r Resource) of(all pricing.Resources) int64 {
	if r == CPU {
		return int64(all.CPU)
	}
	return int64(all.Memory)
}

func (r Resource) set(all *pricing.Resources, amount int64) {
	if r == CPU {
		all.CPU = pricing.MilliCPU(amount)
	} else {
		all.Memory = pricing.Bytes(amount)
	}
}

// text prints an amount as manifests have it.
func (r Resource) text(amount int64) string {
	if r == CPU {
		return pricing.MilliCPU(amount).String()
	}
	return fmt.Sprintf("%.0fMi", float64(amount)/float64(pricing.MiB))
}

// Settings are how requests follow from use.
type Settings struct {
	// Target is the percentile of use that is recommended; Lower and Upper are those of the
	// bounds outside of which a pod is resized at once.
	Target, Lower, Upper float64
	// Margin is what is put on top of each, as a part of it.
	Margin float64
	// Floor is the least that a pod is recommended, shared out evenly over its containers.
	Floor pricing.Resources
	// HalfLife is the time in which a sample loses half its weight.
	HalfLife time.Duration
	// PeakInterval is the time of which the highest memory use is one sample; what has not been
	// seen for PeakIntervals of them is forgotten.
	PeakInterval  time.Duration
	PeakIntervals int
	// A container that is killed for memory counts as one that used OOMRatio times as much as it
	// had, and at least OOMStep more.
	OOMRatio float64
	OOMStep  pricing.Bytes
}

// Defaults returns the settings that the recommender of the Vertical Pod Autoscaler has by default.
func Defaults() Settings {
	const day = 24 * time.Hour
	return Settings{
		Target: 0.9, Lower: 0.5, Upper: 0.95, Margin: 0.15,
		Floor:    pricing.Resources{CPU: 25, Memory: 250 * pricing.MiB},
		HalfLife: day, PeakInterval: day, PeakIntervals: 8,
		OOMRatio: 1.2, OOMStep: 100 * pricing.MiB,
	}
}

// Validate names the settings that mean nothing.
func (s *Settings) Validate() error {
	return errors.Join(
		refuse(s.Lower > 0 && s.Lower <= 1, "lower", "must be greater than 0 and at most 1", s.Lower),
		refuse(s.Target >= s.Lower && s.Target <= 1, "target", "must be at least lower and at most 1", s.Target),
		refuse(s.Upper >= s.Target && s.Upper <= 1, "upper", "must be at least target and at most 1", s.Upper),
		refuse(s.Margin >= 0 && s.Margin <= 10, "margin", "must be between 0 and 10", s.Margin),
		refuse(s.Floor.CPU >= 0 && s.Floor.CPU <= most, "floor.cpu", "must be ≥ 0 and at most 1e14", int64(s.Floor.CPU)),
		refuse(s.Floor.Memory >= 0 && s.Floor.Memory <= most, "floor.memory", "must be ≥ 0 and at most 1e14", int64(s.Floor.Memory)),
		refuse(s.HalfLife >= time.Second && s.HalfLife <= year, "halfLife", "must be between 1s and a year", s.HalfLife),
		refuse(s.PeakInterval >= time.Second && s.PeakInterval <= year, "peakInterval", "must be between 1s and a year", s.PeakInterval),
		refuse(s.PeakIntervals > 0 && s.PeakIntervals <= 100, "peakIntervals", "must be between 1 and 100", s.PeakIntervals),
		refuse(s.OOMRatio >= 1 && s.OOMRatio <= 100, "oomRatio", "must be between 1 and 100", s.OOMRatio),
		refuse(s.OOMStep >= 0 && s.OOMStep <= most, "oomStep", "must be ≥ 0 and at most 1e14", int64(s.OOMStep)),
	)
}

// year is less than the 292 years that a duration holds by 100, the half-lives of maxAge.
const year = 365 * 24 * time.Hour

func refuse(fine bool, key, rule string, was any) error {
	if fine {
		return nil
	}
	return fmt.Errorf("%s: %s, was %v", key, rule, was)
}

// Policy is what is allowed for a container.
type Policy struct {
	// Container is its name; * means all that have no policy of their own.
	Container string
	// Off leaves the container alone. Then it does not share in the floor, either.
	Off bool
	// Controls are the resources that are recommended; none means both.
	Controls []Resource
	// Min and Max bound what is recommended; 0 is no bound.
	Min, Max pricing.Resources
}

// Policies are what is allowed for the containers of a workload.
type Policies []Policy

// Validate names the policies that mean nothing.
func (p Policies) Validate() error {
	var faults []error
	seen := make(map[string]bool)
	for i := range p {
		key := fmt.Sprintf("containers[%s]", p[i].Container)
		faults = append(faults,
			refuse(p[i].Container != "", fmt.Sprintf("containers[%d].name", i), "must be a container's name or *", `""`),
			refuse(!seen[p[i].Container], key, "must be there once", "twice"))
		seen[p[i].Container] = true
		for _, r := range p[i].Controls {
			faults = append(faults, refuse(slices.Contains(both, r), key+".controls", "must be cpu or memory", fmt.Sprintf("%q", r)))
		}
		for _, r := range both {
			low, high := r.of(p[i].Min), r.of(p[i].Max)
			faults = append(faults,
				refuse(low >= 0, key+".min."+string(r), "must be ≥ 0", low),
				refuse(high >= 0, key+".max."+string(r), "must be ≥ 0", high),
				refuse(high == 0 || high >= low, key+".max."+string(r), "must be at least min, "+r.text(low), r.text(high)))
		}
	}
	return errors.Join(faults...)
}

// of returns the policy of a container.
func (p Policies) of(container string) Policy {
	for _, name := range []string{container, "*"} {
		if i := slices.IndexFunc(p, func(q Policy) bool { return q.Container == name }); i >= 0 {
			return p[i]
		}
	}
	return Policy{}
}

func (p *Policy) controls(r Resource) bool {
	return len(p.Controls) == 0 || slices.Contains(p.Controls, r)
}

// most is the largest amount of anything, in millicores or bytes: what a bound is that history does
// not support yet. Amounts up to it are exact as floating point.
const most = 1e14

// amount rounds down to whole units. What is not a number, infinity of nothing, becomes 0.
func amount(v float64) int64 {
	switch {
	case v > most:
		return most
	case v > 0:
		return int64(v)
	default:
		return 0
	}
}

func scaled(a int64, by float64) int64 { return amount(float64(a) * by) }

// days prints a length of time, in days with as many decimals as matter.
func days(d float64) string {
	if d >= 10 {
		return fmt.Sprintf("%.0f days", math.Floor(d))
	}
	return fmt.Sprintf("%.2g days", d)
}
