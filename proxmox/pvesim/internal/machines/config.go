package machines

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

func getConfig(k *call) (any, error) {
	if k.In["snapshot"] != "" && k.In.Is("current") {
		text := "cannot use 'snapshot' parameter with 'current'"
		return nil, &failure.Error{Status: 400, Reason: "Parameter verification failed.", Errors: map[string]string{"snapshot": text, "current": text}}
	}
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	switch {
	case k.In["snapshot"] != "":
		s, err := m.Snapshot(k.In["snapshot"])
		if err != nil {
			return nil, err
		}
		return vmconf.ShownConf(s.Conf, m.Digest()), nil
	case k.In.Is("current"):
		return vmconf.ShownConf(m.Conf, m.Digest()), nil
	}
	return vmconf.ShownConf(m.Effective(), m.Digest()), nil
}

func getPending(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, key := range slices.Sorted(maps.Keys(m.Conf)) {
		entry := map[string]any{"key": key, "value": vmconf.Shown(key, m.Conf[key])}
		if value, waits := m.Pending[key]; waits && value == nil {
			entry["delete"] = 1
			if m.Forced[key] {
				entry["delete"] = 2
			}
		} else if waits {
			entry["pending"] = vmconf.Shown(key, *value)
		}
		all = append(all, entry)
	}
	for _, key := range slices.Sorted(maps.Keys(m.Pending)) {
		if _, set := m.Conf[key]; !set && m.Pending[key] != nil {
			all = append(all, map[string]any{"key": key, "pending": vmconf.Shown(key, *m.Pending[key])})
		}
	}
	return append(all, map[string]any{"key": "digest", "value": m.Digest()}), nil
}

// update is a change of a configuration that has been asked for.
type update struct {
	id              int
	set             map[string]string
	drop, revert    []string
	digest          string
	force, skiplock bool
	said            string // how the log says it
}

// notOptions are parameters of calls that change a configuration, and no keys of it.
var notOptions = []string{"node", "vmid", "digest", "background_delay", "skiplock", "delete", "revert", "force", "import-working-storage"}

// newUpdate reads what is asked for, and refuses what can be refused without looking at the
// machine.
func (k *call) newUpdate() (*update, error) {
	u := &update{
		id: k.id(), set: map[string]string{}, digest: k.In["digest"], force: k.In.Is("force"), skiplock: k.In.Is("skiplock"),
		drop: k.In.List("delete"), revert: k.In.List("revert"),
	}
	if err := k.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	u.said = k.said()
	for key, value := range k.In {
		if !slices.Contains(notOptions, key) {
			u.set[key] = value
		}
	}
	if err := vmconf.CheckSSHKeys(u.set); err != nil {
		return nil, err
	}
	if len(u.drop)+len(u.revert)+len(u.set) == 0 && !k.Empty {
		return nil, failure.New("no options specified")
	}
	vmconf.ResolveCDROM(u.set)
	if err := u.consistent(); err != nil {
		return nil, err
	}
	if err := vmconf.CheckDrives(u.set); err != nil {
		return nil, err
	}
	complete(k.World, u.set)
	return u, u.mayUpdate(k.Errand())
}

// said is how a change is in the log.
func (k *call) said() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(k.In)) {
		value := k.In[key]
		switch key {
		case "node", "vmid", "digest", "background_delay", "import-working-storage":
			continue
		case "cipassword":
			value = "<hidden>"
		}
		parts = append(parts, "-"+key, value)
	}
	return fmt.Sprintf("update VM %d: %s", k.id(), strings.Join(parts, " "))
}

// consistent refuses to set, delete and revert the same key, and keys that do not exist.
func (u *update) consistent() error {
	for _, key := range u.revert {
		if !vmconf.IsOption(key) {
			return failure.OfParameter("revert", fmt.Sprintf("unknown option '%s'", key))
		}
		if _, set := u.set[key]; set {
			return failure.OfParameter("delete", fmt.Sprintf("you can't use '-%s' and -revert %s' at the same time", key, key))
		}
	}
	for i, key := range u.drop {
		if key == "cdrom" {
			key = "ide2"
			u.drop[i] = key
		}
		_, set := u.set[key]
		switch {
		case set:
			return failure.OfParameter("delete", fmt.Sprintf("you can't use '-%s' and -delete %s' at the same time", key, key))
		case slices.Contains(u.revert, key):
			return failure.OfParameter("revert", fmt.Sprintf("you can't use '-delete %s' and -revert %s' at the same time", key, key))
		case !vmconf.IsOption(key):
			return failure.OfParameter("delete", fmt.Sprintf("unknown option '%s'", key))
		}
	}
	return nil
}

