//go:build guest

package realnode

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/guests"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var accel = flag.String("accel", "", "kvm or tcg; without it, KVM is tried")

// token is what machines join with, and secret the half of it that must not be read.
const (
	secret = "s3cr3tjointoken0"
	token  = "abcdef." + secret
)

// apiName is a name that the API server's certificate has. Guests reach this computer's loopback at
// their gateway's address.
const apiName = "kubernetes"

// ownData lets a guest know where that is, before it joins.
const ownData = "#cloud-config\nruncmd:\n- [sh, -c, \"echo $(ip -4 route show default | cut -d' ' -f3) " + apiName + " >> /etc/hosts\"]\n"

// site is what is peculiar to a world.
type site struct {
	settings map[string]any       // of Plimsoll's own
	pool     func(*settings.Pool) // changes the pool
	offline  bool                 // machines reach nothing
}

// world is a lab whose machines boot.
type world struct {
	*testing.T
	site
	began    time.Time
	data     string
	lab      *lab.Lab
	pve      *machines.Part
	machines *guests.Machines
	client   kubernetes.Interface
	shell    *guests.Shell
	kubeadm  string
}

// newWorld brings up a lab with a pool of one machine.
func newWorld(t *testing.T, s site) *world {
	t.Helper()
	if missing := guests.Missing(); len(missing) > 0 {
		t.Skipf("NOT TRIED: %s not found; install qemu-system-x86 and qemu-utils", strings.Join(missing, ", "))
	}
	w := &world{T: t, site: s, data: t.ArtifactDir()}
	program := labtest.Program(t)
	box := lab.Toolbox{Progress: func(line string) { t.Log(line) }}
	kubelet := must.Get(box.Path(t.Context(), lab.ToolKubelet))(t)
	w.kubeadm = must.Get(box.Path(t.Context(), lab.ToolKubeadm))(t)
	image := template(t, program, kubelet, w.kubeadm)
	w.machines = must.Get(guests.New(t.Context(), guests.Config{Image: image, Accel: *accel, Online: !s.offline, Say: func(line string) { t.Log(line) }}))(t)
	t.Cleanup(w.machines.Close)
	own := map[string]any{"mode": "Active", "interval": "1s"}
	maps.Copy(own, s.settings)
	second := timing.Range{Min: time.Second, Max: time.Second}
	w.pve = &machines.Part{Hosts: 1, Seed: 1, Guests: w.machines, Times: timing.Machine{Clone: second, Boot: second, Delete: second}, Site: w.describe}
	w.lab = labtest.Up(t, lab.Config{
		Data: w.data,
		ControlPlane: lab.ControlPlane{
			APIServerArgs:         []string{"--enable-bootstrap-token-auth=true"},
			ControllerManagerArgs: []string{"--controllers=*,bootstrap-signer-controller,token-cleaner-controller", "--node-monitor-grace-period=20s"},
		},
		Parts: []lab.Part{w.pve, &product.Part{Program: program, PVE: w.pve, Settings: own}},
	})
	t.Cleanup(w.consoles)
	w.client = kubernetes.NewForConfigOrDie(w.lab.REST())
	w.shell = guests.NewShell(w.pve.Cluster())
	w.letsJoin()
	for _, pool := range must.Get(product.Pools(w.pve))(t) {
		w.create(string(must.Get(yaml.Marshal(pool))(t)))
	}
	w.create(`{apiVersion: plimsoll.dev/v1alpha1, kind: PriceBook, metadata: {name: default}, spec: {currency: EUR, pricePerVCPUHour: "0.01", pricePerGiBHour: "0.002"}}`)
	w.began = time.Now()
	return w
}

// consoles logs what machines printed last when a test has failed.
func (w *world) consoles() {
	if !w.Failed() {
		return
	}
	for _, vm := range w.vms() {
		if text, err := os.ReadFile(w.machines.Console(vm.ID)); err == nil {
			w.Logf("the console of %d:\n%s", vm.ID, text[max(0, len(text)-6000):])
		}
	}
}

// api is the API server's port, and its authority.
func (w *world) api() (port string, authority *x509.Certificate) {
	cfg := must.Get(clientcmd.BuildConfigFromFlags("", filepath.Join(w.data, lab.ControlPlanePart, "admin.kubeconfig")))(w)
	block, _ := pem.Decode(cfg.CAData)
	return must.Get(url.Parse(cfg.Host))(w).Port(), must.Get(x509.ParseCertificate(block.Bytes))(w)
}

