package report

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// The tables and figures of docs/paper.md are what the experiments come to. They are between the
// lines <!-- NAME --> and <!-- end -->; the prose around them is written by hand.
var (
	whole  = flag.Bool("whole", false, "play all that docs/paper.md tells of, in place of two numbers of users")
	update = flag.Bool("update", false, "write what comes of it into docs/paper.md and docs/paper/")
)

const paperPage = "../../docs/paper.md"

// loads are how users send requests, in the order of the page.
var loads = []sim.Kind{sim.Sleep, sim.Pace}

// part is what is played where not all is: enough to see that the page is of this program.
var part = map[string]testbed.Options{
	"slo-cost":        {Users: []int{40, 120}, Policies: []string{"hpa60", "slocost-b"}},
	"slo-cost-rivals": {Users: []int{40}, Policies: []string{"hpa60", "joint", "predictive"}},
}

// played is an experiment with its results, under each load.
type played struct {
	*testbed.Experiment
	of map[sim.Kind]*testbed.Results
}

func play(t *testing.T, e *testbed.Experiment, o testbed.Options) *played {
	t.Helper()
	out := &played{e, map[sim.Kind]*testbed.Results{}}
	for _, kind := range loads {
		o.Load = kind
		r := must.Get(testbed.Run(t.Context(), e, o))(t)
		out.of[kind] = r
	}
	return out
}

func file(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(testbed.File(name))(t)
	return string(text)
}

func parsed(t *testing.T, text string) *testbed.Experiment {
	t.Helper()
	return must.Get(testbed.Parse([]byte(text)))(t)
}

// measured are a measure's means with their intervals, by policy and users.
func (p *played) measured(tables map[string]testbed.Table, name string) {
	for _, kind := range loads {
		for i := range testbed.Measures {
			m := &testbed.Measures[i]
			if m.Name == "p90Ms" || m.Name == "costUnits" || m.Name == "sloViolationMinutes" {
				tables[fmt.Sprintf("%s %s %s", name, m.Name, kind)] = p.of[kind].By(m, "")
			}
		}
	}
}

// claim is one of the experiment's, as far as it is about some policies.
func (p *played) claim(name string, policies, against []string) *testbed.Claim {
	i := slices.IndexFunc(p.Claims, func(c testbed.Claim) bool { return c.Name == name })
	c := p.Claims[i]
	c.Policies, c.Against = policies, against
	return &c
}

// shownReadings and shownHPA are those whose differences the page has in full.
var (
	shownReadings = []string{"slocost-a", "slocost-b", "slocost-c", "slocost-b-wait"}
	shownHPA      = []string{"hpa60"}
	allReadings   = []string{"slocost-a", "slocost-b", "slocost-c", "slocost-a-wait", "slocost-b-wait", "slocost-c-wait"}
)

// apart is how far the readings are from the HPA, with the marks of one claim for each measure.
func (p *played) apart(tables map[string]testbed.Table) {
	for _, kind := range loads {
		for measure, claim := range map[string]string{"p90Ms": "faster", "costUnits": "cheaper"} {
			c := p.claim(claim, shownReadings, shownHPA)
			t := c.Differences(c.Try(p.of[kind]))
			tables[fmt.Sprintf("apart %s %s", measure, kind)] = without(t, "measure")
		}
	}
}

// trends is how the distances go with the users.
func (p *played) trends(tables map[string]testbed.Table) {
	out := testbed.Table{Head: []string{"policy", "against", "measure"}, Left: 3}
	for _, kind := range loads {
		for n, claim := range []string{"gains-with-users", "grows-slower"} {
			c := p.claim(claim, allReadings, shownHPA)
			out.Head = append(out.Head, fmt.Sprintf("%s, %s", []string{"in parts of the HPA's", "slope less the HPA's"}[n], kind))
			for i, row := range c.Differences(c.Try(p.of[kind])).Rows {
				if len(out.Rows) <= i {
					out.Rows = append(out.Rows, row[:3:3])
				}
				out.Rows[i] = append(out.Rows[i], row[3])
			}
		}
	}
	tables["trends"] = out
}