// complete gives network cards their addresses, and draws what may be left to the server.
func complete(c *world.World, conf map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		switch {
		case vmconf.IsNet(key):
			conf[key] = printNet(c, vmconf.ParseNet(conf[key]))
		case key == "vmgenid" && conf[key] == "1":
			conf[key] = vmconf.NewUUID(c.RNG("uuids"))
		}
	}
}

// mayUpdate refuses changes that the caller may not make.
func (u *update) mayUpdate(j *world.Errand) error {
	if err := mayChange(j, u.id, "", u.drop); err != nil {
		return err
	}
	if err := mayChange(j, u.id, "", slices.Collect(maps.Keys(u.set))); err != nil {
		return err
	}
	if err := mayUseStorages(j, u.id, u.set, ""); err != nil {
		return err
	}
	return mayUseBridges(j, u.set)
}

// check refuses a change that does not fit the machine as it is now.
func (u *update) check(j *world.Errand) (*world.Guest, error) {
	m, err := j.Config(u.id)
	if err != nil {
		return nil, err
	}
	if u.digest != "" && u.digest != m.Digest() {
		return nil, failure.New("checksum mismatch (file change by other user?)")
	}
	if !u.skiplock {
		if err := m.Unlocked(); err != nil {
			return nil, err
		}
	}
	memory, balloon := u.set["memory"], u.set["balloon"]
	if memory == "" && balloon == "" {
		return m, nil
	}
	conf := m.Effective()
	if memory != "" {
		conf["memory"] = memory
	}
	if balloon != "" {
		conf["balloon"] = balloon
	}
	if int64(params.Values(conf).Int("balloon", 0)) > vmconf.MemoryOf(conf) {
		return nil, failure.New("balloon value too large (must be smaller than assigned memory)")
	}
	return m, nil
}

func putConfig(k *call) (any, error) {
	u, err := k.newUpdate()
	if err != nil {
		return nil, err
	}
	return nil, u.updateNow(k.Errand())
}

func (u *update) updateNow(j *world.Errand) error {
	if _, err := u.check(j); err != nil {
		return err
	}
	return j.Locked(u.id, world.WaitFile, func() error { return u.update(j) })
}

func postConfig(k *call) (any, error) {
	u, err := k.newUpdate()
	if err != nil {
		return nil, err
	}
	if _, err := u.check(k.Errand()); err != nil {
		return nil, err
	}
	t := k.World.Work(k.Node, k.Who, "qmconfig", k.In["vmid"], func(j *world.Errand) error {
		return j.Locked(u.id, world.WaitFile, func() error { return u.update(j) })
	})
	delay := time.Duration(k.In.Int("background_delay", 0)) * time.Second
	if delay > 0 && k.Process.Wait(delay, func() bool { return !t.Running() }) {
		if t.Failed() {
			return nil, failure.New("failed to update VM %d: %s", u.id, t.Exit)
		}
		return nil, nil
	}
	return t.UPID, nil
}

func putUnlink(k *call) (any, error) {
	k.In["delete"] = k.In["idlist"]
	delete(k.In, "idlist")
	return putConfig(k)
}

// update makes a change: it is written down as pending, and then done as far as that can be done
// now.
func (u *update) update(j *world.Errand) error {
	m, err := u.check(j)
	if err != nil {
		return err
	}
	j.Print("%s", u.said)
	if err := j.Write(u.id); err != nil {
		return err
	}
	set, drop := maps.Clone(u.set), slices.Clone(u.drop)
	for _, key := range u.revert {
		if value, is := m.Conf[key]; is {
			set[key] = value
		} else if m.Pending[key] != nil {
			drop = append(drop, key)
		}
	}
	if err := j.Stage("update"); err != nil {
		return err
	}
	order := &vmconf.BootChange{Devices: vmconf.BootOrder(m.Conf), Fixed: slices.Contains(drop, "boot") || set["boot"] != ""}
	for _, key := range drop {
		if err := dropKey(j, m, key, u.force, order); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if err := setKey(j, m, key, set[key], set, order); err != nil {
			return err
		}
	}
	m.Settle()
	if m.Running() {
		return hotplug(j, m)
	}
	return apply(j, m)
}

