package pvesim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// snapshotTakes is how long a snapshot of a disk takes, and rolling back to it.
const snapshotTakes = 300 * time.Millisecond

// snapshot is a machine's snapshot of a name.
func (m *vm) snapshot(name string) (*snapshot, error) {
	if i := slices.IndexFunc(m.snaps, func(s snapshot) bool { return s.name == name }); i >= 0 {
		return &m.snaps[i], nil
	}
	return nil, failure.New("snapshot '%s' does not exist", name)
}

func getSnapshots(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, s := range m.snaps {
		entry := map[string]any{"name": s.name, "snaptime": s.at.Unix(), "vmstate": 0, "description": s.description}
		if s.conf["vmstate"] != "" {
			entry["vmstate"] = 1
		}
		if s.parent != "" {
			entry["parent"] = s.parent
		}
		if s.state != "" {
			entry["snapstate"] = s.state
		}
		all = append(all, entry)
	}
	current := map[string]any{"name": "current", "digest": m.digest(), "running": 0, "description": "You are here!"}
	if m.running() {
		current["running"] = 1
	}
	if parent := m.conf["parent"]; parent != "" {
		current["parent"] = parent
	}
	return append(all, current), nil
}

func postSnapshot(k *call) (any, error) {
	name, text, memory, id := k.in["snapname"], k.in["description"], k.in.Is("vmstate"), k.id()
	if name == "current" || strings.EqualFold(name, "pending") {
		return nil, failure.New("unable to use snapshot name '%s' (reserved name)", strings.ToLower(name))
	}
	if _, err := k.vm(); err != nil {
		return nil, err
	}
	return k.task("qmsnapshot", k.in["vmid"], func(j *job) error { return j.takeSnapshot(id, name, text, memory) }), nil
}

// takeSnapshot locks the machine by a key of its configuration while its disks are being worked on, so
// that the lock stays if the task does not come to its end.
func (j *job) takeSnapshot(id int, name, text string, memory bool) error {
	if err := j.locked(id, waitFile, func() error { return j.prepareSnapshot(id, name, text, memory) }); err != nil {
		return err
	}
	m, err := j.config(id)
	if err != nil {
		return err
	}
	if m.running() && vmconf.AgentEnabled(m.conf) && !m.agent {
		j.print("skipping guest filesystem freeze - agent configured but not running?")
	}
	err = j.stage("snapshot")
	for _, key := range vmconf.DrivesOf(m.conf) {
		d := vmconf.ParseDrive(m.conf[key])
		if err != nil || d.Cdrom() {
			continue
		}
		j.print("snapshotting 'drive-%s' (%s)", key, d.File)
		err = j.pause(snapshotTakes)
	}
	return j.locked(id, waitFile, func() error {
		m.finish(name, err == nil)
		return err
	})
}

func (j *job) prepareSnapshot(id int, name, text string, memory bool) error {
	m, err := j.config(id)
	if err != nil {
		return err
	}
	if m.template() {
		return failure.New("you can't take a snapshot if it's a template")
	}
	if err := m.unlocked(); err != nil {
		return err
	}
	if _, err := m.snapshot(name); err == nil {
		return failure.New("snapshot name '%s' already used", name)
	}
	for _, key := range vmconf.DrivesOf(m.conf) {
		d := vmconf.ParseDrive(m.conf[key])
		if s, v := j.c.volume(j.host, d.File); !d.Cdrom() && (v == nil || !s.canSnapshot(v)) {
			return failure.New("snapshot feature is not available")
		}
	}
	if err := j.write(id); err != nil {
		return err
	}
	conf := maps.Clone(m.conf)
	for key := range conf {
		if vmconf.IsUnused(key) || slices.Contains([]string{"lock", "description", "parent"}, key) {
			delete(conf, key)
		}
	}
	if memory && m.running() {
		state, err := j.saveMemory(m, m.stateStorage(j.c), name)
		if err != nil {
			return err
		}
		conf["vmstate"] = state
	}
	m.snaps = append(m.snaps, snapshot{name: name, description: text, at: j.c.now, conf: conf, parent: m.conf["parent"], state: "prepare"})
	m.conf["lock"] = "snapshot"
	return nil
}

// finish ends what was begun with a snapshot: it is there now, or gone again.
func (m *vm) finish(name string, taken bool) {
	delete(m.conf, "lock")
	s, err := m.snapshot(name)
	if err != nil {
		return
	}
	if taken {
		s.state = ""
		m.conf["parent"] = name
		return
	}
	m.forgetSnapshot(name)
}

// forgetSnapshot takes a snapshot out of the chain.
func (m *vm) forgetSnapshot(name string) {
	s, err := m.snapshot(name)
	if err != nil {
		return
	}
	parent := s.parent
	m.snaps = slices.DeleteFunc(m.snaps, func(s snapshot) bool { return s.name == name })
	for i := range m.snaps {
		if m.snaps[i].parent == name {
			m.snaps[i].parent = parent
		}
	}
	if m.conf["parent"] == name {
		m.conf["parent"] = parent
		if parent == "" {
			delete(m.conf, "parent")
		}
	}
}

func deleteSnapshot(k *call) (any, error) {
	id, name := k.id(), k.in["snapname"]
	return k.task("qmdelsnapshot", k.in["vmid"], func(j *job) error {
		if err := j.locked(id, waitFile, func() error { return j.checkSnapshot(id, name, "snapshot-delete") }); err != nil {
			return err
		}
		if err := j.stage("delsnapshot"); err != nil {
			return err
		}
		if err := j.pause(snapshotTakes); err != nil {
			return err
		}
		return j.locked(id, waitFile, func() error { return j.dropSnapshot(id, name) })
	}), nil
}

