package firstboot

import (
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// What a disc may hold: far more than a machine needs, and little enough that a mistake
// does not fill a storage.
const (
	MaxFile  = 1 << 20 // bytes of one file
	MaxFiles = 16
)

// fileName is what the names of files are like: those of NoCloud, and what else every system
// reads as it is written.
var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Disc returns an ISO 9660 image with the files, of the label cidata, as cloud-init's NoCloud
// source and Talos look for it. Names are kept by Rock Ridge, which Linux reads, and by Joliet.
// The same files and time give the same bytes. The files hold the join token, so on the disc
// they are root's alone.
func Disc(files Files, at time.Time) ([]byte, error) {
	at = at.UTC()
	if err := checkDisc(files, at); err != nil {
		return nil, err
	}
	d := newDisc(files, at)
	d.put(16, d.volume(&d.primary))
	d.put(17, d.volume(&d.joliet))
	d.put(18, append([]byte{255}, "CD001\x01"...)) // no more volumes
	for _, t := range []*tree{&d.primary, &d.joliet} {
		d.put(t.tables, pathTable(binary.LittleEndian, t.root))
		d.put(t.tables+1, pathTable(binary.BigEndian, t.root))
		d.put(t.root, d.folder(t))
	}
	for _, f := range d.files {
		d.put(f.at, f.data)
	}
	return d.image, nil
}

func checkDisc(files Files, at time.Time) error {
	var f faults
	f.must(len(files) > 0 && len(files) <= MaxFiles, "files", fmt.Sprintf("must be 1 to %d", MaxFiles), len(files))
	f.must(at.Year() >= 1900 && at.Year() <= 2155, "time", "must be in the years 1900 to 2155, which a disc can record", at.Format(time.RFC3339))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path, size := under("files", name), len(files[name])
		f.must(fileName.MatchString(name), path, "must have a name of at most 64 lower-case letters, digits, ., _ and -, that begins with a letter or digit", name)
		f.must(size <= MaxFile, path, fmt.Sprintf("must have at most %d bytes", MaxFile), size)
	}
	return f.join()
}

// disc is an image that is being made. All places on it are in sectors.
type disc struct {
	image           []byte
	made            time.Time
	files           []discFile
	primary, joliet tree
}

const sector = 2048

// sectors is how many of them bytes take.
func sectors(bytes int) int { return (bytes + sector - 1) / sector }

// tree is the one folder of a disc, under the names of one standard.
type tree struct {
	joliet       bool
	tables, root int // where its path tables and its folder are
	size         int // of the folder in bytes
}

// discFile is a file on its way to the disc.
type discFile struct {
	name string
	iso  string // the name in ISO 9660's own few letters
	data []byte
	at   int
}

// newDisc lays out a disc: volumes, path tables, the folder twice, files.
func newDisc(files Files, made time.Time) *disc {
	d := &disc{made: made, files: discFiles(files)}
	d.primary, d.joliet = tree{tables: 19}, tree{tables: 21, joliet: true}
	next := 23
	for _, t := range []*tree{&d.primary, &d.joliet} {
		t.root, t.size = next, len(d.folder(t))
		next += sectors(t.size)
	}
	for i := range d.files {
		d.files[i].at = next
		next += max(1, sectors(len(d.files[i].data))) // an empty file has a place too
	}
	d.image = make([]byte, next*sector)
	return d
}

// discFiles names files for ISO 9660, eight capitals with a version, and sorts them by name.
func discFiles(files Files) []discFile {
	var list []discFile
	for i, name := range slices.Sorted(maps.Keys(files)) {
		capitals := strings.Map(func(r rune) rune {
			if r == '.' || r == '-' {
				return '_'
			}
			return r
		}, strings.ToUpper(name))
		// Six letters for people, and two digits so that no two files get one name.
		list = append(list, discFile{name: name, iso: fmt.Sprintf("%.6s%02d.;1", capitals+"_____", i), data: files[name]})
	}
	return list
}

func (d *disc) put(at int, data []byte) { copy(d.image[at*sector:], data) }

// folder is a tree's folder. A record is in one sector.
func (d *disc) folder(t *tree) []byte {
	order := slices.Clone(d.files)
	if !t.joliet {
		slices.SortFunc(order, func(a, b discFile) int { return strings.Compare(a.iso, b.iso) })
	}
	var b []byte
	add := func(record []byte) {
		if left := sector - len(b)%sector; len(record) > left {
			b = append(b, make([]byte, left)...)
		}
		b = append(b, record...)
	}
	add(d.record("\x00", t.root, t.size, isFolder, d.rock(t, "\x00")))
	add(d.record("\x01", t.root, t.size, isFolder, d.rock(t, "\x01")))
	for _, f := range order {
		name := f.iso
		if t.joliet {
			name = string(ucs2(f.name))
		}
		add(d.record(name, f.at, len(f.data), 0, d.rock(t, f.name)))
	}
	return append(b, make([]byte, sectors(len(b))*sector-len(b))...)
}

