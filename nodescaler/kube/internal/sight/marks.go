package sight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// marker finds the marks by which pods refuse each other, of all pods that there are.
type marker struct {
	within map[string]*marks // by namespace
	every  marks             // of all namespaces
	names  map[unique.Handle[kept.PodTerm]]string
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

func readTerm(t *kept.PodTerm) (podMark, bool) {
	selector, err := labels.Parse(t.Selector)
	return podMark{kept.Text(fmt.Sprintf("labels %s in %s", cmp.Or(t.Selector, "of any kind"), t.Spaces)), selector}, err == nil
}

// newMarker reads the terms of all pods, and of those that DaemonSets will make, with the
// namespaces whose labels are known.
func newMarker(pods []*kept.Pod, sets []*kept.DaemonSet, known []*metav1.PartialObjectMetadata) *marker {
	m := &marker{within: map[string]*marks{}, names: map[unique.Handle[kept.PodTerm]]string{}, labels: map[string]labels.Set{}}
	m.wishes = &marker{within: map[string]*marks{}, names: map[unique.Handle[kept.PodTerm]]string{}, labels: m.labels}
	for i, p := range pods {
		if i == 0 || p.Namespace != pods[i-1].Namespace {
			m.labels[p.Namespace] = nil
		}
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
		m.read(d.Like)
	}
	return m
}

func (m *marker) read(p *kept.Pod) {
	for _, h := range p.Apart {
		m.add(h)
	}
	for i := range p.Rules {
		m.add(p.Rules[i].Of)
	}
	for i := range p.Prefers {
		m.wishes.add(p.Prefers[i].Of)
	}
}

func (m *marker) add(h unique.Handle[kept.PodTerm]) {
	if _, known := m.names[h]; known {
		return
	}
	t := h.Value()
	is, ok := readTerm(&t)
	if !ok {
		return
	}
	if m.names[h] = is.name; t.Spaces == "" {
		m.every.add(is)
		return
	}
	in := []string{string(t.Spaces)} // most are one namespace's
	if strings.ContainsAny(in[0], ",|;") {
		in = t.Spaces.Among(m.labels)
	}
	for _, namespace := range in {
		if m.within[namespace] == nil {
			m.within[namespace] = &marks{}
		}
		m.within[namespace].add(is)
	}
}

// fill adds what the pod has and repels by its labels and terms to its ports.
func (m *marker) fill(said *nodescaler.Pod, p *kept.Pod) {
	var repels []string
	has := m.every.of(m.within[p.Namespace].of(nil, p.Labels), p.Labels)
	for _, h := range p.Apart {
		if name := m.names[h]; name != "" {
			repels = append(repels, name)
		}
	}
	for i := range p.Rules {
		r := p.Rules[i].Topology
		if m.blind && r.Together && !said.Daemon && p.Rules[i].Of.Value().Spaces.ByLabels() {
			said.Another = nil
			said.Selector = kept.Nowhere("a node beside pods of namespaces with certain labels, which are not known",
				"the right to list namespaces, for Plimsoll")
		}
		if r.Mark = m.names[p.Rules[i].Of]; r.Mark != "" {
			said.Topology = append(slices.Clip(said.Topology), r)
		}
	}
	said.Noted = kept.Sorted(m.wishes.every.of(m.wishes.within[p.Namespace].of(nil, p.Labels), p.Labels))
	for i := range p.Prefers {
		w := nodescaler.Preference{Weight: p.Prefers[i].Weight, Rule: p.Prefers[i].Topology}
		if w.Rule.Mark = m.wishes.names[p.Prefers[i].Of]; w.Rule.Mark != "" {
			said.Prefers = append(slices.Clip(said.Prefers), w)
		}
	}
	if len(has) > 0 {
		said.Has = kept.Sorted(append(has, p.Form.Has...))
	}
	if len(repels) > 0 {
		said.Repels = kept.Sorted(append(repels, p.Form.Repels...))
	}
}
