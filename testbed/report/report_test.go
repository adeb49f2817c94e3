package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/figure"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// experiment runs one that comes with the program, in short.
func experiment(t *testing.T, name string, o testbed.Options) *Report {
	t.Helper()
	file := must.Get(testbed.File(name))(t)
	e := must.Get(testbed.Parse(file))(t)
	o.Version, o.Trials = "v1.2.3", 2
	r := must.Get(testbed.Run(t.Context(), e, o))(t)
	return &Report{Experiment: e, Results: r, File: file}
}

func html(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.WriteHTML(&b))
	return b.String()
}

func sweep(t *testing.T) *Report {
	return experiment(t, "slo-cost-calibration", testbed.Options{Users: []int{10, 60}, Policies: []string{"hpa60", "slocost-b"}})
}

func TestThePageLoadsNothing(t *testing.T) {
	text := strings.ReplaceAll(html(t, sweep(t)), `xmlns="http://www.w3.org/2000/svg"`, "")
	for _, bad := range []string{"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
}

func TestThePageTellsAll(t *testing.T) {
	r := sweep(t)
	text := html(t, r)
	for _, want := range []string{
		"<h1>The SLO-and-cost experiment as a reference implementation measured it</h1>",
		"An independent simulator of the same test bed, with its own implementation",
		`<th class="l" scope="row">slocost-b</th>`,          // a row of the tables
		"has both a lower 90th percentile of response time", // the claim
		"comparisons",             // and what became of it
		"slocost-b against hpa60", // in words
		"means of 5 trials",       // the reference
		" values are further apart than the tolerance",               //
		"joined nodes only, as OpenCost sees them",                   // a reading
		"2 vCPU, 8GB, 10 units/h, 1 to 16 of them",                   // a parameter
		"metrics: [{type: Resource, name: cpu, averageValue: 250m}]", // the file
		"minutes over the target (min)",                              // a measure
		"run experiment.yaml --world sim --users 10,60 --policies hpa60,slocost-b --trials 2 --out .",
		"plimsoll v1.2.3 · ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// Response time, cost, and two of what each of two policies did over time, each with a table.
	if n, tables := strings.Count(text, `<svg xmlns="http://www.w3.org/2000/svg" class="pf"`), regexp.MustCompile(`<figure(?s:.*?)<table(?s:.*?)</figure>`).FindAllString(text, -1); n != 6 || len(tables) != 6 {
		t.Errorf("%d figures and %d of them with a table, want 6", n, len(tables))
	}
	if strings.Contains(text, "Interrupted") {
		t.Error("a whole experiment is called interrupted")
	}
	r.Results.Runs[0].Warning = "the machine was busy"
	if !strings.Contains(html(t, r), "<strong>Warning:</strong> hpa60 at 10, trial 1: the machine was busy.") {
		t.Error("a warning is not shown")
	}
	r.Results.Planned++
	if !strings.Contains(html(t, r), "<strong>Interrupted:</strong> 8 of 9 runs were made.") {
		t.Error("a missing run is not shown")
	}
}

func TestThePageRepeatsButForTheTimeItTook(t *testing.T) {
	one, other := sweep(t), sweep(t)
	if a, b := html(t, one), html(t, other); a != b {
		t.Error(cmp.Diff(a, b))
	}
	other.Took = 2 * time.Second
	if text := html(t, other); !regexp.MustCompile(`\d+ requests were simulated in 2\.0 s, \d\.\d million a second\.`).MatchString(text) {
		t.Error("the time that it took is not shown")
	}
}

// seriesIn returns the names of the series in a drawing, and fails if it is no XML.
func seriesIn(t *testing.T, svg []byte) []string {
	t.Helper()
	var names []string
	in := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "data-series" {
					names = append(names, a.Value)
				}
			}
		}
	}
}

func names(figures []Figure) []string {
	var out []string
	for _, f := range figures {
		out = append(out, f.Name)
	}
	return out
}

func TestTheRequestsOfEachMinuteAreDrawn(t *testing.T) {
	r := sweep(t)
	f := Figures(r.Experiment, r.Results)[2]
	if diff := cmp.Diff([]string{"requests", "late"}, seriesIn(t, f.SVG)); diff != "" {
		t.Error(diff)
	}
	run := kept(r.Results, "hpa60", testbed.Level{Users: 60})
	late := 0
	for i, m := range run.Minutes {
		late += m.Late
		if diff := cmp.Diff([]string{fmt.Sprint(i), fmt.Sprint(m.Requests), fmt.Sprint(m.Late)}, f.Table.Rows[i]); diff != "" {
			t.Error(diff)
		}
	}
	if got := float64(run.LateShare) * float64(run.Requests); late == 0 || math.Abs(got-float64(late)) > .01*got {
		t.Errorf("%d late requests in all minutes, %.0f in the whole run", late, got)
	}
	for i := range r.Results.Runs {
		r.Results.Runs[i].Minutes = nil // as those of an earlier version in the lab
	}
	if diff := cmp.Diff([]string{"p90", "cost", "course-hpa60", "course-slocost-b"}, names(Figures(r.Experiment, r.Results))); diff != "" {
		t.Error(diff)
	}
}

