package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Annotations by which a pod's owner says whether it may be moved. Besides ours, those of Karpenter
// and of cluster-autoscaler count, so that nothing has to be written anew by whoever comes from
// there.
const (
	annotationDoNotEvict   = "plimsoll.dev/do-not-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationSafeToLose   = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
)

// pod is what is kept of a Pod: a few hundred bytes instead of some ten thousand. Of its metadata
// there are only names, labels, versions and the owner that controls it.
type pod struct {
	metav1.ObjectMeta
	// said is what the pod says by itself. Its workload, its CPU and all that depends on other
	// objects are filled in by Observe.
	said   nodescaler.Pod
	claims []use
	// meant is the node that a daemon's pod waits for.
	meant string
	// address is the pod's IP; empty until it has one.
	address string
	// apart are pods that it refuses to share a node with, and rules how it is spread over nodes
	// and zones.
	apart []unique.Handle[podTerm]
	rules []rule
	// prefers is what it would rather have of its node, by other pods; what it would by labels it
	// said.
	prefers []preference
	devices []deviceUse
	*common
	// resize is how far the last change of its containers' requests has come.
	resize rightsize.ResizeState
	// resizeSince is since when it waits for room, if it does.
	resizeSince time.Time
	// mark is whose deletion cost it has.
	mark mark
}

// keepPod is the transform of the pods' copies.
func keepPod(o any) (any, error) {
	if p, ok := o.(*corev1.Pod); ok {
		return shortPod(p), nil
	}
	return o, nil // transformed before, or a tombstone
}

func shortPod(p *corev1.Pod) *pod {
	kept := &pod{ObjectMeta: keepMeta(&p.ObjectMeta)}
	kept.address = p.Status.PodIP
	kept.mark = markOf(p)
	kept.said = nodescaler.Pod{
		Pod: podscaler.Pod{
			Name: p.Namespace + "/" + p.Name, Phase: podscaler.Phase(p.Status.Phase), Terminating: p.DeletionTimestamp != nil,
		},
		Node: text(p.Spec.NodeName), Created: p.CreationTimestamp.Time, Selector: same(p.Spec.NodeSelector),
		Daemon: isDaemon(p), Pinned: pinned(p),
	}
	if name := p.Status.NominatedNodeName; name != "" && p.Spec.NodeName == "" {
		kept.said.Nominated = text(name)
		kept.said.Pinned = "the scheduler makes room for it there"
	}
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil && time.Duration(*s)*time.Second != nodescaler.DefaultGrace {
		kept.said.Grace = time.Duration(max(*s, 1)) * time.Second
	}
	if p.Spec.Priority != nil {
		kept.said.Priority = int(*p.Spec.Priority)
	}
	if cost, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32); err == nil {
		kept.said.DeletionCost = int32(cost)
	}
	if p.Status.StartTime != nil {
		kept.said.Started = p.Status.StartTime.Time
	}
	kept.conditions(p)
	kept.tolerations(p)
	kept.requests(p)
	kept.resize, kept.resizeSince = resizeState(p)
	kept.common = (&common{same(p.Labels), kept.OwnerReferences, sizes(p), asks(p)}).shared()
	kept.Labels, kept.OwnerReferences = kept.labels, kept.owners
	kept.said.Asks = &kept.asks
	kept.constraints(p)
	kept.meant = nodeMeant(p)
	return kept
}

func (kept *pod) conditions(p *corev1.Pod) {
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; c.Type {
		case corev1.PodReady:
			kept.said.Ready = c.Status == corev1.ConditionTrue
			kept.said.ReadyChanged = c.LastTransitionTime.Time
		case corev1.PodScheduled:
			// A pod behind a scheduling gate is not unschedulable: it is not to be scheduled yet.
			kept.said.Unschedulable = c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
				p.Spec.NodeName == "" && p.DeletionTimestamp == nil
		default: // nothing that decisions rest on
		}
	}
}

// tolerations keeps those that let the pod onto a node. It skips those that let it stay for a while
// on a failed node (every pod has two of them), and operators that compare numbers. Fewer nodes are
// feasible then, never more.
func (kept *pod) tolerations(p *corev1.Pod) {
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		o := nodescaler.Toleration{Key: text(t.Key), Value: text(t.Value), Effect: text(string(t.Effect))}
		switch {
		case t.Effect == corev1.TaintEffectPreferNoSchedule:
		case t.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds != nil && nodescaler.StartupTaint(t.Key):
		case t.Operator == corev1.TolerationOpExists:
			o.Value = ""
			kept.said.Tolerations = append(kept.said.Tolerations, o)
		case t.Operator != corev1.TolerationOpEqual && t.Operator != "":
		case t.Key == "": // matches nothing, although the API server accepts it
		default:
			o.Exact = t.Value == ""
			kept.said.Tolerations = append(kept.said.Tolerations, o)
		}
	}
}

