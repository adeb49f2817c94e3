package settings

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
)

// Pool is a kind of machine and how it is made, as operators write it. What may be omitted has
// the meaning that its comment gives; Complete fills it in.
type Pool struct {
	// At is what the pool's keys lie in for the reader who is to fix them; empty is its place among
	// the file's pools.
	At string `json:"-"`
	// Name begins the name of every machine: web makes web-mtim7pc0-0.
	Name   string          `json:"name" strict:"required"`
	Shapes []pricing.Shape `json:"shapes" strict:"required"`
	Min    int             `json:"min,omitempty"`
	Max    int             `json:"max" strict:"required"`

	Template placement.Template `json:"template" strict:"required"`
	// Clone is empty for Linked.
	Clone placement.CloneMode `json:"clone,omitempty"`
	// Storage and Format are where and as what full clones are kept; empty is as the template.
	Storage string `json:"storage,omitempty"`
	Format  string `json:"format,omitempty"`

	// Bridge is empty for vmbr0.
	Bridge   string `json:"bridge,omitempty"`
	VLAN     int    `json:"vlan,omitempty"` // 0 means no VLAN
	Firewall bool   `json:"firewall,omitempty"`
	// Network is how the machine gets its address; the zero value asks by DHCP.
	Network Addressing `json:"network,omitzero"`

	// PVEPool is the resource pool that machines are put into: permissions hang on it, and a
	// machine that an administrator took out of it is theirs.
	PVEPool string `json:"pvePool" strict:"required"`
	// Tags are further tags of the machines, beside Plimsoll's own.
	Tags []string `json:"tags,omitempty"`
	// VMIDs is the range that belongs to this pool alone.
	VMIDs placement.VMIDs `json:"vmids" strict:"required"`
	// Cooldown is how long a VMID is left alone once its machine is gone; 0 is an hour.
	Cooldown nodescaler.Duration `json:"cooldown,omitempty" strict:"nonzero"`

	Placement placement.Rules `json:"placement,omitzero"`

	Labels map[string]string `json:"labels,omitempty"`
	Taints []Taint           `json:"taints,omitempty"`
	Region string            `json:"region,omitempty"`
	// Empty is the host, where only one may carry the pool, or where nodes are labelled with it.
	Zone     string            `json:"zone,omitempty"`
	Reserved pricing.Resources `json:"reserved,omitzero"`
	PodSlots int               `json:"podSlots,omitempty" strict:"nonzero"` // 0 is Kubernetes' 110
	// Resources is what each node has besides CPU and memory, by name: devices, huge pages. Without
	// ephemeral-storage among them, pods may use what is usual of the shape's disk.
	Resources map[string]pricing.Quantity `json:"resources,omitempty"`

	// Join is how machines become nodes.
	Join  firstboot.Profile `json:"join" strict:"required"`
	Guest Guest             `json:"guest,omitzero"`
	// ISO is where first-boot discs are kept; pools whose join profile needs none leave it out.
	ISO ISO `json:"iso,omitzero"`

	// Disruption is what may end machines that work; the zero value is nothing but need.
	Disruption nodescaler.Disruption `json:"disruption,omitzero"`

	// ShutdownGrace is how long a guest may take to shut down before it is stopped; 0 is a minute.
	ShutdownGrace nodescaler.Duration `json:"shutdownGrace,omitempty" strict:"nonzero"`
	// JoinTimeout is how long a started machine may take to become a node; 0 is 15 minutes.
	JoinTimeout nodescaler.Duration `json:"joinTimeout,omitempty" strict:"nonzero"`
	// MaxFailures is how many machines in a row may fail before no more are ordered; 0 is 3. Those
	// that fail for lack of room are not counted, for that passes by itself.
	MaxFailures int `json:"maxFailures,omitempty" strict:"nonzero"`
	// Resumed is when a person last resumed the pool, which lets machines go that the brake has
	// held since before then. Like any change of the pool it ends what failures led to: its pause,
	// and the rest of its hosts.
	Resumed time.Time `json:"resumed,omitzero"`
}

// Taint is a taint that the pool's nodes carry.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NoSchedule or NoExecute
}

// Addressing is a range of addresses, one for each VMID of the pool: the machine with the n-th VMID
// has the n-th address, so that an address is as free as its VMID.
type Addressing struct {
	First       netip.Prefix `json:"first,omitzero"` // 10.0.0.50/24
	Gateway     netip.Addr   `json:"gateway,omitzero"`
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	Search      string       `json:"search,omitempty"`
}

// Static reports whether machines have addresses of their own.
func (n Addressing) Static() bool { return n.First.IsValid() }

// Address is the address of the machine with the i-th VMID of its pool.
func (n Addressing) Address(i int) netip.Prefix {
	a := n.First.Addr().AsSlice()
	for at := len(a) - 1; at >= 0 && i > 0; at-- {
		i += int(a[at])
		a[at] = byte(i)
		i >>= 8
	}
	addr, _ := netip.AddrFromSlice(a)
	return netip.PrefixFrom(addr, n.First.Bits())
}

