package figure

import (
	"math"
	"slices"
)

// Chart is what is to be drawn: series of points over two axes.
type Chart struct {
	// ID makes the names within the drawing unique among the drawings of one page.
	ID string
	// Title is above the chart; Desc says in a sentence what is to be seen, for those who
	// cannot see it.
	Title, Desc string
	X, Y        Axis
	Series      []Series
	// Scatter draws points without lines, over just the values that there are; lines are drawn
	// from 0 up, as what they show is to be compared by height.
	Scatter bool
	// Span draws lines over just the values that there are, as a scatter is.
	Span bool
	// Steps lets every value last until the next, in place of a straight line between them.
	Steps bool
	// Plain draws thin lines without markers or dashes, where there are so many points that these
	// would hide them. What is to be distinguished by more than colour is an area.
	Plain bool
}

// Axis is one of a chart's two axes.
type Axis struct {
	Title string
	Unit  string
	// At are the values to be marked; empty marks round numbers.
	At []float64
	// Lines are values that are marked right across the chart, such as a target.
	Lines []Line
}

// Line is a value that matters in itself.
type Line struct {
	At    float64
	Label string
	// Limit is one that values should stay below.
	Limit bool
}

// Series is a named run of points, in order of X.
type Series struct {
	Name   string
	Points []Point
	// Guide is a line that guides the eye: it has no markers and is in no legend.
	Guide bool
	// Area fills what is below the points in place of a line through them.
	Area bool
	// Kin gives a series the colour of the one that is there, counted from 1, such as of the same
	// policy elsewhere. Lines and markers stay its own.
	Kin int
	// Unmarked is a line whose points have no markers, and Dots are markers without a line, such as
	// the events on one.
	Unmarked, Dots bool
}

// Point is one value, with the interval that it is uncertain in. Without one, Low and High
// are Y.
type Point struct{ X, Y, Low, High float64 }

// span is the values that an axis shows, and the round step that divides them.
type span struct{ lo, hi, step float64 }

// reach returns the values from 0, or from a little below the smallest, to a little beyond the
// largest, from tick to tick.
func reach(values []float64, fromZero bool) span {
	if len(values) == 0 {
		return span{0, 1, 0.2}
	}
	lo, hi := slices.Min(values), slices.Max(values)
	if fromZero {
		lo = min(lo, 0)
	}
	if hi == lo {
		lo, hi = min(lo, 0), max(hi, lo+1)
	}
	step := tickStep(hi - lo)
	if !fromZero { // so that no point lies on an axis
		lo, hi = max(lo-step/2, min(lo, 0)), hi+step/2
	}
	return span{math.Floor(lo/step+1e-9) * step, math.Ceil(hi/step-1e-9) * step, step}
}

// tickStep is the round number whose multiples divide a length into at most eight parts.
func tickStep(length float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(length)))
	for _, f := range []float64{0.2, 0.25, 0.5, 1} {
		if length/(f*unit) <= 8 {
			return f * unit
		}
	}
	return 2 * unit
}

// ticks are the values that an axis marks.
func (a *Axis) ticks(s span) []float64 {
	if len(a.At) > 0 {
		return a.At
	}
	var out []float64
	for i := 0; s.lo+float64(i)*s.step <= s.hi+s.step*1e-9; i++ {
		out = append(out, s.lo+float64(i)*s.step)
	}
	return out
}

// drawn are the points of a series that have a place on paper: an unknown value has none.
func (s *Series) drawn() []Point {
	return slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
		sum := p.X + p.Y + p.Low + p.High
		return math.IsNaN(sum) || math.IsInf(sum, 0)
	})
}

// At returns the point at x, if there is one that is known. Of steps it is the last up to there.
func (s *Series) At(x float64, steps bool) (Point, bool) {
	points := s.drawn()
	for i := len(points) - 1; i >= 0; i-- {
		if p := points[i]; p.X == x || steps && p.X < x {
			return p, true
		}
	}
	return Point{}, false
}

// spans returns the values that the axes show.
func (c *Chart) spans() (x, y span) {
	var xs, ys []float64
	for i := range c.Series {
		for _, p := range c.Series[i].drawn() {
			xs, ys = append(xs, p.X), append(ys, p.Y, p.High)
		}
	}
	for _, l := range c.X.Lines {
		xs = append(xs, l.At)
	}
	for _, l := range c.Y.Lines {
		ys = append(ys, l.At)
	}
	return reach(xs, !c.Scatter && !c.Span), reach(ys, !c.Scatter && !c.Span)
}
