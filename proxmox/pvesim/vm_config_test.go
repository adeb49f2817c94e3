package pvesim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// keys are some keys of a machine's configuration, as one text.
func (r *rig) keys(id int, names ...string) string {
	r.Helper()
	conf := r.conf(r.VMs[id].Host.Name, id)
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%s=%v", name, conf[name]))
	}
	return strings.Join(all, " ")
}

func TestNumbersAndTextsAreToldAsTheServerDoes(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100 cores=2 memory=1024 agent=1 onboot=1 balloon=512 cipassword=geheim tags=Zeta%3Balpha,alpha description=x")
	want := map[string]any{
		"cores": 2., "memory": "1024", "agent": "1", "onboot": 1., "balloon": 512., "cipassword": "**********", "tags": "alpha;zeta",
		"description": "x", "boot": " ",
	}
	conf := r.conf("pve1", 100)
	for _, drawn := range []string{"digest", "meta", "smbios1", "vmgenid"} {
		delete(conf, drawn)
	}
	if diff := cmp.Diff(want, conf); diff != "" {
		t.Error(diff)
	}
}

func TestChangesOfARunningMachineWait(t *testing.T) {
	r := newRig(t, nil)
	r.guest(100)
	r.must("PUT /nodes/pve1/qemu/100/config cores=4 memory=2048 name=new tags=x onboot=0 net0=virtio,bridge%3Dvmbr0,tag%3D5 scsi1=local:1,format%3Dqcow2")
	if got := r.keys(100, "cores", "memory", "name", "tags"); got != "cores=4 memory=2048 name=new tags=x" {
		t.Errorf("it will be %s", got)
	}
	now, _ := r.must("GET /nodes/pve1/qemu/100/config current=1").(map[string]any)
	if now["cores"] != nil || now["memory"] != nil || now["name"] != "new" || now["scsi1"] == nil || !strings.Contains(fmt.Sprint(now["net0"]), "tag=5") {
		t.Errorf("it is %v", now)
	}
	r.must("PUT /nodes/pve1/qemu/100/config revert=memory delete=onboot")
	if diff := cmp.Diff([]string{"cores"}, world.Sorted(r.VMs[100].Pending)); diff != "" {
		t.Errorf("what waits: %s", diff)
	}
	r.does("POST /nodes/pve1/qemu/100/status/stop")
	if got := r.keys(100, "cores", "memory", "onboot"); got != "cores=4 memory=<nil> onboot=<nil>" {
		t.Errorf("when it has stopped it is %s", got)
	}
	r.lawful()
}

