package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
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

// judge puts every machine's pods onto a node of its shape, and asks the filters about each of them.
func (w *world) judge(ctx context.Context, machines []machine) (verdict, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes, placed, err := w.settle(machines)
	if err != nil {
		return verdict{}, err
	}
	now := cache.NewSnapshot(placed, nodes)
	f, err := w.framework(ctx, now)
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

// framework is the scheduler's, with the filters alone.
func (w *world) framework(ctx context.Context, now fwk.SharedLister) (framework.Framework, error) {
	metrics.Register()
	var known []kruntime.Object
	for _, o := range w.claims {
		known = append(known, o)
	}
	for _, o := range w.volumes {
		known = append(known, o)
	}
	client := clientset.NewClientset(known...)
	factory := informers.NewSharedInformerFactory(client, 0)
	profile := &config.KubeSchedulerProfile{SchedulerName: "peers", Plugins: &config.Plugins{
		QueueSort: enabled(names.PrioritySort), Bind: enabled(names.DefaultBinder),
		PreFilter: enabled(filters...), Filter: enabled(filters...),
	}, PluginConfig: defaults.PluginConfigsV1}
	f, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile, runtime.WithClientSet(client),
		runtime.WithInformerFactory(factory), runtime.WithSnapshotSharedLister(now))
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	patient, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for kind, synced := range factory.WaitForCacheSync(patient.Done()) {
		if !synced {
			return nil, fmt.Errorf("the scheduler's copies of %s were not filled", kind)
		}
	}
	return f, nil
}

func enabled(plugins ...string) (set config.PluginSet) {
	for _, name := range plugins {
		set.Enabled = append(set.Enabled, config.Plugin{Name: name})
	}
	return set
}
