package pvesim

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// burn writes a disc with these files in its root, with names in the form of Joliet, of Rock Ridge,
// or in neither.
func burn(label, form string, files map[string]string) []byte {
	disc := make([]byte, 24*vmconf.Sector)
	describe := func(at int, kind byte, root int, text func(string) []byte) {
		d := disc[at*vmconf.Sector:]
		d[0] = kind
		copy(d[1:], "CD001\x01")
		copy(d[40:72], text(label))
		copy(d[156:], isoRecord(root, vmconf.Sector, 2, []byte{0}, nil))
	}
	ascii := func(s string) []byte { return []byte(s + strings.Repeat(" ", 32-len(s))) }
	describe(16, 1, 20, ascii)
	disc[17*vmconf.Sector] = 255
	copy(disc[17*vmconf.Sector+1:], "CD001\x01")
	if form == "joliet" {
		describe(17, 2, 21, ucs2)
		copy(disc[17*vmconf.Sector+88:], "%/E")
		disc[18*vmconf.Sector] = 255
		copy(disc[18*vmconf.Sector+1:], "CD001\x01")
	}
	plain := append(isoRecord(20, vmconf.Sector, 2, []byte{0}, nil), isoRecord(20, vmconf.Sector, 2, []byte{1}, nil)...)
	wide := append([]byte(nil), plain...)
	for i, name := range world.Sorted(files) {
		at := len(disc) / vmconf.Sector
		disc = append(disc, append([]byte(files[name]), make([]byte, vmconf.Sector-len(files[name]))...)...)
		var ridge []byte
		if form == "rock ridge" {
			ridge = append([]byte{'N', 'M', byte(5 + len(name)), 1, 0}, name...)
		}
		short := []byte(strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + ".;1")
		if form != "" {
			short = []byte("F" + string(rune('0'+i)) + ".;1")
		}
		plain = append(plain, isoRecord(at, len(files[name]), 0, short, ridge)...)
		wide = append(wide, isoRecord(at, len(files[name]), 0, ucs2(name), nil)...)
	}
	copy(disc[20*vmconf.Sector:], plain)
	copy(disc[21*vmconf.Sector:], wide)
	return disc
}

func ucs2(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.BigEndian.AppendUint16(b, u)
	}
	return b
}

func isoRecord(at, size int, flags byte, name, use []byte) []byte {
	n := 33 + len(name)
	n += n % 2
	r := make([]byte, n)
	binary.LittleEndian.PutUint32(r[2:], uint32(at))
	binary.LittleEndian.PutUint32(r[10:], uint32(size))
	r[25], r[32] = flags, byte(len(name))
	copy(r[33:], name)
	r = append(r, use...)
	if len(r)%2 != 0 {
		r = append(r, 0)
	}
	r[0] = byte(len(r))
	return r
}

func TestNoCloudDiscsAreRead(t *testing.T) {
	files := map[string]string{"user-data": "#cloud-config\n", "meta-data": "instance-id: x\n", "network-config": "version: 2\n"}
	for _, form := range []string{"joliet", "rock ridge"} {
		got, err := vmconf.ReadNoCloud(burn("cidata", form, files))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range files {
			if string(got[name]) != want {
				t.Errorf("%s in the form of %s is %q", name, form, got[name])
			}
		}
	}
	if got, err := vmconf.ReadNoCloud(burn("CIDATA", "", files)); err != nil || string(got["user_data"]) != "#cloud-config\n" {
		t.Errorf("in neither form: %v %v", got, err)
	}
	if _, err := vmconf.ReadNoCloud(burn("other", "joliet", files)); err == nil {
		t.Error("a disc with another label is taken for one")
	}
}

func TestBrokenDiscsAreNoNoCloudDiscs(t *testing.T) {
	disc := burn("cidata", "rock ridge", map[string]string{"user-data": "x"})
	for i := range len(disc) / vmconf.Sector {
		_, _ = vmconf.ReadNoCloud(disc[:i*vmconf.Sector+vmconf.Sector/2]) // must not panic
	}
	for i := 16 * vmconf.Sector; i < 22*vmconf.Sector; i++ {
		disc[i] ^= 0xff
		_, _ = vmconf.ReadNoCloud(disc)
		disc[i] ^= 0xff
	}
}

