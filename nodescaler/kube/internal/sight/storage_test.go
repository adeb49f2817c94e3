package sight

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/pricing"
)

// aStore is a namespace with claims of every kind, two nodes and classes, of which slow waits for a
// pod's node.
func aStore(t *testing.T) *Objects {
	t.Helper()
	o := &Objects{Pods: []*corev1.Pod{written.Object[corev1.Pod](t, `{metadata: {name: first, namespace: shop}, spec: {nodeName: n-1, volumes: [{name: d, persistentVolumeClaim: {claimName: alone}}]}}`)}}
	for _, n := range []string{"n-1", "n-2"} {
		o.Nodes = append(o.Nodes, written.Object[corev1.Node](t, `{metadata: {name: `+n+`, labels: {zone: `+n[2:]+`}}}`))
	}
	for _, v := range []string{
		`{metadata: {name: old}, spec: {claimRef: {namespace: shop, name: data, uid: earlier}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: ["2"]}]}]}}}}`,
		`{metadata: {name: v}, spec: {claimRef: {namespace: shop, name: data, uid: u}, csi: {driver: few, volumeHandle: v}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: ["1"]}]}]}}}}`,
		`{metadata: {name: earliest}, spec: {claimRef: {namespace: shop, name: data, uid: earlier}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: ["2"]}]}]}}}}`,
		`{metadata: {name: one}, spec: {claimRef: {namespace: shop, name: alone}}}`,
		`{metadata: {name: leaves}, spec: {claimRef: {namespace: shop, name: deleted}}}`,
	} {
		o.Volumes = append(o.Volumes, written.Object[corev1.PersistentVolume](t, v))
	}
	const bound = `pv.kubernetes.io/bind-completed: "yes"`
	for _, c := range []string{
		`{metadata: {name: data, uid: u, annotations: {` + bound + `}}, spec: {volumeName: v}}`,
		`{metadata: {name: alone, annotations: {` + bound + `}}, spec: {volumeName: one, accessModes: [ReadWriteOncePod]}}`,
		`{metadata: {name: deleted, deletionTimestamp: "2026-03-01T12:00:00Z", annotations: {` + bound + `}}, spec: {volumeName: leaves}}`,
		`{metadata: {name: lost, annotations: {` + bound + `}}, spec: {volumeName: x}, status: {phase: Lost}}`,
		`{metadata: {name: gone, annotations: {` + bound + `}}, spec: {volumeName: x}}`,
		`{metadata: {name: chosen}, spec: {storageClassName: slow, volumeName: x}}`,
		`{metadata: {name: unnamed}}`, `{metadata: {name: unclassed}, spec: {storageClassName: none}}`,
		`{metadata: {name: first}, spec: {storageClassName: fast}}`, `{metadata: {name: later}, spec: {storageClassName: slow}}`,
		`{metadata: {name: old}, spec: {storageClassName: fast}}`,
		`{metadata: {name: beta, annotations: {volume.beta.kubernetes.io/storage-class: slow}}}`,
		`{metadata: {name: anywhere}, spec: {storageClassName: any}}`,
		`{metadata: {name: picked, annotations: {volume.kubernetes.io/selected-node: n-2}}, spec: {storageClassName: any}}`,
		`{metadata: {name: a-mine, ownerReferences: [{kind: Pod, name: a, uid: a, controller: true}]}, spec: {storageClassName: any}}`,
		`{metadata: {name: a-theirs, ownerReferences: [{kind: Pod, name: a, uid: b, controller: true}]}, spec: {storageClassName: any}}`,
	} {
		o.Claims = append(o.Claims, written.Object[corev1.PersistentVolumeClaim](t, strings.Replace(c, "metadata: {", "metadata: {namespace: shop, ", 1)))
	}
	for _, c := range []string{
		`{metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: few, volumeBindingMode: Immediate}`,
		`{metadata: {name: slow, creationTimestamp: "2026-03-01T12:00:00Z", annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: few, volumeBindingMode: WaitForFirstConsumer,
		  allowedTopologies: [{matchLabelExpressions: [{key: zone, values: ["3", "1"]}]}, {matchLabelExpressions: [{key: zone, values: ["4"]}]}]}`,
		`{metadata: {name: any}, provisioner: many, volumeBindingMode: WaitForFirstConsumer}`,
	} {
		o.Classes = append(o.Classes, written.Object[storagev1.StorageClass](t, c))
	}
	o.CSINodes = []*storagev1.CSINode{written.Object[storagev1.CSINode](t, `{metadata: {name: n-1}, spec: {drivers: [{name: few, nodeID: n-1, allocatable: {count: 3}}, {name: many, nodeID: n-1}]}}`)}
	return o
}

