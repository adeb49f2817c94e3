package plane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/serving"
)

// Plane is pods that serve, and the balancer before them. All of it moves under one lock, and only
// for as long as arithmetic takes.
type Plane struct {
	seed    uint64
	began   time.Time // the times of pods are since then
	gateway bool      // see Part

	mu      sync.Mutex
	apps    map[string]*application
	pods    map[string]*pod // that the API server has, by namespace and name
	ended   map[*pod]bool   // those it has no more, and which still answer what they had
	at      map[string]*pod // by address
	nodes   map[string]*node
	sampled time.Duration // when CPU use was last taken
	late    *series       // how much after its time each answer was given, in seconds
}

// New returns a plane without pods. All chance in it comes from the seed.
func New(seed uint64) *Plane {
	return &Plane{
		seed: seed, began: time.Now(),
		apps: map[string]*application{}, pods: map[string]*pod{}, ended: map[*pod]bool{}, at: map[string]*pod{}, nodes: map[string]*node{},
		late: newSeries(lateEdges),
	}
}

func (p *Plane) now() time.Duration { return time.Since(p.began) }

// application is the pods of one workload, and the balancer before them.
type application struct {
	namespace, name string
	balance         serving.Balance
	demands, picks  *rand.Rand
	ready           []*pod // the endpoints, in the order in which they became such
	sent            map[outcome]*series
}

func (p *Plane) application(o *observed) *application {
	a := p.apps[o.app()]
	if a == nil {
		a = &application{
			namespace: o.namespace, name: o.workload, balance: o.behavior.balance,
			demands: timing.Stream(p.seed, "demand "+o.app()), picks: timing.Stream(p.seed, "balance "+o.app()),
			sent: map[outcome]*series{},
		}
		p.apps[o.app()] = a
	}
	return a
}

// call is a request on its way.
type call struct {
	start time.Duration
	done  chan Answer // takes one without waiting
	gone  bool        // its client does not wait any more
}

// Answer is what came of a request.
type Answer struct {
	Code  int           // of HTTP; 0 if its client did not wait for it
	Flags string        // Envoy's; - for none
	Pod   string        // that took it, if one did
	Took  time.Duration // in the pod, by its law
	Text  string        // for people, where it failed
}

func failed(code int, flags, format string, args ...any) Answer {
	return Answer{Code: code, Flags: flags, Text: fmt.Sprintf(format, args...)}
}

// Send sends a request to an application, NAMESPACE/WORKLOAD, and returns when it is answered.
func (p *Plane) Send(ctx context.Context, app string) Answer {
	start := time.Now()
	a, c, answer := p.enter(app)
	if c != nil {
		select {
		case answer = <-c.done:
		case <-ctx.Done():
			answer = Answer{Code: 0, Flags: "DC", Pod: answer.Pod}
		}
	}
	if a != nil {
		p.leave(a, c, answer, time.Since(start))
	}
	return answer
}

// enter lets the balancer pick a pod for a request. Without a call there is an answer already.
func (p *Plane) enter(app string) (*application, *call, Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.apps[app]
	if a == nil {
		return nil, nil, failed(http.StatusNotFound, "NR", "there is no application %s; one is made of pods with the annotation %s", app, AnnotationDemand)
	}
	now := p.now()
	for _, pod := range a.ready {
		pod.settle(now)
	}
	if len(a.ready) == 0 {
		return a, nil, failed(http.StatusServiceUnavailable, "UH", "no pod of %s is ready%s", app, p.faults(app))
	}
	pod := serving.Pick(a.ready, a.balance, a.picks)
	if pod.dead {
		return a, nil, failed(http.StatusServiceUnavailable, "UF", "pod %s is on a node that does not run", pod.obs.name)
	}
	c := &call{start: now, done: make(chan Answer, 1)}
	pod.Accept(now, pod.obs.behavior.demand.Draw(a.demands), 0, c)
	pod.arm(now)
	return a, c, Answer{Pod: pod.obs.name}
}

// leave counts a request as its sender saw it.
func (p *Plane) leave(a *application, c *call, answer Answer, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c != nil && answer.Code == 0 {
		c.gone = true
	}
	record(a.sent, outcome{answer.Code, answer.Flags}, defaultEdges, took)
}

// faults says what is wrong with an application's pods, if that is why they do not serve.
func (p *Plane) faults(app string) string {
	var names []string
	for name, pod := range p.pods {
		if pod.obs.app() == app && pod.obs.fault != nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("; pod %s: %v", names[0], p.pods[names[0]].obs.fault)
}
