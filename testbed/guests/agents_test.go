//go:build guest

package guests

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// The machine's VMID, and what follows from it: QEMU's network for it, where its gateway is this
// computer.
const (
	agentID      = 5000
	agentNet     = "10.19.136."
	agentGateway = agentNet + "2"
	serverName   = "example.com" // which httptest's certificate has
)

const password = "s3cr3tjoint0ken"

// agentUnit is as both projects have it, but for what a kubelet needs.
const agentUnit = `[Unit]
Wants=network-online.target
After=network-online.target
[Install]
WantedBy=multi-user.target
[Service]
Type=notify
EnvironmentFile=-/etc/default/%%N
EnvironmentFile=-%s
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/%s agent
`

// beside is what the template has beside config.yaml.
const beside = "node-label+: image.example/built=today\nkubelet-arg+: [\"image-gc-high-threshold=80\"]\nnode-external-ip: 192.0.2.7\n"

// installer leaves behind what k3s' own install script does: the program, a unit that is not
// enabled, and an environment with what begins with K3S.
const installer = `#!/bin/sh
set -e
test "$INSTALL_K3S_EXEC $INSTALL_K3S_VERSION $INSTALL_K3S_SKIP_ENABLE" = 'agent v1.34.1+k3s1 true'
unit=/etc/systemd/system/k3s-agent.service
curl -fsSL -o /usr/local/bin/k3s https://%[1]s/k3s
chmod 0755 /usr/local/bin/k3s
touch $unit.env
chmod 0600 $unit.env
sh -c export | while read -r _ v; do echo "$v"; done | grep -E '^(K3S|CONTAINERD)_' > $unit.env
cat > $unit << 'EOF'
%[2]sEOF
`

// agentProgram is the stand-in for an agent.
var agentProgram = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "agent")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", folder+"/", "./agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(folder, "agent"))
})

// agentImage is plimsoll's template, with RKE2's files as its archive has them. k3s comes by a
// script. One image does for both, which need the same packages.
func agentImage(t *testing.T) string {
	t.Helper()
	if missing := Missing(); len(missing) > 0 {
		t.Skipf("NOT TRIED: %s not found; install qemu-system-x86 and qemu-utils", strings.Join(missing, ", "))
	}
	program := filepath.Join(t.TempDir(), "plimsoll")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "github.com/plimsoll/plimsoll/cmd/plimsoll")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("plimsoll: %v\n%s", err, out)
	}
	return Template(t, program, "rke2", filepath.Join(must.Get(os.UserCacheDir())(t), "plimsoll"), &Package{
		Name: "plimsoll-agents",
		Files: map[string][]byte{
			"usr/local/bin/rke2":                               must.Get(agentProgram())(t),
			"usr/local/lib/systemd/system/rke2-agent.service":  fmt.Appendf(nil, agentUnit, "/usr/local/lib/systemd/system/rke2-agent.env", "rke2"),
			"usr/local/lib/systemd/system/rke2-agent.env":      []byte("RKE2_RESOLV_CONF=/run/systemd/resolve/resolv.conf\n"),
			"etc/default/rke2-agent":                           []byte("RKE2_TOKEN=of-the-template\nRKE2_SELINUX=false\n"),
			"etc/rancher/rke2/config.yaml.d/10-template.yaml":  []byte(beside),
			"etc/rancher/k3s/config.yaml.d/10-template.yaml":   []byte(beside),
			"etc/rancher/k3s/config.yaml.d/20-not-read.yaml.x": []byte("node-name: wrong\n"),
		},
	})
}

// understood is what an agent has sent.
type understood struct {
	Name, UUID string
	Settings   map[string][]string
	Registries any
}

// cluster is a server that agents join through, and what else machines fetch.
type cluster struct {
	mu     sync.Mutex
	joined *understood
	server *httptest.Server
	port   string
	token  string
	files  string // where packages are, over HTTP
	debs   string
}

