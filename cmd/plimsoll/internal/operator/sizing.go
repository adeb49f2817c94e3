package operator

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// wants is what is wanted of the requests of a workload's pods, or nil. Whether pods can be changed
// as they are created is the process's to say.
func (w *workload) wants(admission bool) *rightsize.Wants {
	if w.sizes == nil || w.invalid != nil {
		return nil
	}
	wants := new(*w.sizes)
	wants.Of, wants.Creates, wants.Held = string(w.object.UID), admission && w.creates(), w.holdSizing(admission)
	fixed := w.words.Min == w.words.Max // such replicas follow nothing
	if scaledByMemory(w.policy) && !fixed {
		wants.KeepMemory = because(rightsize.ReasonScaledByMemory,
			"memory: policy %s scales replicas by use in proportion to requests, each of which would change what the other goes by: it is shown and left as it is", w.policy.Policy)
	}
	if scaledByRequests(w.policy) && !fixed {
		wants.KeepCPU = because(rightsize.ReasonScaledByCPU,
			"cpu: policy %s scales replicas by use in proportion to requests, each of which would change what the other goes by: it is shown and left as it is", w.policy.Policy)
	}
	st := w.object.Status.Rightsize
	if st != nil {
		wants.Saved = st.Checkpoint
	}
	if st != nil && st.LastResize != nil {
		wants.Last = &rightsize.Resized{Pod: st.LastResize.Pod, At: st.LastResize.Time.Time, Applied: st.LastResize.Applied}
		for _, r := range st.LastResize.Reasons {
			wants.Last.Reasons = append(wants.Last.Reasons, rightsize.Reason{Code: r.Code, Text: r.Text})
		}
	}
	return wants
}

// creates reports whether pods get what is recommended as they are created. Where none can be
// created as things are, they get what their template says: a LimitRange or a quota may allow that.
func (w *workload) creates() bool {
	if w.asks() && (w.object.Spec.Approval == nil || !w.object.Spec.Approval.Proceed.Resizes) {
		return false
	}
	return w.sizes.Mode != rightsize.Off && w.held == nil && !w.pause.on && w.target.Sized == nil && w.target.Failing == ""
}

// holdSizing says why nothing is resized, or nil.
func (w *workload) holdSizing(admission bool) *nodescaler.Reason {
	switch {
	case w.sizes.Mode == rightsize.Off:
		return because(rightsize.ReasonModeOff, "recommendations are shown and not carried out")
	case w.held != nil:
		return w.held
	case w.pause.on:
		return because(v1alpha1.ReasonPaused, "%s", w.pause.text)
	case w.target.Sized != nil:
		return because(w.target.Sized.Code, "%s", w.target.Sized.Text)
	case w.sizes.Mode == rightsize.Initial && !admission:
		return because(rightsize.ReasonNotAdmitted, "requests would be set as pods are created, which takes admission in the configuration of plimsoll run")
	case w.sizes.Mode == rightsize.Initial:
		return because(rightsize.ReasonModeInitial, "requests are set as pods are created, and those that run stay as they are")
	}
	return nil
}

// scaledByRequests reports whether replicas follow CPU as a part of what is requested. Of a policy
// that is not known here it is taken for granted.
func scaledByRequests(p podpolicy.Spec) bool {
	switch p.Policy {
	case "SLOCost", "Joint": // which goes by the cores that pods use, once it has seen some
		return false
	case "FastSlow":
		return p.FastSlow == nil || p.FastSlow.Metric == ""
	case "Watermark": // whose marks of CPU may be absolute, and need not be
		return p.Watermark == nil || len(p.Watermark.Metrics) == 0 ||
			slices.ContainsFunc(p.Watermark.Metrics, func(m podpolicy.WatermarkMetric) bool { return m.Name == podscaler.ResourceCPU })
	case "Predictive":
		// Which goes by CPU where nothing is forecast, and may learn what fits into a request.
		c := p.Predictive
		return c == nil || c.CPU.AverageValue == 0 ||
			c.Profile.Linear == nil && c.Profile.Quadratic == nil && c.Profile.Table == nil && (c.Profile.Learned == nil || c.Profile.Learned.CPU == 0)
	case "HPA":
		return p.HPA == nil || len(p.HPA.Metrics) == 0 ||
			slices.ContainsFunc(p.HPA.Metrics, func(m podpolicy.Metric) bool { return m.AverageUtilization > 0 && m.Name != podscaler.ResourceMemory })
	}
	return true
}

// scaledByMemory reports whether replicas follow memory, as a part of what is requested.
func scaledByMemory(p podpolicy.Spec) bool {
	return p.HPA != nil && slices.ContainsFunc(p.HPA.Metrics, func(m podpolicy.Metric) bool { return m.AverageUtilization > 0 && m.Name == podscaler.ResourceMemory })
}

