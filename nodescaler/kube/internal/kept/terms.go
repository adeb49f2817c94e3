package kept

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// affinity reads the required node affinity. No node meets an invalid term, as in the scheduler, so
// it is dropped.
func affinity(required *corev1.NodeSelector) nodescaler.Affinity {
	terms := make(nodescaler.Affinity, 0, len(required.NodeSelectorTerms))
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		term := make(nodescaler.Term, 0, len(t.MatchExpressions)+len(t.MatchFields))
		valid := true
		for j := range t.MatchExpressions {
			r := requirement(&t.MatchExpressions[j])
			term, valid = append(term, r), valid && r.Key != nodescaler.NameField && means(&r)
		}
		for j := range t.MatchFields {
			r := requirement(&t.MatchFields[j])
			one := len(r.Values) == 1 && (r.Operator == nodescaler.In || r.Operator == nodescaler.NotIn)
			term, valid = append(term, r), valid && one && r.Key == nodescaler.NameField
		}
		if valid && len(term) > 0 {
			terms = append(terms, term)
		}
	}
	return terms
}

// labelled reads the preferred node affinity.
func labelled(p *corev1.Pod) (all []nodescaler.Preference) {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	for _, t := range p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		is := affinity(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{t.Preference}})
		if len(is) > 0 && t.Weight > 0 {
			all = append(all, nodescaler.Preference{Weight: int(t.Weight), Affinity: is})
		}
	}
	return all
}

func requirement(e *corev1.NodeSelectorRequirement) nodescaler.Requirement {
	r := nodescaler.Requirement{Key: Text(e.Key), Operator: nodescaler.Operator(Text(string(e.Operator)))}
	for _, value := range e.Values {
		r.Values = append(r.Values, Text(value))
	}
	slices.Sort(r.Values)
	return r
}

// means reports whether the number and the kind of the requirement's values suit its operator.
func means(r *nodescaler.Requirement) bool {
	switch r.Operator {
	case nodescaler.In, nodescaler.NotIn:
		return len(r.Values) > 0
	case nodescaler.Exists, nodescaler.DoesNotExist:
		return len(r.Values) == 0
	case nodescaler.Gt, nodescaler.Lt:
		if len(r.Values) != 1 {
			return false
		}
		_, err := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil
	}
	return false
}

// PodTerm selects pods, such as those of an anti-affinity.
type PodTerm struct {
	Selector string // as labels.Parse reads it
	Spaces   spaces
}

// spaces are the namespaces of a term, in which a pod has to be: their names, joined by commas,
// and after a bar what selects others by their labels. Several of these are joined by semicolons,
// and a pod has to be in all. Empty is every namespace.
type spaces string

// noNamespace is what no namespace is called.
const noNamespace spaces = "-"

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

// ByLabels reports whether some of the namespaces are selected by their labels.
func (s spaces) ByLabels() bool { return strings.Contains(string(s), "|") }

// Among are those of the namespaces with these labels. One whose labels are not known is taken for
// selected.
func (s spaces) Among(known map[string]labels.Set) (found []string) {
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

// rule is a rule of topology, whose mark is that of a term.
type rule struct {
	Of unique.Handle[PodTerm]
	nodescaler.Topology
}

// terms reads a pod's required anti-affinity: by host name, and by other labels as rules.
func terms(p *corev1.Pod) (apart []unique.Handle[PodTerm], rules []rule) {
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
		if h := unique.Make(PodTerm{selector.String(), within}); t.TopologyKey == nodescaler.HostLabel {
			apart = append(apart, h)
		} else {
			rules = append(rules, rule{h, nodescaler.Topology{Key: Text(t.TopologyKey)}})
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
		rules = append(rules, rule{Topology: nodescaler.Topology{Key: Text(t.TopologyKey), Together: true}})
	}
	slices.Sort(each)
	of := unique.Make(PodTerm{all.String(), spaces(strings.Join(slices.Compact(each), ";"))})
	for i := range rules {
		rules[i].Of = of
	}
	return rules
}

// spreads reads a pod's spread constraints, the required or the preferred ones.
func spreads(p *corev1.Pod, how corev1.UnsatisfiableConstraintAction) (rules []rule) {
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if c.WhenUnsatisfiable != how || err != nil {
			continue
		}
		within := spaces(p.Namespace)
		if c.LabelSelector == nil {
			// It counts no pod, so that of its rule there is left that a node has the label. Every
			// node has a host name, and a preference for labelled nodes is not read.
			if how != corev1.DoNotSchedule || c.TopologyKey == nodescaler.HostLabel {
				continue
			}
			selector, within = labels.Everything(), noNamespace
		}
		for _, key := range c.MatchLabelKeys {
			if value, has := p.Labels[key]; has {
				if same, err := labels.NewRequirement(key, selection.In, []string{value}); err == nil {
					selector = selector.Add(*same)
				}
			}
		}
		r := rule{unique.Make(PodTerm{selector.String(), within}), nodescaler.Topology{Key: Text(c.TopologyKey), Skew: int(c.MaxSkew)}}
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
	Weight int
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
			mark := unique.Make(PodTerm{selector.String(), within})
			all = append(all, preference{rule{mark, nodescaler.Topology{Key: Text(t.TopologyKey), Together: together}}, int(of[i].Weight)})
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
	return Sorted(has), Sorted(repels)
}

// stays reports whether an init container runs for as long as its pod: a sidecar.
func stays(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Sorted sorts marks, without those that are there twice, and with their text shared.
func Sorted(marks []string) []string {
	for i := range marks {
		marks[i] = Text(marks[i])
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}
