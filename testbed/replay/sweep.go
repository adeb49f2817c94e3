package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Sweep plays a kind once for each value of its knob.
func Sweep(t *Trace, train int, k Kind, s Setting, values []float64) ([]Result, error) {
	if err := errors.Join(t.Validate(), t.splits(train)); err != nil {
		return nil, err
	}
	w, err := NewSweep(k, s, values, nil)
	if err != nil {
		return nil, err
	}
	if err := w.Warm(t.Counts[:train]); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	if err := w.Feed(t.Counts[train:]...); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	results := w.Results()
	for i := range results {
		results[i].Trace = t.Name
	}
	return results, nil
}

// LostAt is the requests that are lost at so many pod-minutes, on the straight line between the two
// results of a sweep that are nearest on either side. Beyond the sweep's ends it is not known.
func LostAt(sweep []Result, podMinutes float64) (lost float64, known bool) {
	points := byPods(sweep)
	for i, b := range points {
		have := float64(b.PodMinutes)
		if have < podMinutes {
			continue
		}
		if have == podMinutes {
			return b.Lost, true
		}
		if i == 0 {
			return 0, false
		}
		a := points[i-1]
		return between(podMinutes, float64(a.PodMinutes), have, a.Lost, b.Lost), true
	}
	return 0, false
}

// PodsAt is the fewest pod-minutes at which no more requests are lost, on the same lines. It is not
// known if even the sweep's most lose more, or its fewest lose fewer.
func PodsAt(sweep []Result, lost float64) (podMinutes float64, known bool) {
	points := byPods(sweep)
	for i, b := range points {
		if b.Lost > lost {
			continue
		}
		if b.Lost == lost {
			return float64(b.PodMinutes), true
		}
		if i == 0 {
			return 0, false
		}
		a := points[i-1]
		return between(lost, a.Lost, b.Lost, float64(a.PodMinutes), float64(b.PodMinutes)), true
	}
	return 0, false
}

// byPods sorts results by their pod-minutes, of those that have the same the one that loses least.
func byPods(sweep []Result) []Result {
	points := slices.Clone(sweep)
	slices.SortFunc(points, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.PodMinutes, b.PodMinutes), cmp.Compare(a.Lost, b.Lost))
	})
	return slices.CompactFunc(points, func(a, b Result) bool { return a.PodMinutes == b.PodMinutes })
}

// between is the y at x on the line through two points.
func between(x, x0, x1, y0, y1 float64) float64 { return y0 + (x-x0)*(y1-y0)/(x1-x0) }
