package convert

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// shape is what the templates of a chart make around the metrics of an autoscaler.
type shape struct {
	chart, target string
	min, max      string // empty is omitted
	labels        string
	more          string // further keys of the spec
	lost          []string
}

// variant is what people set of its metrics.
type variant struct {
	name    string
	metrics string
	carried []string
	lost    []string
}

const helm = "helm.sh/chart: x-1.2.3, app.kubernetes.io/name: x, app.kubernetes.io/instance: release, app.kubernetes.io/managed-by: Helm"

// hpaShapes are those of ten charts that many install.
var hpaShapes = []shape{
	{chart: "an ingress controller", target: "{apiVersion: apps/v1, kind: Deployment, name: ingress-controller}", min: "1", max: "11", labels: helm + ", app.kubernetes.io/component: controller"},
	{chart: "a dashboard", target: "{apiVersion: apps/v1, kind: Deployment, name: dashboard}", min: "1", max: "5", labels: helm},
	{chart: "a delivery server", target: "{apiVersion: apps/v1, kind: Deployment, name: delivery-server}", min: "2", max: "5", labels: helm, more: "behavior: {scaleDown: {stabilizationWindowSeconds: 300, policies: [{type: Pods, value: 1, periodSeconds: 180}]}, scaleUp: {stabilizationWindowSeconds: 300, policies: [{type: Pods, value: 2, periodSeconds: 60}]}}"},
	{chart: "a proxy", target: "{apiVersion: apps/v1, kind: Deployment, name: proxy}", max: "10", labels: helm, more: "behavior: {scaleDown: {stabilizationWindowSeconds: 60, policies: [{type: Percent, value: 10, periodSeconds: 60}]}}"},
	{chart: "a store of logs", target: "{apiVersion: apps/v1, kind: StatefulSet, name: logs-write}", min: "2", max: "6", labels: helm, more: "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 900}]}, scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 1800}], stabilizationWindowSeconds: 3600}}"},
	{chart: "an identity provider", target: "{apiVersion: apps/v1, kind: StatefulSet, name: identity}", min: "1", max: "11", labels: helm, more: "behavior: {scaleUp: {stabilizationWindowSeconds: 120, selectPolicy: Max, policies: []}, scaleDown: {stabilizationWindowSeconds: 300, selectPolicy: Max, policies: [{type: Pods, value: 1, periodSeconds: 300}]}}"},
	{chart: "workers of workflows", target: "{apiVersion: apps/v1, kind: Deployment, name: workers}", min: "0", max: "5", lost: []string{"spec.minReplicas"}},
	{chart: "a collector of traces", target: "{apiVersion: apps/v1, kind: Deployment, name: collector}", min: "1", max: "10", more: "behavior: {}"},
	{chart: "a registry", target: "{apiVersion: apps/v1, kind: ReplicaSet, name: registry}", min: "3", max: "30", labels: "app: registry", more: "behavior: {scaleDown: {selectPolicy: Disabled}}"},
	{chart: "a web shop", target: "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: shop}", min: "3", max: "100", more: "behavior: {scaleUp: {tolerance: 50m}, scaleDown: {tolerance: 0}}"},
}

var hpaVariants = []variant{
	{
		name: "CPU", metrics: "[{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]",
		carried: []string{"Resource cpu 80%"},
	},
	{
		name:    "memory and CPU",
		metrics: "[{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 75}}}, {type: Resource, resource: {name: cpu, target: {averageUtilization: 60, type: Utilization}}}]",
		carried: []string{"Resource memory 75%", "Resource cpu 60%"},
	},
	{
		name: "containers, a value, and a series of an adapter",
		metrics: "[{type: ContainerResource, containerResource: {name: cpu, container: app, target: {type: Utilization, averageUtilization: 70}}}," +
			" {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 700Mi}}}, {type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: 1k}}}]",
		carried: []string{"ContainerResource cpu of app 70%", "Resource memory 700Mi"}, lost: []string{"spec.metrics[2]"},
	},
}

