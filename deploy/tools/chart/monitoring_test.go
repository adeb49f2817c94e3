package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// catalogue are the series that the program exports, with their labels, from the list that its own
// tests hold it to.
func catalogue(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	series := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		m := regexp.MustCompile(`^(counter|gauge|histogram) (\w+)\{([\w,]*)\}: \S`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("metrics.txt: %q is not type name{labels}: help", line)
		}
		own := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' })
		if name := m[2]; m[1] == "histogram" {
			series[name+"_bucket"], series[name+"_count"], series[name+"_sum"] = append(slices.Clone(own), "le"), own, own
		} else {
			series[name] = own
		}
	}
	return series
}

// Labels that a scrape adds, or whoever joins several Prometheus.
var added = []string{"__name__", "cluster", "instance", "job", "namespace", "pod"}

// checkQuery has Prometheus' own parser read a query, and wants every series in it to be one that
// is exported, with labels that it has.
func checkQuery(t *testing.T, series map[string][]string, where, query string) {
	t.Helper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, query)
		return
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		own, known := series[selector.Name]
		if !known {
			t.Errorf("%s: nobody exports %s", where, selector.Name)
		}
		for _, m := range selector.LabelMatchers {
			if known && !slices.Contains(own, m.Name) && !slices.Contains(added, m.Name) {
				t.Errorf("%s: %s has no label %s, only %v", where, selector.Name, m.Name, own)
			}
		}
		return nil
	})
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if sum, ok := node.(*parser.AggregateExpr); ok && !sum.Without {
			checkGrouping(t, series, where, sum)
		}
		return nil
	})
}

// checkGrouping wants what is grouped by to be there to group by.
func checkGrouping(t *testing.T, series map[string][]string, where string, sum *parser.AggregateExpr) {
	t.Helper()
	var there []string
	parser.Inspect(sum.Expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			there = append(there, series[selector.Name]...)
		}
		return nil
	})
	for _, label := range sum.Grouping {
		if !slices.Contains(there, label) && !slices.Contains(added, label) {
			t.Errorf("%s: grouped by %s, which is not in %s", where, label, sum.Expr)
		}
	}
}

// rule is an alert.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "files/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

// An alert that asks for a series which no one exports never fires.
func TestAlertsAskForWhatIsExported(t *testing.T) {
	series := catalogue(t)
	for _, a := range alerts(t) {
		checkQuery(t, series, a.Alert, a.Expr)
		checkTemplates(t, series, a)
	}
}

// checkTemplates wants labels that a text shows to be among those that the query's series have.
func checkTemplates(t *testing.T, series map[string][]string, a rule) {
	t.Helper()
	for key, text := range a.Annotations {
		for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
			there := slices.ContainsFunc(namesIn(t, a.Expr), func(name string) bool { return slices.Contains(series[name], m[1]) })
			if !there {
				t.Errorf("%s: %s shows a label %s that is not there", a.Alert, key, m[1])
			}
		}
	}
}

func namesIn(t *testing.T, query string) []string {
	t.Helper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, matchers := range parser.ExtractSelectors(tree) {
		for _, m := range matchers {
			if m.Name == model.MetricNameLabel {
				names = append(names, m.Value)
			}
		}
	}
	return names
}

// Whoever is woken up reads what to do; and every page is of an alert that exists.
func TestEveryAlertHasItsPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(string(text), -1) {
		pages[m[1]] = true
	}
	for _, a := range alerts(t) {
		if want := "docs/alerts.md#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %s, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if !pages[a.Alert] {
			t.Errorf("docs/alerts.md has no heading %s", a.Alert)
		}
		delete(pages, a.Alert)
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || !slices.Contains([]string{"warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("%s: lacks a summary, a description or a severity: %v %v", a.Alert, a.Annotations, a.Labels)
		}
	}
	for page := range pages {
		t.Errorf("docs/alerts.md tells of %s, which no alert is", page)
	}
}

