package replay

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// The numbers in the code are those that the recorded days give.
func TestTheFittedLoadIsTheRecordedOne(t *testing.T) {
	days := must.Get(recordedTrace(t, "nasa_aug95").Window(17, 4))(t)
	want := must.Get(capacity.Fit{States: 6, Around: 5}.MMPP(days.Counts))(t)
	if diff := cmp.Diff(want, Fitted(), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("(-fitted anew +in the code):\n%s", diff)
	}
}

func TestTheFittedLoadIsAProcess(t *testing.T) {
	if err := Fitted().Validate(); err != nil {
		t.Error(err)
	}
}

func TestMadeUpLoadsComeFromTheirSeed(t *testing.T) {
	for _, s := range Synthetics() {
		a, same, other := s.Make(2, 1), s.Make(2, 1), s.Make(2, 2)
		if err := a.Validate(); err != nil || len(a.Counts) != 2*MinutesADay {
			t.Errorf("%s: %v, %d minutes", s.Name, err, len(a.Counts))
		}
		if !cmp.Equal(a, same) {
			t.Errorf("%s: the same seed made other counts", s.Name)
		}
		if cmp.Equal(a.Counts, other.Counts) {
			t.Errorf("%s: another seed made the same counts", s.Name)
		}
		if longer := s.Make(3, 1); !cmp.Equal(a.Counts, longer.Counts[:len(a.Counts)]) {
			t.Errorf("%s: two days are not the beginning of three", s.Name)
		}
	}
}

func TestADiurnalLoadFollowsTheClockAndScattersAsCountsDo(t *testing.T) {
	trace := Diurnal(28, 3)
	hour := func(day, h int) (mean float64) {
		for _, n := range trace.Counts[day*MinutesADay+h*60:][:60] {
			mean += n / 60
		}
		return mean
	}
	night, noon, sunday := 0.0, 0.0, 0.0
	for week := range 4 {
		night, noon, sunday = night+hour(7*week+1, 2)/4, noon+hour(7*week+1, 14)/4, sunday+hour(7*week+6, 14)/4
	}
	if !(night > 100 && night < 0.5*noon && sunday < 0.9*noon) {
		t.Errorf("%.0f at night, %.0f by day, %.0f on a Sunday", night, noon, sunday)
	}
	// From minute to minute the level hardly moves; the difference of two counts varies by twice
	// their mean.
	square, all := 0.0, 0.0
	for i := 1; i < len(trace.Counts); i++ {
		square += math.Pow(trace.Counts[i]-trace.Counts[i-1], 2)
		all += trace.Counts[i] + trace.Counts[i-1]
	}
	if ratio := square / all; ratio < 0.95 || ratio > 1.3 {
		t.Errorf("counts scatter %.2f times as much as chance", ratio)
	}
}
