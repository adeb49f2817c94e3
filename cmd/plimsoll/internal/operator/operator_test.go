package operator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

const active = "  mode: Active\n"

func TestWhatObjectsSayIsDoneAndTold(t *testing.T) {
	h := newHouse(t)
	web := h.web(active)
	h.pool("workers", active)
	h.begin().steps(2)
	h.expect("done at first", []string{"create workers"}, h.done) // for the four pods that wait
	h.cores = 1                                                   // each uses twice what it may
	h.steps(1)
	h.expect("replicas", 8, h.replicas["shop/web"])
	st := web.Status
	if d := st.LastDecision; d == nil || d.From != 4 || d.To != 8 || !d.Applied || d.Action != "ScaleUp" || len(d.Reasons) == 0 {
		t.Errorf("last decision %+v", d)
	}
	h.expect("told", true, strings.Contains(strings.Join(h.told, "\n"), "WorkloadAutoscaler web SuccessfulRescale: from 4 to 8 replicas; "))
	want := map[string]string{
		"Ready": "True Active", "AbleToScale": "True SucceededRescale", "ScalingActive": "True ValidMetricFound", "ScalingLimited": "False DesiredWithinRange",
		"MetricsHealthy": "True AsMeasured", "Conflicted": "False NoConflict", "Paused": "False NotPaused", "CapacityPending": "False NoMachinesComing", "ScaledToZero": "False NotAtZero",
	}
	if d := cmp.Diff(want, said(st.Conditions)); d != "" {
		t.Errorf("conditions (-want +got)\n%s", d)
	}
	h.steps(1)
	h.expect("machines", 2, len(h.machines))
	h.expect("pool", "True Active", said(h.pools["workers"].Status.Conditions)["Ready"])
	if c := h.pools["workers"].Status.Machines; c == nil || c.Joined != 2 && c.Joined != 1 {
		t.Errorf("machines of the pool %+v", c)
	}
}

// A spare is woken in place of an order, its node is opened, and the pool's status counts it while
// it is one.
func TestSpareIsWokenWhereAMachineWouldBeOrdered(t *testing.T) {
	h := newHouse(t)
	joint := nodepolicy.DefaultJoint()
	joint.Spares.Most = 1
	h.cfg.Nodes = nodepolicy.Spec{Policy: "joint", Joint: &joint}
	h.pool("workers", active)
	h.node("workers", "a")
	h.node("workers", "b")
	spare := &h.machines[1]
	spare.Phase = nodescaler.Spare
	h.nodes[1].Ready, h.nodes[1].Cordoned, h.nodes[1].Draining = false, true, true
	h.begin().steps(2)
	if c := h.pools["workers"].Status.Machines; c == nil || c.Spare != 1 || c.Joined != 1 {
		t.Errorf("machines of the pool %+v", c)
	}
	h.web(active)
	h.replicas["shop/web"] = 8 // four more than the node takes
	h.steps(2)
	h.expect("done", []string{"wake workers-b", "drain workers-b false"}, h.done[:min(2, len(h.done))])
}

func TestRecommendationsAreSaidAndNotDone(t *testing.T) {
	for name, change := range map[string]func(*house){
		"by the objects' own modes": func(h *house) { h.web(""); h.pool("workers", "") },
		"by the lid":                func(h *house) { h.cfg.Active = false; h.web(active); h.pool("workers", active) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			change(h)
			h.node("workers", "a")
			h.cores = 1
			h.begin().steps(4)
			h.expect("done", []string{}, h.done)
			web, pool := h.autoscalers["shop/web"].Status, h.pools["workers"].Status
			h.expect("recommended", "True Recommending", said(web.Conditions)["Ready"])
			h.expect("observed", "True Recommending", said(pool.Conditions)["Ready"])
			if web.DesiredReplicas == nil || *web.DesiredReplicas != 8 || web.LastDecision == nil || web.LastDecision.Applied || *web.CurrentReplicas != 4 {
				t.Errorf("%+v", web)
			}
			if pool.LastPlan == nil || pool.LastPlan.Applied || pool.LastPlan.Actions[0].Kind != "Buy" {
				t.Errorf("last plan %+v", pool.LastPlan)
			}
			all := strings.Join(h.told, "\n")
			h.expect("told", []bool{true, true}, []bool{strings.Contains(all, "web WouldRescale: from 4 to 8"), strings.Contains(all, "workers WouldBuy: Buy small")})
		})
	}
}

