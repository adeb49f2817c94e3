package pvesim

import (
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// pluggable are keys that change in a running virtual machine, besides those of cloud-init.
var pluggable = strings.Fields("description hookscript lock migrate_downtime migrate_speed name onboot protection shares startup tags" +
	" vmstatestorage cpuunits cpulimit tablet")

// hotplug does of what waits what can be done while the virtual machine runs. The rest waits for its
// next start.
func (j *job) hotplug(m *vm) error {
	return j.applyKeys(m, m.plugs, func(_ string, err error) string { return "hotplug problem - " + failure.Text(err) })
}

// applyKeys does what waits for some keys. What fails keeps waiting, and does not keep others from being
// done.
func (j *job) applyKeys(m *vm, which func(key string) bool, because func(key string, err error) string) error {
	wrong := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(m.pending)) {
		if _, waits := m.pending[key]; !waits || !which(key) {
			continue
		}
		if err := j.applyKey(m, key); err != nil {
			wrong[key] = because(key, err)
		}
	}
	if len(wrong) > 0 {
		return &failure.Error{Status: 400, Reason: "Parameter verification failed.", Errors: wrong}
	}
	return nil
}

// plugs reports whether what waits for a key can be done in a running virtual machine.
func (m *vm) plugs(key string) bool {
	features := m.conf["hotplug"]
	switch features {
	case "", "1":
		features = "network,disk,usb"
	}
	with := func(feature string) bool { return slices.Contains(params.SplitList(features), feature) }
	before, after := m.conf[key], m.pending[key]
	switch {
	case slices.Contains(pluggable, key) || vmconf.IsCloudInit(key):
		return true
	case vmconf.IsNet(key):
		return with("network")
	case strings.HasPrefix(key, "usb"):
		return with("usb")
	case key == "balloon":
		return (before != "0") == (after == nil || *after != "0")
	case strings.HasPrefix(key, "ide") || strings.HasPrefix(key, "sata"): // only what lies in the drive
		return after != nil && vmconf.ParseDrive(before).Cdrom() && vmconf.ParseDrive(*after).Cdrom()
	case vmconf.IsDrive(key) && key != "efidisk0" && key != "tpmstate0":
		return with("disk")
	}
	return false
}

// apply does all that waits.
func (j *job) apply(m *vm) error {
	for key, value := range m.pending {
		if vmconf.IsDrive(key) && value != nil && vmconf.ParseDrive(*value).CloudInit() {
			m.made = nil
		}
	}
	all := func(string) bool { return true }
	return j.applyKeys(m, all, func(key string, err error) string {
		return "unable to apply pending change " + key + " : " + failure.Text(err)
	})
}

// applyKey gives a key the value that waits for it.
func (j *job) applyKey(m *vm, key string) error {
	value, force := m.pending[key], m.forced[key]
	before, set := m.conf[key]
	if vmconf.IsDrive(key) && set && (value == nil || vmconf.ParseDrive(*value).File != vmconf.ParseDrive(before).File) {
		delete(m.conf, key)
		if err := j.takeOff(m, key, vmconf.ParseDrive(before), force); err != nil {
			m.conf[key] = before
			return err
		}
	}
	delete(m.pending, key)
	delete(m.forced, key)
	switch {
	case vmconf.IsCloudInit(key) && value != nil:
		m.record(key, *value)
	case vmconf.IsCloudInit(key):
		m.recordDelete(key)
	case value == nil || *value == "":
		delete(m.conf, key)
	default:
		m.conf[key] = *value
	}
	if vmconf.IsDrive(key) && value != nil {
		m.useAgain(vmconf.ParseDrive(*value).File)
	}
	return nil
}

func (j *job) takeOff(m *vm, key string, d vmconf.Drive, force bool) error {
	if force {
		return j.discard(m, key, d)
	}
	return j.drop(m, d)
}

// useAgain forgets that a volume is not used.
func (m *vm) useAgain(volid string) {
	for key, value := range m.conf {
		if vmconf.IsUnused(key) && value == volid {
			delete(m.conf, key)
		}
	}
}

// record sets a key of cloud-init's. While the machine runs, the value is remembered that its disc was
// made with.
func (m *vm) record(key, value string) {
	before, set := m.conf[key]
	m.conf[key] = value
	if !m.running() || set && before == value {
		return
	}
	if m.made == nil {
		m.made = map[string]string{}
	}
	made, known := m.made[key]
	switch {
	case !known:
		m.made[key] = before
	case made == value && set:
		delete(m.made, key)
	}
}

func (m *vm) recordDelete(key string) {
	before, set := m.conf[key]
	delete(m.conf, key)
	if !m.running() || !set {
		return
	}
	if m.made == nil {
		m.made = map[string]string{}
	}
	if made, known := m.made[key]; known && made == "" {
		delete(m.made, key)
	} else if !known {
		m.made[key] = before
	}
}
