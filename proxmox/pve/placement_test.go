package pve

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/pricing"
)

// aGround is three hosts of 16 processors and 64 GiB with a template each, and nothing on them.
func aGround() (*ground, *Pool) {
	p := aPool()
	p.Template = Template{ByHost: map[string]int{}}
	g := &ground{
		sight: &sight{guests: map[int]*guestSeen{}}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		templates: map[int]templateSeen{}, prices: pricing.DefaultBook(), pools: map[string]*Pool{"web": &p}, byVMID: map[int]*Intent{},
	}
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("pve%d", i)
		g.hosts = append(g.hosts, hostSeen{name: name, online: true, cpus: 16, memory: 64 * pricing.GiB, bridges: []string{"vmbr0"}})
		g.stores = append(g.stores,
			storeSeen{name: "lvm", host: name, active: true, total: 100 * pricing.GiB},
			storeSeen{name: "ceph", host: name, active: true, shared: true, total: 1000 * pricing.GiB})
		p.Template.ByHost[name] = 9000 + i
		g.templates[9000+i] = templateSeen{vmid: 9000 + i, host: name, bootDisk: "scsi0", size: 8 * pricing.GiB, stores: []string{"lvm"}}
	}
	p = p.Complete()
	return g, &p
}

// stands puts a machine of ours onto a host.
func (g *ground) stands(host string, s pricing.Shape) {
	id := 1000 + len(g.machines)
	m := &Intent{Order: fmt.Sprint(id), Pool: "web", Name: fmt.Sprintf("web-%d", id), Shape: s, Host: host, VMID: id, Step: StepOrdered}
	g.machines = append(g.machines, m)
	g.byVMID[id] = m
}

