package kube

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/targets"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Created is what the containers of a pod are to have that is about to be created in a namespace,
// and the WorkloadAutoscaler whose status says so. Any process may answer, the leader or not; one
// whose copies may be old answers nothing.
func (c *Cluster) Created(namespace string, p *corev1.Pod) (workload string, changes []rightsize.Change) {
	if c.Fresh() != nil {
		return "", nil
	}
	return created(c.copies, namespace, p)
}

func created(of *copies.Copies, namespace string, p *corev1.Pod) (workload string, changes []rightsize.Change) {
	ref, known := madeBy(of, namespace, p)
	if !known {
		return "", nil
	}
	var by *v1alpha1.WorkloadAutoscaler // the first by name
	for _, wla := range copies.All[*v1alpha1.WorkloadAutoscaler](of, copies.Autoscalers) {
		target := wla.Spec.ScaleTargetRef
		if kept.Refer(wla.Namespace, target.APIVersion, target.Kind, target.Name) == ref && creates(wla) && (by == nil || wla.Name < by.Name) {
			by = wla
		}
	}
	if by == nil {
		return "", nil
	}
	return by.Name, createdBy(by.Status.Rightsize.Created, p, rangesOf(of)[namespace].Ranges)
}

// creates reports whether an autoscaler wants pods changed as they are created: the status may be
// seconds older than the mode.
func creates(wla *v1alpha1.WorkloadAutoscaler) bool {
	r := wla.Spec.Rightsize
	return targets.Acts(wla) && r != nil && r.Mode != "" && r.Mode != v1alpha1.RightsizeOff && wla.Status.Rightsize != nil && len(wla.Status.Rightsize.Created) > 0
}

// madeBy is what scales a pod that is about to be created. The ReplicaSet of a rollout may be newer
// than the copies: Deployments name theirs by themselves and the hash that its pods bear.
func madeBy(of *copies.Copies, namespace string, p *corev1.Pod) (kept.Reference, bool) {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return kept.Reference{}, false
	}
	ref := kept.Refer(namespace, owner.APIVersion, owner.Kind, owner.Name)
	if owner.Kind != "ReplicaSet" {
		return ref, true
	}
	if set, ok := copies.One[*metav1.PartialObjectMetadata](of, copies.Owners, namespace+"/"+owner.Name); ok {
		if above := metav1.GetControllerOf(set); above != nil {
			ref = kept.Refer(namespace, above.APIVersion, above.Kind, above.Name)
		}
		return ref, true
	}
	if name, is := strings.CutSuffix(owner.Name, "-"+p.Labels["pod-template-hash"]); is {
		ref = kept.Refer(namespace, "apps/v1", "Deployment", name)
	}
	return ref, true
}

// createdBy are the changes by what a status says.
func createdBy(all []v1alpha1.CreatedContainer, p *corev1.Pod, within rightsize.Ranges) []rightsize.Change {
	var recommended []rightsize.Recommendation
	for i := range all {
		rec := rightsize.Recommendation{Container: all[i].Name}
		if q, err := resource.ParseQuantity(all[i].Requests.CPU); err == nil && q.Sign() > 0 {
			rec.Resources, rec.Target.CPU = append(rec.Resources, rightsize.CPU), pricing.MilliCPU(q.MilliValue())
		}
		if q, err := resource.ParseQuantity(all[i].Requests.Memory); err == nil && q.Sign() > 0 {
			rec.Resources, rec.Target.Memory = append(rec.Resources, rightsize.Memory), pricing.Bytes(q.Value())
		}
		if all[i].RaiseOnly {
			rec.Reasons = []rightsize.Reason{{Code: rightsize.ReasonLittleHistory}}
		}
		recommended = append(recommended, rec)
	}
	pod := rightsize.Pod{Containers: kept.Sizes(p), Starts: kept.Starts(p), Ranges: within}
	d := rightsize.Decide(time.Time{}, rightsize.Initial, rightsize.Upward(recommended, &pod), &pod)
	if d.Action != rightsize.SetOnCreate {
		return nil
	}
	return d.Changes
}
