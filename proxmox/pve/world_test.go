package pve

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// served lets the cluster be reached over HTTPS on this machine, a port for each host, by the
// fingerprints of their certificates.
func (w *world) served() *world {
	w.t.Helper()
	var prints []string
	for i := range w.hosts {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(w.t)
		name := fmt.Sprintf("pve%d", i+1)
		cert, print, err := pvesim.SelfSigned(name, "127.0.0.1")
		if err != nil {
			w.t.Fatal(err)
		}
		go func() { _ = w.sim.Serve(l, name, &tls.Config{Certificates: []tls.Certificate{cert}}) }()
		w.t.Cleanup(func() { _ = l.Close() })
		w.listeners = append(w.listeners, l)
		w.connection.Endpoints = append(w.connection.Endpoints, "https://"+l.Addr().String())
		prints = append(prints, print)
	}
	w.connection.Fingerprint = strings.Join(prints, ",")
	return w
}

// world is an emulated cluster, a Kubernetes whose nodes are the machines that have booted, and a
// fleet between them. Its time passes only by calls.
type world struct {
	t       testing.TB
	sim     *pvesim.Cluster
	token   string
	cfg     FleetConfig
	intents intents.Store
	fleet   *Fleet
	joins   []joining
	events  []Event
	hosts   int
	// connection is how the fleet reaches the cluster; without endpoints it is in memory.
	connection pveapi.Connection
	listeners  []net.Listener
	wrap       func(http.RoundTripper) http.RoundTripper // around the way to the cluster
	// How long a machine that has booted takes to become a node.
	joinIn timing.Range
	open   map[string]bool // nodes that take pods
	bare   bool            // the last look sees no node
	deaf   bool            // machines that boot never become nodes
	blind  bool            // nodes cannot be listed
	// Nodes that the API server does not show; nil shows all.
	emptied func(name string) bool
	// What nodes are called; nil is as their machines.
	named func(machine string) string
	// Nodes are not ready when their machines do not run.
	honest bool
	pods   map[string][]string // by node, what a drain would have to move
	claims map[string][]string // by node, whose volumes lie on its disk
	ahead  time.Duration       // of the true time is the fleet's clock
	chance *rand.Rand
	orders int
}

// joining is a machine that has booted and will be a node at a time.
type joining struct {
	node Node
	at   time.Time
}

// homeCluster is the UID of the worlds' Kubernetes.
const homeCluster = "6f1d1b9e-6a0b-4c55-9c55-0d3a3a1f0c01"

// ground plan of the worlds: hosts pve1 to pveN with local storage and a template each, 9001 to
// 900N.
type plan struct {
	hosts  int
	seed   uint64
	vms    []pvesim.VM
	times  timing.Machine
	shared bool // templates and discs are on shared storage, and there is one template, 9001
	disk   int64
	speed  float64
	brief  bool // whoever asks for the world closes it, so that it is not kept until the test's end
}

const (
	gib     = int64(1) << 30
	poolDir = "/pool/plimsoll"
)

// roles are what the fleet's token may: what is needed and no more.
var roles = []struct{ path, role, privileges string }{
	{"/pool/templates", "PlimsollTemplate", "VM.Clone VM.Audit"},
	{poolDir, "PlimsollMachine", "VM.Allocate VM.Audit VM.PowerMgmt VM.Config.CPU VM.Config.Memory VM.Config.Disk VM.Config.Network " +
		"VM.Config.Options VM.Config.HWType VM.Config.CDROM VM.Config.Cloudinit VM.GuestAgent.Audit Pool.Audit"},
	{"/storage", "PlimsollStorage", "Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Allocate Datastore.Audit"},
	{"/sdn/zones/localnetwork", "PlimsollBridge", "SDN.Use"},
	{"/", "PlimsollAudit", "Sys.Audit"},
}

