package pvesim

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

var storageEndpoints = []endpoint{
	{method: "GET", path: "/storage", may: anybody, do: storeDo(getStorages), in: `type?:enum(` + storageTypes + `)`},
	{method: "POST", path: "/storage", may: may("/storage", "Datastore.Allocate"), protected: true, do: storeDo(addStorage),
		in: storageNotation + ` storage:storage-id type:enum(` + storageTypes + `)`},
	{method: "GET", path: "/storage/{storage}", may: may("/storage/{storage}", "Datastore.Allocate"), do: storeDo(getStorage)},
	{method: "PUT", path: "/storage/{storage}", may: may("/storage", "Datastore.Allocate"), protected: true, do: storeDo(changeStorage),
		in: storageNotation + ` delete?:configid-list[..4096] digest?:str[..64]`},
	{method: "DELETE", path: "/storage/{storage}", may: may("/storage", "Datastore.Allocate"), protected: true, do: storeDo(removeStorage)},
	{method: "GET", path: "/nodes/{node}/storage", may: anybody, protected: true, do: storeDo(getNodeStorages),
		in: `content?:storage-content-list enabled?:bool format?:bool storage?:storage-id target?:node`},
	{method: "GET", path: "/nodes/{node}/storage/{storage}", may: seesStorage, local: true, do: index("subdir", `content download-url
		file-restore import-metadata identity oci-registry-pull prunebackups rrd rrddata status upload`)},
	{method: "GET", path: "/nodes/{node}/storage/{storage}/status", may: seesStorage, protected: true, do: storeDo(getStorageStatus)},
	{method: "GET", path: "/nodes/{node}/storage/{storage}/content", may: seesStorage, protected: true, do: storeDo(getContent),
		in: `content?:storage-content vmid?:vmid`},
	{method: "POST", path: "/nodes/{node}/storage/{storage}/content", may: may("/storage/{storage}", "Datastore.AllocateSpace"), protected: true,
		do: storeDo(addVolume), in: `filename:str format?:enum(raw,qcow2,subvol,vmdk)&size size:/\d+[MG]?/ vmid:vmid`},
	{method: "GET", path: "/nodes/{node}/storage/{storage}/content/{volume}", may: anybody, protected: true, do: storeDo(getVolume),
		in: `storage?:storage-id`},
	{method: "PUT", path: "/nodes/{node}/storage/{storage}/content/{volume}", may: anybody, protected: true, do: storeDo(changeVolume),
		in: `storage?:storage-id notes?:str protected?:bool`},
	{method: "DELETE", path: "/nodes/{node}/storage/{storage}/content/{volume}", may: anybody, protected: true, do: storeDo(removeVolume),
		in: `storage?:storage-id delay?:int[1..30]`},
	{method: "POST", path: "/nodes/{node}/storage/{storage}/upload", may: may("/storage/{storage}", "Datastore.AllocateTemplate"), protected: true,
		local: true, do: storeDo(upload), in: sumNotation + ` content:storage-content(iso,vztmpl,import) filename:str[..255] tmpfilename?:/\/var\/tmp\/pveupload-[0-9a-f]+/`},
	{method: "POST", path: "/nodes/{node}/storage/{storage}/download-url", may: and(may("/storage/{storage}", "Datastore.AllocateTemplate"),
		or(may("/", "Sys.Audit", "Sys.Modify"), may("/nodes/{node}", "Sys.AccessNetwork"))), protected: true, do: storeDo(download),
		in: sumNotation + ` compression?:str content:storage-content(iso,vztmpl,import) filename:str[..255] url:/https?:\/\/.*/ verify-certificates?:bool`},
}

var seesStorage = mayAny("/storage/{storage}", "Datastore.Audit", "Datastore.AllocateSpace")

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

// storageDigest is what changes of the storages' configuration are told by.
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

func getStorages(k *storeCall) (any, error) {
	all := []any{}
	for _, name := range world.Sorted(k.World.Storages) {
		s := k.World.Storages[name]
		if k.World.Access.MayAny(k.Who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") && k.in.Or("type", s.Type) == s.Type {
			all = append(all, storageEntry(s, storageDigest(k.World)))
		}
	}
	return all, nil
}

func getStorage(k *storeCall) (any, error) {
	s, err := k.World.StorageNamed(k.in["storage"])
	if err != nil {
		return nil, err
	}
	return storageEntry(s, storageDigest(k.World)), nil
}

