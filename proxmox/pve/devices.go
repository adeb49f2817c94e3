package pve

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// A disk that a person has put into a machine goes with the machine. What drives and devices a
// machine was made with is written down, and one that has others is left until they are out of it.

// deviceKey is what a machine has of its host's.
var deviceKey = regexp.MustCompile(`^(hostpci|usb|virtiofs|serial|parallel)\d+$`)

// rawArgs are arguments to the machine's process, which may give it any file or device of its host.
const rawArgs = "args"

// volumeOf reports whether a volume is a machine's own, by the last part of its name. A linked
// clone's is local:9001/base-9001-disk-0.raw/1000/vm-1000-disk-0.qcow2.
func volumeOf(v *pveapi.Volume, vmid int) bool {
	name := path.Base(v.Name)
	return v.Storage != "" && (strings.HasPrefix(name, "vm-"+itoa(vmid)+"-") || strings.HasPrefix(name, "base-"+itoa(vmid)+"-"))
}

// holdsNothing reports whether a drive holds nothing that could be lost with a machine: a disc,
// which is not the machine's, its own cloud-init drive, or what its firmware remembers.
func holdsNothing(v *pveapi.Volume, key string, vmid int) bool {
	name, _, _ := strings.Cut(path.Base(v.Name), ".")
	switch {
	case v.Media == "cdrom":
		return v.Storage == "" || strings.HasPrefix(v.Name, "iso/") || name == "vm-"+itoa(vmid)+"-cloudinit"
	case strings.HasPrefix(key, "efidisk"), strings.HasPrefix(key, "tpmstate"):
		return volumeOf(v, vmid)
	}
	return false
}

// devices are the drives of a machine that hold data, with their volumes, and what it has of its
// host's.
func devices(raw map[string]string, vmid int) map[string]string {
	all := map[string]string{}
	for key, value := range raw {
		switch {
		case key == rawArgs:
			all[key] = value
		case pveapi.IsDrive(key):
			if d := pveapi.ParseDrive(value); !holdsNothing(&d, key, vmid) {
				all[key] = d.ID
			}
		case deviceKey.MatchString(key):
			// These end in the host's own software.
			if first, _ := pveapi.Properties(value); first != "socket" && first != "spice" {
				all[key] = ""
			}
		}
	}
	return all
}

// configured are the devices that a machine has with a configuration that is written over the one
// it had.
func configured(c *pveapi.VMConfig, values map[string]string, vmid int) map[string]string {
	raw := maps.Clone(c.Raw)
	maps.Copy(raw, values)
	return devices(raw, vmid)
}

// strange are the drives and devices of a machine that its order did not make. Where that was not
// kept, it made what the template has, and the disk that it boots from.
func (w leaving) strange(c *pveapi.VMConfig) []string {
	w.mu.Lock()
	template := w.view.templates[w.p.Template.On(w.i.Host)]
	w.mu.Unlock()
	made := w.i.Devices
	if len(made) == 0 {
		made = map[string]string{c.BootDisk(): ""}
		for key := range template.Devices {
			made[key] = ""
		}
	}
	var strange []string
	has := devices(c.Raw, w.i.VMID)
	for _, key := range slices.Sorted(maps.Keys(has)) {
		id := has[key]
		was, there := made[key]
		// Which was not always kept.
		own := there && w.made(c, &template, key, was) || key == rawArgs && id == template.Devices[key]
		left := strings.HasPrefix(key, "unused") && id != "" && slices.Contains(slices.Collect(maps.Values(made)), id)
		if !own && !left {
			strange = append(strange, strings.TrimSpace(key+" "+cmp.Or(id, c.Raw[key])))
		}
	}
	return strange
}

// made reports whether a drive or device of a machine may be what its order made: a disk that was
// moved to another storage may have another number there, but not another size. What was not kept
// is empty.
func (w leaving) made(c *pveapi.VMConfig, template *placement.TemplateSeen, key, was string) bool {
	d, drive := c.Disks[key]
	switch {
	case !drive:
		return key != rawArgs || c.Raw[key] == was
	case d.ID == was:
		return true
	case was == "":
		return volumeOf(&d, w.i.VMID) || d.Storage == "" && d.ID == template.Devices[key]
	}
	grown := key == c.BootDisk() && d.Size != 0 && d.Size != int64(w.i.Shape.Disk) && d.Size != int64(template.Size)
	return volumeOf(&d, w.i.VMID) && d.Storage != pveapi.ParseVolume(was).Storage && !grown
}

// takeOut is what a person can do about drives and devices that are not the machine's.
func takeOut(vmid int, strange []string) string {
	key, id, _ := strings.Cut(strange[0], " ")
	if v := pveapi.ParseVolume(id); !pveapi.IsDrive(key) || !volumeOf(&v, vmid) {
		return fmt.Sprintf("take it out: qm set %d --delete %s", vmid, key)
	}
	return fmt.Sprintf("move it to another machine: qm disk move %d %s --target-vmid VMID; or, if what is on it may be lost, remove it: qm disk unlink %[1]d --idlist %[2]s --force 1",
		vmid, key)
}
