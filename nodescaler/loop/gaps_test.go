package loop

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// A look is what a workload asks for and has, some time after the look before. Whether the rest
// counts is what machines are bought by.
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
		{"a quota lets two be", []look{{0, 2, 2, true}, {10 * s, 500, 2, true}, {170 * s, 500, 2, true}, {10 * s, 500, 2, false}, {6 * time.Hour, 500, 2, false}, {s, 2, 2, true}}},
		{"one comes each two minutes", []look{{0, 2, 2, true}, {s, 500, 2, true}, {2 * m, 500, 3, true}, {2 * m, 500, 4, false}, {2 * m, 500, 5, false}}},
		{"half of them come each two minutes", []look{
			{0, 0, 0, true}, {s, 512, 0, true}, {2 * m, 512, 256, true}, {2 * m, 512, 384, true}, {2 * m, 512, 448, true}, {2 * m, 512, 480, true},
			{m, 512, 480, true}, {8 * s, 512, 480, false},
		}},
		{"the quota was raised", []look{{0, 2, 2, true}, {10 * s, 500, 2, true}, {4 * m, 500, 2, false}, {m, 500, 3, false}, {m, 500, 500, true}, {m, 600, 500, true}}},
		{"pods come and go below the quota", []look{{0, 2, 2, true}, {s, 500, 2, true}, {m, 500, 1, true}, {m, 500, 2, true}, {m, 500, 1, false}, {5 * s, 500, 2, false}}},
		{"all were there, and one has gone", []look{{0, 2, 2, true}, {s, 9, 2, true}, {10 * s, 9, 9, true}, {4 * m, 9, 8, true}, {170 * s, 9, 8, true}, {10 * s, 9, 8, false}}},
		{"they are replaced", []look{{0, 9, 9, true}, {10 * s, 9, 5, true}, {10 * s, 9, 0, true}, {10 * s, 9, 9, true}, {10 * m, 20, 9, true}}},
		{"fewer are asked for, and as many again", []look{{0, 2, 2, true}, {s, 500, 2, true}, {2 * m, 2, 2, true}, {m, 500, 2, false}}},
		{"and later", []look{{0, 2, 2, true}, {s, 500, 2, true}, {2 * m, 2, 2, true}, {m, 2, 2, true}, {s, 500, 2, true}, {3 * m, 500, 2, false}}},
		{"more and more are asked for", []look{{0, 2, 2, true}, {s, 3, 2, true}, {2 * m, 500, 2, true}, {m, 501, 2, false}}},
		{"more are asked for than came", []look{{0, 2, 2, true}, {s, 9, 2, true}, {m, 500, 9, true}, {2 * m, 500, 9, true}, {m, 500, 9, false}}},
		{"as many come as were asked for, when fewer are", []look{{0, 2, 2, true}, {s, 9, 2, true}, {m, 8, 8, true}, {m, 9, 8, true}, {3 * m, 9, 8, false}}},
		{"the gap is there at the first look", []look{{0, 500, 2, false}, {10 * s, 500, 2, false}, {10 * s, 500, 3, false}, {10 * s, 3, 3, true}, {10 * s, 500, 3, true}}},
		{"pods are there between two looks", []look{{0, 0, 0, true}, {5 * s, 2, 0, true}, {0, 2, 2, true}, {4 * s, 2, 2, true}, {s, 2, 0, true}, {175 * s, 2, 0, false}}},
		{"pods are there at the next look", []look{{0, 0, 0, true}, {s, 2, 0, true}, {4 * s, 2, 2, true}, {3 * m, 2, 0, true}}},
		{"the clock is put back", []look{{0, 2, 2, true}, {m, 500, 2, true}, {-time.Hour, 500, 2, false}}},
		{"the clock is put back to when they were asked for", []look{{0, 2, 2, true}, {m, 500, 2, true}, {m, 500, 2, true}, {-m, 500, 2, true}, {3 * m, 500, 2, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, now := gaps{}, t0
			for i, l := range c.looks {
				now = now.Add(l.after)
				if got := one(&g, now, "shop/web", l.asked, l.pods); got != l.counted {
					t.Fatalf("look %d, %+v: counted %t", i, l, got)
				}
			}
		})
	}
}

// one looks at the only workload there is, and reports whether all its replicas count.
func one(g *gaps, now time.Time, name string, asked, pods int) bool {
	g.see(now, map[string]int{name: asked}, map[string]int{name: pods}, nil)
	return g.uncounted(name, asked, pods, nil) == nil
}

