package pvesim

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

func TestWhatIsWrongWithMachinesIsSaidAtOnce(t *testing.T) {
	for _, tt := range []struct {
		change func(*world.VM)
		want   string
	}{
		{func(v *world.VM) { v.Guest = "windows" }, "vms[0].guest: must be one of [system deaf none], was windows"},
		{func(v *world.VM) { v.Storage = "far" }, "vms[0].storage: must be one of [local], was far"},
		{func(v *world.VM) { v.Host = "pve2" }, ""},
		{func(v *world.VM) { v.Host, v.Storage = "pve2", "far" }, ""},
		{func(v *world.VM) { v.Disk, v.Storage = 0, "" }, ""},
		{func(v *world.VM) { v.Disk = -1 }, "vms[0].disk: must be 0 or more, was -1"},
		{func(v *world.VM) { v.ID = 99 }, "vms[0].id: must be 100 or more, and be there once, was 99"},
		{func(v *world.VM) { v.Pool = "p" }, "vms[0].pool: must be one of [], was p"},
	} {
		v := world.VM{ID: 100, Host: "pve1", Storage: "local", Disk: 1 << 30}
		tt.change(&v)
		c, err := New(world.Config{
			Hosts: []world.Host{{Name: "pve1", CPUs: 1, Memory: 1 << 30}, {Name: "pve2", CPUs: 1, Memory: 1 << 30}}, VMs: []world.VM{v},
			Storages: []world.Storage{{Name: "local", Type: "dir", Total: 1 << 40}, {Name: "far", Type: "dir", Total: 1 << 40, Hosts: []string{"pve2"}}},
		})
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			c.Close()
		}
		if said != tt.want {
			t.Errorf("%+v: %q, want %q", v, said, tt.want)
		}
	}
}

// The machines of the configuration have what they would have if they had been made by calls.
func TestMachinesAreFurnished(t *testing.T) {
	r := newRig(t, func(cfg *world.Config) {
		cfg.VMs = append(cfg.VMs, world.VM{
			ID: 100, Host: "pve2", Storage: "thin", Disk: 4 << 30, Running: true,
			Config: map[string]string{"net0": "virtio,bridge=vmbr0", "ide2": "thin:cloudinit", "agent": "1"},
		})
	})
	conf := r.conf("pve2", 100)
	for key, want := range map[string]string{
		"scsi0": "thin:vm-100-disk-0,size=4G", "ide2": "thin:vm-100-cloudinit,media=cdrom", "net0": "virtio=BC:24:11:",
	} {
		if got, _ := conf[key].(string); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	r.must("POST /nodes/pve2/qemu/100/agent/ping")
	if got := r.conf("pve1", 9000)["scsi0"]; got != "local:9000/base-9000-disk-0.qcow2,size=8G" {
		t.Errorf("a template's disk is %v", got)
	}
	if wrongs := r.wrongs(); wrongs != nil {
		t.Error(wrongs)
	}
}
