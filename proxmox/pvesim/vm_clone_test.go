package pvesim

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// slowly makes clones take so long.
func slowly(d time.Duration) func(*world.Config) {
	return func(cfg *world.Config) { cfg.Times.Clone = timing.Range{Min: d, Max: d} }
}

func TestCloneCanBeSeenToGrow(t *testing.T) {
	r := newRig(t, nil)
	began := r.Now()
	clone := r.start("POST /nodes/pve1/qemu/9000/clone newid=100 name=w1 pool=workers description=mine")
	temporary := map[string]any{"description": " qmclone temporary file", "lock": "clone", "digest": "eb54fb9d9f120ba0c3bdf694f73b10002c375c38"}
	if diff := cmp.Diff(temporary, r.conf("pve1", 100)); diff != "" {
		t.Errorf("at the beginning: %s", diff)
	}
	r.refused("PUT /nodes/pve1/qemu/100/config cores=2", "500 VM is locked (clone)")
	r.Advance(3 * time.Second)
	if conf := r.conf("pve1", 100); conf["name"] != "w1" || conf["lock"] != "clone" || conf["ide2"] == nil || conf["scsi0"] != nil {
		t.Errorf("after its cloud-init drive: %v", conf)
	}
	r.ends(clone, "OK")
	if took := clone.End.Sub(began); took != 8*time.Second {
		t.Errorf("it took %s", took)
	}
	r.lawful()
}

func TestCloneCopiesAllButIdentity(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	source, clone := r.conf("pve1", 9000), r.conf("pve1", 100)
	want := map[string]any{}
	for key, value := range source {
		want[key] = value
	}
	delete(want, "template")
	want["name"] = "Copy-of-VM-tmpl"
	want["ide2"] = "local:100/vm-100-cloudinit.qcow2,media=cdrom,size=4M"
	want["scsi0"] = "local:9000/base-9000-disk-0.qcow2/100/vm-100-disk-0.qcow2,size=8G"
	for _, own := range []string{"net0", "smbios1", "vmgenid", "digest"} {
		if clone[own] == source[own] {
			t.Errorf("%s is that of the source", own)
		}
		want[own] = clone[own]
	}
	if diff := cmp.Diff(want, clone); diff != "" {
		t.Error(diff)
	}
	if mac := fmt.Sprint(clone["net0"]); !regexp.MustCompile(`^virtio=BC:24:11(:[0-9A-F]{2}){3},bridge=vmbr0$`).MatchString(mac) {
		t.Errorf("the card is %s", mac)
	}
}

func TestFullCloneTakesLongerTheMoreItCopies(t *testing.T) {
	r := newRig(t, nil)
	for id, want := range map[int]time.Duration{9000: 16 * time.Second, 9001: 16 * time.Second} {
		began := r.Now()
		clone := r.does(fmt.Sprintf("POST /nodes/pve1/qemu/%d/clone newid=%d full=1", id, id-8900))
		if took := clone.End.Sub(began).Round(100 * time.Millisecond); took != want {
			t.Errorf("a full clone of 8 GiB took %s, want twice a linked one's 8s", took)
		}
	}
	if disk := r.conf("pve1", 100)["scsi0"]; disk != "local:100/vm-100-disk-0.qcow2,size=8G" {
		t.Errorf("the disk is %v", disk)
	}
	r.lawful()
}

// Every caller's clone is accepted. The first has the lock while its clone is being made, for
// longer than the others are ready to wait.
func TestOneOfThreeClonesToOneIDWins(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration
		lose  string
	}{
		{500 * time.Millisecond, "unable to create VM 100: config file already exists"},
		{8 * time.Second, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"},
	} {
		r := newRig(t, slowly(test.takes))
		var exits []string
		var all []*world.Task
		r.together(
			"POST /nodes/pve1/qemu/9000/clone newid=100 name=a", "POST /nodes/pve1/qemu/9000/clone newid=100 name=b",
			"POST /nodes/pve1/qemu/9001/clone newid=100 name=c",
		)
		r.Advance(time.Minute)
		all = append(all, r.Node("pve1").Tasks...)
		for _, task := range all {
			exits = append(exits, task.Exit)
		}
		if diff := cmp.Diff([]string{"OK", test.lose, test.lose}, exits); diff != "" {
			t.Errorf("clones that take %s: %s", test.takes, diff)
		}
		if name := r.conf("pve1", 100)["name"]; name != "a" {
			t.Errorf("the machine is %v", name)
		}
		r.lawful()
	}
}

