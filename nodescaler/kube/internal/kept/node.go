package kept

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// AnnotationDraining marks a node that we are emptying, so that whoever leads next knows. Its
// value says whether the node was open before: only then it is opened when the mark is taken
// back.
const AnnotationDraining = "plimsoll.dev/draining"

// Node is what is kept of a Node.
type Node struct {
	metav1.ObjectMeta
	// Said is what the node says by itself: all but whose it is.
	Said nodescaler.Node
	// Ready is the kubelet's word; said.Ready wants the node to take pods, too.
	Ready      bool
	ReadySince time.Time
}

// ShortNode is what is kept of a Node.
func ShortNode(n *corev1.Node) *Node {
	kept := &Node{ObjectMeta: keepMeta(&n.ObjectMeta)}
	kept.Ready, kept.ReadySince = readyByKubelet(n)
	kept.Labels = same(n.Labels)
	_, draining := n.Annotations[AnnotationDraining]
	kept.Said = nodescaler.Node{
		Name: n.Name, ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID,
		Labels: kept.Labels, Allocatable: Resources(n.Status.Allocatable), Extra: extras(n.Status.Allocatable), PodSlots: slots(n),
		Ready:    kept.Ready && n.DeletionTimestamp == nil,
		Cordoned: n.Spec.Unschedulable, Draining: draining, Joined: n.CreationTimestamp.Time, Pinned: keptBy(n.Annotations),
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; !usual(c) {
			kept.Said.Conditions = append(kept.Said.Conditions, nodescaler.NodeCondition{
				Type: string(c.Type), Status: string(c.Status), Since: c.LastTransitionTime.Time,
			})
		}
	}
	for _, t := range n.Spec.Taints {
		switch {
		case t.Effect == corev1.TaintEffectPreferNoSchedule:
		case t.Key == corev1.TaintNodeUnschedulable: // that is Cordoned
		case nodescaler.StartupTaint(t.Key):
			kept.Said.Ready = false
		default:
			kept.Said.Taints = append(kept.Said.Taints, nodescaler.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return kept
}

// TaintToBeDeleted is what cluster-autoscaler keeps pods off a node with that it is about to
// delete, and takes back where it gives that up.
const TaintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// Open reports whether the node takes pods, as far as cordons go and cluster-autoscaler.
func (n *Node) Open() bool {
	return !n.Said.Cordoned && !slices.ContainsFunc(n.Said.Taints, func(t nodescaler.Taint) bool { return t.Key == TaintToBeDeleted })
}

// usual reports whether a condition is one that every healthy node has.
func usual(c *corev1.NodeCondition) bool {
	troubles := []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable,
	}
	return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue || c.Status == corev1.ConditionFalse && slices.Contains(troubles, c.Type)
}

// annotationsOfNodes are those by which a node's owner keeps it: ours, Karpenter's and
// cluster-autoscaler's.
var annotationsOfNodes = []string{"plimsoll.dev/do-not-disrupt", annotationDoNotDisrupt, "cluster-autoscaler.kubernetes.io/scale-down-disabled"}

// keptBy says which of them does; empty if it may go.
func keptBy(annotations map[string]string) string {
	for _, a := range annotationsOfNodes {
		if annotations[a] == "true" {
			return "annotated " + a + `: "true"`
		}
	}
	return ""
}

// readyByKubelet reports whether the kubelet says so, and is heard, and since when it does.
func readyByKubelet(n *corev1.Node) (ready bool, since time.Time) {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 || n.Status.Conditions[i].Status != corev1.ConditionTrue {
		return false, time.Time{}
	}
	return true, n.Status.Conditions[i].LastTransitionTime.Time
}

// slots is how many pods the node takes: -1 if it reports zero, because 0 means the default. A node
// that reports nothing yet has no CPU either.
func slots(n *corev1.Node) int {
	pods, said := n.Status.Allocatable[corev1.ResourcePods]
	if said && pods.IsZero() {
		return -1
	}
	return int(pods.Value())
}

// Stub is the node as Config.Machine sees it.
func (n *Node) Stub() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, Labels: n.Labels},
		Spec:       corev1.NodeSpec{ProviderID: n.Said.ProviderID},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: n.Said.SystemUUID}},
	}
}
