package operator

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// A life is the whole product in virtual time: manifests, observation, decision and action, the
// fleet over an emulated Proxmox VE, and a town for a cluster. Each draws from its seed which
// kinds of faults it meets and when people meddle, for as long as troubleFor; calmFor later
// everything must be in order. What must hold at every moment is looked at all the time.
const (
	troubleFor = 40 * time.Minute
	calmFor    = 75 * time.Minute
	calmPace   = 30 * time.Second // of steps then
	steadyFor  = 15 * time.Minute // at the end, in which nothing is both ordered and returned
)

var (
	livesFrom = flag.Uint64("lives.from", 1, "the first seed of the lives")
	livesMany = flag.Int("lives.n", 40, "how many lives there are")
)

type life struct {
	*town
	seed             uint64
	cfg              Config
	term             *term
	fleet            *pve.Fleet
	person           *pve.Client
	ours             *pve.Client
	memory           pve.Intents
	ahead            time.Duration   // of the clock that the process has
	down             time.Time       // until when there is no process
	theirs           map[int]bool    // machines that people have taken, or made
	named            map[string]bool // those that people have taken, by the names that they had
	stopped          map[int]bool    // machines that people have stopped
	last             loop.Step
	most             int // machines of the pool, by the greatest maximum there was
	bought, returned time.Time
	log              []string
	wrong            []string
}

// event is something that happens in a life: of a kind, by a number of its own, so that it is the
// same any else happens.
type event struct {
	at   time.Duration
	kind string
	n    uint64
}

func (e event) String() string { return fmt.Sprintf("%s %s/%x", e.at, e.kind, e.n) }

// eventsOf draws a life's events: of some kinds alone, so that each mix is met.
func eventsOf(seed uint64) (all []event) {
	rng := rand.New(rand.NewPCG(seed, 1))
	kinds := slices.Sorted(maps.Keys(happenings))
	some := slices.DeleteFunc(slices.Clone(kinds), func(string) bool { return rng.IntN(3) > 0 })
	some = append(some, "load", "load")
	for range 6 + rng.IntN(24) {
		all = append(all, event{time.Duration(rng.Int64N(int64(troubleFor))), some[rng.IntN(len(some))], rng.Uint64()})
	}
	slices.SortFunc(all, func(a, b event) int { return int(a.at - b.at) })
	return all
}

const gib = int64(1) << 30

func newLife(seed uint64) (*life, error) {
	second := func(from, to int) timing.Range {
		return timing.Range{Min: time.Duration(from) * time.Second, Max: time.Duration(to) * time.Second}
	}
	cfg := pvesim.Config{
		Seed: seed, Name: "home", Pools: []string{"plimsoll", "templates"}, Start: t0,
		Storages: []pvesim.Storage{
			{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}, Total: 500 * gib},
			{Name: "local", Type: "dir", Content: []string{"iso", "images"}, Total: 100 * gib},
		},
		Times: timing.Machine{Clone: second(4, 8), Boot: second(10, 20), Delete: second(2, 4)},
	}
	for i := range 3 {
		host := fmt.Sprintf("pve%d", i+1)
		cfg.Hosts = append(cfg.Hosts, pvesim.Host{Name: host, CPUs: 32, Memory: 64 * gib})
		cfg.VMs = append(cfg.VMs, pvesim.VM{
			ID: 9001 + i, Host: host, Pool: "templates", Template: true, Storage: "local-lvm", Disk: 8 * gib,
			Config: map[string]string{"name": "template", "memory": "2048", "cores": "2", "agent": "1"},
		})
	}
	sim, err := pvesim.New(cfg)
	if err != nil {
		return nil, err
	}
	l := &life{
		seed: seed, memory: &pve.MemoryIntents{}, theirs: map[int]bool{}, named: map[string]bool{}, stopped: map[int]bool{},
		town: &town{
			sim: sim, rng: rand.New(rand.NewPCG(seed, 2)), links: &Links{}, met: map[meeting]int{}, said: map[string]int{}, recent: map[string]time.Time{}, reserved: pricing.Resources{CPU: 200, Memory: 400 * pricing.MiB},
			autoscalers: map[string]*v1alpha1.WorkloadAutoscaler{}, pools: map[string]*v1alpha1.VMPool{}, books: map[string]*v1alpha1.PriceBook{},
		},
	}
	sim.OnBoot(l.booted)
	sim.OnCall(l.called)
	sim.Grant("/", "Administrator", "plimsoll@pve")
	sim.Grant("/", "Administrator", "person@pve")
	if l.ours, err = l.client("plimsoll@pve", sim.Transport()); err != nil {
		return nil, err
	}
	if l.person, err = l.client("person@pve", sim.Transport()); err != nil {
		return nil, err
	}
	if err := l.settle(); err != nil {
		return nil, err
	}
	return l, l.start()
}

