package pvesim

import (
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

//nolint:gosec // instance ids are made with it

func getCloudInit(k *vmCall) (any, error) {
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

func putCloudInit(k *vmCall) (any, error) {
	j, id := k.job(), k.id()
	return nil, j.locked(id, waitFile, func() error {
		m, err := j.config(id)
		if err != nil {
			return err
		}
		if err := m.Unlocked(); err != nil {
			return err
		}
		if err := j.makeSeed(m); err != nil {
			return err
		}
		m.Made = nil
		return nil
	})
}

// makeSeed makes the disc with what Proxmox VE tells cloud-init, if the machine has a drive for it.
// Its volume is made anew if it has gone, as with a snapshot that knew it.
func (j *job) makeSeed(m *vm) error {
	for _, key := range vmconf.DrivesOf(m.Conf) {
		d := vmconf.ParseDrive(m.Conf[key])
		if !d.CloudInit() {
			continue
		}
		for _, kind := range sorted(m.Custom()) {
			if err := j.mustBe(m.Custom()[kind]); err != nil {
				return err
			}
		}
		if err := j.remake(m, d); err != nil {
			return err
		}
		j.print("generating cloud-init ISO")
		m.seed = &seed{
			user: customSeed(j.c, m, "user", vmconf.UserData), network: customSeed(j.c, m, "network", vmconf.NetworkData), meta: customSeed(j.c, m, "meta", vmconf.MetaData),
		}
	}
	return nil
}

// mustBe refuses a volume that is not there.
func (j *job) mustBe(volid string) error {
	storage, _, _ := vmconf.SplitVolume(volid)
	if _, err := j.c.storageOn(j.host, storage); err != nil {
		return err
	}
	if _, v := j.c.volume(j.host, volid); v == nil {
		return failure.New("volume '%s' does not exist", volid)
	}
	return nil
}

func (j *job) remake(m *vm, d vmconf.Drive) error {
	storage, name, _ := vmconf.SplitVolume(d.File)
	s, err := j.c.storageOn(j.host, storage)
	if err != nil || s.at(j.host)[name] != nil {
		return err
	}
	w := cloudInitWanted(s, m.id, "")
	w.name = name
	_, err = j.allocate(s, w)
	return err
}

// customSeed is one of the files of a seed: somebody's own, or what Proxmox VE says.
func customSeed(c *World, m *vm, kind string, otherwise func(conf map[string]string, id int) string) []byte {
	if volid := m.Custom()[kind]; volid != "" {
		if _, v := c.volume(m.host, volid); v != nil {
			return v.data
		}
	}
	return []byte(otherwise(m.Conf, m.id))
}

func getDump(k *vmCall) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	conf := m.Conf
	switch k.in["type"] {
	case "user":
		return vmconf.UserData(conf, m.id), nil
	case "network":
		return vmconf.NetworkData(conf, m.id), nil
	}
	return vmconf.MetaData(conf, m.id), nil
}
