package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/replay/hpaplus"
)

// counted runs an experiment that replays counts, in short.
func counted(t *testing.T, name string) *Replay {
	t.Helper()
	file := must.Get(testbed.File(name))(t)
	e := must.Get(hpaplus.Parse(file))(t)
	o := hpaplus.Options{Trials: 1, Version: "v1.2.3"}
	switch e.Replay.Compare {
	case hpaplus.Models:
	case hpaplus.Forecasters:
		o.Rows = []string{"ar", "last"}
	default:
		e.Replay.Train, e.Replay.Rows = 1, []string{"hpa", "hpa-plus", "naive"}
		e.Replay.Entrants = []forecast.Spec{{Type: "AR"}, {Type: "Last"}}
	}
	r := must.Get(hpaplus.Run(t.Context(), e, o))(t)
	return &Replay{Experiment: e, Results: r, File: file}
}

func countedPage(t *testing.T, r *Replay) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.WriteHTML(&b))
	return b.String()
}

// Each has the figures that suit what it compares, and a page that loads nothing.
func TestPagesOfCountedLoadsHaveTheirFigures(t *testing.T) {
	for name, want := range map[string][]string{
		"hpaplus-figure5": {},
		"hpaplus-models":  {"accuracy"},
		"hpaplus-table2":  {"excess-pods-mmpp", "excess-mse-mmpp"},
		"hpaplus-table3":  {"tradeoff-mmpp", "tradeoff-diurnal"},
		"hpaplus-scale": {
			"pods-lostChange-mmpp", "pods-cost0.01-mmpp", "pods-cost0.01-diurnal", "pods-cost0.1-mmpp", "pods-cost0.1-diurnal", "pods-cost1-mmpp", "pods-cost1-diurnal",
			"pods-cost10-mmpp", "pods-cost10-diurnal", "pods-cost100-mmpp", "pods-cost100-diurnal",
		},
		"hpaplus-strategies": {
			"tradeoff-mmpp", "tradeoff-diurnal", "course-mmpp-0.85", "course-mmpp-0.9", "course-mmpp-0.95", "course-diurnal-0.85", "course-diurnal-0.9", "course-diurnal-0.95",
		},
		"hpaplus-race":  {"leaders-mmpp", "leaders-diurnal"},
		"hpaplus-grid":  {"threshold-lostChange-mmpp"},
		"hpaplus-equal": {"excess-lostRatio-mmpp"},
	} {
		t.Run(name, func(t *testing.T) {
			r := counted(t, name)
			var got []string
			for _, f := range r.Figures() {
				got = append(got, f.Name)
				seriesIn(t, f.SVG)
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("figures are %v, want %v", got, want)
			}
			text := strings.ReplaceAll(countedPage(t, r), `xmlns="http://www.w3.org/2000/svg"`, "")
			for _, bad := range []string{"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"} {
				if strings.Contains(text, bad) {
					t.Errorf("the page has %s", bad)
				}
			}
		})
	}
}

func TestThePageOfACountedLoadTellsAll(t *testing.T) {
	r := counted(t, "hpaplus-race")
	text := countedPage(t, r)
	for _, want := range []string{
		"<h1>Who decides in HPA&#43;, when and why</h1>",
		"Figure 12", // what it shows
		`<th class="l" scope="row">hpa-plus</th>`,
		"who decided, % of the time",
		"changes</summary>", // when, and why
		"Beside what was published",
		"fewer samples than the window", // a reading
		"<dt>in the race</dt><dd>AR, Last</dd>",
		"plimsoll testbed run experiment.yaml --trials 1 --out .",
		"plimsoll v1.2.3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(text, "Interrupted") {
		t.Error("a whole experiment is called interrupted")
	}
	r.Results.Planned++
	if !strings.Contains(countedPage(t, r), "<strong>Interrupted:</strong> 2 of 3 draws and recordings were played.") {
		t.Error("a missing run is not shown")
	}
}