func using(claims ...string) string {
	var all []string
	for _, c := range claims {
		all = append(all, `{name: `+c+`, persistentVolumeClaim: {claimName: `+c+`}}`)
	}
	return "{volumes: [" + strings.Join(all, ", ") + "]}"
}

func madeFrom(name, spec string) string {
	return "{volumes: [{name: " + name + ", ephemeral: {volumeClaimTemplate: {spec: {" + spec + "}}}}]}"
}

func TestClaimsDecideWherePodsGo(t *testing.T) {
	const both = "n-1 n-2"
	for _, c := range []struct {
		name, spec, want string // the nodes that accept the pod
		why, help        string
		volumes          int64 // of the driver few
	}{
		{name: "bound in a zone, though an earlier claim of the name was in another", spec: using("data"), want: "n-1", volumes: 1},
		{name: "one claim twice", spec: `{volumes: [{name: a, persistentVolumeClaim: {claimName: data}}, {name: b, persistentVolumeClaim: {claimName: data}}]}`, want: "n-1", volumes: 1},
		{name: "made where its class allows", spec: using("later"), want: "n-1", volumes: 1},
		{name: "a class by its annotation", spec: using("beta"), want: "n-1", volumes: 1},
		{name: "several", spec: using("data", "later", "anywhere"), want: "n-1", volumes: 2},
		{name: "made anywhere", spec: using("anywhere"), want: both},
		{name: "being made for a node", spec: using("picked"), want: "n-2"},
		{name: "two that are on no node together", spec: using("picked", "later"), volumes: 1},
		{name: "missing", spec: using("none"), why: "claim none, which does not exist", help: "that claim, or a pod that does not name it"},
		{name: "being deleted", spec: using("deleted"), why: "claim deleted, which is being deleted", help: "the end of the pods that use that claim, and another one"},
		{name: "lost", spec: using("lost"), why: "claim lost, whose volume is gone", help: "a claim with a volume that is there"},
		{name: "bound to what is not there", spec: using("gone"), why: "claim gone, whose volume is gone", help: "a claim with a volume that is there"},
		{name: "of one volume, and not bound yet", spec: using("chosen"), why: "claim chosen, which is still being bound", help: "what the claim's events say", volumes: 1},
		{name: "without a class", spec: using("unnamed"), why: "claim unnamed, which is not bound and has no StorageClass",
			help: "a StorageClass for that claim, or a volume that suits it"},
		{name: "of a class that there is not", spec: using("unclassed"), why: "claim unclassed, which is not bound, and whose StorageClass none does not exist",
			help: "that StorageClass, or a volume that suits the claim"},
		{name: "to be bound at once", spec: using("first"), volumes: 1, why: "claim first, which is to be bound before the pod has a node (StorageClass fast), and is not",
			help: "what the claim's events say, or a StorageClass with volumeBindingMode: WaitForFirstConsumer"},
		{name: "for one pod, and another has it", spec: using("alone"), why: "claim alone, which is for one pod alone (ReadWriteOncePod), and pod shop/first has it",
			help: "the end of pod shop/first"},
		{name: "from a template, and made", spec: madeFrom("mine", "storageClassName: any"), want: both},
		{name: "from a template, of another pod", spec: madeFrom("theirs", "storageClassName: any"), why: "claim a-theirs, which was not made for it",
			help: "another name of that claim, or of the pod's volume"},
		{name: "from a template, to be made", spec: madeFrom("new", "storageClassName: slow"), want: "n-1", volumes: 1},
		{name: "from a template that has the class that is usual", spec: madeFrom("new", "accessModes: [ReadWriteOncePod]"), want: "n-1", volumes: 1},
		{name: "from a template without a class", spec: madeFrom("new", `storageClassName: ""`), why: "claim a-new, which is not bound and has no StorageClass",
			help: "a StorageClass for that claim, or a volume that suits it"},
		{name: "for one pod, which is this", spec: strings.Replace(using("alone"), "{", "{nodeName: n-2, ", 1), want: both},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := aStore(t)
			o.Pods = append(o.Pods, written.Object[corev1.Pod](t, "{metadata: {name: a, namespace: shop, uid: a}, spec: "+c.spec+"}"))
			s := Read(o)
			p := &s.Pods[0]
			var goes []string
			for i := range s.Nodes {
				if nodescaler.Accepts(p, &s.Nodes[i]) == "" {
					goes = append(goes, s.Nodes[i].Name)
				}
			}
			if got := strings.Join(goes, " "); got != c.want {
				t.Errorf("goes to %q, want %q", got, c.want)
			}
			why := strings.TrimPrefix(p.Selector[nodescaler.SelectNowhere], "a node with the volume of ")
			if why != c.why || p.Selector[nodescaler.SelectHelp] != c.help {
				t.Errorf("asks for %q, and %q would help", why, p.Selector[nodescaler.SelectHelp])
			}
			if got := p.Extra.Of("attachable-volumes/few"); got != c.volumes {
				t.Errorf("%d volumes, want %d", got, c.volumes)
			}
		})
	}
}

