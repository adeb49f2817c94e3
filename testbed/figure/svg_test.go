package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// element is an element of a drawing, with what a test may ask of it.
type element struct {
	name string
	attr map[string]string
	text string
}

// parse reads a drawing as XML, and fails on any other text.
func parse(t *testing.T, svg []byte) []*element {
	t.Helper()
	var all, open []*element
	in := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("the drawing is no XML: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(token)
			}
		}
	}
}

func find(all []*element, name, class string) []*element {
	var out []*element
	for _, e := range all {
		if e.name == name && (class == "" || strings.Contains(" "+e.attr["class"]+" ", " "+class+" ")) {
			out = append(out, e)
		}
	}
	return out
}

func example(series int) *Chart {
	c := &Chart{
		ID: "p90", Title: `Response time & "users"`, Desc: "It grows with <users>.",
		X: Axis{Title: "virtual users", At: []float64{10, 60, 100, 200}},
		Y: Axis{Title: "90th percentile", Unit: "ms", Lines: []Line{{At: 300, Label: "objective"}}},
	}
	for i := range series {
		s := Series{Name: fmt.Sprintf("policy %d", i)}
		for _, x := range c.X.At {
			y := 100 + x + float64(10*i)
			s.Points = append(s.Points, Point{X: x, Y: y, Low: y - 5, High: y + 5})
		}
		c.Series = append(c.Series, s)
	}
	return c
}

func TestEverySeriesIsDrawnNamedAndExplained(t *testing.T) {
	c := example(3)
	all := parse(t, c.SVG())
	svg := all[0]
	if svg.attr["role"] != "img" || svg.attr["aria-labelledby"] != "p90-t p90-d" {
		t.Errorf("a screen reader is not told what it is: %v", svg.attr)
	}
	if got := find(all, "title", "")[0].text; got != c.Title {
		t.Errorf("title is %q, want %q", got, c.Title)
	}
	if got := find(all, "desc", "")[0].text; got != c.Desc {
		t.Errorf("description is %q, want %q", got, c.Desc)
	}
	groups := find(all, "g", "s")
	if len(groups) != 3 || groups[1].attr["data-series"] != "policy 1" {
		t.Errorf("%d series are drawn, want 3", len(groups))
	}
	if n := len(find(all, "g", "q")); n != 3 {
		t.Errorf("the legend has %d rows, want 3", n)
	}
	if n := len(find(all, "path", "b")); n != 3 {
		t.Errorf("%d bands, want 3", n)
	}
	// A marker for each point, with the value to be read on it, and one in the legend.
	if n, want := len(find(all, "path", "k")), 3*4+3; n != want {
		t.Errorf("%d markers, want %d", n, want)
	}
	if got := find(all, "title", "")[1].text; got != "policy 0: 10 virtual users, 110 ms" {
		t.Errorf("the first marker says %q", got)
	}
	texts := ""
	for _, e := range find(all, "text", "") {
		texts += e.text + "\n"
	}
	for _, want := range []string{"virtual users\n", "90th percentile (ms)\n", "objective\n", "200\n", "policy 2\n"} {
		if !strings.Contains(texts, want) {
			t.Errorf("%q is nowhere to be read in:\n%s", want, texts)
		}
	}
}

func TestTheSameChartGivesTheSameBytes(t *testing.T) {
	if !bytes.Equal(example(4).SVG(), example(4).SVG()) {
		t.Error("two drawings of one chart differ")
	}
}

func TestNoTwoSeriesLookAlikeWithoutColour(t *testing.T) {
	seen := map[string]int{}
	for i := range 30 {
		look := dash(i) + marker(i, 0, 0)
		if j, ok := seen[look]; ok {
			t.Errorf("series %d and %d look alike in black and white", j, i)
		}
		seen[look] = i
	}
	// Scattered points have no dashes.
	seen = map[string]int{}
	for i := range 14 {
		look := marker(i, 0, 0)
		if heavy(i, "") != "" {
			look += " filled"
		}
		if j, ok := seen[look]; ok {
			t.Errorf("points of series %d and %d look alike in black and white", j, i)
		}
		seen[look] = i
	}
}

