package world

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// SwitchOn lets a machine run from now on.
func (g *Machines) SwitchOn(m *Guest) {
	m.Host.PIDs++
	m.PID = 1000 + m.Host.PIDs
	m.State, m.Since, m.Made = "running", g.c.Clock, nil
	g.Live(m)
}

// SwitchOff is the end of a machine's QEMU, whoever is to blame.
func (g *Machines) SwitchOff(m *Guest) {
	if m.Running() {
		m.State, m.Since, m.PID = "stopped", g.c.Clock, 0
	}
	if m.Outside != nil {
		m.Outside.Kill()
		m.Outside = nil
	}
	g.halt(m)
}

// halt ends a guest, and says so if it had booted.
func (g *Machines) halt(m *Guest) {
	if m.Awake && g.onHalt != nil {
		g.onHalt(Halt{VMID: m.ID, Name: m.Name(), Host: m.Host.Name, UUID: vmconf.UUIDOf(m.Conf), At: g.c.Clock})
	}
	m.endGuest()
}

func (m *Guest) endGuest() {
	m.Agent, m.Awake = false, false
	if m.Guest != nil {
		m.Guest.Kill()
		m.Guest = nil
	}
}

// Live lets a guest boot in a machine that has just been switched on or reset, if there is one.
func (g *Machines) Live(m *Guest) {
	g.halt(m)
	if g.c.Config.Guests != nil {
		g.begin(m)
		return
	}
	if m.Installed(g.c) == GuestNone {
		return
	}
	m.Boots++
	takes, boots := g.guestFault(m, g.c.Config.Times.Boot.Draw(g.c.RNG("boot")))
	if !boots {
		return
	}
	g.Boot(m, takes)
}

// Boot lets a guest come up after a while.
func (g *Machines) Boot(m *Guest, takes time.Duration) {
	m.Guest = g.c.Start(func(p *engine.Process) {
		p.Sleep(takes)
		p.Wait(engine.Never, func() bool { return m.State == "running" })
		m.Guest = nil
		m.WakeUp()
		g.tell(m)
	})
}

// WakeUp is when a guest has booted, or goes on where it was.
func (m *Guest) WakeUp() {
	m.endGuest()
	m.Awake, m.Agent = true, vmconf.AgentEnabled(m.Conf)
}

// Installed is what is installed on the disk that a machine boots from.
func (m *Guest) Installed(c *World) string {
	_, v := c.Volume(m.Host, vmconf.ParseDrive(m.Conf[vmconf.BootDrive(m.Conf)]).File)
	if v == nil {
		return GuestNone
	}
	return v.Guest
}

// AskToStop asks a guest to shut down. One that is still booting does not hear it, and a deaf one
// never.
func (m *Guest) AskToStop(c *World) {
	if out := m.Outside; out != nil {
		go func() { _, _ = out.Monitor("system_powerdown", nil) }() // who asks waits for the end
		return
	}
	if !m.Awake || m.Installed(c) != GuestSystem || m.Guest != nil {
		return
	}
	takes := GuestStops.Draw(c.RNG("shutdown"))
	m.Guest = c.Start(func(p *engine.Process) {
		p.Sleep(takes)
		m.Guest = nil
		c.SwitchOff(m)
	})
}

// tell reports that a machine has booted, with its cloud-init data.
func (g *Machines) tell(m *Guest) {
	if g.onBoot == nil {
		return
	}
	user, meta, network := g.seedOf(m)
	g.onBoot(Boot{
		VMID: m.ID, Name: m.Name(), Host: m.Host.Name, UUID: vmconf.UUIDOf(m.Conf), Config: maps.Clone(m.Conf),
		UserData: user, MetaData: meta, NetworkConfig: network, At: g.c.Clock,
	})
}

// hostDied is what becomes of a host's machines and tasks when it dies: they end where they are.
func (g *Machines) hostDied(h *Node) {
	for _, id := range g.VMIDs(h) {
		if m := g.VMs[id]; m.Running() {
			g.SwitchOff(m)
		}
	}
	for _, t := range h.Tasks {
		if t.Running() {
			t.p.Kill()
		}
	}
	h.Files = nil
}

// hostBack starts those of a host's machines that are to run whenever it does.
func (g *Machines) hostBack(h *Node) {
	for _, id := range g.VMIDs(h) {
		if m := g.VMs[id]; m.Conf["onboot"] == "1" && !m.Template() && !m.Running() && !g.c.HA.Manages(id) {
			g.StartVM(h, &access.Identity{User: access.RootUser}, id)
		}
	}
}

// VMAt is a virtual machine whose configuration lies with a host.
func (g *Machines) VMAt(h *Node, id int) *Guest {
	if m := g.VMs[id]; m != nil && m.Host == h {
		return m
	}
	return nil
}

// VMIDs are those of all virtual machines, or of those on one host.
func (g *Machines) VMIDs(h *Node) []int {
	var ids []int
	for id, m := range g.VMs {
		if h == nil || m.Host == h {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Running reports whether the machine is not stopped.
func (m *Guest) Running() bool { return m.State != "stopped" }

// Name is how a virtual machine is listed.
func (m *Guest) Name() string {
	if name := m.Conf["name"]; name != "" {
		return name
	}
	return "VM " + strconv.Itoa(m.ID)
}

// How busy a guest is: what it uses of one CPU, and which part of its memory when it has booted and
// before.
const (
	idleShare  = 0.02
	idleMemory = 4
	bootMemory = 16
)

// Usage is how busy a machine's processors are, and how much of its memory is used.
func (m *Guest) Usage() (cpu float64, mem int64) {
	part := int64(bootMemory)
	if m.Awake {
		part = idleMemory
	}
	if m.State == "running" {
		cpu = idleShare / float64(max(vmconf.CPUsOf(m.Conf), 1))
	}
	return cpu, vmconf.MemoryOf(m.Conf) << 20 / part
}

// Seed is what cloud-init reads.
type Seed struct{ User, Network, Meta []byte }

// seedOf is what a guest finds: on a NoCloud disc that a caller has put into a drive, or on Proxmox
// VE's own.
func (g *Machines) seedOf(m *Guest) (user, meta, network []byte) {
	for _, key := range vmconf.DrivesOf(m.Conf) {
		_, v := g.c.Volume(m.Host, vmconf.ParseDrive(m.Conf[key]).File)
		if v == nil || len(v.Data) == 0 {
			continue
		}
		if files, err := vmconf.ReadNoCloud(v.Data); err == nil {
			return files["user-data"], files["meta-data"], files["network-config"]
		}
	}
	if m.Seed != nil {
		return m.Seed.User, m.Seed.Meta, m.Seed.Network
	}
	return nil, nil, nil
}

// GuestStops is how long a guest takes to shut down when it is asked.
var GuestStops = timing.Range{Min: 3 * time.Second, Max: 12 * time.Second}
