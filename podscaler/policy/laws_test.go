package policy_test

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// anySpec draws one of all registered policies with its defaults, or one with settings that
// make it look at more.
func anySpec(t *rapid.T) policy.Spec {
	specs := []policy.Spec{
		slocost(policy.SLOCost{Role: policy.Symmetric, RTWeight: new(0.8)}),
		slocost(policy.SLOCost{Wait: true, Tolerance: 0.05}),
		fastslow(policy.FastSlow{Metric: "load", Target: new(policy.Quantity(500)), DownStep: new(3), DownWindow: new(podscaler.Duration(time.Minute))}),
		cpuValue(300),
		hpaOn(
			policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 60},
			policy.Metric{Type: policy.Pods, Name: "load", AverageValue: 500},
			policy.Metric{Type: policy.External, Name: "queue", AverageValue: 5_000},
			policy.Metric{Type: policy.Object, Name: "queue", Value: 20_000},
		),
		anyWater(policy.Average), anyWater(policy.Absolute),
		predicting(policy.Predictive{Forecaster: "Race", Members: []string{"Last", "AR"}, Quantile: new(0.95)}),
		predicting(policy.Predictive{Forecaster: "Last", Profile: perPod(20)}),
		predicting(policy.Predictive{Period: seconds(15), MarginalValue: new(0.5), ReactiveFloor: new(false), Profile: perPod(20)}),
	}
	for _, name := range policy.Names() {
		specs = append(specs, policy.Spec{Policy: name})
	}
	return specs[rapid.IntRange(0, len(specs)-1).Draw(t, "spec")]
}

// anyWater has all that a watermark policy can look at.
func anyWater(a policy.Algorithm) policy.Spec {
	return policy.Spec{Policy: "Watermark", Watermark: &policy.Watermark{
		Algorithm: a,
		Metrics: []policy.WatermarkMetric{
			{Type: policy.Resource, Name: "cpu", High: 800, Low: 200},
			{Type: policy.Pods, Name: "load", High: 1200},
			{Type: policy.External, Name: "queue", Low: 5_000, High: 9_000},
		},
		ConvergeTo: policy.ConvergeHigh, TolerateZero: true, Cooldown: policy.ByDirection{Down: seconds(30)}, Delay: policy.ByDirection{Up: seconds(15)},
	}}
}

// anyScaler draws a workload with all guards, and a policy that works on it.
func anyScaler(t *rapid.T) func() *podscaler.Scaler {
	spec, w := anySpec(t), usual()
	w.Min = rapid.IntRange(1, 5).Draw(t, "min")
	w.Max = w.Min + rapid.IntRange(0, 60).Draw(t, "max - min")
	w.Behavior = rapid.SampledFrom([]*podscaler.Behavior{nil, podscaler.LegacyBehavior(), podscaler.DefaultBehavior()}).Draw(t, "behavior")
	w.Cooldown = time.Duration(rapid.IntRange(0, 300).Draw(t, "cooldown")) * time.Second
	anyGuards(t, &w)
	return func() *podscaler.Scaler {
		p := must.Get(policy.New(spec))(t)
		must.Do(t, policy.Check(&w, p))
		return podscaler.NewScaler(w, p)
	}
}

