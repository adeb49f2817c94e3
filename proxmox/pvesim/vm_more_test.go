package pvesim

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// text is what a call answers, as JSON.
func (r *rig) text(line string) string {
	r.Helper()
	b, err := json.Marshal(r.must(line))
	if err != nil {
		r.Fatal(err)
	}
	return string(b)
}

func TestAgentsTellOfTheirGuests(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 name=w100")
	r.must("PUT /nodes/pve1/qemu/100/config cores=2 memory=256")
	r.does("POST /nodes/pve1/qemu/100/status/start")
	r.Advance(time.Minute)
	agent := " /nodes/pve1/qemu/100/agent"
	for line, want := range map[string]string{
		"GET" + agent + "/get-host-name":                                         `{"result":{"host-name":"w100"}}`,
		"GET" + agent + "/get-vcpus":                                             `{"result":[{"can-offline":false,"logical-id":0,"online":true},{"can-offline":true,"logical-id":1,"online":true}]}`,
		"GET" + agent + "/get-fsinfo":                                            `{"result":[{"disk":[],"mountpoint":"/","name":"sda1","total-bytes":8589934592,"type":"ext4","used-bytes":858993459}]}`,
		"POST" + agent + " command=get-memory-block-info":                        `{"result":{"size":134217728}}`,
		"POST" + agent + " command=get-memory-blocks":                            `{"result":[{"can-offline":false,"online":true,"phys-index":0},{"can-offline":false,"online":true,"phys-index":1}]}`,
		"POST" + agent + " command=get-users":                                    `{"result":[]}`,
		"POST" + agent + " command=fsfreeze-status":                              `{"result":"thawed"}`,
		"POST" + agent + "/fstrim":                                               `{"result":{"paths":[{"minimum":0,"path":"/","trimmed":0}]}}`,
		"POST" + agent + "/set-user-password username=root password=secret":      `{"result":{}}`,
		"POST" + agent + "/file-write file=/b content=aGVsbG8gd29ybGQ= encode=0": `null`,
	} {
		if got := r.text(line); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	if got := r.text("GET" + agent + "/file-read?file=/b&offset=6&count=3"); got != `{"bytes-read":3,"content":"wor"}` {
		t.Errorf("a part of the file is %s", got)
	}
	if got := r.text("GET" + agent + "/info"); !strings.Contains(got, `"name":"guest-ping"`) {
		t.Errorf("it can %s", got)
	}
	r.refused("GET"+agent+"/file-read?file=/none", "500 Agent error: failed to open file '/none' (mode: 'r'): No such file or directory")
	r.refused("GET"+agent+"/exec-status?pid=7", "500 Agent error: Invalid parameter 'pid'")
	r.refused("POST"+agent+"/file-write file=/b content=! encode=0", "500 Agent error: Invalid base64 data")
	r.must("POST" + agent + "/shutdown")
	r.Advance(time.Minute)
	if got := r.state(100); got != "stopped stopped" {
		t.Errorf("told to shut down, it is %s", got)
	}
}

func TestSnapshotsAreToldOf(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 name=w100")
	r.does("POST /nodes/pve1/qemu/100/snapshot snapname=s1 description=one")
	r.does("POST /nodes/pve1/qemu/100/snapshot snapname=s2")
	r.must("PUT /nodes/pve1/qemu/100/config name=later")
	r.must("PUT /nodes/pve1/qemu/100/snapshot/s2/config description=two")
	r.must("PUT /nodes/pve1/qemu/100/snapshot/s2/config")
	s, _ := r.must("GET /nodes/pve1/qemu/100/snapshot/s2/config").(map[string]any)
	if s["description"] != "two" || s["parent"] != "s1" || s["name"] != "w100" || s["snaptime"] == nil {
		t.Errorf("the snapshot is %v", s)
	}
	if conf, _ := r.must("GET /nodes/pve1/qemu/100/config?snapshot=s1").(map[string]any); conf["name"] != "w100" || conf["digest"] == nil {
		t.Errorf("what it was is %v", conf)
	}
	r.refused("GET /nodes/pve1/qemu/100/config?snapshot=none", "500 snapshot 'none' does not exist")
	r.refused("GET /nodes/pve1/qemu/100/config?snapshot=s1&current=1", "400 Parameter verification failed.")
	r.refused("GET /nodes/pve1/qemu/100/snapshot/none/config", "500 snapshot 'none' does not exist")
	r.refused("PUT /nodes/pve1/qemu/100/snapshot/none/config description=x", "500 snapshot 'none' does not exist")
	r.refused("POST /nodes/pve1/qemu/100/snapshot snapname=current", "500 unable to use snapshot name 'current' (reserved name)")
	r.ends(r.start("POST /nodes/pve1/qemu/100/snapshot snapname=s1"), "snapshot name 's1' already used")
	r.lawful()
}

// A disk that only a snapshot knows is kept until a caller removes it, and its cloud-init disc is
// not.
func TestDisksOutliveTheirSnapshots(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 full=1")
	r.does("POST /nodes/pve1/qemu/100/snapshot snapname=s1")
	r.must("PUT /nodes/pve1/qemu/100/config delete=scsi0,ide2")
	r.lawful()
	r.does("DELETE /nodes/pve1/qemu/100/snapshot/s1")
	if got := r.keys(100, "scsi0", "unused0", "unused1"); got != "scsi0=<nil> unused0=local:100/vm-100-disk-0.qcow2 unused1=<nil>" {
		t.Errorf("it has %s", got)
	}
	r.lawful()
}

func TestRollbackCanStartTheMachine(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	r.does("POST /nodes/pve1/qemu/100/snapshot snapname=s1")
	r.does("POST /nodes/pve1/qemu/100/status/start")
	r.does("POST /nodes/pve1/qemu/100/snapshot/s1/rollback")
	if got := r.state(100); got != "stopped stopped" {
		t.Errorf("rolled back to when it did not run, it is %s", got)
	}
	r.does("POST /nodes/pve1/qemu/100/snapshot/s1/rollback start=1")
	r.Advance(10 * time.Second)
	if got := r.state(100); got != "running running" {
		t.Errorf("to be started, it is %s", got)
	}
	who := r.as("VM.Snapshot.Rollback@/vms/100")
	who.refused("POST /nodes/pve1/qemu/100/snapshot/s1/rollback start=1", "403 Permission check failed (/vms/100, VM.PowerMgmt)")
	who.does("POST /nodes/pve1/qemu/100/snapshot/s1/rollback")
	r.lawful()
}

func TestFeaturesDependOnDisks(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9001/clone newid=100")
	r.does("POST /nodes/pve1/qemu/9000/clone newid=101")
	r.does("POST /nodes/pve1/qemu vmid=102 scsi0=local:1,format%3Draw")
	for line, want := range map[string]string{
		"100/feature?feature=snapshot": `{"hasFeature":1,"nodes":["pve1","pve2","pve3"]}`,
		"100/feature?feature=clone":    `{"hasFeature":0,"nodes":["pve1","pve2","pve3"]}`,
		"100/feature?feature=copy":     `{"hasFeature":1,"nodes":["pve1","pve2","pve3"]}`,
		"101/feature?feature=snapshot": `{"hasFeature":1,"nodes":["pve1"]}`,
		"9001/feature?feature=clone":   `{"hasFeature":1,"nodes":["pve1","pve2","pve3"]}`,
		"102/feature?feature=snapshot": `{"hasFeature":0,"nodes":["pve1"]}`,
	} {
		if got := r.text("GET /nodes/pve1/qemu/" + line); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	r.ends(r.start("POST /nodes/pve1/qemu/102/snapshot snapname=s1"), "snapshot feature is not available")
}

func TestDisksThatCannotBeGivenAway(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100 full=1")
	r.does("POST /nodes/pve1/qemu vmid=101 scsi0=local:1")
	r.does("POST /nodes/pve2/qemu vmid=102")
	give := "POST /nodes/pve1/qemu/100/move_disk "
	for form, want := range map[string]string{
		"disk=scsi0": "400 Parameter verification failed.",
		"disk=scsi0 storage=thin target-vmid=101":       "400 Parameter verification failed.",
		"disk=scsi0 target-vmid=100":                    "400 Parameter verification failed.",
		"disk=scsi0 target-vmid=199":                    "500 could not find target VM 199",
		"disk=scsi0 target-vmid=102":                    "500 Both VMs need to be on the same node (pve1 != pve2)",
		"disk=scsi0 target-vmid=101":                    "500 Target disk key 'scsi0' is already in use for VM '101'",
		"disk=scsi3 target-vmid=101":                    "500 Disk 'scsi3' for VM '100' does not exist",
		"disk=ide2 target-vmid=101":                     "500 CD drive contents can't be moved to another VM",
		"disk=scsi0 target-vmid=9000 target-disk=scsi1": "500 Can't move disks from or to template VMs",
	} {
		r.refused(give+form, want)
	}
	r.does("POST /nodes/pve1/qemu/100/snapshot snapname=s1")
	r.refused(give+"disk=scsi0 target-vmid=101 target-disk=scsi1", "500 Can't move disk used by a snapshot to another VM")
	r.refused(give+"disk=scsi0 storage=thin delete=1", "500 you can't move a disk with snapshots and delete the source")
	r.does("DELETE /nodes/pve1/qemu/100/snapshot/s1")
	r.does("POST /nodes/pve1/qemu/100/status/start")
	r.refused(give+"disk=scsi0 target-vmid=101 target-disk=scsi1", "500 Cannot move disk to another VM while the source VM is running - detach first")
	r.lawful()
}

func TestFirewallOptionsAreKept(t *testing.T) {
	r := newRig(t, nil)
	at := " /nodes/pve1/qemu/9000/firewall/options"
	none, _ := r.must("GET" + at).(map[string]any)
	r.must("PUT" + at + " enable=1 policy_in=DROP")
	is, _ := r.must("GET" + at).(map[string]any)
	if is["enable"] != 1. || is["policy_in"] != "DROP" || is["digest"] == none["digest"] {
		t.Errorf("they are %v", is)
	}
	r.refused("PUT"+at+" enable=0 digest="+none["digest"].(string), "500 detected modified configuration - file changed by other user? Try again.")
	r.must("PUT" + at + " delete=enable,policy_in")
	if again, _ := r.must("GET" + at).(map[string]any); again["digest"] != none["digest"] || len(again) != 1 {
		t.Errorf("they are %v", again)
	}
}

func TestTheOldNameOfTheDiscDrive(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100 cdrom=none")
	if got := r.keys(100, "ide2", "cdrom"); got != "ide2=none,media=cdrom cdrom=<nil>" {
		t.Errorf("it has %s", got)
	}
	r.must("PUT /nodes/pve1/qemu/100/config delete=cdrom")
	if got := r.keys(100, "ide2"); got != "ide2=<nil>" {
		t.Errorf("it has %s", got)
	}
}

// Guests that know no NoCloud discs read the network as Debian's do.
func TestNetworkIsToldAsDebianReadsIt(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	r.must("PUT /nodes/pve1/qemu/100/config citype=configdrive2 ipconfig0=ip%3D10.1.1.5/24,gw%3D10.1.1.1,ip6%3Dfd00::5/64,gw6%3Dfd00::1 " +
		"net1=virtio ipconfig1=ip%3Ddhcp,ip6%3Dauto nameserver=1.1.1.1 searchdomain=lab")
	want := "auto lo\niface lo inet loopback\n\n        dns_nameservers 1.1.1.1\n        dns_search lab\n" +
		"auto eth0\niface eth0 inet static\n        address 10.1.1.5\n        netmask 255.255.255.0\n        gateway 10.1.1.1\n" +
		"iface eth0 inet6 static\n        address fd00::5\n        netmask 64\n        gateway fd00::1\n" +
		"auto eth1\niface eth1 inet dhcp\niface eth1 inet6 auto\n"
	if got := r.must("GET /nodes/pve1/qemu/100/cloudinit/dump?type=network"); got != want {
		t.Errorf("network: %v", got)
	}
	if got, _ := r.must("GET /nodes/pve1/qemu/100/cloudinit/dump?type=meta").(string); !strings.Contains(got, `"network_config": { "content_path": "/content/0000" }`) {
		t.Errorf("meta: %s", got)
	}
}

func TestOnlyTagsInUseMayBeSet(t *testing.T) {
	r := newRig(t, nil) // template 9000 is tagged base
	r.does("POST /nodes/pve1/qemu vmid=100")
	r.must("PUT /cluster/options user-tag-access=user-allow%3Dexisting")
	who := r.as("VM.Config.Options@/vms/100")
	who.must("PUT /nodes/pve1/qemu/100/config tags=base")
	who.refused("PUT /nodes/pve1/qemu/100/config tags=base%3Bother", "500 'Sys.Modify' required on '/' for modifying tag 'other'")
	r.must("PUT /cluster/options user-tag-access=user-allow%3Dnone")
	who.refused("PUT /nodes/pve1/qemu/100/config tags=", "500 'Sys.Modify' required on '/' for modifying tag 'base'")
}

func TestHistoryIsEmptyBeforeAMachineWasThere(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100")
	if rows, ok := r.must("GET /nodes/pve1/qemu/100/rrddata?timeframe=hour").([]any); !ok || len(rows) == 0 {
		t.Errorf("the last hour is %v", rows)
	}
}
