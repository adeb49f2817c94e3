package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

// The product's own policies play here behind an adapter. It shows a podscaler.Scaler, with its
// guards and the behavior of a default autoscaling/v2 HPA, what can be measured in this world: the
// arrivals, and of each pod the CPU, which is the use of its capacity. It runs once a minute, for
// nothing new is measured in between. Pods are ready at once and have been for long.
//
// Response times are not measured here: whoever goes by them is refused.

func init() {
	register(Kind{
		Name: "hpa-v2", Title: "is the HPA of autoscaling/v2 with its default behavior: it shrinks to the most of the last five minutes",
		Knob: Excess, New: adapted(func(s Setting) policy.Spec {
			cpu := policy.Metric{Type: policy.Resource, Name: "cpu", AverageValue: thousandths(s.Excess * podCores)}
			return policy.Spec{Policy: "HPA", HPA: &policy.HPA{Metrics: []policy.Metric{cpu}, Tolerance: &s.Tolerance}}
		}),
	})
	register(Kind{
		Name: "fast-slow", Title: "grows at once to what the use needs, and shrinks a pod at a time, nine minutes apart",
		Knob: Excess, New: adapted(func(s Setting) policy.Spec {
			percent := thousandths(100 * s.Excess)
			return policy.Spec{Policy: "FastSlow", FastSlow: &policy.FastSlow{Target: &percent, Tolerance: &s.Tolerance}}
		}),
	})
	register(Kind{
		Name: "watermark", Title: "keeps the use between the excess and half of it",
		Knob: Excess, New: adapted(func(s Setting) policy.Spec {
			high, low := thousandths(s.Excess*podCores), thousandths(s.Excess*podCores/2)
			return policy.Spec{Policy: "Watermark", Watermark: &policy.Watermark{High: high, Low: low}}
		}),
	})
}

// podCores is what a pod asks for, and what it uses when it serves all it can. The number is so
// large that a target of any excess is a whole number of thousandths.
const podCores = 100.0

func thousandths(x float64) policy.Quantity { return policy.Quantity(math.Round(x * 1000)) }

// adapter is a policy of the product's in charge of pods.
type adapter struct {
	scaler *podscaler.Scaler
	now    time.Time
	pods   []podscaler.Pod
}

// adapted returns how to make a kind of a policy that the setting says.
func adapted(spec func(Setting) policy.Spec) func(Setting) (Scaler, error) {
	return func(s Setting) (Scaler, error) {
		if s.Excess > 1 {
			return nil, fmt.Errorf("excess: must be up to 1 for who goes by use, which is never more, was %v", s.Excess)
		}
		p, err := policy.New(spec(s))
		if err != nil {
			return nil, err
		}
		w := podscaler.Workload{
			Name: "replay/load", Min: s.Min, Max: s.Max, Behavior: podscaler.DefaultBehavior(),
			Pod: pricing.Resources{CPU: pricing.MilliCPU(podCores * 1000)},
		}
		if err := policy.Check(&w, p); err != nil {
			return nil, err
		}
		return &adapter{scaler: podscaler.NewScaler(w, p), now: time.Unix(0, 0).UTC()}, nil
	}
}

// Next has the scaler decide a minute after it last did.
func (a *adapter) Next(p capacity.Period) int {
	a.now = a.now.Add(time.Minute)
	view := podscaler.View{
		Now: a.now, Workload: a.scaler.Workload(), Replicas: p.Pods, Pods: a.measured(p),
		Window: podscaler.Window{
			Arrivals: podscaler.Known(p.Arrived), Over: time.Minute,
			Latency: unmeasured, Good: unmeasured, InFlight: unmeasured, Errors: unmeasured,
		},
	}
	return a.scaler.Decide(&view).To
}

// unmeasured is what there is not in this world.
var unmeasured = podscaler.Reading{Why: "a replay knows how much was served, and not how fast"}

// measured are the pods of a period, all of which were equally busy.
func (a *adapter) measured(p capacity.Period) []podscaler.Pod {
	long := time.Unix(0, 0).UTC().Add(-24 * time.Hour)
	for i := len(a.pods); i < p.Pods; i++ {
		a.pods = append(a.pods, podscaler.Pod{
			Name: fmt.Sprintf("load-%d", i), Phase: podscaler.Running, Ready: true, Started: long, ReadyChanged: long,
		})
	}
	cpu := podscaler.Sample{Known: true, Value: p.Use * podCores, At: a.now, Span: time.Minute}
	pods := a.pods[:p.Pods]
	for i := range pods {
		pods[i].CPU = cpu
	}
	return pods
}