var kedaShapes = []shape{
	{chart: "an ingress controller", target: "{apiVersion: apps/v1, kind: Deployment, name: a}", min: "1", max: "11", labels: helm, more: "pollingInterval: 30\n  cooldownPeriod: 300\n  advanced: {restoreToOriginalReplicaCount: false, horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 300, policies: [{type: Pods, value: 1, periodSeconds: 180}]}}}}"},
	{chart: "a delivery server", target: "{name: a}", min: "2", max: "5"},
	{chart: "a queue's consumers", target: "{name: a}", min: "0", max: "30", more: "pollingInterval: 10\n  cooldownPeriod: 120", lost: []string{"spec.pollingInterval"}},
	{chart: "workers of workflows", target: "{name: a, kind: StatefulSet}", max: "10"},
	{chart: "a proxy", target: "{name: a}", min: "1", more: "advanced: {horizontalPodAutoscalerConfig: {name: custom}}", lost: []string{"spec.advanced.horizontalPodAutoscalerConfig.name"}},
	{chart: "a store of metrics", target: "{apiVersion: apps/v1, kind: StatefulSet, name: a}", min: "5", max: "20", more: "idleReplicaCount: 2\n  cooldownPeriod: 600"},
	{chart: "a batch service", target: "{name: a}", min: "3", max: "10", more: "fallback: {failureThreshold: 40, replicas: 6}"},
	{chart: "a web shop", target: "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: a}", min: "4", max: "40", more: "fallback: {failureThreshold: 40, replicas: 6, behavior: currentReplicasIfHigher}"},
	{chart: "a model server", target: "{name: a, envSourceContainerName: app}", min: "1", max: "8", more: "initialCooldownPeriod: 60", lost: []string{"spec.scaleTargetRef.envSourceContainerName"}},
	{chart: "a gateway", target: "{apiVersion: apps/v1, kind: Deployment, name: a}", min: "3", max: "25", more: "advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 100, periodSeconds: 15}]}}}}"},
}

const prometheusTrigger = `{type: prometheus, metadata: {serverAddress: "http://prometheus:9090", query: up, threshold: "100", activationThreshold: "5"}}`

var kedaVariants = []variant{
	{
		name:    "a query and CPU",
		metrics: "[" + prometheusTrigger + `, {type: cpu, metricType: Utilization, metadata: {value: "80"}}]`,
		carried: []string{"External trigger-0 100 above 5", "Resource cpu 80%"},
	},
	{
		name:    "memory of a container, a query and a queue",
		metrics: `[{type: memory, metricType: AverageValue, metadata: {value: 500Mi, containerName: app}}, ` + prometheusTrigger + `, {type: kafka, metadata: {topic: orders}}]`,
		carried: []string{"ContainerResource memory of app 500Mi", "External trigger-0 100 above 5"}, lost: []string{"spec.triggers[2]"},
	},
	{
		name:    "a query and the clock",
		metrics: "[" + prometheusTrigger + `, {type: cron, metadata: {timezone: Europe/Berlin, start: 0 8 * * *, end: 0 20 * * *, desiredReplicas: "5"}}]`,
		carried: []string{"External trigger-0 100 above 5"},
	},
}

var markShapes = []shape{
	{chart: "a gateway", min: "2", max: "20"},
	{chart: "an intake", min: "3", max: "300", more: "algorithm: average\n  tolerance: 10m"},
	{chart: "a resolver", max: "10", more: "algorithm: absolute\n  scaleUpLimitFactor: 100\n  scaleDownLimitFactor: 10"},
	{chart: "a worker", min: "1", max: "50", more: "upscaleForbiddenWindowSeconds: 30\n  downscaleForbiddenWindowSeconds: 600"},
	{chart: "a scheduler", min: "4", max: "40", more: "upscaleDelayAboveWatermarkSeconds: 60\n  downscaleDelayBelowWatermarkSeconds: 300"},
	{chart: "shards", min: "4", max: "40", more: "replicaScalingAbsoluteModulo: 4"},
	{chart: "uneven shards", min: "3", max: "41", more: "replicaScalingAbsoluteModulo: 4", lost: []string{"spec.minReplicas", "spec.maxReplicas"}},
	{chart: "a cache", min: "0", max: "9", more: "convergeTowardsWatermark: lowwatermark", lost: []string{"spec.minReplicas"}},
	{chart: "a renderer", min: "2", max: "9", labels: helm, more: "readinessDelaySeconds: 20\n  minAvailableReplicaPercentage: 60"},
	{chart: "a trial", min: "2", max: "9", more: "dryRun: true\n  tolerateZero: true"},
}

