package kube

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// budgets computes how many pods of each workload may be evicted now.
//
//   - Of several budgets on parts of a workload, the least counts for all of it.
//   - A budget that several workloads share allows each of them one eviction at a time, if it
//     allows any. The API server decides which comes first.
//   - A pod that two budgets cover can never be evicted, because the API server refuses to choose.
//     It is pinned.
//
// The pods are those that were kept, and what is said of them, in the same order.
func budgets(all []*disruption, kept []*pod, said []nodescaler.Pod) []nodescaler.Budget {
	within := map[string][]int{} // pods that can be evicted, by the namespaces that have budgets
	for _, d := range all {
		within[d.Namespace] = nil
	}
	for i, p := range kept {
		if at, ok := within[p.Namespace]; ok && !said[i].Daemon {
			within[p.Namespace] = append(at, i)
		}
	}
	allowed := map[string]int{}
	covers := map[int]string{}
	for _, d := range all {
		shared := map[string]bool{}
		for _, i := range within[d.Namespace] {
			if !d.selector.Matches(labels.Set(kept[i].Labels)) {
				continue
			}
			if other, twice := covers[i]; twice && said[i].Pinned == "" {
				said[i].Pinned = fmt.Sprintf("covered by two disruption budgets, %s and %s: the API server evicts no such pod", other, d.Name)
			}
			covers[i] = d.Name
			if said[i].Workload != "" {
				shared[said[i].Workload] = true
			}
		}
		n := d.allowed
		if len(shared) > 1 {
			n = min(n, 1)
		}
		for workload := range shared {
			if least, ok := allowed[workload]; !ok || n < least {
				allowed[workload] = n
			}
		}
	}
	list := make([]nodescaler.Budget, 0, len(allowed))
	for workload, n := range allowed {
		list = append(list, nodescaler.Budget{Workload: workload, Allowed: n})
	}
	slices.SortFunc(list, func(a, b nodescaler.Budget) int { return strings.Compare(a.Workload, b.Workload) })
	return list
}
