package pve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// emptyDrive is a drive with nothing in it.
const emptyDrive = "none,media=cdrom"

// maxNotes is less than the 8192 characters that notes may have, with room for the mark.
const maxNotes = 7000

// notes are the machine's notes: for people first, and the mark in the last line.
func notes(i *intents.Intent, owner string, s stage, price string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** is a machine of Plimsoll, owner `%s`, pool `%s`, shape `%s`: %s vCPU, %s.\n\n",
		i.Name, owner, i.Pool, i.Shape.Name, i.Shape.CPU.Cores(), i.Shape.Memory)
	fmt.Fprintf(&b, "Order `%s` of %s.", i.Order, i.Created.UTC().Format("2006-01-02 15:04:05 MST"))
	if i.Why != "" {
		fmt.Fprintf(&b, " %s.", strings.TrimSuffix(strings.ReplaceAll(i.Why, "\n", " "), "."))
	}
	if price != "" {
		fmt.Fprintf(&b, "\n\nIt costs %s.", price)
	}
	text := []rune(b.String())
	m := mark{Owner: owner, Order: i.Order, Pool: i.Pool, Shape: i.Shape.Name, VMID: i.VMID, Created: i.Created, Stage: s, Cluster: i.Cluster}
	made := ""
	if line := madeLine(i); line != "" {
		made = "\n\n`" + line + "`"
	}
	return string(text[:min(len(text), maxNotes)]) + made +
		"\n\nPlimsoll destroys it when it is not needed any more. To keep it, take it out of its resource pool, or change this line:\n\n`" + m.String() + "`\n"
}

// settings is the configuration of a machine, and the keys that it must not have.
func (w making) settings() (values map[string]string, remove []string, err error) {
	i, p, c := &w.i, w.p, w.conf
	memory := itoa(int(i.Shape.Memory / pricing.MiB))
	values = map[string]string{
		"cores": itoa(int(i.Shape.CPU / pricing.Core)), "sockets": "1", "memory": memory, "balloon": memory,
		"net0": net0(p, c, i.MAC), "tags": tags(p, w.cfg.Owner), "smbios1": withUUID(c.Raw["smbios1"], machineUUID(w.cfg.Owner, i.Order)),
		"description": notes(i, w.cfg.Owner, stageReady, w.book.Rate(i.Shape, i.Host, w.now).Display(w.book.Unit)),
		"protection":  "0", "onboot": "0",
	}
	maps.Copy(values, hardware(&p.Guest))
	// The template's, and not meant for its clones.
	for _, key := range []string{"hookscript", "vcpus", "cpulimit"} {
		if _, there := c.Raw[key]; there {
			remove = append(remove, key)
		}
	}
	if p.NeedsDisc() {
		slot := DiscDrive(c)
		if slot == "" {
			return nil, nil, fmt.Errorf("the template has no drive left for the first-boot disc")
		}
		values[slot] = i.Disc + ",media=cdrom"
		// The guest would see a second disc of that label.
		for _, key := range slices.Sorted(maps.Keys(c.Disks)) {
			if d := c.Disks[key]; key != slot && d.CloudInit() {
				remove = append(remove, key)
			}
		}
		return values, remove, nil
	}
	native, err := p.Join.Native(w.planned())
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(values, native)
	return values, remove, nil
}

// hardware are the keys of the virtual hardware that the pool sets.
func hardware(g *settings.Guest) map[string]string {
	values := maps.Clone(g.Options)
	if values == nil {
		values = map[string]string{}
	}
	set := func(on bool, key, value string) {
		if on {
			values[key] = value
		}
	}
	set(g.CPUType != "", "cpu", g.CPUType)
	set(g.Machine != "", "machine", g.Machine)
	set(g.NUMA, "numa", "1")
	set(g.Agent, "agent", "1")
	set(g.NoBalloon, "balloon", "0")
	return values
}

// tags are the machine's tags, ours first.
func tags(p *settings.Pool, owner string) string {
	return strings.Join(append([]string{settings.OwnerTag(owner)}, p.Tags...), ";")
}

// net0 is the first interface: the template's model and options with the address that the clone was
// given, or else the one that its disc names, on the pool's bridge.
func net0(p *settings.Pool, c *pveapi.VMConfig, planned string) string {
	model, mac := nic(c)
	value := model
	if mac == "" && discNames(p) {
		mac = planned
	}
	if mac != "" {
		value += "=" + mac
	}
	value += ",bridge=" + p.Bridge
	if p.Firewall {
		value += ",firewall=1"
	}
	if p.VLAN != 0 {
		value += ",tag=" + itoa(p.VLAN)
	}
	_, named := pveapi.Properties(c.Net["net0"])
	for _, key := range []string{"mtu", "queues", "rate", "trunks"} {
		if named[key] != "" {
			value += "," + key + "=" + named[key]
		}
	}
	return value
}

// nic reads the model and the address of the first interface.
func nic(c *pveapi.VMConfig) (model, mac string) {
	first, _, _ := strings.Cut(c.Net["net0"], ",")
	if model, mac, _ = strings.Cut(first, "="); model == "model" { // model=virtio,macaddr=...
		_, named := pveapi.Properties(c.Net["net0"])
		return named["model"], named["macaddr"]
	}
	if model == "" {
		model = "virtio"
	}
	return model, mac
}

func macOf(c *pveapi.VMConfig) string {
	_, mac := nic(c)
	return mac
}

// discNames reports whether machines' discs name their interface, to give it an address.
func discNames(p *settings.Pool) bool { return p.Network.Static() && p.NeedsDisc() }

// plannedMAC is the address of a machine whose template has no interface. Proxmox VE would draw one
// when it is configured, too late for a first-boot disc, by whose network the guest finds it. It
// begins as Proxmox VE's own do.
func plannedMAC(owner, order string) string {
	uuid := strings.ToUpper(machineUUID(owner, order))
	end := uuid[len(uuid)-6:]
	return fmt.Sprintf("BC:24:11:%s:%s:%s", end[:2], end[2:4], end[4:])
}

// withUUID puts a UUID into a machine's SMBIOS values and leaves the others.
func withUUID(smbios, uuid string) string {
	parts := slices.DeleteFunc(strings.Split(smbios, ","), func(part string) bool { return part == "" || strings.HasPrefix(part, "uuid=") })
	return strings.Join(append([]string{"uuid=" + uuid}, parts...), ",")
}

// DiscDrives are where a first-boot disc may be put, the best first. Machines of type q35 have no
// more than two IDE drives.
var DiscDrives = []string{"ide2", "ide0", "sata0", "sata1", "sata2", "sata3", "sata4", "sata5", "ide1", "ide3"}

// DiscDrive picks the drive for the first-boot disc: in place of Proxmox VE's own cloud-init drive,
// of which the guest must not see a second, or in one that is free or empty. A cloud-init drive on
// another bus is deleted.
func DiscDrive(c *pveapi.VMConfig) string {
	for _, key := range DiscDrives {
		if strings.Contains(c.Disks[key].Name, "cloudinit") || strings.HasPrefix(c.Disks[key].Name, "iso/plimsoll-") {
			return key
		}
	}
	for _, key := range DiscDrives {
		if d, there := c.Disks[key]; !there || d.Media == "cdrom" && d.Storage == "" {
			return key
		}
	}
	return ""
}

// list joins texts into one.
func list(texts []string) string { return strings.Join(texts, "; ") }
