package pve

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
)

func TestDevicesAreWhatHoldsDataOrIsTheHosts(t *testing.T) {
	got := devices(map[string]string{
		"scsi0": "local-lvm:vm-1000-disk-0,size=20G", "ide2": "none,media=cdrom", "ide0": "local:iso/debian.iso,media=cdrom",
		"ide1": "local-lvm:vm-1000-cloudinit,media=cdrom", "efidisk0": "local-lvm:vm-1000-disk-1,size=4M", "tpmstate0": "local-lvm:vm-1000-disk-2",
		"scsi1": "/dev/disk/by-id/x,size=1T", "unused0": "local-lvm:vm-1000-disk-3", "hostpci0": "mapping=gpu", "usb0": "spice", "usb1": "host=046d:c52b",
		"serial0": "socket", "serial1": "/dev/ttyS0", "virtiofs0": "share", "net0": "virtio=AA:BB", "memory": "2048", "scsihw": "virtio-scsi-single",
	})
	want := map[string]string{
		"scsi0": "local-lvm:vm-1000-disk-0", "scsi1": "/dev/disk/by-id/x", "unused0": "local-lvm:vm-1000-disk-3",
		"hostpci0": "", "usb1": "", "serial1": "", "virtiofs0": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestStrangeDevices(t *testing.T) {
	made := map[string]string{"scsi0": "local-lvm:vm-1000-disk-0", "hostpci0": ""}
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
		{"a disk more", made, map[string]string{"scsi0": "local-lvm:vm-1000-disk-0", "scsi1": "local-lvm:vm-1000-disk-1,size=1T"}, "scsi1 local-lvm:vm-1000-disk-1"},
		{"one that was taken out", made, map[string]string{"unused0": "local-lvm:vm-1000-disk-1"}, "unused0 local-lvm:vm-1000-disk-1"},
		{"what is the host's", made, map[string]string{"usb0": "host=1-2", "hostpci1": "0000:01:00"}, "hostpci1 0000:01:00; usb0 host=1-2"},
		{"not kept, as the template", nil, map[string]string{"scsi0": "a:vm-1000-disk-0", "scsi5": "a:vm-1000-disk-1", "boot": "order=scsi0"}, ""},
		{"not kept, and more", nil, map[string]string{"scsi0": "a:vm-1000-disk-0", "scsi1": "a:vm-1000-disk-1", "boot": "order=scsi0"}, "scsi1 a:vm-1000-disk-1"},
		{"not kept, and it boots from another drive", nil, map[string]string{"virtio0": "a:vm-1000-disk-0", "boot": "order=virtio0"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &Fleet{}
			f.view.templates = map[int]templateSeen{9001: {devices: []string{"scsi0", "scsi5"}}}
			w := &work{Fleet: f, p: &Pool{Template: Template{VMID: 9001}}, i: Intent{VMID: 1000, Devices: c.made}}
			conf := &VMConfig{Raw: c.raw, Disks: map[string]Volume{}}
			for key, value := range c.raw {
				if driveKey.MatchString(key) {
					conf.Disks[key] = drive(value)
				}
			}
			if got := list(w.strange(conf)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAPersonsDiskHoldsTheMachine(t *testing.T) {
	w, names := seeing(t, 2)
	name := names[0]
	v, c := w.there(name), w.root()
	if err := c.SetConfig(t.Context(), v.Host, v.ID, map[string]string{"scsi1": "local-lvm:5"}, nil, ""); err != nil {
		t.Fatal(err)
	}
	w.giveBack(names...)
	w.run(time.Hour)
	m := w.machine(name)
	if !w.runs(name) || m.Held == nil || m.Held.Code != CodeStrangeDevice || !strings.Contains(m.Problem, "scsi1 local-lvm:vm-") {
		t.Fatalf("it runs: %t, held for %v: %s", w.runs(name), m.Held, m.Problem)
	}
	w.mustSay(w.event(CodeStrangeDevice).Advice, "qm disk move", "scsi1")
	if w.phase(names[1]) != "" {
		t.Errorf("the other is %s", w.phase(names[1]))
	}
	if err := c.SetConfig(t.Context(), v.Host, v.ID, nil, []string{"scsi1"}, ""); err != nil {
		t.Fatal(err)
	}
	w.run(10 * time.Minute)
	if !w.runs(name) || !strings.Contains(w.machine(name).Problem, "unused0") {
		t.Fatalf("its data is in the machine still, and it runs: %t: %s", w.runs(name), w.machine(name).Problem)
	}
	if err := w.fleet.Release(name); err != nil {
		t.Fatal(err)
	}
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
}

func TestDevicesAreKeptFromWhenItIsConfigured(t *testing.T) {
	w, names := seeing(t, 1)
	i := w.fleet.named(names[0]).Devices
	if len(i) != 1 || !strings.HasPrefix(i["scsi0"], "local-lvm:") {
		t.Errorf("kept is %v", i)
	}
	if m := w.machine(names[0]); m.Phase != nodescaler.Joined {
		t.Errorf("it is %s", m.Phase)
	}
}

// The notes of a machine may say that it was not configured yet: its UUID says whose it is all the same.
func TestAMachineWithoutItsUUIDIsNotOursWhateverItsNotesSay(t *testing.T) {
	w, names := seeing(t, 1)
	v, c := w.there(names[0]), w.root()
	err := c.SetConfig(t.Context(), v.Host, v.ID, map[string]string{
		"description": strings.ReplaceAll(v.Config["description"], "stage=ready", "stage=cloned"), "smbios1": "uuid=7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f",
	}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	w.giveBack(names...)
	w.run(10 * time.Minute)
	w.event(CodeQuarantined)
	if !w.runs(names[0]) {
		t.Error("it was stopped")
	}
}
