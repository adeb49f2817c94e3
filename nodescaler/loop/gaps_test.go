package loop

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
)

// A look is what a workload asks for and has, some time after the look before. Whether the rest counts is what
// machines are bought by.
type look struct {
	after       time.Duration
	asked, pods int
	counted     bool
}

func TestReplicasAreExpectedForABoundedTime(t *testing.T) {
	const s, m = time.Second, time.Minute
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"they become pods", []look{{0, 2, 2, true}, {10 * s, 9, 2, true}, {10 * s, 9, 9, true}, {m, 20, 9, true}}},
		{"a quota lets two be", []look{{0, 2, 2, true}, {10 * s, 500, 2, true}, {170 * s, 500, 2, true}, {10 * s, 500, 2, false}, {6 * time.Hour, 500, 2, false}}},
		{"they come slowly", []look{{0, 0, 0, true}, {s, 500, 0, true}, {2 * m, 500, 90, true}, {2 * m, 500, 91, true}, {179 * s, 500, 91, true}, {s, 500, 91, false}}},
		{"the quota was raised", []look{{0, 2, 2, true}, {10 * s, 500, 2, true}, {4 * m, 500, 2, false}, {m, 500, 3, true}, {m, 500, 500, true}}},
		{"pods come and go below the quota", []look{{0, 2, 2, true}, {s, 500, 2, true}, {m, 500, 1, true}, {m, 500, 2, true}, {m, 500, 1, false}, {s, 500, 2, false}}},
		{"fewer are asked for, and as many again", []look{{0, 2, 2, true}, {s, 500, 2, true}, {2 * m, 2, 2, true}, {m, 500, 2, false}, {59 * m, 2, 2, true}, {59 * m, 500, 2, false}}},
		{"as many are not asked for for long", []look{{0, 2, 2, true}, {s, 500, 2, true}, {2 * m, 2, 2, true}, {30 * m, 2, 2, true}, {31 * m, 2, 2, true}, {s, 500, 2, true}}},
		{"the gap is there at the first look", []look{{0, 500, 2, false}, {s, 500, 2, false}, {s, 500, 3, true}}},
		{"the clock is put back", []look{{0, 2, 2, true}, {m, 500, 2, true}, {-time.Hour, 500, 2, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, now := gaps{}, t0
			for i, l := range c.looks {
				now = now.Add(l.after)
				replicas, alive := map[string]int{"shop/web": l.asked}, map[string]int{"shop/web": l.pods}
				g.see(now, replicas, alive)
				if got := g.uncounted("shop/web", l.asked, l.pods, nil) == nil; got != l.counted {
					t.Fatalf("look %d, %+v: counted %t", i, l, got)
				}
			}
		})
	}
}

// However a workload is scaled and its pods come and go, if there are never more than so many pods the time in
// which more of them are expected is bounded by how often one more came.
func TestReplicasThatNeverComeAreCountedSeldom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quota := rapid.IntRange(0, 4).Draw(t, "quota")
		var g gaps
		counted, asked, last := time.Duration(0), 0, -time.Hour
		for at := time.Duration(0); at < 12*time.Hour; at += 10 * time.Second {
			if rapid.IntRange(0, 9).Draw(t, "edit") == 0 && at-last < gapKept {
				asked = rapid.SampledFrom([]int{0, quota, quota + 1, 500}).Draw(t, "asked")
				last = at
			}
			alive := min(asked, rapid.IntRange(0, quota).Draw(t, "alive"))
			g.see(t0.Add(at), map[string]int{"w": asked}, map[string]int{"w": alive})
			if asked > quota && g.uncounted("w", asked, alive, nil) == nil {
				counted += 10 * time.Second
			}
			if at-last > gapKept-time.Minute { // it is asked for again before it is forgotten
				asked, last = 500, at
			}
		}
		if most := time.Duration(quota+2) * gapGrace; counted > most {
			t.Fatalf("with a quota of %d, more were expected for %s, want %s at most", quota, counted, most)
		}
	})
}

// What is planned for of a workload whose pods do not come, in each mode.
func TestFailingAndHeldWorkloadsAreNotPlannedFor(t *testing.T) {
	held := map[string]nodescaler.Reason{"shop/web": why[0]}
	pools := map[string]nodescaler.Reason{"worker": why[0]}
	for _, c := range []struct {
		name    string
		failing map[string]string
		holds   Holds
		at      time.Duration
		want    int
		code    string
	}{
		{name: "at once", want: 498},
		{name: "after minutes", at: 5 * time.Minute, code: CodeReplicasNotCreated},
		{name: "its controller says why", failing: map[string]string{"shop/web": "FailedCreate: exceeded quota"}, code: CodeReplicaFailure},
		{name: "in mode Recommend", holds: Holds{Workloads: held}},
		{name: "in mode Recommend after minutes", holds: Holds{Workloads: held}, at: 5 * time.Minute, code: CodeReplicasNotCreated},
		{name: "beside pools that are held, nothing comes of it", holds: Holds{held, pools}, want: 498},
		{name: "beside them after minutes", holds: Holds{held, pools}, at: 5 * time.Minute, code: CodeReplicasNotCreated},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, future := newHouse(), 0
			r := h.runner(keep{}, nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
				future = 0
				for _, f := range s.Future {
					future += f.Count + f.Ahead
				}
				return nodescaler.Plan{}
			}))
			r.Scalers[0].Workload().Max = 1000
			r.Holds = c.holds
			steps(t, r, 2)
			h.state.Replicas["shop/web"], h.state.Failing = 500, c.failing
			var s Step
			for at := time.Duration(0); at <= c.at; at += 10 * time.Second {
				s, _ = r.Once(t.Context(), t0.Add(time.Minute+at))
			}
			expect(t, "replicas planned for", c.want, future)
			code := ""
			if why := s.Workloads[0].Unplanned; why != nil {
				code = why.Code
			}
			expect(t, "why not", c.code, code)
		})
	}
}

// keep is a pod policy that leaves replicas as they are.
type keep struct{}

func (keep) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Known: true, Replicas: v.Replicas, Reasons: why}
}

// A restart in the middle of it begins nothing anew, however often it comes.
func TestARestartExpectsNothingOfOldGaps(t *testing.T) {
	h := newHouse()
	h.state.Replicas["shop/web"] = 500
	for i := range 20 {
		r := h.runner(keep{}, nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
			if len(s.Future) > 0 {
				t.Errorf("restart %d: planned for %+v", i, s.Future)
			}
			return nodescaler.Plan{}
		}))
		r.Scalers[0].Workload().Max = 1000
		steps(t, r, 5)
	}
}

// Replicas that never come take no places from other workloads.
func TestReplicasThatNeverComeTakeNoPlaces(t *testing.T) {
	h := newHouse()
	h.state.Replicas["shop/aaa"] = 1_000_000
	r := h.runner(bidder{9}, nil)
	r.Pools[0].Max = 2
	r.Scalers = append(r.Scalers, podscaler.NewScaler(podscaler.Workload{Name: "shop/aaa", Min: 1, Max: 1_000_000, Pod: h.pod("", "").Requests}, keep{}))
	s := steps(t, r, 2)
	if got := s.Workloads[0].Decision.To; got != 6 {
		t.Errorf("decided on %d replicas, want all 6 that there is room for: %s", got, fmt.Sprint(s.Workloads))
	}
}
