package world

import (
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// Beside does something outside of the emulated world, which goes on meanwhile.
func (g *Machines) Beside(p *engine.Process, do func() error) error {
	var err error
	done := false
	go func() {
		said := do()
		g.c.With(func() { err, done = said, true })
	}()
	p.Until(func() bool { return done })
	return err
}

// begin starts a machine outside, if it does not run there, and waits for its guest.
func (g *Machines) begin(m *Guest) {
	m.Boots++
	takes, boots := g.guestFault(m, 0)
	if m.Outside == nil {
		var out Running
		out = g.c.Config.Guests.Start(g.outside(m, boots), func() { g.c.With(func() { g.ended(m, out) }) })
		m.Outside = out
	}
	out := m.Outside
	m.Guest = g.c.Start(func(p *engine.Process) {
		ping := func() error { _, err := out.Agent("guest-ping", nil); return err }
		for vmconf.AgentEnabled(m.Conf) && g.Beside(p, ping) != nil {
			p.Sleep(time.Second)
		}
		p.Sleep(takes)
		m.Guest = nil
		m.WakeUp()
		g.tell(m)
	})
}

// ended is when a machine's process has ended by itself.
func (g *Machines) ended(m *Guest, was Running) {
	if m.Outside == was {
		m.Outside = nil
		g.SwitchOff(m)
	}
}

// outside describes a machine. One that is not to boot has no disks.
func (g *Machines) outside(m *Guest, boots bool) *Machine {
	out := &Machine{
		VMID: m.ID, UUID: vmconf.UUIDOf(m.Conf), CPUs: vmconf.CPUsOf(m.Conf), Memory: vmconf.MemoryOf(m.Conf) << 20, Agent: vmconf.AgentEnabled(m.Conf),
	}
	for _, key := range Sorted(m.Conf) {
		if vmconf.IsNet(key) {
			out.MACs = append(out.MACs, strings.ToLower(vmconf.ParseNet(m.Conf[key])["macaddr"]))
		}
	}
	for _, key := range vmconf.DrivesOf(m.Conf) {
		if d := g.drive(m, key, vmconf.ParseDrive(m.Conf[key])); boots || d.Disk == 0 {
			out.Drives = append(out.Drives, d)
		}
	}
	return out
}

// drive describes what a machine's drive holds. A disk's content gets its number with the first
// start from it.
func (g *Machines) drive(m *Guest, key string, d vmconf.Drive) Drive {
	_, v := g.c.Volume(m.Host, d.File)
	switch {
	case d.CloudInit() && m.Seed != nil:
		return Drive{Key: key, Seed: map[string][]byte{"user-data": m.Seed.User, "meta-data": m.Seed.Meta, "network-config": m.Seed.Network}}
	case d.CDROM() && v != nil && len(v.Data) > 0:
		return Drive{Key: key, Disc: v.Data}
	case d.CDROM() || v == nil:
		return Drive{Key: key, Empty: true}
	}
	if v.Disk == 0 {
		g.disks++
		v.Disk = g.disks
	}
	return Drive{Key: key, Disk: v.Disk, Size: v.Size, System: v.Guest != GuestNone}
}

// MayCopy refuses to copy a disk that a machine has run from: what it holds would not be copied.
func (v *Volume) MayCopy() error {
	if v.Disk != 0 {
		return failure.New("volume '%s': a disk that a real guest has run from cannot be copied by the emulator", v.Name)
	}
	return nil
}
