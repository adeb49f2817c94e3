//go:build lab

package incluster

import (
	"testing"
	"time"
)

// Replicas that share no node, as Kubernetes' scheduler sees it, get a machine each, and no more; and machines with
// such pods go again.
func TestPodsThatShareNoNodeGetAMachineEach(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	w.begins("nodescaler", quick)
	const (
		apart = `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}, containers: [{name: c, image: c, resources: {requests: {cpu: 100m}}}]`
		port  = `containers: [{name: c, image: c, ports: [{containerPort: 80, hostPort: 8080}], resources: {requests: {cpu: 100m}}}]`
	)
	w.workload("db", 3, apart)
	w.until("all that have an anti-affinity run", func() bool { return w.running() == 3 })
	w.workload("edge", 4, port)
	w.until("all that have a port of their node run", func() bool { return w.running() == 7 })
	if n := len(w.vms()); n != 4 {
		t.Errorf("there are %d machines, want 4: pods of the two workloads may share one", n)
	}
	w.workload("db", 1, apart)
	w.workload("edge", 1, port)
	w.until("one machine is enough", func() bool { return len(w.vms()) == 1 && w.running() == 2 })
}

// What a DaemonSet takes is no room on machines that are still to be bought.
func TestDaemonSetsCountBeforeAMachineIsBought(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	w.apply(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {terminationGracePeriodSeconds: 1, tolerations: [{operator: Exists}], containers: [{name: c, image: c, resources: {requests: {cpu: 300m}}}]}
`)
	w.begins("nodescaler", quick)
	w.workload("large", 1, `containers: [{name: c, image: c, resources: {requests: {cpu: 1600m}}}]`) // of 1800m
	w.workload("right", 1, `containers: [{name: c, image: c, resources: {requests: {cpu: 1500m}}}]`)
	w.until("what fits beside it runs", func() bool { return w.running() == 2 })
	time.Sleep(10 * time.Second) // ten more looks
	if n := len(w.vms()); n != 1 {
		t.Errorf("there are %d machines, want one: no machine holds the larger pod", n)
	}
}
