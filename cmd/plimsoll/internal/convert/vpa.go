package convert

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/pricing"
)

const kindVPA = "VerticalPodAutoscaler"

// fromVPA converts Kubernetes' autoscaler of requests. It knows no replicas, which a
// WorkloadAutoscaler must: they are those of another autoscaler in the file, or of the workload.
func fromVPA(m tree, _ Options) *v1alpha1.WorkloadAutoscalerSpec {
	s := m.at("spec")
	ref := target(s.at("targetRef"), "")
	switch ref.Kind {
	case "DaemonSet", "Job", "CronJob":
		s.at("targetRef").lose("a %s has no replicas that a WorkloadAutoscaler could set", ref.Kind)
		return nil
	}
	for _, r := range s.at("recommenders").items() {
		if name := r.at("name"); name.text() != "default" {
			name.lose("recommendations are Plimsoll's own")
		}
	}
	var replicas int32 // 0 is not known
	if is := m.around.scaled[scaleKey(m.namespace, &ref)]; is != nil {
		replicas, is.named = is.replicas, true
		m.note("replicas are kept at the %d that %s %s has: a %s does not scale them", replicas, ref.Kind, ref.Name, kindVPA)
	}
	return &v1alpha1.WorkloadAutoscalerSpec{
		ScaleTargetRef: ref, Mode: v1alpha1.ModeRecommend, PolicySpec: v1alpha1.PolicySpec{Policy: v1alpha1.PolicyHPA},
		MinReplicas: &replicas, MaxReplicas: replicas, Rightsize: rightsizeOf(s),
	}
}

func rightsizeOf(s tree) *v1alpha1.Rightsize {
	update := s.at("updatePolicy")
	mode := update.at("updateMode")
	r := &v1alpha1.Rightsize{Mode: v1alpha1.RightsizeMode(choice(mode, map[string]string{
		"": string(v1alpha1.RightsizeAuto), "Auto": string(v1alpha1.RightsizeAuto), "Recreate": string(v1alpha1.RightsizeAuto),
		"InPlaceOrRecreate": string(v1alpha1.RightsizeAuto), "InPlace": string(v1alpha1.RightsizeInPlace),
		"Initial": string(v1alpha1.RightsizeInitial), "Off": string(v1alpha1.RightsizeOff),
	}))}
	switch mode.word() {
	case "Initial":
		s.note("rightsize.mode: Initial takes the webhook, which is admission among the chart's values")
	case "", "Auto", "Recreate":
		s.note("rightsize.mode: Auto resizes pods in place, and evicts only those that their node has no room to resize")
	}
	if n, ok := update.at("minReplicas").whole(); ok {
		r.MinReplicas = n
		update.at("minReplicas").becomes("spec.rightsize.minReplicas")
		aboveZero(update.at("minReplicas"), n)
	}
	update.at("evictionRequirements").lose("pods are evicted only where their node has no room for more")
	for i, p := range s.at("resourcePolicy").at("containerPolicies").items() {
		r.Containers = append(r.Containers, containerOf(p, i))
	}
	return r
}

// containerOf converts what is allowed for a container.
func containerOf(t tree, i int) v1alpha1.ContainerPolicy {
	c := v1alpha1.ContainerPolicy{
		Name:       t.at("containerName").needed(),
		Disabled:   choice(t.at("mode"), map[string]string{"": "", "Auto": "", "Off": "Off"}) != "",
		MinAllowed: allowed(t.at("minAllowed")), MaxAllowed: allowed(t.at("maxAllowed")),
	}
	t.becomes(fmt.Sprintf("spec.rightsize.containers[%d]", i))
	t.becomes(fmt.Sprintf("spec.rightsize.containers[%s]", c.Name))
	controlled := t.at("controlledResources")
	for _, r := range controlled.items() {
		c.ControlledResources = append(c.ControlledResources, v1alpha1.ResourceName(choice(r, map[string]string{"cpu": "cpu", "memory": "memory"})))
	}
	if controlled.there() && len(c.ControlledResources) == 0 { // without the key it is both
		c.Disabled = true
	}
	if values := t.at("controlledValues"); choice(values, map[string]string{"": "", "RequestsAndLimits": "", "RequestsOnly": "only"}) != "" {
		values.lose("limits keep their proportion to requests")
	}
	return c
}

// allowed reads a bound.
func allowed(t tree) *v1alpha1.ContainerResources {
	var r v1alpha1.ContainerResources
	if q, ok := amount(t.at("cpu")); ok {
		milli := q.MilliValue() // rounded up
		if q.Cmp(*resource.NewMilliQuantity(milli, resource.DecimalSI)) != 0 {
			t.note("%s.cpu: %s is rounded up to %dm", t.path, q.String(), milli)
		}
		r.CPU = new(v1alpha1.Cores(pricing.MilliCPU(milli).String()))
	}
	if q, ok := amount(t.at("memory")); ok {
		size, exact := sizeOf(q.Value())
		if !exact {
			t.note("%s.memory: %s is rounded up to %s", t.path, q.String(), size)
		}
		r.Memory = new(v1alpha1.Size(size))
	}
	if r == (v1alpha1.ContainerResources{}) {
		return nil
	}
	return &r
}

