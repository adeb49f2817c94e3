//go:build browser

package browsertest

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

var shots = flag.String("shots", "", "a `folder` to leave pictures of the pages in")

// widths are those of a laptop, a telephone and a large screen.
var widths = []int{1280, 400, 2560}

var schemes = []string{"light", "dark"}

func TestPagesCanBeReadByEverybodyWithoutANetwork(t *testing.T) {
	b := start(t)
	for _, page := range build(t).pages() {
		t.Run(page.name, func(t *testing.T) {
			p := b.tab(t)
			if faults := p.inspect(&page); len(faults) > 0 {
				t.Errorf("%d faults:\n%s", len(faults), strings.Join(faults, "\n"))
			}
			if *shots != "" {
				p.pictures(&page)
			}
		})
	}
}

// inspect returns everything that is wrong with a page.
func (p *tab) inspect(page *page) []string {
	p.t.Helper()
	var faults []string
	add := func(how string, found []string) {
		for _, f := range found {
			faults = append(faults, how+": "+f)
		}
	}
	for _, width := range widths {
		for _, scheme := range schemes {
			how := fmt.Sprintf("%s, %d wide", scheme, width)
			p.see(width, "screen", scheme)
			p.open(page.file)
			add(how, p.faultsOf("wide"))
			add(how, p.faultsOf("whole")) // opens all that can be opened
			for _, of := range []string{"wide", "narrow", "contrast"} {
				add(how, p.faultsOf(of))
			}
		}
		add(fmt.Sprintf("by keyboard, %d wide", width), p.byKeyboard())
	}
	add("numbers", p.wrong(page.spots))
	for _, scheme := range schemes {
		p.see(718, "print", scheme) // A4, upright, without its margins
		p.open(page.file)
		for _, of := range []string{"paper", "contrast"} {
			add("on paper, from "+scheme, p.faultsOf(of))
		}
	}
	add("complaint", p.take())
	return faults
}

func (p *tab) faultsOf(what string) []string {
	p.t.Helper()
	var out []string
	p.eval("look."+what+"()", &out)
	return out
}

// byKeyboard goes through the page from stop to stop, and opens and closes something.
func (p *tab) byKeyboard() []string {
	p.t.Helper()
	var wanted []struct {
		At int
		Is string
	}
	p.eval("look.wanted()", &wanted)
	reached := map[int]bool{}
	for range 4 * (len(wanted) + 5) {
		p.press("Tab", 9, "")
		at := 0
		p.eval("look.where()", &at)
		if reached[at] || at < 0 && len(reached) > 0 {
			break
		}
		reached[at] = true
	}
	var faults []string
	for _, w := range wanted {
		if !reached[w.At] {
			faults = append(faults, "not reached: "+w.Is)
		}
	}
	is := func() (open bool) {
		p.eval("document.querySelector('details').open", &open)
		return open
	}
	before := is()
	p.eval("document.querySelector('summary').focus()", nil)
	p.press("Enter", 13, "\r")
	if is() == before {
		faults = append(faults, "Enter neither opens nor closes what a summary is of")
	}
	return faults
}

// wrong compares the tables beside the figures with what they must say, and wants something known
// of each.
func (p *tab) wrong(spots []spot) []string {
	p.t.Helper()
	var figures []string
	p.eval("[...document.querySelectorAll('figure')].map(f => f.id)", &figures)
	tables := map[string][][]string{}
	for _, id := range figures {
		var cells [][]string
		p.eval(fmt.Sprintf("look.cells(%q)", id), &cells)
		tables[id] = cells
	}
	var faults []string
	for _, id := range figures {
		if !slices.ContainsFunc(spots, func(s spot) bool { return s.figure == id }) {
			faults = append(faults, "nothing is known of figure "+id)
		}
	}
	for _, s := range spots {
		if err := s.in(tables[s.figure]); err != nil {
			faults = append(faults, fmt.Sprintf("figure %s, %s of %s: %v", s.figure, s.column, s.row, err))
		}
	}
	return faults
}

// turned makes columns of a table's rows.
func turned(table [][]string) [][]string {
	out := make([][]string, len(table[0]))
	for i := range out {
		for _, row := range table {
			out[i] = append(out[i], row[i])
		}
	}
	return out
}

