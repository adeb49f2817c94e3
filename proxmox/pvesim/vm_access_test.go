package pvesim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// as is the rig as a caller sees it that has these privileges on these paths, such as
// "VM.Audit@/vms/100".
func (r *rig) as(grants string) *rig {
	r.Helper()
	paths := map[string][]string{}
	for grant := range strings.FieldsSeq(grants) {
		priv, path, _ := strings.Cut(grant, "@")
		paths[path] = append(paths[path], priv)
	}
	r.grants++
	user := fmt.Sprintf("user%d@pve", r.grants)
	token := r.Token(user, "t1", false)
	for i, path := range world.Sorted(paths) {
		role := fmt.Sprintf("role%d-%d", r.grants, i)
		r.must("POST /access/roles roleid=" + role + " privs=" + strings.Join(paths[path], ","))
		r.must("PUT /access/acl path=" + path + " roles=" + role + " users=" + user)
	}
	return &rig{TB: r.TB, Cluster: r.Cluster, token: token}
}

// What a caller may set is decided key by key. VM 100 exists, and 101 does not.
func TestConfigurationIsGuardedKeyByKey(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100 scsi1=thin:1 ide2=shared:cloudinit net0=virtio,bridge%3Dvmbr0 serial0=socket")
	store, bridge := " Datastore.AllocateSpace@/storage/thin", " SDN.Use@/sdn/zones/localnetwork/vmbr0"
	refuse := func(path, privs string) string { return "403 Permission check failed (" + path + ", " + privs + ")" }
	for _, test := range []struct{ form, with, without, refusal string }{
		{"cores=1", "VM.Config.CPU", "VM.Config.Memory", refuse("/vms/100", "VM.Config.CPU")},
		{"memory=512", "VM.Config.Memory", "VM.Config.CPU", refuse("/vms/100", "VM.Config.Memory")},
		{"scsihw=lsi", "VM.Config.HWType", "VM.Config.CPU", refuse("/vms/100", "VM.Config.HWType")},
		{"smbios1=family%3DYQ", "VM.Config.HWType", "VM.Config.CPU", refuse("/vms/100", "VM.Config.HWType")},
		{"name=x", "VM.Config.Options", "VM.Config.CPU", refuse("/vms/100", "VM.Config.Options")},
		{"tags=x", "VM.Config.Options", "VM.Config.CPU", refuse("/vms/100", "VM.Config.Options")},
		{"startup=order%3D1", "VM.Config.Options Sys.Modify@/", "VM.Config.Options", refuse("/", "Sys.Modify")},
		{"freeze=0", "VM.PowerMgmt VM.Config.CPU", "VM.Config.CPU", refuse("/vms/100", "VM.PowerMgmt")},
		{"boot=order%3Dscsi1", "VM.Config.Disk", "VM.Config.CPU", refuse("/vms/100", "VM.Config.Disk")},
		{"ciuser=x", "VM.Config.Cloudinit", "VM.Config.CPU", refuse("/vms/100", "VM.Config.Cloudinit|VM.Config.Network")},
		{"ipconfig0=ip%3Ddhcp", "VM.Config.Network", "VM.Config.CPU", refuse("/vms/100", "VM.Config.Cloudinit|VM.Config.Network")},
		{"net0=virtio,bridge%3Dvmbr0", "VM.Config.Network" + bridge, "VM.Config.Network", refuse("/sdn/zones/localnetwork/vmbr0", "SDN.Use")},
		{"net0=virtio,bridge%3Dvmbr0", "VM.Config.Network" + bridge, "VM.Config.CPU" + bridge, refuse("/vms/100", "VM.Config.Network")},
		{"delete=net0", "VM.Config.Network" + bridge, "VM.Config.Network", refuse("/sdn/zones/localnetwork/vmbr0", "SDN.Use")},
		{"scsi3=thin:1", "VM.Config.Disk" + store, "VM.Config.Disk", refuse("/storage/thin", "Datastore.AllocateSpace")},
		{"scsi4=thin:1", "VM.Config.Disk" + store, "VM.Config.CPU" + store, refuse("/vms/100", "VM.Config.Disk")},
		{"delete=scsi3", "VM.Config.Disk", "VM.Config.CPU", refuse("/vms/100", "VM.Config.Disk")},
		{"delete=ide2", "VM.Config.CDROM VM.Config.Cloudinit", "VM.Config.CDROM", refuse("/vms/100", "VM.Config.Cloudinit")},
		{"ide2=none,media%3Dcdrom", "VM.Config.CDROM", "VM.Config.Disk", refuse("/vms/100", "VM.Config.CDROM")},
		{"serial1=socket", "VM.Config.HWType", "VM.Config.CPU", refuse("/vms/100", "VM.Config.HWType")},
		{"serial1=/dev/ttyS0", "", "VM.Config.HWType", "500 only root can set 'serial1' config for real devices"},
		{"hostpci0=host%3D00:02.0", "", "VM.Config.HWType", "500 only root can set 'hostpci0' config for non-mapped devices"},
		{"args=-x", "", "VM.Config.HWType VM.Config.Options", "500 only root can set 'args' config"},
		{"cores=1", "", "VM.Audit", refuse("/vms/100", "VM.Config.Disk|VM.Config.CDROM|VM.Config.CPU|VM.Config.Memory|VM.Config.Network|"+
			"VM.Config.HWType|VM.Config.Options|VM.Config.Cloudinit")},
	} {
		grants := func(privs string) string {
			var all []string
			for priv := range strings.FieldsSeq(privs) {
				if !strings.Contains(priv, "@") {
					priv += "@/vms/100"
				}
				all = append(all, priv)
			}
			return strings.Join(all, " ")
		}
		r.as(grants(test.without)).refused("PUT /nodes/pve1/qemu/100/config "+test.form, test.refusal)
		if test.with != "" {
			r.as(grants(test.with)).must("PUT /nodes/pve1/qemu/100/config " + test.form)
		}
	}
	r.lawful()
}

