// Package upstream_test holds the provider, the fleet and the emulated Proxmox VE cluster to what
// an upstream cluster-autoscaler does. Calls come over gRPC, machines are made over HTTPS, and
// nodes join when a machine with a disc that says how has booted.
package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// world is an emulated cluster behind HTTPS, a stand-in for Kubernetes, a fleet with intents that
// outlive it, and a provider over the fleet behind gRPC. Emulated time passes only when a test lets
// it, and in calls that take some; the wall clock decides nothing.
type world struct {
	t     testing.TB
	sim   *pvesim.Cluster
	door  *door
	kube  *kubernetes
	log   *logFile
	token string
	life  *life // of a process that can be let die; nil is one that cannot

	site     pve.FleetConfig
	provider provider.Config
	fleet    *pve.Fleet
	server   *provider.Server
	*autoscaler
	hangUp func()
	events *events
}

// plan is what a world is made of.
type plan struct {
	hosts int // 0 is 3
	seed  uint64
	times timing.Machine
	vms   []pvesim.VM
	pools []settings.Pool // nil is smallAndBig
	// mortal is a world whose process can be let die; it is called in process, and so is its
	// cluster.
	mortal bool
	// change is made to what the fleet and the provider are made of, before they are.
	change func(w *world)
}

const gib = int64(1) << 30

// quick are times in which a machine is cloned and boots; those of real ones differ by a factor
// that changes nothing here.
var quick = timing.Machine{
	Clone: timing.Range{Min: 3 * time.Second, Max: 6 * time.Second},
	Boot:  timing.Range{Min: 5 * time.Second, Max: 10 * time.Second},
}

func begin(t testing.TB, p plan) *world {
	t.Helper()
	w := prepare(t, p)
	w.start()
	w.run(time.Second)
	return w
}

// prepare makes the cluster, and nothing that works with it yet.
func prepare(t testing.TB, p plan) *world {
	t.Helper()
	if p.hosts == 0 {
		p.hosts = 3
	}
	if p.times == (timing.Machine{}) {
		p.times = quick
	}
	if p.pools == nil {
		p.pools = smallAndBig(p.hosts)
	}
	sim := must.Get(pvesim.New(clusterOf(p)))(t)
	t.Cleanup(sim.Close)
	w := &world{t: t, sim: sim, kube: newKubernetes(p.seed, sim.Now), log: &logFile{}, events: &events{}}
	if p.mortal {
		w.life, w.door = &life{}, &door{urls: []string{"https://pve1:8006", "https://pve2:8006"}}
	} else {
		w.door = open(t, sim, "pve1", "pve2")
	}
	w.token = tokenOf(sim)
	sim.OnBoot(w.kube.booted)
	sim.OnCall(w.door.count)
	w.site = pve.FleetConfig{
		Owner: "lab", Cluster: "lab", Pools: p.pools, Parallel: 1, Nodes: w.kube.list, RemoveNode: w.kube.remove, Now: sim.Now,
		Rand: timing.Stream(p.seed, "fleet"), Report: w.events.add,
	}
	w.provider = provider.Config{Prices: pricing.DefaultBook(), Now: sim.Now}
	for _, pool := range p.pools {
		w.provider.Pools = append(w.provider.Pools, provider.Pool{Pool: pool.Words()})
	}
	if p.change != nil {
		p.change(w)
	}
	return w
}

// clusterOf is a cluster with a template on the local storage of every host, 9001 and up.
func clusterOf(p plan) pvesim.Config {
	cfg := pvesim.Config{
		Seed: p.seed, Name: "lab", Pools: []string{"plimsoll", "templates", "others"}, Times: p.times, VMs: p.vms,
		Storages: []pvesim.Storage{
			{Name: "local", Type: "dir", Content: []string{"iso", "images"}, Total: 500 * gib},
			{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}, Total: 10000 * gib},
		},
	}
	for i := range p.hosts {
		name := fmt.Sprintf("pve%d", i+1)
		cfg.Hosts = append(cfg.Hosts, pvesim.Host{Name: name, CPUs: 128, Memory: 1024 * gib})
		cfg.VMs = append(cfg.VMs, pvesim.VM{
			ID: 9001 + i, Host: name, Pool: "templates", Template: true, Storage: "local-lvm", Disk: 8 * gib,
			Config: map[string]string{"name": "golden", "memory": "2048", "cores": "2", "agent": "1"},
		})
	}
	return cfg
}