// claims is what became of each claim under each load, in how many comparisons.
func (p *played) claims() testbed.Table {
	out := testbed.Table{Head: []string{"claim"}, Left: 1}
	for _, kind := range loads {
		t := p.Claimed(p.of[kind])
		for _, h := range t.Head[1:] {
			out.Head = append(out.Head, fmt.Sprintf("%s, %s", h, kind))
		}
		for i, row := range t.Rows {
			if len(out.Rows) <= i {
				out.Rows = append(out.Rows, []string{row[0]})
			}
			out.Rows[i] = append(out.Rows[i], row[1:]...)
		}
	}
	return out
}

// verdicts is a row for each claim. It has what the claim says, and by how much reading B is from
// the HPA at 60 % with the fewest and with the most users, or how far from its bound. It also has
// in how many of all comparisons the claim comes out, and whether it does between any two policies
// at all levels, as it is said to.
func (p *played) verdicts() testbed.Table {
	out := testbed.Table{Head: []string{"claim", "in our words", "of the measures", "sleep", "pace", "comes out, sleep", "comes out, pace", "verdict"}, Left: 3}
	for i := range p.Claims {
		c := &p.Claims[i]
		row := []string{c.Name, c.Text, ""}
		counts := []string{}
		everywhere, pairs := 0, 0
		for _, kind := range loads {
			n, all := 0, c.Try(p.of[kind])
			for j := range all {
				if all[j].ComesOut() {
					n++
				}
			}
			for _, v := range testbed.Verdicts(all) {
				if pairs++; strings.Contains(v, "comes out at every level") {
					everywhere++
				}
			}
			counts = append(counts, fmt.Sprintf("%d of %d", n, len(all)))
			measures, numbers := p.ends(c, kind)
			row[2] = measures
			row = append(row, numbers)
		}
		row = append(row, counts...)
		out.Rows = append(out.Rows, append(row, inWords(everywhere, pairs)))
	}
	return out
}

func inWords(everywhere, pairs int) string {
	switch everywhere {
	case 0:
		return "does not come out"
	case pairs:
		return "comes out"
	}
	return fmt.Sprintf("comes out at every level for %d of %d", everywhere, pairs)
}

// ends are a claim's measures, and what its differences are at its first and at its last level.
func (p *played) ends(c *testbed.Claim, kind sim.Kind) (measures, numbers string) {
	pick := func(all []string, want string) []string {
		if len(all) == 0 || slices.Contains(all, want) {
			return []string{want}[:min(1, len(all))]
		}
		return all[:1]
	}
	one := *c
	one.Policies, one.Against = pick(c.Policies, "slocost-b"), pick(c.Against, "hpa60")
	t := one.Differences(one.Try(p.of[kind]))
	var names, values []string
	for _, row := range t.Rows {
		names = append(names, row[2])
		value := fmt.Sprintf("%s at %s", row[3], t.Head[3])
		if last := len(row) - 1; last > 3 {
			value += fmt.Sprintf(", %s at %s", row[last], t.Head[last])
		}
		values = append(values, value)
	}
	return strings.Join(names, "<br>"), strings.Join(values, "<br>")
}

// pairs is between which policies a claim comes out at every level, and at how many of them else.
func (p *played) pairs(name string) testbed.Table {
	out := testbed.Table{Head: []string{"load", "policy"}, Left: 2}
	for _, kind := range loads {
		for i := range p.Claims {
			c := p.Claims[i]
			if c.Name != name {
				continue
			}
			if len(out.Head) == 2 {
				out.Head = append(out.Head, c.Against...)
			}
			for _, policy := range c.Policies {
				row := []string{string(kind), policy}
				for _, against := range c.Against {
					one := c
					one.Policies, one.Against = []string{policy}, []string{against}
					row = append(row, won(one.Try(p.of[kind])))
				}
				out.Rows = append(out.Rows, row)
			}
		}
	}
	return out
}

// won names the levels at which a claim comes out.
func won(all []testbed.Comparison) string {
	var at []string
	for i := range all {
		if all[i].ComesOut() {
			at = append(at, all[i].At)
		}
	}
	if len(at) == 0 {
		return "–"
	}
	return strings.Join(at, ", ")
}

