package operator

import "time"

// mayBeIdle is the policy of a workload that orders alone keep awake.
const mayBeIdle = `  runPeriod: 10s
  policy: HPA
  idle: {after: 1m}
  hpa: {metrics: [{type: External, name: orders, averageValue: 10, activation: 5}]}
  signals: {metrics: [{name: orders, query: orders}]}
`

// policyScenes are of what policies have to say, but for Joint.
var policyScenes = []podScene{
	{
		name: "the metrics are missing that might want more",
		manifests: web(`  runPeriod: 10s
  policy: HPA
  hpa:
    metrics:
    - {type: Resource, name: cpu, averageValue: 500m}
    - {type: Pods, name: sessions, averageValue: "10"}
    - {type: Object, name: depth, value: "10"}
    - {type: External, name: orders, value: "10"}
  signals: {metrics: [{name: sessions, query: sessions, perPod: pod}, {name: depth, query: depth}, {name: orders, query: orders}]}
`),
		set:   func(s *podStage) { s.cores = 0.1 },
		lasts: time.Minute,
		says:  []string{"FailedGetPodsMetric", "FailedGetObjectMetric", "FailedGetExternalMetric", "MetricsIncomplete"},
	},
	{
		name: "a container is not among those that are measured any more",
		manifests: web(`  runPeriod: 10s
  policy: HPA
  hpa:
    metrics:
    - {type: Resource, name: memory, averageValue: 200Mi}
    - {type: ContainerResource, name: memory, container: app, averageValue: 200Mi}
`),
		set: func(s *podStage) { s.uses["app"] = use(0.2, 300) },
		acts: []podAct{{30 * time.Second, func(s *podStage) {
			delete(s.uses, "app")
			s.uses["main"] = use(0.2, 100)
		}}},
		lasts: 2 * time.Minute,
		says:  []string{"ValidMetricFound", "FailedGetContainerResourceMetric"},
	},
	{
		name:      "nothing calls for a workload, and then something does",
		manifests: web(mayBeIdle),
		acts:      []podAct{measuring(0, "orders", 3), measuring(3*time.Minute, "orders", 20)},
		lasts:     5 * time.Minute,
		says:      []string{"Idle", "Activated"},
	},
	{
		name:      "a person sets a workload to 0 that may be idle",
		manifests: web(mayBeIdle),
		acts: []podAct{measuring(0, "orders", 20), {3 * time.Minute, func(s *podStage) { s.replicas["shop/web"] = 0 }}, {5 * time.Minute, func(s *podStage) {
			if n := s.replicas["shop/web"]; n != 0 {
				s.Errorf("a person set 0 replicas, and there are %d", n)
			}
			s.begin() // another process
		}}, {8 * time.Minute, func(s *podStage) {
			if n := s.replicas["shop/web"]; n != 0 {
				s.Errorf("after a restart there are %d", n)
			}
		}}},
		lasts: 9 * time.Minute,
		says:  []string{"ScalingDisabled", "SwitchedOff"},
	},
	{
		name:      "a registry knows other instances than are ready",
		manifests: web("  runPeriod: 10s\n  policy: Watermark\n  signals: {registration: {query: registered}}\n"),
		acts: []podAct{
			measuring(0, "registered", 4), measuring(30*time.Second, "registered", 3),
			silent(time.Minute, "registered"), cores(time.Minute, 0.05), measuring(90*time.Second, "registered", 0),
		},
		lasts: 2 * time.Minute,
		says:  []string{"AsRegistered", "RegistrationMismatch", "RegistrationUnknown", "NothingRegistered"},
	},
	{
		name:      "a load is brought nearer to its mark, and is above the other for a moment",
		manifests: web(watermark("high: 400m, low: 200m", "convergeTo: Low, delay: {up: 1m}")),
		set:       func(s *podStage) { s.cores = 0 },
		acts:      []podAct{cores(30*time.Second, 0.5), cores(time.Minute, 0.3)},
		lasts:     90 * time.Second,
		says:      []string{"ZeroNotTolerated", "WatermarkDelay", "ConvergeToWatermark"},
	},
	{
		name:      "one replica fewer would be above the high mark",
		manifests: web(watermark("high: 400m, low: 350m", "tolerance: \"0.01\"")),
		set:       func(s *podStage) { s.cores = 0.33 },
		lasts:     30 * time.Second,
		says:      []string{"WouldOscillate"},
	},
	{
		name: "replicas that were asked for are not there yet",
		manifests: web("  runPeriod: 10s\n  policy: SLOCost\n  sloCost: {wait: true}\n" + objective +
			"  cost: {target: \"40\", per: 1h}\n  signals: {queries: {latency: latency}}\n"),
		replicas: 6,
		acts:     []podAct{measuring(0, "latency", 0.2)},
		lasts:    30 * time.Second,
		says:     []string{"Waiting"},
	},
	{
		name: "a forecast has nothing to go by, and then no arrivals",
		manifests: web("  runPeriod: 10s\n  policy: Predictive\n  predictive: {profile: {linear: {perPod: \"20\"}}}\n" +
			"  signals: {queries: {arrivals: arrivals}}\n"),
		acts:  []podAct{measuring(0, "arrivals", 50), silent(30*time.Second, "arrivals")},
		lasts: time.Minute,
		says:  []string{"ForecastUnknown", "ArrivalsUnknown"},
	},
}

// watermark keeps CPU between two marks.
func watermark(marks, more string) string {
	return "  runPeriod: 10s\n  policy: Watermark\n  watermark: {metrics: [{type: Resource, name: cpu, " + marks + "}], " + more + "}\n"
}

// jointScenes are of the policy Joint.
var jointScenes = []podScene{
	{
		name:      "room is asked for of an autoscaler of nodes, as the load climbs",
		manifests: web(joint) + workers + "  scaledBy: ClusterAutoscaler\n",
		set: func(s *podStage) {
			s.handsOff("CapacityBuffer")
			s.load = &visitors{rate: 60, demand: 0.02, climbs: 0.3}
		},
		acts:  []podAct{{4 * time.Minute, func(s *podStage) { s.broken["expect"] = errNoBuffers }}},
		lasts: 5 * time.Minute,
		says:  []string{"ForecastLoad", "ForecastAhead", "RoomAskedFor", "NoCapacityBuffers"},
	},
	{
		name:      "more come than pods can serve",
		manifests: watched(joint),
		set:       func(s *podStage) { s.load = &visitors{rate: 60, demand: 0.02} },
		acts:      []podAct{{3 * time.Minute, func(s *podStage) { s.load.rate = 130 }}},
		lasts:     15 * time.Minute,
		says:      []string{"QueueWorkedOff"},
	},
	{
		name:      "a request takes longer than the objective on a pod of its own",
		manifests: watched(joint),
		set:       func(s *podStage) { s.load = &visitors{rate: 2, demand: 0.25} },
		lasts:     6 * time.Minute,
		says:      []string{"ObjectiveUnreachable"},
	},
}

const joint = `  runPeriod: 10s
  policy: Joint
` + objective + `  signals: {queries: {latency: latency, good: good, arrivals: arrivals, inFlight: inFlight}}
`