// in says why a table does not have the number, whichever way round it is.
func (s *spot) in(table [][]string) error {
	if len(table) == 0 {
		return fmt.Errorf("there is no table")
	}
	named := func(head string) bool { return head == s.column || strings.HasPrefix(head, s.column+" (") }
	if !slices.ContainsFunc(table[0], named) {
		table = turned(table)
	}
	column := slices.IndexFunc(table[0], named)
	if column < 0 {
		return fmt.Errorf("is in no column of %v", table[0])
	}
	got, slack, n := 0.0, 0.0, 0
	for _, row := range table[1:] {
		if !s.total && row[0] != s.row || n > 0 && !s.total {
			continue
		}
		v, by, err := value(row[column])
		if err != nil {
			return err
		}
		got, slack, n = got+v, slack+by, n+1
	}
	if n == 0 {
		return fmt.Errorf("there is no such row")
	}
	if math.Abs(got-s.want) > slack+1e-6*math.Abs(s.want) {
		return fmt.Errorf("is %v, must be %v", got, s.want)
	}
	return nil
}

// pictures leaves pictures of a page for people to look at.
func (p *tab) pictures(page *page) {
	p.t.Helper()
	for _, width := range widths {
		for _, scheme := range schemes {
			p.see(width, "screen", scheme)
			p.open(page.file)
			p.shoot(filepath.Join(*shots, fmt.Sprintf("%s-%d-%s.png", strings.ReplaceAll(page.name, " ", "-"), width, scheme)), true)
		}
	}
}

// mutant is a page with a fault in it, and what of it must be found.
type mutant struct {
	name, find string
	change     func(page string) string
}

// swap puts the second text in place of the first, once.
func swap(a, b string) func(string) string {
	return func(page string) string { return strings.Replace(page, a, b, 1) }
}

// everywhere puts it in every place.
func everywhere(a, b string) func(string) string {
	return func(page string) string { return strings.ReplaceAll(page, a, b) }
}

// unguarded lets a page load and run what it likes, and swaps.
func unguarded(a, b string) func(string) string {
	return func(page string) string { return swap(a, b)(guard.ReplaceAllString(page, "")) }
}

// cut takes away what matches first.
func cut(pattern string) func(string) string {
	what := regexp.MustCompile(pattern)
	return func(page string) string {
		at := what.FindStringIndex(page)
		if at == nil {
			return page
		}
		return page[:at[0]] + page[at[1]:]
	}
}

var guard = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)

