package operator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
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
	m.Runs("Active", []string{"podscaler", "nodescaler"}, 10*time.Second)
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
	if diff := cmp.Diff(map[string]float64{"podscaler": 0, "nodescaler": 0}, series(t, registry, "plimsoll_leader")); diff != "" {
		t.Errorf("who does not lead, -want +got:\n%s", diff)
	}
	m.Leading(true)
	if diff := cmp.Diff(map[string]float64{"podscaler": 1, "nodescaler": 1}, series(t, registry, "plimsoll_leader")); diff != "" {
		t.Errorf("who leads, -want +got:\n%s", diff)
	}
	if got := series(t, registry, "plimsoll_loop_interval_seconds"); got[""] != 10 {
		t.Errorf("an interval of %v", got)
	}
	m.said(d, said)
	delete(want, "VMPool workers  Ready")
	if diff := cmp.Diff(want, series(t, registry, "plimsoll_condition")); diff != "" {
		t.Errorf("who leads again: -want +got:\n%s", diff)
	}
}

// busy is a desk of many workloads, and a step in which all of them are decided.
func busy(many int) (*desk, *loop.Step, *counted) {
	d, s := &desk{prices: pricing.DefaultBook()}, &loop.Step{}
	for i := range many {
		object := &v1alpha1.WorkloadAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i)}}
		d.workloads = append(d.workloads, &workload{object: object, name: "shop/" + object.Name, target: kube.Target{Known: true}})
		good := .99
		s.Workloads = append(s.Workloads, loop.WorkloadStep{
			Workload: "shop/" + object.Name, Replicas: 2, Decision: &podscaler.Decision{From: 2, To: 3},
			Inputs: &loop.Inputs{TargetMs: 300, LatencyMs: new(float64), Good: &good},
		})
	}
	return d, s, &counted{}
}

// What was decided last is shown until something else is, and nothing is shown of what is gone.
func TestWhatWasDecidedLastIsShown(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := must.Get(NewMetrics(registry))(t)
	d, s, machines := busy(2)
	m.show(d, s, machines, nil)
	between := &loop.Step{Workloads: []loop.WorkloadStep{{Workload: "shop/web-0", Replicas: 3}, {Workload: "shop/web-1", Replicas: 2}}}
	m.show(d, between, machines, nil)
	expect := func(name string, want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, series(t, registry, name)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	expect("plimsoll_workload_replicas", map[string]float64{"web-0 shop": 3, "web-1 shop": 2})
	expect("plimsoll_workload_desired_replicas", map[string]float64{"web-0 shop": 3, "web-1 shop": 3})
	expect("plimsoll_workload_latency_seconds", map[string]float64{
		"measured web-0 shop": 0, "target web-0 shop": .3, "measured web-1 shop": 0, "target web-1 shop": .3,
	})
	s.Workloads[0].Inputs = nil // its objective was removed
	d.workloads = d.workloads[:1]
	m.show(d, s, machines, nil)
	expect("plimsoll_workload_desired_replicas", map[string]float64{"web-0 shop": 3})
	expect("plimsoll_workload_latency_seconds", map[string]float64{})
}

// A rollout is in one phase.
func TestARolloutIsShownInItsPhase(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := must.Get(NewMetrics(registry))(t)
	d := &desk{pools: []*pool{{object: &v1alpha1.VMPool{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}}}}
	for _, phase := range []nodescaler.RolloutPhase{"Canary", "Rolling"} {
		s := &loop.Step{Rollouts: map[string]nodescaler.Rolled{"workers": {Phase: phase, Updated: 1, Total: 3}}}
		m.show(d, s, &counted{}, nil)
		want := map[string]float64{"updated " + string(phase) + " workers": 1, "outdated " + string(phase) + " workers": 2}
		if diff := cmp.Diff(want, series(t, registry, "plimsoll_rollout_machines")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// A scrape never sees a part of the workloads: an alert would take the rest for gone.
func TestAScrapeSeesAllWorkloads(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := must.Get(NewMetrics(registry))(t)
	d, s, machines := busy(50)
	m.show(d, s, machines, nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 100 {
			m.show(d, s, machines, nil)
		}
	}()
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		default:
		}
		if n := len(series(t, registry, "plimsoll_workload_replicas")); n != 50 {
			t.Fatalf("a scrape sees %d workloads of 50", n)
		}
	}
}

// BenchmarkShow is what a step in which all workloads are decided spends on series.
func BenchmarkShow(b *testing.B) {
	for _, many := range []int{200, 2000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			m := must.Get(NewMetrics(prometheus.NewRegistry()))(b)
			d, s, machines := busy(many)
			for b.Loop() {
				m.show(d, s, machines, nil)
			}
		})
	}
}
