package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// podTerm selects pods, such as those of an anti-affinity.
type podTerm struct {
	selector string // as labels.Parse reads it
	spaces   spaces
}

// spaces are the namespaces of a term, in which a pod has to be: their names, joined by commas,
// and after a bar what selects others by their labels. Several of these are joined by semicolons,
// and a pod has to be in all. Empty is every namespace.
type spaces string

// noNamespace is what no namespace is called.
const noNamespace spaces = "-"

// rule is a rule of topology, whose mark is that of a term.
type rule struct {
	of unique.Handle[podTerm]
	nodescaler.Topology
}

// terms reads a pod's required anti-affinity: by host name, and by other labels as rules.
func terms(p *corev1.Pod) (apart []unique.Handle[podTerm], rules []rule) {
	a := p.Spec.Affinity
	if a == nil || a.PodAntiAffinity == nil {
		return nil, nil
	}
	for i := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		t := &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
		selector, within, err := about(p, t)
		if err != nil || t.LabelSelector == nil { // refused by the API server, and selects no pod
			continue
		}
		if h := unique.Make(podTerm{selector.String(), within}); t.TopologyKey == nodescaler.HostLabel {
			apart = append(apart, h)
		} else {
			rules = append(rules, rule{h, nodescaler.Topology{Key: text(t.TopologyKey)}})
		}
	}
	return apart, rules
}

// about reads which pods a pod's term is about.
func about(p *corev1.Pod, t *corev1.PodAffinityTerm) (labels.Selector, spaces, error) {
	selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		return nil, "", err
	}
	names := slices.Clone(t.Namespaces)
	if t.NamespaceSelector == nil && len(names) == 0 {
		names = []string{p.Namespace}
	}
	slices.Sort(names)
	within := strings.Join(slices.Compact(names), ",")
	if t.NamespaceSelector != nil {
		others, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
		if err != nil {
			return nil, "", err
		}
		if others.Empty() {
			return selector, "", nil
		}
		within += "|" + others.String()
	}
	return selector, spaces(within), nil
}

// beside reads a pod's required affinity to pods, as rules by each of its labels: the pods that it
// goes to are those that all terms are about.
func beside(p *corev1.Pod) (rules []rule) {
	a := p.Spec.Affinity
	if a == nil || a.PodAffinity == nil || len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	all := labels.Everything()
	var each []string
	for i := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		t := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
		selector, within, err := about(p, t)
		if err != nil || t.LabelSelector == nil { // it is about no pod
			selector, within = labels.Everything(), noNamespace
		}
		requirements, _ := selector.Requirements()
		all = all.Add(requirements...)
		if within != "" {
			each = append(each, string(within))
		}
		rules = append(rules, rule{Topology: nodescaler.Topology{Key: text(t.TopologyKey), Together: true}})
	}
	slices.Sort(each)
	of := unique.Make(podTerm{all.String(), spaces(strings.Join(slices.Compact(each), ";"))})
	for i := range rules {
		rules[i].of = of
	}
	return rules
}

// spreads reads a pod's spread constraints, the required or the preferred ones.
func spreads(p *corev1.Pod, how corev1.UnsatisfiableConstraintAction) (rules []rule) {
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if c.WhenUnsatisfiable != how || c.LabelSelector == nil || err != nil {
			continue
		}
		for _, key := range c.MatchLabelKeys {
			if value, has := p.Labels[key]; has {
				if same, err := labels.NewRequirement(key, selection.In, []string{value}); err == nil {
					selector = selector.Add(*same)
				}
			}
		}
		r := rule{unique.Make(podTerm{selector.String(), spaces(p.Namespace)}), nodescaler.Topology{Key: text(c.TopologyKey), Skew: int(c.MaxSkew)}}
		if c.MinDomains != nil {
			r.MinDomains = int(*c.MinDomains)
		}
		r.AnyNode = c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
		r.Tolerated = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		rules = append(rules, r)
	}
	return rules
}

// preference is a preferred rule with its weight.
type preference struct {
	rule
	weight int
}

// spreadWeight is the weight of a preferred spread: the highest that an affinity may have.
const spreadWeight = 100

