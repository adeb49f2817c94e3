package firstboot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

var noon = time.Date(2026, 11, 21, 12, 30, 45, 999, time.FixedZone("CET", 3600))

func mustDisc(t interface{ Fatal(...any) }, files Files) []byte {
	image, err := Disc(files, noon)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// The structure is read here from the standards' offsets, by code that shares nothing with what
// wrote it.
func TestDiscsAreISO9660WithRockRidgeAndJoliet(t *testing.T) {
	files := Files{UserData: []byte("#cloud-config\n"), MetaData: nil, NetworkConfig: bytes.Repeat([]byte("x"), 5000)}
	d := mustDisc(t, files)
	if len(d)%2048 != 0 || len(d) > 64<<10 {
		t.Fatalf("the image has %d bytes", len(d))
	}
	if !bytes.Equal(d[:16*2048], make([]byte, 16*2048)) {
		t.Error("the system area is not empty")
	}
	for at, head := range map[int]string{16: "\x01CD001\x01", 17: "\x02CD001\x01", 18: "\xffCD001\x01"} {
		if got := string(d[at*2048 : at*2048+7]); got != head {
			t.Errorf("sector %d begins with %q, want %q", at, got, head)
		}
	}
	primary, joliet := d[16*2048:17*2048], d[17*2048:18*2048]
	for _, c := range []struct {
		what   string
		volume []byte
		from   int
		want   string
	}{
		{"label", primary, 40, "cidata" + strings.Repeat(" ", 26)},
		{"label", joliet, 40, "\x00c\x00i\x00d\x00a\x00t\x00a" + strings.Repeat("\x00 ", 10)},
		{"escape sequence", joliet, 88, "%/E" + strings.Repeat("\x00", 29)},
		{"application", primary, 574, "PLIMSOLL "},
		{"time of creation", primary, 813, "2026112111304500\x00"},
		{"time of expiration", primary, 847, "0000000000000000\x00"},
		{"structure version", primary, 881, "\x01"},
		{"structure version", joliet, 881, "\x01"},
	} {
		if got := string(c.volume[c.from : c.from+len(c.want)]); got != c.want {
			t.Errorf("the %s is %q, want %q", c.what, got, c.want)
		}
	}
	for _, v := range [][]byte{primary, joliet} {
		for at, want := range map[int]uint32{80: uint32(len(d) / 2048), 132: 10} {
			both(t, v[at:], want)
		}
		for at, want := range map[int]uint16{120: 1, 124: 1, 128: 2048} {
			if l, b := binary.LittleEndian.Uint16(v[at:]), binary.BigEndian.Uint16(v[at+2:]); l != want || b != want {
				t.Errorf("the number at %d is %d and %d, want %d", at, l, b, want)
			}
		}
		root := binary.LittleEndian.Uint32(v[156+2:])
		pathTables(t, d, v, root)
	}
	places := map[uint32]bool{}
	for _, e := range directory(t, d, primary)[2:] {
		if places[e.at] || int(e.at) >= len(d)/2048 {
			t.Errorf("%s is at %d, where another file or the end is", e.name, e.at)
		}
		places[e.at] = true
	}
	rock := directory(t, d, primary)
	uncs := directory(t, d, joliet)
	want := map[string]string{"META_D00.;1": MetaData, "NETWOR01.;1": NetworkConfig, "USER_D02.;1": UserData}
	for _, e := range rock[2:] {
		name := want[e.name]
		if !bytes.Equal(e.data, files[name]) {
			t.Errorf("%s holds %q", e.name, e.data)
		}
		if nm := e.fields["NM"]; len(nm) != 1 || nm[0] != "\x00"+name {
			t.Errorf("%s has the Rock Ridge names %q, want %s", e.name, nm, name)
		}
		if px := e.fields["PX"]; len(px) != 1 || px[0][:8] != "\x00\x81\x00\x00\x00\x00\x81\x00" {
			t.Errorf("%s has the mode %q, want a file that root may read", e.name, px)
		}
		delete(want, e.name)
	}
	if len(want) > 0 {
		t.Errorf("not on the disc: %v", want)
	}
	top := rock[0].fields
	if sp, er := top["SP"], top["ER"]; len(sp) != 1 || sp[0] != "\xbe\xef\x00" || len(er) != 1 || !strings.HasSuffix(er[0], "RRIP_1991A") {
		t.Errorf("the root says of Rock Ridge: %q", top)
	}
	var names []string
	for _, e := range uncs[2:] {
		names = append(names, strings.ReplaceAll(e.name, "\x00", ""))
	}
	if diff := cmp.Diff([]string{MetaData, NetworkConfig, UserData}, names); diff != "" {
		t.Errorf("Joliet's names (-want +got):\n%s", diff)
	}
}

// both wants a number in its two spellings.
func both(t *testing.T, b []byte, want uint32) {
	t.Helper()
	if l, g := binary.LittleEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]); l != want || g != want {
		t.Errorf("a number is %d and %d, want %d", l, g, want)
	}
}