func TestTheCourseOfATrialIsDrawnWithItsChanges(t *testing.T) {
	r := sweep(t)
	f := Figures(r.Experiment, r.Results)[3]
	if diff := cmp.Diff([]string{"machines", "replicas", "replicas changed", "machines changed"}, seriesIn(t, f.SVG)); diff != "" {
		t.Error(diff)
	}
	run := kept(r.Results, "hpa60", testbed.Level{Users: 60})
	if run == nil {
		t.Fatal("results keep no course")
	}
	for _, m := range run.Path[1 : len(run.Path)-1] {
		at := testbed.Show(float64(m.Seconds)/60, 1)
		if !strings.Contains(string(f.SVG), fmt.Sprintf("<title>replicas changed: %s min, %d ", strings.TrimSuffix(at, ".0"), m.Replicas)) {
			t.Errorf("the change to %d replicas at %s min is not marked", m.Replicas, at)
		}
	}
	// Every change has a row, with both numbers as they were then.
	for _, c := range run.Machines {
		row := slices.IndexFunc(f.Table.Rows, func(row []string) bool { return row[0] == number(float64(c.Seconds)/60) })
		if row < 0 || f.Table.Rows[row][1] != fmt.Sprint(c.Machines) {
			t.Errorf("%d machines at %v s are in no row of %v", c.Machines, c.Seconds, f.Table.Rows)
		}
	}
}

func TestATableTellsWhatAFigureShows(t *testing.T) {
	c := &figure.Chart{
		Title: "It", X: figure.Axis{Title: "users"}, Y: figure.Axis{Title: "time", Unit: "ms", Lines: []figure.Line{{At: 150, Label: "objective", Limit: true}}},
		Series: []figure.Series{
			{Name: "a", Points: []figure.Point{{X: 10, Y: 100, Low: 90, High: 110}, {X: 20, Y: 200, Low: 200, High: 200}}},
			{Name: "b", Points: []figure.Point{{X: 20, Y: 1.5, Low: 1, High: 4}}},
			{Name: "guide", Guide: true, Points: []figure.Point{{X: 15, Y: 1, Low: 1, High: 1}}},
		},
	}
	want := testbed.Table{
		Caption: "It: time (ms); ✗ is over the objective", Head: []string{"users", "a", "b"}, Left: 1,
		Rows: [][]string{{"10", "100 ± 10", "–"}, {"20", "200 ✗", "1.50 (1 to 4)"}},
	}
	if diff := cmp.Diff(want, tabulate(c)); diff != "" {
		t.Error(diff)
	}
	c.Series = append(c.Series, figure.Series{Name: "c", Points: []figure.Point{at(10, 7)}})
	want.Head, want.Rows = []string{"by users", "10", "20"}, [][]string{{"a", "100 ± 10", "200 ✗"}, {"b", "–", "1.50 (1 to 4)"}, {"c", "7", "–"}}
	if diff := cmp.Diff(want, tabulate(c)); diff != "" {
		t.Error(diff)
	}
	c.Series = c.Series[:2]
	c.Steps = true // a value lasts, and is one before as little as without steps
	if got := tabulate(c).Rows; got[0][2] != "–" || got[1][1] != "200 ✗" {
		t.Errorf("steps are %v", got)
	}
	c.Series = []figure.Series{{Name: "long"}}
	for i := range 1000 {
		c.Series[0].Points = append(c.Series[0].Points, at(float64(i), 1))
	}
	if got := tabulate(c); len(got.Rows) > mostRows || !strings.Contains(got.Caption, "one of each 17 points") {
		t.Errorf("%d rows: %s", len(got.Rows), got.Caption)
	}
	c.Scatter, c.Series = true, []figure.Series{{Name: "a", Points: []figure.Point{at(3, 4)}}}
	if diff := cmp.Diff([][]string{{"a", "3", "4"}}, tabulate(c).Rows); diff != "" {
		t.Error(diff)
	}
}