// What a pool refuses must not be asked of it step after step: pods that another pool could hold
// would wait for ever, and nothing be reclaimed, since a scan that orders looks at no node.
func TestPoolThatMakesNoMachinesLeavesItToOthers(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		t.Run(policy, func(t *testing.T) {
			h := newHouse(t)
			h.cfg.Nodes.Policy = policy
			h.web(active)
			h.pool("a", active)
			h.paused["a"] = nodescaler.Reason{Code: pvecode.PoolPaused, Text: "3 machines failed in a row"}
			b := h.pool("b", active)
			// Dearer.
			b.Spec.VMIDs, b.Spec.Shapes[0].Memory = v1alpha1.VMIDs{First: 1100, Last: 1199}, "8GiB"
			h.begin()
			for n := 0; n < 30 && len(h.done) == 0; n++ {
				h.steps(1)
			}
			h.expect("whose machines are on their way", "False NoMachinesComing, True MachinesComing",
				said(h.pools["a"].Status.Conditions)["CapacityPending"]+", "+said(h.pools["b"].Status.Conditions)["CapacityPending"])
			h.steps(30)
			done := strings.Join(h.done, "\n")
			h.expect("orders that were refused", 0, h.refused)
			h.expect("the other pool is asked", true, strings.Contains(done, "create b"))
			h.expect("why the first makes none", "False PoolPaused", said(h.pools["a"].Status.Conditions)["Ready"])
			delete(h.paused, "a")
			h.replicas["shop/web"] = 40
			h.steps(2)
			h.expect("once it goes on", true, strings.Contains(strings.Join(h.done, "\n"), "create a"))
		})
	}
}

// Beside an autoscaler that has the target, one that writes nothing is no conflict: so KEDA is
// shown what Plimsoll recommends.
func TestRecommendingBesideAnotherAutoscalerIsNoConflict(t *testing.T) {
	for spec, want := range map[string]string{
		"  mode: Recommend\n": "True Recommending, False ForeignAutoscaler",
		"  mode: Paused\n":    "True Paused, False ForeignAutoscaler",
		active:                "False ForeignAutoscaler, True ForeignAutoscaler",
	} {
		h := newHouse(t)
		h.node("workers", "a")
		web := h.web(spec)
		h.findings["shop/web"] = []kube.Finding{{Code: v1alpha1.ReasonForeignAutoscaler, Text: "Deployment web is scaled by ScaledObject web, too"}}
		h.begin().steps(3)
		is := said(web.Status.Conditions)
		h.expect(strings.TrimSpace(spec), want, is["Ready"]+", "+is["Conflicted"])
	}
	h := newHouse(t)
	h.node("workers", "a")
	web := h.web(active)
	h.cfg.Active = false
	h.findings["shop/web"] = []kube.Finding{{Code: v1alpha1.ReasonForeignAutoscaler, Text: "Deployment web is scaled by ScaledObject web, too"}}
	h.begin().steps(3)
	is := said(web.Status.Conditions)
	h.expect("where the process recommends", "True Recommending, False ForeignAutoscaler", is["Ready"]+", "+is["Conflicted"])
}

// Every bad input is a condition with a reason, and never a write; what is beside it goes on.
func TestBadInputIsAConditionAndNeverAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*house)
		is    string // of the autoscaler, or else of the pool
		pool  string
	}{
		"a target that is not there":         {spoil: func(h *house) { delete(h.replicas, "shop/web") }, is: "False TargetNotFound"},
		"a target that an HPA has":           {spoil: foreign(v1alpha1.ReasonForeignAutoscaler), is: "False ForeignAutoscaler"},
		"a target that others keep changing": {spoil: foreign(v1alpha1.ReasonForeignWrites), is: "False ForeignWrites"},
		"a target without a scale":           {spoil: foreign(v1alpha1.ReasonTargetNotScalable), is: "False TargetNotScalable"},
		"an autoscaler that means nothing":   {spoil: func(h *house) { h.autoscalers["shop/web"].Spec.Behavior.ScaleDown.SelectPolicy = new("Most") }, is: "False InvalidSpec"},
		"a pool without a template":          {spoil: func(h *house) { h.pools["workers"].Spec.Template = v1alpha1.Template{} }, pool: "False InvalidSpec"},
		"a pool whose token cannot be read":  {spoil: func(h *house) { h.pools["workers"].Spec.Join.TokenFile = "/nowhere" }, pool: "False InvalidSpec"},
		"a pool whose first boots would fail": {spoil: func(h *house) {
			h.pools["workers"].Spec.Labels = map[string]v1alpha1.NodeLabelValue{"node-role.kubernetes.io/worker": ""}
		}, pool: "False InvalidSpec"},
		"a pool with another's VMIDs": {spoil: func(h *house) {
			older := h.pool("a", active)
			older.CreationTimestamp = metav1.NewTime(t0.Add(-time.Hour))
			h.pools["workers"].CreationTimestamp = metav1.NewTime(t0)
		}, pool: "False PoolsConflict"},
		"a pool with the address of a Proxmox VE host": {spoil: func(h *house) {
			h.cfg.Servers = []string{"https://pve1:8006", "https://10.0.0.60:8006"}
			h.pools["workers"].Spec.Network = &v1alpha1.Addressing{First: "10.0.0.50/24", Gateway: "10.0.0.1"}
		}, pool: "False PoolsConflict"},
		"a price book without prices":    {spoil: func(h *house) { h.book("default", "currency: EUR") }, pool: "False PricesUnknown"},
		"a price book that is not there": {spoil: func(h *house) { h.cfg.PriceBook = "dear" }, pool: "False PricesUnknown"},
		"machines that cannot be listed": {spoil: func(h *house) { h.broken["list"] = errors.New("no route to host") }, pool: "False MachinesUnknown"},
		"a pool that can make no machine": {spoil: func(h *house) {
			h.refuses = map[string][]nodescaler.RefusedOrder{"workers": {{Why: *because(pvecode.VMIDsExhausted, "all of 1000-1099 are taken")}}}
		}, pool: "False VMIDsExhausted"},
		"a pool whose machines failed": {spoil: func(h *house) { h.paused["workers"] = *because(pvecode.PoolPaused, "3 machines failed in a row") }, pool: "False PoolPaused"},
		"a pool that cluster-autoscaler has and that is observed": {spoil: func(h *house) {
			h.cfg.Provider = true
			h.pools["workers"].Spec.ScaledBy, h.pools["workers"].Spec.Mode = v1alpha1.ScaledByClusterAutoscaler, v1alpha1.ModePoolRecommend
		}, pool: "True Recommending"},
		"a pool that cluster-autoscaler has": {spoil: func(h *house) {
			h.cfg.Provider = true
			h.pools["workers"].Spec.ScaledBy = v1alpha1.ScaledByClusterAutoscaler
		}, pool: "True ScaledByClusterAutoscaler"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.web(active)
			other := h.autoscaler("metadata: {name: api}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}\n  policy: HPA\n  minReplicas: 3\n  maxReplicas: 5\n  runPeriod: 10s\n" + active)
			h.replicas["shop/api"] = 1
			h.pool("workers", active)
			c.spoil(h)
			h.begin().steps(5)
			h.expect("the other autoscaler goes on", true, h.replicas["shop/api"] >= 3)
			h.expect("and is ready", true, strings.HasPrefix(said(other.Status.Conditions)["AbleToScale"], "True"))
			if c.is != "" {
				h.expect("autoscaler", c.is, said(h.autoscalers["shop/web"].Status.Conditions)["Ready"])
				for _, d := range h.done {
					h.expect("it was not scaled", false, strings.HasPrefix(d, "scale shop/web"))
				}
				return
			}
			h.expect("pool", c.pool, said(h.pools["workers"].Status.Conditions)["Ready"])
			for _, d := range h.done {
				h.expect("nothing was made: "+d, false, d == "create workers")
			}
			h.expect("orders that were refused", 0, h.refused)
		})
	}
}

