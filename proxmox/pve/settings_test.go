package pve

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// aWork is a machine that has been cloned, with a fleet that makes no calls.
func aWork(change func(*settings.Pool, *pveapi.VMConfig)) *work {
	p := plainPool()
	c := &pveapi.VMConfig{
		Net: map[string]string{"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr9,firewall=1"},
		Raw: map[string]string{"smbios1": "uuid=7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f,manufacturer=QUNNRQ==,base64=1"},
		Disks: map[string]pveapi.Volume{
			"scsi0": {ID: "lvm:vm-1001-disk-0", Storage: "lvm", Name: "vm-1001-disk-0", Size: 8 << 30},
			"ide2":  {ID: "lvm:vm-1001-cloudinit", Storage: "lvm", Name: "vm-1001-cloudinit", Media: "cdrom"},
		},
	}
	change(&p, c)
	p = p.Complete()
	f := assemble(FleetConfig{Owner: "home", Rand: rand.New(rand.NewPCG(1, 1))})
	return &work{crew: f.crew, book: pricing.DefaultBook(), p: &p, conf: c, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), i: intents.Intent{
		Order: "mtim7pc0-0", Pool: "web", Name: "web-mtim7pc0-0", Shape: p.Shapes[0], Host: "pve1", VMID: 1001,
		Making:  intents.Making{Disc: "local:iso/plimsoll-home--web-mtim7pc0-0.iso", MAC: "BC:24:11:00:00:01"},
		Created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Why: "PodsPending: 3 pods wait",
	}}
}

func TestSettings(t *testing.T) {
	base := map[string]string{
		"cores": "2", "sockets": "1", "memory": "4096", "balloon": "4096", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
		"tags": "plimsoll_home", "protection": "0", "onboot": "0", "citype": "nocloud",
		"smbios1": "uuid=" + machineUUID("home", "mtim7pc0-0") + ",manufacturer=QUNNRQ==,base64=1",
	}
	with := func(keys ...string) map[string]string {
		all := map[string]string{}
		for k, v := range base {
			all[k] = v
		}
		for i := 0; i < len(keys); i += 2 {
			if all[keys[i]] = keys[i+1]; keys[i+1] == "" {
				delete(all, keys[i])
			}
		}
		return all
	}
	discPool := func(p *settings.Pool) {
		p.Join.UserDataFile, p.Join.UserDataTemplate, p.ISO.Storage = "user-data", "#cloud-config\n", "local"
	}
	iso := "local:iso/plimsoll-home--web-mtim7pc0-0.iso,media=cdrom"
	for _, c := range []struct {
		name   string
		change func(*settings.Pool, *pveapi.VMConfig)
		want   map[string]string
		remove []string
	}{
		{"a plain pool", func(*settings.Pool, *pveapi.VMConfig) {}, base, nil},
		{"a bridge, a VLAN and the firewall", func(p *settings.Pool, _ *pveapi.VMConfig) { p.Bridge, p.VLAN, p.Firewall = "vmbr1", 42, true },
			with("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr1,firewall=1,tag=42"), nil},
		{"the model in long form", func(_ *settings.Pool, c *pveapi.VMConfig) {
			c.Net["net0"] = "model=e1000,macaddr=BC:24:11:00:00:02,bridge=vmbr9"
		},
			with("net0", "e1000=BC:24:11:00:00:02,bridge=vmbr0"), nil},
		{"the template's own options", func(p *settings.Pool, c *pveapi.VMConfig) {
			p.VLAN = 42
			c.Net["net0"] = "virtio=BC:24:11:00:00:01,bridge=vmbr9,link_down=1,mtu=1,queues=4,rate=12.5,tag=7,trunks=5;6"
		}, with("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=42,mtu=1,queues=4,rate=12.5,trunks=5;6"), nil},
		{"a template without interface", func(_ *settings.Pool, c *pveapi.VMConfig) { c.Net = nil }, with("net0", "virtio,bridge=vmbr0"), nil},
		{"tags", func(p *settings.Pool, _ *pveapi.VMConfig) { p.Tags = []string{"k8s", "web"} }, with("tags", "plimsoll_home;k8s;web"), nil},
		{"hardware", func(p *settings.Pool, _ *pveapi.VMConfig) {
			p.Guest = settings.Guest{CPUType: "host", Machine: "q35", NUMA: true, Agent: true, NoBalloon: true, Options: map[string]string{"rng0": "source=/dev/urandom"}}
		}, with("cpu", "host", "machine", "q35", "numa", "1", "agent", "1", "balloon", "0", "rng0", "source=/dev/urandom"), nil},
		{"what the template has and its clones must not", func(_ *settings.Pool, c *pveapi.VMConfig) {
			c.Raw["hookscript"], c.Raw["vcpus"] = "local:snippets/x.pl", "1"
		}, base, []string{"hookscript", "vcpus"}},
		{"no UUID yet", func(_ *settings.Pool, c *pveapi.VMConfig) { delete(c.Raw, "smbios1") }, with("smbios1", "uuid="+machineUUID("home", "mtim7pc0-0")), nil},
		{"Proxmox VE's own keys", func(p *settings.Pool, _ *pveapi.VMConfig) { p.Join.User = "ops" }, with("ciuser", "ops"), nil},
		{"an address of its own", func(p *settings.Pool, _ *pveapi.VMConfig) {
			p.Network = settings.Addressing{First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.0.1"), Nameservers: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}
		}, with("ipconfig0", "ip=10.0.0.51/24,gw=10.0.0.1", "nameserver", "10.0.0.2"), nil},
		{"an address of its own in IPv6", func(p *settings.Pool, _ *pveapi.VMConfig) {
			p.Network = settings.Addressing{First: netip.MustParsePrefix("fd00::50/64"), Gateway: netip.MustParseAddr("fd00::1")}
		}, with("ipconfig0", "ip6=fd00::51/64,gw6=fd00::1"), nil},
		{"a disc in place of the cloud-init drive", func(p *settings.Pool, _ *pveapi.VMConfig) { discPool(p) }, with("citype", "", "ide2", iso), nil},
		{"a disc in a drive that is free", func(p *settings.Pool, c *pveapi.VMConfig) {
			discPool(p)
			c.Disks["ide2"] = pveapi.Volume{ID: "local:iso/tools.iso", Storage: "local", Name: "iso/tools.iso", Media: "cdrom"}
		}, with("citype", "", "ide0", iso), nil},
		{"a disc in a drive that is empty", func(p *settings.Pool, c *pveapi.VMConfig) {
			discPool(p)
			c.Disks["ide2"] = pveapi.Volume{ID: "none", Name: "none", Media: "cdrom"}
		}, with("citype", "", "ide2", iso), nil},
		{"a disc beside a cloud-init drive on another bus", func(p *settings.Pool, c *pveapi.VMConfig) {
			discPool(p)
			c.Disks["virtio1"] = c.Disks["ide2"]
			delete(c.Disks, "ide2")
		}, with("citype", "", "ide2", iso), []string{"virtio1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, remove, err := making{aWork(c.change)}.settings()
			if err != nil {
				t.Fatal(err)
			}
			notes := values["description"]
			delete(values, "description")
			if diff := cmp.Diff(c.want, values); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.remove, remove); diff != "" {
				t.Error(diff)
			}
			for _, part := range []string{"PodsPending: 3 pods wait", "`home`", "units/h", "vmid=1001", "stage=ready"} {
				if !strings.Contains(notes, part) {
					t.Errorf("notes do not hold %q:\n%s", part, notes)
				}
			}
		})
	}
}

