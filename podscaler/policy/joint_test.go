package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// joint is a joint policy and a workload that it has watched for so long: pods that use 50 ms of
// CPU for each request, of half a core.
func joint(t testing.TB, c policy.Joint, runs int) (podscaler.Bidder, *podscaler.View) {
	t.Helper()
	p := must.Get(policy.New(policy.Spec{Policy: "Joint", Joint: &c}))(t)
	w := usual()
	v := calm(&w, 6, 40)
	for i := range runs {
		v.Now = now.Add(time.Duration(i-runs) * 15 * time.Second)
		p.Desired(v)
	}
	v.Now = now
	return p.(podscaler.Bidder), v
}

// calm is what is seen of so many replicas that answer so many requests a second without a queue.
func calm(w *podscaler.Workload, replicas int, rate float64) *podscaler.View {
	v := &podscaler.View{Now: now, Workload: w, Replicas: replicas, Pods: running(replicas, 0.05*rate/float64(replicas))}
	v.Window = podscaler.Window{
		Latency: podscaler.Known(0.2), Good: podscaler.Known(1), Arrivals: podscaler.Known(rate), InFlight: podscaler.Known(0.12 * rate),
	}
	return v
}

// places has room for so many replicas that is paid for, three to a machine.
func places(ready, coming, most int) *podscaler.Places {
	return &podscaler.Places{
		Ready: ready, Coming: coming, Most: most, PerMachine: 3, Next: pricing.RateOf(10 * pricing.Unit),
		Why: podscaler.Reason{Code: "LimitReached", Text: "one machine more would cost 50/h in all, of at most 40/h"},
	}
}

func TestJointFillsWhatIsPaidForAndFreesWholeMachines(t *testing.T) {
	// 40 requests a second of 50 ms want 2 cores: 6 pods of half a core.
	for _, c := range []struct {
		name     string
		fill     bool
		replicas int
		places   *podscaler.Places
		to       int
		reason   string
	}{
		{"nothing is known of places", true, 6, nil, 6, "one replica more than 6 has no known price"},
		{"room for one beside them", true, 6, places(7, 7, 7), 7, "PaidPlacesFilled: 6 are needed, and 1 more use"},
		{"room for a machine's worth, which can go", true, 6, places(9, 9, 9), 6, "one fewer frees no machine"},
		{"as many as there are, of which a machine's worth can go", true, 9, places(9, 9, 9), 6, "PaidPlacesLeft: 6 of 9 replicas are enough. There is room for 9"},
		{"the same, of a machine that is still to come", true, 9, places(6, 9, 9), 6, "one replica more than 6 would keep a machine"},
		{"one too few for a machine to go", true, 8, places(8, 8, 8), 8, "PaidPlacesFilled: 6 are needed, and 2 more use"},
		{"the same, unless it must not fill", false, 8, places(8, 8, 8), 6, "SizedForLoad: 6 replicas"},
		{"no room: a machine is to be bought, and filled", true, 3, places(3, 3, 9), 6, "one replica more than 6 needs a new machine (10/h, room for 3)"},
		{"a machine is coming", true, 3, places(3, 6, 9), 6, ""},
		{"limits leave no room", true, 3, places(3, 3, 4), 4, "PlacesLimited: 6 are needed, which is limited to 4 in this run by the room there is: LimitReached"},
		{"what is there stays, whatever the limits", true, 6, places(3, 3, 3), 6, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, v := joint(t, policy.Joint{Fill: &c.fill}, 40)
			v.Replicas, v.Room.Places = c.replicas, c.places
			r := p.Desired(v)
			if !r.Known || r.Replicas != c.to {
				t.Errorf("goes from %d to %d (known %v), should go to %d", v.Replicas, r.Replicas, r.Known, c.to)
			}
			if !slices.ContainsFunc(r.Reasons, func(r podscaler.Reason) bool { return strings.Contains(r.String(), c.reason) }) {
				t.Errorf("no reason has %q", c.reason)
			}
			if t.Failed() {
				t.Logf("reasons: %q", r.Reasons)
			}
		})
	}
}

