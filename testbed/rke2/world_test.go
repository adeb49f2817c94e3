package rke2

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/reference"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// siteText is a site as its file has it.
const siteText = `
owner: bench
endpoints: [https://pve1:8006]
tokenFile: token
insecure: true
pvePool: bench
template: {vmid: 9000}
iso: {storage: nfs}
vmids: {first: 5000, last: 5009}
network: {first: 10.0.0.10/24, gateway: 10.0.0.1, nameservers: [10.0.0.2]}
rke2: {version: v1.34.1+rke2r1}
control: {cpu: 4, memory: 8Gi, disk: 40Gi}
load: {cpu: 2, memory: 4Gi}
workers:
  shapes: [{name: small, cpu: 2, memory: 4Gi, disk: 20Gi}]
  start: 2
  max: 4
user: ops
packages: [qemu-guest-agent]
manifests: [prometheus.yaml]
`

func readSite(t testing.TB, text string) *Site {
	t.Helper()
	var s Site
	must.Do(t, strict.Unmarshal([]byte(text), &s))
	must.Do(t, s.Read(func(string) ([]byte, error) { return []byte("kind: List\nitems: ['{{none}}']\n"), nil }))
	return &s
}

// ofImage is the site with a template that is to be made.
func ofImage(w *world) {
	text := strings.Replace(siteText, "template: {vmid: 9000}", "template: {vmid: 9100}\nimage: {volume: 'nfs:import/debian.qcow2', host: pve1, storage: nfs}", 1)
	w.site = readSite(w.t, text)
}

// world is an emulated Proxmox VE with a store, and what becomes of a bench there.
type world struct {
	t     testing.TB
	sim   *pvesim.Cluster
	net   *imitation
	token string
	root  string // that may do everything, beside the token that is used
	site  *Site
	store memory
	lines []string
	// mortal ends the process; nil lets it live.
	mortal *mortal
	wrap   func(http.RoundTripper) http.RoundTripper
}