// What is late is the namespace's, and is forgotten in time; so is all else.
func TestANamespaceIsLateForABoundedTime(t *testing.T) {
	var g gaps
	now := t0
	look := func(after time.Duration, name string, asked, pods int) bool {
		now = now.Add(after)
		return one(&g, now, name, asked, pods)
	}
	// A workload asks for 500 pods for a moment, and three minutes pass.
	moment := func(name string) bool {
		look(10*time.Second, name, 0, 0)
		expected := look(10*time.Second, name, 500, 0)
		for range 18 {
			look(10*time.Second, name, 0, 0)
		}
		return expected
	}
	for i := range 4 {
		expect(t, fmt.Sprintf("moment %d", i), true, moment(fmt.Sprintf("shop/w-%d", i)))
	}
	// They were late for four times 170 s, less an 80th of 13 minutes.
	for range 5 {
		expect(t, "one more moment", false, moment("shop/web"))
	}
	look(10*time.Second, "other/web", 0, 0)
	expect(t, "one of another namespace", true, look(10*time.Second, "other/web", 9, 0) && look(10*time.Second, "other/web", 9, 9))
	waits := now
	for !moment("shop/web") {
	}
	if waited := now.Sub(waits); waited < 70*time.Minute || waited > 80*time.Minute {
		t.Errorf("the next moment was %s after the last", waited)
	}
	expect(t, "one more after that", false, moment("shop/web"))
	look(10*time.Second, "other/web", 0, 0)
	g.late["other"] = lateMost
	expect(t, "one of a namespace that has just used it up", false, look(0, "other/web", 10, 0))
	for range 24 * 60 {
		look(time.Minute, "shop/web", 0, 0)
	}
	expect(t, "gaps and namespaces that are remembered", [2]int{}, [2]int{len(g.of), len(g.late)})
}

// mob is a namespace that may have a few pods at once. Its workloads ask for any numbers, come and
// go, and have the pods in any turns. Beside it is a workload whose pods come within 20 seconds.
type mob struct {
	*rand.Rand
	asked, pods map[string]int
	names       []string
	quota       int
	apart       int // seconds between two looks, at most
	// one look in so many changes what is asked for; for so many seconds nothing is, at times
	edits, idle int
	at, quiet   time.Duration
	changed     time.Duration // when the honest workload last asked for another number
	slow        time.Duration // how long its pods take
}

const honest = "other/web"

func newMob(t *rapid.T) *mob {
	m := &mob{
		Rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), asked: map[string]int{honest: 4}, pods: map[string]int{honest: 4},
		quota: rapid.IntRange(0, 3).Draw(t, "quota"),
		apart: rapid.IntRange(4, 30).Draw(t, "apart"), edits: rapid.IntRange(1, 20).Draw(t, "edits"),
		idle: rapid.SampledFrom([]int{0, 0, 60, 1200, 3000}).Draw(t, "idle"),
	}
	for i := range rapid.IntRange(1, 24).Draw(t, "workloads") {
		m.names = append(m.names, fmt.Sprintf("shop/w-%d", i))
	}
	return m
}

// pass lets the time to the next look pass.
func (m *mob) pass() (after time.Duration) {
	after = time.Duration(1+m.IntN(m.apart)) * time.Second
	if m.at += after; m.at >= m.quiet && m.IntN(m.edits) == 0 {
		name := m.names[m.IntN(len(m.names))]
		m.asked[name] = []int{0, 0, 1, m.quota, m.quota + 1, 500}[m.IntN(6)]
		switch m.IntN(8) {
		case 0:
			delete(m.asked, name)
		case 1:
			m.quiet = m.at + time.Duration(m.idle)*time.Second
			m.asked = map[string]int{honest: m.asked[honest]}
		}
	}
	left, first := m.quota, m.IntN(len(m.names))
	for i := range m.names {
		name := m.names[(first+i)%len(m.names)]
		m.pods[name] = min(m.asked[name], m.IntN(left+1))
		left -= m.pods[name]
	}
	switch since := m.at - m.changed; {
	case since > m.slow+70*time.Second:
		m.asked[honest], m.changed, m.slow = 1+m.IntN(99), m.at, time.Duration(m.IntN(21))*time.Second
		m.pods[honest] = min(m.pods[honest], m.asked[honest])
	case since >= m.slow:
		m.pods[honest] = m.asked[honest]
	}
	return after
}

