package sight

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
)

type (
	aVolume = corev1.PersistentVolume
	aClaim  = corev1.PersistentVolumeClaim
)

func storageOf(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// there is a volume of 5 GiB of class static that is there and free, in a zone or everywhere.
func there(zone string, changes ...func(*aVolume)) *aVolume {
	v := &aVolume{Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: "static", Capacity: storageOf("5Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
	}}
	if zone != "" {
		v.Spec.NodeAffinity = written.OnLabel("zone", zone)
	}
	for _, change := range changes {
		change(v)
	}
	return v
}

// asking is a claim of 5 GiB of class static.
func asking(changes ...func(*aClaim)) *aClaim {
	static := "static"
	c := &aClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &static, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
	}}
	c.Spec.Resources.Requests = storageOf("5Gi")
	for _, change := range changes {
		change(c)
	}
	return c
}

// static has nodes n-1 to n-3 in zones 1 to 3, volumes v0, v1 and so on, claims c0, c1 and so on
// of a pod, and two classes: of made, volumes can be made in zone 2.
func static(t *testing.T, volumes []*aVolume, claims []*aClaim) *Objects {
	t.Helper()
	o := &Objects{Volumes: []*aVolume{}, Claims: []*aClaim{}, Classes: []*storagev1.StorageClass{
		written.Object[storagev1.StorageClass](t, `{metadata: {name: static}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}`),
		written.Object[storagev1.StorageClass](t, `{metadata: {name: made}, provisioner: d, volumeBindingMode: WaitForFirstConsumer,
			allowedTopologies: [{matchLabelExpressions: [{key: zone, values: ["2"]}]}]}`),
	}}
	for i := range 3 {
		o.Nodes = append(o.Nodes, written.Object[corev1.Node](t, fmt.Sprintf(`{metadata: {name: n-%d, labels: {zone: "%[1]d"}}}`, i+1)))
	}
	for i, v := range volumes {
		v.Name = fmt.Sprint("v", i)
		o.Volumes = append(o.Volumes, v)
	}
	var names []string
	for i, c := range claims {
		c.Namespace, c.Name = "shop", fmt.Sprint("c", i)
		o.Claims, names = append(o.Claims, c), append(names, c.Name)
	}
	o.Pods = []*corev1.Pod{written.Object[corev1.Pod](t, "{metadata: {name: a, namespace: shop}, spec: "+using(names...)+"}")}
	return o
}

