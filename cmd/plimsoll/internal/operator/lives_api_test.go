package operator

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Some lives have a Kubernetes API: an emulated server that the processes read and write through
// nodescaler/kube, as in production, with watches, a lease and faults. The town works as ever. What
// is there is shown to the server after each pass, and what clients write there is taken over.
//
// Such a life is in a bubble whose clock is that of the emulated Proxmox VE.

// viaAPI reports whether a life has an API server.
func viaAPI(seed uint64) bool { return rand.New(rand.NewPCG(seed, 5)).IntN(20) == 0 }

// apiServer is the API server of a life.
type apiServer struct {
	*life
	server *kubesim.Server
	seats  []*seat
	faces  map[string]face // objects as they were last shown, by kind and key
	read   map[string]int  // how far the history of a kind was taken over
	used   atomic.Pointer[map[string]podscaler.Sample]
	// blurred is until when processes may have an old picture without knowing it.
	blurred time.Time
	holding map[string]time.Time // until when nodes have a finalizer
}

// seat is what one process has of Kubernetes.
type seat struct {
	*apiServer
	name    string
	client  *kubesim.Client
	links   *Links
	cluster atomic.Pointer[kube.Cluster] // another one after a restart
	nodes   *kube.Nodes
	faults  map[string]kubesim.Faults // by what happened
	calls   int                       // that were looked at
	end     context.CancelFunc
	ended   chan struct{}

	mu      sync.Mutex
	term    context.Context // in which it leads
	endTerm context.CancelFunc
}

var ourKinds = []kubesim.Kind{
	{Name: v1alpha1.KindWorkloadAutoscaler, Resource: "workloadautoscalers"},
	{Name: v1alpha1.KindVMPool, Resource: "vmpools", ClusterWide: true},
	{Name: v1alpha1.KindPriceBook, Resource: "pricebooks", ClusterWide: true},
	{Name: v1alpha1.KindScalingProposal, Resource: "scalingproposals"},
}

var quiet = sync.OnceFunc(func() { kube.LogTo(slog.New(slog.DiscardHandler)) })

// newAPI begins the API server, with a process in each of two seats. It waits until one leads.
func (l *life) newAPI() error {
	quiet()
	kinds := make([]kubesim.Kind, len(ourKinds))
	for i, k := range ourKinds {
		k.Group, k.Version, k.Status, k.Custom = v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, true, true
		kinds[i] = k
	}
	l.api = &apiServer{
		life: l, server: kubesim.New(l.seed, kinds...), faces: map[string]face{}, read: map[string]int{}, holding: map[string]time.Time{},
	}
	l.api.server.StreamingLists(l.seed%3 > 0)
	if err := l.api.settle(); err != nil {
		return err
	}
	l.pass()
	l.api.show()
	for _, p := range l.processes {
		p.seat = &seat{apiServer: l.api, name: p.name, links: &Links{}, faults: map[string]kubesim.Faults{}}
		p.seat.client = l.api.server.Client(p.name, p.seat.sends)
		l.api.seats = append(l.api.seats, p.seat)
	}
	for _, s := range l.api.seats {
		if err := s.start(); err != nil {
			return err
		}
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.end()
	for range 60 {
		if l.passOn(); l.ctx.Err() == nil {
			return nil
		}
		l.advance(time.Second)
	}
	return fmt.Errorf("no process leads")
}

// advance lets time pass.
func (l *life) advance(d time.Duration) {
	if l.api == nil {
		l.sim.Advance(d)
		return
	}
	time.Sleep(d)
	l.catchUp()
}

// catchUp has Proxmox VE be as late as it is for the API server, where a call has taken its time.
func (l *life) catchUp() {
	if l.api == nil {
		return
	}
	if late := time.Since(l.sim.Now()); late > 0 {
		l.sim.Advance(late)
	}
}

// start begins a process, which knows nothing of those before.
func (s *seat) start() error {
	cfg := s.client.Config()
	cfg.Transport = counting{cfg.Transport, s.life}
	cluster, err := kube.New(kube.Config{
		REST: cfg, Mode: kube.Active, Namespace: "plimsoll", Lease: "plimsoll", HandOff: s.cfg.HandOff, Usage: s.apiServer, Machine: s.links.Machine,
	})
	if err != nil {
		return err
	}
	s.cluster.Store(cluster)
	if s.nodes, err = kube.NewNodes(cfg); err != nil {
		return err
	}
	var ctx context.Context
	ctx, s.end = context.WithCancel(context.Background())
	s.ended = make(chan struct{})
	go s.run(ctx, cluster)
	return nil
}

func (s *seat) run(ctx context.Context, c *kube.Cluster) {
	defer close(s.ended)
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := c.Run(ctx); err != nil {
			s.fault("%s ended: %v", s.name, err)
		}
	})
	for ctx.Err() == nil {
		_ = c.Lead(ctx, s.name, s.lead)
		select { // longer than the other one needs to take the lead
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
	}
	parts.Wait()
}

