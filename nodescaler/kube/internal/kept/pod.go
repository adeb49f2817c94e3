package kept

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
)

// Annotations by which a pod's owner says whether it may be moved. Besides ours, those of Karpenter
// and of cluster-autoscaler count, so that nothing has to be written anew by whoever comes from
// there.
const (
	annotationDoNotEvict   = "plimsoll.dev/do-not-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
	AnnotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDaemon       = "cluster-autoscaler.kubernetes.io/daemonset-pod"
	annotationSafeToLose   = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
)

// Pod is what is kept of a Pod: a few hundred bytes instead of some ten thousand. Of its metadata
// there are only names, labels, versions and the owner that controls it.
type Pod struct {
	metav1.ObjectMeta
	Said    Said
	Claims  []Use
	Devices []DeviceUse
	// Address is the pod's IP; empty until it has one.
	Address string
	*common
	// Mark is whose deletion cost it has.
	Mark mark
	// Place is 1 and more where it was when pods were last sorted. It is only a hint.
	Place atomic.Int32
}

// Said is what a pod says that others of its template say otherwise.
type Said struct {
	Name, Node                     string
	Phase                          podscaler.Phase
	Created, Started, ReadyChanged time.Time
	DeletionCost                   int32
	Ready, Terminating             bool
	Unschedulable, Daemon, Foreign bool
}

// Finished reports whether the pod has ended.
func (s *Said) Finished() bool { return s.Phase == podscaler.Failed || s.Phase == podscaler.Succeeded }

// Alike reports whether the pods are of one namespace and template, so that what follows from
// labels and owners is the same of both.
func (kept *Pod) Alike(other *Pod) bool {
	return kept.common != nil && kept.common == other.common && kept.Namespace == other.Namespace
}

// Says is what the pod says by itself. Its workload, its CPU and all that depends on other objects
// are filled in by Observe.
func (kept *Pod) Says() nodescaler.Pod {
	p, s := kept.Form, &kept.Said
	p.Name, p.Node, p.Phase, p.Ready, p.Terminating = s.Name, s.Node, s.Phase, s.Ready, s.Terminating
	p.Created, p.Started, p.ReadyChanged = s.Created, s.Started, s.ReadyChanged
	p.DeletionCost, p.Unschedulable, p.Daemon, p.Foreign = s.DeletionCost, s.Unschedulable, s.Daemon, s.Foreign
	p.Asks = &kept.asks
	return p
}

// ShortPod is what is kept of a Pod.
func ShortPod(p *corev1.Pod) *Pod {
	kept := &Pod{ObjectMeta: keepMeta(&p.ObjectMeta), Address: p.Status.PodIP, Mark: markOf(p), Claims: uses(p), Devices: deviceUses(p)}
	kept.Said = Said{
		Name: p.Namespace + "/" + p.Name, Node: Text(p.Spec.NodeName), Phase: podscaler.Phase(Text(string(p.Status.Phase))),
		Created: p.CreationTimestamp.Time, Terminating: p.DeletionTimestamp != nil, Daemon: isDaemon(p), Foreign: isForeign(p),
	}
	if cost, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32); err == nil {
		kept.Said.DeletionCost = int32(cost)
	}
	if p.Status.StartTime != nil {
		kept.Said.Started = p.Status.StartTime.Time
	}
	kept.conditions(p)
	kept.common = commonOf(p, kept.OwnerReferences).shared()
	kept.Labels, kept.OwnerReferences = kept.labels, kept.owners
	return kept
}

// commonOf is what a pod has in common with others of its template.
func commonOf(p *corev1.Pod, owners []metav1.OwnerReference) *common {
	c := &common{labels: same(p.Labels), owners: owners, containers: Sizes(p), starts: Starts(p), asks: asks(p), Meant: nodeMeant(p)}
	c.Form.Selector, c.Form.Pinned = same(p.Spec.NodeSelector), pinned(p)
	if name := p.Status.NominatedNodeName; name != "" && p.Spec.NodeName == "" {
		c.Form.Nominated = Text(name)
		c.Form.Pinned = "the scheduler makes room for it there"
	}
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil && time.Duration(*s)*time.Second != nodescaler.DefaultGrace {
		c.Form.Grace = time.Duration(min(max(*s, 1), math.MaxInt64/int64(time.Second))) * time.Second
	}
	if p.Spec.Priority != nil {
		c.Form.Priority = int(*p.Spec.Priority)
	}
	c.tolerations(p)
	c.requests(p)
	c.resize, c.resizeSince = resizeState(p)
	c.constraints(p)
	return c
}

