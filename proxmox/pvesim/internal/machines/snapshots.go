package machines

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// snapshotTakes is how long a snapshot of a disk takes, and rolling back to it.
const snapshotTakes = 300 * time.Millisecond

func getSnapshots(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, s := range m.Snaps {
		entry := map[string]any{"name": s.Name, "snaptime": s.At.Unix(), "vmstate": 0, "description": s.Description}
		if s.Conf["vmstate"] != "" {
			entry["vmstate"] = 1
		}
		if s.Parent != "" {
			entry["parent"] = s.Parent
		}
		if s.State != "" {
			entry["snapstate"] = s.State
		}
		all = append(all, entry)
	}
	current := map[string]any{"name": "current", "digest": m.Digest(), "running": 0, "description": "You are here!"}
	if m.Running() {
		current["running"] = 1
	}
	if parent := m.Conf["parent"]; parent != "" {
		current["parent"] = parent
	}
	return append(all, current), nil
}

func postSnapshot(k *call) (any, error) {
	name, text, memory, id := k.In["snapname"], k.In["description"], k.In.Is("vmstate"), k.id()
	if name == "current" || strings.EqualFold(name, "pending") {
		return nil, failure.New("unable to use snapshot name '%s' (reserved name)", strings.ToLower(name))
	}
	if _, err := k.vm(); err != nil {
		return nil, err
	}
	return k.Task("qmsnapshot", k.In["vmid"], func(j *world.Errand) error { return takeSnapshot(j, id, name, text, memory) }), nil
}

// takeSnapshot locks the machine by a key of its configuration while its disks are being worked on,
// so that the lock stays if the task does not come to its end.
func takeSnapshot(j *world.Errand, id int, name, text string, memory bool) error {
	if err := j.Locked(id, world.WaitFile, func() error { return prepareSnapshot(j, id, name, text, memory) }); err != nil {
		return err
	}
	m, err := j.Config(id)
	if err != nil {
		return err
	}
	if m.Running() && vmconf.AgentEnabled(m.Conf) && !m.Agent {
		j.Print("skipping guest filesystem freeze - agent configured but not running?")
	}
	err = j.Stage("snapshot")
	for _, key := range vmconf.DrivesOf(m.Conf) {
		d := vmconf.ParseDrive(m.Conf[key])
		if err != nil || d.CDROM() {
			continue
		}
		j.Print("snapshotting 'drive-%s' (%s)", key, d.File)
		err = j.Pause(snapshotTakes)
	}
	return j.Locked(id, world.WaitFile, func() error {
		m.Finish(name, err == nil)
		return err
	})
}

func prepareSnapshot(j *world.Errand, id int, name, text string, memory bool) error {
	m, err := j.Config(id)
	if err != nil {
		return err
	}
	if m.Template() {
		return failure.New("you can't take a snapshot if it's a template")
	}
	if err := m.Unlocked(); err != nil {
		return err
	}
	if _, err := m.Snapshot(name); err == nil {
		return failure.New("snapshot name '%s' already used", name)
	}
	for _, key := range vmconf.DrivesOf(m.Conf) {
		d := vmconf.ParseDrive(m.Conf[key])
		if s, v := j.World.Volume(j.Host, d.File); !d.CDROM() && (v == nil || !s.CanSnapshot(v)) {
			return failure.New("snapshot feature is not available")
		}
	}
	if err := j.Write(id); err != nil {
		return err
	}
	conf := maps.Clone(m.Conf)
	for key := range conf {
		if vmconf.IsUnused(key) || slices.Contains([]string{"lock", "description", "parent"}, key) {
			delete(conf, key)
		}
	}
	if memory && m.Running() {
		state, err := saveMemory(j, m, stateStorageOf(m, j.World), name)
		if err != nil {
			return err
		}
		conf["vmstate"] = state
	}
	m.Snaps = append(m.Snaps, vmconf.Snapshot{Name: name, Description: text, At: j.World.Clock, Conf: conf, Parent: m.Conf["parent"], State: "prepare"})
	m.Conf["lock"] = "snapshot"
	return nil
}

func deleteSnapshot(k *call) (any, error) {
	id, name := k.id(), k.In["snapname"]
	return k.Task("qmdelsnapshot", k.In["vmid"], func(j *world.Errand) error {
		if err := j.Locked(id, world.WaitFile, func() error { return checkSnapshot(j, id, name, "snapshot-delete") }); err != nil {
			return err
		}
		if err := j.Stage("delsnapshot"); err != nil {
			return err
		}
		if err := j.Pause(snapshotTakes); err != nil {
			return err
		}
		return j.Locked(id, world.WaitFile, func() error { return dropSnapshot(j, id, name) })
	}), nil
}

// checkSnapshot locks a machine to do something to one of its snapshots.
func checkSnapshot(j *world.Errand, id int, name, lock string) error {
	m, err := j.Config(id)
	if err != nil {
		return err
	}
	s, err := m.Snapshot(name)
	if err != nil {
		return err
	}
	if err := m.Unlocked(); err != nil {
		return err
	}
	if m.Template() {
		return failure.New("you can't delete a snapshot if vm is a template")
	}
	if err := j.Write(id); err != nil {
		return err
	}
	s.State = "delete"
	m.Conf["lock"] = lock
	return nil
}

