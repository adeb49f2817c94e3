package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

var errNoBuffers = fmt.Errorf("wrapped: %w", kube.ErrNoBuffers)

// signalScenes are of what readers and price books say.
var signalScenes = []podScene{
	{
		name:      "a window holds too few samples",
		manifests: web("  runPeriod: 10s\n  policy: FastSlow\n" + objective + "  signals: {preset: Istio}\n"),
		set:       func(s *podStage) { s.preset = s.seldom },
		lasts:     30 * time.Second,
		says:      []string{"FewScrapes"},
	},
	{
		name: "two books, of which OpenCost has one",
		manifests: web(byCPU+"  signals: {openCost: {}}\n") + "---\nkind: PriceBook\nmetadata: {name: default}\nspec: {currency: EUR, pricePerVCPUHour: \"0.02\", pricePerGBHour: \"0.005\"}\n" +
			"---\nkind: PriceBook\nmetadata: {name: old}\nspec: {currency: EUR, pricePerVCPUHour: \"0.01\", pricePerGBHour: \"0.005\"}\n",
		acts: []podAct{
			{20 * time.Second, func(s *podStage) { s.measures(openCost, s.nodePrices()["workers-a"]) }},
			{time.Minute, func(s *podStage) { s.measures(openCost, 730*s.nodePrices()["workers-a"]) }},
		},
		lasts: 2 * time.Minute,
		says:  []string{"PricesInForce", "NotChosen", "PricesAgree", "CostSourceMismatch"},
	},
	{
		name:      "an objective is missed, and then not asked for any more",
		manifests: web(byCPU + objective + "  signals: {queries: {latency: latency}}\n"),
		acts: []podAct{
			measuring(0, "latency", 0.4),
			{time.Minute, func(s *podStage) { s.autoscalers["shop/web"].Spec.SLO = nil }},
		},
		lasts: 15 * time.Minute,
		says:  []string{"AboveTarget", "NotAsked"},
	},
}

// openCost is the query that is read for what nodes cost.
const openCost = "max by (node, exported_node) (node_total_hourly_cost)"

// seldom answers the queries of preset Istio, of a Prometheus that samples twice a window.
func (s *podStage) seldom(query string) []string {
	const of = `"destination_workload_namespace":"shop","destination_workload":"web"`
	switch {
	case strings.Contains(query, "_bucket{"):
		return []string{s.sample(of+`,"le":"300"`, 95, 0), s.sample(of+`,"le":"+Inf"`, 100, 0)}
	case strings.Contains(query, "timestamp("):
		return []string{s.sample(of, float64(s.shows.Unix()-5), 0)}
	case strings.Contains(query, "count_over_time("):
		return []string{s.sample(of, 2, 0)}
	case strings.Contains(query, "response_code"):
		return []string{s.sample(of+`,"response_code":"200","response_flags":"-"`, 100, 0)}
	}
	return []string{s.sample(of, 100, 0)}
}