func anyGuards(t *rapid.T, w *podscaler.Workload) {
	w.Readiness.MinAvailablePercent = rapid.SampledFrom([]int{0, 0, 50, 100}).Draw(t, "min available")
	w.Upstream = podscaler.Upstream{Off: rapid.Bool().Draw(t, "upstream off"), Drop: rapid.Float64Range(0, 0.95).Draw(t, "upstream drop")}
	if kind := rapid.SampledFrom([]podscaler.FallbackBehavior{
		"", podscaler.FallbackCurrentIfHigher, podscaler.FallbackStatic, podscaler.FallbackCurrentIfLower,
	}).Draw(t, "fallback"); kind != "" {
		w.Fallback = &podscaler.Fallback{
			Behavior: kind, After: time.Duration(rapid.IntRange(0, 10).Draw(t, "after")) * time.Minute,
			Replicas: rapid.IntRange(w.Min, w.Max).Draw(t, "fallback replicas"),
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "schedules") {
		event := podscaler.Schedule{
			Name: fmt.Sprint(i), From: now.Add(time.Duration(rapid.IntRange(-20, 5).Draw(t, "from")) * time.Minute),
			Ramp: time.Duration(rapid.IntRange(0, 10).Draw(t, "ramp")) * time.Minute,
		}
		event.To = event.From.Add(10 * time.Minute)
		bound := rapid.IntRange(w.Min, w.Max).Draw(t, "scheduled")
		if event.Min = &bound; rapid.Bool().Draw(t, "ceiling") {
			event.Min, event.Max = nil, &bound
		}
		w.Schedules = append(w.Schedules, event)
	}
}

// owned reports whether a decision follows from what a person has set, measurements aside: a pause
// that fixes the replicas, a schedule's bounds, or a fallback that may shrink.
func owned(d podscaler.Decision, w *podscaler.Workload) bool {
	lowers := w.Fallback != nil && (w.Fallback.Behavior == podscaler.FallbackStatic || w.Fallback.Behavior == podscaler.FallbackCurrentIfLower)
	return slices.ContainsFunc(d.Reasons, func(r podscaler.Reason) bool {
		return r.Code == podscaler.ReasonPaused || r.Code == podscaler.ReasonScheduleCeiling || lowers && r.Code == podscaler.ReasonFallback
	})
}

// anyView draws what there is to see, with gaps.
func anyView(t *rapid.T, w *podscaler.Workload) *podscaler.View {
	v := &podscaler.View{Now: now, Workload: w, Replicas: rapid.IntRange(0, 60).Draw(t, "replicas")}
	load := map[string]float64{}
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		p := anyPod(t, i)
		v.Pods = append(v.Pods, p)
		if rapid.IntRange(0, 3).Draw(t, "silent") > 0 {
			load[p.Name] = rapid.Float64Range(0, 2).Draw(t, "load")
		}
	}
	v.Window = podscaler.Window{
		Latency: anyReading(t, "latency", 3), Good: anyReading(t, "good", 1), Arrivals: anyReading(t, "arrivals", 1000),
		InFlight: anyReading(t, "in flight", 100), Errors: anyReading(t, "errors", 1), Registered: anyReading(t, "registered", 12),
		Metrics: map[string]podscaler.Metric{"load": {PerPod: load}, "queue": {Total: anyReading(t, "queue", 200)}},
	}
	rate := pricing.Rate(rapid.Int64Range(0, 200e9).Draw(t, "rate"))
	v.Cost = podscaler.Cost{Known: rapid.Bool().Draw(t, "cost known"), Joined: rate, Ordered: 2 * rate, Predicted: 3 * rate}
	v.Rollout.InProgress = rapid.IntRange(0, 3).Draw(t, "rollout") == 0
	if rapid.IntRange(0, 7).Draw(t, "paused") == 0 {
		v.Pause = podscaler.Pause{Up: rapid.Bool().Draw(t, "paused up"), Down: rapid.Bool().Draw(t, "paused down")}
		if rapid.Bool().Draw(t, "fixed") {
			v.Pause.Replicas = new(rapid.IntRange(0, 70).Draw(t, "fixed replicas"))
		}
	}
	v.Room = podscaler.Room{PendingReplicas: rapid.IntRange(0, 2).Draw(t, "pending"), BootingMachines: rapid.IntRange(0, 1).Draw(t, "booting")}
	return v
}

func anyPod(t *rapid.T, i int) podscaler.Pod {
	started := now.Add(-time.Duration(rapid.IntRange(0, 900).Draw(t, "age")) * time.Second)
	return podscaler.Pod{
		Name:         fmt.Sprintf("web-%02d", i),
		Phase:        rapid.SampledFrom([]podscaler.Phase{podscaler.Running, podscaler.Running, podscaler.Running, podscaler.Pending, podscaler.Failed}).Draw(t, "phase"),
		Ready:        rapid.IntRange(0, 3).Draw(t, "unready") > 0,
		Terminating:  rapid.IntRange(0, 7).Draw(t, "terminating") == 0,
		Started:      started,
		ReadyChanged: started.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ready after")) * time.Second),
		CPU: podscaler.Sample{
			Known: rapid.IntRange(0, 3).Draw(t, "unsampled") > 0, Value: rapid.Float64Range(0, 2).Draw(t, "cpu"),
			At: now, Span: 30 * time.Second,
		},
	}
}

func anyReading(t *rapid.T, name string, most float64) podscaler.Reading {
	return podscaler.Reading{
		Known: rapid.Bool().Draw(t, name+" known"),
		Value: rapid.OneOf(rapid.Float64Range(0, most), rapid.Just(math.NaN()), rapid.Just(math.Inf(1))).Draw(t, name),
	}
}

