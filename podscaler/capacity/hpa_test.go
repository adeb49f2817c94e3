package capacity

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestScenario31ModelsOfTheHPA(t *testing.T) {
	h := HPA{Target: 0.8, Min: 1, Max: 40, Stabilization: 1}
	if got := h.Desired(nodejs, 5, 800); got != 6 {
		t.Errorf("discrete: 800 served by 5 pods at a target of 0.8: %d, want 6", got)
	}
	for rate, want := range map[float64]int{450: 4, 451: 5} {
		if got := ServersFor(rate, 125, 0.9); got != want {
			t.Errorf("MMPP/M/c: rate %v at use 0.9 and 125 a pod: %d, want %d", rate, got, want)
		}
	}
	line, err := NewLoss(nodejs, 1)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := line.Step(2, 500)
	next, _ := line.Step(2, 0)
	if first.Served != 459 || first.Expired != 0 || next.Expired != 41 {
		t.Errorf("2 pods, 500 requests: %v served, %v lost, then %v lost; want 459, 0, 41",
			first.Served, first.Expired, next.Expired)
	}
}

func TestReplicasFollowUseBeyondTheTolerance(t *testing.T) {
	flat := must(Linear(100, 0))
	for _, c := range []struct {
		name                    string
		target, tolerance, used float64
		pods, want              int
	}{
		{"twice the target", 0.5, 0.1, 1, 4, 8},
		{"on the tolerance, whose float is above it", 0.8, 0.1, 0.72, 10, 10},
		{"beyond the tolerance", 0.9, 0.1, 0.991, 10, 12},
		{"below the tolerance", 0.8, 0.1, 0.71, 10, 9},
		{"an exact ratio, whose float is above it", 0.6, 0, 0.525, 8, 7},
		{"idle", 0.5, 0.1, 0, 4, 2},
		{"more than the most", 0.1, 0, 1, 4, 12},
	} {
		h := HPA{Target: c.target, Tolerance: c.tolerance, Min: 2, Max: 12, Stabilization: 1}
		if got := h.Desired(flat, c.pods, c.used*flat.Total(float64(c.pods))); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Use is at most 1, so that at a target of 0.95 the ratio is at most 1.053: within the usual
// tolerance of 0.1. The model says it as it is; such an HPA loses all that one pod cannot serve.
func TestHighTargetWithinToleranceNeverGrows(t *testing.T) {
	load := make([]float64, 100)
	for i := range load {
		load[i] = 1000
	}
	d := Discrete{Profile: nodejs, Timeout: 1, HPA: HPA{Target: 0.95, Tolerance: 0.1, Min: 1, Max: 40, Stabilization: 1}}
	stuck, err := d.Run(load)
	if err != nil {
		t.Fatal(err)
	}
	d.HPA.Tolerance = 0.05
	grows, err := d.Run(load)
	if err != nil {
		t.Fatal(err)
	}
	if got := stuck[99].Pods; got != 1 {
		t.Errorf("tolerance 0.1: %d pods, want 1 for ever", got)
	}
	if got := grows[99].Pods; got != 7 {
		t.Errorf("tolerance 0.05: %d pods, want 7", got)
	}
}

// A pod is one request a period here, and the HPA asks for as many as were served.
func TestShrinksArePausedAsLongAsSaid(t *testing.T) {
	one := must(Linear(1, 0))
	for pause, want := range map[int][]int{
		1: {8, 7, 6, 5, 5, 4, 3},
		2: {8, 7, 7, 5, 5, 4, 4},
		3: {8, 7, 7, 7, 5, 5, 5},
	} {
		s := HPA{Target: 1, Min: 1, Max: 20, Stabilization: pause}.Start()
		got := []int{8}
		for _, served := range []float64{7, 6, 5, 5, 4, 3} {
			got = append(got, s.Next(one, got[len(got)-1], served))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pause of %d periods (-want +got):\n%s", pause, diff)
		}
	}
	s := HPA{Target: 0.5, Min: 1, Max: 20, Stabilization: 9}.Start()
	if s.Next(one, 8, 3) != 6 || s.Next(one, 6, 6) != 12 {
		t.Error("a pause held growth back")
	}
}

// Who else is in charge of the pods at times, as a forecast is in HPA+, shrinks them for the HPA,
// too.
func TestSomebodyElsesShrinkIsPausedAfter(t *testing.T) {
	one := must(Linear(1, 0))
	s := HPA{Target: 1, Min: 1, Max: 20, Stabilization: 3}.Start()
	var got []int
	for _, pods := range []int{8, 5, 5, 5} {
		got = append(got, s.Next(one, pods, 3))
	}
	if diff := cmp.Diff([]int{3, 5, 5, 3}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Growth in one period is at most 1/target at any load: the measure is what was served.
func TestGrowthSaturates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := HPA{Target: rapid.Float64Range(0.05, 1).Draw(t, "target"), Min: 1, Max: math.MaxInt32, Stabilization: 1}
		p, pods := profiles.Draw(t, "profile"), rapid.IntRange(1, 500).Draw(t, "pods")
		served := p.Total(float64(pods)) * rapid.Float64Range(0, 1).Draw(t, "use")
		got := h.Desired(p, pods, served)
		if most := ceil(float64(pods) / h.Target); got < 1 || got > most {
			t.Fatalf("%d pods became %d, want 1 to %d", pods, got, most)
		}
	})
}

func TestFaultyHPAsAreRefused(t *testing.T) {
	valid := HPA{Target: 0.9, Tolerance: 0.1, Min: 1, Max: 4, Stabilization: 1}
	if err := valid.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*HPA){
		"target: must be above 0 and up to 1, was 0":         func(h *HPA) { h.Target = 0 },
		"target: must be above 0 and up to 1, was NaN":       func(h *HPA) { h.Target = math.NaN() },
		"tolerance: must be 0 or more, was -0.1":             func(h *HPA) { h.Tolerance = -0.1 },
		"min: must be 1 at least, was 0":                     func(h *HPA) { h.Min = 0 },
		"max: must be 1 at least, was 0":                     func(h *HPA) { h.Max = 0 },
		"stabilization: must be 1 period at least, was 0":    func(h *HPA) { h.Stabilization = 0 },
		"target: must be above 0 and up to 1, was 1.5\nmin:": func(h *HPA) { h.Target, h.Min = 1.5, -1 },
	} {
		h := valid
		change(&h)
		if err := h.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
