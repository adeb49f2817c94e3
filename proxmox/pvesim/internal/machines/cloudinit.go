package machines

import (
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

func getCloudInit(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, key := range slices.Sorted(maps.Keys(m.Made)) {
		if m.Made[key] == "" && m.Conf[key] != "" { // added since the disc was made
			all = append(all, map[string]any{"key": key, "pending": vmconf.Shown(key, m.Conf[key])})
		}
	}
	for _, key := range strings.Fields("cicustom cipassword citype ciupgrade ciuser nameserver searchdomain sshkeys") {
		value, made := m.Conf[key], m.Made[key]
		_, differs := m.Made[key]
		if value == "" || value == "0" || differs && made == "" {
			continue
		}
		entry := map[string]any{"key": key, "value": vmconf.Shown(key, value)}
		if differs {
			entry["value"], entry["pending"] = vmconf.Shown(key, made), vmconf.Shown(key, value)
		}
		all = append(all, entry)
	}
	for _, key := range slices.Sorted(maps.Keys(m.Made)) {
		if m.Conf[key] == "" {
			all = append(all, map[string]any{"key": key, "delete": 1})
		}
	}
	return all, nil
}

func putCloudInit(k *call) (any, error) {
	j, id := k.Errand(), k.id()
	return nil, j.Locked(id, world.WaitFile, func() error {
		m, err := j.Config(id)
		if err != nil {
			return err
		}
		if err := m.Unlocked(); err != nil {
			return err
		}
		if err := makeSeed(j, m); err != nil {
			return err
		}
		m.Made = nil
		return nil
	})
}

// makeSeed makes the disc that Proxmox VE has for cloud-init, if the machine has a drive for it.
// Its volume is made anew if it has gone, as with a snapshot that knew it.
func makeSeed(j *world.Errand, m *world.Guest) error {
	for _, key := range vmconf.DrivesOf(m.Conf) {
		d := vmconf.ParseDrive(m.Conf[key])
		if !d.CloudInit() {
			continue
		}
		for _, kind := range world.Sorted(m.Custom()) {
			if err := mustBe(j, m.Custom()[kind]); err != nil {
				return err
			}
		}
		if err := remake(j, m, d); err != nil {
			return err
		}
		j.Print("generating cloud-init ISO")
		m.Seed = &world.Seed{
			User: customSeed(j.World, m, "user", vmconf.UserData), Network: customSeed(j.World, m, "network", vmconf.NetworkData), Meta: customSeed(j.World, m, "meta", vmconf.MetaData),
		}
	}
	return nil
}

// mustBe refuses a volume that is not there.
func mustBe(j *world.Errand, volid string) error {
	storage, _, _ := vmconf.SplitVolume(volid)
	if _, err := j.World.StorageOn(j.Host, storage); err != nil {
		return err
	}
	if _, v := j.World.Volume(j.Host, volid); v == nil {
		return failure.New("volume '%s' does not exist", volid)
	}
	return nil
}

func remake(j *world.Errand, m *world.Guest, d vmconf.Drive) error {
	storage, name, _ := vmconf.SplitVolume(d.File)
	s, err := j.World.StorageOn(j.Host, storage)
	if err != nil || s.At(j.Host)[name] != nil {
		return err
	}
	w := cloudInitWanted(s, m.ID, "")
	w.Name = name
	_, err = j.Allocate(s, w)
	return err
}

// customSeed is one of the files of a seed: somebody's own, or what Proxmox VE says.
func customSeed(c *world.World, m *world.Guest, kind string, otherwise func(conf map[string]string, id int) string) []byte {
	if volid := m.Custom()[kind]; volid != "" {
		if _, v := c.Volume(m.Host, volid); v != nil {
			return v.Data
		}
	}
	return []byte(otherwise(m.Conf, m.ID))
}

func getDump(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	conf := m.Conf
	switch k.In["type"] {
	case "user":
		return vmconf.UserData(conf, m.ID), nil
	case "network":
		return vmconf.NetworkData(conf, m.ID), nil
	}
	return vmconf.MetaData(conf, m.ID), nil
}