// staysWithinBounds is what holds for every policy, by any view and for any time.
func staysWithinBounds(t *rapid.T) {
	s := anyScaler(t)()
	w := s.Workload()
	for i := range rapid.IntRange(1, 4).Draw(t, "runs") {
		v := anyView(t, w)
		v.Now = now.Add(time.Duration(i) * time.Minute)
		d := s.Decide(v)
		paused := v.Pause != (podscaler.Pause{})
		if d.From > 0 && !paused && (d.To < w.Min || d.To > w.Max) {
			t.Fatalf("from %d to %d, outside of %d and %d; %v", d.From, d.To, w.Min, w.Max, d.Reasons)
		}
		if paused && v.Pause.Replicas != nil && d.To != *v.Pause.Replicas {
			t.Fatalf("from %d to %d, though replicas are fixed at %d; %v", d.From, d.To, *v.Pause.Replicas, d.Reasons)
		}
		if len(d.Reasons) == 0 {
			t.Fatal("a decision without a reason")
		}
		if !d.Known && d.To < d.From && d.From <= w.Max && !owned(d, w) {
			t.Fatalf("unknown, yet from %d to %d; %v", d.From, d.To, d.Reasons)
		}
	}
}

func TestEveryPolicyStaysWithinBounds(t *testing.T) { rapid.Check(t, staysWithinBounds) }

func FuzzEveryPolicyStaysWithinBounds(f *testing.F) {
	addSeeds(f)
	f.Fuzz(rapid.MakeFuzz(staysWithinBounds))
}

func TestUnknownSignalsNeverShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyScaler(t)()
		w := s.Workload()
		for i := range rapid.IntRange(0, 3).Draw(t, "runs before") {
			v := anyView(t, w)
			v.Now = now.Add(time.Duration(i-10) * time.Minute)
			s.Decide(v)
		}
		v := anyView(t, w)
		v.Replicas = rapid.IntRange(w.Min, w.Max).Draw(t, "replicas")
		v.Window, v.Cost, v.Room = podscaler.Window{}, podscaler.Cost{}, podscaler.Room{}
		for i := range v.Pods {
			v.Pods[i].CPU.Known, v.Pods[i].Memory.Known = false, false
		}
		if d := s.Decide(v); d.Known || d.To < d.From && !owned(d, w) {
			t.Fatalf("nothing is known, yet from %d to %d (known %v); %v", d.From, d.To, d.Known, d.Reasons)
		}
	})
}

// addSeeds begins with enough bytes to draw everything from.
func addSeeds(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		seed := make([]byte, 16<<10)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
}

// strange is a number as measurements go wrong.
func strange(t *rapid.T, name string) float64 {
	return rapid.OneOf(
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, math.MaxFloat64, math.SmallestNonzeroFloat64}),
		rapid.Float64(),
	).Draw(t, name)
}

// A policy is asked behind the back of its check: of a workload without targets, at no replicas,
// with no pods, by numbers that are none.
func neverPanics(t *rapid.T) {
	p := must.Get(policy.New(anySpec(t)))(t)
	var w podscaler.Workload
	if rapid.Bool().Draw(t, "usual") {
		w = usual()
	}
	v := anyView(t, &w)
	reading := func(name string) podscaler.Reading {
		return podscaler.Reading{Known: rapid.Bool().Draw(t, name+" known"), Value: strange(t, name)}
	}
	v.Window.Latency, v.Window.Good, v.Window.Arrivals = reading("latency"), reading("good"), reading("arrivals")
	v.Window.InFlight, v.Window.Errors, v.Window.Registered = reading("in flight"), reading("errors"), reading("registered")
	for i := range v.Pods {
		v.Pods[i].CPU.Value, v.Pods[i].Memory.Value = strange(t, "cpu"), strange(t, "memory")
		if load, ok := v.Window.Metrics["load"]; ok {
			load.PerPod[v.Pods[i].Name] = strange(t, "load")
		}
	}
	v.Window.Metrics["queue"] = podscaler.Metric{Total: reading("queue")}
	if rapid.Bool().Draw(t, "no series") {
		v.Window.Metrics = nil
	}
	if rapid.Bool().Draw(t, "no pods") {
		v.Pods = nil
	}
	if r := p.Desired(v); r.Known && r.Replicas < 0 {
		t.Fatalf("proposes %d; %v", r.Replicas, r.Reasons)
	}
}

