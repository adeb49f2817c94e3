package pve

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestDevicesAreWhatHoldsDataOrIsTheHosts(t *testing.T) {
	got := devices(map[string]string{
		"scsi0": "local-lvm:vm-1000-disk-0,size=20G", "ide2": "none,media=cdrom", "ide0": "local:iso/debian.iso,media=cdrom",
		"ide1": "local-lvm:vm-1000-cloudinit,media=cdrom", "efidisk0": "local-lvm:vm-1000-disk-1,size=4M", "tpmstate0": "local-lvm:vm-1000-disk-2",
		"scsi1": "/dev/disk/by-id/x,size=1T", "unused0": "local-lvm:vm-1000-disk-3", "hostpci0": "mapping=gpu", "usb0": "spice", "usb1": "host=046d:c52b",
		"serial0": "socket", "serial1": "/dev/ttyS0", "virtiofs0": "share", "net0": "virtio=AA:BB", "memory": "2048", "scsihw": "virtio-scsi-single",
		"args": "-drive file=/dev/sdb", "ide3": "local-lvm:vm-200-cloudinit,media=cdrom", "sata0": "local-lvm:vm-1000-disk-9,media=cdrom",
		"sata1": "local:1000/vm-1000-cloudinit.qcow2,media=cdrom", "sata2": "ceph:vm-1000-disk-cloudinit", "sata3": "cdrom,media=cdrom", "sata4": "/dev/sr0,media=cdrom",
		"efidisk1": "local-lvm:vm-200-disk-1,size=4M",
	}, 1000)
	want := map[string]string{
		"scsi0": "local-lvm:vm-1000-disk-0", "scsi1": "/dev/disk/by-id/x", "unused0": "local-lvm:vm-1000-disk-3",
		"hostpci0": "", "usb1": "", "serial1": "", "virtiofs0": "",
		"args": "-drive file=/dev/sdb", "ide3": "local-lvm:vm-200-cloudinit", "sata0": "local-lvm:vm-1000-disk-9", "sata2": "ceph:vm-1000-disk-cloudinit",
		"efidisk1": "local-lvm:vm-200-disk-1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestStrangeDevices(t *testing.T) {
	made := map[string]string{"scsi0": "local-lvm:vm-1000-disk-0", "hostpci0": ""}
	withArgs := map[string]string{"scsi0": "local-lvm:vm-1000-disk-0", "args": "-cpu host"}
	for _, c := range []struct {
		name string
		made map[string]string
		raw  map[string]string
		want string
	}{
		{"as it was made", made, map[string]string{"scsi0": "local-lvm:vm-1000-disk-0,size=20G", "hostpci0": "mapping=gpu"}, ""},
		{"less than it was made with", made, map[string]string{}, ""},
		{"its disk was moved", made, map[string]string{"scsi0": "ceph:vm-1000-disk-0,size=20G", "unused0": "local-lvm:vm-1000-disk-0"}, ""},
		{"another's disk in its place", made, map[string]string{"scsi0": "ceph:vm-200-disk-0,size=20G"}, "scsi0 ceph:vm-200-disk-0"},
		{"its disk was moved, and has another number there", made, map[string]string{"scsi0": "ceph:vm-1000-disk-1,size=20G"}, ""},
		{"another of its own in its place", made, map[string]string{"scsi0": "local-lvm:vm-1000-disk-1,size=20G"}, "scsi0 local-lvm:vm-1000-disk-1"},
		{"one of another size from elsewhere", made, map[string]string{"scsi0": "ceph:vm-1000-disk-1,size=1T", "unused0": "local-lvm:vm-1000-disk-0"}, "scsi0 ceph:vm-1000-disk-1"},
		{"what only looks like its own", made, map[string]string{"scsi0": "ceph:200/vm-1000-x/vm-200-disk-0.raw,size=20G"}, "scsi0 ceph:200/vm-1000-x/vm-200-disk-0.raw"},
		{"a linked clone's was moved", made, map[string]string{"scsi0": "ceph:base-9001-disk-0/vm-1000-disk-0,size=20G"}, ""},
		{"a path of the host's in its place", made, map[string]string{"scsi0": "/dev/sdb"}, "scsi0 /dev/sdb"},
		{"another's volume in the cloud-init drive", made, map[string]string{"ide2": "local-lvm:vm-200-disk-0,media=cdrom"}, "ide2 local-lvm:vm-200-disk-0"},
		{"another's cloud-init drive", made, map[string]string{"ide2": "local-lvm:vm-200-cloudinit,media=cdrom"}, "ide2 local-lvm:vm-200-cloudinit"},
		{"arguments", made, map[string]string{"args": "-drive file=/dev/sdb"}, "args -drive file=/dev/sdb"},
		{"arguments that it was made with", withArgs, map[string]string{"args": "-cpu host"}, ""},
		{"others than it was made with", withArgs, map[string]string{"args": "-cpu host -drive file=/dev/sdb"}, "args -cpu host -drive file=/dev/sdb"},
		{"those of the template, which were not kept", made, map[string]string{"args": "-cpu max"}, ""},
		{"not kept, and those of the template", nil, map[string]string{"args": "-cpu max"}, ""},
		{"not kept, and others", nil, map[string]string{"args": "-cpu host"}, "args -cpu host"},
		{"not kept, and another's disk", nil, map[string]string{"scsi0": "a:vm-200-disk-0", "boot": "order=scsi0"}, "scsi0 a:vm-200-disk-0"},
		{"not kept, and a path of the template's", nil, map[string]string{"scsi5": "/dev/sdc"}, ""},
		{"not kept, and another path", nil, map[string]string{"scsi5": "/dev/sdd"}, "scsi5 /dev/sdd"},
		{"a disk more", made, map[string]string{"scsi0": "local-lvm:vm-1000-disk-0", "scsi1": "local-lvm:vm-1000-disk-1,size=1T"}, "scsi1 local-lvm:vm-1000-disk-1"},
		{"one that was taken out", made, map[string]string{"unused0": "local-lvm:vm-1000-disk-1"}, "unused0 local-lvm:vm-1000-disk-1"},
		{"what is the host's", made, map[string]string{"usb0": "host=1-2", "hostpci1": "0000:01:00"}, "hostpci1 0000:01:00; usb0 host=1-2"},
		{"not kept, as the template", nil, map[string]string{"scsi0": "a:vm-1000-disk-0", "scsi5": "a:vm-1000-disk-1", "boot": "order=scsi0"}, ""},
		{"not kept, and more", nil, map[string]string{"scsi0": "a:vm-1000-disk-0", "scsi1": "a:vm-1000-disk-1", "boot": "order=scsi0"}, "scsi1 a:vm-1000-disk-1"},
		{"not kept, and it boots from another drive", nil, map[string]string{"virtio0": "a:vm-1000-disk-0", "boot": "order=virtio0"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := assemble(FleetConfig{})
			f.view.templates = map[int]placement.TemplateSeen{9001: {Size: 2 * pricing.GiB, Devices: map[string]string{"scsi0": "a:base-9001-disk-0", "scsi5": "/dev/sdc", "args": "-cpu max"}}}
			w := &work{crew: f.crew, p: &settings.Pool{Template: placement.Template{VMID: 9001}}, i: intents.Intent{VMID: 1000, Shape: pricing.Shape{Disk: 20 * pricing.GiB}, Making: intents.Making{Devices: c.made}}}
			conf := &pveapi.VMConfig{Raw: c.raw, Disks: map[string]pveapi.Volume{}}
			for key, value := range c.raw {
				if pveapi.IsDrive(key) {
					conf.Disks[key] = pveapi.ParseDrive(value)
				}
			}
			if got := list(leaving{w}.strange(conf)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAPersonsDiskHoldsTheMachine(t *testing.T) {
	w, names := seeing(t, 2)
	name := names[0]
	v, c := w.there(name), w.root()
	must.Do(t, c.VM(v.Host, v.ID).SetConfig(t.Context(), map[string]string{"scsi1": "local-lvm:5"}, nil, ""))
	w.giveBack(names...)
	w.run(time.Hour)
	m := w.machine(name)
	if !w.runs(name) || m.Held == nil || m.Held.Code != pvecode.StrangeDevice || !strings.Contains(m.Problem, "scsi1 local-lvm:vm-") {
		t.Fatalf("it runs: %t, held for %v: %s", w.runs(name), m.Held, m.Problem)
	}
	w.mustSay(w.event(pvecode.StrangeDevice).Advice, "qm disk move", "scsi1")
	if w.phase(names[1]) != "" {
		t.Errorf("the other is %s", w.phase(names[1]))
	}
	must.Do(t, c.VM(v.Host, v.ID).SetConfig(t.Context(), nil, []string{"scsi1"}, ""))
	w.run(10 * time.Minute)
	if !w.runs(name) || !strings.Contains(w.machine(name).Problem, "unused0") {
		t.Fatalf("its data is in the machine still, and it runs: %t: %s", w.runs(name), w.machine(name).Problem)
	}
	must.Do(t, c.VM(v.Host, v.ID).SetConfig(t.Context(), nil, []string{"unused0"}, ""))
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
}

// What a person can do depends on whose it is: a volume of another machine is only taken out.
func TestStrangeDevicesComeWithWhatToDo(t *testing.T) {
	for strange, want := range map[string]string{
		"scsi1 local-lvm:vm-1000-disk-1": "move it to another machine: qm disk move 1000 scsi1 --target-vmid VMID; or, if what is on it may be lost, remove it: qm disk unlink 1000 --idlist scsi1 --force 1",
		"ide2 local-lvm:vm-200-disk-0":   "take it out: qm set 1000 --delete ide2",
		"scsi0 /dev/sdb":                 "take it out: qm set 1000 --delete scsi0",
		"args -drive file=/dev/sdb":      "take it out: qm set 1000 --delete args",
		"usb0 host=1-2":                  "take it out: qm set 1000 --delete usb0",
	} {
		if got := takeOut(1000, []string{strange}); got != want {
			t.Errorf("%s: %s", strange, got)
		}
	}
}

func TestAVolumeInTheDriveForDiscsHoldsTheMachine(t *testing.T) {
	w, names := seeing(t, 1)
	c := w.root()
	set := func(values map[string]string, remove ...string) {
		t.Helper()
		v := w.there(names[0])
		must.Do(t, c.VM(v.Host, v.ID).SetConfig(t.Context(), values, remove, ""))
	}
	set(map[string]string{"scsi1": "local-lvm:5"})
	data := pveapi.ParseDrive(w.there(names[0]).Config["scsi1"]).ID
	set(nil, "scsi1")
	set(map[string]string{"ide2": data + ",media=cdrom"})
	w.giveBack(names...)
	w.run(time.Hour)
	if m := w.machine(names[0]); !w.runs(names[0]) || m.Held == nil || m.Held.Code != pvecode.StrangeDevice || !strings.Contains(m.Problem, "ide2 "+data) {
		t.Fatalf("it runs: %t, held for %v: %s", w.runs(names[0]), m.Held, m.Problem)
	}
}

func TestDevicesAreKeptFromWhenItIsConfigured(t *testing.T) {
	w, names := seeing(t, 1)
	i := w.fleet.roster.named(names[0]).Devices
	if len(i) != 1 || !strings.HasPrefix(i["scsi0"], "local-lvm:") {
		t.Errorf("kept is %v", i)
	}
	if m := w.machine(names[0]); m.Phase != nodescaler.Joined {
		t.Errorf("it is %s", m.Phase)
	}
}

// The notes of a machine may say that it was not configured yet: its UUID says whose it is all the
// same.
func TestAMachineWithoutItsUUIDIsNotOursWhateverItsNotesSay(t *testing.T) {
	w, names := seeing(t, 1)
	v, c := w.there(names[0]), w.root()
	must.Do(t, c.VM(v.Host, v.ID).SetConfig(t.Context(), map[string]string{
		"description": strings.ReplaceAll(v.Config["description"], "stage=ready", "stage=cloned"), "smbios1": "uuid=7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f",
	}, nil, ""))
	w.giveBack(names...)
	w.run(10 * time.Minute)
	w.event(pvecode.Quarantined)
	if !w.runs(names[0]) {
		t.Error("it was stopped")
	}
}