func without(t testbed.Table, column string) testbed.Table {
	i := slices.Index(t.Head, column)
	cut := func(row []string) []string { return slices.Delete(slices.Clone(row), i, i+1) }
	out := testbed.Table{Head: cut(t.Head), Left: t.Left - 1}
	for _, row := range t.Rows {
		out.Rows = append(out.Rows, cut(row))
	}
	return out
}

// settings are other readings of what the paper leaves open, each by what is changed in the
// experiment.
var settings = []struct{ title, from, to string }{
	{"as in slo-cost", "", ""},
	{"a request takes 25 ms of CPU", "demand: {mean: 50ms", "demand: {mean: 25ms"},
	{"a request takes 100 ms of CPU", "demand: {mean: 50ms", "demand: {mean: 100ms"},
	{"4 pods to a machine: no sidecar, nothing kept for the system", "requests: {cpu: 600m", "requests: {cpu: 500m"},
	{"at most 8 machines and 24 pods", "max: 48, start: 1}", "max: 24, start: 1}"},
	{"pods are drawn at random", "balance: least-of-two", "balance: random"},
	{"the policy goes by the last 30 minutes", "target: 300ms, window: 60s}", "target: 300ms, window: 30m}"},
}

// otherwise is what becomes of the paper's first claim in each of the settings: in how many of 60
// comparisons it comes out, of the three readings, literally, with four HPAs at five numbers of
// users.
func otherwise(t *testing.T) testbed.Table {
	out := testbed.Table{Left: 1, Head: []string{"setting"}}
	for _, s := range settings {
		text := strings.ReplaceAll(file(t, "slo-cost"), s.from, s.to)
		if s.from == "" {
			text = file(t, "slo-cost")
		}
		switch { // what goes with it
		case strings.Contains(s.to, "500m"):
			text = strings.ReplaceAll(text, "reserved: {cpu: 200m", "reserved: {cpu: 0m")
		case strings.Contains(s.to, "max: 24"):
			text = strings.ReplaceAll(text, "max: 16\n", "max: 8\n")
		}
		e := parsed(t, text)
		p := play(t, e, testbed.Options{
			Users:    []int{10, 40, 80, 120, 200},
			Policies: []string{"hpa50", "hpa60", "hpa70", "hpa80", "slocost-a", "slocost-b", "slocost-c"},
		})
		row := []string{s.title}
		for _, kind := range loads {
			for _, claim := range []string{"faster", "cheaper", "outperforms"} {
				if len(out.Rows) == 0 {
					out.Head = append(out.Head, fmt.Sprintf("%s, %s", claim, kind))
				}
				c := p.claim(claim, allReadings[:3], []string{"hpa50", "hpa60", "hpa70", "hpa80"})
				n := 0
				for _, x := range c.Try(p.of[kind]) {
					if x.ComesOut() {
						n++
					}
				}
				row = append(row, fmt.Sprint(n))
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// comeTo plays the experiments and returns the page's tables by name; those that are about all
// users only where all are played. Beside them are the figures, by the names of their files.
func comeTo(t *testing.T) (map[string]testbed.Table, map[string][]byte) {
	options := part
	if *whole {
		options = map[string]testbed.Options{}
	}
	tables, figures := map[string]testbed.Table{}, map[string][]byte{}
	paper := play(t, parsed(t, file(t, "slo-cost")), options["slo-cost"])
	rivals := play(t, parsed(t, file(t, "slo-cost-rivals")), options["slo-cost-rivals"])
	paper.measured(tables, "paper")
	paper.apart(tables)
	rivals.measured(tables, "rivals")
	if !*whole {
		return tables, figures
	}
	paper.trends(tables)
	tables["verdicts"], tables["rivals claims"] = paper.verdicts(), rivals.claims()
	tables["outperforms"], tables["rivals outperform"] = paper.pairs("outperforms"), rivals.pairs("outperforms")
	tables["otherwise"] = otherwise(t)
	for _, kind := range loads {
		r := *paper.of[kind]
		r.Summary = slices.DeleteFunc(slices.Clone(r.Summary), func(s testbed.Summary) bool { return strings.HasSuffix(s.Policy, "-wait") })
		for _, f := range Figures(paper.Experiment, &r) {
			if f.Name != "p90" && f.Name != "cost" { // the paper's two
				continue
			}
			figures[fmt.Sprintf("%s-%s.svg", f.Name, kind)] = f.SVG
		}
	}
	return tables, figures
}

// TestThePaperPageTellsWhatComesOut plays the paper's experiments at their full length, at two
// numbers of users or, with -whole, all of them, and looks for every number on the page.
func TestThePaperPageTellsWhatComesOut(t *testing.T) {
	race.Skip(t)
	if *update {
		*whole = true
	}
	tables, figures := comeTo(t)
	data := must.Get(os.ReadFile(paperPage))(t)
	page := string(data)
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		table := tables[name]
		block := regexp.MustCompile(`(?s)(<!-- ` + regexp.QuoteMeta(name) + ` -->\n)(.*?)(<!-- end -->)`)
		found := block.FindStringSubmatch(page)
		switch {
		case found == nil && *update:
			t.Logf("the page has no %s", name)
		case found == nil:
		case *update:
			page = strings.Replace(page, found[0], found[1]+markdown(&table)+found[3], 1)
		case *whole:
			if diff := cmp.Diff(markdown(&table), found[2]); diff != "" {
				t.Errorf("%s: -what comes out +what the page says\n%s", name, diff)
			}
		default:
			compareCells(t, name, &table, found[2])
		}
	}
	if *update {
		must.Do(t, os.WriteFile(paperPage, []byte(page), 0o644))
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		path := filepath.Join(filepath.Dir(paperPage), "paper", name)
		if *update {
			must.Do(t, os.WriteFile(path, figures[name], 0o644))
		}
		if on, err := os.ReadFile(path); err != nil || string(on) != string(figures[name]) {
			t.Errorf("%s is another than what comes out, or is not there: %v", path, err)
		}
	}
}

// TestThePaperPageHasNoOtherTables sees that no block is left that nothing is compared with, and
// that what a part is played of is there.
func TestThePaperPageHasNoOtherTables(t *testing.T) {
	data := must.Get(os.ReadFile(paperPage))(t)
	known := []string{"end", "verdicts", "trends", "outperforms", "otherwise", "rivals claims", "rivals outperform"}
	for _, kind := range loads {
		for _, of := range []string{"paper p90Ms", "paper costUnits", "paper sloViolationMinutes", "apart p90Ms", "apart costUnits", "rivals p90Ms", "rivals costUnits", "rivals sloViolationMinutes"} {
			known = append(known, fmt.Sprintf("%s %s", of, kind))
		}
	}
	for _, m := range regexp.MustCompile(`<!-- (.*?) -->`).FindAllStringSubmatch(string(data), -1) {
		if !slices.Contains(known, m[1]) {
			t.Errorf("nothing fills in %q", m[1])
		}
	}
	for _, name := range []string{"verdicts", "paper p90Ms sleep", "paper costUnits pace", "apart p90Ms sleep", "rivals p90Ms sleep"} {
		if !strings.Contains(string(data), "<!-- "+name+" -->\n|") {
			t.Errorf("the page has no table %q", name)
		}
	}
}

// compareCells looks for every cell of a table in the page's larger one.
func compareCells(t *testing.T, name string, table *testbed.Table, block string) {
	t.Helper()
	var rows [][]string
	for line := range strings.Lines(block) {
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	for _, want := range table.Rows {
		i := slices.IndexFunc(rows, func(row []string) bool { return slices.Equal(row[:table.Left], want[:table.Left]) })
		if i < 0 {
			if want[0] != "slocost-b" || strings.HasPrefix(name, "apart") {
				t.Errorf("%s: the page has no row %v", name, want[:table.Left])
			}
			continue
		}
		for j := table.Left; j < len(want); j++ {
			if k := slices.Index(rows[0], table.Head[j]); k < 0 || rows[i][k] != want[j] {
				t.Errorf("%s: %s at %s comes out as %s, and the page has %s", name, want[0], table.Head[j], want[j], rows[i][max(k, 0)])
			}
		}
	}
}

// markdown is a table as the page has it.
func markdown(t *testbed.Table) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Head)
	rules := make([]string, len(t.Head))
	for i := range rules {
		rules[i] = "---"
		if i >= t.Left {
			rules[i] = "--:"
		}
	}
	line(rules)
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}