func TestNoPolicyPanicsOnWhatIsNoNumber(t *testing.T) { rapid.Check(t, neverPanics) }

func FuzzNoPolicyPanicsOnWhatIsNoNumber(f *testing.F) {
	addSeeds(f)
	f.Fuzz(rapid.MakeFuzz(neverPanics))
}

// For every policy: without one of its signals it may grow, stay or not know, but not go lower than
// with all of them.
func TestBlindnessShrinksNothing(t *testing.T) {
	blind := []func(*podscaler.Window){
		func(w *podscaler.Window) { w.Latency.Known = false }, func(w *podscaler.Window) { w.Good.Known = false },
		func(w *podscaler.Window) { w.Arrivals.Known = false }, func(w *podscaler.Window) { w.InFlight.Known = false },
		func(w *podscaler.Window) { w.Errors.Known = false }, func(w *podscaler.Window) { w.Registered.Known = false },
		func(w *podscaler.Window) { w.Metrics = map[string]podscaler.Metric{"queue": w.Metrics["queue"]} },
		func(w *podscaler.Window) { w.Metrics = map[string]podscaler.Metric{"load": w.Metrics["load"]} },
	}
	rapid.Check(t, func(t *rapid.T) {
		spec, w := anySpec(t), usual()
		v := anyView(t, &w)
		v.Replicas = max(1, v.Replicas)
		desired := func() podscaler.Recommendation {
			p := must.Get(policy.New(spec))(t)
			return p.Desired(v)
		}
		all := desired()
		blind[rapid.IntRange(0, len(blind)-1).Draw(t, "blind")](&v.Window)
		if r := desired(); r.Known && r.Replicas < v.Replicas && (!all.Known || r.Replicas < all.Replicas) {
			t.Fatalf("of %d replicas goes to %d, and to %d (known %v) with all signals; %v\nall: %v", v.Replicas, r.Replicas, all.Replicas, all.Known, r.Reasons, all.Reasons)
		}
	})
}

// proportional are policies that multiply, with their limits off.
var proportional = map[string]policy.Spec{
	"fastslow": fastslow(policy.FastSlow{
		Tolerance: new(0.0), ScaleUpFactor: new(1000.0), DownStep: new(1000), DownWindow: new(podscaler.Duration(0)),
	}),
	"hpa in percent": hpaOn(policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 60}),
	"hpa by value":   cpuValue(300),
	"slocost":        slocost(policy.SLOCost{}),
	"watermark": {Policy: "watermark", Watermark: &policy.Watermark{
		High: 600, Low: 300, Tolerance: new(0.0), UpLimitPercent: new(1000), DownLimitPercent: new(100), AntiOscillation: new(false), TolerateZero: true,
		Cooldown: policy.ByDirection{Up: seconds(0), Down: seconds(0)},
	}},
}

func TestTwiceTheReplicasWithTheSameLoadEachWantTwiceAsMany(t *testing.T) {
	names := slices.Sorted(maps.Keys(proportional))
	rapid.Check(t, func(t *rapid.T) {
		p := must.Get(policy.New(proportional[rapid.SampledFrom(names).Draw(t, "policy")]))(t)
		w := usual()
		n := rapid.IntRange(1, 100).Draw(t, "replicas")
		v := podscaler.View{Now: now, Workload: &w, Replicas: n, Pods: running(n, 0)}
		for i := range v.Pods {
			v.Pods[i].CPU.Value = float64(rapid.IntRange(0, 2000).Draw(t, "cpu")) / 1000
		}
		v.Window.Latency = podscaler.Known(rapid.Float64Range(0, 2).Draw(t, "latency"))
		rate := pricing.Rate(rapid.Int64Range(1e6, 200e6).Draw(t, "rate"))
		v.Cost = podscaler.Cost{Known: true, Joined: rate, Ordered: rate, Predicted: rate}
		twice := v
		twice.Replicas = 2 * n
		for _, more := range v.Pods {
			more.Name += "-too"
			twice.Pods = append(twice.Pods[:len(twice.Pods):len(twice.Pods)], more)
		}
		one, two := p.Desired(&v), p.Desired(&twice)
		if !one.Known || !two.Known || max(two.Replicas-2*one.Replicas, 2*one.Replicas-two.Replicas) > 1 {
			t.Fatalf("%d replicas want %d (known %v), twice as many %d (known %v); %v %v", n, one.Replicas, one.Known, two.Replicas, two.Known, one.Reasons, two.Reasons)
		}
	})
}