func newCluster(t *testing.T, kind firstboot.Kind) *cluster {
	t.Helper()
	c := &cluster{debs: t.TempDir()}
	mux := http.NewServeMux()
	c.server = httptest.NewTLSServer(mux)
	t.Cleanup(c.server.Close)
	packages := httptest.NewServer(http.FileServer(http.Dir(c.debs)))
	t.Cleanup(packages.Close)
	c.files = "http://" + agentGateway + ":" + must.Get(url.Parse(packages.URL))(t).Port() + "/"
	c.port = must.Get(url.Parse(c.server.URL))(t).Port()
	authority := c.authority()
	c.token = fmt.Sprintf("K10%x::node:%s", sha256.Sum256(authority), password)
	mux.HandleFunc("GET /cacerts", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(authority) })
	mux.HandleFunc("GET /install.sh", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, installer, serverName+":"+c.port, fmt.Sprintf(agentUnit, "/etc/systemd/system/k3s-agent.service.env", "k3s"))
	})
	mux.HandleFunc("GET /k3s", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(must.Get(agentProgram())(t)) })
	mux.HandleFunc("PUT /v1-"+string(kind)+"/node", func(w http.ResponseWriter, r *http.Request) {
		var got understood
		if user, pass, _ := r.BasicAuth(); user != "node" || pass != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.joined = &got
	})
	return c
}

func (c *cluster) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
}

// node is what has joined, or nil.
func (c *cluster) node() *understood {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joined
}

const agentKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsmqjz2QZ1Qe5yY7G5u0YJr4b3mQvZJ5m6l0S1rB2rT ops+night@example"

const mirrors = "mirrors:\n  docker.io:\n    endpoint: [\"https://mirror.example\"]\nconfigs:\n  mirror.example:\n    auth: {username: pull, password: p0ll}\n"

// agentPool is a pool whose machines join as agents, with what is common to both kinds.
func agentPool(c *cluster, kind firstboot.Kind, scheme firstboot.Scheme) settings.Pool {
	p := pool()
	p.Shapes = []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 2 * pricing.GiB, Disk: 10 * pricing.GiB}}
	p.Max, p.VMIDs = 1, placement.VMIDs{First: agentID, Last: agentID}
	p.JoinTimeout, p.ShutdownGrace = nodescaler.Duration(time.Hour), nodescaler.Duration(10*time.Minute)
	p.Labels, p.Taints = map[string]string{"example.com/tier": "web"}, []settings.Taint{{Key: "example.com/only", Value: "web", Effect: "NoSchedule"}}
	p.Join = firstboot.Profile{
		Kind: kind, Servers: []string{serverName + ":" + c.port}, TokenFile: "token", Token: firstboot.Secret(c.token),
		ProviderID: firstboot.ProviderID{Scheme: scheme}, KubeletArgs: []string{"feature-gates=A=true,B=false"},
		RegistriesFile: "registries", Registries: mirrors, SSHKeys: []string{agentKey}, CloudConfigFile: "own",
	}
	return p
}

// hosts lets a guest know where its server is.
const hosts = "- [sh, -c, 'echo " + agentGateway + " " + serverName + " >> /etc/hosts']\n"

// RKE2 is in the template. The machine has an address of its own, a user, a package from a further
// source, and user-data that runs before it joins.
func TestAMachineJoinsAsAnAgentOfRKE2(t *testing.T) {
	t.Log("by emulation this takes five minutes, and the image some minutes more, once")
	c := newCluster(t, firstboot.RKE2)
	(&Package{Name: "plimsoll-extra", Files: map[string][]byte{"usr/share/plimsoll-extra": []byte("installed\n")}}).Offer(t, c.debs)
	p := agentPool(c, firstboot.RKE2, firstboot.SchemeRKE2)
	p.Network = settings.Addressing{
		First: netip.MustParsePrefix(agentNet + "40/24"), Gateway: netip.MustParseAddr(agentGateway),
		Nameservers: []netip.Addr{netip.MustParseAddr(agentNet + "3")}, Search: "lab.example",
	}
	p.Join.User, p.Join.Packages, p.Join.Config = "ops", []string{"plimsoll-extra"}, map[string][]string{"node-ip": {agentNet + "40"}, "debug": {"true"}}
	p.Join.CloudConfig = firstboot.Secret("#cloud-config\napt: {preserve_sources_list: false, sources_list: \"deb [trusted=yes] " + c.files + " ./\\n\"}\n" +
		"write_files: [{path: /etc/own-file, content: \"own\\n\"}]\nruncmd:\n" + hosts + "- [sh, -c, 'systemctl is-active rke2-agent > /etc/own-run; true']\n")
	w, name := joins(t, c, p)
	w.hasUnderstood(c, map[string][]string{
		"server": {"https://example.com:" + c.port}, "token": {c.token}, "node-name": {name}, "node-ip": {agentNet + "40"}, "debug": {"true"},
		"node-external-ip": {"192.0.2.7"}, "selinux": {"false"}, "resolv-conf": {"/run/systemd/resolve/resolv.conf"},
		"node-label":  {"example.com/tier=web", "node.kubernetes.io/instance-type=small", "plimsoll.dev/pool=web", "topology.kubernetes.io/region=home", "image.example/built=today"},
		"node-taint":  {"example.com/only=web:NoSchedule"},
		"kubelet-arg": {"provider-id=rke2://" + name, "feature-gates=A=true,B=false", "image-gc-high-threshold=80"},
	})
	w.looksLike(name, map[string]string{
		"ip -4 -o address show scope global | awk '{print $4}'":           agentNet + "40/24\n",
		"ip -4 route show default | awk '{print $3}'":                     agentGateway + "\n",
		"grep ^[a-z] /run/systemd/resolve/resolv.conf":                    "nameserver " + agentNet + "3\nsearch lab.example\n",
		"cat /etc/own-file /etc/own-run /usr/share/plimsoll-extra":        "own\ninactive\ninstalled\n",
		"stat -c '%a %U' ~ops/.ssh/authorized_keys":                       "600 ops\n",
		"cat ~ops/.ssh/authorized_keys":                                   agentKey + "\n",
		"runuser -u ops -- sudo -n id -un":                                "root\n",
		"stat -c '%a %U' /etc/rancher/rke2/config.yaml":                   "600 root\n",
		"stat -c '%a %U' /etc/rancher/rke2/registries.yaml":               "600 root\n",
		"systemctl is-enabled rke2-agent; systemctl is-active rke2-agent": "enabled\nactive\n",
	})
	w.keepsTheToken("ops")
}