func (l *life) client(user string, way http.RoundTripper) (*pve.Client, error) {
	token := l.sim.Token(user, "life", false)
	return pve.Connect(pve.Connection{
		Endpoints: []string{"https://pve1:8006", "https://pve2:8006"}, Insecure: true, Transport: way,
		Token: func() (string, error) { return token, nil }, Now: l.sim.Now,
		Wait: func(_ context.Context, d time.Duration) error { l.sim.Advance(d); return nil },
	})
}

// settle writes the manifests, and begins the services.
func (l *life) settle() error {
	rng := rand.New(rand.NewPCG(l.seed, 3))
	policies := []string{"joint", "unneeded"}
	metrics, err := NewMetrics(prometheus.NewPedanticRegistry())
	if err != nil {
		return err
	}
	nodes := nodepolicy.Spec{Policy: policies[rng.IntN(len(policies))]}
	if nodes.Policy == "unneeded" {
		quick := nodepolicy.DefaultUnneeded()
		quick.ScaleDownUnneededTime, quick.ScaleDownDelayAfterAdd = nodescaler.Duration(3*time.Minute), nodescaler.Duration(2*time.Minute)
		nodes.Unneeded = &quick
	} else if rng.IntN(2) == 0 {
		joint := nodepolicy.DefaultJoint()
		joint.Spares.Most = 2
		nodes.Joint = &joint
	}
	l.cfg = Config{
		Cluster: l, Identity: "me", PodScaler: true, NodeScaler: true, Active: true, PriceBook: "default", Interval: 10 * time.Second,
		Nodes: nodes, Signals: townSignals{l.town}, Links: l.links, Containers: l.containers, Metrics: metrics, Log: slog.New(slog.DiscardHandler),
		HandOff:  kube.HandOff{By: []kube.HandOffBy{"", kube.ByPlaceholders}[rng.IntN(2)], PriorityClass: "low", Image: "pause"},
		Quotas:   [][]nodescaler.Quota{nil, {{Namespace: "shop", Replicas: 12, Orders: 30}}}[rng.IntN(2)],
		ReadFile: func(string) ([]byte, error) { return []byte("#cloud-config\nhostname: {{.Name}}\n"), nil },
	}
	p := &v1alpha1.VMPool{}
	err = yaml.UnmarshalStrict([]byte(`
metadata: {name: aa, uid: pool-aa}
spec:
  mode: Active
  min: 0
  max: 8
  shapes: [{name: small, cpu: 2, memory: 4GiB, disk: 20GiB}, {name: large, cpu: 4, memory: 8GiB, disk: 20GiB}]
  reserved: {cpu: 200m, memory: 400MiB}
  template: {byHost: {pve1: 9001, pve2: 9002, pve3: 9003}}
  pvePool: plimsoll
  vmids: {first: 1000, last: 1099}
  iso: {storage: local}
  region: home
  guest: {agent: true}
  join: {kind: custom, userDataFile: user-data, providerID: {scheme: proxmox}}
`), p)
	if err != nil {
		return err
	}
	l.pools[p.Name], l.most = p, int(p.Spec.Max)
	for i := range 1 + rng.IntN(3) {
		name := fmt.Sprintf("web%d", i)
		a := &v1alpha1.WorkloadAutoscaler{}
		if err := yaml.UnmarshalStrict(fmt.Appendf(nil, `
metadata: {name: %s, namespace: shop, uid: wla-%s}
spec:
  mode: Active
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}
  minReplicas: 1
  maxReplicas: 10
  runPeriod: 10s
  behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
  schedules: [{name: busy, start: "30 8 * * *", end: "0 9 * * *", timeZone: UTC, minReplicas: 2}]
  fallback: {after: 3m, replicas: 4}
%s%s`, name, name, name, one(rng, townPolicies), one(rng, townSizes)), a); err != nil {
			return err
		}
		l.autoscalers["shop/"+name] = a
		s := &service{
			name: "shop/" + name, replicas: 1 + rng.IntN(4), asks: pricing.Resources{CPU: 500, Memory: 512 * pricing.MiB}, apart: rng.IntN(4) == 0, cores: rng.Float64() * 2,
			memory: pricing.Bytes(200+rng.IntN(600)) * pricing.MiB,
		}
		s.available = rng.IntN(2) * (s.replicas - 1)
		l.services = append(l.services, s)
	}
	return nil
}

