package kubesim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// Town is what works in a cluster besides its clients: controllers of Deployments and of disruption
// budgets, a scheduler and kubelets. They reach the server without faults. It is far simpler than
// Kubernetes: a node has room for podsPerNode pods, and a pod is ready a pass after it has a node.
type Town struct {
	*Server
	rng  *rand.Rand
	made int
}

const podsPerNode = 20

// NewTown makes a town.
func NewTown(s *Server, rng *rand.Rand) *Town { return &Town{Server: s, rng: rng} }

// Pass has all of them do their work, once.
func (t *Town) Pass() error {
	t.kubelets()
	for _, key := range t.Keys("deployments.apps") {
		if err := t.control(key); err != nil {
			return err
		}
	}
	for _, key := range t.Keys("poddisruptionbudgets.policy") {
		t.budget(key)
	}
	return nil
}

// kubelets start pods that have a node, and remove those that were asked to go or whose node is
// gone. The scheduler works between.
func (t *Town) kubelets() {
	free := map[string]int{}
	there := map[string]bool{}
	var open []string
	for _, name := range t.Keys("nodes") {
		there[name], free[name] = true, podsPerNode
		if at(t.Get("nodes", name), "spec")["unschedulable"] != true {
			open = append(open, name)
		}
	}
	for _, key := range t.Keys("pods") {
		p := t.Get("pods", key)
		node, _ := at(p, "spec")["nodeName"].(string)
		free[node]--
		switch {
		case node != "" && !there[node], gone(p, time.Now()):
			t.Remove("pods", key)
		case node == "":
			t.schedule(key, open, free)
		case !serving(p):
			t.Change("pods", key, func(raw map[string]any) { raw["status"] = conditions("Running", "Ready", "True", "") })
		}
	}
}

// schedule gives a pod a node, or says that it has no place.
func (t *Town) schedule(key string, open []string, free map[string]int) {
	for range open {
		if node := open[t.rng.IntN(len(open))]; free[node] > 0 {
			free[node]--
			t.Change("pods", key, func(raw map[string]any) { specOf(raw)["nodeName"] = node })
			return
		}
	}
	t.Change("pods", key, func(raw map[string]any) {
		raw["status"] = conditions("Pending", "PodScheduled", "False", "Unschedulable")
	})
}

func conditions(phase, kind, is, why string) map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	return map[string]any{
		"phase": phase, "startTime": now, "conditions": []any{map[string]any{"type": kind, "status": is, "reason": why, "lastTransitionTime": now}},
	}
}

func at(raw map[string]any, key string) map[string]any {
	is, _ := raw[key].(map[string]any)
	return is
}

// gone reports whether a pod's time to go is over.
func gone(p map[string]any, now time.Time) bool {
	text, _ := at(p, "metadata")["deletionTimestamp"].(string)
	t, err := time.Parse(time.RFC3339, text)
	return err == nil && !now.Before(t)
}

// Staying returns the keys of the pods that a selector is about and that were not asked to go, and
// how many of them are ready.
func (t *Town) Staying(namespace any, selector any) (stay []string, ready int) {
	for _, key := range t.Keys("pods") {
		p := t.Get("pods", key)
		m := at(p, "metadata")
		if m["namespace"] != namespace || m["deletionTimestamp"] != nil || !selects(selector, labelsOf(m)) {
			continue
		}
		if stay = append(stay, key); serving(p) {
			ready++
		}
	}
	return stay, ready
}

// control makes as many pods of a Deployment as it asks for.
func (t *Town) control(key string) error {
	d := t.Get("deployments.apps", key)
	if d == nil { // a client deleted it just now
		return nil
	}
	m, spec := at(d, "metadata"), at(d, "spec")
	replicas := int64(1)
	if n, ok := spec["replicas"]; ok {
		replicas = number(n)
	}
	stay, _ := t.Staying(m["namespace"], spec["selector"])
	for i := len(stay); i < int(replicas); i++ {
		if err := t.pod(m, at(spec, "template")); err != nil {
			return err
		}
	}
	for i := range len(stay) - int(replicas) {
		t.AskToGo(stay[i])
	}
	t.Change("deployments.apps", key, func(raw map[string]any) {
		raw["status"] = map[string]any{"replicas": replicas, "updatedReplicas": replicas, "observedGeneration": m["generation"]}
	})
	return nil
}

// pod makes a pod of a Deployment, whose ReplicaSet is made with the first.
func (t *Town) pod(of, template map[string]any) error {
	t.made++
	name, _ := of["name"].(string)
	namespace, _ := of["namespace"].(string)
	set := name + "-rs"
	if t.Get("replicasets.apps", keyOf(namespace, set)) == nil {
		err := t.Apply(fmt.Sprintf(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: %s, namespace: %s,
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: %s, uid: %s, controller: true}]}}`, set, namespace, name, of["uid"]))
		if err != nil {
			return err
		}
	}
	uid := at(t.Get("replicasets.apps", keyOf(namespace, set)), "metadata")["uid"]
	raw := map[string]any{
		"metadata": map[string]any{
			"name": fmt.Sprintf("%s-%d", name, t.made), "namespace": namespace, "labels": runtime.DeepCopyJSONValue(at(template, "metadata")["labels"]),
			"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": uid, "controller": true}},
		},
		"spec": runtime.DeepCopyJSON(at(template, "spec")), "status": map[string]any{"phase": "Pending"},
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(t.tables["pods"], keyOf(namespace, fmt.Sprintf("%s-%d", name, t.made)), raw)
	return nil
}

// AskToGo has a pod leave in a few seconds.
func (t *Town) AskToGo(key string) {
	t.Change("pods", key, func(raw map[string]any) {
		metaOf(raw)["deletionTimestamp"] = time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339)
		metaOf(raw)["deletionGracePeriodSeconds"] = int64(5)
	})
}

// budget computes how many of the pods that a budget is about may be disrupted.
func (t *Town) budget(key string) {
	b := t.Get("poddisruptionbudgets.policy", key)
	m, spec := at(b, "metadata"), at(b, "spec")
	_, ready := t.Staying(m["namespace"], spec["selector"])
	allowed := max(0, int64(ready)-number(spec["minAvailable"]))
	t.Change("poddisruptionbudgets.policy", key, func(raw map[string]any) {
		raw["status"] = map[string]any{"disruptionsAllowed": allowed, "observedGeneration": m["generation"]}
	})
}