// Guest is the virtual hardware, where it is not the template's.
type Guest struct {
	CPUType string `json:"cpuType,omitempty"` // such as host, x86-64-v2-AES
	Machine string `json:"machine,omitempty"` // such as q35
	NUMA    bool   `json:"numa,omitempty"`
	// Agent says that the QEMU guest agent runs in the template: shutdown asks it, and a machine
	// that does not join is asked for its addresses.
	Agent bool `json:"agent,omitempty"`
	// NoBalloon leaves out the balloon device. With it the host knows how much of its memory the
	// guest uses, and memory is never taken from it.
	NoBalloon bool `json:"noBalloon,omitempty"`
	// Options are further keys of the VM's configuration, as qm set takes them.
	Options map[string]string `json:"options,omitempty"`
}

// ISO is where first-boot discs are kept.
type ISO struct {
	Storage string `json:"storage,omitempty"`
}

// Complete returns the pool with what was omitted filled in.
func (p Pool) Complete() Pool {
	or(&p.Clone, placement.Linked)
	or(&p.Bridge, "vmbr0")
	or(&p.Cooldown, nodescaler.Duration(time.Hour))
	or(&p.Placement.Spread, placement.SpreadPrefer)
	or(&p.Placement.MemoryRatio, 1)
	or(&p.Placement.CPURatio, 1)
	or(&p.ShutdownGrace, nodescaler.Duration(time.Minute))
	or(&p.JoinTimeout, nodescaler.Duration(15*time.Minute))
	or(&p.MaxFailures, 3)
	if hosts := p.Hosts(); p.Zone == "" && len(hosts) == 1 {
		p.Zone = hosts[0]
	}
	return p
}

// Complete returns the site with what was omitted filled in, its pools' too.
func (s Site) Complete() Site {
	or(&s.ClonesPerStorage, 2)
	or(&s.HA, HAWait)
	or(&s.OrphanGrace, nodescaler.Duration(time.Hour))
	s.Pools = slices.Clone(s.Pools)
	for i := range s.Pools {
		s.Pools[i] = s.Pools[i].Complete()
	}
	return s
}

// or sets what is not set.
func or[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Places is what of the pool decides where its machines go.
func (p *Pool) Places() *placement.Pool {
	rules := p.Placement
	rules.Hosts = p.Hosts()
	return &placement.Pool{
		Name: p.Name, Template: p.Template, Clone: p.Clone, Storage: p.Storage, Discs: p.ISO.Storage, Bridge: p.Bridge, Rules: rules,
	}
}

// Hosts returns the hosts that may carry the pool's machines as far as its configuration says,
// sorted; none means any.
func (p *Pool) Hosts() []string {
	hosts := slices.Clone(p.Placement.Hosts)
	if len(p.Template.ByHost) > 0 {
		named := len(hosts) > 0
		withTemplate := slices.Sorted(maps.Keys(p.Template.ByHost))
		hosts = slices.DeleteFunc(withTemplate, func(h string) bool { return named && !slices.Contains(hosts, h) })
	}
	slices.Sort(hosts)
	return hosts
}

// Shape returns the shape of that name, or nil.
func (p *Pool) Shape(name string) *pricing.Shape {
	for i := range p.Shapes {
		if p.Shapes[i].Name == name {
			return &p.Shapes[i]
		}
	}
	return nil
}

// The labels that say what a node is. Those that differ from machine to machine, such as the host
// name, are no part of a pool.
const (
	labelPool   = "plimsoll.dev/pool"
	labelShape  = "node.kubernetes.io/instance-type"
	labelRegion = "topology.kubernetes.io/region"
	labelZone   = "topology.kubernetes.io/zone"
	labelArch   = "kubernetes.io/arch"
	labelOS     = "kubernetes.io/os"
)

// Words is the pool as the loop and its policies see it.
func (p *Pool) Words() nodescaler.Pool {
	c := p.Complete()
	words := nodescaler.Pool{
		Name: c.Name, Shapes: slices.Clone(c.Shapes), Reserved: c.Reserved, PodSlots: c.PodSlots, Extra: pricing.AmountsOf(c.Resources),
		Min: c.Min, Max: c.Max, Hosts: c.Hosts(), Maintenance: slices.Clone(c.Placement.Maintenance), Labels: c.labels(),
		HostIsZone: c.Zone == "" && c.Join.TopologyLabels, ShapeIsType: len(c.Shapes) > 1 && c.NeedsDisc(), Disruption: c.Disruption,
	}
	for _, t := range c.Taints {
		words.Taints = append(words.Taints, nodescaler.Taint(t))
	}
	for _, t := range c.Join.Taints {
		words.Taints = append(words.Taints, nodescaler.Taint(t))
	}
	// What goes once a node works keeps no pod away from the pool.
	words.Taints = slices.DeleteFunc(words.Taints, func(t nodescaler.Taint) bool { return nodescaler.StartupTaint(t.Key) })
	return words
}

// labels are those that all nodes of the pool carry. With several shapes or zones, each machine has
// its own.
func (p *Pool) labels() map[string]string {
	labels := map[string]string{labelPool: p.Name, labelArch: "amd64", labelOS: "linux"}
	if len(p.Shapes) == 1 {
		labels[labelShape] = p.Shapes[0].Name
	}
	if p.Region != "" {
		labels[labelRegion] = p.Region
	}
	if p.Zone != "" {
		labels[labelZone] = p.Zone
	}
	maps.Copy(labels, p.Join.Labels)
	maps.Copy(labels, p.Labels)
	return labels
}