func TestUnknownValuesAreLeftOut(t *testing.T) {
	c := example(1)
	nan := math.NaN()
	c.Series[0].Points[1] = Point{60, nan, nan, nan}
	c.Series[0].Points[2].High = math.Inf(1)
	svg := c.SVG()
	if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
		t.Errorf("an unknown value is drawn:\n%s", svg)
	}
	if n, want := len(find(parse(t, svg), "path", "k")), 2+1; n != want {
		t.Errorf("%d markers, want %d", n, want)
	}
}

func TestAnEmptyChartHasAxesAndNoSeries(t *testing.T) {
	all := parse(t, (&Chart{ID: "x", Scatter: true}).SVG())
	if len(find(all, "g", "s")) != 0 || len(find(all, "path", "a")) != 1 {
		t.Error("an empty chart is more or less than its axes")
	}
}

func TestScatteredPointsHaveNoLines(t *testing.T) {
	c := example(5)
	c.Scatter = true
	c.Series = append(c.Series, Series{Name: "frontier", Guide: true, Points: []Point{{10, 100, 0, 0}, {20, 90, 0, 0}}})
	all := parse(t, c.SVG())
	if n := len(find(all, "path", "l")); n != 0 {
		t.Errorf("%d lines, want none", n)
	}
	if n := len(find(all, "g", "q")); n != 5 {
		t.Errorf("the legend has %d rows, want 5: guides are in none", n)
	}
}

// For any values, every point lies within the plot, and the ticks bound it.
func TestReachHoldsEveryValueBetweenRoundTicks(t *testing.T) {
	for _, values := range [][]float64{{0}, {5}, {0, 0.03}, {160, 333}, {188, 190}, {1e6, 3e7}, {7, 7}, {-3, 12}} {
		for _, fromZero := range []bool{true, false} {
			s := reach(values, fromZero)
			name := fmt.Sprintf("%v from zero %v", values, fromZero)
			for _, v := range values {
				if v < s.lo || v > s.hi {
					t.Errorf("%s: %g lies outside %v", name, v, s)
				}
			}
			if fromZero && values[0] >= 0 && s.lo != 0 {
				t.Errorf("%s: starts at %g", name, s.lo)
			}
			n := (s.hi - s.lo) / s.step
			if n < 2 || n > 11 || math.Abs(n-math.Round(n)) > 1e-6 {
				t.Errorf("%s: %v has %g steps", name, s, n)
			}
			if got := (&Axis{}).ticks(s); math.Abs(got[0]-s.lo) > 1e-9 || math.Abs(got[len(got)-1]-s.hi) > s.step*1e-6 {
				t.Errorf("%s: ticks %v do not bound %v", name, got, s)
			}
		}
	}
}

func TestNumbersOfTheAxisDoNotTouch(t *testing.T) {
	c := example(1)
	c.X.At = []float64{1, 2, 3, 4, 198, 199, 200}
	free := math.Inf(-1)
	for _, e := range find(parse(t, c.SVG()), "text", "n") {
		if !strings.Contains(e.attr["class"], "m") { // the other axis
			continue
		}
		x := must.Get(strconv.ParseFloat(e.attr["x"], 64))(t)
		half := letter * float64(len(e.text)) / 2
		if x-half < free {
			t.Errorf("%s touches the number before it", e.text)
		}
		free = x + half
	}
}

