package pve

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

// hostSeen is a host as the last look showed it.
type hostSeen struct {
	name        string
	online      bool
	maintenance bool // says the cluster itself
	cpus        int
	memory      pricing.Bytes
	bridges     []string // nil is unknown
}

// guestSeen is a virtual machine or container as the last look showed it.
type guestSeen struct {
	vmid      int
	host      string
	name      string // empty while it is cloned, and for some seconds after
	running   bool
	template  bool
	container bool
	lock      string
	pool      string
	tags      []string
	cpus      int // 0 is unknown, as it is of machines that are some seconds old
	memory    pricing.Bytes
}

// storeSeen is a storage on one host.
type storeSeen struct {
	name, host  string
	shared      bool
	active      bool
	total, used pricing.Bytes // both 0 is unknown
}

// templateSeen is a template, with what was read of it once.
type templateSeen struct {
	vmid     int
	host     string
	bootDisk string            // such as scsi0
	size     pricing.Bytes     // of the boot disk
	stores   []string          // that its disks lie on
	devices  map[string]string // its drives with their volumes, and what it has of its host's
	digest   string            // of its configuration: another one is another template
	problem  string            // why it cannot be cloned
}

// sight is what one look showed.
type sight struct {
	at      time.Time
	quorate bool
	whole   bool       // hosts are all that the cluster has
	hosts   []hostSeen // by name
	guests  map[int]*guestSeen
	stores  []storeSeen
}

func (s *sight) host(name string) *hostSeen {
	i, found := slices.BinarySearchFunc(s.hosts, name, func(h hostSeen, name string) int { return strings.Compare(h.name, name) })
	if !found {
		return nil
	}
	return &s.hosts[i]
}

func (s *sight) online(host string) bool {
	h := s.host(host)
	return h != nil && h.online
}

func (s *sight) store(name, host string) *storeSeen {
	for i := range s.stores {
		if s.stores[i].name == name && s.stores[i].host == host {
			return &s.stores[i]
		}
	}
	return nil
}

// ground is what machines are placed on: what was seen, and what is meant to be there.
type ground struct {
	*sight
	now       time.Time
	pools     map[string]*Pool
	templates map[int]templateSeen
	prices    *pricing.Book
	machines  []*Intent // that are not gone
	byVMID    map[int]*Intent
	promised  map[string]promise // to others, by host; added up when it is first asked for
}

// promise is what others' machines on a host are configured with.
type promise struct{ all, running pricing.Resources }

