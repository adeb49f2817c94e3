package figure

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/api/printable"
)

// The drawing's measures, in pixels of its view box.
const (
	width, height = 760, 420
	top, bottom   = 44, 52
	left          = 62
	letter        = 6.4 // width of a letter of the text, on average
	row           = 20  // height of a line of the legend
	closest       = 15  // and what it is at least
)

// palette is Okabe and Ito's, whose colours are distinguished by the colour-blind too. The last
// is the colour of the text.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#9a8c00", "currentColor"}

// dashes are the patterns of lines. Their number and that of the markers and colours have no
// common divisor that would let two of the first dozens of series look alike.
var dashes = []string{"", "7 3", "2 3", "9 3 2 3", "14 4"}

// style is shared by every drawing of a page. What lies on the page is drawn in the page's
// colours, whichever they are.
const style = `<style>
.pf{color:#1c2430;background:#fff;font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.pf text{fill:currentColor}.pf .t{font-size:15px;font-weight:600}.pf .n{fill-opacity:.72}.pf .e{text-anchor:end}.pf .m{text-anchor:middle}
.pf .g{stroke:currentColor;stroke-opacity:.13}.pf .a{stroke:currentColor;stroke-opacity:.55;fill:none}
.pf .r{stroke:currentColor;stroke-opacity:.7;stroke-dasharray:5 4}.pf .l{fill:none;stroke-width:2;stroke-linejoin:round}
.pf .b{stroke:none;fill-opacity:.16}.pf .o{stroke:none;fill-opacity:.3}.pf .k{stroke-width:1.6;fill:#fff}.pf .h{paint-order:stroke;stroke:#fff;stroke-width:3px}
@media (prefers-color-scheme:dark){.pf{color:#e4e8ee;background:#14181f}.pf .k{fill:#14181f}.pf .h{stroke:#14181f}}
@media print{.pf{color:#000;background:#fff}.pf .k{fill:#fff}.pf .h{stroke:#fff}}
</style>
`

// drawing is a chart on its way to paper.
type drawing struct {
	strings.Builder
	chart *Chart
	left  float64 // the plot's edges
	right float64
	high  float64 // of all of it
	x, y  span
}

// SVG draws the chart.
func (c *Chart) SVG() []byte {
	d := &drawing{chart: c, right: width - c.legendWidth()}
	d.x, d.y = c.spans()
	d.high = max(height, float64(top+16+closest*len(c.Series)))
	// Beside the axis' caption there is room for four letters.
	d.left = left + max(0, letter*float64(d.longest()-4))
	legend := d.right
	d.right = width - 24
	names := d.named()
	if names == nil {
		d.right = legend
	}
	d.f(`<svg xmlns="http://www.w3.org/2000/svg" class="pf" viewBox="0 0 %d %s" width="100%%" role="img" aria-labelledby="%s-t %s-d">`+"\n",
		width, num(d.high), esc(c.ID), esc(c.ID))
	d.f("<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", esc(c.ID), esc(c.Title), esc(c.ID), esc(c.Desc))
	d.WriteString(style)
	d.f(`<text class="t" x="%d" y="24">%s</text>`+"\n", left, esc(c.Title))
	d.axes()
	d.lines()
	for i := range c.Series {
		d.band(i)
	}
	for i := range c.Series {
		d.series(i)
	}
	d.lineLabels()
	if names != nil {
		d.label(names)
	} else {
		d.legend()
	}
	d.WriteString("</svg>\n")
	return []byte(d.String())
}

// legendWidth is what is kept free on the right.
func (c *Chart) legendWidth() float64 {
	longest := 0
	for _, s := range c.Series {
		longest = max(longest, len([]rune(s.Name)))
	}
	return 70 + letter*float64(longest)
}

// longest is how many letters the longest number of the upright axis has.
func (d *drawing) longest() int {
	n := 0
	for _, v := range d.chart.Y.ticks(d.y) {
		n = max(n, len(label(v)))
	}
	return n
}

func (d *drawing) f(format string, args ...any) { fmt.Fprintf(&d.Builder, format, args...) }

func (d *drawing) px(v float64) float64 {
	return d.left + (v-d.x.lo)/(d.x.hi-d.x.lo)*(d.right-d.left)
}

func (d *drawing) py(v float64) float64 {
	return d.high - bottom - (v-d.y.lo)/(d.y.hi-d.y.lo)*(d.high-bottom-top)
}

