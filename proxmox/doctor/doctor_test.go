package doctor_test

import (
	"bytes"
	"crypto/tls"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out as what is expected; read the difference before keeping it")

// clinic is an emulated cluster that is served over HTTPS, set up for a site, and the doctor's.
type clinic struct {
	t      testing.TB
	c      *pvesim.Cluster
	shell  *pvesim.Console
	site   *settings.Site
	token  string
	now    func() time.Time
	known  []doctor.Check
	uid    string            // of the Kubernetes cluster
	prints map[string]string // fingerprints that were shown, by host
}

func newClinic(t testing.TB, changes ...func(*pvesim.Config)) *clinic {
	c := furnished(t, "9.2.11", changes...)
	k := &clinic{t: t, c: c, shell: c.Console(), site: household(), now: c.Now, prints: map[string]string{}}
	k.token = setUp(t, k.shell, k.site, doctor.Release9, nil)
	k.site.Endpoints = []string{k.serve("pve1"), k.serve("pve2")}
	k.site.Fingerprints = []string{k.prints["pve1"], k.prints["pve2"]}
	return k
}

// serve serves a host over HTTPS, and returns its address.
func (k *clinic) serve(host string) string {
	k.t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(k.t)
	k.t.Cleanup(func() { _ = l.Close() })
	certificate, shown, err := pvesim.SelfSigned("127.0.0.1")
	if err != nil {
		k.t.Fatal(err)
	}
	k.prints[host] = shown
	go func() { _ = k.c.Serve(l, host, &tls.Config{Certificates: []tls.Certificate{certificate}}) }()
	return "https://" + l.Addr().String()
}

// fault puts a fault into the cluster.
func (k *clinic) fault(line string) {
	k.t.Helper()
	faults := must.Get(pvesim.ParseFaults(line))(k.t)
	for _, f := range faults {
		must.Do(k.t, k.c.Inject(f))
	}
}

// run runs a command as root.
func (k *clinic) run(line string) {
	k.t.Helper()
	must.Do(k.t, k.shell.Run(line))
}

// use lets the token use a network.
func (k *clinic) use(path string) {
	k.t.Helper()
	k.run("pveum acl modify " + path + " --users plimsoll@pve --tokens 'plimsoll@pve!main' --roles PlimsollNetwork --propagate 0")
}

func (k *clinic) examine() *doctor.Diagnosis {
	k.t.Helper()
	before := len(k.c.Calls())
	d := doctor.Doctor{Site: k.site, Known: k.known, Cluster: k.uid, Connection: pveapi.Connection{
		Endpoints: k.site.Endpoints, Fingerprint: strings.Join(k.site.Fingerprints, ","), Insecure: k.site.Insecure,
		Token: func() (string, error) { return k.token, nil }, Now: k.now, Timeout: 5 * time.Second,
	}}
	found := must.Get(d.Examine(k.t.Context()))(k.t)
	for _, call := range k.c.Calls()[before:] {
		if call.Method != http.MethodGet {
			k.t.Errorf("the doctor has done %s %s", call.Method, call.Path)
		}
	}
	seen := map[string]bool{}
	for i := range found.Checks {
		check := &found.Checks[i]
		key := check.ID + " " + check.Subject
		if seen[key] || check.Text == "" || strings.Contains(check.Text, "\n") || !slices.Contains(doctor.Groups, check.Group()) {
			k.t.Errorf("the check is there twice, or makes no sense: %+v", check)
		}
		if seen[key] = true; check.Status == doctor.Fail && len(check.Mend) == 0 {
			k.t.Errorf("nothing mends it: %+v", check)
		}
	}
	return found
}

// plain replaces what differs from run to run.
func (k *clinic) plain(text string) string {
	pairs := []string{k.token, "TOKEN"}
	for i, e := range k.site.Endpoints {
		pairs = append(pairs, e, fmt.Sprintf("ENDPOINT%d", i+1), strings.TrimPrefix(e, "https://"), fmt.Sprintf("ADDRESS%d", i+1))
	}
	for host, shown := range k.prints {
		pairs = append(pairs, shown, "PRINT-OF-"+host)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// complaints are the checks that are not well, as lines, with what fixes them.
func (k *clinic) complaints(d *doctor.Diagnosis, statuses ...doctor.Status) string {
	var b strings.Builder
	for _, c := range d.Checks {
		if !slices.Contains(statuses, c.Status) {
			continue
		}
		fmt.Fprintf(&b, "%s %s: %s\n", c.Status, c.ID, k.plain(c.Text))
		for _, m := range c.Mend {
			fmt.Fprintf(&b, "  > %s\n", k.plain(m))
		}
	}
	return b.String()
}

// fix runs what fixes the complaints, as far as it is pveum and pvesh.
func (k *clinic) fix(d *doctor.Diagnosis) {
	k.t.Helper()
	for _, c := range d.Checks {
		for _, m := range c.Mend {
			if !strings.HasPrefix(m, "pveum ") && !strings.HasPrefix(m, "pvesh ") || m == "pveum acl list" {
				continue
			}
			if err := k.shell.Run(m); err != nil {
				k.t.Errorf("%s: %v", m, err)
			}
		}
	}
}

func TestDoctorFindsNothingWhereNothingIsWrong(t *testing.T) {
	k := newClinic(t)
	found := k.examine()
	if diff := cmp.Diff("", k.complaints(found, doctor.Warn, doctor.Fail, doctor.Skipped)); diff != "" || !found.Reached {
		t.Error(diff)
	}
	for _, g := range doctor.Groups {
		if !slices.ContainsFunc(found.Checks, func(c doctor.Check) bool { return c.Group() == g }) {
			t.Errorf("nothing was looked at in %s", g)
		}
	}
}

// disease is something that is wrong with a cluster or a site.
type disease struct {
	name    string
	cluster func(c *pvesim.Config) // before it is made
	infect  func(k *clinic)        // after it was set up
	healed  bool                   // whether running the commands that fix it leaves nothing
	says    []string               // what must be among the complaints
}

const wrongPrint = "00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF"

var diseases = []disease{
	// The six that must be named.
	{name: "a privilege is revoked", healed: true, says: []string{`fail rights.path: /pool/k8s: the token lacks VM.Config.CPU`, `pveum role modify PlimsollMachines --privs Pool.Audit,VM.Allocate,VM.Audit,VM.Config.CPU,`}, infect: func(k *clinic) {
		k.run("pveum role modify PlimsollMachines --privs Pool.Audit,VM.Allocate,VM.Audit,VM.Config.HWType,VM.Config.Memory,VM.Config.Network,VM.Config.Options,VM.PowerMgmt")
	}},
	{name: "a storage is full", says: []string{`fail storage.room: ceph is full`, `> make room on ceph, or name another storage`}, infect: func(k *clinic) { k.fault("full storage ceph") }},
	{name: "a template of a pool that is described elsewhere is missing", says: []string{`which VMPool web: spec.template names`, `, and VMPool web: spec.template: the VMID of a template`}, infect: func(k *clinic) {
		k.site.Pools[0].Template.VMID, k.site.Pools[0].At = 9100, "VMPool web: spec"
	}},
	{name: "a template is missing", says: []string{`fail templates.there: there is no VM 9100, which pools[0].template names`, `pools[0].template: the VMID of a template`}, infect: func(k *clinic) { k.site.Pools[0].Template.VMID = 9100 }},
	{name: "a fingerprint is wrong", says: []string{`fail connection.certificate: ENDPOINT2 is not trusted: it shows the fingerprint PRINT-OF-pve2`, `> fingerprints: ["PRINT-OF-pve1", "00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF", "PRINT-OF-pve2"]`}, infect: func(k *clinic) { k.site.Fingerprints[1] = wrongPrint }},
	{name: "a token has expired", says: []string{`fail connection.token: ENDPOINT1 does not accept the token plimsoll@pve!main`, `> pveum user token modify plimsoll@pve main --expire 0`}, infect: func(k *clinic) { k.c.Expire(k.token) }},
	{name: "a role names VM.Monitor", healed: true, says: []string{`fail rights.monitor: role PlimsollGuestAgent was made for Proxmox VE 8: VM.Monitor`, `> pveum role modify PlimsollGuestAgent --privs VM.GuestAgent.Audit`}, infect: func(k *clinic) { k.c.AddRole("PlimsollGuestAgent", "VM.Monitor") }},

	// Connection.
	{name: "a role lost VM.Monitor in the upgrade", healed: true, infect: func(k *clinic) { k.c.AddRole("PlimsollGuestAgent") }},
	{name: "another role names VM.Monitor", infect: func(k *clinic) { k.c.AddRole("Terraform", "VM.Monitor", "VM.Audit") }},
	{name: "all fingerprints are wrong", infect: func(k *clinic) { k.site.Fingerprints = []string{wrongPrint} }},
	{name: "a token is another's", infect: func(k *clinic) { k.token = "plimsoll@pve!main=00000000-0000-0000-0000-000000000000" }},
	{name: "no endpoint answers", infect: func(k *clinic) { k.site.Endpoints = []string{"https://127.0.0.1:1"} }},
	{name: "one endpoint does not answer", infect: func(k *clinic) { k.site.Endpoints[0] = "https://127.0.0.1:1" }},
	{name: "anybody is trusted", infect: func(k *clinic) { k.site.Insecure, k.site.Fingerprints = true, nil }},
	{name: "the token file is open", infect: func(k *clinic) {
		k.known = []doctor.Check{{ID: "connection.tokenFile", Subject: "token", Status: doctor.Warn, Text: "everybody can read token", Mend: []string{"chmod 600 token"}}}
	}},

	// Cluster.
	{name: "a host is down", infect: func(k *clinic) { k.fault("host pve3 down"); k.c.Advance(time.Minute) }},
	{name: "there is no quorum", infect: func(k *clinic) { k.fault("no quorum") }},
	{name: "a host is in maintenance", infect: func(k *clinic) { k.fault("host pve2 maintenance") }},
	{name: "hosts are named that are not there", infect: func(k *clinic) {
		k.site.Pools[0].Placement = placement.Rules{Hosts: []string{"pve1", "pve4"}, Maintenance: []string{"pve5"}}
	}},
	{name: "only a host is named that is not there", infect: func(k *clinic) {
		k.site.Pools[0].Placement.Hosts = []string{"pve7"}
	}, says: []string{"skipped storage.there: ", "skipped network.bridge: ", "skipped pools.shapes: "}},
	{name: "clocks differ", infect: func(k *clinic) { k.now = func() time.Time { return k.c.Now().Add(time.Minute) } }},
	{name: "clocks differ wildly", infect: func(k *clinic) { k.now = func() time.Time { return k.c.Now().Add(-time.Hour) } }},

	// Rights.
	{name: "the token was given nothing", healed: true, infect: func(k *clinic) {
		for _, path := range []string{"/", "/nodes", "/pool/k8s", "/vms/9000", "/storage/ceph", "/storage/discs", "/sdn/zones/localnetwork/vmbr0", "/sdn/zones/localnetwork/vmbr1"} {
			for _, role := range []string{"Audit", "Machines", "Disks", "GuestAgent", "FirstBoot", "Templates", "Storage", "ISO", "Network"} {
				k.c.Revoke(path, "Plimsoll"+role, "plimsoll@pve!main")
			}
		}
	}},
	{name: "one host has rules of its own", healed: true, infect: func(k *clinic) {
		k.c.AddRole("Other", "Sys.Console")
		k.c.Grant("/nodes/pve2", "Other", "plimsoll@pve!main")
	}},
	{name: "access is taken away below", infect: func(k *clinic) {
		k.c.Revoke("/storage/discs", "PlimsollISO", "plimsoll@pve!main")
		k.c.Grant("/storage", "PlimsollISO", "plimsoll@pve!main")
		k.c.Grant("/storage/discs", "NoAccess", "plimsoll@pve!main")
	}},
	{name: "the token may do too much", infect: func(k *clinic) {
		k.c.Grant("/", "PVEVMUser", "plimsoll@pve")
		k.c.Grant("/", "PVEVMUser", "plimsoll@pve!main")
	}},
	{name: "tags are not free", healed: true, infect: func(k *clinic) {
		k.run("pvesh set /cluster/options --user-tag-access 'user-allow=list,user-allow-list=web;prod'")
	}},

	// Templates.
	{name: "a VM is not a template", infect: func(k *clinic) {
		k.run("pvesh create /nodes/pve1/qemu --vmid 9001 --name raw --pool k8s")
		k.site.Pools[0].Template.VMID = 9001
	}},
	{name: "a template is larger than a shape", infect: func(k *clinic) { k.site.Pools[0].Shapes[0].Disk = 5 * pricing.GiB }},
	{name: "a template is locked", cluster: func(c *pvesim.Config) { c.VMs[0].Config["lock"] = "backup" }},
	{name: "a template has a hookscript", cluster: func(c *pvesim.Config) { c.VMs[0].Config["hookscript"] = "local:snippets/hook.pl" }},
	{name: "a template has no cloud-init drive", cluster: func(c *pvesim.Config) { delete(c.VMs[0].Config, "ide2") }, infect: func(k *clinic) {
		k.site.Pools[0].ISO.Storage = ""
		k.site.Pools[0].Join = firstboot.Profile{Kind: firstboot.Custom, ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeK3s}}
	}},
	{name: "a template does not say that it has an agent", cluster: func(c *pvesim.Config) { delete(c.VMs[0].Config, "agent") }},
	{name: "a template names no type of CPU", cluster: func(c *pvesim.Config) { delete(c.VMs[0].Config, "cpu") },
		says: []string{"warn templates.cpu: machines of pool web get the CPU type kvm64", "> pools[0].guest.cpuType: x86-64-v2-AES"}},
	{name: "a template names an old type of CPU", cluster: func(c *pvesim.Config) { c.VMs[0].Config["cpu"] = "cputype=qemu64,flags=+aes" },
		says: []string{"warn templates.cpu: machines of pool web get the CPU type qemu64"}},
	{name: "a template is on local storage", cluster: func(c *pvesim.Config) {
		c.VMs[0].Storage, c.VMs[0].Config["ide2"] = "local-lvm", "local-lvm:cloudinit"
	}, healed: false, infect: func(k *clinic) {
		k.c.Grant("/storage/local-lvm", "PlimsollStorage", "plimsoll@pve")
		k.c.Grant("/storage/local-lvm", "PlimsollStorage", "plimsoll@pve!main")
	}},
	{name: "a template has a disc of one host in a drive", cluster: func(c *pvesim.Config) {
		c.Storages = append(c.Storages, pvesim.Storage{Name: "local", Type: "dir", Content: []string{"iso"}, Total: 1 << 30})
		c.VMs[0].Config["ide0"] = "local:iso/debian.iso,media=cdrom"
	}, says: []string{"warn templates.reach: pve2 can never carry machines of pool web: template 9000 is on pve1, with a disc in its drive ide0 whose storage local is not shared",
		"> qm set 9000 --ide0 none,media=cdrom (on pve1)"}},
	{name: "a template has a disc that a host has not", cluster: func(c *pvesim.Config) {
		c.Storages = append(c.Storages, pvesim.Storage{Name: "nfs", Type: "nfs", Shared: true, Hosts: []string{"pve1", "pve2"}, Content: []string{"iso"}, Total: 1 << 30})
		c.VMs[0].Config["ide0"] = "nfs:iso/debian.iso,media=cdrom"
	}, infect: func(k *clinic) { k.grantStorage("nfs") },
		says: []string{"warn templates.reach: pve3 can never carry machines of pool web: template 9000 is on pve1, with a disc in its drive ide0 whose storage nfs is not on pve3"}},
	{name: "templates are on two hosts of three", cluster: func(c *pvesim.Config) {
		c.VMs[0].Storage, c.VMs[0].Config["ide2"] = "local-lvm", "local-lvm:cloudinit"
		c.VMs = append(c.VMs, pvesim.VM{ID: 9003, Host: "pve3", Template: true, Storage: "local-lvm", Disk: 10 << 30, Config: map[string]string{"agent": "1", "cpu": "host"}})
	}, infect: func(k *clinic) {
		k.site.Pools[0].Template = placement.Template{ByHost: map[string]int{"pve1": 9000, "pve3": 9003}}
		for _, who := range []string{"plimsoll@pve", "plimsoll@pve!main"} {
			k.c.Grant("/storage/local-lvm", "PlimsollStorage", who)
			k.c.Grant("/vms/9003", "PlimsollTemplates", who)
		}
	}},
	{name: "a template is on a host that is offline", cluster: func(c *pvesim.Config) {
		c.VMs[0].Storage, c.VMs[0].Config["ide2"] = "local-lvm", "local-lvm:cloudinit"
		c.VMs = append(c.VMs, pvesim.VM{ID: 9003, Host: "pve3", Template: true, Storage: "local-lvm", Disk: 10 << 30, Config: map[string]string{"agent": "1", "cpu": "host"}})
	}, infect: func(k *clinic) {
		k.site.Pools[0].Template = placement.Template{ByHost: map[string]int{"pve1": 9000, "pve3": 9003}}
		for _, who := range []string{"plimsoll@pve", "plimsoll@pve!main"} {
			k.c.Grant("/storage/local-lvm", "PlimsollStorage", who)
			k.c.Grant("/vms/9003", "PlimsollTemplates", who)
		}
		k.fault("host pve3 down")
		k.c.Advance(time.Minute)
	}, says: []string{"skipped templates.there: not looked at: it is on pve3, which is offline"}},

	// Storage.
	{name: "a storage is not on a host", cluster: func(c *pvesim.Config) { c.Storages[2].Hosts = []string{"pve1", "pve2"} }},
	{name: "a storage is nowhere", infect: func(k *clinic) {
		k.site.Pools[0].ISO.Storage = "nope"
		k.grantStorage("nope")
	}, says: []string{"fail storage.there: no host has a storage nope", "> pools[0].iso.storage: discs\n"}},
	{name: "a storage is nowhere and a template is missing", infect: func(k *clinic) {
		k.site.Pools[0].Template.VMID, k.site.Pools[0].Storage, k.site.Pools[0].ISO.Storage = 9100, "nothing", "nope"
		k.site.Pools[0].Clone = placement.Full
		k.grantStorage("nope")
		k.grantStorage("nothing")
	}, says: []string{"fail templates.there: ", "fail storage.there: no host has a storage nope", "fail storage.there: no host has a storage nothing"}},
	{name: "a storage takes no discs", cluster: func(c *pvesim.Config) { c.Storages[2].Content = []string{"images"} }},
	{name: "a storage has no room for what is copied", cluster: func(c *pvesim.Config) { c.Storages[0].Total, c.Storages[0].Used = 100<<30, 60<<30 }, infect: func(k *clinic) {
		k.site.Pools[0].Clone = placement.Full
		k.site.Pools[0].Placement.StorageReserve = 20 * pricing.GiB
	}},
	{name: "a storage has no room to grow", cluster: func(c *pvesim.Config) { c.Storages[0].Total, c.Storages[0].Used = 100<<30, 80<<30 }},

	{name: "a storage for discs is full", infect: func(k *clinic) { k.fault("full storage discs on=pve2") }},

	// Network.
	{name: "a bridge does not know VLANs", infect: func(k *clinic) {
		k.site.Pools[0].VLAN = 30
		for _, who := range []string{"plimsoll@pve", "plimsoll@pve!main"} {
			k.c.Grant("/sdn/zones/localnetwork/"+k.site.Pools[0].Bridge+"/30", "PlimsollNetwork", who)
		}
	}},
	{name: "a VNet was taken for a bridge", cluster: onVNets(), infect: func(k *clinic) {
		k.site.Pools[0].Bridge = "blue"
		k.use("/sdn/zones/localnetwork/blue")
	}, says: []string{`warn network.bridge: pve1 has no bridge blue; the token sees`, `> if blue is a VNet: SDN.Use on /sdn/zones/ZONE/blue`}},
	{name: "a VNet is neither seen nor granted", cluster: onVNets(), infect: func(k *clinic) { k.site.Pools[0].Bridge = "blue" }},
	{name: "a template's VNet is neither seen nor granted", cluster: onVNets("bridge=red,tag=5")},
	{name: "a VNet is seen, and not granted", healed: true, cluster: onVNets("bridge=red,tag=5"), infect: func(k *clinic) {
		k.site.Pools[0].Bridge = "blue"
		k.run("pveum role add Looks --privs SDN.Audit")
		for _, who := range []string{"plimsoll@pve", "plimsoll@pve!main"} {
			k.c.Grant("/sdn/zones/tenants", "Looks", who)
		}
	}, says: []string{
		`fail rights.path: /sdn/zones/tenants/blue: the token lacks SDN.Use to attach machines to the network (pools[0].bridge)`,
		`fail rights.path: /sdn/zones/tenants/red/5: the token lacks SDN.Use to clone the template 9000`,
	}},
	{name: "a card has a great many trunks", healed: true, cluster: onVNets("bridge=vmbr0,trunks=2-4094"), infect: func(k *clinic) {
		k.site.Pools[0].Bridge = "red"
		k.use("/sdn/zones/tenants/red/2")
	}},
	{name: "a bridge with trunks does not know VLANs", cluster: onVNets("bridge=vmbr0,trunks=7"), infect: func(k *clinic) {
		k.use("/sdn/zones/localnetwork/vmbr1/7")
	}, says: []string{"bridge vmbr1 does not know VLANs, and pve1 starts no machine that has trunks there"}},
	{name: "a VNet is not on all hosts", cluster: func(c *pvesim.Config) {
		onVNets("bridge=vmbr0", "bridge=blue")(c)
		c.Zones[0].Hosts = []string{"pve1", "pve2"}
	}, infect: func(k *clinic) { k.use("/sdn/zones/tenants/blue") }},
	{name: "a VNet does not know VLANs", cluster: onVNets(), infect: func(k *clinic) {
		k.site.Pools[0].Bridge, k.site.Pools[0].VLAN = "blue", 30
		k.use("/sdn/zones/tenants/blue/30")
	}},
	{name: "VNets cannot be listed", infect: func(k *clinic) { k.fault("answer 500 GET /cluster/sdn/vnets") }},
	{name: "a bridge is missing", cluster: func(c *pvesim.Config) { c.Hosts[2].Bridges = []string{"vmbr0"} }},

	// Pools.
	{name: "the resource pool is gone", healed: true, infect: func(k *clinic) { k.run("pvesh delete /pools/k8s") }},
	{name: "our own machines are not shown", cluster: func(c *pvesim.Config) {
		c.VMs = append(c.VMs, pvesim.VM{ID: 5003, Host: "pve2", Config: map[string]string{"tags": "plimsoll_home"}})
	}, infect: func(k *clinic) {
		k.run("pvesh set /pools/k8s --vms 5003")
		k.run("pveum role modify PlimsollMachines --privs Pool.Audit,VM.Allocate,VM.Config.CPU,VM.Config.HWType,VM.Config.Memory,VM.Config.Network,VM.Config.Options,VM.PowerMgmt")
	}},
	{name: "strangers have VMIDs", cluster: func(c *pvesim.Config) {
		c.VMs = append(c.VMs, pvesim.VM{ID: 5003, Host: "pve2"}, pvesim.VM{ID: 5007, Host: "pve3"})
	}},
	{name: "strangers have too many VMIDs", cluster: func(c *pvesim.Config) {
		c.VMs = append(c.VMs, pvesim.VM{ID: 5001, Host: "pve2"})
	}, infect: func(k *clinic) { k.site.Pools[0].VMIDs.Last = 5003 }},
	{name: "few VMIDs are left to rest", infect: func(k *clinic) { k.site.Pools[0].VMIDs.Last = 5005 }},

	{name: "a shape fits no host", infect: func(k *clinic) {
		k.site.Pools[0].Shapes = append(k.site.Pools[0].Shapes, pricing.Shape{Name: "huge", CPU: 200 * pricing.Core, Memory: 4000 * pricing.GiB})
	}, says: []string{"fail pools.shapes: shape huge of pool web, "}},
	{name: "a shape has more processors than a host that is promised twice", infect: func(k *clinic) {
		k.site.Pools[0].Placement.CPURatio = 2
		k.site.Pools[0].Shapes[0].CPU = 17 * pricing.Core
	}, says: []string{"fail pools.shapes: shape small of pool web, 17 processors and 4.0 GiB, fits no host, however empty: pve1 has 16 processors and ", "and one machine 16 processors"}},
	{name: "hosts keep all their memory", infect: func(k *clinic) {
		k.site.Pools[0].Placement.MemoryReserve = 900 * pricing.GiB
	}, says: []string{"fail pools.shapes: shape small of pool web, ", "fail pools.hosts: no host can carry machines of pool web"}},
	{name: "a shape fits no host and a template is missing", infect: func(k *clinic) {
		k.site.Pools[0].Shapes[0].CPU, k.site.Pools[0].Template.VMID = 200*pricing.Core, 9100
	}, says: []string{"fail pools.shapes: shape small of pool web, "}},
	{name: "others have been promised all hosts", cluster: func(c *pvesim.Config) {
		for i, host := range []string{"pve1", "pve2", "pve3"} {
			c.VMs = append(c.VMs, pvesim.VM{ID: 200 + i, Host: host, Config: map[string]string{"cores": "15", "memory": "8192"}})
		}
	}, infect: func(k *clinic) {
		for id := range 3 {
			for _, who := range []string{"plimsoll@pve", "plimsoll@pve!main"} {
				k.c.Grant(fmt.Sprintf("/vms/%d", 200+id), "PlimsollTemplates", who)
			}
		}
	}, says: []string{"warn pools.shapes: shape small of pool web, ", "fail pools.hosts: no host can carry machines of pool web"}},

	// Machines.
	{name: "a machine looks like ours", cluster: func(c *pvesim.Config) {
		c.VMs = append(c.VMs, pvesim.VM{ID: 5002, Host: "pve2", Config: map[string]string{"name": "web-old", "tags": "plimsoll_home"}})
	}, infect: func(k *clinic) { k.run("pvesh set /pools/k8s --vms 5002") }},
	{name: "a machine is locked", cluster: func(c *pvesim.Config) {
		c.VMs = append(c.VMs, pvesim.VM{ID: 5002, Host: "pve2", Config: map[string]string{"tags": "plimsoll_home", "lock": "clone"}})
	}, infect: func(k *clinic) { k.run("pvesh set /pools/k8s --vms 5002") }},
	{name: "a disc is left over", infect: func(k *clinic) {
		client := connect(k.t, k.c, k.token)
		upid, err := client.Upload(k.t.Context(), "pve1", "discs", "plimsoll-home--web-gone.iso", make([]byte, 4096))
		if err == nil {
			_, err = client.WaitTask(k.t.Context(), upid)
		}
		if err != nil {
			k.t.Fatal(err)
		}
	}},
}

// grantStorage lets the token use a storage, whether or not there is one of that name.
func (k *clinic) grantStorage(name string) {
	for _, who := range []string{"plimsoll@pve", "plimsoll@pve!main"} {
		k.c.Grant("/storage/"+name, "PlimsollStorage", who)
		k.c.Grant("/storage/"+name, "PlimsollISO", who)
	}
}

const complaintsFile = "testdata/doctor.txt"

// readComplaints reads what the doctor says of each disease.
func readComplaints(t *testing.T) map[string]string {
	data := must.Get(os.ReadFile(complaintsFile))(t)
	all := map[string]string{}
	for _, part := range strings.Split(string(data), "## ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		all[name] = strings.TrimSpace(text)
	}
	return all
}

func TestDoctorNamesWhatIsWrongAndWhatMendsIt(t *testing.T) {
	wanted := readComplaints(t)
	said := "What the doctor says of everything that the tests make wrong: all that is not well, and below it what fixes it.\n"
	for _, d := range diseases {
		t.Run(d.name, func(t *testing.T) {
			k := newClinic(t, func(c *pvesim.Config) {
				if d.cluster != nil {
					d.cluster(c)
				}
			})
			if d.infect != nil {
				d.infect(k)
			}
			found := k.examine()
			got := k.complaints(found, doctor.Warn, doctor.Fail, doctor.Skipped)
			said += "\n## " + d.name + "\n\n" + got
			if diff := cmp.Diff(wanted[d.name], strings.TrimSpace(got)); diff != "" && !*rewrite {
				t.Error(diff)
			}
			for _, s := range d.says {
				if !strings.Contains(got, s) {
					t.Errorf("it does not say %s", s)
				}
			}
			if d.healed {
				k.heal(found)
			}
		})
	}
	if *rewrite {
		must.Do(t, os.WriteFile(complaintsFile, []byte(said), 0o644))
	}
	if len(wanted) != len(diseases) && !*rewrite {
		t.Errorf("%s has %d diseases, and there are %d", complaintsFile, len(wanted), len(diseases))
	}
}

// heal does what the doctor says, twice, because some things are seen only with the rights that are
// missed at first. Then nothing must be wrong.
func (k *clinic) heal(found *doctor.Diagnosis) {
	k.t.Helper()
	k.fix(found)
	k.fix(k.examine())
	if left := k.complaints(k.examine(), doctor.Warn, doctor.Fail, doctor.Skipped); left != "" {
		k.t.Errorf("what fixes it does not:\n%s", left)
	}
}

// A cluster that was set up with Proxmox VE 8 and then upgraded.
func TestDoctorNamesWhatAnUpgradeTakesAway(t *testing.T) {
	before := furnished(t, "8.4.5")
	token := setUp(t, before.Console(), household(), doctor.Release8, nil)
	var saved bytes.Buffer
	must.Do(t, before.Save(&saved))
	upgraded := strings.Replace(saved.String(), `"8.4.5"`, `"9.2.11"`, 1)
	c := must.Get(pvesim.Load(strings.NewReader(upgraded), pvesim.Config{}))(t)
	t.Cleanup(c.Close)
	k := &clinic{t: t, c: c, shell: c.Console(), site: household(), token: token, now: c.Now, prints: map[string]string{}}
	k.site.Endpoints = []string{k.serve("pve1")}
	k.site.Fingerprints = []string{k.prints["pve1"]}
	found := k.examine()
	said := k.complaints(found, doctor.Warn, doctor.Fail, doctor.Skipped)
	for _, want := range []string{
		"fail rights.path: /pool/k8s: the token lacks VM.GuestAgent.Audit to ask guests for their addresses (pools[0].guest.agent)\n",
		"fail rights.monitor: role PlimsollGuestAgent was made for Proxmox VE 8: ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %s, but\n%s", want, said)
		}
	}
	k.heal(found)
}

