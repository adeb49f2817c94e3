package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is nodes, the pods on them and those that wait. Not asked is about claims made from
// templates, taints of nodes that are not ready or only starting, and resizes.
type world struct {
	nodes           []*corev1.Node
	spares          []string // nodes whose machines are stopped
	placed, pending []*corev1.Pod
	leaving         []*corev1.Pod // of a node that is emptied
}

// chance draws.
type chance struct{ *rand.Rand }

// one reports true once in n times.
func (c chance) one(n int) bool { return c.IntN(n) == 0 }

func pick[T any](c chance, of ...T) T { return of[c.IntN(len(of))] }

func (c chance) world() (w world) {
	for i := range 6 {
		w.nodes = append(w.nodes, c.node(fmt.Sprint("n", i)))
	}
	if n := pick(c, w.nodes...); n.Spec.Unschedulable {
		w.spares = append(w.spares, n.Name)
	}
	for i := range 20 {
		p := c.pod(fmt.Sprint("p", i))
		if i < 12 {
			for p.Spec.NodeName == "" || slices.Contains(w.spares, p.Spec.NodeName) {
				p.Spec.NodeName = pick(c, w.nodes...).Name
			}
			w.placed = append(w.placed, p)
			continue
		}
		w.pending = append(w.pending, p)
	}
	return w
}

func (c chance) node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	for _, l := range [][]string{{"zone", "a", "b", "c"}, {"disk", "ssd", "hdd"}, {"gen", "3", "7", "12"}} {
		if !c.one(5) {
			n.Labels[l[0]] = pick(c, l[1:]...)
		}
	}
	for _, l := range []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion} {
		if c.one(3) {
			n.Labels[l] = pick(c, "a", "b", "r", "s")
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:    pick(c, amount("8"), amount("16"), amount("32"), amount("7900500u")),
		corev1.ResourceMemory: pick(c, amount("8Gi"), amount("32Gi"), amount("16000000001")),
		corev1.ResourcePods:   pick(c, amount("110"), amount("110"), amount("20"), amount("20"), amount("7"), amount("110"), amount("1"), amount("110"), amount("0"), amount("110"), amount("110")),
	}
	for _, more := range []struct {
		name    corev1.ResourceName
		amounts []string
	}{{corev1.ResourceEphemeralStorage, []string{"10Gi", "30Gi", "9000000001", "0"}}, {"example.com/gpu", []string{"0", "1", "2", "8"}}, {"hugepages-2Mi", []string{"0", "64Mi"}}} {
		if !c.one(5) {
			n.Status.Allocatable[more.name] = amount(pick(c, more.amounts...))
		}
	}
	if c.one(7) {
		if cordon(n); c.one(2) {
			n.Annotations = map[string]string{"plimsoll.dev/draining": "true"}
		}
	}
	for range c.IntN(3) {
		if c.one(3) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
				Key: pick(c, "team", "gpu"), Value: pick(c, "", "red", "blue"),
				Effect: pick(c, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
			})
		}
	}
	return n
}

// cordon has the node take no more pods. Its controller adds the taint at once.
func cordon(n *corev1.Node) {
	n.Spec.Unschedulable = true
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
}

func amount(s string) resource.Quantity { return resource.MustParse(s) }

func (c chance) pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: pick(c, append(spaces, "shop", "shop")...),
		Labels: map[string]string{"app": pick(c, "a", "b", "c", "d"), "tier": pick(c, "x", "y")},
	}}
	p.Status.Phase = corev1.PodPending
	c.containers(p)
	c.affinities(p)
	for range c.IntN(4) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, c.toleration())
	}
	if c.one(12) {
		p.Spec.NodeSelector = pick(c, map[string]string{"disk": "ssd"}, map[string]string{"zone": "a"}, map[string]string{"zone": "b", "disk": "hdd"})
	}
	for more := c.one(9); more; more = c.one(4) {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.claim()}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
	}
	return p
}

func (c chance) containers(p *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	for i := range 1 + c.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, c.container(fmt.Sprint("c", i)))
	}
	for i := range c.IntN(3) {
		init := c.container(fmt.Sprint("i", i))
		if c.one(2) {
			init.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, init)
	}
	if c.one(6) {
		p.Spec.Overhead = c.amounts()
	}
	if c.one(6) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: c.amounts()}
	}
}

func (c chance) amounts() corev1.ResourceList {
	all := corev1.ResourceList{}
	if !c.one(4) {
		all[corev1.ResourceCPU] = pick(c, amount("0"), amount("100m"), amount("250m"), amount("1500u"), amount("1"), amount("1999m"))
	}
	if !c.one(4) {
		all[corev1.ResourceMemory] = pick(c, amount("0"), amount("64Mi"), amount("300M"), amount("128974848500m"), amount("1Gi"), amount("2Gi"))
	}
	return all
}

