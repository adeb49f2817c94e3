package sight

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestClaimsOnANodesOwnDisk(t *testing.T) {
	affinity := func(a *corev1.VolumeNodeAffinity) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) {
			v.Spec.HostPath, v.Spec.CSI, v.Spec.NodeAffinity = nil, &corev1.CSIPersistentVolumeSource{Driver: "topolvm.io"}, a
		}
	}
	phase := func(p corev1.PersistentVolumePhase, reclaim corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Status.Phase, v.Spec.PersistentVolumeReclaimPolicy = p, reclaim }
	}
	also := func(a *corev1.VolumeNodeAffinity, key string, values ...string) *corev1.VolumeNodeAffinity {
		terms := a.Required.NodeSelectorTerms
		terms[0].MatchExpressions = append(terms[0].MatchExpressions, written.OnLabel(key, values...).Required.NodeSelectorTerms[0].MatchExpressions...)
		return a
	}
	or := func(a, b *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
		a.Required.NodeSelectorTerms = append(a.Required.NodeSelectorTerms, b.Required.NodeSelectorTerms...)
		return a
	}
	for _, c := range []struct {
		name   string
		volume func(*corev1.PersistentVolume)
		claim  func(*corev1.PersistentVolumeClaim) // nil: it is there as it is
		want   string                              // the node that keeps it
	}{
		{name: "k3s' local-path", want: "w-1"},
		{name: "a local volume", want: "w-1", volume: func(v *corev1.PersistentVolume) {
			v.Spec.HostPath, v.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/mnt/disks/a"}
		}},
		{name: "a driver's label with the node's name", volume: affinity(written.OnLabel("topology.topolvm.io/node", "w-2")), want: "w-2"},
		{name: "the node by its name", want: "w-2", volume: affinity(&corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"w-2"}}},
		}}}})},
		{name: "a driver's label that two nodes share", volume: affinity(written.OnLabel("example.com/rack", "r1"))},
		{name: "a driver's label that one node has", volume: affinity(written.OnLabel("example.com/rack", "r2")), want: "w-3"},
		{name: "a zone with one node: it can be attached to another", volume: affinity(written.OnLabel("topology.kubernetes.io/zone", "pve3"))},
		{name: "a driver's zone with one node", volume: affinity(written.OnLabel("topology.ebs.csi.aws.com/zone", "z3"))},
		{name: "a host in a zone", volume: affinity(also(written.OnLabel("topology.kubernetes.io/zone", "pve1"), "kubernetes.io/hostname", "w-1")), want: "w-1"},
		{name: "a host in a zone that it is not in", volume: affinity(also(written.OnLabel("kubernetes.io/hostname", "w-1"), "topology.kubernetes.io/zone", "pve3"))},
		{name: "copies on two nodes", volume: affinity(or(written.OnLabel("linbit.com/hostname", "w-1"), written.OnLabel("linbit.com/hostname", "w-2")))},
		{name: "copies on two nodes, of which one is gone", volume: affinity(written.OnLabel("kubernetes.io/hostname", "w-1", "w-9")), want: "w-1"},
		{name: "a node that is gone", volume: affinity(written.OnLabel("kubernetes.io/hostname", "w-9"))},
		{name: "a node without the label, by its name", volume: affinity(written.OnLabel("kubernetes.io/hostname", "w-4")), want: "w-4"},
		{name: "a node by what it is not", volume: affinity(&corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"w-1"}}},
		}}}})},
		{name: "a hostPath that is anywhere", volume: func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = nil }},
		{name: "being bound", volume: phase(corev1.VolumePending, "Delete"), want: "w-1"},
		{name: "available", volume: phase(corev1.VolumeAvailable, "Retain")},
		{name: "released, to be deleted", volume: phase(corev1.VolumeReleased, "Delete")},
		{name: "released, and kept on purpose", volume: phase(corev1.VolumeReleased, "Retain"), want: "w-1"},
		{name: "that could not be deleted", volume: phase(corev1.VolumeFailed, "Delete")},
		{name: "a claim that is safe to lose", claim: func(m *corev1.PersistentVolumeClaim) {
			m.Annotations = map[string]string{"plimsoll.dev/safe-to-lose": "true"}
		}},
		{name: "a claim that is not", want: "w-1", claim: func(m *corev1.PersistentVolumeClaim) {
			m.Annotations = map[string]string{"plimsoll.dev/safe-to-lose": "false"}
		}},
		{name: "a later claim of the name is safe to lose", want: "w-1", claim: func(m *corev1.PersistentVolumeClaim) {
			m.UID, m.Annotations = "another", map[string]string{"plimsoll.dev/safe-to-lose": "true"}
		}},
		{name: "a volume that is safe to lose", volume: func(v *corev1.PersistentVolume) { v.Annotations["plimsoll.dev/safe-to-lose"] = "true" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &corev1.PersistentVolume{}
			must.Do(t, yaml.UnmarshalStrict([]byte(written.LocalPath), v))
			if c.volume != nil {
				c.volume(v)
			}
			pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-postgres-0", UID: "claim-uid"}}
			if c.claim != nil {
				c.claim(pvc)
			}
			port := &shown{}
			port.holds(t, v)
			port.holds(t, pvc)
			for i, rack := range []string{"r1", "r1", "r2", "r3"} {
				name := fmt.Sprintf("w-%d", i+1)
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
					"kubernetes.io/hostname": name, "topology.topolvm.io/node": name, "linbit.com/hostname": name, "example.com/rack": rack,
					"topology.kubernetes.io/zone": fmt.Sprintf("pve%d", i+1), "topology.ebs.csi.aws.com/zone": fmt.Sprintf("z%d", i+1),
				}}}
				if i == 3 {
					delete(n.Labels, "kubernetes.io/hostname")
				}
				port.holds(t, n)
			}
			got, want := map[string][]string{}, map[string][]string{}
			for _, n := range port.look().Nodes {
				if n.LocalClaims != nil {
					got[n.Name] = n.LocalClaims
				}
				if n.ClaimsUnknown {
					t.Error("the volumes count as not read")
				}
			}
			if c.want != "" {
				want[c.want] = []string{"shop/data-postgres-0"}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A volume knows a node by the name that it had then.
func TestClaimsOnARenamedNodesDisk(t *testing.T) {
	port := &shown{}
	port.machine = func(n *corev1.Node) (string, string) {
		if n.Status.NodeInfo.SystemUUID == "uuid-1" {
			return "w-1", "workers"
		}
		return "", ""
	}
	v := &corev1.PersistentVolume{}
	must.Do(t, yaml.UnmarshalStrict([]byte(written.LocalPath), v))
	port.holds(t, v)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1.example.org", Labels: map[string]string{"kubernetes.io/hostname": "w-1.example.org"}}}
	n.Status.NodeInfo.SystemUUID = "uuid-1"
	port.holds(t, n)
	got := port.look().Nodes[0]
	if d := cmp.Diff([]string{"shop/data-postgres-0"}, got.LocalClaims); d != "" || got.Machine != "w-1" || got.SystemUUID != "uuid-1" {
		t.Errorf("machine %s, UUID %s: %s", got.Machine, got.SystemUUID, d)
	}
}

// Who may not list volumes does not know what lies on nodes.
func TestVolumesThatWereNotReadAreUnknown(t *testing.T) {
	port := &shown{}
	port.holds(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1"}})
	if n := port.look().Nodes[0]; !n.ClaimsUnknown {
		t.Error("what lies on the node counts as known")
	}
}
