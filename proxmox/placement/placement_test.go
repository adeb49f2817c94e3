package placement

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

var small = pricing.Shape{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB, Disk: 20 * pricing.GiB}

// aGround is three hosts of 16 processors and 64 GiB with a template each, and nothing on them.
func aGround() (*Ground, *Pool) {
	p := Pool{
		Name: "web", Template: Template{ByHost: map[string]int{}}, Clone: Linked, Bridge: "vmbr0",
		Rules: Rules{Spread: SpreadPrefer, MemoryRatio: 1, CPURatio: 1},
	}
	g := &Ground{
		Sight: &Sight{Guests: map[int]*Guest{}}, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Templates: map[int]TemplateSeen{}, Prices: pricing.DefaultBook(), Pools: map[string]*Pool{"web": &p},
	}
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("pve%d", i)
		g.Hosts = append(g.Hosts, Host{Name: name, Online: true, CPUs: 16, Memory: 64 * pricing.GiB, Bridges: []string{"vmbr0"}})
		g.Stores = append(g.Stores,
			Store{Name: "lvm", Host: name, Active: true, Total: 100 * pricing.GiB},
			Store{Name: "ceph", Host: name, Active: true, Shared: true, Total: 1000 * pricing.GiB})
		p.Template.ByHost[name] = 9000 + i
		g.Templates[9000+i] = TemplateSeen{VMID: 9000 + i, Host: name, BootDisk: "scsi0", Size: 8 * pricing.GiB, Stores: []string{"lvm"}}
	}
	return g, &p
}

// stands puts a machine of ours onto a host.
func (g *Ground) stands(host string, s pricing.Shape) {
	id := 1000 + len(g.Machines)
	g.Machines = append(g.Machines, Machine{VMID: id, Pool: "web", Name: fmt.Sprintf("web-%d", id), Shape: s, Host: host, Filling: true})
}

// awayFromPve1 gives the pool a template on pve2 with a second drive, such as an EFI disk, on a
// shared storage that the cluster keeps from pve1.
func awayFromPve1(g *Ground, p *Pool) {
	p.Template = Template{VMID: 9002}
	g.Templates[9002] = TemplateSeen{VMID: 9002, Host: "pve2", Stores: []string{"ceph", "nfs"}}
	for _, host := range []string{"pve2", "pve3"} {
		g.Stores = append(g.Stores, Store{Name: "nfs", Host: host, Active: true, Shared: true})
	}
}

