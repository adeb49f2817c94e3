package hpa

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
	_ "unsafe" // for go:linkname

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

// hpas is how many random HPAs, of up to four metrics each, are asked for replicas.
const hpas = 50_000

//go:linkname computeReplicasForMetrics k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).computeReplicasForMetrics
func computeReplicasForMetrics(c *podautoscaler.HorizontalController, ctx context.Context, hpa *autoscaling.HorizontalPodAutoscaler, scale *autoscalingv1.Scale, specs []autoscaling.MetricSpec) (int32, string, []autoscaling.MetricStatus, time.Time, error)

//go:linkname enqueueHPA k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).enqueueHPA
func enqueueHPA(c *podautoscaler.HorizontalController, o any)

// peer is the whole controller, with what it reads in memory. Of the resource metrics API it has
// the controller's own client.
type peer struct {
	*podautoscaler.HorizontalController
	metrics.MetricsClient
	pods     cache.Indexer
	measured []metricsv1beta1.PodMetrics
	external map[string]int64 // in thousandths; one that is not there cannot be read
	hpa      *autoscaling.HorizontalPodAutoscaler
}

func newPeer(t *testing.T) *peer {
	p := &peer{hpa: &autoscaling.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}}
	p.MetricsClient = metrics.NewRESTMetricsClient(p, nil, nil)
	clients := fake.NewClientset()
	all := informers.NewSharedInformerFactory(clients, 0)
	p.HorizontalController = podautoscaler.NewHorizontalController(t.Context(), clients.CoreV1(), nil, clients.AutoscalingV2(), nil, p,
		all.Autoscaling().V2().HorizontalPodAutoscalers(), all.Core().V1().Pods(), time.Minute, 5*time.Minute, 0.1, initialization, readinessDelay)
	set(p.HorizontalController, "eventRecorder", record.EventRecorder(&record.FakeRecorder{}))
	p.pods = all.Core().V1().Pods().Informer().GetIndexer()
	enqueueHPA(p.HorizontalController, p.hpa)
	return p
}

// PodMetricses is the resource metrics API.
func (p *peer) PodMetricses(string) resourceclient.PodMetricsInterface { return podMetrics{of: p} }

type podMetrics struct {
	resourceclient.PodMetricsInterface
	of *peer
}

func (m podMetrics) List(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	return &metricsv1beta1.PodMetricsList{Items: m.of.measured}, nil
}

// GetExternalMetric answers for the external metrics API.
func (p *peer) GetExternalMetric(name, _ string, _ labels.Selector) ([]int64, time.Time, error) {
	v, ok := p.external[name]
	if !ok {
		return nil, time.Time{}, errors.New("no answer")
	}
	return []int64{v}, time.Time{}, nil
}

// replicas are what the controller makes of a case.
func (p *peer) replicas(t *testing.T, c *manyMetrics) (int, error) {
	var objects []any
	p.measured, p.external = nil, c.external
	for i := range c.pods {
		objects = append(objects, c.pods[i].object)
		if m := c.pods[i].measured; m != nil {
			p.measured = append(p.measured, *m)
		}
	}
	if err := p.pods.Replace(objects, ""); err != nil {
		t.Fatal(err)
	}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: int32(c.replicas)}, Status: autoscalingv1.ScaleStatus{Selector: "app=web", Replicas: int32(c.there())}}
	n, _, _, _, err := computeReplicasForMetrics(p.HorizontalController, context.Background(), p.hpa.DeepCopy(), scale, c.specs)
	if n < 0 {
		return 0, err
	}
	return int(n), nil
}

// manyMetrics is a case: pods of several containers, what they use, and an HPA of several metrics.
type manyMetrics struct {
	replicas int
	pods     []manyContainers
	specs    []autoscaling.MetricSpec
	ours     []policy.Metric
	external map[string]int64
}

type manyContainers struct {
	object   *corev1.Pod
	measured *metricsv1beta1.PodMetrics
}

// there is how many pods a Deployment would count.
func (c *manyMetrics) there() (n int) {
	for i := range c.pods {
		o := c.pods[i].object
		if o.DeletionTimestamp == nil && (o.Status.Phase == corev1.PodPending || o.Status.Phase == corev1.PodRunning) {
			n++
		}
	}
	return n
}

// named are the resources that the metrics API has; the last is one that it rarely serves.
var named = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceMemory, "example.com/tokens"}

func drawMany(r *rand.Rand) *manyMetrics {
	c := &manyMetrics{replicas: 1 + r.IntN(30), external: map[string]int64{}}
	count, near, faults := c.replicas, r.Float64(), r.IntN(4)
	if r.IntN(4) == 0 {
		count = r.IntN(30)
	}
	templates := []*corev1.PodSpec{drawTemplate(r), drawTemplate(r)}
	for i := range count {
		spec := templates[0]
		if r.IntN(8) == 0 { // a rollout is under way
			spec = templates[1]
		}
		p := drawPod(r, 0, faults)
		o := p.object(i, time.Now())
		o.Labels, o.Spec = map[string]string{"app": "web"}, *spec
		m := manyContainers{object: o}
		if p.measured {
			m.measured = measure(r, o, &p, near, faults)
		}
		c.pods = append(c.pods, m)
	}
	for range 1 + r.IntN(4) {
		c.draw(r)
	}
	return c
}