// together makes calls at the same moment.
func (r *rig) together(lines ...string) {
	r.Helper()
	done := 0
	r.With(func() {
		for _, line := range lines {
			method, rest, _ := strings.Cut(line, " ")
			path, form, _ := strings.Cut(rest, " ")
			req := &request{method: method, path: "/api2/json" + path, header: map[string][]string{
				"Authorization": {"PVEAPIToken=" + r.token}, "Content-Type": {"application/x-www-form-urlencoded"},
			}, body: []byte(strings.ReplaceAll(form, " ", "&"))}
			r.Cluster.Start(func(p *engine.Process) {
				if answer := r.serve(p, r.Nodes[0], req); answer.status != 200 {
					r.Errorf("%s: %d %s", line, answer.status, answer.reason)
				}
				done++
			})
		}
	})
	for range 600 {
		if done == len(lines) {
			return
		}
		r.Advance(100 * time.Millisecond)
	}
	r.Fatalf("%d of %d calls have been answered", done, len(lines))
}

func TestCloneOntoAnIDThatLivesElsewhereDestroysNothing(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve2/qemu vmid=100 name=foreign scsi0=shared:1")
	clone := r.start("POST /nodes/pve1/qemu/9001/clone newid=100")
	r.ends(clone, "close (rename) atomic file '/etc/pve/nodes/pve1/qemu-server/100.conf' failed: File exists")
	if name := r.conf("pve2", 100)["name"]; name != "foreign" {
		t.Errorf("the machine is %v", name)
	}
	r.lawful()
}

func TestStartWaitsForACloneAsLongAsForAnyLock(t *testing.T) {
	for takes, exit := range map[time.Duration]string{
		8 * time.Second:  "OK",
		30 * time.Second: "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout",
	} {
		r := newRig(t, slowly(takes))
		clone := r.start("POST /nodes/pve1/qemu/9000/clone newid=100")
		start := r.start("POST /nodes/pve1/qemu/100/status/start")
		r.ends(start, exit)
		r.ends(clone, "OK")
		if start.Log[0] != "trying to acquire lock..." {
			t.Errorf("it did not say that it waits: %q", start.Log)
		}
		r.lawful()
	}
}

// A storage is locked for an eighth of a clone's time, but no longer than three seconds, and waited
// for ten. Three at a time are never in each other's way, however long they take; many are, and the
// cluster's lock, which is tried only once a second, is the worse.
func TestParallelClonesWaitForTheStoragesLock(t *testing.T) {
	for _, test := range []struct {
		source, at int
		lost       string // empty if none is
	}{
		{9001, 3, ""},
		{9001, 8, "clone failed: cfs-lock 'storage-shared' error: got lock request timeout"},
		{9000, 3, ""},
		{9000, 8, "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout"},
	} {
		r := newRig(t, slowly(90*time.Second))
		var lines []string
		for i := range test.at {
			lines = append(lines, fmt.Sprintf("POST /nodes/pve1/qemu/%d/clone newid=%d", test.source, 100+i))
		}
		r.together(lines...)
		r.Advance(5 * time.Minute)
		failed := map[string]int{}
		for _, task := range r.Node("pve1").Tasks {
			if task.Failed() {
				failed[task.Exit]++
			}
		}
		if test.lost == "" && len(failed) > 0 || test.lost != "" && (len(failed) != 1 || failed[test.lost] == 0 || failed[test.lost] == test.at) {
			t.Errorf("%d clones of %d at once: %v have failed, want some: %q", test.at, test.source, failed, test.lost)
		}
		r.lawful()
	}
}