var mutants = []mutant{
	{"an error on the console", "console: error", unguarded("</main>", `<script>console.error("it broke")</script></main>`)},
	{"a warning on the console", "console: warning", unguarded("</main>", `<script>console.warn("it may break")</script></main>`)},
	{"an exception", "exception: ", unguarded("</main>", `<script>throw new Error("it broke")</script></main>`)},
	{"a script that the page forbids", "log: security: ", swap("</main>", `<script>1</script></main>`)},
	{"an image from elsewhere that the page forbids", "log: security: ", swap("</main>", `<img alt="x" src="https://127.0.0.1:1/x.png"></main>`)},
	{"an image from elsewhere", "request: https://127.0.0.1:1/x.png", unguarded("</main>", `<img alt="x" src="https://127.0.0.1:1/x.png"></main>`)},
	{"a font from elsewhere", "request: http://127.0.0.1:1/f.css", unguarded("</head>", `<link rel="stylesheet" href="http://127.0.0.1:1/f.css"></head>`)},
	{"an image that is not there", "log: network: ", unguarded("</main>", `<img alt="x" src="not-there.png"></main>`)},
	{"no title", "the page has no title", cut(`<title>[^<]*</title>`)},
	{"no language", "the page has no language", swap(` lang="en"`, "")},
	{"an id twice", "the id p90 is there twice", swap("<header>", `<header id="p90">`)},
	{"a heading that is omitted", "leaves out a heading above it", swap("<h2>Parameters</h2>", "<h4>Parameters</h4>")},
	{"two first headings", "a second first heading", swap("<h2>Parameters</h2>", "<h1>Parameters</h1>")},
	{"an image without a word", "nothing names", swap("</main>", `<img src="data:,"></main>`)},
	{"a drawing whose name is nowhere", "nothing names", swap(`id="p90-t"`, `id="p90-other"`)},
	{"a drawing without a role", "without the role of an image", swap(` role="img"`, "")},
	{"a table without a caption", "a table without a caption", cut(`<caption>[^<]*</caption>`)},
	{"no figure", "the page has no figure", func(page string) string {
		return strings.NewReplacer("<figure", "<div", "</figure", "</div").Replace(page)
	}},
	{"nothing drawn", "figure p90: nothing is drawn", cut(`(?s)<svg.*?</svg>.*?</svg>`)},
	{"an empty drawing", "figure p90: it is empty", cut(`(?s)<g class="s" .*<g class="q"`)},
	{"a hidden drawing", "pixels can be seen", swap("<svg ", `<svg style="display:none" `)},
	{"a small drawing", "pixels can be seen", swap("<svg ", `<svg style="width:200px" `)},
	{"a drawing that is wider than a telephone", "400 wide: figure p90: it is wider than the page", swap("figure .narrow{display:block}", "figure .narrow{display:block;width:600px}")},
	{"a drawing for a large screen on a telephone", "are too small to be read", swap("figure svg{display:none}figure .narrow{display:block}", "")},
	{"no table", "figure p90: no table beside it", cut(`(?s)<summary>Response time, in a table</summary><div.*?</table></div>`)},
	{"a hidden table", "figure p90: its table cannot be seen", swap(`in a table</summary><div class="wide"`, `in a table</summary><div hidden class="wide"`)},
	{"a table without rows", "figure p90: its table is empty", func(page string) string {
		return regexp.MustCompile(`(?s)(Response time, in a table</summary>.*?<tbody>).*?(</tbody>)`).ReplaceAllString(page, "$1$2")
	}},
	{"a series that the table leaves out", "its table does not have hpa61", swap(`data-series="hpa60"`, `data-series="hpa61"`)},
	{"a word outside", `"Response time" sticks out`, swap(`<text class="t" x="62"`, `<text class="t" x="720"`)},
	{"a word on another", `lies on`, swap(`<text class="t" x="62" y="24">`, `<text x="62" y="24">again</text><text class="t" x="62" y="24">`)},
	{"pale words", "light, 1280 wide: contrast of ", swap("--soft:#5b6675", "--soft:#9aa5b4")},
	{"words that are pale in the dark", "dark, 1280 wide: contrast of ", swap("--soft:#9aa5b4", "--soft:#4c5562")},
	{"pale words in a drawing", "contrast of ", everywhere(".pf text{fill:currentColor}", ".pf text{fill:#aaa}")},
	{"words that fade", "contrast of ", swap(".lead{", ".lead{opacity:.5;")},
	{"a page that is too wide", "1280 wide: the page is 3", swap(`<p class="lead">`, `<p class="lead" style="max-width:none;width:3000px">`)},
	{"a page that is too wide for a telephone", "400 wide: the page is ", swap(`<p class="lead">`, `<p class="lead" style="width:600px">`)},
	{"words below each other", "400 wide: ", swap("dl{grid-template-columns:1fr}", "dl{grid-template-columns:20rem 1fr}")},
	{"a table that no paper holds", "of paper", swap("table{font-size:.7rem}", "table{font-size:3rem}")},
	{"a summary that the keyboard does not come to", "not reached: <summary>", swap("<summary>", `<summary tabindex="-1">`)},
	{"a table that the keyboard cannot scroll", "not reached: <div>", everywhere(`<div class="wide" tabindex="0"`, `<div class="wide" tabindex="-1"`)},
	{"a summary that does not open", "Enter neither opens nor closes", unguarded("</main>", `<script>addEventListener("click", e => e.preventDefault())</script></main>`)},
	{"tables that are not printed", "is not printed", swap("details::details-content{", "details::no-such-content{")},
	{"dark paper", "paper is printed dark", swap("--ink:#000;--page:#fff", "--ink:#fff;--page:#000")},
	{"another number", "numbers: figure p90, hpa60 of 10: is ", nil},
}

func TestEveryFaultOfAPageIsFound(t *testing.T) {
	s := build(t)
	s.plimsoll("users", "testbed", "run", "slo-cost", "--users", "10,60", "--policies", "hpa60,hpa70,slocost-b", "--trials", "2", "--for", "5m", "--quiet")
	file := s.path("users", "report.html")
	data := must.Get(os.ReadFile(file))(t)
	spots := s.ofUsers("users", "")
	b := start(t)
	if faults := b.tab(t).inspect(&page{file: file, spots: spots}); len(faults) > 0 {
		t.Fatalf("the page that is to be broken has faults of its own:\n%s", strings.Join(faults, "\n"))
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			broken := page{file: s.path("broken.html"), spots: spots}
			text := string(data)
			if m.change != nil {
				if text = m.change(text); text == string(data) {
					t.Fatal("nothing was changed")
				}
			} else {
				broken.spots = []spot{{figure: "p90", row: "10", column: "hpa60", want: spots[len(spots)-1].want + 1000}}
			}
			must.Do(t, os.WriteFile(broken.file, []byte(text), 0o600))
			faults := b.tab(t).inspect(&broken)
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, m.find) }) {
				t.Errorf("not found: %q; found were:\n%s", m.find, strings.Join(faults, "\n"))
			}
		})
	}
}
