package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// site is what the program meets: an emulated Proxmox VE cluster over HTTPS, and the nodes' part of
// a Kubernetes API in which machines that have booted become nodes.
type site struct {
	t      *testing.T
	sim    *pvesim.Cluster
	folder string
	listen string // of the provider
	stderr bytes.Buffer

	mu    sync.Mutex
	uid   string // of the cluster
	nodes []corev1.Node
	child *exec.Cmd
	// kills, when it is set, is asked at every call that changes something, whether the program
	// dies there.
	kills func(method, path string) bool
	died  int
}

func newSite(t *testing.T) *site {
	t.Helper()
	second := func(from, to int) timing.Range {
		return timing.Range{Min: time.Duration(from) * time.Second, Max: time.Duration(to) * time.Second}
	}
	const gib = int64(1) << 30
	sim := must.Get(pvesim.New(pvesim.Config{
		Seed: 1, Name: "home", Pools: []string{"plimsoll"}, Speed: 20, Start: time.Now(),
		Hosts: []pvesim.Host{{Name: "pve1", CPUs: 32, Memory: 128 * gib}},
		Storages: []pvesim.Storage{
			{Name: "local", Type: "dir", Content: []string{"iso", "images"}, Total: 100 * gib},
			{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}, Total: 500 * gib},
		},
		VMs: []pvesim.VM{{
			ID: 9001, Host: "pve1", Template: true, Storage: "local-lvm", Disk: 8 * gib,
			Config: map[string]string{"name": "template", "memory": "2048", "cores": "2", "agent": "1"},
		}},
		Times: timing.Machine{Clone: second(4, 8), Boot: second(10, 20), Delete: second(2, 4)},
	}))(t)
	t.Cleanup(sim.Close)
	s := &site{t: t, sim: sim, folder: t.TempDir(), uid: "6f1d1b9e-6a0b-4c55-9c55-0d3a3a1f0c01"}
	sim.OnBoot(s.booted)
	sim.OnCall(s.called)
	certificate, fingerprint, err := pvesim.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	door := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = sim.Serve(door, "pve1", &tls.Config{Certificates: []tls.Certificate{certificate}}) }()
	t.Cleanup(func() { _ = door.Close() })
	cluster := httptest.NewServer(s)
	t.Cleanup(cluster.Close)
	s.listen = freeAddress(t)
	sim.Grant("/", "Administrator", "plimsoll@pve")
	s.write("token", sim.Token("plimsoll@pve", "run", false))
	s.write("user-data", "#cloud-config\nhostname: {{.Name}}\n")
	s.write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, users: [{name: x, user: {}}],
 contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, cluster.URL))
	s.write("site.yaml", fmt.Sprintf(`
owner: home
endpoints: ["https://%s"]
fingerprints: [%q]
tokenFile: token
state: state
metrics: %s
kubeconfig: kubeconfig
provider: {listen: %s}
pools:
  - name: workers
    max: 5
    shapes: [{name: small, cpu: 2, memory: 4GiB, disk: 20GiB}]
    template: {vmid: 9001}
    pvePool: plimsoll
    vmids: {first: 1000, last: 1099}
    region: home
    guest: {agent: true}
    iso: {storage: local}
    join: {kind: custom, userDataFile: user-data, providerID: {scheme: proxmox}}
`, door.Addr(), fingerprint, freeAddress(t), s.listen))
	t.Cleanup(s.stop)
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close() //nolint:errcheck // it was only asked for a number
	return l.Addr().String()
}

func (s *site) write(name, text string) {
	s.t.Helper()
	must.Do(s.t, os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o600))
}

// booted makes a machine a node.
func (s *site) booted(b pvesim.Boot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.nodes {
		if s.nodes[i].Name == b.Name {
			return
		}
	}
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.Name, UID: types.UID(b.UUID), CreationTimestamp: metav1.Now()}}
	n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID = fmt.Sprintf("proxmox://home/%d", b.VMID), b.UUID
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.nodes = append(s.nodes, n)
}

