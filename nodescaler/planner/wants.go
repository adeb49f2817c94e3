package planner

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
)

// want is a pod to be placed, and the name of its item in the packing.
type want struct {
	item     string
	pod      *nodescaler.Pod
	expected bool // and no more than that
	// with are pods that share a node with it, and its item.
	with []*nodescaler.Pod
	// room is the headroom that it is of; nil for a pod that waits or is expected.
	room *nodescaler.HeadroomState
}

// name is that of the pod, or of the item where there is no pod yet.
func (w *want) name() string { return cmp.Or(w.pod.Name, w.item) }

// all are its pods, each as the item is placed.
func (w *want) all() []*nodescaler.Pod {
	all := []*nodescaler.Pod{w.pod}
	for _, p := range w.with {
		like := *w.pod
		like.Name, like.Workload = p.Name, p.Workload
		all = append(all, &like)
	}
	return all
}

// bundle is what a machine is bought for.
type bundle struct {
	pods  []*nodescaler.Pod
	names []string          // of all pods, those included that share a node with one of them
	asked []*nodescaler.Pod // those of them that are more than expected
	used  nodescaler.Used
	rooms []*want // those that are headroom
}

func (b *bundle) add(w *want) {
	b.pods, b.used = append(b.pods, w.pod), b.used.With(w.pod)
	b.used.Pods += len(w.with)
	if len(w.with) == 0 {
		b.names = append(b.names, w.item)
	} else {
		b.names = append(b.names, draft.PodNames(w.all())...)
	}
	if w.room != nil {
		b.rooms = append(b.rooms, w)
	}
	if !w.expected {
		b.asked = append(b.asked, w.all()...)
	}
}

// code says whether anything of it waits or is decided on, or all is only expected, or headroom.
func (b *bundle) code() string {
	switch {
	case len(b.asked) > 0:
		return nodescaler.PodsPending
	case len(b.rooms) > 0:
		return nodescaler.HeadroomWanted
	}
	return nodescaler.PodsExpected
}

// because says what it is bought for.
func (b *bundle) because(items []string) nodescaler.Reason {
	what := "pod"
	if b.code() == nodescaler.PodsExpected {
		what = "expected pod"
	}
	return draft.Because(b.code(), "no node has room for %s with requests of %s", draft.Some(what, items), nodescaler.Amount(b.used.Requests))
}

// demand is the pods that machines are ordered for.
type demand struct{ *turn }

// list is the pods to be placed, those that are decided on and do not exist yet included, by
// the name of their item.
func (t *demand) list() []want {
	admitted := t.Admit()
	wants := make([]want, 0, len(admitted.Pending))
	var cheap, young []string
	delay := time.Duration(t.rules.NewPodScaleUpDelay)
	for _, p := range admitted.Pending {
		switch {
		case t.rules.expendable(p):
			cheap = append(cheap, p.Name)
			t.Park(p, "a higher priority of the pod, or a lower expendablePodsPriorityCutoff of the node policy", draft.Because(nodescaler.PodExpendable,
				"its priority of %d is below %d, and no machine is ordered for such pods", p.Priority, t.rules.ExpendablePodsPriorityCutoff))
		// without a delay, a clock that is behind the API server's delays nothing
		case delay > 0 && t.X.Now.Sub(p.Created) < delay:
			young = append(young, p.Name)
		default:
			wants = append(wants, want{item: p.Name, pod: p})
		}
	}
	wants, cheap = t.future(admitted.Future, wants, cheap)
	byItem := func(a, b want) int { return strings.Compare(a.item, b.item) }
	// they are sorted if workloads come in the order of their names and no pod waits
	if !slices.IsSortedFunc(wants, byItem) {
		slices.SortFunc(wants, byItem)
	}
	if len(cheap) > 0 {
		t.Note(nodescaler.PodExpendable, "no machine is ordered for %s of a priority below %d", draft.Some("pod", cheap), t.rules.ExpendablePodsPriorityCutoff)
	}
	if len(young) > 0 {
		t.Note(nodescaler.PodTooYoung, "no machine is ordered yet for %s that wait for less than %s", draft.Some("pod", young), t.rules.NewPodScaleUpDelay)
	}
	return wants
}

// future adds the pods that do not exist yet to those that are wanted, or to those for which
// nothing is ordered.
func (t *demand) future(future []nodescaler.Future, wants []want, cheap []string) ([]want, []string) {
	named := map[string]int{} // items by workload
	counts := t.few(future)
	for i := range future {
		f, count := &future[i], counts[i]
		if t.rules.expendable(&f.Like) {
			cheap = append(cheap, slices.Repeat([]string{f.Like.Workload}, count)...)
			continue
		}
		before := named[f.Like.Workload]
		named[f.Like.Workload] += count
		for n := range numbers(before + count) {
			if n > before {
				wants = append(wants, want{item: f.Like.Workload + "+" + strconv.Itoa(n), pod: &f.Like, expected: n-before > f.Count})
			}
		}
	}
	return wants, cheap
}

// few is how many replicas of each workload that is to have more are looked at: no more of each,
// and of all together, than all machines that may be could carry. Each is placed by itself, and a
// million may be asked for.
func (t *demand) few(future []nodescaler.Future) []int {
	const always = 1000 // so many are looked at without asking how many there is room for
	counts, all := make([]int, len(future)), 0
	for i := range future {
		counts[i] = max(future[i].Count, 0)
		if t.rules.CapacityBufferPodInjectionEnabled {
			counts[i] += max(future[i].Ahead, 0)
		}
		all = min(all+counts[i], math.MaxInt32)
	}
	if all <= always {
		return counts
	}
	type kind struct {
		class, extra string
		requests     pricing.Resources
	}
	rooms, most := map[kind]int{}, 0
	few := make([]int, len(future))
	for i := range future {
		like := &future[i].Like
		k := kind{nodescaler.Class(like), like.Extra.Key(), like.Requests}
		if _, known := rooms[k]; !known {
			rooms[k] = t.X.Most(like)
		}
		// one more says why there are no more
		few[i], most = min(counts[i], rooms[k]+1), max(most, rooms[k])
	}
	few = nodescaler.Few(few, most)
	cut := draft.Findings{}
	for i, n := range few {
		if n < counts[i] {
			t.TooMany(&future[i].Like)
			cut.Add(nodescaler.BeyondAllPools, "%d replicas of %s are to come; machines are planned for %d, for all that may be carry no more", counts[i], future[i].Like.Workload, n)
		}
	}
	t.Conclude(cut, "workload")
	return few
}

// numbers is 1 to n in the order that they have as text: 1, 10, 11, 12, 2, 3. To sort thousands
// of names takes as long as many a packing.
func numbers(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, k := 0, 1; i < n && yield(k); i++ {
			if k*10 <= n {
				k *= 10
				continue
			}
			for k == n || k%10 == 9 {
				k /= 10
			}
			k++
		}
	}
}
