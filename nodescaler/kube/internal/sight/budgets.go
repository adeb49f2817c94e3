package sight

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/podscaler"
)

// budgets computes how many pods of each workload may be evicted now.
//
//   - Of several budgets on parts of a workload, the least counts for all of it.
//   - A budget that several workloads share allows each of them one eviction at a time, if it
//     allows any. The API server decides which comes first.
//   - A pod that waits for its containers may always be evicted, and one that is not ready where
//     its budget says so, or others are healthy enough.
//   - A pod that two budgets cover can never be evicted, because the API server refuses to choose.
//     It is pinned.
//
// The pods are those that were kept, and what is said of them, in the same order.
func budgets(all []*kept.Disruption, pods []*kept.Pod, said []nodescaler.Pod) []nodescaler.Budget {
	covering := newCovers(all)
	shared := make([]map[string]bool, len(all)) // the workloads of the pods that a budget covers
	var by []int
	var of *kept.Pod // whose budgets they are
	var last string  // its workload
	for i, p := range pods {
		if said[i].Daemon {
			continue
		}
		another := of == nil || !p.Alike(of)
		if another {
			by = covering.of(p, by[:0])
		}
		another = another || said[i].Workload != last
		of, last = p, said[i].Workload
		if len(by) > 1 && said[i].Pinned == "" {
			said[i].Pinned = fmt.Sprintf("covered by two disruption budgets, %s and %s: the API server evicts no such pod", all[by[0]].Name, all[by[1]].Name)
		}
		if len(by) == 1 {
			said[i].Unbudgeted = said[i].Phase == podscaler.Pending || !said[i].Ready && all[by[0]].Unready
		}
		if !another {
			continue
		}
		for _, b := range by {
			if shared[b] == nil {
				shared[b] = map[string]bool{}
			}
			if last != "" {
				shared[b][last] = true
			}
		}
	}
	return allowed(all, shared)
}

// allowed is how many pods of each workload may be evicted by the budgets, whose workloads are
// known.
func allowed(all []*kept.Disruption, shared []map[string]bool) []nodescaler.Budget {
	allowed := map[string]int{}
	for b, d := range all {
		n := d.Allowed
		if len(shared[b]) > 1 {
			n = min(n, 1)
		}
		for workload := range shared[b] {
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

// covers finds the budgets of a pod. Most budgets ask for one value of some label: only those that
// ask for one of the pod's are compared with it, and those that ask for none.
type covers struct {
	all   []*kept.Disruption
	asks  map[requiring][]int
	other map[string][]int // by namespace
}

type requiring struct{ namespace, key, value string }

func newCovers(all []*kept.Disruption) *covers {
	c := &covers{all, map[requiring][]int{}, map[string][]int{}}
	for i, d := range all {
		if key, value, asks := required(d.Selector); asks {
			l := requiring{d.Namespace, key, value}
			c.asks[l] = append(c.asks[l], i)
		} else {
			c.other[d.Namespace] = append(c.other[d.Namespace], i)
		}
	}
	return c
}

// required is a label that all that a selector matches have, if there is one.
func required(s labels.Selector) (key, value string, asks bool) {
	requirements, _ := s.Requirements()
	for i := range requirements {
		r := &requirements[i]
		op := r.Operator()
		if values := r.ValuesUnsorted(); len(values) == 1 && (op == selection.In || op == selection.Equals || op == selection.DoubleEquals) {
			return r.Key(), values[0], true
		}
	}
	return "", "", false
}

// of appends the places of the budgets that cover a pod, in their order.
func (c *covers) of(p *kept.Pod, by []int) []int {
	if len(c.all) == 0 {
		return by
	}
	match := func(places []int) {
		for _, i := range places {
			if c.all[i].Selector.Matches(labels.Set(p.Labels)) {
				by = append(by, i)
			}
		}
	}
	match(c.other[p.Namespace])
	for key, value := range p.Labels {
		match(c.asks[requiring{p.Namespace, key, value}])
	}
	slices.Sort(by)
	return by
}
