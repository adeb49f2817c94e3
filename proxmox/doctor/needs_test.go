package doctor

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
	"pgregory.net/rapid"
)

// plainSite is a site with one pool and nothing that is not needed.
func plainSite() *settings.Site {
	return &settings.Site{
		Owner: "home", Endpoints: []string{"https://pve1:8006"}, TokenFile: "token",
		Pools: []settings.Pool{{
			Name: "workers", Shapes: []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB}},
			Max: 10, Join: firstboot.Profile{Kind: firstboot.Custom}, Template: placement.Template{VMID: 9000}, PVEPool: "k8s", VMIDs: placement.VMIDs{First: 5000, Last: 5099},
		}},
	}
}

// withDiscs makes a pool's machines join by a disc.
func withDiscs(p *settings.Pool, storage string) {
	p.Join = firstboot.Profile{Kind: firstboot.K3s}
	p.ISO.Storage = storage
}

// rights are the needs as lines: path, privileges.
func rights(needs []Need) []string {
	on := map[string][]string{}
	for _, n := range needs {
		path := n.Path
		if n.Below {
			path += "/*"
		}
		on[path] = union(on[path], n.Privileges)
	}
	var all []string
	for _, path := range slices.Sorted(maps.Keys(on)) {
		all = append(all, path+" "+strings.Join(on[path], " "))
	}
	return all
}

var localDisks = map[int]pveapi.Parts{9000: {Storages: []string{"local-lvm"}, Networks: []pveapi.Bridge{{Name: "vmbr0"}}}}

// Whoever follows the advice after a 403 changes the role that setup made.
func TestAdviceNamesTheRolesThatSetupMakes(t *testing.T) {
	site := plainSite()
	p := &site.Pools[0]
	withDiscs(p, "local")
	p.Shapes[0].Disk, p.Guest.Agent, p.Guest.Options = 20*pricing.GiB, true, map[string]string{"hostpci0": "mapping=gpu"}
	for _, n := range Needs(site, Release9, localDisks, nil) {
		for _, p := range n.Privileges {
			// A disc storage is seen by its own role.
			shared := n.Role == pveapi.RoleISO && p == "Datastore.Audit"
			if got := pveapi.RoleOf(p, n.Path); got != n.Role && !shared {
				t.Errorf("%s on %s: %s, want %s", p, n.Path, got, n.Role)
			}
		}
	}
}

