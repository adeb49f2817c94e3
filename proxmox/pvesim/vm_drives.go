package pvesim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

// drive is a disk, a CD-ROM drive or a cloud-init drive, as a value of the configuration says it.
type drive struct {
	file string
	opts map[string]string
}

func parseDrive(text string) drive {
	d := drive{opts: map[string]string{}}
	for part := range strings.SplitSeq(text, ",") {
		key, value, named := strings.Cut(part, "=")
		switch {
		case !named && d.file == "":
			d.file = part
		case key == "file" || key == "volume":
			d.file = value
		case named:
			d.opts[key] = value
		}
	}
	return d
}

func (d drive) String() string {
	parts := []string{d.file}
	for _, key := range sorted(d.opts) {
		parts = append(parts, key+"="+d.opts[key])
	}
	return strings.Join(parts, ",")
}

func (d drive) cdrom() bool { return d.opts["media"] == "cdrom" }

var cloudInitVolume = regexp.MustCompile(`[:/](?:vm-\d+-)?cloudinit(?:\.(?:raw|qcow2|vmdk))?$`)

// cloudInit reports whether it is the drive with what Proxmox VE tells cloud-init.
func (d drive) cloudInit() bool { return cloudInitVolume.MatchString(d.file) }

// disc reports whether it is a CD-ROM drive, and no cloud-init drive.
func (d drive) disc() bool { return d.cdrom() && !d.cloudInit() }

var newDisk = regexp.MustCompile(`^(?:([^/:\s]+):)?(\d+(?:\.\d+)?)$`)

// wanted is the size in GiB of a disk that is to be made; empty if it is none.
func (d drive) wanted() string {
	if m := newDisk.FindStringSubmatch(d.file); m != nil {
		return m[2]
	}
	return ""
}

// size is what the configuration says of the disk's.
func (d drive) size() int64 { return parseSize(d.opts["size"]) }

var sizeText = regexp.MustCompile(`^(\d+(?:\.\d+)?)([KMGT]?)(?:iB)?$`)

const sizeUnits = "KMGT"

func parseSize(text string) int64 {
	m := sizeText.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	for range strings.Index(sizeUnits, m[2]) + len(m[2]) {
		n *= 1024
	}
	return int64(n)
}

// printSize is a size in the largest unit that holds it wholly.
func printSize(n int64) string {
	unit := ""
	for _, u := range sizeUnits {
		if n%1024 != 0 || n == 0 {
			break
		}
		n, unit = n/1024, string(u)
	}
	return strconv.FormatInt(n, 10) + unit
}

// driveOrder is the order in which the server looks at drives.
var driveOrder = func() []string {
	var all []string
	for _, bus := range []struct {
		name string
		n    int
	}{{"ide", 4}, {"scsi", 31}, {"virtio", 16}, {"sata", 6}} {
		for i := range bus.n {
			all = append(all, bus.name+strconv.Itoa(i))
		}
	}
	return append(all, "efidisk0", "tpmstate0")
}()

