package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
)

// A podScene is a run in virtual time that has certain codes said: objects in YAML, what happens to
// them, their pods and their metrics, and when. Steps go the production path, from the objects to
// their statuses, events, notifications and metrics, and signals are read by signals.Reader from a
// Prometheus in this process.
type podScene struct {
	name      string
	manifests string
	replicas  int             // of the Deployment web at first; 0 is 4, which one node holds
	set       func(*podStage) // what else is so before the process begins
	acts      []podAct
	lasts     time.Duration
	fails     bool // steps do
	says      []string
}

// podAct is what happens at a time of a scene.
type podAct struct {
	at time.Duration
	do func(*podStage)
}

// podStage is where a scene takes place.
type podStage struct {
	*house
	registry *prometheus.Registry
	load     *visitors

	mu     sync.Mutex // the server reads what follows
	shows  time.Time  // the time by the Prometheus' clock
	series map[string]answered
	preset func(query string) []string // samples of what no series is

	pods     int   // no more are created than so many, unless it is 0
	loses    bool  // orders are accepted, and no machine comes of them
	journal  error // why records are not kept
	speaking sync.Mutex
	said     map[string]int
}

// answered is what a Prometheus answers to the query that is its name.
type answered struct {
	value float64
	old   time.Duration // how long ago it was sampled
	warns bool          // only a part of it was read
}

var podScenes = slices.Concat(guardScenes, policyScenes, jointScenes, signalScenes, sizeScenes, rangeScenes, limitScenes, loopScenes)

func TestPodScenes(t *testing.T) {
	for _, sc := range podScenes {
		t.Run(sc.name, func(t *testing.T) {
			s := newPodStage(t, &sc)
			s.play(&sc)
			for _, code := range sc.says {
				if s.said[code] == 0 {
					t.Errorf("%s is not said; what is: %v", code, slices.Sorted(maps.Keys(s.said)))
				}
			}
		})
	}
}

func newPodStage(t *testing.T, sc *podScene) *podStage {
	t.Helper()
	s := &podStage{house: newHouse(t), registry: prometheus.NewPedanticRegistry(), series: map[string]answered{}, said: map[string]int{}}
	var err error
	if s.cfg.Metrics, err = NewMetrics(s.registry); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.cfg.Cluster, s.cfg.Journal, s.cfg.Notify = stageCluster{cluster{s.house}, s}, s, s
	s.cfg.Signals = signals.New(signals.Options{
		Prometheus: &signals.Prometheus{URL: server.URL}, Access: signals.Access{FreeQueries: []string{"*"}}, NodePrices: s.nodePrices,
		Timeout: time.Minute, // by a clock that is not the stage's
	})
	for text := range strings.SplitSeq(sc.manifests, "---\n") {
		s.object(text)
	}
	s.node("workers", "a")
	s.replicas["shop/web"] = max(sc.replicas, 4)
	if sc.set != nil {
		sc.set(s)
	}
	return s
}

// object reads a manifest.
func (s *podStage) object(text string) {
	s.Helper()
	into, err := manifest([]byte(text))
	if err != nil {
		s.Fatal(err)
	}
	switch o := into.(type) {
	case *v1alpha1.WorkloadAutoscaler:
		s.autoscalers[o.Namespace+"/"+o.Name] = o
	case *v1alpha1.VMPool:
		s.pools[o.Name] = o
	case *v1alpha1.PriceBook:
		s.books[o.Name] = o
	}
}

// play lets a scene pass, a step each interval, and listens.
func (s *podStage) play(sc *podScene) {
	s.begin()
	s.term.fleet = stageFleet{fleet{s.house}, s}
	acts := sc.acts
	for at := time.Duration(0); at <= sc.lasts; at += s.cfg.Interval {
		s.mu.Lock()
		for len(acts) > 0 && acts[0].at <= at {
			acts[0].do(s)
			acts = acts[1:]
		}
		if s.load != nil {
			s.load.pass(s)
		}
		s.shows = s.now
		s.mu.Unlock()
		s.term.Signals.Prepare(s.Context(), s.now)
		if err := s.term.step(s.Context(), s.now); err != nil && !sc.fails {
			s.Fatalf("after %s: %v", at, err)
		}
		s.term.beside.Wait()
		s.now = s.now.Add(s.cfg.Interval)
	}
	s.hearProblems()
}

// hearProblems hears what is said in the metrics alone: that a status or a record was not written.
func (s *podStage) hearProblems() {
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "plimsoll_problems_total" && m.GetCounter().GetValue() > 0 {
				s.hear(podscaler.Reason{Code: m.GetLabel()[0].GetValue()})
			}
		}
	}
}

// hear notes the codes in what was said, for the scene and for the vocabulary.
func (s *podStage) hear(what any) {
	hear(what)
	s.speaking.Lock()
	defer s.speaking.Unlock()
	listen(reflect.ValueOf(what), s.said)
}

// Append is the journal.
func (s *podStage) Append(step *loop.Step) error {
	s.hear(step)
	return s.journal
}

// Tell and Known are the notifications.
func (s *podStage) Tell(_ []string, n notify.Notice) { s.hear(podscaler.Reason{Code: n.Reason}) }
func (s *podStage) Known(string) bool                { return true }

// measures has a query answered by a number from now on.
func (s *podStage) measures(query string, value float64) { s.series[query] = answered{value: value} }