// networked are the types of storages that are the same everywhere, whatever their configuration
// says.
var networked = []string{"cephfs", "cifs", "esxi", "iscsi", "iscsidirect", "nfs", "pbs", "rbd", "zfs"}

// addStorage adds a storage. The emulator cannot look how large it is, and takes it to be a folder
// of the host.
func addStorage(k *storeCall) (any, error) {
	if err := k.lockStorages("create storage failed"); err != nil {
		return nil, err
	}
	name, kind := k.in["storage"], k.in["type"]
	if k.World.Storages[name] != nil {
		return nil, failure.New("create storage failed: storage ID '%s' already defined", name)
	}
	if kind == "dir" && !k.in.Has("path") {
		return nil, failure.OfParameter("path", "property is missing and it is not optional")
	}
	s := world.NewStorage(world.Storage{Name: name, Type: kind, Total: k.World.RootSize(), Content: []string{"images"}})
	s.Shared = slices.Contains(networked, kind)
	configure(s, k)
	k.World.Storages[name] = s
	return map[string]any{"storage": name, "type": kind}, nil
}

// configure sets what the call says.
func configure(s *world.Store, k *storeCall) {
	for key, value := range k.in {
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
	for _, key := range k.in.List("delete") {
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

func changeStorage(k *storeCall) (any, error) {
	if err := k.lockStorages("update storage failed"); err != nil {
		return nil, err
	}
	if k.in.Has("digest") && k.in["digest"] != storageDigest(k.World) {
		return nil, failure.New("update storage failed: detected modified configuration - file changed by other user? Try again.")
	}
	s, err := k.World.StorageNamed(k.in["storage"])
	if err != nil {
		return nil, failure.New("update storage failed: %s", failure.From(err).Reason)
	}
	configure(s, k)
	return map[string]any{"storage": s.Name, "type": s.Type}, nil
}

// removeStorage forgets a storage. What lies on it stays there, and comes back with it.
func removeStorage(k *storeCall) (any, error) {
	if err := k.lockStorages("delete storage failed"); err != nil {
		return nil, err
	}
	s, err := k.World.StorageNamed(k.in["storage"])
	if err != nil {
		return nil, failure.New("delete storage failed: %s", failure.From(err).Reason)
	}
	delete(k.World.Storages, s.Name)
	return nil, nil
}

func (k *storeCall) lockStorages(what string) error {
	if err := k.World.LockFile(k.p, k.node, "storage_cfg"); err != nil {
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

func getNodeStorages(k *storeCall) (any, error) {
	target := k.in["target"]
	if target == k.node.Name || target == "localhost" {
		target = ""
	}
	all, found := []any{}, false
	for _, name := range world.Sorted(k.World.Storages) {
		s := k.World.Storages[name]
		if !s.On(k.node) || k.in.Has("content") && !slices.ContainsFunc(k.in.List("content"), s.Keeps) {
			continue
		}
		found = found || name == k.in["storage"]
		if !k.World.Access.MayAny(k.Who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") || k.in.Or("storage", name) != name ||
			k.in.Is("enabled") && s.Disabled() || target != "" && !reaches(s, target) {
			continue
		}
		e := storageState(s, k.node)
		e["storage"] = name
		if total := e["total"]; total != 0 {
			e["used_fraction"] = float64(s.UsedOn(k.node)) / float64(s.Total)
		}
		if k.in.Is("format") {
			e["formats"] = formatsOf(s)
		}
		all = append(all, e)
	}
	if k.in.Has("storage") && !found {
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

func getStorageStatus(k *storeCall) (any, error) {
	s := k.World.Storages[k.in["storage"]]
	if s == nil || !s.On(k.node) {
		return nil, failure.OfParameter("storage", "No such storage.")
	}
	return storageState(s, k.node), nil
}

// usable is the storage that the call names, which must be there on a host and enabled.
func (k *storeCall) usable(h *world.Node) (*world.Store, error) {
	s, err := k.World.StorageOn(h, k.in["storage"])
	if err == nil && s.Disabled() {
		err = failure.New("storage '%s' is disabled", s.Name)
	}
	return s, err
}

// getContent lists what lies on a storage, as far as somebody may see it.
func getContent(k *storeCall) (any, error) {
	s, err := k.usable(k.node)
	if err != nil {
		return nil, err
	}
	all, volumes := []any{}, s.At(k.node)
	for _, name := range world.Sorted(volumes) {
		v := volumes[name]
		if k.in.Or("content", v.Content) != v.Content || k.in.Has("vmid") && k.in.Int("vmid", 0) != v.VMID || k.maySee(s, v) != nil {
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
func (k *storeCall) maySee(s *world.Store, v *world.Volume) error {
	at := "/storage/" + s.Name
	if k.World.Access.May(k.Who, at, "Datastore.Allocate") {
		return nil
	}
	if v.Content == "images" {
		j := k.errand()
		if err := j.All(at, "Datastore.Audit"); err != nil {
			return err
		}
		return j.All(world.VMPath(v.VMID), "VM.Config.Disk")
	}
	return k.errand().OneOf(at, "Datastore.AllocateSpace", "Datastore.Audit")
}

// volume is the volume that the call names, with its storage or without; it may not be there.
func (k *storeCall) volume() (s *world.Store, name string, v *world.Volume, err error) {
	storage, name := k.in["storage"], k.in["volume"]
	if of, rest, whole := strings.Cut(name, ":"); whole {
		if of != storage {
			return nil, "", nil, failure.OfParameter("volume", fmt.Sprintf("storage ID mismatch (%s != %s)\n", of, storage))
		}
		name = rest
	}
	if s, err = k.usable(k.node); err != nil {
		return nil, "", nil, err
	}
	if contentOf(name) == "" {
		return nil, "", nil, failure.New("unable to parse %s volume name '%s'", map[bool]string{true: "directory", false: s.Type}[s.Files()], name)
	}
	return s, name, s.At(k.node)[name], nil
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

func getVolume(k *storeCall) (any, error) {
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

func changeVolume(k *storeCall) (any, error) {
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
	v.Notes = k.in.Or("notes", v.Notes)
	return nil, nil
}

// addVolume makes an empty disk. The call takes as long as that does.
func addVolume(k *storeCall) (any, error) {
	s, err := k.usable(k.node)
	if err != nil {
		return nil, err
	}
	name, format := k.in["filename"], k.in["format"]
	if ext := strings.TrimPrefix(path.Ext(name), "."); slices.Contains([]string{"raw", "qcow2", "vmdk"}, ext) {
		if format != "" && format != ext {
			return nil, failure.OfParameter("format", fmt.Sprintf("different storage formats (%s != %s)", format, ext))
		}
		format = ext
	}
	if s.Files() {
		name = k.in["vmid"] + "/" + name
	}
	if owner := volumeOfVM.FindStringSubmatch(name); owner == nil || owner[1] != k.in["vmid"] {
		return nil, failure.New("illegal name '%s' - should be 'vm-%s-*'", k.in["filename"], k.in["vmid"])
	}
	if !s.Keeps("images") {
		return nil, failure.New("storage '%s' does not support content-type 'images'", s.Name)
	}
	v, err := k.errand().Allocate(s, world.Wanted{ID: k.in.Int("vmid", 0), Name: name, Format: format, Size: bytesOf(k.in["size"])})
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
func removeVolume(k *storeCall) (any, error) {
	s, name, v, err := k.volume()
	if err != nil {
		return nil, err
	}
	if err := k.errand().All("/storage/"+s.Name, "Datastore.Allocate"); err != nil {
		return nil, err
	}
	id := s.Name
	if owner := volumeOfVM.FindStringSubmatch(name); owner != nil {
		id = owner[1] + "@" + id
	}
	t := k.World.Work(k.node, k.Who, "imgdel", id, func(j *world.Errand) error {
		if v == nil {
			j.Print("disk image '%s' does not exist", s.Path(name))
		}
		if err := j.Free(s.Name + ":" + name); err != nil {
			return err
		}
		j.Print("Removed volume '%s:%s'", s.Name, name)
		return nil
	})
	if delay := time.Duration(k.in.Int("delay", 0)) * time.Second; delay > 0 && k.p.Wait(delay, func() bool { return !t.Running() }) {
		if t.Exit != "OK" {
			return nil, failure.New("%s", t.Exit)
		}
		return nil, nil
	}
	return t.UPID, nil
}

// storeCall is a call about storages.
type storeCall struct{ *call }

func storeDo(do func(k *storeCall) (any, error)) func(*call) (any, error) {
	return func(k *call) (any, error) { return do(&storeCall{k}) }
}
