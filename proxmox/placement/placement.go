// Package placement decides which host, storage and VMID a new machine gets, and why a host does
// not take it. It depends on its arguments alone, so that the fleet and the doctor get one answer.
package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Ground is what machines are placed on: what was seen, and what is meant to be there.
type Ground struct {
	*Sight
	Now       time.Time
	Pools     map[string]*Pool
	Templates map[int]TemplateSeen
	Prices    *pricing.Book
	Machines  []Machine          // ours that are not gone
	promised  map[string]promise // to others, by host; added up when it is first asked for
}

// Machine is a machine of ours, as far as it takes room.
type Machine struct {
	VMID    int
	Name    string
	Pool    string
	Host    string
	Shape   pricing.Shape
	Cloned  bool // its clone is there, under its name
	Filling bool // its disks are not full yet: what the storage has in use lacks them
	Stopped bool // it takes no memory and no processors
}

// promise is what others' machines on a host are configured with.
type promise struct{ all, running pricing.Resources }

// Place chooses the host for a machine, or says why no host takes it.
func (g *Ground) Place(p *Pool, s pricing.Shape) (string, []nodescaler.Reason) {
	var best *candidate
	var why []nodescaler.Reason
	for i := range g.Hosts {
		h := &g.Hosts[i]
		if r := g.Refuses(p, s, h.Name); r != nil {
			why = append(why, *r)
			continue
		}
		c := g.candidate(p, s, h)
		if best == nil || c.better(best, p.Spread) {
			best = c
		}
	}
	if best == nil {
		return "", why
	}
	return best.host, nil
}

// candidate is a host that takes the machine, and how good it is.
type candidate struct {
	host   string
	peers  int // machines of the pool that are there
	price  pricing.Rate
	memory pricing.Bytes // left
}

func (g *Ground) candidate(p *Pool, s pricing.Shape, h *Host) *candidate {
	c := &candidate{host: h.Name, price: g.Prices.Rate(s, h.Name, g.Now), memory: g.Free(p, h).Memory}
	first := true
	for i := range g.Machines {
		m := &g.Machines[i]
		if m.Host == h.Name {
			first = false
			if m.Pool == p.Name {
				c.peers++
			}
		}
	}
	if first {
		c.price += g.Prices.HostRate(h.Name, g.Now)
	}
	return c
}

func (c *candidate) better(o *candidate, spread Spread) bool {
	order := cmp.Or(cmp.Compare(c.price, o.price), -cmp.Compare(c.memory, o.memory), cmp.Compare(c.host, o.host))
	if spread == SpreadPrefer {
		order = cmp.Or(cmp.Compare(c.peers, o.peers), order)
	}
	return order < 0
}

// Refuses says why a host does not take another machine of the shape, or nil.
func (g *Ground) Refuses(p *Pool, s pricing.Shape, host string) *nodescaler.Reason {
	if r := g.unfit(p, s, host); r != nil {
		return r
	}
	if r := g.NoRoom(p, s, g.Host(host)); r != nil {
		return r
	}
	return g.failing(p, s, host)
}

// failing says that a host rests, if one that does not takes the machine.
func (g *Ground) failing(p *Pool, s pricing.Shape, host string) *nodescaler.Reason {
	why, rests := p.Failing[host]
	if !rests {
		return nil
	}
	for i := range g.Hosts {
		if _, too := p.Failing[g.Hosts[i].Name]; !too && g.Refuses(p, s, g.Hosts[i].Name) == nil {
			return &why
		}
	}
	return nil
}

// unfit says why a host takes no machine of the shape even with room for it, or nil.
func (g *Ground) unfit(p *Pool, s pricing.Shape, host string) *nodescaler.Reason {
	h := g.Host(host)
	if r := g.closed(p, h, host); r != nil {
		return r
	}
	for _, check := range []func(*Pool, pricing.Shape, *Host) *nodescaler.Reason{g.noTemplate, g.noBridge, g.noStorage} {
		if r := check(p, s, h); r != nil {
			return r
		}
	}
	return nil
}

