package rightsize

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// cpus are millicores of each of two containers.
type cpus struct{ a, b pricing.MilliCPU }

// Each is what the Vertical Pod Autoscaler makes of the same, in version 1.8.1, unless it says so.
func TestWhatLimitRangesMakeOfRecommendations(t *testing.T) {
	cpu := func(m pricing.MilliCPU) pricing.Resources { return pricing.Resources{CPU: m} }
	for name, c := range map[string]struct {
		requests, limits, recommended cpus
		ranges                        Ranges
		want, wantLimits              cpus
	}{
		"none": {cpus{100, 100}, cpus{200, 0}, cpus{500, 50}, Ranges{}, cpus{500, 50}, cpus{1000, 0}},
		"the limit in proportion is at most the container's": {
			cpus{100, 100}, cpus{200, 100}, cpus{500, 500}, Ranges{Container: Range{Max: cpu(600)}}, cpus{300, 500}, cpus{600, 500}},
		"without a limit there is no most": {
			cpus{100, 100}, cpus{0, 200}, cpus{500, 500}, Ranges{Container: Range{Max: cpu(600)}}, cpus{500, 300}, cpus{0, 600}},
		"but that of the default": {
			cpus{100, 100}, cpus{0, 0}, cpus{500, 500}, Ranges{Container: Range{Max: cpu(600), Default: cpu(300)}}, cpus{200, 200}, cpus{600, 600}},
		"without a request, the default is the request": {
			cpus{0, 100}, cpus{0, 200}, cpus{900, 100}, Ranges{Container: Range{Max: cpu(600), Default: cpu(300)}}, cpus{600, 100}, cpus{600, 200}},
		"requests and limits are at least the container's": {
			cpus{100, 100}, cpus{200, 0}, cpus{10, 10}, Ranges{Container: Range{Min: cpu(50)}}, cpus{50, 50}, cpus{100, 0}},
		"a limit that is alone is the request": {
			cpus{0, 100}, cpus{200, 0}, cpus{900, 100}, Ranges{Container: Range{Max: cpu(600)}}, cpus{600, 100}, cpus{600, 0}},
		"limits of a pod are at most the pod's, together": {
			cpus{100, 100}, cpus{200, 100}, cpus{400, 200}, Ranges{Pod: Range{Max: cpu(500)}}, cpus{200, 100}, cpus{400, 100}},
		"limits of a pod are at least the pod's, together": {
			cpus{60, 10}, cpus{0, 50}, cpus{60, 5}, Ranges{Pod: Range{Min: cpu(50)}}, cpus{120, 10}, cpus{0, 50}},
		"requests of a pod are at least the pod's, together": {
			cpus{100, 100}, cpus{100, 100}, cpus{10, 30}, Ranges{Pod: Range{Min: cpu(100)}}, cpus{25, 75}, cpus{25, 75}},
		// It leaves these to the API server, which refuses them.
		"without limits, too": {cpus{100, 100}, cpus{0, 0}, cpus{10, 30}, Ranges{Pod: Range{Min: cpu(100)}}, cpus{25, 75}, cpus{0, 0}},
		"a default that is less than the request is the request": {
			cpus{500, 100}, cpus{0, 100}, cpus{700, 100}, Ranges{Container: Range{Default: cpu(300)}}, cpus{700, 100}, cpus{700, 100}},
		"limits of a pod are within its ratio, together": {
			cpus{100, 100}, cpus{100, 300}, cpus{100, 200}, Ranges{Pod: Range{Ratio: cpu(2000)}}, cpus{100, 200}, cpus{100, 500}},
		"and that of a container whose request stays is lowered": {
			cpus{10, 100}, cpus{100, 100}, cpus{10, 20}, Ranges{Pod: Range{Ratio: cpu(2000)}}, cpus{10, 20}, cpus{40, 20}},
		"a ratio that rounding would exceed is kept": {
			cpus{200, 100}, cpus{300, 0}, cpus{101, 100}, Ranges{Container: Range{Ratio: cpu(1500)}}, cpus{101, 100}, cpus{151, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &Pod{Ranges: c.ranges}
			var recommended []Recommendation
			for i, v := range [][3]pricing.MilliCPU{{c.requests.a, c.limits.a, c.recommended.a}, {c.requests.b, c.limits.b, c.recommended.b}} {
				name := fmt.Sprint(i)
				pod.Containers = append(pod.Containers, Container{Name: name, Requests: cpu(v[0]), Limits: cpu(v[1])})
				recommended = append(recommended, Recommendation{Container: name, Resources: []Resource{CPU}, Target: cpu(v[2]), Lower: cpu(v[2]), Upper: cpu(v[2])})
			}
			after := pod.changed(Decide(time.Time{}, Initial, recommended, pod).Changes)
			got := [2]cpus{{after[0].Requests.CPU, after[1].Requests.CPU}, {after[0].Limits.CPU, after[1].Limits.CPU}}
			if d := cmp.Diff([2]cpus{c.want, c.wantLimits}, got, cmp.AllowUnexported(cpus{})); d != "" {
				t.Errorf("requests and limits (-want +got):\n%s", d)
			}
		})
	}
}

// refusal is what the API server's LimitRanger has against a pod, written out. Where it has
// something against a pod without a limit, its defaults have given it one.
func (g *Range) refusal(what string, requests, limits pricing.Resources) string {
	for _, r := range both {
		request, limit := r.of(requests), r.of(limits)
		switch {
		case request < r.of(g.Min):
			return fmt.Sprintf("%s requests %d of %s, at least %d", what, request, r, r.of(g.Min))
		case limit > 0 && limit < r.of(g.Min):
			return fmt.Sprintf("%s is limited to %d of %s, at least %d", what, limit, r, r.of(g.Min))
		case r.of(g.Max) > 0 && limit > r.of(g.Max):
			return fmt.Sprintf("%s is limited to %d of %s, at most %d", what, limit, r, r.of(g.Max))
		case r.of(g.Ratio) > 0 && limit*1000 > request*r.of(g.Ratio):
			return fmt.Sprintf("%s is limited to %d of %s, at most %d thousandths of %d", what, limit, r, r.of(g.Ratio), request)
		}
	}
	return ""
}