// Where no request is measured, what is there stays, and paid room is no reason for more: pods that
// may do nothing would take it from others.
func TestJointFillsNothingWhileNoRequestIsMeasured(t *testing.T) {
	for _, replicas := range []int{6, 7, 8} {
		p, v := joint(t, policy.Joint{}, 40)
		v.Replicas, v.Room.Places, v.Window = replicas, places(8, 8, 8), podscaler.Window{}
		var r podscaler.Recommendation
		for range 40 { // for longer than replicas are kept
			if r = p.Desired(v); r.Replicas != replicas {
				t.Errorf("goes from %d to %d: %q", replicas, r.Replicas, r.Reasons)
			}
			v.Now = v.Now.Add(time.Minute)
		}
		if !slices.ContainsFunc(r.Reasons, func(r podscaler.Reason) bool { return strings.Contains(r.Text, "response times are not measured") }) {
			t.Errorf("it claims to know of the objective: %q", r.Reasons)
		}
	}
}

func TestJointSettlesOnAConstantLoad(t *testing.T) {
	p, v := joint(t, policy.Joint{}, 40)
	v.Room.Places = places(9, 9, 9)
	changes := 0
	for i := range 240 {
		v.Now = now.Add(time.Duration(i) * 15 * time.Second)
		to := p.Desired(v).Replicas
		if to != v.Replicas {
			changes++
		}
		*v = podscaler.View{Now: v.Now, Workload: v.Workload, Replicas: to, Pods: calm(v.Workload, to, 40).Pods, Window: v.Window, Room: v.Room}
	}
	if changes > 1 {
		t.Errorf("changed the replicas %d times in an hour of the same load", changes)
	}
}

// A service that no request reaches has no response times, and needs no more than its least. One
// that still holds requests may need all that it has, and so may one whose requests are not
// counted.
func TestJointShrinksAServiceThatNoRequestReaches(t *testing.T) {
	for _, c := range []struct {
		name    string
		history int // runs with requests before the last came
		window  podscaler.Window
		to      int
	}{
		{"none comes any more", 40, podscaler.Window{Arrivals: podscaler.Known(0), InFlight: podscaler.Known(0)}, 1},
		{"none has ever come, so it is not known what one takes", 0, podscaler.Window{Arrivals: podscaler.Known(0)}, 2},
		{"some are still in flight", 40, podscaler.Window{Arrivals: podscaler.Known(0), InFlight: podscaler.Known(0.5)}, 6},
		{"it is not known whether any come", 40, podscaler.Window{InFlight: podscaler.Known(0)}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, v := joint(t, policy.Joint{}, c.history)
			v.Window, v.Pods = c.window, running(6, 0.001)
			var r podscaler.Recommendation
			for i := range 180 {
				v.Now = now.Add(time.Duration(i) * 15 * time.Second)
				r = p.Desired(v)
			}
			if r.Replicas != c.to {
				t.Errorf("goes from 6 to %d after 45 minutes, should go to %d: %q", r.Replicas, c.to, r.Reasons)
			}
		})
	}
}

// Runs may be further apart than the window that signals are measured over.
func TestJointLearnsFromRunsThatAreFarApart(t *testing.T) {
	p, v := joint(t, policy.Joint{}, 0)
	v.Replicas = 12
	to := 0
	for i := range 12 {
		v.Now = now.Add(time.Duration(i) * 5 * time.Minute)
		to = p.Desired(v).Replicas
	}
	if to >= 12 {
		t.Errorf("after an hour of runs 5 minutes apart keeps %d replicas, of which 6 would do", to)
	}
}

