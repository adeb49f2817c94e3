// Package storages is what the API does with storages and what lies on them.
package storages

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Endpoints are the calls on storages and uploads.
var Endpoints = []api.Endpoint{
	{Method: "GET", Path: "/storage", May: api.Anybody, Do: do(getStorages), In: `type?:enum(` + storageTypes + `)`},
	{Method: "POST", Path: "/storage", May: api.May("/storage", "Datastore.Allocate"), Protected: true, Do: do(addStorage),
		In: storageNotation + ` storage:storage-id type:enum(` + storageTypes + `)`},
	{Method: "GET", Path: "/storage/{storage}", May: api.May("/storage/{storage}", "Datastore.Allocate"), Do: do(getStorage)},
	{Method: "PUT", Path: "/storage/{storage}", May: api.May("/storage", "Datastore.Allocate"), Protected: true, Do: do(changeStorage),
		In: storageNotation + ` delete?:configid-list[..4096] digest?:str[..64]`},
	{Method: "DELETE", Path: "/storage/{storage}", May: api.May("/storage", "Datastore.Allocate"), Protected: true, Do: do(removeStorage)},
	{Method: "GET", Path: "/nodes/{node}/storage", May: api.Anybody, Protected: true, Do: do(getNodeStorages),
		In: `content?:storage-content-list enabled?:bool format?:bool storage?:storage-id target?:node`},
	{Method: "GET", Path: "/nodes/{node}/storage/{storage}", May: seesStorage, Local: true, Do: api.Index("subdir", `content download-url
		file-restore import-metadata identity oci-registry-pull prunebackups rrd rrddata status upload`)},
	{Method: "GET", Path: "/nodes/{node}/storage/{storage}/status", May: seesStorage, Protected: true, Do: do(getStorageStatus)},
	{Method: "GET", Path: "/nodes/{node}/storage/{storage}/content", May: seesStorage, Protected: true, Do: do(getContent),
		In: `content?:storage-content vmid?:vmid`},
	{Method: "POST", Path: "/nodes/{node}/storage/{storage}/content", May: api.May("/storage/{storage}", "Datastore.AllocateSpace"), Protected: true,
		Do: do(addVolume), In: `filename:str format?:enum(raw,qcow2,subvol,vmdk)&size size:/\d+[MG]?/ vmid:vmid`},
	{Method: "GET", Path: "/nodes/{node}/storage/{storage}/content/{volume}", May: api.Anybody, Protected: true, Do: do(getVolume),
		In: `storage?:storage-id`},
	{Method: "PUT", Path: "/nodes/{node}/storage/{storage}/content/{volume}", May: api.Anybody, Protected: true, Do: do(changeVolume),
		In: `storage?:storage-id notes?:str protected?:bool`},
	{Method: "DELETE", Path: "/nodes/{node}/storage/{storage}/content/{volume}", May: api.Anybody, Protected: true, Do: do(removeVolume),
		In: `storage?:storage-id delay?:int[1..30]`},
	{Method: "POST", Path: "/nodes/{node}/storage/{storage}/upload", May: api.May("/storage/{storage}", "Datastore.AllocateTemplate"), Protected: true,
		Local: true, Do: do(upload), In: sumNotation + ` content:storage-content(iso,vztmpl,import) filename:str[..255] tmpfilename?:/\/var\/tmp\/pveupload-[0-9a-f]+/`},
	{Method: "POST", Path: "/nodes/{node}/storage/{storage}/download-url", May: api.And(api.May("/storage/{storage}", "Datastore.AllocateTemplate"),
		api.Or(api.May("/", "Sys.Audit", "Sys.Modify"), api.May("/nodes/{node}", "Sys.AccessNetwork"))), Protected: true, Do: do(download),
		In: sumNotation + ` compression?:str content:storage-content(iso,vztmpl,import) filename:str[..255] url:/https?:\/\/.*/ verify-certificates?:bool`},
}

var seesStorage = api.MayAny("/storage/{storage}", "Datastore.Audit", "Datastore.AllocateSpace")