func (c chance) container(name string) corev1.Container {
	k := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: c.amounts()}}
	if c.one(16) {
		k.Resources.Requests[corev1.ResourceEphemeralStorage] = pick(c, amount("0"), amount("1Gi"), amount("2500M"), amount("999999999500m"))
	}
	if c.one(30) {
		k.Resources.Requests["example.com/gpu"] = pick(c, amount("0"), amount("1"), amount("2"))
	}
	if c.one(80) {
		k.Resources.Requests["hugepages-2Mi"] = pick(c, amount("2Mi"), amount("32Mi"))
	}
	if c.IntN(9) < 2 {
		k.Ports = []corev1.ContainerPort{{
			HostPort: pick[int32](c, 0, 80, 80, 80, 80, 443), ContainerPort: 80, HostIP: pick(c, "", "", "0.0.0.0", "10.0.0.1", "10.0.0.2"),
			Protocol: pick(c, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, ""),
		}}
	}
	return k
}

func (c chance) toleration() corev1.Toleration {
	o := corev1.Toleration{
		Key: pick(c, "team", "gpu", corev1.TaintNodeUnschedulable), Operator: corev1.TolerationOpExists,
		Effect: pick(c, "", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
	switch c.IntN(8) {
	case 0:
		o.Key = ""
	case 1, 2, 3:
		o.Operator, o.Value = pick(c, "", corev1.TolerationOpEqual), pick(c, "red", "blue", "red", "blue", "")
	}
	if o.Effect == corev1.TaintEffectNoExecute && c.one(2) {
		seconds := int64(60)
		o.TolerationSeconds = &seconds
	}
	return o
}

func (c chance) affinities(p *corev1.Pod) {
	a := &corev1.Affinity{}
	if c.one(6) {
		required := &corev1.NodeSelector{}
		for range 1 + c.IntN(2) {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, c.nodeTerm())
		}
		a.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
	}
	if c.one(8) {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		for range 1 + c.IntN(2) {
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
				a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, c.podTerm())
		}
	}
	if c.one(12) {
		a.PodAffinity = &corev1.PodAffinity{}
		for range 1 + c.IntN(4)/3 {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
				a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, c.podTerm())
		}
	}
	p.Spec.Affinity = a
	for range c.IntN(8) / 4 {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c.spread())
	}
}

func (c chance) nodeTerm() (t corev1.NodeSelectorTerm) {
	values := map[string][]string{"zone": {"a", "b", "c", "d"}, "disk": {"ssd", "hdd"}, "gen": {"3", "7", "12"}}
	keys := slices.Sorted(maps.Keys(values))
	for range c.IntN(3) {
		key := pick(c, keys...)
		r := corev1.NodeSelectorRequirement{Key: key, Operator: pick(c, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn,
			corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)}
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			for range 1 + c.IntN(2) {
				r.Values = append(r.Values, pick(c, values[key]...))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			r.Key, r.Values = "gen", []string{pick(c, "2", "5", "10", "12")}
		default: // whether there is one needs no value
		}
		t.MatchExpressions = append(t.MatchExpressions, r)
	}
	if c.one(6) {
		t.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField,
			Operator: pick(c, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{pick(c, "n0", "n1", "n2")}}}
	}
	return t
}

func (c chance) spread() corev1.TopologySpreadConstraint {
	s := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + c.IntN(4)/3), TopologyKey: pick(c, "zone", "disk", corev1.LabelHostname), LabelSelector: c.podTerm().LabelSelector,
		WhenUnsatisfiable:  pick(c, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		NodeAffinityPolicy: pick(c, nil, new(corev1.NodeInclusionPolicyHonor), new(corev1.NodeInclusionPolicyIgnore)),
		NodeTaintsPolicy:   pick(c, nil, new(corev1.NodeInclusionPolicyHonor), new(corev1.NodeInclusionPolicyIgnore)),
	}
	if c.one(3) {
		s.MinDomains = new(int32(1 + c.IntN(4)))
	}
	if c.one(3) {
		s.MatchLabelKeys = []string{"tier"}
	}
	if s.MatchLabelKeys == nil && s.MinDomains != nil && *s.MinDomains > 2 {
		s.LabelSelector = nil
	}
	return s
}

func (c chance) podTerm() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: pick(c, corev1.LabelHostname, corev1.LabelHostname, "zone"), LabelSelector: &metav1.LabelSelector{}}
	if c.one(2) {
		t.LabelSelector.MatchLabels = map[string]string{"app": pick(c, "a", "b", "c", "d")}
	} else {
		t.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{
			pick(c, metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}},
				metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a", "b", "c"}},
				metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpExists},
				metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}),
			{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{pick(c, "x", "y")}},
		}
	}
	switch c.IntN(12) {
	case 0, 1, 2:
		t.Namespaces = pick(c, []string{"other"}, []string{"shop", "other"})
	case 3:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 4, 5:
		t.Namespaces = pick(c, nil, nil, []string{"shop"}, []string{"third", "none"})
		t.NamespaceSelector = pick(c, &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "shop"}},
			&metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(c, "red", "blue", "green")}},
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"red"}}, {Key: "tier", Operator: pick(c, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)},
			}})
	}
	return t
}