// townPolicies are what workloads are scaled by.
var townPolicies = []string{
	"  policy: HPA\n  hpa: {metrics: [{type: Resource, name: cpu, averageValue: 300m}]}\n",
	"  policy: FastSlow\n",
	"  policy: Watermark\n  watermark: {metrics: [{type: Resource, name: cpu, high: 400m, low: 200m}]}\n",
	"  policy: Predictive\n  signals: {preset: Istio}\n",
	"  policy: Joint\n  slo: {p: 90th, target: 300ms, window: 1m}\n  cost: {target: \"40\", per: 1h}\n  signals: {preset: Istio}\n",
	"  policy: SLOCost\n  slo: {p: 90th, target: 300ms, window: 1m}\n  cost: {target: \"40\", per: 1h}\n  signals: {preset: Istio}\n",
}

// townSizes are what is done about what their pods request.
var townSizes = []string{"", "", "  rightsize: {}\n", "  rightsize: {mode: InPlace, containers: [{name: app, maxAllowed: {cpu: 1500m, memory: 1Gi}}]}\n"}

// start begins a process, as after a restart: of what was known only the intents on disk are left.
func (l *life) start() (err error) {
	l.fleet, err = pve.NewFleet(pve.FleetConfig{
		Client: l.ours, Owner: "home", Cluster: "6f1d1b9e-6a0b-4c55-9c55-0d3a3a1f0c01", Parallel: 1, Nodes: l.listed, LastLook: l.lastLook,
		RemoveNode: l.removeNode, Now: l.now, Rand: rand.New(rand.NewPCG(l.seed, uint64(l.sim.Now().Unix()))), Intents: l.memory,
		Report: func(e pve.Event) { hear(e); l.note("%s", e) },
	})
	if err != nil {
		return err
	}
	l.term = &term{Config: l.cfg, said: map[types.UID]any{}, fleet: l.fleet}
	l.term.Journal = l
	return l.term.begin()
}

// now is the time by the process' clock.
func (l *life) now() time.Time { return l.sim.Now().Add(l.ahead) }

func (l *life) note(format string, args ...any) { l.noteAt(l.sim.Now(), format, args...) }

func (l *life) noteAt(at time.Time, format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf("%8s ", at.Sub(t0).Round(time.Second))+fmt.Sprintf(format, args...))
}

func (l *life) fault(format string, args ...any) { l.faultAt(l.sim.Now(), format, args...) }

func (l *life) faultAt(at time.Time, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	l.noteAt(at, "WRONG: %s", what)
	if len(l.wrong) < 5 {
		l.wrong = append(l.wrong, what)
	}
}

// live lets a life pass, with these events, and returns what was wrong.
func (l *life) live(events []event) []string {
	defer l.sim.Close()
	pace := l.cfg.Interval
	for at := time.Duration(0); at < troubleFor+calmFor && len(l.wrong) == 0; at += pace {
		for len(events) > 0 && events[0].at <= at {
			l.note("EVENT %s", events[0])
			l.recent[events[0].kind] = t0.Add(at + recently)
			happenings[events[0].kind](l, rand.New(rand.NewPCG(events[0].n, 4)))
			events = events[1:]
		}
		if at == troubleFor {
			l.calm()
			pace = calmPace
		}
		l.pass()
		l.always()
		if !l.sim.Now().Before(l.down) {
			if err := l.term.step(context.Background(), l.now().Round(0), false); err != nil && at > troubleFor+calmFor/2 {
				l.fault("a step in calm times fails: %v", err)
			}
			l.term.sweeping.Wait()
		}
		l.rest(t0.Add(at + pace))
	}
	if len(l.wrong) == 0 {
		l.inOrder()
	}
	return l.wrong
}

