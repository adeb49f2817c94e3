//go:build lab

package incluster

import (
	"testing"
)

const (
	poolObject = `{apiVersion: plimsoll.dev/v1alpha1, kind: VMPool, metadata: {name: workers}}`
	autoscaler = `{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: web}}`
	prices     = `{apiVersion: plimsoll.dev/v1alpha1, kind: PriceBook, metadata: {name: default}, spec: {currency: EUR, pricePerVCPUHour: "0.01", pricePerGiBHour: "0.002"}}`
)

// A Deployment that does not fit gets machines, and they go again when no one needs them.
func TestPodsThatDoNotFitGetMachinesThatGoAgain(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	w.begins("podscaler,nodescaler", quick)
	w.deployment("web", 1, "700m")
	w.apply(`
apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: Active
  policy: HPA
  minReplicas: 4
  maxReplicas: 8
`)
	w.until("the autoscaler has raised it to its minimum", func() bool { return len(w.pods()) == 4 })
	w.until("a clone was asked for", func() bool { return len(w.vms()) > 0 })
	w.until("a node has joined", func() bool { return len(w.nodes()) > 0 })
	w.until("all pods run", func() bool { return w.running() == 4 })
	if n := len(w.vms()); n != 2 {
		t.Errorf("there are %d machines, want 2 for 4 pods of 700m on nodes of 1800m", n)
	}
	w.delete(autoscaler)
	w.deployment("web", 1, "700m")
	w.until("one machine is enough", func() bool { return len(w.vms()) == 1 && len(w.nodes()) == 1 })
	w.until("the pod that is left runs", func() bool { return w.running() == 1 })
	w.deployment("web", 0, "700m")
	w.until("no machine is left", func() bool { return len(w.vms()) == 0 })
	w.until("no node is left", func() bool { return len(w.nodes()) == 0 })
}
