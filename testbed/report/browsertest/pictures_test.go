//go:build browser

package browsertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/demo"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// docs is where the pictures of the page are, and the page that shows them.
const docs = "../../../docs"

var keep = flag.Bool("keep", false, "write the pictures of docs/dashboard.md anew")

// largest is how many bytes a picture may have.
const largest = 150_000

// pictured are the views of docs/dashboard.md, at what they show best, after what is done there.
var pictured = []struct{ name, path, do, shows, from string }{
	{"now", "#/now", "", "pve3", "header"},
	{"workload", "#/workload/shop/web", "", "Latency", "header"},
	{"machines", "#/machines", "", "worker", "header"},
	{"pending", "#/pending?at=WAITING", "", "What the plan says", "header"},
	{"decisions", "#/decisions?kind=Buy", "", "no node has room for", "header"},
	{"money", "#/money", "", "saved by following the load", "header"},
	{"what-if", "#/whatif", ask, "Limits of this answer", "header"},
	{"time", "#/workload/shop/web?at=2026-06-01T11:00:00Z&span=6", "", "Latency", "figure"},
}

// ask asks for a wider objective and a smaller pool, of users who think.
const ask = `{
	const form = document.querySelector('main form'), fields = {targetMs: 500, pool: 'worker', max: 4, thinkMs: 1000};
	for (const name in fields) form.elements[name].value = fields[name];
	form.requestSubmit();
} null`

// The pictures of the docs are of the page as it is. They are compared as one sees them from far
// away, for letters are drawn otherwise on other machines.
func TestThePicturesAreOfThePage(t *testing.T) {
	h := dashboard.New(dashboard.Small)
	crowd := &crowd{}
	session := must.Get(demo.New(demo.Config{Seed: 1, Length: 12 * time.Hour, Journal: loop.Journals{h, crowd}}))(t)
	must.Get(session.Advance(t.Context(), 11*time.Hour))(t)
	b, server := serve(t, h)
	recorded := serveRecording(t)
	text := string(must.Get(os.ReadFile(filepath.Join(docs, "dashboard.md")))(t))
	kept := map[string]tiles{}
	for _, view := range pictured {
		t.Run(view.name, func(t *testing.T) {
			p, file, of := b.tab(t), filepath.Join(docs, "dashboard", view.name+".png"), server
			if view.do == ask {
				of = recorded
			}
			p.online(of)
			p.see(1280, "screen", "light")
			p.ask("Emulation.setScrollbarsHidden", map[string]any{"hidden": true}, nil)
			p.visit(of + "/" + strings.ReplaceAll(view.path, "WAITING", crowd.at.Format(time.RFC3339)))
			if view.do != "" {
				p.drawn("Play")
				p.eval(view.do, nil)
			}
			p.drawn(view.shows)
			p.eval("document.querySelector('"+view.from+"').scrollIntoView(); new Promise(done => requestAnimationFrame(() => setTimeout(() => done(null))))", nil)
			shown := p.picture()
			if *keep {
				write(t, file, shown)
			}
			data := must.Get(os.ReadFile(file))(t)
			if len(data) > largest {
				t.Errorf("the picture has %d bytes, of at most %d", len(data), largest)
			}
			if !strings.Contains(text, "(dashboard/"+view.name+".png)") {
				t.Error("docs/dashboard.md does not show the picture")
			}
			var letters float64
			p.eval(measured, &letters)
			kept[view.name] = tiled(must.Get(png.Decode(bytes.NewReader(data)))(t))
			if d := kept[view.name].from(tiled(shown)); math.Abs(letters-drawnWith) > 0.5 {
				t.Logf("the view is %.2f from its picture, which is not held: letters are %.2f wide here, and %.2f there", d, letters, drawnWith)
			} else if d > mostApart {
				t.Errorf("the view is %.1f from its picture, of at most %g: see whether the view is right, and write the picture anew by make pictures", d, float64(mostApart))
			} else {
				t.Logf("the view is %.2f from its picture of %d bytes", d, len(data))
			}
		})
	}
	for i, a := range pictured { // so that one view in the place of another is found
		for _, b := range pictured[:i] {
			if d := kept[a.name].from(kept[b.name]); d < 1.5*mostApart {
				t.Errorf("the pictures of %s and %s are %.1f apart, which cannot be distinguished from far away", a.name, b.name, d)
			}
		}
	}
}

