package testbed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func profiledExperiment(t *testing.T) *Experiment {
	t.Helper()
	data := must.Get(File("policies"))(t)
	return must.Get(Parse(data))(t)
}

// What is found holds, and a hundredth more does not.
func TestProfilingFindsTheEdge(t *testing.T) {
	e, p := profiledExperiment(t), Profiling{Pods: []int{1, 2, 3, 4}, Length: 2 * time.Minute, Guess: 1, To: 0.005}
	got := must.Get(p.Simulate(t.Context(), e))(t)
	for i, x := range got.Points {
		if x.Pods != i+1 || i > 0 && x.Total <= got.Points[i-1].Total {
			t.Errorf("points do not rise: %v", got.Points)
		}
		at, _, err := p.holds(t.Context(), e, x.Pods, float64(x.Total)*0.999)
		above, _, errAbove := p.holds(t.Context(), e, x.Pods, float64(x.Total)*1.1)
		if !at || above || err != nil || errAbove != nil {
			t.Errorf("%d pods: %v holds: %v, a tenth more: %v", x.Pods, x.Total, at, above)
		}
		// Half a core and 50 ms a request: no more than ten each.
		if x.PerPod > 10 || x.PerPod < 3 {
			t.Errorf("each of %d pods serves %v", x.Pods, x.PerPod)
		}
	}
	again := must.Get(p.Simulate(t.Context(), e))(t)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("another measurement differs:\n%s", diff)
	}
}

func TestTheBlockIsOfTheCurveThatIsNearer(t *testing.T) {
	line := &FittedProfile{B: 7.96712, C: -4.6, Residual: 2}
	five := make([]ProfiledPoint, 5)
	for want, p := range map[string]Profiled{
		`profile: {linear: {perPod: "7.967", base: "-4.600"}}`:                      {Points: five, Linear: line, Quadratic: &FittedProfile{A: -0.1, B: 9, C: 1, Residual: 1.5}},
		`profile: {quadratic: {a: "-0.1000", b: "110.0", c: "0"}}`:                  {Points: five, Linear: line, Quadratic: &FittedProfile{A: -0.1, B: 110, Residual: 0.5}},
		`profile: {linear: {perPod: "12345", base: "-4.600"}}`:                      {Points: five[:2], Linear: &FittedProfile{B: 12345.4, C: -4.6}},
		`profile: {linear: {perPod: "7.967", base: "-4.600"}}` + " of three points": {Points: five[:3], Linear: line, Quadratic: &FittedProfile{A: -0.1, B: 110}},
		`profile: {linear: {perPod: "7.967", base: "-4.600"}}` + " of four points":  {Points: five[:4], Linear: line, Quadratic: &FittedProfile{A: -0.1, B: 110, Residual: 0.5}},
	} {
		want, _, _ := strings.Cut(want, " of ")
		if got, err := p.Block(); err != nil || got != want {
			t.Errorf("block is %s (%v), should be %s", got, err, want)
		}
	}
	for want, p := range map[string]Profiled{
		"linear: {perPod: 7.967, base: -4.600}":        {Points: five, Linear: line},
		"quadratic: {a: -0.1000, b: 110.0, c: 0.5000}": {Points: five, Linear: line, Quadratic: &FittedProfile{A: -0.1, B: 110, C: 0.5}},
	} {
		if got, err := p.File(); err != nil || got != want {
			t.Errorf("file is %s (%v), should be %s", got, err, want)
		}
	}
	none := Profiled{Points: five[:1]}
	if _, err := none.Block(); err == nil || !strings.Contains(err.Error(), "two numbers of pods") {
		t.Errorf("one point: %v", err)
	}
	if _, err := (&Profiled{Points: five, Linear: &FittedProfile{B: -1, C: 20}}).Block(); err == nil || !strings.Contains(err.Error(), "perPod: must be above 0") {
		t.Errorf("a line that falls: %v", err)
	}
}

func TestWhatCannotBeProfiledIsRefused(t *testing.T) {
	e := profiledExperiment(t)
	e.Workloads = append(e.Workloads, e.Workloads[0])
	_, err := Profiling{Length: time.Second}.Simulate(t.Context(), e)
	want := `pods: must be one number at least, were none
workloads: must be one to be profiled, were 2
length: must be at least 1m, was 1s`
	if err == nil || err.Error() != want {
		t.Errorf("faults are %v, should be %s", err, want)
	}
	e = profiledExperiment(t)
	e.Pools[0].Max = 1
	_, err = Profiling{Pods: []int{3, 4}, Length: time.Minute, Guess: 1, To: 0.005}.Simulate(t.Context(), e)
	if err == nil || err.Error() != "4 pods: only 3 of them have room on the machines of pool workers" {
		t.Errorf("without room: %v", err)
	}
}

