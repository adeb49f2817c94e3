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
func storageEntry(s *storage, digest string) map[string]any {
	out := map[string]any{
		"storage": s.Name, "type": s.Type, "content": strings.Join(s.Content, ","), "digest": digest,
	}
	if s.Name == "local" {
		out["priority"], out["prune-backups"] = 0, "keep-all=1"
	}
	if s.files() {
		out["path"] = s.root()
	}
	if s.Shared {
		out["shared"] = 1
	}
	if len(s.Hosts) > 0 {
		out["nodes"] = strings.Join(s.Hosts, ",")
	}
	for key, value := range s.conf {
		out[key] = storageSchema.Shown(key, value)
	}
	return out
}

// storageDigest is what changes of the storages' configuration are told by.
func storageDigest(c *World) string {
	all := map[string]map[string]string{}
	for name, s := range c.storages {
		all[name] = map[string]string{}
		for key, value := range storageEntry(s, "") {
			all[name][key] = fmt.Sprint(value)
		}
	}
	return digest(all)
}

func getStorages(k *storeCall) (any, error) {
	all := []any{}
	for _, name := range sorted(k.c.storages) {
		s := k.c.storages[name]
		if k.c.access.MayAny(k.who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") && k.in.Or("type", s.Type) == s.Type {
			all = append(all, storageEntry(s, storageDigest(k.c)))
		}
	}
	return all, nil
}

func getStorage(k *storeCall) (any, error) {
	s, err := k.c.storageNamed(k.in["storage"])
	if err != nil {
		return nil, err
	}
	return storageEntry(s, storageDigest(k.c)), nil
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
	if k.c.storages[name] != nil {
		return nil, failure.New("create storage failed: storage ID '%s' already defined", name)
	}
	if kind == "dir" && !k.in.Has("path") {
		return nil, failure.OfParameter("path", "property is missing and it is not optional")
	}
	s := newStorage(Storage{Name: name, Type: kind, Total: k.c.rootSize(), Content: []string{"images"}})
	s.Shared = slices.Contains(networked, kind)
	configure(s, k)
	k.c.storages[name] = s
	return map[string]any{"storage": name, "type": kind}, nil
}

// configure sets what the call says.
func configure(s *storage, k *storeCall) {
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
			s.conf[key] = value
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
		delete(s.conf, key)
	}
}

func changeStorage(k *storeCall) (any, error) {
	if err := k.lockStorages("update storage failed"); err != nil {
		return nil, err
	}
	if k.in.Has("digest") && k.in["digest"] != storageDigest(k.c) {
		return nil, failure.New("update storage failed: detected modified configuration - file changed by other user? Try again.")
	}
	s, err := k.c.storageNamed(k.in["storage"])
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
	s, err := k.c.storageNamed(k.in["storage"])
	if err != nil {
		return nil, failure.New("delete storage failed: %s", failure.From(err).Reason)
	}
	delete(k.c.storages, s.Name)
	return nil, nil
}

func (k *storeCall) lockStorages(what string) error {
	if err := k.c.lockFile(k.p, k.node, "storage_cfg"); err != nil {
		return failure.New("%s: %s", what, failure.From(err).Reason)
	}
	return nil
}

// storageState is how a storage is doing on a host.
func storageState(s *storage, h *host) map[string]any {
	out := map[string]any{
		"type": s.Type, "content": strings.Join(s.Content, ","), "shared": number(s.Shared), "enabled": number(!s.disabled()),
		"active": number(!s.disabled()), "total": 0, "used": 0, "avail": 0,
	}
	if !s.disabled() {
		out["total"], out["used"], out["avail"] = s.Total, s.used(h), s.room(h)
	}
	return out
}

