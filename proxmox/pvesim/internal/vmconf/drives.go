package vmconf

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

var ownedBy = regexp.MustCompile(`(?:^|/)(?:vm|base)-(\d+)-[^/]+$`)

// OwnerOf is the virtual machine that a volume's name says it belongs to.
func OwnerOf(name string) (int, bool) {
	m := ownedBy.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	id, _ := strconv.Atoi(m[1])
	return id, true
}

// Drive is a disk, a CD-ROM drive or a cloud-init drive, as a value of the configuration says it.
type Drive struct {
	File string
	Opts map[string]string
}

// ParseDrive reads a drive.
func ParseDrive(text string) Drive {
	d := Drive{Opts: map[string]string{}}
	for part := range strings.SplitSeq(text, ",") {
		key, value, named := strings.Cut(part, "=")
		switch {
		case !named && d.File == "":
			d.File = part
		case key == "file" || key == "volume":
			d.File = value
		case named:
			d.Opts[key] = value
		}
	}
	return d
}

// option is one of a drive's options. Each host reports the size of every disk every ten seconds.
func option(text, name string) (value string) {
	for part := range strings.SplitSeq(text, ",") {
		if key, v, named := strings.Cut(part, "="); named && key == name {
			value = v
		}
	}
	return value
}

// SizeOf is the size of a drive, in bytes.
func SizeOf(text string) int64 { return ParseSize(option(text, "size")) }

func isCDROM(text string) bool { return option(text, "media") == "cdrom" }

func (d Drive) String() string {
	parts := []string{d.File}
	for _, key := range slices.Sorted(maps.Keys(d.Opts)) {
		parts = append(parts, key+"="+d.Opts[key])
	}
	return strings.Join(parts, ",")
}

// CDROM reports whether it is a CD-ROM drive, cloud-init drives among them.
func (d Drive) CDROM() bool { return d.Opts["media"] == "cdrom" }

var cloudInitVolume = regexp.MustCompile(`[:/](?:vm-\d+-)?cloudinit(?:\.(?:raw|qcow2|vmdk))?$`)

// CloudInit reports whether it is the drive through which Proxmox VE configures cloud-init.
func (d Drive) CloudInit() bool { return cloudInitVolume.MatchString(d.File) }

// Disc reports whether it is a CD-ROM drive, and no cloud-init drive.
func (d Drive) Disc() bool { return d.CDROM() && !d.CloudInit() }

var newDisk = regexp.MustCompile(`^(?:([^/:\s]+):)?(\d+(?:\.\d+)?)$`)

// Wanted is the size in GiB of a disk that is to be made; empty if it is not one.
func (d Drive) Wanted() string {
	if m := newDisk.FindStringSubmatch(d.File); m != nil {
		return m[2]
	}
	return ""
}

// Size is what the configuration says of the disk's.
func (d Drive) Size() int64 { return ParseSize(d.Opts["size"]) }

var sizeText = regexp.MustCompile(`^(\d+(?:\.\d+)?)([KMGT]?)(?:iB)?$`)

const sizeUnits = "KMGT"

// ParseSize reads a size with its unit, in bytes; 0 if it is not one.
func ParseSize(text string) int64 {
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

// PrintSize is a size in the largest unit that holds it wholly.
func PrintSize(n int64) string {
	unit := ""
	for _, u := range sizeUnits {
		if n%1024 != 0 || n == 0 {
			break
		}
		n, unit = n/1024, string(u)
	}
	return strconv.FormatInt(n, 10) + unit
}

// DriveOrder is the order in which the server looks at drives.
var DriveOrder = func() []string {
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

// DrivesOf are the keys of a configuration's drives.
func DrivesOf(conf map[string]string) []string {
	var keys []string
	for _, key := range DriveOrder {
		if conf[key] != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// VolumesOf are the volumes that a configuration names, those that are not used among them. Discs
// in CD-ROM drives have no owner.
func VolumesOf(conf map[string]string) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		d := ParseDrive(conf[key])
		if (IsDrive(key) && !d.Disc() || IsUnused(key) || key == "vmstate") && !slices.Contains(all, d.File) {
			if _, _, stored := SplitVolume(d.File); stored {
				all = append(all, d.File)
			}
		}
	}
	return all
}

// BootOrder are the devices that a configuration has to boot from.
func BootOrder(conf map[string]string) []string {
	order, named := strings.CutPrefix(conf["boot"], "order=")
	if !named {
		return nil
	}
	return params.SplitList(order)
}

// PrintBootOrder writes an order of devices.
func PrintBootOrder(devices []string) string {
	if len(devices) == 0 {
		return " "
	}
	return "order=" + strings.Join(devices, ";")
}

// firstDrive is the first disk of a configuration, or the first disc.
func firstDrive(conf map[string]string, cdrom bool) string {
	for _, key := range DrivesOf(conf) {
		if isCDROM(conf[key]) == cdrom && key != "efidisk0" && key != "tpmstate0" {
			return key
		}
	}
	return ""
}

// DefaultBootOrder is what a new virtual machine boots from: its first disk, disc and network card.
func DefaultBootOrder(conf map[string]string) string {
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
	return PrintBootOrder(devices)
}

// BootDrive is the disk that a configuration boots from.
func BootDrive(conf map[string]string) string {
	if conf["boot"] == "" {
		return firstDrive(conf, false)
	}
	for _, key := range append(BootOrder(conf), conf["bootdisk"]) {
		if IsDrive(key) && conf[key] != "" && !isCDROM(conf[key]) {
			return key
		}
	}
	return ""
}

// CheckDrives refuses drives that make no sense, before anything is looked at.
func CheckDrives(conf map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		if !IsDrive(key) {
			continue
		}
		d := ParseDrive(conf[key])
		_, name, stored := SplitVolume(d.File)
		switch {
		case d.File == "":
			return failure.OfParameter(key, "unable to parse drive options")
		case d.Opts["import-from"] != "" && d.Wanted() != "0":
			return failure.OfParameter(key, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
		case stored && strings.HasPrefix(name, "iso/") && !d.CDROM():
			return failure.OfParameter(key, "explicit 'media=cdrom' is required for iso images")
		}
	}
	return nil
}

// OtherCloudInit is a cloud-init drive besides the one of a key; empty without one.
func OtherCloudInit(key string, confs ...map[string]string) string {
	for _, conf := range confs {
		for _, other := range DrivesOf(conf) {
			if other != key && ParseDrive(conf[other]).CloudInit() {
				return other
			}
		}
	}
	return ""
}

// AddUnused keeps a volume in a configuration that no drive has.
func AddUnused(conf map[string]string, volid string) (string, error) {
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

var storedVolume = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]):(.+)$`)

// SplitVolume takes a volume's identifier apart; ok is false for paths, "none" and "cdrom".
func SplitVolume(volid string) (storage, name string, ok bool) {
	m := storedVolume.FindStringSubmatch(volid)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}