func newWorld(t testing.TB, p plan) *world {
	t.Helper()
	p.disk = max(p.disk, 500*gib)
	if p.times == (timing.Machine{}) {
		p.times = timing.Machine{
			Clone: timing.Range{Min: 4 * time.Second, Max: 8 * time.Second},
			Boot:  timing.Range{Min: 10 * time.Second, Max: 20 * time.Second},
		}
	}
	cfg := pvesim.Config{
		Seed: p.seed, Name: "home", Pools: []string{"plimsoll", "templates", "others"}, Times: p.times, Speed: p.speed,
	}
	cfg.Storages = []pvesim.Storage{{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}, Total: p.disk}}
	if p.shared {
		cfg.Storages = append(cfg.Storages,
			pvesim.Storage{Name: "ceph", Type: "rbd", Shared: true, Content: []string{"images"}, Total: 4 * p.disk},
			pvesim.Storage{Name: "nfs", Type: "nfs", Shared: true, Content: []string{"iso", "images"}, Total: 100 * gib})
	} else {
		cfg.Storages = append(cfg.Storages, pvesim.Storage{Name: "local", Type: "dir", Content: []string{"iso", "images"}, Total: 100 * gib})
	}
	for i := range p.hosts {
		name := fmt.Sprintf("pve%d", i+1)
		cfg.Hosts = append(cfg.Hosts, pvesim.Host{Name: name, CPUs: 32, Memory: 128 * gib})
		if i == 0 || !p.shared {
			storage := "local-lvm"
			if p.shared {
				storage = "ceph"
			}
			cfg.VMs = append(cfg.VMs, pvesim.VM{
				ID: 9001 + i, Host: name, Pool: "templates", Template: true, Storage: storage, Disk: 8 * gib,
				Config: map[string]string{
					"name": "template", "memory": "2048", "cores": "2", "protection": "1", "onboot": "1", "tags": "golden;ubuntu",
					"description": "the golden image", "agent": "1",
				},
			})
		}
	}
	cfg.VMs = append(cfg.VMs, p.vms...)
	sim := must.Get(pvesim.New(cfg))(t)
	if !p.brief {
		t.Cleanup(sim.Close)
	}
	w := &world{
		t: t, sim: sim, hosts: p.hosts, intents: &intents.Memory{}, chance: timing.Stream(p.seed, "world"),
		joinIn: timing.Range{Min: 5 * time.Second, Max: 15 * time.Second},
	}
	w.token = sim.Token("plimsoll@pve", "fleet", false)
	for _, r := range roles {
		sim.AddRole(r.role, strings.Fields(r.privileges)...)
		sim.Grant(r.path, r.role, "plimsoll@pve")
	}
	sim.OnBoot(w.booted)
	w.cfg = FleetConfig{
		Owner: "home", Cluster: homeCluster, Pools: []settings.Pool{worldPool(p)}, Parallel: 1, Nodes: w.nodes, RemoveNode: w.removeNode,
		Now: w.now, Rand: timing.Stream(p.seed, "fleet"), Report: func(e Event) { w.events = append(w.events, e) },
	}
	return w
}

// worldPool is the pool of the worlds: local templates, and first-boot discs.
func worldPool(p plan) settings.Pool {
	pool := settings.Pool{
		Name:     "web",
		Shapes:   []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB, Disk: 20 * pricing.GiB}},
		Max:      10,
		Template: placement.Template{ByHost: map[string]int{}},
		PVEPool:  "plimsoll", VMIDs: placement.VMIDs{First: 1000, Last: 1099},
		Guest: settings.Guest{Agent: true},
		ISO:   settings.ISO{Storage: "local"},
		Join: firstboot.Profile{
			Kind: firstboot.Custom, ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeProxmox},
			UserDataFile: "user-data", UserDataTemplate: "#cloud-config\nhostname: {{.Name}}\n# id {{.ProviderID}} token s3cret\n",
		},
		Region: "home",
	}
	for i := range p.hosts {
		pool.Template.ByHost[fmt.Sprintf("pve%d", i+1)] = 9001 + i
	}
	if p.shared {
		pool.Template = placement.Template{VMID: 9001}
		pool.ISO.Storage = "nfs"
	}
	return pool
}

// pool is the only pool, to be changed before the fleet is begun.
func (w *world) pool() *settings.Pool { return &w.cfg.Pools[0] }

// begin starts a fleet with the intents there are, as a process that starts does.
func (w *world) begin() *world {
	w.t.Helper()
	c := w.connection
	c.Token, c.Now = func() (string, error) { return w.token, nil }, w.sim.Now
	c.Wait = func(_ context.Context, d time.Duration) error { w.sim.Advance(d); return nil }
	if len(c.Endpoints) == 0 {
		c.Endpoints, c.Insecure, c.Transport = []string{"https://pve1:8006", "https://pve2:8006"}[:min(2, w.hosts)], true, lister{w, w.sim.Transport()}
		if w.wrap != nil {
			c.Transport = w.wrap(c.Transport)
		}
	}
	client := must.Get(pveapi.Connect(c))(w.t)
	w.cfg.Client, w.cfg.Intents = client, w.intents
	w.fleet = must.Get(NewFleet(w.cfg))(w.t)
	return w
}

