//go:build lab

package rollouts

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

const namespace = "shop"

// services are as many as fill the machines: each machine has room for one pod.
func services() (names []string) {
	for i := range *count / replicas {
		names = append(names, fmt.Sprintf("web-%d", i))
	}
	return names
}

// makeServices makes the services with their budgets and objectives, and waits until all pods are
// ready.
func (w *world) makeServices() {
	w.Helper()
	w.create(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}})
	for _, name := range services() {
		meta, labels := map[string]any{"name": name, "namespace": namespace}, map[string]any{"app": name}
		size := map[string]any{"cpu": fmt.Sprint(cores), "memory": "64Mi"}
		w.create(
			map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": map[string]any{
				"replicas": replicas, "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{
					"metadata": map[string]any{"labels": labels, "annotations": map[string]any{plane.AnnotationDemand: demand.String(), plane.AnnotationSpread: fmt.Sprintf("%.0f%%", 100*spread)}},
					"spec": map[string]any{"terminationGracePeriodSeconds": 5, "containers": []any{
						map[string]any{"name": "server", "image": "lab.plimsoll.dev/server", "resources": map[string]any{"requests": size, "limits": size}},
					}},
				},
			}},
			map[string]any{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": map[string]any{
				"maxUnavailable": *away, "selector": map[string]any{"matchLabels": labels},
			}},
			map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "WorkloadAutoscaler", "metadata": meta, "spec": map[string]any{
				"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
				"mode":           "Active", "policy": "SLOCost", "runPeriod": "15s", "minReplicas": replicas, "maxReplicas": replicas,
				"slo":     map[string]any{"p": "95th", "target": target.String(), "window": "1m"},
				"cost":    map[string]any{"target": 1000000, "per": "1h"},
				"signals": map[string]any{"preset": "Istio", "match": map[string]any{"reporter": "source"}, "prometheus": map[string]any{"url": w.lab.Endpoint(lab.PrometheusPart, "api")}},
			}})
	}
	labtest.Until(w, "all pods are ready", 200*time.Millisecond, func(ctx context.Context) error {
		list, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		n := 0
		for i := range list.Items {
			if serves(&list.Items[i]) {
				n++
			}
		}
		if n != *count {
			return fmt.Errorf("%d of %d", n, *count)
		}
		return nil
	})
	w.logf("all pods are ready")
}

// serves reports whether a pod is ready, and not on its way out.
func serves(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
		}
	}
	return false
}

// load is what came of the requests that were sent.
type load struct {
	asked, failed, late atomic.Int64
	first               atomic.Pointer[string] // that failed, as it was answered
}

// send sends requests to all services, with gaps at random, until it is stopped.
func (w *world) send() (l *load, stop func()) {
	l = &load{}
	ctx, cancel := context.WithCancel(w.Context())
	var all sync.WaitGroup
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	for i, name := range services() {
		url := w.lab.Endpoint(plane.PartName, "apps") + "/apps/" + namespace + "/" + name + "/"
		gaps := rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Duration(gaps.ExpFloat64() * float64(time.Second) / (perPod * replicas))):
					all.Go(func() { l.ask(client, url) })
				}
			}
		})
	}
	return l, func() { cancel(); all.Wait() }
}

// ask sends a request. How long it took is what its pod took by the law of the plane, so that a
// machine that is busy with other tests makes none late.
func (l *load) ask(client *http.Client, url string) {
	l.asked.Add(1)
	fail := func(why string) {
		l.failed.Add(1)
		l.first.CompareAndSwap(nil, &why)
	}
	answer, err := client.Get(url)
	if err != nil {
		fail(err.Error())
		return
	}
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it was read
	if answer.StatusCode != http.StatusOK {
		fail(answer.Status + ": " + string(text))
		return
	}
	took, err := strconv.ParseFloat(strings.TrimPrefix(answer.Header.Get("Server-Timing"), "pod;dur="), 64)
	if err != nil {
		fail(err.Error())
		return
	}
	if took > float64(target.Milliseconds()) {
		l.late.Add(1)
	}
}

// String are the figures.
func (l *load) String() string {
	return fmt.Sprintf("%d requests, %d failed, %d late (%.2f %%)", l.asked.Load(), l.failed.Load(), l.late.Load(), 100*l.lateShare())
}

func (l *load) lateShare() float64 { return float64(l.late.Load()) / float64(max(1, l.asked.Load())) }

// watchPods notes how few pods of each service were ready at once, until it is stopped.
func (w *world) watchPods() (stop func() (fewest map[string]int)) {
	w.Helper()
	list, err := w.client.CoreV1().Pods(namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	watch, err := w.client.CoreV1().Pods(namespace).Watch(w.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		w.Fatal(err)
	}
	ready, fewest := map[string]map[string]bool{}, map[string]int{}
	note := func(p *corev1.Pod, there bool) {
		app := p.Labels["app"]
		if ready[app] == nil {
			ready[app], fewest[app] = map[string]bool{}, replicas
		}
		if there {
			ready[app][p.Name] = true
		} else {
			delete(ready[app], p.Name)
		}
	}
	for i := range list.Items {
		note(&list.Items[i], serves(&list.Items[i]))
	}
	var stopped atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range watch.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok {
				note(p, e.Type != "DELETED" && serves(p))
				app := p.Labels["app"]
				fewest[app] = min(fewest[app], len(ready[app]))
			}
		}
		if !stopped.Load() {
			w.Error("the API server ended the watch of pods")
		}
	}()
	return func() map[string]int {
		stopped.Store(true)
		watch.Stop()
		<-ended
		return fewest
	}
}
