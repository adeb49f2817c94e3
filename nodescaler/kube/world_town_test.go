package kube

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

// hamlet is a world's cluster: what works there, and what people do.
type hamlet struct {
	*kubesim.Town
	rng  *rand.Rand
	made int // nodes
}

func newHamlet(s *kubesim.Server, rng *rand.Rand) *hamlet {
	return &hamlet{Town: kubesim.NewTown(s, rng), rng: rng}
}

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
  template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: web, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}}}}`, name),
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
func (h *hamlet) pass() error {
	if h.rng.IntN(30) == 0 {
		h.churn()
	}
	return h.Pass()
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
			h.AskToGo(pods[h.rng.IntN(len(pods))])
		}
	case 3: // a node says something, as all do all the time
		if len(nodes) > 0 {
			h.Change("nodes", nodes[h.rng.IntN(len(nodes))], func(raw map[string]any) {
				metadata(raw)["annotations"] = map[string]any{"heard": time.Now().String()}
			})
		}
	case 4:
		if h.rng.IntN(4) == 0 {
			h.Change("deployments.apps", "shop/web0", func(raw map[string]any) { spec(raw)["replicas"] = int64(1 + h.rng.IntN(6)) })
		}
	}
}
