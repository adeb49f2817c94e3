package pvesim

import (
	"slices"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// destroyedShare is which part of a destruction's time passes after the disks are gone.
const destroyedShare = 4

func deleteVM(k *vmCall) (any, error) {
	if err := k.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	id, purge, unreferenced, skiplock := k.id(), k.in.Is("purge"), k.in.Is("destroy-unreferenced-disks"), k.in.Is("skiplock")
	if _, err := k.job().checkDestroy(id, purge); err != nil {
		return nil, err
	}
	return k.task("qmdestroy", k.in["vmid"], func(j *job) error {
		return j.locked(id, waitFile, func() error { return j.destroy(id, purge, unreferenced, skiplock) })
	}), nil
}

// checkDestroy refuses to destroy what must not be.
func (j *job) checkDestroy(id int, purge bool) (*vm, error) {
	m, err := j.config(id)
	if err != nil {
		return nil, err
	}
	if err := m.Unprotected("can't remove VM %d", id); err != nil {
		return nil, err
	}
	if !purge && j.c.ha.manages(id) {
		return nil, failure.New("unable to remove VM %d - used in HA resources and purge parameter not set.", id)
	}
	if m.running() {
		return nil, failure.New("VM %d is running - destroy failed", id)
	}
	return m, nil
}

// destroy removes a machine's volumes first and its configuration last, so that its number is not
// given to another while something of it is left.
func (j *job) destroy(id int, purge, unreferenced, skiplock bool) error {
	m, err := j.checkDestroy(id, purge)
	if err != nil {
		return err
	}
	if lock := m.Conf["lock"]; lock != "" && lock != "suspended" && !skiplock {
		return m.Unlocked()
	}
	if err := j.notLinked(m); err != nil {
		return err
	}
	if err := j.write(id); err != nil {
		return err
	}
	takes := j.c.cfg.Times.Delete.Draw(j.c.rng("delete"))
	if err := j.stage("destroy"); err != nil {
		return err
	}
	if err := j.pause(takes - takes/destroyedShare); err != nil {
		return err
	}
	j.removeVolumes(m, unreferenced)
	m.Conf, m.Pending, m.Snaps = map[string]string{"lock": "destroyed"}, map[string]*string{}, nil
	j.c.access.ForgetVM(id)
	if purge {
		j.print("purging VM %d from related configurations..", id)
		if j.c.ha.manages(id) {
			j.c.ha.remove(id)
			j.print("NOTE: removed VM %d from HA resource configuration.", id)
		}
	}
	j.p.Sleep(takes / destroyedShare) // past the point of return, nothing interrupts it
	delete(j.c.vms, id)
	return nil
}

// notLinked refuses to destroy a template of which there are linked clones.
func (j *job) notLinked(m *vm) error {
	if !m.Template() {
		return nil
	}
	for _, volid := range vmconf.VolumesOf(m.Conf) {
		if s, v := j.c.volume(j.host, volid); v != nil && s.linkedTo(j.host, v) {
			return failure.New("base volume '%s' is still in use by linked cloned", volid)
		}
	}
	return nil
}

// removeVolumes removes the volumes that a machine owns. One that cannot be removed is left over,
// and the log says so.
func (j *job) removeVolumes(m *vm, unreferenced bool) {
	all := vmconf.VolumesOf(m.Conf)
	for _, s := range m.Snaps {
		if state := s.Conf["vmstate"]; state != "" {
			all = append(all, state)
		}
	}
	for _, value := range m.Pending {
		if value != nil {
			all = append(all, vmconf.VolumesOf(map[string]string{"scsi0": *value})...)
		}
	}
	if unreferenced {
		all = append(all, volumesNamed(j.c, j.host, m.id)...)
	}
	slices.Sort(all)
	for _, volid := range slices.Compact(all) {
		_, name, _ := vmconf.SplitVolume(volid)
		if owner, ok := vmconf.OwnerOf(name); !ok || owner != m.id {
			continue
		}
		if err := j.free(volid); err != nil {
			j.print("Could not remove disk '%s', check manually: %s", volid, failure.Text(err))
		}
	}
}

// volumesNamed are all volumes that a host sees whose names say that they are a machine's.
func volumesNamed(c *World, h *host, id int) []string {
	var all []string
	for _, name := range sorted(c.storages) {
		s := c.storages[name]
		if !s.on(h) {
			continue
		}
		for _, vol := range sorted(s.at(h)) {
			if v := s.at(h)[vol]; v.vmid == id && v.content == "images" {
				all = append(all, s.volid(v))
			}
		}
	}
	return all
}