// rest lets the fleet work until a time.
func (l *life) rest(until time.Time) {
	for l.sim.Now().Before(until) {
		pause := until.Sub(l.sim.Now())
		if !l.sim.Now().Before(l.down) {
			_ = l.fleet.Tick(context.Background())
			pause = min(l.fleet.Pause(), max(time.Millisecond, until.Sub(l.sim.Now())))
		}
		l.sim.Advance(max(time.Millisecond, pause))
	}
}

// called looks at what is done to machines: none that carries pods goes before it was drained. It
// is called by the emulator, which must not be asked meanwhile.
func (l *life) called(c pvesim.Call) {
	what := c.Method + " " + kindOfCall(c.Path)
	if c.Status >= 400 || c.Status == 0 {
		what += ", failed"
	}
	l.meet(what, c.At)
	if !strings.HasPrefix(c.User, "plimsoll@pve") || c.Method == http.MethodGet || c.Status >= 400 {
		return
	}
	var id int
	if i := strings.Index(c.Path, "/qemu/"); i < 0 {
		return
	} else if _, err := fmt.Sscanf(c.Path[i:], "/qemu/%d", &id); err != nil {
		return
	}
	ends := c.Method == http.MethodDelete || strings.HasSuffix(c.Path, "/status/stop") || strings.HasSuffix(c.Path, "/status/shutdown")
	if clones := strings.HasSuffix(c.Path, "/clone"); !clones && (id < 1000 || id > 1099) || l.theirs[id] && ends {
		l.faultAt(c.At, "%s %s: it is not ours", c.Method, c.Path)
	}
	for _, n := range l.nodes {
		if n.vmid != id || !ends || !n.isReady(c.At, l.running) {
			continue
		}
		for _, p := range l.pods {
			if p.node == n.Name && p.ends.IsZero() {
				l.faultAt(c.At, "%s %s: its node %s is ready and carries %s", c.Method, c.Path, n.Name, p.name)
			}
		}
	}
}

// meeting is that a call was made while an event of a kind was recent.
type meeting struct{ event, call string }

// recently is how long an event is taken to be recent.
const recently = 5 * time.Minute

func (w *town) meet(call string, at time.Time) {
	for kind, until := range w.recent {
		if at.Before(until) {
			w.met[meeting{kind, call}]++
		}
	}
}

// kindOfCall is a path without its names.
func kindOfCall(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		if i > 0 && (parts[i-1] == "nodes" || parts[i-1] == "qemu" || parts[i-1] == "tasks" || parts[i-1] == "storage" || parts[i-1] == "content") || strings.Contains(p, ":") {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}

// machines are those of the pool that are ours.
func (l *life) machines() (all []pvesim.VMState) {
	for _, v := range l.sim.Inventory().VMs {
		if v.ID >= 1000 && v.ID <= 1099 && !l.theirs[v.ID] {
			all = append(all, v)
		}
	}
	return all
}

// always is what holds at every moment.
func (l *life) always() {
	if n := len(l.machines()); n > l.most {
		l.fault("there are %d machines of at most %d", n, l.most)
	}
	for _, v := range l.sim.Inventory().VMs {
		if strings.HasPrefix(v.Config["name"], "foreign-") { // took an ID before us
			l.theirs[v.ID] = true
		}
		if v.ID >= 9000 && v.Config["template"] != "1" {
			l.fault("template %d is none any more", v.ID)
		}
	}
}

// Append is the journal: every record is looked at.
func (l *life) Append(s *loop.Step) error {
	l.last = *s
	hear(s)
	for i := range s.Plan.Actions {
		if o := actionOutcome(s, i); o != nil && o.Held == nil {
			l.said["action "+string(s.Plan.Actions[i].Kind)]++
		}
	}
	for _, p := range s.Problems {
		if p.Code == loop.CodePlanRefused || p.Code == loop.CodeCostUnknown {
			l.fault("%s: %s", s.ID, p)
		}
	}
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		if len(a.Reasons) == 0 || a.Reasons[0].Code == "" || a.Reasons[0].Text == "" {
			l.fault("%s: %s %s has no reason", s.ID, a.Kind, subject(a))
		}
		if o := actionOutcome(s, i); o != nil && o.Held == nil {
			l.note("%s %s %s %s: %s", s.ID, a.Kind, subject(a), o.Error, a.Reasons[0].Text)
		}
		switch a.Kind {
		case nodescaler.Buy:
			l.bought = l.sim.Now()
		case nodescaler.Return:
			l.returned = l.sim.Now()
		case nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Evict, nodescaler.Stash, nodescaler.Wake:
		}
	}
	for _, ws := range s.Workloads {
		if done := s.Resized(&ws); done != nil {
			l.said["action Resize"]++
			l.note("%s %s", s.ID, done.Outcome)
		}
		if d := ws.Decision; d != nil && d.To != d.From {
			if l.note("%s %s %d to %d", s.ID, ws.Workload, d.From, d.To); len(d.Reasons) == 0 {
				l.fault("%s: %s has no reason", s.ID, ws.Workload)
			}
		}
	}
	return nil
}

