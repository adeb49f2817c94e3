package machines

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// rootOnly refuses parameters that only the administrator may use.
func (k *call) rootOnly(keys ...string) error {
	for _, key := range keys {
		if v := k.In[key]; v != "" && v != "0" && !k.Errand().IsRoot() {
			return failure.OfParameter(key, "Only root may use this option.")
		}
	}
	return nil
}

// elsewhere are keys of the configuration whose privileges depend on their values, and tags.
var elsewhere = regexp.MustCompile(`^(?:(?:ide|sata|scsi|virtio|unused|serial|usb|hostpci|virtiofs)\d+|efidisk0|tpmstate0|cdrom|tags|rng0)$`)

// privilegeFor is what the caller needs to set or delete a key of the configuration; empty is
// nothing, and ok is false for what only the administrator may.
func privilegeFor(key string) (priv string, ok bool) {
	if elsewhere.MatchString(key) {
		return "", true
	}
	switch strings.TrimRight(key, "0123456789") {
	case "net":
		return "VM.Config.Network", true
	case "numa":
		return "VM.Config.CPU", true
	}
	for _, p := range []struct{ priv, keys string }{
		{"VM.Config.CPU", "cores cpu cpulimit cpuunits smp sockets vcpus"},
		{"VM.Config.Memory", "memory balloon shares allow-ksm"},
		{"VM.Config.HWType", "acpi hotplug kvm machine scsihw smbios tablet vga watchdog audio"},
		{"VM.Config.Options", "agent autostart bios description keyboard localtime migrate_downtime migrate_speed name onboot" +
			" ostype protection reboot startdate startup tdf template"},
		{"VM.PowerMgmt", "freeze"},
		{"VM.Config.Disk", "boot bootdisk vmstatestorage vmstate"},
	} {
		if slices.Contains(strings.Fields(p.keys), strings.TrimRight(key, "01")) {
			return p.priv, true
		}
	}
	return "", false
}

// mayChange refuses keys that the caller may not set or delete. They are looked at in the order of
// their names, so that the answer is always the same.
func mayChange(j *world.Errand, id int, pool string, keys []string) error {
	if j.IsRoot() {
		return nil
	}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if vmconf.IsCloudInit(key) {
			if j.OnVM(id, pool, "VM.Config.Cloudinit") != nil && j.OnVM(id, pool, "VM.Config.Network") != nil {
				return failure.Denied("%s, VM.Config.Cloudinit|VM.Config.Network", world.VMPath(id))
			}
			continue
		}
		priv, ok := privilegeFor(key)
		if !ok {
			return failure.New("only root can set '%s' config", key)
		}
		if priv == "" {
			continue
		}
		if err := j.OnVM(id, pool, priv); err != nil {
			return err
		}
		if key == "startup" { // which changes what the host does
			if err := j.All("/", "Sys.Modify"); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayUseDevices refuses what hands the host's own devices to a guest.
func mayUseDevices(j *world.Errand, id int, pool string, conf map[string]string) error {
	if j.IsRoot() {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		stem := strings.TrimRight(key, "0123456789")
		value := conf[key]
		switch {
		case stem == "serial" && value != "socket", stem == "usb" && !strings.EqualFold(value, "spice") && !strings.Contains(value, "mapping="):
			return failure.New("only root can set '%s' config for real devices", key)
		case stem == "hostpci" && !strings.Contains(value, "mapping="):
			return failure.New("only root can set '%s' config for non-mapped devices", key)
		case stem == "serial", stem == "usb", stem == "hostpci", stem == "rng":
			if err := j.OnVM(id, pool, "VM.Config.HWType"); err != nil {
				return err
			}
		case stem == "virtiofs":
			if err := j.OnVM(id, pool, "VM.Config.Disk"); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayUseBridges refuses networks that the caller may not use.
func mayUseBridges(j *world.Errand, conf map[string]string) error {
	if j.IsRoot() {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		if !vmconf.IsNet(key) {
			continue
		}
		for _, path := range pathsOf(j.World, vmconf.ParseNet(conf[key])) {
			if err := j.All(path, "SDN.Use"); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathsOf are where the right to use a network card's bridge hangs: on the bridge where it is in no
// VLAN of its own, and on each VLAN that it may be in.
func pathsOf(c *world.World, net params.Values) []string {
	if !net.Has("bridge") {
		return nil
	}
	path := c.Config.NetworkPath(net["bridge"])
	all := []string{path}
	if net.Has("tag") {
		all[0] += "/" + net["tag"]
	}
	for vlans := range strings.FieldsFuncSeq(net["trunks"], func(r rune) bool { return r == ';' }) {
		low, high, _ := strings.Cut(vlans, "-")
		first, _ := strconv.Atoi(low)
		last, _ := strconv.Atoi(cmp.Or(high, low))
		for vlan := first; vlan <= last; vlan++ {
			all = append(all, path+"/"+strconv.Itoa(vlan))
		}
	}
	return all
}

// mayUseStorages refuses volumes and storages that the caller may not use for a virtual machine.
func mayUseStorages(j *world.Errand, id int, conf map[string]string, defaultStorage string) error {
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		if vmconf.IsDrive(key) {
			if err := mayUseDrive(j, id, key, vmconf.ParseDrive(conf[key]), defaultStorage); err != nil {
				return err
			}
		}
	}
	if s := conf["vmstatestorage"]; s != "" {
		return j.All("/storage/"+s, "Datastore.AllocateSpace")
	}
	return nil
}

func mayUseDrive(j *world.Errand, id int, key string, d vmconf.Drive, defaultStorage string) error {
	storage, name, stored := vmconf.SplitVolume(d.File)
	switch size := d.Wanted(); {
	case d.File == "none" || d.File == "" || name == "cloudinit" || d.File == "cloudinit":
		return nil
	case d.CDROM() && d.File == "cdrom":
		return j.All("/", "Sys.Console")
	case !d.CDROM() && size != "":
		if storage == "" || storage == "NEWDISK" {
			storage = defaultStorage
		}
		if storage == "" {
			return failure.New("no storage ID specified (and no default storage)")
		}
		if err := j.All("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		s, err := j.World.StorageNamed(storage)
		if err == nil && !s.Keeps("images") {
			err = failure.OfParameter("storage", fmt.Sprintf("storage '%s' does not support vm images", storage))
		}
		return err
	case !stored && !j.IsRoot():
		return failure.New("Only root can pass arbitrary filesystem paths.")
	case !stored:
		return nil
	}
	return mayUseVolume(j, id, key, d.File)
}

// mayUseVolume refuses another owner's volumes.
func mayUseVolume(j *world.Errand, id int, key, volid string) error {
	storage, name, _ := vmconf.SplitVolume(volid)
	if _, err := j.World.StorageNamed(storage); err != nil {
		return err
	}
	path := "/storage/" + storage
	kind, _, _ := strings.Cut(name, "/")
	owner, owned := vmconf.OwnerOf(name)
	switch {
	case j.All(path, "Datastore.Allocate") == nil, owned && owner == id:
	case kind == "iso":
		return j.OneOf(path, "Datastore.AllocateSpace", "Datastore.Audit")
	case owned:
		if err := j.All(path, "Datastore.Audit"); err != nil {
			return err
		}
		return j.All(world.VMPath(owner), "VM.Config.Disk")
	default:
		return failure.New("missing privileges to access %s", volid)
	}
	if kind == "snippets" || kind == "vztmpl" || kind == "import" {
		return failure.OfParameter(key, "content type needs to be 'images' or 'iso'")
	}
	return nil
}