// One unknown input of several is enough: what it would have said may be that nothing can go.
func TestAnUnknownInputNeverShrinks(t *testing.T) {
	blind := map[string]func(*podscaler.View){
		"latency": func(v *podscaler.View) { v.Window.Latency.Known = false },
		"cost":    func(v *podscaler.View) { v.Cost.Known = false },
		"queue":   func(v *podscaler.View) { delete(v.Window.Metrics, "queue") },
		"load":    func(v *podscaler.View) { delete(v.Window.Metrics, "load") },
		"registry": func(v *podscaler.View) {
			v.Window.Registered = podscaler.Reading{Why: "no answer in time"}
		},
	}
	needs := map[string][]string{"fastslow": {"load"}, "slocost": {"latency", "cost"}, "hpa": {"queue", "load"}, "watermark": {"queue", "load", "registry"}}
	specs := map[string]policy.Spec{
		"fastslow": fastslow(policy.FastSlow{Metric: "load", Target: new(policy.Quantity(500)), DownWindow: new(podscaler.Duration(0))}),
		"slocost":  slocost(policy.SLOCost{}),
		"hpa": hpaOn(
			policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 60},
			policy.Metric{Type: policy.Pods, Name: "load", AverageValue: 500},
			policy.Metric{Type: policy.External, Name: "queue", AverageValue: 5_000},
		),
		"watermark": anyWater(policy.Average),
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"fastslow", "hpa", "slocost", "watermark"}).Draw(t, "policy")
		p := must.Get(policy.New(specs[name]))(t)
		w := usual()
		v := anyView(t, &w)
		blind[rapid.SampledFrom(needs[name]).Draw(t, "unknown")](v)
		if r := p.Desired(v); r.Known && r.Replicas < v.Replicas {
			t.Fatalf("shrinks from %d to %d; %v", v.Replicas, r.Replicas, r.Reasons)
		}
	})
}

// A policy that forgets what it remembers may be slower to shrink, never faster.
func TestForgettingNeverShrinksMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, w := anySpec(t), usual()
		remembers := must.Get(policy.New(spec))(t)
		var forgets podscaler.Policy
		at := now
		for range rapid.IntRange(2, 8).Draw(t, "runs") {
			if forgets == nil || rapid.IntRange(0, 3).Draw(t, "forget") == 0 {
				forgets = must.Get(policy.New(spec))(t)
			}
			at = at.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second)
			v := anyView(t, &w)
			v.Now = at
			a, b := remembers.Desired(v), forgets.Desired(v)
			if b.Known && b.Replicas < v.Replicas && (!a.Known || b.Replicas < a.Replicas) {
				t.Fatalf("from %d to %d (known %v), and having forgotten to %d; %v", v.Replicas, a.Replicas, a.Known, b.Replicas, b.Reasons)
			}
		}
	})
}

func TestPodOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fresh := anyScaler(t)
		a, b := fresh(), fresh()
		v := anyView(t, a.Workload())
		want := a.Decide(v)
		mixed := *v
		mixed.Pods = rapid.Permutation(v.Pods).Draw(t, "order")
		if diff := cmp.Diff(want, b.Decide(&mixed)); diff != "" {
			t.Fatalf("another order, another decision (-want +got):\n%s", diff)
		}
	})
}

func TestTheSameViewMakesTheSameDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fresh := anyScaler(t)
		a, b := fresh(), fresh()
		v := anyView(t, a.Workload())
		first, before := a.Decide(v), fmt.Sprintf("%#v", *v)
		if diff := cmp.Diff(first, b.Decide(v)); diff != "" {
			t.Fatalf("two fresh scalers differ (-first +second):\n%s", diff)
		}
		if after := fmt.Sprintf("%#v", *v); after != before {
			t.Fatalf("the view was written to:\n%s\n%s", before, after)
		}
	})
}

