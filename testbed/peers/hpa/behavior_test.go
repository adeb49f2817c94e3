package hpa

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
	_ "unsafe" // for go:linkname

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"

	"github.com/plimsoll/plimsoll/podscaler"
)

// What the controller makes of a wish, and keeps of a change, are methods of its own.
//
//go:linkname normalizeWithBehaviors k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).normalizeDesiredReplicasWithBehaviors
func normalizeWithBehaviors(c *podautoscaler.HorizontalController, hpa *autoscaling.HorizontalPodAutoscaler, key string, current, desired, low int32) int32

//go:linkname normalize k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).normalizeDesiredReplicas
func normalize(c *podautoscaler.HorizontalController, hpa *autoscaling.HorizontalPodAutoscaler, key string, current, desired, low int32) int32

//go:linkname storeScaleEvent k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).storeScaleEvent
func storeScaleEvent(c *podautoscaler.HorizontalController, b *autoscaling.HorizontalPodAutoscalerBehavior, key string, from, to int32)

//go:linkname recordInitialRecommendation k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).recordInitialRecommendation
func recordInitialRecommendation(c *podautoscaler.HorizontalController, current int32, key string)

// controller is one that has just started.
func controller(window time.Duration) *podautoscaler.HorizontalController {
	c := &podautoscaler.HorizontalController{}
	set(c, "downscaleStabilisationWindow", window)
	for _, field := range []string{"recommendations", "scaleUpEvents", "scaleDownEvents"} {
		makeMap(c, field)
	}
	return c
}

// TestStepsAreTheControllers has both sides follow the same wishes through a random behavior.
func TestStepsAreTheControllers(t *testing.T) {
	differ, moved := 0, 0
	for i := range series {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			b, hpa := drawBehavior(r)
			d, m := follow(t, r, b, hpa, fmt.Sprint("behavior ", i))
			differ, moved = differ+d, moved+m
		})
	}
	t.Logf("%d of %d steps differ; %d changed the replicas", differ, series*steps, moved)
	if moved < series*steps/10 {
		t.Errorf("%d of %d steps changed something: too few to compare", moved, series*steps)
	}
}

// wish is a policy that wants what it is set to.
type wish int

func (w *wish) Desired(*podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Replicas: int(*w), Known: true}
}

func follow(t *testing.T, r *rand.Rand, b *podscaler.Behavior, hpa *autoscaling.HorizontalPodAutoscaler, name string) (differ, moved int) {
	low, high, window := int(*hpa.Spec.MinReplicas), int(hpa.Spec.MaxReplicas), b.Down.Window
	want := wish(low + r.IntN(high-low+1))
	mine, theirs, key := int(want), int32(want), "a/b"
	scaler := podscaler.NewScaler(podscaler.Workload{Name: key, Min: low, Max: high, Behavior: b}, &want)
	c := controller(window)
	recordInitialRecommendation(c, theirs, key)
	w := scaler.Workload()
	for n := range steps {
		view := &podscaler.View{Now: time.Now(), Workload: w, Replicas: mine}
		got := scaler.Decide(view)
		var next int32
		if b.Legacy {
			next = normalize(c, hpa, key, theirs, int32(want), int32(low))
		} else {
			next = normalizeWithBehaviors(c, hpa, key, theirs, int32(want), int32(low))
		}
		if next != theirs {
			storeScaleEvent(c, hpa.Spec.Behavior, key, theirs, next)
			moved++
		}
		if got.To != int(next) {
			if differ++; differ == 1 {
				t.Errorf("%s, step %d: from %d, %d wanted: %d, the controller %d; %v\n%+v", name, n, mine, want, got.To, next, got.Reasons, *b)
			}
			return differ, moved // what follows is of another past
		}
		mine, theirs = got.To, next
		pause := time.Duration(1+r.IntN(30)) * time.Second
		if n == 0 { // ours remembers no change of before its start, and allows for one
			pause = 31 * time.Minute
		}
		time.Sleep(pause)
		if n > 0 && r.IntN(2) == 0 {
			want = wish(low + r.IntN(high-low+1))
		}
	}
	return differ, moved
}

// drawBehavior draws the same behavior for both.
func drawBehavior(r *rand.Rand) (*podscaler.Behavior, *autoscaling.HorizontalPodAutoscaler) {
	low := int32(1 + r.IntN(5))
	hpa := &autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{MinReplicas: &low, MaxReplicas: low + 1 + r.Int32N(200)}}
	if r.IntN(10) == 0 {
		return podscaler.LegacyBehavior(), hpa
	}
	b := &podscaler.Behavior{}
	hpa.Spec.Behavior = &autoscaling.HorizontalPodAutoscalerBehavior{ScaleUp: drawRules(r, &b.Up), ScaleDown: drawRules(r, &b.Down)}
	return b, hpa
}

func drawRules(r *rand.Rand, ours *podscaler.Rules) *autoscaling.HPAScalingRules {
	window := int32(r.IntN(300))
	if r.IntN(2) == 0 {
		window = 0
	}
	choice := []autoscaling.ScalingPolicySelect{autoscaling.MaxChangePolicySelect, autoscaling.MinChangePolicySelect, autoscaling.MaxChangePolicySelect, autoscaling.DisabledPolicySelect}[r.IntN(4)]
	if choice == autoscaling.DisabledPolicySelect && r.IntN(3) > 0 {
		choice = autoscaling.MaxChangePolicySelect
	}
	theirs := &autoscaling.HPAScalingRules{StabilizationWindowSeconds: &window, SelectPolicy: &choice}
	ours.Window, ours.Select = time.Duration(window)*time.Second, podscaler.Select(map[autoscaling.ScalingPolicySelect]podscaler.Select{
		autoscaling.MaxChangePolicySelect: podscaler.SelectMax, autoscaling.MinChangePolicySelect: podscaler.SelectMin, autoscaling.DisabledPolicySelect: podscaler.SelectDisabled,
	}[choice])
	for range 1 + r.IntN(3) {
		p := autoscaling.HPAScalingPolicy{Type: autoscaling.PodsScalingPolicy, Value: 1 + r.Int32N(20), PeriodSeconds: 1 + r.Int32N(200)}
		limit := podscaler.StepLimit{Pods: int(p.Value), Period: time.Duration(p.PeriodSeconds) * time.Second}
		if r.IntN(2) == 0 {
			p.Type, p.Value = autoscaling.PercentScalingPolicy, 1+r.Int32N(100)
			limit.Pods, limit.Percent = 0, int(p.Value)
		}
		theirs.Policies, ours.Policies = append(theirs.Policies, p), append(ours.Policies, limit)
	}
	return theirs
}
