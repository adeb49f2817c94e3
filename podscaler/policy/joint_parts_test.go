package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What each of joint's parts holds to on any load.

var partsStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// partsView is pods that each use so much, and what was measured of them.
func partsView(pods int, cpu, rate, latency, flying float64) *podscaler.View {
	v := &podscaler.View{
		Now: partsStart, Replicas: pods,
		Workload: &podscaler.Workload{
			Name: "web", Min: 1, Max: 200, RunPeriod: 15 * time.Second, Pod: pricing.Resources{CPU: 500},
			SLO: podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute},
		},
		Window: podscaler.Window{Arrivals: podscaler.Known(rate), Latency: podscaler.Known(latency), InFlight: podscaler.Known(flying)},
	}
	for range pods {
		v.Pods = append(v.Pods, podscaler.Pod{
			Phase: podscaler.Running, Ready: true, ReadyChanged: partsStart.Add(-time.Hour),
			CPU: podscaler.Sample{Known: true, Value: cpu, At: partsStart, Span: 15 * time.Second},
		})
	}
	return v
}

func partsOf(t *rapid.T) *joint {
	p := must.Get(newJoint(Joint{}))(t)
	return p.(*joint)
}

// The load is never less than what is done, waiting requests only add to it, and where the
// objective is given up they do not.
func TestLawTheEstimatorCountsEachRequestOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &partsOf(t).estimator
		pods := rapid.IntRange(1, 30).Draw(t, "pods")
		v := partsView(pods, rapid.Float64Range(0.01, 0.5).Draw(t, "cpu"), rapid.Float64Range(0.1, 200).Draw(t, "rate"),
			rapid.Float64Range(0.01, 5).Draw(t, "latency"), float64(rapid.IntRange(0, 500).Draw(t, "flying")))
		e.see(v)
		w, given := e.work(v, false), e.work(v, true)
		if w.offered < w.done*(1-1e-9) || w.coming > w.offered*(1+1e-9) {
			t.Fatalf("of %+v less is offered than done, or more comes", w)
		}
		if want := (w.rate + w.back) * w.demand; w.demand > 0 && math.Abs(w.offered-want) > 1e-9*want {
			t.Fatalf("%v cores are offered, want %v", w.offered, want)
		}
		if given.waits != 0 || given.back != 0 || given.offered > w.offered*(1+1e-9) {
			t.Fatalf("where the objective is given up what waits is load: %+v", given)
		}
		if in := v.Window.InFlight.Value; w.waits > in {
			t.Fatalf("%v wait of %v in flight", w.waits, in)
		}
	})
}

// Where requests in flight are not measured, the same requests take longer while some pods move.
// They are no more load for that, and no pods that move are to make others come.
func TestLawFewerPodsMakeNoMoreLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &partsOf(t).estimator
		all := rapid.IntRange(4, 20).Draw(t, "pods")
		cores := float64(all) / 2 * rapid.Float64Range(0.5, 0.68).Draw(t, "full")
		now := partsStart
		see := func(pods int) {
			busy := min(cores/(float64(pods)/2), 0.95)
			v := partsView(pods, cores/float64(pods), 10*cores, 0.1/(1-busy), 0)
			now = now.Add(15 * time.Second)
			v.Now, v.Window.InFlight = now, podscaler.Reading{}
			e.see(v)
			if w := e.work(v, false); w.offered > 1.1*cores {
				t.Fatalf("%d of %d pods make %v cores of %v", pods, all, w.offered, cores)
			}
		}
		for range rapid.IntRange(1, 4).Draw(t, "moves") {
			for range 20 {
				see(all)
			}
			for range rapid.IntRange(1, 4).Draw(t, "looks") {
				see(all - max(all/4, 1))
			}
		}
	})
}

// A flat load is expected to stay, and no load to grow by more than half within a lead.
func TestLawTheForecasterGoesNoFurtherThanItMay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := partsOf(t).forecaster
		load := rapid.Float64Range(0.1, 50).Draw(t, "load")
		step := rapid.Float64Range(0, 0.3).Draw(t, "step")
		now := partsStart
		for i := range rapid.IntRange(1, 80).Draw(t, "periods") {
			f.observe(now.Add(time.Duration(i)*period), load, false, true)
			load *= 1 + step
		}
		load /= 1 + step
		l := f.look(partsView(1, 0, 0, 0, 0), load)
		if max(l.pod, l.machine) > steepest*load*(1+1e-9) {
			t.Fatalf("%+v is expected of a load of %v", l, load)
		}
		if step == 0 && l.known && max(l.pod, l.machine) > load*(1+1e-6) {
			t.Fatalf("%+v is expected of a flat load of %v", l, load)
		}
	})
}