// preferences reads a pod's preferred affinities to pods. Those by host name are dropped, because a
// new machine has no pods.
func preferences(p *corev1.Pod) (all []preference) {
	note := func(of []corev1.WeightedPodAffinityTerm, together bool) {
		for i := range of {
			t := &of[i].PodAffinityTerm
			selector, within, err := about(p, t)
			if err != nil || t.LabelSelector == nil || t.TopologyKey == nodescaler.HostLabel {
				continue
			}
			mark := unique.Make(podTerm{selector.String(), within})
			all = append(all, preference{rule{mark, nodescaler.Topology{Key: text(t.TopologyKey), Together: together}}, int(of[i].Weight)})
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		note(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, true)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		note(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, false)
	}
	for _, r := range spreads(p, corev1.ScheduleAnyway) {
		if r.Key != nodescaler.HostLabel {
			all = append(all, preference{r, spreadWeight})
		}
	}
	return all
}

// ports are the marks of a pod's ports on its node: those that it has, and those that it repels. A
// port on every address of the node clashes with the same on any, and one on a single address with
// that on the same, or on every one. The scheduler leaves out those of init containers that end,
// and so does this.
func ports(p *corev1.Pod) (has, repels []string) {
	for kind, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			if kind == 0 && !stays(&containers[i]) {
				continue
			}
			for _, port := range containers[i].Ports {
				if port.HostPort == 0 {
					continue
				}
				name := fmt.Sprintf("port %d/%s", port.HostPort, cmp.Or(port.Protocol, corev1.ProtocolTCP))
				everywhere, here := name+" on every address", name+" on "+port.HostIP
				if port.HostIP == "" || port.HostIP == "0.0.0.0" {
					has, repels = append(has, name, everywhere), append(repels, name)
				} else {
					has, repels = append(has, name, here), append(repels, here, everywhere)
				}
			}
		}
	}
	return sorted(has), sorted(repels)
}