func TestRightsAreThoseThatTheConfigurationAsksFor(t *testing.T) {
	const machines = "Pool.Audit VM.Allocate VM.Audit VM.Config.CPU VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options VM.PowerMgmt"
	plain := []string{
		"/ Sys.Audit",
		"/nodes/* Sys.Audit",
		"/pool/k8s " + machines,
		"/sdn/zones/localnetwork/vmbr0 SDN.Use",
		"/storage/local-lvm Datastore.AllocateSpace Datastore.Audit",
		"/vms/9000 VM.Audit VM.Clone",
	}
	// with is the plain site's rights, and more on a path.
	with := func(path, privileges string) []string {
		all := slices.Clone(plain)
		i := slices.IndexFunc(all, func(line string) bool { return strings.HasPrefix(line, path+" ") })
		if i < 0 {
			all = append(all, path+" "+privileges)
			slices.Sort(all)
			return all
		}
		words := strings.Fields(all[i])
		all[i] = path + " " + strings.Join(union(words[1:], strings.Fields(privileges)), " ")
		return all
	}
	without := func(all []string, path string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(line string) bool { return strings.HasPrefix(line, path+" ") })
	}
	for _, c := range []struct {
		name   string
		change func(p *settings.Pool)
		want   []string
	}{
		{"nothing more", func(*settings.Pool) {}, plain},
		{"a disk that grows", func(p *settings.Pool) { p.Shapes[0].Disk = 40 * pricing.GiB }, with("/pool/k8s", "VM.Config.Disk")},
		{"the boot order", func(p *settings.Pool) { p.Guest.Options = map[string]string{"boot": "order=scsi0"} }, with("/pool/k8s", "VM.Config.Disk")},
		{"a kind of display", func(p *settings.Pool) { p.Guest.Options = map[string]string{"vga": "serial0"} }, plain},
		{"the guest agent", func(p *settings.Pool) { p.Guest.Agent = true }, with("/pool/k8s", "VM.GuestAgent.Audit")},
		{"first-boot discs", func(p *settings.Pool) { withDiscs(p, "discs") },
			append(with("/pool/k8s", "VM.Config.CDROM VM.Config.Cloudinit")[:4:4], append([]string{"/storage/discs Datastore.Allocate Datastore.AllocateTemplate Datastore.Audit"}, plain[4:]...)...)},
		{"first-boot discs beside disks", func(p *settings.Pool) { withDiscs(p, "local-lvm") },
			append(with("/pool/k8s", "VM.Config.CDROM VM.Config.Cloudinit")[:4:4], "/storage/local-lvm Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit", plain[5])},
		{"full clones to another storage", func(p *settings.Pool) { p.Clone, p.Storage = placement.Full, "ceph" },
			append(plain[:4:4], "/storage/ceph Datastore.AllocateSpace Datastore.Audit", plain[5])},
		{"full clones to the template's storage", func(p *settings.Pool) { p.Clone = placement.Full }, plain},
		{"another bridge than the template's", func(p *settings.Pool) { p.Bridge = "vmbr1" }, with("/sdn/zones/localnetwork/vmbr1", "SDN.Use")},
		{"a VLAN", func(p *settings.Pool) { p.VLAN = 30 }, with("/sdn/zones/localnetwork/vmbr0/30", "SDN.Use")},
		{"a template on each host", func(p *settings.Pool) {
			p.Template = placement.Template{ByHost: map[string]int{"pve1": 9000, "pve2": 9001}}
		}, with("/vms/9001", "VM.Audit VM.Clone")},
		{"a GPU", func(p *settings.Pool) { p.Guest.Options = map[string]string{"hostpci0": "mapping=gpu,pcie=1"} }, with("/mapping/pci/gpu", "Mapping.Use")},
		{"a USB device", func(p *settings.Pool) { p.Guest.Options = map[string]string{"usb1": "mapping=key"} }, with("/mapping/usb/key", "Mapping.Use")},
		{"a folder of the host", func(p *settings.Pool) { p.Guest.Options = map[string]string{"virtiofs0": "images,cache=auto"} },
			append([]string{"/ Sys.Audit", "/mapping/dir/images Mapping.Use"}, with("/pool/k8s", "VM.Config.Disk")[1:]...)},
		{"the host's random numbers", func(p *settings.Pool) { p.Guest.Options = map[string]string{"rng0": "/dev/hwrng"} }, with("/mapping/hwrng", "Mapping.Use")},
		{"other random numbers", func(p *settings.Pool) { p.Guest.Options = map[string]string{"rng0": "source=/dev/urandom"} }, plain},
		{"a template whose parts are not known", func(p *settings.Pool) { p.Template.VMID = 9100 },
			append(without(without(plain, "/storage/local-lvm"), "/vms/9000"), "/vms/9100 VM.Audit VM.Clone")},
	} {
		site := plainSite()
		c.change(&site.Pools[0])
		if diff := cmp.Diff(c.want, rights(Needs(site, Release9, localDisks, nil))); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// Where the right to use a network hangs, and whether it is needed below that, too.
func TestRightsOnNetworksHangOnZonesNetworksAndVLANs(t *testing.T) {
	zones := pveapi.Zones{"red": "tenants", "vmbr7": "odd"}
	for _, c := range []struct {
		at   pveapi.Bridge
		want string
	}{
		{pveapi.Bridge{Name: "vmbr0"}, "/sdn/zones/localnetwork/vmbr0"},
		{pveapi.Bridge{Name: "vmbr0", VLAN: 30}, "/sdn/zones/localnetwork/vmbr0/30"},
		{pveapi.Bridge{Name: "blue"}, "/sdn/zones/localnetwork/blue"},
		{pveapi.Bridge{Name: "red"}, "/sdn/zones/tenants/red"},
		{pveapi.Bridge{Name: "vmbr7"}, "/sdn/zones/odd/vmbr7"},
		{pveapi.Bridge{Name: "red", VLAN: 5}, "/sdn/zones/tenants/red/5"},
		{pveapi.Bridge{Name: "red", Trunks: "7"}, "/sdn/zones/tenants/red /sdn/zones/tenants/red/7"},
		{pveapi.Bridge{Name: "red", VLAN: 5, Trunks: "7;9-11"}, "/sdn/zones/tenants/red/5 /sdn/zones/tenants/red/7 /sdn/zones/tenants/red/9 /sdn/zones/tenants/red/10 /sdn/zones/tenants/red/11"},
		{pveapi.Bridge{Name: "red", Trunks: "9-7"}, "/sdn/zones/tenants/red"},
		{pveapi.Bridge{Name: "red", VLAN: 5, Trunks: "2-4094"}, "/sdn/zones/tenants/red and below"},
		{pveapi.Bridge{Name: "vmbr0", Trunks: "1-32"}, "/sdn/zones/localnetwork/vmbr0 " + strings.Join(vlansOf("/sdn/zones/localnetwork/vmbr0/", 32), " ")},
		{pveapi.Bridge{Name: "vmbr0", Trunks: "1-33"}, "/sdn/zones/localnetwork/vmbr0 and below"},
	} {
		paths, below := bridgePaths(zones, c.at)
		got := strings.Join(paths, " ")
		if below {
			got += " and below"
		}
		if got != c.want {
			t.Errorf("%+v: got %s, want %s", c.at, got, c.want)
		}
	}
}

func vlansOf(path string, last int) []string {
	var all []string
	for vlan := range last {
		all = append(all, path+strconv.Itoa(vlan+1))
	}
	return all
}

func TestEachReleaseHasItsOwnRightOnGuestAgents(t *testing.T) {
	site := plainSite()
	site.Pools[0].Guest.Agent = true
	for release, want := range map[Release]string{Release8: "VM.Monitor", Release9: "VM.GuestAgent.Audit"} {
		other := map[Release]string{Release8: "VM.GuestAgent.", Release9: "VM.Monitor"}[release]
		all := strings.Join(rights(Needs(site, release, localDisks, nil)), "\n")
		if !strings.Contains(all, want) || strings.Contains(all, other) {
			t.Errorf("for Proxmox VE %d:\n%s", release, all)
		}
	}
}

func TestReleasesAreRead(t *testing.T) {
	for text, want := range map[string]Release{"8": Release8, "9": Release9, "9.2.11": Release9, "8.4-1": Release8} {
		if got, err := ParseRelease(text); err != nil || got != want {
			t.Errorf("%s is read as %d: %v", text, got, err)
		}
	}
	for _, text := range []string{"", "7", "7.4", "10", "nine", "-9", "v9"} {
		if got, err := ParseRelease(text); err == nil || err.Error() != fmt.Sprintf("must be 8 or 9, was %q", text) {
			t.Errorf("%q is read as %d: %v", text, got, err)
		}
	}
}

// anySite draws sites with all features that rights depend on.
func anySite(t *rapid.T) *settings.Site {
	site := &settings.Site{Owner: "home", TokenFile: "token"}
	for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
		p := plainSite().Pools[0]
		p.Name = fmt.Sprint("pool", i)
		p.PVEPool = rapid.SampledFrom([]string{"k8s", "other", "k8s/nested"}).Draw(t, "pvePool")
		p.Template = placement.Template{VMID: rapid.SampledFrom([]int{9000, 9001, 9002}).Draw(t, "template")}
		p.Bridge = rapid.SampledFrom([]string{"", "vmbr0", "vmbr1"}).Draw(t, "bridge")
		p.VLAN = rapid.IntRange(0, 2).Draw(t, "vlan")
		p.Guest.Agent = rapid.Bool().Draw(t, "agent")
		p.Shapes[0].Disk = rapid.SampledFrom([]pricing.Bytes{0, 40 * pricing.GiB}).Draw(t, "disk")
		if iso := rapid.SampledFrom([]string{"", "discs", "ceph"}).Draw(t, "iso"); iso != "" {
			withDiscs(&p, iso)
		}
		if rapid.Bool().Draw(t, "full") {
			p.Clone, p.Storage = placement.Full, rapid.SampledFrom([]string{"", "ceph", "local-lvm"}).Draw(t, "storage")
		}
		p.Guest.Options = rapid.SampledFrom([]map[string]string{nil, {"boot": "order=scsi0"}, {"hostpci0": "mapping=gpu"}, {"vga": "std"}}).Draw(t, "options")
		site.Pools = append(site.Pools, p)
	}
	return site
}

