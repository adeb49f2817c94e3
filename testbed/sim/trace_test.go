package sim

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

func TestMinutesAreCurvesOfTheirMeanRates(t *testing.T) {
	m := time.Minute
	want := Curve{{0, 2}, {m, 2}, {m, 0}, {2 * m, 0}, {2 * m, 0.5}, {3 * m, 0.5}}
	if diff := cmp.Diff(want, Minutes([]float64{120, 0, 30})); diff != "" {
		t.Errorf("curve (-want +got):\n%s", diff)
	}
}

func TestCurvesAreCutAndScaled(t *testing.T) {
	m := time.Minute
	c := Curve{{0, 10}, {10 * m, 20}, {10 * m, 5}, {20 * m, 5}}
	want := Curve{{0, 30}, {5 * m, 40}, {5 * m, 10}, {15 * m, 10}}
	if diff := cmp.Diff(want, c.From(5*m).Scaled(2)); diff != "" {
		t.Errorf("curve (-want +got):\n%s", diff)
	}
}

// A recorded day is sent as it was: as many requests as the trace counts, to within the chance of
// their arrivals.
func TestRecordedLoadIsSentAsItWas(t *testing.T) {
	file := filepath.Join("..", "..", "..", "shared", "traces", "nasa_jul95.csv")
	data, err := os.ReadFile(file)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the recorded traces are not there: %v", err)
		}
		t.Skipf("NOT TRIED, for the recorded traces are not there: %v", err)
	}
	read := must.Get(replay.ReadCSV("nasa_jul95", bytes.NewReader(data)))(t)
	trace := Minutes(read.Counts)
	if days := trace[len(trace)-1].At / (24 * time.Hour); days != 27 {
		t.Errorf("the trace has %d days, want 27", days)
	}
	launch := trace.From(12 * 24 * time.Hour)
	for _, even := range []bool{false, true} {
		cfg := small(0)
		cfg.Initial["worker"], cfg.Workloads[0].Replicas = 2, 6
		cfg.Workloads[0].Load = Load{Kind: Open, Level: launch, Even: even}
		s := live(t, cfg, 24*time.Hour).Scores()[0]
		want := 0.0
		for i := range 24 * 60 {
			want += 60 * launch.At(time.Duration(i)*time.Minute)
		}
		slack := 4 * math.Sqrt(want)
		if even {
			slack = 2
		}
		if got := float64(s.Requests); math.Abs(got-want) > slack {
			t.Errorf("even %t: %.0f requests, the trace counts %.0f", even, got, want)
		}
	}
}