// ServeHTTP is the nodes' part of the Kubernetes API, as far as it goes here: no pods run on them,
// and no volumes are there.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/api/v1/namespaces/kube-system" {
		ns := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(s.uid)}}
		_ = json.NewEncoder(w).Encode(ns)
		return
	}
	if empty := map[string]string{"/api/v1/pods": "PodList", "/api/v1/persistentvolumes": "PersistentVolumeList"}[r.URL.Path]; empty != "" && r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(metav1.List{TypeMeta: metav1.TypeMeta{Kind: empty, APIVersion: "v1"}})
		return
	}
	name, one := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/")
	if r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes" {
		_ = json.NewEncoder(w).Encode(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: s.nodes})
		return
	}
	i := slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return one && n.Name == name })
	switch {
	case i >= 0 && r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(s.nodes[i])
	case i >= 0 && r.Method == http.MethodDelete:
		s.nodes = slices.Delete(s.nodes, i, i+1)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusSuccess})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// called kills the program where it is to die.
func (s *site) called(c pvesim.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Method == http.MethodGet || s.kills == nil || s.child == nil || !s.kills(c.Method, c.Path) {
		return
	}
	s.died++
	_ = s.child.Process.Kill()
}

// deaths is how often the program was killed.
func (s *site) deaths() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.died
}

// start starts the program, and again whenever it has been killed, until stop.
func (s *site) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child = exec.Command("plimsoll", "run", "--components", "provider", "--config", "site.yaml")
	// What it holds is measured: it collects garbage as it does for its users.
	s.child.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOGC=") })
	s.child.Dir, s.child.Stderr = s.folder, lockedBuffer{s}
	if err := s.child.Start(); err != nil {
		s.t.Error(err)
		return
	}
	go func(child *exec.Cmd) {
		_ = child.Wait()
		s.mu.Lock()
		again := s.child == child
		s.mu.Unlock()
		if again {
			s.start()
		}
	}(s.child)
}

// lockedBuffer is what the program writes, which is read while it does.
type lockedBuffer struct{ s *site }

func (b lockedBuffer) Write(text []byte) (int, error) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.s.stderr.Write(text)
}

func (s *site) stop() {
	s.mu.Lock()
	child := s.child
	s.child = nil
	s.mu.Unlock()
	if child != nil {
		_ = child.Process.Kill()
	}
}

// client is cluster-autoscaler, with the certificate that the program made for it.
func (s *site) client() externalgrpc.CloudProviderClient {
	s.t.Helper()
	folder := filepath.Join(s.folder, "state", "provider")
	s.until("the certificates are made", func() bool { _, err := os.Stat(filepath.Join(folder, "server.crt")); return err == nil })
	var texts [3][]byte
	for i, name := range []string{"client.crt", "client.key", "ca.crt"} {
		texts[i] = must.Get(os.ReadFile(filepath.Join(folder, name)))(s.t)
	}
	return s.dial(texts[0], texts[1], texts[2], grpc.WaitForReady(true))
}

// dial connects as cluster-autoscaler does that has these texts.
func (s *site) dial(certificate, key, ca []byte, how ...grpc.CallOption) externalgrpc.CloudProviderClient {
	s.t.Helper()
	conn := s.connect(certificate, key, ca, how...)
	s.t.Cleanup(func() { _ = conn.Close() })
	return externalgrpc.NewCloudProviderClient(conn)
}

// connect makes a connection that the caller closes: the provider takes few of one address.
func (s *site) connect(certificate, key, ca []byte, how ...grpc.CallOption) *grpc.ClientConn {
	s.t.Helper()
	pair := must.Get(tls.X509KeyPair(certificate, key))(s.t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	soon := grpc.ConnectParams{
		Backoff:           backoff.Config{Multiplier: 1, BaseDelay: 50 * time.Millisecond, MaxDelay: 50 * time.Millisecond},
		MinConnectTimeout: time.Minute, // otherwise a handshake has no longer than the backoff
	}
	conn := must.Get(grpc.NewClient(s.listen, grpc.WithConnectParams(soon), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12,
	})), grpc.WithDefaultCallOptions(how...)))(s.t)
	return conn
}