// booted lets a machine whose disc says how to join become a node after a while.
func (w *world) booted(b pvesim.Boot) {
	if slices.ContainsFunc(w.joins, func(j joining) bool { return j.node.SystemUUID == b.UUID && !j.at.After(b.At) }) {
		w.rejoined(b)
		return
	}
	if w.deaf || !bytes.Contains(b.UserData, []byte("hostname: "+b.Name+"\n")) || !bytes.Contains(b.UserData, []byte("s3cret")) {
		return
	}
	name := b.Name
	if w.named != nil {
		name = w.named(name)
	}
	w.joins = slices.DeleteFunc(w.joins, func(j joining) bool { return j.node.Name == name })
	w.joins = append(w.joins, joining{
		node: Node{Name: name, ProviderID: fmt.Sprintf("proxmox://home/%d", b.VMID), SystemUUID: b.UUID, Ready: true},
		at:   b.At.Add(w.joinIn.Draw(w.chance)),
	})
}

// rejoined lets a machine that was a node before be ready again after a while: it needs no
// first-boot disc for that.
func (w *world) rejoined(b pvesim.Boot) {
	if w.deaf {
		return
	}
	i := slices.IndexFunc(w.joins, func(j joining) bool { return j.node.SystemUUID == b.UUID })
	w.joins[i].node.ReadySince = b.At.Add(w.joinIn.Draw(w.chance))
}

// runs reports whether there is a machine of that name that runs.
func (w *world) runs(name string) bool {
	return slices.ContainsFunc(w.sim.Inventory().VMs, func(v pvesim.VMState) bool { return v.Config["name"] == name && v.State == "running" })
}

// rests reports whether a machine is a spare, or was one: its node is there even while the machine
// is stopped.
func (w *world) rests(name string) bool {
	for _, m := range w.fleet.roster.machines {
		if m.Name == name {
			return !m.Stashed.IsZero() || !m.Woken.IsZero()
		}
	}
	return false
}

func (w *world) nodes(context.Context) ([]Node, error) {
	if w.blind {
		return nil, errors.New("the API server does not answer")
	}
	now := w.sim.Now()
	running := w.running()
	var all []Node
	for _, j := range w.joins {
		if !j.at.After(now) && (w.emptied == nil || !w.emptied(j.node.Name)) {
			n := j.node
			n.JoinedAt = j.at
			machine, _, _ := strings.Cut(n.Name, ".") // it may be called by its full name
			if w.rests(machine) {
				n.Ready = w.runs(machine) && !n.ReadySince.After(now)
			}
			n.Ready = n.Ready && (!w.honest || running[n.SystemUUID] || n.SystemUUID == "")
			all = append(all, n)
		}
	}
	return all, nil
}

// running are the system UUIDs of the machines that run.
func (w *world) running() map[string]bool {
	all := map[string]bool{}
	if !w.honest {
		return nil
	}
	for _, v := range w.sim.Inventory().VMs {
		_, smbios := pveapi.Properties(v.Config["smbios1"])
		all[smbios["uuid"]] = v.State == "running"
	}
	return all
}

func (w *world) removeNode(_ context.Context, name string) error {
	w.joins = slices.DeleteFunc(w.joins, func(j joining) bool { return j.node.Name == name })
	return nil
}

// now is the time by the fleet's clock.
func (w *world) now() time.Time { return w.sim.Now().Add(w.ahead) }

// lastLook is what the API server shows of a machine's nodes.
func (w *world) lastLook(ctx context.Context, id nodescaler.Identity) (s nodescaler.Sight, err error) {
	all, err := w.nodes(ctx)
	for _, n := range all {
		if !w.bare && (n.Name == id.Name || n.ProviderID == id.ProviderID || strings.EqualFold(n.SystemUUID, id.SystemUUID)) {
			s.Nodes = append(s.Nodes, nodescaler.SeenNode{Identity: n.identity(), UID: n.Name, Ready: n.Ready, Open: w.open[n.Name], Pods: w.pods[n.Name], LocalClaims: w.claims[n.Name]})
		}
	}
	return s, err
}

// news reports whether the fleet has said that it can take orders that it could not take before.
func (w *world) news() bool {
	select {
	case <-w.fleet.News():
		return true
	default:
		return false
	}
}

// run lets time pass, and the fleet do its work.
func (w *world) run(d time.Duration) {
	until := w.sim.Now().Add(d)
	for w.sim.Now().Before(until) {
		_ = w.fleet.Tick(context.Background())
		pause := w.fleet.Pause()
		if race.On && d >= 10*time.Minute {
			pause = max(pause, time.Minute) // the race detector makes a look ten times as slow
		}
		w.sim.Advance(min(pause, max(time.Millisecond, until.Sub(w.sim.Now()))))
	}
	_ = w.fleet.Tick(context.Background())
}

// lister lists the machines at every request, and sees whether the list that was kept at the last
// one was still true.
type lister struct {
	w   *world
	way http.RoundTripper
}