// axes draws both axes with their ticks, leaving out numbers that would touch.
func (d *drawing) axes() {
	c, floor := d.chart, d.high-bottom
	for _, v := range c.Y.ticks(d.y) {
		d.f(`<line class="g" x1="%s" x2="%s" y1="%s" y2="%s"/><text class="n e" x="%s" y="%s">%s</text>`+"\n",
			num(d.left), num(d.right), num(d.py(v)), num(d.py(v)), num(d.left-8), num(d.py(v)+4), label(v))
	}
	free := math.Inf(-1)
	for _, v := range c.X.ticks(d.x) {
		x := d.px(v)
		d.f(`<line class="a" x1="%s" x2="%s" y1="%s" y2="%s"/>`, num(x), num(x), num(floor), num(floor+5))
		if half := letter * float64(len(label(v))) / 2; x-half > free {
			d.f(`<text class="n m" x="%s" y="%s">%s</text>`, num(x), num(floor+19), label(v))
			free = x + half + 3
		}
		d.WriteByte('\n')
	}
	d.f(`<path class="a" d="M%s %dV%sH%s"/>`+"\n", num(d.left), top, num(floor), num(d.right))
	d.f(`<text class="m" x="%s" y="%s">%s</text>`+"\n", num((d.left+d.right)/2), num(d.high-12), esc(c.X.Caption()))
	d.f(`<text class="m" transform="translate(17 %s) rotate(-90)">%s</text>`+"\n", num((top+floor)/2), esc(c.Y.Caption()))
}

// Caption is the title with the unit.
func (a *Axis) Caption() string {
	if a.Unit == "" {
		return a.Title
	}
	return a.Title + " (" + a.Unit + ")"
}

// lines draws the values that matter in themselves.
func (d *drawing) lines() {
	for _, l := range d.chart.Y.Lines {
		y := d.py(l.At)
		d.f(`<line class="r" x1="%s" x2="%s" y1="%s" y2="%s"/>`+"\n", num(d.left), num(d.right), num(y), num(y))
	}
	for _, l := range d.chart.X.Lines {
		x := d.px(l.At)
		d.f(`<line class="r" x1="%s" x2="%s" y1="%d" y2="%s"/>`+"\n", num(x), num(x), top, num(d.high-bottom))
	}
}

// lineLabels names them, on top of everything that is drawn.
func (d *drawing) lineLabels() {
	for _, l := range d.chart.Y.Lines {
		d.f(`<text class="h" x="%s" y="%s">%s</text>`+"\n", num(d.left+6), num(d.py(l.At)-5), esc(l.Label))
	}
	for _, l := range d.chart.X.Lines {
		d.f(`<text class="h" x="%s" y="%d">%s</text>`+"\n", num(d.px(l.At)+5), top+10, esc(l.Label))
	}
}

// crowd is how many bands can lie on each other before they hide the lines.
const crowd = 6

// band draws how uncertain a series is.
func (d *drawing) band(i int) {
	points := d.chart.Series[i].drawn()
	if len(points) < 2 || !wide(points) {
		return
	}
	var there, back strings.Builder
	for j, p := range points {
		fmt.Fprintf(&there, "%s%s %s", move(j), num(d.px(p.X)), num(d.py(p.High)))
		p = points[len(points)-1-j]
		fmt.Fprintf(&back, "L%s %s", num(d.px(p.X)), num(d.py(max(p.Low, d.y.lo))))
	}
	faint := ""
	if len(d.chart.Series) > crowd {
		faint = ` style="fill-opacity:.08"`
	}
	d.f(`<path class="b" fill="%s" d="%s%sZ"%s/>`+"\n", d.colour(i), there.String(), back.String(), faint)
}

// wide reports whether any point has an interval.
func wide(points []Point) bool {
	for _, p := range points {
		if p.High > p.Low {
			return true
		}
	}
	return false
}

func (d *drawing) series(i int) {
	s := &d.chart.Series[i]
	points := s.drawn()
	path := d.path(points)
	switch {
	case s.Guide:
		d.f(`<path class="r" fill="none" d="%s"/>`+"\n", path)
		return
	case s.Area && len(points) > 0:
		floor := num(d.py(max(0, d.y.lo)))
		d.f(`<g class="s" data-series="%s"><path class="o" fill="%s" d="%sV%sH%sZ"/></g>`+"\n", esc(s.Name), d.colour(i), path, floor, num(d.px(points[0].X)))
		return
	}
	class := "s"
	if s.Dots {
		class = "s dots"
	}
	d.f(`<g class="%s" data-series="%s" stroke="%s">`, class, esc(s.Name), d.colour(i))
	if !d.chart.Scatter && !s.Dots {
		d.f(`<path class="l" d="%s"%s/>`, path, d.line(i))
	}
	for _, p := range points {
		if d.chart.Plain || s.Unmarked {
			break
		}
		d.f(`<path class="k"%s d="%s"><title>%s: %s, %s</title></path>`, heavy(i, d.colour(i)), marker(i, d.px(p.X), d.py(p.Y)), esc(s.Name),
			esc(value(p.X, &d.chart.X)), esc(value(p.Y, &d.chart.Y)))
	}
	d.WriteString("</g>\n")
}