// The doctor names other clusters' machines, and those that name none.
func TestDoctorNamesOtherClustersAndUnmarkedMachines(t *testing.T) {
	k := newClinic(t)
	nodes := &joined{}
	k.c.OnBoot(nodes.boot)
	root := connect(t, k.c, k.c.Token("root@pam", "eyes", false))
	fleet := must.Get(pve.NewFleet(pve.FleetConfig{
		Client: connect(t, k.c, k.token), Owner: k.site.Owner, Cluster: "home-cluster", Pools: k.site.Pools, Intents: &intents.Memory{}, Nodes: nodes.list,
		Now: k.c.Now, Rand: rand.New(rand.NewPCG(1, 2)), Parallel: 1,
	}))(t)
	l := &life{ctx: t.Context(), fleet: fleet, c: k.c, root: root}
	order := loop.Order{ID: "1", At: k.c.Now(), Action: nodescaler.Action{Kind: nodescaler.Buy, Order: "1", Pool: "web", Shape: &k.site.Pools[0].Shapes[0]}}
	must.Do(t, l.until("order", func() error { return fleet.Create(l.ctx, order) }))
	must.Do(t, l.until("it is made", func() error { return l.is("web-1", nodescaler.Joined, "") }))
	examine := func(uid string) string {
		k.uid = uid
		return k.complaints(k.examine(), doctor.Warn)
	}
	if text := examine("home-cluster"); strings.Contains(text, "machines.otherCluster") || strings.Contains(text, "machines.unmarked") {
		t.Error(text)
	}
	if text := examine("away-cluster"); !strings.Contains(text, "warn machines.otherCluster: this cluster is away-cluster") || !strings.Contains(text, "home-cluster has the VMs 50") {
		t.Error(text)
	}
	for _, v := range k.c.Inventory().VMs {
		if text, marked := strings.CutSuffix(v.Config["description"], " cluster=home-cluster`\n"); marked {
			must.Do(t, root.VM(v.Host, v.ID).SetConfig(t.Context(), map[string]string{"description": text + "`\n"}, nil, ""))
		}
	}
	if text := examine("home-cluster"); !strings.Contains(text, "warn machines.unmarked") || !strings.Contains(text, "adoptUnmarked: true") {
		t.Error(text)
	}
}