func TestCreationIsGuarded(t *testing.T) {
	r := newRig(t, nil)
	r.as("VM.Allocate@/vms/200").refused("POST /nodes/pve1/qemu vmid=201", "403 Permission check failed")
	r.as("VM.Allocate@/pool/workers").must("POST /nodes/pve1/qemu vmid=201 pool=workers")
	r.as("VM.Allocate@/vms/202").refused("POST /nodes/pve1/qemu vmid=202 cores=1", "403 Permission check failed (/vms/202, VM.Config.CPU)")
	r.as("VM.Allocate@/vms/202").refused("POST /nodes/pve1/qemu vmid=202 start=1", "403 Permission check failed (/vms/202, VM.PowerMgmt)")
	r.as("VM.Allocate@/vms/202").refused("POST /nodes/pve1/qemu vmid=202 scsi0=thin:1", "403 Permission check failed (/storage/thin, Datastore.AllocateSpace)")
	r.as("VM.Allocate@/pool/workers VM.Config.CPU@/pool/workers").must("POST /nodes/pve1/qemu vmid=202 pool=workers cores=2")
	r.Advance(0)
	r.refused("POST /nodes/pve1/qemu vmid=203 pool=nopool", "403 Permission check failed (pool 'nopool' does not exist)")
}

func TestCloningIsGuarded(t *testing.T) {
	r := newRig(t, nil)
	source, space, bridge := "VM.Clone@/vms/9001 ", "Datastore.AllocateSpace@/storage/shared ", "SDN.Use@/sdn/zones/localnetwork/vmbr0"
	clone := "POST /nodes/pve1/qemu/9001/clone newid=200"
	r.as("VM.Allocate@/vms/200").refused(clone, "403 Permission check failed (/vms/9001, VM.Clone)")
	r.as(source).refused(clone, "403 Permission check failed")
	r.as(source+"VM.Allocate@/vms/200").refused(clone, "403 Permission check failed (/storage/shared, Datastore.AllocateSpace)")
	r.as(source+space+"VM.Allocate@/vms/200").refused(clone, "403 Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)")
	r.as(source + space + bridge + " VM.Allocate@/pool/workers").does(clone + " pool=workers")
	r.as(source + space + bridge + " VM.Allocate@/vms/201").does("POST /nodes/pve1/qemu/9001/clone newid=201")
}

func TestListsShowWhatSomebodyMaySee(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100")
	if all, _ := r.as("VM.Audit@/vms/100").must("GET /nodes/pve1/qemu").([]any); len(all) != 1 {
		t.Errorf("they see %v", all)
	}
	if all, _ := r.as("").must("GET /nodes/pve1/qemu").([]any); len(all) != 0 {
		t.Errorf("who may nothing sees %v", all)
	}
}

func TestTagsCanBeNarrowed(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100 tags=there")
	r.must("PUT /cluster/options registered-tags=ours user-tag-access=user-allow%3Dlist,user-allow-list%3Dfree")
	they := r.as("VM.Config.Options@/vms/100")
	they.refused("PUT /nodes/pve1/qemu/100/config tags=there,other", "500 'Sys.Modify' required on '/' for modifying tag 'other'")
	they.refused("PUT /nodes/pve1/qemu/100/config tags=there,ours", "500 'Sys.Modify' required on '/' for modifying tag 'ours'")
	they.refused("PUT /nodes/pve1/qemu/100/config delete=tags", "500 'Sys.Modify' required on '/' for modifying tag 'there'")
	they.must("PUT /nodes/pve1/qemu/100/config tags=there,free")
	r.must("PUT /nodes/pve1/qemu/100/config tags=ours,other")
}
