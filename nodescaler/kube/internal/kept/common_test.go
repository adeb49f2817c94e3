package kept

import (
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// Pods of one template share what they have in common, and one that differs shares none of it.
func TestPodsOfOneTemplateShareWhatTheyHaveInCommon(t *testing.T) {
	short := func(change func(*corev1.Pod)) *Pod {
		p := anyPod(t, 1)
		change(p)
		return must.Get(Keep(p))(t).(*Pod)
	}
	first := short(func(*corev1.Pod) {})
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		shares bool
	}{
		{"another pod", func(p *corev1.Pod) { p.Name, p.UID, p.Status.PodIP = "web-2", "2", "10.0.0.2" }, true},
		{"on another node, and not ready", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "n-2", nil }, true},
		{"a node selector", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, false},
		{"a toleration more", func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		}, false},
		{"another priority", func(p *corev1.Pod) { p.Spec.Priority = new(int32) }, true},
		{"a higher priority", func(p *corev1.Pod) { high := int32(7); p.Spec.Priority = &high }, false},
		{"a resize that waits for room", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}}
		}, false},
		{"kept apart", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}},
			}}}
		}, false},
		{"a label more", func(p *corev1.Pod) { p.Labels = maps.Clone(p.Labels); p.Labels["more"] = "" }, false},
		{"another owner", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }, false},
		{"a millicore more", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("101m")
		}, false},
		{"a byte more", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1073741825")
		}, false},
		{"its last container is a sidecar", func(p *corev1.Pod) {
			last, always := len(p.Spec.Containers)-1, corev1.ContainerRestartPolicyAlways
			sidecar := p.Spec.Containers[last]
			sidecar.RestartPolicy = &always
			p.Spec.Containers, p.Spec.InitContainers = p.Spec.Containers[:last], append(p.Spec.InitContainers, sidecar)
		}, false},
		{"killed for memory", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: reasonOOMKilled},
			}}}
			p.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time = time.Unix(1, 0)
		}, false},
	} {
		other := short(c.change)
		if shares := first.common == other.common; shares != c.shares {
			t.Errorf("%s: shares %t\n%s", c.name, shares, cmp.Diff(first.key(), other.key()))
		}
		if d := cmp.Diff(other.Labels, other.labels); d != "" {
			t.Errorf("%s: its labels are others:\n%s", c.name, d)
		}
	}
}

// What no pod has any more is not held.
func TestATemplateGoesWithItsLastPod(t *testing.T) {
	held := func(key string) bool {
		templates.Lock()
		defer templates.Unlock()
		_, is := templates.of[key]
		return is
	}
	p := anyPod(t, 1)
	p.Labels = map[string]string{"of": t.Name()}
	kept := must.Get(Keep(p))(t).(*Pod)
	key := kept.key()
	if !held(key) {
		t.Fatal("it is not held while its pod is there")
	}
	runtime.KeepAlive(kept)
	for range 1000 { // what is cleaned up is so soon after a collection
		if runtime.GC(); !held(key) {
			return
		}
		runtime.Gosched()
	}
	t.Error("it is held without its pod")
}
