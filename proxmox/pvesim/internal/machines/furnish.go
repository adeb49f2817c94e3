package machines

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// furnish gives a virtual machine that is there from the start its disk and its state.
func furnish(c *world.World, m *world.Guest, v world.VM) {
	defaults := map[string]string{"meta": fmt.Sprintf("creation-qemu=%s,ctime=%d", qemuRelease, c.Clock.Unix())}
	if v.Disk > 0 {
		defaults["scsi0"] = furnishDisk(c, m, v)
		defaults["scsihw"], defaults["ostype"] = "virtio-scsi-pci", "l26"
		defaults["net0"] = "virtio,bridge=" + m.Host.Bridges[0]
	}
	otherwise(m, defaults)
	for _, key := range vmconf.DrivesOf(m.Conf) {
		furnishDrive(c, m, key)
	}
	complete(c, m.Conf)
	otherwise(m, map[string]string{
		"boot": vmconf.DefaultBootOrder(m.Conf), "smbios1": "uuid=" + vmconf.NewUUID(c.RNG("uuids")), "vmgenid": vmconf.NewUUID(c.RNG("uuids")),
	})
	if tags := m.Conf["tags"]; tags != "" {
		m.Conf["tags"] = normalTags(c, tags)
	}
	if v.Running {
		m.Host.PIDs++
		m.PID, m.State, m.Awake = 1000+m.Host.PIDs, "running", m.Installed(c) != world.GuestNone
		m.Agent = m.Awake && vmconf.AgentEnabled(m.Conf)
	}
}

// otherwise sets keys that are not set.
func otherwise(m *world.Guest, conf map[string]string) {
	for key, value := range conf {
		if m.Conf[key] == "" {
			m.Conf[key] = value
		}
	}
}

// furnishDisk puts a machine's disk on its storage.
func furnishDisk(c *world.World, m *world.Guest, v world.VM) string {
	s := c.Storages[v.Storage]
	format := s.FormatFor("qcow2")
	name := s.FreeName(m.Host, v.ID, format)
	if v.Template && s.CanBase() {
		name = strings.Replace(name, "vm-"+strconv.Itoa(v.ID), "base-"+strconv.Itoa(v.ID), 1)
	}
	guest := cmp.Or(v.Guest, world.GuestSystem)
	if guest == "none" {
		guest = world.GuestNone
	}
	disk := &world.Volume{Name: name, Content: "images", Format: format, Size: v.Disk, VMID: v.ID, At: c.Clock, Guest: guest}
	s.At(m.Host)[name] = disk
	return s.VolID(disk) + ",size=" + vmconf.PrintSize(v.Disk)
}

// furnishDrive puts the cloud-init drive or the further disk that the configuration wishes for
// where it belongs.
func furnishDrive(c *world.World, m *world.Guest, key string) {
	d := vmconf.ParseDrive(m.Conf[key])
	storage, name, _ := vmconf.SplitVolume(d.File)
	s := c.Storages[storage]
	if s == nil {
		return
	}
	var w world.Wanted
	switch {
	case name == "cloudinit":
		w = cloudInitWanted(s, m.ID, d.Opts["format"])
		d.Opts["media"] = "cdrom"
	case d.Wanted() != "":
		gib, _ := strconv.ParseFloat(d.Wanted(), 64)
		w = world.Wanted{Format: s.FormatFor(d.Opts["format"]), Size: int64(gib * (1 << 30))}
		w.Name = s.FreeName(m.Host, m.ID, w.Format)
		d.Opts["size"] = vmconf.PrintSize(w.Size)
	default:
		return
	}
	v := &world.Volume{Name: w.Name, Content: "images", Format: w.Format, Size: w.Size, VMID: m.ID, At: c.Clock}
	s.At(m.Host)[v.Name] = v
	d.File = s.VolID(v)
	delete(d.Opts, "format")
	m.Conf[key] = d.String()
}

// Add puts a virtual machine where the configuration has it.
func Add(c *world.World, v world.VM) {
	m := &world.Guest{
		Config: vmconf.New(map[string]string{}), ID: v.ID, Host: c.Node(v.Host), State: "stopped", Since: c.Clock,
	}
	for key, value := range v.Config {
		m.Conf[key] = value
	}
	if v.Template {
		m.Conf["template"] = "1"
	}
	c.VMs[v.ID] = m
	if v.Pool != "" {
		c.Access.Pools[v.Pool].Vms[v.ID] = true
	}
	furnish(c, m, v)
}
