package machines

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// resizeTakes is how long a disk takes to grow.
const resizeTakes = 300 * time.Millisecond

func putResize(k *call) (any, error) {
	if err := k.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	id, key, size, digest, skiplock := k.id(), k.In["disk"], k.In["size"], k.In["digest"], k.In.Is("skiplock")
	return k.Task("resize", k.In["vmid"], func(j *world.Errand) error {
		return j.Locked(id, world.WaitFile, func() error {
			m, err := j.Config(id)
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
			return resize(j, m, key, size)
		})
	}), nil
}

// resize makes a disk larger. An absolute size that it has already is nothing to do; a step is
// taken again whenever it is asked for.
func resize(j *world.Errand, m *world.Guest, key, size string) error {
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
	if err := j.All("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	s, v := j.World.Volume(j.Host, d.File)
	if v == nil {
		return failure.New("volume '%s' does not exist", d.File)
	}
	text, step := strings.CutPrefix(size, "+")
	want := vmconf.ParseSize(text)
	if step {
		want += v.Size
	}
	switch {
	case want < v.Size:
		return failure.New("shrinking disks is not supported")
	case want == v.Size:
		return nil
	case want-v.Size > s.Room(j.Host):
		return s.Full(v)
	}
	if err := grow(j, s, v, want, m, key); err != nil {
		return err
	}
	d.Opts["size"] = vmconf.PrintSize(want)
	m.Conf[key] = d.String()
	return nil
}

func grow(j *world.Errand, s *world.Store, v *world.Volume, size int64, m *world.Guest, key string) error {
	if err := j.Stage("resize"); err != nil {
		return err
	}
	if err := j.Pause(resizeTakes); err != nil {
		return err
	}
	if err := j.Write(m.ID); err != nil {
		return err
	}
	if v.Disk != 0 {
		if err := monitor(j, m, "block_resize", map[string]any{"device": key, "size": size}); err != nil {
			return err
		}
	}
	v.Size = size
	if s.Files() && !m.Running() {
		j.Print("Image resized.")
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

func postMove(k *call) (any, error) {
	n := moving{
		id: k.id(), key: k.In["disk"], storage: k.In["storage"], format: k.In["format"], digest: k.In["digest"], remove: k.In.Is("delete"),
	}
	target := k.In["target-vmid"]
	both := func(text string) error {
		return &failure.Error{Status: 400, Reason: "Parameter verification failed.", Errors: map[string]string{"target-vmid": text, "storage": text}}
	}
	switch {
	case target != "" && n.storage != "":
		return nil, both("either set 'storage' or 'target-vmid', but not both")
	case target != "":
		return k.reassign(n, k.In.Int("target-vmid", 0), k.In.Or("target-disk", n.key))
	case n.storage == "":
		return nil, both("both 'storage' and 'target-vmid' missing, either needs to be set")
	}
	j := k.Errand()
	if err := j.All("/storage/"+n.storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	if _, err := n.checkMove(j); err != nil {
		return nil, err
	}
	return k.Task("qmmove", k.In["vmid"], func(j *world.Errand) error {
		return j.Locked(n.id, world.WaitFile, func() error { return n.move(j) })
	}), nil
}

func (n moving) checkMove(j *world.Errand) (*world.Guest, error) {
	m, err := j.Config(n.id)
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
	_, v := j.World.Volume(j.Host, d.File)
	switch {
	case !stored:
		return nil, failure.New("disk '%s' has no associated volume", n.key)
	case d.Disc():
		return nil, failure.New("you can't move a cdrom")
	case from == n.storage && (n.format == "" || v == nil || v.Format == n.format):
		return nil, failure.New("you can't move to the same storage with same format")
	}
	s, err := j.World.StorageOn(j.Host, n.storage)
	if err != nil {
		return nil, err
	}
	if !s.Keeps("images") {
		return nil, failure.OfParameter("storage", fmt.Sprintf("storage '%s' does not support vm images", n.storage))
	}
	if n.remove && m.UsedElsewhere(n.key, d.File) {
		return nil, failure.New("you can't move a disk with snapshots and delete the source")
	}
	return m, nil
}

// move copies a disk to another storage. What it was is kept as unused, unless it is to be deleted.
func (n moving) move(j *world.Errand) error {
	m, err := n.checkMove(j)
	if err != nil {
		return err
	}
	d := vmconf.ParseDrive(m.Conf[n.key])
	from, _, _ := vmconf.SplitVolume(d.File)
	_, v := j.World.Volume(j.Host, d.File)
	if v == nil {
		return failure.New("volume '%s' does not exist", d.File)
	}
	j.Print("copying volume '%s' from current storage '%s' to target storage '%s'", d.File, from, n.storage)
	if m.UsedElsewhere(n.key, d.File) {
		j.Print("moving disk with snapshots, snapshots will not be moved!")
	}
	j.Print("create full clone of drive %s (%s)", n.key, d.File)
	takes := j.World.Config.Times.Clone.Draw(j.World.RNG("clone"))
	var made []string
	copied, err := copyVolume(j, j.World.Storages[n.storage], v, n.id, cmp.Or(n.format, v.Format), d, world.Allocates(takes), takes, &made)
	if s := j.World.Storages[n.storage]; err == nil && m.Template() && s.CanBase() {
		err = j.MakeBase(s, copied)
		made = []string{s.VolID(copied)}
	}
	if err == nil {
		err = j.Write(n.id)
	}
	if err != nil {
		for _, volid := range made {
			if err := j.Free(volid); err != nil {
				j.Print("%s", failure.Text(err))
			}
		}
		return world.Because("storage migration failed: ", err)
	}
	old := d.File
	d.File, d.Opts["size"] = n.storage+":"+copied.Name, vmconf.PrintSize(copied.Size)
	m.Conf[n.key] = d.String()
	return n.leave(j, m, old)
}

// leave is what becomes of the disk that was copied.
func (n moving) leave(j *world.Errand, m *world.Guest, old string) error {
	if n.remove {
		j.Print("removing source volume '%s' after successful copy", old)
		if err := j.Free(old); err != nil {
			j.Print("%s", failure.Text(err))
		}
		return nil
	}
	key, err := vmconf.AddUnused(m.Conf, old)
	if err == nil {
		j.Print("adding source volume '%s' as '%s' to config", old, key)
	}
	return err
}

// reassign gives a disk to another machine.
func (k *call) reassign(n moving, target int, key string) (any, error) {
	j := k.Errand()
	if err := j.OnVM(target, "", "VM.Config.Disk"); err != nil {
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
	if err := j.All("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d-%s>%d-%s", n.id, n.key, target, key)
	return k.Task("qmmove", id, func(j *world.Errand) error {
		return j.Locked(n.id, world.WaitFile, func() error {
			return j.Locked(target, world.WaitFile, func() error { return n.reassign(j, target, key) })
		})
	}), nil
}

func (n moving) checkReassign(j *world.Errand, target int, key string) (from, to *world.Guest, d vmconf.Drive, err error) {
	from, to = j.World.VMs[n.id], j.World.VMs[target]
	switch {
	case from == nil:
		return nil, nil, d, failure.New("could not find VM %d", n.id)
	case to == nil:
		return nil, nil, d, failure.New("could not find target VM %d", target)
	case from.Host != to.Host:
		return nil, nil, d, failure.New("Both VMs need to be on the same node (%s != %s)", from.Host.Name, to.Host.Name)
	}
	for _, m := range []*world.Guest{from, to} {
		if err := m.Unlocked(); err != nil {
			return nil, nil, d, err
		}
	}
	d = vmconf.ParseDrive(from.Conf[n.key])
	_, v := j.World.Volume(j.Host, d.File)
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
	case from.Running() && !vmconf.IsUnused(n.key):
		err = failure.New("Cannot move disk to another VM while the source VM is running - detach first")
	}
	return from, to, d, err
}

func (n moving) reassign(j *world.Errand, target int, key string) error {
	from, to, d, err := n.checkReassign(j, target, key)
	if err != nil {
		return err
	}
	if err := j.Write(n.id); err != nil {
		return err
	}
	j.Print("reassign disk '%s' from VM '%d' as '%s' to VM '%d'", n.key, n.id, key, target)
	s, v := j.World.Volume(j.Host, d.File)
	delete(s.At(j.Host), v.Name)
	v.Name, v.VMID = s.FreeName(j.Host, target, v.Format), target
	s.At(j.Host)[v.Name] = v
	j.Print("removing disk '%s' from VM '%s' config", n.key, strconv.Itoa(n.id))
	delete(from.Conf, n.key)
	order := &vmconf.BootChange{Devices: vmconf.BootOrder(from.Conf)}
	order.Without(&from.Config, n.key)
	if err := apply(j, from); err != nil {
		return err
	}
	d.File = s.VolID(v)
	if vmconf.IsUnused(key) {
		to.Conf[key] = d.File
		return nil
	}
	to.Wait(key, d.String())
	if to.Running() {
		return hotplug(j, to)
	}
	return apply(j, to)
}

func getFeature(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	conf := m.Conf
	if name := k.In["snapname"]; name != "" {
		s, err := m.Snapshot(name)
		if err != nil {
			return nil, err
		}
		conf = s.Conf
	}
	has := 1
	for _, key := range vmconf.DrivesOf(conf) {
		d := vmconf.ParseDrive(conf[key])
		s, v := k.World.Volume(k.Node, d.File)
		if d.CDROM() {
			continue
		}
		if v == nil || k.In["feature"] == "snapshot" && !s.CanSnapshot(v) || k.In["feature"] == "clone" && !s.CanLink(v) {
			has = 0
		}
	}
	nodes := []any{}
	for _, h := range k.World.Nodes {
		if k.sharedWith(conf, h) {
			nodes = append(nodes, h.Name)
		}
	}
	return map[string]any{"hasFeature": has, "nodes": nodes}, nil
}

// sharedWith reports whether a host has the same disks: those on storages that are shared, or that
// are said to be there.
func (k *call) sharedWith(conf map[string]string, h *world.Node) bool {
	for _, volid := range vmconf.VolumesOf(conf) {
		name, _, _ := vmconf.SplitVolume(volid)
		s := k.World.Storages[name]
		switch {
		case s == nil || s.Disabled() || !s.On(h):
			return false
		case len(s.Hosts) == 0 && !s.Shared && h != k.Node:
			return false
		}
	}
	return true
}
