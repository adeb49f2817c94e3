package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestUsersAreApportioned(t *testing.T) {
	for _, c := range []struct {
		users  float64
		shares []float64
		want   []int
	}{
		{10, []float64{.33, .33, .34}, []int{3, 3, 4}},
		{4, []float64{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1}, []int{1, 1, 1, 1, 0, 0, 0, 0, 0, 0}},
		{5, []float64{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1}, []int{1, 1, 1, 1, 1, 0, 0, 0, 0, 0}},
		{100, []float64{.29, .71}, []int{29, 71}},
		{10, []float64{.25, .25}, []int{3, 2}},
		{10, []float64{.6, .6}, []int{6, 6}},
		{0, []float64{.5, .5}, []int{0, 0}},
	} {
		parts := make([]float64, len(c.shares))
		for i, s := range c.shares {
			parts[i] = c.users * s
		}
		if diff := cmp.Diff(c.want, apportion(parts)); diff != "" {
			t.Errorf("%g users in parts of %v: %s", c.users, c.shares, diff)
		}
	}
}

func TestApportionedUsersAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 20).Draw(t, "parts")
		sum, whole := 0.0, 0
		for i, n := range apportion(parts) {
			sum, whole = sum+parts[i], whole+n
			if math.Abs(float64(n)-parts[i]) > 1+1e-6 {
				t.Fatalf("%d are %d from %g", i, n, parts[i])
			}
		}
		if want := int(math.Round(sum)); whole != want {
			t.Fatalf("they come to %d, not %d", whole, want)
		}
	})
}

// Users of a load that three services share are all there, and are counted once, at every moment of
// a climb.
func TestSharedUsersAreAllThere(t *testing.T) {
	cfg := small(0)
	one := cfg.Workloads[0]
	cfg.Workloads = nil
	for i, share := range []float64{.33, .33, .34} {
		s := one
		s.Name = fmt.Sprintf("shop/%d", i)
		s.Load.Shared = true
		s.Load.Level = Curve{{Level: 10 * share}, {time.Minute, 10 * share}, {2 * time.Minute, 70 * share}}
		cfg.Workloads = append(cfg.Workloads, s)
	}
	w := live(t, cfg, time.Second/2)
	for at := time.Duration(0); at <= 3*time.Minute; at += time.Second {
		run(t, w, at+time.Second/2)
		targets := 0
		for _, s := range w.services {
			targets += s.users.(*closed).target
		}
		if want := int(math.Round(Curve{{Level: 10}, {time.Minute, 10}, {2 * time.Minute, 70}}.At(at))); targets != want {
			t.Errorf("at %s there are %d users, not %d", at, targets, want)
		}
	}
}
