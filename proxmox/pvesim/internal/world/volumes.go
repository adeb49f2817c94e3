package world

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

// How long storages take.
const (
	// allocating is the share of a clone's time during which a storage is locked to make its disks,
	// up to mostAllocating: room is made no more slowly because there is much to be copied into it.
	allocating     = 8
	mostAllocating = 3 * time.Second
	// metadataPerSecond is of how many bytes of a disk the bookkeeping is written in a second: an
	// ordinary disk is there at once, and one of a petabyte takes minutes.
	metadataPerSecond = 800 << 30
	// LinkedShare is which part of its size a linked clone comes to occupy.
	LinkedShare = 10
)

// Files reports whether the storage keeps its volumes as files.
func (s *Store) Files() bool {
	switch s.Type {
	case "dir", "nfs", "cifs", "cephfs", "glusterfs", "btrfs":
		return true
	}
	return false
}

// Keeps reports whether a content may lie on the storage; one that names none keeps all.
func (s *Store) Keeps(content string) bool {
	return len(s.Content) == 0 || slices.Contains(s.Content, content)
}

// On reports whether the storage is there on a host.
func (s *Store) On(h *Node) bool { return len(s.Hosts) == 0 || slices.Contains(s.Hosts, h.Name) }

// Place is under which key the storage's volumes and lock are found from a host.
func (s *Store) Place(h *Node) string {
	if s.Shared {
		return ""
	}
	return h.Name
}

// At is the storage's volumes by name, as a host sees them.
func (s *Store) At(h *Node) map[string]*Volume {
	all := s.Volumes[s.Place(h)]
	if all == nil {
		all = map[string]*Volume{}
		s.Volumes[s.Place(h)] = all
	}
	return all
}

// LockOf is the lock on the storage as a host sees it.
func (s *Store) LockOf(h *Node) *engine.Flock {
	l := s.Locks[s.Place(h)]
	if l == nil {
		l = &engine.Flock{}
		s.Locks[s.Place(h)] = l
	}
	return l
}

// Occupies is how many bytes of its storage a volume takes. Disks count as if their guests had
// filled them, for that is what they come to.
func (v *Volume) Occupies() int64 {
	if v.Parent != "" {
		return v.Size / LinkedShare
	}
	return v.Size
}

// UsedOn is how many bytes of the storage are taken, as a host sees it.
func (s *Store) UsedOn(h *Node) int64 {
	if s.Filled[s.Place(h)] > 0 {
		return s.Total
	}
	sum := s.Used
	for _, v := range s.At(h) {
		sum += v.Occupies()
	}
	return min(sum, s.Total)
}

// Room is how many bytes of the storage are left, as a host sees it.
func (s *Store) Room(h *Node) int64 { return s.Total - s.UsedOn(h) }

// VolID is a volume's identifier.
func (s *Store) VolID(v *Volume) string { return s.Name + ":" + v.Name }

// Root is the directory in which a storage that keeps files has them.
func (s *Store) Root() string {
	switch {
	case s.Conf["path"] != "":
		return s.Conf["path"]
	case s.Name == "local":
		return "/var/lib/vz"
	case s.Type == "dir" || s.Type == "btrfs":
		return "/mnt/" + s.Name
	}
	return "/mnt/pve/" + s.Name
}

