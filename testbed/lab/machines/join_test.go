package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const (
	uuid  = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	token = "K10c0ffee::server:it's \"quoted\" #and: [odd]"
)

// profile is one that makes use of everything that a node shows.
func profile(kind firstboot.Kind) firstboot.Profile {
	return firstboot.Profile{
		Kind: kind, Servers: []string{"10.0.0.10"}, Token: token, TopologyLabels: true,
		ProviderID:  firstboot.ProviderID{Scheme: firstboot.SchemeUUID},
		Labels:      map[string]string{"example.com/pool": "web", "empty": ""},
		Taints:      []firstboot.Taint{{Key: "gpu", Effect: "NoExecute"}, {Key: "team", Value: "a", Effect: "NoSchedule"}},
		KubeletArgs: []string{"system-reserved=cpu=200m,memory=256Mi,ephemeral-storage=1Gi", "kube-reserved=cpu=100m", "eviction-hard=nodefs.available<10%,memory.available<200Mi"},
	}
}

// boot is a machine that has booted from a disc of the very code that writes first-boot discs.
func boot(t *testing.T, p firstboot.Profile, change ...func(*firstboot.Machine)) pvesim.Boot {
	t.Helper()
	m := firstboot.Machine{Name: "web-1", Host: "pve2", Region: "home", UUID: uuid, VMID: 5001}
	for _, c := range change {
		c(&m)
	}
	files := must.Get(p.UserData(m))(t)
	return pvesim.Boot{
		VMID: m.VMID, Name: m.Name, Host: m.Host, UUID: m.UUID, Config: map[string]string{"cores": "2", "sockets": "2", "memory": "8192"},
		UserData: files[firstboot.UserData], MetaData: files[firstboot.MetaData], NetworkConfig: files[firstboot.NetworkConfig], At: time.Unix(1_800_000_000, 0),
	}
}

