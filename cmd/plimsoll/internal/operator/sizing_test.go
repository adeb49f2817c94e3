package operator

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	recommends = "  rightsize: {}\n"
	resizes    = "  rightsize: {mode: InPlace}\n"
)

// use is what a container was measured to use.
func use(cores float64, mebibytes float64) podscaler.ContainerUse {
	known := func(v float64) podscaler.Sample {
		return podscaler.Sample{Known: true, Value: v, Span: 15 * time.Second}
	}
	return podscaler.ContainerUse{CPU: known(cores), Memory: known(mebibytes * float64(pricing.MiB))}
}

// sized has web on a node, with pods that request half a core and 256Mi, and a step each minute.
func sizedHouse(t *testing.T, more string) *house {
	t.Helper()
	h := newHouse(t)
	h.cfg.Interval = time.Minute
	h.web(more)
	h.replicas["shop/web"], *h.autoscalers["shop/web"].Spec.MinReplicas, h.autoscalers["shop/web"].Spec.MaxReplicas = 2, 2, 2
	h.pool("workers", "")
	h.node("workers", "a")
	h.uses["app"] = use(4, 600)
	return h
}

// resized are the resizes that were asked for.
func (h *house) resized() []string {
	var all []string
	for _, d := range h.done {
		if strings.HasPrefix(d, "resize") {
			all = append(all, d)
		}
	}
	return all
}

func (h *house) sizing() *v1alpha1.RightsizeStatus {
	h.Helper()
	st := h.autoscalers["shop/web"].Status.Rightsize
	if st == nil || st.Reason == nil {
		h.Fatalf("nothing is said: %+v", st)
	}
	return st
}

// because is the reason of a code for what the container should request.
func (h *house) because(code string) v1alpha1.Reason {
	h.Helper()
	for _, r := range h.sizing().Containers[0].Reasons {
		if r.Code == code {
			return r
		}
	}
	h.Fatalf("no %s: %+v", code, h.sizing().Containers[0].Reasons)
	return v1alpha1.Reason{}
}

func TestWhatContainersShouldRequestIsSaidAndNotDone(t *testing.T) {
	h := sizedHouse(t, active+recommends)
	h.begin().steps(5)
	h.expect("resized", []string{}, h.resized())
	st := h.sizing()
	h.expect("reason", rightsize.ReasonModeOff, st.Reason.Code)
	// The end of the bucket, and 15 %.
	want := []v1alpha1.ContainerRecommendation{{
		Name: "app", Target: v1alpha1.ContainerAmounts{CPU: "4742m", Memory: "764046746"}, Uncapped: v1alpha1.ContainerAmounts{CPU: "4742m", Memory: "764046746"},
		Lower: st.Containers[0].Lower, Upper: st.Containers[0].Upper, Reasons: st.Containers[0].Reasons,
	}}
	if d := cmp.Diff(want, st.Containers); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	told := 0
	for _, e := range h.told {
		if strings.Contains(e, "web OutsideBounds: pod shop/web-00: container app requests 500m of cpu, which is not within ") {
			told++
		}
	}
	h.expect("times that it was told", 1, told)
}

func TestWithoutTheBlockNothingIsLearnt(t *testing.T) {
	h := sizedHouse(t, active)
	h.begin().steps(3)
	if st := h.autoscalers["shop/web"].Status.Rightsize; st != nil {
		t.Errorf("%+v", st)
	}
}

func TestPodsAreResizedOneByOneUntilAllHaveIt(t *testing.T) {
	h := sizedHouse(t, active+resizes)
	h.begin().steps(1)
	h.expect("at first sight", []string{}, h.resized())
	h.steps(1)
	h.expect("after a minute", []string{"resize shop/web-00 app 4742m 728Mi"}, h.resized())
	last := h.sizing().LastResize
	if last == nil || last.Pod != "shop/web-00" || !last.Applied || last.Reasons[0].Code != rightsize.ReasonOutsideBounds {
		t.Errorf("last resize %+v", last)
	}
	h.steps(4)
	h.expect("in the end", []string{"resize shop/web-00 app 4742m 728Mi", "resize shop/web-01 app 4742m 728Mi"}, h.resized())
	h.expect("reason", rightsize.ReasonUnchanged, h.sizing().Reason.Code)
	h.expect("told", true, slices.ContainsFunc(h.told, func(e string) bool {
		return strings.HasPrefix(e, "WorkloadAutoscaler web Resized: pod shop/web-00: container app requests 500m of cpu")
	}))
}