// Path is where a volume lies in its host's file system.
func (s *Store) Path(name string) string {
	name = ownName(name)
	kind, file, _ := strings.Cut(name, "/")
	switch {
	case !s.Files() && s.Type == "zfspool":
		return "/dev/zvol/" + s.Name + "/" + name
	case !s.Files():
		return "/dev/" + s.Name + "/" + name
	case kind == "iso" || kind == "vztmpl":
		return s.Root() + "/template/" + map[string]string{"iso": "iso", "vztmpl": "cache"}[kind] + "/" + file
	case kind == "snippets" || kind == "import":
		return s.Root() + "/" + name
	}
	return s.Root() + "/images/" + name
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

// NameFor is the name of a virtual machine's volume: what is its file's or device's name, and for
// storages that keep files a directory of the VM and a suffix.
func (s *Store) NameFor(id int, base, format string) string {
	if !s.Files() {
		return base
	}
	return fmt.Sprintf("%d/%s.%s", id, base, format)
}

// FreeName is the first name that no disk of the virtual machine has.
func (s *Store) FreeName(h *Node, id int, format string) string {
	taken := map[string]bool{}
	for name := range s.At(h) {
		file := path.Base(name)
		taken[strings.TrimSuffix(file, path.Ext(file))] = true
	}
	for n := 0; ; n++ {
		disk := fmt.Sprintf("%d-disk-%d", id, n)
		if !taken["vm-"+disk] && !taken["base-"+disk] {
			return s.NameFor(id, "vm-"+disk, format)
		}
	}
}

// FormatFor is the format that a storage gives a disk for which one is wished for.
func (s *Store) FormatFor(wish string) string {
	if !s.Files() || wish == "" {
		return "raw"
	}
	return wish
}

// CanBase reports whether a disk can become a base image.
func (s *Store) CanBase() bool { return s.Type != "lvm" && s.Type != "iscsidirect" }

// CanLink reports whether a volume can be cloned by link.
func (s *Store) CanLink(v *Volume) bool {
	return s.CanBase() && strings.HasPrefix(path.Base(v.Name), "base-")
}

// CanSnapshot reports whether a volume can have snapshots.
func (s *Store) CanSnapshot(v *Volume) bool {
	if s.Files() {
		return v.Format == "qcow2"
	}
	return s.Type != "lvm"
}

// StorageNamed is a storage, or what the server says of one that is not there.
func (st *Stores) StorageNamed(name string) (*Store, error) {
	if s := st.Storages[name]; s != nil {
		return s, nil
	}
	return nil, failure.New("storage '%s' does not exist", name)
}

// StorageOn is a storage that must be there on a host.
func (st *Stores) StorageOn(h *Node, name string) (*Store, error) {
	s, err := st.StorageNamed(name)
	if err != nil {
		return nil, err
	}
	if s.Disabled() {
		return nil, failure.New("storage '%s' is disabled", name)
	}
	if !s.On(h) {
		return nil, failure.New("storage '%s' is not available on node '%s'", name, h.Name)
	}
	return s, nil
}

// Volume finds a volume by its identifier, as a host sees it; nil if it is not there.
func (st *Stores) Volume(h *Node, volid string) (*Store, *Volume) {
	name, vol, ok := vmconf.SplitVolume(volid)
	s := st.Storages[name]
	if !ok || s == nil || !s.On(h) {
		return nil, nil
	}
	return s, s.At(h)[vol]
}

// Allocates is how long a storage is locked for a clone that takes a time.
func Allocates(takes time.Duration) time.Duration { return min(takes/allocating, mostAllocating) }

// lockStorage takes the lock under which a storage makes and removes volumes: a file's on the host,
// or for a shared storage the whole cluster's, which is tried once a second and so not in turn.
func (j *Errand) lockStorage(s *Store) (unlock func(), err error) {
	l := s.LockOf(j.Host)
	if !s.Shared {
		if err := j.Lock(l, waitStorage, "/var/lock/pve-manager/pve-storage-"+s.Name); err != nil {
			return nil, err
		}
		return l.Unlock, nil
	}
	for left := waitStorage; l.Held; left -= time.Second {
		if left <= 0 {
			return nil, failure.New("cfs-lock 'storage-%s' error: got lock request timeout", s.Name)
		}
		j.Print("trying to acquire cfs lock 'storage-%s' ...", s.Name)
		if err := j.Pause(time.Second); err != nil {
			return nil, err
		}
	}
	if !j.World.Quorate(j.Host) {
		return nil, failure.New("cfs-lock 'storage-%s' error: no quorum!", s.Name)
	}
	l.Held = true
	return l.Unlock, nil
}

// Wanted is a volume that is to be made.
type Wanted struct {
	ID     int
	Name   string // empty is the next free one of a disk
	Format string
	Size   int64
	Guest  string
	Takes  time.Duration // besides what its size takes, while the storage is locked
}

// Allocate makes a volume. It is there from the beginning, though empty, so that one is left over
// if whoever makes it is killed.
func (j *Errand) Allocate(s *Store, w Wanted) (*Volume, error) {
	unlock, err := j.lockStorage(s)
	if err != nil {
		return nil, err
	}
	defer unlock()
	w.Format = s.FormatFor(w.Format)
	v := &Volume{
		Name: cmp.Or(w.Name, s.FreeName(j.Host, w.ID, w.Format)), Content: "images", Format: w.Format, VMID: w.ID, Guest: w.Guest,
	}
	if s.At(j.Host)[v.Name] != nil {
		return nil, failure.New("disk image '%s' already exists", s.Path(v.Name))
	}
	takes := w.Takes
	if w.Size > CloudInitSize {
		takes += time.Duration(float64(w.Size) / metadataPerSecond * float64(time.Second))
	}
	return v, j.fill(s, v, w.Size, takes, "")
}

// fill writes what belongs into a new volume. If it does not fit, nothing is left of it.
func (j *Errand) fill(s *Store, v *Volume, size int64, takes time.Duration, backing string) error {
	v.At = j.World.Clock
	s.At(j.Host)[v.Name] = v
	if size <= CloudInitSize { // moments, in which nothing is heard
		j.Doze(takes)
	} else if takes > 0 && j.Pause(takes) != nil {
		delete(s.At(j.Host), v.Name)
		return failure.New("unable to create image: interrupted by signal")
	}
	whole := &Volume{Size: size, Parent: v.Parent}
	if whole.Occupies() > s.Room(j.Host) {
		delete(s.At(j.Host), v.Name)
		return s.Full(v)
	}
	v.Size, v.At = size, j.World.Clock
	j.logAllocated(s, v, backing)
	return nil
}

// Full is what a storage says when a volume does not fit on it.
func (s *Store) Full(v *Volume) error {
	switch {
	case s.Type == "lvmthin" || s.Type == "lvm":
		return failure.New("lvcreate '%s/%s' error:   Volume group \"%s\" has insufficient free space", s.Name, v.Name, s.Name)
	case s.Type == "zfspool":
		return failure.New("zfs error: cannot create '%s/%s': out of space", s.Name, v.Name)
	case s.Type == "rbd":
		return failure.New("rbd create '%s' error: rbd: create error: (28) No space left on device", v.Name)
	}
	return failure.New("unable to create image: qemu-img: %s: Could not resize file: No space left on device", s.Path(v.Name))
}

// logAllocated says in a task's log what the tools say that make a volume.
func (j *Errand) logAllocated(s *Store, v *Volume, backing string) {
	if s.Type == "lvmthin" || s.Type == "lvm" {
		j.Print("  Logical volume \"%s\" created.", ownName(v.Name))
	}
	if !s.Files() {
		return
	}
	file := s.Path(v.Name)
	switch {
	case v.Format == "raw":
		j.Print("Formatting '%s', fmt=raw size=%d preallocation=off", file, v.Size)
	case backing != "":
		j.Print("Formatting '%s', fmt=qcow2 cluster_size=131072 extended_l2=on preallocation=metadata compression_type=zlib"+
			" size=%d backing_file=%s backing_fmt=qcow2 lazy_refcounts=off refcount_bits=16", file, v.Size, backing)
	default:
		j.Print("Formatting '%s', fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib"+
			" size=%d lazy_refcounts=off refcount_bits=16", file, v.Size)
	}
}

// Backing is how a linked clone names the volume that it is made of: storages that keep files know
// them by the way there.
func (s *Store) Backing(name string) string {
	if s.Files() {
		return "../" + name
	}
	return name
}

// Link makes a volume that holds what differs from a base volume.
func (j *Errand) Link(s *Store, base *Volume, id int, takes time.Duration) (*Volume, error) {
	if err := base.MayCopy(); err != nil {
		return nil, err
	}
	unlock, err := j.lockStorage(s)
	if err != nil {
		return nil, err
	}
	defer unlock()
	own := s.FreeName(j.Host, id, "qcow2")
	v := &Volume{Name: own, Content: "images", Format: base.Format, VMID: id, Parent: base.Name, Guest: base.Guest}
	if s.Type != "lvmthin" { // whose names do not have it
		v.Name = base.Name + "/" + own
	}
	if s.Files() {
		v.Format = "qcow2"
		j.Print("clone %s: images, %s, %d to %s (base=../%s)", base.Name, path.Base(own), id, path.Base(own), base.Name)
	}
	if s.At(j.Host)[base.Name] != base {
		return nil, failure.New("volume '%s' does not exist", s.VolID(base))
	}
	return v, j.fill(s, v, base.Size, takes, s.Backing(base.Name))
}

// Free removes a volume, if it is there.
func (j *Errand) Free(volid string) error {
	s, v := j.World.Volume(j.Host, volid)
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
func (j *Errand) remove(s *Store, v *Volume) error {
	if s.LinkedTo(j.Host, v) {
		return failure.New("base volume '%s' is still in use by linked clones", v.Name)
	}
	delete(s.At(j.Host), v.Name)
	if v.Disk != 0 {
		j.World.Config.Guests.Discard(v.Disk)
	}
	if s.Type == "lvmthin" || s.Type == "lvm" {
		j.Print("  Logical volume \"%s\" successfully removed.", ownName(v.Name))
	}
	return nil
}

// LinkedTo reports whether there are linked clones of a volume.
func (s *Store) LinkedTo(h *Node, base *Volume) bool {
	for _, v := range s.At(h) {
		if v.Parent == base.Name {
			return true
		}
	}
	return false
}

// MakeBase turns a disk into one that linked clones can be made of.
func (j *Errand) MakeBase(s *Store, v *Volume) error {
	unlock, err := j.lockStorage(s)
	if err != nil {
		return err
	}
	defer unlock()
	dir, file := path.Split(v.Name)
	delete(s.At(j.Host), v.Name)
	v.Name = dir + strings.Replace(file, "vm-", "base-", 1)
	s.At(j.Host)[v.Name] = v
	if s.Type == "lvmthin" {
		j.Print("  Renamed \"%s\" to \"%s\" in volume group \"%s\"", file, path.Base(v.Name), s.Name)
	}
	return nil
}

// NewStorage is a storage without volumes.
func NewStorage(s Storage) *Store {
	return &Store{Storage: s, Volumes: map[string]map[string]*Volume{}, Locks: map[string]*engine.Flock{}, Filled: map[string]int{}, Conf: map[string]string{}}
}

// AddImage puts an image onto its storage.
func (c *World) AddImage(i Image) {
	name := "import/" + i.Name
	c.Storages[i.Storage].At(c.Node(i.Host))[name] = &Volume{
		Name: name, Content: "import", Format: strings.TrimPrefix(Extensions["import"].FindString(i.Name), "."), Size: i.Size, At: c.Clock, Guest: GuestSystem,
	}
}

// CloudInitSize is of the disc that Proxmox VE has for cloud-init.
const CloudInitSize = 4 << 20

// Disabled reports whether the storage is switched off.
func (s *Store) Disabled() bool { return s.Conf["disable"] == "1" }

// VolumesNamed are all volumes that a host sees whose names say that they are a machine's.
func (st *Stores) VolumesNamed(h *Node, id int) []string {
	var all []string
	for _, name := range Sorted(st.Storages) {
		s := st.Storages[name]
		if !s.On(h) {
			continue
		}
		for _, vol := range Sorted(s.At(h)) {
			if v := s.At(h)[vol]; v.VMID == id && v.Content == "images" {
				all = append(all, s.VolID(v))
			}
		}
	}
	return all
}