func TestStepsLastUntilTheNext(t *testing.T) {
	c := &Chart{ID: "steps", Steps: true, Series: []Series{{Name: "replicas", Points: []Point{{0, 1, 1, 1}, {5, 4, 4, 4}, {10, 4, 4, 4}}}}}
	lines := find(parse(t, c.SVG()), "path", "l")
	if d := lines[0].attr["d"]; strings.Count(d, "H") != 2 || strings.Count(d, "V") != 2 || strings.Contains(d, "L") {
		t.Errorf("the line is %s", d)
	}
}

func TestPlainLinesHaveNoMarkersAndAreasNoLine(t *testing.T) {
	c := example(2)
	c.Plain, c.Steps, c.Series[0].Area = true, true, true
	all := parse(t, c.SVG())
	if n := len(find(all, "path", "k")); n != 0 {
		t.Errorf("%d markers, want none", n)
	}
	lines, areas := 0, 0
	for _, e := range find(all, "path", "") {
		switch e.attr["class"] {
		case "l":
			lines++
		case "o":
			if e.attr["fill"] == colour(0) && strings.HasSuffix(e.attr["d"], "Z") {
				areas++
			}
		}
	}
	if lines != 2 || areas != 2 { // each of them in the plot and in the legend
		t.Errorf("%d lines and %d areas, want 2 of each", lines, areas)
	}
}

func TestALongLegendStaysInTheDrawing(t *testing.T) {
	for _, n := range []int{2, 17, 24, 40} {
		all := parse(t, example(n).SVG())
		high, err := strconv.ParseFloat(strings.Fields(all[0].attr["viewBox"])[3], 64)
		if err != nil || high < height {
			t.Fatalf("of %d series it is %v high: %v", n, high, err)
		}
		var at []float64
		for _, e := range find(all, "text", "") {
			if strings.HasPrefix(e.text, "policy ") {
				y := must.Get(strconv.ParseFloat(e.attr["y"], 64))(t)
				if len(at) > 0 && y-at[len(at)-1] < closest-0.1 {
					t.Errorf("of %d names, %s is on the one above", n, e.text)
				}
				at = append(at, y)
			}
		}
		if len(at) != n || at[n-1] > high {
			t.Errorf("the last of %d names is at %v, of %v", n, at, high)
		}
	}
}

func TestSpannedLinesBeginNearTheirValues(t *testing.T) {
	c := example(1)
	c.X.At, c.Series[0].Points = nil, []Point{{X: 1000, Y: 5, Low: 5, High: 5}, {X: 1100, Y: 6, Low: 6, High: 6}}
	c.Y.Lines = nil
	if x, _ := c.spans(); x.lo != 0 {
		t.Errorf("lines begin at %v, want 0", x.lo)
	}
	c.Span = true
	if x, _ := c.spans(); x.lo < 900 {
		t.Errorf("spanned lines begin at %v", x.lo)
	}
}

func TestDotsMarkALineThatHasNoMarkersOfItsOwn(t *testing.T) {
	c := example(3)
	c.Series[0].Area, c.Series[1].Unmarked, c.Series[2].Dots = true, true, true
	all := parse(t, c.SVG())
	// The dots, and one in the legend; the line, and the legend's.
	if n, want := len(find(all, "path", "k")), 4+1; n != want {
		t.Errorf("%d markers, want %d", n, want)
	}
	if n, want := len(find(all, "path", "l")), 1+1; n != want {
		t.Errorf("%d lines, want %d", n, want)
	}
}

func TestLongNumbersDoNotTouchTheCaptionOfTheirAxis(t *testing.T) {
	for _, most := range []float64{0.0125, 1, 300, 2e6} {
		c := example(1)
		c.Y.Lines = nil
		for i := range c.Series[0].Points {
			y := most * float64(i+1) / 4
			c.Series[0].Points[i].Y, c.Series[0].Points[i].Low, c.Series[0].Points[i].High = y, y, y
		}
		const caption = 17 + 8 // where its upright letters end
		for _, e := range find(parse(t, c.SVG()), "text", "e") {
			x := must.Get(strconv.ParseFloat(e.attr["x"], 64))(t)
			if begins := x - letter*float64(len(e.text)); begins < caption {
				t.Errorf("up to %g: %s begins at %g", most, e.text, begins)
			}
		}
	}
}

