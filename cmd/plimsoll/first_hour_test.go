package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// newcomer is a person in their first hour: an emulated Proxmox VE, an emulated API server with a
// control plane of RKE2 and a pod that waits, and an empty folder.
type newcomer struct {
	*testing.T
	sim      *pvesim.Cluster
	api      *kubesim.Server
	folder   string
	endpoint string
	print    string // of the host's certificate
}

const waitingPod = `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: c, resources: {requests: {cpu: "1", memory: 1Gi}}}]},
  status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`

const controlPlane = `{apiVersion: v1, kind: Node, metadata: {name: cp-1, labels: {node-role.kubernetes.io/control-plane: "true"}},
  spec: {taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]},
  status: {addresses: [{type: InternalIP, address: 10.0.0.2}], nodeInfo: {kubeletVersion: v1.34.1+rke2r1, osImage: Debian GNU/Linux 13},
    conditions: [{type: Ready, status: "True"}], allocatable: {cpu: "2", memory: 4Gi, pods: "110"}}}`

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	const gib = int64(1) << 30
	seconds := func(from, to int) timing.Range {
		return timing.Range{Min: time.Duration(from) * time.Second, Max: time.Duration(to) * time.Second}
	}
	n := &newcomer{T: t, folder: t.TempDir()}
	n.sim = must.Get(pvesim.New(pvesim.Config{
		Seed: 1, Name: "home", Speed: 20, Start: time.Now(),
		Hosts: []pvesim.Host{{Name: "pve1", CPUs: 16, Memory: 64 * gib}},
		Storages: []pvesim.Storage{
			{Name: "local", Type: "dir", Content: []string{"iso"}, Total: 100 * gib},
			{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}, Total: 500 * gib},
		},
		VMs:   []pvesim.VM{{ID: 9000, Host: "pve1", Template: true, Storage: "local-lvm", Disk: 10 * gib, Config: map[string]string{"name": "golden", "agent": "1"}}},
		Times: timing.Machine{Clone: seconds(4, 8), Boot: seconds(10, 20), Delete: seconds(2, 4)},
	}))(t)
	t.Cleanup(n.sim.Close)
	certificate, print, err := pvesim.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	door := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = door.Close() })
	go func() { _ = n.sim.Serve(door, "pve1", &tls.Config{Certificates: []tls.Certificate{certificate}}) }()
	n.endpoint, n.print = "https://"+door.Addr().String(), print
	n.serve()
	n.sim.OnBoot(n.joins)
	return n
}

// serve serves the Kubernetes API, and writes the kubeconfig.
func (n *newcomer) serve() {
	var kinds []kubesim.Kind
	for kind, resource := range map[string]string{v1alpha1.KindWorkloadAutoscaler: "workloadautoscalers", v1alpha1.KindVMPool: "vmpools", v1alpha1.KindPriceBook: "pricebooks"} {
		kinds = append(kinds, kubesim.Kind{
			Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Name: kind, Resource: resource,
			ClusterWide: kind != v1alpha1.KindWorkloadAutoscaler, Status: true, Custom: true,
		})
	}
	n.api = kubesim.New(1, kinds...)
	for _, o := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}`, `{apiVersion: v1, kind: Namespace, metadata: {name: plimsoll}}`, controlPlane, waitingPod,
	} {
		n.apply(o)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: "kubesim"})
			n.inJSON(r.Out)
		},
		Transport: n.api.Client("plimsoll", nil), FlushInterval: -1,
	})
	n.Cleanup(front.Close)
	n.write("config", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, users: [{name: x, user: {}}],
 contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, front.URL))
}

// inJSON rewrites a request in protobuf, which the emulated server does not read.
func (n *newcomer) inJSON(r *http.Request) {
	const proto = "application/vnd.kubernetes.protobuf"
	if r.Header.Get("Content-Type") != proto {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		n.Errorf("%s %s: %v", r.Method, r.URL, err)
		return
	}
	text := must.Get(json.Marshal(o))(n.T)
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
}

// apply is kubectl apply.
func (n *newcomer) apply(manifest string) {
	n.Helper()
	if err := n.api.Apply(manifest); err != nil {
		n.Fatalf("%v: %s", err, manifest)
	}
}

// joins makes a machine that has booted a node, as its join profile does.
func (n *newcomer) joins(b pvesim.Boot) {
	n.apply(fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s}, spec: {providerID: "rke2://%[1]s"},
  status: {nodeInfo: {kubeletVersion: v1.34.1+rke2r1, systemUUID: %s}, allocatable: {cpu: "2", memory: 3Gi, pods: "110"},
    conditions: [{type: Ready, status: "True", lastTransitionTime: %q}]}}`, b.Name, b.UUID, time.Now().UTC().Format(time.RFC3339)))
}