func getNodeStorages(k *storeCall) (any, error) {
	target := k.in["target"]
	if target == k.node.Name || target == "localhost" {
		target = ""
	}
	all, found := []any{}, false
	for _, name := range sorted(k.c.storages) {
		s := k.c.storages[name]
		if !s.on(k.node) || k.in.Has("content") && !slices.ContainsFunc(k.in.List("content"), s.keeps) {
			continue
		}
		found = found || name == k.in["storage"]
		if !k.c.access.MayAny(k.who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") || k.in.Or("storage", name) != name ||
			k.in.Is("enabled") && s.disabled() || target != "" && !reaches(s, target) {
			continue
		}
		e := storageState(s, k.node)
		e["storage"] = name
		if total := e["total"]; total != 0 {
			e["used_fraction"] = float64(s.used(k.node)) / float64(s.Total)
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
func reaches(s *storage, host string) bool {
	return s.Shared && (len(s.Hosts) == 0 || slices.Contains(s.Hosts, host))
}

// formatsOf are those that disks on the storage can have.
func formatsOf(s *storage) map[string]any {
	if s.files() {
		return map[string]any{"default": "raw", "supported": []string{"qcow2", "raw", "vmdk"}}
	}
	return map[string]any{"default": "raw", "supported": []string{"raw"}}
}

func getStorageStatus(k *storeCall) (any, error) {
	s := k.c.storages[k.in["storage"]]
	if s == nil || !s.on(k.node) {
		return nil, failure.OfParameter("storage", "No such storage.")
	}
	return storageState(s, k.node), nil
}

// usable is the storage that the call names, which must be there on a host and enabled.
func (k *storeCall) usable(h *host) (*storage, error) {
	s, err := k.c.storageOn(h, k.in["storage"])
	if err == nil && s.disabled() {
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
	all, volumes := []any{}, s.at(k.node)
	for _, name := range sorted(volumes) {
		v := volumes[name]
		if k.in.Or("content", v.content) != v.content || k.in.Has("vmid") && k.in.Int("vmid", 0) != v.vmid || k.maySee(s, v) != nil {
			continue
		}
		e := map[string]any{"volid": s.volid(v), "content": v.content, "format": v.format, "size": v.size, "ctime": v.at.Unix()}
		if v.content == "images" {
			e["vmid"], e["parent"] = v.vmid, nil
			if v.parent != "" {
				e["parent"] = s.backing(v.parent)
			}
			if s.files() {
				e["used"] = v.occupies()
			}
		}
		if v.notes != "" {
			e["notes"] = failure.FirstLine(v.notes)
		}
		all = append(all, e)
	}
	return all, nil
}

// maySee refuses to show a volume to who may neither see the storage's content nor its machine's
// disks.
func (k *storeCall) maySee(s *storage, v *volume) error {
	at := "/storage/" + s.Name
	if k.c.access.May(k.who, at, "Datastore.Allocate") {
		return nil
	}
	if v.content == "images" {
		j := k.errand()
		if err := j.all(at, "Datastore.Audit"); err != nil {
			return err
		}
		return j.all(vmPath(v.vmid), "VM.Config.Disk")
	}
	return k.errand().oneOf(at, "Datastore.AllocateSpace", "Datastore.Audit")
}

// volume is the volume that the call names, with its storage or without; it may not be there.
func (k *storeCall) volume() (s *storage, name string, v *volume, err error) {
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
		return nil, "", nil, failure.New("unable to parse %s volume name '%s'", map[bool]string{true: "directory", false: s.Type}[s.files()], name)
	}
	return s, name, s.at(k.node)[name], nil
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
		v = &volume{name: name, content: contentOf(name)}
		if owner := volumeOfVM.FindStringSubmatch(name); owner != nil {
			v.vmid, _ = strconv.Atoi(owner[1])
		}
	}
	if err := k.maySee(s, v); err != nil {
		return nil, err
	}
	if v.size == 0 {
		return nil, failure.New("volume_size_info on '%s' failed - no format", s.volid(v))
	}
	out := map[string]any{"path": s.path(v.name), "format": v.format, "size": v.size, "used": v.occupies()}
	if v.notes != "" {
		out["notes"] = v.notes
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
	if v.content != "backup" {
		return nil, failure.New("attribute 'notes' not supported for volume type '%s'", v.content)
	}
	v.notes = k.in.Or("notes", v.notes)
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
	if s.files() {
		name = k.in["vmid"] + "/" + name
	}
	if owner := volumeOfVM.FindStringSubmatch(name); owner == nil || owner[1] != k.in["vmid"] {
		return nil, failure.New("illegal name '%s' - should be 'vm-%s-*'", k.in["filename"], k.in["vmid"])
	}
	if !s.keeps("images") {
		return nil, failure.New("storage '%s' does not support content-type 'images'", s.Name)
	}
	v, err := k.errand().allocate(s, wanted{id: k.in.Int("vmid", 0), name: name, format: format, size: bytesOf(k.in["size"])})
	if err != nil {
		return nil, err
	}
	return s.volid(v), nil
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
	if err := k.errand().all("/storage/"+s.Name, "Datastore.Allocate"); err != nil {
		return nil, err
	}
	id := s.Name
	if owner := volumeOfVM.FindStringSubmatch(name); owner != nil {
		id = owner[1] + "@" + id
	}
	t := k.c.work(k.node, k.who, "imgdel", id, func(j *errand) error {
		if v == nil {
			j.print("disk image '%s' does not exist", s.path(name))
		}
		if err := j.free(s.Name + ":" + name); err != nil {
			return err
		}
		j.print("Removed volume '%s:%s'", s.Name, name)
		return nil
	})
	if delay := time.Duration(k.in.Int("delay", 0)) * time.Second; delay > 0 && k.p.Wait(delay, func() bool { return !t.running() }) {
		if t.exit != "OK" {
			return nil, failure.New("%s", t.exit)
		}
		return nil, nil
	}
	return t.upid, nil
}

// storeCall is a call about storages.
type storeCall struct{ *call }

func storeDo(do func(k *storeCall) (any, error)) func(*call) (any, error) {
	return func(k *call) (any, error) { return do(&storeCall{k}) }
}