// path leads through the points.
func (d *drawing) path(points []Point) string {
	var path strings.Builder
	for j, p := range points {
		if d.chart.Steps && j > 0 {
			fmt.Fprintf(&path, "H%sV%s", num(d.px(p.X)), num(d.py(p.Y)))
			continue
		}
		fmt.Fprintf(&path, "%s%s %s", move(j), num(d.px(p.X)), num(d.py(p.Y)))
	}
	return path.String()
}

// line is how the line of a series is drawn.
func (d *drawing) line(i int) string {
	if d.chart.Plain {
		return ` style="stroke-width:1"`
	}
	return dash(i)
}

// legend names the series on the right, in their order.
func (d *drawing) legend() {
	x, y := d.right+16, float64(top+8)
	gap := min(row, (d.high-top-16)/float64(max(len(d.chart.Series), 1)))
	for i, s := range d.chart.Series {
		if s.Guide {
			continue
		}
		d.f(`<g class="q" stroke="%s">`, d.colour(i))
		switch {
		case s.Area:
			d.f(`<path class="o" fill="%s" d="M%s %sh28v10h-28Z"/>`, d.colour(i), num(x), num(y-5))
		case !d.chart.Scatter && !s.Dots:
			d.f(`<path class="l" d="M%s %sh28"%s/>`, num(x), num(y), d.line(i))
		}
		if !d.chart.Plain && !s.Area && !s.Unmarked {
			d.f(`<path class="k"%s d="%s"/>`, heavy(i, d.colour(i)), marker(i, x+14, y))
		}
		d.f(`</g><text x="%s" y="%s">%s</text>`+"\n", num(x+36), num(y+4), esc(s.Name))
		y += gap
	}
}

// colour is that of a series, or of the one that it is akin to.
func (d *drawing) colour(i int) string {
	if kin := d.chart.Series[i].Kin; kin > 0 {
		return colour(kin - 1)
	}
	return colour(i)
}

func colour(i int) string { return palette[i%len(palette)] }

func dash(i int) string {
	if p := dashes[i%len(dashes)]; p != "" {
		return ` stroke-dasharray="` + p + `"`
	}
	return ""
}

// markers is how many shapes there are; when they are used up, they come again, filled and
// heavier.
const markers = 7

func heavy(i int, colour string) string {
	if i/markers%2 == 0 {
		return ""
	}
	return ` style="fill:` + colour + `;stroke-width:3"`
}

// marker is the path of a series' marker around a point.
func marker(i int, x, y float64) string {
	const r = 4.0
	at := func(form string, v ...float64) string {
		out := make([]any, len(v))
		for j := range v {
			out[j] = num(v[j])
		}
		return fmt.Sprintf(form, out...)
	}
	switch i % markers {
	case 0: // circle
		return at("M%s %sa%s %s 0 1 0 %s 0a%s %s 0 1 0 %s 0Z", x-r, y, r, r, 2*r, r, r, -2*r)
	case 1: // square
		return at("M%s %sh%sv%sh%sZ", x-r+.5, y-r+.5, 2*r-1, 2*r-1, 1-2*r)
	case 2: // triangle
		return at("M%s %sl%s %sh%sZ", x, y-r-.5, r+.5, 2*r, -2*r-1)
	case 3: // diamond
		return at("M%s %sl%s %sl%s %sl%s %sZ", x, y-r-1, r+1, r+1, -r-1, r+1, -r-1, -r-1)
	case 4: // cross
		return at("M%s %sl%s %sM%s %sl%s %s", x-r, y-r, 2*r, 2*r, x+r, y-r, -2*r, 2*r)
	case 5: // triangle on its head
		return at("M%s %sl%s %sh%sZ", x, y+r+.5, r+.5, -2*r, -2*r-1)
	default: // plus
		return at("M%s %sh%sM%s %sv%s", x-r-1, y, 2*r+2, x, y-r-1, 2*r+2)
	}
}

func move(i int) string {
	if i == 0 {
		return "M"
	}
	return "L"
}

// num prints a coordinate to a tenth of a pixel.
func num(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// label prints a value on an axis.
func label(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64) }

// value prints a value with its unit, or with what it counts.
func value(v float64, a *Axis) string {
	digits := 0
	if math.Abs(v) < 100 && v != math.Trunc(v) {
		digits = 1
	}
	unit := a.Unit
	if unit == "" {
		unit = a.Title
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + unit
}

// esc makes text safe in an element and in an attribute.
func esc(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(printable.Text(s))) // a strings.Builder takes everything
	return b.String()
}
