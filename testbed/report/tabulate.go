package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/figure"
)

// mostRows is how long a table beside a figure may be.
const mostRows = 60

// tabulate puts what a chart shows into a table: a row for each point of the lines, or for each
// line where there are more of those, so that it is rather long than wide.
func tabulate(c *figure.Chart) testbed.Table {
	if c.Scatter || c.Span {
		return scattered(c)
	}
	t := testbed.Table{Caption: c.Title + ": " + c.Y.Caption(), Head: []string{c.X.Caption()}, Left: 1}
	lines, xs := lined(c)
	if every := (len(xs) + mostRows - 1) / mostRows; every > 1 {
		t.Caption += fmt.Sprintf(", one of each %d points of the lines", every)
		xs = slices.Collect(func(yield func(float64) bool) {
			for i := 0; i < len(xs) && yield(xs[i]); i += every {
			}
		})
	}
	for _, s := range lines {
		t.Head = append(t.Head, s.Name)
		if slices.ContainsFunc(s.Points, func(p figure.Point) bool { return misses(&c.Y, p.Y) }) && !strings.HasSuffix(t.Caption, missed) {
			t.Caption += missed
		}
	}
	for _, x := range xs {
		row := []string{number(x)}
		for _, s := range lines {
			row = append(row, valueAt(c, s, x))
		}
		t.Rows = append(t.Rows, row)
	}
	if len(lines) > len(xs) {
		return turned(t)
	}
	return t
}

const missed = "; ✗ is over the objective"

// lined are the lines of a chart, and where any of them has a point.
func lined(c *figure.Chart) (lines []*figure.Series, xs []float64) {
	for i := range c.Series {
		if s := &c.Series[i]; !s.Guide && !s.Dots {
			lines = append(lines, s)
			for _, p := range s.Points {
				xs = append(xs, p.X)
			}
		}
	}
	slices.Sort(xs)
	return lines, slices.Compact(xs)
}

// valueAt is what a line says at x.
func valueAt(c *figure.Chart, s *figure.Series, x float64) string {
	p, known := s.At(x, c.Steps)
	if known && misses(&c.Y, p.Y) {
		return cell(p, known) + " ✗"
	}
	return cell(p, known)
}

// turned makes columns of a table's rows.
func turned(t testbed.Table) testbed.Table {
	out := testbed.Table{Caption: t.Caption, Head: []string{"by " + t.Head[0]}, Left: 1}
	for _, row := range t.Rows {
		out.Head = append(out.Head, row[0])
	}
	for i, name := range t.Head[1:] {
		line := []string{name}
		for _, row := range t.Rows {
			line = append(line, row[1+i])
		}
		out.Rows = append(out.Rows, line)
	}
	return out
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
