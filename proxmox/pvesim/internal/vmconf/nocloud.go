package vmconf

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"
)

// Sector is the size of the blocks that a disc consists of.
const Sector = 2048

var errNoCloud = errors.New("no disc with the label cidata")

// ReadNoCloud reads the files of a disc that is labelled for cloud-init, by their names. It knows
// ISO 9660 with names in Joliet's or Rock Ridge's form, which is what tools make that write such
// discs.
func ReadNoCloud(disc []byte) (map[string][]byte, error) {
	plain, joliet := descriptors(disc)
	if plain == nil {
		return nil, errNoCloud
	}
	label := strings.TrimRight(string(plain[40:72]), " \x00")
	if joliet != nil {
		if text := strings.TrimRight(utf16Text(joliet[40:72]), " \x00"); text != "" {
			label = text
		}
	}
	if !strings.EqualFold(label, "cidata") {
		return nil, errNoCloud
	}
	files := map[string][]byte{}
	readDirectory(disc, plain, rockRidgeName, files)
	if joliet != nil {
		readDirectory(disc, joliet, func(r []byte) string { return utf16Text(recordName(r)) }, files)
	}
	return files, nil
}

// descriptors finds the descriptions of the disc: the plain one, and that in Joliet's form.
func descriptors(disc []byte) (plain, joliet []byte) {
	for at := 16 * Sector; at+Sector <= len(disc); at += Sector {
		d := disc[at : at+Sector]
		if string(d[1:6]) != "CD001" {
			return plain, joliet
		}
		switch d[0] {
		case 1:
			plain = d
		case 2:
			if d[88] == '%' && d[89] == '/' && strings.ContainsRune("@CE", rune(d[90])) {
				joliet = d
			}
		case 255:
			return plain, joliet
		}
	}
	return plain, joliet
}

// readDirectory reads the files of a description's root directory.
func readDirectory(disc, description []byte, name func(record []byte) string, files map[string][]byte) {
	for record := range recordsOf(extent(disc, description[156:190])) {
		if n := name(record); n != "" && record[25]&2 == 0 {
			files[n] = extent(disc, record)
		}
	}
}

// extent is the content that a directory's record points to; nil if it lies outside the disc.
func extent(disc, record []byte) []byte {
	if len(record) < 18 {
		return nil
	}
	from := int64(binary.LittleEndian.Uint32(record[2:])) * Sector
	to := from + int64(binary.LittleEndian.Uint32(record[10:]))
	if to > int64(len(disc)) {
		return nil
	}
	return disc[from:to]
}

// recordsOf are the records of a directory, which do not cross the borders of sectors.
func recordsOf(directory []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for at := 0; at < len(directory); {
			n := int(directory[at])
			if n == 0 { // nothing more in this sector
				at = (at/Sector + 1) * Sector
				continue
			}
			if n < 34 || at+n > len(directory) || 33+int(directory[at+32]) > n {
				return
			}
			if !yield(directory[at : at+n]) {
				return
			}
			at += n
		}
	}
}

// recordName is a record's name as it is there; a directory itself and the one above have none.
func recordName(record []byte) []byte {
	name := record[33 : 33+int(record[32])]
	if len(name) == 1 && name[0] < 2 {
		return nil
	}
	return name
}

// rockRidgeName is the name in a record's extension, or the plain one without its version.
func rockRidgeName(record []byte) string {
	plain := recordName(record)
	if plain == nil {
		return ""
	}
	use := record[33+len(plain):]
	if len(plain)%2 == 0 {
		use = use[min(1, len(use)):]
	}
	var long strings.Builder
	for len(use) >= 5 && int(use[2]) >= 5 && int(use[2]) <= len(use) {
		if use[0] == 'N' && use[1] == 'M' {
			long.Write(use[5:use[2]])
		}
		use = use[use[2]:]
	}
	if long.Len() > 0 {
		return long.String()
	}
	name, _, _ := strings.Cut(string(plain), ";")
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

func utf16Text(b []byte) string {
	var units []uint16
	for ; len(b) >= 2; b = b[2:] {
		units = append(units, binary.BigEndian.Uint16(b))
	}
	name, _, _ := strings.Cut(string(utf16.Decode(units)), ";")
	return name
}
