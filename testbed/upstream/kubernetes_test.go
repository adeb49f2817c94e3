package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// kubernetes is in for a cluster: a machine that has booted with an agent's configuration becomes a
// node, with the name, the provider id, the labels and the taints of that configuration. Nodes go
// when they are removed, and not when their machines do.
type kubernetes struct {
	clock  func() time.Time
	mu     sync.Mutex
	chance *rand.Rand
	deaf   func(name string) bool // machines that boot and do not become nodes
	// Machines that have booted and wait for their release; nil holds none.
	held map[string]*kubeNode
	free map[string]bool // and those that were released before
	down error           // why nothing can be asked of it
	// What a cloud controller gives to nodes for an id; nil leaves them theirs.
	idOf  func(name string) string
	nodes []kubeNode
	ever  map[string]int // how often a node of a name joined
}

type kubeNode struct {
	pve.Node
	labels map[string]string
	taints []string
}

// joining is how long a machine that has booted takes to become a node.
var joining = timing.Range{Min: 2 * time.Second, Max: 5 * time.Second}

func newKubernetes(seed uint64, clock func() time.Time) *kubernetes {
	return &kubernetes{
		clock: clock, chance: timing.Stream(seed, "kubernetes"), ever: map[string]int{}, deaf: func(string) bool { return false },
	}
}

// agentConfig is what an agent of RKE2 reads.
type agentConfig struct {
	Server  string   `yaml:"server"`
	Token   string   `yaml:"token"`
	Name    string   `yaml:"node-name"`
	Labels  []string `yaml:"node-label"`
	Taints  []string `yaml:"node-taint"`
	Kubelet []string `yaml:"kubelet-arg"`
}

// read finds the agent's configuration in a machine's user-data.
func (a *agentConfig) read(userData []byte) error {
	var config struct {
		Files []struct{ Path, Content string } `yaml:"write_files"`
	}
	if err := yaml.Unmarshal(userData, &config); err != nil {
		return err
	}
	for _, f := range config.Files {
		if f.Path == "/etc/rancher/rke2/config.yaml" {
			return yaml.Unmarshal([]byte(f.Content), a)
		}
	}
	return fmt.Errorf("no configuration of an agent in %.200q", userData)
}

// booted lets a machine join, if its user-data says how.
func (k *kubernetes) booted(b pvesim.Boot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var config agentConfig
	if !bytes.HasPrefix(b.UserData, []byte("#cloud-config\n")) || config.read(b.UserData) != nil || config.Server == "" || config.Token == "" {
		return
	}
	if k.deaf(config.Name) {
		return
	}
	n := kubeNode{labels: map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}, taints: config.Taints}
	n.Name, n.SystemUUID, n.Ready, n.JoinedAt = config.Name, b.UUID, true, b.At.Add(joining.Draw(k.chance))
	for _, arg := range config.Kubelet {
		if id, is := strings.CutPrefix(arg, "provider-id="); is {
			n.ProviderID = id
		}
	}
	for _, label := range config.Labels {
		key, value, _ := strings.Cut(label, "=")
		n.labels[key] = value
	}
	if k.idOf != nil {
		n.ProviderID = k.idOf(n.Name)
	}
	if k.held != nil && !k.free[n.Name] {
		k.held[n.Name] = &n
		return
	}
	k.join(n)
}

func (k *kubernetes) join(n kubeNode) {
	k.nodes = slices.DeleteFunc(k.nodes, func(o kubeNode) bool { return o.Name == n.Name })
	k.nodes = append(k.nodes, n)
	k.ever[n.Name]++
}

// hold lets machines join only when they are released.
func (k *kubernetes) hold() {
	k.held, k.free = map[string]*kubeNode{}, map[string]bool{}
}

// release lets a machine join, now or as soon as it has booted.
func (k *kubernetes) release(name string) {
	now := k.clock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free[name] = true
	if n := k.held[name]; n != nil {
		n.JoinedAt = now
		k.join(*n)
		delete(k.held, name)
	}
}

// joined are the nodes that have joined, the oldest first.
func (k *kubernetes) joined() (all []kubeNode) {
	now := k.clock() // before the lock: the cluster reports boots while it holds its own
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.nodes {
		if !n.JoinedAt.After(now) {
			all = append(all, n)
		}
	}
	return all
}

// list is what the fleet sees.
func (k *kubernetes) list(context.Context) (all []pve.Node, err error) {
	for _, n := range k.joined() {
		all = append(all, n.Node)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return all, k.down
}

// node is the node of a name, nil without one.
func (k *kubernetes) node(name string) *kubeNode {
	for _, n := range k.joined() {
		if n.Name == name {
			return &n
		}
	}
	return nil
}

// remove removes a node object.
func (k *kubernetes) remove(_ context.Context, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down != nil {
		return k.down
	}
	k.nodes = slices.DeleteFunc(k.nodes, func(n kubeNode) bool { return n.Name == name })
	return nil
}

// asked is how cluster-autoscaler names a node that has registered.
func (n *kubeNode) asked() *externalgrpc.ExternalGrpcNode {
	return &externalgrpc.ExternalGrpcNode{ProviderID: n.ProviderID, Name: n.Name, Labels: n.labels}
}

// placeholder is how cluster-autoscaler names a machine that has not registered: with nothing but
// its id.
func placeholder(id string) *externalgrpc.ExternalGrpcNode {
	return &externalgrpc.ExternalGrpcNode{
		ProviderID: id, Name: id, Annotations: map[string]string{"cluster-autoscaler.k8s.io/fake-node-reason": "unregistered"},
	}
}