// Before the first look at Proxmox VE nothing is wrong. A look that failed is reported anyway.
func TestMachinesThatWereNotReadYetAreNoFault(t *testing.T) {
	h := newHouse(t)
	h.pool("workers", active)
	h.broken["list"] = fmt.Errorf("NoInventory: %w", loop.ErrUnread)
	ready := func() string { return said(h.pools["workers"].Status.Conditions)["Ready"] }
	h.begin().steps(1)
	h.expect("a new pool", "Unknown Starting", ready())
	delete(h.broken, "list")
	h.steps(1)
	h.expect("once they are read", "True Active", ready())
	h.broken["list"] = fmt.Errorf("NoInventory: %w", loop.ErrUnread)
	h.begin().steps(1)
	h.expect("after another start", "True Active", ready())
	warned := func() bool {
		return slices.ContainsFunc(h.told, func(e string) bool { return strings.Contains(e, v1alpha1.ReasonMachinesUnknown) })
	}
	h.expect("no event of it", false, warned())
	h.broken["list"] = errors.New("no route to host")
	h.steps(1)
	h.expect("no answer", "False MachinesUnknown", ready())
	h.expect("an event of that", true, warned())
}

func foreign(code string) func(*house) {
	return func(h *house) {
		h.findings["shop/web"] = []kube.Finding{{Code: code, Text: "it is not ours"}}
		h.cores = 2
	}
}

func TestSignalsThatAreAmissAreAConditionAndChangeNothing(t *testing.T) {
	h := newHouse(t)
	h.node("workers", "a")
	h.replicas["shop/web"] = 4
	web := h.autoscaler(`
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: Active
  policy: SLOCost
  minReplicas: 1
  maxReplicas: 10
  runPeriod: 10s
  slo: {p: 95th, target: 300ms, window: 5m}
  cost: {target: 40, per: 1h}
  signals: {queries: {latency: up}, openCost: {url: "http://opencost:9003"}}
`)
	h.latency.Why = "the query returned 3 series"
	h.amiss["shop/web"] = []podscaler.Reason{
		{Code: signals.CodeCostSourceMismatch, Text: "730 times as much"}, {Code: signals.CodeManySeries, Text: "latency: 3 series"}, {Code: signals.CodeNoBucketEdge, Text: "no edge at 300 ms"},
	}
	h.begin().steps(4)
	h.expect("done", []string{}, h.done)
	got := said(web.Status.Conditions)
	for kind, want := range map[string]string{
		"Ready": "False LatencyUnknown", "MetricsHealthy": "False ManySeries", "CostSourceMismatch": "True CostSourceMismatch", "SLOAtRisk": "Unknown NotMeasured",
	} {
		h.expect(kind, want, got[kind])
	}
	h.expect("told once", 1, strings.Count(strings.Join(h.told, "\n"), "MetricsUnhealthy")+strings.Count(strings.Join(h.told, "\n"), "ManySeries: latency: 3 series"))
	h.latency = podscaler.Known(0.15)
	h.amiss = nil
	h.steps(1)
	got = said(web.Status.Conditions)
	for kind, want := range map[string]string{
		"Ready": "True Active", "MetricsHealthy": "True AsMeasured", "CostSourceMismatch": "False PricesAgree", "SLOAtRisk": "False WithinTarget", "BudgetExceeded": "False WithinTarget",
	} {
		h.expect(kind, want, got[kind])
	}
}

