package plane

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/serving"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Timers and locks against the law itself: the same arrivals leave at the same times, to the
// nanosecond, and use the same CPU.
func TestPodsInRealTimeObeyTheLaw(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		p.put(webPod(0, annotated(AnnotationConcurrency, "3")))
		demands := timing.Stream(1, "demand "+shopWeb)
		twin := serving.New[int](0.5, 3, p.now())
		demand := serving.Demand{Mean: 50 * time.Millisecond, Spread: 0.2}

		const n = 300
		arrivals := rand.New(rand.NewPCG(3, 4))
		took, want := make([]time.Duration, n), make([]time.Duration, n)
		leave := func(until time.Duration) {
			for at, busy := twin.Due(); busy && at <= until; at, busy = twin.Due() {
				i, _ := twin.Finish(at)
				want[i] += at
			}
		}
		var users sync.WaitGroup
		for i := range n {
			time.Sleep(time.Duration(arrivals.ExpFloat64() * float64(110*time.Millisecond)))
			now := p.now()
			leave(now)
			twin.Accept(now, demand.Draw(demands), 0, i)
			want[i] = -now
			users.Go(func() {
				sent := time.Now()
				if a := p.Send(context.Background(), shopWeb); a.Code != http.StatusOK {
					t.Errorf("request %d: %+v", i, a)
				}
				took[i] = time.Since(sent)
			})
		}
		users.Wait()
		leave(math.MaxInt64)
		if !slices.Equal(took, want) {
			t.Errorf("took %v, want %v", took, want)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if got, want := p.pods["shop/web-5d4f-0"].Used(p.now()), twin.Used(p.now()); math.Abs(got-want) > 1e-9 || got < 10 {
			t.Errorf("used %.3f s of CPU, want %.3f", got, want)
		}
	})
}

// The same users and pods in the simulated world, which has its own events, users and balancer's
// chance, see the same latencies.
func TestLatenciesAreThoseOfTheSimulatedWorld(t *testing.T) {
	const users, pods, during = 120, 22, 10 * time.Minute
	var secs []float64
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		for i := range pods {
			p.put(webPod(i))
		}
		secs = sleepers(p, users, during)
	})
	w, err := sim.New(sim.Config{
		Seed: 1, Start: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), Tick: 5 * time.Second, MetricsEvery: 15 * time.Second,
		Hosts:   []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: pricing.Resources{CPU: 64000, Memory: 256 * pricing.GB}}, Online: true}},
		Pools:   []nodescaler.Pool{{Name: "worker", Max: 8, Shapes: []pricing.Shape{{Name: "small", CPU: 2000, Memory: 8 * pricing.GB}}}},
		Initial: map[string]int{"worker": 8}, Prices: pricing.DefaultBook(),
		Workloads: []sim.Workload{{
			Name: shopWeb, Replicas: pods, Requests: pricing.Resources{CPU: 600, Memory: 250 * pricing.MB}, Quota: 500, Concurrency: 64,
			Demand: serving.Demand{Mean: 50 * time.Millisecond, Spread: 0.2}, Balance: serving.LeastOfTwo, Window: time.Minute,
			Load:        sim.Load{Kind: sim.Sleep, Level: sim.Flat(users), Think: time.Second, Spread: time.Second},
			LatencyGoal: 300 * time.Millisecond, GoalQuantile: 0.9,
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(context.Background(), during); err != nil {
		t.Fatal(err)
	}
	score := w.Scores()[0]
	if score.Requests < 50_000 || score.Failed > 0 {
		t.Fatalf("%d requests in the simulated world, %d of them failed", score.Requests, score.Failed)
	}
	near := func(what string, got, want float64) {
		t.Logf("%s: %.4g, in the simulated world %.4g", what, got, want)
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("%s is %.4g, in the simulated world %.4g", what, got, want)
		}
	}
	near("requests", float64(len(secs)), float64(score.Requests))
	for _, q := range []float64{0.5, 0.9, 0.99} {
		near("quantile "+time.Duration(q*1e9).String(), quantile(secs, q), score.Latencies.Quantile(q))
	}
}

