//go:build lab

package incluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod that no node can take has its machine's clone asked for in a moment, at any interval of the
// loop. How long it takes is printed; only what is far beyond a second fails, for others use the
// machine too.
func TestPendingPodsHaveTheirCloneAskedForAtOnce(t *testing.T) {
	const rounds, each = 12, 2 // as many clones as may be made on a storage at a time
	const enough = 20
	w := newWorld(t)
	w.apply(prices)
	w.poolUpTo("workers", 2*rounds*each, "  mode: Active")
	// With the interval and the policy that it has by default.
	w.begins("podscaler,nodescaler", "mode: Active\n")
	w.deployment("first", 1, "1100m") // the first step only looks
	w.until("machines are made", func() bool { return w.running() == 1 })
	clock := w.clock()
	before := len(w.clones(clock))
	seen := w.watchPods()
	for i := range rounds {
		w.deployment(fmt.Sprintf("round-%d", i), each, "1100m") // a machine for each
		w.until(fmt.Sprintf("round %d has its clones", i), func() bool { return len(w.clones(clock))-before == (i+1)*each })
		// Until those are made, and at any time of the interval.
		time.Sleep(2*time.Second + time.Duration(rand.IntN(3000))*time.Millisecond)
	}
	clones := w.clones(clock)[before:]
	w.until("all pods run", func() bool { return w.running() == 1+rounds*each })
	created, refused := seen()
	if len(refused) < enough { // a pod may be given to a machine before the watch has seen it wait
		t.Fatalf("%d pods waited, and there should be %d", len(refused), enough)
	}
	fromRefused, fromCreated := spread(refused, clones), spread(created, clones)
	t.Logf("%d pods that waited for a machine: from Unschedulable to the clone call %s; from the pod to the clone call %s", len(refused), fromRefused, fromCreated)
	if p95 := fromRefused.at(.95); p95 > 5*time.Second {
		t.Errorf("p95 is %s", p95)
	}
}

// clock translates the emulator's time into that of the wall.
func (w *world) clock() func(time.Time) time.Time {
	theirs, ours := w.machines.Cluster().Now(), time.Now()
	return func(at time.Time) time.Time {
		return ours.Add(time.Duration(float64(at.Sub(theirs)) / w.machines.Speed))
	}
}

// clones are the times at which clones were asked for.
func (w *world) clones(clock func(time.Time) time.Time) []time.Time {
	var all []time.Time
	for _, call := range w.machines.Cluster().Calls() {
		if call.Method == "POST" && strings.HasSuffix(call.Path, "/clone") && call.Status == 200 {
			all = append(all, clock(call.At))
		}
	}
	return all
}

// watchPods notes when pods come, and when they are found to be unschedulable, until it is asked.
func (w *world) watchPods() func() (created, refused []time.Time) {
	w.Helper()
	list, err := w.client.CoreV1().Pods("shop").List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	watch, err := w.client.CoreV1().Pods("shop").Watch(w.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		w.Fatal(err)
	}
	came, waits := map[types.UID]time.Time{}, map[types.UID]time.Time{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range watch.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if came[p.UID].IsZero() {
				came[p.UID] = time.Now()
			}
			if waits[p.UID].IsZero() && unschedulable(p) {
				waits[p.UID] = time.Now()
			}
		}
	}()
	return func() (created, refused []time.Time) {
		watch.Stop()
		<-ended
		for uid, at := range waits {
			created, refused = append(created, came[uid]), append(refused, at)
		}
		slices.SortFunc(created, time.Time.Compare)
		slices.SortFunc(refused, time.Time.Compare)
		return created, refused
	}
}

func unschedulable(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// latencies are in order.
type latencies []time.Duration

// spread is how long after each of some things, in order, that came which followed.
func spread(from, to []time.Time) latencies {
	all := make(latencies, 0, len(from))
	next := 0
	for _, at := range from {
		// A clone of an earlier round is that of a pod which was not seen.
		for next < len(to)-1 && to[next].Before(at.Add(-time.Second)) {
			next++
		}
		all = append(all, to[next].Sub(at))
		next = min(next+1, len(to)-1)
	}
	slices.Sort(all)
	return all
}

// at is a quantile, the nearest rank.
func (l latencies) at(q float64) time.Duration {
	return l[min(len(l)-1, max(0, int(float64(len(l))*q+.999999)-1))]
}

func (l latencies) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("p50 %s, p95 %s, at most %s", ms(l.at(.5)), ms(l.at(.95)), ms(l[len(l)-1]))
}
