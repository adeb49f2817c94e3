package kube

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// What is read without a cluster is what a cluster that holds the same is observed to be.
func TestReadSaysWhatObserveDoes(t *testing.T) {
	chance := twinChance{rand.New(rand.NewPCG(3, 7))}
	zoned := object[corev1.PersistentVolume](t, `{metadata: {name: v}, spec: {claimRef: {namespace: shop, name: data},
		nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}`)
	unbound := object[corev1.PersistentVolume](t, `{metadata: {name: free}}`)
	pools := []nodescaler.Pool{{Name: "p", Labels: map[string]string{"zone": "b", "gen": "7"}}}
	for range 50 {
		w := chance.world()
		pending := w.Pending[0]
		pending.Namespace, pending.OwnerReferences = "shop", controlledBy("apps/v1", "ReplicaSet", "web-1").OwnerReferences
		pending.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		c := still(t)
		c.cfg.Pools = func() []nodescaler.Pool { return pools }
		c.holds(t, volumes, shortVolume(zoned), shortVolume(unbound))
		for _, n := range w.Nodes {
			c.holds(t, nodes, shortNode(n))
		}
		all := append(w.Placed, w.Pending...)
		for _, p := range all {
			c.holds(t, pods, shortPod(p))
		}
		got := Read(w.Nodes, all, []*corev1.PersistentVolume{zoned, unbound}, pools)
		if diff := cmp.Diff(c.look(t.Context()).Pods, got.Pods); diff != "" {
			t.Fatal(diff)
		}
		if len(got.Nodes) != len(w.Nodes) || len(got.Pools) != 1 {
			t.Fatalf("%d nodes and %d pools", len(got.Nodes), len(got.Pools))
		}
	}
}
