package figure

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// Wherever the points of a scatter lie: either each has its name beside it, on nothing else, or
// there is a legend with all of them.
func TestLawScattersAreNamedBesideOrInALegend(t *testing.T) {
	direct := 0
	rapid.Check(t, func(t *rapid.T) {
		c := &Chart{ID: "c", Title: "t", Scatter: true}
		for i := range rapid.IntRange(1, mostNamed+2).Draw(t, "series") {
			x, y := rapid.Float64Range(-100, 1000).Draw(t, "x"), rapid.Float64Range(0, 50).Draw(t, "y")
			name := fmt.Sprintf("policy-%0*d", rapid.IntRange(1, 12).Draw(t, "long"), i)
			c.Series = append(c.Series, Series{Name: name, Points: []Point{{X: x, Y: y, Low: y, High: y}}})
		}
		for d, text := range map[*drawing]string{c.broad(): string(c.SVG()), c.narrow(): string(c.Narrow())} {
			if strings.Contains(text, `<g class="q"`) != (d.names == nil) {
				t.Fatalf("%d names are placed, and the legend is there: %v", len(d.names), d.names == nil)
			}
			if d.names != nil {
				direct++
				apart(t, d)
			}
		}
	})
	if direct == 0 {
		t.Error("no name was ever placed beside its point")
	}
}

// apart wants every name within the plot, and on no other and no point.
func apart(t *rapid.T, d *drawing) {
	c := d.chart
	if len(d.names) != len(c.Series) {
		t.Fatalf("%d names of %d", len(d.names), len(c.Series))
	}
	for i, a := range d.names {
		if a.x0 < d.left || a.x1 > d.width || a.y0 < d.top || a.y1 > d.floor {
			t.Fatalf("%s is at %v", c.Series[i].Name, a)
		}
		for j, b := range d.names {
			p := c.Series[j].Points[0]
			if i != j && a.touches(b) || a.touches(box{d.px(p.X) - 5, d.py(p.Y) - 5, d.px(p.X) + 5, d.py(p.Y) + 5}) {
				t.Fatalf("%s lies on %s", c.Series[i].Name, c.Series[j].Name)
			}
		}
	}
}
