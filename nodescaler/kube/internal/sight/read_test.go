package sight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
)

// What is read without a cluster is what a cluster that holds the same is observed to be.
func TestReadSaysWhatObserveDoes(t *testing.T) {
	zoned := written.Object[corev1.PersistentVolume](t, `{metadata: {name: v}, spec: {claimRef: {namespace: shop, name: data},
		nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}`)
	free := written.Object[corev1.PersistentVolume](t, `{metadata: {name: free}}`)
	claim := func(name, spec string) *corev1.PersistentVolumeClaim {
		return written.Object[corev1.PersistentVolumeClaim](t, `{metadata: {name: `+name+`, namespace: shop}, spec: {`+spec+`}}`)
	}
	slow := written.Object[storagev1.StorageClass](t, `{metadata: {name: slow}, provisioner: d, volumeBindingMode: WaitForFirstConsumer,
		allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a]}]}]}`)
	limits := written.Object[storagev1.CSINode](t, `{metadata: {name: n}, spec: {drivers: [{name: d, nodeID: n, allocatable: {count: 3}}]}}`)
	owned := `ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: u, controller: true}]`
	apart := `{labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}`
	node := written.Object[corev1.Node](t, `{metadata: {name: n, labels: {zone: a}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}`)
	var all []*corev1.Pod
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "red"}}}
	for _, p := range []string{
		`{metadata: {name: placed, namespace: shop, labels: {app: web}, ` + owned + `}, spec: {nodeName: n, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}`,
		`{metadata: {name: claims, namespace: shop}, spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: data}}], containers: [{name: c}]}}`,
		`{metadata: {name: waits, namespace: shop}, spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: later}}], containers: [{name: c}]}}`,
		`{metadata: {name: stuck, namespace: shop}, spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: gone}}], containers: [{name: c}]}}`,
		`{metadata: {name: apart, namespace: shop, labels: {app: web}}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [` + apart + `]}}, containers: [{name: c}]}}`,
		`{metadata: {name: beside, namespace: other}, spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [` + apart + `]}}, containers: [{name: c}]}}`,
		`{metadata: {name: selects, namespace: shop}, spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
			{namespaceSelector: {matchLabels: {team: red}}, labelSelector: {matchLabels: {app: web}}, topologyKey: zone}]}}, containers: [{name: c}]}}`,
		`{metadata: {name: spread, namespace: shop, labels: {app: web}}, spec: {topologySpreadConstraints: [
			{labelSelector: {matchLabels: {app: web}}, topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}], containers: [{name: c}]}}`,
		`{metadata: {name: port, namespace: shop}, spec: {containers: [{name: c, ports: [{hostPort: 80, containerPort: 80}]}]}}`,
	} {
		all = append(all, written.Object[corev1.Pod](t, p))
	}
	c := &shown{}
	o := &Objects{
		Nodes: []*corev1.Node{node}, Pods: all, Namespaces: []*corev1.Namespace{shop}, Volumes: []*corev1.PersistentVolume{zoned, free}, Classes: []*storagev1.StorageClass{slow},
		Claims:   []*corev1.PersistentVolumeClaim{claim("data", "volumeName: v"), claim("later", "storageClassName: slow")},
		CSINodes: []*storagev1.CSINode{limits},
	}
	c.holds(t, &metav1.PartialObjectMetadata{ObjectMeta: shop.ObjectMeta})
	c.holds(t, zoned, free)
	c.holds(t, o.Claims[0], o.Claims[1])
	c.holds(t, slow)
	c.holds(t, limits)
	c.holds(t, node)
	for _, p := range all {
		c.holds(t, p)
	}
	got, seen := Read(o), c.look()
	if diff := cmp.Diff(seen.Pods, got.Pods); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(seen.Nodes[0].Extra, got.Nodes[0].Extra); diff != "" || len(got.Nodes[0].Extra) != 1 {
		t.Error(diff)
	}
	if len(got.Pods) != len(all) || len(got.Nodes) != 1 {
		t.Errorf("%d pods and %d nodes", len(got.Pods), len(got.Nodes))
	}
}