// Capacity that is asked for beyond a few times the pods that there may be, and lasts for twenty
// minutes from then, is there for a small part of the time. Another namespace gets all it asks
// for.
func TestCapacityThatNoPodUsesIsThereForASmallPartOfTheTime(t *testing.T) {
	const lasts, long = 20 * time.Minute, 12 * time.Hour
	rapid.Check(t, func(t *rapid.T) {
		m := newMob(t)
		var g gaps
		var there, until time.Duration
		for m.at < long {
			if after := m.pass(); m.at <= until {
				there += after
			}
			g.see(t0.Add(m.at), m.asked, m.pods, nil)
			expected := 0
			for name, asked := range m.asked {
				if g.uncounted(name, asked, m.pods[name], nil) != nil {
					if name == honest {
						t.Fatalf("after %s, the %d replicas of another namespace do not count", m.at, asked)
					}
				} else if name != honest {
					expected += max(asked-m.pods[name], 0)
				}
			}
			if expected > 10*m.quota {
				until = m.at + lasts
			}
			if len(g.of) > len(m.names)+1 {
				t.Fatalf("%d gaps are remembered of %d workloads", len(g.of), len(m.names)+1)
			}
		}
		if most := long / 4; there > most {
			t.Fatalf("capacity for more than %d replicas was there for %s, want %s at most", 10*m.quota, there, most)
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
		holds   holds
		at      time.Duration
		want    int
		code    string
	}{
		{name: "at once", want: 498},
		{name: "after minutes", at: 5 * time.Minute, code: CodeReplicasNotCreated},
		{name: "its controller says why", failing: map[string]string{"shop/web": "FailedCreate: exceeded quota"}, code: CodeReplicaFailure},
		{name: "in mode Recommend", holds: holds{Workloads: held}},
		{name: "in mode Recommend after minutes", holds: holds{Workloads: held}, at: 5 * time.Minute, code: CodeReplicasNotCreated},
		{name: "beside pools that are held, nothing comes of it", holds: holds{Workloads: held, Pools: pools}, want: 498},
		{name: "beside them after minutes", holds: holds{Workloads: held, Pools: pools}, at: 5 * time.Minute, code: CodeReplicasNotCreated},
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
			r.Workloads[0].Max = 1000
			c.holds.put(r)
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

// A controller that makes pods in order makes the next once all before it are ready. None is late
// until then. Machines are planned for all of them, as long as one comes every ten minutes.
func TestPodsThatComeInOrderAreNotLate(t *testing.T) {
	h, future := newHouse(), 0
	r := h.runner(keep{}, nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		future = 0
		for _, f := range s.Future {
			future += f.Count
		}
		return nodescaler.Plan{}
	}))
	r.Workloads[0].Max = 1000
	h.state.Ordered = map[string]bool{"shop/web": true}
	steps(t, r, 2)
	now, last := t0.Add(time.Minute), &h.state.Pods[len(h.state.Pods)-1]
	there := h.state.Replicas["shop/web"]
	h.state.Replicas["shop/web"] = 500
	look := func(want int) {
		t.Helper()
		s := must.Get(r.Once(t.Context(), now))(t)
		if future != want || s.Workloads[0].Unplanned != nil {
			t.Fatalf("%s: planned for %d, want %d; %v", now.Sub(t0), future, want, s.Workloads[0].Unplanned)
		}
		now = now.Add(30 * time.Second)
	}
	for n := range 60 {
		last.Ready = true
		look(500 - there)
		next := *last // is there at once
		next.Name, next.Ready = fmt.Sprintf("shop/web-%d", 100+n), false
		h.state.Pods = append(h.state.Pods, next)
		last, there = &h.state.Pods[len(h.state.Pods)-1], there+1
		look(500 - there)
	}
	now = now.Add(lateMost)
	for range 60 { // the last one never becomes ready
		look(0)
	}
	last.Ready = true
	look(1)
}

// What is only said to be done is planned for however long it is not.
func TestDecisionsThatAreNotWrittenAreNotLate(t *testing.T) {
	for name, c := range map[string]struct {
		holds  holds
		dryRun bool
		want   int
	}{
		"in a dry run":              {dryRun: true, want: 4},
		"where all is held":         {holds: holds{Workloads: map[string]nodescaler.Reason{"shop/web": why[0]}, Pools: map[string]nodescaler.Reason{"worker": why[0]}}, want: 4},
		"where they are taken back": {},
	} {
		h, future := newHouse(), 0
		r := h.runner(replicas(6), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
			future = 0
			for _, f := range s.Future {
				future += f.Count
			}
			return nodescaler.Plan{}
		}))
		c.holds.put(r)
		r.DryRun = c.dryRun
		for i := range 100 {
			h.state.Replicas["shop/web"] = 2
			must.Get(r.Once(t.Context(), t0.Add(time.Duration(i)*15*time.Second)))(t)
		}
		expect(t, name, c.want, future)
	}
}

// A gap of which the controller says from its beginning that no pods can be created was never
// bought for: it is not late, and counts once the controller says no more.
func TestGapsThatFailFromTheBeginningAreNotLate(t *testing.T) {
	var g gaps
	says, asked, pods := map[string]string{"shop/web": "exceeded quota"}, map[string]int{"shop/web": 0}, map[string]int{}
	now := t0
	for range 4 * 60 {
		g.see(now, asked, pods, says)
		asked["shop/web"], now = 9, now.Add(10*time.Second)
	}
	expect(t, "gaps, namespaces", [2]int{}, [2]int{len(g.of), len(g.late)})
	g.see(now, asked, pods, nil)
	if why := g.uncounted("shop/web", 9, 0, nil); why != nil {
		t.Errorf("does not count: %s", why.Text)
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
		r.Workloads[0].Max = 1000
		steps(t, r, 5)
	}
}

// Replicas that never come take no places from other workloads.
func TestReplicasThatNeverComeTakeNoPlaces(t *testing.T) {
	h := newHouse()
	h.state.Replicas["shop/aaa"] = 1_000_000
	r := h.runner(bidder{9}, nil)
	r.Pools[0].Max = 2
	r.Workloads = append(r.Workloads, Scaled(podscaler.Workload{Name: "shop/aaa", Min: 1, Max: 1_000_000, Pod: h.pod("", "").Requests}, keep{}))
	s := steps(t, r, 2)
	if got := s.Workloads[0].Decision.To; got != 6 {
		t.Errorf("decided on %d replicas, want all 6 that there is room for: %s", got, fmt.Sprint(s.Workloads))
	}
}
