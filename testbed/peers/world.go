package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/pricing"
)

const (
	namespace = "load"
	diskLabel = "example.com/disk"
	podSlots  = 110
)

// Nodes come in every zone with every kind of disk, for the same price.
var (
	zones = []string{"a", "b", "c"}
	disks = []string{"hdd", "ssd"}
)

// reserved is what the system and the kubelet take of every node.
var reserved = pricing.Resources{CPU: 200, Memory: pricing.GiB}

// Prices of an hour, before what varies by shape.
const (
	perVCPU = pricing.Unit / 32
	perGiB  = pricing.Unit / 256
	varies  = 15 // percent, at most
)

// offer is a shape with its price.
type offer struct {
	pricing.Shape
	price pricing.Micros
}

// world is the same for both who plan.
type world struct {
	offers  []offer
	pods    []*corev1.Pod
	claims  []*corev1.PersistentVolumeClaim
	volumes []*corev1.PersistentVolume
}

// setting is one line of the table.
type setting struct {
	Row          string
	Pods, Shapes int
	Machine      pricing.Micros // what an hour of having any machine costs besides
}

func (s setting) String() string { return fmt.Sprintf("%s/%d/%d", s.Row, s.Pods, s.Shapes) }

// newWorld draws the world of a setting that was checked, always the same one.
func newWorld(s setting) *world {
	w := &world{}
	if s.Shapes == 20 {
		w.shapes([]int{2, 4, 8, 16, 32}, 4, 2, 2)
	} else {
		w.shapes([]int{2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 48, 56, 64}, 20, 1, 0.5)
		for i := range w.offers {
			w.offers[i].vary()
		}
	}
	for i := range w.offers {
		w.offers[i].price += s.Machine
	}
	w.load(s.Pods, rows[s.Row], newRand(s.Pods, slices.Index(rowNames, s.Row)))
	return w
}

func newRand(a, b int) *rand.Rand { return rand.New(rand.NewPCG(uint64(a), uint64(b))) }

// shapes offers each number of vCPUs with as many sizes of memory, by GiB for a vCPU.
func (w *world) shapes(vcpus []int, sizes int, first, step float64) {
	for _, n := range vcpus {
		for i := range sizes {
			gib := float64(n) * (first + float64(i)*step)
			shape := pricing.Shape{
				Name: fmt.Sprintf("c%02d-m%05.1f", n, gib), CPU: pricing.MilliCPU(1000 * n), Memory: pricing.Bytes(gib * float64(pricing.GiB)),
			}
			price := pricing.Micros(n)*perVCPU + pricing.Micros(gib*float64(perGiB))
			w.offers = append(w.offers, offer{shape, price})
		}
	}
}

// vary makes the shape dearer by a share that its name chooses.
func (o *offer) vary() {
	h := fnv.New32a()
	_, _ = h.Write([]byte(o.Name))
	o.price += o.price * pricing.Micros(h.Sum32()%(10*varies+1)) / 1000
}

// app is pods alike: its replicas.
type app struct {
	*world
	*rand.Rand
	n        int // its number
	name     string
	replicas []*corev1.Pod
}

var (
	cpus     = []string{"50m", "100m", "200m", "250m", "500m", "750m", "1", "1500m", "2", "3", "4"}
	memories = []string{"128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "3Gi", "4Gi", "8Gi"}
)

// load makes apps of up to 40 replicas until there are enough pods.
func (w *world) load(pods int, dress func(*app), chance *rand.Rand) {
	for n := 0; len(w.pods) < pods; n++ {
		a := &app{world: w, Rand: chance, n: n, name: fmt.Sprintf("app-%04d", n)}
		requests := corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpus[a.IntN(len(cpus))]),
			corev1.ResourceMemory: resource.MustParse(memories[a.IntN(len(memories))]),
		}
		for i := range min(1+a.IntN(40), pods-len(w.pods)) {
			a.replicas = append(a.replicas, a.replica(i, requests))
		}
		dress(a)
		w.pods = append(w.pods, a.replicas...)
	}
}

// replica waits, and the scheduler has found no node for it.
func (a *app) replica(i int, requests corev1.ResourceList) *corev1.Pod {
	name, yes := fmt.Sprintf("%s-%02d", a.name, i), true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{"app": a.name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.name, UID: types.UID(a.name), Controller: &yes}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}},
	}
}

// each changes the specs of all replicas.
func (a *app) each(change func(*corev1.PodSpec)) {
	for _, p := range a.replicas {
		change(&p.Spec)
	}
}
