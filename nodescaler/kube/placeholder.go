package kube

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// deploymentOf makes placeholders for pods of a form. They are replaced all at once: a change that
// went pod by pod would keep more places than are expected to be wanted.
func deploymentOf(name string, like *corev1.PodTemplateSpec, h HandOff) *appsv1.Deployment {
	mine := map[string]string{kept.LabelPlaceholder: name}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: mine}, RevisionHistoryLimit: new(int32),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: placeholderLabels(mine), Annotations: placeholderAnnotations()},
				Spec:       placeholderSpec(mine, like, h),
			},
		},
	}
}

// placeholderLabels are those of a placeholder. They contain no label of the workload, because its
// selectors, those of services first of all, would match the placeholder.
func placeholderLabels(mine map[string]string) map[string]string {
	all := maps.Clone(mine)
	all[kept.LabelManagedBy] = kept.FieldManager
	all["sidecar.istio.io/inject"] = "false"
	return all
}

func placeholderAnnotations() map[string]string {
	return map[string]string{kept.AnnotationSafeToEvict: "true", "linkerd.io/inject": "disabled"}
}

// placeholderSpec takes the place that a pod of the form would, goes the moment that it is asked
// to, and may do nothing.
func placeholderSpec(mine map[string]string, like *corev1.PodTemplateSpec, h HandOff) corev1.PodSpec {
	s, no, yes, unprivileged := kept.Completed(&like.Spec), false, true, int64(65535)
	return corev1.PodSpec{
		PriorityClassName: h.PriorityClass, TerminationGracePeriodSeconds: new(int64),
		NodeSelector: s.NodeSelector, Tolerations: s.Tolerations, SchedulerName: s.SchedulerName, RuntimeClassName: s.RuntimeClassName,
		Affinity: besideLike(mine, like), TopologySpreadConstraints: spreadLike(mine, like),
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no, ImagePullSecrets: s.ImagePullSecrets,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &unprivileged, RunAsGroup: &unprivileged, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "placeholder", Image: h.Image, Ports: hostPorts(s), Resources: placeFor(s),
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

// placeFor is what the scheduler counts of a pod. Devices must be limited to what is requested; CPU
// and memory are not limited, for then a node might set whole cores aside for what does nothing.
func placeFor(s *corev1.PodSpec) corev1.ResourceRequirements {
	var place corev1.ResourceRequirements
	// Of the runtime's overhead the placeholder has its own.
	for name, amount := range resource.PodRequests(&corev1.Pod{Spec: *s}, resource.PodResourcesOptions{ExcludeOverhead: true}) {
		if amount.IsZero() {
			continue
		}
		if place.Requests == nil {
			place.Requests = corev1.ResourceList{}
		}
		place.Requests[name] = amount
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		default:
			if place.Limits == nil {
				place.Limits = corev1.ResourceList{}
			}
			place.Limits[name] = amount
		}
	}
	return place
}

// hostPorts are the ports of the node that the pod takes.
func hostPorts(s *corev1.PodSpec) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for i := range s.Containers {
		for _, p := range s.Containers[i].Ports {
			if p.HostPort != 0 {
				ports = append(ports, corev1.ContainerPort{ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
			}
		}
	}
	return ports
}

// besideLike is the affinity of the form. What keeps pods of the form from one another keeps
// placeholders from one another, too.
func besideLike(mine map[string]string, like *corev1.PodTemplateSpec) *corev1.Affinity {
	a := like.Spec.Affinity.DeepCopy()
	if a == nil || a.PodAntiAffinity == nil {
		return a
	}
	terms := a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range terms {
		// The keys mean the revision of the pod with the term; placeholders have their own.
		terms[i].MatchLabelKeys, terms[i].MismatchLabelKeys = nil, nil
		if finds(terms[i].LabelSelector, like) {
			terms = append(terms, corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: mine}, TopologyKey: terms[i].TopologyKey})
		}
	}
	a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = terms
	return a
}

// spreadLike is how pods of the form are spread, but among placeholders: those that run are spread
// already, and one key cannot be asked for twice.
func spreadLike(mine map[string]string, like *corev1.PodTemplateSpec) []corev1.TopologySpreadConstraint {
	var all []corev1.TopologySpreadConstraint
	for i := range like.Spec.TopologySpreadConstraints {
		one := *like.Spec.TopologySpreadConstraints[i].DeepCopy()
		if one.MatchLabelKeys = nil; finds(one.LabelSelector, like) {
			one.LabelSelector = &metav1.LabelSelector{MatchLabels: mine}
		}
		all = append(all, one)
	}
	return all
}

// finds reports whether a selector finds pods of the form.
func finds(selector *metav1.LabelSelector, like *corev1.PodTemplateSpec) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(like.Labels))
}