// drivesOf are the keys of a configuration's drives.
func drivesOf(conf map[string]string) []string {
	var keys []string
	for _, key := range driveOrder {
		if conf[key] != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// volumesOf are the volumes that a configuration names, those that are not used among them. Discs in
// CD-ROM drives belong to nobody.
func volumesOf(conf map[string]string) []string {
	var all []string
	for _, key := range sorted(conf) {
		d := parseDrive(conf[key])
		if (isDrive(key) && !d.disc() || isUnused(key) || key == "vmstate") && !slices.Contains(all, d.file) {
			if _, _, stored := splitVolume(d.file); stored {
				all = append(all, d.file)
			}
		}
	}
	return all
}

// bootOrder are the devices that a configuration has to boot from.
func bootOrder(conf map[string]string) []string {
	order, named := strings.CutPrefix(conf["boot"], "order=")
	if !named {
		return nil
	}
	return params.SplitList(order)
}

func printBootOrder(devices []string) string {
	if len(devices) == 0 {
		return " "
	}
	return "order=" + strings.Join(devices, ";")
}

// firstDrive is the first disk of a configuration, or the first disc.
func firstDrive(conf map[string]string, cdrom bool) string {
	for _, key := range drivesOf(conf) {
		if parseDrive(conf[key]).cdrom() == cdrom && key != "efidisk0" && key != "tpmstate0" {
			return key
		}
	}
	return ""
}

// defaultBootOrder is what a new virtual machine boots from: its first disk, disc and network card.
func defaultBootOrder(conf map[string]string) string {
	var devices []string
	for _, key := range []string{firstDrive(conf, false), firstDrive(conf, true)} {
		if key != "" {
			devices = append(devices, key)
		}
	}
	for i := range 32 {
		if key := "net" + strconv.Itoa(i); conf[key] != "" {
			devices = append(devices, key)
			break
		}
	}
	return printBootOrder(devices)
}

// bootDrive is the disk that a configuration boots from.
func bootDrive(conf map[string]string) string {
	if conf["boot"] == "" {
		return firstDrive(conf, false)
	}
	for _, key := range append(bootOrder(conf), conf["bootdisk"]) {
		if isDrive(key) && conf[key] != "" && !parseDrive(conf[key]).cdrom() {
			return key
		}
	}
	return ""
}

// checkDrives refuses drives that make no sense, before anything is looked at.
func checkDrives(conf map[string]string) error {
	for _, key := range sorted(conf) {
		if !isDrive(key) {
			continue
		}
		d := parseDrive(conf[key])
		_, name, stored := splitVolume(d.file)
		switch {
		case d.file == "":
			return failure.OfParameter(key, "unable to parse drive options")
		case d.opts["import-from"] != "" && d.wanted() != "0":
			return failure.OfParameter(key, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
		case stored && strings.HasPrefix(name, "iso/") && !d.cdrom():
			return failure.OfParameter(key, "explicit 'media=cdrom' is required for iso images")
		}
	}
	return nil
}

// cloudInitSize is of the disc with what Proxmox VE tells cloud-init.
const cloudInitSize = 4 << 20

// drives makes what drives need: new disks, and cloud-init discs. If one cannot be made, none is.
func (j *job) drives(id int, conf, settings map[string]string, defaultStorage string) (map[string]string, error) {
	made, values := []string(nil), map[string]string{}
	for _, key := range sorted(settings) {
		if !isDrive(key) {
			continue
		}
		d, isNew, err := j.drive(id, key, parseDrive(settings[key]), conf, values, defaultStorage)
		if err != nil {
			for _, volid := range made {
				if err := j.free(volid); err != nil {
					j.print("%s", failure.Text(err))
				}
			}
			return nil, err
		}
		values[key] = d.String()
		if isNew {
			made = append(made, d.file)
			j.print("%s: successfully created disk '%s'", key, d)
		}
	}
	return values, nil
}

// drive makes what one drive needs.
func (j *job) drive(id int, key string, d drive, conf, others map[string]string, defaultStorage string) (drive, bool, error) {
	storage, name, stored := splitVolume(d.file)
	switch {
	case d.file == "none" || d.file == "cdrom" || strings.HasPrefix(d.file, "/"):
		delete(d.opts, "size")
		return d, false, nil
	case name == "cloudinit" || d.file == "cloudinit":
		if !stored {
			storage = defaultStorage
		}
		d, err := j.cloudInitDrive(id, key, storage, d, conf, others)
		return d, true, err
	case d.wanted() != "":
		d, err := j.newDrive(id, d, storage, defaultStorage, conf)
		return d, true, err
	}
	if d.cloudInit() {
		if other := otherCloudInit(key, conf, others); other != "" {
			return d, false, failure.New("%s - cloud-init drive is already attached at '%s'", key, other)
		}
	}
	if _, err := j.c.storageOn(j.host, storage); err != nil {
		return d, false, err
	}
	_, v := j.c.volume(j.host, d.file)
	if v == nil {
		return d, false, failure.New("volume '%s' does not exist", d.file)
	}
	if f := d.opts["format"]; f != "" && f != v.format {
		return d, false, failure.New("drive '%s' - volume '%s' - 'format=%s' option different from storage format '%s'", key, d.file, f, v.format)
	}
	d.opts["size"] = printSize(v.size)
	return d, false, nil
}

func otherCloudInit(key string, confs ...map[string]string) string {
	for _, conf := range confs {
		for _, other := range drivesOf(conf) {
			if other != key && parseDrive(conf[other]).cloudInit() {
				return other
			}
		}
	}
	return ""
}

func (j *job) cloudInitDrive(id int, key, storage string, d drive, conf, others map[string]string) (drive, error) {
	if storage == "" {
		return d, failure.New("no storage ID specified (and no default storage)")
	}
	if other := otherCloudInit(key, conf, others); other != "" {
		return d, failure.New("%s - cloud-init drive is already attached at '%s'", key, other)
	}
	s, err := j.c.storageOn(j.host, storage)
	if err != nil {
		return d, err
	}
	v, err := j.allocate(s, cloudInitWanted(s, id, d.opts["format"]))
	if err != nil {
		return d, err
	}
	d.file, d.opts["media"] = s.volid(v), "cdrom"
	delete(d.opts, "format")
	return d, nil
}

// cloudInitWanted is the volume of a cloud-init drive.
func cloudInitWanted(s *storage, id int, format string) wanted {
	if format == "" {
		format = "qcow2"
	}
	format = s.formatFor(format)
	return wanted{id: id, name: s.nameFor(id, fmt.Sprintf("vm-%d-cloudinit", id), format), format: format, size: cloudInitSize}
}

func (j *job) newDrive(id int, d drive, storage, defaultStorage string, conf map[string]string) (drive, error) {
	if storage == "" || storage == "NEWDISK" {
		storage = defaultStorage
	}
	if storage == "" {
		return d, failure.New("no storage ID specified (and no default storage)")
	}
	s, err := j.c.storageOn(j.host, storage)
	if err != nil {
		return d, err
	}
	gib, _ := strconv.ParseFloat(d.wanted(), 64)
	w := wanted{id: id, format: d.opts["format"], size: int64(gib * (1 << 30)), guest: guestNone}
	if source := d.opts["import-from"]; source != "" {
		_, from := j.c.volume(j.host, source)
		if from == nil {
			return d, failure.New("cannot import from '%s' - volume '%s' does not exist", source, source)
		}
		w.size, w.guest = from.size, from.guest
	}
	v, err := j.allocate(s, w)
	if err != nil {
		return d, err
	}
	if conf["template"] == "1" && s.canBase() {
		if err := j.makeBase(s, v); err != nil {
			return d, err
		}
	}
	d.file, d.opts["size"] = s.volid(v), printSize(v.size)
	delete(d.opts, "format")
	delete(d.opts, "import-from")
	return d, nil
}

// drop takes a drive's volume off a configuration: what a cloud-init drive had goes, and a disk that the
// virtual machine owns is kept as unused.
func (j *job) drop(m *vm, d drive) error {
	switch {
	case d.cloudInit():
		m.made = nil
		return j.free(d.file)
	case d.cdrom():
		return nil
	}
	_, name, _ := splitVolume(d.file)
	if owner, ok := ownerOf(name); ok && owner == m.id {
		_, err := addUnused(m.conf, d.file)
		return err
	}
	return nil
}

// addUnused keeps a volume in a configuration that no drive has.
func addUnused(conf map[string]string, volid string) (string, error) {
	free := ""
	for i := 255; i >= 0; i-- {
		key := "unused" + strconv.Itoa(i)
		if conf[key] == volid {
			return key, nil
		}
		if conf[key] == "" {
			free = key
		}
	}
	if free == "" {
		return "", failure.New("Too many unused volumes - please delete them first.")
	}
	conf[free] = volid
	return free, nil
}

// discard removes the volume of a drive for good, if it is the virtual machine's own.
func (j *job) discard(m *vm, key string, d drive) error {
	if d.disc() || d.file == "none" {
		return nil
	}
	storage, name, stored := splitVolume(d.file)
	if owner, ok := ownerOf(name); !stored || !ok || owner != m.id {
		return nil
	}
	if err := j.all("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	if m.usedElsewhere(key, d.file) {
		return failure.New("unable to delete '%s' - volume is still in use (snapshot?)", d.file)
	}
	return j.free(d.file)
}

// usedElsewhere reports whether a volume is in use by another key of the configuration, or a snapshot.
func (m *vm) usedElsewhere(key, volid string) bool {
	for other, value := range m.conf {
		if other != key && (isDrive(other) || isUnused(other)) && parseDrive(value).file == volid {
			return true
		}
	}
	for _, s := range m.snaps {
		if slices.Contains(volumesOf(s.conf), volid) {
			return true
		}
	}
	return false
}
