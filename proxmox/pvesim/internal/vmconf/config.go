// Package vmconf is the configuration of a virtual machine, and what follows from it: its drives
// and what it boots from, what waits for a restart, its snapshots, and what cloud-init is given. It
// is pure: it has no storages, hosts or clock, and changes nothing else.
package vmconf

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

// Config is the configuration of a virtual machine: what holds, what waits for a restart, and its
// snapshots.
type Config struct {
	Conf    map[string]string
	Pending map[string]*string // values that wait for a restart; nil deletes the key
	Forced  map[string]bool    // of the keys that wait to be deleted: the volume goes too
	Made    map[string]string  // what its cloud-init disc was made with, as far as that differs
	Snaps   []Snapshot
}

// Snapshot is a configuration as it was.
type Snapshot struct {
	Name, Description string
	At                time.Time
	Conf              map[string]string
	Parent            string
	State             string // prepare or delete while it is being made or removed
}

// New is a configuration in which nothing waits.
func New(conf map[string]string) Config {
	return Config{Conf: conf, Pending: map[string]*string{}}
}

// Custom are the volumes of files that replace what Proxmox VE would say.
func (m *Config) Custom() params.Values {
	return params.PropertyString("qm-cicustom", m.Conf["cicustom"])
}

// Effective is a configuration as it will be after the next start.
func (m *Config) Effective() map[string]string {
	conf := maps.Clone(m.Conf)
	for key, value := range m.Pending {
		if value == nil {
			delete(conf, key)
		} else {
			conf[key] = *value
		}
	}
	return conf
}

// BootChange is what becomes of the order of devices to boot from while devices come and go.
type BootChange struct {
	Devices []string
	Fixed   bool // it is set or deleted itself
}

// Without takes a device off the order.
func (b *BootChange) Without(m *Config, key string) {
	if i := slices.Index(b.Devices, key); i >= 0 && !b.Fixed {
		b.Devices = slices.Delete(b.Devices, i, i+1)
		m.Wait("boot", PrintBootOrder(b.Devices))
	}
}

// With adds a device to the order.
func (b *BootChange) With(m *Config, key string) {
	if len(b.Devices) > 0 && !slices.Contains(b.Devices, key) && !b.Fixed {
		b.Devices = append(b.Devices, key)
		m.Wait("boot", PrintBootOrder(b.Devices))
	}
}

// Wait notes a value that a key is to have.
func (m *Config) Wait(key, value string) {
	m.Pending[key] = &value
	delete(m.Forced, key)
}

// WaitDelete notes that a key is to go.
func (m *Config) WaitDelete(key string, force bool) {
	m.Pending[key] = nil
	delete(m.Forced, key)
	if force {
		if m.Forced == nil {
			m.Forced = map[string]bool{}
		}
		m.Forced[key] = true
	}
}

// Settle forgets pending changes that would change nothing.
func (m *Config) Settle() {
	for key, value := range m.Pending {
		now, set := m.Conf[key]
		if value == nil && !set || value != nil && set && *value == now {
			delete(m.Pending, key)
			delete(m.Forced, key)
		}
	}
}

// CheckBootOrder refuses devices to boot from that are not there.
func (m *Config) CheckBootOrder(value string, all map[string]string) error {
	conf := m.Effective()
	for _, device := range BootOrder(map[string]string{"boot": value}) {
		if conf[device] == "" && all[device] == "" {
			return failure.New("invalid bootorder: device '%s' does not exist'", device)
		}
	}
	return nil
}

// UsedElsewhere reports whether a volume is in use by another key of the configuration, or a
// snapshot.
func (m *Config) UsedElsewhere(key, volid string) bool {
	for other, value := range m.Conf {
		if other != key && (IsDrive(other) || IsUnused(other)) && ParseDrive(value).File == volid {
			return true
		}
	}
	for _, s := range m.Snaps {
		if slices.Contains(VolumesOf(s.Conf), volid) {
			return true
		}
	}
	return false
}