func (n *newcomer) write(name, text string) {
	n.Helper()
	if err := os.WriteFile(filepath.Join(n.folder, name), []byte(text), 0o600); err != nil {
		n.Fatal(err)
	}
}

func (n *newcomer) read(name string) string {
	n.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(n.folder, name)))(n.T))
}

// plimsoll runs the program, and returns what it prints.
func (n *newcomer) plimsoll(args ...string) string {
	n.Helper()
	cmd := exec.Command("plimsoll", args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.folder, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		n.Fatalf("plimsoll %s: %v\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// root runs commands on a host, and returns the token that they show.
func (n *newcomer) root(commands string) (token string) {
	n.Helper()
	shell := n.sim.Console()
	for line := range strings.Lines(commands) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			if err := shell.Run(line); err != nil {
				n.Fatalf("%s: %v", line, err)
			}
		}
	}
	for _, shown := range shell.Tokens {
		token = shown
	}
	return token
}

// pool is the pool as the API server has it.
func (n *newcomer) pool() (p v1alpha1.VMPool) {
	n.Helper()
	text := must.Get(yaml.Marshal(n.api.Get("vmpools.plimsoll.dev", "workers")))(n.T)
	if err := yaml.Unmarshal(text, &p); err != nil {
		n.Fatal(err)
	}
	return p
}

// run runs the program until something is so, and stops it as a pod is.
func (n *newcomer) run(what string, so func() bool) {
	n.Helper()
	said := must.Get(os.Create(filepath.Join(n.folder, "log")))(n.T)
	defer func() { _ = said.Close() }()
	cmd := exec.Command("plimsoll", "run", "--components", "podscaler,nodescaler", "--config", "plimsoll.yaml")
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.folder, said, said
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		n.Logf("plimsoll run ended: %v", <-ended)
	}()
	for end := time.Now().Add(3 * time.Minute); !so(); {
		if time.Now().After(end) || len(ended) > 0 {
			n.Fatalf("it is not so that %s; its status: %+v\n%s", what, n.pool().Status, n.read("log"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// made are the machines on Proxmox VE besides the template.
func (n *newcomer) made() int { return len(n.sim.Inventory().VMs) - 1 }

// From an empty folder to a node, by the commands of docs/get-started.md,
// docs/tasks/connect-proxmox.md and docs/install.md: what stops a person here stops this test.
func TestTheFirstHour(t *testing.T) {
	race.Skip(t)
	n := newNewcomer(t)
	n.write("reader", n.root("pveum user token add root@pam init --privsep 1\npveum acl modify / --tokens 'root@pam!init' --roles PVEAuditor"))
	n.plimsoll("init", "--endpoint", n.endpoint, "--fingerprint", n.print, "--token-file", "reader", "--kubeconfig", "config")

	n.write("token", n.root(n.plimsoll("pve", "setup", "--config", "plimsoll.yaml", "--pools", "vmpools.yaml", "--storage", "local-lvm")))
	n.write("join-token", "K10c0ffee::node:s3cret")
	checked := n.plimsoll("doctor", "--config", "plimsoll.yaml", "--pools", "vmpools.yaml", "--kubeconfig", "config")
	if !strings.Contains(checked, " 0 failed") {
		t.Errorf("the doctor says:\n%s", checked)
	}
	plan := n.plimsoll("plan", "--config", "plimsoll.yaml", "--pools", "vmpools.yaml", "--prices", "pricebook.yaml", "--kubeconfig", "config")
	if !strings.Contains(plan, "buy: ") {
		t.Errorf("no machine is planned:\n%s", plan)
	}

	// Installed, it recommends and makes nothing. Outside of a pod it has a kubeconfig and a
	// folder.
	for _, file := range []string{"vmpools.yaml", "pricebook.yaml"} {
		n.apply(n.read(file))
	}
	n.write("plimsoll.yaml", n.read("plimsoll.yaml")+fmt.Sprintf("\nkubeconfig: config\nstate: state\nnamespace: plimsoll\ninterval: 1s\nmetrics: %s\n", freeAddress(t)))
	n.run("the pool says what it would do", func() bool {
		plan := n.pool().Status.LastPlan
		return plan != nil && strings.Contains(fmt.Sprintf("%+v", *plan), "Buy")
	})
	if n.made() != 0 {
		t.Fatalf("in mode Recommend %d machines were made", n.made())
	}

	// When they agree, they set mode: Active, in the pool and in the release.
	n.api.Change("vmpools.plimsoll.dev", "workers", func(raw map[string]any) { raw["spec"].(map[string]any)["mode"] = "Active" })
	n.write("plimsoll.yaml", n.read("plimsoll.yaml")+"mode: Active\n")
	n.run("a machine is a node", func() bool { m := n.pool().Status.Machines; return m != nil && m.Joined > 0 })
}