// drawTemplate draws containers with what they request. Some request nothing of a resource.
func drawTemplate(r *rand.Rand) *corev1.PodSpec {
	amounts := func() corev1.ResourceRequirements {
		list := corev1.ResourceList{}
		for i, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "example.com/tokens"} {
			if r.IntN(30) > 0 {
				list[name] = amount(name, r.Float64(), i > 0 && r.IntN(2) == 0)
			}
		}
		return corev1.ResourceRequirements{Requests: list}
	}
	spec := &corev1.PodSpec{Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}}
	for _, name := range []string{"app", "proxy", "agent"}[:1+r.IntN(3)] {
		spec.Containers = append(spec.Containers, corev1.Container{Name: name, Resources: amounts()})
	}
	for i, name := range []string{"setup", "sidecar"}[:r.IntN(3)] {
		always := corev1.ContainerRestartPolicyAlways
		init := corev1.Container{Name: name, Resources: amounts()}
		if i == 1 {
			init.RestartPolicy = &always
		}
		spec.InitContainers = append(spec.InitContainers, init)
	}
	if r.IntN(8) == 0 {
		whole := amounts()
		delete(whole.Requests, "example.com/tokens") // what a pod may not request as a whole
		spec.Resources = &whole
	}
	return spec
}

// amount is up to as much as containers have of a resource: in fine units, or in round ones.
func amount(name corev1.ResourceName, part float64, round bool) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewScaledQuantity(1+int64(part*1e9), resource.Nano)
	case name != corev1.ResourceMemory:
		return *resource.NewQuantity(1+int64(part*20), resource.DecimalSI)
	case round:
		return *resource.NewQuantity((1+int64(part*2048))<<20, resource.BinarySI)
	}
	return *resource.NewQuantity(1+int64(part*4e9), resource.BinarySI)
}

// measure draws what the containers of a pod use.
func measure(r *rand.Rand, o *corev1.Pod, p *pod, near float64, faults int) *metricsv1beta1.PodMetrics {
	m := &metricsv1beta1.PodMetrics{ObjectMeta: o.ObjectMeta, Timestamp: metav1.NewTime(time.Now().Add(-p.at)), Window: metav1.Duration{Duration: p.window}}
	running := o.Spec.Containers
	if len(o.Spec.InitContainers) == 2 {
		running = append(running[:len(running):len(running)], o.Spec.InitContainers[1])
	}
	for i := range running {
		if faults > 0 && r.IntN(40) == 0 {
			continue
		}
		usage := corev1.ResourceList{}
		for _, name := range named {
			if name == "example.com/tokens" && r.IntN(20) == 0 || faults > 0 && r.IntN(60) == 0 {
				continue
			}
			usage[name] = amount(name, near*(0.8+r.Float64()/4), false)
		}
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: running[i].Name, Usage: usage})
	}
	return m
}

// draw draws a metric for both.
func (c *manyMetrics) draw(r *rand.Rand) {
	if r.IntN(4) == 0 {
		name, target, value := fmt.Sprintf("series-%d", len(c.specs)), resource.NewMilliQuantity(1+r.Int64N(5000), resource.DecimalSI), r.Int64N(50_000)
		if r.IntN(4) > 0 {
			c.external[name] = value
		}
		ext := &autoscaling.ExternalMetricSource{Metric: autoscaling.MetricIdentifier{Name: name}, Target: autoscaling.MetricTarget{Type: autoscaling.AverageValueMetricType, AverageValue: target}}
		c.specs = append(c.specs, autoscaling.MetricSpec{Type: autoscaling.ExternalMetricSourceType, External: ext})
		c.ours = append(c.ours, policy.Metric{Type: policy.External, Name: name, AverageValue: policy.Quantity(target.MilliValue())})
		return
	}
	name := named[r.IntN(len(named))]
	m := policy.Metric{Type: policy.Resource, Name: string(name)}
	goal := autoscaling.MetricTarget{Type: autoscaling.UtilizationMetricType}
	if r.IntN(2) == 0 {
		part := 1 + r.Int32N(150)
		goal.AverageUtilization, m.AverageUtilization = &part, int(part)
	} else {
		q := amount(name, r.Float64(), r.IntN(2) == 0)
		q = *resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)
		goal.Type, goal.AverageValue, m.AverageValue = autoscaling.AverageValueMetricType, &q, policy.Quantity(q.MilliValue())
	}
	if r.IntN(2) == 0 {
		c.specs = append(c.specs, autoscaling.MetricSpec{Type: autoscaling.ResourceMetricSourceType, Resource: &autoscaling.ResourceMetricSource{Name: name, Target: goal}})
	} else {
		m.Type, m.Container = policy.ContainerResource, []string{"app", "app", "proxy", "sidecar", "nothing"}[r.IntN(5)]
		c.specs = append(c.specs, autoscaling.MetricSpec{Type: autoscaling.ContainerResourceMetricSourceType, ContainerResource: &autoscaling.ContainerResourceMetricSource{Name: name, Container: m.Container, Target: goal}})
	}
	c.ours = append(c.ours, m)
}