func TestFiguresHaveEveryPolicy(t *testing.T) {
	r := sweep(t)
	figures := Figures(r.Experiment, r.Results)
	if diff := cmp.Diff([]string{"p90", "cost", "requests-hpa60", "course-hpa60", "requests-slocost-b", "course-slocost-b"}, names(figures)); diff != "" {
		t.Fatal(diff)
	}
	for i, line := range []string{"objective 300 ms", "target 40 per 30m"} {
		if diff := cmp.Diff([]string{"hpa60", "slocost-b"}, seriesIn(t, figures[i].SVG)); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(string(figures[i].SVG), line) {
			t.Errorf("%s has no line for %s", figures[i].Name, line)
		}
	}
	s := experiment(t, "six-scenarios", testbed.Options{Scenarios: []string{"const60", "flash"}, Policies: []string{"hpa80", "clairvoyant"}, Duration: 4 * time.Minute})
	figures = Figures(s.Experiment, s.Results)
	if diff := cmp.Diff([]string{"pareto", "requests-hpa80", "course-hpa80", "requests-clairvoyant", "course-clairvoyant"}, names(figures)); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]string{"hpa80", "clairvoyant"}, seriesIn(t, figures[0].SVG)); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(string(figures[0].SVG), `<path class="r"`); n != 1 {
		t.Errorf("%d frontiers", n)
	}
	if text := html(t, s); !strings.Contains(text, "× clairvoyant") {
		t.Error("costs are not compared with the yardstick's")
	}
}

// Where an experiment is about how replicas change, that is drawn first: each number lasts until
// the next.
func TestThePathsOfReplicasAreDrawn(t *testing.T) {
	r := experiment(t, "frss-expansion", testbed.Options{Trials: 1, Policies: []string{"fastslow", "hpa-v2"}})
	figures := Figures(r.Experiment, r.Results)
	if diff := cmp.Diff([]string{"replicas-100", "p90", "cost", "requests-fastslow", "course-fastslow", "requests-hpa-v2", "course-hpa-v2"}, names(figures)); diff != "" {
		t.Fatal(diff)
	}
	svg := string(figures[0].SVG)
	if diff := cmp.Diff([]string{"fastslow", "hpa-v2"}, seriesIn(t, figures[0].SVG)); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"fastslow: 0.5 min, 8 replicas asked for", "hpa-v2: 0.2 min, 5 replicas asked for", "hpa-v2: 12 min, 8 replicas asked for"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	page := html(t, r)
	for _, want := range []string{"Nine minutes are not what an HPA takes by default", "how replicas were changed"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "replica-minutes in the span") {
		t.Error("the page has a table of what nobody knows")
	}
}

func TestAnUnknownMeasureHasNoReach(t *testing.T) {
	unknown := testbed.Number(math.NaN())
	stat := map[string]testbed.Stat{"p90Ms": {Mean: unknown, SD: unknown, Low: unknown, High: unknown}}
	r := &testbed.Results{Summary: []testbed.Summary{{Policy: "hpa", Users: 10, Measures: stat}}}
	if c := responseTime(&testbed.Experiment{}, []testbed.Source{{Results: r}}); !strings.Contains(c.Desc, "for 1 policies, none of it known; ") {
		t.Error(c.Desc)
	}
}

func TestTheFactsHaveThePriceThatATrialBeginsWith(t *testing.T) {
	r := sweep(t)
	double := 2 * pricing.Hundred
	r.Experiment.Prices.Tariffs = []pricing.Tariff{{From: 0, To: 12 * 60, Weekdays: []pricing.Weekday{pricing.Weekday(time.Thursday)}, Percent: &double}}
	if !strings.Contains(html(t, r), "2 vCPU, 8GB, 20 units/h") {
		t.Error("the tariff of the first hour does not count")
	}
}

func TestTheFrontierIsWhatNoOtherBeats(t *testing.T) {
	p := func(x, y float64) figure.Point { return figure.Point{X: x, Y: y} }
	all := []figure.Point{p(5, 1), p(3, 4), p(4, 4), p(1, 9), p(3, 6), p(6, 1), p(2, 9)}
	got := frontier(all)
	if diff := cmp.Diff([]figure.Point{p(1, 9), p(3, 4), p(5, 1)}, got); diff != "" {
		t.Error(diff)
	}
	for _, a := range all {
		beaten := slices.ContainsFunc(all, func(b figure.Point) bool { return b.X <= a.X && b.Y <= a.Y && b != a })
		if beaten == slices.Contains(got, a) {
			t.Errorf("%v is beaten: %v", a, beaten)
		}
	}
}