func TestNumbersOfPodsRise(t *testing.T) {
	for _, c := range []struct {
		pods []int
		want string
	}{
		{[]int{1, 2, 4}, ""},
		{[]int{0, 1}, "pods: must be numbers from 1 up that rise, were [0 1]"},
		{[]int{1, 1}, "pods: must be numbers from 1 up that rise, were [1 1]"},
		{[]int{4, 2}, "pods: must be numbers from 1 up that rise, were [4 2]"},
	} {
		err := Profiling{Pods: c.pods}.Validate()
		if got := fmt.Sprint(err); c.want != "" && got != c.want || c.want == "" && err != nil {
			t.Errorf("%v: %v, want %q", c.pods, err, c.want)
		}
	}
}

// Wherever the edge is and the guess, what is found holds, is as near as was asked, and took few
// loads: some to go there, and some to halve what is between.
func TestLawTheEdgeIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := edge{least: 0.1, to: rapid.Float64Range(0.001, 0.1).Draw(t, "to")}
		is := math.Exp(rapid.Float64Range(math.Log(0.1001), math.Log(1e5)).Draw(t, "ln of the edge"))
		guess := is * math.Exp(rapid.Float64Range(-8, 8).Draw(t, "ln of how far off the guess is"))
		step := rapid.Float64Range(1.001, 2).Draw(t, "step")
		loads := 0
		got := must.Get(e.find(guess, step, func(rate float64) (bool, error) {
			loads++
			if rate < e.least {
				t.Fatalf("a load of %v is below the least", rate)
			}
			return rate <= is, nil
		}))(t)
		if got > is || got < is*(1-e.to)*(1-1e-9) {
			t.Fatalf("%v is found, want %v to within %v", got, is, e.to)
		}
		most := 2 + math.Abs(math.Log2(guess/is)) + math.Log2(1/math.Log2(step)+1) + math.Log2(1/e.to) + 2
		if float64(loads) > most {
			t.Fatalf("it took %d loads, want %v at most", loads, most)
		}
	})
}

func TestASearchEnds(t *testing.T) {
	e := edge{least: 0.1, to: 0.01}
	if _, err := e.find(1, 2, func(float64) (bool, error) { return false, nil }); err == nil || err.Error() != "no load holds: 0.1 requests a second miss the objective" {
		t.Errorf("where nothing holds: %v", err)
	}
	broken := errors.New("broken")
	if _, err := e.find(1, 2, func(rate float64) (bool, error) { return true, map[bool]error{true: broken}[rate > 3] }); !errors.Is(err, broken) {
		t.Errorf("where it breaks: %v", err)
	}
}

// A line and a bend are found again from what pods serve, with R².
func TestAProfileIsFoundAgain(t *testing.T) {
	for name, c := range map[string]struct {
		serves    func(pods float64) float64
		quadratic bool
		least     float64 // R² of the line
		most      float64
	}{
		"a line":     {func(x float64) float64 { return 125*x + 209 }, false, 0.999, 1},
		"a parabola": {func(x float64) float64 { return -3*x*x + 125*x + 20 }, true, 0.9, 0.999},
	} {
		p := Profiling{Pods: []int{1, 2, 4, 8, 16}, Length: time.Minute, Guess: 10, To: 0.0005}
		got := must.Get(p.Of(t.Context(), "shop/web", func(_ context.Context, pods int, rate float64) (bool, int, error) {
			return rate <= c.serves(float64(pods)), 1, nil
		}))(t)
		quadratic, f, err := got.Profile()
		if err != nil || quadratic != c.quadratic || f.R2 < 0.9999 {
			t.Errorf("%s: quadratic is %v (%v): %+v", name, quadratic, err, f)
		}
		for _, x := range p.Pods {
			v := float64(x)
			if is, want := float64(f.A)*v*v+float64(f.B)*v+float64(f.C), c.serves(v); math.Abs(is-want) > 0.005*want {
				t.Errorf("%s: %d pods serve %v by it, and %v", name, x, is, want)
			}
		}
		if r := float64(got.Linear.R2); r < c.least || r > c.most {
			t.Errorf("%s: R² of the line is %v", name, r)
		}
		if got.Requests < 30 || got.Requests > 120 {
			t.Errorf("%s: it took %d loads", name, got.Requests)
		}
	}
}