func (kept *Pod) conditions(p *corev1.Pod) {
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; c.Type {
		case corev1.PodReady:
			kept.Said.Ready = c.Status == corev1.ConditionTrue
			kept.Said.ReadyChanged = c.LastTransitionTime.Time
		case corev1.PodScheduled:
			// A pod behind a scheduling gate is not unschedulable: it is not to be scheduled yet.
			kept.Said.Unschedulable = c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
				p.Spec.NodeName == "" && p.DeletionTimestamp == nil
		default: // nothing that decisions rest on
		}
	}
}

// tolerations keeps those that let the pod onto a node. It skips those that let it stay for a while
// on a failed node (every pod has two of them), and operators that compare numbers. Fewer nodes are
// feasible then, never more.
func (c *common) tolerations(p *corev1.Pod) {
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		o := nodescaler.Toleration{Key: Text(t.Key), Value: Text(t.Value), Effect: Text(string(t.Effect))}
		switch {
		case t.Effect == corev1.TaintEffectPreferNoSchedule:
		case t.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds != nil && nodescaler.StartupTaint(t.Key):
		case t.Operator == corev1.TolerationOpExists:
			o.Value = ""
			c.Form.Tolerations = append(c.Form.Tolerations, o)
		case t.Operator != corev1.TolerationOpEqual && t.Operator != "":
		case t.Key == "": // matches nothing, although the API server accepts it
		default:
			o.Exact = t.Value == ""
			c.Form.Tolerations = append(c.Form.Tolerations, o)
		}
	}
}