func TestSourcesAreLaidSideBySide(t *testing.T) {
	one, other := sweep(t), sweep(t)
	other.Results.World = "lab"
	other.Results.Runs[0].Warning = "the machine was busy"
	b := &Beside{Experiment: one.Experiment, Sources: []testbed.Source{{Name: "sim", Results: one.Results}, {Name: "a <lab>", Results: other.Results}}}
	b.Experiment.Assertions = experiment(t, "slo-cost", testbed.Options{Users: []int{10}, Duration: time.Minute}).Experiment.Assertions
	var out bytes.Buffer
	must.Do(t, b.WriteHTML(&out))
	for _, want := range []string{
		"sim off a &lt;lab&gt;", "<h3>a &lt;lab&gt;</h3>", "<td>&#43;0.0 %  </td>", "<strong>Warning:</strong> a &lt;lab&gt;: hpa60 at 10, trial 1: the machine was busy.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	figures := b.Figures()
	if diff := cmp.Diff([]string{"p90", "cost", "requests-hpa60", "course-hpa60", "requests-slocost-b", "course-slocost-b"}, names(figures)); diff != "" {
		t.Fatal(diff)
	}
	courses := []string{"machines in sim", "replicas in sim", "machines in a <lab>", "replicas in a <lab>"}
	if diff := cmp.Diff(courses, seriesIn(t, figures[3].SVG)); diff != "" {
		t.Error(diff)
	}
	want := []string{"hpa60 in sim", "slocost-b in sim", "hpa60 in a <lab>", "slocost-b in a <lab>"}
	if diff := cmp.Diff(want, seriesIn(t, figures[0].SVG)); diff != "" {
		t.Error(diff)
	}
	for i := range other.Results.Runs {
		other.Results.Runs[i].Machines = nil // as results are that were written before they kept it
	}
	if diff := cmp.Diff([]string{"p90", "cost"}, names(b.Figures())); diff != "" {
		t.Error(diff)
	}
	b.Sources[1].Results.DurationSeconds++
	if err := b.WriteHTML(io.Discard); err == nil {
		t.Error("trials of different lengths are compared")
	}
}

// A machine may cost more on one host than on another: the price of no host would be that of none
// of them.
func TestParametersTellThePricesOfTheHosts(t *testing.T) {
	r := experiment(t, "slo-cost-calibration", testbed.Options{Users: []int{10}, Policies: []string{"hpa60"}, Duration: time.Minute})
	own := 3 * pricing.Unit
	r.Experiment.Hosts = append(r.Experiment.Hosts, testbed.Host{Name: "pve9"})
	r.Experiment.Prices.Hosts = map[string]pricing.HostPrices{r.Experiment.Hosts[0].Name: {Prices: pricing.Prices{PerVCPU: &own}}}
	text := fmt.Sprint(r.facts())
	if want := "2 vCPU, 8GB, 10 to 14 units/h, 1 to 16 of them"; !strings.Contains(text, want) {
		t.Errorf("%s is not in %s", want, text)
	}
	for _, h := range r.Experiment.Hosts {
		r.Experiment.Prices.Hosts[h.Name] = pricing.HostPrices{Prices: pricing.Prices{PerVCPU: &own}}
	}
	if text, want := fmt.Sprint(r.facts()), "8GB, 14 units/h"; !strings.Contains(text, want) {
		t.Errorf("%s is not in %s", want, text)
	}
}

// A 90th percentile misses no objective of another quantile, nor one of some of the requests.
func TestOnlyObjectivesOfWhatIsDrawnAreMissed(t *testing.T) {
	web := testbed.Workload{Name: "shop/web", SLO: testbed.SLO{P: .9, Target: 300 * time.Millisecond, Window: time.Minute}}
	api, median := web, web
	api.Name, api.SLO.Target = "shop/api", 100*time.Millisecond
	median.SLO.P = .5
	twin := web
	twin.Name = "shop/twin"
	for name, c := range map[string]struct {
		workloads []testbed.Workload
		want      []figure.Line
	}{
		"its own":          {[]testbed.Workload{web}, []figure.Line{{At: 300, Label: "objective 300 ms", Limit: true}}},
		"one for all":      {[]testbed.Workload{web, twin}, []figure.Line{{At: 300, Label: "objective 300 ms", Limit: true}}},
		"another's":        {[]testbed.Workload{median}, []figure.Line{{At: 300, Label: "objective 300 ms at the 50th"}}},
		"one for each":     {[]testbed.Workload{web, api}, []figure.Line{{At: 300, Label: "objective 300 ms of shop/web"}, {At: 100, Label: "objective 100 ms of shop/api"}}},
		"of two quantiles": {[]testbed.Workload{median, api}, []figure.Line{{At: 300, Label: "objective 300 ms at the 50th of shop/web"}, {At: 100, Label: "objective 100 ms of shop/api"}}},
	} {
		if diff := cmp.Diff(c.want, objectives(&testbed.Experiment{Workloads: c.workloads})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
