package testbed

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func profiledExperiment(t *testing.T) *Experiment {
	t.Helper()
	data := must.Get(File("policies"))(t)
	return must.Get(Parse(data))(t)
}

// What is found holds, and a hundredth more does not.
func TestProfilingFindsTheEdge(t *testing.T) {
	e, p := profiledExperiment(t), Profiling{Pods: 4, Length: 2 * time.Minute}
	got := must.Get(p.Measure(t.Context(), e))(t)
	for i, x := range got.Points {
		if x.Pods != i+1 || i > 0 && x.Total <= got.Points[i-1].Total {
			t.Errorf("points do not rise: %v", got.Points)
		}
		var ignored Profiled
		at := must.Get(p.holds(t.Context(), e, x.Pods, float64(x.Total)*0.999, &ignored))(t)
		above := must.Get(p.holds(t.Context(), e, x.Pods, float64(x.Total)*1.1, &ignored))(t)
		if !at || above {
			t.Errorf("%d pods: %v holds: %v, a tenth more: %v", x.Pods, x.Total, at, above)
		}
		// Half a core and 50 ms a request: no more than ten each.
		if x.PerPod > 10 || x.PerPod < 3 {
			t.Errorf("each of %d pods serves %v", x.Pods, x.PerPod)
		}
	}
	again := must.Get(p.Measure(t.Context(), e))(t)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("another measurement differs:\n%s", diff)
	}
}

func TestTheBlockIsOfTheCurveThatIsNearer(t *testing.T) {
	line := &FittedProfile{B: 7.96712, C: -4.6, Residual: 2}
	four := make([]ProfiledPoint, 4)
	for want, p := range map[string]Profiled{
		`profile: {linear: {perPod: "7.967", base: "-4.600"}}`:                      {Points: four, Linear: line, Quadratic: &FittedProfile{A: -0.1, B: 9, C: 1, Residual: 1.5}},
		`profile: {quadratic: {a: "-0.1000", b: "110.0", c: "0"}}`:                  {Points: four, Linear: line, Quadratic: &FittedProfile{A: -0.1, B: 110, Residual: 0.5}},
		`profile: {linear: {perPod: "12345", base: "-4.600"}}`:                      {Points: four[:2], Linear: &FittedProfile{B: 12345.4, C: -4.6}},
		`profile: {linear: {perPod: "7.967", base: "-4.600"}}` + " of three points": {Points: four[:3], Linear: line, Quadratic: &FittedProfile{A: -0.1, B: 110}},
	} {
		want, _, _ := strings.Cut(want, " of ")
		if got, err := p.Block(); err != nil || got != want {
			t.Errorf("block is %s (%v), should be %s", got, err, want)
		}
	}
	none := Profiled{Points: four[:1]}
	if _, err := none.Block(); err == nil || !strings.Contains(err.Error(), "two numbers of pods") {
		t.Errorf("one point: %v", err)
	}
	if _, err := (&Profiled{Points: four, Linear: &FittedProfile{B: -1, C: 20}}).Block(); err == nil || !strings.Contains(err.Error(), "perPod: must be above 0") {
		t.Errorf("a line that falls: %v", err)
	}
}

func TestWhatCannotBeProfiledIsRefused(t *testing.T) {
	e := profiledExperiment(t)
	e.Workloads = append(e.Workloads, e.Workloads[0])
	_, err := Profiling{Length: time.Second}.Measure(t.Context(), e)
	want := `workloads: must be one to be profiled, were 2
pods: must be at least 1, was 0
length: must be at least 1m, was 1s`
	if err == nil || err.Error() != want {
		t.Errorf("faults are %v, should be %s", err, want)
	}
	e = profiledExperiment(t)
	e.Pools[0].Max = 1
	_, err = Profiling{Pods: 4, Length: time.Minute}.Measure(t.Context(), e)
	if err == nil || err.Error() != "4 pods: only 3 of them have room on the machines of pool workers" {
		t.Errorf("without room: %v", err)
	}
}