// sizeScenes are of what pods request.
var sizeScenes = []podScene{
	{
		name:      "a container restarts when it is resized",
		manifests: sized(resizes),
		set: func(s *podStage) {
			s.minutely(4, 600)
			s.containers[0].Restarts = []rightsize.Resource{rightsize.CPU}
		},
		lasts: 3 * time.Minute,
		says:  []string{"OutsideBounds", "Restarts", "Resized"},
	},
	{
		name: "replicas follow memory as a part of what is requested",
		manifests: web("  runPeriod: 10s\n  policy: HPA\n  hpa: {metrics: [{type: Resource, name: memory, averageUtilization: 80}]}\n" +
			"  stabilizationWindow: 1h\n" + resizes),
		set:   func(s *podStage) { s.minutely(4, 600) },
		lasts: 3 * time.Minute,
		says:  []string{"ScaledByMemory"},
	},
	{
		name:      "the least that is allowed is more than is used",
		manifests: sized("  rightsize: {containers: [{name: app, minAllowed: {cpu: 8}}]}\n"),
		set:       func(s *podStage) { s.minutely(0.2, 200) },
		lasts:     2 * time.Minute,
		says:      []string{"MinAllowed"},
	},
	{
		name:      "a pod has long requested less than it uses",
		manifests: sized(resizes),
		set: func(s *podStage) {
			s.minutely(0.5, 256)
			for i := range 4 {
				s.sizes[fmt.Sprintf("shop/web-%02d", i)] = rightsize.Pod{Running: true, Started: t0.Add(-100 * time.Hour), Containers: s.containers}
			}
		},
		lasts: 3 * time.Minute,
		says:  []string{"Drifted", "Resized"},
	},
	{
		name:      "no node can hold what pods were resized to",
		manifests: sized("  rightsize: {mode: Auto}\n"),
		set:       func(s *podStage) { s.stuck(rightsize.ResizeInfeasible, 100*time.Hour) },
		lasts:     3 * time.Minute,
		says:      []string{"ResizeInfeasible", "Evicted"},
	},
	{
		name:      "there are fewer pods than one may be evicted of",
		manifests: sized("  rightsize: {mode: Auto, minReplicas: 9}\n"),
		set:       func(s *podStage) { s.stuck(rightsize.ResizeInfeasible, 100*time.Hour) },
		lasts:     3 * time.Minute,
		says:      []string{"EvictionHeld"},
	},
	{
		name:      "they are made anew, and no node can hold them either",
		manifests: sized("  rightsize: {mode: Auto}\n"),
		set:       func(s *podStage) { s.stuck(rightsize.ResizeInfeasible, time.Hour) },
		lasts:     3 * time.Minute,
		says:      []string{"EvictedBefore"},
	},
	{
		name:      "a resize waits for room",
		manifests: sized("  rightsize: {mode: Auto}\n"),
		set:       func(s *podStage) { s.stuck(rightsize.ResizeDeferred, 100*time.Hour) },
		lasts:     3 * time.Minute,
		says:      []string{"ResizeDeferred", "Evicted"},
	},
	{
		name:      "requests are set as pods are created",
		manifests: sized("  rightsize: {mode: Initial}\n"),
		set:       func(s *podStage) { s.minutely(4, 600); s.cfg.Admission = true },
		lasts:     3 * time.Minute,
		says:      []string{"ModeInitial"},
	},
	{
		name:      "they would be, where that is configured",
		manifests: sized("  rightsize: {mode: Initial}\n"),
		set:       func(s *podStage) { s.minutely(4, 600) },
		lasts:     3 * time.Minute,
		says:      []string{"NotAdmitted"},
	},
	{
		name:      "what was learnt before cannot be read",
		manifests: sized(resizes),
		set: func(s *podStage) {
			s.minutely(4, 600)
			s.autoscalers["shop/web"].Status.Rightsize = &v1alpha1.RightsizeStatus{Checkpoint: "%"}
		},
		lasts: 2 * time.Minute,
		says:  []string{"CheckpointRefused"},
	},
	{
		name:      "a container is killed for memory soon after it started",
		manifests: sized(resizes),
		set: func(s *podStage) {
			s.minutely(0.5, 200)
			s.containers[0].OOMStarted, s.containers[0].OOMEnded = t0.Add(-time.Minute), t0.Add(30*time.Second)
		},
		lasts: 3 * time.Minute,
		says:  []string{"OutOfMemory", "QuickOOM", "Resized"},
	},
}

// rangeScenes are of what a namespace admits.
var rangeScenes = []podScene{
	{
		name:      "a LimitRange admits less than is recommended",
		manifests: sized(resizes),
		set: func(s *podStage) {
			s.minutely(4, 600)
			s.ranges.Container.Max = pricing.Resources{CPU: 2000}
			s.containers[0].Limits = s.containers[0].Requests
		},
		lasts: 3 * time.Minute,
		says:  []string{"LimitRange"},
	},
}