func TestNoDriveLeftForTheDisc(t *testing.T) {
	w := aWork(func(p *settings.Pool, c *pveapi.VMConfig) {
		p.Join.UserDataFile, p.Join.UserDataTemplate, p.ISO.Storage = "user-data", "x", "local"
		for _, key := range DiscDrives {
			c.Disks[key] = pveapi.Volume{ID: "lvm:" + key, Storage: "lvm", Name: key}
		}
	})
	if _, _, err := (making{w}).settings(); err == nil {
		t.Error("a disk was thrown out for the disc")
	}
}

func TestBootDisk(t *testing.T) {
	disk := pveapi.Volume{Storage: "lvm", Name: "disk"}
	cd := pveapi.Volume{Storage: "local", Name: "iso/x.iso", Media: "cdrom"}
	for _, c := range []struct {
		boot  string
		disks map[string]pveapi.Volume
		want  string
	}{
		{"order=virtio1;scsi0", map[string]pveapi.Volume{"scsi0": disk, "virtio1": disk}, "virtio1"},
		{"order=ide2;scsi1;net0", map[string]pveapi.Volume{"ide2": cd, "scsi1": disk}, "scsi1"},
		{"", map[string]pveapi.Volume{"sata0": disk}, "sata0"},
		{"order=net0", map[string]pveapi.Volume{"scsi0": disk}, "scsi0"},
		{"order=net0", map[string]pveapi.Volume{"ide2": cd}, ""},
	} {
		config := pveapi.VMConfig{Raw: map[string]string{"boot": c.boot}, Disks: c.disks}
		if got := config.BootDisk(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.boot, got, c.want)
		}
	}
}

func TestMachinesAreToldOfTheirLabels(t *testing.T) {
	w := aWork(func(p *settings.Pool, _ *pveapi.VMConfig) {
		p.Labels, p.Zone = map[string]string{"tier": "front"}, "z1"
		p.Taints = []settings.Taint{{Key: "dedicated", Effect: "NoSchedule"}}
	})
	m := w.planned()
	want := map[string]string{
		"tier": "front", "plimsoll.dev/pool": "web", "node.kubernetes.io/instance-type": "small",
		"topology.kubernetes.io/region": "home", "topology.kubernetes.io/zone": "z1",
	}
	if diff := cmp.Diff(want, m.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]firstboot.Taint{{Key: "dedicated", Effect: "NoSchedule"}}, m.Taints); diff != "" {
		t.Error(diff)
	}
	if id, err := w.p.Join.ProviderID.Of(m); err != nil || id != "proxmox://home/1001" {
		t.Errorf("got %s, %v", id, err)
	}
}
