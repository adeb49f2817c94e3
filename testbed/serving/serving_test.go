package serving

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// The heap and the virtual clock against the plainest possible processor sharing: go from end to
// end, and take from every request what it got meanwhile.
func TestLawPodsAgreeWithPlainProcessorSharing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(t, "slots")
		quota := rapid.SampledFrom([]float64{0.25, 0.5, 1, 2.5}).Draw(t, "quota")
		n := rapid.IntRange(1, 25).Draw(t, "requests")
		arrivals, needs, waits := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			waits[i] = float64(max(rapid.IntRange(-300, 300).Draw(t, "wait"), 0)) / 1000
			arrivals[i] = float64(rapid.IntRange(0, 2000).Draw(t, "at")) / 1000
			needs[i] = float64(rapid.IntRange(1, 300).Draw(t, "need")) / 1000
		}
		sort.Float64s(arrivals)
		pod := New[int](quota, limit, 0)
		got := serve(&pod, arrivals, needs, func(i int) float64 { return waits[i] })
		want := servePlainly(arrivals, needs, waits, limit, quota)
		for i := range n {
			if math.Abs(got[i]-want[i]) > 1e-6 {
				t.Fatalf("request %d ends at %.9f, want %.9f", i, got[i], want[i])
			}
		}
		total := 0.0
		for _, need := range needs {
			total += need
		}
		if used := pod.Used(time.Hour); math.Abs(used-total) > 1e-6 || pod.Load() != 0 {
			t.Fatalf("%.9f s of CPU used, of %.9f needed; %d left", used, total, pod.Load())
		}
	})
}

// serve lets the real pod do it.
func serve(p *Pod[int], arrivals, needs []float64, waits func(int) float64) (ends []float64) {
	ends = make([]float64, len(needs))
	leave := func(until time.Duration) {
		for at, busy := p.Due(); busy && at <= until; at, busy = p.Due() {
			if i, out := p.Finish(at); out {
				ends[i] = at.Seconds()
			}
		}
	}
	for i := range arrivals {
		at := time.Duration(arrivals[i] * 1e9)
		leave(at)
		p.Accept(at, needs[i], waits(i), i)
	}
	leave(math.MaxInt64)
	return ends
}

func servePlainly(arrivals, needs, waits []float64, limit int, quota float64) []float64 {
	left, away := slices.Clone(needs), slices.Clone(waits)
	ends := make([]float64, len(needs))
	var in []int // being served, away or waiting for a slot, in order of arrival
	now, next := 0.0, 0
	for next < len(arrivals) || len(in) > 0 {
		slots := in[:min(limit, len(in))]
		var serving []int
		for _, r := range slots {
			if left[r] > 0 {
				serving = append(serving, r)
			}
		}
		rate := min(1, quota/float64(len(serving)))
		at, first := math.Inf(1), -1
		for i, r := range slots {
			end := now + away[r]
			if left[r] > 0 {
				end = now + left[r]/rate
			}
			if end < at-1e-12 {
				at, first = end, i
			}
		}
		arriving := next < len(arrivals) && arrivals[next] < at
		if arriving {
			at = arrivals[next]
		}
		for _, r := range slots {
			if left[r] > 0 {
				left[r] -= (at - now) * rate
			} else {
				away[r] -= at - now
			}
		}
		now = at
		if arriving {
			in = append(in, next)
			next++
			continue
		}
		r := in[first]
		if done := left[r] > -1e-9 && left[r] < 1e-9 && away[r] > 0 && waits[r] == away[r]; done {
			left[r] = 0 // it has had its CPU
			continue
		}
		ends[r] = now
		in = slices.Delete(in, first, first+1)
	}
	return ends
}

// Queueing theory knows the mean time in a pod: one request at a time is M/M/1 and M/D/1, and
// processor sharing has E[S]/(1-ρ) regardless of the distribution.
func TestMeanTimesAreThoseOfTheory(t *testing.T) {
	const mean, load = 0.05, 0.7
	exponential := func(r *rand.Rand) float64 { return mean * r.ExpFloat64() }
	constant := func(*rand.Rand) float64 { return mean }
	for _, c := range []struct {
		name  string
		slots int
		need  func(*rand.Rand) float64
		want  float64
	}{
		{"M/M/1", 1, exponential, mean / (1 - load)},
		{"M/D/1", 1, constant, mean + load*mean/(2*(1-load))},
		{"M/M/1 shared", 1 << 20, exponential, mean / (1 - load)},
		{"M/D/1 shared", 1 << 20, constant, mean / (1 - load)},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 400_000
			rng := rand.New(rand.NewPCG(1, 2))
			arrivals, needs := make([]float64, n), make([]float64, n)
			at := 0.0
			for i := range n {
				at += rng.ExpFloat64() * mean / load
				arrivals[i], needs[i] = at, c.need(rng)
			}
			pod := New[int](1, c.slots, 0)
			sum := 0.0
			for i, end := range serve(&pod, arrivals, needs, func(int) float64 { return 0 }) {
				sum += end - arrivals[i]
			}
			if got := sum / n; math.Abs(got/c.want-1) > 0.03 {
				t.Errorf("a request takes %.1f ms on average, want %.1f", got*1000, c.want*1000)
			}
		})
	}
}

