package kube

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

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
		kept, err := keepScaled(d)
		if err != nil {
			t.Fatal(err)
		}
		if got := kept.(*scaled).failing; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
