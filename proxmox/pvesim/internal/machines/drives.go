package machines

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// drives makes what drives need: new disks, and cloud-init discs. If one cannot be made, none is.
func drives(j *world.Errand, id int, conf, settings map[string]string, defaultStorage string) (map[string]string, error) {
	made, values := []string(nil), map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if !vmconf.IsDrive(key) {
			continue
		}
		d, isNew, err := drive(j, id, key, vmconf.ParseDrive(settings[key]), conf, values, defaultStorage)
		if err != nil {
			for _, volid := range made {
				if err := j.Free(volid); err != nil {
					j.Print("%s", failure.Text(err))
				}
			}
			return nil, err
		}
		values[key] = d.String()
		if isNew {
			made = append(made, d.File)
			j.Print("%s: successfully created disk '%s'", key, d)
		}
	}
	return values, nil
}

// drive makes what one drive needs.
func drive(j *world.Errand, id int, key string, d vmconf.Drive, conf, others map[string]string, defaultStorage string) (vmconf.Drive, bool, error) {
	storage, name, stored := vmconf.SplitVolume(d.File)
	switch {
	case d.File == "none" || d.File == "cdrom" || strings.HasPrefix(d.File, "/"):
		delete(d.Opts, "size")
		return d, false, nil
	case name == "cloudinit" || d.File == "cloudinit":
		if !stored {
			storage = defaultStorage
		}
		d, err := cloudInitDrive(j, id, key, storage, d, conf, others)
		return d, true, err
	case d.Wanted() != "":
		d, err := newDrive(j, id, d, storage, defaultStorage, conf)
		return d, true, err
	}
	if d.CloudInit() {
		if other := vmconf.OtherCloudInit(key, conf, others); other != "" {
			return d, false, failure.New("%s - cloud-init drive is already attached at '%s'", key, other)
		}
	}
	if _, err := j.World.StorageOn(j.Host, storage); err != nil {
		return d, false, err
	}
	_, v := j.World.Volume(j.Host, d.File)
	if v == nil {
		return d, false, failure.New("volume '%s' does not exist", d.File)
	}
	if f := d.Opts["format"]; f != "" && f != v.Format {
		return d, false, failure.New("drive '%s' - volume '%s' - 'format=%s' option different from storage format '%s'", key, d.File, f, v.Format)
	}
	d.Opts["size"] = vmconf.PrintSize(v.Size)
	return d, false, nil
}

func cloudInitDrive(j *world.Errand, id int, key, storage string, d vmconf.Drive, conf, others map[string]string) (vmconf.Drive, error) {
	if storage == "" {
		return d, failure.New("no storage ID specified (and no default storage)")
	}
	if other := vmconf.OtherCloudInit(key, conf, others); other != "" {
		return d, failure.New("%s - cloud-init drive is already attached at '%s'", key, other)
	}
	s, err := j.World.StorageOn(j.Host, storage)
	if err != nil {
		return d, err
	}
	v, err := j.Allocate(s, cloudInitWanted(s, id, d.Opts["format"]))
	if err != nil {
		return d, err
	}
	d.File, d.Opts["media"] = s.VolID(v), "cdrom"
	delete(d.Opts, "format")
	return d, nil
}

// cloudInitWanted is the volume of a cloud-init drive.
func cloudInitWanted(s *world.Store, id int, format string) world.Wanted {
	if format == "" {
		format = "qcow2"
	}
	format = s.FormatFor(format)
	return world.Wanted{ID: id, Name: s.NameFor(id, fmt.Sprintf("vm-%d-cloudinit", id), format), Format: format, Size: world.CloudInitSize}
}

func newDrive(j *world.Errand, id int, d vmconf.Drive, storage, defaultStorage string, conf map[string]string) (vmconf.Drive, error) {
	if storage == "" || storage == "NEWDISK" {
		storage = defaultStorage
	}
	if storage == "" {
		return d, failure.New("no storage ID specified (and no default storage)")
	}
	s, err := j.World.StorageOn(j.Host, storage)
	if err != nil {
		return d, err
	}
	gib, _ := strconv.ParseFloat(d.Wanted(), 64)
	w := world.Wanted{ID: id, Format: d.Opts["format"], Size: int64(gib * (1 << 30)), Guest: world.GuestNone}
	if source := d.Opts["import-from"]; source != "" {
		_, from := j.World.Volume(j.Host, source)
		if from == nil {
			return d, failure.New("cannot import from '%s' - volume '%s' does not exist", source, source)
		}
		w.Size, w.Guest = importedFrom(from)
	}
	v, err := j.Allocate(s, w)
	if err != nil {
		return d, err
	}
	if conf["template"] == "1" && s.CanBase() {
		if err := j.MakeBase(s, v); err != nil {
			return d, err
		}
	}
	d.File, d.Opts["size"] = s.VolID(v), vmconf.PrintSize(v.Size)
	delete(d.Opts, "format")
	delete(d.Opts, "import-from")
	return d, nil
}

// importedFrom is what becomes of an image on a disk: its size, and what is installed. An image
// that was uploaded says its size in its header, and is taken to boot.
func importedFrom(v *world.Volume) (size int64, guest string) {
	const header = 32
	if len(v.Data) < header || string(v.Data[:4]) != "QFI\xfb" {
		return v.Size, v.Guest
	}
	return int64(binary.BigEndian.Uint64(v.Data[24:header])), world.GuestSystem //nolint:gosec // as the image says
}

// drop takes a drive's volume off a configuration: what a cloud-init drive had goes, and a disk
// that the virtual machine owns is kept as unused.
func drop(j *world.Errand, m *world.Guest, d vmconf.Drive) error {
	switch {
	case d.CloudInit():
		m.Made = nil
		return j.Free(d.File)
	case d.CDROM():
		return nil
	}
	_, name, _ := vmconf.SplitVolume(d.File)
	if owner, ok := vmconf.OwnerOf(name); ok && owner == m.ID {
		_, err := vmconf.AddUnused(m.Conf, d.File)
		return err
	}
	return nil
}

// discard removes the volume of a drive for good, if it is the virtual machine's own.
func discard(j *world.Errand, m *world.Guest, key string, d vmconf.Drive) error {
	if d.Disc() || d.File == "none" {
		return nil
	}
	storage, name, stored := vmconf.SplitVolume(d.File)
	if owner, ok := vmconf.OwnerOf(name); !stored || !ok || owner != m.ID {
		return nil
	}
	if err := j.All("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	if m.UsedElsewhere(key, d.File) {
		return failure.New("unable to delete '%s' - volume is still in use (snapshot?)", d.File)
	}
	return j.Free(d.File)
}
