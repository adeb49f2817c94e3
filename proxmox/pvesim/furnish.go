package pvesim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// furnish gives a virtual machine that is there from the start its disk and its state.
func furnish(c *World, m *vm, v VM) {
	defaults := map[string]string{"meta": fmt.Sprintf("creation-qemu=%s,ctime=%d", qemuRelease, c.Clock.Unix())}
	if v.Disk > 0 {
		defaults["scsi0"] = furnishDisk(c, m, v)
		defaults["scsihw"], defaults["ostype"] = "virtio-scsi-pci", "l26"
		defaults["net0"] = "virtio,bridge=" + m.host.Bridges[0]
	}
	otherwise(m, defaults)
	for _, key := range vmconf.DrivesOf(m.Conf) {
		furnishDrive(c, m, key)
	}
	complete(c, m.Conf)
	otherwise(m, map[string]string{
		"boot": vmconf.DefaultBootOrder(m.Conf), "smbios1": "uuid=" + vmconf.NewUUID(c.rng("uuids")), "vmgenid": vmconf.NewUUID(c.rng("uuids")),
	})
	if tags := m.Conf["tags"]; tags != "" {
		m.Conf["tags"] = normalTags(c, tags)
	}
	if v.Running {
		m.host.pids++
		m.pid, m.state, m.awake = 1000+m.host.pids, "running", m.installed(c) != guestNone
		m.agent = m.awake && vmconf.AgentEnabled(m.Conf)
	}
}

// otherwise sets keys that are not set.
func otherwise(m *vm, conf map[string]string) {
	for key, value := range conf {
		if m.Conf[key] == "" {
			m.Conf[key] = value
		}
	}
}

// furnishDisk puts a machine's disk on its storage.
func furnishDisk(c *World, m *vm, v VM) string {
	s := c.storages[v.Storage]
	format := s.formatFor("qcow2")
	name := s.freeName(m.host, v.ID, format)
	if v.Template && s.canBase() {
		name = strings.Replace(name, "vm-"+strconv.Itoa(v.ID), "base-"+strconv.Itoa(v.ID), 1)
	}
	guest := cmp.Or(v.Guest, guestSystem)
	if guest == "none" {
		guest = guestNone
	}
	disk := &volume{name: name, content: "images", format: format, size: v.Disk, vmid: v.ID, at: c.Clock, guest: guest}
	s.at(m.host)[name] = disk
	return s.volid(disk) + ",size=" + vmconf.PrintSize(v.Disk)
}

// furnishDrive puts the cloud-init drive or the further disk that the configuration wishes for
// where it belongs.
func furnishDrive(c *World, m *vm, key string) {
	d := vmconf.ParseDrive(m.Conf[key])
	storage, name, _ := vmconf.SplitVolume(d.File)
	s := c.storages[storage]
	if s == nil {
		return
	}
	var w wanted
	switch {
	case name == "cloudinit":
		w = cloudInitWanted(s, m.id, d.Opts["format"])
		d.Opts["media"] = "cdrom"
	case d.Wanted() != "":
		gib, _ := strconv.ParseFloat(d.Wanted(), 64)
		w = wanted{format: s.formatFor(d.Opts["format"]), size: int64(gib * (1 << 30))}
		w.name = s.freeName(m.host, m.id, w.format)
		d.Opts["size"] = vmconf.PrintSize(w.size)
	default:
		return
	}
	v := &volume{name: w.name, content: "images", format: w.format, size: w.size, vmid: m.id, at: c.Clock}
	s.at(m.host)[v.name] = v
	d.File = s.volid(v)
	delete(d.Opts, "format")
	m.Conf[key] = d.String()
}

// addVM puts a virtual machine where the configuration has it.
func addVM(c *World, v VM) {
	m := &vm{
		Config: vmconf.New(map[string]string{}), id: v.ID, host: c.host(v.Host), state: "stopped", since: c.Clock,
	}
	for key, value := range v.Config {
		m.Conf[key] = value
	}
	if v.Template {
		m.Conf["template"] = "1"
	}
	c.vms[v.ID] = m
	if v.Pool != "" {
		c.access.Pools[v.Pool].Vms[v.ID] = true
	}
	furnish(c, m, v)
}
