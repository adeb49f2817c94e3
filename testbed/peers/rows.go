package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rowNames are the rows in the order of the table.
var rowNames = []string{"plain", "selectors", "spread", "anti-affinity", "affinity", "ports", "volumes", "mixed"}

// rows say what apps ask for besides room. In each, some ask for nothing.
var rows = map[string]func(*app){
	"plain":         func(*app) {},
	"selectors":     func(a *app) { a.some(a.selectsDisk, a.selectsZone, a.selectsZones) },
	"spread":        func(a *app) { a.some(a.spreadsOverZones, a.spreadsOverNodes) },
	"anti-affinity": func(a *app) { a.some(a.apart, a.apartFromLast) },
	"affinity":      func(a *app) { a.some(a.oneZone, a.zoneOfLast, a.oneNode) },
	"ports":         func(a *app) { a.some(a.port) },
	"volumes":       func(a *app) { a.some(a.volumesInZones) },
	"mixed": func(a *app) {
		a.some(a.selectsDisk, a.selectsZone, a.selectsZones, a.spreadsOverZones, a.spreadsOverNodes, a.apart, a.apartFromLast,
			a.oneZone, a.oneNode, a.port, a.volumesInZones)
	},
}

// some has apps ask for one after the other, and then one for nothing.
func (a *app) some(kinds ...func()) {
	if i := a.n % (len(kinds) + 1); i < len(kinds) {
		kinds[i]()
	}
}

func (a *app) selectsDisk() {
	disk := disks[a.IntN(len(disks))]
	a.each(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{diskLabel: disk} })
}

func (a *app) selectsZone() { a.inZones(zones[a.IntN(len(zones))]) }

func (a *app) selectsZones() { a.inZones(zones[0], zones[1+a.IntN(2)]) }

func (a *app) inZones(values ...string) {
	a.affinity(corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: inZones(values...)}})
}

func inZones(values ...string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: values},
	}}}}
}

func (a *app) affinity(of corev1.Affinity) {
	a.each(func(s *corev1.PodSpec) { s.Affinity = &of })
}

func (a *app) spreadsOverZones() { a.spreads(corev1.LabelTopologyZone, 1) }

func (a *app) spreadsOverNodes() { a.spreads(corev1.LabelHostname, int32(1+a.IntN(3))) }

func (a *app) spreads(key string, skew int32) {
	a.each(func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: labelled(a.name)},
		}
	})
}

func labelled(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func (a *app) apart() { a.apartFrom(a.name) }

// apartFromLast keeps the app off the nodes of the one before it.
func (a *app) apartFromLast() { a.apartFrom(a.last()) }

func (a *app) last() string { return fmt.Sprintf("app-%04d", a.n-1) }

func (a *app) apartFrom(app string) {
	a.affinity(corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: labelled(app)}},
	}})
}

func (a *app) oneZone() { a.beside(a.name, corev1.LabelTopologyZone) }

func (a *app) zoneOfLast() { a.beside(a.last(), corev1.LabelTopologyZone) }

// oneNode is for few replicas: more do not fit onto any node.
func (a *app) oneNode() {
	a.replicas = a.replicas[:min(4, len(a.replicas))]
	a.beside(a.name, corev1.LabelHostname)
}

func (a *app) beside(app, key string) {
	a.affinity(corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: labelled(app)}},
	}})
}

// port is one of ten that apps have on their nodes.
func (a *app) port() {
	port := int32(9000 + a.IntN(10))
	a.each(func(s *corev1.PodSpec) {
		s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
	})
}

// volumesInZones gives each replica a claim that is bound to a volume in a zone, by turns.
func (a *app) volumesInZones() {
	for i, p := range a.replicas {
		name := "data-" + p.Name
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, UID: types.UID(name), Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
			},
			Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
				NodeAffinity:           &corev1.VolumeNodeAffinity{Required: inZones(zones[i%len(zones)])},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		}
		a.claims, a.volumes = append(a.claims, claim), append(a.volumes, volume)
	}
}
