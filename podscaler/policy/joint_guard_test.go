package policy_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const (
	runEvery = 15 * time.Second
	// guardTimes and guardMore are F and C of docs/joint.md, and guardLooks how far back the HPA
	// looks.
	guardTimes, guardMore, guardLooks = 3, 6, 30 * time.Minute
	// settling is how long after its start replicas that it found may be kept.
	settling = 45 * time.Minute
)

// guarded is a load in cores, as it is drawn, and what an HPA at 60 % that looks back for half an
// hour would ask for.
type guarded struct {
	cores []float64
	safe  []int
}

func drawGuarded(t *rapid.T, quota float64) *guarded {
	g := &guarded{}
	most := rapid.Float64Range(0.1, 40).Draw(t, "most")
	for len(g.cores) < int(2*time.Hour/runEvery) {
		level := most * math.Pow(rapid.Float64Range(0.1, 1).Draw(t, "level"), 2)
		for range rapid.IntRange(1, 120).Draw(t, "runs") {
			g.cores = append(g.cores, level)
		}
	}
	for i := range g.cores {
		first := max(i-int(guardLooks/runEvery), 0)
		g.safe = append(g.safe, max(int(math.Ceil(slices.Max(g.cores[first:i+1])/(0.6*quota)-1e-9)), 1))
	}
	return g
}

// Joint sees CPU that is true, and requests and response times that have nothing to do with it. It
// asks for no fewer replicas than that CPU takes, and in no hour for more than F times the HPA's
// and C. Pods are never full, so that the HPA holds its objective.
func TestLawTheGuardBoundsWhatJointCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := usual()
		w.Max = 100_000
		p := must.Get(policy.New(policy.Spec{Policy: "Joint"}))(t)
		quota := float64(w.Pod.CPU) / 1000
		load := drawGuarded(t, quota)
		error, slow := rapid.Float64Range(0.2, 5), rapid.Float64Range(0.1, 8)
		replicas := rapid.IntRange(1, 60).Draw(t, "replicas")
		var asked, allowed []float64 // replica-minutes up to each run
		for i, cores := range load.cores {
			replicas = max(replicas, int(math.Ceil(cores/quota)))
			rate := 20 * cores
			if i%8 == 0 {
				rate *= error.Draw(t, "error")
			}
			v := &podscaler.View{Now: now.Add(time.Duration(i) * runEvery), Workload: &w, Replicas: replicas, Pods: running(replicas, cores/float64(replicas))}
			latency := w.SLO.Target.Seconds() * slow.Draw(t, "times the objective")
			v.Window = podscaler.Window{
				Latency: podscaler.Known(latency), Good: podscaler.Known(1), Arrivals: podscaler.Known(rate), InFlight: podscaler.Known(2 * float64(replicas)),
			}
			v.Room.Places = places(100_000, 100_000, 100_000)
			v.Room.Places.Filled = 100_000
			r := p.Desired(v)
			if least := int(math.Ceil(cores/(0.85*quota) - 1e-9)); !r.Known || r.Replicas < least {
				t.Fatalf("run %d: %d replicas (known %v) for %v cores, which take %d", i, r.Replicas, r.Known, cores, least)
			}
			replicas = r.Replicas
			minutes := runEvery.Minutes()
			asked = append(asked, minutes*float64(replicas))
			allowed = append(allowed, minutes*float64(guardTimes*load.safe[i]+guardMore))
		}
		hour := int(time.Hour / runEvery)
		for i := int(settling / runEvery); i+hour <= len(asked); i += hour / 12 {
			if got, most := sum(asked[i:i+hour]), sum(allowed[i:i+hour]); got > most+1e-6 {
				t.Fatalf("in the hour from run %d it asks for %.0f replica-minutes, at most %.0f are allowed", i, got, most)
			}
		}
	})
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// Without CPU the guard goes by what it last was.
func TestWithoutCPUTheLastSafeCountHolds(t *testing.T) {
	p, v := joint(t, policy.Joint{}, 40)
	for i := range v.Pods {
		v.Pods[i].CPU = podscaler.Sample{}
	}
	v.Window.Arrivals = podscaler.Known(4000)
	v.Now = v.Now.Add(runEvery)
	if r := p.Desired(v); r.Replicas > guardTimes*7+guardMore {
		t.Errorf("for arrivals a hundred times as many and no CPU goes from %d to %d, of 7 that are safe", v.Replicas, r.Replicas)
	}
	v.Window.Arrivals = podscaler.Known(0.1)
	v.Now = v.Now.Add(runEvery)
	if r := p.Desired(v); r.Replicas < v.Replicas {
		t.Errorf("without CPU goes from %d to %d", v.Replicas, r.Replicas)
	}
}

// An objective that idle pods would miss by far is given up after one to five windows, and tried
// again once it holds or after a day.
func TestAnObjectiveThatIdlePodsMissIsGivenUp(t *testing.T) {
	p, v := joint(t, policy.Joint{}, 40)
	says := func(after time.Duration, latency float64) bool {
		v.Now = v.Now.Add(after)
		v.Window.Latency = podscaler.Known(latency)
		r := p.Desired(v)
		*v = podscaler.View{Now: v.Now, Workload: v.Workload, Replicas: r.Replicas, Pods: calm(v.Workload, r.Replicas, 40).Pods, Window: v.Window}
		return slices.ContainsFunc(r.Reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonObjectiveUnreachable })
	}
	given := 0
	for i := range 240 {
		if says(runEvery, 0.9) {
			given = i
			break
		}
	}
	if given < 5 || given > 22 { // of which four are a window
		t.Fatalf("three times the objective is given up after %d runs", given)
	}
	for range 40 {
		says(runEvery, 0.9)
	}
	if v.Replicas > 8 {
		t.Errorf("there are %d replicas for an objective that is given up, and an HPA at 60 %% has 7", v.Replicas)
	}
	if !says(23*time.Hour, 0.9) || says(runEvery, 0.1) {
		t.Error("it is not given up for a day, or is where it holds")
	}
}
