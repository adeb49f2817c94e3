package operator

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

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
		seed: seed, theirs: map[int]bool{}, named: map[string]bool{}, stopped: map[int]bool{},
		orders: map[string]bool{}, ends: map[string]bool{}, restarts: map[string]bool{}, ids: map[int]string{},
		town: &town{
			sim: sim, rng: rand.New(rand.NewPCG(seed, 2)), links: &Links{}, met: map[meeting]int{}, said: map[string]int{}, recent: map[string]time.Time{},
			reserved:    pricing.Resources{CPU: 200, Memory: 400 * pricing.MiB},
			autoscalers: map[string]*v1alpha1.WorkloadAutoscaler{}, pools: map[string]*v1alpha1.VMPool{}, books: map[string]*v1alpha1.PriceBook{},
		},
	}
	l.scaled = l.scales
	l.inbox.approved, l.inbox.followed = map[string]approval.Change{}, map[string]bool{}
	l.inbox.rebooted = map[string]time.Time{}
	sim.OnBoot(l.booted)
	sim.OnCall(l.called)
	sim.Grant("/", "Administrator", "plimsoll@pve")
	sim.Grant("/", "Administrator", "person@pve")
	if l.person, err = l.client("person@pve", "life", l.sim.Transport()); err != nil {
		return nil, err
	}
	for _, name := range []string{"one", "two"} {
		p := &process{life: l, name: name, intents: &intents.Memory{}}
		if p.client, err = l.client("plimsoll@pve", name, p); err != nil {
			return nil, err
		}
		l.processes = append(l.processes, p)
	}
	l.leads = l.processes[0]
	if err := l.settle(); err != nil {
		return nil, err
	}
	if viaAPI(seed) {
		return l, l.newAPI()
	}
	return l, l.start()
}

func (l *life) client(user, id string, through http.RoundTripper) (*pveapi.Client, error) {
	token := l.sim.Token(user, id, false)
	return pveapi.Connect(pveapi.Connection{
		Endpoints: []string{"https://pve1:8006", "https://pve2:8006"}, Insecure: true, Transport: through,
		Token: func() (string, error) { return token, nil }, Now: l.sim.Now,
		Wait: func(_ context.Context, d time.Duration) error { l.advance(d); return nil },
	})
}

// settle writes the manifests, and begins the services.
func (l *life) settle() error {
	rng := rand.New(rand.NewPCG(l.seed, 3))
	if l.separate = rng.IntN(2) == 0; !l.separate {
		l.processes[1].intents = l.processes[0].intents
	}
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
		Cluster: l, Identity: "me", PodScaler: true, NodeScaler: true, Active: true, PriceBook: "default", Interval: pace,
		Nodes: nodes, Signals: townSignals{l.town}, Links: l.links, Containers: l.containers, Metrics: metrics, Log: slog.New(reader{l}),
		HandOff:  kube.HandOff{By: []kube.HandOffBy{"", kube.ByPlaceholders}[rng.IntN(2)], PriorityClass: "low", Image: "pause"},
		Quotas:   one(rng, [][]nodescaler.Quota{nil, nil, {{Namespace: "shop", Replicas: 12, Orders: 30}}, {{Namespace: "s*", Replicas: 20, Orders: 4}}}),
		Limit:    one(rng, []pricing.Rate{0, 0, pricing.RateOf(20 * pricing.Unit), pricing.RateOf(45 * pricing.Unit)}),
		ReadFile: func(string) ([]byte, error) { return []byte("#cloud-config\nhostname: {{.Name}}\n"), nil },
	}
	l.record()
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
	if viaProvider(l.seed) {
		p.Spec.ScaledBy, l.cfg.Provider = v1alpha1.ScaledByClusterAutoscaler, true
		if err := l.newAutoscaler(); err != nil {
			return err
		}
	}
	l.pools[p.Name], l.most = p, int(p.Spec.Max)
	if rng.IntN(2) == 0 { // hosts cost something, too
		l.books["default"] = &v1alpha1.PriceBook{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "book"}}
		if err := yaml.UnmarshalStrict([]byte(townPrices), &l.books["default"].Spec); err != nil {
			return err
		}
	}
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

// townPrices are those of lives in which hosts cost something.
const townPrices = `
currency: units
pricePerVCPUHour: 1
pricePerGBHour: 1
hosts: {pve1: {pricePerHostHour: 3}, pve2: {pricePerHostHour: 2}, pve3: {pricePerVCPUHour: 2}}
`

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

// start has the process that leads begin a term, as after a restart: of what it knew only its
// intents are left.
func (l *life) start() (err error) {
	if l.api == nil {
		l.ctx, l.end = context.WithCancel(context.Background())
	}
	l.boughtFor = map[string][]time.Time{}
	cfg := pve.FleetConfig{
		Client: l.leads.client, Owner: "home", Cluster: "6f1d1b9e-6a0b-4c55-9c55-0d3a3a1f0c01", Parallel: 1, Nodes: l.listed, LastLook: l.lastLook,
		RemoveNode: l.removeNode, Now: l.now, Rand: rand.New(rand.NewPCG(l.seed, uint64(l.sim.Now().Unix()))), Intents: l.leads.intents,
		Report: l.reported,
	}
	if l.api != nil {
		l.leads.seat.ports(&l.cfg, &cfg)
	}
	if l.autoscaler != nil {
		if err := l.leads.offer(&l.cfg); err != nil {
			return err
		}
	}
	l.fleet, err = pve.NewFleet(cfg)
	if err != nil {
		return err
	}
	l.term = &term{Config: l.cfg, said: map[types.UID]any{}, fleet: l.fleet}
	l.term.Journal = l
	return l.term.begin()
}

// reported takes an event of the fleet, and notes which machines it says are in the way of
// something.
func (l *life) reported(e pve.Event) {
	hear(e)
	l.note("%s", e)
	if e.VMID != 0 {
		l.ids[e.VMID] = e.Machine
	}
	switch e.Code {
	case pvecode.Locked:
		l.leftOver = append(l.leftOver, e.Advice)
	case pvecode.OrderAccepted:
		if l.autoscaler != nil { // else the journal says so
			l.orders[strings.TrimPrefix(e.Machine, "aa-")] = true
		}
	case pvecode.Returned:
		if l.autoscaler != nil {
			l.ends[e.Machine] = true
		}
	case pvecode.MachineFailed, pvecode.JoinTimeout, pvecode.PoolAtMax, pvecode.Unfinished:
		l.ends[e.Machine] = true
	}
}