// pathTables wants both tables of a volume to list the root folder, and nothing else.
func pathTables(t *testing.T, d, volume []byte, root uint32) {
	t.Helper()
	little, big := binary.LittleEndian.Uint32(volume[140:]), binary.BigEndian.Uint32(volume[148:])
	for _, c := range []struct {
		at    uint32
		order binary.ByteOrder
	}{{little, binary.LittleEndian}, {big, binary.BigEndian}} {
		table := d[c.at*2048:][:10]
		if table[0] != 1 || table[1] != 0 || c.order.Uint32(table[2:]) != root || c.order.Uint16(table[6:]) != 1 || table[8] != 0 {
			t.Errorf("the path table at %d is %v", c.at, table)
		}
	}
}

type dirEntry struct {
	name   string
	at     uint32
	data   []byte
	fields map[string][]string // Rock Ridge's, by signature, without their heads
}

// directory lists a volume's root folder.
func directory(t *testing.T, d, volume []byte) []dirEntry {
	t.Helper()
	at, size := binary.LittleEndian.Uint32(volume[156+2:]), binary.LittleEndian.Uint32(volume[156+10:])
	var entries []dirEntry
	for i := uint32(0); i < size; {
		rec := d[at*2048+i:]
		length := uint32(rec[0])
		if length == 0 {
			i = (i/2048 + 1) * 2048
			continue
		}
		if i/2048 != (i+length-1)/2048 {
			t.Errorf("the record at %d is in two sectors", i)
		}
		from, bytes := binary.LittleEndian.Uint32(rec[2:]), binary.LittleEndian.Uint32(rec[10:])
		both(t, rec[2:], from)
		both(t, rec[10:], bytes)
		if got := string(rec[18:25]); got != "\x7e\x0b\x15\x0b\x1e\x2d\x00" {
			t.Errorf("the time is %q", got)
		}
		if i > 0 && len(entries) > 1 && from < at {
			t.Errorf("a file is at %d, in the folder", from)
		}
		n := uint32(rec[32])
		e := dirEntry{name: string(rec[33 : 33+n]), at: from, data: d[from*2048:][:bytes], fields: map[string][]string{}}
		for use := rec[33+n+(n+1)%2 : length]; len(use) > 3; use = use[use[2]:] {
			e.fields[string(use[:2])] = append(e.fields[string(use[:2])], string(use[4:use[2]]))
		}
		entries = append(entries, e)
		i += length
	}
	if !slices.IsSortedFunc(entries[2:], func(a, b dirEntry) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the folder is not sorted")
	}
	for i, e := range entries[:2] { // the folder and its parent, which is the same
		if e.name != string(rune(i)) || !bytes.Equal(e.data, d[at*2048:][:size]) {
			t.Errorf("entry %d is %q", i, e.name)
		}
	}
	return entries
}

func TestTheSameFilesAndTimeGiveTheSameDisc(t *testing.T) {
	files := Files{"b": []byte("2"), "a": []byte("1"), "c": nil}
	first := mustDisc(t, files)
	for range 20 {
		if !bytes.Equal(first, mustDisc(t, maps.Clone(files))) {
			t.Fatal("two discs differ")
		}
	}
	other, err := Disc(files, noon.UTC())
	if err != nil || !bytes.Equal(first, other) {
		t.Errorf("the time zone changes the disc: %v", err)
	}
}

