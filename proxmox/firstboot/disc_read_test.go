package firstboot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// ReadDisc returns the files in the root folder of an ISO 9660 image, and the image's label.
// Names are those of Rock Ridge where there are any, else those of Joliet, else ISO 9660's in
// lower case. Images of other makers are read too, as long as they hold no more than Disc does.
func ReadDisc(image []byte) (Files, string, error) {
	r := discReader{image: image}
	files, label, err := r.read()
	if err != nil {
		return nil, "", fmt.Errorf("read disc: %w", err)
	}
	return files, label, nil
}

// discReader reads an image, every byte of which may be wrong.
type discReader struct {
	image []byte
	skip  int // what comes before Rock Ridge's part of a record
}

var errCut = errors.New("a part lies beyond the image's end")

// span is a part of the image, from a sector on.
func (r *discReader) span(at, size uint32) ([]byte, error) {
	from := uint64(at) * sector
	if from+uint64(size) > uint64(len(r.image)) {
		return nil, errCut
	}
	return r.image[from : from+uint64(size)], nil
}

func (r *discReader) read() (Files, string, error) {
	primary, joliet, err := r.volumes()
	if err != nil {
		return nil, "", err
	}
	label := strings.TrimRight(string(primary[40:72]), " \x00")
	records, err := r.root(primary)
	if err != nil {
		return nil, "", err
	}
	name := isoName
	if r.rockRidge(records) {
		name = r.rockName
	} else if joliet != nil {
		if records, err = r.root(joliet); err != nil {
			return nil, "", err
		}
		name = jolietName
	}
	files, err := r.files(records, name)
	return files, label, err
}

// volumes finds the descriptors of the primary volume and, if there is one, of Joliet's.
func (r *discReader) volumes() (primary, joliet []byte, err error) {
	for at := uint32(16); ; at++ {
		d, err := r.span(at, sector)
		if err != nil {
			return nil, nil, err
		}
		if string(d[1:6]) != "CD001" {
			return nil, nil, errors.New("this is no ISO 9660 image")
		}
		switch {
		case d[0] == 1 && primary == nil:
			primary = d
		case d[0] == 2 && joliet == nil && bytes.HasPrefix(d[88:120], []byte("%/")):
			joliet = d
		case d[0] == 255 && primary == nil:
			return nil, nil, errors.New("there is no primary volume")
		case d[0] == 255:
			return primary, joliet, nil
		}
	}
}

// record is an entry of a folder.
type record struct {
	at, size uint32
	flags    byte
	name     []byte
	extra    []byte // what other standards say of it
}

// root returns the records of a volume's root folder.
func (r *discReader) root(volume []byte) ([]record, error) {
	if size, err := twice16(volume[128:]); err != nil || size != sector {
		return nil, fmt.Errorf("sectors must have %d bytes, have %d", sector, size)
	}
	if size, err := twice32(volume[80:]); err != nil || uint64(size)*sector > uint64(len(r.image)) {
		return nil, errCut
	}
	top, err := readRecord(volume[156:190])
	if err != nil {
		return nil, err
	}
	folder, err := r.span(top.at, top.size)
	if err != nil {
		return nil, err
	}
	var records []record
	for len(folder) > 0 {
		if folder[0] == 0 { // the rest of the sector is empty
			folder = folder[min(len(folder), (len(folder)-1)%sector+1):]
			continue
		}
		if int(folder[0]) > len(folder) {
			return nil, errCut
		}
		rec, err := readRecord(folder[:folder[0]])
		if err != nil {
			return nil, err
		}
		records, folder = append(records, rec), folder[folder[0]:]
		if len(records) > 64*MaxFiles {
			return nil, fmt.Errorf("the folder has more than %d entries", 64*MaxFiles)
		}
	}
	if len(records) < 2 {
		return nil, errors.New("the folder does not list itself")
	}
	return records, nil
}

func readRecord(b []byte) (record, error) {
	if len(b) < 34 || 33+int(b[32]) > len(b) {
		return record{}, errors.New("an entry is too short")
	}
	at, err := twice32(b[2:])
	if err != nil {
		return record{}, err
	}
	size, err := twice32(b[10:])
	if err != nil {
		return record{}, err
	}
	end := 33 + int(b[32])
	rec := record{at: at, size: size, flags: b[25], name: b[33:end]}
	if end%2 == 1 { // names of even length are filled up
		end++
	}
	rec.extra = b[min(end, len(b)):]
	return rec, nil
}