// Machines that stop by themselves are not started again in pools in which nothing is to be done.
func TestPoolsRestWhereNothingIsToBeDone(t *testing.T) {
	h := newHouse(t)
	h.pool("acts", active)
	h.pool("recommends", "").Spec.VMIDs = v1alpha1.VMIDs{First: 2000, Last: 2099}
	paused := h.pool("paused", active)
	paused.Spec.VMIDs = v1alpha1.VMIDs{First: 3000, Last: 3099}
	paused.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
	h.begin().steps(2)
	h.expect("pools that rest", map[string]bool{"recommends": true, "paused": true}, h.resting)
	paused.Annotations = nil
	h.steps(1)
	h.expect("once it is resumed", map[string]bool{"recommends": true}, h.resting)
}

func TestPausesEndByTheClockAndKeepTheirDirection(t *testing.T) {
	h := newHouse(t)
	web := h.web(active)
	h.node("workers", "a")
	pauseWith := func(value, until string) {
		web.Annotations = map[string]string{v1alpha1.AnnotationPaused: value, v1alpha1.AnnotationPausedBy: "ann"}
		if until != "" {
			web.Annotations[v1alpha1.AnnotationPausedUntil] = until
		}
	}
	pauseWith("true", h.now.Add(time.Minute).Format(time.RFC3339))
	h.cores = 1
	h.begin().steps(5)
	h.expect("while it is paused", 4, h.replicas["shop/web"])
	h.expect("ready", "True Paused", said(web.Status.Conditions)["Ready"])
	h.expect("paused", "True Paused", said(web.Status.Conditions)["Paused"])
	for _, c := range web.Status.Conditions {
		if c.Type == "Paused" && c.Message != "paused by ann until 2026-03-02T08:01:00Z" {
			t.Errorf("message %q", c.Message)
		}
	}
	h.steps(3)
	h.expect("after a minute", 8, h.replicas["shop/web"])
	h.expect("not any more", "False NotPaused", said(web.Status.Conditions)["Paused"])
	pauseWith("down", "")
	h.cores = 0.1
	h.steps(3)
	h.expect("nothing goes down", 8, h.replicas["shop/web"])
	pauseWith("up", "")
	h.steps(2)
	h.expect("down again", true, h.replicas["shop/web"] < 8)
	before := h.replicas["shop/web"]
	h.cores = 2
	h.steps(2)
	h.expect("nothing goes up", before, h.replicas["shop/web"])
	web.Annotations[v1alpha1.AnnotationPausedReplicas] = "3"
	h.steps(2)
	h.expect("scenario 40: paused-replicas 3", 3, h.replicas["shop/web"])
	h.expect("which is paused", "True Paused", said(web.Status.Conditions)["Paused"])
	h.expect("and so is ready", "True Paused", said(web.Status.Conditions)["Ready"])
	h.expect("and not scaling", "False Paused", said(web.Status.Conditions)["ScalingActive"])
	h.expect("by whom", "paused by ann: there are to be 3 replicas", conditionText(web, "Paused"))
	before = 3
	web.Annotations[v1alpha1.AnnotationPausedReplicas] = "-3"
	h.steps(2)
	h.expect("what is no number pauses", true, strings.Contains(conditionText(web, "Paused"), `must be a number of replicas such as 3, was "-3"`))
	h.expect("and changes nothing", before, h.replicas["shop/web"])
	pauseWith("sometimes", "")
	h.steps(2)
	h.expect("what is not understood pauses", before, h.replicas["shop/web"])
	h.expect("and says so", true, strings.Contains(web.Status.Conditions[0].Message+conditionText(web, "Paused"), `must be true, up or down, was "sometimes"`))
}