// roles are what the fleet's token may: what is needed and no more.
var roles = []struct{ path, role, privileges string }{
	{"/pool/templates", "PlimsollTemplate", "VM.Clone VM.Audit"},
	{"/pool/plimsoll", "PlimsollMachine", "VM.Allocate VM.Audit VM.PowerMgmt VM.Config.CPU VM.Config.Memory VM.Config.Disk VM.Config.Network " +
		"VM.Config.Options VM.Config.HWType VM.Config.CDROM VM.Config.Cloudinit VM.GuestAgent.Audit Pool.Audit"},
	{"/storage", "PlimsollStorage", "Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Allocate Datastore.Audit"},
	{"/sdn/zones/localnetwork", "PlimsollBridge", "SDN.Use"},
	{"/", "PlimsollAudit", "Sys.Audit"},
}

func tokenOf(sim *pvesim.Cluster) string {
	token := sim.Token("plimsoll@pve", "fleet", false)
	for _, r := range roles {
		sim.AddRole(r.role, strings.Fields(r.privileges)...)
		sim.Grant(r.path, r.role, "plimsoll@pve")
	}
	return token
}

var (
	smallShape = pricing.Shape{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB, Disk: 20 * pricing.GiB}
	bigShape   = pricing.Shape{Name: "big", CPU: 8 * pricing.Core, Memory: 16 * pricing.GiB, Disk: 40 * pricing.GiB}
)

// smallAndBig are two pools of one shape each. The ids of small's nodes are made of VMIDs, those of
// big's of names.
func smallAndBig(hosts int) []settings.Pool {
	small, big := rke2Pool("small", smallShape, 1000, hosts), rke2Pool("big", bigShape, 1100, hosts)
	small.Join.ProviderID.Scheme, small.Region = firstboot.SchemeProxmox, "lab"
	return []settings.Pool{small, big}
}

func rke2Pool(name string, shape pricing.Shape, vmids, hosts int) settings.Pool {
	p := settings.Pool{
		Name: name, Shapes: []pricing.Shape{shape}, Max: 5, PVEPool: "plimsoll", VMIDs: placement.VMIDs{First: vmids, Last: vmids + 99},
		Template: placement.Template{ByHost: map[string]int{}}, ISO: settings.ISO{Storage: "local"}, Guest: settings.Guest{Agent: true},
		Reserved: pricing.Resources{CPU: 300, Memory: 768 * pricing.MiB},
		Join: firstboot.Profile{
			Kind: firstboot.RKE2, Servers: []string{"10.0.0.10"}, TokenFile: "token", Token: "K10f00::server:s3cret",
			ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeRKE2},
		},
	}
	for i := range hosts {
		p.Template.ByHost[fmt.Sprintf("pve%d", i+1)] = 9001 + i
	}
	return p
}

// pool is a pool of the site, to be changed before the fleet is made. What the provider knows of it
// is made again by reshape.
func (w *world) pool(name string) *settings.Pool {
	i := slices.IndexFunc(w.site.Pools, func(p settings.Pool) bool { return p.Name == name })
	return &w.site.Pools[i]
}

// reshape makes what the provider knows of the pools anew.
func (w *world) reshape() {
	for i := range w.site.Pools {
		w.provider.Pools[i].Pool = w.site.Pools[i].Words()
	}
}

// start makes client, fleet and provider, as a process that starts does, with the intents there
// are.
func (w *world) start() {
	w.t.Helper()
	w.startFleet()
	w.startProvider()
}

func (w *world) startFleet() {
	w.t.Helper()
	client := must.Get(pveapi.Connect(w.connection(w.token)))(w.t)
	w.t.Cleanup(client.Close)
	intents := must.Get(intents.OpenLog(w.disk()))(w.t)
	w.site.Client, w.site.Intents = client, intents
	w.fleet = must.Get(pve.NewFleet(w.site))(w.t)
}

// connection is how the cluster is reached with a token.
func (w *world) connection(token string) pveapi.Connection {
	c := pveapi.Connection{
		Endpoints: w.door.urls, Fingerprint: w.door.fingerprint, Token: func() (string, error) { return token, nil }, Now: w.sim.Now,
		Wait: func(_ context.Context, d time.Duration) error { w.sim.Advance(d); return nil },
	}
	if w.life != nil {
		c.Fingerprint, c.Insecure, c.Transport = "", true, mortalWay{w.sim.Transport(), w.life}
	}
	return c
}