// Digest shows callers whether the configuration file has changed.
func (m *Config) Digest() string {
	var b strings.Builder
	Text(&b, m.Conf)
	if len(m.Pending) > 0 {
		b.WriteString("\n[PENDING]\n")
		for _, key := range slices.Sorted(maps.Keys(m.Pending)) {
			if v := m.Pending[key]; v != nil {
				b.WriteString(key + ": " + *v + "\n")
			} else {
				fmt.Fprintf(&b, "delete: %s %t\n", key, m.Forced[key])
			}
		}
	}
	if len(m.Made) > 0 {
		b.WriteString("\n[special:cloudinit]\n")
		Text(&b, m.Made)
	}
	for _, s := range m.Snaps {
		fmt.Fprintf(&b, "\n[%s]\n#%s\n%s %s %d\n", s.Name, Escaped(s.Description), s.Parent, s.State, s.At.Unix())
		Text(&b, s.Conf)
	}
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// pluggable are keys that change in a running virtual machine, besides those of cloud-init.
var pluggable = strings.Fields("description hookscript lock migrate_downtime migrate_speed name onboot protection shares startup tags" +
	" vmstatestorage cpuunits cpulimit tablet")

// Plugs reports whether what waits for a key can be done in a running virtual machine.
func (m *Config) Plugs(key string) bool {
	features := m.Conf["hotplug"]
	switch features {
	case "", "1":
		features = "network,disk,usb"
	}
	with := func(feature string) bool { return slices.Contains(params.SplitList(features), feature) }
	before, after := m.Conf[key], m.Pending[key]
	switch {
	case slices.Contains(pluggable, key) || IsCloudInit(key):
		return true
	case IsNet(key):
		return with("network")
	case strings.HasPrefix(key, "usb"):
		return with("usb")
	case key == "balloon":
		return (before != "0") == (after == nil || *after != "0")
	case strings.HasPrefix(key, "ide") || strings.HasPrefix(key, "sata"):
		// only what lies in the drive
		return after != nil && ParseDrive(before).CDROM() && ParseDrive(*after).CDROM()
	case IsDrive(key) && key != "efidisk0" && key != "tpmstate0":
		return with("disk")
	}
	return false
}

// UseAgain forgets that a volume is not used.
func (m *Config) UseAgain(volid string) {
	for key, value := range m.Conf {
		if IsUnused(key) && value == volid {
			delete(m.Conf, key)
		}
	}
}

// Record sets a key of cloud-init's. While the machine runs, the value is remembered that its disc
// was made with.
func (m *Config) Record(key, value string, running bool) {
	before, set := m.Conf[key]
	m.Conf[key] = value
	if !running || set && before == value {
		return
	}
	if m.Made == nil {
		m.Made = map[string]string{}
	}
	made, known := m.Made[key]
	switch {
	case !known:
		m.Made[key] = before
	case made == value && set:
		delete(m.Made, key)
	}
}

// RecordDelete deletes a key of cloud-init's, as Record sets one.
func (m *Config) RecordDelete(key string, running bool) {
	before, set := m.Conf[key]
	delete(m.Conf, key)
	if !running || !set {
		return
	}
	if m.Made == nil {
		m.Made = map[string]string{}
	}
	if made, known := m.Made[key]; known && made == "" {
		delete(m.Made, key)
	} else if !known {
		m.Made[key] = before
	}
}

// Snapshot is a machine's snapshot of a name.
func (m *Config) Snapshot(name string) (*Snapshot, error) {
	if i := slices.IndexFunc(m.Snaps, func(s Snapshot) bool { return s.Name == name }); i >= 0 {
		return &m.Snaps[i], nil
	}
	return nil, failure.New("snapshot '%s' does not exist", name)
}

// Finish ends what was begun with a snapshot: it is there now, or gone again.
func (m *Config) Finish(name string, taken bool) {
	delete(m.Conf, "lock")
	s, err := m.Snapshot(name)
	if err != nil {
		return
	}
	if taken {
		s.State = ""
		m.Conf["parent"] = name
		return
	}
	m.ForgetSnapshot(name)
}

// ForgetSnapshot takes a snapshot out of the chain.
func (m *Config) ForgetSnapshot(name string) {
	s, err := m.Snapshot(name)
	if err != nil {
		return
	}
	parent := s.Parent
	m.Snaps = slices.DeleteFunc(m.Snaps, func(s Snapshot) bool { return s.Name == name })
	for i := range m.Snaps {
		if m.Snaps[i].Parent == name {
			m.Snaps[i].Parent = parent
		}
	}
	if m.Conf["parent"] == name {
		m.Conf["parent"] = parent
		if parent == "" {
			delete(m.Conf, "parent")
		}
	}
}

// Template reports whether the machine is a template.
func (m *Config) Template() bool { return m.Conf["template"] == "1" }

// Unlocked refuses a virtual machine that something long is being done to.
func (m *Config) Unlocked() error {
	if lock := m.Conf["lock"]; lock != "" {
		return failure.New("VM is locked (%s)", lock)
	}
	return nil
}

// Unprotected refuses to remove what is protected.
func (m *Config) Unprotected(format string, args ...any) error {
	if m.Conf["protection"] == "1" {
		return failure.New(format+" - protection mode enabled", args...)
	}
	return nil
}