// recommendations are what is recommended in the API's words.
func recommendations(all []rightsize.Recommendation) []v1alpha1.ContainerRecommendation {
	var out []v1alpha1.ContainerRecommendation
	for i := range all {
		rec := &all[i]
		out = append(out, v1alpha1.ContainerRecommendation{
			Name: rec.Container, Target: amounts(rec, rec.Target), Lower: amounts(rec, rec.Lower), Upper: amounts(rec, rec.Upper),
			Uncapped: amounts(rec, rec.Uncapped), Reasons: sizeReasons(rec.Reasons),
		})
	}
	return out
}

// amounts are those of the resources that are recommended. What is no bound is omitted.
func amounts(rec *rightsize.Recommendation, of pricing.Resources) (out v1alpha1.ContainerAmounts) {
	if rec.Has(rightsize.CPU) && !rightsize.CPU.Unbounded(of) {
		out.CPU = quantity(rightsize.CPU, of)
	}
	if rec.Has(rightsize.Memory) && !rightsize.Memory.Unbounded(of) {
		out.Memory = quantity(rightsize.Memory, of)
	}
	return out
}

// created are what pods get as they are created, in the API's words.
func created(all []rightsize.Recommendation) []v1alpha1.CreatedContainer {
	var out []v1alpha1.CreatedContainer
	for i := range all {
		if rec := &all[i]; len(rec.Resources) > 0 {
			out = append(out, v1alpha1.CreatedContainer{Name: rec.Container, Requests: amounts(rec, rec.Target), RaiseOnly: rec.Short()})
		}
	}
	return out
}

// limitsOf are what containers may use as their shares of their nodes, in the API's words.
func limitsOf(all []rightsize.ContainerLimits) []v1alpha1.ContainerLimits {
	shared := func(of pricing.Resources) (out v1alpha1.ContainerAmounts) {
		if of.CPU > 0 {
			out.CPU = quantity(rightsize.CPU, of)
		}
		if of.Memory > 0 {
			out.Memory = quantity(rightsize.Memory, of)
		}
		return out
	}
	var out []v1alpha1.ContainerLimits
	for _, l := range all {
		out = append(out, v1alpha1.ContainerLimits{Name: l.Container, Least: shared(l.Least), Most: shared(l.Most), Reasons: sizeReasons(l.Reasons)})
	}
	return out
}

// quantity is an amount as Kubernetes writes it.
func quantity(r rightsize.Resource, of pricing.Resources) string {
	if r == rightsize.CPU {
		return resource.NewMilliQuantity(int64(of.CPU), resource.DecimalSI).String()
	}
	return resource.NewQuantity(int64(of.Memory), resource.BinarySI).String()
}

func sizeReasons(all []rightsize.Reason) []v1alpha1.Reason {
	var out []v1alpha1.Reason
	for _, r := range all {
		out = append(out, v1alpha1.Reason{Code: r.Code, Text: r.Text})
	}
	return out
}

// sizingStatus states what the containers should request; nothing without the block.
func sizingStatus(s *loop.Step, ws *loop.WorkloadStep) *v1alpha1.RightsizeStatus {
	if ws == nil || ws.Sizing == nil {
		return nil
	}
	reason, last := ws.Sizing.Reason, ws.Sizing.Last
	if done := s.Resized(ws); done != nil {
		reason, last = done.Outcome, done
	}
	st := &v1alpha1.RightsizeStatus{
		Containers: recommendations(ws.Sizing.Recommended), Reason: &v1alpha1.Reason{Code: reason.Code, Text: reason.Text},
		Created: created(ws.Sizing.Created), Limits: limitsOf(ws.Sizing.Limits), Checkpoint: ws.Sizing.Saved,
	}
	if last != nil {
		st.LastResize = &v1alpha1.PodResize{Pod: last.Pod, Time: metav1.NewTime(last.At), Applied: last.Applied, Reasons: sizeReasons(last.Reasons)}
	}
	return st
}

// sizingEvents are a resize, and that requests leave their bounds or are back.
func sizingEvents(s *loop.Step, ws *loop.WorkloadStep) (all []kube.Event) {
	if ws == nil || ws.Sizing == nil {
		return nil
	}
	if lost := ws.Sizing.Lost; lost != nil {
		all = append(all, kube.Event{About: lost.Code, Key: lost.Text, Warning: true, Reason: lost.Code, Note: lost.Text})
	}
	if ws.Sizing.Turned {
		e := kube.Event{About: "Rightsize", Key: rightsize.ReasonWithinBounds, Reason: rightsize.ReasonWithinBounds, Note: "all requests are within what is recommended"}
		if out := ws.Sizing.Outside; out != "" {
			e.Warning, e.Key, e.Reason, e.Note = true, rightsize.ReasonOutsideBounds, rightsize.ReasonOutsideBounds, out
		}
		all = append(all, e)
	}
	if done := s.Resized(ws); done != nil {
		action := "Resize"
		if done.Evicted {
			action = "Evict"
		}
		all = append(all, kube.Event{
			About: rightsize.ReasonResized, Key: done.Pod + " " + s.Time.UTC().Format(time.RFC3339), Action: action,
			Warning: !done.Applied, Reason: done.Outcome.Code, Note: done.Outcome.Text,
		})
	}
	return all
}