func TestAFallbackThatDecidesIsSaidAndNoMeasurement(t *testing.T) {
	h := newHouse(t)
	web := h.web(active + "  fallback: {after: 1m, behavior: CurrentIfHigher, replicas: 6}\n")
	h.node("workers", "a")
	h.cores = 0.5 // as it should be
	h.begin().steps(3)
	h.expect("while it is measured", "False PolicyDecides", said(web.Status.Conditions)["Fallback"])
	h.cores = math.NaN()
	h.steps(5)
	h.expect("before its time", 4, h.replicas["shop/web"])
	for i := 0; i < 5 && h.replicas["shop/web"] == 4; i++ {
		h.steps(1)
	}
	h.expect("after it", 6, h.replicas["shop/web"])
	h.expect("the fallback decides", "True Fallback", said(web.Status.Conditions)["Fallback"])
	h.expect("which is told", true, slices.ContainsFunc(h.told, func(e string) bool { return strings.HasPrefix(e, "WorkloadAutoscaler web Fallback: ") }))
	h.expect("and nothing is measured", "False FailedGetResourceMetric", said(web.Status.Conditions)["ScalingActive"])
	h.expect("nor healthy", "False FailedGetResourceMetric", said(web.Status.Conditions)["MetricsHealthy"])
}

func conditionText(a *v1alpha1.WorkloadAutoscaler, kind string) string {
	for _, c := range a.Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// A pool whose template is being looked for is not ordered from, which is no fault; and the order
// is made once the template is found, and not an interval later.
func TestFirstOrderOfANewPoolWaitsForItsTemplate(t *testing.T) {
	h := newHouse(t)
	h.web(active)
	h.pool("workers", active)
	h.unread = map[string]nodescaler.Reason{"workers": {Code: placement.CodeTemplateUnread}}
	h.begin().steps(3)
	h.expect("done before", []string{}, h.done)
	h.expect("said before", "True Active", said(h.pools["workers"].Status.Conditions)["Ready"])
	for _, e := range h.told {
		h.expect("told of the pool before: "+e, false, strings.HasPrefix(e, "VMPool") && !strings.Contains(e, reasonServerToken))
	}
	h.unread, h.news = nil, make(chan struct{}, 1)
	h.cfg.Interval = time.Hour
	h.begin()
	h.news <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h.made = cancel
	h.term.run(ctx, ctx) // whose first step only looks
	h.expect("done after", []string{"create workers"}, h.done)
}

// A clock that jumps is a restart: nothing shrinks sooner for it, and growth waits no longer than a
// step.
func TestJumpingClocksShrinkNothing(t *testing.T) {
	for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		h := newHouse(t)
		web := h.web(active)
		web.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(300))
		h.node("workers", "a")
		h.node("workers", "b")
		h.cores = 0.5
		h.begin().steps(4)
		h.cores = 0.1
		h.steps(2)
		h.now = h.now.Add(jump)
		h.steps(20)
		h.expect(jump.String()+": replicas before the window is over", 4, h.replicas["shop/web"])
		h.cores = 1
		h.now = h.now.Add(jump)
		h.steps(3)
		h.expect(jump.String()+": it grows", 8, h.replicas["shop/web"])
	}
}

// Nor is a machine given up that was ordered a moment ago, or its pool left alone, because the
// clock says otherwise.
func TestMachinesOnTheirWayOutliveAJumpOfTheClock(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		for _, jump := range []time.Duration{30 * time.Minute, -30 * time.Minute} {
			h := newHouse(t)
			h.cfg.Nodes.Policy = policy
			h.pool("workers", active)
			h.node("workers", "a")
			h.machines[0].Phase, h.machines[0].Created, h.machines[0].Since, h.nodes = nodescaler.Booting, h.now, h.now, nil
			h.web(active)
			h.begin().steps(3)
			h.now = h.now.Add(jump)
			h.steps(60)
			h.expect(policy+" "+jump.String()+": done in ten minutes", []string{}, slices.DeleteFunc(h.done, func(what string) bool { return strings.HasPrefix(what, "scale") }))
			if jump > 0 {
				h.steps(60)
				h.expect(policy+": done once it is late", true, slices.Contains(h.done, "delete workers-a"))
			}
		}
	}
}

// A tick may be a little ahead of the clock, and a step that is woken right after it is not before
// it.
func TestWhatWakesAStepRightAfterATickIsNoJump(t *testing.T) {
	h := newHouse(t)
	h.web(active)
	h.node("workers", "a")
	h.begin().steps(2)
	last := h.term.last
	if err := h.term.step(t.Context(), last.Add(-time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	h.expect("it is forgotten", time.Time{}, h.term.memory.Jumped)
	h.expect("its time", last, h.term.last)
}

// A step may take minutes, as where Proxmox VE or the API server hangs. What was remembered is as
// true as before.
func TestALongStepIsNoJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.web(active)
		h.node("workers", "a")
		h.begin().steps(2)
		time.Sleep(10 * time.Minute)
		h.now = h.now.Add(10 * time.Minute)
		h.steps(1)
		h.expect("jumped after a long step", time.Time{}, h.term.memory.Jumped)
		time.Sleep(10 * time.Minute) // and the clock was put back by as much
		set := h.now
		h.steps(1)
		h.expect("jumped after a long step and a clock that was set", set, h.term.memory.Jumped)
	})
}