func TestCloneThatIsStoppedLeavesNothing(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second} {
		r := newRig(t, nil)
		clone := r.start("POST /nodes/pve1/qemu/9000/clone newid=100 full=1")
		r.Advance(after)
		began := r.Now()
		r.must("DELETE /nodes/pve1/tasks/" + clone.UPID)
		if took := r.Now().Sub(began); took != 2*time.Second {
			t.Errorf("after %s: to stop it took %s", after, took)
		}
		if !strings.HasPrefix(clone.Exit, "clone failed: ") || !strings.Contains(clone.Exit, "interrupted by signal") {
			t.Errorf("after %s it ended %q", after, clone.Exit)
		}
		r.refused("GET /nodes/pve1/qemu/100/config", "500 Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist")
		r.lawful()
	}
}

func TestCloneThatIsKilledLeavesItsLockBehind(t *testing.T) {
	r := newRig(t, nil)
	r.inject("kill task clone")
	clone := r.start("POST /nodes/pve1/qemu/9000/clone newid=100")
	r.ends(clone, "unexpected status")
	if last := clone.Log[len(clone.Log)-1]; strings.HasPrefix(last, "TASK") {
		t.Errorf("its log ends %q", last)
	}
	conf := r.conf("pve1", 100)
	if conf["lock"] != "clone" {
		t.Errorf("what is left is %v", conf)
	}
	r.ends(r.start("DELETE /nodes/pve1/qemu/100"), "VM is locked (clone)")
	if l := r.Node("pve1").File(100); l.Held || r.Storages["local"].LockOf(r.Node("pve1")).Held {
		t.Error("a lock on a file is still held by nobody")
	}
}

func (r *rig) inject(lines ...string) {
	r.Helper()
	faults, err := faults.Parse(strings.Join(lines, "\n"))
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range faults {
		if err := r.Inject(f); err != nil {
			r.Fatal(err)
		}
	}
}

func TestCloneThatFailsSaysWhatItWasToldTo(t *testing.T) {
	r := newRig(t, nil)
	r.inject(`fail clone nth=1 text="the disk is on fire"`)
	r.ends(r.start("POST /nodes/pve1/qemu/9000/clone newid=100"), "the disk is on fire")
	r.lawful()
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
}

func TestClonesThatCannotBeAreRefusedAtOnce(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	for _, test := range []struct{ form, status string }{
		{"newid=100", "500 unable to create VM 100: config file already exists"},
		{"newid=101 storage=shared", "500 parameter 'storage' not allowed for linked clones"},
		{"newid=101 format=raw", "500 parameter 'format' not allowed for linked clones"},
		{"newid=101 full=1 storage=nostore", "500 storage 'nostore' does not exist"},
		{"newid=101 target=pve9", "500 no such cluster node 'pve9'"},
		{"newid=101 target=pve2", "500 can't clone VM to node 'pve2' (VM uses local storage)"},
		{"newid=101 full=1 storage=local target=pve2", "500 can't clone to non-shared storage 'local'"},
		{"newid=101 pool=nopool", "403 Permission check failed (pool 'nopool' does not exist)"},
		{"newid=101 snapname=nosnap", "500 snapshot 'nosnap' does not exist"},
	} {
		r.refused("POST /nodes/pve1/qemu/9000/clone "+test.form, test.status)
	}
	r.refused("POST /nodes/pve1/qemu/100/clone newid=101 full=0",
		"500 Linked clone feature is not supported for 'local:9000/base-9000-disk-0.qcow2/100/vm-100-disk-0.qcow2' (scsi0)")
	r.refused("POST /nodes/pve2/qemu/9000/clone newid=101", "500 unable to find configuration file for VM 9000 on node 'pve2'")
	r.lawful()
}

func TestCloneGoesToItsTarget(t *testing.T) {
	r := newRig(t, nil)
	clone := r.start("POST /nodes/pve1/qemu/9001/clone newid=100 target=pve3 pool=workers")
	if r.conf("pve1", 100)["lock"] != "clone" {
		t.Error("it is not made where its source is")
	}
	r.ends(clone, "OK")
	if r.conf("pve3", 100)["name"] != "Copy-of-VM-stmpl" || !r.Access.Pools["workers"].Vms[100] {
		t.Error("it has not come to its target and pool")
	}
	r.lawful()
}

