package live

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

// Names are a workload's namespace and name.
func Names(w *testbed.Workload) (namespace, name string) {
	namespace, name, _ = strings.Cut(w.Name, "/")
	return namespace, name
}

// Labels are those of a workload's pods, and of what selects them.
func Labels(w *testbed.Workload) map[string]string {
	_, name := Names(w)
	return map[string]string{"app": name}
}

// Deployment is a workload with the replicas that a trial begins with. The first of the containers
// serves. Where a traffic plane takes the pods' part, they carry what it goes by.
func Deployment(w *testbed.Workload, containers []corev1.Container) *appsv1.Deployment {
	namespace, name := Names(w)
	replicas := int32(w.Replicas.Start)
	grace := int64(w.Grace.Seconds())
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: Labels(w)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: Labels(w), Annotations: serving(w, containers[0].Name, edgesAround(w.SLO.Target))},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					NodeSelector:                  w.Selector,
					Containers:                    containers,
				},
			},
		},
	}
	for _, t := range w.Tolerations {
		d.Spec.Template.Spec.Tolerations = append(d.Spec.Template.Spec.Tolerations, toleration(t))
	}
	return d
}

func toleration(t testbed.Toleration) corev1.Toleration {
	out := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(t.Effect)}
	if t.Value != "" {
		out.Operator, out.Value = corev1.TolerationOpEqual, t.Value
	}
	return out
}

// Server is what the container that serves asks for.
func Server(w *testbed.Workload) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: milli(w.Requests.CPU - Beside(w)), corev1.ResourceMemory: bytes(w.Requests.Memory)},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: milli(w.Quota)},
	}
}

// Beside is the CPU that a workload's pods ask for beside the one that serves, as a mesh's proxy
// does.
func Beside(w *testbed.Workload) pricing.MilliCPU { return max(0, w.Requests.CPU-w.Quota) }

// Sidecar is what the container asks for that asks for the rest.
func Sidecar(w *testbed.Workload) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: milli(Beside(w))}}
}

func milli(c pricing.MilliCPU) resource.Quantity {
	return *resource.NewMilliQuantity(int64(c), resource.DecimalSI)
}
func bytes(b pricing.Bytes) resource.Quantity {
	return *resource.NewQuantity(int64(b), resource.DecimalSI)
}

// serving are the annotations that make pods serve as the experiment says.
func serving(w *testbed.Workload, container string, edges []float64) map[string]string {
	custom, _ := json.Marshal(map[string][]float64{"istiocustom": edges}) // numbers always can be
	return map[string]string{
		plane.AnnotationDemand:      w.Demand.Mean.String(),
		plane.AnnotationSpread:      strconv.FormatFloat(100*float64(w.Demand.Spread), 'f', -1, 64) + "%",
		plane.AnnotationConcurrency: strconv.Itoa(w.Concurrency),
		plane.AnnotationBalance:     string(w.Balance),
		plane.AnnotationContainer:   container,
		plane.AnnotationBuckets:     string(custom),
	}
}

// edgesAround are a histogram's edges in milliseconds: one at the objective's target, on which the
// score rests, and others so close together that a quantile near it is read to within a tenth.
func edgesAround(target time.Duration) []float64 {
	ms := float64(target) / float64(time.Millisecond)
	var edges []float64
	for i := -24; i <= 36; i++ {
		edges = append(edges, math.Round(1000*ms*math.Pow(1.1, float64(i)))/1000)
	}
	return edges
}

// Budget keeps pods from being moved all at once, where the experiment does.
func Budget(w *testbed.Workload) *policyv1.PodDisruptionBudget {
	if w.Unavailable == 0 {
		return nil
	}
	namespace, name := Names(w)
	most := intstr.FromInt32(int32(w.Unavailable))
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: Labels(w)},
		},
	}
}

// Autoscaler is what the row's pod policy is to do with a workload, by signals.
func Autoscaler(w *testbed.Workload, p *testbed.Policy, signals v1alpha1.Signals) (*v1alpha1.WorkloadAutoscaler, error) {
	namespace, name := Names(w)
	s := w.Scaled(p)
	least := int32(s.Min)
	out := &v1alpha1.WorkloadAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "WorkloadAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.WorkloadAutoscalerSpec{
			ScaleTargetRef: v1alpha1.ScaleTargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Mode:           v1alpha1.ModeActive,
			RunPeriod:      duration(s.RunPeriod), StabilizationWindow: duration(s.Cooldown),
			MinReplicas: &least, MaxReplicas: int32(s.Max),
			SLO:     &v1alpha1.SLO{P: strconv.FormatFloat(s.SLO.Quantile, 'f', -1, 64), Target: duration(s.SLO.Target), Window: duration(s.SLO.Window)},
			Signals: &signals, Behavior: behavior(s.Behavior),
		},
	}
	if s.Cost.Target > 0 {
		out.Spec.Cost = &v1alpha1.CostTarget{
			Target: v1alpha1.Money(s.Cost.Target.String()), Per: duration(s.Cost.Per),
			Count: string(s.Cost.Count), Measure: string(s.Cost.Measure),
		}
	}
	return out, settings(&out.Spec, p.Pods.Spec)
}

// settings puts the policy and its settings in, whose keys are the same in both.
func settings(into *v1alpha1.WorkloadAutoscalerSpec, from podpolicy.Spec) error {
	named, err := podpolicy.Describe(from.Policy)
	if err != nil {
		return err
	}
	from.Policy = named.Name // as the API writes it
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &into.PolicySpec)
}

func duration(d time.Duration) v1alpha1.Duration { return v1alpha1.Duration(pricing.Short(d)) }

// behavior is a behavior as manifests write it. One without is a nil, as there.
func behavior(b *podscaler.Behavior) *v1alpha1.Behavior {
	if b == nil || b.Legacy {
		return nil
	}
	return &v1alpha1.Behavior{ScaleUp: rules(&b.Up), ScaleDown: rules(&b.Down)}
}

func rules(r *podscaler.Rules) *v1alpha1.ScalingRules {
	window := int32(r.Window.Seconds())
	out := &v1alpha1.ScalingRules{StabilizationWindowSeconds: &window}
	if r.Select != "" {
		text := string(r.Select)
		out.SelectPolicy = &text
	}
	for _, p := range r.Policies {
		limit := v1alpha1.ScalingPolicy{Type: "Pods", Value: int32(p.Pods), PeriodSeconds: int32(p.Period.Seconds())}
		if p.Percent > 0 {
			limit.Type, limit.Value = "Percent", int32(p.Percent)
		}
		out.Policies = append(out.Policies, limit)
	}
	if r.Tolerance != nil {
		ratio := v1alpha1.Ratio(strconv.FormatFloat(*r.Tolerance, 'f', -1, 64))
		out.Tolerance = &ratio
	}
	return out
}