// amount reads one of Kubernetes' quantities, of any size.
func amount(t tree) (q resource.Quantity, ok bool) {
	if !t.there() {
		return q, false
	}
	q, err := resource.ParseQuantity(t.word())
	if err != nil || q.Sign() < 0 {
		t.fault("must be a quantity of at least 0", t.value)
		return q, false
	}
	return q, true
}

// sizeOf writes bytes as the API takes them, in the largest unit of which they are a whole number,
// or rounded up to the smallest in which they have few enough digits.
func sizeOf(bytes int64) (text string, exact bool) {
	const most = 999_999 // of what is before the unit
	units := []struct {
		name string
		size int64
	}{{"Ti", 1 << 40}, {"T", 1e12}, {"Gi", 1 << 30}, {"G", 1e9}, {"Mi", 1 << 20}, {"M", 1e6}, {"Ki", 1 << 10}, {"k", 1e3}, {"B", 1}}
	for _, u := range units {
		if bytes%u.size == 0 && bytes/u.size <= most {
			return fmt.Sprint(bytes/u.size, u.name), true
		}
	}
	for _, name := range []string{"Ki", "Mi", "Gi"} {
		for _, u := range units {
			if n := int64(math.Ceil(float64(bytes) / float64(u.size))); u.name == name && n <= most {
				return fmt.Sprint(n, u.name), false
			}
		}
	}
	return fmt.Sprint(most, "Ti"), false
}

// scaleKey names what is scaled. Versions do not distinguish it.
func scaleKey(namespace string, ref *v1alpha1.ScaleTargetRef) string {
	group, _, grouped := strings.Cut(ref.APIVersion, "/")
	if !grouped {
		group = ""
	}
	return strings.Join([]string{namespace, group, ref.Kind, ref.Name}, " ")
}

// scaled is a workload in a file.
type scaled struct {
	replicas int32
	named    bool // an autoscaler names it
}

// workloadKey is empty for all else.
func workloadKey(object map[string]any) string {
	ref := v1alpha1.ScaleTargetRef{}
	ref.APIVersion, _ = object["apiVersion"].(string)
	ref.Kind, _ = object["kind"].(string)
	switch ref.Kind {
	case "Deployment", "StatefulSet", "ReplicaSet":
	default:
		return ""
	}
	metadata, _ := object["metadata"].(map[string]any)
	ref.Name, _ = metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	return scaleKey(namespace, &ref)
}

// readScaled finds how many replicas the workloads in a file have.
func readScaled(objects []map[string]any) map[string]*scaled {
	all := map[string]*scaled{}
	for _, object := range objects {
		key := workloadKey(object)
		if key == "" {
			continue
		}
		m := tree{"", object, &reading{read: map[string]bool{}, source: map[string]string{}}}
		replicas, given := m.at("spec").at("replicas").whole()
		if m.err() != nil {
			continue // it is no object that could be applied
		}
		if !given {
			replicas = 1
		}
		all[key] = &scaled{replicas: max(replicas, 1)}
	}
	return all
}

// merge puts what was made of VerticalPodAutoscalers into what was made of the autoscalers of
// replicas that have the same target. One without such a target, of which no replicas are known
// either, is not converted.
func merge(all []Result) []Result {
	scalers := map[string]*Result{}
	var sizers []*Result
	for i := range all {
		switch r := &all[i]; {
		case r.To == nil, r.Fault != nil && r.To.Spec.Rightsize != nil:
		case r.To.Spec.Rightsize != nil:
			sizers = append(sizers, r)
		default:
			scalers[scaleKey(r.To.Namespace, &r.To.Spec.ScaleTargetRef)] = r
		}
	}
	merged := map[*Result]bool{}
	for _, r := range sizers {
		ref := &r.To.Spec.ScaleTargetRef
		switch into := scalers[scaleKey(r.To.Namespace, ref)]; {
		case into != nil && into.To.Spec.Rightsize == nil:
			into.take(r)
			merged[r] = true
		case into != nil:
			r.not(fmt.Sprintf("the pods of %s %s are sized by another %s of this file", ref.Kind, ref.Name, kindVPA))
		case r.To.Spec.MaxReplicas == 0:
			r.not(fmt.Sprintf("a WorkloadAutoscaler sets replicas, too: add %s %s, or what scales it, to the file", ref.Kind, ref.Name))
		}
	}
	var kept []Result
	for i := range all {
		if !merged[&all[i]] {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// not says why nothing is written.
func (r *Result) not(why string) {
	r.To, r.Notes, r.Lost = nil, nil, append(r.Lost, Loss{"spec.targetRef", why})
}

// take takes over how requests are sized.
func (r *Result) take(from *Result) {
	r.From += " and " + from.From
	r.To.Spec.Rightsize = from.To.Spec.Rightsize
	for _, note := range from.Notes {
		if !strings.HasPrefix(note, "replicas are kept") {
			r.Notes = append(r.Notes, note)
		}
	}
	r.Lost = append(r.Lost, from.Lost...)
	for ours, theirs := range from.source {
		r.source[ours] = cmp.Or(r.source[ours], theirs)
	}
	for key, value := range from.To.Labels {
		if was, known := r.To.Labels[key]; known && was != value {
			r.Lost = append(r.Lost, Loss{fmt.Sprintf("metadata.labels[%q]", key), "has another value in " + r.From})
		} else if !known {
			if r.To.Labels == nil {
				r.To.Labels = map[string]string{}
			}
			r.To.Labels[key] = value
		}
	}
}