func TestDroppedRequestsComeBackInOrderAndUseNoMoreCPU(t *testing.T) {
	p := New[int](1, 2, 0)
	for i := range 4 {
		p.Accept(0, 1, 0, i)
	}
	if got := p.Drop(time.Second); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("dropped %v", got)
	}
	if _, busy := p.Due(); busy || p.Load() != 0 || p.Used(time.Minute) != 1 {
		t.Errorf("busy %v with %d requests, %.1f s of CPU used", busy, p.Load(), p.Used(time.Minute))
	}
}

type loaded int

func (l loaded) Load() int { return int(l) }

func TestOfTwoPodsTheOneWithLessToDoIsPicked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 30_000
	count := map[loaded]int{}
	for range n {
		count[Pick([]loaded{0, 1, 2}, LeastOfTwo, rng)]++
	}
	// The two draws are with replacement: the least loaded of three is missed by both in 4 of 9
	// cases, the most loaded is picked only if both hit it.
	for pod, share := range map[loaded]float64{0: 5. / 9, 1: 3. / 9, 2: 1. / 9} {
		if got := float64(count[pod]) / n; math.Abs(got-share) > 0.01 {
			t.Errorf("the pod with %d requests gets %.3f, want %.3f", pod, got, share)
		}
	}
	clear(count)
	for range n {
		count[Pick([]loaded{0, 1, 2}, AtRandom, rng)]++
	}
	for pod := range loaded(3) {
		if got := float64(count[pod]) / n; math.Abs(got-1./3) > 0.01 {
			t.Errorf("at random, the pod with %d requests gets %.3f", pod, got)
		}
	}
	if Pick([]loaded{7}, LeastOfTwo, nil) != 7 {
		t.Error("the only pod is not picked")
	}
}

func TestDemandIsEvenAroundItsMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d := Demand{Mean: 50 * time.Millisecond, Spread: 0.2}
	lo, hi, sum := math.Inf(1), 0., 0.
	const n = 20_000
	for range n {
		s := d.Draw(rng)
		lo, hi, sum = min(lo, s), max(hi, s), sum+s
	}
	if lo < 0.04 || hi >= 0.06 || lo > 0.0401 || hi < 0.0599 || math.Abs(sum/n-0.05) > 0.0002 {
		t.Errorf("from %v to %v, %v on average", lo, hi, sum/n)
	}
	if (Demand{Mean: time.Second}).Draw(nil) != 1 {
		t.Error("without spread, a demand is not its mean")
	}
}

func TestAHeavyTailKeepsItsMeanAndItsLaw(t *testing.T) {
	d := Demand{Mean: 50 * time.Millisecond, Tail: 3}
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 400_000
	least := .05 * 2 / 3
	sum, above := 0.0, 0
	for range n {
		v := d.Draw(rng)
		if v < least-1e-12 {
			t.Fatalf("%g is below the least, %g", v, least)
		}
		sum += v
		if v > 2*least {
			above++
		}
	}
	if mean := sum / n; math.Abs(mean-.05) > .0005 {
		t.Errorf("the mean is %g", mean)
	}
	if part := float64(above) / n; math.Abs(part-.125) > .003 { // (1/2)³
		t.Errorf("%g are above twice the least", part)
	}
}

func TestAPodThatIsResizedKeepsWhatItHasDone(t *testing.T) {
	pod := New[int](1, 8, 0)
	pod.Accept(0, 2, 0, 1)
	pod.Resize(time.Second, .5)
	if due, _ := pod.Due(); due != 3*time.Second {
		t.Errorf("a second of work at half a core is done at %s, want 3s", due)
	}
	pod.Resize(2*time.Second, 1)
	if due, _ := pod.Due(); due != 2500*time.Millisecond {
		t.Errorf("half a second of work is done at %s, want 2.5s", due)
	}
}