// A ramp: by the time that a machine comes, more are needed than now. On a load that jumps about
// nothing is foretold.
func TestJointLooksAheadOnlyWhereThatHasPaid(t *testing.T) {
	ahead := func(rate func(period int) float64) (now, ahead int) {
		p, v := joint(t, policy.Joint{}, 0)
		for i := range 80 {
			at := v.Now.Add(15 * time.Second)
			*v = *calm(v.Workload, 30, rate(i))
			v.Now, v.Room.PodLead, v.Room.MachineLead = at, 10*time.Second, 2*time.Minute
			p.Desired(v)
		}
		b := p.Bid(v)
		fresh := *v
		fresh.Replicas = 1 // what is kept of those that there are is no part of what is needed
		return p.Bid(&fresh).Want, b.Ahead
	}
	if now, later := ahead(func(i int) float64 { return 40 + 3*float64(i) }); later <= now {
		t.Errorf("on a ramp %d are needed now, and %d are expected with the next machine", now, later)
	}
	jumps := []float64{60, 140, 90, 30, 120, 75, 150, 45}
	if now, later := ahead(func(i int) float64 { return jumps[i*i%8] }); later > max(now, 30) {
		t.Errorf("on a load that jumps %d are needed now, and %d are foretold", now, later)
	}
}

func TestJointTellsOfTimesInWholeSeconds(t *testing.T) {
	p, v := joint(t, policy.Joint{}, 0)
	text := ""
	for i := range 80 {
		at := v.Now.Add(15 * time.Second)
		*v = *calm(v.Workload, 30, 40+3*float64(i))
		v.Now, v.Room.PodLead, v.Room.MachineLead = at, 10*time.Second, 82249886853
		for _, r := range p.Desired(v).Reasons {
			if r.Code == podscaler.ReasonForecastAhead {
				text = r.Text
			}
		}
	}
	if !strings.Contains(text, " in 1m22s, ") {
		t.Errorf("it says %q", text)
	}
}

func TestJointSaysThatItsModelIsOff(t *testing.T) {
	p, v := joint(t, policy.Joint{}, 40)
	v.Window.Latency, v.Window.Good = podscaler.Known(1.2), podscaler.Known(0.4)
	var r podscaler.Recommendation
	for i := range 12 {
		v.Now = now.Add(time.Duration(i) * 15 * time.Second)
		r = p.Desired(v)
	}
	if r.Replicas <= v.Replicas || !slices.ContainsFunc(r.Reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonModelOff }) {
		t.Errorf("at four times the objective goes from %d to %d; %q", v.Replicas, r.Replicas, r.Reasons)
	}
}

func TestJointAboveItsCostTargetGivesUpTheHeadroom(t *testing.T) {
	want := func(rate int64) (int, []podscaler.Reason) {
		p, v := joint(t, policy.Joint{Headroom: new(0.4), Fill: new(false)}, 40)
		*v = *calm(v.Workload, 10, 200)
		v.Replicas = 1
		cost := pricing.RateOf(pricing.Micros(rate) * pricing.Unit)
		v.Cost = podscaler.Cost{Known: true, Joined: cost, Ordered: cost, Predicted: cost}
		r := p.Desired(v)
		return r.Replicas, r.Reasons
	}
	cheap, _ := want(30)
	dear, reasons := want(50)
	if dear >= cheap || !slices.ContainsFunc(reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonCostAboveTarget }) {
		t.Errorf("wants %d within the target and %d above it; %q", cheap, dear, reasons)
	}
}

// anyCourse has a joint policy see a course of any views, and returns the last.
func anyCourse(t *rapid.T) (podscaler.Bidder, *podscaler.View) {
	p := must.Get(policy.New(policy.Spec{Policy: "Joint"}))(t)
	w := usual()
	var v *podscaler.View
	for i := range rapid.IntRange(1, 6).Draw(t, "runs") {
		v = anyView(t, &w)
		v.Now = now.Add(time.Duration(i) * 15 * time.Second)
		v.Room.Places = anyPlaces(t)
		p.Desired(v)
	}
	v.Now = v.Now.Add(15 * time.Second)
	return p.(podscaler.Bidder), v
}

func anyPlaces(t *rapid.T) *podscaler.Places {
	if rapid.Bool().Draw(t, "places unknown") {
		return nil
	}
	ready := rapid.IntRange(0, 40).Draw(t, "ready places")
	coming := ready + rapid.IntRange(0, 20).Draw(t, "coming places")
	pl := places(ready, coming, coming+rapid.IntRange(0, 20).Draw(t, "places to buy"))
	pl.PerMachine = rapid.IntRange(0, 5).Draw(t, "replicas a machine")
	return pl
}

