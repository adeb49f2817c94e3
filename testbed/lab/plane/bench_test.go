package plane

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkJitter asks pods over HTTP at random at a rate, for five seconds a turn, and prints how
// far what clients measure is from what the law gives for the very same arrivals at the very same
// pods: the p90 of both, and how much later the answers were than that. Clients and pods share the
// machine, and the cores are those of both.
func BenchmarkJitter(b *testing.B) {
	const busy = 0.6 // of the pods' quota
	for _, rate := range []int{50, 100, 200, 500, 1000, 2000} {
		b.Run(fmt.Sprintf("%d-a-second", rate), func(b *testing.B) {
			p := New(1)
			pods := int(math.Ceil(float64(rate) * 0.05 / 0.5 / busy))
			for i := range pods {
				p.put(webPod(i))
			}
			server := httptest.NewServer(p.Handler())
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}
			var all timings
			before := cpu(b)
			for b.Loop() {
				all.ask(b, client, server.URL+"/apps/shop/web/", rate, 5*time.Second)
			}
			cores := (cpu(b) - before).Seconds() / b.Elapsed().Seconds()
			all.report(b)
			b.ReportMetric(float64(pods), "pods")
			b.ReportMetric(cores, "cores")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// timings are what requests took, in milliseconds.
type timings struct {
	mu              sync.Mutex
	seen, law, late []float64
}

// ask sends requests at a rate, with gaps at random, and waits for their answers.
func (t *timings) ask(b *testing.B, client *http.Client, url string, rate int, during time.Duration) {
	gaps := rand.New(rand.NewPCG(1, 2))
	var all sync.WaitGroup
	next := time.Now()
	for end := next.Add(during); next.Before(end); next = next.Add(time.Duration(gaps.ExpFloat64() * float64(time.Second) / float64(rate))) {
		time.Sleep(time.Until(next))
		all.Go(func() {
			if err := t.one(client, url); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}

func (t *timings) one(client *http.Client, url string) error {
	sent := time.Now()
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	seen := float64(time.Since(sent)) / float64(time.Millisecond)
	_ = r.Body.Close()
	var law float64
	if _, bad := fmt.Sscanf(r.Header.Get("Server-Timing"), "pod;dur=%g", &law); err != nil || bad != nil {
		return fmt.Errorf("%s: %w", r.Status, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen, t.law, t.late = append(t.seen, seen), append(t.law, law), append(t.late, seen-law)
	return nil
}

func (t *timings) report(b *testing.B) {
	for _, all := range [][]float64{t.seen, t.law, t.late} {
		slices.Sort(all)
	}
	seen, law := quantile(t.seen, 0.9), quantile(t.law, 0.9)
	b.ReportMetric(seen, "p90-ms")
	b.ReportMetric(law, "law-p90-ms")
	b.ReportMetric(100*(seen/law-1), "p90-error-%")
	b.ReportMetric(quantile(t.late, 0.5), "late-p50-ms")
	b.ReportMetric(quantile(t.late, 0.99), "late-p99-ms")
}

// cpu is the CPU time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCluster is a cluster's worth of pods, a tenth of which use CPU: what a sample costs, and
// what it costs to list them as the HorizontalPodAutoscaler and kubectl top do.
func BenchmarkCluster(b *testing.B) {
	p := New(1)
	const nodes, pods = 1000, 30_000
	for i := range nodes {
		p.observedNode(nodeOf(fmt.Sprintf("node-%04d", i)))
	}
	for i := range pods {
		p.put(webPod(i, func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Labels["app"] = fmt.Sprintf("node-%04d", i%nodes), fmt.Sprintf("app-%03d", i%200)
			if delete(pod.Annotations, AnnotationDemand); i%10 == 0 {
				pod.Annotations[AnnotationCPU] = "120m"
			}
		}))
	}
	time.Sleep(freshest / 1000) // a sample has a span
	p.Sample()
	b.Run("sample", func(b *testing.B) {
		for b.Loop() {
			p.Sample()
		}
	})
	for name, query := range map[string]string{"all pods": "pods", "pods of one application": "pods?labelSelector=app%3Dapp-007", "nodes": "nodes"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				p.resources().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/metrics.k8s.io/v1beta1/"+query, nil))
				if w.Code != http.StatusOK || w.Body.Len() < 1000 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