// closed says why a host takes no machine of the pool of any size.
func (g *Ground) closed(p *Pool, h *Host, name string) *nodescaler.Reason {
	switch {
	case h == nil:
		return refuse(CodeHostUnknown, "%s is no host of the cluster", name)
	case len(p.Hosts) > 0 && !slices.Contains(p.Hosts, name):
		return refuse(CodeHostNotInPool, "%s is not among the hosts of pool %s: %s", name, p.Name, strings.Join(p.Hosts, ", "))
	case !h.Online:
		return refuse(CodeHostOffline, "%s is offline", name)
	case h.Maintenance || slices.Contains(p.Maintenance, name):
		return refuse(CodeHostInMaintenance, "%s is in maintenance", name)
	}
	if limit := p.MaxPerHost; limit > 0 {
		peers := 0
		for i := range g.Machines {
			m := &g.Machines[i]
			if m.Host == name && m.Pool == p.Name {
				peers++
			}
		}
		if peers >= limit {
			return refuse(CodeHostAtLimit, "%s has %d machines of pool %s, of at most %d", name, peers, p.Name, limit)
		}
	}
	return nil
}

// source is where a clone for a host is asked for.
type source struct {
	TemplateSeen
	Target string // the host that the clone goes to, if it is another one
}

// From finds what a machine on the host is cloned from.
func (g *Ground) From(p *Pool, host string) (source, *nodescaler.Reason) {
	id := p.Template.On(host)
	if id == 0 {
		return source{}, refuse(CodeTemplateMissing, "pool %s names no template for %s", p.Name, host)
	}
	t, known := g.Templates[id]
	switch {
	case !known:
		return source{}, refuse(CodeTemplateUnread, "template %d has not been looked for yet", id)
	case t.Problem != "":
		return source{}, refuse(CodeTemplateMissing, "template %d %s", id, t.Problem)
	case t.Host == host:
		return source{TemplateSeen: t}, nil
	case !g.Online(t.Host):
		return source{}, refuse(CodeTemplateMissing, "template %d is on %s, which is offline", id, t.Host)
	}
	for _, name := range append(slices.Clone(t.Stores), p.Storage) {
		if name != "" && !g.shared(name, t.Host) {
			return source{}, refuse(CodeTemplateMissing, "template %d is on %s, and storage %s is not shared with %s", id, t.Host, name, host)
		}
	}
	for _, name := range t.Discs { // Proxmox VE wants these shared too, even for a full clone
		if !g.shared(name, t.Host) {
			return source{}, refuse(CodeTemplateMissing, "template %d is on %s, and storage %s of the disc in its drive is not shared with %s", id, t.Host, name, host)
		}
	}
	return source{TemplateSeen: t, Target: host}, nil
}

// shared reports whether a host is seen to share a storage with others.
func (g *Ground) shared(name, host string) bool {
	st := g.Store(name, host)
	return st != nil && st.Shared
}

func (g *Ground) noTemplate(p *Pool, _ pricing.Shape, h *Host) *nodescaler.Reason {
	_, r := g.From(p, h.Name)
	return r
}

func (g *Ground) noBridge(p *Pool, _ pricing.Shape, h *Host) *nodescaler.Reason {
	if h.Bridges == nil || slices.Contains(h.Bridges, p.Bridge) {
		return nil
	}
	return refuse(CodeBridgeMissing, "%s has no bridge %s", h.Name, p.Bridge)
}

// Disks names the storage that a clone's disk goes to, and what it takes there at once. A linked
// clone begins with nothing.
func (p *Pool) Disks(t TemplateSeen, s pricing.Shape) (store string, size pricing.Bytes) {
	store = p.Storage
	if store == "" && len(t.Stores) > 0 {
		store = t.Stores[0]
	}
	if p.Clone == Full {
		size = max(s.Disk, t.Size)
	}
	return store, size
}

func (g *Ground) noStorage(p *Pool, s pricing.Shape, h *Host) *nodescaler.Reason {
	from, _ := g.From(p, h.Name)
	name, size := p.Disks(from.TemplateSeen, s)
	needed := []string{name, p.Discs}
	if p.Storage == "" { // else all drives go there: a full clone moves each
		needed = append(needed, from.Stores...)
	}
	if from.Target != "" { // where the template is, its disc need not be seen
		needed = append(needed, from.Discs...)
	}
	for _, name := range needed {
		if r := g.noStore(name, h.Name); r != nil {
			return r
		}
	}
	st := g.Store(name, h.Name)
	if st == nil || st.Total == 0 {
		return nil
	}
	free := st.Total - st.Used - g.reserved(st)
	if reserve := p.StorageReserve; free-size < reserve {
		return refuse(CodeStorageFull, "storage %s on %s has %s left; %s for the machine and %s in reserve are more", name, h.Name, Size(free), Size(size), Size(reserve))
	}
	return nil
}

