package rke2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
)

// imitation is a cluster whose nodes are the machines of an emulated Proxmox VE. They follow their
// user-data as far as that makes a node of them: what cloud-init could not read, or RKE2 would not
// take, makes no node.
type imitation struct {
	sim *pvesim.Cluster

	mu      sync.Mutex
	serving string              // the control plane's machine while it runs
	token   string              // that agents need
	nodes   map[string]pve.Node // that have joined, or will at their time
	discs   []PlannedDisc       // that machines have booted with, each once
	wrong   []error             // why machines did not join
}

func imitate(sim *pvesim.Cluster) *imitation {
	i := &imitation{sim: sim, nodes: map[string]pve.Node{}}
	sim.OnBoot(i.booted)
	sim.OnHalt(i.halted)
	return i
}

// joins is how long a machine that has booted takes to become a node.
const joins = 20 * time.Second

// booted lets a machine do what its disc says.
func (i *imitation) booted(b pvesim.Boot) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.join(&b); err != nil {
		i.wrong = append(i.wrong, fmt.Errorf("%s: %w", b.Name, err))
	}
}

// join reads a machine's disc and makes the node of it.
func (i *imitation) join(b *pvesim.Boot) error {
	doc, err := readCloudConfig(b.UserData)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(i.discs, func(d PlannedDisc) bool { return d.Machine == doc.Hostname }) {
		d, err := discOf(b, doc)
		if err != nil {
			return err
		}
		i.discs = append(i.discs, d)
	}
	at := slices.IndexFunc(doc.Files, func(f guestFile) bool { return f.Path == configFile })
	if at < 0 {
		return fmt.Errorf("there is no %s", configFile)
	}
	var c struct {
		Server     string
		Token      string
		AgentToken string   `yaml:"agent-token"`
		Name       string   `yaml:"node-name"`
		Kubelet    []string `yaml:"kubelet-arg"`
	}
	if err := yaml.Unmarshal([]byte(doc.Files[at].Content), &c); err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	switch {
	case c.Name != b.Name || doc.Hostname != b.Name:
		return fmt.Errorf("it is configured as %q, with the host name %q", c.Name, doc.Hostname)
	case c.Server == "":
		i.serving, i.token = b.Name, c.AgentToken
	case i.serving == "" || c.Token != i.token:
		return fmt.Errorf("%s refuses that token", c.Server)
	}
	n := pve.Node{Name: b.Name, SystemUUID: b.UUID, Ready: true, JoinedAt: b.At.Add(joins)}
	for _, arg := range c.Kubelet {
		if id, found := strings.CutPrefix(arg, "provider-id="); found {
			n.ProviderID = id
		}
	}
	i.nodes[b.Name] = n
	return nil
}

// readCloudConfig is what cloud-init reads of user-data: one document, or several of which the
// later ones' commands are put before those of the first.
func readCloudConfig(data []byte) (*cloudConfig, error) {
	parts, err := machines.CloudConfigs(data)
	if err != nil {
		return nil, fmt.Errorf("user-data: %w", err)
	}
	var whole cloudConfig
	for i, part := range parts {
		var doc cloudConfig
		d := yaml.NewDecoder(bytes.NewReader(part))
		d.KnownFields(true)
		if err := d.Decode(&doc); err != nil {
			return nil, fmt.Errorf("user-data: part %d: %w", i+1, err)
		}
		if i > 0 {
			doc.Run = append(doc.Run, whole.Run...)
			whole.Run = doc.Run
			continue
		}
		whole = doc
	}
	return &whole, nil
}

// halted takes a machine out of the cluster. Without the control plane nodes are not seen.
func (i *imitation) halted(h pvesim.Halt) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.nodes, h.Name)
	if h.Name == i.serving {
		i.serving = ""
	}
}

// Nodes are those that have joined by now.
func (i *imitation) Nodes(context.Context) ([]pve.Node, error) {
	now := i.sim.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.serving == "" || i.nodes[i.serving].JoinedAt.After(now) {
		return nil, errors.New("the API server does not answer")
	}
	var all []pve.Node
	for _, n := range i.nodes {
		if !n.JoinedAt.After(now) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b pve.Node) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
