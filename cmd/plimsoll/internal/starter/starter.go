// Package starter proposes the first files of an installation from what Proxmox VE and the
// Kubernetes cluster have. It is pure: others read, ask and write.
package starter

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
)

// Seen is what was read of Proxmox VE and of the Kubernetes cluster.
type Seen struct {
	Name      string // of the Proxmox VE cluster; empty for a single host
	Release   string
	Hosts     []Host
	Storages  []Storage
	Bridges   []string          // that every host has
	Zones     map[string]string // of those that are VNets, as far as they are seen
	Templates []Template
	VMIDs     []int // that are taken
	Nodes     []Node
	Kubeadm   bool     // it made the cluster
	APIServer string   // that nodes join through; empty where it was not seen
	CAHashes  []string // of the cluster's authorities
}

// Host is a host of Proxmox VE. What is not known of its size is 0.
type Host struct {
	Name   string
	CPUs   int
	Memory pricing.Bytes
}

// Storage is a storage that at least one host sees.
type Storage struct {
	Name, Type string
	Shared     bool
	Content    []string
	Hosts      []string // that can use it; none of one that is disabled
}

// Template is a template and what its machines would have from it.
type Template struct {
	VMID    int
	Name    string
	Host    string
	Storage string
	Disk    pricing.Bytes
	Bridge  string
	VLAN    string
	CPU     string
	Agent   bool
}

// Node is a node of the Kubernetes cluster.
type Node struct {
	Name, Version, OS, Address, ProviderID string
	ControlPlane                           bool
}

// Question is a choice. Its first option is what is proposed.
type Question struct {
	Key     string // the flag that answers it
	Text    string
	Options []string
}

// Proposal is what the files say, with the reasons.
type Proposal struct {
	Seen
	Endpoints, Fingerprints []string
	CA                      []byte // that vouches for the hosts, in place of Fingerprints
	Owner                   string

	Template Template
	ByHost   []Template // on local storage: one for each host
	Pinned   string     // the only host that can clone the template
	Full     bool
	Bridge   string
	ISO      Storage
	First    int // VMID
	Last     int
	Max      int
	Shapes   []Shape
	CPUType  string // empty: the template's
	Join     Join

	Currency, PerKWh, Watts string
}

// Shape is a size of machines.
type Shape struct {
	Name                 string
	CPU, MemoryGiB, Disk int
}

// Join is how machines become nodes.
type Join struct {
	Kind     string
	Why      string
	Servers  []string
	CAHashes []string // for kubeadm
	Scheme   string
	Region   string
	Version  string // that is installed by the script; empty where nothing is
}

// Propose makes the choices. Of several options the ask function returns one.
func (p *Proposal) Propose(ask func(Question) (string, error)) error {
	if err := p.template(ask); err != nil {
		return err
	}
	if err := p.network(ask); err != nil {
		return err
	}
	if err := p.disc(ask); err != nil {
		return err
	}
	p.sizes()
	p.First, p.Last = freeRange(p.VMIDs, max(100, 2*p.Max))
	if p.CPUType = ""; p.Template.CPU == "" || strings.HasPrefix(p.Template.CPU, "kvm") || strings.HasPrefix(p.Template.CPU, "qemu") {
		p.CPUType = "x86-64-v2-AES"
	}
	return p.join(ask)
}

// Owner is the name of a cluster as the name of an installation; home where that cannot be.
func Owner(cluster string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789_-+.", r) {
			return r
		}
		return -1
	}, strings.ToLower(cluster))
	return cmp.Or(name[:min(len(name), 32)], "home")
}

// ErrNoTemplate is that there is nothing to clone.
var ErrNoTemplate = errors.New("there is no template on Proxmox VE that the token sees: make one, or give the token VM.Audit on /vms")

// Runs is the kind of cluster that the nodes run, rke2 where there are none.
func (s *Seen) Runs() string {
	if len(s.Nodes) == 0 {
		return "rke2"
	}
	for _, k := range kinds {
		if k.is(s) {
			return k.kind
		}
	}
	return "custom"
}

// DiskStorage is where a template's disk would go: on a shared storage, if there is one.
func (s *Seen) DiskStorage() string {
	found := ""
	for _, o := range s.Storages {
		if slices.Contains(o.Content, "images") && len(o.Hosts) > 0 && (found == "" || o.Shared) {
			found = o.Name
			if o.Shared {
				break
			}
		}
	}
	return cmp.Or(found, "STORAGE")
}

