package pvesim

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// machines are the virtual machines of all hosts, with who is notified of them.
type machines struct {
	c      *World
	vms    map[int]*vm
	onBoot func(Boot)
	onHalt func(Halt)
	// startVM starts a machine in a task.
	startVM func(h *host, who *access.Identity, id int)
}

// switchOn lets a machine run from now on.
func (g *machines) switchOn(m *vm) {
	m.host.pids++
	m.pid = 1000 + m.host.pids
	m.state, m.since, m.Made = "running", g.c.Clock, nil
	g.live(m)
}

// switchOff is the end of a machine's QEMU, whoever is to blame.
func (g *machines) switchOff(m *vm) {
	if m.running() {
		m.state, m.since, m.pid = "stopped", g.c.Clock, 0
	}
	g.halt(m)
}

// halt ends a guest, and says so if it had booted.
func (g *machines) halt(m *vm) {
	if m.awake && g.onHalt != nil {
		g.onHalt(Halt{VMID: m.id, Name: m.name(), Host: m.host.Name, UUID: vmconf.UUIDOf(m.Conf), At: g.c.Clock})
	}
	m.endGuest()
}

func (m *vm) endGuest() {
	m.agent, m.awake = false, false
	if m.guest != nil {
		m.guest.Kill()
		m.guest = nil
	}
}

// live lets a guest boot in a machine that has just been switched on or reset, if there is one.
func (g *machines) live(m *vm) {
	g.halt(m)
	if m.installed(g.c) == guestNone {
		return
	}
	m.boots++
	takes, boots := g.guestFault(m, g.c.cfg.Times.Boot.Draw(g.c.rng("boot")))
	if !boots {
		return
	}
	g.boot(m, takes)
}

// boot lets a guest come up after a while.
func (g *machines) boot(m *vm, takes time.Duration) {
	m.guest = g.c.Start(func(p *engine.Process) {
		p.Sleep(takes)
		p.Wait(engine.Never, func() bool { return m.state == "running" })
		m.guest = nil
		m.wakeUp()
		g.tell(m)
	})
}

// wakeUp is when a guest has booted, or goes on where it was.
func (m *vm) wakeUp() {
	m.endGuest()
	m.awake, m.agent = true, vmconf.AgentEnabled(m.Conf)
}

// installed is what is installed on the disk that a machine boots from.
func (m *vm) installed(c *World) string {
	_, v := c.volume(m.host, vmconf.ParseDrive(m.Conf[vmconf.BootDrive(m.Conf)]).File)
	if v == nil {
		return guestNone
	}
	return v.guest
}

// askToStop asks a guest to shut down. One that is still booting does not hear it, and a deaf one
// never.
func (m *vm) askToStop(c *World) {
	if !m.awake || m.installed(c) != guestSystem || m.guest != nil {
		return
	}
	takes := guestStops.Draw(c.rng("shutdown"))
	m.guest = c.Start(func(p *engine.Process) {
		p.Sleep(takes)
		m.guest = nil
		c.switchOff(m)
	})
}

// tell says that a machine has booted, and what it was told.
func (g *machines) tell(m *vm) {
	if g.onBoot == nil {
		return
	}
	user, meta, network := g.seedOf(m)
	g.onBoot(Boot{
		VMID: m.id, Name: m.name(), Host: m.host.Name, UUID: vmconf.UUIDOf(m.Conf), Config: maps.Clone(m.Conf),
		UserData: user, MetaData: meta, NetworkConfig: network, At: g.c.Clock,
	})
}

// hostDied is what becomes of a host's machines and tasks when it dies: they end where they are.
func (g *machines) hostDied(h *host) {
	for _, id := range g.vmIDs(h) {
		if m := g.vms[id]; m.running() {
			g.switchOff(m)
		}
	}
	for _, t := range h.tasks {
		if t.running() {
			t.p.Kill()
		}
	}
	h.files = nil
}

// hostBack starts those of a host's machines that are to run whenever it does.
func (g *machines) hostBack(h *host) {
	for _, id := range g.vmIDs(h) {
		if m := g.vms[id]; m.Conf["onboot"] == "1" && !m.Template() && !m.running() && !g.c.ha.manages(id) {
			g.startVM(h, &access.Identity{User: access.RootUser}, id)
		}
	}
}

// vmAt is a virtual machine whose configuration lies with a host.
func (g *machines) vmAt(h *host, id int) *vm {
	if m := g.vms[id]; m != nil && m.host == h {
		return m
	}
	return nil
}

// vmIDs are those of all virtual machines, or of those on one host.
func (g *machines) vmIDs(h *host) []int {
	var ids []int
	for id, m := range g.vms {
		if h == nil || m.host == h {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (m *vm) running() bool { return m.state != "stopped" }

// name is how a virtual machine is listed.
func (m *vm) name() string {
	if name := m.Conf["name"]; name != "" {
		return name
	}
	return "VM " + strconv.Itoa(m.id)
}

// How busy a guest is: what it uses of one CPU, and which part of its memory when it has booted and
// before.
const (
	idleShare  = 0.02
	idleMemory = 4
	bootMemory = 16
)

// usage is how busy a machine's processors are, and how much of its memory is used.
func (m *vm) usage() (cpu float64, mem int64) {
	part := int64(bootMemory)
	if m.awake {
		part = idleMemory
	}
	if m.state == "running" {
		cpu = idleShare / float64(max(vmconf.CPUsOf(m.Conf), 1))
	}
	return cpu, vmconf.MemoryOf(m.Conf) << 20 / part
}

// seed is what cloud-init is told.
type seed struct{ user, network, meta []byte }

// seedOf is what a guest finds: on a NoCloud disc that somebody has put into a drive, or on Proxmox
// VE's own.
func (g *machines) seedOf(m *vm) (user, meta, network []byte) {
	for _, key := range vmconf.DrivesOf(m.Conf) {
		_, v := g.c.volume(m.host, vmconf.ParseDrive(m.Conf[key]).File)
		if v == nil || len(v.data) == 0 {
			continue
		}
		if files, err := vmconf.ReadNoCloud(v.data); err == nil {
			return files["user-data"], files["meta-data"], files["network-config"]
		}
	}
	if m.seed != nil {
		return m.seed.user, m.seed.meta, m.seed.network
	}
	return nil, nil, nil
}

// Boot is a virtual machine that has booted, with what it was told.
type Boot struct {
	VMID          int
	Name, Host    string
	UUID          string // of its system management BIOS, which the guest sees as its own
	Config        map[string]string
	UserData      []byte // of its NoCloud disc, or of Proxmox VE's own keys
	MetaData      []byte
	NetworkConfig []byte
	At            time.Time
}

// Halt is a virtual machine whose guest, which had booted, runs no more.
type Halt struct {
	VMID       int
	Name, Host string
	UUID       string
	At         time.Time
}