// Volumes say by labels, too, which zone they are in.
func TestVolumesStayInTheZonesOfTheirLabels(t *testing.T) {
	const zone, region, betaZone, betaRegion = corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion
	type of = map[string]string
	for _, c := range []struct {
		name         string
		volume, node of
		goes         bool
	}{
		{"no label", nil, of{zone: "a"}, true},
		{"its zone", of{zone: "a"}, of{zone: "a"}, true},
		{"another zone", of{zone: "a"}, of{zone: "b"}, false},
		{"one of several zones", of{zone: "a__b"}, of{zone: "b"}, true},
		{"none of several zones", of{zone: "a__ b"}, of{zone: "c"}, false},
		{"a label that nothing is in", of{zone: "a____b"}, of{zone: "c"}, true},
		{"its zone in another region", of{zone: "a", region: "r"}, of{zone: "a", region: "s"}, false},
		{"its zone and region", of{zone: "a", region: "r"}, of{zone: "a", region: "r"}, true},
		{"a node without labels", of{zone: "a", region: "r"}, of{"disk": "ssd"}, true},
		{"a node with its region alone", of{zone: "a", region: "r"}, of{region: "r"}, false},
		{"a node with another label alone", of{zone: "a"}, of{region: "r"}, false},
		{"an earlier label, and the node's present one", of{betaZone: "a"}, of{zone: "a"}, true},
		{"an earlier label, and another present one", of{betaZone: "a"}, of{zone: "b"}, false},
		{"an earlier label, and the node's comes first", of{betaZone: "a"}, of{zone: "a", betaZone: "b"}, false},
		{"a present label does not go by the node's earlier one", of{zone: "a"}, of{betaZone: "a"}, false},
		{"both earlier labels, and one of each", of{betaZone: "a", betaRegion: "r"}, of{betaZone: "a", region: "r"}, true},
		{"both earlier labels, and one that differs", of{betaZone: "a", betaRegion: "r"}, of{betaZone: "a", region: "s"}, false},
	} {
		o := aStore(t)
		o.Pods = append(o.Pods, written.Object[corev1.Pod](t, "{metadata: {name: a, namespace: shop}, spec: "+using("data")+"}"))
		for _, v := range o.Volumes {
			v.Spec.NodeAffinity = nil
			v.Labels = c.volume
		}
		o.Nodes[0].Labels = c.node
		s := Read(o)
		if got := nodescaler.Accepts(&s.Pods[0], &s.Nodes[0]) == ""; got != c.goes {
			t.Errorf("%s: goes there: %t; requires %v", c.name, got, s.Pods[0].Volumes)
		}
	}
}

