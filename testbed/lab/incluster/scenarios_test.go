//go:build lab

package incluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// atLeast is an autoscaler that keeps web between bounds, and measures nothing.
func (w *world) atLeast(least, most int) {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: Active
  policy: HPA
  minReplicas: %d
  maxReplicas: %d
  runPeriod: 5s
`, least, most))
}

// ours counts the writes of our programs to scales.
func (w *world) ours() int {
	n := 0
	for _, r := range w.writes() {
		if r.What == "deployments/scale" {
			n++
		}
	}
	return n
}

// kubectlScale scales web by hand, as an administrator would.
func (w *world) kubectlScale(replicas int) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := w.client.AppsV1().Deployments("shop").Patch(w.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-scale"}, "scale"); err != nil {
		w.Fatal(err)
	}
}

func TestScenario38ConflictAndForeignWrites(t *testing.T) {
	w := newWorld(t)
	w.deployment("web", 1, "100m")
	w.atLeast(4, 8)
	w.start("podscaler", "mode: Active\ninterval: 1s\n")
	w.until("it scales", func() bool { return w.replicas() == 4 })

	const rival = `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {minReplicas: 1, maxReplicas: 9,
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`
	w.apply(rival)
	w.until("the other autoscaler is seen", func() bool { return w.condition(autoscaler, "Conflicted") == "True ForeignAutoscaler" })
	before := w.ours()
	w.atLeast(6, 8)
	w.until("more is recommended", func() bool { return w.number(autoscaler, "status", "desiredReplicas") == 6 })
	w.stays(10*time.Second, "4 replicas, which nobody changed", func() bool { return w.replicas() == 4 })
	if n := w.ours() - before; n > 0 {
		t.Errorf("it wrote %d times beside another autoscaler", n)
	}
	w.delete(rival)
	w.until("it goes on when that is gone", func() bool { return w.replicas() == 6 })

	for i := range 3 {
		w.kubectlScale(5)
		if i < 2 {
			w.until("it is set right again", func() bool { return w.replicas() == 6 })
		}
	}
	w.until("it gives in", func() bool { return w.condition(autoscaler, "Conflicted") == "True ForeignWrites" })
	w.until("there is an event of it", func() bool { return w.hasEvent("ForeignWrites") })
	before = w.ours()
	w.stays(10*time.Second, "5 replicas, as somebody wants it", func() bool { return w.replicas() == 5 })
	if n := w.ours() - before; n > 0 || w.number(autoscaler, "status", "desiredReplicas") != 6 {
		t.Errorf("it wrote %d times against somebody who keeps writing, and recommends %d", n, w.number(autoscaler, "status", "desiredReplicas"))
	}
}

// What it would do is shown by TestRecommendWritesNothingButWhatItSays.
func TestScenario40PauseAndExplain(t *testing.T) {
	w := newWorld(t)
	w.deployment("web", 1, "100m")
	w.atLeast(4, 8)
	c := w.start("podscaler", "mode: Active\ninterval: 1s\n")
	w.until("it scales", func() bool { return w.replicas() == 4 })
	w.plimsoll("pause", "web", "-n", "shop")
	w.until("it is paused", func() bool { return strings.HasPrefix(w.condition(autoscaler, "Paused"), "True") })
	w.atLeast(6, 8)
	w.until("more is recommended", func() bool { return w.number(autoscaler, "status", "desiredReplicas") == 6 })
	w.stays(10*time.Second, "4 replicas while it is paused", func() bool { return w.replicas() == 4 })
	w.plimsoll("pause", "web", "-n", "shop", "--direction", "down")
	w.until("it grows when only shrinking is paused", func() bool { return w.replicas() == 6 })
	w.atLeast(1, 3)
	w.until("that there are too many is said", func() bool { return w.condition(autoscaler, "ScalingLimited") == "True TooManyReplicas" })
	w.stays(10*time.Second, "6 replicas while shrinking is paused", func() bool { return w.replicas() == 6 })
	w.plimsoll("resume", "web", "-n", "shop")
	w.until("it shrinks when nothing is paused", func() bool { return w.replicas() == 3 })

	w.plimsoll("pause", "web", "-n", "shop", "--replicas", "5")
	w.until("it has the number that it is fixed at, whatever its bounds", func() bool { return w.replicas() == 5 })
	w.plimsoll("resume", "web", "-n", "shop")
	w.until("it is within its bounds again", func() bool { return w.replicas() == 3 })

	said := w.plimsoll("explain", "web", "-n", "shop")
	if !strings.Contains(said, "TooManyReplicas") && !strings.Contains(said, "5 to 3") {
		t.Errorf("explain says of a workload:\n%s", said)
	}
	said = w.plimsoll("explain", c.lastDecision(w), "--journal", c.journal())
	if !strings.Contains(said, "web") || !strings.Contains(said, "3") {
		t.Errorf("explain says of a step:\n%s", said)
	}
	if top := w.plimsoll("top", "--url", "http://"+c.page); !strings.Contains(top, "shop/web") {
		t.Errorf("top, of the page that it serves:\n%s", top)
	}
}

// plimsoll runs another verb of the binary, and returns what it prints.
func (w *world) plimsoll(args ...string) string {
	w.Helper()
	return labtest.Verb(w, w.binary, w.lab.Kubeconfig(), args...)
}

// journal is the file that the program's steps are in.
func (c *child) journal() string { return filepath.Join(filepath.Dir(c.log.Name()), "journal.ndjson") }

// steps are those in the program's journal.
func (c *child) steps(w *world) []loop.Step {
	w.Helper()
	f := must.Get(os.Open(c.journal()))(w)
	defer f.Close() //nolint:errcheck // it was read
	var all []loop.Step
	for d := json.NewDecoder(f); ; {
		var s loop.Step
		switch err := d.Decode(&s); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			// At the end, or at a line that is being written.
			return all
		case err != nil:
			w.Fatal(err)
		}
		all = append(all, s)
	}
}

// lastDecision is the last step that changed replicas.
func (c *child) lastDecision(w *world) string {
	w.Helper()
	id := ""
	for _, s := range c.steps(w) {
		for _, ws := range s.Workloads {
			if d := ws.Decision; d != nil && d.To != d.From && ws.Held == nil {
				id = s.ID
			}
		}
	}
	return id
}

// Of a machine that goes nothing is left, and no other gets its name or, for a while, its VMID. A
// node's password, which RKE2 keeps by its name, goes with the Node by RKE2's own doing.
func TestScenario43NothingIsLeftOfAMachine(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	w.start("podscaler,nodescaler", quick)
	used := map[string]bool{}
	for range 3 {
		w.deployment("web", 1, "700m")
		w.until("the pod runs", func() bool { return w.running() == 1 })
		v, n := w.vms()[0], w.nodes()[0]
		name, vmid := v.Config["name"], fmt.Sprint(v.ID)
		if used[name] || used[vmid] {
			t.Errorf("machine %s has a name or a VMID, %s, that was another's", name, vmid)
		}
		used[name], used[vmid] = true, true
		if uuid, _, _ := strings.Cut(strings.TrimPrefix(v.Config["smbios1"], "uuid="), ","); n.Name != name || !strings.HasSuffix(n.Spec.ProviderID, uuid) {
			t.Errorf("machine %s of UUID %s became node %s of provider ID %s", name, uuid, n.Name, n.Spec.ProviderID)
		}
		w.deployment("web", 0, "700m")
		w.until("machine, node and disc are gone", func() bool {
			return len(w.vms()) == 0 && len(w.nodes()) == 0 && !slices.ContainsFunc(w.machines.Cluster().Inventory().Volumes, isDisc)
		})
	}
}

// Machines that come up and never join are removed, with what may say why, and no more are ordered.
func TestScenario45MachinesThatNeverJoin(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	wrong := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(wrong, []byte("K10lab::server:wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.site.Pools[0].Join.TokenFile = wrong
	w.pool("workers", "  joinTimeout: 10s\n  maxFailures: 1\n  mode: Active")
	w.start("podscaler,nodescaler", quick)
	w.deployment("web", 1, "700m")
	w.until("a machine is made", func() bool { return len(w.vms()) == 1 })
	w.until("it is found not to join, and reported", func() bool { return w.hasEvent("MachineFailed") })
	w.until("the pool is paused", func() bool { return w.condition(poolObject, "Ready") == "False PoolPaused" })
	w.until("it is gone", func() bool { return len(w.vms()) == 0 })
	w.stays(10*time.Second, "no further machines", func() bool { return len(w.vms()) == 0 })
	list := must.Get(w.client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{}))(t)
	hints := slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Reason == "MachineFailed" && (strings.Contains(e.Note, "agent") || strings.Contains(e.Note, "last task"))
	})
	if !hints {
		t.Error("nothing is reported of what the machine's agent shows")
	}
}

// What must not be moved keeps its node, and the step says so.
func TestScenario47PodsThatKeepTheirNode(t *testing.T) {
	kept := []struct{ name, owner, annotation, volumes, why string }{
		{"guarded", "Deployment", "", "", "BudgetExhausted"},
		{"marked", "Deployment", `plimsoll.dev/do-not-evict: "true"`, "", "PodPinned"},
		{"bare", "", "", "", "PodPinned"},
		{"storing", "Deployment", "", "volumes: [{name: data, emptyDir: {}}]", "PodPinned"},
	}
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	c := w.start("podscaler,nodescaler", quick)
	w.apply(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: guarded}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: guarded}}}}`)
	w.deployment("web", len(kept)+1, "1100m") // one to a node, and one node for none
	w.until("there is a node for each", func() bool { return len(w.nodes()) == len(kept)+1 && w.running() == len(kept)+1 })
	where := map[string]string{} // nodes, by what keeps them
	for i, k := range kept {
		where[k.name] = w.nodes()[i].Name
		pod := fmt.Sprintf(`{metadata: {labels: {app: %[1]s}, annotations: {%[2]s}}, spec: {nodeName: %[3]s, terminationGracePeriodSeconds: 1, containers: [{name: a, image: a, resources: {requests: {cpu: 100m, memory: 64Mi}}}], %[4]s}}`,
			k.name, k.annotation, where[k.name], k.volumes)
		if k.owner == "" {
			w.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: %[1]s}}, spec: {nodeName: %s, containers: [{name: a, image: a, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}}`, k.name, where[k.name]))
		} else {
			w.apply(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {replicas: 1, selector: {matchLabels: {app: %[1]s}}, template: %s}}`, k.name, pod))
		}
	}
	w.until("all pods run", func() bool { return w.running() == 2*len(kept)+1 })
	w.deployment("web", 0, "1100m")
	w.until("the node that nothing keeps is gone", func() bool { return len(w.nodes()) == len(kept) })
	pods := w.podNames()
	w.stays(20*time.Second, "the four nodes, and their pods", func() bool { return len(w.nodes()) == len(kept) && w.podNames() == pods })
	why := map[string]string{}
	for _, s := range c.steps(w) {
		for _, r := range s.Plan.Reasons {
			for _, k := range kept {
				if strings.Contains(r.Text, where[k.name]) && strings.Contains(r.Text, k.name) {
					why[k.name] = r.Code
				}
			}
		}
	}
	for _, k := range kept {
		if why[k.name] != k.why {
			t.Errorf("node %s is kept by pod %s for %q, want %q", where[k.name], k.name, why[k.name], k.why)
		}
	}
}

// podNames are the names of all pods, in order.
func (w *world) podNames() string {
	w.Helper()
	var all []string
	for _, p := range w.pods() {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			all = append(all, p.Name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