// disk is where the log of intents lies.
func (w *world) disk() intents.File {
	if w.life != nil {
		return mortalFile{w.log, w.life}
	}
	return w.log
}

func (w *world) startProvider() {
	w.t.Helper()
	if w.hangUp != nil {
		w.hangUp()
	}
	w.provider.Machines = w.fleet
	server := must.Get(provider.New(w.provider))(w.t)
	w.server = server
	if w.life != nil {
		w.autoscaler = &autoscaler{w.t, externalgrpc.NewCloudProviderClient(upstream.InProcess{Server: server})}
		return
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(w.t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l, provider.Listening{}) }()
	conn := must.Get(grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(w.t)
	w.autoscaler = &autoscaler{w.t, externalgrpc.NewCloudProviderClient(conn)}
	w.hangUp = func() {
		w.hangUp = nil
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("serve: %v", err)
		}
	}
	w.t.Cleanup(func() {
		if w.hangUp != nil {
			w.hangUp()
		}
	})
}

// step is how long the provider may go by what it saw: after each round of work as much time
// passes, so that what tests read is never older than the round.
const step = 500 * time.Millisecond

// run lets time pass, and the fleet do its work.
func (w *world) run(d time.Duration) {
	until := w.sim.Now().Add(d)
	for w.sim.Now().Before(until) {
		_ = w.fleet.Tick(context.Background()) // what fails is in the events
		w.sim.Advance(max(step, min(w.fleet.Pause(), until.Sub(w.sim.Now()))))
	}
	_ = w.fleet.Tick(context.Background())
	w.sim.Advance(step)
}

// until lets time pass until something is so, and fails when it is not within a time.
func (w *world) until(what string, within time.Duration, so func() bool) {
	w.t.Helper()
	if !w.waitFor(within, so) {
		w.t.Fatalf("after %s it is not so that %s\n%s", within, what, w.story())
	}
}

func (w *world) waitFor(within time.Duration, so func() bool) bool {
	end := w.sim.Now().Add(within)
	for !so() {
		if w.sim.Now().After(end) {
			return false
		}
		_ = w.fleet.Tick(context.Background())
		w.sim.Advance(max(step, w.fleet.Pause()))
	}
	return true
}

// story is what happened, for tests that fail.
func (w *world) story() string {
	var b strings.Builder
	b.WriteString(w.events.last(60))
	state, err := w.fleet.List(context.Background())
	fmt.Fprintln(&b, "machines:", err)
	for _, m := range state.Machines {
		fmt.Fprintf(&b, "  %s %s %s on %s %s\n", m.Name, m.ProviderID, m.Phase, m.Host, m.Problem)
	}
	for _, v := range w.vms() {
		fmt.Fprintf(&b, "  VM %d %s on %s: %s\n", v.ID, v.Config["name"], v.Host, v.State)
	}
	return b.String()
}

// inject makes things go wrong, as the emulator's lines say.
func (w *world) inject(lines ...string) {
	w.t.Helper()
	faults := must.Get(pvesim.ParseFaults(strings.Join(lines, "\n")))(w.t)
	for _, f := range faults {
		must.Do(w.t, w.sim.Inject(f))
	}
}

// vms are the virtual machines that really exist, but for the templates.
func (w *world) vms() []pvesim.VMState {
	return slices.DeleteFunc(w.sim.Inventory().VMs, func(v pvesim.VMState) bool { return v.Config["template"] == "1" })
}

// vmNames are the names of the virtual machines that really exist, sorted.
func (w *world) vmNames() []string {
	names := []string{}
	for _, v := range w.vms() {
		names = append(names, v.Config["name"])
	}
	slices.Sort(names)
	return names
}

// discs are the first-boot discs that really exist.
func (w *world) discs() (all []string) {
	for _, v := range w.sim.Inventory().Volumes {
		if strings.Contains(v.ID, "iso/") {
			all = append(all, v.ID)
		}
	}
	return all
}

// vmid is the number of the virtual machine of a name, 0 without one.
func (w *world) vmid(name string) int {
	for _, v := range w.vms() {
		if v.Config["name"] == name {
			return v.ID
		}
	}
	return 0
}

