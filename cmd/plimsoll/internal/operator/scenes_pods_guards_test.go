package operator

import "time"

// guardScenes are of what holds changes of replicas back.
var guardScenes = []podScene{
	{
		name:      "one schedule has fewer replicas than another",
		manifests: web(byCPU + "  schedules:\n  - {name: closed, start: \"2 8 * * *\", end: \"0 9 * * *\", timeZone: UTC, maxReplicas: 3}\n  - {name: busy, start: \"4 8 * * *\", end: \"0 9 * * *\", timeZone: UTC, minReplicas: 6}\n"),
		set:       func(s *podStage) { s.cores = 0.5 },
		lasts:     6 * time.Minute,
		says:      []string{"ScheduleCeiling", "SchedulesClash", "ScheduleFloor"},
	},
	{
		name:      "growing waits for its window",
		manifests: web(byCPU + "  behavior: {scaleUp: {stabilizationWindowSeconds: 60}}\n"),
		acts:      []podAct{cores(time.Minute, 1)},
		lasts:     3 * time.Minute,
		says:      []string{"ScaleUpStabilized", "SuccessfulRescale"},
	},
	{
		name:      "a cool-down is over before the next run",
		manifests: web("  runPeriod: 30s\n  stabilizationWindow: 10s\n  policy: HPA\n  hpa: {metrics: [{type: Resource, name: cpu, averageValue: 500m}]}\n"),
		lasts:     time.Minute,
		says:      []string{"StabilizationWindowTooShort"},
	},
	{
		name:      "too few replicas are ready",
		manifests: web(byCPU + "  readiness: {minAvailablePercent: 90}\n"),
		set:       func(s *podStage) { s.unready = map[string]bool{"shop/web-00": true} },
		acts:      []podAct{cores(30*time.Second, 1)},
		lasts:     time.Minute,
		says:      []string{"TooFewAvailable"},
	},
	{
		name:      "callers fail and what comes collapses",
		manifests: web(byCPU + promptly + "  signals: {queries: {arrivals: arrivals, errors: errors}}\n"),
		acts: []podAct{
			cores(0, 0.5), measuring(0, "arrivals", 100), measuring(0, "errors", 0),
			measuring(2*time.Minute, "arrivals", 5), measuring(2*time.Minute, "errors", 0.05), cores(2*time.Minute, 0.02),
		},
		lasts: 3 * time.Minute,
		says:  []string{"UpstreamSuspect"},
	},
	{
		name:      "metrics are away and come back",
		manifests: web(external + promptly),
		acts: []podAct{
			measuring(0, "orders", 40),
			{time.Minute, func(s *podStage) { s.series["orders"] = answered{value: 40, old: 5 * time.Minute} }},
			{2 * time.Minute, func(s *podStage) { s.series["orders"] = answered{value: 40, warns: true} }},
			silent(150*time.Second, "orders"),
			measuring(3*time.Minute, "orders", 10),
		},
		lasts: 5 * time.Minute,
		says:  []string{"MetricsStale", "MetricsPartial", "MetricsUnknown", "FailedGetExternalMetric", "SignalsRecovering", "SuccessfulRescale"},
	},
}

// external scales by a number of orders, ten a pod.
const external = `  runPeriod: 10s
  policy: HPA
  hpa: {metrics: [{type: External, name: orders, averageValue: "10"}]}
  signals: {metrics: [{name: orders, query: orders}]}
`
