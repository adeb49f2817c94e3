package kube

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What is read without a cluster is what a cluster that holds the same is observed to be.
func TestReadSaysWhatObserveDoes(t *testing.T) {
	chance := twinChance{rand.New(rand.NewPCG(3, 7))}
	zoned := object[corev1.PersistentVolume](t, `{metadata: {name: v}, spec: {claimRef: {namespace: shop, name: data},
		nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}`)
	unbound := object[corev1.PersistentVolume](t, `{metadata: {name: free}}`)
	for range 50 {
		w := chance.world()
		pending := w.Pending[0]
		pending.Namespace, pending.OwnerReferences = "shop", controlledBy("apps/v1", "ReplicaSet", "web-1").OwnerReferences
		pending.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		c := still(t)
		c.holds(t, volumes, shortVolume(zoned), shortVolume(unbound))
		for _, n := range w.Nodes {
			c.holds(t, nodes, shortNode(n))
		}
		all := append(w.Placed, w.Pending...)
		for _, p := range all {
			c.holds(t, pods, shortPod(p))
		}
		got := Read(w.Nodes, all, []*corev1.PersistentVolume{zoned, unbound})
		if diff := cmp.Diff(c.look(t.Context()).Pods, got.Pods); diff != "" {
			t.Fatal(diff)
		}
		if len(got.Nodes) != len(w.Nodes) {
			t.Fatalf("%d nodes", len(got.Nodes))
		}
	}
}
