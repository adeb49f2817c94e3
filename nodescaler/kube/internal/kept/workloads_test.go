package kept

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plimsoll/plimsoll/testbed/must"
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
	from := func(partition, first, updated int32) any {
		d := stateful(5, updated, "a", "b", appsv1.RollingUpdateStatefulSetStrategyType).(*appsv1.StatefulSet)
		d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}
		d.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: first}
		return d
	}
	paused := deployment(4, 2).(*appsv1.Deployment)
	paused.Spec.Paused = true
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
		{"a StatefulSet that is to change two of five", from(3, 0, 1), true},
		{"and has", from(3, 0, 2), false},
		{"a StatefulSet that is to change none", from(9, 0, 0), false},
		{"a StatefulSet whose pods are counted from 2", from(5, 2, 1), true},
		{"and has changed two", from(5, 2, 2), false},
		{"a Deployment that is paused half way", paused, false},
	} {
		kept := must.Get(Keep(c.of))(t)
		if got := kept.(*Scaled).Rollout; got.InProgress != c.under || c.under && got.Why == "" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A Deployment says that its rollout has failed, until it goes on.
func TestARolloutHasFailedWhenItsDeadlineIsExceeded(t *testing.T) {
	for _, c := range []struct {
		updated int32
		status  corev1.ConditionStatus
		reason  string
		failed  bool
	}{
		{2, corev1.ConditionFalse, "ProgressDeadlineExceeded", true},
		{2, corev1.ConditionTrue, "ReplicaSetUpdated", false},
		{2, corev1.ConditionUnknown, "DeploymentPaused", false},
		{5, corev1.ConditionFalse, "ProgressDeadlineExceeded", false},
	} {
		kept := must.Get(Keep(&appsv1.Deployment{Status: appsv1.DeploymentStatus{
			Replicas: 5, UpdatedReplicas: c.updated,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: c.status, Reason: c.reason}},
		}}))(t)
		if got := kept.(*Scaled).Rollout; got.Failed != c.failed || got.InProgress != (c.updated < 5) {
			t.Errorf("%d of 5, %s: %+v", c.updated, c.reason, got)
		}
	}
}

// KEDA's references have defaults of their own.
func TestTargetsOfScaledObjects(t *testing.T) {
	for _, c := range []struct {
		ref               map[string]any
		group, kind, name string
	}{
		{map[string]any{"name": "web"}, "apps", "Deployment", "web"},
		{map[string]any{"kind": "StatefulSet", "name": "db"}, "apps", "StatefulSet", "db"},
		{map[string]any{"apiVersion": "apps/v1", "name": "web"}, "apps", "Deployment", "web"},
		{map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"}, "argoproj.io", "Rollout", "web"},
		{nil, "apps", "Deployment", ""},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "ScaledObject", "spec": map[string]any{}}}
		if o.SetNamespace("shop"); c.ref != nil {
			o.Object["spec"] = map[string]any{"scaleTargetRef": c.ref}
		}
		want := Reference{schema.GroupKind{Group: c.group, Kind: c.kind}, "shop", c.name}
		if got := must.Get(Keep(o))(t).(*Rival).Target; got != want {
			t.Errorf("%v: %+v, want %+v", c.ref, got, want)
		}
	}
}

func TestWriterOfReplicasIsKnown(t *testing.T) {
	entry := func(manager, fields string, minute int) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const replicas, others = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}},"f:status":{"f:replicas":{}}}`
	for _, c := range []struct {
		name   string
		fields []metav1.ManagedFieldsEntry
		want   Writer
	}{
		{"no manager", nil, Writer{}},
		{"one manager", []metav1.ManagedFieldsEntry{entry("kubectl", replicas, 1), entry("controller", others, 2)}, Writer{Name: "kubectl"}},
		{"the last", []metav1.ManagedFieldsEntry{entry("kubectl", replicas, 3), entry("helm", replicas, 2)}, Writer{Name: "kubectl"}},
		{"ours", []metav1.ManagedFieldsEntry{entry(FieldManager, replicas, 1)}, Writer{Ours: true, Name: FieldManager}},
		{"ours and the same of another client", []metav1.ManagedFieldsEntry{entry(FieldManager, replicas, 1), entry("helm", replicas, 2)}, Writer{Ours: true, Name: "helm"}},
		{"unreadable", []metav1.ManagedFieldsEntry{entry("kubectl", `{`, 1), {Manager: "old"}}, Writer{}},
	} {
		if got := writerOfReplicas(c.fields); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestDeploymentsSayThatPodsCannotBeCreated(t *testing.T) {
	is := func(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, message string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: kind, Status: status, Reason: "FailedCreate", Message: message}
	}
	for name, c := range map[string]struct {
		conditions []appsv1.DeploymentCondition
		want       string
	}{
		"nothing":          {},
		"all is well":      {conditions: []appsv1.DeploymentCondition{is(appsv1.DeploymentAvailable, corev1.ConditionTrue, "")}},
		"it could not":     {conditions: []appsv1.DeploymentCondition{is(appsv1.DeploymentReplicaFailure, corev1.ConditionFalse, "")}},
		"a quota":          {conditions: []appsv1.DeploymentCondition{is(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "exceeded quota: two")}, want: "FailedCreate: exceeded quota: two"},
		"a webhook's page": {conditions: []appsv1.DeploymentCondition{is(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, strings.Repeat("ä", 9999))}, want: "FailedCreate: " + strings.Repeat("ä", (maxFailing-14)/2)},
	} {
		d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: c.conditions}}
		kept := must.Get(Keep(d))(t)
		if got := kept.(*Scaled).Failing; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestStatefulSetsMakePodsInOrderUnlessTheySayOtherwise(t *testing.T) {
	for policy, want := range map[appsv1.PodManagementPolicyType]bool{"": true, appsv1.OrderedReadyPodManagement: true, appsv1.ParallelPodManagement: false} {
		d := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{PodManagementPolicy: policy}}
		if got := shortStatefulSet(d).Ordered; got != want {
			t.Errorf("%q: in order %t", policy, got)
		}
	}
	if shortDeployment(&appsv1.Deployment{}).Ordered {
		t.Error("a Deployment makes its pods in order")
	}
}
