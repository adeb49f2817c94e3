package pvesim

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// What is installed on a disk, and so what becomes of a virtual machine that starts from it. A disk
// that the API has made is empty; what is cloned has what its source has.
const (
	guestNone   = ""       // nothing: it never boots, and hears no request to shut down
	guestSystem = "system" // it boots, its agent answers, and it shuts down when asked
	guestDeaf   = "deaf"   // it boots, but ignores requests to shut down
)

// How long storages take.
const (
	// allocating is the share of a clone's time during which a storage is locked to make its disks,
	// up to mostAllocating: room is made no more slowly because there is much to be copied into it.
	allocating     = 8
	mostAllocating = 3 * time.Second
	// metadataPerSecond is of how many bytes of a disk the bookkeeping is written in a second: an
	// ordinary disk is there at once, and one of a petabyte takes minutes.
	metadataPerSecond = 800 << 30
	// linkedShare is which part of its size a linked clone comes to occupy.
	linkedShare = 10
)

// files reports whether the storage keeps its volumes as files.
func (s *storage) files() bool {
	switch s.Type {
	case "dir", "nfs", "cifs", "cephfs", "glusterfs", "btrfs":
		return true
	}
	return false
}

// keeps reports whether a content may lie on the storage; one that names none keeps all.
func (s *storage) keeps(content string) bool {
	return len(s.Content) == 0 || slices.Contains(s.Content, content)
}

// on reports whether the storage is there on a host.
func (s *storage) on(h *host) bool { return len(s.Hosts) == 0 || slices.Contains(s.Hosts, h.Name) }

// place is under which key the storage's volumes and lock are found from a host.
func (s *storage) place(h *host) string {
	if s.Shared {
		return ""
	}
	return h.Name
}

// at is the storage's volumes by name, as a host sees them.
func (s *storage) at(h *host) map[string]*volume {
	all := s.volumes[s.place(h)]
	if all == nil {
		all = map[string]*volume{}
		s.volumes[s.place(h)] = all
	}
	return all
}

func (s *storage) lockOf(h *host) *engine.Flock {
	l := s.locks[s.place(h)]
	if l == nil {
		l = &engine.Flock{}
		s.locks[s.place(h)] = l
	}
	return l
}

// occupies is how many bytes of its storage a volume takes. Disks count as if their guests had
// filled them, for that is what they come to.
func (v *volume) occupies() int64 {
	if v.parent != "" {
		return v.size / linkedShare
	}
	return v.size
}

// used is how many bytes of the storage are taken, as a host sees it.
func (s *storage) used(h *host) int64 {
	if s.filled[s.place(h)] > 0 {
		return s.Total
	}
	sum := s.Used
	for _, v := range s.at(h) {
		sum += v.occupies()
	}
	return min(sum, s.Total)
}

// room is how many bytes of the storage are left, as a host sees it.
func (s *storage) room(h *host) int64 { return s.Total - s.used(h) }

// volid is a volume's identifier.
func (s *storage) volid(v *volume) string { return s.Name + ":" + v.name }

// root is the directory in which a storage that keeps files has them.
func (s *storage) root() string {
	switch {
	case s.conf["path"] != "":
		return s.conf["path"]
	case s.Name == "local":
		return "/var/lib/vz"
	case s.Type == "dir" || s.Type == "btrfs":
		return "/mnt/" + s.Name
	}
	return "/mnt/pve/" + s.Name
}

// path is where a volume lies in its host's file system.
func (s *storage) path(name string) string {
	name = ownName(name)
	kind, file, _ := strings.Cut(name, "/")
	switch {
	case !s.files() && s.Type == "zfspool":
		return "/dev/zvol/" + s.Name + "/" + name
	case !s.files():
		return "/dev/" + s.Name + "/" + name
	case kind == "iso" || kind == "vztmpl":
		return s.root() + "/template/" + map[string]string{"iso": "iso", "vztmpl": "cache"}[kind] + "/" + file
	case kind == "snippets" || kind == "import":
		return s.root() + "/" + name
	}
	return s.root() + "/images/" + name
}

// ownName is a volume's name without that of the one it is a clone of.
func ownName(name string) string {
	parts := strings.Split(name, "/")
	switch {
	case len(parts) == 4:
		return parts[2] + "/" + parts[3]
	case len(parts) == 2 && strings.HasPrefix(parts[0], "base-"):
		return parts[1]
	}
	return name
}

// nameFor is the name of a virtual machine's volume: what is its file's or device's name, and for
// storages that keep files a directory of the VM and a suffix.
func (s *storage) nameFor(id int, base, format string) string {
	if !s.files() {
		return base
	}
	return fmt.Sprintf("%d/%s.%s", id, base, format)
}

// freeName is the first name that no disk of the virtual machine has.
func (s *storage) freeName(h *host, id int, format string) string {
	taken := map[string]bool{}
	for name := range s.at(h) {
		file := path.Base(name)
		taken[strings.TrimSuffix(file, path.Ext(file))] = true
	}
	for n := 0; ; n++ {
		disk := fmt.Sprintf("%d-disk-%d", id, n)
		if !taken["vm-"+disk] && !taken["base-"+disk] {
			return s.nameFor(id, "vm-"+disk, format)
		}
	}
}