func TestDiscsHaveBounds(t *testing.T) {
	many := Files{}
	for i := range MaxFiles + 1 {
		many[fmt.Sprint("f", i)] = nil
	}
	for _, c := range []struct {
		files Files
		at    time.Time
		want  string
	}{
		{Files{}, noon, "files: must be 1 to 16, was 0"},
		{many, noon, "files: must be 1 to 16, was 17"},
		{Files{"a": make([]byte, MaxFile+1)}, noon, "files.a: must have at most 1048576 bytes, was 1048577"},
		{Files{"A/b": nil}, noon, `files["A/b"]: must have a name of at most 64 lower-case letters, digits, ., _ and -, that begins with a letter or digit, was "A/b"`},
		{Files{"a": nil}, time.Time{}, "time: must be in the years 1900 to 2155, which a disc can record, was \"0001-01-01T00:00:00Z\""},
	} {
		if _, err := Disc(c.files, c.at); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	full := Files{}
	// As many as there may be, of the longest names: more than one sector of records.
	for i := range MaxFiles {
		full[strings.Repeat("n", 62)+fmt.Sprintf("%02d", i)] = make([]byte, MaxFile)
	}
	d := mustDisc(t, full)
	for _, volume := range []int{16, 17} {
		if entries := directory(t, d, d[volume*2048:]); len(entries) != 2+MaxFiles || len(entries[0].data) != 2*2048 {
			t.Errorf("the folder of volume %d has %d entries in %d bytes", volume, len(entries), len(entries[0].data))
		}
	}
	got, label, err := ReadDisc(d)
	if err != nil || label != DiscLabel || len(got) != MaxFiles {
		t.Errorf("the fullest disc is read as %d files of %q, %v", len(got), label, err)
	}
}

func drawFiles(t *rapid.T) Files {
	return rapid.MapOfN(
		rapid.OneOf(rapid.SampledFrom([]string{UserData, MetaData, NetworkConfig}), rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,63}`)),
		rapid.SliceOfN(rapid.Byte(), 0, 5000), 1, MaxFiles,
	).Draw(t, "files")
}

// Any files that are put on a disc are read back from it.
func TestLawDiscsGiveBackWhatTheyHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := drawFiles(t)
		got, label, err := ReadDisc(mustDisc(t, files))
		if err != nil || label != DiscLabel {
			t.Fatalf("%q, %v", label, err)
		}
		if !maps.EqualFunc(files, got, func(a, b []byte) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("wrote %v, read %v", files, got)
		}
	})
}

// Without Rock Ridge the names of Joliet are read, and without Joliet those of ISO 9660.
func TestDiscsAreReadByTheNamesThatThereAre(t *testing.T) {
	d := mustDisc(t, Files{UserData: []byte("a"), MetaData: []byte("b")})
	for _, c := range []struct {
		spoil func(d []byte)
		want  []string
	}{
		{func([]byte) {}, []string{MetaData, UserData}},
		{func(d []byte) { copy(d[bytes.Index(d, []byte("SP\x07\x01")):], "XX") }, []string{MetaData, UserData}},
		{func(d []byte) { copy(d[bytes.Index(d, []byte("SP\x07\x01")):], "XX"); d[17*2048] = 3 }, []string{"meta_d00", "user_d01"}},
	} {
		d := bytes.Clone(d)
		c.spoil(d)
		files, _, err := ReadDisc(d)
		if diff := cmp.Diff(c.want, slices.Sorted(maps.Keys(files))); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestBrokenDiscsAreErrors(t *testing.T) {
	whole := mustDisc(t, Files{UserData: []byte("a"), MetaData: []byte("b")})
	root := int(binary.LittleEndian.Uint32(whole[16*2048+158:])) * 2048
	for _, c := range []struct {
		want  string
		spoil func(d []byte) []byte
	}{
		{"a part lies beyond the image's end", func([]byte) []byte { return nil }},
		{"a part lies beyond the image's end", func(d []byte) []byte { return d[:len(d)-2048] }},
		{"this is no ISO 9660 image", func(d []byte) []byte { return make([]byte, len(d)) }},
		{"there is no primary volume", func(d []byte) []byte { d[16*2048] = 0; return d }},
		{"sectors must have 2048 bytes, have 512", func(d []byte) []byte { copy(d[16*2048+128:], "\x00\x02\x02\x00"); return d }},
		{"a number differs between its two spellings", func(d []byte) []byte { d[16*2048+158]++; return d }},
		{"the folder does not list itself", func(d []byte) []byte { d[root] = 0; return d }},
		{"an entry is too short", func(d []byte) []byte { d[root] = 20; return d }},
		{"a file has no name of its own, but \"\"", func(d []byte) []byte {
			i := bytes.LastIndex(d[:root+2048], []byte("NM"))
			copy(d[i:], "XX")
			return d
		}},
		{"an entry's part is too long or too short", func(d []byte) []byte {
			d[bytes.LastIndex(d[:root+2048], []byte("NM"))+2] = 200
			return d
		}},
	} {
		_, _, err := ReadDisc(c.spoil(bytes.Clone(whole)))
		if err == nil || err.Error() != "read disc: "+c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Other makers put names that are long into another place of the disc, and folders beside files.
func TestDiscsOfOtherMakersAreRead(t *testing.T) {
	whole := mustDisc(t, Files{UserData: []byte("a"), MetaData: []byte("NM\x0e\x01\x00elsewhere")})
	root := int(binary.LittleEndian.Uint32(whole[16*2048+158:])) * 2048
	meta := root + bytes.Index(whole[root:], []byte("META_D"))
	user := root + bytes.Index(whole[root:], []byte("USER_D"))
	// A pointer to the text of meta-data takes the place of its mode and name.
	px, nm := meta+bytes.Index(whole[meta:], []byte("PX")), meta+bytes.Index(whole[meta:], []byte("NM"))
	at := binary.LittleEndian.Uint32(whole[meta-33+2:])
	ce := append(both32(both32(both32([]byte("CE\x1c\x01"), int(at)), 0), 14), "XX\x08\x01"...)
	for _, c := range []struct {
		want  string
		spoil func(d []byte)
	}{
		{"elsewhere (14 bytes), user-data (1 bytes)", func(d []byte) { copy(d[px:], ce); copy(d[nm:], "XX") }},
		{"meta-data (14 bytes)", func(d []byte) { d[user-33+25] |= 2 }},
	} {
		d := bytes.Clone(whole)
		c.spoil(d)
		if files, _, err := ReadDisc(d); err != nil || files.String() != c.want {
			t.Errorf("%v, %v, want %s", files, err, c.want)
		}
	}
	crowd := func(d []byte) []byte { // a folder of more entries than anybody would put on a disc
		at := len(d) / 2048
		d = append(d, bytes.Repeat(d[user-33:user-33+int(d[user-33])], 1100)...)
		d = append(d, make([]byte, 2048-len(d)%2048)...)
		copy(d[16*2048+80:], both32(nil, len(d)/2048))
		copy(d[16*2048+158:], both32(both32(nil, at), len(d)-at*2048))
		return d
	}
	if _, _, err := ReadDisc(crowd(bytes.Clone(whole))); err == nil || err.Error() != "read disc: the folder has more than 1024 entries" {
		t.Errorf("a crowded folder: %v", err)
	}
	for _, c := range []struct {
		want  string
		spoil func(d []byte)
	}{
		{"a file is in several parts", func(d []byte) { d[user-33+25] |= 0x80 }},
		{"a part lies beyond the image's end", func(d []byte) { copy(d[px:], ce); copy(d[px+4:], both32(nil, 5000)) }},
		{"a part lies beyond the image's end", func(d []byte) { copy(d[px:], ce); copy(d[px+12:], both32(nil, 5000)) }},
		{"a number differs between its two spellings", func(d []byte) { copy(d[px:], ce); d[px+4]++ }},
		{"an entry goes on and on", func(d []byte) {
			copy(d[px:], ce)
			copy(d[int(at)*2048:], ce)
			copy(d[px+20:], both32(nil, 28))
			copy(d[int(at)*2048+20:], both32(nil, 28))
		}},
		{"there are more than 16 files, or one has more than 1048576 bytes", func(d []byte) { copy(d[user-33+10:], both32(nil, MaxFile+1)) }},
	} {
		d := bytes.Clone(whole)
		c.spoil(d)
		if _, _, err := ReadDisc(d); err == nil || err.Error() != "read disc: "+c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Nothing that is wrong in an image brings its reader down. The input is what is wrong: places
// behind the system area, in two bytes, with what is there instead.
func FuzzReadDisc(f *testing.F) {
	whole := mustDisc(f, Files{UserData: []byte("#cloud-config\n"), MetaData: []byte("instance-id: a\n")})[16*2048:]
	f.Add([]byte{})
	f.Add([]byte{0, 128, 0})     // the size of sectors
	f.Add([]byte{0x38, 0x22, 5}) // the length of the first record
	f.Add([]byte{8, 88, 0})      // no Joliet
	f.Fuzz(func(t *testing.T, wrong []byte) {
		d := append(make([]byte, 16*2048, 16*2048+len(whole)), whole...)
		for ; len(wrong) >= 3; wrong = wrong[3:] {
			d[16*2048+int(binary.BigEndian.Uint16(wrong))%len(whole)] = wrong[2]
		}
		files, _, err := ReadDisc(d)
		if err != nil && files != nil || len(files) > MaxFiles {
			t.Errorf("%d files, %v", len(files), err)
		}
		if _, _, err := ReadDisc(d[:18*2048]); err == nil {
			t.Error("an image without its end is read")
		}
	})
}

// Any byte may be wrong.
func TestLawSpoiledDiscsAreReadOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := mustDisc(t, drawFiles(t))
		for range rapid.IntRange(1, 20).Draw(t, "spoilt") {
			at := rapid.IntRange(16*2048, min(len(d), 26*2048)-1).Draw(t, "at")
			d[at] = rapid.Byte().Draw(t, "byte")
		}
		files, _, err := ReadDisc(d)
		if err != nil && files != nil || len(files) > MaxFiles {
			t.Fatalf("%d files, %v", len(files), err)
		}
	})
}