func TestGuestFindsTheDiscInItsDrive(t *testing.T) {
	r := newRig(t, nil)
	r.With(func() {
		data := burn("cidata", "joliet", map[string]string{"user-data": "#cloud-config\nruncmd: [join]\n", "meta-data": "instance-id: i1\n"})
		r.Storages["shared"].At(nil)["iso/seed.iso"] = &world.Volume{Name: "iso/seed.iso", Content: "iso", Format: "iso", Size: int64(len(data)), Data: data}
	})
	var told world.Boot
	r.OnBoot(func(b world.Boot) { told = b })
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	for _, drive := range []string{"ide3", "sata0", "scsi5"} {
		r.must("PUT /nodes/pve1/qemu/100/config " + drive + "=shared:iso/seed.iso,media%3Dcdrom")
		r.does("POST /nodes/pve1/qemu/100/status/start")
		r.Advance(time.Minute)
		if diff := cmp.Diff("#cloud-config\nruncmd: [join]\n instance-id: i1\n", string(told.UserData)+" "+string(told.MetaData)); diff != "" {
			t.Errorf("in %s: %s", drive, diff)
		}
		told = world.Boot{}
		r.does("POST /nodes/pve1/qemu/100/status/stop")
		r.must("PUT /nodes/pve1/qemu/100/config delete=" + drive)
	}
	if left := r.VMs[100].Conf["unused0"]; left != "" {
		t.Errorf("the disc is kept as its own: %s", left)
	}
}

func TestCloudInitIsToldWhatTheKeysSay(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 name=w1.example.org")
	r.must("PUT /nodes/pve1/qemu/100/config ciuser=root ciupgrade=0 ipconfig0=ip%3D10.1.1.5/24,gw%3D10.1.1.1,ip6%3Dauto nameserver=1.1.1.1 searchdomain=lab")
	user := "#cloud-config\nhostname: w1\nmanage_etc_hosts: true\nfqdn: w1.example.org\nuser: root\ndisable_root: False\nchpasswd:\n  expire: False\n"
	if got := r.must("GET /nodes/pve1/qemu/100/cloudinit/dump type=user"); got != user {
		t.Errorf("user-data: %v", cmp.Diff(user, got))
	}
	network := "version: 1\nconfig:\n    - type: physical\n      name: eth0\n      mac_address: '" + strings.ToLower(vmconf.ParseNet(r.VMs[100].Conf["net0"])["macaddr"]) +
		"'\n      subnets:\n      - type: static\n        address: '10.1.1.5'\n        netmask: '255.255.255.0'\n        gateway: '10.1.1.1'\n" +
		"      - type: ipv6_slaac\n    - type: nameserver\n      address:\n      - '1.1.1.1'\n      search:\n      - 'lab'\n"
	if got := r.must("GET /nodes/pve1/qemu/100/cloudinit/dump type=network"); got != network {
		t.Errorf("network: %v", cmp.Diff(network, got))
	}
	var told []string
	r.OnBoot(func(b world.Boot) { told = append(told, string(b.UserData)) })
	r.does("POST /nodes/pve1/qemu/100/status/start")
	r.Advance(time.Minute)
	r.must("PUT /nodes/pve1/qemu/100/config ciuser=deb") // the disc is as it was made
	r.must("POST /nodes/pve1/qemu/100/status/reset")
	r.Advance(time.Minute)
	r.must("PUT /nodes/pve1/qemu/100/cloudinit")
	r.must("POST /nodes/pve1/qemu/100/status/reset")
	r.Advance(time.Minute)
	if len(told) != 3 || told[0] != user || told[1] != user || !strings.Contains(told[2], "user: deb\n") {
		t.Errorf("told %q", told)
	}
}

func TestCloudInitTellsWhatIsNotOnTheDisc(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	r.must("PUT /nodes/pve1/qemu/100/config ciuser=a nameserver=1.1.1.1")
	r.does("POST /nodes/pve1/qemu/100/status/start")
	r.must("PUT /nodes/pve1/qemu/100/config ciuser=b searchdomain=lab delete=nameserver")
	got := map[string]any{}
	for _, e := range r.must("GET /nodes/pve1/qemu/100/cloudinit").([]any) {
		entry, _ := e.(map[string]any)
		key, _ := entry["key"].(string)
		delete(entry, "key")
		got[key] = entry
	}
	want := map[string]any{
		"ciuser": map[string]any{"value": "a", "pending": "b"}, "searchdomain": map[string]any{"pending": "lab"}, "nameserver": map[string]any{"delete": 1.},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
