package convert

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// played is the moment of a load that is played.
type played struct {
	now      time.Time
	replicas int
	pods     []podscaler.Pod
	value    float64 // what the query returns
}

// plays plays a load to a WorkloadAutoscaler and to the rules of what it was converted from, each
// with the replicas that it has come to.
func plays(t *testing.T, to *v1alpha1.WorkloadAutoscaler, theirs func(played) int) {
	t.Helper()
	w, s, _, err := resources.Autoscaler(to)
	if err != nil {
		t.Fatal(err)
	}
	w.Pod = pricing.Resources{CPU: 500, Memory: pricing.GiB}
	ours := podscaler.NewScaler(w, must.Get(s.New())(t))
	r, now, replicas, moved := rand.New(rand.NewPCG(1, 2)), time.Date(2026, 3, 1, 4, 30, 0, 0, time.UTC), [2]int{w.Min, w.Min}, 0
	for step := range 1200 {
		now = now.Add(15 * time.Second)
		rises := max(0, float64(step%300)-60) / 240    // after a while of nothing
		load := max(42*rises*(.7+.3*r.Float64()), .01) // a pod that runs uses some CPU
		p := [2]played{}
		for i := range p {
			p[i] = played{now, replicas[i], carrying(now, replicas[i], load), 40 * load}
		}
		d := ours.Decide(&podscaler.View{
			Now: now, Workload: ours.Workload(), Replicas: replicas[0], Pods: p[0].pods,
			Window: podscaler.Window{Metrics: map[string]podscaler.Metric{"trigger-0": {Total: podscaler.Known(p[0].value)}}},
		})
		if d.To != replicas[0] {
			moved++
		}
		replicas = [2]int{d.To, theirs(p[1])}
		if replicas[0] != replicas[1] {
			t.Fatalf("step %d, load %.1f: from %d replicas to %d, and %d by the original's rules: %v", step, load, p[0].replicas, replicas[0], replicas[1], d.Reasons)
		}
	}
	if moved < 2 {
		t.Error("the load moves nothing")
	}
}

// wpa are the keys of a WatermarkPodAutoscaler that its rules go by.
type wpa struct {
	Spec struct {
		MinReplicas, MaxReplicas                                               int
		Algorithm                                                              string
		Tolerance                                                              *resource.Quantity
		ScaleUpLimitFactor, ScaleDownLimitFactor                               *resource.Quantity
		UpscaleForbiddenWindowSeconds, DownscaleForbiddenWindowSeconds         *int
		UpscaleDelayAboveWatermarkSeconds, DownscaleDelayBelowWatermarkSeconds int
		ReplicaScalingAbsoluteModulo                                           int
		ConvergeTowardsWatermark                                               string
		Metrics                                                                []struct {
			Resource *struct {
				Name                        string
				HighWatermark, LowWatermark resource.Quantity
			}
		}
	}
	scaled       time.Time // last
	above, below time.Time // since when
}

// sum is what all pods use of a resource, in thousandths.
func (p played) sum(name string) (sum float64) {
	for _, pod := range p.pods {
		if name == "cpu" {
			sum += math.Ceil(pod.Uses[0].CPU.Value*1000 - 1e-9) // as Kubernetes rounds
		} else {
			sum += pod.Uses[0].Memory.Value * 1000
		}
	}
	return sum
}