const (
	storageTypes = `btrfs,cephfs,cifs,dir,esxi,iscsi,iscsidirect,lvm,lvmthin,nfs,pbs,rbd,zfs,zfspool`
	sumNotation  = `checksum?:str&checksum-algorithm checksum-algorithm?:enum(md5,sha1,sha224,sha256,sha384,sha512)&checksum`

	storageNotation = `content?:storage-content-list disable?:bool export?:str format?:enum(raw,qcow2,vmdk,subvol) is_mountpoint?:str
		krbd?:bool mkdir?:bool monhost?:str nodes?:node-list path?:str pool?:str preallocation?:enum(off,metadata,falloc,full)
		priority?:int[0..1000] prune-backups?:str server?:str share?:str shared?:bool sparse?:bool thinpool?:str username?:str vgname?:str`
)

// storageSchema declares what is in the configuration of storages.
var storageSchema = params.Declare(storageNotation)

// storageEntry is a storage as its configuration file has it.
func storageEntry(s *world.Store, digest string) map[string]any {
	out := map[string]any{
		"storage": s.Name, "type": s.Type, "content": strings.Join(s.Content, ","), "digest": digest,
	}
	if s.Name == "local" {
		out["priority"], out["prune-backups"] = 0, "keep-all=1"
	}
	if s.Files() {
		out["path"] = s.Root()
	}
	if s.Shared {
		out["shared"] = 1
	}
	if len(s.Hosts) > 0 {
		out["nodes"] = strings.Join(s.Hosts, ",")
	}
	for key, value := range s.Conf {
		out[key] = storageSchema.Shown(key, value)
	}
	return out
}

// storageDigest is what changes of the storages' configuration are detected by.
func storageDigest(c *world.World) string {
	all := map[string]map[string]string{}
	for name, s := range c.Storages {
		all[name] = map[string]string{}
		for key, value := range storageEntry(s, "") {
			all[name][key] = fmt.Sprint(value)
		}
	}
	return world.Digest(all)
}

func getStorages(k *call) (any, error) {
	all := []any{}
	for _, name := range world.Sorted(k.World.Storages) {
		s := k.World.Storages[name]
		if k.World.Access.MayAny(k.Who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") && k.In.Or("type", s.Type) == s.Type {
			all = append(all, storageEntry(s, storageDigest(k.World)))
		}
	}
	return all, nil
}

func getStorage(k *call) (any, error) {
	s, err := k.World.StorageNamed(k.In["storage"])
	if err != nil {
		return nil, err
	}
	return storageEntry(s, storageDigest(k.World)), nil
}

// networked are the types of storages that are the same everywhere, in any configuration.
var networked = []string{"cephfs", "cifs", "esxi", "iscsi", "iscsidirect", "nfs", "pbs", "rbd", "zfs"}

// addStorage adds a storage. The emulator cannot look how large it is, and takes it to be a folder
// of the host.
func addStorage(k *call) (any, error) {
	if err := k.lockStorages("create storage failed"); err != nil {
		return nil, err
	}
	name, kind := k.In["storage"], k.In["type"]
	if k.World.Storages[name] != nil {
		return nil, failure.New("create storage failed: storage ID '%s' already defined", name)
	}
	if kind == "dir" && !k.In.Has("path") {
		return nil, failure.OfParameter("path", "property is missing and it is not optional")
	}
	s := world.NewStorage(world.Storage{Name: name, Type: kind, Total: k.World.RootSize(), Content: []string{"images"}})
	s.Shared = slices.Contains(networked, kind)
	configure(s, k)
	k.World.Storages[name] = s
	return map[string]any{"storage": name, "type": kind}, nil
}