func TestRolesAreTheSameWhateverIsConfigured(t *testing.T) {
	roles := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		for _, g := range grants(Needs(anySite(t), Release9, localDisks, nil)) {
			now := strings.Join(g.privileges, ",")
			if was, known := roles[g.role]; known && was != now {
				t.Fatalf("%s has %s, and had %s for another configuration", g.role, now, was)
			}
			roles[g.role] = now
		}
	})
}

func TestNothingButReadingIsGrantedFarAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		site := anySite(t)
		for _, block := range Setup(site, Needs(site, Release9, localDisks, nil), pveapi.Account{User: "plimsoll@pve", Token: "main"}) {
			for _, c := range block.Commands {
				words := strings.Fields(c)
				if !strings.HasPrefix(c, "pveum acl modify ") {
					continue
				}
				path, role := words[3], words[slices.Index(words, "--roles")+1]
				below := words[slices.Index(words, "--propagate")+1] == "1"
				high := slices.Contains([]string{"/", "/nodes", "/pool", "/vms", "/storage", "/sdn", "/mapping", "/access"}, path)
				if high && role != pveapi.RoleAudit || below && path != "/nodes" {
					t.Fatalf("too much: %s", c)
				}
			}
		}
	})
}

func TestMissingFollowsWhatTheServerHandsDown(t *testing.T) {
	need := func(path string, below bool, privileges ...string) Need {
		return Need{Path: path, Below: below, Privileges: privileges}
	}
	for _, c := range []struct {
		name string
		have pveapi.Permissions
		need Need
		want []string // path and privileges
	}{
		{"held on the path", pveapi.Permissions{"/pool/k8s": {"VM.Audit": false}}, need("/pool/k8s", false, "VM.Audit"), nil},
		{"one of two", pveapi.Permissions{"/pool/k8s": {"VM.Audit": false}}, need("/pool/k8s", false, "VM.Audit", "VM.Clone"), []string{"/pool/k8s VM.Clone"}},
		{"nothing at all", pveapi.Permissions{}, need("/pool/k8s", false, "VM.Audit"), []string{"/pool/k8s VM.Audit"}},
		{"handed down", pveapi.Permissions{"/": {"VM.Audit": true}}, need("/pool/k8s", false, "VM.Audit"), nil},
		{"held above only", pveapi.Permissions{"/": {"VM.Audit": false}}, need("/pool/k8s", false, "VM.Audit"), []string{"/pool/k8s VM.Audit"}},
		{"replaced below", pveapi.Permissions{"/": {"VM.Audit": true}, "/pool/k8s": {"VM.Clone": true}}, need("/pool/k8s", false, "VM.Audit"), []string{"/pool/k8s VM.Audit"}},
		{"taken away below", pveapi.Permissions{"/": {"VM.Audit": true}, "/pool/k8s": {}}, need("/pool/k8s", false, "VM.Audit"), []string{"/pool/k8s VM.Audit"}},
		{"on all below", pveapi.Permissions{"/nodes": {"Sys.Audit": true}}, need("/nodes", true, "Sys.Audit"), nil},
		{"on all below by what is above", pveapi.Permissions{"/": {"Sys.Audit": true}}, need("/nodes", true, "Sys.Audit"), nil},
		{"not handed down", pveapi.Permissions{"/nodes": {"Sys.Audit": false}}, need("/nodes", true, "Sys.Audit"), []string{"/nodes Sys.Audit"}},
		{"but for one", pveapi.Permissions{"/nodes": {"Sys.Audit": true}, "/nodes/pve2": {"Sys.Console": true}}, need("/nodes", true, "Sys.Audit"), []string{"/nodes/pve2 Sys.Audit"}},
	} {
		var got []string
		for _, n := range Missing([]Need{c.need}, c.have) {
			got = append(got, n.Path+" "+strings.Join(n.Privileges, " "))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestWordsPassAShellAsTheyAre(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell here")
	}
	words := []string{"plain", "plimsoll@pve!main", "two words", "it's", "$HOME `id` \\n", "", "a;b&c|d>e", "/pool/k8s", "--x=1", "Größe"}
	script := "for w in"
	for _, w := range words {
		script += " " + pveapi.Shell(w)
	}
	out := must.Get(exec.Command(sh, "-c", script+`; do printf '%s\n' "$w"; done`).Output())(t)
	if diff := cmp.Diff(strings.Join(words, "\n")+"\n", string(out)); diff != "" {
		t.Error(diff)
	}
}

func TestAccountsThatCannotBeAreRefused(t *testing.T) {
	for account, want := range map[pveapi.Account]string{
		{User: "plimsoll@pve", Token: "main"}: "",
		{User: "plimsoll", Token: "main"}:     `user: must be a user with realm, such as plimsoll@pve, was "plimsoll"`,
		{User: "root@pam", Token: "main"}:     `user: must be one that has only the rights it is given, was "root@pam"`,
		{User: "a b@pve", Token: "main"}:      `user: must be a user with realm, such as plimsoll@pve, was "a b@pve"`,
		{User: "plimsoll@pve", Token: "m"}:    `token: must be 2 or more of A-Z, a-z, 0-9, ., _ and -, a letter first, was "m"`,
		{User: "plimsoll@pve", Token: "it's"}: `token: must be 2 or more of A-Z, a-z, 0-9, ., _ and -, a letter first, was "it's"`,
		{User: "", Token: ""}: `user: must be a user with realm, such as plimsoll@pve, was ""` + "\n" +
			`token: must be 2 or more of A-Z, a-z, 0-9, ., _ and -, a letter first, was ""`,
	} {
		got := ""
		if err := CheckAccount(account); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", account, diff)
		}
	}
}