// checkSnapshot locks a machine to do something to one of its snapshots.
func (j *job) checkSnapshot(id int, name, lock string) error {
	m, err := j.config(id)
	if err != nil {
		return err
	}
	s, err := m.snapshot(name)
	if err != nil {
		return err
	}
	if err := m.unlocked(); err != nil {
		return err
	}
	if m.template() {
		return failure.New("you can't delete a snapshot if vm is a template")
	}
	if err := j.write(id); err != nil {
		return err
	}
	s.state = "delete"
	m.conf["lock"] = lock
	return nil
}

// dropSnapshot removes a snapshot, and keeps the disks that only it had as unused.
func (j *job) dropSnapshot(id int, name string) error {
	m, err := j.config(id)
	if err != nil {
		return err
	}
	s, err := m.snapshot(name)
	if err != nil {
		return err
	}
	if state := s.conf["vmstate"]; state != "" {
		if err := j.free(state); err != nil {
			return err
		}
		delete(s.conf, "vmstate")
	}
	volumes := vmconf.VolumesOf(s.conf)
	m.forgetSnapshot(name)
	delete(m.conf, "lock")
	return j.keep(m, volumes)
}

// keep notes disks as unused that a machine owns and nothing of it names; a cloud-init disc goes.
func (j *job) keep(m *vm, volumes []string) error {
	for _, volid := range volumes {
		_, name, _ := vmconf.SplitVolume(volid)
		_, v := j.c.volume(j.host, volid)
		if owner, ok := vmconf.OwnerOf(name); !ok || owner != m.id || v == nil || m.usedElsewhere("", volid) {
			continue
		}
		if vmconf.ParseDrive(volid).CloudInit() {
			if err := j.free(volid); err != nil {
				return err
			}
			continue
		}
		if _, err := vmconf.AddUnused(m.conf, volid); err != nil {
			return err
		}
	}
	return nil
}

func postRollback(k *call) (any, error) {
	id, name, start := k.id(), k.in["snapname"], k.in.Is("start")
	if start {
		if err := k.job().all(vmPath(id), "VM.PowerMgmt"); err != nil {
			return nil, err
		}
	}
	return k.task("qmrollback", k.in["vmid"], func(j *job) error {
		if err := j.locked(id, waitFile, func() error { return j.prepareRollback(id, name) }); err != nil {
			return err
		}
		if err := j.stage("rollback"); err != nil {
			return err
		}
		if err := j.pause(snapshotTakes); err != nil {
			return err
		}
		if err := j.locked(id, waitFile, func() error { return j.rollback(id, name) }); err != nil {
			return err
		}
		if m := j.c.vmAt(j.host, id); start && m != nil && !m.running() {
			j.c.startTask(j.host, j.who, id)
		}
		return nil
	}), nil
}

func (j *job) prepareRollback(id int, name string) error {
	m, err := j.config(id)
	if err != nil {
		return err
	}
	if m.template() {
		return failure.New("you can't rollback if vm is a template")
	}
	s, err := m.snapshot(name)
	if err != nil {
		return err
	}
	if s.state != "" {
		return failure.New("unable to rollback to incomplete snapshot (snapstate = %s)", s.state)
	}
	if err := m.unlocked(); err != nil {
		return err
	}
	if err := j.write(id); err != nil {
		return err
	}
	if m.running() {
		if err := j.quit(m); err != nil {
			return err
		}
	}
	m.conf["lock"] = "rollback"
	return nil
}

// rollback gives a machine the configuration that it had. Its description stays, and so do disks that
// the snapshot does not know, as unused.
func (j *job) rollback(id int, name string) error {
	m, err := j.config(id)
	if err != nil {
		return err
	}
	s, err := m.snapshot(name)
	if err != nil {
		return err
	}
	before := m.conf
	m.conf = maps.Clone(s.conf)
	state := m.conf["vmstate"]
	delete(m.conf, "vmstate")
	for key, value := range before {
		if key == "description" || vmconf.IsUnused(key) {
			m.conf[key] = value
		}
	}
	m.conf["parent"] = name
	if m.conf["vmgenid"] != "" {
		m.conf["vmgenid"] = vmconf.NewUUID(j.c.rng("uuids"))
	}
	m.pending = map[string]*string{}
	if err := j.keep(m, vmconf.VolumesOf(before)); err != nil {
		return err
	}
	if state != "" {
		if err := j.launch(m); err != nil {
			return err
		}
		m.wakeUp()
	}
	return nil
}

func getSnapshot(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	s, err := m.snapshot(k.in["snapname"])
	if err != nil {
		return nil, err
	}
	all := vmconf.ShownConf(s.conf, "")
	all["snaptime"] = s.at.Unix()
	for key, value := range map[string]string{"description": s.description, "parent": s.parent, "snapstate": s.state} {
		if value != "" {
			all[key] = value
		}
	}
	return all, nil
}

func putSnapshot(k *call) (any, error) {
	if !k.in.Has("description") {
		return nil, nil
	}
	j, id := k.job(), k.id()
	return nil, j.locked(id, waitFile, func() error {
		m, err := j.config(id)
		if err != nil {
			return err
		}
		if err := m.unlocked(); err != nil {
			return err
		}
		s, err := m.snapshot(k.in["snapname"])
		if err != nil {
			return err
		}
		if err := j.write(id); err != nil {
			return err
		}
		s.description = k.in["description"]
		return nil
	})
}
