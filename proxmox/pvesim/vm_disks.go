package pvesim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// resizeTakes is how long a disk takes to grow.
const resizeTakes = 300 * time.Millisecond

func putResize(k *vmCall) (any, error) {
	if err := k.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	id, key, size, digest, skiplock := k.id(), k.in["disk"], k.in["size"], k.in["digest"], k.in.Is("skiplock")
	return k.task("resize", k.in["vmid"], func(j *job) error {
		return j.locked(id, waitFile, func() error {
			m, err := j.config(id)
			if err != nil {
				return err
			}
			if digest != "" && digest != m.Digest() {
				return failure.New("checksum mismatch (file change by other user?)")
			}
			if !skiplock {
				if err := m.Unlocked(); err != nil {
					return err
				}
			}
			return j.resize(m, key, size)
		})
	}), nil
}

// resize makes a disk larger. An absolute size that it has already is nothing to do; a step is
// taken again whenever it is asked for.
func (j *job) resize(m *vm, key, size string) error {
	if m.Conf[key] == "" {
		return failure.New("disk '%s' does not exist", key)
	}
	d := vmconf.ParseDrive(m.Conf[key])
	storage, _, stored := vmconf.SplitVolume(d.File)
	switch {
	case d.CDROM():
		return failure.New("you can't resize a cdrom")
	case !stored:
		return failure.New("disk '%s' has no associated volume", key)
	}
	if err := j.all("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	s, v := j.c.volume(j.host, d.File)
	if v == nil {
		return failure.New("volume '%s' does not exist", d.File)
	}
	text, step := strings.CutPrefix(size, "+")
	want := vmconf.ParseSize(text)
	if step {
		want += v.size
	}
	switch {
	case want < v.size:
		return failure.New("shrinking disks is not supported")
	case want == v.size:
		return nil
	case want-v.size > s.room(j.host):
		return s.full(v)
	}
	if err := j.grow(s, v, want, m); err != nil {
		return err
	}
	d.Opts["size"] = vmconf.PrintSize(want)
	m.Conf[key] = d.String()
	return nil
}

func (j *job) grow(s *storage, v *volume, size int64, m *vm) error {
	if err := j.stage("resize"); err != nil {
		return err
	}
	if err := j.pause(resizeTakes); err != nil {
		return err
	}
	if err := j.write(m.id); err != nil {
		return err
	}
	v.size = size
	if s.files() && !m.running() {
		j.print("Image resized.")
	}
	return nil
}

// moving is a disk that is to be moved to another storage.
type moving struct {
	id             int
	key            string
	storage        string
	format, digest string
	remove         bool
}

func postMove(k *vmCall) (any, error) {
	n := moving{
		id: k.id(), key: k.in["disk"], storage: k.in["storage"], format: k.in["format"], digest: k.in["digest"], remove: k.in.Is("delete"),
	}
	target := k.in["target-vmid"]
	both := func(text string) error {
		return &failure.Error{Status: 400, Reason: "Parameter verification failed.", Errors: map[string]string{"target-vmid": text, "storage": text}}
	}
	switch {
	case target != "" && n.storage != "":
		return nil, both("either set 'storage' or 'target-vmid', but not both")
	case target != "":
		return k.reassign(n, k.in.Int("target-vmid", 0), k.in.Or("target-disk", n.key))
	case n.storage == "":
		return nil, both("both 'storage' and 'target-vmid' missing, either needs to be set")
	}
	j := k.job()
	if err := j.all("/storage/"+n.storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	if _, err := n.checkMove(j); err != nil {
		return nil, err
	}
	return k.task("qmmove", k.in["vmid"], func(j *job) error {
		return j.locked(n.id, waitFile, func() error { return n.move(j) })
	}), nil
}

func (n moving) checkMove(j *job) (*vm, error) {
	m, err := j.config(n.id)
	if err != nil {
		return nil, err
	}
	if err := m.Unlocked(); err != nil {
		return nil, err
	}
	if n.digest != "" && n.digest != m.Digest() {
		return nil, failure.New("detected modified configuration - file changed by other user? Try again.")
	}
	if m.Conf[n.key] == "" {
		return nil, failure.New("disk '%s' does not exist", n.key)
	}
	d := vmconf.ParseDrive(m.Conf[n.key])
	from, _, stored := vmconf.SplitVolume(d.File)
	_, v := j.c.volume(j.host, d.File)
	switch {
	case !stored:
		return nil, failure.New("disk '%s' has no associated volume", n.key)
	case d.Disc():
		return nil, failure.New("you can't move a cdrom")
	case from == n.storage && (n.format == "" || v == nil || v.format == n.format):
		return nil, failure.New("you can't move to the same storage with same format")
	}
	s, err := j.c.storageOn(j.host, n.storage)
	if err != nil {
		return nil, err
	}
	if !s.keeps("images") {
		return nil, failure.OfParameter("storage", fmt.Sprintf("storage '%s' does not support vm images", n.storage))
	}
	if n.remove && m.UsedElsewhere(n.key, d.File) {
		return nil, failure.New("you can't move a disk with snapshots and delete the source")
	}
	return m, nil
}

// move copies a disk to another storage. What it was is kept as unused, unless it is to be deleted.
func (n moving) move(j *job) error {
	m, err := n.checkMove(j)
	if err != nil {
		return err
	}
	d := vmconf.ParseDrive(m.Conf[n.key])
	from, _, _ := vmconf.SplitVolume(d.File)
	_, v := j.c.volume(j.host, d.File)
	if v == nil {
		return failure.New("volume '%s' does not exist", d.File)
	}
	j.print("copying volume '%s' from current storage '%s' to target storage '%s'", d.File, from, n.storage)
	if m.UsedElsewhere(n.key, d.File) {
		j.print("moving disk with snapshots, snapshots will not be moved!")
	}
	j.print("create full clone of drive %s (%s)", n.key, d.File)
	takes := j.c.cfg.Times.Clone.Draw(j.c.rng("clone"))
	var made []string
	copied, err := j.copyVolume(j.c.storages[n.storage], v, n.id, cmp.Or(n.format, v.format), d, allocates(takes), takes, &made)
	if s := j.c.storages[n.storage]; err == nil && m.Template() && s.canBase() {
		err = j.makeBase(s, copied)
		made = []string{s.volid(copied)}
	}
	if err == nil {
		err = j.write(n.id)
	}
	if err != nil {
		for _, volid := range made {
			if err := j.free(volid); err != nil {
				j.print("%s", failure.Text(err))
			}
		}
		return because("storage migration failed: ", err)
	}
	old := d.File
	d.File, d.Opts["size"] = n.storage+":"+copied.name, vmconf.PrintSize(copied.size)
	m.Conf[n.key] = d.String()
	return n.leave(j, m, old)
}

// leave is what becomes of the disk that was copied.
func (n moving) leave(j *job, m *vm, old string) error {
	if n.remove {
		j.print("removing source volume '%s' after successful copy", old)
		if err := j.free(old); err != nil {
			j.print("%s", failure.Text(err))
		}
		return nil
	}
	key, err := vmconf.AddUnused(m.Conf, old)
	if err == nil {
		j.print("adding source volume '%s' as '%s' to config", old, key)
	}
	return err
}

// reassign gives a disk to another machine.
func (k *vmCall) reassign(n moving, target int, key string) (any, error) {
	j := k.job()
	if err := j.onVM(target, "", "VM.Config.Disk"); err != nil {
		return nil, err
	}
	if target == n.id {
		return nil, failure.OfParameter("target-vmid", "must be different than source VMID to reassign disk")
	}
	_, _, d, err := n.checkReassign(j, target, key)
	if err != nil {
		return nil, err
	}
	storage, _, _ := vmconf.SplitVolume(d.File)
	if err := j.all("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d-%s>%d-%s", n.id, n.key, target, key)
	return k.task("qmmove", id, func(j *job) error {
		return j.locked(n.id, waitFile, func() error {
			return j.locked(target, waitFile, func() error { return n.reassign(j, target, key) })
		})
	}), nil
}

func (n moving) checkReassign(j *job, target int, key string) (from, to *vm, d vmconf.Drive, err error) {
	from, to = j.c.vms[n.id], j.c.vms[target]
	switch {
	case from == nil:
		return nil, nil, d, failure.New("could not find VM %d", n.id)
	case to == nil:
		return nil, nil, d, failure.New("could not find target VM %d", target)
	case from.host != to.host:
		return nil, nil, d, failure.New("Both VMs need to be on the same node (%s != %s)", from.host.Name, to.host.Name)
	}
	for _, m := range []*vm{from, to} {
		if err := m.Unlocked(); err != nil {
			return nil, nil, d, err
		}
	}
	d = vmconf.ParseDrive(from.Conf[n.key])
	_, v := j.c.volume(j.host, d.File)
	switch {
	case from.Template() || to.Template():
		err = failure.New("Can't move disks from or to template VMs")
	case from.Conf[n.key] == "":
		err = failure.New("Disk '%s' for VM '%d' does not exist", n.key, n.id)
	case to.Conf[key] != "":
		err = failure.New("Target disk key '%s' is already in use for VM '%d'", key, target)
	case d.CDROM():
		err = failure.New("CD drive contents can't be moved to another VM")
	case v == nil:
		err = failure.New("Volume '%s' not managed by PVE", d.File)
	case from.UsedElsewhere(n.key, d.File):
		err = failure.New("Can't move disk used by a snapshot to another VM")
	case from.running() && !vmconf.IsUnused(n.key):
		err = failure.New("Cannot move disk to another VM while the source VM is running - detach first")
	}
	return from, to, d, err
}

func (n moving) reassign(j *job, target int, key string) error {
	from, to, d, err := n.checkReassign(j, target, key)
	if err != nil {
		return err
	}
	if err := j.write(n.id); err != nil {
		return err
	}
	j.print("reassign disk '%s' from VM '%d' as '%s' to VM '%d'", n.key, n.id, key, target)
	s, v := j.c.volume(j.host, d.File)
	delete(s.at(j.host), v.name)
	v.name, v.vmid = s.freeName(j.host, target, v.format), target
	s.at(j.host)[v.name] = v
	j.print("removing disk '%s' from VM '%s' config", n.key, strconv.Itoa(n.id))
	delete(from.Conf, n.key)
	order := &vmconf.BootChange{Devices: vmconf.BootOrder(from.Conf)}
	order.Without(&from.Config, n.key)
	if err := j.apply(from); err != nil {
		return err
	}
	d.File = s.volid(v)
	if vmconf.IsUnused(key) {
		to.Conf[key] = d.File
		return nil
	}
	to.Wait(key, d.String())
	if to.running() {
		return j.hotplug(to)
	}
	return j.apply(to)
}

func getFeature(k *vmCall) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	conf := m.Conf
	if name := k.in["snapname"]; name != "" {
		s, err := m.Snapshot(name)
		if err != nil {
			return nil, err
		}
		conf = s.Conf
	}
	has := 1
	for _, key := range vmconf.DrivesOf(conf) {
		d := vmconf.ParseDrive(conf[key])
		s, v := k.c.volume(k.node, d.File)
		if d.CDROM() {
			continue
		}
		if v == nil || k.in["feature"] == "snapshot" && !s.canSnapshot(v) || k.in["feature"] == "clone" && !s.canLink(v) {
			has = 0
		}
	}
	nodes := []any{}
	for _, h := range k.c.hosts {
		if k.sharedWith(conf, h) {
			nodes = append(nodes, h.Name)
		}
	}
	return map[string]any{"hasFeature": has, "nodes": nodes}, nil
}

// sharedWith reports whether a host has the same disks: those on storages that are shared, or that
// are said to be there.
func (k *vmCall) sharedWith(conf map[string]string, h *host) bool {
	for _, volid := range vmconf.VolumesOf(conf) {
		name, _, _ := vmconf.SplitVolume(volid)
		s := k.c.storages[name]
		switch {
		case s == nil || s.disabled() || !s.on(h):
			return false
		case len(s.Hosts) == 0 && !s.Shared && h != k.node:
			return false
		}
	}
	return true
}
