package pvesim

import (
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// report is what pvestatd of a host tells all hosts about itself, every ten seconds. It is saved as
// it is.
type report struct {
	At       time.Time              `json:"at"`
	Node     nodeReport             `json:"node"`
	Guests   map[int]guestReport    `json:"guests"`
	Storages map[string]spaceReport `json:"storages"`
}

type nodeReport struct {
	Uptime  int64   `json:"uptime"`
	CPU     float64 `json:"cpu"`
	MaxCPU  int     `json:"maxcpu"`
	Mem     int64   `json:"mem"`
	MaxMem  int64   `json:"maxmem"`
	Disk    int64   `json:"disk"` // of the root file system
	MaxDisk int64   `json:"maxdisk"`
}

type guestReport struct {
	At       time.Time `json:"at"`
	Name     string    `json:"name"`
	Status   string    `json:"status"`
	Template bool      `json:"template"`
	Uptime   int64     `json:"uptime"`
	CPU      float64   `json:"cpu"`
	MaxCPU   int       `json:"maxcpu"`
	Mem      int64     `json:"mem"`
	MaxMem   int64     `json:"maxmem"`
	MaxDisk  int64     `json:"maxdisk"`
}

type spaceReport struct {
	Used  int64 `json:"used"`
	Total int64 `json:"total"`
}

// reports is what hosts know of each other.
type reports struct{ c *World }

// begin lets everybody have heard from everybody, for the cluster has been running for a day.
func (rs *reports) begin() {
	rs.c.agree()
	for _, h := range rs.c.hosts {
		phase := timing.Range{Min: broadcastEvery / 10, Max: broadcastEvery}.Draw(rs.c.rng("pvestatd " + h.Name))
		h.tells = rs.c.Clock.Add(phase)
		rs.broadcast(h)
	}
	for _, h := range rs.c.hosts {
		rs.goOn(h)
	}
}

// goOn starts what goes on on a host by itself: pvestatd, which says how it is doing.
func (rs *reports) goOn(h *host) {
	rs.c.Start(func(p *engine.Process) {
		for {
			p.Sleep(h.tells.Sub(rs.c.Clock))
			h.tells = rs.c.Clock.Add(broadcastEvery)
			if h.up && rs.c.faults.Active("freeze resources", "on", h.Name) == nil {
				rs.broadcast(h)
			}
		}
	})
}

// broadcast lets a host tell all that it reaches how it is doing.
func (rs *reports) broadcast(h *host) {
	r := rs.report(h)
	for _, other := range rs.c.hosts {
		if h.reaches(other) {
			other.heard[h] = r
		}
	}
}

// last is what a host was told last by another, unless that is too long ago to count.
func (rs *reports) last(h, by *host) *report {
	if r := h.heard[by]; r != nil && rs.c.Clock.Sub(r.At) <= broadcastExpires {
		return r
	}
	return nil
}

func (rs *reports) report(h *host) *report {
	r := &report{At: rs.c.Clock, Guests: rs.guestsOn(h), Storages: map[string]spaceReport{}}
	r.Node = rs.nodeNumbers(h, r.Guests)
	for name, s := range rs.c.storages {
		if s.on(h) && !s.disabled() {
			r.Storages[name] = spaceReport{s.used(h), s.Total}
		}
	}
	return r
}

// guestsOn are the numbers of a host's virtual machines.
func (rs *reports) guestsOn(h *host) map[int]guestReport {
	all := map[int]guestReport{}
	for id, m := range rs.c.vms {
		if m.host == h {
			all[id] = rs.guestNumbers(m)
		}
	}
	return all
}

// nodeNumbers are a host's own. What its virtual machines use counts as used.
func (rs *reports) nodeNumbers(h *host, guests map[int]guestReport) nodeReport {
	n := nodeReport{
		Uptime: seconds(rs.c.Clock.Sub(h.since)), CPU: idleCPU, MaxCPU: h.CPUs, Mem: hostMemory, MaxMem: h.Memory, Disk: rootUsed, MaxDisk: rs.rootSize(),
	}
	for _, id := range sorted(guests) { // for sums of fractions depend on their order
		g := guests[id]
		n.Mem += g.Mem
		n.CPU += g.CPU * float64(g.MaxCPU) / float64(h.CPUs)
	}
	n.CPU, n.Mem = min(n.CPU, 1), min(n.Mem, n.MaxMem)
	return n
}

// What a host has and uses besides its virtual machines.
const (
	hostMemory = 2 << 30
	rootUsed   = 8 << 30
	idleCPU    = 0.01
)

// rootSize is what a host's root file system has: the storage local, if there is one, is a folder
// of it.
func (rs *reports) rootSize() int64 {
	if s := rs.c.storages["local"]; s != nil {
		return s.Total
	}
	return 256 << 30
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// guestNumbers are a virtual machine's own.
func (rs *reports) guestNumbers(m *vm) guestReport {
	g := guestReport{
		At: rs.c.Clock, Name: m.name(), Status: "stopped", Template: m.Template(), MaxCPU: vmconf.CPUsOf(m.Conf), MaxMem: vmconf.MemoryOf(m.Conf) << 20,
		MaxDisk: vmconf.SizeOf(m.Conf[vmconf.BootDrive(m.Conf)]),
	}
	if m.running() {
		g.Status, g.Uptime = "running", seconds(rs.c.Clock.Sub(m.since))
		g.CPU, g.Mem = m.usage()
	}
	return g
}