func TestPendingListTellsOfDeletions(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100 cores=2 ostype=l26 ide0=local:1,format%3Dqcow2")
	r.does("POST /nodes/pve1/qemu/100/status/start")
	r.must("PUT /nodes/pve1/qemu/100/config delete=cores sockets=2")
	r.must("PUT /nodes/pve1/qemu/100/unlink idlist=ide0 force=1")
	got := map[string]any{}
	for _, e := range r.must("GET /nodes/pve1/qemu/100/pending").([]any) {
		entry, _ := e.(map[string]any)
		delete(entry, "value")
		if key := fmt.Sprint(entry["key"]); len(entry) > 1 {
			delete(entry, "key")
			got[key] = entry
		}
	}
	want := map[string]any{
		"cores": map[string]any{"delete": 1.}, "sockets": map[string]any{"pending": 2.}, "ide0": map[string]any{"delete": 2.},
		"boot": map[string]any{"pending": " "},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.does("POST /nodes/pve1/qemu/100/status/stop")
	if left := r.VolumesNamed(r.Node("pve1"), 100); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	r.lawful()
}

func TestChangesThatMakeNoSenseAreRefused(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100 cores=2 net0=virtio")
	bad := "400 Parameter verification failed."
	for _, test := range []struct{ form, status, key, text string }{
		{"", "500 no options specified", "", ""},
		{"delete=nosuch", bad, "delete", "unknown option 'nosuch'"},
		{"revert=nosuch", bad, "revert", "unknown option 'nosuch'"},
		{"cores=1 delete=cores", bad, "delete", "you can't use '-cores' and -delete cores' at the same time"},
		{"delete=cores revert=cores", bad, "revert", "you can't use '-delete cores' and -revert cores' at the same time"},
		{"cores=1 digest=aa", "500 checksum mismatch (file change by other user?)", "", ""},
		{"skiplock=1 cores=1", bad, "skiplock", "Only root may use this option."},
		{"lock=backup", "500 only root can set 'lock' config", "", ""},
		{"args=-x", "500 only root can set 'args' config", "", ""},
		{"balloon=4096", "500 balloon value too large (must be smaller than assigned memory)", "", ""},
		{"ide2=local:iso/x.iso", bad, "ide2", "explicit 'media=cdrom' is required for iso images"},
		{"ide2=local:iso/x.iso,media%3Dcdrom", "500 volume 'local:iso/x.iso' does not exist", "", ""},
		{"scsi0=nostore:1", "500 storage 'nostore' does not exist", "", ""},
		{"scsi0=shared:100/vm-100-disk-7.qcow2", "500 volume 'shared:100/vm-100-disk-7.qcow2' does not exist", "", ""},
		{"sshkeys=bad", "500 SSH public key validation error", "", ""},
		{"boot=order%3Dscsi5", "500 invalid bootorder: device 'scsi5' does not exist'", "", ""},
	} {
		status, _, wrong := r.call("PUT /nodes/pve1/qemu/100/config " + test.form)
		if status != test.status || wrong[test.key] != test.text {
			t.Errorf("%q: got %q %v, want %q", test.form, status, wrong, test.status)
		}
	}
	r.must("PUT /nodes/pve1/qemu/100/config cores=4 digest=" + fmt.Sprint(r.conf("pve1", 100)["digest"]))
	r.lawful()
}

func TestDigestsChangeWithWhatTheyAreOf(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	seen := map[any]string{r.conf("pve1", 100)["digest"]: "at first"}
	for _, line := range []string{
		"PUT /nodes/pve1/qemu/100/config cores=2", "PUT /nodes/pve1/qemu/100/config description=x%25%0Ay", "POST /nodes/pve1/qemu/100/snapshot snapname=s1",
		"DELETE /nodes/pve1/qemu/100/snapshot/s1", "POST /nodes/pve1/qemu/100/status/start", "PUT /nodes/pve1/qemu/100/config memory=1024",
	} {
		r.must(line)
		r.Advance(10 * time.Second)
		digest := r.conf("pve1", 100)["digest"]
		if before, same := seen[digest]; same && !strings.Contains(line, "status") && !strings.Contains(line, "DELETE") {
			t.Errorf("after %s it is what it was after %s", line, before)
		}
		seen[digest] = line
	}
}

func TestDisksComeAndGo(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100 scsi0=thin:4 scsi1=local:1,format%3Dqcow2,discard%3Don ide2=shared:cloudinit")
	want := "boot=order=scsi0;ide2 scsi0=thin:vm-100-disk-0,size=4G scsi1=local:100/vm-100-disk-0.qcow2,discard=on,size=1G" +
		" ide2=shared:100/vm-100-cloudinit.qcow2,media=cdrom"
	if got := r.keys(100, "boot", "scsi0", "scsi1", "ide2"); got != want {
		t.Errorf("it has %s", got)
	}
	r.refused("PUT /nodes/pve1/qemu/100/config ide0=shared:cloudinit", "500 ide0 - cloud-init drive is already attached at 'ide2'")
	r.must("PUT /nodes/pve1/qemu/100/config delete=scsi0,ide2")
	if got := r.keys(100, "boot", "scsi0", "unused0", "ide2"); got != "boot=  scsi0=<nil> unused0=thin:vm-100-disk-0 ide2=<nil>" {
		t.Errorf("after it has lost them: %s", got)
	}
	r.lawful()
	r.must("PUT /nodes/pve1/qemu/100/config virtio0=thin:vm-100-disk-0")
	if got := r.keys(100, "virtio0", "unused0"); got != "virtio0=thin:vm-100-disk-0,size=4G unused0=<nil>" {
		t.Errorf("after it has it again: %s", got)
	}
	r.must("PUT /nodes/pve1/qemu/100/config delete=scsi1")
	r.must("PUT /nodes/pve1/qemu/100/config delete=unused0")
	if left := r.VolumesNamed(r.Node("pve1"), 100); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
	r.must("PUT /nodes/pve1/qemu/100/config protection=1")
	r.refused("PUT /nodes/pve1/qemu/100/config delete=virtio0", "500 can't remove drive 'virtio0' - protection mode enabled")
	r.refused("DELETE /nodes/pve1/qemu/100", "500 can't remove VM 100 - protection mode enabled")
	r.lawful()
}

func TestDisksGrowAndNeverShrink(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	for _, test := range []struct{ size, exit, want string }{
		{"%2B1G", "OK", "9G"}, {"%2B1G", "OK", "10G"}, {"10G", "OK", "10G"}, {"9G", "shrinking disks is not supported", "10G"},
		{"10752M", "OK", "10752M"}, {"1T", "unable to create image: qemu-img: /var/lib/vz/images/100/vm-100-disk-0.qcow2: Could not resize file: No space left on device", "10752M"},
	} {
		r.ends(r.start("PUT /nodes/pve1/qemu/100/resize disk=scsi0 size="+test.size), test.exit)
		if got := vmconf.ParseDrive(r.VMs[100].Conf["scsi0"]).Opts["size"]; got != test.want {
			t.Errorf("after %s it has %s, want %s", test.size, got, test.want)
		}
	}
	r.ends(r.start("PUT /nodes/pve1/qemu/100/resize disk=ide2 size=5G"), "you can't resize a cdrom")
	r.ends(r.start("PUT /nodes/pve1/qemu/100/resize disk=scsi9 size=5G"), "disk 'scsi9' does not exist")
}

func TestDisksMove(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 full=1")
	r.does("POST /nodes/pve1/qemu/100/move_disk disk=scsi0 storage=shared")
	if got := r.keys(100, "scsi0", "unused0"); got != "scsi0=shared:100/vm-100-disk-0.qcow2,size=8G unused0=local:100/vm-100-disk-0.qcow2" {
		t.Errorf("it has %s", got)
	}
	r.does("POST /nodes/pve1/qemu/100/move_disk disk=scsi0 storage=thin delete=1")
	if got := r.keys(100, "scsi0"); got != "scsi0=thin:vm-100-disk-0,size=8G" {
		t.Errorf("it has %s", got)
	}
	r.refused("POST /nodes/pve1/qemu/100/move_disk disk=scsi0 storage=thin", "500 you can't move to the same storage with same format")
	r.refused("POST /nodes/pve1/qemu/100/move_disk disk=scsi0 storage=nostore", "500 storage 'nostore' does not exist")
	r.does("POST /nodes/pve1/qemu vmid=101")
	r.does("POST /nodes/pve1/qemu/100/move_disk disk=scsi0 target-vmid=101 target-disk=virtio3")
	if got := r.keys(101, "virtio3"); got != "virtio3=thin:vm-101-disk-0,size=8G" || r.VMs[100].Conf["scsi0"] != "" {
		t.Errorf("the other has %s", got)
	}
	if boot := r.VMs[100].Conf["boot"]; strings.Contains(boot, "scsi0") {
		t.Errorf("it boots from %s", boot)
	}
	r.lawful()
}

func TestSnapshotsBringBackWhatWas(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 full=1 name=before")
	r.does("POST /nodes/pve1/qemu/100/snapshot snapname=s1 description=first")
	r.does("POST /nodes/pve1/qemu/100/snapshot snapname=s2")
	r.must("PUT /nodes/pve1/qemu/100/config name=after scsi1=local:1,format%3Dqcow2 description=kept")
	r.refused("POST /nodes/pve1/qemu/100/template", "500 unable to create template, because VM contains snapshots")
	r.does("POST /nodes/pve1/qemu/100/snapshot/s1/rollback")
	if got := r.keys(100, "name", "scsi1", "unused0", "description", "parent"); got != "name=before scsi1=<nil> unused0=local:100/vm-100-disk-1.qcow2 description=kept parent=s1" {
		t.Errorf("it is %s", got)
	}
	r.lawful()
	r.does("DELETE /nodes/pve1/qemu/100/snapshot/s1")
	if len(r.VMs[100].Snaps) != 1 || r.VMs[100].Snaps[0].Parent != "" || r.VMs[100].Conf["parent"] != "" {
		t.Errorf("what is left is %+v of %q", r.VMs[100].Snaps, r.VMs[100].Conf["parent"])
	}
	r.ends(r.start("POST /nodes/pve1/qemu/100/snapshot/s1/rollback"), "snapshot 's1' does not exist")
	r.ends(r.start("POST /nodes/pve1/qemu/9000/snapshot snapname=s1"), "you can't take a snapshot if it's a template")
	r.does("POST /nodes/pve1/qemu/100/clone newid=101 snapname=s2 full=1")
	r.does("POST /nodes/pve1/qemu/100/status/start")
	r.does("POST /nodes/pve1/qemu/100/snapshot snapname=mem vmstate=1")
	r.does("POST /nodes/pve1/qemu/100/status/stop")
	r.does("POST /nodes/pve1/qemu/100/snapshot/mem/rollback")
	if got := r.state(100); got != "running running" {
		t.Errorf("with its memory it is %s", got)
	}
	r.does("POST /nodes/pve1/qemu/100/status/stop")
	r.does("DELETE /nodes/pve1/qemu/100?purge=1")
	r.lawful()
}

func TestSnapshotThatIsKilledLeavesTheMachineLocked(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 full=1")
	r.inject("kill task snapshot")
	r.ends(r.start("POST /nodes/pve1/qemu/100/snapshot snapname=s1"), "unexpected status")
	r.ends(r.start("POST /nodes/pve1/qemu/100/status/start"), "VM is locked (snapshot)")
	if s := r.VMs[100].Snaps; len(s) != 1 || s[0].State != "prepare" {
		t.Errorf("its snapshots are %+v", s)
	}
}

func TestMachinesMigrate(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9001/clone newid=100")
	r.does("POST /nodes/pve1/qemu/100/migrate target=pve2")
	r.does("POST /nodes/pve2/qemu/100/status/start")
	r.Advance(time.Minute)
	r.refused("POST /nodes/pve2/qemu/100/migrate target=pve3", "500 can't migrate running VM without --online")
	r.does("POST /nodes/pve2/qemu/100/migrate target=pve3 online=1")
	if got := r.state(100); got != "running running" || r.VMs[100].Host.Name != "pve3" {
		t.Errorf("it is %s on %s", got, r.VMs[100].Host.Name)
	}
	r.must("GET /nodes/pve3/qemu/100/agent/get-osinfo")
	r.does("POST /nodes/pve1/qemu/9000/clone newid=101 full=1")
	r.does("POST /nodes/pve1/qemu/101/migrate target=pve2")
	r.does("POST /nodes/pve2/qemu/101/status/start")
	r.ends(r.start("POST /nodes/pve2/qemu/101/migrate target=pve3 online=1"), "migration aborted")
	r.does("POST /nodes/pve2/qemu/101/migrate target=pve3 online=1 with-local-disks=1")
	r.does("POST /nodes/pve1/qemu/9000/clone newid=102")
	// A linked clone leaves what it is made of.
	r.ends(r.start("POST /nodes/pve1/qemu/102/migrate target=pve3"), "migration aborted")
	r.lawful()
	r.inject("cut pve3")
	r.Advance(time.Minute)
	r.does("POST /nodes/pve1/qemu/9001/clone newid=103")
	r.ends(r.start("POST /nodes/pve1/qemu/103/migrate target=pve3"), "migration aborted")
	if r.VMs[103].Host.Name != "pve1" || r.VMs[103].Conf["lock"] != "" {
		t.Errorf("it is on %s, locked %q", r.VMs[103].Host.Name, r.VMs[103].Conf["lock"])
	}
}

func TestMigrationTellsWhatIsInItsWay(t *testing.T) {
	r := newRig(t, func(cfg *world.Config) { cfg.Storages[2].Hosts = []string{"pve2", "pve3"} })
	r.does("POST /nodes/pve2/qemu/9002/clone newid=100")
	p, _ := r.must("GET /nodes/pve2/qemu/100/migrate").(map[string]any)
	want := map[string]any{"pve1": map[string]any{"unavailable_storages": []any{"thin"}}, "pve3": map[string]any{}}
	if diff := cmp.Diff(want, p["not_allowed_nodes"]); diff != "" || fmt.Sprint(p["allowed_nodes"]) != "[pve3]" {
		t.Errorf("%v: %s", p["allowed_nodes"], diff)
	}
	r.refused("POST /nodes/pve2/qemu/100/migrate target=pve1", "500 storage 'thin' is not available on node 'pve1'")
	r.refused("POST /nodes/pve2/qemu/100/migrate target=pve2", "400 Parameter verification failed.")
}

func TestChangeInTheBackground(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100")
	if data := r.must("POST /nodes/pve1/qemu/100/config cores=2 background_delay=5"); data != nil {
		t.Errorf("a change that is over in time answers %v", data)
	}
	change := r.does("POST /nodes/pve1/qemu/100/config cores=3 cipassword=geheim delete=balloon")
	want := []string{
		"update VM 100: -cipassword <hidden> -cores 3 -delete balloon", "cannot delete 'balloon' - not set in current configuration!", "TASK OK",
	}
	if diff := cmp.Diff(want, change.Log); diff != "" {
		t.Error(diff)
	}
	r.refused("POST /nodes/pve1/qemu/100/config scsi0=shared:100/nope.qcow2 background_delay=5",
		"500 failed to update VM 100: volume 'shared:100/nope.qcow2' does not exist")
}

// What the server allocates while a call waits can take longer than the proxy waits.
func TestAllocationCanOutlastItsCall(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100")
	r.refused("PUT /nodes/pve1/qemu/100/config scsi0=local:999999,format%3Dqcow2", "596 Connection timed out")
	r.refused("PUT /nodes/pve1/qemu/100/config cores=2", "500 can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout")
	r.Advance(time.Hour)
	r.must("PUT /nodes/pve1/qemu/100/config cores=2")
	r.lawful()
}