var markVariants = []variant{
	{name: "CPU", metrics: "[{type: Resource, resource: {name: cpu, highWatermark: 800m, lowWatermark: 400m}}]", carried: []string{"cpu 800m 400m"}},
	{
		name: "memory and CPU", metrics: "[{type: Resource, resource: {name: memory, highWatermark: 2Gi, lowWatermark: 1Gi}}, {type: Resource, resource: {name: cpu, highWatermark: 800m, lowWatermark: 200m}}]",
		carried: []string{"memory 2Gi 1Gi", "cpu 800m 200m"},
	},
	{
		name: "CPU and a series of an adapter", metrics: `[{type: Resource, resource: {name: cpu, highWatermark: 800m, lowWatermark: 200m}}, {type: External, external: {metricName: queue, highWatermark: "20", lowWatermark: "5"}}]`,
		carried: []string{"cpu 800m 200m"}, lost: []string{"spec.metrics[1]"},
	},
}

// manifest writes an autoscaler as a chart does.
func (s *shape) manifest(version, kind, low, high, metrics, of string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nmetadata:\n  name: x\n  namespace: shop\n", version, kind)
	if s.labels != "" {
		fmt.Fprintf(&b, "  labels: {%s}\n", s.labels)
	}
	fmt.Fprintf(&b, "spec:\n  scaleTargetRef: %s\n", cmp.Or(s.target, "{apiVersion: apps/v1, kind: Deployment, name: x}"))
	for key, value := range map[string]string{low: s.min, high: s.max} {
		if value != "" {
			fmt.Fprintf(&b, "  %s: %s\n", key, value)
		}
	}
	fmt.Fprintf(&b, "  %s: %s\n", metrics, of)
	if s.more != "" {
		b.WriteString("  " + s.more + "\n")
	}
	return b.String()
}

// eachManifest converts a kind's thirty manifests, and compares what was carried and what was not.
func eachManifest(t *testing.T, shapes []shape, variants []variant, write func(*shape, *variant) string, carried func(*v1alpha1.WorkloadAutoscalerSpec) []string, also func(t *testing.T, text string, to *v1alpha1.WorkloadAutoscaler)) {
	t.Helper()
	j, n := judge(t), 0
	for i := range shapes {
		for k := range variants {
			s, v := &shapes[i], &variants[k]
			n++
			t.Run(s.chart+", "+v.name, func(t *testing.T) {
				text := write(s, v)
				results, _, err := Manifests([]byte(text), options)
				if err != nil || len(results) != 1 || results[0].To == nil {
					t.Fatalf("%v, %+v\n%s", err, results, text)
				}
				r := results[0]
				if d := gocmp.Diff(v.carried, carried(&r.To.Spec)); d != "" {
					t.Errorf("carried over (-wanted +got):\n%s", d)
				}
				lost := map[string]bool{}
				for _, l := range r.Lost {
					lost[l.Key] = true
				}
				for _, key := range append(append([]string{}, s.lost...), v.lost...) {
					if !lost[key] {
						t.Errorf("%s is not said to be lost: %v", key, r.Lost)
					}
					delete(lost, key)
				}
				if len(lost) > 0 {
					t.Errorf("lost beside what was expected: %v", r.Lost)
				}
				must.Get(j.Create(written(t, r)))(t)
				also(t, text, r.To)
			})
		}
	}
	if n != 30 {
		t.Errorf("%d manifests, should be 30", n)
	}
}

