//go:build browser

package browsertest

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/replay/hpaplus"
)

// page is a page that the program wrote, with numbers that must are in the tables of its figures.
type page struct {
	name, file string
	spots      []spot
}

// spot is a number in a figure's table: in the first row that begins so, in the column whose head
// does.
type spot struct {
	figure, row, column string
	want                float64
	total               bool // of the whole column
}

// site is where the program is run and leaves its pages.
type site struct {
	t      *testing.T
	folder string
}

// build builds the program, or takes it from where it was built for another test.
func build(t *testing.T) *site {
	t.Helper()
	s := &site{t, t.TempDir()}
	if built.program == "" {
		built.program = filepath.Join(built.folder, "plimsoll")
		s.run("go", "build", "-o", built.program, "github.com/plimsoll/plimsoll/cmd/plimsoll")
	}
	return s
}

// built is the program, which is the same for all tests.
var built struct{ folder, program string }

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "plimsoll-browser")
	if err != nil {
		panic(err)
	}
	built.folder = folder
	code := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// run runs a program. That an assertion is missed is no fault here: experiments are cut short.
func (s *site) run(name string, args ...string) {
	s.t.Helper()
	cmd := exec.Command(name, args...)
	if name != "go" {
		cmd.Dir = s.folder
	}
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 99 {
		return
	}
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// plimsoll runs the program, which writes to a folder.
func (s *site) plimsoll(folder string, args ...string) {
	s.t.Helper()
	s.run(built.program, append(args, "--out", folder)...)
}

func (s *site) path(elements ...string) string {
	return filepath.Join(append([]string{s.folder}, elements...)...)
}

// pages are one of each kind that the program writes.
func (s *site) pages() []page {
	s.t.Helper()
	s.plimsoll("users", "testbed", "run", "slo-cost", "--users", "10,60,100", "--trials", "3", "--for", "10m", "--quiet")
	s.plimsoll("scenarios", "testbed", "run", "six-scenarios", "--scenarios", "const60,ramp,flash", "--trials", "2", "--quiet")
	s.plimsoll("paths", "testbed", "run", "frss-shrink", "--trials", "1", "--quiet")
	s.plimsoll("counts", "testbed", "run", "hpaplus-strategies", "--trials", "1", "--quiet")
	s.plimsoll("simulate", "simulate", "--trace", "diurnal", "--policies", "hpa,hpa-plus,ensemble", "--trace-length", "3d", "--train", "2d", "--quiet")
	s.inAnotherWorld("users", "lab")
	s.plimsoll("beside", "testbed", "report", "users", "lab")
	s.plimsoll("again", "testbed", "run", "slo-cost", "--users", "10,60,100", "--trials", "3", "--for", "10m", "--seed", "7", "--quiet")
	s.plimsoll("three", "testbed", "report", "users", "lab", "again")
	s.inAnotherWorld("scenarios", "scenarios-lab")
	s.plimsoll("scenarios-beside", "testbed", "report", "scenarios", "scenarios-lab")
	return []page{
		{"users", s.path("users", "report.html"), s.ofUsers("users", "")},
		{"scenarios", s.path("scenarios", "report.html"), s.ofScenarios("scenarios", "")},
		{"paths of replicas", s.path("paths", "report.html"), s.ofPaths("paths")},
		{"counted loads", s.path("counts", "report.html"), s.ofCounts("counts")},
		{"a simulated load", s.path("simulate", "report.html"), s.ofSimulate("simulate")},
		{"two worlds", s.path("beside", "report.html"), append(s.ofUsers("users", " in sim"), s.ofUsers("lab", " in lab")...)},
		{"three runs", s.path("three", "report.html"), slices.Concat(s.ofUsers("users", " in users"), s.ofUsers("lab", " in lab"), s.ofUsers("again", " in again"))},
		{"scenarios in two worlds", s.path("scenarios-beside", "report.html"), s.ofScenarios("scenarios", " in sim")},
	}
}

// inAnotherWorld pretends that what is in a folder was run in the lab, and took longer to answer
// there.
func (s *site) inAnotherWorld(from, to string) {
	s.t.Helper()
	must.Do(s.t, os.CopyFS(s.path(to), os.DirFS(s.path(from))))
	r := s.results(from)
	r.World = "lab"
	for i := range r.Summary {
		m := r.Summary[i].Measures
		slower := m["p90Ms"]
		slower.Mean, slower.Low, slower.High = slower.Mean*1.25, slower.Low*1.25, slower.High*1.25
		m["p90Ms"] = slower
	}
	out := must.Get(os.Create(s.path(to, "results.json")))(s.t)
	must.Do(s.t, errors.Join(r.Write(out), out.Close()))
}

func (s *site) results(folder string) *testbed.Results {
	s.t.Helper()
	return must.Get(testbed.ReadResults(bytes.NewReader(s.file(folder, "results.json"))))(s.t)
}

func (s *site) file(elements ...string) []byte {
	s.t.Helper()
	return must.Get(os.ReadFile(s.path(elements...)))(s.t)
}

// read reads JSON.
func (s *site) read(folder string, into any) {
	s.t.Helper()
	must.Do(s.t, json.Unmarshal(s.file(folder, "results.json"), into))
}

func (s *site) ofUsers(folder, suffix string) []spot {
	r := s.results(folder)
	spots := courses(r, suffix)
	for i := range r.Summary {
		x := &r.Summary[i]
		row := strconv.Itoa(x.Users)
		spots = append(spots,
			spot{figure: "p90", row: row, column: x.Policy + suffix, want: float64(x.Measures["p90Ms"].Mean)},
			spot{figure: "cost", row: row, column: x.Policy + suffix, want: float64(x.Measures["costUnits"].Mean)})
	}
	return spots
}

// courses are the last counts of requests, machines and replicas of every trial that is kept.
func courses(r *testbed.Results, suffix string) []spot {
	var spots []spot
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Trial > 1 || len(run.Machines) == 0 || run.Level() != r.Levels()[len(r.Levels())-1] {
			continue
		}
		machines, replicas := run.Machines[len(run.Machines)-1], run.Path[len(run.Path)-1]
		row := minutes(float64(machines.Seconds))
		spots = append(spots,
			spot{figure: "course-" + run.Policy, row: row, column: "machines" + suffix, want: float64(machines.Machines)},
			spot{figure: "course-" + run.Policy, row: row, column: "replicas" + suffix, want: float64(replicas.Replicas)})
		spots = append(spots, requests(run, len(run.Minutes)-1, suffix)...)
	}
	return spots
}

