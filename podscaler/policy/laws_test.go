package policy_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

// anySpec draws one of all registered policies with its defaults, or one with settings that
// make it look at more.
func anySpec(t *rapid.T) policy.Spec {
	specs := []policy.Spec{
		slocost(policy.SLOCost{Role: policy.Symmetric, RTWeight: new(0.8)}),
		slocost(policy.SLOCost{Wait: true, Tolerance: 0.05}),
		cpuValue(300),
		hpaOn(
			policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 60},
			policy.Metric{Type: policy.Pods, Name: "load", AverageValue: 500},
			policy.Metric{Type: policy.External, Name: "queue", AverageValue: 5_000},
			policy.Metric{Type: policy.Object, Name: "queue", Value: 20_000},
		),
	}
	for _, name := range policy.Names() {
		specs = append(specs, policy.Spec{Policy: name})
	}
	return specs[rapid.IntRange(0, len(specs)-1).Draw(t, "spec")]
}

// anyScaler draws a workload and a policy that works on it.
func anyScaler(t *rapid.T) func() *podscaler.Scaler {
	spec, w := anySpec(t), usual()
	w.Min = rapid.IntRange(1, 5).Draw(t, "min")
	w.Max = w.Min + rapid.IntRange(0, 60).Draw(t, "max - min")
	w.Behavior = rapid.SampledFrom([]*podscaler.Behavior{nil, podscaler.LegacyBehavior(), podscaler.DefaultBehavior()}).Draw(t, "behavior")
	return func() *podscaler.Scaler {
		p, err := policy.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := policy.Check(&w, p); err != nil {
			t.Fatal(err)
		}
		return podscaler.NewScaler(w, p)
	}
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
		Latency: anyReading(t, "latency", 3),
		Metrics: map[string]podscaler.Metric{"load": {PerPod: load}, "queue": {Total: anyReading(t, "queue", 200)}},
	}
	rate := pricing.Rate(rapid.Int64Range(0, 200e9).Draw(t, "rate"))
	v.Cost = podscaler.Cost{Known: rapid.Bool().Draw(t, "cost known"), Joined: rate, Ordered: 2 * rate, Predicted: 3 * rate}
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

func TestEveryPolicyStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyScaler(t)()
		d := s.Decide(anyView(t, s.Workload()))
		if low, high := s.Workload().Min, s.Workload().Max; d.From > 0 && (d.To < low || d.To > high) {
			t.Fatalf("from %d to %d, outside of %d and %d; %v", d.From, d.To, low, high, d.Reasons)
		}
		if len(d.Reasons) == 0 {
			t.Fatal("a decision without a reason")
		}
	})
}

func TestUnknownSignalsNeverShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyScaler(t)()
		for i := range rapid.IntRange(0, 3).Draw(t, "runs before") {
			v := anyView(t, s.Workload())
			v.Now = now.Add(time.Duration(i-10) * time.Minute)
			s.Decide(v)
		}
		v := anyView(t, s.Workload())
		v.Replicas = rapid.IntRange(s.Workload().Min, s.Workload().Max).Draw(t, "replicas")
		v.Window, v.Cost, v.Room = podscaler.Window{}, podscaler.Cost{}, podscaler.Room{}
		for i := range v.Pods {
			v.Pods[i].CPU.Known = false
		}
		if d := s.Decide(v); d.Known || d.To != d.From {
			t.Fatalf("nothing is known, yet from %d to %d (known %v); %v", d.From, d.To, d.Known, d.Reasons)
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
	}
	needs := map[string][]string{"slocost": {"latency", "cost"}, "hpa": {"queue", "load"}}
	specs := map[string]policy.Spec{
		"slocost": slocost(policy.SLOCost{}),
		"hpa": hpaOn(
			policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 60},
			policy.Metric{Type: policy.Pods, Name: "load", AverageValue: 500},
			policy.Metric{Type: policy.External, Name: "queue", AverageValue: 5_000},
		),
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"hpa", "slocost"}).Draw(t, "policy")
		p, err := policy.New(specs[name])
		if err != nil {
			t.Fatal(err)
		}
		w := usual()
		v := anyView(t, &w)
		blind[rapid.SampledFrom(needs[name]).Draw(t, "unknown")](v)
		if r := p.Desired(v); r.Known && r.Replicas < v.Replicas {
			t.Fatalf("shrinks from %d to %d; %v", v.Replicas, r.Replicas, r.Reasons)
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
		p, err := policy.New(hpaOn(metric))
		if err != nil {
			t.Fatal(err)
		}
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
		p, err := policy.New(slocost(policy.SLOCost{RTWeight: new(float64(weight) / 100), Role: role}))
		if err != nil {
			t.Fatal(err)
		}
		w, v := usual(), at(r, float64(ms), float64(cost))
		v.Workload = &w
		want := exactSLOCost(r, weight, ms, 300, cost, 40, role == policy.Cap)
		if got := p.Desired(&v); got.Replicas != want {
			t.Fatalf("proposes %d, should %d; %v", got.Replicas, want, got.Reasons)
		}
	})
}
