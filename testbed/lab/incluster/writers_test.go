//go:build lab

package incluster

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// In mode Recommend it is said what would be done, and nothing is written but that.
func TestRecommendWritesNothingButWhatItSays(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	w.deployment("web", 1, "700m")
	w.apply(`
apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: Active
  policy: HPA
  minReplicas: 3
  maxReplicas: 8
  runPeriod: 5s
`)
	c := w.start("podscaler,nodescaler", strings.Replace(quick, "mode: Active", "mode: Recommend", 1))
	w.until("it is ready", func() bool { code, _ := c.get(w, "/readyz"); return code == 200 })
	w.until("the autoscaler recommends", func() bool { return w.condition(autoscaler, "Ready") == "True Recommending" })
	w.until("more replicas are wanted", func() bool { return w.number(autoscaler, "status", "desiredReplicas") == 3 })
	w.until("the pool observes", func() bool { return w.condition(poolObject, "Ready") == "True Recommending" })
	w.until("a machine would be bought", func() bool { return w.text(poolObject, "status", "lastPlan", "actions", "0", "kind") == "Buy" })
	w.until("there is an event of it", func() bool { return w.hasEvent("WouldRescale") && w.hasEvent("WouldBuy") })
	time.Sleep(5 * time.Second) // in which it might still do something
	may := []string{"leases", "workloadautoscalers/status", "vmpools/status", "pricebooks/status", "events"}
	for _, r := range w.writes() {
		if !slices.Contains(may, r.What) {
			t.Errorf("it has done: %s %s", r.Verb, r.What)
		}
	}
	for _, call := range w.machines.Cluster().Calls() {
		if strings.HasPrefix(call.User, "plimsoll@pve") && call.Method != "GET" {
			t.Errorf("it has done: %s %s", call.Method, call.Path)
		}
	}
	if n := len(w.pods()); n != 1 {
		t.Errorf("there are %d pods", n)
	}
}

// Whenever a leader is killed the other goes on where it was: no machine is lost or made twice,
// nothing shrinks for it, and never do two write.
func TestLeadersThatAreKilledAreFollowed(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	var running []*child
	for range 2 {
		running = append(running, w.start("podscaler,nodescaler", quick))
	}
	leader := func() int { return slices.IndexFunc(running, func(c *child) bool { return c.leads(w) }) }
	kill := func() {
		w.until("one leads", func() bool { return leader() >= 0 })
		i := leader()
		w.Logf("%6.1fs  %s is killed with %d machines, %d nodes and %d pods", time.Since(w.began).Seconds(), running[i].user, len(w.vms()), len(w.nodes()), w.running())
		running[i].kill()
		running[i] = w.start("podscaler,nodescaler", quick)
	}
	w.until("one leads", func() bool { return leader() >= 0 })
	most := 0
	for round, replicas := range []int{6, 2, 6, 0} {
		need := (replicas + 1) / 2 // machines
		w.deployment("web", replicas, "700m")
		// Somewhere in the middle of it.
		time.Sleep(time.Duration(rand.IntN(6000)) * time.Millisecond)
		kill()
		w.until("there are the pods and the machines that are wanted", func() bool {
			most = max(most, len(w.vms()))
			return w.running() == replicas && len(w.vms()) == need && len(w.nodes()) == need
		})
		if most > 3 {
			t.Fatalf("round %d: there were %d machines, and never more than 3 were needed", round, most)
		}
	}
	w.until("no disc is left", func() bool {
		return !slices.ContainsFunc(w.machines.Cluster().Inventory().Volumes, isDisc)
	})
	w.oneWriter()
}

// oneWriter holds that the writes of two programs never mingle: each leads once, until it is
// killed.
func (w *world) oneWriter() {
	w.Helper()
	var order []string
	for _, r := range w.writes() {
		if r.What == "leases" || r.What == "events" { // written in the background, and harmless
			continue
		}
		if len(order) == 0 || order[len(order)-1] != r.User {
			if slices.Contains(order, r.User) {
				w.Errorf("%s writes again at %s (%s %s), after %s has", r.User, r.At, r.Verb, r.What, order[len(order)-1])
			}
			order = append(order, r.User)
		}
	}
	w.Logf("written by %s", strings.Join(order, ", then "))
}