// calm ends all faults, and people want what they wanted at first.
func (l *life) calm() {
	l.note("CALM")
	l.sim.Heal()
	l.pods = slices.DeleteFunc(l.pods, func(p *townPod) bool { return p.odd != nil })
	l.stale, l.blind, l.refuses, l.stuck, l.down = 0, false, false, false, time.Time{}
	for _, a := range l.autoscalers {
		a.Annotations, a.Spec.Mode = nil, v1alpha1.ModeActive
	}
	for _, p := range l.pools {
		p.Annotations = map[string]string{v1alpha1.AnnotationResumed: l.now().UTC().Format(time.RFC3339)}
		p.Spec.Mode = v1alpha1.ModePoolActive
	}
	for _, n := range l.nodes {
		n.Cordoned = n.Draining
	}
	for _, v := range l.machines() {
		if l.stopped[v.ID] && v.State == "stopped" && v.Config["lock"] == "" {
			_, err := l.person.Start(context.Background(), v.Host, v.ID)
			l.note("A PERSON STARTS %d (%s): %v", v.ID, v.Config["name"], err)
		}
	}
}

// inOrder is what holds once all has been calm for long.
func (l *life) inOrder() {
	state, err := l.fleet.List(context.Background())
	if err != nil {
		l.fault("at the end the machines are not known: %v", err)
		return
	}
	listed := map[string]bool{}
	for i := range state.Machines {
		m := &state.Machines[i]
		listed[m.Name] = true
		if m.Phase != nodescaler.Joined && m.Phase != nodescaler.Spare && m.Held == nil && !l.named[m.Name] {
			l.fault("at the end machine %s is %s: %s", m.Name, m.Phase, m.Problem)
		}
	}
	for _, v := range l.machines() {
		if !listed[v.Config["name"]] {
			l.fault("at the end %d (%s) is left over", v.ID, v.Config["name"])
		}
	}
	for _, v := range l.sim.Inventory().Volumes {
		if _, name, disc := strings.Cut(strings.TrimSuffix(v.ID, ".iso"), "iso/plimsoll-home--"); disc && !l.named[name] {
			l.fault("at the end disc %s is left over", v.ID)
		}
	}
	pool := l.pools["aa"]
	for _, p := range l.pods {
		if p.node == "" && len(state.Machines) < int(pool.Spec.Max) && len(l.cfg.Quotas) == 0 {
			l.fault("at the end %s waits, since %s, beside %d machines of at most %d: %+v", p.name, l.sim.Now().Sub(p.created), len(state.Machines), pool.Spec.Max, l.last.Plan)
			break
		}
	}
	for _, s := range l.services {
		if a := l.autoscalers[s.name]; s.replicas > int(a.Spec.MaxReplicas) || s.replicas < int(*a.Spec.MinReplicas) {
			l.fault("at the end %s has %d replicas", s.name, s.replicas)
		}
	}
	// SLOCost under a cap of cost is known to swing between two numbers of replicas.
	swings := slices.ContainsFunc(slices.Collect(maps.Values(l.autoscalers)), func(a *v1alpha1.WorkloadAutoscaler) bool {
		return a.Spec.Policy == "SLOCost"
	})
	steady := l.sim.Now().Add(-steadyFor)
	if !swings && l.bought.After(steady) && l.returned.After(steady) {
		l.fault("at the end machines come and go")
	}
}