// Every reason for which a host is refused, with its numbers.
func TestHostsAreRefusedWithReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *Ground, p *Pool)
		host   string
		code   string
		text   string
	}{
		{"it takes the machine", func(*Ground, *Pool) {}, "pve1", "", ""},
		{"no such host", func(*Ground, *Pool) {}, "pve9", CodeHostUnknown, "pve9 is no host of the cluster"},
		{"offline", func(g *Ground, _ *Pool) { g.Hosts[0].Online = false }, "pve1", CodeHostOffline, "pve1 is offline"},
		{"the cluster's maintenance", func(g *Ground, _ *Pool) { g.Hosts[0].Maintenance = true }, "pve1", CodeHostInMaintenance, "pve1 is in maintenance"},
		{"our maintenance", func(_ *Ground, p *Pool) { p.Maintenance = []string{"pve1"} }, "pve1", CodeHostInMaintenance, "pve1 is in maintenance"},
		{"not among the pool's", func(_ *Ground, p *Pool) { p.Hosts = []string{"pve2", "pve3"} }, "pve1", CodeHostNotInPool, "pve1 is not among the hosts of pool web: pve2, pve3"},
		{"as many as it may have", func(g *Ground, p *Pool) { p.MaxPerHost = 1; g.stands("pve1", small) }, "pve1", CodeHostAtLimit, "pve1 has 1 machines of pool web, of at most 1"},
		{"the template has not been read", func(g *Ground, _ *Pool) { delete(g.Templates, 9001) }, "pve1", CodeTemplateUnread, "template 9001 has not been looked for yet"},
		{"the template is none", func(g *Ground, _ *Pool) { g.Templates[9001] = TemplateSeen{VMID: 9001, Problem: "is no template"} }, "pve1", CodeTemplateMissing, "template 9001 is no template"},
		{"the template is elsewhere on local storage", func(_ *Ground, p *Pool) { p.Template = Template{VMID: 9002} }, "pve1", CodeTemplateMissing, "template 9002 is on pve2, and storage lvm is not shared with pve1"},
		{"the template's host is offline", func(g *Ground, p *Pool) { p.Template = Template{VMID: 9002}; g.Hosts[1].Online = false }, "pve1", CodeTemplateMissing, "template 9002 is on pve2, which is offline"},
		{"the template is elsewhere on shared storage", func(g *Ground, p *Pool) {
			p.Template = Template{VMID: 9002}
			g.Templates[9002] = TemplateSeen{VMID: 9002, Host: "pve2", Stores: []string{"ceph"}}
		}, "pve1", "", ""},
		{"a full clone from shared to local storage elsewhere", func(g *Ground, p *Pool) {
			p.Template, p.Clone, p.Storage = Template{VMID: 9002}, Full, "lvm"
			g.Templates[9002] = TemplateSeen{VMID: 9002, Host: "pve2", Stores: []string{"ceph"}}
		}, "pve1", CodeTemplateMissing, "template 9002 is on pve2, and storage lvm is not shared with pve1"},
		{"a disc in the template's drive is local", func(g *Ground, p *Pool) {
			p.Template = Template{VMID: 9002}
			g.Stores = append(g.Stores, Store{Name: "local", Host: "pve2", Active: true})
			g.Templates[9002] = TemplateSeen{VMID: 9002, Host: "pve2", Stores: []string{"ceph"}, Discs: []string{"local"}}
		}, "pve1", CodeTemplateMissing, "template 9002 is on pve2, and storage local of the disc in its drive is not shared with pve1"},
		{"so is it for a full clone elsewhere", func(g *Ground, p *Pool) {
			p.Template, p.Clone, p.Storage = Template{VMID: 9002}, Full, "ceph"
			g.Templates[9002] = TemplateSeen{VMID: 9002, Host: "pve2", Stores: []string{"ceph"}, Discs: []string{"unseen"}}
		}, "pve1", CodeTemplateMissing, "template 9002 is on pve2, and storage unseen of the disc in its drive is not shared with pve1"},
		{"beside its disc the template is cloned", func(g *Ground, _ *Pool) {
			g.Templates[9001] = TemplateSeen{VMID: 9001, Host: "pve1", Stores: []string{"lvm"}, Discs: []string{"unseen"}}
		}, "pve1", "", ""},
		{"the disc's shared storage is not on the host", func(g *Ground, p *Pool) {
			awayFromPve1(g, p)
			p.Clone, p.Storage = Full, "ceph"
			g.Templates[9002] = TemplateSeen{VMID: 9002, Host: "pve2", Stores: []string{"ceph"}, Discs: []string{"nfs"}}
		}, "pve1", CodeStorageMissing, "pve1 has no storage nfs"},
		{"its last machines failed", func(_ *Ground, p *Pool) {
			p.Failing = map[string]nodescaler.Reason{"pve1": {Code: CodeHostFailing, Text: "it rests"}}
		}, "pve1", CodeHostFailing, "it rests"},
		{"so did others', and one is full", func(g *Ground, p *Pool) {
			rests := nodescaler.Reason{Code: CodeHostFailing, Text: "it rests"}
			p.Failing = map[string]nodescaler.Reason{"pve1": rests, "pve2": rests}
			g.stands("pve3", pricing.Shape{Name: "huge", CPU: 1000, Memory: 62 * pricing.GiB})
		}, "pve1", "", ""},
		{"no bridge", func(_ *Ground, p *Pool) { p.Bridge = "vmbr7" }, "pve1", CodeBridgeMissing, "pve1 has no bridge vmbr7"},
		{"bridges cannot be seen", func(g *Ground, p *Pool) { p.Bridge = "vmbr7"; g.Hosts[0].Bridges = nil }, "pve1", "", ""},
		{"no storage", func(_ *Ground, p *Pool) { p.Clone, p.Storage = Full, "zfs" }, "pve1", CodeStorageMissing, "pve1 has no storage zfs"},
		{"another drive's storage is not on the host", awayFromPve1, "pve1", CodeStorageMissing, "pve1 has no storage nfs"},
		{"a full clone leaves that storage", func(g *Ground, p *Pool) {
			awayFromPve1(g, p)
			p.Clone, p.Storage = Full, "ceph"
		}, "pve1", "", ""},
		{"a full clone to where its drives are does not", func(g *Ground, p *Pool) {
			awayFromPve1(g, p)
			p.Clone = Full
		}, "pve1", CodeStorageMissing, "pve1 has no storage nfs"},
		{"no storage for discs", func(_ *Ground, p *Pool) { p.Discs = "iso" }, "pve1", CodeStorageMissing, "pve1 has no storage iso"},
		{"a storage that is off", func(g *Ground, _ *Pool) { g.Stores[0].Active = false }, "pve1", CodeStorageMissing, "pve1 has no storage lvm"},
		{"storages cannot be seen", func(g *Ground, p *Pool) { g.Stores = nil; p.Clone, p.Storage = Full, "zfs" }, "pve1", "", ""},
		{"a full clone does not fit", func(g *Ground, p *Pool) { p.Clone = Full; g.Stores[0].Used = 81 * pricing.GiB }, "pve1", CodeStorageFull,
			"storage lvm on pve1 has 19.0 GiB left; 20.0 GiB for the machine and 0 MiB in reserve are more"},
		{"a linked clone begins with nothing", func(g *Ground, _ *Pool) { g.Stores[0].Used = 81 * pricing.GiB }, "pve1", "", ""},
		{"the storage's reserve", func(g *Ground, p *Pool) {
			p.StorageReserve = 10 * pricing.GiB
			g.Stores[0].Used = 91 * pricing.GiB
		}, "pve1", CodeStorageFull,
			"storage lvm on pve1 has 9.0 GiB left; 0 MiB for the machine and 10.0 GiB in reserve are more"},
		{"clones under way", func(g *Ground, p *Pool) {
			p.Clone = Full
			g.Pools["web"] = p
			g.Stores[0].Used = 50 * pricing.GiB
			g.stands("pve1", small)
			g.stands("pve1", small)
		}, "pve1", CodeStorageFull, "storage lvm on pve1 has 10.0 GiB left; 20.0 GiB for the machine and 0 MiB in reserve are more"},
		{"memory is promised to ours", func(g *Ground, _ *Pool) {
			g.stands("pve1", pricing.Shape{Name: "huge", CPU: 1000, Memory: 62 * pricing.GiB})
		}, "pve1", CodeNoMemory, "pve1 has 2.0 GiB of memory left to promise, small takes 4.0 GiB"},
		{"memory is promised to a stranger that is stopped", func(g *Ground, _ *Pool) {
			g.Guests[100] = &Guest{VMID: 100, Host: "pve1", Memory: 62 * pricing.GiB, CPUs: 1}
		}, "pve1", CodeNoMemory, "pve1 has 2.0 GiB of memory left to promise, small takes 4.0 GiB"},
		{"stopped strangers do not count", func(g *Ground, p *Pool) {
			p.IgnoreStopped = true
			g.Guests[100] = &Guest{VMID: 100, Host: "pve1", Memory: 62 * pricing.GiB, CPUs: 1, Stopped: true}
		}, "pve1", "", ""},
		{"those that may run do", func(g *Ground, p *Pool) {
			p.IgnoreStopped = true
			g.Guests[100] = &Guest{VMID: 100, Host: "pve1", Memory: 62 * pricing.GiB, CPUs: 1}
		}, "pve1", CodeNoMemory, "pve1 has 2.0 GiB of memory left to promise, small takes 4.0 GiB"},
		{"templates take nothing", func(g *Ground, _ *Pool) {
			g.Guests[100] = &Guest{VMID: 100, Host: "pve1", Memory: 62 * pricing.GiB, Template: true}
		}, "pve1", "", ""},
		{"the memory's reserve", func(_ *Ground, p *Pool) { p.MemoryReserve = 61 * pricing.GiB }, "pve1", CodeNoMemory, "pve1 has 3.0 GiB of memory left to promise, small takes 4.0 GiB"},
		{"a reserve larger than the host", func(_ *Ground, p *Pool) { p.MemoryReserve = 70 * pricing.GiB }, "pve1", CodeNoMemory, "pve1 has 0 MiB of memory left to promise, small takes 4.0 GiB"},
		{"memory promised more than once", func(g *Ground, p *Pool) {
			p.MemoryRatio = 1.1
			g.stands("pve1", pricing.Shape{Name: "huge", CPU: 1000, Memory: 62 * pricing.GiB})
		}, "pve1", "", ""},
		{"processors are promised", func(g *Ground, _ *Pool) {
			g.Guests[100] = &Guest{VMID: 100, Host: "pve1", Memory: pricing.GiB, CPUs: 15, Running: true}
		}, "pve1", CodeNoCPU, "pve1 has 1 processors left to promise, small takes 2"},
		{"a machine with more processors than the host", func(g *Ground, p *Pool) {
			p.CPURatio, g.Hosts[0].CPUs = 4, 1
		}, "pve1", CodeNoCPU, "pve1 has 1 processors, and small takes 2 in one machine"},
		{"processors promised more than once", func(g *Ground, p *Pool) {
			p.CPURatio = 4
			g.Guests[100] = &Guest{VMID: 100, Host: "pve1", Memory: pricing.GiB, CPUs: 60, Running: true}
		}, "pve1", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, p := aGround()
			c.change(g, p)
			r := g.Refuses(p, small, c.host)
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
	dear := func(host string, price pricing.Micros) func(*Ground, *Pool) {
		return func(g *Ground, _ *Pool) {
			g.Prices = pricing.DefaultBook()
			g.Prices.Hosts = map[string]pricing.HostPrices{host: {PerHost: &price}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(g *Ground, p *Pool)
		want   string
	}{
		{"by name, all being equal", func(*Ground, *Pool) {}, "pve1"},
		{"where fewest of the pool are", func(g *Ground, p *Pool) { g.stands("pve1", small); g.stands("pve2", small) }, "pve3"},
		{"other pools' machines do not spread this one's", func(g *Ground, p *Pool) {
			g.stands("pve1", small)
			g.stands("pve2", small)
			g.stands("pve3", small)
			g.Machines[2].Pool = "db"
		}, "pve3"},
		{"elsewhere than where the last machines failed", func(_ *Ground, p *Pool) {
			p.Failing = map[string]nodescaler.Reason{"pve1": {Code: CodeHostFailing, Text: "it rests"}}
		}, "pve2"},
		{"the cheapest", dear("pve1", 5*pricing.Unit), "pve2"},
		{"a host that is paid for already costs nothing more", func(g *Ground, p *Pool) {
			p.Spread = SpreadNone
			g.Prices = pricing.DefaultBook()
			g.Prices.PerHost = 5 * pricing.Unit
			g.stands("pve2", small)
		}, "pve2"},
		{"spread comes before price", func(g *Ground, p *Pool) {
			dear("pve3", 5*pricing.Unit)(g, p)
			g.stands("pve1", small)
			g.stands("pve2", small)
		}, "pve3"},
		{"the roomiest of equal price", func(g *Ground, p *Pool) {
			p.Spread = SpreadNone
			g.Guests[100] = &Guest{VMID: 100, Host: "pve1", Memory: pricing.GiB, CPUs: 1}
		}, "pve2"},
		{"nowhere", func(g *Ground, p *Pool) { p.Maintenance = []string{"pve1", "pve2", "pve3"} }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, p := aGround()
			c.change(g, p)
			got, why := g.Place(p, small)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got == "" && len(why) != len(g.Hosts) {
				t.Errorf("%d reasons for %d hosts", len(why), len(g.Hosts))
			}
		})
	}
}

func TestPlacesAreSpreadAsMachinesAreOrdered(t *testing.T) {
	g, p := aGround()
	on := map[string]int{}
	for range 9 {
		host, _ := g.Place(p, small)
		g.stands(host, small)
		on[host]++
	}
	if diff := cmp.Diff(map[string]int{"pve1": 3, "pve2": 3, "pve3": 3}, on); diff != "" {
		t.Error(diff)
	}
}