// dropSnapshot removes a snapshot, and keeps the disks that only it had as unused.
func dropSnapshot(j *world.Errand, id int, name string) error {
	m, err := j.Config(id)
	if err != nil {
		return err
	}
	s, err := m.Snapshot(name)
	if err != nil {
		return err
	}
	if state := s.Conf["vmstate"]; state != "" {
		if err := j.Free(state); err != nil {
			return err
		}
		delete(s.Conf, "vmstate")
	}
	volumes := vmconf.VolumesOf(s.Conf)
	m.ForgetSnapshot(name)
	delete(m.Conf, "lock")
	return keep(j, m, volumes)
}

// keep notes disks as unused that a machine owns and nothing of it names; a cloud-init disc goes.
func keep(j *world.Errand, m *world.Guest, volumes []string) error {
	for _, volid := range volumes {
		_, name, _ := vmconf.SplitVolume(volid)
		_, v := j.World.Volume(j.Host, volid)
		if owner, ok := vmconf.OwnerOf(name); !ok || owner != m.ID || v == nil || m.UsedElsewhere("", volid) {
			continue
		}
		if vmconf.ParseDrive(volid).CloudInit() {
			if err := j.Free(volid); err != nil {
				return err
			}
			continue
		}
		if _, err := vmconf.AddUnused(m.Conf, volid); err != nil {
			return err
		}
	}
	return nil
}

func postRollback(k *call) (any, error) {
	id, name, start := k.id(), k.In["snapname"], k.In.Is("start")
	if start {
		if err := k.Errand().All(world.VMPath(id), "VM.PowerMgmt"); err != nil {
			return nil, err
		}
	}
	return k.Task("qmrollback", k.In["vmid"], func(j *world.Errand) error {
		if err := j.Locked(id, world.WaitFile, func() error { return prepareRollback(j, id, name) }); err != nil {
			return err
		}
		if err := j.Stage("rollback"); err != nil {
			return err
		}
		if err := j.Pause(snapshotTakes); err != nil {
			return err
		}
		if err := j.Locked(id, world.WaitFile, func() error { return rollback(j, id, name) }); err != nil {
			return err
		}
		if m := j.World.VMAt(j.Host, id); start && m != nil && !m.Running() {
			StartTask(j.World, j.Host, j.Who, id)
		}
		return nil
	}), nil
}

func prepareRollback(j *world.Errand, id int, name string) error {
	m, err := j.Config(id)
	if err != nil {
		return err
	}
	if m.Template() {
		return failure.New("you can't rollback if vm is a template")
	}
	s, err := m.Snapshot(name)
	if err != nil {
		return err
	}
	if s.State != "" {
		return failure.New("unable to rollback to incomplete snapshot (snapstate = %s)", s.State)
	}
	if err := m.Unlocked(); err != nil {
		return err
	}
	if err := j.Write(id); err != nil {
		return err
	}
	if m.Running() {
		if err := quit(j, m); err != nil {
			return err
		}
	}
	m.Conf["lock"] = "rollback"
	return nil
}

// rollback gives a machine the configuration that it had. Its description stays, and so do disks
// that the snapshot does not know, as unused.
func rollback(j *world.Errand, id int, name string) error {
	m, err := j.Config(id)
	if err != nil {
		return err
	}
	s, err := m.Snapshot(name)
	if err != nil {
		return err
	}
	before := m.Conf
	m.Conf = maps.Clone(s.Conf)
	state := m.Conf["vmstate"]
	delete(m.Conf, "vmstate")
	for key, value := range before {
		if key == "description" || vmconf.IsUnused(key) {
			m.Conf[key] = value
		}
	}
	m.Conf["parent"] = name
	if m.Conf["vmgenid"] != "" {
		m.Conf["vmgenid"] = vmconf.NewUUID(j.World.RNG("uuids"))
	}
	m.Pending = map[string]*string{}
	if err := keep(j, m, vmconf.VolumesOf(before)); err != nil {
		return err
	}
	if state != "" {
		if err := launch(j, m); err != nil {
			return err
		}
		m.WakeUp()
	}
	return nil
}

func getSnapshot(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	s, err := m.Snapshot(k.In["snapname"])
	if err != nil {
		return nil, err
	}
	all := vmconf.ShownConf(s.Conf, "")
	all["snaptime"] = s.At.Unix()
	for key, value := range map[string]string{"description": s.Description, "parent": s.Parent, "snapstate": s.State} {
		if value != "" {
			all[key] = value
		}
	}
	return all, nil
}

func putSnapshot(k *call) (any, error) {
	if !k.In.Has("description") {
		return nil, nil
	}
	j, id := k.Errand(), k.id()
	return nil, j.Locked(id, world.WaitFile, func() error {
		m, err := j.Config(id)
		if err != nil {
			return err
		}
		if err := m.Unlocked(); err != nil {
			return err
		}
		s, err := m.Snapshot(k.In["snapname"])
		if err != nil {
			return err
		}
		if err := j.Write(id); err != nil {
			return err
		}
		s.Description = k.In["description"]
		return nil
	})
}