// plainHPA is Eq. 1 with the tolerance, in whole numbers and fractions, for pods that are all
// ready and sampled: the mean cut to whole thousandths, and to percent where it is one.
func plainHPA(milli []int64, request, target int64, percent bool, replicas int) int {
	sum, n := int64(0), int64(len(milli))
	for _, m := range milli {
		sum += m
	}
	usage := sum / n
	if percent {
		usage = sum * 100 / (request * n)
	}
	ratio := big.NewRat(usage, target)
	if ratio.Cmp(big.NewRat(9, 10)) >= 0 && ratio.Cmp(big.NewRat(11, 10)) <= 0 {
		return replicas
	}
	want := 0
	for big.NewRat(int64(want), n).Cmp(ratio) < 0 {
		want++
	}
	return want
}

func TestHPAIsEquationOneWhenAllPodsAreKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milli := rapid.SliceOfN(rapid.Int64Range(0, 2000), 1, 40).Draw(t, "millicores")
		request := rapid.Int64Range(1, 2000).Draw(t, "request")
		target := rapid.Int64Range(1, 200).Draw(t, "target")
		percent := rapid.Bool().Draw(t, "percent")
		metric := policy.Metric{Type: policy.Resource, Name: "cpu", AverageValue: policy.Quantity(target)}
		if percent {
			metric = policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: int(target)}
		}
		p := must.Get(policy.New(hpaOn(metric)))(t)
		w := usual()
		w.Pod.CPU = pricing.MilliCPU(request)
		v := podscaler.View{Now: now, Workload: &w, Replicas: rapid.IntRange(1, 50).Draw(t, "replicas"), Pods: running(len(milli), 0)}
		for i, m := range milli {
			v.Pods[i].CPU.Value = float64(m) / 1000
		}
		want := plainHPA(milli, request, target, percent, v.Replicas)
		if r := p.Desired(&v); !r.Known || r.Replicas != want {
			t.Fatalf("proposes %d (known %v), should %d; %v", r.Replicas, r.Known, want, r.Reasons)
		}
	})
}

// exactSLOCost is Eq. 2 and 3 in fractions.
func exactSLOCost(r int, weight, ms, targetMS, cost, target int64, capped bool) int {
	w := big.NewRat(weight, 100)
	costRatio := big.NewRat(target, cost)
	if one := big.NewRat(1, 1); capped && costRatio.Cmp(one) > 0 {
		costRatio = one
	}
	k := new(big.Rat).Mul(w, big.NewRat(ms, targetMS))
	k.Add(k, new(big.Rat).Mul(new(big.Rat).Sub(big.NewRat(1, 1), w), costRatio))
	k.Mul(k, big.NewRat(int64(r), 1))
	want := new(big.Int).Div(k.Num(), k.Denom())
	if !k.IsInt() {
		want.Add(want, big.NewInt(1))
	}
	return int(want.Int64())
}

func TestSLOCostIsEquationsTwoAndThreeInFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Int64Range(1, 99).Draw(t, "weight in percent")
		r := rapid.IntRange(1, 200).Draw(t, "replicas")
		ms, cost := rapid.Int64Range(0, 3000).Draw(t, "ms"), rapid.Int64Range(1, 400).Draw(t, "cost")
		role := rapid.SampledFrom([]policy.Role{policy.Cap, policy.Symmetric}).Draw(t, "role")
		p := must.Get(policy.New(slocost(policy.SLOCost{RTWeight: new(float64(weight) / 100), Role: role})))(t)
		w, v := usual(), at(r, float64(ms), float64(cost))
		v.Workload = &w
		want := exactSLOCost(r, weight, ms, 300, cost, 40, role == policy.Cap)
		if got := p.Desired(&v); got.Replicas != want {
			t.Fatalf("proposes %d, should %d; %v", got.Replicas, want, got.Reasons)
		}
	})
}

// exactWatermark is the seed's arithmetic in whole numbers and fractions, one replica at a time,
// for pods that are all ready and sampled. First come the marks with their tolerance, then how many
// pods carry the load, then how far a step goes, then what the load would be.
type exactWatermark struct {
	high, low, tolerance int64 // in thousandths
	up, down             int64 // in percent
	guard                bool
}

func (e exactWatermark) desired(milli []int64, replicas int) int {
	sum, n := int64(0), int64(len(milli))
	for _, m := range milli {
		sum += m
	}
	mean := big.NewRat(sum, n)
	switch {
	case mean.Cmp(big.NewRat(e.high*(1000+e.tolerance), 1000)) > 0:
		want := 1
		for big.NewRat(sum, int64(want)).Cmp(big.NewRat(e.high, 1)) > 0 {
			want++
		}
		return max(replicas, min(want, replicas+e.step(e.up, replicas)))
	case mean.Cmp(big.NewRat(e.low*(1000-e.tolerance), 1000)) < 0:
		want := 1
		for big.NewRat(sum, int64(want+1)).Cmp(big.NewRat(e.low, 1)) >= 0 {
			want++
		}
		want = min(replicas, max(want, replicas-e.step(e.down, replicas)))
		for e.guard && want < replicas && big.NewRat(sum, int64(want)).Cmp(big.NewRat(e.high, 1)) > 0 {
			want++
		}
		return want
	}
	return replicas
}

