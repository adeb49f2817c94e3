package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// places are all nodes that there are and all pools that nodes may come from. Kubernetes' ways of choosing
// among them are richer than nodescaler's, which knows labels that must be equal; what is richer is put
// into labels that say the same, or less, of every place that there can be.
type places struct {
	all    []corev1.Node   // name and labels
	valued map[string]bool // keys of taints that have a value somewhere
	found  map[string]map[string]string
}

// unborn is the name of nodes that do not exist. It is nobody's, but it is a name: what must have a certain
// name is otherwise taken to match a node without one.
const unborn = "(to be bought)"

func newPlaces(nodes []*node, pools []nodescaler.Pool) *places {
	w := &places{valued: map[string]bool{}, found: map[string]map[string]string{}}
	add := func(name string, labels map[string]string, taints []nodescaler.Taint) {
		w.all = append(w.all, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
		for _, t := range taints {
			if t.Value != "" {
				w.valued[t.Key] = true
			}
		}
	}
	for _, n := range nodes {
		add(n.Name, n.Labels, n.said.Taints)
	}
	for i := range pools {
		add(unborn, pools[i].Labels, pools[i].Taints)
	}
	return w
}

// fill completes what the pod said with what rests on the places there are.
func (w *places) fill(said *nodescaler.Pod, p *pod, volumes map[string]*volume) {
	for _, t := range p.exact {
		if !w.valued[t.Key] { // then every value is the empty one
			said.Tolerations = append(slices.Clip(said.Tolerations), t)
		}
	}
	required, key := []*corev1.NodeSelector{p.required}, p.requires
	for _, claim := range p.claims {
		v := volumes[p.Namespace+"/"+claim]
		if v == nil {
			continue // not bound yet: it will be bound where the pod goes
		}
		if v.local != "" && said.Pinned == "" && !said.Daemon {
			said.Pinned = "local storage: " + v.local
		}
		required, key = append(required, v.required), key+v.requires
	}
	if key != "" {
		said.Selector = w.narrowed(said.Selector, required, key)
	}
	switch {
	case p.lacking != "":
		said.Selector = nowhere(p.lacking)
	case p.neighbours != "" && said.Node != "":
		// A pod that is still to be placed finds what it asks for on a machine of its own. Of one that
		// runs it cannot be foreseen whether another node would do.
		said.Selector = nowhere(p.neighbours)
	}
}

func nowhere(what string) map[string]string { return map[string]string{nodescaler.SelectNowhere: what} }

// narrowed adds to a selector the labels that stand for requirements. What it selects meets them on every
// place there is; it may leave out places that meet them, too.
func (w *places) narrowed(selector map[string]string, required []*corev1.NodeSelector, key string) map[string]string {
	for _, label := range slices.Sorted(maps.Keys(selector)) {
		key += fmt.Sprintf(" %q=%q", label, selector[label])
	}
	if known, ok := w.found[key]; ok {
		return known
	}
	found := maps.Clone(selector)
	if found == nil {
		found = map[string]string{}
	}
	for _, r := range required {
		if found = w.narrow(found, r); found[nodescaler.SelectNowhere] != "" {
			break
		}
	}
	w.found[key] = found
	return found
}

func (w *places) narrow(selector map[string]string, required *corev1.NodeSelector) map[string]string {
	if required == nil {
		return selector
	}
	if labels, ok := equalities(required); ok {
		for key, value := range labels {
			if is, there := selector[key]; there && is != value {
				return nowhere(fmt.Sprintf("a node with label %s both %s and %s", key, is, value))
			}
			selector[key] = value
		}
		return selector
	}
	parsed, err := nodeaffinity.NewNodeSelector(required)
	if err != nil {
		return nowhere("a node by rules that mean nothing")
	}
	var good, bad []*corev1.Node
	for i := range w.all {
		place := &w.all[i]
		switch {
		case !selects(selector, place.Labels):
		case parsed.Match(place):
			good = append(good, place)
		default:
			bad = append(bad, place)
		}
	}
	if len(bad) == 0 && len(good) > 0 {
		return selector
	}
	key, value, ok := common(good, bad)
	if !ok {
		return nowhere("a node by rules that no label stands for")
	}
	selector[key] = value
	return selector
}

// equalities reads requirements that are nothing but labels with one value each.
func equalities(required *corev1.NodeSelector) (map[string]string, bool) {
	if len(required.NodeSelectorTerms) != 1 || len(required.NodeSelectorTerms[0].MatchFields) > 0 {
		return nil, false
	}
	labels := map[string]string{}
	for _, e := range required.NodeSelectorTerms[0].MatchExpressions {
		is, again := labels[e.Key]
		if e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 || again && is != e.Values[0] {
			return nil, false
		}
		labels[e.Key] = e.Values[0]
	}
	return labels, len(labels) > 0 // a term without requirements matches nothing
}

// common finds the label that most of the good places have and none of the bad ones; of several the first
// by name.
func common(good, bad []*corev1.Node) (key, value string, ok bool) {
	type label struct{ key, value string }
	count := map[label]int{}
	for _, n := range good {
		for k, v := range n.Labels {
			count[label{k, v}]++
		}
	}
	for _, n := range bad {
		for k, v := range n.Labels {
			delete(count, label{k, v})
		}
	}
	best := slices.SortedFunc(maps.Keys(count), func(a, b label) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
	})
	if len(best) == 0 {
		return "", "", false
	}
	return best[0].key, best[0].value, true
}

func selects(selector, labels map[string]string) bool {
	for key, want := range selector {
		if got, ok := labels[key]; !ok || got != want {
			return false
		}
	}
	return true
}