var errTwice = errors.New("a number differs between its two spellings")

// twice32 reads a number that is there little-endian and big-endian.
func twice32(b []byte) (uint32, error) {
	n := binary.LittleEndian.Uint32(b)
	if n != binary.BigEndian.Uint32(b[4:]) {
		return n, errTwice
	}
	return n, nil
}

func twice16(b []byte) (uint16, error) {
	n := binary.LittleEndian.Uint16(b)
	if n != binary.BigEndian.Uint16(b[2:]) {
		return n, errTwice
	}
	return n, nil
}

// rockRidge reports whether the folder itself says that names are in Rock Ridge.
func (r *discReader) rockRidge(records []record) bool {
	sp := records[0].extra
	if len(sp) < 7 || string(sp[:2]) != "SP" || sp[4] != 0xbe || sp[5] != 0xef {
		return false
	}
	r.skip = int(sp[6])
	for _, rec := range records[2:] {
		if name, err := r.rockName(rec); err != nil || name != "" {
			return true // with an error that reading the files meets again
		}
	}
	return false
}

// rockName puts a name together from its pieces, some of which may be elsewhere on the disc.
func (r *discReader) rockName(rec record) (string, error) {
	var name strings.Builder
	area := rec.extra[min(r.skip, len(rec.extra)):]
	for range 8 { // areas, each of which may name the next
		next, err := r.rockArea(area, &name)
		if err != nil || next == nil {
			return name.String(), err
		}
		area = next
	}
	return "", errors.New("an entry goes on and on")
}

// rockArea reads one area of a record, and returns the next one, if any.
func (r *discReader) rockArea(area []byte, name *strings.Builder) (next []byte, err error) {
	for len(area) >= 4 && area[0] != 0 {
		size := int(area[2])
		if size < 4 || size > len(area) {
			return nil, errors.New("an entry's part is too long or too short")
		}
		part := area[:size]
		area = area[size:]
		switch {
		case string(part[:2]) == "ST":
			return next, nil
		case string(part[:2]) == "NM" && size >= 5 && part[4]&^1 == 0:
			// Not the folder or its parent.
			name.Write(part[5:])
		case string(part[:2]) == "CE" && size >= 28:
			if next, err = r.elsewhere(part); err != nil {
				return nil, err
			}
		}
	}
	return next, nil
}

// elsewhere is the area that a record goes on in.
func (r *discReader) elsewhere(part []byte) ([]byte, error) {
	var n [3]uint32 // sector, place in it, size
	for i := range n {
		v, err := twice32(part[4+8*i:])
		if err != nil {
			return nil, err
		}
		n[i] = v
	}
	if n[1] > sector || n[2] > sector {
		return nil, errCut
	}
	area, err := r.span(n[0], n[1]+n[2])
	if err != nil {
		return nil, err
	}
	return area[n[1]:], nil
}

// jolietName reads a name of Joliet.
func jolietName(rec record) (string, error) {
	if len(rec.name)%2 == 1 {
		return "", errors.New("a name ends within a letter")
	}
	var units []uint16
	for i := 0; i < len(rec.name); i += 2 {
		units = append(units, binary.BigEndian.Uint16(rec.name[i:]))
	}
	return strings.TrimSuffix(string(utf16.Decode(units)), ";1"), nil
}

// isoName reads a name of ISO 9660, in the letters that people write.
func isoName(rec record) (string, error) {
	name, _, _ := strings.Cut(string(rec.name), ";")
	return strings.ToLower(strings.TrimSuffix(name, ".")), nil
}

// files reads the files among the records, and ignores the rest.
func (r *discReader) files(records []record, name func(record) (string, error)) (Files, error) {
	files := Files{}
	for _, rec := range records[2:] {
		if rec.flags&isFolder != 0 {
			continue
		}
		if rec.flags&0x80 != 0 {
			return nil, errors.New("a file is in several parts")
		}
		s, err := name(rec)
		if err != nil {
			return nil, err
		}
		if _, there := files[s]; there || s == "" {
			return nil, fmt.Errorf("a file has no name of its own, but %q", s)
		}
		if rec.size > MaxFile || len(files) == MaxFiles {
			return nil, fmt.Errorf("there are more than %d files, or one has more than %d bytes", MaxFiles, MaxFile)
		}
		data, err := r.span(rec.at, rec.size)
		if err != nil {
			return nil, err
		}
		files[s] = bytes.Clone(data)
	}
	return files, nil
}