// lead leads until the lease or the lead is lost.
func (s *seat) lead(ctx context.Context) {
	term, end := context.WithCancel(ctx)
	defer end()
	s.mu.Lock()
	s.term, s.endTerm = term, end
	s.mu.Unlock()
	<-term.Done()
}

// leading is the term in which a process leads, if it does.
func (s *seat) leading() (ctx context.Context, end func(), leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term, s.endTerm, s.term != nil && s.term.Err() == nil
}

// stop ends a process, which gives the lead back if the API server lets it.
func (s *seat) stop() {
	s.client.Freeze()
	synctest.Wait()
	s.end()
	<-s.ended
}

// restart has a process end and begin anew.
func (s *seat) restart(crashes bool) {
	if crashes {
		s.client.Fail(kubesim.Faults{Refused: true})
	}
	s.stop()
	s.meets("restart", kubesim.Faults{}) // it has the others still
	if err := s.start(); err != nil {
		s.fault("%s does not start again: %v", s.name, err)
	}
}

// passOn has the process that leads go on.
func (a *apiServer) passOn() {
	for _, p := range a.processes {
		ctx, end, leads := p.seat.leading()
		if !leads {
			continue
		}
		a.leads, a.ctx, a.end = p, ctx, end
		a.note("%s LEADS", p.name)
		if err := a.start(); err != nil {
			a.fault("%s does not start: %v", p.name, err)
		}
		return
	}
}

// ports has a term read and write through the API.
func (s *seat) ports(cfg *Config, fleet *pve.FleetConfig) {
	cluster := s.cluster.Load()
	cfg.Cluster, cfg.Links = apiPort{cluster, s.life}, s.links
	fleet.RemoveNode, fleet.LastLook = cluster.RemoveNode, s.nodes.Sight
	fleet.Nodes = func(ctx context.Context) (all []pve.Node, err error) {
		nodes, err := cluster.Nodes(ctx)
		for i := range nodes {
			n := &nodes[i]
			all = append(all, pve.Node{
				Name: n.Name, ProviderID: n.ProviderID, SystemUUID: n.SystemUUID, Ready: n.Ready, JoinedAt: n.Joined, ReadySince: n.ReadySince,
			})
		}
		return all, err
	}
}

// apiPort is the adapter, of which is heard what it says.
type apiPort struct {
	*kube.Cluster
	l *life
}

func (p apiPort) About(about client.Object, e kube.Event) {
	hear(e)
	p.Cluster.About(about, e)
}

func (p apiPort) AboutPod(name, node string, e kube.Event) bool {
	hear(e)
	return p.Cluster.AboutPod(name, node, e)
}

func (p apiPort) AboutNode(name string, e kube.Event) bool {
	hear(e)
	return p.Cluster.AboutNode(name, e)
}

func (p apiPort) Observe(ctx context.Context) (loop.ClusterState, error) {
	s, err := p.Cluster.Observe(ctx)
	what := "observe"
	if err != nil {
		what += ", no answer"
	} else {
		p.l.inbox.all = s.Proposals
	}
	p.l.meet(what, time.Now())
	return s, err
}

// counting counts requests to the API server by what happened before.
type counting struct {
	http.RoundTripper
	l *life
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	what := r.Method
	if r.URL.Query().Get("watch") != "" {
		what = "WATCH"
	}
	what += " " + kindOfAPICall(r.URL.Path)
	if err != nil || resp.StatusCode >= 400 {
		what += ", failed"
	}
	c.l.meet(what, time.Now())
	return resp, err
}

// kindOfAPICall is a path of the API server without versions and names.
func kindOfAPICall(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 1 {
		parts[1] = "*"
	}
	return strings.Join(parts, "/")
}

// sends looks at a write as it leaves a process.
func (s *seat) sends(call kubesim.Call) {
	switch {
	case call.Kind == "" || call.Kind == "leases.coordination.k8s.io" || strings.HasPrefix(call.Kind, "events."):
		return
	case call.Method == http.MethodDelete && call.Kind != "nodes" && call.Kind != proposals:
		s.fault("%s deletes %s %s", s.name, call.Kind, call.Key)
	}
	for _, o := range s.seats {
		if c := o.cluster.Load(); o != s && c != nil && c.Leading() {
			s.fault("%s sends %s %s %s while %s leads", s.name, call.Method, call.Kind, call.Key, o.name)
		}
	}
}

// Pods is what pods use.
func (a *apiServer) Pods(context.Context) (map[string]podscaler.Sample, error) {
	if used := a.used.Load(); used != nil {
		return *used, nil
	}
	return nil, errNoAnswer
}