// person is a client of the cluster that may do everything.
func (w *world) person() *pveapi.Client {
	w.t.Helper()
	w.sim.Grant("/", "Administrator", "admin@pve")
	c := w.connection(w.sim.Token("admin@pve", "hand", false))
	c.Transport, c.Insecure, c.Fingerprint = w.sim.Transport(), true, ""
	return must.Get(pveapi.Connect(c))(w.t)
}

// destroy removes a virtual machine as a person does, without asking us.
func (w *world) destroy(vmid int) {
	w.t.Helper()
	ctx, hand := w.t.Context(), w.person()
	for _, v := range w.vms() {
		if v.ID != vmid {
			continue
		}
		upid, err := hand.VM(v.Host, vmid).Stop(ctx, false)
		if err == nil {
			_, err = hand.WaitTask(ctx, upid)
		}
		if err == nil {
			upid, err = hand.VM(v.Host, vmid).Destroy(ctx, true)
		}
		if err == nil {
			_, err = hand.WaitTask(ctx, upid)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return
	}
	w.t.Fatalf("VM %d does not exist", vmid)
}

// logFile keeps the log of intents as a disk would: what was written is there after a process died.
type logFile struct {
	mu   sync.Mutex
	data []byte
	full error // why nothing can be written
}

func (f *logFile) Read() ([]byte, error) { return []byte(f.text()), nil }

func (f *logFile) Append(data []byte) error {
	return f.write(func() { f.data = append(f.data, data...) })
}

func (f *logFile) Replace(data []byte) error {
	return f.write(func() { f.data = bytes.Clone(data) })
}

func (f *logFile) write(what func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full == nil {
		what()
	}
	return f.full
}

// text is what is written.
func (f *logFile) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.data)
}

// fill lets nothing be written any more, or again if there is no reason.
func (f *logFile) fill(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = why
}

// events are what the fleet has reported, from any goroutine.
type events struct {
	mu  sync.Mutex
	all []pve.Event
}

func (e *events) add(one pve.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
}

// of are those of a code.
func (e *events) of(code string) (some []pve.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if one.Code == code {
			some = append(some, one)
		}
	}
	return some
}

// last prints the last of them.
func (e *events) last(n int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, one := range e.all[max(0, len(e.all)-n):] {
		fmt.Fprintln(&b, one)
	}
	return b.String()
}

// state is everything that a call that is refused must leave as it is: what is kept, what is there,
// and what is reported.
func (w *world) state() string {
	w.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d orders to the cluster\n", w.log.text(), w.door.writes())
	for _, v := range w.vms() {
		fmt.Fprintln(&b, v.ID, v.Config["name"], v.Host, v.State)
	}
	for _, g := range w.groups() {
		fmt.Fprintln(&b, g.Id, g.MinSize, g.MaxSize, w.target(g.Id), w.instances(g.Id))
	}
	return b.String()
}

// unchanged fails if something changes the state.
func (w *world) unchanged(what string, do func()) {
	w.t.Helper()
	before := w.state()
	do()
	if diff := cmp.Diff(before, w.state()); diff != "" {
		w.t.Errorf("%s changes: -before +after:\n%s", what, diff)
	}
}

// joined orders machines and lets them join, and what comes after that be done.
func (w *world) joined(group string, n int32) {
	w.t.Helper()
	have := w.target(group)
	w.mustIncrease(group, n)
	w.until(fmt.Sprintf("%d more of %s have joined", n, group), 5*time.Minute, func() bool { return w.all(group, "Running", have+int(n)) })
	w.until("no first-boot disc is left", time.Minute, func() bool { return len(w.discs()) == 0 })
	w.run(10 * time.Second)
}

// gone lets time pass until a group has no more than some instances, and all of them run.
func (w *world) gone(group string, left int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d of %s are left", left, group), 5*time.Minute, func() bool { return w.all(group, "Running", left) })
}

// nameOf is the name of the machine that has an id.
func (w *world) nameOf(id string) string {
	w.t.Helper()
	state := must.Get(w.fleet.List(w.t.Context()))(w.t)
	for _, m := range state.Machines {
		if m.ProviderID == id {
			return m.Name
		}
	}
	return ""
}

// namesOf are the names of the machines that have ids, sorted.
func (w *world) namesOf(ids ...string) []string {
	w.t.Helper()
	names := []string{}
	for _, id := range ids {
		names = append(names, w.nameOf(id))
	}
	slices.Sort(names)
	return names
}
