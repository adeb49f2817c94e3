// Package scheduler runs filters of Kubernetes' own scheduler where there is no cluster. Its test
// asks them whether pods go onto nodes, and nodescaler the same, and compares.
package scheduler

import (
	"context"
	"fmt"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Now is the nodes and pods that filters see. They may be exchanged for others.
type Now struct{ fwk.SharedLister }

// Framework is the scheduler's, with some of its filters alone, over the nodes and pods of now and
// the other objects.
func Framework(ctx context.Context, now fwk.SharedLister, objects []kruntime.Object, filters ...string) (framework.Framework, error) {
	metrics.Register()
	client := clientset.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	profile := &config.KubeSchedulerProfile{SchedulerName: "peers", Plugins: &config.Plugins{
		QueueSort: enabled(names.PrioritySort), Bind: enabled(names.DefaultBinder),
		PreFilter: enabled(filters...), Filter: enabled(filters...),
	}, PluginConfig: defaults.PluginConfigsV1}
	f, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile, runtime.WithClientSet(client),
		runtime.WithInformerFactory(factory), runtime.WithSnapshotSharedLister(now),
		runtime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())))
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