// k3s comes by a script, with an environment. The machine gets its address by DHCP, keeps the
// image's user, and its own user-data is a template.
func TestAMachineJoinsAsAnAgentOfK3s(t *testing.T) {
	t.Log("by emulation this takes five minutes, and the image some minutes more, once")
	c := newCluster(t, firstboot.K3s)
	p := agentPool(c, firstboot.K3s, firstboot.SchemeK3s)
	p.Region = ""
	p.Join.Install = firstboot.Install{
		From: "script", Script: "https://" + serverName + ":" + c.port + "/install.sh", Version: "v1.34.1+k3s1",
		Env: map[string]string{"CURL_CA_BUNDLE": "/etc/authority.pem", "K3S_RESOLV_CONF": "/run/systemd/resolve/resolv.conf", "K3S_NODE_NAME": "it's another"},
	}
	p.Join.CloudConfig = firstboot.Secret("## template: jinja\n#cloud-config\nwrite_files:\n" +
		"- {path: /etc/own-file, content: \"{{ v1.local_hostname }} is {{ ds.meta_data.instance_id }}\\n\"}\n" +
		"- path: /etc/authority.pem\n  content: |\n    " + strings.ReplaceAll(string(bytes.TrimSpace(c.authority())), "\n", "\n    ") + "\nruncmd:\n" + hosts)
	w, name := joins(t, c, p)
	w.hasUnderstood(c, map[string][]string{
		"server": {"https://example.com:" + c.port}, "token": {c.token}, "node-name": {name},
		"node-external-ip": {"192.0.2.7"}, "resolv-conf": {"/run/systemd/resolve/resolv.conf"},
		"node-label":  {"example.com/tier=web", "node.kubernetes.io/instance-type=small", "plimsoll.dev/pool=web", "image.example/built=today"},
		"node-taint":  {"example.com/only=web:NoSchedule"},
		"kubelet-arg": {"provider-id=k3s://" + name, "feature-gates=A=true,B=false", "image-gc-high-threshold=80"},
	})
	w.looksLike(name, map[string]string{
		"ip -4 -o address show scope global | awk '{print $4}'": agentNet + "15/24\n",
		"cat /etc/own-file":                                             name + " is " + name + "\n",
		"cat ~debian/.ssh/authorized_keys":                              agentKey + "\n",
		"stat -c '%a %U' /etc/rancher/k3s/config.yaml":                  "600 root\n",
		"stat -c '%a %U' /etc/rancher/k3s/registries.yaml":              "600 root\n",
		"stat -c '%a %U' /var/lib/plimsoll/join.sh":                     "700 root\n",
		"stat -c '%a %U' /etc/systemd/system/k3s-agent.service.env":     "600 root\n",
		"systemctl is-enabled k3s-agent; systemctl is-active k3s-agent": "enabled\nactive\n",
	})
	w.keepsTheToken("debian")
}