func TestJointNeverAsksForMoreThanThereIsRoomFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v := anyCourse(t)
		r := p.Desired(v)
		if pl := v.Room.Places; pl != nil && r.Known && r.Replicas > max(pl.Most, v.Replicas) {
			t.Fatalf("from %d to %d, with room for %d; %v", v.Replicas, r.Replicas, pl.Most, r.Reasons)
		}
	})
}

// After any learning: with room for all, pods are not left to use more than 85 % of what a pod has
// ever been seen to use, which in a view drawn at random is 2 cores at most.
func TestJointNeverGoesBelowTheReactiveFloor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v := anyCourse(t)
		v.Room.Places = nil
		r := p.Desired(v)
		used := 0.0
		for _, pod := range v.Pods {
			if pod.CPU.Known && pod.Ready && pod.Phase == podscaler.Running && !pod.Terminating {
				used += pod.CPU.Value
			}
		}
		if r.Known && float64(r.Replicas)*2*0.85 < used-1e-6 {
			t.Fatalf("%d replicas for %v cores; %v", r.Replicas, used, r.Reasons)
		}
	})
}

func TestJointBidsAreNonRisingAndChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v := anyCourse(t)
		seen := *v
		seen.Room.Places = nil
		b := p.Bid(&seen)
		if diff := cmp.Diff(b, p.Bid(&seen)); diff != "" {
			t.Fatalf("asked twice, bids differ (-first +second):\n%s", diff)
		}
		if !b.Known {
			return
		}
		if b.Ahead < b.Want || b.Want < 1 || len(b.Worth) < b.Ahead {
			t.Fatalf("bids %d now and %d ahead, of %d that are worth something", b.Want, b.Ahead, len(b.Worth))
		}
		for i, worth := range b.Worth {
			if worth < 0 || i > 0 && worth > b.Worth[i-1]+1e-9 {
				t.Fatalf("replica %d is worth %v, the one before %v", i+1, worth, b.Worth[max(i-1, 0)])
			}
		}
	})
}

// A policy that is asked for its bid decides as one that is not.
func TestJointBidsLeaveDecisionsAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked, _ := policy.New(policy.Spec{Policy: "Joint"})
		left, _ := policy.New(policy.Spec{Policy: "Joint"})
		w := usual()
		for i := range rapid.IntRange(1, 6).Draw(t, "runs") {
			v := anyView(t, &w)
			v.Now = now.Add(time.Duration(i) * 15 * time.Second)
			asked.(podscaler.Bidder).Bid(v)
			if diff := cmp.Diff(left.Desired(v), asked.Desired(v)); diff != "" {
				t.Fatalf("(-left alone +asked for its bid):\n%s", diff)
			}
		}
	})
}

// Requests are measured over a minute of which they came for some seconds, and a pod that is full
// of them works on ten a second of 50 ms, even if the mean of the minute is lower.
func TestJointTakesRequestsThatHaveJustBegunForWhatTheyAre(t *testing.T) {
	for name, known := range map[string]bool{"before the CPU is measured": false, "with the CPU measured": true} {
		t.Run(name, func(t *testing.T) {
			p := must.Get(policy.New(policy.Spec{Policy: "Joint"}))(t)
			w := usual()
			w.SLO.Window, w.Pod.CPU = time.Minute, 500
			v := calm(&w, 1, 0)
			see := func(at time.Duration, rate, inFlight, cpu float64) podscaler.Recommendation {
				v.Now = now.Add(at)
				v.Window = podscaler.Window{Arrivals: podscaler.Known(rate), InFlight: podscaler.Known(inFlight)}
				v.Pods[0].CPU = podscaler.Sample{Known: known, Value: cpu, At: v.Now, Span: 5 * time.Second}
				return p.Desired(v)
			}
			see(0, 0, 0, 0)
			see(5*time.Second, 0, 0, 0)
			// 40 users: the pod answers ten a second, and 30 or so wait.
			see(10*time.Second, 10*5./60, 35, 0.5)
			if d := see(15*time.Second, 10*10./60, 32, 0.5); d.Replicas < 3 || d.Replicas > 9 {
				t.Errorf("it asks for %d replicas, where 40 users need 5: %v", d.Replicas, d.Reasons)
			}
		})
	}
}

