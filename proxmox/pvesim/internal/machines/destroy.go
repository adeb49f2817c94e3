package machines

import (
	"slices"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// destroyedShare is which part of a destruction's time passes after the disks are gone.
const destroyedShare = 4

func deleteVM(k *call) (any, error) {
	if err := k.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	id, purge, unreferenced, skiplock := k.id(), k.In.Is("purge"), k.In.Is("destroy-unreferenced-disks"), k.In.Is("skiplock")
	if _, err := checkDestroy(k.Errand(), id, purge); err != nil {
		return nil, err
	}
	return k.Task("qmdestroy", k.In["vmid"], func(j *world.Errand) error {
		return j.Locked(id, world.WaitFile, func() error { return destroy(j, id, purge, unreferenced, skiplock) })
	}), nil
}

// checkDestroy refuses to destroy what must not be.
func checkDestroy(j *world.Errand, id int, purge bool) (*world.Guest, error) {
	m, err := j.Config(id)
	if err != nil {
		return nil, err
	}
	if err := m.Unprotected("can't remove VM %d", id); err != nil {
		return nil, err
	}
	if !purge && j.World.HA.Manages(id) {
		return nil, failure.New("unable to remove VM %d - used in HA resources and purge parameter not set.", id)
	}
	if m.Running() {
		return nil, failure.New("VM %d is running - destroy failed", id)
	}
	return m, nil
}

// destroy removes a machine's volumes first and its configuration last, so that its number is not
// given to another while something of it is left.
func destroy(j *world.Errand, id int, purge, unreferenced, skiplock bool) error {
	m, err := checkDestroy(j, id, purge)
	if err != nil {
		return err
	}
	if lock := m.Conf["lock"]; lock != "" && lock != "suspended" && !skiplock {
		return m.Unlocked()
	}
	if err := notLinked(j, m); err != nil {
		return err
	}
	if err := j.Write(id); err != nil {
		return err
	}
	takes := j.World.Config.Times.Delete.Draw(j.World.RNG("delete"))
	if err := j.Stage("destroy"); err != nil {
		return err
	}
	if err := j.Pause(takes - takes/destroyedShare); err != nil {
		return err
	}
	removeVolumes(j, m, unreferenced)
	m.Conf, m.Pending, m.Snaps = map[string]string{"lock": "destroyed"}, map[string]*string{}, nil
	j.World.Access.ForgetVM(id)
	if purge {
		j.Print("purging VM %d from related configurations..", id)
		if j.World.HA.Manages(id) {
			j.World.HA.Remove(id)
			j.Print("NOTE: removed VM %d from HA resource configuration.", id)
		}
	}
	j.Process.Sleep(takes / destroyedShare) // past the point of return, nothing interrupts it
	delete(j.World.VMs, id)
	return nil
}

// notLinked refuses to destroy a template of which there are linked clones.
func notLinked(j *world.Errand, m *world.Guest) error {
	if !m.Template() {
		return nil
	}
	for _, volid := range vmconf.VolumesOf(m.Conf) {
		if s, v := j.World.Volume(j.Host, volid); v != nil && s.LinkedTo(j.Host, v) {
			return failure.New("base volume '%s' is still in use by linked cloned", volid)
		}
	}
	return nil
}

// removeVolumes removes the volumes that a machine owns. One that cannot be removed is left over,
// and the log says so.
func removeVolumes(j *world.Errand, m *world.Guest, unreferenced bool) {
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
		all = append(all, j.World.VolumesNamed(j.Host, m.ID)...)
	}
	slices.Sort(all)
	for _, volid := range slices.Compact(all) {
		_, name, _ := vmconf.SplitVolume(volid)
		if owner, ok := vmconf.OwnerOf(name); !ok || owner != m.ID {
			continue
		}
		if err := j.Free(volid); err != nil {
			j.Print("Could not remove disk '%s', check manually: %s", volid, failure.Text(err))
		}
	}
}