func (g *Ranges) refusal(all []Container) string {
	var requests, limits pricing.Resources
	for i := range all {
		if why := g.Container.refusal(all[i].Name, all[i].asks(), all[i].Limits); why != "" {
			return why
		}
		requests, limits = requests.Plus(all[i].asks()), limits.Plus(all[i].Limits)
	}
	return g.Pod.refusal("the pod", requests, limits)
}

// Without history the upper bound is as good as none.
func TestAPodsRangeBoundsWhatHasNoBound(t *testing.T) {
	pod := &Pod{Ranges: Ranges{Pod: Range{Max: pricing.Resources{Memory: 4 * pricing.GiB}}}}
	memory := func(b pricing.Bytes) pricing.Resources { return pricing.Resources{Memory: b} }
	var recommended []Recommendation
	for i, limit := range []pricing.Bytes{200 * pricing.MiB, 0, 300*pricing.MiB + 1} {
		name := fmt.Sprint(i)
		pod.Containers = append(pod.Containers, Container{Name: name, Requests: memory(100 * pricing.MiB), Limits: memory(limit)})
		recommended = append(recommended, Recommendation{Container: name, Resources: []Resource{Memory}, Target: memory(pricing.GiB), Lower: memory(1), Upper: memory(most)})
	}
	all, _ := pod.admitted(recommended)
	var limits int64
	for i := range all {
		limits += proportional(int64(pod.Containers[i].Limits.Memory), int64(100*pricing.MiB), int64(all[i].Upper.Memory))
	}
	if max := int64(4 * pricing.GiB); limits > max || limits < max-10 {
		t.Errorf("limits come to %d of %d", limits, max)
	}
}

// A pod that the API server has admitted, with any recommendations, is one that it would admit,
// for each type of LimitRange.
func TestWhatIsRecommendedIsAdmitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(t, name) }
		pod, recommended := &Pod{}, []Recommendation(nil)
		ofPod := rapid.Bool().Draw(t, "pod")
		g := &pod.Ranges.Container
		if ofPod {
			g = &pod.Ranges.Pod
		}
		for i := range amount("containers", 1, 4) {
			c := Container{Name: fmt.Sprint(i)}
			rec := Recommendation{Container: c.Name, Resources: both}
			for _, r := range both {
				r.set(&c.Requests, amount("request", 1, 100))
				if !ofPod || rapid.Bool().Draw(t, "limited") {
					r.set(&c.Limits, r.of(c.Requests)+amount("more", 0, 200))
				}
				r.set(&rec.Target, amount("target", 1, 1000))
			}
			pod.Containers, recommended = append(pod.Containers, c), append(recommended, rec)
		}
		for _, r := range both { // what has admitted it
			low, high, ratio, sum := int64(math.MaxInt64), int64(0), int64(1000), [2]int64{}
			for i := range pod.Containers {
				request, limit := r.of(pod.Containers[i].Requests), r.of(pod.Containers[i].Limits)
				low, high, ratio = min(low, request), max(high, limit), max(ratio, (1000*limit+request-1)/request)
				sum[0], sum[1] = sum[0]+request, sum[1]+limit
			}
			if ofPod {
				low, high, ratio = sum[0], sum[1], max(1000, (1000*sum[1]+sum[0]-1)/sum[0])
				if high > 0 {
					low = min(low, high)
				}
			}
			switch amount("which", 0, 2) {
			case 0:
				r.set(&g.Min, amount("min", 0, low))
				if !ofPod { // two bounds as near as that leave no room for rounding
					r.set(&g.Max, high+amount("room", 0, 200))
				}
			case 1:
				r.set(&g.Max, high)
			default:
				r.set(&g.Ratio, ratio+amount("ratio", 0, 500))
			}
		}
		if why := pod.Ranges.refusal(pod.Containers); why != "" {
			t.Fatalf("%+v with %+v was not admitted: %s", pod.Containers, pod.Ranges, why)
		}
		d := Decide(time.Time{}, Initial, recommended, pod)
		after := pod.changed(d.Changes)
		if why := pod.Ranges.refusal(after); why != "" {
			t.Fatalf("%+v with %+v becomes %+v: %s", pod.Containers, pod.Ranges, after, why)
		}
		for _, c := range after {
			for _, r := range both {
				if limit := r.of(c.Limits); limit > 0 && r.of(c.Requests) > limit {
					t.Fatalf("%+v requests more of %s than its limit", c, r)
				}
			}
		}
	})
}

func TestLimitRangesCountTogether(t *testing.T) {
	one := Range{Min: pricing.Resources{CPU: 10}, Max: pricing.Resources{CPU: 500}, Default: pricing.Resources{CPU: 100}}
	other := Range{Min: pricing.Resources{CPU: 20, Memory: 5}, Max: pricing.Resources{CPU: 400, Memory: 50}, Ratio: pricing.Resources{CPU: 2000}}
	want := Range{
		Min: pricing.Resources{CPU: 20, Memory: 5}, Max: pricing.Resources{CPU: 400, Memory: 50}, Default: pricing.Resources{CPU: 100}, Ratio: pricing.Resources{CPU: 2000},
	}
	for _, got := range []Range{one.And(other), other.And(one)} {
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