// requests sums what the scheduler counts: init and sidecar containers, overhead, and what a resize
// has not released yet.
func (kept *pod) requests(p *corev1.Pod) {
	all := resource.PodRequests(p, resource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	kept.said.Requests, kept.said.Extra = resources(all), extras(all)
}

// asks is what the controller of a HorizontalPodAutoscaler counts: the containers and the init
// containers that are restarted, neither other init containers nor overhead; or what is requested
// for the pod as a whole.
func asks(p *corev1.Pod) (a podscaler.Asks) {
	add := func(c *corev1.Container) {
		a.Containers = append(a.Containers, podscaler.ContainerAsks{Name: text(c.Name), Requests: thousandths(c.Resources.Requests)})
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	if resource.IsPodLevelRequestsSet(p) {
		a.Whole = thousandths(resource.PodRequests(p, resource.PodResourcesOptions{}))
	}
	return a
}

// thousandths are the amounts of a list; nil if it is empty.
func thousandths(list corev1.ResourceList) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	all := make(map[string]int64, len(list))
	for name, amount := range list {
		all[text(string(name))] = amount.MilliValue()
	}
	return all
}

// constraints keeps what the pod asks of nodes beyond labels, taints and size.
func (kept *pod) constraints(p *corev1.Pod) {
	if a := p.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil && !kept.said.Daemon {
			kept.said.Affinity = affinity(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	kept.apart, kept.rules = terms(p)
	kept.rules = slices.Concat(kept.rules, beside(p), spreads(p, corev1.DoNotSchedule))
	kept.said.Has, kept.said.Repels = ports(p)
	kept.said.Prefers, kept.prefers = labelled(p), preferences(p)
	kept.claims, kept.devices = uses(p), deviceUses(p)
}

// isDaemon reports whether the pod says that it comes with every node and leaves with it: a
// DaemonSet's, or one that the kubelet runs by itself and only shows to the API server. Anybody may
// write that into a pod: see keepers.
func isDaemon(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// pinned says why the pod must not be evicted, or "". What an annotation forbids is forbidden; what
// it allows is only that the pod is bare or keeps something on the node's own disk.
func pinned(p *corev1.Pod) string {
	for _, key := range []string{annotationDoNotEvict, annotationDoNotDisrupt} {
		if value, ok := p.Annotations[key]; ok && value != "false" {
			return fmt.Sprintf("annotated %s: %q", key, value)
		}
	}
	safe := p.Annotations[annotationSafeToEvict]
	switch {
	case safe == "false":
		return fmt.Sprintf("annotated %s: %q", annotationSafeToEvict, safe)
	case safe == "true" || isDaemon(p):
		return ""
	case metav1.GetControllerOf(p) == nil:
		return "bare: nothing would make it again"
	}
	return localStorage(p)
}

// localStorage names the first volume that would be lost with the node. As cluster-autoscaler has
// it, one in memory does not count, nor those that the pod's owner lists as safe to lose.
func localStorage(p *corev1.Pod) string {
	expendable := strings.Split(p.Annotations[annotationSafeToLose], ",")
	for i, name := range expendable {
		expendable[i] = strings.TrimSpace(name)
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		switch {
		case slices.Contains(expendable, v.Name):
		case v.HostPath != nil:
			return fmt.Sprintf("local storage: volume %s is a path of the node", v.Name)
		case v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
			return fmt.Sprintf("local storage: volume %s is an emptyDir", v.Name)
		}
	}
	return ""
}

// resources reads CPU and memory, rounded up as the scheduler does. A sum that is too large to be
// counted wraps around. Below zero it would make room for other pods, and in its namespace's quota.
func resources(list corev1.ResourceList) pricing.Resources {
	return pricing.Resources{
		CPU:    max(0, pricing.MilliCPU(list.Cpu().MilliValue())),
		Memory: max(0, pricing.Bytes(list.Memory().Value())),
	}
}

// extras reads what there is besides CPU, memory and pod slots: devices, huge pages, ephemeral
// storage.
func extras(list corev1.ResourceList) pricing.Amounts {
	var all map[string]int64
	for name, amount := range list {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourcePods {
			continue
		}
		if n := amount.Value(); n > 0 {
			if all == nil {
				all = make(map[string]int64, len(list))
			}
			all[text(string(name))] = n
		}
	}
	return pricing.AmountsOf(all)
}

// keepMeta keeps what every copy needs: who it is, and who controls it.
func keepMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Name: m.Name, Namespace: text(m.Namespace), UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		owner.APIVersion, owner.Kind, owner.Name = text(owner.APIVersion), text(owner.Kind), text(owner.Name)
		owner.UID = unique.Make(owner.UID).Value()
		yes := true
		owner.Controller, owner.BlockOwnerDeletion = &yes, nil
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return kept
}

// text returns a string that equal ones share: decoded objects have a copy of each.
func text(s string) string { return unique.Make(s).Value() }

// same shares the strings of a map.
func same(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	shared := make(map[string]string, len(m))
	for key, value := range m {
		shared[text(key)] = text(value)
	}
	return shared
}