// place chooses the host for a machine, or says of every host why it is none.
func (g *ground) place(p *Pool, s pricing.Shape) (string, []nodescaler.Reason) {
	var best *candidate
	var why []nodescaler.Reason
	for i := range g.hosts {
		h := &g.hosts[i]
		if r := g.refuses(p, s, h.name); r != nil {
			why = append(why, *r)
			continue
		}
		c := g.candidate(p, s, h)
		if best == nil || c.better(best, p.Placement.Spread) {
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

func (g *ground) candidate(p *Pool, s pricing.Shape, h *hostSeen) *candidate {
	c := &candidate{host: h.name, price: g.prices.Rate(s, h.name, g.now), memory: g.free(p, h).Memory}
	first := true
	for _, m := range g.machines {
		if m.Host == h.name {
			first = false
			if m.Pool == p.Name {
				c.peers++
			}
		}
	}
	if first {
		c.price += g.prices.HostRate(h.name, g.now)
	}
	return c
}

func (c *candidate) better(o *candidate, spread SpreadMode) bool {
	order := cmp.Or(cmp.Compare(c.price, o.price), -cmp.Compare(c.memory, o.memory), cmp.Compare(c.host, o.host))
	if spread == SpreadPrefer {
		order = cmp.Or(cmp.Compare(c.peers, o.peers), order)
	}
	return order < 0
}

// refuses says why a host does not take another machine of the shape, or nil.
func (g *ground) refuses(p *Pool, s pricing.Shape, host string) *nodescaler.Reason {
	if r := g.unfit(p, s, host); r != nil {
		return r
	}
	return g.noRoom(p, s, g.host(host))
}

// unfit says why a host takes no machine of the shape whatever room it has, or nil.
func (g *ground) unfit(p *Pool, s pricing.Shape, host string) *nodescaler.Reason {
	h := g.host(host)
	if r := g.closed(p, h, host); r != nil {
		return r
	}
	for _, check := range []func(*Pool, pricing.Shape, *hostSeen) *nodescaler.Reason{g.noTemplate, g.noBridge, g.noStorage} {
		if r := check(p, s, h); r != nil {
			return r
		}
	}
	return nil
}

func no(code, format string, args ...any) *nodescaler.Reason {
	r := reason(code, format, args...)
	return &r
}

// closed says why a host takes no machine of the pool whatever its size.
func (g *ground) closed(p *Pool, h *hostSeen, name string) *nodescaler.Reason {
	hosts := p.hosts()
	switch {
	case h == nil:
		return no(CodeHostUnknown, "%s is no host of the cluster", name)
	case len(hosts) > 0 && !slices.Contains(hosts, name):
		return no(CodeHostNotInPool, "%s is not among the hosts of pool %s: %s", name, p.Name, strings.Join(hosts, ", "))
	case !h.online:
		return no(CodeHostOffline, "%s is offline", name)
	case h.maintenance || slices.Contains(p.Placement.Maintenance, name):
		return no(CodeHostInMaintenance, "%s is in maintenance", name)
	}
	if limit := p.Placement.MaxPerHost; limit > 0 {
		peers := 0
		for _, m := range g.machines {
			if m.Host == name && m.Pool == p.Name {
				peers++
			}
		}
		if peers >= limit {
			return no(CodeHostAtLimit, "%s has %d machines of pool %s, of at most %d", name, peers, p.Name, limit)
		}
	}
	return nil
}

// source is where a clone for a host is asked for.
type source struct {
	templateSeen
	target string // the host that the clone goes to, if it is another one
}

// from finds what a machine on the host is cloned from.
func (g *ground) from(p *Pool, host string) (source, *nodescaler.Reason) {
	id := p.Template.On(host)
	if id == 0 {
		return source{}, no(CodeTemplateMissing, "pool %s names no template for %s", p.Name, host)
	}
	t, known := g.templates[id]
	switch {
	case !known:
		return source{}, no(CodeTemplateUnread, "template %d has not been looked for yet", id)
	case t.problem != "":
		return source{}, no(CodeTemplateMissing, "template %d %s", id, t.problem)
	case t.host == host:
		return source{templateSeen: t}, nil
	case !g.online(t.host):
		return source{}, no(CodeTemplateMissing, "template %d is on %s, which is offline", id, t.host)
	}
	for _, name := range append(slices.Clone(t.stores), p.Storage) {
		if st := g.store(name, t.host); name != "" && (st == nil || !st.shared) {
			return source{}, no(CodeTemplateMissing, "template %d is on %s, and storage %s is not shared with %s", id, t.host, name, host)
		}
	}
	return source{templateSeen: t, target: host}, nil
}

func (g *ground) noTemplate(p *Pool, _ pricing.Shape, h *hostSeen) *nodescaler.Reason {
	_, r := g.from(p, h.name)
	return r
}

func (g *ground) noBridge(p *Pool, _ pricing.Shape, h *hostSeen) *nodescaler.Reason {
	if h.bridges == nil || slices.Contains(h.bridges, p.Bridge) {
		return nil
	}
	return no(CodeBridgeMissing, "%s has no bridge %s", h.name, p.Bridge)
}

// disks names the storage that a clone's disk goes to, and what it takes there at once. A linked
// clone begins with nothing.
func (p *Pool) disks(t templateSeen, s pricing.Shape) (store string, size pricing.Bytes) {
	store = p.Storage
	if store == "" && len(t.stores) > 0 {
		store = t.stores[0]
	}
	if p.Clone == Full {
		size = max(s.Disk, t.size)
	}
	return store, size
}

func (g *ground) noStorage(p *Pool, s pricing.Shape, h *hostSeen) *nodescaler.Reason {
	from, _ := g.from(p, h.name)
	name, size := p.disks(from.templateSeen, s)
	if r := g.noStore(name, h.name); r != nil {
		return r
	}
	if r := g.noStore(p.ISO.Storage, h.name); r != nil {
		return r
	}
	st := g.store(name, h.name)
	if st == nil || st.total == 0 {
		return nil
	}
	free := st.total - st.used - g.reserved(st)
	if reserve := p.Placement.StorageReserve; free-size < reserve {
		return no(CodeStorageFull, "storage %s on %s has %s left; %s for the machine and %s in reserve are more", name, h.name, show(free), show(size), show(reserve))
	}
	return nil
}

// noStore says that a storage is known not to be on a host. Without the right to see storages none
// is seen, and then nothing is known.
func (g *ground) noStore(name, host string) *nodescaler.Reason {
	if name == "" || len(g.stores) == 0 {
		return nil
	}
	if st := g.store(name, host); st == nil || !st.active {
		return no(CodeStorageMissing, "%s has no storage %s", host, name)
	}
	return nil
}

// reserved is what clones that are not finished will still take of a storage: its figures lag.
func (g *ground) reserved(st *storeSeen) pricing.Bytes {
	var sum pricing.Bytes
	for _, m := range g.machines {
		p := g.pools[m.Pool]
		if !m.Step.before(StepStarted) || !m.Woken.IsZero() || m.Host != st.host && !st.shared || p == nil {
			continue
		}
		if name, size := p.disks(g.templates[p.Template.On(m.Host)], m.Shape); name == st.name {
			sum += size
		}
	}
	return sum
}

func (g *ground) noRoom(p *Pool, s pricing.Shape, h *hostSeen) *nodescaler.Reason {
	free := g.free(p, h)
	switch {
	case s.Memory > free.Memory:
		return no(CodeNoMemory, "%s has %s of memory left to promise, %s takes %s", h.name, show(free.Memory), s.Name, show(s.Memory))
	case s.CPU > free.CPU:
		return no(CodeNoCPU, "%s has %s processors left to promise, %s takes %s", h.name, free.CPU.Cores(), s.Name, s.CPU.Cores())
	}
	return nil
}

// free is what the host's room is less our machines, but for those that are stopped.
func (g *ground) free(p *Pool, h *hostSeen) pricing.Resources {
	left := g.room(p, h)
	for _, m := range g.machines {
		if m.Host == h.name && m.Stashed.IsZero() {
			left = left.Minus(m.Shape.Resources())
		}
	}
	return left
}

// room is what a host may promise to our machines in all: its hardware less the reserve, times the
// ratio, less what was promised to others. What others' machines are configured with counts, not
// what they use now: they may use it tomorrow.
func (g *ground) room(p *Pool, h *hostSeen) pricing.Resources {
	pl := &p.Placement
	room := pricing.Resources{
		CPU:    pricing.MilliCPU(scale(float64(h.cpus)*float64(pricing.Core), pl.CPURatio)),
		Memory: pricing.Bytes(scale(float64(max(0, h.memory-pl.MemoryReserve)), pl.MemoryRatio)),
	}
	if pl.IgnoreStopped {
		return room.Minus(g.toOthers(h).running)
	}
	return room.Minus(g.toOthers(h).all)
}

// toOthers is what a host has promised to others. Every pool asks for every host's, and there may be a thousand
// machines: they are gone through once.
func (g *ground) toOthers(h *hostSeen) promise {
	if g.promised == nil {
		g.promised = make(map[string]promise, len(g.hosts))
		for _, v := range g.guests {
			if v.template || g.ours(v) {
				continue
			}
			p, takes := g.promised[v.host], pricing.Resources{CPU: pricing.MilliCPU(v.cpus) * pricing.Core, Memory: v.memory}
			p.all = p.all.Plus(takes)
			if v.running {
				p.running = p.running.Plus(takes)
			}
			g.promised[v.host] = p
		}
	}
	return g.promised[h.name]
}

// ours reports whether a listed machine is one of those that are counted as meant to be there.
func (g *ground) ours(v *guestSeen) bool {
	m := g.byVMID[v.vmid]
	return m != nil && (!m.Step.before(StepCloned) || v.unnamed() || v.name == m.Name)
}

// scale multiplies and rounds down; what the binary fraction of a ratio such as 1.1 lacks is no
// whole core.
func scale(v, ratio float64) int64 { return int64(math.Floor(v*ratio + 1e-9)) }

// show prints a size as people read it.
func show(b pricing.Bytes) string {
	if b < 0 {
		return "-" + show(-b)
	}
	if b < pricing.GiB {
		return fmt.Sprintf("%d MiB", b/pricing.MiB)
	}
	return fmt.Sprintf("%.1f GiB", float64(b)/float64(pricing.GiB))
}