// step is the most that pods may change at once: the whole pods in some percent, one at least,
// and none if there are no percent.
func (e exactWatermark) step(percent int64, replicas int) (pods int) {
	if percent == 0 {
		return 0
	}
	for big.NewRat(int64(pods+1), 1).Cmp(big.NewRat(percent*int64(replicas), 100)) <= 0 {
		pods++
	}
	return max(1, pods)
}

func TestWatermarkIsTheSeedsArithmeticInFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		high := rapid.Int64Range(2, 4000).Draw(t, "high")
		low := rapid.Int64Range(1, high-1).Draw(t, "low")
		e := exactWatermark{
			high: high, low: low, tolerance: rapid.Int64Range(0, 100).Draw(t, "tolerance"),
			up: rapid.Int64Range(0, 300).Draw(t, "up"), down: rapid.Int64Range(0, 100).Draw(t, "down"), guard: rapid.Bool().Draw(t, "guard"),
		}
		// Around the marks, where a hair decides, as often as anywhere.
		near := rapid.SampledFrom([]int64{0, low, high, low * (1000 - e.tolerance) / 1000, high * (1000 + e.tolerance) / 1000}).Draw(t, "near")
		milli := rapid.SliceOfN(rapid.Map(rapid.Int64Range(-3, 3), func(d int64) int64 { return max(1, near+d) }), 1, 40).Draw(t, "millicores")
		v := podscaler.View{Now: now, Replicas: rapid.IntRange(1, 50).Draw(t, "replicas"), Pods: running(len(milli), 0)}
		for i, m := range milli {
			v.Pods[i].CPU.Value = float64(m) / 1000
		}
		p := must.Get(policy.New(policy.Spec{Policy: "watermark", Watermark: &policy.Watermark{
			High: policy.Quantity(high), Low: policy.Quantity(low), Tolerance: new(float64(e.tolerance) / 1000),
			UpLimitPercent: new(int(e.up)), DownLimitPercent: new(int(e.down)), AntiOscillation: &e.guard,
		}}))(t)
		w := usual()
		v.Workload = &w
		want := e.desired(milli, v.Replicas)
		if r := p.Desired(&v); !r.Known || r.Replicas != want {
			t.Fatalf("proposes %d (known %v), should %d; %v", r.Replicas, r.Known, want, r.Reasons)
		}
	})
}

// With the guard, a shrink is never taken back while the load stays what it is.
func TestAGuardedWatermarkDoesNotFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		high := rapid.Int64Range(2, 2000).Draw(t, "high")
		p := must.Get(policy.New(policy.Spec{Policy: "watermark", Watermark: &policy.Watermark{
			High: policy.Quantity(high), Low: policy.Quantity(rapid.Int64Range(1, high-1).Draw(t, "low")), Tolerance: new(0.0),
			DownLimitPercent: new(rapid.IntRange(1, 100).Draw(t, "down")), Multiple: rapid.IntRange(1, 4).Draw(t, "multiple"),
			ConvergeTo: rapid.SampledFrom([]policy.Converge{policy.ConvergeNone, policy.ConvergeHigh}).Draw(t, "converge"),
			Cooldown:   policy.ByDirection{Up: seconds(0), Down: seconds(0)},
		}}))(t)
		w := usual()
		total := rapid.Int64Range(1, 60_000).Draw(t, "millicores")
		replicas := rapid.IntRange(1, 50).Draw(t, "replicas")
		shrunk := false
		for range 60 {
			v := podscaler.View{Now: now, Workload: &w, Replicas: replicas, Pods: running(replicas, float64(total)/1000/float64(replicas))}
			to := p.Desired(&v).Replicas
			if shrunk && to > replicas {
				t.Fatalf("from %d back up to %d", replicas, to)
			}
			if to == replicas {
				return
			}
			shrunk, replicas = to < replicas, to
		}
		t.Fatal("never comes to rest")
	})
}