func TestJointAsksForOthersInPlaceOfReplicasThatAreLost(t *testing.T) {
	p, v := joint(t, policy.Joint{Fill: new(false)}, 40)
	before := p.Desired(v)
	lost := *v
	lost.Now = v.Now.Add(15 * time.Second)
	lost.Pods = slices.Clone(v.Pods)
	for i := range 3 {
		lost.Pods[i].Lost = true // the cluster has not noticed: they are ready still
	}
	// Is no replica.
	lost.Pods = append(lost.Pods, podscaler.Pod{Name: "old", Phase: podscaler.Failed, Lost: true})
	lost.Room.Places = places(6, 6, 20)
	b := p.Bid(&lost)
	d := p.Desired(&lost)
	if d.Replicas != before.Replicas+3 {
		t.Errorf("%d replicas are asked for, of which 3 are lost; it were %d: %v", d.Replicas, before.Replicas, d.Reasons)
	}
	if b.Want != before.Replicas+3 || len(b.Worth) != b.Ahead {
		t.Errorf("it bids for %d, and says what %d of %d are worth", b.Want, len(b.Worth), b.Ahead)
	}
	if !slices.ContainsFunc(d.Reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonReplicasLost }) {
		t.Errorf("it does not say why: %v", d.Reasons)
	}
	all := lost
	all.Workload = new(podscaler.Workload)
	*all.Workload = *v.Workload
	all.Workload.Max = before.Replicas
	if d := p.Desired(&all); d.Replicas != before.Replicas {
		t.Errorf("%d replicas are asked for, of at most %d", d.Replicas, before.Replicas)
	}
}

// Requests that wait for something that pods do not have, as for a database that is slow, make no
// queue that more pods would work off, however many of them there are.
func TestJointBuysNothingForWhatWaitsForSomethingElse(t *testing.T) {
	for _, c := range []struct {
		name    string
		rate    float64
		flying  func(run int) float64
		latency float64
		most    int // replicas, once CPU has been measured of pods that wait
		off     bool
	}{
		{"as many users as there are", 20, func(int) float64 { return 200 }, 10, 6, true},
		{"requests that keep coming", 40, func(run int) float64 { return min(300*float64(run+1), 5000) }, 10, 8, true},
		{"as they always do, and in time", 40, func(int) float64 { return 80 }, 0.25, 6, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, v := joint(t, policy.Joint{}, 200)
			v.Workload.Max = 500
			replicas := 6
			for run := range 60 {
				next := calm(v.Workload, replicas, c.rate)
				next.Now = now.Add(time.Duration(run) * 15 * time.Second)
				next.Pods = running(replicas, 1/float64(replicas)) // a core in all
				for i := range next.Pods {
					next.Pods[i].CPU.At = next.Now
				}
				next.Window.Latency, next.Window.InFlight = podscaler.Known(c.latency), podscaler.Known(c.flying(run))
				r := p.Desired(next)
				replicas = r.Replicas
				off := slices.ContainsFunc(r.Reasons, func(r podscaler.Reason) bool {
					return r.Code == podscaler.ReasonModelOff && strings.Contains(r.Text, "something else")
				})
				if run >= 20 && (replicas > c.most || off != c.off) {
					t.Fatalf("run %d: %d replicas, want at most %d; says that they wait: %v\n%v", run, replicas, c.most, off, r.Reasons)
				}
			}
			full := calm(v.Workload, replicas, c.rate)
			full.Now, full.Pods = now.Add(time.Hour), running(replicas, 0.5)
			full.Window.InFlight, full.Window.Latency = podscaler.Known(200), podscaler.Known(3)
			if got := p.Desired(full).Replicas; got <= replicas {
				t.Errorf("%d replicas where pods are full that were %d: what waited comes to them now", got, replicas)
			}
		})
	}
}