// until waits until something is so.
func (s *site) until(what string, so func() bool) {
	s.t.Helper()
	end := time.Now().Add(5 * time.Minute)
	for !so() {
		if time.Now().After(end) {
			s.stop()
			time.Sleep(100 * time.Millisecond)
			s.t.Fatalf("it is not so that %s\n%s", what, s.stderr.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// machines are the VMs in the pool's range.
func (s *site) machines() map[int]bool {
	ids := map[int]bool{}
	for _, v := range s.sim.Inventory().VMs {
		if v.ID >= 1000 && v.ID < 1100 {
			ids[v.ID] = true
		}
	}
	return ids
}

// everyWrite kills a program at each call that changes something, and lets it pass when it is tried
// again; under the race detector only at the first of each kind. It also returns how many there
// were, by kind.
func everyWrite() (kills func(method, path string) bool, seen map[string]int) {
	seen = map[string]int{}
	return func(method, path string) bool {
		key := method + " " + path[strings.LastIndex(path, "/"):]
		if method == http.MethodDelete { // which end with what they delete
			key = map[bool]string{true: "DELETE of a disc", false: "DELETE of a machine"}[strings.Contains(path, "/content/")]
		}
		seen[key]++
		return seen[key]%2 == 1 && (!race.On || seen[key] == 1)
	}, seen
}

// Whenever the program is killed, target, instances and machines agree once it has been started
// again: nothing is ordered twice, and nothing is left.
func TestProviderKilledAtEveryWriteGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.start()
	ca := s.client()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var group string
	s.until("the group is listed", func() bool {
		answer, err := ca.NodeGroups(ctx, &externalgrpc.NodeGroupsRequest{})
		if err == nil && len(answer.NodeGroups) == 1 {
			group = answer.NodeGroups[0].Id
		}
		return group != ""
	})
	instances := func() map[string]externalgrpc.InstanceStatus_InstanceState {
		states := map[string]externalgrpc.InstanceStatus_InstanceState{}
		answer, err := ca.NodeGroupNodes(ctx, &externalgrpc.NodeGroupNodesRequest{Id: group})
		if err != nil {
			return nil
		}
		for _, i := range answer.Instances {
			states[i.Id] = i.Status.InstanceState
		}
		return states
	}
	target := func() int32 {
		answer, err := ca.NodeGroupTargetSize(ctx, &externalgrpc.NodeGroupTargetSizeRequest{Id: group})
		if err != nil {
			return -1
		}
		return answer.TargetSize
	}
	s.mu.Lock()
	kills, seen := everyWrite()
	s.kills = kills
	s.mu.Unlock()
	s.until("the increase is taken", func() bool {
		_, err := ca.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group, Delta: 3})
		return err == nil
	})
	s.until("the target is 3", func() bool {
		got := target()
		if got > 3 {
			t.Fatalf("target %d, want 3", got)
		}
		return got == 3
	})
	s.until("three machines run", func() bool {
		running := 0
		for _, state := range instances() {
			if state == externalgrpc.InstanceStatus_instanceRunning {
				running++
			}
		}
		if n := len(s.machines()); n > 3 {
			t.Fatalf("%d machines\n%s", n, s.stderr.String())
		}
		return running == 3 && target() == 3
	})
	up := s.died
	var two []*externalgrpc.ExternalGrpcNode
	for id := range instances() {
		if len(two) < 2 {
			two = append(two, &externalgrpc.ExternalGrpcNode{ProviderID: id, Name: id})
		}
	}
	s.until("the two are reclaimed", func() bool {
		_, err := ca.NodeGroupDeleteNodes(ctx, &externalgrpc.NodeGroupDeleteNodesRequest{Id: group, Nodes: two})
		return err == nil
	})
	s.until("one machine is left", func() bool { return len(s.machines()) == 1 && len(instances()) == 1 && target() == 1 })
	s.until("its node is the only one", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.nodes) == 1 })
	discs := func() int {
		n := 0
		for _, v := range s.sim.Inventory().Volumes {
			if strings.Contains(v.ID, "iso") {
				n++
			}
		}
		return n
	}
	s.until("no disc is left", func() bool { return discs() == 0 })
	t.Logf("killed %d times on the way up and %d on the way down", up, s.died-up)
	for _, kind := range []string{"POST /clone", "PUT /config", "PUT /resize", "POST /upload", "POST /start", "POST /shutdown", "DELETE of a disc", "DELETE of a machine"} {
		if seen[kind] == 0 {
			t.Errorf("there was no %s: not killed at every kind of call, %v", kind, seen)
		}
	}
}

