package sim

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A pod that has more to do than it can uses all that it is left, on the host of the neighbour
// alone.
func TestANoisyNeighbourTakesItsPartOfAHostForItsTime(t *testing.T) {
	cfg := two(100, 6)
	cfg.Faults = []Fault{{At: time.Minute, Kind: NoisyNeighbour, Host: "pve1", Left: .4, For: 2 * time.Minute}}
	w := live(t, cfg, time.Minute)
	used := func() map[*pod]float64 {
		out := map[*pod]float64{}
		for _, p := range w.services[0].pods {
			out[p] = p.srv.Used(w.now)
		}
		return out
	}
	for _, c := range []struct {
		until time.Duration
		left  float64
	}{{3 * time.Minute, .4}, {4 * time.Minute, 1}} {
		before, span := used(), (c.until - w.now).Seconds()
		run(t, w, c.until)
		for p, now := range used() {
			want := .5
			if p.node.machine.obs.Host == "pve1" {
				want *= c.left
			}
			if got := (now - before[p]) / span; got > want+1e-6 {
				t.Errorf("until %s %s on %s used %.3f cores, at most %.3f were left", c.until, p.obs.Name, p.node.machine.obs.Host, got, want)
			} else if want < .5 && got < .9*want {
				t.Errorf("until %s %s used %.3f cores of %.3f", c.until, p.obs.Name, got, want)
			}
		}
	}
}

// What is read late is what was read that long ago, where it is not late.
func TestLateReadingsAreThoseOfThePast(t *testing.T) {
	const late = 40 * time.Second
	cfg := small(30)
	w := live(t, cfg, 2*time.Minute)
	cfg.Late = late
	lagging := must.Get(New(cfg, nil))(t)
	wl := &podscaler.Workload{Name: "shop/web", SLO: podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond, Window: time.Minute}}
	run(t, lagging, 30*time.Second)
	if _, err := lagging.Read(context.Background(), wl, lagging.clock()); err == nil {
		t.Error("something is read before anything has come")
	}
	run(t, lagging, 2*time.Minute+late)
	want := must.Get(w.Read(context.Background(), wl, w.clock()))(t)
	got := must.Get(lagging.Read(context.Background(), wl, lagging.clock()))(t)
	if got.Latency != want.Latency || got.Good != want.Good || got.Arrivals != want.Arrivals || got.InFlight != want.InFlight {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if at := lagging.services[0].pods[0].obs.CPU.At; lagging.clock().Sub(at) < late {
		t.Errorf("CPU of %s is read at %s", at, lagging.clock())
	}
}

func TestThePeakRateIsThatOfTheMostMachinesAtATime(t *testing.T) {
	cfg := small(10)
	cfg.Initial["worker"] = 3
	w := live(t, cfg, time.Minute)
	for _, m := range w.machines[:2] {
		must.Do(t, w.Delete(context.Background(), m.obs.Name))
	}
	run(t, w, 5*time.Minute)
	if got := w.PeakRate().Units(); math.Abs(got-30) > 1e-9 {
		t.Errorf("%g an hour, want 30", got)
	}
}