// hpaMetrics are what policy HPA is to look at, in short.
func hpaMetrics(s *v1alpha1.WorkloadAutoscalerSpec) (all []string) {
	for _, m := range s.HPA.Metrics {
		text := m.Type + " " + m.Name
		if m.Container != "" {
			text += " of " + m.Container
		}
		switch {
		case m.AverageUtilization != nil:
			text += fmt.Sprintf(" %d%%", *m.AverageUtilization)
		case m.AverageValue != nil:
			text += " " + string(*m.AverageValue)
		}
		if m.Activation != nil {
			text += " above " + string(*m.Activation)
		}
		all = append(all, text)
	}
	return all
}

func TestHPAsOfTenCharts(t *testing.T) {
	eachManifest(t, hpaShapes, hpaVariants, func(s *shape, v *variant) string {
		return s.manifest("autoscaling/v2", "HorizontalPodAutoscaler", "minReplicas", "maxReplicas", "metrics", v.metrics)
	}, hpaMetrics, sameReplicas)
}

func TestScaledObjectsOfTenCharts(t *testing.T) {
	eachManifest(t, kedaShapes, kedaVariants, func(s *shape, v *variant) string {
		return s.manifest("keda.sh/v1alpha1", "ScaledObject", "minReplicaCount", "maxReplicaCount", "triggers", v.metrics)
	}, hpaMetrics, func(t *testing.T, text string, to *v1alpha1.WorkloadAutoscaler) {
		if clock := strings.Contains(text, "type: cron"); clock != (len(to.Spec.Schedules) == 1) {
			t.Errorf("schedules are %v", to.Spec.Schedules)
		}
		idle := strings.Contains(text, "minReplicaCount: 0") || !strings.Contains(text, "minReplicaCount") || strings.Contains(text, "idleReplicaCount")
		if idle != (to.Spec.Idle != nil) {
			t.Errorf("idle is %v", to.Spec.Idle)
		}
		sameByTriggers(t, text, to)
	})
}

func TestWatermarkPodAutoscalersOfTenCharts(t *testing.T) {
	eachManifest(t, markShapes, markVariants, func(s *shape, v *variant) string {
		return s.manifest("datadoghq.com/v1alpha1", "WatermarkPodAutoscaler", "minReplicas", "maxReplicas", "metrics", v.metrics)
	}, func(s *v1alpha1.WorkloadAutoscalerSpec) (all []string) {
		if w := s.Watermark; len(w.Metrics) == 0 {
			return []string{fmt.Sprintf("cpu %s %s", *w.High, *w.Low)}
		}
		for _, m := range s.Watermark.Metrics {
			all = append(all, fmt.Sprintf("%s %s %s", m.Name, *m.High, *m.Low))
		}
		return all
	}, sameByMarks)
}

// sameReplicas plays a load to the WorkloadAutoscaler and to the rules of the
// HorizontalPodAutoscaler, as its own types read them.
func sameReplicas(t *testing.T, text string, to *v1alpha1.WorkloadAutoscaler) {
	var hpa autoscaling.HorizontalPodAutoscaler
	must.Do(t, yaml.UnmarshalStrict([]byte(text), &hpa))
	w, s, _, err := resources.Autoscaler(to)
	if err != nil {
		t.Fatal(err)
	}
	w.Pod = pricing.Resources{CPU: 500, Memory: pricing.GiB}
	theirs := w
	theirs.Behavior = behaviorOf(t, hpa.Spec.Behavior)
	ours, original := podscaler.NewScaler(w, must.Get(s.New())(t)), podscaler.NewScaler(theirs, must.Get(policy.New(policy.Spec{Policy: "HPA", HPA: &policy.HPA{Metrics: metricsOf(&hpa)}}))(t))
	r, now, replicas, moved := rand.New(rand.NewPCG(1, 2)), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), [2]int{w.Min, w.Min}, 0
	for step := range 400 {
		now = now.Add(15 * time.Second)
		load := 2 + 40*r.Float64()*float64(step%100)/100
		for i, scaler := range []*podscaler.Scaler{ours, original} {
			d := scaler.Decide(&podscaler.View{Now: now, Workload: scaler.Workload(), Replicas: replicas[i], Pods: carrying(now, replicas[i], load)})
			if d.To != replicas[i] {
				moved++
			}
			replicas[i] = d.To
		}
		if replicas[0] != replicas[1] {
			t.Fatalf("step %d: %d replicas, and %d by the original's rules", step, replicas[0], replicas[1])
		}
	}
	if moved < 2 {
		t.Error("the load moves nothing")
	}
}

