package signals

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// histogram is counts, or rates, of requests at or below rising edges. Its last edge is +Inf.
type histogram struct {
	edges []float64
	below []float64
}

// newHistogram sorts cumulative counts by their edges, and makes them rise where they were
// counted at slightly different times. It is nil unless there is an edge at +Inf and another.
func newHistogram(below map[float64]float64) *histogram {
	h := &histogram{}
	for edge := range below {
		if !math.IsNaN(edge) {
			h.edges = append(h.edges, edge)
		}
	}
	slices.SortFunc(h.edges, cmp.Compare[float64])
	if n := len(h.edges); n < 2 || !math.IsInf(h.edges[n-1], 1) {
		return nil
	}
	least := 0.0
	for _, edge := range h.edges {
		least = max(least, below[edge])
		h.below = append(h.below, least)
	}
	return h
}

func (h *histogram) total() float64 { return h.below[len(h.below)-1] }

// bucket is the index of the bucket that a rank falls into.
func (h *histogram) bucket(rank float64) int {
	i, _ := slices.BinarySearch(h.below[:len(h.below)-1], rank)
	return i
}

// quantile is what histogram_quantile answers: a straight line within the bucket that the rank
// falls into, and the highest edge for what lies beyond it. It is NaN without counts.
func (h *histogram) quantile(q float64) float64 {
	if !(h.total() > 0) {
		return math.NaN()
	}
	rank := q * h.total()
	i := h.bucket(rank)
	switch {
	case i == len(h.edges)-1:
		return h.edges[i-1]
	case i == 0 && h.edges[0] <= 0:
		return h.edges[0]
	case i == 0:
		return h.edges[0] * rank / h.below[0]
	}
	low, high, inside := h.edges[i-1], h.edges[i], h.below[i]-h.below[i-1]
	return low + (high-low)*(rank-h.below[i-1])/inside
}

// good is the fraction of requests that were surely within the target: those up to the highest
// edge that is not above it. It is exact when that edge is the target, and says nothing without
// such an edge.
func (h *histogram) good(target float64) float64 {
	if !(h.total() > 0) {
		return math.NaN()
	}
	_, within := h.upTo(target)
	return within / h.total()
}

// upTo is the highest edge that is not above the target, and what is counted up to it; 0 without
// one.
func (h *histogram) upTo(target float64) (edge, below float64) {
	for i, e := range h.edges {
		if !above(e, target) {
			edge, below = e, h.below[i]
		}
	}
	return edge, below
}

// above compares an edge with a target, both of which may have been rounded on their way here.
func above(edge, target float64) bool { return edge > target*(1+1e-9) }

func at(edge, target float64) bool { return !above(edge, target) && !above(target, edge) }

// noEdge says between which edges the target lies, how much the quantile may be off for that, and
// what becomes of the good fraction; it is empty if an edge is at the target.
func (h *histogram) noEdge(q, target float64, unit time.Duration) string {
	i := slices.IndexFunc(h.edges, func(edge float64) bool { return !above(target, edge) })
	if i < 0 || at(h.edges[i], target) {
		return ""
	}
	lower, _ := h.upTo(target)
	text := fmt.Sprintf("no bucket edge is at the target %s (the next are %s and %s): good and the error budget count what took up to %s only",
		span(target, unit), span(lower, unit), span(h.edges[i], unit), span(lower, unit))
	if lower <= 0 {
		text = fmt.Sprintf("no bucket edge is at or below the target %s (the first is %s), so good is unknown: add an edge there, or move the target to one",
			span(target, unit), span(h.edges[i], unit))
	}
	if h.total() > 0 {
		text += "; " + h.doubt(q, unit)
	}
	return text
}

// doubt says where the quantile surely lies.
func (h *histogram) doubt(q float64, unit time.Duration) string {
	i, name := h.bucket(q*h.total()), "the p"+decimal(100*q)
	lower := 0.0
	if i > 0 {
		lower = h.edges[i-1]
	}
	if math.IsInf(h.edges[i], 1) {
		return fmt.Sprintf("%s lies above the highest edge, is read as %s, and may be any longer", name, span(lower, unit))
	}
	return fmt.Sprintf("%s lies between %s and %s, and what is read may be up to %s off",
		name, span(lower, unit), span(h.edges[i], unit), span(h.edges[i]-lower, unit))
}

// span prints a number of units as a time.
func span(v float64, unit time.Duration) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return time.Duration(math.Round(v * float64(unit))).String()
}

// decimal prints a number as short as it can be read back, but for what rounding left behind.
func decimal(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e9)/1e9, 'f', -1, 64)
}