// decide follows the controller of WatermarkPodAutoscalers, for pods that are all ready.
func (a *wpa) decide(p played) int {
	s, ready, want := &a.Spec, float64(p.replicas), 0
	tolerance := .1
	if s.Tolerance != nil {
		tolerance = s.Tolerance.AsApproximateFloat64()
	}
	above, below := false, true
	for _, m := range s.Metrics {
		if m.Resource == nil {
			continue
		}
		usage := p.sum(m.Resource.Name)
		if s.Algorithm == "average" {
			usage /= ready
		}
		high, low := float64(m.Resource.HighWatermark.MilliValue()), float64(m.Resource.LowWatermark.MilliValue())
		n := p.replicas
		switch {
		case usage > high+tolerance*high:
			n, above, below = max(int(math.Ceil(ready*usage/high)), p.replicas), true, false
		case usage < low-tolerance*low:
			n = min(max(int(math.Floor(ready*usage/low)), 1), p.replicas)
		default:
			below = false
			if least := min(max(int(math.Ceil(ready*usage/high)), s.MinReplicas), s.MaxReplicas); s.ConvergeTowardsWatermark == "highwatermark" && p.replicas-1 >= least {
				n = p.replicas - 1
			}
			if most := min(max(int(math.Floor(ready*usage/low)), s.MinReplicas), s.MaxReplicas); s.ConvergeTowardsWatermark == "lowwatermark" && p.replicas+1 <= most {
				n = p.replicas + 1
			}
		}
		want = max(want, n)
	}
	since := func(is bool, at *time.Time) time.Duration {
		if !is {
			*at = time.Time{}
			return 0
		}
		if at.IsZero() {
			*at = p.now
		}
		return p.now.Sub(*at)
	}
	return a.allowed(p, want, since(above, &a.above), since(below, &a.below))
}

// allowed is how far a step may go, and when.
func (a *wpa) allowed(p played, want int, above, below time.Duration) int {
	s := &a.Spec
	factor := func(of *resource.Quantity, otherwise float64) float64 {
		if of == nil {
			return otherwise
		}
		return of.AsApproximateFloat64()
	}
	most, least := p.replicas, p.replicas
	if f := factor(s.ScaleUpLimitFactor, 50); f > 0 {
		most += int(max(1, math.Floor(f/100*float64(p.replicas))))
	}
	if f := factor(s.ScaleDownLimitFactor, 20); f > 0 {
		least -= int(max(1, math.Floor(f/100*float64(p.replicas))))
	}
	want = min(max(want, least, s.MinReplicas, 1), most, s.MaxReplicas)
	seconds := func(n *int, otherwise int) time.Duration {
		if n != nil {
			otherwise = *n
		}
		return time.Duration(otherwise) * time.Second
	}
	switch ago := p.now.Sub(a.scaled); {
	case want > p.replicas && (above < seconds(&s.UpscaleDelayAboveWatermarkSeconds, 0) || ago < seconds(s.UpscaleForbiddenWindowSeconds, 60)):
		return p.replicas
	case want < p.replicas && (below < seconds(&s.DownscaleDelayBelowWatermarkSeconds, 0) || ago < seconds(s.DownscaleForbiddenWindowSeconds, 300)):
		return p.replicas
	case want != p.replicas:
		a.scaled = p.now
	}
	return want
}

// sameByMarks plays a load to a WorkloadAutoscaler and to the rules of WatermarkPodAutoscalers,
// with what a note says makes them the same.
func sameByMarks(t *testing.T, text string, to *v1alpha1.WorkloadAutoscaler) {
	if strings.Contains(text, "replicaScalingAbsoluteModulo") {
		return // a note says that it rounds to the other side on the way down
	}
	a := &wpa{scaled: time.Date(2026, 3, 1, 4, 30, 15, 0, time.UTC)}
	must.Do(t, yaml.Unmarshal([]byte(text), a))
	a.Spec.MinReplicas = max(a.Spec.MinReplicas, 1)
	to.Spec.Watermark.AntiOscillation = new(false)
	plays(t, to, a.decide)
}

// scaledObject are the keys of a ScaledObject that its rules go by.
type scaledObject struct {
	Spec struct {
		MinReplicaCount, MaxReplicaCount, IdleReplicaCount, CooldownPeriod *int
		Advanced                                                           struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscaling.HorizontalPodAutoscalerBehavior
			}
		}
		Triggers []struct {
			Type, MetricType string
			Metadata         map[string]string
		}
	}
	called time.Time // last, by a trigger
	hpa    *podscaler.Scaler
}

