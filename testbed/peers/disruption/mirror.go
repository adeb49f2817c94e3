package disruption

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// mirror has Karpenter see the snapshot as its informers would: machines with their claims, nodes
// and pods, those that are new or changed, and those that are gone.
func (k *karpenter) mirror(x *nodescaler.Index) {
	k.mirrorMachines(x)
	k.mirrorNodes(x)
	k.mirrorPods(x)
}

// mirrorMachines has a claim for each machine. Those that Karpenter did not claim were there before
// it.
func (k *karpenter) mirrorMachines(x *nodescaler.Index) {
	there := map[string]bool{}
	for i := range x.Snapshot.Machines {
		m := &x.Snapshot.Machines[i]
		there[m.Name], k.cloud.drifted[m.Name] = true, m.Drifted != ""
		if k.claim(m.Name) == nil {
			c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{v1.NodePoolLabelKey: poolName}}}
			c.Spec.NodeClassRef = nodeClass()
			k.launch(c, m.Name, m.Shape)
		}
	}
	for _, c := range k.claims() {
		if id := c.Status.ProviderID; !there[id] && k.ordered[id] {
			delete(k.cloud.drifted, id)
			k.store.remove(c)
			k.cluster.DeleteNodeClaim(c.Name)
		}
	}
	for name := range there {
		k.ordered[name] = true
	}
}

// launch is what a claim becomes once a machine of a shape is made for it.
func (k *karpenter) launch(c *v1.NodeClaim, machine string, s pricing.Shape) {
	c.Labels = maps.Clone(c.Labels)
	maps.Copy(c.Labels, map[string]string{
		corev1.LabelInstanceTypeStable: s.Name, corev1.LabelTopologyZone: zone, v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand,
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	})
	c.Status.ProviderID = machine
	c.Status.Capacity, c.Status.Allocatable = list(s.Resources(), slots), list(s.Resources().Minus(k.reserved), slots)
	c.StatusConditions(k.at()).SetTrue(v1.ConditionTypeLaunched)
	k.store.put(c)
}

func (k *karpenter) mirrorNodes(x *nodescaler.Index) {
	there := map[string]bool{}
	for i := range x.Snapshot.Nodes {
		n := &x.Snapshot.Nodes[i]
		there[n.Name] = true
		was := &corev1.Node{}
		if k.store.Get(k.ctx, client.ObjectKey{Name: n.Name}, was) != nil {
			k.register(n)
			continue
		}
		if now := conditions(n); !reflect.DeepEqual(was.Status.Conditions, now) {
			was.Status.Conditions = now
			k.store.put(was)
		}
	}
	nodes := &corev1.NodeList{}
	k.must(k.store.List(k.ctx, nodes))
	for i := range nodes.Items {
		if n := &nodes.Items[i]; !there[n.Name] {
			k.store.remove(n)
			k.cluster.DeleteNode(n.Name)
		}
	}
}

// register is what a node and its claim become once the kubelet has joined.
func (k *karpenter) register(n *nodescaler.Node) {
	c := k.claim(n.Machine)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: maps.Clone(c.Labels)}}
	maps.Copy(node.Labels, n.Labels)
	node.Labels[corev1.LabelHostname] = n.Name
	node.Labels[v1.NodeRegisteredLabelKey], node.Labels[v1.NodeInitializedLabelKey] = "true", "true"
	node.Spec.ProviderID = n.Machine
	node.Status.Capacity, node.Status.Allocatable = c.Status.Capacity, list(n.Allocatable, slots)
	node.Status.Conditions = conditions(n)
	k.store.put(node)
	c.Status.NodeName = n.Name
	set := c.StatusConditions(k.at())
	set.SetTrue(v1.ConditionTypeRegistered)
	set.SetTrue(v1.ConditionTypeInitialized)
	k.store.put(c)
}

func conditions(n *nodescaler.Node) []corev1.NodeCondition {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	all := []corev1.NodeCondition{}
	for _, c := range n.Conditions {
		is := corev1.NodeCondition{Type: corev1.NodeConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), LastTransitionTime: metav1.NewTime(c.Since)}
		if c.Type == nodescaler.Ready {
			ready = is
		} else {
			all = append(all, is)
		}
	}
	return append(all, ready)
}

func (k *karpenter) mirrorPods(x *nodescaler.Index) {
	was := k.pods
	k.pods = map[string]podState{}
	for i := range x.Snapshot.Pods {
		p := &x.Snapshot.Pods[i]
		is := podState{p.Node, p.Terminating}
		k.pods[p.Name] = is
		before, known := was[p.Name]
		if known && before == is {
			continue
		}
		pod := k.pod(p)
		k.store.put(pod)
		if p.Node != "" && (before.node == "" || before.leaving != is.leaving) {
			_, err := k.podEvents.Reconcile(k.ctx, pod)
			k.must(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, still := k.pods[name]; still {
			continue
		}
		pod := &corev1.Pod{}
		k.must(k.store.Get(k.ctx, podKey(name), pod))
		if !was[name].leaving { // it left and is gone since
			_, err := k.podEvents.Reconcile(k.ctx, pod)
			k.must(err)
		}
		k.store.remove(pod)
		k.cluster.DeletePod(podKey(name))
	}
}

// podState is what may change of a pod.
type podState struct {
	node    string
	leaving bool
}

func podKey(name string) types.NamespacedName {
	namespace, rest, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: rest}
}

// pod is the pod as Kubernetes has it: of a ReplicaSet, or of the DaemonSet.
func (k *karpenter) pod(p *nodescaler.Pod) *corev1.Pod {
	key, yes := podKey(p.Name), true
	_, app, _ := strings.Cut(p.Workload, "/")
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: &yes}
	if p.Daemon {
		owner.Kind, owner.Name, owner.UID = "DaemonSet", daemonName, daemonName
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: types.UID(p.Name), Labels: map[string]string{"app": app},
			OwnerReferences: []metav1.OwnerReference{owner}, CreationTimestamp: metav1.NewTime(p.Created),
		},
		Spec:   podSpec(p.Requests),
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	pod.Spec.NodeName = p.Node
	if p.Phase == podscaler.Pending {
		pod.Status.Phase = corev1.PodPending
	}
	if p.Unschedulable {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	if p.Terminating {
		now := k.store.now()
		pod.DeletionTimestamp = &now
	}
	return pod
}

func podSpec(requests pricing.Resources) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list(requests, 0)}}}}
}