func TestClaimsFindVolumesThatAreThere(t *testing.T) {
	const all, none = "n-1 n-2 n-3", "which no volume suits that is there and free, and none is made for its StorageClass \"static\""
	type volumes = []*aVolume
	type claims = []*aClaim
	one := claims{asking()}
	holding := func(size string) func(*aVolume) { return func(v *aVolume) { v.Spec.Capacity = storageOf(size) } }
	modes := func(all ...corev1.PersistentVolumeAccessMode) func(*aVolume) {
		return func(v *aVolume) { v.Spec.AccessModes = all }
	}
	keptFor := func(claim string) func(*aVolume) {
		return func(v *aVolume) { v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: claim} }
	}
	labelled := func(value string) func(*aVolume) {
		return func(v *aVolume) { v.Labels = map[string]string{"a": value} }
	}
	made := func(v *aVolume) { v.Spec.StorageClassName = "made" }
	ofMade := func(c *aClaim) { *c.Spec.StorageClassName = "made" }
	for _, c := range []struct {
		name    string
		volumes volumes
		claims  claims
		want    string // the nodes that accept the pod
		why     string
	}{
		{name: "none", claims: one, why: none},
		{name: "one in a zone", volumes: volumes{there("1")}, claims: one, want: "n-1"},
		{name: "one in each of two", volumes: volumes{there("1"), there("3")}, claims: one, want: "n-1 n-3"},
		{name: "one that every node reaches", volumes: volumes{there("1"), there("")}, claims: one, want: all},
		{name: "one that no node reaches", volumes: volumes{there("1", func(v *aVolume) { v.Spec.NodeAffinity.Required.NodeSelectorTerms = nil })}, claims: one, why: none},
		{name: "of another class", volumes: volumes{there("1", made)}, claims: one, why: none},
		{name: "too small", volumes: volumes{there("1", holding("4Gi"))}, claims: one, why: none},
		{name: "larger", volumes: volumes{there("1", holding("6Gi"))}, claims: one, want: "n-1"},
		{name: "of one mode of two", volumes: volumes{there("1")}, why: none,
			claims: claims{asking(func(c *aClaim) { c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadOnlyMany) })}},
		{name: "of more modes", volumes: volumes{there("1", modes(corev1.ReadOnlyMany, corev1.ReadWriteOnce))}, claims: one, want: "n-1"},
		{name: "a device", volumes: volumes{there("1")}, why: none,
			claims: claims{asking(func(c *aClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })}},
		{name: "of other attributes", volumes: volumes{there("1", func(v *aVolume) { v.Spec.VolumeAttributesClassName = new("fast") })}, claims: one, why: none},
		{name: "by its labels", volumes: volumes{there("1", labelled("b")), there("2", labelled("c"))}, want: "n-2",
			claims: claims{asking(func(c *aClaim) { c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "c"}} })}},
		{name: "of another claim", volumes: volumes{there("1", keptFor("other"))}, claims: one, why: none},
		{name: "kept for it, whatever its modes", volumes: volumes{there("1", keptFor("c0"), modes()), there("2")}, claims: one, want: "n-1"},
		{name: "kept for it, and too small", volumes: volumes{there("1", keptFor("c0"), holding("4Gi")), there("2")}, claims: one, want: "n-2"},
		{name: "that failed", volumes: volumes{there("1", func(v *aVolume) { v.Status.Phase = corev1.VolumeFailed })}, claims: one, why: none},
		{name: "being deleted", volumes: volumes{there("1", func(v *aVolume) { v.DeletionTimestamp = &metav1.Time{} })}, claims: one, why: none},
		{name: "one for two claims", volumes: volumes{there("1")}, claims: claims{asking(), asking()}, why: none},
		{name: "two for two claims, in two zones", volumes: volumes{there("1"), there("2")}, claims: claims{asking(), asking()}, why: none},
		{name: "two for two claims", volumes: volumes{there("1"), there("1"), there("2")}, claims: claims{asking(), asking()}, want: "n-1"},
		{name: "two for two claims, of which every node reaches one", volumes: volumes{there("1"), there("")}, claims: claims{asking(), asking()}, want: "n-1"},
		{name: "the small claim chooses first, and the small volume", volumes: volumes{there("1"), there("1", holding("9Gi"))}, want: "n-1",
			claims: claims{asking(func(c *aClaim) { c.Spec.Resources.Requests = storageOf("9Gi") }), asking()}},
		{name: "or one is made", claims: claims{asking(ofMade)}, want: "n-2"},
		{name: "there, or made elsewhere", volumes: volumes{there("1", made)}, claims: claims{asking(ofMade)}, want: "n-1 n-2"},
		{name: "one there and one made", volumes: volumes{there("1", made)}, claims: claims{asking(ofMade), asking(ofMade)}, want: "n-2"},
		{name: "there, and one is to be made for a node", volumes: volumes{there("1")}, why: none,
			claims: claims{asking(func(c *aClaim) { c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n-1"} })}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Read(static(t, c.volumes, c.claims))
			p := &s.Pods[0]
			if got := strings.Join(accepting(&s, p.Volumes, p.Selector), " "); got != c.want {
				t.Errorf("goes to %q, want %q: %v", got, c.want, p.Volumes)
			}
			why := p.Selector[nodescaler.SelectNowhere]
			if !strings.HasSuffix(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("asks for %q", why)
			}
		})
	}
}

// accepting are the nodes that accept a pod with the volumes and the selector.
func accepting(s *nodescaler.Snapshot, volumes []nodescaler.Affinity, selector map[string]string) (names []string) {
	for i := range s.Nodes {
		if nodescaler.Accepts(&nodescaler.Pod{Volumes: volumes, Selector: selector}, &s.Nodes[i]) == "" {
			names = append(names, s.Nodes[i].Name)
		}
	}
	return names
}