func TestTheLastPointUpToThereIsWhereStepsAre(t *testing.T) {
	s := Series{Points: []Point{{1, 10, 10, 10}, {2, math.NaN(), 0, 0}, {3, 30, 30, 30}}}
	for _, c := range []struct {
		x     float64
		steps bool
		want  float64
		known bool
	}{
		{0, true, 0, false}, {1, false, 10, true}, {2, false, 0, false}, {2, true, 10, true}, {2.5, false, 0, false}, {9, true, 30, true},
	} {
		if p, known := s.At(c.x, c.steps); p.Y != c.want || known != c.known {
			t.Errorf("at %g, steps %v: %g, %v", c.x, c.steps, p.Y, known)
		}
	}
}

func TestKinHaveOneColourAndLinesOfTheirOwn(t *testing.T) {
	c := example(2)
	c.Series[1].Kin = 1
	all := parse(t, c.SVG())
	groups := find(all, "g", "s")
	if groups[0].attr["stroke"] != groups[1].attr["stroke"] {
		t.Errorf("colours are %s and %s", groups[0].attr["stroke"], groups[1].attr["stroke"])
	}
	if bands := find(all, "path", "b"); bands[0].attr["fill"] != bands[1].attr["fill"] {
		t.Errorf("bands are %s and %s", bands[0].attr["fill"], bands[1].attr["fill"])
	}
	if lines := find(all, "path", "l"); lines[0].attr["stroke-dasharray"] == lines[1].attr["stroke-dasharray"] {
		t.Error("their lines cannot be distinguished")
	}
}

// On a telephone the same is drawn in a third of the area, with the legend and a long title in
// lines of their own.
func TestANarrowDrawingHasTheSame(t *testing.T) {
	c := example(3)
	c.Title = "Response time of all requests of the shop, at sixty users"
	c.Y.Lines[0].Label = "objective 300 ms at the 90th percentile of a service with a long name"
	c.X.Lines = []Line{{At: 195, Label: "the end of it"}}
	all, wide := parse(t, c.Narrow()), parse(t, c.SVG())
	box := strings.Fields(all[0].attr["viewBox"])
	if box[2] != "372" || all[0].attr["aria-labelledby"] != "p90-narrow-t p90-narrow-d" {
		t.Errorf("the drawing is %v", all[0].attr)
	}
	for _, class := range []string{"s", "q", "k", "b"} {
		for _, name := range []string{"g", "path"} {
			if is, want := len(find(all, name, class)), len(find(wide, name, class)); is != want {
				t.Errorf("%d of %s %s, want %d", is, name, class, want)
			}
		}
	}
	if titles := find(all, "text", "t"); len(titles) != 2 || titles[0].text+" "+titles[1].text != c.Title {
		t.Errorf("the title is in %d lines", len(titles))
	}
	high := must.Get(strconv.ParseFloat(box[3], 64))(t)
	for _, e := range find(all, "text", "") {
		if e.attr["transform"] != "" {
			continue
		}
		x, y := must.Get(strconv.ParseFloat(e.attr["x"], 64))(t), must.Get(strconv.ParseFloat(e.attr["y"], 64))(t)
		long := letter * float64(len(e.text))
		if room := e.attr["textLength"]; room != "" {
			long = must.Get(strconv.ParseFloat(room, 64))(t)
		}
		switch class := " " + e.attr["class"] + " "; {
		case strings.Contains(class, " m "):
			x -= long / 2
		case strings.Contains(class, " e "):
			x -= long
		}
		if x < 0 || x+long > narrow || y > high-4 {
			t.Errorf("%q is from %v to %v of %d, and at %v of %v", e.text, x, x+long, narrow, y, high)
		}
	}
}
