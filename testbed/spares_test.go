package testbed

import (
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// Machines that need 90 seconds to be made leave users waiting for five minutes when the load
// jumps; with spares it is three at most, for hardly more.
func TestFlashCrowdWaitsThreeMinutesWithSparesAndFiveWithout(t *testing.T) {
	race.Skip(t)
	data := must.Get(File("joint-spares"))(t)
	e := must.Get(Parse(data))(t)
	o := Options{Policies: []string{"joint", "joint-6"}, Scenarios: []string{"flash"}, Trials: 10}
	e = must.Get(e.With(o))(t)
	r := mustRun(t, e, o)
	mean := func(policy, measure string) float64 {
		for _, s := range r.Summary {
			if s.Policy == policy {
				return float64(s.Measures[measure].Mean)
			}
		}
		t.Fatalf("%s did not run", policy)
		return 0
	}
	if with, without := mean("joint-6", "sloViolationMinutes"), mean("joint", "sloViolationMinutes"); with > 3 || without < 4 || without > 5.5 {
		t.Errorf("users wait %.1f minutes with spares and %.1f without", with, without)
	}
	if with, without := mean("joint-6", "costUnits"), mean("joint", "costUnits"); with > 1.05*without {
		t.Errorf("with spares it costs %.2f, without %.2f", with, without)
	}
	if disks, woken := mean("joint-6", "spareUnits"), mean("joint-6", "wakes"); disks <= 0 || disks > 0.03*mean("joint-6", "costUnits") || woken < 4 {
		t.Errorf("%.1f spares are woken, for %.2f of disk", woken, disks)
	}
	if mean("joint", "wakes") != 0 || mean("joint", "spareUnits") != 0 {
		t.Error("spares are woken, or paid for, where there are none")
	}
}