// Times of a process count on by themselves when its clock is set. Steps go by what the clock
// shows, or no jump would be seen in them.
func TestStepsGoByWhatTheClockShows(t *testing.T) {
	h := newHouse(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.cfg.Now = func() time.Time {
		cancel()
		return time.Now()
	}
	h.begin().term.run(ctx, t.Context())
	h.expect("times", 1, len(h.measured))
	for _, at := range h.measured {
		h.expect("the time of a step", at.Round(0), at)
	}
}

// slowSignals take a while to be measured.
type slowSignals struct {
	measured
	takes time.Duration
}

func (s slowSignals) Prepare(ctx context.Context, now time.Time) {
	s.measured.Prepare(ctx, now)
	time.Sleep(s.takes)
}

// Signals are measured beside the steps, and there is one between two ticks however long they take.
func TestNoStepWaitsForSignals(t *testing.T) {
	for _, c := range []struct {
		takes           time.Duration
		steps, measured int // within a minute after the first step, which waits
	}{
		{0, 6, 6}, {time.Second, 6, 6}, {8 * time.Second, 6, 6}, {24 * time.Second, 6, 3}, {605 * time.Second, 6, 1},
	} {
		t.Run(c.takes.String(), func(t *testing.T) {
			h := newHouse(t)
			h.web(active)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.takes+time.Minute+time.Second)
				defer cancel()
				h.cfg.Now, h.cfg.Signals = time.Now, slowSignals{measured{h}, c.takes}
				var steps stepsMade
				h.cfg.Journal = &steps
				h.begin().term.run(ctx, ctx)
				h.term.beside.Wait()
				h.expect("steps", c.steps, int(steps)-1)
				h.expect("measured", c.measured, len(h.measured)-1)
			})
		})
	}
}

// stepsMade is a journal that counts steps.
type stepsMade int

func (n *stepsMade) Append(*loop.Step) error { *n++; return nil }

func TestScalersRememberAsLongAsTheirSpecIsTheSame(t *testing.T) {
	h := newHouse(t)
	web := h.web(active)
	h.node("workers", "a")
	h.begin().steps(2)
	web.Labels = map[string]string{"team": "shop"}
	web.Spec.Mode = v1alpha1.ModeRecommend
	h.expect("after another mode it is forgotten", false, h.looks())
	web.Spec.MaxReplicas = 6
	h.expect("after another maximum it is forgotten", true, h.looks())
}

// What is read may be older than what was written, and mere numbers are not written every time.
func TestStatusGoesOnFromWhatWasSaidLast(t *testing.T) {
	h := newHouse(t)
	web := h.web(active)
	web.Spec.RunPeriod = "20s"
	h.node("workers", "a")
	h.node("workers", "b")
	h.cores = 1
	h.frozen = true
	h.begin().steps(3)
	told := len(h.told)
	h.cores = 0.5 // as it should be
	h.steps(4)
	o := h.term.said[web.UID].(v1alpha1.WorkloadAutoscalerStatus)
	if o.LastDecision == nil || o.LastDecision.To != 8 || o.LastScaleTime == nil {
		t.Errorf("what was decided is forgotten: %+v", o)
	}
	for _, e := range h.told[told:] {
		if strings.Contains(e, "Rescale") {
			t.Errorf("it is told again: %s", e)
		}
	}
}

func TestPoolsThatGoTakeNoMachineWithThem(t *testing.T) {
	h := newHouse(t)
	h.pool("workers", active)
	h.node("workers", "a")
	h.node("workers", "b")
	h.begin().steps(2)
	delete(h.pools, "workers")
	h.done = nil
	h.machines[0].Phase = nodescaler.Failed // which would be reclaimed at once
	h.steps(10)
	h.expect("done", []string{}, h.done)
	h.expect("pools of the fleet", []string{}, h.usable)
}

// Each part works on its own pools; those of cluster-autoscaler are offered to it while they are
// active.
func TestEachPartHasItsOwnPools(t *testing.T) {
	for _, c := range []struct {
		nodes, provider bool
		ready, usable   []string
		offered         string
	}{
		{nodes: true, ready: []string{"True Active", ""}, usable: []string{"workers"}},
		{provider: true, ready: []string{"", "True ScaledByClusterAutoscaler"}, usable: []string{"db"}, offered: "db"},
		{nodes: true, provider: true, ready: []string{"True Active", "True ScaledByClusterAutoscaler"}, usable: []string{"db", "workers"}, offered: "db"},
	} {
		h := newHouse(t)
		offered := ""
		h.cfg.NodeScaler, h.cfg.Provider = c.nodes, c.provider
		h.cfg.Offer = func(pools []nodescaler.Pool, _ *pricing.Book) error {
			offered = ""
			for _, p := range pools {
				offered += p.Name
			}
			return nil
		}
		h.web("")
		h.pool("workers", active)
		db := h.pool("db", active+"  scaledBy: ClusterAutoscaler\n")
		db.Spec.VMIDs = v1alpha1.VMIDs{First: 2000, Last: 2099}
		h.begin().steps(3)
		h.expect("ready", c.ready, []string{said(h.pools["workers"].Status.Conditions)["Ready"], said(db.Status.Conditions)["Ready"]})
		h.expect("pools of the fleet", c.usable, h.usable)
		h.expect("offered", c.offered, offered)
		for _, d := range h.done {
			h.expect("made", c.nodes, d == "create workers")
		}
		db.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		h.steps(1)
		h.expect("offered while it is paused", "", offered)
	}
}