// ServeHTTP answers a query as Prometheus does.
func (s *podStage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query, warnings := r.FormValue("query"), ""
	var samples []string
	if v, there := s.series[query]; there {
		samples = []string{s.sample(`"node":"workers-a"`, v.value, v.old)}
		if v.warns {
			warnings = `"warnings":["a store did not answer"],`
		}
	} else if s.preset != nil {
		samples = s.preset(query)
	}
	_, _ = fmt.Fprintf(w, `{"status":"success",%s"data":{"resultType":"vector","result":[%s]}}`, warnings, strings.Join(samples, ","))
}

// sample is one as Prometheus writes it.
func (s *podStage) sample(labels string, value float64, old time.Duration) string {
	return fmt.Sprintf(`{"metric":{%s},"value":[%d,"%g"]}`, labels, s.shows.Add(-old).Unix(), value)
}

// nodePrices are those by the book in force, as plimsoll run has them.
func (s *podStage) nodePrices() map[string]float64 {
	prices := map[string]float64{}
	if b := s.books["default"]; b != nil {
		book, err := resources.Book(b)
		if err != nil {
			s.Error(err)
			return nil
		}
		for _, m := range s.cfg.Links.Machines() {
			prices[m.Name] = book.Rate(m.Shape, m.Host, s.shows).Units()
		}
	}
	return prices
}

// stageCluster is the house as the cluster, to which a scene listens.
type stageCluster struct {
	cluster
	of *podStage
}

func (c stageCluster) Observe(ctx context.Context) (loop.ClusterState, error) {
	state, err := c.cluster.Observe(ctx)
	if c.of.pods > 0 {
		state.Pods = state.Pods[:min(c.of.pods, len(state.Pods))]
	}
	return state, err
}

func (c stageCluster) About(o client.Object, e kube.Event) {
	c.of.hear(e)
	c.cluster.About(o, e)
}

func (c stageCluster) AboutPod(name, node string, e kube.Event) bool {
	c.of.hear(e)
	return c.cluster.AboutPod(name, node, e)
}

func (c stageCluster) AboutNode(name string, e kube.Event) bool {
	c.of.hear(e)
	return c.cluster.AboutNode(name, e)
}

func (c stageCluster) SetStatus(ctx context.Context, o client.Object) error {
	err := c.cluster.SetStatus(ctx, o)
	if err == nil {
		c.of.hear(reflect.ValueOf(o).Elem().FieldByName("Status").Interface())
	}
	return err
}

// stageFleet is the house as the machines, of which a scene may lose some.
type stageFleet struct {
	fleet
	of *podStage
}

func (f stageFleet) Create(ctx context.Context, o loop.Order) error {
	if f.of.loses {
		return nil
	}
	return f.fleet.Create(ctx, o)
}

// web is an autoscaler of the Deployment web, of which a scene says the rest.
func web(rest string) string { return autoscaled("Active", rest) }

// watched is one that only recommends.
func watched(rest string) string { return autoscaled("Recommend", rest) }

func autoscaled(mode, rest string) string {
	return fmt.Sprintf(`
kind: WorkloadAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: %s
  minReplicas: 1
  maxReplicas: 20
%s`, mode, rest)
}

// byCPU scales by half a core a pod.
const byCPU = `  runPeriod: 10s
  policy: HPA
  hpa: {metrics: [{type: Resource, name: cpu, averageValue: 500m}]}
`

// promptly has nothing keep replicas from going down.
const promptly = "  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}\n"

const objective = "  slo: {p: 90th, target: 300ms, window: 1m}\n"

// workers is a pool.
const workers = `---
kind: VMPool
metadata: {name: workers}
spec:
  mode: Active
  min: 0
  max: 5
  shapes: [{name: small, cpu: 2, memory: 4GiB}]
  template: {vmid: 9000}
  pvePool: plimsoll
  vmids: {first: 1000, last: 1099}
  iso: {storage: discs}
  region: lab
  join: {kind: rke2, servers: [rke2.lab], tokenFile: /etc/token, providerID: {scheme: uuid}}
`

// cores has each pod use so many from a time on.
func cores(at time.Duration, n float64) podAct { return podAct{at, func(s *podStage) { s.cores = n }} }

// measuring has a query answered by a number from a time on.
func measuring(at time.Duration, query string, value float64) podAct {
	return podAct{at, func(s *podStage) { s.measures(query, value) }}
}

// silent has a query answered by nothing from a time on.
func silent(at time.Duration, query string) podAct {
	return podAct{at, func(s *podStage) { delete(s.series, query) }}
}

// breaks has writes of a kind fail from a time on.
func breaks(at time.Duration, verb, why string) podAct {
	return podAct{at, func(s *podStage) { s.broken[verb] = errors.New(why) }}
}

// visitors are a load whose requests come whether or not others are answered. What pods cannot
// serve waits in a queue.
type visitors struct {
	rate   float64 // requests a second
	climbs float64 // by how much that grows in a second
	demand float64 // seconds of CPU that each takes
	queue  float64
}

// quota is what a pod of the stage may use, in cores.
const quota = 0.5

// pass lets an interval pass, and measures it.
func (l *visitors) pass(s *podStage) {
	seconds := s.cfg.Interval.Seconds()
	ready := float64(min(s.replicas["shop/web"], 4*len(s.nodes)))
	most := ready * quota / l.demand
	done := min(l.rate+l.queue/seconds, most)
	l.queue += (l.rate - done) * seconds
	latency := l.demand/quota + l.queue/most
	good := 1.0
	if latency > 0.3 {
		good = 0
	}
	s.cores = done * l.demand / ready
	for query, value := range map[string]float64{"arrivals": l.rate, "latency": latency, "inFlight": l.queue + done*l.demand/quota, "good": good} {
		s.measures(query, value)
	}
	l.rate += l.climbs * seconds
}