// joins orders a machine, follows it until it has joined, and prints what each phase took.
func joins(t *testing.T, c *cluster, p settings.Pool) (w *world, name string) {
	t.Helper()
	w = newWorld(t, Config{Image: agentImage(t), Online: true}, p)
	w.deaf, w.patience = true, 20*time.Minute
	name, _ = w.begins()
	w.answers(agentID)
	t.Cleanup(func() {
		if t.Failed() {
			out, _, _ := w.shell.Run(context.Background(), agentID, "/bin/sh", "-c", "grep -i -e error -e fail /var/log/cloud-init-output.log; journalctl --no-pager -n 40 -u 'rke2*' -u 'k3s*'")
			w.Logf("inside:\n%s", out)
		}
	})
	w.until("its agent has joined", func() bool { return c.node() != nil })
	got := c.node()
	id, _ := strings.CutPrefix(got.Settings["kubelet-arg"][0], "provider-id=")
	w.mu.Lock()
	w.nodes = []pve.Node{{Name: got.Name, ProviderID: id, SystemUUID: got.UUID, Ready: true, JoinedAt: time.Now()}}
	w.mu.Unlock()
	w.until("the machine is Joined", func() bool { m := w.machine(name); return m != nil && m.Phase == nodescaler.Joined })
	w.until("cloud-init has ended", func() bool { return w.sh("cloud-init status | head -n 1") != "status: running\n" })
	return w, name
}

// sh runs a line of sh in the guest, and returns what it printed, regardless of how it ended.
func (w *world) sh(line string) string {
	w.Helper()
	out, code, err := w.shell.Run(w.Context(), agentID, "/bin/sh", "-c", line)
	if err != nil {
		w.Fatal(err)
	}
	if code != 0 {
		out += fmt.Sprintf("ended with %d\n", code)
	}
	return out
}

// hasUnderstood compares what the agent sent with what the pool asked for.
func (w *world) hasUnderstood(c *cluster, want map[string][]string) {
	w.Helper()
	got := c.node()
	if diff := cmp.Diff(want, got.Settings); diff != "" {
		w.Errorf("the agent's settings (-want +got):\n%s", diff)
	}
	registries := map[string]any{
		"mirrors": map[string]any{"docker.io": map[string]any{"endpoint": []any{"https://mirror.example"}}},
		"configs": map[string]any{"mirror.example": map[string]any{"auth": map[string]any{"Username": "pull", "Password": "p0ll", "Auth": ""}}},
	}
	if diff := cmp.Diff(any(registries), got.Registries); diff != "" {
		w.Errorf("the agent's registries (-want +got):\n%s", diff)
	}
}

// looksLike compares what lines of sh print in the guest, with those that are for every guest.
func (w *world) looksLike(name string, want map[string]string) {
	w.Helper()
	lines := map[string]string{
		"hostname":                               name + "\n",
		"getent hosts " + name + " | tr -s ' '":  "127.0.1.1 " + name + " " + name + "\n",
		"cloud-init status --long > /run/status": "",
		// What netplan has to say of gateway4 goes to the log alone.
		"cloud-init schema --system > /run/schema 2> /run/said || exit; sed -n -e 's/^ *Valid schema //p' -e /deprecations/p /run/schema": "user-data\nnetwork-config\n",
		"! grep copy: /etc/apt/sources.list":             "", // the package's own
		"systemctl list-units --failed --no-legend":      "",
		"df --output=size -BG / | tail -n 1 | tr -d ' '": "10G\n",
	}
	maps.Copy(lines, want)
	for line, want := range lines {
		if got := w.sh(line); got != want {
			w.Errorf("%s prints %q, want %q", line, got, want)
		}
	}
	for _, line := range []string{"cloud-init status --long", "cloud-init schema --system", "systemd-analyze time"} {
		w.Logf("%s:\n%s", line, w.sh(line+" 2>&1"))
	}
	w.step("what it is like inside is compared")
}

// keepsTheToken sees that the disc is gone, and that no one but root can read the token.
func (w *world) keepsTheToken(user string) {
	w.Helper()
	w.until("the disc is taken out, for it has joined", func() bool {
		return strings.HasSuffix(w.sh("dd if=/dev/sr0 of=/dev/null count=1 2> /dev/null"), "ended with 1\n")
	})
	for _, v := range w.sim.Inventory().VMs {
		if strings.Contains(v.Config["ide2"], ".iso") {
			w.Errorf("the drive of %d has %s", v.ID, v.Config["ide2"])
		}
	}
	for user, files := range must.Get(w.shell.Finds(w.Context(), agentID, password, "root", "nobody", user))(w) {
		if w.Logf("%s finds the token in\n%s", user, files); user != "root" && files != "" {
			w.Errorf("%s reads the token in\n%s", user, files)
		}
	}
	w.step("who can read the token is seen")
}