// TestLives has many lives pass. Of one that goes wrong it prints its story, with as few events as
// still go wrong.
func TestLives(t *testing.T) {
	t.Parallel()
	many := *livesMany
	if raced {
		many = min(many, 6)
	}
	met, said := map[meeting]int{}, map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	seeds := make(chan uint64)
	for range 2 {
		group.Go(func() {
			for seed := range seeds {
				events := eventsOf(seed)
				l, wrong := relive(seed, events)
				mu.Lock()
				for m, n := range l.met {
					met[m] += n
				}
				for what, n := range l.said {
					said[what] += n
				}
				mu.Unlock()
				if len(wrong) > 0 {
					events, l = shrink(seed, events, wrong)
					t.Errorf("seed %d, %s: %s\nevents: %v\n%s", seed, l.cfg.Nodes.Policy, strings.Join(l.wrong, "\n"), events, strings.Join(l.log, "\n"))
				}
			}
		})
	}
	for i := range many {
		seeds <- *livesFrom + uint64(i)
	}
	close(seeds)
	group.Wait()
	if many >= 150 {
		for _, what := range everything() {
			if said[what] == 0 {
				t.Errorf("in no life was there %s", what)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(said)) {
		t.Logf("%8d %s", said[what], what)
	}
	t.Logf("%d lives from seed %d; how often what met which call:\n%s", many, *livesFrom, matrix(met))
}

// everything is what lives are to produce: each kind of action, and each condition of those that
// rest on what a town has.
func everything() (all []string) {
	for _, k := range []nodescaler.Kind{
		nodescaler.Buy, nodescaler.Return, nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Evict, nodescaler.Stash, nodescaler.Wake,
	} {
		all = append(all, "action "+string(k))
	}
	all = append(all, "action Resize")
	for _, c := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionScalingActive, v1alpha1.ConditionScalingLimited, v1alpha1.ConditionMetricsHealthy,
		v1alpha1.ConditionPaused, v1alpha1.ConditionSLOAtRisk, v1alpha1.ConditionCapacityPending,
		v1alpha1.ConditionPodsUnplaced, v1alpha1.ConditionMachinesHeld, v1alpha1.ConditionFallback, v1alpha1.ConditionCapacityHeld,
	} {
		all = append(all, "condition "+c+" True", "condition "+c+" False")
	}
	return all
}

// matrix prints how often each kind of event was recent at each kind of call.
func matrix(met map[meeting]int) string {
	by := map[string][]string{}
	for _, m := range slices.SortedFunc(maps.Keys(met), func(a, b meeting) int {
		return cmp.Or(strings.Compare(a.event, b.event), strings.Compare(a.call, b.call))
	}) {
		by[m.event] = append(by[m.event], fmt.Sprintf("%s %d", m.call, met[m]))
	}
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&out, "%s: %s\n", kind, strings.Join(by[kind], ", "))
	}
	return out.String()
}

func relive(seed uint64, events []event) (*life, []string) {
	l, err := newLife(seed)
	if err != nil {
		return &life{town: &town{}, wrong: []string{err.Error()}}, []string{err.Error()}
	}
	return l, l.live(events)
}

// shrink removes events as long as something goes wrong, for a while.
func shrink(seed uint64, events []event, wrong []string) ([]event, *life) {
	end := time.Now().Add(30 * time.Second)
	last, _ := relive(seed, events)
	for i := 0; i < len(events) && time.Now().Before(end); {
		fewer := slices.Delete(slices.Clone(events), i, i+1)
		if l, still := relive(seed, fewer); len(still) > 0 {
			events, last, wrong = fewer, l, still
			continue
		}
		i++
	}
	_ = wrong
	return events, last
}