// formatFor is the format that a storage gives a disk for which one is wished for.
func (s *storage) formatFor(wish string) string {
	if !s.files() || wish == "" {
		return "raw"
	}
	return wish
}

// features that not every volume has.
func (s *storage) canBase() bool { return s.Type != "lvm" && s.Type != "iscsidirect" }
func (s *storage) canLink(v *volume) bool {
	return s.canBase() && strings.HasPrefix(path.Base(v.name), "base-")
}

func (s *storage) canSnapshot(v *volume) bool {
	if s.files() {
		return v.format == "qcow2"
	}
	return s.Type != "lvm"
}

// stores are the storages of all hosts.
type stores struct {
	c        *World
	storages map[string]*storage
}

// storageNamed is a storage, or what the server says of one that is not there.
func (st *stores) storageNamed(name string) (*storage, error) {
	if s := st.storages[name]; s != nil {
		return s, nil
	}
	return nil, failure.New("storage '%s' does not exist", name)
}

// storageOn is a storage that must be there on a host.
func (st *stores) storageOn(h *host, name string) (*storage, error) {
	s, err := st.storageNamed(name)
	if err != nil {
		return nil, err
	}
	if s.disabled() {
		return nil, failure.New("storage '%s' is disabled", name)
	}
	if !s.on(h) {
		return nil, failure.New("storage '%s' is not available on node '%s'", name, h.Name)
	}
	return s, nil
}

// volume finds a volume by its identifier, as a host sees it; nil if it is not there.
func (st *stores) volume(h *host, volid string) (*storage, *volume) {
	name, vol, ok := vmconf.SplitVolume(volid)
	s := st.storages[name]
	if !ok || s == nil || !s.on(h) {
		return nil, nil
	}
	return s, s.at(h)[vol]
}

// allocates is how long a storage is locked for a clone that takes a time.
func allocates(takes time.Duration) time.Duration { return min(takes/allocating, mostAllocating) }

// lockStorage takes the lock under which a storage makes and removes volumes: a file's on the host,
// or for a shared storage the whole cluster's, which is tried once a second and so not in turn.
func (j *errand) lockStorage(s *storage) (unlock func(), err error) {
	l := s.lockOf(j.host)
	if !s.Shared {
		if err := j.lock(l, waitStorage, "/var/lock/pve-manager/pve-storage-"+s.Name); err != nil {
			return nil, err
		}
		return l.Unlock, nil
	}
	for left := waitStorage; l.Held; left -= time.Second {
		if left <= 0 {
			return nil, failure.New("cfs-lock 'storage-%s' error: got lock request timeout", s.Name)
		}
		j.print("trying to acquire cfs lock 'storage-%s' ...", s.Name)
		if err := j.pause(time.Second); err != nil {
			return nil, err
		}
	}
	if !j.c.quorate(j.host) {
		return nil, failure.New("cfs-lock 'storage-%s' error: no quorum!", s.Name)
	}
	l.Held = true
	return l.Unlock, nil
}

// wanted is a volume that is to be made.
type wanted struct {
	id     int
	name   string // empty is the next free one of a disk
	format string
	size   int64
	guest  string
	takes  time.Duration // besides what its size takes, while the storage is locked
}

// allocate makes a volume. It is there from the beginning, though empty, so that one is left over
// if whoever makes it is killed.
func (j *errand) allocate(s *storage, w wanted) (*volume, error) {
	unlock, err := j.lockStorage(s)
	if err != nil {
		return nil, err
	}
	defer unlock()
	w.format = s.formatFor(w.format)
	v := &volume{
		name: cmp.Or(w.name, s.freeName(j.host, w.id, w.format)), content: "images", format: w.format, vmid: w.id, guest: w.guest,
	}
	if s.at(j.host)[v.name] != nil {
		return nil, failure.New("disk image '%s' already exists", s.path(v.name))
	}
	takes := w.takes
	if w.size > cloudInitSize {
		takes += time.Duration(float64(w.size) / metadataPerSecond * float64(time.Second))
	}
	return v, j.fill(s, v, w.size, takes, "")
}

// fill writes what belongs into a new volume. If it does not fit, nothing is left of it.
func (j *errand) fill(s *storage, v *volume, size int64, takes time.Duration, backing string) error {
	v.at = j.c.Clock
	s.at(j.host)[v.name] = v
	if size <= cloudInitSize { // moments, in which nothing is heard
		j.doze(takes)
	} else if takes > 0 && j.pause(takes) != nil {
		delete(s.at(j.host), v.name)
		return failure.New("unable to create image: interrupted by signal")
	}
	whole := &volume{size: size, parent: v.parent}
	if whole.occupies() > s.room(j.host) {
		delete(s.at(j.host), v.name)
		return s.full(v)
	}
	v.size, v.at = size, j.c.Clock
	j.logAllocated(s, v, backing)
	return nil
}

