package plane

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const shopWeb = "shop/web"

// webPod is a pod of the Deployment shop/web, Ready on node a, that serves as the experiments' do.
func webPod(n int, change ...func(*corev1.Pod)) *corev1.Pod {
	controller := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-5d4f-%d", n), UID: types.UID(fmt.Sprint(n)),
			Labels:          map[string]string{"app": "web", "pod-template-hash": "5d4f"},
			Annotations:     map[string]string{AnnotationDemand: "50ms", AnnotationSpread: "20%"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5d4f", Controller: &controller}},
		},
		Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{
			{Name: "web", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("250Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
			}},
			{Name: "istio-proxy", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			}},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func terminating(grace time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		now, seconds := metav1.Now(), int64(grace/time.Second)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &seconds
	}
}

func (p *Plane) put(pods ...*corev1.Pod) {
	for _, pod := range pods {
		p.observed(observe(pod))
	}
}

// inVirtualTime runs a test in a bubble whose time passes while everybody waits.
func inVirtualTime(t *testing.T, test func(t *testing.T, p *Plane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, New(1)) })
}

// later sends a request and returns where its answer will be.
func (p *Plane) later() <-chan Answer {
	answer := make(chan Answer, 1)
	go func() { answer <- p.Send(context.Background(), shopWeb) }()
	synctest.Wait()
	return answer
}

// get asks the plane's door.
func (p *Plane) get(target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}