// template chooses what is cloned. Templates of one name on hosts' own storages are one.
func (p *Proposal) template(ask func(Question) (string, error)) error {
	if len(p.Templates) == 0 {
		return ErrNoTemplate
	}
	slices.SortFunc(p.Templates, func(a, b Template) int { return a.VMID - b.VMID })
	q := Question{Key: "template", Text: "Template to clone"}
	for _, t := range p.Templates {
		q.Options = append(q.Options, fmt.Sprint(t.VMID))
	}
	chosen, err := ask(q)
	if err != nil {
		return err
	}
	p.Template = p.Templates[slices.Index(q.Options, chosen)]
	store := p.storage(p.Template.Storage)
	p.Full = slices.Contains([]string{"lvm", "iscsi", "iscsidirect"}, store.Type)
	if store.Shared || len(p.Hosts) == 1 {
		return nil
	}
	for _, t := range p.nearest() {
		taken := slices.ContainsFunc(p.ByHost, func(o Template) bool { return o.Host == t.Host })
		if t.Name == p.Template.Name && !taken && !p.storage(t.Storage).Shared {
			p.ByHost = append(p.ByHost, t)
		}
	}
	if len(p.ByHost) < 2 {
		p.ByHost, p.Pinned = nil, p.Template.Host
	}
	slices.SortFunc(p.ByHost, func(a, b Template) int { return cmp.Compare(a.Host, b.Host) })
	return nil
}

// nearest are the templates by their VMIDs: the chosen one, those above it, and those below it,
// which may be older.
func (p *Proposal) nearest() []Template {
	away := func(t Template) int { return max(t.VMID-p.Template.VMID, p.Template.VMID-t.VMID) }
	return slices.SortedFunc(slices.Values(p.Templates), func(a, b Template) int {
		older := cmp.Compare(rank(a.VMID >= p.Template.VMID), rank(b.VMID >= p.Template.VMID))
		return cmp.Or(older, away(a)-away(b))
	})
}

func (p *Proposal) storage(name string) Storage {
	for _, s := range p.Storages {
		if s.Name == name {
			return s
		}
	}
	return Storage{Name: name}
}

// network chooses a bridge: first the template's, if all hosts have it.
func (p *Proposal) network(ask func(Question) (string, error)) error {
	if len(p.Bridges) == 0 {
		return errors.New("there is no bridge that every host has and the token sees: give it Sys.Audit on /nodes and SDN.Audit on /sdn")
	}
	slices.SortStableFunc(p.Bridges, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a == p.Template.Bridge), rank(b == p.Template.Bridge)), cmp.Compare(a, b))
	})
	var err error
	p.Bridge, err = ask(Question{Key: "bridge", Text: "Bridge of the machines", Options: p.Bridges})
	return err
}

// rank puts what is wanted first.
func rank(wanted bool) int {
	if wanted {
		return 0
	}
	return 1
}

// disc chooses where first-boot discs are kept: on a shared storage for ISO images, or on one that
// every host has.
func (p *Proposal) disc(ask func(Question) (string, error)) error {
	var able []Storage
	for _, s := range p.Storages {
		if slices.Contains(s.Content, "iso") && len(s.Hosts) > 0 && (s.Shared || len(s.Hosts) == len(p.Hosts)) {
			able = append(able, s)
		}
	}
	if len(able) == 0 {
		return errors.New("there is no storage with content iso that all hosts have: pvesm set local --content iso,vztmpl,backup")
	}
	slices.SortStableFunc(able, func(a, b Storage) int {
		return cmp.Or(cmp.Compare(rank(a.Shared), rank(b.Shared)), cmp.Compare(a.Name, b.Name))
	})
	q := Question{Key: "iso-storage", Text: "Storage of first-boot discs"}
	for _, s := range able {
		q.Options = append(q.Options, s.Name)
	}
	chosen, err := ask(q)
	if err == nil {
		p.ISO = p.storage(chosen)
	}
	return err
}

// sizes chooses shapes that fit every host beside others, and how many machines there may be:
// as many of the smallest as half of the hosts' memory holds, and at most 10.
func (p *Proposal) sizes() {
	cpus, memory, all := 0, pricing.Bytes(0), pricing.Bytes(0)
	for i, h := range p.Hosts {
		if i == 0 || h.CPUs < cpus {
			cpus = h.CPUs
		}
		if i == 0 || h.Memory < memory {
			memory = h.Memory
		}
		all += h.Memory
	}
	disk := max(20, int((p.Template.Disk+pricing.GiB-1)/pricing.GiB))
	for _, s := range []Shape{{"small", 2, 4, disk}, {"medium", 4, 8, disk}} {
		fits := s.CPU <= cpus && pricing.Bytes(s.MemoryGiB)*pricing.GiB*2 <= memory
		if s.Name == "small" || memory == 0 || fits {
			p.Shapes = append(p.Shapes, s)
		}
	}
	p.Max = 3
	if all > 0 {
		p.Max = min(max(int(all/2/(pricing.Bytes(p.Shapes[0].MemoryGiB)*pricing.GiB)), 1), 10)
	}
}

