package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/plimsoll/plimsoll/testbed/peers/scheduler"
)

// filters are those of the scheduler's filters that the rows are about.
var filters = []string{
	names.NodeAffinity, names.NodePorts, names.NodeResourcesFit, names.InterPodAffinity, names.PodTopologySpread, names.VolumeBinding,
}

// verdict is what the scheduler's filters have against a plan.
type verdict struct {
	Placed     int
	Violations int            // pods that would not be let onto their node beside all others
	By         map[string]int // of these, by filter
}

// judge puts every machine's pods onto a node of its shape, and asks the filters about each of
// them.
func (w *world) judge(ctx context.Context, machines []machine) (verdict, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes, placed, err := w.settle(machines)
	if err != nil {
		return verdict{}, err
	}
	now := cache.NewSnapshot(placed, nodes)
	f, err := scheduler.Framework(ctx, now, w.objects(), filters...)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{Placed: len(placed), By: map[string]int{}}
	for _, p := range placed {
		status, err := refuses(ctx, f, now, p)
		if err != nil {
			return verdict{}, err
		}
		if status.IsSuccess() {
			continue
		}
		if !status.IsRejected() {
			return verdict{}, fmt.Errorf("%s: %w", p.Name, status.AsError())
		}
		v.Violations++
		v.By[status.Plugin()]++
	}
	return v, nil
}

// objects are those that the scheduler's filters look up.
func (w *world) objects() (all []runtime.Object) {
	for _, o := range w.claims {
		all = append(all, o)
	}
	for _, o := range w.volumes {
		all = append(all, o)
	}
	return all
}

// settle is the nodes that the machines become, with their pods bound to them.
func (w *world) settle(machines []machine) (nodes []*corev1.Node, placed []*corev1.Pod, err error) {
	waiting := make(map[string]*corev1.Pod, len(w.pods))
	for _, p := range w.pods {
		waiting[p.Namespace+"/"+p.Name] = p
	}
	for i := range machines {
		n := machines[i].node(i)
		nodes = append(nodes, n)
		for _, name := range machines[i].pods {
			p := waiting[name]
			if p == nil {
				return nil, nil, fmt.Errorf("the plan has pod %s twice, or the pod does not wait", name)
			}
			delete(waiting, name)
			p = p.DeepCopy()
			p.Spec.NodeName = n.Name
			placed = append(placed, p)
		}
	}
	return nodes, placed, nil
}

// refuses asks whether the pod's node would take it, were it not there yet and all others were.
func refuses(ctx context.Context, f framework.Framework, now *cache.Snapshot, p *corev1.Pod) (*fwk.Status, error) {
	state := framework.NewCycleState()
	among, status, _ := f.RunPreFilterPlugins(ctx, state, p)
	if !status.IsSuccess() {
		return status, nil
	}
	if !among.AllNodes() && !among.NodeNames.Has(p.Spec.NodeName) {
		return fwk.NewStatus(fwk.Unschedulable).WithPlugin("PreFilter"), nil
	}
	found, err := now.Get(p.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	// A node from which the pod is taken would have lost ports that others on it have, too.
	node, self := framework.NewNodeInfo(), fwk.PodInfo(nil)
	node.SetNode(found.Node())
	for _, other := range found.GetPods() {
		if other.GetPod().UID == p.UID {
			self = other
		} else {
			node.AddPodInfo(other)
		}
	}
	if status := f.RunPreFilterExtensionRemovePod(ctx, state, p, self, node); !status.IsSuccess() {
		return status, nil
	}
	return f.RunFilterPlugins(ctx, state, p, node), nil
}
