package operator

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// A pair is two whole operators that scale pods, with the real adapter at an API server in memory,
// in virtual time. Their requests meet faults for pairTrouble. After pairCalm the workloads must
// have the pods that their load asks for.
const (
	pairTrouble = 40 * time.Minute
	pairCalm    = 12 * time.Minute
)

var (
	pairsFrom = flag.Uint64("pairs.from", 1, "the first seed of the pairs")
	pairsMany = flag.Int("pairs.n", 3, "how many pairs there are")
)

type pair struct {
	server *kubesim.Server
	town   *kubesim.Town
	rng    *rand.Rand
	began  time.Time
	halves []*half

	mu    sync.Mutex
	cores map[string]float64 // what all pods of a workload use
	log   []string
	wrong []string
	wrote int
}

// half is one of the operators.
type half struct {
	*pair
	name    string
	client  *kubesim.Client
	cluster atomic.Pointer[kube.Cluster] // another one after a restart
	end     context.CancelFunc
	ended   chan struct{}
}

var pairNames = []string{"web0", "web1"}

func newPair(seed uint64) (*pair, error) {
	g, v := v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version
	p := &pair{began: time.Now(), rng: rand.New(rand.NewPCG(seed, 1)), cores: map[string]float64{}}
	p.server = kubesim.New(seed,
		kubesim.Kind{Group: g, Version: v, Name: v1alpha1.KindWorkloadAutoscaler, Resource: "workloadautoscalers", Status: true, Custom: true},
		kubesim.Kind{Group: g, Version: v, Name: v1alpha1.KindVMPool, Resource: "vmpools", ClusterWide: true, Status: true, Custom: true},
		kubesim.Kind{Group: g, Version: v, Name: v1alpha1.KindPriceBook, Resource: "pricebooks", ClusterWide: true, Status: true, Custom: true},
		kubesim.Kind{Group: "argoproj.io", Version: v, Name: "Rollout", Resource: "rollouts", Scale: true, Custom: true})
	p.town = kubesim.NewTown(p.server, rand.New(rand.NewPCG(seed, 2)))
	manifests := []string{"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"}
	for i := range 3 {
		manifests = append(manifests, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: n%d},
  status: {conditions: [{type: Ready, status: "True"}], allocatable: {cpu: "8", memory: 16Gi, pods: "20"}}}`, i))
	}
	for _, name := range pairNames {
		p.cores[name] = 1
		manifests = append(manifests, fmt.Sprintf(`
{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: shop}, spec: {replicas: 2, selector: {matchLabels: {app: %[1]s}},
  template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: web, resources: {requests: {cpu: 500m, memory: 64Mi}}}]}}}}`, name),
			fmt.Sprintf(`
{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: %[1]s, namespace: shop}, spec: {mode: Active, minReplicas: 1, maxReplicas: 10,
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}, runPeriod: 10s, behavior: {scaleDown: {stabilizationWindowSeconds: 60}},
  policy: HPA, hpa: {metrics: [{type: Resource, name: cpu, averageValue: 300m}]}}}`, name))
	}
	for _, m := range manifests {
		if err := p.server.Apply(m); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"a", "b"} {
		h := &half{pair: p, name: name}
		h.client = p.server.Client(name, h.sends)
		p.halves = append(p.halves, h)
		if err := h.start(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (h *half) start() error {
	c, err := kube.New(kube.Config{REST: h.client.Config(), Mode: kube.Active, Namespace: "plimsoll", Lease: "plimsoll", Usage: h.pair})
	if err != nil {
		return err
	}
	metrics, err := NewMetrics(prometheus.NewPedanticRegistry())
	if err != nil {
		return err
	}
	o, err := New(Config{
		Cluster: c, Identity: h.name, PodScaler: true, Active: true, PriceBook: "default", Interval: 10 * time.Second,
		Signals: noSignals{}, Links: &Links{}, Metrics: metrics, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		HandOff: kube.HandOff{By: kube.ByNothing},
	})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	h.cluster.Store(c)
	h.end, h.ended = end, make(chan struct{})
	go func() {
		defer close(h.ended)
		if err := o.Run(ctx); err != nil {
			h.fault("%s ended: %v", h.name, err)
		}
	}()
	return nil
}

func (h *half) stop() {
	h.client.Freeze()
	synctest.Wait()
	h.end()
	<-h.ended
}

// noSignals has nothing but what pods use.
type noSignals struct{}

func (noSignals) Configure(map[string]signals.Source) error { return nil }
func (noSignals) Prepare(context.Context, time.Time)        {}
func (noSignals) Recall(context.Context, time.Time, map[string]podscaler.Lack, func(string, *podscaler.History, error)) {
}

func (noSignals) Findings(string) []podscaler.Reason { return nil }
func (noSignals) Read(context.Context, *podscaler.Workload, time.Time) (podscaler.Window, error) {
	return podscaler.Window{}, nil
}

// Pods measures what pods use.
func (p *pair) Pods(context.Context) (map[string]podscaler.Sample, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]podscaler.Sample{}
	for _, name := range pairNames {
		stay, ready := p.staying(name)
		for _, key := range stay {
			all[key] = podscaler.Sample{Known: true, Value: p.cores[name] / float64(max(1, ready)), At: time.Now(), Span: 15 * time.Second}
		}
	}
	return all, nil
}

func (p *pair) staying(name string) ([]string, int) {
	return p.town.Staying("shop", map[string]any{"matchLabels": map[string]any{"app": name}})
}

func (p *pair) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, fmt.Sprintf("%8s ", time.Since(p.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (p *pair) fault(format string, args ...any) {
	p.note("WRONG: "+format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

func (p *pair) isWrong() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.wrong) > 0
}

// sends checks who writes.
func (h *half) sends(call kubesim.Call) {
	if call.Sub == "scale" {
		h.mu.Lock()
		h.wrote++
		h.mu.Unlock()
	}
	for _, o := range h.halves {
		if c := o.cluster.Load(); o != h && c != nil && c.Leading() && !strings.HasPrefix(call.Kind, "leases") {
			h.fault("%s sends %s %s %s while %s leads", h.name, call.Method, call.Kind, call.Key, o.name)
		}
	}
}

// happens has something happen by chance.
func (p *pair) happens() {
	r, h := p.rng, one(p.rng, p.halves)
	switch r.IntN(8) {
	case 0, 1:
		name := one(r, pairNames)
		p.mu.Lock()
		p.cores[name] = r.Float64() * 3
		p.mu.Unlock()
		p.note("LOAD %s", name)
	case 2:
		p.note("RESTART %s", h.name)
		h.stop()
		h.client.Fail(kubesim.Faults{})
		if err := h.start(); err != nil {
			p.fault("%s does not start again: %v", h.name, err)
		}
	case 3:
		p.server.Compact()
		h.client.Break()
	case 4:
		h.client.Ahead(time.Duration(r.IntN(7200)-3600) * time.Second)
	default:
		f := one(r, []kubesim.Faults{
			{Refused: true}, {Hangs: true}, {Unready: true}, {Errors: 0.5}, {Busy: 0.5}, {Slow: 8 * time.Second}, {Lost: 0.5}, {Crossed: 0.7},
			{Gone: 0.8}, {Breaks: 20 * time.Second}, {Late: 30 * time.Second}, {Mute: true}, {Forbidden: []string{"pods"}},
		})
		of := p.halves
		if r.IntN(2) == 0 {
			of = []*half{h}
		}
		for _, h := range of {
			p.note("FAULT of %s: %s", h.name, f)
			h.client.Fail(f)
		}
	}
}

// pass lets the pair live.
func (p *pair) pass() {
	next := time.Duration(0)
	for calm := false; time.Since(p.began) < pairTrouble+pairCalm && !p.isWrong(); time.Sleep(time.Second) {
		switch at := time.Since(p.began); {
		case at < pairTrouble && at >= next:
			p.happens()
			next = at + time.Duration(20+p.rng.IntN(200))*time.Second
		case at >= pairTrouble && !calm:
			calm = true
			p.note("CALM")
			for _, h := range p.halves {
				h.client.Fail(kubesim.Faults{})
			}
		}
		if err := p.town.Pass(); err != nil {
			p.fault("the town: %v", err)
		}
		if p.halves[0].cluster.Load().Leading() && p.halves[1].cluster.Load().Leading() {
			p.fault("both lead")
		}
	}
	if !p.isWrong() {
		p.inOrder()
	}
	for _, h := range p.halves {
		h.client.Fail(kubesim.Faults{})
		h.stop()
	}
}

// inOrder checks that each workload has the pods that its load asks for, and says so.
func (p *pair) inOrder() {
	for _, name := range pairNames {
		want := min(10, max(1, int(math.Ceil(p.cores[name]/0.3))))
		stay, _ := p.staying(name)
		// A load within a tenth of what is wanted changes nothing.
		if use := p.cores[name] / float64(len(stay)) / 0.3; len(stay) != want && (use > 1.1 || use < 0.9) {
			p.fault("at the end %s has %d pods, and %d are wanted", name, len(stay), want)
		}
		status, _ := p.server.Get("workloadautoscalers.plimsoll.dev", "shop/"+name)["status"].(map[string]any)
		if status["desiredReplicas"] != int64(len(stay)) {
			p.fault("at the end %s has %d pods, and its status says %v", name, len(stay), status["desiredReplicas"])
		}
	}
}

// TestPairs has many pairs live.
func TestPairs(t *testing.T) {
	kube.LogTo(slog.New(slog.DiscardHandler))
	many, wrote := *pairsMany, 0
	if race.On {
		many = min(many, 1)
	}
	for i := range many {
		seed := *pairsFrom + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			p, err := newPair(seed)
			if err != nil {
				t.Fatal(err)
			}
			if p.pass(); p.isWrong() {
				t.Errorf("seed %d: %s\n%s", seed, strings.Join(slices.Compact(p.wrong), "\n"), strings.Join(p.log, "\n"))
			}
			wrote += p.wrote
		})
	}
	if t.Logf("%d scales written", wrote); wrote < many {
		t.Errorf("%d scales were written by %d pairs", wrote, many)
	}
}
