// Package inlab lets a test build a test bed for RKE2 whose machines are an emulated Proxmox VE's,
// and whose cluster is a lab's. They join a real control plane, which takes what the control
// plane's machine was given for RKE2. The workers' pods are played by KWOK, and those of the
// control plane and of the load machine are processes.
package inlab

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/rke2"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// siteText is the site but for where Proxmox VE is, which the rig knows.
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
  start: 1
  max: 4
  vmPool: {mode: Active}
user: ops
packages: [qemu-guest-agent]
`

// Config is how a rig differs from the plain one.
type Config struct {
	// Speed is how fast the emulated cluster's time passes; 20 if zero.
	Speed float64
	// Site changes the site, of which the machines' sizes and counts may be others.
	Site func(*rke2.Site)
	// Programs are what the pods of the control plane and the load machine run.
	Programs map[string]kubelet.Program
	// Parts are started besides, behind the kubelets.
	Parts []lab.Part
}

// Rig is where a test bed is built.
type Rig struct {
	Lab    *lab.Lab
	Client kubernetes.Interface // as administrator
	PVE    *pvesim.Cluster

	t            testing.TB
	cfg          Config
	token        string
	endpoints    []string
	fingerprints []string
	manifests    map[string][]byte
	store        string
	before       []string
}

// New starts the Proxmox VE and the lab. There is no machine yet.
func New(t testing.TB, cfg Config) *Rig {
	t.Helper()
	if cfg.Speed == 0 {
		cfg.Speed = 20
	}
	sim := must.Get(pvesim.New(pvesim.Config{
		Seed: 1, Speed: cfg.Speed, Name: "home", Start: time.Now().UTC().Truncate(time.Second),
		Hosts: []pvesim.Host{{Name: "pve1", CPUs: 32, Memory: 128 << 30}, {Name: "pve2", CPUs: 32, Memory: 128 << 30}},
		Storages: []pvesim.Storage{
			{Name: "nfs", Type: "nfs", Shared: true, Content: []string{"iso", "images"}, Total: 1 << 40},
		},
		VMs: []pvesim.VM{{
			ID: 9000, Host: "pve1", Template: true, Storage: "nfs", Disk: 8 << 30,
			Config: map[string]string{"name": "debian", "memory": "2048", "cores": "2", "agent": "1"},
		}, {ID: 300, Host: "pve2", Config: map[string]string{"name": "strangers", "memory": "512"}}},
		Times: timing.Machine{Clone: timing.Range{Min: 4 * time.Second, Max: 8 * time.Second}, Boot: timing.Range{Min: 10 * time.Second, Max: 20 * time.Second}},
	}))(t)
	t.Cleanup(sim.Close)
	r := &Rig{t: t, cfg: cfg, PVE: sim, token: sim.Token("root@pam", "builder", false), manifests: map[string][]byte{}, store: filepath.Join(t.TempDir(), "bench")}
	r.serve()
	r.before = r.inventory()
	parts := []lab.Part{
		&lab.KWOK{}, &kubelet.Part{Programs: cfg.Programs},
		&machines.Joining{Cluster: sim, Processes: func(n *corev1.Node) bool { return !strings.HasPrefix(n.Name, "workers-") }},
	}
	r.Lab = labtest.Up(t, lab.Config{Parts: append(parts, cfg.Parts...)})
	r.Client = kubernetes.NewForConfigOrDie(r.Lab.REST())
	return r
}

// serve lets the hosts be reached over HTTPS.
func (r *Rig) serve() {
	r.t.Helper()
	for _, host := range r.PVE.Hosts() {
		on := must.Get(net.Listen("tcp", "127.0.0.1:0"))(r.t)
		r.t.Cleanup(func() { _ = on.Close() })
		certificate, shown, err := pvesim.SelfSigned("127.0.0.1")
		if err != nil {
			r.t.Fatal(err)
		}
		go func() {
			_ = r.PVE.Serve(on, host, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
		}()
		r.endpoints = append(r.endpoints, "https://"+on.Addr().String())
		r.fingerprints = append(r.fingerprints, shown)
	}
}

// Manifest is given to RKE2 by the control plane's machine.
func (r *Rig) Manifest(name string, text []byte) { r.manifests[name] = text }

// Product gives Plimsoll's own manifests, as the program prints them for a cluster like this one,
// with what else its configuration says.
func (r *Rig) Product(program string, also map[string]any) {
	r.t.Helper()
	c := map[string]any{"owner": "bench", "endpoints": r.endpoints, "fingerprints": r.fingerprints, "tokenFile": "token"}
	maps.Copy(c, also)
	text := must.Get(yaml.Marshal(c))(r.t)
	file := filepath.Join(r.t.TempDir(), "plimsoll.yaml")
	must.Do(r.t, os.WriteFile(file, text, 0o600))
	printed, err := exec.CommandContext(r.t.Context(), program, "manifests", "install", "--config", file, "--mode", "active").Output()
	if err != nil {
		r.t.Fatalf("manifests install: %v", err)
	}
	r.Manifest("a-plimsoll.yaml", printed)
}

// Site is the site as it is now.
func (r *Rig) Site() *rke2.Site {
	r.t.Helper()
	var s rke2.Site
	must.Do(r.t, strict.Unmarshal([]byte(siteText), &s))
	s.Endpoints, s.Fingerprints, s.Insecure = r.endpoints, r.fingerprints, false
	s.Manifests = slices.Sorted(maps.Keys(r.manifests))
	if r.cfg.Site != nil {
		r.cfg.Site(&s)
	}
	read := func(name string) ([]byte, error) {
		for manifest, text := range r.manifests {
			if filepath.Base(name) == manifest {
				return text, nil
			}
		}
		return nil, fmt.Errorf("the rig has no file %s", name)
	}
	must.Do(r.t, s.Read(read))
	return &s
}

// Bench is a process that builds the test bed or takes it down, with the state that the one before
// it left.
func (r *Rig) Bench() *rke2.Bench {
	r.t.Helper()
	kubeconfig := must.Get(os.ReadFile(r.Lab.Kubeconfig()))(r.t)
	wait := func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(float64(d) / r.cfg.Speed)):
			return nil
		}
	}
	b := must.Get(rke2.New(rke2.Config{
		Site: r.Site(), Store: rke2.Folder(r.store), Now: r.PVE.Now, Wait: wait, Rand: rand.New(rand.NewPCG(1, 1)),
		Connection: pveapi.Connection{
			Endpoints: r.endpoints, Fingerprint: strings.Join(r.fingerprints, ","), Now: r.PVE.Now, Wait: wait,
			Token: func() (string, error) { return r.token, nil },
		},
		Kubernetes: func([]byte) (rke2.Kubernetes, error) { return rke2.Reached(kubeconfig) },
		Report:     func(line string) { r.t.Log(line) },
	}))(r.t)
	r.t.Cleanup(b.Close)
	return b
}

// Left is what there is that was not there before the test bed.
func (r *Rig) Left() []string {
	left := slices.DeleteFunc(r.inventory(), func(what string) bool { return slices.Contains(r.before, what) })
	if files, _ := filepath.Glob(filepath.Join(r.store, "*")); len(files) > 0 {
		left = append(left, files...)
	}
	return left
}

// inventory is all that a test bed may leave in Proxmox VE.
func (r *Rig) inventory() []string {
	var all []string
	there := r.PVE.Inventory()
	for _, m := range there.VMs {
		all = append(all, fmt.Sprintf("machine %d %s", m.ID, m.Config["name"]))
	}
	for _, v := range there.Volumes {
		all = append(all, "volume "+v.ID)
	}
	for _, q := range []struct{ path, key string }{
		{"/pools", "poolid"}, {"/access/roles", "roleid"}, {"/access/acl", "ugid"}, {"/access/users/root@pam/token", "tokenid"},
	} {
		all = append(all, r.names(q.path, q.key)...)
	}
	return all
}

// names asks Proxmox VE for a list.
func (r *Rig) names(path, key string) []string {
	r.t.Helper()
	req := must.Get(http.NewRequest(http.MethodGet, "https://pve1:8006/api2/json"+path, nil))(r.t)
	req.Header.Set("Authorization", "PVEAPIToken="+r.token)
	res := must.Get(r.PVE.Transport().RoundTrip(req))(r.t)
	defer func() { _ = res.Body.Close() }() // it was read
	var answer struct{ Data []map[string]any }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
	var names []string
	for _, d := range answer.Data {
		names = append(names, fmt.Sprint(path, " ", d[key]))
	}
	return names
}
