// Package written reads objects that tests have as text.
package written

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Owned is the metadata of what a ReplicaSet controls.
const Owned = `ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: rs, controller: true}]`

// LocalPath is a volume as k3s' local-path provisioner makes it.
const LocalPath = `
apiVersion: v1
kind: PersistentVolume
metadata:
  name: pvc-7b6ac5a4-9f5c-4d0e-8c3a-0a2f4b0f3f11
  uid: 1a0bd7c9-4f6e-4a3e-b0f8-2a31d4f6b0aa
  annotations:
    local.path.provisioner/selected-node: w-1
    pv.kubernetes.io/provisioned-by: rancher.io/local-path
  finalizers: [kubernetes.io/pv-protection]
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 8Gi}
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, name: data-postgres-0, namespace: shop, uid: claim-uid, resourceVersion: "1234"}
  hostPath:
    path: /var/lib/rancher/k3s/storage/pvc-7b6ac5a4-9f5c-4d0e-8c3a-0a2f4b0f3f11_shop_data-postgres-0
    type: DirectoryOrCreate
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: kubernetes.io/hostname, operator: In, values: [w-1]}
  persistentVolumeReclaimPolicy: Delete
  storageClassName: local-path
  volumeMode: Filesystem
status: {phase: Bound}
`

// OnLabel is the affinity of a volume to nodes whose label has one of the values.
func OnLabel(key string, values ...string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
	}}}}
}

// Object reads an object as people write it.
func Object[T any](t testing.TB, text string) *T {
	t.Helper()
	var o T
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return &o
}
