//go:build lab

package twins

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const (
	ours, theirs = "plimsoll", "hpa"
	// period is the time between two decisions of either.
	period = 5 * time.Second
	levels = 24
	wanted = 20 // changes of replicas, at least
)

// The HorizontalPodAutoscaler of the control plane and our policy of that name scale two
// Deployments by one recording. At each of its levels both are let come to rest.
func TestHPAMovesAsTheHorizontalPodAutoscalerDoes(t *testing.T) {
	l := labtest.Up(t, lab.Config{
		ControlPlane: lab.ControlPlane{ControllerManagerArgs: []string{
			"--horizontal-pod-autoscaler-sync-period=" + period.String(),
			"--horizontal-pod-autoscaler-cpu-initialization-period=0s", "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
		}},
		Parts: []lab.Part{&lab.KWOK{}},
	})
	client := kubernetes.NewForConfigOrDie(l.REST())
	r := &recording{client: client}
	r.play(load(t)[0])
	if err := l.Serve(t.Context(), lab.AggregatedAPI{Group: "metrics.k8s.io", Version: "v1beta1", Port: r.serve(t)}); err != nil {
		t.Fatal(err)
	}
	node(t, client)
	for _, name := range []string{ours, theirs} {
		create(t, client, name)
	}
	horizontal(t, client)
	if err := l.Add(t.Context(), &product.Part{Program: labtest.Program(t), Settings: map[string]any{"mode": "Active", "interval": "1s"}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Create(t.Context(), []byte(autoscaler)); err != nil {
		t.Fatal(err)
	}
	moves := follow(t, client)
	settle(t, client, moves) // they did not begin at the same time
	moves.ways = map[string][]int{}
	for i, cores := range load(t) {
		r.play(cores)
		rested := settle(t, client, moves)
		t.Logf("level %d, %.2f cores: %s %d, %s %d", i, cores, theirs, rested[theirs], ours, rested[ours])
		if rested[ours] != rested[theirs] {
			t.Errorf("level %d, %.2f cores: %s comes to rest at %d, %s at %d", i, cores, theirs, rested[theirs], ours, rested[ours])
		}
	}
	t.Logf("%s: %v", theirs, moves.of(theirs))
	t.Logf("%s: %v", ours, moves.of(ours))
	if !slices.Equal(moves.of(ours), moves.of(theirs)) {
		t.Errorf("the ways differ")
	}
	if n := len(moves.of(theirs)); n < wanted {
		t.Errorf("there were %d changes, want %d at least", n, wanted)
	}
}

// load is the CPU that the service uses at each level, in cores: of a recorded week, every five
// hours.
func load(t *testing.T) []float64 {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "..", "shared", "traces", "nasa_jul95.csv"))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("the recorded traces are not beside the checkout: ", err)
	}
	defer func() { _ = file.Close() }() // only read
	rows := must.Get(csv.NewReader(file).ReadAll())(t)
	var all []float64
	const minutes = 20 // that each level is the mean of
	const begin, every = 1 + 3*1440, 300
	for i := range levels {
		sum := 0.0
		for _, row := range rows[begin+i*every:][:minutes] {
			n := must.Get(strconv.ParseFloat(row[1], 64))(t)
			sum += n
		}
		all = append(all, sum/minutes/12)
	}
	return all
}

func node(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("200"), corev1.ResourceMemory: resource.MustParse("800Gi"), corev1.ResourcePods: resource.MustParse("500"),
	}
	_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "big", Labels: map[string]string{lab.KubeletLabel: lab.KubeletLabelValue}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	replicas, labels := int32(1), map[string]string{"app": name}
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "server", Image: "lab.plimsoll.dev/server",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
				}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// horizontal scales theirs. Its windows are closed, as those of ours are, so that every decision
// shows.
func horizontal(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	least, percent, window := int32(1), int32(60), int32(0)
	most := autoscalingv2.MaxChangePolicySelect
	rules := func(value int32) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &window, SelectPolicy: &most,
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: value, PeriodSeconds: 1}},
		}
	}
	_, err := client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: theirs},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: theirs},
			MinReplicas:    &least, MaxReplicas: 40,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(1000), ScaleDown: rules(100)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// autoscaler scales ours.
const autoscaler = `
apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: plimsoll, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: plimsoll}
  mode: Active
  policy: HPA
  runPeriod: 5s
  minReplicas: 1
  maxReplicas: 40
  hpa:
    metrics: [{type: Resource, name: cpu, averageUtilization: 60}]
    cpuInitializationPeriod: 0s
    initialReadinessDelay: 0s
  behavior:
    scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 1000, periodSeconds: 1}]}
    scaleDown: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 100, periodSeconds: 1}]}
`

// moved are the changes of replicas of Deployments.
type moved struct {
	events chan *appsv1.Deployment
	now    map[string]int
	ways   map[string][]int
}

func (m *moved) of(name string) []int { return m.ways[name] }

// follow watches the Deployments.
func follow(t *testing.T, client kubernetes.Interface) *moved {
	t.Helper()
	m := &moved{events: make(chan *appsv1.Deployment, 1000), now: map[string]int{}, ways: map[string][]int{}}
	watch := must.Get(client.AppsV1().Deployments("default").Watch(t.Context(), metav1.ListOptions{}))(t)
	t.Cleanup(watch.Stop)
	go func() {
		for e := range watch.ResultChan() {
			if d, ok := e.Object.(*appsv1.Deployment); ok {
				m.events <- d
			}
		}
	}()
	return m
}

// take takes in what was seen until now.
func (m *moved) take() {
	for {
		select {
		case d := <-m.events:
			n := int(*d.Spec.Replicas)
			if before, seen := m.now[d.Name]; seen && before != n {
				m.ways[d.Name] = append(m.ways[d.Name], n)
			}
			m.now[d.Name] = n
		default:
			return
		}
	}
}

// settle waits until neither has moved, nor any pod of theirs, for longer than two decisions take.
func settle(t *testing.T, client kubernetes.Interface, m *moved) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	since := time.Now()
	last := ""
	for time.Since(since) < 2*period+period/2 {
		if ctx.Err() != nil {
			t.Fatalf("they do not come to rest: %s", last)
		}
		time.Sleep(100 * time.Millisecond)
		m.take()
		all := must.Get(client.AppsV1().Deployments("default").List(ctx, metav1.ListOptions{}))(t)
		now := ""
		for _, d := range all.Items {
			now += fmt.Sprintf("%s %d/%d/%d ", d.Name, *d.Spec.Replicas, d.Status.Replicas, d.Status.ReadyReplicas)
		}
		if now != last {
			since, last = time.Now(), now
		}
	}
	return map[string]int{ours: m.now[ours], theirs: m.now[theirs]}
}
