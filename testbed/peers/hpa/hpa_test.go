package hpa

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	autoscaling "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	readings = 200_000 // random cases of replicas by one metric
	series   = 1_000   // random behaviors, each of
	steps    = 120     // so many steps
)

const (
	initialization = 5 * time.Minute
	readinessDelay = 30 * time.Second
	request        = 500 // thousandths of a core
)

// reading is one case: a metric, its target, and the pods with what they have of it.
type reading struct {
	kind        policy.MetricType
	utilization int
	value       int64 // of the target, in thousandths
	whole       bool  // the target is for all pods together
	total       int64 // in thousandths, of an Object or External metric
	replicas    int
	up, down    float64
	pods        []pod
}

type pod struct {
	phase              corev1.PodPhase
	ready, terminating bool
	started, changed   time.Duration // ago
	measured           bool
	value              int64
	window, at         time.Duration // at is ago
}

var kinds = []policy.MetricType{policy.Resource, policy.Resource, policy.Pods, policy.Object, policy.External}

// draw draws a case. Many are near a whole number of replicas, or near the edge of the tolerance,
// where one rounding decides.
func draw(r *rand.Rand) reading {
	c := reading{kind: kinds[r.IntN(len(kinds))], replicas: r.IntN(60), up: 0.1, down: 0.1}
	if r.IntN(3) == 0 {
		c.up, c.down = float64(r.IntN(50))/100, float64(r.IntN(50))/100
	}
	switch n := r.IntN(3); {
	case c.kind == policy.Resource && n > 0:
		c.utilization = 1 + r.IntN(150)
	case c.kind == policy.Object && n > 0, c.kind == policy.External && n > 0:
		c.whole, c.value = true, 1+r.Int64N(2000)
	default:
		c.value = 1 + r.Int64N(800)
	}
	c.total = r.Int64N(5000)
	if r.IntN(2) == 0 && c.value > 0 {
		c.total = c.value * int64(r.IntN(60))
	}
	if c.kind == policy.Resource && c.replicas == 0 {
		c.replicas = 1
	}
	near, faults := r.Int64N(700), r.IntN(4)
	count := c.replicas
	if r.IntN(4) == 0 {
		count = r.IntN(60)
	}
	for range count {
		c.pods = append(c.pods, drawPod(r, near, faults))
	}
	return c
}

func drawPod(r *rand.Rand, near int64, faults int) pod {
	p := pod{phase: corev1.PodRunning, ready: true, started: time.Hour, changed: time.Hour, measured: true, value: near, window: 30 * time.Second, at: 10 * time.Second}
	if r.IntN(3) == 0 {
		p.value = r.Int64N(700)
	}
	if r.IntN(10) >= 3*faults {
		return p
	}
	switch r.IntN(6) {
	case 0:
		p.phase = []corev1.PodPhase{corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded}[r.IntN(3)]
	case 1:
		p.terminating = true
	case 2:
		p.measured = false
	case 3:
		p.ready = false
	default:
		p.started = time.Duration(r.IntN(600)) * time.Second
		p.changed = time.Duration(r.Int64N(int64(p.started) + 1)).Truncate(time.Second)
		p.ready = r.IntN(3) > 0
	}
	return p
}

// TestReplicasAreTheControllers asks both sides for the replicas that one metric wants.
func TestReplicasAreTheControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, differ := rand.New(rand.NewPCG(1, 2)), 0
		answered := 0
		for i := range readings {
			c := draw(r)
			want, wantErr := theirs(&c)
			got, known, why := ours(t, &c)
			if wantErr == nil {
				answered++
			}
			if known == (wantErr == nil) && (!known || got == want) {
				continue
			}
			if differ++; differ <= 10 {
				t.Errorf("case %d: %d (known %t: %s), the controller %d (%v)\n%+v", i, got, known, why, want, wantErr, c)
			}
		}
		t.Logf("%d of %d cases differ; %d have an answer", differ, readings, answered)
		if answered < readings/2 {
			t.Errorf("%d of %d cases have an answer: too few to compare", answered, readings)
		}
	})
}

