package sight

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// inOrder returns the pods in the order of their names, with their namespaces as one word: that is
// how they are looked up. Most were sorted before and go to the place that they had. To sort all of
// 30,000 at each look takes as long as to read them.
func inOrder(all []*kept.Pod) []*kept.Pod {
	byName := func(a, b *kept.Pod) int { return strings.Compare(a.Said.Name, b.Said.Name) }
	places := make([]*kept.Pod, 2*len(all)) // pods that are gone leave theirs empty
	var others []*kept.Pod
	for _, p := range all {
		if i := int(p.Place.Load()) - 1; i >= 0 && i < len(places) && places[i] == nil {
			places[i] = p
		} else {
			others = append(others, p)
		}
	}
	places = slices.DeleteFunc(places, func(p *kept.Pod) bool { return p == nil })
	if !slices.IsSortedFunc(places, byName) { // another look has sorted them meanwhile
		slices.SortFunc(places, byName)
	}
	slices.SortFunc(others, byName)
	sorted := all[:0]
	for _, p := range places {
		for len(others) > 0 && byName(others[0], p) < 0 {
			sorted, others = append(sorted, others[0]), others[1:]
		}
		sorted = append(sorted, p)
	}
	sorted = append(sorted, others...)
	for i, p := range sorted {
		if is := int32(i + 1); p.Place.Load() != is {
			p.Place.Store(is)
		}
	}
	return sorted
}
