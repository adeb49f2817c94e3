package operator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
)

// Whether the objective is missed is by what was measured; that nothing can be done about it is by
// what the policy found.
func TestConditionOfTheObjective(t *testing.T) {
	givenUp := new(podscaler.Because(podscaler.ReasonObjectiveUnreachable, "a request takes 400 ms"))
	for want, c := range map[string]struct {
		latency *float64
		beyond  *podscaler.Reason
	}{
		"Unknown NotMeasured response times could not be measured":                                {nil, givenUp},
		"False WithinTarget 200 ms, of at most 300 ms":                                            {new(200.0), givenUp},
		"True AboveTarget 400 ms, above the objective of 300 ms":                                  {new(400.0), nil},
		"True ObjectiveUnreachable 450 ms, above the objective of 300 ms: a request takes 400 ms": {new(450.0), givenUp},
	} {
		st := &v1alpha1.WorkloadAutoscalerStatus{}
		new(workload).targets(conditions{&st.Conditions, 1, t0}, &loop.Inputs{TargetMs: 300, LatencyMs: c.latency}, c.beyond)
		if got := st.Conditions[0]; fmt.Sprintf("%s %s %s", got.Status, got.Reason, got.Message) != want {
			t.Errorf("%s %s %s, want %s", got.Status, got.Reason, got.Message, want)
		}
	}
}

// A vCPU and memory have their own prices there, without what having a machine costs.
func TestPricesInForceAreOfRoomAlone(t *testing.T) {
	book := &pricing.Book{Unit: "EUR", PerVCPU: pricing.Unit, PerGB: 2 * pricing.Unit, PerMachine: 5 * pricing.Unit}
	if got := resolved(book, &desk{now: t0}); got.PricePerVCPUHour != "1" || got.PricePerGBHour != "2" || got.PricePerGiBHour != "2.147483648" {
		t.Errorf("%+v", got)
	}
}

// A pool's machines must not carry what a server joins with; whoever made the pool hears of it.
func TestServersTokenOnMachinesIsAnEvent(t *testing.T) {
	for token, want := range map[firstboot.Secret]int{"K10c0ffee::server:secret": 1, "K10c0ffee::node:secret": 0, "secret": 0} {
		p := &pool{object: &v1alpha1.VMPool{}}
		p.pve.Join.TokenFile, p.pve.Join.Token = "join-token", token
		all := p.events(&loop.Step{}, &v1alpha1.VMPoolStatus{})
		if len(all) != want || want == 1 && (!all[0].Warning || all[0].Reason != reasonServerToken || strings.Contains(all[0].Note, "secret")) {
			t.Errorf("%s: events are %+v", string(token), all)
		}
	}
}

// An error budget that is spent too fast is in the status, the condition, the events and the
// metrics, for as long as it is.
func TestErrorBudgets(t *testing.T) {
	h := newHouse(t)
	h.node("workers", "a")
	web := h.web(active + "  slo: {p: 50th, target: 300ms, window: 1h}\n")
	h.latency, h.cfg.Interval = podscaler.Known(0.1), 5*time.Minute
	h.begin().steps(3)
	h.expect("at first", "", said(web.Status.Conditions)["ErrorBudgetBurning"])
	h.expect("its status", (*v1alpha1.ErrorBudget)(nil), web.Status.SLO.ErrorBudget)
	hours := func(n int, good float64) {
		h.window = podscaler.Window{Arrivals: podscaler.Known(10), Good: podscaler.Known(good)}
		h.steps(12 * n)
	}
	burning := func() string { return said(web.Status.Conditions)["ErrorBudgetBurning"] }
	hours(1, 1)
	h.expect("with nothing late", "False WithinBudget", burning())
	hours(2, 0)
	h.expect("with all late", "True FastBurn", burning())
	hours(40, 0.1)
	h.expect("with most late for two days", "True SlowBurn", burning())
	b := web.Status.SLO.ErrorBudget
	h.expect("windows", []string{"5m", "30m", "1h", "6h", "72h"}, []string{b.BurnRates[0].Window, b.BurnRates[1].Window, b.BurnRates[2].Window, b.BurnRates[3].Window, b.BurnRates[4].Window})
	h.expect("over six hours", "1.8", b.BurnRates[3].Rate)
	h.expect("left", "0.8942", b.Left) // the requests of 38 of 360 hours were late
	hours(6, 1)
	h.expect("with nothing late again", "False WithinBudget", burning())
	h.expect("events", true, strings.Contains(strings.Join(h.told, "\n"), "FastBurn"))
	web.Spec.SLO = nil
	h.steps(3)
	h.expect("without an objective", "", burning())
}

// Replicas become ready one by one: that is no other verdict, which would be written at once.
func TestCapacityThatWaitsForNoMachineIsOneVerdict(t *testing.T) {
	st := &v1alpha1.WorkloadAutoscalerStatus{}
	c := conditions{&st.Conditions, 1, t0}
	for _, s := range []struct {
		coming, waiting int
		want, says      string
	}{
		{0, 0, "False NoMachinesComing", "nothing waits for a machine"},
		{2, 0, "False NoMachinesComing", "nothing waits for a machine"},
		{0, 3, "False NoMachinesComing", "3 replicas are not ready, and no machine is in flight"},
		{2, 3, "True MachinesComing", "3 replicas are not ready, and 2 machines are in flight"},
		{1, 1, "True MachinesComing", "1 replica is not ready, and 1 machine is in flight"},
	} {
		c.capacity(s.coming, s.waiting, "replica", "not ready")
		if got := said(st.Conditions)["CapacityPending"]; got != s.want || st.Conditions[0].Message != s.says {
			t.Errorf("%d wait for %d: %s %q, want %s %q", s.waiting, s.coming, got, st.Conditions[0].Message, s.want, s.says)
		}
	}
}

// Pods that are not there yet are no alarm in the first minutes of a WorkloadAutoscaler, and what
// was said of them before does not stay.
func TestNewWorkloadsRaiseNoAlarmForPodsToCome(t *testing.T) {
	why := func(code string) *loop.WorkloadStep {
		return &loop.WorkloadStep{Unplanned: &nodescaler.Reason{Code: code}}
	}
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := &workload{object: &v1alpha1.WorkloadAutoscaler{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}}
	var list []metav1.Condition
	for _, c := range []struct {
		after time.Duration
		ws    *loop.WorkloadStep
		want  string
	}{
		{time.Second, nil, ""},
		{time.Second, why(loop.CodeReplicasNotCreated), ""},
		{time.Minute, why(loop.CodeReplicaFailure), "True ReplicaFailure"},
		{2 * time.Minute, why(loop.CodeReplicasNotCreated), "False PlannedFor"},
		{3 * time.Minute, why(loop.CodeReplicasNotCreated), "True ReplicasNotCreated"},
		{4 * time.Minute, &loop.WorkloadStep{}, "False PlannedFor"},
	} {
		at := created.Add(c.after)
		w.unplanned(conditions{list: &list, now: at}, &loop.Step{Time: at}, c.ws)
		got := ""
		if is := meta.FindStatusCondition(list, v1alpha1.ConditionCapacityHeld); is != nil {
			got = string(is.Status) + " " + is.Reason
		}
		if got != c.want {
			t.Errorf("after %s: %q, want %q", c.after, got, c.want)
		}
	}
}