// dropKey notes that a key is to go, or removes it where that needs no restart.
func dropKey(j *world.Errand, m *world.Guest, key string, force bool, order *vmconf.BootChange) error {
	value, set := m.Conf[key]
	waiting := m.Pending[key]
	if !set && waiting == nil {
		j.Print("cannot delete '%s' - not set in current configuration!", key)
		return nil
	}
	if !set {
		value = *waiting
	}
	delete(m.Pending, key)
	order.Without(&m.Config, key)
	switch {
	case vmconf.IsUnused(key) || key == "vmstate":
		return dropVolume(j, m, key, value)
	case vmconf.IsDrive(key):
		if err := m.Unprotected("can't remove drive '%s'", key); err != nil {
			return err
		}
		if err := mayChangeDrive(j, m.ID, vmconf.ParseDrive(value)); err != nil {
			return err
		}
		if waiting != nil {
			if err := drop(j, m, vmconf.ParseDrive(*waiting)); err != nil {
				return err
			}
		}
	case key == "tags":
		if err := mayTag(j, m.ID, value, ""); err != nil {
			return err
		}
		delete(m.Conf, key)
		return nil
	case vmconf.IsNet(key):
		if err := mayUseBridges(j, map[string]string{key: value}); err != nil {
			return err
		}
	default:
		if err := mayUseDevices(j, m.ID, "", map[string]string{key: value}); err != nil {
			return err
		}
	}
	m.WaitDelete(key, force)
	return nil
}

// dropVolume removes a volume that no drive has.
func dropVolume(j *world.Errand, m *world.Guest, key, value string) error {
	d := vmconf.ParseDrive(value)
	if err := m.Unprotected("can't remove unused disk '%s'", d.File); err != nil {
		return err
	}
	if err := j.OnVM(m.ID, "", "VM.Config.Disk"); err != nil {
		return err
	}
	if err := discard(j, m, key, d); err != nil {
		return err
	}
	delete(m.Conf, key)
	return nil
}

// mayChangeDrive refuses drives that the caller may not change.
func mayChangeDrive(j *world.Errand, id int, d vmconf.Drive) error {
	switch {
	case d.CloudInit():
		return j.OnVM(id, "", "VM.Config.Cloudinit", "VM.Config.CDROM")
	case d.CDROM():
		return j.OnVM(id, "", "VM.Config.CDROM")
	}
	return j.OnVM(id, "", "VM.Config.Disk")
}

// setKey notes the value that a key is to have, after making the disks that it needs.
func setKey(j *world.Errand, m *world.Guest, key, value string, all map[string]string, order *vmconf.BootChange) error {
	if waiting := m.Pending[key]; waiting != nil && *waiting == value {
		return nil
	}
	switch {
	case vmconf.IsDrive(key):
		return setDrive(j, m, key, value, order)
	case key == "tags":
		if err := mayTag(j, m.ID, m.Conf[key], value); err != nil {
			return err
		}
		value = normalTags(j.World, value)
	case vmconf.IsNet(key) && m.Conf[key] != "":
		if err := mayUseBridges(j, map[string]string{key: m.Conf[key]}); err != nil {
			return err
		}
	case key == "cipassword":
		m.Record(key, vmconf.Hashed(value, j.World.RNG("passwords")), m.Running())
		return nil
	case key == "boot" && strings.HasPrefix(value, "order="):
		if err := m.CheckBootOrder(value, all); err != nil {
			return err
		}
	default:
		if err := mayUseDevices(j, m.ID, "", map[string]string{key: value}); err != nil {
			return err
		}
	}
	m.Wait(key, value)
	return nil
}

func setDrive(j *world.Errand, m *world.Guest, key, value string, order *vmconf.BootChange) error {
	d := vmconf.ParseDrive(value)
	for _, of := range []string{m.Conf[key], value} {
		if of != "" {
			if err := mayChangeDrive(j, m.ID, vmconf.ParseDrive(of)); err != nil {
				return err
			}
		}
	}
	if waiting := m.Pending[key]; waiting != nil {
		delete(m.Pending, key)
		if err := drop(j, m, vmconf.ParseDrive(*waiting)); err != nil {
			return err
		}
	}
	made, err := drives(j, m.ID, m.Effective(), map[string]string{key: value}, "")
	if err != nil {
		return err
	}
	if d.Disc() {
		order.With(&m.Config, key)
	}
	m.Wait(key, made[key])
	return nil
}