// Steps come often; samples, and resizes, once a minute.
func TestContainersAreLookedAtOnceAMinute(t *testing.T) {
	h := sizedHouse(t, active+resizes)
	h.cfg.Interval = 10 * time.Second
	h.begin().steps(12) // two minutes
	measured := h.because(rightsize.ReasonMeasured)
	if !strings.Contains(measured.Text, "4 samples") { // of two pods
		t.Errorf("%s", measured.Text)
	}
	h.expect("resizes", 1, len(h.resized()))
}

func TestNobodyResizesWhatIsNotToBe(t *testing.T) {
	for name, c := range map[string]struct {
		more  string
		spoil func(*house)
		want  string
	}{
		"a lid on everything":         {active + resizes, func(h *house) { h.cfg.Active = false }, v1alpha1.ReasonRecommending},
		"the object recommends":       {resizes, func(*house) {}, v1alpha1.ReasonRecommending},
		"the object is paused":        {active + resizes, annotate(v1alpha1.AnnotationPaused, "true"), v1alpha1.ReasonPaused},
		"paused in one direction":     {active + resizes, annotate(v1alpha1.AnnotationPaused, "up"), v1alpha1.ReasonPaused},
		"its replicas are fixed":      {active + resizes, annotate(v1alpha1.AnnotationPausedReplicas, "2"), v1alpha1.ReasonPaused},
		"an HPA has the target":       {active + resizes, foreign(v1alpha1.ReasonForeignAutoscaler), v1alpha1.ReasonForeignAutoscaler},
		"a VPA sizes it":              {active + resizes, func(h *house) { h.sizer = &kube.Finding{Code: kube.FindingForeignSizer, Text: "by VPA v"} }, kube.FindingForeignSizer},
		"its pods are being replaced": {active + resizes, func(h *house) { h.rollout = podscaler.Rollout{InProgress: true, Why: "1 of 2"} }, podscaler.ReasonRollout},
		"one is deferred": {active + resizes, func(h *house) {
			h.sizes["shop/web-01"] = rightsize.Pod{Running: true, Resize: rightsize.ResizePending, Containers: h.containers}
		}, rightsize.ReasonResizePending},
		"none runs": {active + resizes, func(h *house) { h.sizes = pods(rightsize.Pod{}) }, rightsize.ReasonNoRecommendation},
		"no node holds what they were to": {active + resizes, func(h *house) {
			h.sizes = pods(rightsize.Pod{Running: true, Resize: rightsize.ResizeInfeasible, Containers: h.containers})
		}, rightsize.ReasonResizeInfeasible},
		"they have no requests":        {active + resizes, func(h *house) { h.containers = []rightsize.Container{{Name: "app"}} }, rightsize.ReasonQoSFixed},
		"nothing was measured":         {active + resizes, func(h *house) { h.uses = nil }, rightsize.ReasonNoRecommendation},
		"what was measured is unknown": {active + resizes, func(h *house) { h.uses["app"] = podscaler.ContainerUse{} }, rightsize.ReasonNoRecommendation},
	} {
		t.Run(name, func(t *testing.T) {
			h := sizedHouse(t, c.more)
			c.spoil(h)
			h.begin().steps(4)
			h.expect("resized", []string{}, h.resized())
			h.expect("reason", c.want, h.sizing().Reason.Code)
		})
	}
}

func annotate(key, value string) func(*house) {
	return func(h *house) { h.autoscalers["shop/web"].Annotations = map[string]string{key: value} }
}