// requests are those of a minute of a trial, which counts from 0.
func requests(run *testbed.Trial, minute int, suffix string) []spot {
	row, m := strconv.Itoa(minute), run.Minutes[minute]
	return []spot{
		{figure: "requests-" + run.Policy, row: row, column: "requests" + suffix, want: float64(m.Requests)},
		{figure: "requests-" + run.Policy, row: row, column: "late" + suffix, want: float64(m.Late)},
	}
}

func minutes(seconds float64) string { return strconv.FormatFloat(seconds/60, 'f', -1, 64) }

func (s *site) ofScenarios(folder, suffix string) []spot {
	r := s.results(folder)
	var spots []spot
	for _, p := range r.Policies() {
		spots = append(spots,
			spot{figure: "pareto", row: p + suffix, column: "cost", want: r.Total(p, "costUnits")},
			spot{figure: "pareto", row: p + suffix, column: "time over the target", want: r.Total(p, "sloViolationMinutes")})
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if n := len(run.Machines); run.Trial == 1 && n > 0 {
			spots = append(spots, spot{figure: "course-" + run.Policy, row: "0", column: "machines" + suffix, want: float64(run.Machines[0].Machines)})
			spots = append(spots, requests(run, 0, suffix)...)
		}
	}
	return spots
}

func (s *site) ofPaths(folder string) []spot {
	spots, r := s.ofUsersOrScenarios(folder), s.results(folder)
	for i := range r.Runs {
		run := &r.Runs[i]
		for _, m := range run.Path {
			if n := float64(m.Seconds) / 60; n == math.Trunc(n) {
				spots = append(spots, spot{figure: "replicas-" + run.Level().String(), row: minutes(float64(m.Seconds)), column: run.Policy, want: float64(m.Replicas)})
			}
		}
	}
	return spots
}