// measured is the width of some text of the page, by which fonts are known to be those that the
// pictures were drawn with: others break lines elsewhere.
const (
	measured  = `(() => { const c = document.createElement("canvas").getContext("2d"); c.font = getComputedStyle(document.body).font; return c.measureText("Latest decisions of a pool 0123456789").width })()`
	drawnWith = 290.97
)

// mostApart is how far a view may be from its picture, in shades of grey of 256.
const mostApart = 3

// tiles are the greys of a picture, in 16 rows of 24.
type tiles [16][24]float64

func tiled(img image.Image) (t tiles) {
	size := img.Bounds().Size()
	for y := range len(t) {
		for x := range len(t[0]) {
			n := 0.0
			for py := y * size.Y / len(t); py < (y+1)*size.Y/len(t); py++ {
				for px := x * size.X / len(t[0]); px < (x+1)*size.X/len(t[0]); px++ {
					r, g, b, _ := img.At(px, py).RGBA()
					t[y][x] += float64(r+g+b) / 3 / 257
					n++
				}
			}
			t[y][x] /= n
		}
	}
	return t
}

// from is how far two pictures are apart, on the mean of their tiles.
func (t tiles) from(o tiles) (sum float64) {
	for y := range t {
		for x := range t[y] {
			sum += max(t[y][x]-o[y][x], o[y][x]-t[y][x])
		}
	}
	return sum / float64(len(t)*len(t[0]))
}

// write writes a picture in its 256 most frequent colours, which is enough for a page.
func write(t *testing.T, file string, shown image.Image) {
	t.Helper()
	n, size := map[color.Color]int{}, shown.Bounds()
	for y := range size.Dy() {
		for x := range size.Dx() {
			n[shown.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(n), func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	few := image.NewPaletted(size, colours[:min(256, len(colours))])
	draw.Draw(few, size, shown, image.Point{}, draw.Src)
	var out bytes.Buffer
	must.Do(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few))
	must.Do(t, os.WriteFile(file, out.Bytes(), 0o644))
}

// crowd is a journal that knows when the most pods waited.
type crowd struct {
	most int
	at   time.Time
}

func (c *crowd) Append(s *loop.Step) error {
	if n := s.Observed.Pending + 1000*len(s.Plan.Unplaced); n > c.most {
		c.most, c.at = n, s.Time
	}
	return nil
}

// spoiled are ways to spoil a view, and what of it must be found.
var spoiled = []struct{ name, css, find string }{
	{"words beyond their box", ".facts dd { white-space: nowrap; font-size: 70px }", "is beyond its dd"},
	{"words on words", ".facts small { margin-top: -1.4rem }", "lies on"},
	{"a button on another", "#time button { margin-right: -2rem }", "lies on"},
	{"words that are cut off", ".facts div { overflow: hidden; height: 2rem }", "is cut off"},
	{"a bar over the end", "body { padding-bottom: 0 }", "the bar hides the end of the page"},
	{"words outside of a drawing", ".hulls text { transform: translate(-60px) }", "is beyond its svg"},
}

func TestEveryFaultOfAViewIsFound(t *testing.T) {
	h := dashboard.New(dashboard.Small)
	session := must.Get(demo.New(demo.Config{Seed: 1, Length: time.Hour, Journal: h}))(t)
	must.Get(session.Advance(t.Context(), time.Hour))(t)
	b, server := serve(t, h)
	p := b.tab(t)
	p.online(server)
	p.see(1280, "screen", "light")
	p.visit(server)
	p.drawn("pve3")
	if faults := p.faultsOf("crowded"); len(faults) > 0 {
		t.Fatalf("the view that is to be spoiled has faults of its own:\n%s", strings.Join(faults, "\n"))
	}
	for _, s := range spoiled {
		rule := string(must.Get(json.Marshal(s.css))(t))
		p.eval("{const s = new CSSStyleSheet(); s.replaceSync("+rule+"); document.adoptedStyleSheets = [s]} null", nil)
		if faults := strings.Join(p.faultsOf("crowded"), "\n"); !strings.Contains(faults, s.find) {
			t.Errorf("%s: not found: %q; found were:\n%s", s.name, s.find, faults)
		}
	}
}