func pods(p rightsize.Pod) map[string]rightsize.Pod {
	return map[string]rightsize.Pod{"shop/web-00": p, "shop/web-01": p}
}

// A process that starts knows a quiet hour and takes it for all there is. Until it knows a day, no
// request is made less; then it may be.
func TestAProcessThatStartsTakesNothingAwayForADay(t *testing.T) {
	h := sizedHouse(t, active+resizes)
	h.uses["app"] = use(0.05, 100)
	old := rightsize.Pod{Running: true, Started: t0.Add(-100 * time.Hour), Containers: h.containers}
	h.sizes = pods(old)
	h.begin().steps(24 * 60)
	h.expect("in a day", []string{}, h.resized())
	h.expect("reason", rightsize.ReasonUnchanged, h.sizing().Reason.Code)
	h.steps(10)
	h.expect("after a day", 2, len(h.resized()))
	if !strings.HasPrefix(h.resized()[0], "resize shop/web-00 app ") || h.sizes["shop/web-00"].Containers[0].Requests.CPU >= 500 {
		t.Errorf("%v", h.resized())
	}
}

// Replicas that follow CPU in proportion to requests, and requests that follow CPU, would chase
// each other: CPU is shown and left alone, and memory is sized.
func TestCPUIsLeftToWhoScalesByIt(t *testing.T) {
	h := sizedHouse(t, active+resizes)
	a := h.autoscalers["shop/web"]
	a.Spec.HPA, a.Spec.MaxReplicas = nil, 3 // 80 % of the request
	h.autoscalers["shop/web"].Spec.Behavior = nil
	h.begin().steps(10)
	h.expect("resized", []string{"resize shop/web-00 app 500m 728Mi", "resize shop/web-01 app 500m 728Mi"}, h.resized())
	rec := h.sizing().Containers[0]
	h.expect("shown", "4742m", rec.Target.CPU)
	h.expect("reason", rightsize.ReasonScaledByCPU, rec.Reasons[len(rec.Reasons)-1].Code)
}