// A node attaches a volume once for all pods on it, and so it counts once where they are planned.
func TestAVolumeIsAttachedOnceToANode(t *testing.T) {
	const few, shared = "attachable-volumes/few", "attachable-volumes/few shop/data"
	used := func(name, on, claim, owner string) *corev1.Pod {
		return written.Object[corev1.Pod](t, "{metadata: {name: "+name+", namespace: shop"+owner+"}, spec: "+strings.Replace(using(claim), "{", "{"+on, 1)+"}")
	}
	o := aStore(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		o.Pods = append(o.Pods, used(name, "nodeName: n-1, ", "data", ""))
	}
	o.Pods = append(o.Pods, used("e", "", "data", ""), used("f", "", "later", ""))
	s := Read(o)
	x := nodescaler.NewIndex(&s)
	n := x.Node("n-1")
	if n.Used.Extra.Of(shared) != 4 || n.Extra.Minus(n.Used.Extra).Left(few) != 2 {
		t.Errorf("four pods with one volume take %v", n.Used.Extra)
	}
	n.Ready = true
	if n.Extra = (pricing.Amounts{{Name: few, N: 1}}); nodescaler.Refusal(&s.Pods[4], n.Node, n.Used) != "" {
		t.Error("a pod with the volume that a node has is refused")
	}
	if nodescaler.Refusal(&s.Pods[5], n.Node, n.Used) != nodescaler.InsufficientResource {
		t.Error("a pod with another volume is accepted")
	}
	for _, c := range []struct {
		name, claim, owner, more string
		pod, another             pricing.Amounts
	}{
		{name: "of one pod", claim: "data", pod: pricing.Amounts{{Name: few, N: 1}}},
		{name: "that many may use", claim: "many", pod: pricing.Amounts{{Name: few + " shop/many", N: 1}}},
		{name: "that is the replica's own", claim: "data-web-0", owner: ", ownerReferences: [{kind: StatefulSet, name: web, uid: s, controller: true}]",
			pod: pricing.Amounts{{Name: few, N: 1}}, another: pricing.Amounts{{Name: few, N: 1}}},
		{name: "that is the replica's own, and another pod's", claim: "data-web-0", owner: ", ownerReferences: [{kind: StatefulSet, name: web, uid: s, controller: true}]", more: "data-web-0",
			pod: pricing.Amounts{{Name: few + " shop/data-web-0", N: 1}}, another: pricing.Amounts{{Name: few, N: 1}}},
	} {
		o := aStore(t)
		for _, name := range []string{"many", "data-web-0"} {
			o.Claims = append(o.Claims, written.Object[corev1.PersistentVolumeClaim](t, `{metadata: {namespace: shop, name: `+name+`}, spec: {storageClassName: slow, accessModes: [ReadWriteMany]}}`))
		}
		o.Pods = []*corev1.Pod{used("web-0", "", c.claim, c.owner)}
		if c.more != "" {
			o.Pods = append(o.Pods, used("x", "", c.more, ""))
		}
		p := Read(o).Pods[0]
		if d := cmp.Diff(c.pod, p.Extra); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		var another pricing.Amounts
		if p.Another != nil {
			another = p.Another.Extra
		}
		if d := cmp.Diff(c.another, another); d != "" {
			t.Errorf("%s, of another replica: %s", c.name, d)
		}
	}
}

// Who may not list claims, volumes or classes knows nothing of claims that are not bound.
func TestOfClaimsThatWereNotReadNothingIsKnown(t *testing.T) {
	for name, forget := range map[string]func(*Objects){
		"claims": func(o *Objects) { o.Claims = nil }, "classes": func(o *Objects) { o.Classes = nil }, "volumes": func(o *Objects) { o.Volumes = nil },
	} {
		o := aStore(t)
		o.Pods[0] = written.Object[corev1.Pod](t, `{metadata: {name: a, namespace: shop}, spec: `+using("later", "none", "first", "lost")+`}`)
		forget(o)
		if p := Read(o).Pods[0]; p.Volumes != nil || p.Nowhere() {
			t.Errorf("without %s: %v, %v", name, p.Volumes, p.Selector)
		}
	}
}

func TestNodesTakeAsManyVolumesAsTheyAreSaidTo(t *testing.T) {
	s := Read(aStore(t))
	for i, want := range []pricing.Amounts{{{Name: "attachable-volumes/few", N: 3}}, {{Name: "attachable-volumes/few", N: pricing.Boundless}}} {
		if d := cmp.Diff(want, s.Nodes[i].Extra); d != "" {
			t.Errorf("%s: %s", s.Nodes[i].Name, d)
		}
	}
}