const isFolder = 2

// record is an entry of a folder.
func (d *disc) record(name string, at, size int, flags byte, extra []byte) []byte {
	b := both32(both32([]byte{0, 0}, at), size)
	b = append(b, d.stamp()...)
	b = both16(append(b, flags, 0, 0), 1) // not interleaved; on the first disc
	b = append(append(b, byte(len(name))), name...)
	if len(name)%2 == 0 {
		b = append(b, 0)
	}
	b = append(b, extra...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	b[0] = byte(len(b))
	return b
}

// rock is what Rock Ridge says of an entry: owner and mode, times, name; and of the folder
// itself that it is Rock Ridge that says so.
func (d *disc) rock(t *tree, name string) []byte {
	if t.joliet {
		return nil
	}
	const (
		folderMode = 0o040500
		fileMode   = 0o100400
	)
	mode, links := folderMode, 2
	if name > "\x01" {
		mode, links = fileMode, 1
	}
	var b []byte
	if name == "\x00" {
		b = append(b, "SP\x07\x01\xbe\xef\x00"...)
	}
	b = append(b, "PX\x24\x01"...)
	b = both32(both32(both32(both32(b, mode), links), 0), 0) // user 0, group 0
	b = append(b, "TF\x1a\x01\x0e"...)                       // modified, read, changed
	b = slices.Concat(b, d.stamp(), d.stamp(), d.stamp())
	switch name {
	case "\x00":
		b = append(b, "ER\x12\x01\x0a\x00\x00\x01RRIP_1991A"...)
	case "\x01":
	default:
		b = append(append(b, 'N', 'M', byte(5+len(name)), 1, 0), name...)
	}
	return b
}

// volume describes a tree.
func (d *disc) volume(t *tree) []byte {
	kind, escape := byte(1), ""
	if t.joliet {
		kind, escape = 2, "%/E" // names are UCS-2
	}
	b := append([]byte{kind}, "CD001\x01\x00"...)
	b = append(b, field(t, "", 32)...)
	b = append(b, field(t, DiscLabel, 32)...)
	b = both32(append(b, make([]byte, 8)...), len(d.image)/sector)
	b = append(b, escape+strings.Repeat("\x00", 32-len(escape))...)
	b = both16(both16(both16(b, 1), 1), sector) // one disc, the first; the size of a sector
	b = both32(b, len(pathTable(binary.LittleEndian, 0)))
	b = binary.LittleEndian.AppendUint32(b, uint32(t.tables))
	b = binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 0), uint32(t.tables+1)) // no spare tables
	b = append(b, 0, 0, 0, 0)
	b = append(b, d.record("\x00", t.root, t.size, isFolder, nil)...)
	for _, who := range []string{"", "", "", "PLIMSOLL"} { // set, publisher, preparer, application
		b = append(b, field(t, who, 128)...)
	}
	for range 3 { // files with the copyright, an abstract, a bibliography
		b = append(b, field(t, "", 37)...)
	}
	made, never := d.made.Format("20060102150405")+"00\x00", strings.Repeat("0", 16)+"\x00"
	return append(b, made+made+never+made+"\x01"...) // made, changed, expires, in force
}

// field is a text of a volume, filled up with blanks.
func field(t *tree, s string, size int) []byte {
	if !t.joliet {
		return fmt.Appendf(nil, "%-*s", size, s)
	}
	b := ucs2(fmt.Sprintf("%-*s", size/2, s))
	return append(b, make([]byte, size-len(b))...)
}

// pathTable lists the folders: the one at the root.
func pathTable(order binary.AppendByteOrder, root int) []byte {
	b := order.AppendUint32([]byte{1, 0}, uint32(root))
	return append(order.AppendUint16(b, 1), 0, 0)
}

// both32 appends a number as ISO 9660 has most of them: little-endian, then big-endian.
func both32(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, uint32(n)), uint32(n))
}

func both16(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, uint16(n)), uint16(n))
}

// ucs2 is a text as Joliet has it.
func ucs2(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.BigEndian.AppendUint16(b, u)
	}
	return b
}

// stamp is the time as records have it, in UTC.
func (d *disc) stamp() []byte {
	t := d.made
	return []byte{byte(t.Year() - 1900), byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()), byte(t.Second()), 0}
}
