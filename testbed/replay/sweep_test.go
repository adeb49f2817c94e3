package replay

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestWhatIsLostAtEqualPodMinutesIsOnTheLineBetweenNeighbours(t *testing.T) {
	sweep := []Result{
		{PodMinutes: 300, Lost: 10}, {PodMinutes: 100, Lost: 90}, {PodMinutes: 200, Lost: 40},
		{PodMinutes: 200, Lost: 30}, // as many pods, and fewer lost: this one counts
		{PodMinutes: 400, Lost: 20}, // more pods, and more lost
	}
	for pods, want := range map[float64]float64{100: 90, 150: 60, 200: 30, 250: 20, 300: 10, 350: 15, 400: 20} {
		if got, known := LostAt(sweep, pods); !known || math.Abs(got-want) > 1e-9 {
			t.Errorf("%v pod-minutes: %v %t, want %v", pods, got, known, want)
		}
	}
	for _, pods := range []float64{99, 401, 0, math.NaN()} {
		if got, known := LostAt(sweep, pods); known {
			t.Errorf("%v pod-minutes are beyond the sweep, and lose %v", pods, got)
		}
	}
	for lost, want := range map[float64]float64{90: 100, 60: 150, 30: 200, 20: 250, 15: 275, 10: 300} {
		if got, known := PodsAt(sweep, lost); !known || math.Abs(got-want) > 1e-9 {
			t.Errorf("%v lost: %v %t, want %v", lost, got, known, want)
		}
	}
	for _, lost := range []float64{9, 91, math.NaN()} {
		if got, known := PodsAt(sweep, lost); known {
			t.Errorf("%v lost is beyond the sweep, and takes %v", lost, got)
		}
	}
	if _, known := LostAt(nil, 1); known {
		t.Error("nothing was swept")
	}
	if _, known := PodsAt(nil, 1); known {
		t.Error("nothing was swept")
	}
}

func TestALoadIsScaledToItsPods(t *testing.T) {
	trace, s := Diurnal(2, 1), Default()
	for _, pods := range []float64{1.5, 2.4, 5, 40} {
		scaled := must.Get(Scale(trace, MinutesADay, pods, s))(t)
		r, err := Play(scaled, MinutesADay, kind(t, "oracle"), s.With(Excess, 0.9), nil)
		if err != nil || math.Abs(r.MeanPods()-pods) > 1.5/MinutesADay {
			t.Errorf("%v pods: %v, %v", pods, r.MeanPods(), err)
		}
		if ratio := scaled.Counts[7] / trace.Counts[7]; math.Abs(scaled.Counts[2000]-ratio*trace.Counts[2000]) > 1e-6 {
			t.Errorf("%v pods: not all minutes were multiplied alike", pods)
		}
	}
	for pods, want := range map[float64]string{
		1:          "pods: must be between min 1 and max 1000, was 1",
		1000:       "pods: must be between min 1 and max 1000, was 1000",
		math.NaN(): "pods: must be between min 1 and max 1000, was NaN",
	} {
		if _, err := Scale(trace, 0, pods, s); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	quiet := aSecond(0, 0, 0, 5)
	if _, err := Scale(quiet, 0, 500, s); err == nil ||
		err.Error() != "by hand: pods: no multiple of the load takes 500 in the mean, for 3 of 4 minutes are without requests" {
		t.Error(err)
	}
}

// A sweep shares what is learned, and what comes of each of its runs is what comes of it alone.
func TestASweepIsItsRuns(t *testing.T) {
	trace, s := Diurnal(1, 2), Default()
	s.Season = 60
	trace.Counts = trace.Counts[:500]
	for _, k := range Kinds() {
		values := []float64{0.6, 0.9}
		got, err := Sweep(trace, 300, k, s, values)
		if err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		for i, v := range values {
			want := must.Get(Play(trace, 300, k, s.With(k.Knob, v), nil))(t)
			if diff := cmp.Diff(want, got[i]); diff != "" {
				t.Errorf("%s at %v (-alone +in the sweep):\n%s", k.Name, v, diff)
			}
		}
	}
}
