package policy_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
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
			p := must.Get(policy.New(spec))(b)
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

// BenchmarkPredictive is what a decision takes where each ends a period, so that every forecaster
// takes a value and is judged. It forecasts, and LSTM learns besides. "every member" weighs all
// forecasters but those that are made of others, and HTM, whose memory has no promised bound. The
// bytes are those that the heap has grown by, forecasters and all.
func BenchmarkPredictive(b *testing.B) {
	for name, c := range predictives() {
		b.Run(name, func(b *testing.B) {
			before := heap()
			s, v := foreseeing(b, c, 4*1440)
			took := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				v.Now = v.Now.Add(time.Minute)
				v.Window.Arrivals = podscaler.Known(ofDay(i))
				began := time.Now()
				s.Decide(v)
				took = append(took, time.Since(began))
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(heap()-before)-float64(8*cap(took)), "B-held")
			runtime.KeepAlive(s)
		})
	}
}

// BenchmarkAThousandPredictives is what part of a core a thousand workloads take that are decided
// on every 15 s. Every fourth round ends a period of all of them. As LSTM is slow to train, only
// fifty have every member, and their time is scaled to a thousand.
func BenchmarkAThousandPredictives(b *testing.B) {
	const every = 15 * time.Second
	for name, c := range predictives() {
		b.Run(name, func(b *testing.B) {
			workloads := 1000
			if len(c.Members) > 0 {
				workloads = 50
			}
			scalers, views := make([]*podscaler.Scaler, workloads), make([]*podscaler.View, workloads)
			for i := range workloads {
				scalers[i], views[i] = foreseeing(b, c, 1500)
			}
			var longest time.Duration
			rounds := 0
			for b.Loop() {
				began := time.Now()
				for i, s := range scalers {
					views[i].Now = views[i].Now.Add(every)
					views[i].Window.Arrivals = podscaler.Known(ofDay(rounds/4 + i))
					s.Decide(views[i])
				}
				longest = max(longest, time.Since(began))
				rounds++
			}
			thousand := 1000 / float64(workloads)
			b.ReportMetric(100*thousand*b.Elapsed().Seconds()/float64(rounds)/every.Seconds(), "%-of-a-core")
			b.ReportMetric(thousand*float64(longest.Milliseconds()), "longest-round-ms")
		})
	}
}

// predictives are settings that are measured, by what they weigh.
func predictives() map[string]policy.Predictive {
	every := slices.DeleteFunc(forecast.Names(), func(name string) bool {
		return name == "htm" || name == "ensemble" || name == "race"
	})
	return map[string]policy.Predictive{
		"usual members": {Profile: perPod(20)},
		"every member":  {Profile: perPod(20), Members: every},
	}
}

// foreseeing is a scaler that has seen so many minutes, and what it looks at.
func foreseeing(b *testing.B, c policy.Predictive, seen int) (*podscaler.Scaler, *podscaler.View) {
	p := must.Get(policy.New(predicting(c)))(b)
	past(p, seen, ofDay)
	w := usual()
	w.Behavior = podscaler.DefaultBehavior()
	s := podscaler.NewScaler(w, p)
	v := at(8, 310, 40)
	v.Now, v.Workload, v.Pods = now, s.Workload(), running(8, 0.3)
	return s, &v
}

// past has a policy learn from so many minutes before now.
func past(p podscaler.Policy, minutes int, load func(minute int) float64) {
	h := podscaler.History{End: now, Step: time.Minute, Over: time.Minute, Arrivals: make([]float64, minutes)}
	for i := range h.Arrivals {
		h.Arrivals[i] = load(i)
	}
	p.(podscaler.Learner).Learn(&h)
}

// BenchmarkPast is what a week of minutes takes to learn from.
func BenchmarkPast(b *testing.B) {
	for name, c := range predictives() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				past(must.Get(policy.New(predicting(c)))(b), 7*24*60, ofDay)
			}
		})
	}
}

// ofDay is the load of a minute: a daily swing, and some noise.
func ofDay(minute int) float64 {
	r := rand.New(rand.NewPCG(7, uint64(minute)))
	return max(120+80*math.Sin(2*math.Pi*float64(minute)/1440)+10*r.NormFloat64(), 0)
}

// heap is how many bytes are held.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