// freeRange is the first range of so many VMIDs from 5000 on in which none is taken.
func freeRange(taken []int, many int) (first, last int) {
	for first = 5000; ; first += 100 {
		last = first + many - 1
		if !slices.ContainsFunc(taken, func(id int) bool { return first <= id && id <= last }) {
			return first, last
		}
	}
}

// kinds are the ways to join, with what gives them away: the first node, or what kubeadm leaves in
// its clusters.
var kinds = []struct {
	kind string
	is   func(*Seen) bool
}{
	{"rke2", func(s *Seen) bool { return strings.Contains(s.Nodes[0].Version, "+rke2") }},
	{"k3s", func(s *Seen) bool { return strings.Contains(s.Nodes[0].Version, "+k3s") }},
	{"talos", func(s *Seen) bool { return strings.HasPrefix(s.Nodes[0].OS, "Talos") }},
	{"kubeadm", func(s *Seen) bool { return s.Kubeadm }},
	{"custom", func(*Seen) bool { return true }},
}

// ports are those that machines join through.
var ports = map[string]string{"rke2": "9345", "k3s": "6443", "kubeadm": "6443"}

// join chooses how machines join, by what the nodes run.
func (p *Proposal) join(ask func(Question) (string, error)) error {
	slices.SortFunc(p.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a.ControlPlane), rank(b.ControlPlane)), cmp.Compare(a.Name, b.Name))
	})
	q := Question{Key: "join", Text: "How machines join"}
	for _, k := range kinds {
		if len(p.Nodes) > 0 && k.is(&p.Seen) {
			q.Options = append(q.Options, k.kind)
		}
	}
	for _, k := range kinds {
		if !slices.Contains(q.Options, k.kind) {
			q.Options = append(q.Options, k.kind)
		}
	}
	kind, err := ask(q)
	if err != nil {
		return err
	}
	why := "chosen by --join"
	if len(p.Nodes) == 0 && kind == q.Options[0] {
		why = "by --join or by default: no node shows how machines join"
	}
	p.Join = Join{Kind: kind, Scheme: kind, Why: why}
	if kind == "custom" || kind == "kubeadm" {
		p.Join.Scheme = "uuid"
	}
	p.servers()
	if kind == "kubeadm" {
		p.Join.CAHashes = p.CAHashes
	}
	if len(p.Nodes) == 0 {
		return nil
	}
	if first := p.Nodes[0]; kind == q.Options[0] {
		p.Join.Why = fmt.Sprintf("node %s runs %s on %s", first.Name, first.Version, cmp.Or(first.OS, "an unknown system"))
		switch kind {
		case "rke2", "k3s":
			p.Join.Version = first.Version
		case "kubeadm":
			p.Join.Why = "kube-system has kubeadm-config: kubeadm made the cluster"
		}
	}
	p.scheme()
	return nil
}

// NoServer is in place of an address that an administrator must write.
const NoServer = "SERVER"

// servers are the addresses of the control plane. Elsewhere the machine configuration says them.
func (p *Proposal) servers() {
	port, known := ports[p.Join.Kind]
	if !known {
		return
	}
	if p.Join.Kind == "kubeadm" && p.APIServer != "" {
		p.Join.Servers = []string{p.APIServer}
		return
	}
	for _, n := range p.Nodes {
		if n.ControlPlane && n.Address != "" {
			p.Join.Servers = append(p.Join.Servers, net.JoinHostPort(n.Address, port))
		}
	}
	if len(p.Join.Servers) == 0 {
		p.Join.Servers = []string{NoServer}
	}
}

// scheme is that of the nodes' provider ids: whoever sets those sets them on new nodes, too.
func (p *Proposal) scheme() {
	for _, n := range p.Nodes {
		scheme, rest, found := strings.Cut(n.ProviderID, "://")
		region, vmid, numbered := strings.Cut(rest, "/")
		switch {
		case !found:
			continue
		case scheme == "proxmox" && numbered && strings.Trim(vmid, "0123456789") == "":
			p.Join.Scheme, p.Join.Region = "proxmox", region
		case scheme == "proxmox":
			p.Join.Scheme = "uuid"
		case slices.Contains([]string{"rke2", "k3s", "talos"}, scheme):
			p.Join.Scheme = scheme
		default:
			continue
		}
		return
	}
}
