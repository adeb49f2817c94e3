package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/figure"
)

// mostRows is how long a table beside a figure may be.
const mostRows = 60

// tabulate puts what a chart shows into a table.
func tabulate(c *figure.Chart) testbed.Table {
	if c.Scatter || c.Span {
		return scattered(c)
	}
	t := testbed.Table{Caption: c.Title + ": " + c.Y.Caption(), Head: []string{c.X.Caption()}, Left: 1}
	var lines []*figure.Series
	var xs []float64
	for i := range c.Series {
		if s := &c.Series[i]; !s.Guide && !s.Dots {
			lines = append(lines, s)
			t.Head = append(t.Head, s.Name)
			for _, p := range s.Points {
				xs = append(xs, p.X)
			}
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	every := (len(xs) + mostRows - 1) / mostRows
	if every > 1 {
		t.Caption += fmt.Sprintf(", one of each %d points of the lines", every)
	}
	missed := false
	for i, x := range xs {
		if i%every > 0 {
			continue
		}
		row := []string{number(x)}
		for _, s := range lines {
			p, known := s.At(x, c.Steps)
			text := cell(p, known)
			if known && misses(&c.Y, p.Y) {
				text, missed = text+" ✗", true
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, row)
	}
	if missed {
		t.Caption += "; ✗ is over the objective"
	}
	return t
}

// misses reports whether a value is above a line that it should stay below.
func misses(a *figure.Axis, v float64) bool {
	return slices.ContainsFunc(a.Lines, func(l figure.Line) bool { return l.Limit && v > l.At })
}

// scattered is a row for each point.
func scattered(c *figure.Chart) testbed.Table {
	t := testbed.Table{Caption: c.Title, Head: []string{"name", c.X.Caption(), c.Y.Caption()}, Left: 1}
	for i := range c.Series {
		s := &c.Series[i]
		if s.Guide {
			continue
		}
		for _, p := range s.Points {
			t.Rows = append(t.Rows, []string{s.Name, number(p.X), cell(p, true)})
		}
	}
	return t
}

// cell is a value with how uncertain it is.
func cell(p figure.Point, known bool) string {
	up, down := p.High-p.Y, p.Y-p.Low
	switch {
	case !known:
		return "–"
	case up == 0 && down == 0, math.IsNaN(up + down):
		return number(p.Y)
	case math.Abs(up-down) <= 1e-3*(math.Abs(p.Y)+up):
		return number(p.Y) + " ± " + testbed.Show(up, digits(p.Y))
	}
	return fmt.Sprintf("%s (%s to %s)", number(p.Y), number(p.Low), number(p.High))
}

func number(v float64) string { return testbed.Show(v, digits(v)) }

// digits are the decimals that leave three figures to be seen.
func digits(v float64) int {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return 0
	case a >= 10:
		return 1
	}
	return 2
}