// sleepers are users who send, wait and sleep for a second each. It returns how long their answers
// took, in seconds.
func sleepers(p *Plane, users int, during time.Duration) (secs []float64) {
	var all sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(during)
	for i := range users {
		all.Go(func() {
			time.Sleep(time.Second * time.Duration(i) / time.Duration(users))
			for time.Now().Before(end) {
				sent := time.Now()
				p.Send(context.Background(), shopWeb)
				took := time.Since(sent)
				mu.Lock()
				secs = append(secs, took.Seconds())
				mu.Unlock()
				time.Sleep(time.Second)
			}
		})
	}
	all.Wait()
	slices.Sort(secs)
	return secs
}

// quantile is that of sorted values.
func quantile(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }

func TestRequestsFailAsEnvoyWouldLetThem(t *testing.T) {
	for _, c := range []struct {
		name string
		pods []*corev1.Pod
		node *corev1.Node
		want Answer
	}{
		{"an application nobody knows", nil, nil,
			Answer{404, "NR", "", 0, "there is no application shop/web; one is made of pods with the annotation testbed.plimsoll.dev/demand"}},
		{"a pod that is not ready", []*corev1.Pod{webPod(0, notReady)}, nil, Answer{503, "UH", "", 0, "no pod of shop/web is ready"}},
		{"a pod that is to go", []*corev1.Pod{webPod(0, terminating(time.Minute))}, nil, Answer{503, "UH", "", 0, "no pod of shop/web is ready"}},
		{"a pod that is still pending", []*corev1.Pod{webPod(0, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}, nil,
			Answer{503, "UH", "", 0, "no pod of shop/web is ready"}},
		{"a pod that says nonsense", []*corev1.Pod{webPod(0, annotated(AnnotationSpread, "20"))}, nil,
			Answer{503, "UH", "", 0, `no pod of shop/web is ready; pod shop/web-5d4f-0: testbed.plimsoll.dev/spread: must be from 0% to below 100%, was "20"`}},
		{"a pod on a machine that was stopped", []*corev1.Pod{webPod(0)}, nodeOf("a", AnnotationHalted, "true"),
			Answer{503, "UF", "", 0, "pod web-5d4f-0 is on a node that does not run"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, p *Plane) {
				p.put(c.pods...)
				if c.node != nil {
					p.observedNode(c.node)
				}
				before := time.Now()
				if got := p.Send(context.Background(), shopWeb); got != c.want {
					t.Errorf("%+v, want %+v", got, c.want)
				}
				if took := time.Since(before); took != 0 {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func nodeOf(name string, annotations ...string) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.Annotations, n.Labels = name, map[string]string{}, map[string]string{"kubernetes.io/hostname": name}
	for i := 0; i < len(annotations); i += 2 {
		n.Annotations[annotations[i]] = annotations[i+1]
	}
	return n
}

// A pod that is to go gets nothing new, and answers what it has: also when its object goes at once,
// as KWOK lets it.
func TestPodsThatGoFinishWhatTheyHave(t *testing.T) {
	for name, goes := range map[string]func(p *Plane){
		"terminating": func(p *Plane) { p.put(webPod(0, terminating(30*time.Second))) },
		"deleted":     func(p *Plane) { p.put(webPod(0, terminating(30*time.Second))); p.removed("shop/web-5d4f-0") },
		"taken away with its grace": func(p *Plane) {
			p.put(webPod(0, terminating(30*time.Second)), webPod(0, terminating(0)))
			p.removed("shop/web-5d4f-0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, p *Plane) {
				p.put(webPod(0), webPod(1, notReady))
				first := p.later()
				goes(p)
				p.put(webPod(1))
				if a := p.Send(context.Background(), shopWeb); a.Pod != "web-5d4f-1" {
					t.Errorf("a new request went to %+v", a)
				}
				if a := <-first; a.Code != http.StatusOK || a.Pod != "web-5d4f-0" {
					t.Errorf("the old request was answered %+v", a)
				}
				p.removed("shop/web-5d4f-0")
				if len(p.ended) != 0 || len(p.apps[shopWeb].ready) != 1 {
					t.Errorf("%d pods have ended and are remembered, %d are endpoints", len(p.ended), len(p.apps[shopWeb].ready))
				}
			})
		})
	}
}

func TestGraceThatIsOverKillsRequests(t *testing.T) {
	slow := annotated(AnnotationDemand, "10s") // 20 s at half a core
	for name, c := range map[string]struct {
		goes func(p *Plane)
		at   time.Duration
	}{
		"after its grace":         {func(p *Plane) { p.put(webPod(0, slow, terminating(5*time.Second))) }, 5 * time.Second},
		"after its object's end":  {func(p *Plane) { p.put(webPod(0, slow, terminating(5*time.Second))); p.removed("shop/web-5d4f-0") }, 5 * time.Second},
		"at once, forced":         {func(p *Plane) { p.put(webPod(0, slow, terminating(0))); p.removed("shop/web-5d4f-0") }, 0},
		"at once, with its node":  {func(p *Plane) { p.observedNode(nodeOf("a", AnnotationHalted, "true")) }, 0},
		"at once, for a new one":  {func(p *Plane) { p.put(webPod(0, slow, terminating(0), func(p *corev1.Pod) { p.UID = "other" })) }, 5 * time.Second},
		"later than its deletion": {func(p *Plane) { p.removed("shop/web-5d4f-0") }, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, p *Plane) {
				five := int64(5)
				p.put(webPod(0, slow, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &five }))
				answer, began := p.later(), time.Now()
				c.goes(p)
				if a := <-answer; a.Code != 503 || a.Flags != "UC" {
					t.Errorf("%+v", a)
				}
				if took := time.Since(began); took != c.at {
					t.Errorf("it was killed after %s, want %s", took, c.at)
				}
			})
		})
	}
}