// carrying are pods that share a load.
func carrying(now time.Time, n int, load float64) []podscaler.Pod {
	pods := make([]podscaler.Pod, n)
	for i := range pods {
		sample := func(v float64) podscaler.Sample {
			return podscaler.Sample{Known: true, Value: v, At: now, Span: 15 * time.Second}
		}
		share := load / float64(n)
		use := podscaler.ContainerUse{Name: "app", CPU: sample(min(share/5, 1)), Memory: sample(float64(200*pricing.MiB) + share*float64(80*pricing.MiB))}
		pods[i] = podscaler.Pod{
			Name: fmt.Sprint("shop/x-", i), Phase: podscaler.Running, Ready: true, Started: now.Add(-time.Hour), ReadyChanged: now.Add(-time.Hour),
			Uses: []podscaler.ContainerUse{use},
			Asks: &podscaler.Asks{Containers: []podscaler.ContainerAsks{{Name: "app", Requests: map[string]int64{"cpu": 500, "memory": int64(pricing.GiB) * 1000}}}},
		}
	}
	return pods
}

// metricsOf are those of an HPA that need no adapter.
func metricsOf(hpa *autoscaling.HorizontalPodAutoscaler) (all []policy.Metric) {
	for _, m := range hpa.Spec.Metrics {
		var goal autoscaling.MetricTarget
		ours := policy.Metric{Type: policy.MetricType(m.Type)}
		switch {
		case m.Resource != nil:
			ours.Name, goal = string(m.Resource.Name), m.Resource.Target
		case m.ContainerResource != nil:
			ours.Name, ours.Container, goal = string(m.ContainerResource.Name), m.ContainerResource.Container, m.ContainerResource.Target
		default:
			continue
		}
		if goal.AverageUtilization != nil {
			ours.AverageUtilization = int(*goal.AverageUtilization)
		} else {
			ours.AverageValue = policy.Quantity(goal.AverageValue.MilliValue())
		}
		all = append(all, ours)
	}
	return all
}

// behaviorOf fills in the defaults of Kubernetes.
func behaviorOf(t *testing.T, of *autoscaling.HorizontalPodAutoscalerBehavior) *podscaler.Behavior {
	t.Helper()
	if of == nil {
		return podscaler.LegacyBehavior()
	}
	b := podscaler.DefaultBehavior()
	for rules, from := range map[*podscaler.Rules]*autoscaling.HPAScalingRules{&b.Up: of.ScaleUp, &b.Down: of.ScaleDown} {
		if from == nil {
			continue
		}
		if from.StabilizationWindowSeconds != nil {
			rules.Window = time.Duration(*from.StabilizationWindowSeconds) * time.Second
		}
		if from.SelectPolicy != nil {
			rules.Select = podscaler.Select(*from.SelectPolicy)
		}
		if from.Tolerance != nil {
			rules.Tolerance = new(from.Tolerance.AsApproximateFloat64())
		}
		if len(from.Policies) > 0 {
			rules.Policies = nil
		}
		for _, p := range from.Policies {
			limit := podscaler.StepLimit{Pods: int(p.Value), Period: time.Duration(p.PeriodSeconds) * time.Second}
			if p.Type == autoscaling.PercentScalingPolicy {
				limit.Pods, limit.Percent = 0, int(p.Value)
			}
			rules.Policies = append(rules.Policies, limit)
		}
	}
	return b
}