// What the chart renders are the alerts of the file, with addresses that can be followed.
func TestRenderedAlertsAreThoseOfTheFile(t *testing.T) {
	r := render(t, `{components: [podscaler], prometheusRule: {enabled: true, runbookURL: "https://example.org/runbooks"}}`, withMonitoring...)
	object := only[*unstructured.Unstructured](t, r)
	text, err := yaml.Marshal(object.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	want := alerts(t)
	for _, a := range want {
		if !strings.Contains(string(text), "alert: "+a.Alert+"\n") || !strings.Contains(string(text), "https://example.org/runbooks#"+strings.ToLower(a.Alert)+"\n") {
			t.Errorf("%s is not rendered, or without its page", a.Alert)
		}
	}
	if strings.Contains(string(text), "docs/alerts.md") {
		t.Error("an address stays as it is in the file")
	}
}

// dashboard is as much of Grafana's format as is looked at.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct {
			Name, Type, AllValue string
			Query                json.RawMessage
			IncludeAll           bool
			Hide                 int
		}
	}
	Panels []struct {
		ID         int
		Type       string
		Title      string
		GridPos    struct{ X, Y, W, H int }
		Datasource struct{ UID string }
		Targets    []struct {
			RefID, Expr string
			Datasource  struct{ UID string }
		}
	}
}

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(chartDir, "files/dashboards/*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	var all []dashboard
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, d)
	}
	return all
}

// variable is what Grafana puts in for a name.
var variable = regexp.MustCompile(`\$(\w+)`)

// A panel that asks for a series which no one exports stays empty, and no one knows why.
func TestPanelsAskForWhatIsExported(t *testing.T) {
	series := catalogue(t)
	for _, d := range dashboards(t) {
		known := map[string]bool{}
		for _, v := range d.Templating.List {
			known[v.Name] = true
			if v.Type == "query" {
				checkVariable(t, series, d.Title+" "+v.Name, v.Query)
			}
		}
		for _, p := range d.Panels {
			where := fmt.Sprintf("%s: %s", d.Title, p.Title)
			for _, target := range p.Targets {
				for _, m := range variable.FindAllStringSubmatch(target.Expr, -1) {
					if !known[m[1]] {
						t.Errorf("%s: no variable %s", where, m[1])
					}
				}
				checkQuery(t, series, where, variable.ReplaceAllString(target.Expr, ".*"))
				if p.Datasource.UID != "${datasource}" || target.Datasource.UID != "${datasource}" {
					t.Errorf("%s asks a data source of its own", where)
				}
			}
		}
	}
}

// checkVariable reads label_values(selector, label).
func checkVariable(t *testing.T, series map[string][]string, where string, query json.RawMessage) {
	t.Helper()
	var q struct{ Query string }
	if err := json.Unmarshal(query, &q); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(q.Query)
	if m == nil {
		t.Errorf("%s: %s is not label_values(series, label)", where, q.Query)
		return
	}
	selector := variable.ReplaceAllString(m[1], ".*")
	checkQuery(t, series, where, selector)
	for _, name := range namesIn(t, selector) {
		if !slices.Contains(series[name], m[2]) && !slices.Contains(added, m[2]) {
			t.Errorf("%s: %s has no label %s", where, name, m[2])
		}
	}
}

// A variable that hides everything where its label is not there has emptied many a dashboard.
func TestVariablesMayBeLeftAlone(t *testing.T) {
	for _, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if v.Hide != 0 || v.Type == "query" && (!v.IncludeAll || v.AllValue != ".*") {
				t.Errorf("%s: %s is hidden, or cannot stand for all", d.Title, v.Name)
			}
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				if strings.Contains(strings.ReplaceAll(target.Expr, `=~"$`, ""), `="$`) {
					t.Errorf("%s: %s matches a variable word by word", d.Title, p.Title)
				}
			}
		}
	}
}

func TestPanelsDoNotCoverEachOther(t *testing.T) {
	for _, d := range dashboards(t) {
		ids := map[int]bool{}
		for i, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels are %d", d.Title, p.ID)
			}
			ids[p.ID] = true
			a := p.GridPos
			if a.X+a.W > 24 {
				t.Errorf("%s: %s is too wide", d.Title, p.Title)
			}
			for _, q := range d.Panels[:i] {
				b := q.GridPos
				if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Errorf("%s: %s lies on %s", d.Title, p.Title, q.Title)
				}
			}
		}
	}
}