func TestPodsThatAreNotReadyAnyMoreFinishAndComeBack(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		p.put(webPod(0))
		first := p.later()
		p.put(webPod(0, notReady))
		if a := p.Send(context.Background(), shopWeb); a.Flags != "UH" {
			t.Errorf("while it is not ready: %+v", a)
		}
		if a := <-first; a.Code != 200 {
			t.Errorf("what it had: %+v", a)
		}
		p.put(webPod(0))
		if a := p.Send(context.Background(), shopWeb); a.Code != 200 {
			t.Errorf("ready again: %+v", a)
		}
	})
}

func TestMachinesThatRunAgainServeAgain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		p.observedNode(nodeOf("a", AnnotationHalted, "true"))
		p.put(webPod(0))
		if a := p.Send(context.Background(), shopWeb); a.Flags != "UF" {
			t.Errorf("while its machine is off: %+v", a)
		}
		p.observedNode(nodeOf("a"))
		if a := p.Send(context.Background(), shopWeb); a.Code != 200 {
			t.Errorf("when it is on again: %+v", a)
		}
	})
}

// Who does not wait for an answer is not served any faster: the pod goes on with it.
func TestClientsThatLeaveAreStillWorkedFor(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		p.put(webPod(0, annotated(AnnotationSpread, "0%")))
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
		if a := p.Send(ctx, shopWeb); a.Code != 0 || a.Flags != "DC" || a.Pod != "web-5d4f-0" {
			t.Errorf("%+v", a)
		}
		before := time.Now() // 70 of 100 ms are left of the first, and they share
		p.Send(context.Background(), shopWeb)
		if took := time.Since(before); took != 170*time.Millisecond {
			t.Errorf("the next takes %s, want 170ms", took)
		}
	})
}

func TestRequestsFindTheirApplication(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		p.put(webPod(0))
		for _, c := range []struct {
			target, host string
			code         int
		}{
			{"/apps/shop/web/", "", 200},
			{"/apps/shop/web", "", 200},
			{"/apps/shop/web/cart?item=1", "", 200},
			{"/cart", "web.shop.svc", 200},
			{"/cart", "web.shop", 404},
			{"/metrics", "web.shop.svc:8080", 200},
			{"/", "web.shop.svc.cluster.local", 200},
			{"/", "web.shop.svc.cluster", 404},
			{"/apps/shop/other/", "", 404},
			{"/cart", "127.0.0.1:8080", 404},
			{"/healthz", "localhost:8080", 200},
		} {
			r := httptest.NewRequest(http.MethodPost, c.target, strings.NewReader("body"))
			if c.target == "/healthz" {
				r.Method = http.MethodGet
			}
			if c.host != "" {
				r.Host = c.host
			} else {
				r.Host = "localhost"
			}
			w := httptest.NewRecorder()
			p.Handler().ServeHTTP(w, r)
			if w.Code != c.code && !(c.code == 404 && w.Code == 405) {
				t.Errorf("%s of %q: %d %s, want %d", c.target, r.Host, w.Code, w.Body, c.code)
			}
		}
		if got := p.apps[shopWeb].sent[outcome{200, "-"}].counts; sum(got) != 6 {
			t.Errorf("%d requests reached the application, want 6", sum(got))
		}
	})
}

