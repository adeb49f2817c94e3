package pvesim

import (
	"maps"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// machines are the virtual machines of all hosts, with who is notified of them.
type machines struct {
	c      *Cluster
	vms    map[int]*vm
	onBoot func(Boot)
	onHalt func(Halt)
	// startVM starts a machine in a task of root's.
	startVM func(h *host, id int)
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
func (m *vm) installed(c *Cluster) string {
	_, v := c.volume(m.host, vmconf.ParseDrive(m.Conf[vmconf.BootDrive(m.Conf)]).File)
	if v == nil {
		return guestNone
	}
	return v.guest
}

// askToStop asks a guest to shut down. One that is still booting does not hear it, and a deaf one
// never.
func (m *vm) askToStop(c *Cluster) {
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
			g.startVM(h, id)
		}
	}
}
