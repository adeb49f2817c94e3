package kube

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

// hamlet is what works in a world's cluster besides us: controllers, a scheduler and kubelets. They
// reach the server without faults.
type hamlet struct {
	*kubesim.Server
	rng  *rand.Rand
	made int
}

func newHamlet(s *kubesim.Server, rng *rand.Rand) *hamlet { return &hamlet{Server: s, rng: rng} }

// services are the Deployments there are, with how many pods are to be ready at least.
var services = map[string]int{"web0": 0, "web1": 1, "web2": 2}

const nodeReady = `{conditions: [{type: Ready, status: "True"}], allocatable: {cpu: "4", memory: 8Gi, pods: "20"}}`

func (h *hamlet) settle() error {
	manifests := []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}",
		"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: placeholder}, value: -10}",
		"{apiVersion: plimsoll.dev/v1alpha1, kind: VMPool, metadata: {name: aa}, spec: {mode: Active}}",
		"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent, namespace: kube-system}, spec: {selector: {matchLabels: {app: agent}}," +
			" template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}}}",
	}
	for range 4 {
		manifests = append(manifests, h.node())
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		manifests = append(manifests, fmt.Sprintf(`
{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: shop, uid: d-%[1]s}, spec: {replicas: 3, selector: {matchLabels: {app: %[1]s}},
  template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: web}]}}}}`, name),
			fmt.Sprintf(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: %[1]s-rs, namespace: shop, uid: r-%[1]s,
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: %[1]s, uid: d-%[1]s, controller: true}]}}`, name),
			fmt.Sprintf(`{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: %[1]s, namespace: shop},
  spec: {mode: Active, rightsize: {mode: InPlace}, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}}}`, name),
			fmt.Sprintf(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: %[1]s, namespace: shop},
  spec: {minAvailable: %[2]d, selector: {matchLabels: {app: %[1]s}}}}`, name, services[name]))
	}
	for _, m := range manifests {
		if err := h.Apply(m); err != nil {
			return err
		}
	}
	return nil
}

// node is the manifest of another node.
func (h *hamlet) node() string {
	h.made++
	return fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: n%[1]d, labels: {plimsoll.dev/pool: aa, kubernetes.io/hostname: n%[1]d}},
  spec: {providerID: "proxmox://home/%[1]d"}, status: %[2]s}`, h.made, nodeReady)
}

// pass has all of them do their work.
func (h *hamlet) pass() {
	h.kubelets()
	for _, name := range slices.Sorted(maps.Keys(services)) {
		h.control(name)
		h.budget(name, services[name])
	}
	if h.rng.IntN(30) == 0 {
		h.churn()
	}
}

// kubelets start pods that have a node, end those that were asked to go, and remove those whose
// node is gone.
func (h *hamlet) kubelets() {
	nodes := map[string]bool{}
	var open []string
	for _, name := range h.Keys("nodes") {
		if nodes[name] = true; spec(h.Get("nodes", name))["unschedulable"] != true {
			open = append(open, name)
		}
	}
	for _, key := range h.Keys("pods") {
		p := h.Get("pods", key)
		node, _ := spec(p)["nodeName"].(string)
		switch {
		case node != "" && !nodes[node], goneBy(p, time.Now()):
			h.Remove("pods", key)
		case node == "" && len(open) > 0:
			h.Change("pods", key, func(raw map[string]any) { spec(raw)["nodeName"] = open[h.rng.IntN(len(open))] })
		case node != "" && !ready(p):
			h.Change("pods", key, func(raw map[string]any) {
				raw["status"] = map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
			})
		}
	}
}

func spec(raw map[string]any) map[string]any {
	is, _ := raw["spec"].(map[string]any)
	return is
}

func metadata(raw map[string]any) map[string]any {
	is, _ := raw["metadata"].(map[string]any)
	return is
}

func leaves(p map[string]any) bool { return metadata(p)["deletionTimestamp"] != nil }

func goneBy(p map[string]any, now time.Time) bool {
	at, _ := metadata(p)["deletionTimestamp"].(string)
	t, err := time.Parse(time.RFC3339, at)
	return err == nil && !now.Before(t)
}

func ready(p map[string]any) bool {
	status, _ := p["status"].(map[string]any)
	return status["conditions"] != nil
}

// of are the keys of an app's pods that stay.
func (h *hamlet) of(app string) (stay []string) {
	for _, key := range h.Keys("pods") {
		p := h.Get("pods", key)
		if is, _ := metadata(p)["labels"].(map[string]any); is["app"] == app && !leaves(p) {
			stay = append(stay, key)
		}
	}
	return stay
}

// control makes as many pods of a Deployment as it asks for.
func (h *hamlet) control(app string) {
	replicas, _ := spec(h.Get("deployments.apps", "shop/"+app))["replicas"].(int64)
	stay := h.of(app)
	for range int(replicas) - len(stay) {
		h.made++
		if err := h.Apply(fmt.Sprintf(`
{apiVersion: v1, kind: Pod, metadata: {name: %[1]s-%[2]d, namespace: shop, labels: {app: %[1]s},
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[1]s-rs, uid: r-%[1]s, controller: true}]},
 spec: {containers: [{name: c, image: web, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}, status: {phase: Pending}}`, app, h.made)); err != nil {
			panic(err)
		}
	}
	for i := range len(stay) - int(replicas) {
		h.asksToGo(stay[i])
	}
}

// asksToGo has a pod leave in a few seconds.
func (h *hamlet) asksToGo(key string) {
	h.Change("pods", key, func(raw map[string]any) {
		metadata(raw)["deletionTimestamp"] = time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339)
		metadata(raw)["deletionGracePeriodSeconds"] = 5
	})
}

// budget computes how many of an app's pods may be disrupted.
func (h *hamlet) budget(app string, least int) {
	allowed := -least
	for _, key := range h.of(app) {
		if ready(h.Get("pods", key)) {
			allowed++
		}
	}
	h.Change("poddisruptionbudgets.policy", "shop/"+app, func(raw map[string]any) {
		raw["status"] = map[string]any{"disruptionsAllowed": max(0, allowed), "observedGeneration": metadata(raw)["generation"]}
	})
}

// churn is what happens in any cluster.
func (h *hamlet) churn() {
	nodes, pods := h.Keys("nodes"), h.Keys("pods")
	switch h.rng.IntN(5) {
	case 0:
		if err := h.Apply(h.node()); err != nil {
			panic(err)
		}
	case 1:
		if len(nodes) > 2 {
			h.Remove("nodes", nodes[h.rng.IntN(len(nodes))])
		}
	case 2:
		if len(pods) > 0 {
			h.asksToGo(pods[h.rng.IntN(len(pods))])
		}
	case 3: // a node says something, as all do all the time
		h.Change("nodes", nodes[h.rng.IntN(len(nodes))], func(raw map[string]any) {
			metadata(raw)["annotations"] = map[string]any{"heard": time.Now().String()}
		})
	case 4:
		if h.rng.IntN(4) == 0 {
			h.Change("deployments.apps", "shop/web0", func(raw map[string]any) { spec(raw)["replicas"] = int64(1 + h.rng.IntN(6)) })
		}
	}
}