func TestNodesAreAsTheirDiscsSay(t *testing.T) {
	alone, beside := profile(firstboot.RKE2), profile(firstboot.K3s)
	beside.CloudConfig = "#cloud-config\npackages: [htop]\n" // makes a message of parts
	scripted := profile(firstboot.RKE2)
	scripted.Install = firstboot.Install{From: "script", Version: "v1.34.1+rke2r1"}
	for name, p := range map[string]firstboot.Profile{"rke2": alone, "k3s beside an own part": beside, "rke2 by the script": scripted} {
		t.Run(name, func(t *testing.T) {
			b := boot(t, p)
			a := must.Get(readAgent(b.UserData))(t)
			if a.token != token || !strings.HasPrefix(a.server, "https://10.0.0.10:") {
				t.Errorf("it joins %s with %s", a.server, a.token)
			}
			n := must.Get(a.node(&b, "v1.37.1"))(t)
			if diff := cmp.Diff(map[string]string{
				"example.com/pool": "web", "empty": "", "topology.kubernetes.io/region": "home", "topology.kubernetes.io/zone": "pve2",
				"kubernetes.io/hostname": "web-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", lab.KubeletLabel: lab.KubeletLabelValue,
			}, n.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(corev1.NodeSpec{ProviderID: "proxmox://" + uuid, Taints: []corev1.Taint{
				{Key: "gpu", Effect: corev1.TaintEffectNoExecute}, {Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
			}}, n.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			s := n.Status
			got := strings.TrimSpace(fmt.Sprintln(s.Capacity.Cpu(), s.Capacity.Memory(), s.Capacity.Pods(), s.Allocatable.Cpu(), s.Allocatable.Memory(), s.NodeInfo.SystemUUID, s.Addresses))
			if want := "4 8Gi 110 3700m 7736Mi " + uuid + " [{InternalIP 10.99.19.137} {Hostname web-1}]"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// serverData is the user-data of a control plane's machine.
const serverData = `#cloud-config
hostname: control-1
write_files:
- path: /etc/rancher/rke2/config.yaml
  content: |
    token: of-servers
    agent-token: of-agents
    node-name: control-1
    node-taint: [node-role.kubernetes.io/control-plane=true:NoSchedule]
- {path: /var/lib/rancher/rke2/server/manifests/b.yaml, content: second}
- {path: /var/lib/rancher/rke2/server/manifests/a.yaml, encoding: gz+b64, content: H4sIAAAAAAAC/0vLLCouAQBX7nGSBQAAAA==}
- {path: /var/lib/plimsoll/install.sh, content: systemctl enable --now rke2-server}
`

func TestServersStandForTheControlPlane(t *testing.T) {
	client := fake.NewClientset()
	k := newKubelets(client, "", nil)
	var applied []string
	k.apply = func(_ context.Context, text []byte) error { applied = append(applied, string(text)); return nil }
	k.processes = func(n *corev1.Node) bool { return n.Name == "control-1" }
	b := pvesim.Boot{VMID: 5000, Name: "control-1", UUID: "u-1", UserData: []byte(serverData), Config: map[string]string{"cores": "4", "memory": "8192"}}
	p := profile(firstboot.RKE2)
	p.Token = "of-agents"
	agent := boot(t, p)
	if said := acts(t, k, event{boot: &agent}); !strings.Contains(said, "the token is not that of the server") {
		t.Errorf("before the server: %s", said)
	}
	acts(t, k, event{boot: &b}, event{boot: &agent})
	if diff := cmp.Diff([]string{"first", "second"}, applied); diff != "" {
		t.Error(diff)
	}
	n := nodeNamed(t, client, "control-1")
	if n.Labels[kubelet.Label] != kubelet.LabelValue || n.Labels[lab.KubeletLabel] != "" || len(n.Spec.Taints) != 1 {
		t.Errorf("%v %v", n.Labels, n.Spec.Taints)
	}
	if n := nodeNamed(t, client, "web-1"); n.Labels[lab.KubeletLabel] == "" || n.Labels[kubelet.Label] != "" {
		t.Errorf("%v", n.Labels)
	}
	acts(t, k, event{halt: &pvesim.Halt{VMID: b.VMID, UUID: b.UUID, At: b.At}})
	if n := nodeNamed(t, client, "control-1"); n.Labels[kubelet.Label] != "" {
		t.Errorf("while it is off: %v", n.Labels)
	}
	b.UserData = nil
	acts(t, k, event{boot: &b})
	if n := nodeNamed(t, client, "control-1"); n.Labels[kubelet.Label] == "" || n.Labels[lab.KubeletLabel] != "" {
		t.Errorf("when it is on again: %v", n.Labels)
	}
}

func TestServersDoNotJoinALabWithoutRoomForThem(t *testing.T) {
	b := pvesim.Boot{VMID: 5000, Name: "control-1", UUID: "u-1", UserData: []byte(serverData)}
	if said := acts(t, newKubelets(fake.NewClientset(), token, nil), event{boot: &b}); !strings.Contains(said, "the lab has a control plane of its own") {
		t.Error(said)
	}
}

func TestStaticAddressesAreTheNodes(t *testing.T) {
	b := boot(t, profile(firstboot.RKE2), func(m *firstboot.Machine) {
		m.NICs = []firstboot.NIC{{MAC: "bc:24:11:00:00:01", IPv4: "10.0.0.5/24", Gateway4: "10.0.0.1"}}
	})
	a := must.Get(readAgent(b.UserData))(t)
	if n, err := a.node(&b, "v1.37.1"); err != nil || n.Status.Addresses[0].Address != "10.0.0.5" {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestWhatIsNoAgentDoesNotJoin(t *testing.T) {
	config := func(text string) string {
		return "#cloud-config\nhostname: a\nwrite_files:\n- path: /etc/rancher/rke2/config.yaml\n  content: |\n    " +
			strings.ReplaceAll(text, "\n", "\n    ") + "\nruncmd: [[systemctl, enable, --now, rke2-agent]]\n"
	}
	for text, want := range map[string]string{
		"":                              errNotToldToJoin.Error(),
		"#!/bin/sh\necho hello\n":       errNotToldToJoin.Error(),
		"#cloud-config\nhostname: a\n":  errNotToldToJoin.Error(),
		"#cloud-config\nhostname: [a\n": "user-data: yaml: ",
		strings.Replace(config("token: a"), "rke2-agent", "sshd", 1): "user-data: rke2 is configured, but nothing starts it",
		config("node-taint: [a=b]"):                                  `rke2: config.yaml: node-taint: must be KEY=VALUE:EFFECT, with one of [NoSchedule PreferNoSchedule NoExecute], was "a=b"`,
		config("kubelet-arg: system-reserved=cpu=lots"):              `rke2: config.yaml: kubelet-arg: system-reserved: must be a quantity, was "lots"`,
		config("kubelet-arg: eviction-hard=memory.available<5%"):     `rke2: config.yaml: kubelet-arg: eviction-hard: must be a quantity for memory.available, was "5%"`,
	} {
		if _, err := readAgent([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if a, err := readAgent([]byte(config("node-label: one=1\nkubelet-arg: provider-id=x"))); err != nil || a.labels["one"] != "1" || a.providerID != "x" || a.name != "a" {
		t.Errorf("values that are no lists: %+v, %v", a, err)
	}
	if _, err := readAgent(nil); !errors.Is(err, errNotToldToJoin) {
		t.Error(err)
	}
}

func TestKubeletsDoNotReserveMoreThanThereIs(t *testing.T) {
	p := profile(firstboot.RKE2)
	p.KubeletArgs = []string{"system-reserved=cpu=5"}
	b := boot(t, p)
	a := must.Get(readAgent(b.UserData))(t)
	if _, err := a.node(&b, ""); err == nil || err.Error() != "kubelet: 5 is reserved of cpu, and the machine has 4" {
		t.Error(err)
	}
}

// acts lets kubelets act on events, one after the other, and returns what they have logged.
func acts(t *testing.T, k *kubelets, events ...event) string {
	t.Helper()
	var logged strings.Builder
	k.log = log.New(&logged, "", 0)
	for _, e := range events {
		if _, _, err := k.act(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
	return logged.String()
}

func nodeNamed(t *testing.T, client *fake.Clientset, name string) *corev1.Node {
	t.Helper()
	return must.Get(client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{}))(t)
}

func TestNodesFallSilentAndComeBackWithTheirMachines(t *testing.T) {
	client := fake.NewClientset()
	k := newKubelets(client, token, nil)
	b := boot(t, profile(firstboot.RKE2))
	acts(t, k, event{boot: &b})
	acts(t, k, event{halt: &pvesim.Halt{VMID: b.VMID, UUID: uuid, At: b.At}})
	if n := nodeNamed(t, client, "web-1"); n.Labels[lab.KubeletLabel] != "" || n.Annotations[plane.AnnotationHalted] == "" {
		t.Errorf("while it is off: %v %v", n.Labels, n.Annotations)
	}

	again := b
	again.UserData, again.At = nil, b.At.Add(time.Hour) // the disc is gone by now
	again.Config = map[string]string{"cores": "8", "memory": "8192"}
	acts(t, k, event{boot: &again})
	n := nodeNamed(t, client, "web-1")
	if n.Labels[lab.KubeletLabel] == "" || n.Annotations[plane.AnnotationHalted] != "" || n.Status.Capacity.Cpu().Value() != 8 || n.Labels["example.com/pool"] != "web" {
		t.Errorf("when it is on again: %v %v %v", n.Labels, n.Annotations, n.Status.Capacity)
	}

	// Others, who never saw its disc, know it by its node.
	acts(t, newKubelets(client, token, nil), event{halt: &pvesim.Halt{UUID: uuid, At: b.At}}, event{boot: &again})
	if n := nodeNamed(t, client, "web-1"); n.Labels[lab.KubeletLabel] == "" || n.Status.Allocatable.Cpu().MilliValue() != 7700 {
		t.Errorf("after a restart of the part: %v %v", n.Labels, n.Status.Allocatable)
	}
}

func TestMachinesThatMayNotJoinAreLogged(t *testing.T) {
	taken := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
	taken.Status.NodeInfo.SystemUUID = "another"
	for name, c := range map[string]struct {
		nodes  []*corev1.Node
		change func(*pvesim.Boot)
		token  string
		want   string
	}{
		"with another's name": {[]*corev1.Node{taken}, func(*pvesim.Boot) {}, token,
			"VM 5001 (web-1) does not join: node web-1 is that of machine another, and names are not given away\n"},
		"with another token": {nil, func(*pvesim.Boot) {}, "other", "VM 5001 (web-1) does not join: rke2: the token is not that of the server https://10.0.0.10:9345\n"},
		"without a disc":     {nil, func(b *pvesim.Boot) { b.UserData = nil }, token, "VM 5001 (web-1) does not join: " + errNotToldToJoin.Error() + "\n"},
		"without memory":     {nil, func(b *pvesim.Boot) { b.Config["memory"] = "none" }, token, "VM 5001 (web-1) does not join: machine: memory: must be a number of at least 1, was \"none\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			for _, n := range c.nodes {
				if err := client.Tracker().Add(n.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			b := boot(t, profile(firstboot.RKE2))
			c.change(&b)
			if got := acts(t, newKubelets(client, c.token, nil), event{boot: &b}); got != c.want {
				t.Errorf("logged %q, want %q", got, c.want)
			}
			if list, err := client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{}); err != nil || len(list.Items) != len(c.nodes) {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

func TestPodsOfNodesThatAreBackRunAgain(t *testing.T) {
	on := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "web-1"},
			Status: corev1.PodStatus{
				Phase:             phase,
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "NodeNotReady"}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "web", RestartCount: 1}},
			},
		}
	}
	ready := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	client := fake.NewClientset(ready, on("runs", corev1.PodRunning), on("is done", corev1.PodSucceeded))
	k := newKubelets(client, token, log.New(io.Discard, "", 0))
	k.restartPods(context.Background(), "web-1")
	for name, want := range map[string]string{"runs": "True  2", "is done": "False NodeNotReady 1"} {
		p := must.Get(client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{}))(t)
		c := p.Status.Conditions[0]
		if got := fmt.Sprintf("%s %s %d", c.Status, c.Reason, p.Status.ContainerStatuses[0].RestartCount); got != want || len(p.Status.Conditions) != 2 {
			t.Errorf("the pod that %s: %s, want %s", name, got, want)
		}
	}
}

func TestReservedIsWhatPoolsSayOfTheirNodes(t *testing.T) {
	p := &Part{}
	site := p.site("folder", []string{"https://127.0.0.1:8006"}, "AA")
	pool := site.Pools[0]
	pool.Join.Token = token
	b := boot(t, pool.Join)
	b.Config = map[string]string{"cores": "2", "memory": "8192"}
	a := must.Get(readAgent(b.UserData))(t)
	n := must.Get(a.node(&b, ""))(t)
	cpu, memory := n.Status.Capacity.Cpu().MilliValue()-n.Status.Allocatable.Cpu().MilliValue(), n.Status.Capacity.Memory().Value()-n.Status.Allocatable.Memory().Value()
	if cpu != int64(pool.Reserved.CPU) || memory != int64(pool.Reserved.Memory) {
		t.Errorf("the kubelet reserves %dm and %s, the pool says %v", cpu, resource.NewQuantity(memory, resource.BinarySI), pool.Reserved)
	}
}
