package kube

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

func TestARolloutIsUnderWayWhileThereArePodsOfAnOlderForm(t *testing.T) {
	deployment := func(pods, updated int32) any {
		return &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: pods, UpdatedReplicas: updated}}
	}
	stateful := func(pods, updated int32, from, to string, how appsv1.StatefulSetUpdateStrategyType) any {
		return &appsv1.StatefulSet{
			Spec:   appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: how}},
			Status: appsv1.StatefulSetStatus{Replicas: pods, UpdatedReplicas: updated, CurrentRevision: from, UpdateRevision: to},
		}
	}
	for _, c := range []struct {
		name  string
		of    any
		under bool
	}{
		{"pods of one form", deployment(100, 100), false},
		{"a surge of new pods beside old ones", deployment(125, 25), true},
		{"the last old pods are left", deployment(125, 100), true},
		{"more replicas, whose pods are not there yet", deployment(4, 4), false},
		{"nothing yet", deployment(0, 0), false},
		{"a StatefulSet of one form", stateful(3, 3, "a", "a", appsv1.RollingUpdateStatefulSetStrategyType), false},
		{"a StatefulSet that counts no pod of its only form as updated", stateful(3, 0, "a", "a", appsv1.RollingUpdateStatefulSetStrategyType), false},
		{"a StatefulSet in change", stateful(3, 1, "a", "b", appsv1.RollingUpdateStatefulSetStrategyType), true},
		{"a StatefulSet with OnDelete", stateful(3, 1, "a", "b", appsv1.OnDeleteStatefulSetStrategyType), false},
	} {
		kept, err := keepScaled(c.of)
		if err != nil {
			t.Fatal(err)
		}
		if got := kept.(*scaled).rollout; got.InProgress != c.under || c.under && got.Why == "" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