// describe says how machines join: by kubeadm.
func (w *world) describe(s *settings.Site) {
	port, authority := w.api()
	hash := fmt.Sprintf("sha256:%x", sha256.Sum256(authority.RawSubjectPublicKeyInfo))
	file := func(name, text string) string {
		name = filepath.Join(w.data, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			w.Fatal(err)
		}
		return name
	}
	p := &s.Pools[0]
	p.Max, p.Shapes = 1, []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 2 * pricing.GiB, Disk: 20 * pricing.GiB}}
	p.Labels, p.Taints = map[string]string{"lab.plimsoll.dev/real": "yes"}, []settings.Taint{{Key: "lab.plimsoll.dev/real", Value: "yes", Effect: "NoSchedule"}}
	p.Join = firstboot.Profile{
		Kind: firstboot.Kubeadm, Servers: []string{apiName + ":" + port}, TokenFile: file("bootstrap-token", token+"\n"), CACertHashes: []string{hash},
		ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeUUID}, TopologyLabels: true, KubeletArgs: []string{"system-reserved=cpu=200m"},
		User: "ops", CloudConfigFile: file("own-data", ownData),
	}
	if w.pool != nil {
		w.pool(p)
	}
}

const initConfiguration = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: %s, ttl: 1h, usages: [signing, authentication], groups: ["system:bootstrappers:kubeadm:default-node-token"]}]
localAPIEndpoint: {advertiseAddress: 192.0.2.1}
nodeRegistration: {name: lab, criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
controlPlaneEndpoint: %s:%s
networking: {serviceSubnet: 10.96.0.0/16}
`

// letsJoin has kubeadm make what its other half reads, and its rights.
func (w *world) letsJoin() {
	w.Helper()
	port, _ := w.api()
	version := must.Get(w.client.Discovery().ServerVersion())(w).GitVersion
	config := filepath.Join(w.data, "kubeadm.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, initConfiguration, token, version, apiName, port), 0o600); err != nil {
		w.Fatal(err)
	}
	for _, phase := range [][]string{{"upload-config", "all"}, {"bootstrap-token", "--skip-token-print"}} {
		args := append([]string{"init", "phase"}, phase...)
		run(w.T, exec.CommandContext(w.Context(), w.kubeadm, append(args, "--config", config, "--kubeconfig", w.lab.Kubeconfig())...))
	}
	published := w.client.CoreV1().ConfigMaps("kube-public")
	info := must.Get(published.Get(w.Context(), "cluster-info", metav1.GetOptions{}))(w)
	seen := strings.ReplaceAll(info.Data["kubeconfig"], "127.0.0.1", apiName)
	patch := must.Get(json.Marshal(map[string]any{"data": map[string]string{"kubeconfig": seen}}))(w)
	must.Get(published.Patch(w.Context(), info.Name, types.MergePatchType, patch, metav1.PatchOptions{}))(w)
}

func (w *world) create(manifest string) {
	w.Helper()
	if err := w.lab.Create(w.Context(), []byte(manifest)); err != nil {
		w.Fatal(err)
	}
}

// until waits for something, and says when it was so.
func (w *world) until(what string, limit time.Duration, so func() bool) time.Time {
	w.Helper()
	for end := time.Now().Add(limit); !so(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("not after %s: %s", limit, what)
		}
	}
	w.Logf("%6.1f s: %s", time.Since(w.began).Seconds(), what)
	return time.Now()
}

// vms are the machines.
func (w *world) vms() []pvesim.VMState {
	return slices.DeleteFunc(w.pve.Cluster().Inventory().VMs, func(v pvesim.VMState) bool { return v.ID < 5000 || v.ID > 5199 })
}

func (w *world) nodes() []corev1.Node {
	return must.Get(w.client.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{}))(w).Items
}

func (w *world) pods() []corev1.Pod {
	return must.Get(w.client.CoreV1().Pods(metav1.NamespaceDefault).List(w.Context(), metav1.ListOptions{}))(w).Items
}

// answers reports whether a guest's agent does.
func (w *world) answers(id int) bool {
	return w.shell.Call(w.Context(), http.MethodPost, id, "agent/ping", nil, nil) == nil
}

// inside runs a line of sh in a guest, and returns what it printed and how it ended.
func (w *world) inside(id int, line string) (out string, code int) {
	w.Helper()
	out, code, err := w.shell.Run(w.Context(), id, "/bin/sh", "-c", line)
	if err != nil {
		w.Fatal(err)
	}
	return out, code
}