// A claim of a template is another for each replica, one that the pod names the same for all.
func TestAnotherReplicaHasItsOwnClaimsAndSharesOthers(t *testing.T) {
	const all = "n-1 n-2 n-3"
	bound := func(name, zone string, modes ...corev1.PersistentVolumeAccessMode) (*aVolume, *aClaim) {
		v := there(zone, func(v *aVolume) { v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: name} })
		v.Name = "of-" + name
		c := asking(func(c *aClaim) {
			c.Namespace, c.Name, c.Annotations = "shop", name, map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
			*c.Spec.StorageClassName, c.Spec.VolumeName, c.Spec.AccessModes = "made", v.Name, modes
		})
		return v, c
	}
	owned := func(kind string) string {
		return "ownerReferences: [{apiVersion: apps/v1, kind: " + kind + ", name: web, uid: u, controller: true}]"
	}
	for _, c := range []struct {
		name, owner, spec string
		want, another     string // nodes
		why               string // another goes nowhere
	}{
		{name: "none", owner: "StatefulSet", spec: "{}", want: all, another: all},
		{name: "one that the pod names", owner: "ReplicaSet", spec: using("shared"), want: "n-1", another: "n-1"},
		{name: "one that the pod names, for one pod alone", owner: "ReplicaSet", spec: using("alone"), want: "n-3", why: "pod shop/web-1 has it"},
		{name: "one of a template", owner: "StatefulSet", spec: using("data-web-1"), want: "n-1", another: "n-2"},
		{name: "one of the name, but of no template", owner: "ReplicaSet", spec: using("data-web-1"), want: "n-1", another: "n-1"},
		{name: "one of a template, which is there from before", owner: "StatefulSet", spec: using("old-web-1"), want: "n-1", another: "n-3"},
		{name: "one of a template, for one pod alone", owner: "StatefulSet", spec: using("mine-web-1"), want: "n-1", another: "n-2"},
		{name: "one of each", owner: "StatefulSet", spec: using("data-web-1", "shared"), want: "n-1"},
		{name: "one of a template that is gone", owner: "StatefulSet", spec: using("gone-web-1"), another: all},
		{name: "one of a template, made at once", owner: "StatefulSet", spec: using("now-web-1"), want: "n-1", another: all},
		{name: "one of a template without a class, as a volume that is free", owner: "StatefulSet", spec: using("bare-web-1"), want: "n-1", another: "n-3"},
		{name: "an ephemeral one, made at once", owner: "ReplicaSet", spec: madeFrom("tmp", "storageClassName: now"), want: "n-1", another: all},
		{name: "an ephemeral one", owner: "ReplicaSet", spec: madeFrom("tmp", "storageClassName: made"), want: "n-1", another: "n-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := static(t, []*aVolume{there("3", func(v *aVolume) { v.Spec.StorageClassName = "" })}, nil)
			o.Classes = append(o.Classes, written.Object[storagev1.StorageClass](t, `{metadata: {name: now}, provisioner: d, volumeBindingMode: Immediate}`))
			for _, one := range []struct {
				name, zone string
				modes      []corev1.PersistentVolumeAccessMode
			}{
				{"shared", "1", nil}, {"alone", "3", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}}, {"data-web-1", "1", nil}, {"web-1-tmp", "1", nil},
				{"now-web-1", "1", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}, {"bare-web-1", "1", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
				{"old-web-1", "1", nil}, {"old-web-3", "3", nil}, {"mine-web-1", "1", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}},
			} {
				v, claim := bound(one.name, one.zone, one.modes...)
				switch one.name {
				case "web-1-tmp":
					claim.OwnerReferences = []metav1.OwnerReference{{UID: "p", Controller: new(true)}}
				case "now-web-1":
					*claim.Spec.StorageClassName = "now"
				case "bare-web-1":
					*claim.Spec.StorageClassName = ""
				}
				o.Volumes, o.Claims = append(o.Volumes, v), append(o.Claims, claim)
			}
			named := func(n int, more string) *corev1.Pod {
				return written.Object[corev1.Pod](t, fmt.Sprintf("{metadata: {name: web-%d, namespace: shop, uid: p, %s}, spec: %s}", n, owned(c.owner), more))
			}
			o.Pods = []*corev1.Pod{named(1, c.spec), named(2, "{}")}
			o.Pods[0].Spec.NodeName = "n-1"
			s := Read(o)
			p := &s.Pods[0]
			if got := strings.Join(accepting(&s, p.Volumes, p.Selector), " "); got != c.want {
				t.Errorf("goes to %q, want %q: %v", got, c.want, p.Volumes)
			}
			another := nodescaler.Claims{Volumes: p.Volumes, Selector: p.Selector}
			if p.Another != nil {
				another = *p.Another
			}
			if got := strings.Join(accepting(&s, another.Volumes, another.Selector), " "); got != c.another {
				t.Errorf("another goes to %q, want %q: %v", got, c.another, another)
			}
			if why := another.Selector[nodescaler.SelectNowhere]; !strings.HasSuffix(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("another asks for %q", why)
			}
		})
	}
}