// Every reason for which a host is refused, with its numbers.
func TestHostsAreRefusedWithReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *ground, p *Pool)
		host   string
		code   string
		text   string
	}{
		{"it takes the machine", func(*ground, *Pool) {}, "pve1", "", ""},
		{"no such host", func(*ground, *Pool) {}, "pve9", CodeHostUnknown, "pve9 is no host of the cluster"},
		{"offline", func(g *ground, _ *Pool) { g.hosts[0].online = false }, "pve1", CodeHostOffline, "pve1 is offline"},
		{"the cluster's maintenance", func(g *ground, _ *Pool) { g.hosts[0].maintenance = true }, "pve1", CodeHostInMaintenance, "pve1 is in maintenance"},
		{"our maintenance", func(_ *ground, p *Pool) { p.Placement.Maintenance = []string{"pve1"} }, "pve1", CodeHostInMaintenance, "pve1 is in maintenance"},
		{"not among the pool's", func(_ *ground, p *Pool) { p.Placement.Hosts = []string{"pve2", "pve3"} }, "pve1", CodeHostNotInPool, "pve1 is not among the hosts of pool web: pve2, pve3"},
		{"as many as it may have", func(g *ground, p *Pool) { p.Placement.MaxPerHost = 1; g.stands("pve1", p.Shapes[0]) }, "pve1", CodeHostAtLimit, "pve1 has 1 machines of pool web, of at most 1"},
		{"the template has not been read", func(g *ground, _ *Pool) { delete(g.templates, 9001) }, "pve1", CodeTemplateUnread, "template 9001 has not been looked for yet"},
		{"the template is none", func(g *ground, _ *Pool) { g.templates[9001] = templateSeen{vmid: 9001, problem: "is no template"} }, "pve1", CodeTemplateMissing, "template 9001 is no template"},
		{"the template is elsewhere on local storage", func(_ *ground, p *Pool) { p.Template = Template{VMID: 9002} }, "pve1", CodeTemplateMissing, "template 9002 is on pve2, and storage lvm is not shared with pve1"},
		{"the template's host is offline", func(g *ground, p *Pool) { p.Template = Template{VMID: 9002}; g.hosts[1].online = false }, "pve1", CodeTemplateMissing, "template 9002 is on pve2, which is offline"},
		{"the template is elsewhere on shared storage", func(g *ground, p *Pool) {
			p.Template = Template{VMID: 9002}
			g.templates[9002] = templateSeen{vmid: 9002, host: "pve2", stores: []string{"ceph"}}
		}, "pve1", "", ""},
		{"a full clone from shared to local storage elsewhere", func(g *ground, p *Pool) {
			p.Template, p.Clone, p.Storage = Template{VMID: 9002}, Full, "lvm"
			g.templates[9002] = templateSeen{vmid: 9002, host: "pve2", stores: []string{"ceph"}}
		}, "pve1", CodeTemplateMissing, "template 9002 is on pve2, and storage lvm is not shared with pve1"},
		{"no bridge", func(_ *ground, p *Pool) { p.Bridge = "vmbr7" }, "pve1", CodeBridgeMissing, "pve1 has no bridge vmbr7"},
		{"bridges cannot be seen", func(g *ground, p *Pool) { p.Bridge = "vmbr7"; g.hosts[0].bridges = nil }, "pve1", "", ""},
		{"no storage", func(_ *ground, p *Pool) { p.Clone, p.Storage = Full, "zfs" }, "pve1", CodeStorageMissing, "pve1 has no storage zfs"},
		{"no storage for discs", func(_ *ground, p *Pool) { p.ISO.Storage = "iso" }, "pve1", CodeStorageMissing, "pve1 has no storage iso"},
		{"a storage that is off", func(g *ground, _ *Pool) { g.stores[0].active = false }, "pve1", CodeStorageMissing, "pve1 has no storage lvm"},
		{"storages cannot be seen", func(g *ground, p *Pool) { g.stores = nil; p.Clone, p.Storage = Full, "zfs" }, "pve1", "", ""},
		{"a full clone does not fit", func(g *ground, p *Pool) { p.Clone = Full; g.stores[0].used = 81 * pricing.GiB }, "pve1", CodeStorageFull,
			"storage lvm on pve1 has 19.0 GiB left; 20.0 GiB for the machine and 0 MiB in reserve are more"},
		{"a linked clone begins with nothing", func(g *ground, _ *Pool) { g.stores[0].used = 81 * pricing.GiB }, "pve1", "", ""},
		{"the storage's reserve", func(g *ground, p *Pool) {
			p.Placement.StorageReserve = 10 * pricing.GiB
			g.stores[0].used = 91 * pricing.GiB
		}, "pve1", CodeStorageFull,
			"storage lvm on pve1 has 9.0 GiB left; 0 MiB for the machine and 10.0 GiB in reserve are more"},
		{"clones under way", func(g *ground, p *Pool) {
			p.Clone = Full
			g.pools["web"] = p
			g.stores[0].used = 50 * pricing.GiB
			g.stands("pve1", p.Shapes[0])
			g.stands("pve1", p.Shapes[0])
		}, "pve1", CodeStorageFull, "storage lvm on pve1 has 10.0 GiB left; 20.0 GiB for the machine and 0 MiB in reserve are more"},
		{"memory is promised to ours", func(g *ground, _ *Pool) {
			g.stands("pve1", pricing.Shape{Name: "huge", CPU: 1000, Memory: 62 * pricing.GiB})
		}, "pve1", CodeNoMemory, "pve1 has 2.0 GiB of memory left to promise, small takes 4.0 GiB"},
		{"memory is promised to a stranger that is stopped", func(g *ground, _ *Pool) {
			g.guests[100] = &guestSeen{vmid: 100, host: "pve1", memory: 62 * pricing.GiB, cpus: 1}
		}, "pve1", CodeNoMemory, "pve1 has 2.0 GiB of memory left to promise, small takes 4.0 GiB"},
		{"stopped strangers do not count", func(g *ground, p *Pool) {
			p.Placement.IgnoreStopped = true
			g.guests[100] = &guestSeen{vmid: 100, host: "pve1", memory: 62 * pricing.GiB, cpus: 1}
		}, "pve1", "", ""},
		{"templates take nothing", func(g *ground, _ *Pool) {
			g.guests[100] = &guestSeen{vmid: 100, host: "pve1", memory: 62 * pricing.GiB, template: true}
		}, "pve1", "", ""},
		{"the memory's reserve", func(_ *ground, p *Pool) { p.Placement.MemoryReserve = 61 * pricing.GiB }, "pve1", CodeNoMemory, "pve1 has 3.0 GiB of memory left to promise, small takes 4.0 GiB"},
		{"a reserve larger than the host", func(_ *ground, p *Pool) { p.Placement.MemoryReserve = 70 * pricing.GiB }, "pve1", CodeNoMemory, "pve1 has 0 MiB of memory left to promise, small takes 4.0 GiB"},
		{"memory promised more than once", func(g *ground, p *Pool) {
			p.Placement.MemoryRatio = 1.1
			g.stands("pve1", pricing.Shape{Name: "huge", CPU: 1000, Memory: 62 * pricing.GiB})
		}, "pve1", "", ""},
		{"processors are promised", func(g *ground, _ *Pool) {
			g.guests[100] = &guestSeen{vmid: 100, host: "pve1", memory: pricing.GiB, cpus: 15, running: true}
		}, "pve1", CodeNoCPU, "pve1 has 1 processors left to promise, small takes 2"},
		{"processors promised more than once", func(g *ground, p *Pool) {
			p.Placement.CPURatio = 4
			g.guests[100] = &guestSeen{vmid: 100, host: "pve1", memory: pricing.GiB, cpus: 60, running: true}
		}, "pve1", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, p := aGround()
			c.change(g, p)
			r := g.refuses(p, p.Shapes[0], c.host)
			if r == nil {
				if c.code != "" {
					t.Errorf("it was taken, want %s", c.code)
				}
				return
			}
			if r.Code != c.code || r.Text != c.text {
				t.Errorf("got %s: %s\nwant %s: %s", r.Code, r.Text, c.code, c.text)
			}
		})
	}
}

