package policy_test

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
)

// BenchmarkDecide is one run over 48 pods, as a sweep in a simulated world makes them by the
// hundred thousand.
func BenchmarkDecide(b *testing.B) {
	for name, spec := range map[string]policy.Spec{
		"fastslow":   {Policy: "FastSlow"},
		"hpa":        hpaOn(policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 60}),
		"joint":      {Policy: "Joint"},
		"predictive": predicting(policy.Predictive{Profile: perPod(20)}),
		"slocost":    slocost(policy.SLOCost{}),
		"watermark":  water(nil),
	} {
		b.Run(name, func(b *testing.B) {
			w := usual()
			w.Behavior = podscaler.DefaultBehavior()
			p, err := policy.New(spec)
			if err != nil {
				b.Fatal(err)
			}
			s := podscaler.NewScaler(w, p)
			v := at(48, 310, 40)
			v.Window.Arrivals = podscaler.Known(800)
			v.Workload, v.Pods = s.Workload(), append(running(46, 0.310), silent(), pending())
			b.ReportAllocs()
			for i := range b.N {
				v.Now = now.Add(time.Duration(i) * 15 * time.Second)
				s.Decide(&v)
			}
		})
	}
}