// No more is asked for than the guard allows, no less than CPU takes, and for more load no fewer.
func TestLawTheSizerStaysWithinTheGuard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := partsOf(t)
		pods, cpu, rate := rapid.IntRange(1, 30).Draw(t, "pods"), rapid.Float64Range(0.01, 0.5).Draw(t, "cpu"), rapid.Float64Range(0.1, 200).Draw(t, "rate")
		v := partsView(pods, cpu, rate, rapid.Float64Range(0.01, 5).Draw(t, "latency"), float64(rapid.IntRange(0, 500).Draw(t, "flying")))
		p.estimator.see(v)
		g := &p.sizer.guard
		g.see(v, p.estimator.service.Quota(), p.estimator.queued(v))
		s := p.sizer.size(v, &p.estimator, p.forecaster)
		if s.now > g.most() || s.later > g.most() || s.ahead < s.now || s.wanted < s.floor || s.now < min(s.floor, g.most()) || s.now < 1 {
			t.Fatalf("%+v, of which the guard allows %d", s, g.most())
		}
		more := partsView(pods, cpu, rate, v.Window.Latency.Value, v.Window.InFlight.Value+float64(rapid.IntRange(0, 500).Draw(t, "more")))
		if m := p.sizer.size(more, &p.estimator, p.forecaster); m.wanted < s.wanted {
			t.Fatalf("%d are wanted, and for more requests in flight %d", s.wanted, m.wanted)
		}
	})
}

// Room that is paid for is filled up to what is allowed, and a whole machine's room is left empty.
func TestLawTheAllocatorFillsNoWholeMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &partsOf(t).allocator
		ready := rapid.IntRange(0, 40).Draw(t, "ready")
		pl := &podscaler.Places{Ready: ready, Coming: ready + rapid.IntRange(0, 20).Draw(t, "coming"), PerMachine: rapid.IntRange(1, 8).Draw(t, "a machine")}
		v := partsView(1, 0.1, 1, 0.1, 0)
		v.Room.Places = pl
		a.see(v)
		n, allowed := rapid.IntRange(1, 60).Draw(t, "needed"), rapid.IntRange(1, 300).Draw(t, "allowed")
		to := a.filled(v, pl, n, allowed)
		if to < n || to > max(n, min(allowed, v.Workload.Max)) || to-n >= pl.PerMachine || to > max(n, pl.Coming) {
			t.Fatalf("%d of %d needed with room for %d and %d, %d a machine, %d allowed", to, n, pl.Ready, pl.Coming, pl.PerMachine, allowed)
		}
	})
}

// What is kept is at least what is needed, at most what there is or what is needed, all of it while
// it is not sure what is needed, and nothing beyond what the guard allows where it is.
func TestLawTheHolderKeepsWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &partsOf(t).holder
		v := partsView(rapid.IntRange(1, 50).Draw(t, "there"), 0.1, 1, 0.1, 0)
		for range rapid.IntRange(1, 200).Draw(t, "runs") {
			h.see(v, rapid.IntRange(1, 50).Draw(t, "needed"), rapid.Bool().Draw(t, "queued"))
			v.Now = v.Now.Add(time.Duration(rapid.IntRange(5, 60).Draw(t, "seconds")) * time.Second)
		}
		n, sure, allowed := rapid.IntRange(1, 50).Draw(t, "n"), rapid.Bool().Draw(t, "sure"), rapid.IntRange(1, 50).Draw(t, "allowed")
		kept := h.kept(v, n, sure, allowed)
		_, known := h.needs.most(v.Now, h.keep)
		switch {
		case kept < n || kept > max(n, v.Replicas):
			t.Fatalf("%d are kept of %d, where %d are needed", kept, v.Replicas, n)
		case !sure && kept != max(n, v.Replicas):
			t.Fatalf("%d are kept of %d although it is not sure what is needed", kept, v.Replicas)
		case sure && known && kept > max(n, allowed):
			t.Fatalf("%d are kept, and %d allowed", kept, allowed)
		}
		if h.keep < shortKeep || h.keep > longKeep {
			t.Fatalf("they are kept for %s", h.keep)
		}
	})
}