func TestCPUIsTakenForScaledByUnlessItIsKnownOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		spec podpolicy.Spec
		want bool
	}{
		"HPA, as it is":         {podpolicy.Spec{Policy: "HPA"}, true},
		"HPA in percent":        {podpolicy.Spec{Policy: "HPA", HPA: &podpolicy.HPA{Metrics: []podpolicy.Metric{{Type: podpolicy.Resource, AverageUtilization: 50}}}}, true},
		"HPA in cores":          {podpolicy.Spec{Policy: "HPA", HPA: &podpolicy.HPA{Metrics: []podpolicy.Metric{{Type: podpolicy.Resource}}}}, false},
		"FastSlow":              {podpolicy.Spec{Policy: "FastSlow"}, true},
		"FastSlow by a series":  {podpolicy.Spec{Policy: "FastSlow", FastSlow: &podpolicy.FastSlow{Metric: "queue"}}, false},
		"Watermark":             {podpolicy.Spec{Policy: "Watermark"}, true},
		"Watermark by a series": {podpolicy.Spec{Policy: "Watermark", Watermark: &podpolicy.Watermark{Metrics: []podpolicy.WatermarkMetric{{Type: podpolicy.Pods}}}}, false},
		"Predictive":            {podpolicy.Spec{Policy: "Predictive"}, true},
		"Predictive that learns what fits into a request": {podpolicy.Spec{Policy: "Predictive", Predictive: &podpolicy.Predictive{
			CPU: podpolicy.PredictiveCPU{AverageValue: 300},
		}}, true},
		"Predictive with a profile and CPU in cores": {podpolicy.Spec{Policy: "Predictive", Predictive: &podpolicy.Predictive{
			Profile: podpolicy.PredictiveProfile{Linear: &podpolicy.LinearProfile{PerPod: 10}}, CPU: podpolicy.PredictiveCPU{AverageValue: 300},
		}}, false},
		"SLOCost":                    {podpolicy.Spec{Policy: "SLOCost"}, false},
		"Joint":                      {podpolicy.Spec{Policy: "Joint"}, false},
		"one that is not known here": {podpolicy.Spec{Policy: "Tomorrow"}, true},
	} {
		if got := scaledByRequests(c.spec); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A pod that does not get well by its resize keeps the others from the same, and may itself be
// given more.
func TestTheNextPodWaitsForTheLastToBeReady(t *testing.T) {
	h := sizedHouse(t, active+resizes)
	h.unready = map[string]bool{"shop/web-00": true}
	h.begin().steps(6)
	h.expect("resized", []string{"resize shop/web-00 app 4742m 728Mi"}, h.resized())
	h.expect("reason", rightsize.ReasonOneByOne, h.sizing().Reason.Code)
	h.uses["app"] = use(4, 90000)
	h.steps(1)
	h.expect("the same gets more", true, len(h.resized()) == 2 && strings.HasPrefix(h.resized()[1], "resize shop/web-00 "))
	h.unready = nil
	h.steps(2)
	h.expect("then the next", true, len(h.resized()) == 3 && strings.HasPrefix(h.resized()[2], "resize shop/web-01 "))
}

// A kill for memory is counted once for each pod, however often the pod's status shows it.
func TestAKillForMemoryIsCountedOnce(t *testing.T) {
	h := sizedHouse(t, recommends)
	h.containers[0].OOMStarted, h.containers[0].OOMEnded = t0.Add(-time.Minute), t0.Add(30*time.Second)
	h.uses["app"] = use(0.1, 200)
	h.begin().steps(5)
	if out := h.because(rightsize.ReasonOutOfMemory); !strings.Contains(out.Text, "2 kills ") {
		t.Errorf("%+v", out)
	}
	// 256Mi were requested: 100 more are 356, in whose bucket it ends, and 15 %.
	target := resource.MustParse(h.sizing().Containers[0].Target.Memory)
	if got := pricing.Bytes(target.Value()); got < 356*pricing.MiB*115/100 || got > 400*pricing.MiB*115/100 {
		t.Errorf("target %dMi", got/pricing.MiB)
	}
}

// Nor however often another client leads: what the container had when it was killed is not what it
// has been given since.
func TestAKillForMemoryIsCountedByOneLeader(t *testing.T) {
	for name, c := range map[string]struct {
		ago   time.Duration
		steps int           // that each leads for
		jump  time.Duration // of the clock, instead of another leader
		most  pricing.Bytes
	}{
		"two days ago, and has been counted for long": {48 * time.Hour, 30, 0, 256 * pricing.MiB},
		"a minute ago": {time.Minute, 30, 0, 440 * pricing.MiB},
		"a minute ago, and the clock jumps in between": {time.Minute, 30, time.Hour, 440 * pricing.MiB},
	} {
		t.Run(name, func(t *testing.T) {
			h := sizedHouse(t, active+resizes)
			h.uses["app"] = use(0.4, 100)
			killed := h.now.Add(-c.ago)
			h.containers[0].OOMStarted, h.containers[0].OOMEnded = killed.Add(-time.Hour), killed
			h.begin()
			for range 6 {
				if h.now = h.now.Add(c.jump); c.jump == 0 {
					h.begin()
				}
				h.steps(c.steps)
			}
			for _, pod := range []string{"shop/web-00", "shop/web-01"} {
				p, _ := h.Size(pod)
				if got := p.Containers[0].Requests.Memory; got > c.most {
					t.Errorf("%s uses 100 MiB, was killed once at 256 MiB, and is to request %d MiB", pod, got/pricing.MiB)
				}
			}
		})
	}
}

// Of a pod whose resize was refused the others do not have to wait.
func TestARefusedResizeIsToldAndTheNextPodIsTried(t *testing.T) {
	h := sizedHouse(t, active+resizes)
	h.broken["resize"] = errors.New("pods \"web-00\" is invalid")
	h.begin().steps(2)
	last := h.sizing().LastResize
	if last == nil || last.Applied || last.Reasons[len(last.Reasons)-1] != (v1alpha1.Reason{Code: "FailedResize", Text: `pods "web-00" is invalid`}) {
		t.Errorf("%+v", last)
	}
	h.expect("told", true, slices.ContainsFunc(h.told, func(e string) bool {
		return strings.HasPrefix(e, "WorkloadAutoscaler web FailedResize: pod shop/web-00")
	}))
	delete(h.broken, "resize")
	h.steps(1)
	h.expect("the next", []string{"resize shop/web-01 app 4742m 728Mi"}, h.resized())
	h.steps(2)
	h.expect("the first is waited with", 1, len(h.resized()))
	h.expect("reason", rightsize.ReasonFailedResize, h.sizing().Reason.Code)
	h.steps(10)
	h.expect("and tried again", 2, len(h.resized()))
}

func TestPoliciesBoundWhatIsRecommended(t *testing.T) {
	h := sizedHouse(t, "  rightsize: {containers: [{name: app, maxAllowed: {memory: 512Mi}, controlledResources: [memory]}]}\n")
	h.begin().steps(2)
	rec := h.sizing().Containers[0]
	h.expect("memory", v1alpha1.ContainerAmounts{Memory: "512Mi"}, rec.Target)
	h.expect("without the bound", v1alpha1.ContainerAmounts{Memory: "764046746"}, rec.Uncapped)
}

func TestRecommendationsAreMetricsWhileTheyStand(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.Leading(true)
	h := sizedHouse(t, recommends)
	h.cfg.Metrics = m
	h.begin().steps(1)
	// After one sample there is no upper bound, and as the lower one there is the least for a pod.
	want := map[string]float64{"target app web shop": 4.742, "lower app web shop": 0.025, "uncapped app web shop": 4.742}
	if diff := cmp.Diff(want, series(t, registry, "plimsoll_container_recommended_cpu_cores")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = map[string]float64{"target app web shop": 764046746, "lower app web shop": 250 << 20, "uncapped app web shop": 764046746}
	if diff := cmp.Diff(want, series(t, registry, "plimsoll_container_recommended_memory_bytes")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	h.expect("resizes from the start", 2, len(series(t, registry, "plimsoll_resizes_total")))
	h.autoscalers["shop/web"].Spec.Rightsize = nil
	h.steps(1)
	if got := series(t, registry, "plimsoll_container_recommended_cpu_cores"); len(got) > 0 {
		t.Errorf("without the block there is %v", got)
	}
}

// evicted are the pods that were evicted for their sizes.
func (h *house) recreated() []string {
	all := []string{}
	for _, d := range h.done {
		if strings.HasPrefix(d, "recreate") {
			all = append(all, d)
		}
	}
	return all
}

// Where a node has no room for what a pod was resized to, mode Auto evicts it, if nothing holds
// that; in mode InPlace the pod stays.
func TestPodsThatTheirNodeHasNoRoomForAreEvicted(t *testing.T) {
	for name, c := range map[string]struct {
		mode  string
		spoil func(*house)
		want  []string
	}{
		"in mode Auto":               {"{mode: Auto}", func(*house) {}, []string{"recreate shop/web-00"}},
		"in mode InPlace":            {"{mode: InPlace}", func(*house) {}, []string{}},
		"the object is paused":       {"{mode: Auto}", annotate(v1alpha1.AnnotationPaused, "true"), []string{}},
		"a lid on everything":        {"{mode: Auto}", func(h *house) { h.cfg.Active = false }, []string{}},
		"their rollout is under way": {"{mode: Auto}", func(h *house) { h.rollout = podscaler.Rollout{InProgress: true, Why: "1 of 2"} }, []string{}},
		"none is ready":              {"{mode: Auto}", func(h *house) { h.unready = map[string]bool{"shop/web-00": true, "shop/web-01": true} }, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			h := sizedHouse(t, active+"  rightsize: "+c.mode+"\n")
			h.sizes = pods(rightsize.Pod{Running: true, Started: t0.Add(-100 * time.Hour), Resize: rightsize.ResizeInfeasible, Containers: h.containers})
			c.spoil(h)
			h.begin().steps(2)
			h.expect("evicted", c.want, h.recreated())
			h.expect("resized", []string{}, h.resized())
		})
	}
}

// What new pods get is in the status, while something is done and the webhook is there; and without
// what replicas are scaled by.
func TestWhatNewPodsGetIsSaid(t *testing.T) {
	got := []v1alpha1.CreatedContainer{{Name: "app", Requests: v1alpha1.ContainerAmounts{CPU: "4742m", Memory: "764046746"}, RaiseOnly: true}}
	for name, c := range map[string]struct {
		more  string
		spoil func(*house)
		want  []v1alpha1.CreatedContainer
	}{
		"in mode Initial":            {active + "  rightsize: {mode: Initial}\n", func(*house) {}, got},
		"in mode Auto":               {active + "  rightsize: {mode: Auto}\n", func(*house) {}, got},
		"in mode Off":                {active + recommends, func(*house) {}, nil},
		"the object only recommends": {"  rightsize: {mode: Initial}\n", func(*house) {}, nil},
		"there is no webhook":        {active + "  rightsize: {mode: Initial}\n", func(h *house) { h.cfg.Admission = false }, nil},
		"the object is paused":       {active + "  rightsize: {mode: Initial}\n", annotate(v1alpha1.AnnotationPaused, "true"), nil},
		"a VPA sizes it":             {active + "  rightsize: {mode: Initial}\n", func(h *house) { h.sizer = &kube.Finding{Code: kube.FindingForeignSizer, Text: "by VPA v"} }, nil},
		"replicas follow CPU": {active + "  rightsize: {mode: Initial}\n", func(h *house) {
			h.autoscalers["shop/web"].Spec.HPA, h.autoscalers["shop/web"].Spec.MaxReplicas = nil, 3
		}, []v1alpha1.CreatedContainer{{Name: "app", Requests: v1alpha1.ContainerAmounts{Memory: "764046746"}, RaiseOnly: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := sizedHouse(t, c.more)
			h.cfg.Admission = true
			c.spoil(h)
			h.begin().steps(1)
			if d := cmp.Diff(c.want, h.sizing().Created); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			h.expect("resized", []string{}, h.resized())
		})
	}
}

// What was learnt goes on under another leader: a day is known after it, and requests may be made
// less, which a process that starts from nothing does not do for a day.
func TestAnotherLeaderKnowsWhatWasLearnt(t *testing.T) {
	h := sizedHouse(t, active+resizes)
	h.uses["app"] = use(0.05, 100)
	h.sizes = pods(rightsize.Pod{Running: true, Started: t0.Add(-100 * time.Hour), Containers: h.containers})
	h.begin()
	for range 5 {
		h.steps(5 * 60)
		h.begin()
	}
	h.expect("known", true, !slices.ContainsFunc(h.sizing().Containers[0].Reasons, func(r v1alpha1.Reason) bool { return r.Code == rightsize.ReasonNotMeasured }))
	h.steps(60)
	h.expect("resized after a day and five leaders", 2, len(h.resized()))
	h.expect("less than before", true, h.sizes["shop/web-00"].Containers[0].Requests.CPU < 500)
}

// A checkpoint that cannot be read is reported once, and the next one can.
func TestABadCheckpointIsReported(t *testing.T) {
	h := sizedHouse(t, active+resizes)
	h.autoscalers["shop/web"].Status.Rightsize = &v1alpha1.RightsizeStatus{Checkpoint: "gibberish"}
	h.begin().steps(3)
	told := 0
	for _, e := range h.told {
		if strings.Contains(e, "web CheckpointRefused: what was learnt before cannot be read, and is learnt anew: ") {
			told++
		}
	}
	h.expect("times that it was told", 1, told)
	h.begin().steps(1)
	h.expect("by the next leader", 1, func() (n int) {
		for _, e := range h.told {
			if strings.Contains(e, "CheckpointRefused") {
				n++
			}
		}
		return n
	}())
}