// TestReplicasByResourcesAreTheControllers asks both sides for the replicas that several metrics
// want: resources of pods and of single containers, and series, some of which cannot be read.
func TestReplicasByResourcesAreTheControllers(t *testing.T) {
	theirs := newPeer(t)
	synctest.Test(t, func(t *testing.T) {
		r, differ, answered, changed := rand.New(rand.NewPCG(3, 4)), 0, 0, 0
		for i := range hpas {
			c := drawMany(r)
			want, err := theirs.replicas(t, c)
			got, known, why := c.decide(t)
			if err == nil {
				answered++
				if want != c.replicas {
					changed++
				}
			}
			if known == (err == nil) && (!known || got == want) {
				continue
			}
			if differ++; differ <= 10 {
				t.Errorf("case %d, %d replicas: %d (known %t: %s), the controller %d (%v)\n%+v", i, c.replicas, got, known, why, want, err, c.ours)
			}
		}
		t.Logf("%d of %d cases differ; %d have an answer, of which %d change something", differ, hpas, answered, changed)
		if answered < hpas/3 || changed < answered/2 {
			t.Errorf("%d of %d cases have an answer, of which %d change something: too few to compare", answered, hpas, changed)
		}
	})
}

// decide asks the policy.
func (c *manyMetrics) decide(t *testing.T) (int, bool, string) {
	p, err := policy.New(policy.Spec{Policy: "HPA", HPA: &policy.HPA{Metrics: c.ours}})
	if err != nil {
		t.Fatal(err)
	}
	delay, start := readinessDelay, initialization
	w := &podscaler.Workload{Name: "a/b", Min: 1, Max: 1 << 30, Behavior: podscaler.DefaultBehavior(), Pod: pricing.Resources{CPU: 1, Memory: 1},
		Readiness: podscaler.Readiness{InitialDelay: &delay, CPUInitialization: &start}}
	v := &podscaler.View{Now: time.Now(), Workload: w, Replicas: c.replicas, Window: podscaler.Window{Metrics: map[string]podscaler.Metric{}}}
	for name, value := range c.external {
		v.Window.Metrics[name] = podscaler.Metric{Total: podscaler.Known(float64(value) / 1000)}
	}
	for i := range c.pods {
		v.Pods = append(v.Pods, c.pods[i].ours())
	}
	got := p.Desired(v)
	return got.Replicas, got.Known, fmt.Sprint(got.Reasons)
}

// ours is a pod as Plimsoll sees it.
func (m *manyContainers) ours() podscaler.Pod {
	o := m.object
	ready := o.Status.Conditions[0]
	p := podscaler.Pod{
		Name: o.Name, Phase: podscaler.Phase(o.Status.Phase), Ready: ready.Status == corev1.ConditionTrue, Terminating: o.DeletionTimestamp != nil,
		Started: o.Status.StartTime.Time, ReadyChanged: ready.LastTransitionTime.Time, Asks: &podscaler.Asks{},
	}
	for i := range o.Spec.Containers {
		p.Asks.Containers = append(p.Asks.Containers, podscaler.ContainerAsks{Name: o.Spec.Containers[i].Name, Requests: milli(o.Spec.Containers[i].Resources.Requests)})
	}
	for i := range o.Spec.InitContainers {
		if init := &o.Spec.InitContainers[i]; init.RestartPolicy != nil {
			p.Asks.Containers = append(p.Asks.Containers, podscaler.ContainerAsks{Name: init.Name, Requests: milli(init.Resources.Requests)})
		}
	}
	if resourcehelper.IsPodLevelRequestsSet(o) {
		p.Asks.Whole = milli(resourcehelper.PodRequests(o, resourcehelper.PodResourcesOptions{}))
	}
	if m.measured == nil {
		return p
	}
	for _, c := range m.measured.Containers {
		sample := func(name corev1.ResourceName) podscaler.Sample {
			q, ok := c.Usage[name]
			return podscaler.Sample{Known: ok, Value: q.AsApproximateFloat64(), At: m.measured.Timestamp.Time, Span: m.measured.Window.Duration}
		}
		p.Uses = append(p.Uses, podscaler.ContainerUse{
			Name: c.Name, CPU: sample(corev1.ResourceCPU), Memory: sample(corev1.ResourceMemory),
			Others: map[string]podscaler.Sample{"example.com/tokens": sample("example.com/tokens")},
		})
	}
	return p
}

func milli(list corev1.ResourceList) map[string]int64 {
	all := map[string]int64{}
	for name, q := range list {
		all[string(name)] = q.MilliValue()
	}
	return all
}