// full is what a storage says when a volume does not fit on it.
func (s *storage) full(v *volume) error {
	switch {
	case s.Type == "lvmthin" || s.Type == "lvm":
		return failure.New("lvcreate '%s/%s' error:   Volume group \"%s\" has insufficient free space", s.Name, v.name, s.Name)
	case s.Type == "zfspool":
		return failure.New("zfs error: cannot create '%s/%s': out of space", s.Name, v.name)
	case s.Type == "rbd":
		return failure.New("rbd create '%s' error: rbd: create error: (28) No space left on device", v.name)
	}
	return failure.New("unable to create image: qemu-img: %s: Could not resize file: No space left on device", s.path(v.name))
}

// logAllocated says in a task's log what the tools say that make a volume.
func (j *errand) logAllocated(s *storage, v *volume, backing string) {
	if s.Type == "lvmthin" || s.Type == "lvm" {
		j.print("  Logical volume \"%s\" created.", ownName(v.name))
	}
	if !s.files() {
		return
	}
	file := s.path(v.name)
	switch {
	case v.format == "raw":
		j.print("Formatting '%s', fmt=raw size=%d preallocation=off", file, v.size)
	case backing != "":
		j.print("Formatting '%s', fmt=qcow2 cluster_size=131072 extended_l2=on preallocation=metadata compression_type=zlib"+
			" size=%d backing_file=%s backing_fmt=qcow2 lazy_refcounts=off refcount_bits=16", file, v.size, backing)
	default:
		j.print("Formatting '%s', fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib"+
			" size=%d lazy_refcounts=off refcount_bits=16", file, v.size)
	}
}

// backing is how a linked clone names the volume that it is made of: storages that keep files know
// them by the way there.
func (s *storage) backing(name string) string {
	if s.files() {
		return "../" + name
	}
	return name
}

// link makes a volume that holds what differs from a base volume.
func (j *errand) link(s *storage, base *volume, id int, takes time.Duration) (*volume, error) {
	unlock, err := j.lockStorage(s)
	if err != nil {
		return nil, err
	}
	defer unlock()
	own := s.freeName(j.host, id, "qcow2")
	v := &volume{name: own, content: "images", format: base.format, vmid: id, parent: base.name, guest: base.guest}
	if s.Type != "lvmthin" { // which does not tell in its names
		v.name = base.name + "/" + own
	}
	if s.files() {
		v.format = "qcow2"
		j.print("clone %s: images, %s, %d to %s (base=../%s)", base.name, path.Base(own), id, path.Base(own), base.name)
	}
	if s.at(j.host)[base.name] != base {
		return nil, failure.New("volume '%s' does not exist", s.volid(base))
	}
	return v, j.fill(s, v, base.size, takes, s.backing(base.name))
}

// free removes a volume, if it is there.
func (j *errand) free(volid string) error {
	s, v := j.c.volume(j.host, volid)
	if v == nil {
		return nil
	}
	unlock, err := j.lockStorage(s)
	if err != nil {
		return err
	}
	defer unlock()
	return j.remove(s, v)
}

// remove is free for who holds the storage's lock.
func (j *errand) remove(s *storage, v *volume) error {
	if s.linkedTo(j.host, v) {
		return failure.New("base volume '%s' is still in use by linked clones", v.name)
	}
	delete(s.at(j.host), v.name)
	if s.Type == "lvmthin" || s.Type == "lvm" {
		j.print("  Logical volume \"%s\" successfully removed.", ownName(v.name))
	}
	return nil
}

// linkedTo reports whether there are linked clones of a volume.
func (s *storage) linkedTo(h *host, base *volume) bool {
	for _, v := range s.at(h) {
		if v.parent == base.name {
			return true
		}
	}
	return false
}

// makeBase turns a disk into one that linked clones can be made of.
func (j *errand) makeBase(s *storage, v *volume) error {
	unlock, err := j.lockStorage(s)
	if err != nil {
		return err
	}
	defer unlock()
	dir, file := path.Split(v.name)
	delete(s.at(j.host), v.name)
	v.name = dir + strings.Replace(file, "vm-", "base-", 1)
	s.at(j.host)[v.name] = v
	if s.Type == "lvmthin" {
		j.print("  Renamed \"%s\" to \"%s\" in volume group \"%s\"", file, path.Base(v.name), s.Name)
	}
	return nil
}

func newStorage(s Storage) *storage {
	return &storage{Storage: s, volumes: map[string]map[string]*volume{}, locks: map[string]*engine.Flock{}, filled: map[string]int{}, conf: map[string]string{}}
}

func (c *World) addImage(i Image) {
	name := "import/" + i.Name
	c.storages[i.Storage].at(c.host(i.Host))[name] = &volume{
		name: name, content: "import", format: strings.TrimPrefix(extensions["import"].FindString(i.Name), "."), size: i.Size, at: c.Clock, guest: guestSystem,
	}
}

// cloudInitSize is of the disc with what Proxmox VE tells cloud-init.
const cloudInitSize = 4 << 20

func (s *storage) disabled() bool { return s.conf["disable"] == "1" }