// stays reports whether an init container runs for as long as its pod: a sidecar.
func stays(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// sorted sorts marks, without those that are there twice, and with their text shared.
func sorted(marks []string) []string {
	for i := range marks {
		marks[i] = text(marks[i])
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

// marker finds the marks by which pods refuse each other, of all pods that there are.
type marker struct {
	within map[string]*marks // by namespace
	every  marks             // of all namespaces
	names  map[unique.Handle[podTerm]]string
	// labels are those of the namespaces that pods are in, and nil where they are not known. Blind
	// is set if any are not.
	labels map[string]labels.Set
	blind  bool
	// wishes are the marks that only preferences are by. They keep no pod off a node, so that pods
	// with them are no kind of their own.
	wishes *marker
}

// marks are those of a namespace. Most select a label with one value, by which they are found:
// thousands of pods times hundreds of selectors would take a second.
type marks struct {
	by    map[label][]podMark
	other []podMark
}

type label struct{ key, value string }

func (s *marks) add(m podMark) {
	requirements, _ := m.selector.Requirements()
	for i := range requirements {
		r := &requirements[i]
		if value, one := r.Values().PopAny(); one && r.Values().Len() == 1 && (r.Operator() == selection.In || r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals) {
			if s.by == nil {
				s.by = map[label][]podMark{}
			}
			of := label{r.Key(), value}
			s.by[of] = append(s.by[of], m)
			return
		}
	}
	s.other = append(s.other, m)
}

// of appends the names of the marks that a pod with the labels has.
func (s *marks) of(has []string, pod labels.Set) []string {
	if s == nil {
		return has
	}
	note := func(all []podMark) {
		for i := range all {
			if all[i].selector.Matches(pod) {
				has = append(has, all[i].name)
			}
		}
	}
	note(s.other)
	if len(s.by) > 0 {
		for key, value := range pod {
			note(s.by[label{key, value}])
		}
	}
	return has
}

// podMark is a term, read.
type podMark struct {
	name     string
	selector labels.Selector
}

func (t *podTerm) mark() (podMark, bool) {
	selector, err := labels.Parse(t.selector)
	return podMark{text(fmt.Sprintf("labels %s in %s", cmp.Or(t.selector, "of any kind"), t.spaces)), selector}, err == nil
}

// String is the namespaces in words: namespace shop, or namespaces with labels team=red.
func (s spaces) String() string {
	if s == "" {
		return "every namespace"
	}
	all := strings.Split(string(s), ";")
	for i, one := range all {
		named, selected, _ := strings.Cut(one, "|")
		switch {
		case selected == "":
			all[i] = "namespace " + named
		case named == "":
			all[i] = "namespaces with labels " + selected
		default:
			all[i] = "namespace " + named + " or with labels " + selected
		}
	}
	return strings.Join(all, " and in ")
}

// byLabels reports whether some of the namespaces are selected by their labels.
func (s spaces) byLabels() bool { return strings.Contains(string(s), "|") }

// among are those of the namespaces with these labels. One whose labels are not known is taken for
// selected.
func (s spaces) among(known map[string]labels.Set) (found []string) {
	for namespace := range known {
		found = append(found, namespace)
	}
	for one := range strings.SplitSeq(string(s), ";") {
		names, selected, by := strings.Cut(one, "|")
		named, selector := strings.Split(names, ","), labels.Nothing()
		if by {
			if parsed, err := labels.Parse(selected); err == nil {
				selector = parsed
			}
		}
		found = slices.DeleteFunc(found, func(namespace string) bool {
			is := known[namespace]
			return !slices.Contains(named, namespace) && !(by && is == nil) && !selector.Matches(is)
		})
	}
	return found
}

// newMarker reads the terms of all pods, and of those that DaemonSets will make, with the
// namespaces whose labels are known.
func newMarker(pods []*pod, sets []*daemonSet, known []*metav1.PartialObjectMetadata) *marker {
	m := &marker{within: map[string]*marks{}, names: map[unique.Handle[podTerm]]string{}, labels: map[string]labels.Set{}}
	m.wishes = &marker{within: map[string]*marks{}, names: map[unique.Handle[podTerm]]string{}, labels: m.labels}
	for _, p := range pods {
		m.labels[p.Namespace] = nil
	}
	for _, d := range sets {
		m.labels[d.Namespace] = nil
	}
	for _, n := range known {
		if _, used := m.labels[n.Name]; used {
			m.labels[n.Name] = labels.Merge(n.Labels, nil)
		}
	}
	for _, is := range m.labels {
		m.blind = m.blind || is == nil
	}
	for _, p := range pods {
		m.read(p)
	}
	for _, d := range sets {
		m.read(d.like)
	}
	return m
}

func (m *marker) read(p *pod) {
	for _, h := range p.apart {
		m.add(h)
	}
	for i := range p.rules {
		m.add(p.rules[i].of)
	}
	for i := range p.prefers {
		m.wishes.add(p.prefers[i].of)
	}
}

func (m *marker) add(h unique.Handle[podTerm]) {
	if _, known := m.names[h]; known {
		return
	}
	t := h.Value()
	is, ok := t.mark()
	if !ok {
		return
	}
	if m.names[h] = is.name; t.spaces == "" {
		m.every.add(is)
		return
	}
	in := []string{string(t.spaces)} // most are one namespace's
	if strings.ContainsAny(in[0], ",|;") {
		in = t.spaces.among(m.labels)
	}
	for _, namespace := range in {
		if m.within[namespace] == nil {
			m.within[namespace] = &marks{}
		}
		m.within[namespace].add(is)
	}
}

// fill adds what the pod has and repels by its labels and terms to its ports.
func (m *marker) fill(said *nodescaler.Pod, p *pod) {
	var repels []string
	has := m.every.of(m.within[p.Namespace].of(nil, p.Labels), p.Labels)
	for _, h := range p.apart {
		if name := m.names[h]; name != "" {
			repels = append(repels, name)
		}
	}
	for i := range p.rules {
		r := p.rules[i].Topology
		if m.blind && r.Together && !said.Daemon && p.rules[i].of.Value().spaces.byLabels() {
			said.Another = nil
			said.Selector = nowhere("a node beside pods of namespaces with certain labels, which are not known",
				"the right to list namespaces, for Plimsoll")
		}
		if r.Mark = m.names[p.rules[i].of]; r.Mark != "" {
			said.Topology = append(slices.Clip(said.Topology), r)
		}
	}
	said.Noted = sorted(m.wishes.every.of(m.wishes.within[p.Namespace].of(nil, p.Labels), p.Labels))
	for i := range p.prefers {
		w := nodescaler.Preference{Weight: p.prefers[i].weight, Rule: p.prefers[i].Topology}
		if w.Rule.Mark = m.wishes.names[p.prefers[i].of]; w.Rule.Mark != "" {
			said.Prefers = append(slices.Clip(said.Prefers), w)
		}
	}
	if len(has) > 0 {
		said.Has = sorted(append(has, p.said.Has...))
	}
	if len(repels) > 0 {
		said.Repels = sorted(append(repels, p.said.Repels...))
	}
}