// noStore says that a storage is known not to be on a host. Without the right to see storages none
// is seen, and then nothing is known.
func (g *Ground) noStore(name, host string) *nodescaler.Reason {
	if name == "" || len(g.Stores) == 0 {
		return nil
	}
	if st := g.Store(name, host); st == nil || !st.Active {
		return refuse(CodeStorageMissing, "%s has no storage %s", host, name)
	}
	return nil
}

// reserved is what clones that are not finished will still take of a storage: its figures lag.
func (g *Ground) reserved(st *Store) pricing.Bytes {
	var sum pricing.Bytes
	for i := range g.Machines {
		m := &g.Machines[i]
		p := g.Pools[m.Pool]
		if !m.Filling || m.Host != st.Host && !st.Shared || p == nil {
			continue
		}
		if name, size := p.Disks(g.Templates[p.Template.On(m.Host)], m.Shape); name == st.Name {
			sum += size
		}
	}
	return sum
}

// NoRoom says that a host has too little memory or too few processors left, or nil.
func (g *Ground) NoRoom(p *Pool, s pricing.Shape, h *Host) *nodescaler.Reason {
	free := g.Free(p, h)
	switch {
	case h.CPUs > 0 && s.CPU > pricing.MilliCPU(h.CPUs)*pricing.Core:
		// Proxmox VE starts no such VM, regardless of the ratio of all of them together.
		return refuse(CodeNoCPU, "%s has %d processors, and %s takes %s in one machine", h.Name, h.CPUs, s.Name, s.CPU.Cores())
	case s.Memory > free.Memory:
		return refuse(CodeNoMemory, "%s has %s of memory left to promise, %s takes %s", h.Name, Size(free.Memory), s.Name, Size(s.Memory))
	case s.CPU > free.CPU:
		return refuse(CodeNoCPU, "%s has %s processors left to promise, %s takes %s", h.Name, free.CPU.Cores(), s.Name, s.CPU.Cores())
	}
	return nil
}

// Free is what the host's room is less our machines, but for those that are stopped.
func (g *Ground) Free(p *Pool, h *Host) pricing.Resources {
	left := g.Room(p, h)
	for i := range g.Machines {
		m := &g.Machines[i]
		if m.Host == h.Name && !m.Stopped {
			left = left.Minus(m.Shape.Resources())
		}
	}
	return left
}

// Room is what a host may promise to our machines in all: its hardware less the reserve, times the
// ratio, less what was promised to others. What others' machines are configured with counts, not
// what they use now: they may use it tomorrow.
func (g *Ground) Room(p *Pool, h *Host) pricing.Resources {
	room := pricing.Resources{
		CPU:    pricing.MilliCPU(scale(float64(h.CPUs)*float64(pricing.Core), p.CPURatio)),
		Memory: pricing.Bytes(scale(float64(max(0, h.Memory-p.MemoryReserve)), p.MemoryRatio)),
	}
	if p.IgnoreStopped {
		return room.Minus(g.toOthers(h).running)
	}
	return room.Minus(g.toOthers(h).all)
}

// toOthers is what a host has promised to others. Every pool asks for every host's, and there may
// be a thousand machines: they are gone through once.
func (g *Ground) toOthers(h *Host) promise {
	if g.promised == nil {
		g.promised = make(map[string]promise, len(g.Hosts))
		mine := make(map[int]*Machine, len(g.Machines))
		for i := range g.Machines {
			mine[g.Machines[i].VMID] = &g.Machines[i]
		}
		for _, v := range g.Guests {
			if v.Template || mine[v.VMID].is(v) {
				continue
			}
			p, takes := g.promised[v.Host], pricing.Resources{CPU: pricing.MilliCPU(v.CPUs) * pricing.Core, Memory: v.Memory}
			p.all = p.all.Plus(takes)
			if !v.Stopped {
				p.running = p.running.Plus(takes)
			}
			g.promised[v.Host] = p
		}
	}
	return g.promised[h.Name]
}

// is reports whether a listed machine is the one that is counted as meant to be there.
func (m *Machine) is(v *Guest) bool {
	return m != nil && (m.Cloned || v.Unnamed() || v.Name == m.Name)
}

// scale multiplies and rounds down; what the binary fraction of a ratio such as 1.1 lacks is no
// whole core.
func scale(v, ratio float64) int64 { return int64(math.Floor(v*ratio + 1e-9)) }

// Size prints a size as people read it.
func Size(b pricing.Bytes) string {
	if b < 0 {
		return "-" + Size(-b)
	}
	if b < pricing.GiB {
		return fmt.Sprintf("%d MiB", b/pricing.MiB)
	}
	return fmt.Sprintf("%.1f GiB", float64(b)/float64(pricing.GiB))
}