// Files that are replaced on the disk serve new connections of the process that runs; while they
// are half replaced, those before them do.
func TestRotatedCertificatesServeWithoutARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	site := must.Get(os.ReadFile(filepath.Join(s.folder, "site.yaml")))(t)
	s.write("site.yaml", strings.Replace(string(site), "provider: {", "provider: {tls: {certificate: tls.crt, key: tls.key, clientCA: ca.crt, clients: [cluster-autoscaler]}, ", 1))
	made := func() *provider.Certificates {
		return must.Get(provider.SelfMade([]string{"127.0.0.1"}, time.Now(), time.Hour))(t)
	}
	before, after := made(), made()
	s.write("tls.crt", string(before.Server))
	s.write("tls.key", string(before.ServerKey))
	s.write("ca.crt", string(before.CA))
	s.start()
	s.mu.Lock()
	process := s.child.Process.Pid
	s.mu.Unlock()
	served := func(set *provider.Certificates) bool {
		conn := s.connect(set.Client, set.ClientKey, set.CA)
		defer conn.Close() //nolint:errcheck // nothing is lost with it
		_, err := externalgrpc.NewCloudProviderClient(conn).NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{})
		return err == nil
	}
	s.until("it serves", func() bool { return served(before) })
	if served(after) {
		t.Error("it serves a client of another authority")
	}
	s.write("tls.crt", string(after.Server))
	if !served(before) || served(after) {
		t.Error("with a new certificate and its old key, it does not serve as before")
	}
	s.write("tls.key", string(after.ServerKey))
	s.write("ca.crt", string(after.CA[:len(after.CA)/2]))
	if !served(before) || served(after) {
		t.Error("with half an authority, it does not serve as before")
	}
	s.write("ca.crt", string(after.CA))
	if served(before) || !served(after) {
		t.Error("with a whole new set, it does not serve by that")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child.Process.Pid != process {
		t.Error("it was another process that did")
	}
}

func TestCertificatesMadeForFewerNamesAreTold(t *testing.T) {
	set := must.Get(provider.SelfMade([]string{"localhost", "127.0.0.1"}, time.Now(), time.Hour))(t)
	got := notIn(set.Server, []string{"10.0.0.5", "127.0.0.1", "localhost", "plimsoll.lab"})
	if want := []string{"10.0.0.5", "plimsoll.lab"}; !slices.Equal(got, want) {
		t.Errorf("it lacks %v, want %v", got, want)
	}
	for listen, want := range map[string]bool{"unix:/run/unix": false, "0.0.0.0:1": false, "[::]:1": false, ":1": false, "10.0.0.5:1": true, "plimsoll.lab:1": true} {
		s := &running{&siteFile{service: service{Provider: providerSettings{Listen: listen}}}}
		if hosts := s.hosts(); (len(hosts) == 5) != want {
			t.Errorf("%s: %v", listen, hosts)
		}
	}
}
