package replay

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// threeDays are what forecasters are trained on, before the day they are judged by.
const threeDays = 3 * MinutesADay

func recordedTrace(t testing.TB, name string) *Trace {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "traces", name+".csv"))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the recorded traces are not there: %v", err)
		}
		t.Skipf("NOT TRIED, for the recorded traces are not there: %v", err)
	}
	return must.Get(ReadCSV(name, bytes.NewReader(data)))(t)
}

// recordedWindows are ten windows of four recorded days.
func recordedWindows(t testing.TB) (all []*Trace) {
	t.Helper()
	for _, w := range []struct {
		file string
		days []int
	}{
		{"nasa_jul95", []int{9, 16}},
		{"nasa_aug95", []int{3, 10, 17, 24}},
		{"wc98_may", []int{0, 7, 14, 21}},
	} {
		whole := recordedTrace(t, w.file)
		for _, d := range w.days {
			trace := must.Get(whole.Window(d, 4))(t)
			all = append(all, trace)
		}
	}
	return all
}

// judgedBy are the loads that scalers are compared on: the recorded windows, and one of a fitted
// process, at so many pods in the mean.
func judgedBy(t testing.TB, pods float64) []*Trace {
	t.Helper()
	all := append(recordedWindows(t), MMPP(4, 1))
	for i := range all {
		scaled := must.Get(Scale(all[i], threeDays, pods, Default()))(t)
		all[i] = scaled
	}
	return all
}

// published is the setting that figures are compared in, with a race that needs no minutes of
// training.
func published(tolerance float64) Setting {
	s := Default()
	s.Tolerance = tolerance
	s.Race.Entrants = []forecast.Spec{{Type: "AR"}, {Type: "HoltWinters"}, {Type: "Last"}}
	return s
}

