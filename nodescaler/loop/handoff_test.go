package loop

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// bidder wants as many as there are places for.
type bidder struct{ want int }

func (b bidder) Bid(*podscaler.View) podscaler.Bid {
	return podscaler.Bid{Known: true, Want: b.want, Ahead: b.want, Worth: make([]float64, b.want)}
}

func (b bidder) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Known: true, Replicas: min(b.want, v.Room.Places.Most), Ahead: b.want, Reasons: why}
}

// Two of the three places of the node are taken. What may be counted on beyond them follows from
// whose the pools are.
func TestReplicasCountOnMachinesThatOthersOrder(t *testing.T) {
	worker := nodescaler.Pool{Name: "worker", Shapes: []pricing.Shape{small}, Max: 2, Reserved: pricing.Resources{CPU: 200}}
	for name, c := range map[string]struct {
		pools, offered []nodescaler.Pool
		want           int
	}{
		"ours":                 {pools: []nodescaler.Pool{worker}, want: 6},
		"cluster-autoscaler's": {offered: []nodescaler.Pool{worker}, want: 6},
		"of an unknown owner":  {want: 9},
	} {
		h := newHouse()
		r := h.runner(bidder{9}, nil)
		r.Pools, r.Offered = c.pools, c.offered
		s := steps(t, r, 2)
		if d := s.Workloads[0].Decision; d == nil || d.To != c.want {
			t.Errorf("pools that are %s: decided %+v, want %d replicas", name, d, c.want)
		}
		if len(r.Pools) != len(c.pools) {
			t.Errorf("pools that are %s: there are %d pools to plan for", name, len(r.Pools))
		}
	}
}

// Replicas that are only recommended take no place from those that are created, but for those that
// are pods already; what they would get is worked out all the same.
func TestRecommendationsTakeNoPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		held []string
		want [2]int
	}{
		"both are created":          {nil, [2]int{3, 3}},
		"one is only recommended":   {[]string{"shop/api"}, [2]int{5, 3}},
		"both are only recommended": {[]string{"shop/api", "shop/web"}, [2]int{3, 3}},
	} {
		h := newHouse()
		h.state.Replicas["shop/api"] = 1
		api := h.pod("api-1", "")
		api.Workload = "shop/api"
		h.state.Pods = append(h.state.Pods, api)
		r := h.runner(bidder{6}, nil)
		r.Pools[0].Max = 2
		held := holds{Workloads: map[string]nodescaler.Reason{}}
		for _, name := range c.held {
			held.Workloads[name] = why[0]
		}
		r.Workloads = append(r.Workloads, Scaled(podscaler.Workload{
			Name: "shop/api", Min: 1, Max: 20, Pod: pricing.Resources{CPU: 600, Memory: pricing.GB},
		}, bidder{9}))
		held.put(r)
		s := steps(t, r, 2)
		if got := [2]int{s.Workloads[0].Decision.To, s.Workloads[1].Decision.To}; got != c.want {
			t.Errorf("%s: decided on %v, want %v", name, got, c.want)
		}
	}
}

// A workload that is not in the cluster has no replicas, and takes no place from those that are.
func TestAWorkloadThatIsNotThereTakesNoPlaces(t *testing.T) {
	h := newHouse()
	web := &shy{want: 2}
	r := h.runner(web, nil)
	r.Workloads = append(r.Workloads, Scaled(podscaler.Workload{Name: "shop/gone", Min: 1, Max: 20, Pod: pricing.Resources{CPU: 600, Memory: pricing.GB}}, replicas(20)))
	steps(t, r, 2)
	if web.places.Coming != 3 {
		t.Errorf("there are %d places, want the 3 of the node", web.places.Coming)
	}
}

// shy bids for less than it may have, and remembers the places that it was offered.
type shy struct {
	want   int
	places podscaler.Places
}

func (s *shy) Bid(*podscaler.View) podscaler.Bid {
	return podscaler.Bid{Known: true, Want: s.want, Ahead: s.want, Worth: make([]float64, s.want)}
}

func (s *shy) Desired(v *podscaler.View) podscaler.Recommendation {
	s.places = *v.Room.Places
	return podscaler.Recommendation{Known: true, Replicas: s.want, Reasons: why}
}

// What is handed off is not ordered twice; the places that were made for it are kept.
func TestWhatIsHandedOffIsNotPlannedForTwice(t *testing.T) {
	for name, c := range map[string]struct {
		off    bool
		placed int
		want   []int
	}{
		"kept here":               {want: []int{1, 5}},
		"handed off":              {off: true, want: []int{1, 0}},
		"and two have a place":    {off: true, placed: 2, want: []int{1, 2}},
		"and more than are ahead": {off: true, placed: 9, want: []int{1, 5}},
	} {
		h := newHouse()
		h.state.Placed = map[string]int{"shop/web": c.placed}
		var got []int
		r := h.runner(podsSay(func(*podscaler.View) podscaler.Recommendation {
			return podscaler.Recommendation{Known: true, Replicas: 3, Ahead: 8, Reasons: why}
		}), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
			got = nil
			for _, f := range s.Future {
				got = append(got, f.Count, f.Ahead)
			}
			return nodescaler.Plan{}
		}))
		r.HandedOff = c.off
		steps(t, r, 2)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: decided on and ahead, -want +got:\n%s", name, diff)
		}
	}
}

// No replicas are changed where only machines are decided on, for any node policy.
func TestNodesOnlyTouchesNoWorkload(t *testing.T) {
	h := newHouse()
	r := h.runner(nil, emptying{Policy: actions(order("x"))})
	r.Workloads = nil
	steps(t, r, 1)
	h.state.Replicas["shop/web"] = 1 // as another autoscaler says
	steps(t, r, 2)
	if diff := cmp.Diff([]string{"create x"}, h.done); diff != "" {
		t.Errorf("done, -want +got:\n%s", diff)
	}
}

// emptying is a node policy that wants whole machines left, or could.
type emptying struct {
	nodescaler.Policy
	never bool
}

func (e emptying) Empties() bool { return !e.never }

// A workload that may have no more takes no place from one that may, however much it
// bids.
func TestAWorkloadThatMayNotGrowTakesNoPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		there int
		pause podscaler.Pause
		of    []podscaler.Schedule
		want  int
	}{
		"it may":               {1, podscaler.Pause{}, nil, 3},
		"growing is paused":    {1, podscaler.Pause{Up: true}, nil, 5},
		"it is fixed":          {1, podscaler.Pause{Replicas: new(1)}, nil, 5},
		"a schedule's ceiling": {1, podscaler.Pause{}, []podscaler.Schedule{{Name: "night", From: t0.Add(-time.Hour), To: t0.Add(time.Hour), Max: new(1)}}, 5},
		"a person's 0":         {0, podscaler.Pause{}, nil, 6},
	} {
		h := newHouse()
		if h.state.Replicas["shop/api"] = c.there; c.there > 0 {
			api := h.pod("api-1", "")
			api.Workload = "shop/api"
			h.state.Pods = append(h.state.Pods, api)
		}
		r := h.runner(bidder{6}, nil)
		r.Pools[0].Max = 2
		r.Workloads = append(r.Workloads, Scaled(podscaler.Workload{
			Name: "shop/api", Min: 1, Max: 20, Pod: pricing.Resources{CPU: 600, Memory: pricing.GB}, Schedules: c.of,
		}, bidder{9}))
		r.Workloads[1].Pause = c.pause
		if got := steps(t, r, 2).Workloads[0].Decision.To; got != c.want {
			t.Errorf("%s: the other gets %d, want %d", name, got, c.want)
		}
	}
}