func TestOnlyWhatIsLeftOfActivePoolsIsCollected(t *testing.T) {
	h := newHouse(t)
	h.pool("workers", active)
	db := h.pool("db", "")
	db.Spec.VMIDs = v1alpha1.VMIDs{First: 2000, Last: 2099}
	h.begin().steps(1)
	both := []string{"machine of workers", "disc of workers"}
	h.expect("collected", both, h.collected)
	h.steps(59)
	h.expect("within ten minutes", both, h.collected)
	h.steps(2)
	h.expect("after them", slices.Concat(both, both), h.collected)
}

// Of pools that cluster-autoscaler scales discs are collected; machines are its own to remove.
func TestDiscsOfAutoscalersPoolsAreCollected(t *testing.T) {
	for _, nodes := range []bool{false, true} {
		h := newHouse(t)
		h.cfg.NodeScaler, h.cfg.Provider = nodes, true
		h.cfg.Offer = func([]nodescaler.Pool, *pricing.Book) error { return nil }
		h.pool("workers", active)
		db := h.pool("db", active+"  scaledBy: ClusterAutoscaler\n")
		db.Spec.VMIDs = v1alpha1.VMIDs{First: 2000, Last: 2099}
		h.begin().steps(1)
		want := []string{"disc of db"}
		if nodes {
			want = []string{"machine of workers", "disc of workers", "disc of db"}
		}
		h.expect("collected", want, h.collected)
	}
}

func TestReplicasOfZeroAreOursOnlyIfTheStatusSaysSo(t *testing.T) {
	for _, ours := range []bool{false, true} {
		h := newHouse(t)
		h.node("workers", "a")
		web := h.web(active)
		web.Spec.MinReplicas = new(int32(2))
		h.replicas["shop/web"] = 0
		if ours {
			web.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScaledToZero, Status: metav1.ConditionTrue}}
		}
		h.begin().steps(3)
		h.expect("replicas", map[bool]int{false: 0, true: 2}[ours], h.replicas["shop/web"])
		want := "False ScalingDisabled"
		if ours {
			want = "True Active"
		}
		h.expect("ready", want, said(web.Status.Conditions)["Ready"])
	}
}

// What is recommended may be carried out by another client. Whoever leads next has to know of it.
func TestReplicasOfZeroThatAreRecommendedAreOurs(t *testing.T) {
	h := newHouse(t)
	web := h.web(active)
	web.Spec.Mode, web.Spec.RunPeriod = v1alpha1.ModeRecommend, "30s" // three steps
	h.node("workers", "a")
	h.begin().steps(4)
	zero := func() string { return said(web.Status.Conditions)["ScaledToZero"] }
	h.expect("at first", "False NotAtZero", zero())
	web.Annotations = map[string]string{v1alpha1.AnnotationPausedReplicas: "0"}
	for n := range 6 {
		if h.steps(1); n >= 3 {
			h.expect("once it is recommended", "True ScaledToZero", zero())
		}
	}
	h.replicas["shop/web"] = 0 // by KEDA
	h.steps(2)
	h.expect("once it is so", "True ScaledToZero", zero())
}

// A write of 0 replicas that was not answered in time may have been carried out. Whoever leads next
// has to know by the status that it was ours.
func TestReplicasOfZeroThatWereTriedForAreOurs(t *testing.T) {
	h := newHouse(t)
	web := h.web(active)
	h.node("workers", "a")
	h.cfg.Interval = 5 * time.Second // it decides at every other step
	h.begin().steps(1)
	zero := func() string { return said(web.Status.Conditions)["ScaledToZero"] }
	h.expect("at first", "False NotAtZero", zero())
	web.Annotations = map[string]string{v1alpha1.AnnotationPausedReplicas: "0"}
	h.broken["scale"] = context.DeadlineExceeded
	h.steps(2)
	h.expect("once it was tried", "True ScaledToZero", zero())
	h.steps(1)
	h.expect("until the next decision", "True ScaledToZero", zero())
	was := *web
	web.Annotations, h.cores = nil, 1
	h.steps(2)
	h.expect("once more are wanted", "False NotAtZero", zero())

	*web = was
	web.Annotations = nil
	delete(h.broken, "scale")
	h.replicas["shop/web"] = 0 // it was carried out
	h.begin().steps(4)
	h.expect("replicas under the next leader", true, h.replicas["shop/web"] > 0)
}