// ours asks the policy.
func ours(t *testing.T, c *reading) (int, bool, string) {
	m := policy.Metric{Type: c.kind, Name: "cpu", AverageUtilization: c.utilization}
	if c.whole {
		m.Value = policy.Quantity(c.value)
	} else {
		m.AverageValue = policy.Quantity(c.value)
	}
	p, err := policy.New(policy.Spec{Policy: "HPA", HPA: &policy.HPA{Metrics: []policy.Metric{m}}})
	if err != nil {
		t.Fatal(err)
	}
	now, behavior := time.Now(), podscaler.DefaultBehavior()
	behavior.Up.Tolerance, behavior.Down.Tolerance = &c.up, &c.down
	delay, start := readinessDelay, initialization
	w := &podscaler.Workload{Name: "a/b", Min: 1, Max: 1 << 30, Behavior: behavior, Pod: pricing.Resources{CPU: request},
		Readiness: podscaler.Readiness{InitialDelay: &delay, CPUInitialization: &start}}
	v := &podscaler.View{Now: now, Workload: w, Replicas: c.replicas, Window: podscaler.Window{Metrics: map[string]podscaler.Metric{}}}
	read := podscaler.Metric{Total: podscaler.Known(float64(c.total) / 1000)}
	if c.kind == policy.Pods {
		read.PerPod = map[string]float64{}
	}
	for i, p := range c.pods {
		one := podscaler.Pod{Name: name(i), Phase: podscaler.Phase(p.phase), Ready: p.ready, Terminating: p.terminating, Started: now.Add(-p.started), ReadyChanged: now.Add(-p.changed)}
		if p.measured {
			one.CPU = podscaler.Sample{Known: true, Value: float64(p.value) / 1000, At: now.Add(-p.at), Span: p.window}
			if read.PerPod != nil {
				read.PerPod[one.Name] = float64(p.value) / 1000
			}
		}
		v.Pods = append(v.Pods, one)
	}
	v.Window.Metrics["cpu"] = read
	got := p.Desired(v)
	return got.Replicas, got.Known, fmt.Sprint(got.Reasons)
}

func name(i int) string { return fmt.Sprintf("pod-%d", i) }

// theirs asks the controller's calculator.
func theirs(c *reading) (int, error) {
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	measured, now, there := metrics.PodMetricsInfo{}, time.Now(), 0
	for i, p := range c.pods {
		if !p.terminating && (p.phase == corev1.PodPending || p.phase == corev1.PodRunning) {
			there++
		}
		_ = index.Add(p.object(i, now))
		if p.measured {
			// A sample's window ends at its time. The controller compares when it began with the
			// last change of readiness.
			measured[name(i)] = metrics.PodMetric{Timestamp: now.Add(-p.at), Window: p.window, Value: p.value}
		}
	}
	calc := podautoscaler.NewReplicaCalculator(&client{measured, c.total}, corelisters.NewPodLister(index), initialization, readinessDelay)
	var (
		band, all, n = tolerances(c.up, c.down), labels.Everything(), int32(0)
		replicas     = int32(c.replicas)
		err          error
	)
	switch {
	case c.utilization > 0:
		n, _, _, _, err = calc.GetResourceReplicas(context.Background(), replicas, int32(c.utilization), corev1.ResourceCPU, band, "a", all, "")
	case c.kind == policy.Resource:
		n, _, _, err = calc.GetRawResourceReplicas(context.Background(), replicas, c.value, corev1.ResourceCPU, band, "a", all, "")
	case c.kind == policy.Pods:
		n, _, _, err = calc.GetMetricReplicas(replicas, c.value, "cpu", band, "a", all, all)
	case c.kind == policy.Object && c.whole:
		n, _, _, err = calc.GetObjectMetricReplicas(replicas, c.value, "cpu", band, "a", &autoscaling.CrossVersionObjectReference{}, all, all)
	case c.kind == policy.Object:
		n, _, _, err = calc.GetObjectPerPodMetricReplicas(int32(there), c.value, "cpu", band, "a", &autoscaling.CrossVersionObjectReference{}, all)
	case c.whole:
		n, _, _, err = calc.GetExternalMetricReplicas(replicas, c.value, "cpu", band, "a", &metav1.LabelSelector{}, all)
	default:
		n, _, _, err = calc.GetExternalPerPodMetricReplicas(int32(there), c.value, "cpu", band, "a", &metav1.LabelSelector{})
	}
	return int(n), err
}

func (p *pod) object(i int, now time.Time) *corev1.Pod {
	started, ready := metav1.NewTime(now.Add(-p.started)), corev1.ConditionFalse
	if p.ready {
		ready = corev1.ConditionTrue
	}
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name(i)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(request, resource.DecimalSI)}}}}},
		Status: corev1.PodStatus{Phase: p.phase, StartTime: &started, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-p.changed))},
		}},
	}
	if p.terminating {
		o.DeletionTimestamp = &started
	}
	return o
}

// tolerances are those of the two directions. Their fields are the controller's own.
func tolerances(up, down float64) (t podautoscaler.Tolerances) {
	set(&t, "scaleUp", up)
	set(&t, "scaleDown", down)
	return t
}

// set sets a field that another package keeps to itself.
func set(of any, field string, to any) {
	f := reflect.ValueOf(of).Elem().FieldByName(field)
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(to))
}

// client is a metrics API that has what the case has.
type client struct {
	pods  metrics.PodMetricsInfo
	total int64
}

func (c *client) GetResourceMetric(context.Context, corev1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	return c.pods, time.Time{}, nil
}

func (c *client) GetRawMetric(string, string, labels.Selector, labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	return c.pods, time.Time{}, nil
}

func (c *client) GetObjectMetric(string, string, *autoscaling.CrossVersionObjectReference, labels.Selector) (int64, time.Time, error) {
	return c.total, time.Time{}, nil
}

func (c *client) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	return []int64{c.total}, time.Time{}, nil
}

// makeMap makes the map of a field that another package keeps to itself.
func makeMap(of any, field string) {
	f := reflect.ValueOf(of).Elem().FieldByName(field)
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.MakeMap(f.Type()))
}