// configure sets what the call says.
func configure(s *world.Store, k *call) {
	for key, value := range k.In {
		switch key {
		case "storage", "type", "delete", "digest", "mkdir":
		case "content":
			s.Content = params.SplitList(value)
		case "nodes":
			s.Hosts = params.SplitList(value)
		case "shared":
			s.Shared = value == "1" || slices.Contains(networked, s.Type)
		default:
			s.Conf[key] = value
		}
	}
	for _, key := range k.In.List("delete") {
		switch key {
		case "nodes":
			s.Hosts = nil
		case "content":
			s.Content = []string{"images"}
		case "shared":
			s.Shared = slices.Contains(networked, s.Type)
		}
		delete(s.Conf, key)
	}
}

func changeStorage(k *call) (any, error) {
	if err := k.lockStorages("update storage failed"); err != nil {
		return nil, err
	}
	if k.In.Has("digest") && k.In["digest"] != storageDigest(k.World) {
		return nil, failure.New("update storage failed: detected modified configuration - file changed by other user? Try again.")
	}
	s, err := k.World.StorageNamed(k.In["storage"])
	if err != nil {
		return nil, failure.New("update storage failed: %s", failure.From(err).Reason)
	}
	configure(s, k)
	return map[string]any{"storage": s.Name, "type": s.Type}, nil
}

// removeStorage forgets a storage. What lies on it stays there, and comes back with it.
func removeStorage(k *call) (any, error) {
	if err := k.lockStorages("delete storage failed"); err != nil {
		return nil, err
	}
	s, err := k.World.StorageNamed(k.In["storage"])
	if err != nil {
		return nil, failure.New("delete storage failed: %s", failure.From(err).Reason)
	}
	delete(k.World.Storages, s.Name)
	return nil, nil
}

func (k *call) lockStorages(what string) error {
	if err := k.World.LockFile(k.Process, k.Node, "storage_cfg"); err != nil {
		return failure.New("%s: %s", what, failure.From(err).Reason)
	}
	return nil
}

// storageState is how a storage is doing on a host.
func storageState(s *world.Store, h *world.Node) map[string]any {
	out := map[string]any{
		"type": s.Type, "content": strings.Join(s.Content, ","), "shared": world.Number(s.Shared), "enabled": world.Number(!s.Disabled()),
		"active": world.Number(!s.Disabled()), "total": 0, "used": 0, "avail": 0,
	}
	if !s.Disabled() {
		out["total"], out["used"], out["avail"] = s.Total, s.UsedOn(h), s.Room(h)
	}
	return out
}