// Marks only choose among pods: that they fail is no failure of what is decided.
func TestMarksThatFailHoldNothingUp(t *testing.T) {
	h := newHouse(t)
	h.cfg.Nodes.Policy = "joint"
	h.pool("workers", active)
	web := h.web(active)
	h.node("workers", "a")
	h.broken["choose"] = errors.New("denied by a webhook")
	h.cores = 0.1
	last := &lastStep{}
	h.cfg.Journal = last
	h.begin()
	for n := 0; n < 10 && h.replicas["shop/web"] == 4; n++ {
		h.steps(1)
	}
	h.expect("replicas", 1, h.replicas["shop/web"])
	h.expect("able", "True SucceededRescale", said(web.Status.Conditions)["AbleToScale"])
	h.expect("applied", true, web.Status.LastDecision != nil && web.Status.LastDecision.Applied)
	h.expect("problems", true, slices.ContainsFunc(last.Problems, func(r nodescaler.Reason) bool { return r.Code == loop.CodePodsNotMarked }))
}

func TestFailedWritesAreSaid(t *testing.T) {
	h := newHouse(t)
	web := h.web(active)
	h.node("workers", "a")
	h.node("workers", "b")
	h.cores = 1
	h.broken["scale"] = errors.New("changed by another client")
	h.cfg.Interval = 5 * time.Second // it decides at every other step
	h.begin().steps(3)
	for range 4 {
		h.expect("able", "False FailedUpdateScale", said(web.Status.Conditions)["AbleToScale"])
		h.expect("ready", "False FailedUpdateScale", said(web.Status.Conditions)["Ready"])
		h.steps(1)
	}
	h.expect("told", true, strings.Contains(strings.Join(h.told, "\n"), "web FailedRescale: from 4 to 8 replicas: changed by another client"))
	delete(h.broken, "scale")
	h.steps(2)
	h.expect("again", 8, h.replicas["shop/web"])
	h.expect("able again", "True SucceededRescale", said(web.Status.Conditions)["AbleToScale"])
	h.broken["status"] = errors.New("forbidden")
	h.steps(1) // its statuses are written while the next one is made
	if err := h.term.step(t.Context(), h.now); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a status that cannot be written: %v", err)
	}
}

func TestNothingIsDoneWithoutAPictureOfTheCluster(t *testing.T) {
	h := newHouse(t)
	h.web(active)
	h.node("workers", "a")
	h.node("workers", "b")
	h.begin().steps(2)
	h.broken["observe"] = kube.ErrStale
	h.cores = 1
	if err := h.term.step(t.Context(), h.now); !errors.Is(err, kube.ErrStale) {
		t.Errorf("the step says %v", err)
	}
	h.expect("done", []string{}, h.done)
	delete(h.broken, "observe")
	h.expect("it is forgotten", false, h.looks())
}

// A term that is asked to end ends its step first; who only waits ends at once.
func TestTheStepUnderWayIsEnded(t *testing.T) {
	h := newHouse(t)
	h.web(active)
	h.node("workers", "a")
	h.node("workers", "b")
	h.cores = 1
	h.cfg.Fleet = nil
	h.cfg.NodeScaler = false
	ctx, stop := context.WithCancel(t.Context())
	n := 0
	h.cfg.Now = func() time.Time {
		n++
		h.now = h.now.Add(10 * time.Second)
		if n == 3 { // the second reading was of the tick
			stop() // in the middle of the second step, which decides
		}
		return h.now
	}
	h.cfg.Interval = time.Millisecond
	o, err := New(h.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Run(ctx); err != nil {
		t.Error(err)
	}
	h.expect("done", []string{"scale shop/web to 8"}, h.done)
	if err := o.Ready(); err != nil {
		t.Errorf("it was not ready: %v", err)
	}
}

// idsOnly is a journal of ids.
type idsOnly struct {
	ids      []string
	appended func()
}

func (j *idsOnly) Append(s *loop.Step) error {
	j.ids = append(j.ids, s.ID)
	j.appended()
	return nil
}

// No id is in a journal twice, whoever wrote to it in the terms before.
func TestIdsCountOnFromTermToTerm(t *testing.T) {
	h := newHouse(t)
	h.web(active)
	h.cfg.Fleet, h.cfg.NodeScaler, h.cfg.Interval = nil, false, time.Millisecond
	h.cfg.Now = func() time.Time { h.now = h.now.Add(10 * time.Second); return h.now }
	var kept idsOnly
	h.cfg.Journal = &kept
	var last int
	var unread error
	h.cfg.Counted = func() (int, error) { return last, unread }
	o, err := New(h.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of     string
		last   int
		unread error
		want   string
	}{
		{"a new journal", 0, nil, "d-000001"},
		{"one to which another process has written", 41, nil, "d-000042"},
		{"one that was removed", 0, nil, "d-000043"},
		{"one that cannot be read", 0, errors.New("is away"), "d-000044"},
	} {
		last, unread, kept.ids = c.last, c.unread, nil
		ctx, end := context.WithCancel(t.Context())
		kept.appended = end
		if err := o.lead(ctx, t.Context()); err != nil {
			t.Error(c.of, err)
		}
		h.expect(c.of, []string{c.want}, kept.ids)
	}
}