// limitScenes are of what pods may use of their nodes.
var limitScenes = []podScene{
	{
		name:      "a container would have less of its node than it requests",
		manifests: sized("  rightsize: {mode: InPlace, limits: DRF}\n"),
		set:       func(s *podStage) { s.pair(pricing.Resources{CPU: 1500}, pricing.Resources{}) },
		lasts:     8 * time.Minute,
		says:      []string{"Share", "BelowRequest", "Resized"},
	},
	{
		name:      "one uses more memory than its share",
		manifests: sized("  rightsize: {mode: InPlace, limits: MLFDRS, containers: [{name: app, controlledResources: [memory], minAllowed: {memory: 200Mi}, maxAllowed: {memory: 200Mi}}]}\n"),
		set: func(s *podStage) {
			s.pair(pricing.Resources{}, pricing.Resources{})
			s.uses["app"] = use(0.1, 4000)
		},
		lasts: 8 * time.Minute,
		says:  []string{"BelowUse"},
	},
	{
		name:      "one would restart with less, and the other waits for that",
		manifests: sized("  rightsize: {mode: InPlace, limits: DRF}\n"),
		set: func(s *podStage) {
			s.pair(pricing.Resources{}, pricing.Resources{})
			for pod, limit := range map[string]pricing.MilliCPU{"shop/web-00": 1500, "shop/web-01": 500} {
				c := &s.sizes[pod].Containers[0]
				c.Limits.CPU, c.Restarts = limit, []rightsize.Resource{rightsize.CPU}[:limit/1500]
			}
		},
		lasts: 8 * time.Minute,
		says:  []string{"Restarts", "OverNode"},
	},
}

// pair has two pods, alone on their node, that use little; what they request is 200m and 200Mi
// unless it is more.
func (s *podStage) pair(requests ...pricing.Resources) {
	s.minutely(0.1, 100)
	s.replicas["shop/web"] = len(requests)
	for i, r := range requests {
		r.CPU, r.Memory = max(r.CPU, 200), max(r.Memory, 200*pricing.MiB)
		s.sizes[fmt.Sprintf("shop/web-%02d", i)] = rightsize.Pod{Running: true, Started: t0.Add(-time.Hour), Containers: []rightsize.Container{{Name: "app", Requests: r}}}
	}
}

// sized is an autoscaler of which the requests are the matter.
func sized(rest string) string { return web(byCPU + "  stabilizationWindow: 1h\n" + rest) }

// stuck has all pods wait for ever for what they were resized to.
func (s *podStage) stuck(state rightsize.ResizeState, old time.Duration) {
	s.minutely(4, 600)
	for i := range 8 {
		s.sizes[fmt.Sprintf("shop/web-%02d", i)] = rightsize.Pod{
			Running: true, Started: t0.Add(-old), Resize: state, ResizeSince: t0.Add(-time.Hour), Containers: s.containers,
		}
	}
}

// minutely has steps as far apart as looks at containers, each of which uses so many cores and MiB.
func (s *podStage) minutely(cores, mebibytes float64) {
	s.cfg.Interval, s.uses["app"] = time.Minute, use(cores, mebibytes)
}

// loopScenes are of what goes wrong around a step.
var loopScenes = []podScene{
	{
		name:      "statuses and records are not written",
		manifests: web(byCPU),
		acts: []podAct{
			breaks(30*time.Second, "status", "forbidden"),
			{30 * time.Second, func(s *podStage) { s.journal = errors.New("no space left on device") }},
		},
		lasts: time.Minute,
		fails: true,
		says:  []string{"StatusNotWritten", "JournalNotWritten"},
	},
	{
		name:      "signals cannot be read",
		manifests: web(byCPU),
		set:       func(s *podStage) { s.cfg.Signals = unread{s.cfg.Signals} },
		lasts:     30 * time.Second,
		says:      []string{"SignalsUnknown"},
	},
	{
		name:      "an order is accepted and nothing comes of it",
		manifests: web(byCPU) + workers,
		replicas:  6,
		set:       func(s *podStage) { s.loses = true },
		lasts:     4 * time.Minute,
		says:      []string{"OrderLost"},
	},
	{
		name:      "replicas do not become pods",
		manifests: web(byCPU) + workers,
		set:       func(s *podStage) { s.pods = 4 },
		acts:      []podAct{cores(30*time.Second, 0.8)},
		lasts:     6 * time.Minute,
		says:      []string{"ReplicasNotCreated"},
	},
	{
		name:      "machines are given what servers join with",
		manifests: web(byCPU) + workers,
		set: func(s *podStage) {
			s.cfg.ReadFile = func(string) ([]byte, error) { return []byte("K10c0ffee::server:secret"), nil }
		},
		lasts: 30 * time.Second,
		says:  []string{"ServerToken"},
	},
}

// unread are signals of which no workload's are read. signals.Reader reads those of every workload
// that it is configured with, and says what of them is unknown; others need not.
type unread struct{ Signals }

func (unread) Read(context.Context, *podscaler.Workload, time.Time) (podscaler.Window, error) {
	return podscaler.Window{}, errors.New("no answer")
}