func sum(counts []uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestFaultsInAnnotationsAreToldByKeyRuleAndValue(t *testing.T) {
	for want, change := range map[string]func(*corev1.Pod){
		`testbed.plimsoll.dev/demand: must be a duration greater than 0, such as 50ms, was "50"`:                                                          annotated(AnnotationDemand, "50"),
		`testbed.plimsoll.dev/demand: must be a duration greater than 0, such as 50ms, was "-1s"`:                                                         annotated(AnnotationDemand, "-1s"),
		`testbed.plimsoll.dev/spread: must be from 0% to below 100%, was "100%"`:                                                                          annotated(AnnotationSpread, "100%"),
		`testbed.plimsoll.dev/concurrency: must be a number greater than 0, was "0"`:                                                                      annotated(AnnotationConcurrency, "0"),
		`testbed.plimsoll.dev/balance: must be least-of-two or random, was "fair"`:                                                                        annotated(AnnotationBalance, "fair"),
		`testbed.plimsoll.dev/container: must be the name of one of the pod's containers, was "db"`:                                                       annotated(AnnotationContainer, "db"),
		`testbed.plimsoll.dev/cpu: must be omitted beside testbed.plimsoll.dev/demand, was "1"`:                                                           annotated(AnnotationCPU, "1"),
		`spec.containers[1].resources.limits.cpu: must be given, for it is what requests are served with, was 0`:                                          annotated(AnnotationContainer, "istio-proxy"),
		`sidecar.istio.io/statsHistogramBuckets: must be like {"istiocustom":[1,5,10]}, with edges that rise from above 0, was "{\"istiocustom\":[5,1]}"`: annotated(AnnotationBuckets, `{"istiocustom":[5,1]}`),
	} {
		if _, err := readBehavior(webPod(0, change)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	idle := webPod(0, annotated(AnnotationCPU, "much"))
	delete(idle.Annotations, AnnotationDemand)
	if _, err := readBehavior(idle); err == nil || err.Error() != `testbed.plimsoll.dev/cpu: must be an amount of CPU, such as 120m, was "much"` {
		t.Error(err)
	}
}

func TestWorkloadsAreNamedAsIstioNamesThem(t *testing.T) {
	controller := true
	owned := func(kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name, p.OwnerReferences[0].Controller = kind, name, &controller
		}
	}
	for want, change := range map[string]func(*corev1.Pod){
		"web":        func(*corev1.Pod) {},
		"db":         owned("StatefulSet", "db"),
		"bare-5d4f":  owned("ReplicaSet", "bare-5d4f-5d4f"),
		"web-5d4f-0": func(p *corev1.Pod) { p.OwnerReferences = nil },
		"own":        func(p *corev1.Pod) { owned("ReplicaSet", "own")(p); delete(p.Labels, "pod-template-hash") },
	} {
		if got := workloadOf(webPod(0, change)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Whoever begins something asks for samples that go by it.
func TestSamplesBeginAnewWhenTheyAreAskedFor(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		anew := make(chan time.Time)
		go p.sampleEvery(ctx, 15*time.Second, anew)
		var got []time.Duration
		for i := range 45 {
			if i == 22 {
				anew <- time.Now().Add(4 * time.Second)
			}
			time.Sleep(time.Second - time.Millisecond)
			synctest.Wait()
			p.mu.Lock()
			if len(got) == 0 || got[len(got)-1] != p.sampled {
				got = append(got, p.sampled)
			}
			p.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		want := []time.Duration{0, 15 * time.Second, 22 * time.Second, 26 * time.Second, 41 * time.Second}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}