func (s *site) ofUsersOrScenarios(folder string) []spot {
	if r := s.results(folder); r.Runs[0].Scenario == "" {
		return s.ofUsers(folder, "")
	}
	return s.ofScenarios(folder, "")
}

func (s *site) ofCounts(folder string) []spot {
	var r hpaplus.Results
	s.read(folder, &r)
	var spots []spot
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Trial > 1 || len(run.Course) == 0 {
			continue
		}
		last := run.Course[0]
		excess := strconv.FormatFloat(run.Case.Excess, 'g', -1, 64)
		spots = append(spots, spot{
			figure: "course-" + run.Trace + "-" + excess, row: strconv.Itoa(last.Hour), column: run.Row, want: float64(last.Lost),
		})
	}
	seen := map[string]bool{}
	for i := range r.Summary {
		x := &r.Summary[i]
		if seen[x.Row] {
			continue
		}
		seen[x.Row] = true
		for _, trace := range r.Traces {
			spots = append(spots, spot{figure: "tradeoff-" + trace, row: x.Row, column: "pod-minutes", want: float64(x.Measures["podMinutes"].Traces[trace].Mean)})
		}
	}
	return spots
}

// ofSimulate are those of a test of a single day, which is the day that is shown.
func (s *site) ofSimulate(folder string) []spot {
	var r struct {
		Load    struct{ Factor float64 }
		Results []struct {
			Policy     string
			PodMinutes float64
			Value      float64
			Leaders    []struct {
				Name    string
				Percent float64
			}
		}
	}
	s.read(folder, &r)
	spots := []spot{{figure: "load", row: "0", column: "load", want: r.Load.Factor * s.loadOf(folder, 2*24*60)}}
	fewest := math.Inf(1)
	for _, x := range r.Results {
		if x.Policy == "oracle" {
			fewest = min(fewest, x.PodMinutes)
		} else if x.Value == 0.9 {
			spots = append(spots, spot{figure: "replicas-" + x.Policy, column: x.Policy, want: x.PodMinutes / 60, total: true})
		}
		for _, l := range x.Leaders {
			if x.Value == 0.9 {
				spots = append(spots, spot{figure: "leaders-" + x.Policy, row: "the whole test", column: l.Name, want: l.Percent})
			}
		}
	}
	return append(spots, spot{figure: "pareto", row: "oracle", column: "pod-minutes", want: fewest})
}

// loadOf is the load in requests a second in the mean of an hour.
func (s *site) loadOf(folder string, from int) float64 {
	s.t.Helper()
	rows := must.Get(csv.NewReader(bytes.NewReader(s.file(folder, "load.csv"))).ReadAll())(s.t)
	sum := 0.0
	for _, row := range rows[1+from : 1+from+60] { // after the names of the columns
		n := must.Get(strconv.ParseFloat(row[1], 64))(s.t)
		sum += n
	}
	return sum / 3600
}

var leading = regexp.MustCompile(`^-?\d+(\.\d+)?`)

// value reads the number that a cell begins with, and how far it may be from what was rounded to
// it.
func value(cell string) (v, slack float64, err error) {
	text := leading.FindString(strings.Replace(cell, "−", "-", 1))
	v, err = strconv.ParseFloat(text, 64)
	_, decimals, _ := strings.Cut(text, ".")
	return v, 0.5001 * math.Pow(10, -float64(len(decimals))), err
}