func sweep(t testing.TB, trace *Trace, name string, s Setting, values ...float64) []Result {
	t.Helper()
	return must.Get(Sweep(trace, threeDays, kind(t, name), s, values))(t)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if len(x) == 0 {
		return math.NaN()
	}
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// within fails where the median of what was measured is not between two bounds.
func (c cases) within(t *testing.T, key string, from, to float64) {
	t.Helper()
	m := median(c[key])
	t.Logf("%-50s median %+.3f of %d", key, m, len(c[key]))
	if !(from <= m && m <= to) {
		t.Errorf("%s: the median is %.4f, must be from %v to %v: %.3f", key, m, from, to, c[key])
	}
}

// cases are measurements, one a load, by what was measured.
type cases map[string][]float64

func (c cases) add(key string, x float64) { c[key] = append(c[key], x) }

// As in the paper HPA+ loses less than the HPA for a few pods more where there are five pods. Where
// there are two it does not: the HPA keeps more of them than it knows of, for a pod serves more the
// fewer there are.
func TestHPAPlusBesideHPAOnRecordedDays(t *testing.T) {
	race.Skip(t)
	got := cases{}
	for _, c := range []struct{ pods, tolerance float64 }{{5, 0.1}, {2.4, 0}} {
		for _, trace := range judgedBy(t, c.pods) {
			s := published(c.tolerance)
			hpas, pluses := sweep(t, trace, "hpa", s, 0.85, 0.9), sweep(t, trace, "hpa-plus", s, 0.85, 0.9)
			for i, h := range hpas {
				p := pluses[i]
				key := fmt.Sprintf("at %v pods and excess %v, ", c.pods, h.Value)
				got.add(key+"lost", p.Lost/h.Lost-1)
				got.add(key+"pod-minutes", float64(p.PodMinutes)/float64(h.PodMinutes)-1)
				t.Logf("%-14s %s: HPA %6.3f %% at %d, HPA+ %6.3f %% at %d", trace.Name, key,
					100*h.LostPart(), h.PodMinutes, 100*p.LostPart(), p.PodMinutes)
			}
		}
	}
	got.within(t, "at 5 pods and excess 0.85, lost", -0.25, -0.10)
	got.within(t, "at 5 pods and excess 0.85, pod-minutes", 0.02, 0.07)
	got.within(t, "at 5 pods and excess 0.9, lost", -0.40, -0.15)
	got.within(t, "at 5 pods and excess 0.9, pod-minutes", 0.02, 0.07)
	got.within(t, "at 2.4 pods and excess 0.9, lost", 0.05, 0.5)
	got.within(t, "at 2.4 pods and excess 0.9, pod-minutes", -0.1, 0)
}

// finely are the values of the knobs between which what is lost at equal pod-minutes is read.
var finely = map[Knob][]float64{
	Excess:   {0.5, 0.55, 0.6, 0.65, 0.7, 0.74, 0.78, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96, 0.98, 1, 1.03, 1.06, 1.1, 1.15},
	Quantile: {0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995},
	Price:    {0.001, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9},
}

// What better forecasts are worth shows where all take the same pods. An excess is as good as the
// price of a pod on NASA's days, whose noise is in proportion to the load, and the price where a
// day has restless hours.
func TestScalersAtEqualPodMinutesOnRecordedDays(t *testing.T) {
	race.Skip(t)
	got := cases{}
	rivals := []string{"naive", "ar", "ensemble", "ensemble-quantile", "ensemble-marginal"}
	for _, trace := range judgedBy(t, 5) {
		s := published(0.05)
		hpas, pluses := sweep(t, trace, "hpa", s, 0.85, 0.9, 0.95), sweep(t, trace, "hpa-plus", s, 0.85, 0.9, 0.95)
		for _, name := range rivals {
			swept := sweep(t, trace, name, s, finely[kind(t, name).Knob]...)
			for i, h := range hpas {
				p := pluses[i]
				byHPA, known := LostAt(swept, float64(h.PodMinutes))
				byPlus, knownPlus := LostAt(swept, float64(p.PodMinutes))
				pods, knownPods := PodsAt(swept, h.Lost)
				if !known || !knownPlus || !knownPods {
					t.Fatalf("%s: %s at %v is beyond what was swept", trace.Name, name, h.Value)
				}
				key := fmt.Sprintf("%s at %v ", name, h.Value)
				got.add(key+"beside HPA", byHPA/h.Lost)
				got.add(key+"beside HPA+", byPlus/p.Lost)
				got.add(key+"pod-minutes", pods/float64(h.PodMinutes)-1)
				t.Logf("%-14s %-26s lost %.3f of HPA, %.3f of HPA+; pod-minutes %+.3f", trace.Name, key,
					byHPA/h.Lost, byPlus/p.Lost, pods/float64(h.PodMinutes)-1)
			}
		}
	}
	for excess, most := range map[string][2]float64{"0.85": {0.82, 0.85}, "0.9": {0.89, 0.90}, "0.95": {0.91, 0.92}} {
		got.within(t, "ensemble at "+excess+" beside HPA", 0, most[0])
		got.within(t, "ensemble at "+excess+" beside HPA+", 0, most[1])
		got.within(t, "ensemble at "+excess+" pod-minutes", -0.10, -0.02)
		for _, name := range []string{"ensemble-quantile", "ensemble-marginal"} {
			got.within(t, name+" at "+excess+" beside HPA", 0, 0.95)
			got.within(t, name+" at "+excess+" beside HPA+", 0, 0.95)
		}
		got.within(t, "naive at "+excess+" beside HPA", 1, 2)
	}
}

// Where requests may wait another minute, who is known to wait is served, and that is all it takes.
func TestHardlyAnyAreLostWhereRequestsMayWait(t *testing.T) {
	race.Skip(t)
	for _, trace := range judgedBy(t, 5) {
		s := published(0.1)
		s.Timeout = 2
		line := fmt.Sprintf("%-14s", trace.Name)
		for _, name := range []string{"hpa", "hpa-v2", "hpa-plus", "naive", "ensemble"} {
			r := sweep(t, trace, name, s, 0.9)[0]
			line += fmt.Sprintf("  %s %.3f %% at %d", name, 100*r.LostPart(), r.PodMinutes)
			if name == "ensemble" && r.LostPart() > 0.0015 {
				t.Errorf("%s: %.3f %% are lost", trace.Name, 100*r.LostPart())
			}
		}
		t.Log(line)
	}
}