func TestCloneThatDoesNotFitLeavesNothing(t *testing.T) {
	for _, test := range []struct {
		source      int
		host, wants string
	}{
		{9000, "pve1", "clone failed: unable to create image: qemu-img: /var/lib/vz/images/100/vm-100-disk-0.qcow2: Could not resize file: No space left on device"},
		{9002, "pve2", `clone failed: lvcreate 'thin/vm-100-disk-0' error:   Volume group "thin" has insufficient free space`},
	} {
		r := newRig(t, func(cfg *world.Config) {
			for i := range cfg.Storages {
				cfg.Storages[i].Total = 10 << 30
			}
		})
		r.ends(r.start(fmt.Sprintf("POST /nodes/%s/qemu/%d/clone newid=100 full=1", test.host, test.source)), test.wants)
		r.lawful()
	}
}

func TestTemplateInUseIsNotDestroyed(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9001/clone newid=100 target=pve2")
	r.ends(r.start("DELETE /nodes/pve1/qemu/9001"), "base volume 'shared:9001/base-9001-disk-0.qcow2' is still in use by linked cloned")
	r.does("DELETE /nodes/pve2/qemu/100")
	r.does("DELETE /nodes/pve1/qemu/9001")
	r.lawful()
	if left := r.VolumesNamed(r.Node("pve1"), 9001); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestTemplateIsMadeOfWhatRests(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100 scsi0=thin:4 scsi1=local:1,format=qcow2")
	r.does("POST /nodes/pve1/qemu/100/status/start")
	r.refused("POST /nodes/pve1/qemu/100/template", "500 you can't convert a VM to template if VM is running")
	r.does("POST /nodes/pve1/qemu/100/status/stop")
	r.does("POST /nodes/pve1/qemu/100/template")
	conf := r.conf("pve1", 100)
	if conf["scsi0"] != "thin:base-100-disk-0,size=4G" || conf["scsi1"] != "local:100/base-100-disk-0.qcow2,size=1G" || conf["template"] != 1. {
		t.Errorf("the template is %v", conf)
	}
	r.refused("POST /nodes/pve1/qemu/100/template", "500 you can't convert a template to a template")
	r.ends(r.start("POST /nodes/pve1/qemu/100/status/start"), "you can't start a vm if it's a template")
	r.does("POST /nodes/pve1/qemu/100/clone newid=101")
	if disk := r.conf("pve1", 101)["scsi0"]; disk != "thin:vm-101-disk-0,size=4G" {
		t.Errorf("a linked clone on lvmthin has %v", disk)
	}
	r.lawful()
}

func TestDestroyedMachineLeavesNothing(t *testing.T) {
	for _, test := range []struct {
		form string
		left []string
	}{
		{"", []string{"local:100/vm-100-disk-9.qcow2"}},
		{"?destroy-unreferenced-disks=1", nil},
	} {
		r := newRig(t, nil)
		r.does("POST /nodes/pve1/qemu/9000/clone newid=100 pool=workers")
		r.must("POST /nodes/pve1/storage/local/content filename=vm-100-disk-9.qcow2 format=qcow2 size=1G vmid=100")
		destroy := r.start("DELETE /nodes/pve1/qemu/100" + test.form)
		r.Advance(3500 * time.Millisecond)
		if lock := r.conf("pve1", 100)["lock"]; lock != "destroyed" {
			t.Errorf("when its disks are gone it is locked %v", lock)
		}
		r.ends(destroy, "OK")
		if took := destroy.End.Sub(destroy.Start); took != 4*time.Second {
			t.Errorf("it took %s", took)
		}
		if diff := cmp.Diff(test.left, r.VolumesNamed(r.Node("pve1"), 100)); diff != "" {
			t.Errorf("%q: %s", test.form, diff)
		}
		if r.Access.Pools["workers"].Vms[100] {
			t.Error("it is still in its pool")
		}
	}
}
