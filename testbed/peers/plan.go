package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// machine is one that a plan orders, and the pods that it is ordered for, by name.
type machine struct {
	offer
	zone, disk string
	pods       []string
}

// node is what the machine becomes.
func (m *machine) node(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: m.zone, diskLabel: m.disk,
			corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		}},
		Status: corev1.NodeStatus{
			Allocatable: m.allocatable(),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// allocatable is what pods may use.
func (o *offer) allocatable() corev1.ResourceList {
	return list(int64(o.CPU-reserved.CPU), int64(o.Memory-reserved.Memory))
}

func list(milliCPU, memory int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(podSlots, resource.DecimalSI),
	}
}