func emulated(change ...func(*pvesim.Config)) pvesim.Config {
	cfg := pvesim.Config{
		Seed: 1, Name: "home",
		Hosts: []pvesim.Host{{Name: "pve1", CPUs: 32, Memory: 128 << 30}, {Name: "pve2", CPUs: 32, Memory: 128 << 30}},
		Storages: []pvesim.Storage{
			{Name: "local", Type: "dir", Content: []string{"images"}, Total: 1 << 40},
			{Name: "nfs", Type: "nfs", Shared: true, Content: []string{"iso", "images", "import"}, Total: 1 << 40},
		},
		Images: []pvesim.Image{{Host: "pve1", Storage: "nfs", Name: "debian.qcow2", Size: 3 << 30}},
		VMs: []pvesim.VM{{
			ID: 9000, Host: "pve1", Template: true, Storage: "nfs", Disk: 8 << 30,
			Config: map[string]string{"name": "debian", "memory": "2048", "cores": "2", "agent": "1"},
		}, {ID: 300, Host: "pve2", Config: map[string]string{"name": "strangers", "memory": "512"}}},
		Times: timing.Machine{Clone: timing.Range{Min: 4 * time.Second, Max: 8 * time.Second}, Boot: timing.Range{Min: 10 * time.Second, Max: 20 * time.Second}},
	}
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

func newWorld(t testing.TB, change ...func(*pvesim.Config)) *world {
	t.Helper()
	sim := must.Get(pvesim.New(emulated(change...)))(t)
	w := &world{t: t, sim: sim, net: imitate(sim), site: readSite(t, siteText), store: memory{}}
	w.token = sim.Token("root@pam", "builder", false)
	w.root = w.token
	return w
}

// bench is a process that begins with what the store has.
func (w *world) bench() (*Bench, error) {
	transport := w.sim.Transport()
	if w.wrap != nil {
		transport = w.wrap(transport)
	}
	store := Store(w.store)
	if w.mortal != nil {
		w.mortal.base = transport
		transport, store = w.mortal, dying{w.store, w.mortal}
	}
	return New(Config{
		Site: w.site, Store: store, Now: w.sim.Now, Rand: rand.New(rand.NewPCG(1, uint64(len(w.sim.Calls())))),
		Connection: pveapi.Connection{
			Endpoints: w.site.Endpoints, Insecure: true, Transport: transport, Now: w.sim.Now, Wait: w.wait,
			Token: func() (string, error) { return w.token, nil },
		},
		Kubernetes: func([]byte) (Kubernetes, error) { return w.net, nil },
		Wait:       w.wait,
		Report:     func(line string) { w.lines = append(w.lines, line) },
	})
}

// wait lets time pass for a process that lives.
func (w *world) wait(_ context.Context, d time.Duration) error {
	if w.mortal != nil && w.mortal.dead {
		return errDead
	}
	w.sim.Advance(d)
	return nil
}

func (w *world) up() error   { return w.run((*Bench).Up) }
func (w *world) down() error { return w.run((*Bench).Down) }

func (w *world) run(verb func(*Bench, context.Context) error) error {
	b, err := w.bench()
	if err != nil {
		return err
	}
	return verb(b, w.t.Context())
}

// mortal is the way to Proxmox VE and to the store of a process that dies at a moment: before the
// call or the write is done, or after.
type mortal struct {
	base  http.RoundTripper
	left  int // calls and writes until it dies; negative is never
	after bool
	dead  bool
	all   int
	steps []string // what could be died at, if it lived
}

var errDead = errors.New("the process is dead")

// moment is a call or a write, at which it may die.
func (m *mortal) moment(what string, do func() error) error {
	if m.dead {
		return errDead
	}
	m.all++
	m.steps = append(m.steps, what)
	m.left--
	dies := m.left == -1
	if dies && !m.after {
		m.dead = true
		return errDead
	}
	err := do()
	if dies {
		m.dead = true
		return errDead
	}
	return err
}

func (m *mortal) RoundTrip(req *http.Request) (res *http.Response, err error) {
	if req.Method == http.MethodGet {
		if m.dead {
			return nil, errDead
		}
		return m.base.RoundTrip(req)
	}
	err = m.moment(req.Method+" "+req.URL.Path, func() error {
		res, err = m.base.RoundTrip(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// dying is the store of a mortal process.
type dying struct {
	memory
	m *mortal
}

func (d dying) Write(name string, data []byte) error {
	return d.m.moment("write "+name, func() error { return d.memory.Write(name, data) })
}

func (d dying) Append(name string, data []byte) error {
	return d.m.moment("append to "+name, func() error { return d.memory.Append(name, data) })
}

func (d dying) Remove(name string) error {
	return d.m.moment("remove "+name, func() error { return d.memory.Remove(name) })
}

// left is what there is of the test bed, in all that it may leave behind.
func (w *world) left() []string {
	w.t.Helper()
	var all []string
	there := w.sim.Inventory()
	for _, m := range there.VMs {
		if m.ID != 9000 && m.ID != 300 {
			all = append(all, fmt.Sprintf("machine %d %s", m.ID, m.Config["name"]))
		}
	}
	for _, v := range there.Volumes {
		if v.VMID != 9000 && v.VMID != 300 && !strings.Contains(v.ID, ":import/") {
			all = append(all, "volume "+v.ID)
		}
	}
	for _, q := range []struct{ path, key string }{
		{"/pools", "poolid"}, {"/access/roles", "roleid"}, {"/access/acl", "ugid"}, {"/access/users/root@pam/token", "tokenid"},
	} {
		for _, name := range w.list(q.path, q.key) {
			if strings.Contains(name, "bench") {
				all = append(all, q.path+" "+name)
			}
		}
	}
	for name := range w.store {
		all = append(all, "file "+name)
	}
	slices.Sort(all)
	return all
}

// list asks the emulator directly.
func (w *world) list(path, key string) []string {
	w.t.Helper()
	req := must.Get(http.NewRequest(http.MethodGet, "https://pve1:8006/api2/json"+path, nil))(w.t)
	req.Header.Set("Authorization", "PVEAPIToken="+w.root)
	res := must.Get(w.sim.Transport().RoundTrip(req))(w.t)
	var answer struct{ Data []map[string]any }
	data, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(data, &answer) != nil {
		w.t.Fatalf("%s: %s %v", path, data, err)
	}
	var names []string
	for _, d := range answer.Data {
		names = append(names, fmt.Sprint(d[key]))
	}
	return names
}

// conform lets calls through, and fails the test for every request that the published schema does
// not allow.
func conform(t testing.TB, next http.RoundTripper) http.RoundTripper {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "pve", "api-schema.json"))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("what was recorded of Proxmox VE is not there: %v", err)
		}
		t.Skipf("NOT TRIED, for what was recorded of Proxmox VE is not there: %v", err)
	}
	schema := must.Get(reference.Parse(data))(t)
	return carrier(func(req *http.Request) (*http.Response, error) {
		for _, fault := range schema.Faults(req.Method, req.URL, req.Header.Get("Content-Type"), body(req)) {
			t.Errorf("%s", fault)
		}
		return next.RoundTrip(req)
	})
}

type carrier func(*http.Request) (*http.Response, error)

func (c carrier) RoundTrip(req *http.Request) (*http.Response, error) { return c(req) }

// body reads a request's body and puts it back.
func body(req *http.Request) []byte {
	if req.Body == nil {
		return nil
	}
	data, _ := io.ReadAll(req.Body)
	_ = req.Body.Close()
	req.Body = io.NopCloser(bytes.NewReader(data))
	return data
}
