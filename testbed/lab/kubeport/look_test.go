//go:build lab

package kubeport

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

// TestOneLookSeesWhatIsObserved compares what is read once with what is watched, and what a user
// sees who has few rights with both.
func TestOneLookSeesWhatIsObserved(t *testing.T) {
	w := newWorld(t, lab.ControlPlane{})
	w.node("n-1", "workers")
	w.node("n-2", "")
	w.deployment("web", 3)
	w.deployment("own", 2)
	w.make(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {nodeSelector: {none: here}, containers: [{name: c, image: c}]}}}}`)
	w.autoscaler("web", "apps/v1", "Deployment", "web", "Recommend")
	w.make(`{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: ` + strings.Replace(podSpec("200m"), "{", `{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
		{topologyKey: none, labelSelector: {}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]}}, `, 1) + `}`)
	w.make(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}`)
	w.make(`{apiVersion: plimsoll.dev/v1alpha1, kind: PriceBook, metadata: {name: default}, spec: {currency: EUR, pricePerVCPUHour: "0.01", pricePerGBHour: "0.001"}}`)
	c := w.cluster(kube.Config{})
	w.sees(c, "6 pods that are bound", func(s *loop.ClusterState) bool {
		bound := 0
		for _, p := range s.Pods {
			if p.Node != "" {
				bound++
			}
		}
		return bound == 6
	})

	w.until("a look sees the same", func(ctx context.Context) error {
		seen, err := kube.Look(ctx, kube.Config{REST: as(w.lab.REST(), user)})
		if err != nil {
			return err
		}
		watched, err := c.Observe(ctx)
		if err != nil {
			return err
		}
		if len(seen.Unread) > 0 || len(seen.PriceBooks) != 1 || len(seen.Pools) != 0 {
			return fmt.Errorf("unread are %v, and there are %d price books and %d pools", seen.Unread, len(seen.PriceBooks), len(seen.Pools))
		}
		if want := (pricing.Resources{CPU: 4000, Memory: 8 * pricing.GiB}); seen.Capacity["n-1"] != want {
			return fmt.Errorf("n-1 has %v", seen.Capacity["n-1"])
		}
		for _, p := range watched.Pods {
			if len(p.Has) > 0 {
				return fmt.Errorf("%s has %s", p.Name, p.Has)
			}
		}
		pool := &nodescaler.Pool{Name: "workers"}
		if diff := cmp.Diff(watched.Daemons(pool), seen.State.Daemons(pool)); diff != "" {
			return fmt.Errorf("of daemons (-watched +read once):\n%s", diff)
		}
		watched.Daemons, seen.State.Daemons = nil, nil // functions are never equal
		if diff := cmp.Diff(watched, seen.State); diff != "" {
			return fmt.Errorf("(-watched +read once):\n%s", diff)
		}
		return nil
	})

	w.make(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}, rules: [{apiGroups: [""], resources: [nodes, pods], verbs: [list]}]}`)
	w.make(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reader}, subjects: [{kind: User, name: reader}], roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}}`)
	w.until("a user with few rights sees nodes and pods", func(ctx context.Context) error {
		seen, err := kube.Look(ctx, kube.Config{REST: as(w.lab.REST(), "reader")})
		if err != nil {
			return err
		}
		if len(seen.State.Nodes) != 2 || len(seen.State.Pods) != 6 || len(seen.Unread) != 16 {
			return fmt.Errorf("sees %d nodes and %d pods; unread are %v", len(seen.State.Nodes), len(seen.State.Pods), seen.Unread)
		}
		for _, p := range seen.State.Pods {
			if p.Name != "shop/bare" && !strings.HasPrefix(p.Workload, "shop/ReplicaSet/") {
				return fmt.Errorf("%s is of %q", p.Name, p.Workload)
			}
		}
		return nil
	})
	if _, err := kube.Look(t.Context(), kube.Config{REST: as(w.lab.REST(), "stranger")}); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("a user without rights: %v", err)
	}
	for _, r := range append(w.requests("reader"), w.requests("stranger")...) {
		if r.Verb != "list" && r.ObjectRef.Resource != "" {
			t.Errorf("a look does %s %s", r.Verb, r.RequestURI)
		}
	}
}
