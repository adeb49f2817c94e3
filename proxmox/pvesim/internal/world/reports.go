package world

import (
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Acquaint lets everybody have heard from everybody, for the cluster has been running for a day.
func (rs *reports) Acquaint() {
	rs.c.agree()
	for _, h := range rs.c.Nodes {
		phase := timing.Range{Min: broadcastEvery / 10, Max: broadcastEvery}.Draw(rs.c.RNG("pvestatd " + h.Name))
		h.Tells = rs.c.Clock.Add(phase)
		rs.broadcast(h)
	}
	for _, h := range rs.c.Nodes {
		rs.GoOn(h)
	}
}

// GoOn starts what goes on on a host by itself: pvestatd, which says how it is doing.
func (rs *reports) GoOn(h *Node) {
	rs.c.Start(func(p *engine.Process) {
		for {
			p.Sleep(h.Tells.Sub(rs.c.Clock))
			h.Tells = rs.c.Clock.Add(broadcastEvery)
			if h.Up && rs.c.Faults.Active("freeze resources", "on", h.Name) == nil {
				rs.broadcast(h)
			}
		}
	})
}

// broadcast lets a host report to all that it reaches how it is doing.
func (rs *reports) broadcast(h *Node) {
	r := rs.report(h)
	for _, other := range rs.c.Nodes {
		if h.reaches(other) {
			other.Heard[h] = r
		}
	}
}

// Last is what a host last heard from another, unless that is too long ago to count.
func (rs *reports) Last(h, by *Node) *Report {
	if r := h.Heard[by]; r != nil && rs.c.Clock.Sub(r.At) <= BroadcastExpires {
		return r
	}
	return nil
}

func (rs *reports) report(h *Node) *Report {
	r := &Report{At: rs.c.Clock, Guests: rs.GuestsOn(h), Storages: map[string]SpaceReport{}}
	r.Node = rs.NodeNumbers(h, r.Guests)
	for name, s := range rs.c.Storages {
		if s.On(h) && !s.Disabled() {
			r.Storages[name] = SpaceReport{s.UsedOn(h), s.Total}
		}
	}
	return r
}

// GuestsOn are the numbers of a host's virtual machines.
func (rs *reports) GuestsOn(h *Node) map[int]GuestReport {
	all := map[int]GuestReport{}
	for id, m := range rs.c.VMs {
		if m.Host == h {
			all[id] = rs.guestNumbers(m)
		}
	}
	return all
}

// NodeNumbers are a host's own. What its virtual machines use counts as used.
func (rs *reports) NodeNumbers(h *Node, guests map[int]GuestReport) NodeReport {
	n := NodeReport{
		Uptime: seconds(rs.c.Clock.Sub(h.Since)), CPU: idleCPU, MaxCPU: h.CPUs, Mem: hostMemory, MaxMem: h.Memory, Disk: rootUsed, MaxDisk: rs.RootSize(),
	}
	for _, id := range Sorted(guests) { // for sums of fractions depend on their order
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

// RootSize is what a host's root file system has: the storage local, if there is one, is a folder
// of it.
func (rs *reports) RootSize() int64 {
	if s := rs.c.Storages["local"]; s != nil {
		return s.Total
	}
	return 256 << 30
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// guestNumbers are a virtual machine's own.
func (rs *reports) guestNumbers(m *Guest) GuestReport {
	g := GuestReport{
		At: rs.c.Clock, Name: m.Name(), Status: "stopped", Template: m.Template(), MaxCPU: vmconf.CPUsOf(m.Conf), MaxMem: vmconf.MemoryOf(m.Conf) << 20,
		MaxDisk: vmconf.SizeOf(m.Conf[vmconf.BootDrive(m.Conf)]),
	}
	if m.Running() {
		g.Status, g.Uptime = "running", seconds(rs.c.Clock.Sub(m.Since))
		g.CPU, g.Mem = m.Usage()
	}
	return g
}