func getNodeStorages(k *call) (any, error) {
	target := k.In["target"]
	if target == k.Node.Name || target == "localhost" {
		target = ""
	}
	all, found := []any{}, false
	for _, name := range world.Sorted(k.World.Storages) {
		s := k.World.Storages[name]
		if !s.On(k.Node) || k.In.Has("content") && !slices.ContainsFunc(k.In.List("content"), s.Keeps) {
			continue
		}
		found = found || name == k.In["storage"]
		if !k.World.Access.MayAny(k.Who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") || k.In.Or("storage", name) != name ||
			k.In.Is("enabled") && s.Disabled() || target != "" && !reaches(s, target) {
			continue
		}
		e := storageState(s, k.Node)
		e["storage"] = name
		if total := e["total"]; total != 0 {
			e["used_fraction"] = float64(s.UsedOn(k.Node)) / float64(s.Total)
		}
		if k.In.Is("format") {
			e["formats"] = formatsOf(s)
		}
		all = append(all, e)
	}
	if k.In.Has("storage") && !found {
		return nil, failure.OfParameter("storage", "No such storage.")
	}
	return all, nil
}

// reaches reports whether a storage is the same on another host.
func reaches(s *world.Store, host string) bool {
	return s.Shared && (len(s.Hosts) == 0 || slices.Contains(s.Hosts, host))
}

// formatsOf are those that disks on the storage can have.
func formatsOf(s *world.Store) map[string]any {
	if s.Files() {
		return map[string]any{"default": "raw", "supported": []string{"qcow2", "raw", "vmdk"}}
	}
	return map[string]any{"default": "raw", "supported": []string{"raw"}}
}

func getStorageStatus(k *call) (any, error) {
	s := k.World.Storages[k.In["storage"]]
	if s == nil || !s.On(k.Node) {
		return nil, failure.OfParameter("storage", "No such storage.")
	}
	return storageState(s, k.Node), nil
}

// usable is the storage that the call names, which must be there on a host and enabled.
func (k *call) usable(h *world.Node) (*world.Store, error) {
	s, err := k.World.StorageOn(h, k.In["storage"])
	if err == nil && s.Disabled() {
		err = failure.New("storage '%s' is disabled", s.Name)
	}
	return s, err
}

// getContent lists what lies on a storage, as far as the caller may see it.
func getContent(k *call) (any, error) {
	s, err := k.usable(k.Node)
	if err != nil {
		return nil, err
	}
	all, volumes := []any{}, s.At(k.Node)
	for _, name := range world.Sorted(volumes) {
		v := volumes[name]
		if k.In.Or("content", v.Content) != v.Content || k.In.Has("vmid") && k.In.Int("vmid", 0) != v.VMID || k.maySee(s, v) != nil {
			continue
		}
		e := map[string]any{"volid": s.VolID(v), "content": v.Content, "format": v.Format, "size": v.Size, "ctime": v.At.Unix()}
		if v.Content == "images" {
			e["vmid"], e["parent"] = v.VMID, nil
			if v.Parent != "" {
				e["parent"] = s.Backing(v.Parent)
			}
			if s.Files() {
				e["used"] = v.Occupies()
			}
		}
		if v.Notes != "" {
			e["notes"] = failure.FirstLine(v.Notes)
		}
		all = append(all, e)
	}
	return all, nil
}

// maySee refuses to show a volume to who may neither see the storage's content nor its machine's
// disks.
func (k *call) maySee(s *world.Store, v *world.Volume) error {
	at := "/storage/" + s.Name
	if k.World.Access.May(k.Who, at, "Datastore.Allocate") {
		return nil
	}
	if v.Content == "images" {
		j := k.Errand()
		if err := j.All(at, "Datastore.Audit"); err != nil {
			return err
		}
		return j.All(world.VMPath(v.VMID), "VM.Config.Disk")
	}
	return k.Errand().OneOf(at, "Datastore.AllocateSpace", "Datastore.Audit")
}

// volume is the volume that the call names, with its storage or without; it may not be there.
func (k *call) volume() (s *world.Store, name string, v *world.Volume, err error) {
	storage, name := k.In["storage"], k.In["volume"]
	if of, rest, whole := strings.Cut(name, ":"); whole {
		if of != storage {
			return nil, "", nil, failure.OfParameter("volume", fmt.Sprintf("storage ID mismatch (%s != %s)\n", of, storage))
		}
		name = rest
	}
	if s, err = k.usable(k.Node); err != nil {
		return nil, "", nil, err
	}
	if contentOf(name) == "" {
		return nil, "", nil, failure.New("unable to parse %s volume name '%s'", map[bool]string{true: "directory", false: s.Type}[s.Files()], name)
	}
	return s, name, s.At(k.Node)[name], nil
}

var volumeOfVM = regexp.MustCompile(`^(?:\d+/(?:base-[^/]+/\d+/)?|base-\d+-[^/]+/)?(?:vm|base)-(\d+)-[^/]+$`)

// contentOf is what a volume's name says that it holds; empty if it makes no sense.
func contentOf(name string) string {
	kind, file, isFile := strings.Cut(name, "/")
	switch {
	case isFile && file != "" && slices.Contains([]string{"iso", "vztmpl", "snippets", "backup", "import"}, kind):
		return kind
	case volumeOfVM.MatchString(name):
		return "images"
	}
	return ""
}

func getVolume(k *call) (any, error) {
	s, name, v, err := k.volume()
	if err != nil {
		return nil, err
	}
	if v == nil {
		v = &world.Volume{Name: name, Content: contentOf(name)}
		if owner := volumeOfVM.FindStringSubmatch(name); owner != nil {
			v.VMID, _ = strconv.Atoi(owner[1])
		}
	}
	if err := k.maySee(s, v); err != nil {
		return nil, err
	}
	if v.Size == 0 {
		return nil, failure.New("volume_size_info on '%s' failed - no format", s.VolID(v))
	}
	out := map[string]any{"path": s.Path(v.Name), "format": v.Format, "size": v.Size, "used": v.Occupies()}
	if v.Notes != "" {
		out["notes"] = v.Notes
	}
	return out, nil
}

func changeVolume(k *call) (any, error) {
	s, name, v, err := k.volume()
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return nil, failure.New("volume '%s:%s' does not exist", s.Name, name)
	}
	if err := k.maySee(s, v); err != nil {
		return nil, err
	}
	if v.Content != "backup" {
		return nil, failure.New("attribute 'notes' not supported for volume type '%s'", v.Content)
	}
	v.Notes = k.In.Or("notes", v.Notes)
	return nil, nil
}