// requests sums what the scheduler counts: init and sidecar containers, overhead, and what a resize
// has not released yet.
func (c *common) requests(p *corev1.Pod) {
	all := resource.PodRequests(p, resource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	c.Form.Requests, c.Form.Extra = Resources(all), extras(all)
}

// asks is what the controller of a HorizontalPodAutoscaler counts: the containers and the init
// containers that are restarted, neither other init containers nor overhead; or what is requested
// for the pod as a whole.
func asks(p *corev1.Pod) (a podscaler.Asks) {
	add := func(c *corev1.Container) {
		a.Containers = append(a.Containers, podscaler.ContainerAsks{Name: Text(c.Name), Requests: thousandths(c.Resources.Requests)})
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

// constraints keeps what the pod asks of nodes beyond labels, taints and size.
func (c *common) constraints(p *corev1.Pod) {
	if a := p.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil && !isDaemon(p) {
			c.Form.Affinity = affinity(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	c.Apart, c.Rules = terms(p)
	c.Rules = slices.Concat(c.Rules, beside(p), spreads(p, corev1.DoNotSchedule))
	c.Form.Has, c.Form.Repels = ports(p)
	c.Form.Prefers, c.Prefers = labelled(p), preferences(p)
}

// isDaemon reports whether the pod says that it comes with every node and leaves with it: a
// DaemonSet's, or one that the kubelet runs by itself and only shows to the API server. Anybody may
// write that into a pod: see keepers.
func isDaemon(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && (owner.Kind == kindDaemonSet || owner.Kind == "Node") || isForeign(p)
}

// kindDaemonSet is the kind of controllers that make a pod for each node, in any group.
const kindDaemonSet = "DaemonSet"

// isForeign reports whether the pod is a daemon as cluster-autoscaler has it, and not by a
// DaemonSet of Kubernetes: by one of another group, such as OpenKruise's, or once it has a node by
// an annotation.
func isForeign(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner != nil && owner.Kind == kindDaemonSet {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		return group != appsv1.GroupName
	}
	return p.Spec.NodeName != "" && p.Annotations[annotationDaemon] == "true" && (owner == nil || owner.Kind != "Node")
}

// pinned says why the pod must not be evicted, or "". What an annotation forbids is forbidden; what
// it allows is only that the pod is bare or keeps something on the node's own disk.
func pinned(p *corev1.Pod) string {
	for _, key := range []string{annotationDoNotEvict, annotationDoNotDisrupt} {
		if value, ok := p.Annotations[key]; ok && value != "false" {
			return fmt.Sprintf("annotated %s: %q", key, value)
		}
	}
	safe := p.Annotations[AnnotationSafeToEvict]
	switch {
	case safe == "false":
		return fmt.Sprintf("annotated %s: %q", AnnotationSafeToEvict, safe)
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

// LabelPlaceholder is on placeholders, with the name of the Deployment that makes them.
const LabelPlaceholder = "plimsoll.dev/placeholder"

// IsPlaceholder reports whether the pod only reserves room for another. A pod that would not be
// preempted is an ordinary pod, regardless of its labels.
func (kept *Pod) IsPlaceholder() bool {
	return kept.Labels[LabelPlaceholder] != "" && kept.Form.Priority < 0
}

// Completed is the spec of a form as pods have it. The API server fills in requests that are only
// limited, of containers and of the pod as a whole, and the node's ports of pods in its network,
// but of pods alone.
func Completed(form *corev1.PodSpec) *corev1.PodSpec {
	s := form.DeepCopy()
	for _, containers := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			requested(&containers[i].Resources)
			for j := range containers[i].Ports {
				if port := &containers[i].Ports[j]; s.HostNetwork && port.HostPort == 0 {
					port.HostPort = port.ContainerPort
				}
			}
		}
	}
	requestedAsWhole(s)
	return s
}

// requestedAsWhole fills in what a pod requests as a whole that is limited as a whole: of CPU and
// memory what its containers request, and where they request nothing, the limit.
func requestedAsWhole(s *corev1.PodSpec) {
	if s.Resources == nil || len(s.Resources.Limits) == 0 {
		return
	}
	all := resource.AggregateContainerRequests(&corev1.Pod{Spec: *s}, resource.PodResourcesOptions{})
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		amount, any := all[name]
		if _, said := s.Resources.Requests[name]; any && !said {
			if s.Resources.Requests == nil {
				s.Resources.Requests = corev1.ResourceList{}
			}
			s.Resources.Requests[name] = amount
		}
	}
	requested(s.Resources)
}

func requested(r *corev1.ResourceRequirements) {
	for name, amount := range r.Limits {
		if _, said := r.Requests[name]; said {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = amount
	}
}

// shortForm is a pod of a form.
func shortForm(namespace, name string, form *corev1.PodTemplateSpec) *Pod {
	like := &corev1.Pod{ObjectMeta: *form.ObjectMeta.DeepCopy(), Spec: *Completed(&form.Spec)}
	like.Namespace, like.Name = namespace, name
	return ShortPod(like)
}

// nodeMeant is the node that a pending daemon belongs to: its controller made it for this node, and
// the scheduler binds it to no other. Its room there is used already.
func nodeMeant(p *corev1.Pod) string {
	a := p.Spec.Affinity
	if p.Spec.NodeName != "" || !isDaemon(p) || a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == nodescaler.NameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
		})
		if i >= 0 {
			return Text(term.MatchFields[i].Values[0])
		}
	}
	return ""
}

// DeletionCost is the pod deletion cost of chosen pods. It is below 0, the default of all other
// pods, and an unusual number, by which our own marks are recognised.
const DeletionCost = "-1876"

// mark is whose deletion cost a pod has.
type mark uint8

// The marks of a pod.
const (
	Unmarked mark = iota
	MarkedByUs
	markedByOthers
)

func markOf(p *corev1.Pod) mark {
	switch cost, ok := p.Annotations[corev1.PodDeletionCost]; {
	case !ok:
		return Unmarked
	case cost == DeletionCost:
		return MarkedByUs
	}
	return markedByOthers
}

// ExpectName is what everything is called by which replicas of a WorkloadAutoscaler's target are
// made known, in its namespace. It does not begin as the target's name does, so that no query for
// the target's pods finds it.
func ExpectName(autoscaler string) string {
	const most = 63 // it is the value of a label, too
	name := "plimsoll-ahead-" + autoscaler
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(autoscaler))
	return name[:most-9] + "-" + hex.EncodeToString(sum[:4])
}

// Sizing is what sizing the pod goes by.
func (kept *Pod) Sizing() rightsize.Pod {
	return rightsize.Pod{
		Running: kept.Said.Phase == podscaler.Running && !kept.Said.Terminating, Started: kept.Said.Started,
		Resize: kept.resize, ResizeSince: kept.resizeSince, Containers: kept.containers, Starts: kept.starts,
	}
}
