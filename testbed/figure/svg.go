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
	narrow, plot  = 372, 300 // on a telephone
	top, bottom   = 44, 52
	left          = 62
	letter        = 6.4 // width of a letter of the text, on average
	digit         = 7.7 // and of the digits of the widest of its fonts
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
	chart       *Chart
	id, class   string
	title       []string // by lines
	titled      float64  // where they begin
	width, high float64
	left, right float64 // the plot's edges
	top, floor  float64
	x, y        span
	names       []box // of a scatter's points, where each has a place; others have a legend
	legend      struct{ x, y, gap float64 }
}

// SVG draws the chart.
func (c *Chart) SVG() []byte { return c.broad().draw() }

// Narrow draws the chart for a telephone, with the legend below the plot. Both drawings can be on
// one page.
func (c *Chart) Narrow() []byte { return c.narrow().draw() }

// broad has the legend at the right.
func (c *Chart) broad() *drawing {
	d := c.drawing(c.ID, width)
	d.class, d.title, d.titled, d.top = "pf", []string{c.Title}, left, top
	d.high = max(height, float64(top+16+closest*len(c.Series)))
	d.right, d.floor = width-24, d.high-bottom
	if d.names = d.named(); d.names == nil {
		d.right = width - c.legendWidth()
		d.legend.x, d.legend.y, d.legend.gap = d.right+16, top+8, min(row, (d.high-top-16)/float64(max(len(c.Series), 1)))
	}
	return d
}

func (c *Chart) narrow() *drawing {
	d := c.drawing(c.ID+"-narrow", narrow)
	d.class, d.title, d.titled = "pf narrow", lines(c.Title, 34), 10
	d.top = float64(top + row*(len(d.title)-1))
	marks := c.X.ticks(d.x)
	d.right = narrow - max(16, 4+letter*float64(len(label(marks[len(marks)-1])))/2)
	d.floor = d.top + plot
	d.high = d.floor + bottom
	if d.names = d.named(); d.names == nil {
		d.legend.x, d.legend.y, d.legend.gap = d.titled, d.high+4, row
		d.high += float64(row * len(c.Series))
	}
	return d
}

// drawing is one of that width, with nothing on it.
func (c *Chart) drawing(id string, wide float64) *drawing {
	d := &drawing{chart: c, id: id, width: wide}
	d.x, d.y = c.spans()
	// Beside the axis' caption there is room for four letters.
	d.left = left + max(0, letter*float64(d.longest()-4))
	return d
}

func (d *drawing) draw() []byte {
	c := d.chart
	d.f(`<svg xmlns="http://www.w3.org/2000/svg" class="%s" viewBox="0 0 %s %s" width="100%%" role="img" aria-labelledby="%s-t %s-d">`+"\n",
		d.class, num(d.width), num(d.high), esc(d.id), esc(d.id))
	d.f("<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", esc(d.id), esc(c.Title), esc(d.id), esc(c.Desc))
	d.WriteString(style)
	for i, line := range d.title {
		d.f(`<text class="t" x="%s" y="%d">%s</text>`+"\n", num(d.titled), 24+row*i, esc(line))
	}
	d.axes()
	d.lines()
	for i := range c.Series {
		d.band(i)
	}
	for i := range c.Series {
		d.series(i)
	}
	d.lineLabels()
	if d.names != nil {
		d.label()
	} else {
		d.listed()
	}
	d.WriteString("</svg>\n")
	return []byte(d.String())
}

// lines breaks a text into lines of at most so many letters, where a word is not longer.
func lines(text string, most int) (all []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line+" "+word)) > most {
			all, line = append(all, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(all, line)
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
	return d.floor - (v-d.y.lo)/(d.y.hi-d.y.lo)*(d.floor-d.top)
}

// axes draws both axes with their ticks, leaving out numbers that would touch.
func (d *drawing) axes() {
	c, floor := d.chart, d.floor
	for _, v := range c.Y.ticks(d.y) {
		d.f(`<line class="g" x1="%s" x2="%s" y1="%s" y2="%s"/><text class="n e" x="%s" y="%s">%s</text>`+"\n",
			num(d.left), num(d.right), num(d.py(v)), num(d.py(v)), num(d.left-8), num(d.py(v)+4), label(v))
	}
	free := math.Inf(-1)
	for _, v := range c.X.ticks(d.x) {
		x := d.px(v)
		d.f(`<line class="a" x1="%s" x2="%s" y1="%s" y2="%s"/>`, num(x), num(x), num(floor), num(floor+5))
		if half := digit * float64(len(label(v))) / 2; x-half > free {
			d.f(`<text class="n m" x="%s" y="%s">%s</text>`, num(x), num(floor+19), label(v))
			free = x + half + 3
		}
		d.WriteByte('\n')
	}
	d.f(`<path class="a" d="M%s %sV%sH%s"/>`+"\n", num(d.left), num(d.top), num(floor), num(d.right))
	d.f(`<text class="m" x="%s" y="%s">%s</text>`+"\n", num((d.left+d.right)/2), num(floor+bottom-12), esc(c.X.Caption()))
	d.f(`<text class="m" transform="translate(17 %s) rotate(-90)">%s</text>`+"\n", num((d.top+floor)/2), esc(c.Y.Caption()))
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
		d.f(`<line class="r" x1="%s" x2="%s" y1="%s" y2="%s"/>`+"\n", num(x), num(x), num(d.top), num(d.floor))
	}
}

// lineLabels names them, on top of everything that is drawn.
func (d *drawing) lineLabels() {
	for _, l := range d.chart.Y.Lines {
		x := d.left + 6
		d.f(`<text class="h" x="%s" y="%s"%s>%s</text>`+"\n", num(x), num(d.py(l.At)-5), d.squeezed(l.Label, x), esc(l.Label))
	}
	for _, l := range d.chart.X.Lines {
		x, class := d.px(l.At)+5, "h"
		if x+letter*float64(len([]rune(l.Label))) > d.width {
			x, class = x-10, "h e"
		}
		d.f(`<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, num(x), num(d.top+10), esc(l.Label))
	}
}

// squeezed makes a text that begins there end before the edge, where it would not.
func (d *drawing) squeezed(text string, x float64) string {
	if room := d.width - 4 - x; letter*float64(len([]rune(text))) > room {
		return fmt.Sprintf(` textLength="%s" lengthAdjust="spacingAndGlyphs"`, num(room))
	}
	return ""
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

// listed draws the legend: the series in their order.
func (d *drawing) listed() {
	x, y := d.legend.x, d.legend.y
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
		d.f(`</g><text x="%s" y="%s"%s>%s</text>`+"\n", num(x+36), num(y+4), d.squeezed(s.Name, x+36), esc(s.Name))
		y += d.legend.gap
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
