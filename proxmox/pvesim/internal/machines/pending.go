package machines

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// hotplug does of what waits what can be done while the virtual machine runs. The rest waits for
// its next start.
func hotplug(j *world.Errand, m *world.Guest) error {
	return applyKeys(j, m, m.Plugs, func(_ string, err error) string { return "hotplug problem - " + failure.Text(err) })
}

// applyKeys does what waits for some keys. What fails keeps waiting, and does not keep others from
// being done.
func applyKeys(j *world.Errand, m *world.Guest, which func(key string) bool, because func(key string, err error) string) error {
	wrong := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(m.Pending)) {
		if _, waits := m.Pending[key]; !waits || !which(key) {
			continue
		}
		if err := applyKey(j, m, key); err != nil {
			wrong[key] = because(key, err)
		}
	}
	if len(wrong) > 0 {
		return &failure.Error{Status: 400, Reason: "Parameter verification failed.", Errors: wrong}
	}
	return nil
}

// apply does all that waits.
func apply(j *world.Errand, m *world.Guest) error {
	for key, value := range m.Pending {
		if vmconf.IsDrive(key) && value != nil && vmconf.ParseDrive(*value).CloudInit() {
			m.Made = nil
		}
	}
	all := func(string) bool { return true }
	return applyKeys(j, m, all, func(key string, err error) string {
		return "unable to apply pending change " + key + " : " + failure.Text(err)
	})
}

// applyKey gives a key the value that waits for it.
func applyKey(j *world.Errand, m *world.Guest, key string) error {
	value, force := m.Pending[key], m.Forced[key]
	before, set := m.Conf[key]
	if vmconf.IsDrive(key) && set && (value == nil || vmconf.ParseDrive(*value).File != vmconf.ParseDrive(before).File) {
		if err := eject(j, m, key, value); err != nil {
			return err
		}
		delete(m.Conf, key)
		if err := takeOff(j, m, key, vmconf.ParseDrive(before), force); err != nil {
			m.Conf[key] = before
			return err
		}
	}
	delete(m.Pending, key)
	delete(m.Forced, key)
	switch {
	case vmconf.IsCloudInit(key) && value != nil:
		m.Record(key, *value, m.Running())
	case vmconf.IsCloudInit(key):
		m.RecordDelete(key, m.Running())
	case value == nil || *value == "":
		delete(m.Conf, key)
	default:
		m.Conf[key] = *value
	}
	if vmconf.IsDrive(key) && value != nil {
		m.UseAgain(vmconf.ParseDrive(*value).File)
	}
	return nil
}

func takeOff(j *world.Errand, m *world.Guest, key string, d vmconf.Drive, force bool) error {
	if force {
		return discard(j, m, key, d)
	}
	return drop(j, m, d)
}