// addVolume makes an empty disk. The call takes as long as that does.
func addVolume(k *call) (any, error) {
	s, err := k.usable(k.Node)
	if err != nil {
		return nil, err
	}
	name, format := k.In["filename"], k.In["format"]
	if ext := strings.TrimPrefix(path.Ext(name), "."); slices.Contains([]string{"raw", "qcow2", "vmdk"}, ext) {
		if format != "" && format != ext {
			return nil, failure.OfParameter("format", fmt.Sprintf("different storage formats (%s != %s)", format, ext))
		}
		format = ext
	}
	if s.Files() {
		name = k.In["vmid"] + "/" + name
	}
	if owner := volumeOfVM.FindStringSubmatch(name); owner == nil || owner[1] != k.In["vmid"] {
		return nil, failure.New("illegal name '%s' - should be 'vm-%s-*'", k.In["filename"], k.In["vmid"])
	}
	if !s.Keeps("images") {
		return nil, failure.New("storage '%s' does not support content-type 'images'", s.Name)
	}
	v, err := k.Errand().Allocate(s, world.Wanted{ID: k.In.Int("vmid", 0), Name: name, Format: format, Size: bytesOf(k.In["size"])})
	if err != nil {
		return nil, err
	}
	return s.VolID(v), nil
}

// bytesOf reads a size in kilobytes, or with its unit.
func bytesOf(size string) int64 {
	digits, unit := strings.TrimRight(size, "MG"), int64(1<<10)
	switch {
	case strings.HasSuffix(size, "M"):
		unit = 1 << 20
	case strings.HasSuffix(size, "G"):
		unit = 1 << 30
	}
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n * unit
}

// removeVolume has a volume removed. That one is not there is no error, only a line in the log.
func removeVolume(k *call) (any, error) {
	s, name, v, err := k.volume()
	if err != nil {
		return nil, err
	}
	if err := k.Errand().All("/storage/"+s.Name, "Datastore.Allocate"); err != nil {
		return nil, err
	}
	id := s.Name
	if owner := volumeOfVM.FindStringSubmatch(name); owner != nil {
		id = owner[1] + "@" + id
	}
	t := k.World.Work(k.Node, k.Who, "imgdel", id, func(j *world.Errand) error {
		if v == nil {
			j.Print("disk image '%s' does not exist", s.Path(name))
		}
		if err := j.Free(s.Name + ":" + name); err != nil {
			return err
		}
		j.Print("Removed volume '%s:%s'", s.Name, name)
		return nil
	})
	if delay := time.Duration(k.In.Int("delay", 0)) * time.Second; delay > 0 && k.Process.Wait(delay, func() bool { return !t.Running() }) {
		if t.Exit != "OK" {
			return nil, failure.New("%s", t.Exit)
		}
		return nil, nil
	}
	return t.UPID, nil
}

// call is a call about storages.
type call struct{ *api.Call }

func do(do func(k *call) (any, error)) func(*api.Call) (any, error) {
	return func(k *api.Call) (any, error) { return do(&call{k}) }
}
