//go:build lab

package incluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

// While Prometheus is away nothing shrinks, and what is measured elsewhere goes on to let a
// workload grow. Once it is back nothing shrinks before a whole window was measured.
func TestScenario35PrometheusOutageShrinksNothing(t *testing.T) {
	w := newWorld(t, &lab.Prometheus{}, &plane.Part{Every: 2 * time.Second})
	var queue atomic.Int64
	queue.Store(60)
	w.scrape("queue", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintf(rw, "queue_length %d\n", queue.Load()) })
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	w.apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {testbed.plimsoll.dev/demand: 500ms}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: web, image: web, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 500m}}}]
`)
	w.apply(`
apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: Active
  policy: HPA
  minReplicas: 1
  maxReplicas: 12
  runPeriod: 5s
  hpa:
    metrics:
    - {type: External, name: queue, averageValue: 10}
    - {type: Resource, name: cpu, averageValue: 250m}
  signals:
    prometheus: {url: "` + w.lab.Endpoint(lab.PrometheusPart, "api") + `"}
    metrics: [{name: queue, query: sum(queue_length)}]
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
`)
	w.start("podscaler,nodescaler", quick+"handoff: {by: Placeholders}\n")
	w.until("the queue has its pods", func() bool { return w.running() == 6 })
	w.until("nothing is asked for ahead of a policy that does not look there", func() bool { return w.condition(autoscaler, "CapacityAhead") == "False NothingExpected" })

	if err := w.lab.Stop(t.Context(), lab.PrometheusPart); err != nil {
		t.Fatal(err)
	}
	queue.Store(10) // for which one pod is enough
	w.until("it is said that the queue is not known", func() bool { return strings.HasPrefix(w.condition(autoscaler, "MetricsHealthy"), "False") })
	w.stays(20*time.Second, "6 pods while Prometheus is away", func() bool { return w.replicas() == 6 })
	quiet := w.busy("web", 16)
	w.until("it grows by the CPU that it uses", func() bool { return w.replicas() > 6 })
	quiet()
	grown := w.settled()

	w.stays(20*time.Second, "as many pods when nothing uses CPU any more", func() bool { return w.replicas() == grown })
	if err := w.lab.Start(t.Context(), lab.PrometheusPart); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	w.until("it shrinks", func() bool { return w.replicas() < grown })
	if after := time.Since(back); after < 55*time.Second {
		t.Errorf("it shrank %s after Prometheus was back, and the window is a minute", after)
	}
	w.until("one pod is enough", func() bool { return w.replicas() == 1 })
}

// scrape has the lab's Prometheus read a page.
func (w *world) scrape(job string, page http.HandlerFunc) {
	w.Helper()
	s := httptest.NewServer(page)
	w.Cleanup(s.Close)
	if err := w.lab.Scrape(lab.ScrapeJob{Name: job, Targets: []string{strings.TrimPrefix(s.URL, "http://")}}); err != nil {
		w.Fatal(err)
	}
}

// replicas are those that are asked for of the Deployment web.
func (w *world) replicas() int64 {
	w.Helper()
	return w.number(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}`, "spec", "replicas")
}

// stays holds that something is so for a while.
func (w *world) stays(d time.Duration, what string, so func() bool) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if !so() {
			w.Fatalf("after %s it is not so any more that there are %s", d-time.Until(end), what)
		}
	}
	w.Logf("%6.1fs  for %s there were %s", time.Since(w.began).Seconds(), d, what)
}

// settled waits until the replicas stay as they are, and returns them.
func (w *world) settled() int64 {
	w.Helper()
	n, since := w.replicas(), time.Now()
	w.until("replicas stay as they are", func() bool {
		if is := w.replicas(); is != n {
			n, since = is, time.Now()
		}
		return time.Since(since) > 10*time.Second
	})
	return n
}

// busy has so many clients ask a workload all the time, until it is asked to stop.
func (w *world) busy(workload string, clients int) (quiet func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	url := w.lab.Endpoint(plane.PartName, "apps") + "/apps/shop/" + workload + "/"
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return
				}
				answer, err := http.DefaultClient.Do(r)
				if err != nil || answer.StatusCode != http.StatusOK {
					time.Sleep(100 * time.Millisecond)
				}
				if err == nil {
					_ = answer.Body.Close()
				}
			}
		})
	}
	return func() { cancel(); asking.Wait() }
}