// sameByTriggers plays a load to a WorkloadAutoscaler and to the rules of KEDA: its own HPA, and
// beside it KEDA's scaling from and to the fewest replicas.
func sameByTriggers(t *testing.T, text string, to *v1alpha1.WorkloadAutoscaler) {
	o := &scaledObject{}
	must.Do(t, yaml.Unmarshal([]byte(text), o))
	or := func(n *int, otherwise int) int {
		if n != nil {
			return *n
		}
		return otherwise
	}
	w := podscaler.Workload{
		Name: "shop/x", Min: max(or(o.Spec.MinReplicaCount, 0), 1), Max: or(o.Spec.MaxReplicaCount, 100),
		Pod: pricing.Resources{CPU: 500, Memory: pricing.GiB}, Behavior: behaviorOf(t, o.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior),
	}
	o.hpa = podscaler.NewScaler(w, must.Get(policy.New(policy.Spec{Policy: "HPA", HPA: &policy.HPA{Metrics: o.metrics(t)}}))(t))
	fewest := or(o.Spec.IdleReplicaCount, or(o.Spec.MinReplicaCount, 0))
	cooldown := time.Duration(or(o.Spec.CooldownPeriod, 300)) * time.Second
	o.called = time.Date(2026, 3, 1, 4, 30, 0, 0, time.UTC)
	plays(t, to, func(p played) int { return o.decide(p, w.Min, fewest, cooldown) })
}

// metrics are what KEDA has its HPA go by, but for triggers of type cron.
func (o *scaledObject) metrics(t *testing.T) (all []policy.Metric) {
	for _, trigger := range o.Spec.Triggers {
		m := policy.Metric{Type: "Resource", Name: trigger.Type}
		if c := trigger.Metadata["containerName"]; c != "" {
			m.Type, m.Container = "ContainerResource", c
		}
		switch {
		case trigger.Type == "prometheus":
			m = policy.Metric{Type: "External", Name: "trigger-0", AverageValue: thousandths(t, trigger.Metadata["threshold"])}
		case trigger.Type != "cpu" && trigger.Type != "memory":
			continue // a scaler of its own, and the clock
		case trigger.MetricType == "AverageValue":
			m.AverageValue = thousandths(t, trigger.Metadata["value"])
		default:
			m.AverageUtilization = must.Get(strconv.Atoi(trigger.Metadata["value"]))(t)
		}
		all = append(all, m)
	}
	return all
}

func thousandths(t *testing.T, text string) policy.Quantity {
	q := must.Get(resource.ParseQuantity(text))(t)
	return policy.Quantity(q.MilliValue())
}

func (o *scaledObject) decide(p played, least, fewest int, cooldown time.Duration) int {
	active, floor := false, 0
	for _, trigger := range o.Spec.Triggers {
		switch trigger.Type {
		case "prometheus":
			activation, _ := strconv.ParseFloat(trigger.Metadata["activationThreshold"], 64)
			active = active || p.value > activation
		case "cron": // from 8 to 20 in Berlin
			if hour := p.now.UTC().Hour() + 1; hour >= 8 && hour < 20 {
				floor, _ = strconv.Atoi(trigger.Metadata["desiredReplicas"])
				active = true
			}
		}
	}
	if active {
		o.called = p.now
	}
	switch {
	case !active && p.now.Sub(o.called) > cooldown && fewest < least:
		return fewest
	case p.replicas < least:
		if active {
			return max(least, floor)
		}
		return p.replicas
	}
	// KEDA's HPA takes the clock for a metric, and gets to its replicas in steps; here that is one.
	return max(floor, o.hpa.Decide(&podscaler.View{
		Now: p.now, Workload: o.hpa.Workload(), Replicas: p.replicas, Pods: p.pods,
		Window: podscaler.Window{Metrics: map[string]podscaler.Metric{"trigger-0": {Total: podscaler.Known(p.value)}}},
	}).To)
}