func (l lister) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.w.fleet != nil {
		if diff := l.w.fleet.staleList(); diff != "" {
			l.w.t.Errorf("before %s %s the list that is kept is not true any more:\n%s", r.Method, r.URL.Path, diff)
		}
		_, _ = l.w.fleet.List(r.Context())
	}
	return l.way.RoundTrip(r)
}

// staleList is how the list that is kept differs from what it would be now.
func (f *Fleet) staleList() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.records.listed == nil || f.view.seen == nil {
		return ""
	}
	return cmp.Diff(f.listing.state(), *f.records.listed)
}

// until lets time pass until something is so, and fails when it is not within a time.
func (w *world) until(what string, within time.Duration, so func() bool) {
	w.t.Helper()
	end := w.sim.Now().Add(within)
	for !so() {
		if w.sim.Now().After(end) {
			w.t.Fatalf("after %s it is not so that %s\n%s", within, what, w.story())
		}
		_ = w.fleet.Tick(context.Background())
		if !so() {
			w.sim.Advance(w.fleet.Pause())
		}
	}
}

// story is what happened, for failing tests.
func (w *world) story() string {
	var b strings.Builder
	for _, e := range w.events {
		fmt.Fprintln(&b, e)
	}
	state, err := w.fleet.List(context.Background())
	fmt.Fprintln(&b, "list:", err)
	for _, m := range state.Machines {
		fmt.Fprintf(&b, "  %s %s %s %s\n", m.Name, m.Phase, m.Host, m.Problem)
	}
	return b.String()
}

// order orders a machine, on a host or wherever there is room.
func (w *world) order(host string) (string, error) {
	w.orders++
	id := nodescaler.OrderID(w.sim.Now(), w.orders)
	p := w.pool()
	return nodescaler.MachineName(p.Name, id), w.fleet.Create(context.Background(), loop.Order{
		ID: id, At: w.sim.Now(),
		Action: nodescaler.Action{
			Kind: nodescaler.Buy, Pool: p.Name, Shape: &p.Shapes[0], Host: host,
			Reasons: []nodescaler.Reason{{Code: nodescaler.PodsPending, Text: "3 pods wait"}},
		},
	})
}

func (w *world) mustOrder(host string) string {
	w.t.Helper()
	name := must.Get(w.order(host))(w.t)
	return name
}

// machine is a machine as the loop sees it; its phase is empty when it is not listed.
func (w *world) machine(name string) nodescaler.Machine {
	w.t.Helper()
	state := must.Get(w.fleet.List(context.Background()))(w.t)
	for _, m := range state.Machines {
		if m.Name == name {
			return m
		}
	}
	return nodescaler.Machine{}
}

func (w *world) phase(name string) nodescaler.Phase { return w.machine(name).Phase }

// inject makes things go wrong.
func (w *world) inject(lines ...string) {
	w.t.Helper()
	faults := must.Get(pvesim.ParseFaults(strings.Join(lines, "\n")))(w.t)
	for _, f := range faults {
		must.Do(w.t, w.sim.Inject(f))
	}
}

// told reports whether there was an event of a code.
func (w *world) told(code string) bool {
	return slices.ContainsFunc(w.events, func(e Event) bool { return e.Code == code })
}

// root is a client that may do everything: a person at the cluster.
func (w *world) root() *pveapi.Client {
	w.t.Helper()
	w.sim.Grant("/", "Administrator", "admin@pve")
	token := w.sim.Token("admin@pve", "hand", false)
	c := must.Get(pveapi.Connect(pveapi.Connection{
		Endpoints: []string{"https://pve1:8006"}, Token: func() (string, error) { return token, nil }, Insecure: true,
		Transport: w.sim.Transport(), Now: w.sim.Now,
		Wait: func(_ context.Context, d time.Duration) error { w.sim.Advance(d); return nil },
	}))(w.t)
	return c
}

// asRoot makes a call that the client has no method for.
func (w *world) asRoot(method, path string, params map[string]any) error {
	w.t.Helper()
	w.sim.Grant("/", "Administrator", "admin@pve")
	var body []byte
	if len(params) > 0 {
		var err error
		if body, err = json.Marshal(params); err != nil {
			w.t.Fatal(err)
		}
	}
	req := must.Get(http.NewRequestWithContext(context.Background(), method, "https://pve1:8006/api2/json"+path, bytes.NewReader(body)))(w.t)
	req.Header.Set("Authorization", "PVEAPIToken="+w.sim.Token("admin@pve", "hand", false))
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := w.sim.Transport().RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return nil
}

// calls are those that the fleet made, by method and the shape of their path.
func (w *world) calls(method, contains string) (n int) {
	for _, c := range w.sim.Calls() {
		if strings.HasPrefix(c.User, "plimsoll@") && c.Method == method && strings.Contains(c.Path, contains) {
			n++
		}
	}
	return n
}