func TestHostsAreChosen(t *testing.T) {
	dear := func(host string, price pricing.Micros) func(*ground, *Pool) {
		return func(g *ground, _ *Pool) {
			g.prices = pricing.DefaultBook()
			g.prices.Hosts = map[string]pricing.HostPrices{host: {PerHost: &price}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(g *ground, p *Pool)
		want   string
	}{
		{"by name, all being equal", func(*ground, *Pool) {}, "pve1"},
		{"where fewest of the pool are", func(g *ground, p *Pool) { g.stands("pve1", p.Shapes[0]); g.stands("pve2", p.Shapes[0]) }, "pve3"},
		{"other pools' machines do not spread this one's", func(g *ground, p *Pool) {
			g.stands("pve1", p.Shapes[0])
			g.stands("pve2", p.Shapes[0])
			g.stands("pve3", p.Shapes[0])
			g.machines[2].Pool = "db"
		}, "pve3"},
		{"the cheapest", dear("pve1", 5*pricing.Unit), "pve2"},
		{"a host that is paid for already costs nothing more", func(g *ground, p *Pool) {
			p.Placement.Spread = SpreadNone
			g.prices = pricing.DefaultBook()
			g.prices.PerHost = 5 * pricing.Unit
			g.stands("pve2", p.Shapes[0])
		}, "pve2"},
		{"spread comes before price", func(g *ground, p *Pool) {
			dear("pve3", 5*pricing.Unit)(g, p)
			g.stands("pve1", p.Shapes[0])
			g.stands("pve2", p.Shapes[0])
		}, "pve3"},
		{"the roomiest of equal price", func(g *ground, p *Pool) {
			p.Placement.Spread = SpreadNone
			g.guests[100] = &guestSeen{vmid: 100, host: "pve1", memory: pricing.GiB, cpus: 1}
		}, "pve2"},
		{"nowhere", func(g *ground, p *Pool) { p.Placement.Maintenance = []string{"pve1", "pve2", "pve3"} }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, p := aGround()
			c.change(g, p)
			got, why := g.place(p, p.Shapes[0])
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got == "" && len(why) != len(g.hosts) {
				t.Errorf("%d reasons for %d hosts", len(why), len(g.hosts))
			}
		})
	}
}

func TestPlacesAreSpreadAsMachinesAreOrdered(t *testing.T) {
	g, p := aGround()
	on := map[string]int{}
	for range 9 {
		host, _ := g.place(p, p.Shapes[0])
		g.stands(host, p.Shapes[0])
		on[host]++
	}
	if diff := cmp.Diff(map[string]int{"pve1": 3, "pve2": 3, "pve3": 3}, on); diff != "" {
		t.Error(diff)
	}
}
