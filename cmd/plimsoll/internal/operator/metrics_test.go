package operator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/pricing"
)

// series are those that Prometheus would read, by their name and labels, that begin with a name.
func series(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name {
				all[strings.Join(values, " ")] = m.GetGauge().GetValue()
			}
		}
	}
	return all
}

func TestConditionsAreShownUntilAnotherLeads(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.Leading(true)
	web := &v1alpha1.WorkloadAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	workers := &v1alpha1.VMPool{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "2"}}
	d := &desk{workloads: []*workload{{object: web}}, pools: []*pool{{object: workers}}, prices: pricing.DefaultBook()}
	said := map[types.UID]any{
		"1": v1alpha1.WorkloadAutoscalerStatus{Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue}, {Type: "Conflicted", Status: metav1.ConditionFalse}, {Type: "SLOAtRisk", Status: metav1.ConditionUnknown},
		}},
		"2": v1alpha1.VMPoolStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse}}},
	}
	m.said(d, said)
	want := map[string]float64{
		"WorkloadAutoscaler web shop Ready": 1, "WorkloadAutoscaler web shop Conflicted": 0, "VMPool workers  Ready": 0,
	}
	if diff := cmp.Diff(want, series(t, registry, "plimsoll_condition")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	d.pools, said = nil, map[types.UID]any{"1": said["1"]}
	m.said(d, said)
	if got := series(t, registry, "plimsoll_condition"); len(got) != 2 {
		t.Errorf("a pool that is gone stays: %v", got)
	}

	m.Leading(false)
	if got := series(t, registry, "plimsoll_condition"); len(got) > 0 {
		t.Errorf("who does not lead tells %v", got)
	}
	if got := series(t, registry, "plimsoll_leader"); got[""] != 0 {
		t.Errorf("leads: %v", got)
	}
}
