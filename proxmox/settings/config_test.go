package settings

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// aPool is a pool that nothing is wrong with.
func aPool() Pool {
	return Pool{
		Name:     "web",
		Shapes:   []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB, Disk: 20 * pricing.GiB}},
		Max:      5,
		Template: placement.Template{VMID: 9000},
		PVEPool:  "plimsoll",
		VMIDs:    placement.VMIDs{First: 1000, Last: 1099},
		Join:     firstboot.Profile{Kind: firstboot.Custom, ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeProxmox}},
		Region:   "home",
	}
}

// anotherPool is one beside it.
func anotherPool(change func(*Pool)) Pool {
	p := aPool()
	p.Name, p.VMIDs = "db", placement.VMIDs{First: 2000, Last: 2009}
	change(&p)
	return p
}

// static are addresses from there on.
func static(first string) Addressing {
	return Addressing{First: netip.MustParsePrefix(first), Gateway: netip.MustParseAddr("10.0.0.1")}
}

func aSite() Site {
	return Site{
		Owner: "home", Endpoints: []string{"https://pve1:8006"}, TokenFile: "token",
		Pools: []Pool{aPool()},
	}
}

func TestGoodConfigurationPasses(t *testing.T) {
	s := aSite()
	other := aPool()
	other.Name, other.VMIDs = "web-big", placement.VMIDs{First: 1100, Last: 1199}
	other.PVEPool = "10-k8s" // a digit may come first, as in no name of a storage
	other.Template = placement.Template{ByHost: map[string]int{"pve1": 9001, "pve2": 9002}}
	other.Clone, other.Storage, other.Format = placement.Full, "local-lvm", "raw"
	other.Network = Addressing{First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.0.1")}
	s.Pools = append(s.Pools, other)
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// Every rule, with the key and the value that its fault names.
func TestFaultsNameKeyRuleAndValue(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Site, *Pool)
		want   string
	}{
		{"no owner", func(s *Site, _ *Pool) { s.Owner = "" }, `owner: must be 1 to 32 of a-z, 0-9, _, -, + and ., no sign first, was ""`},
		{"an owner that is no tag", func(s *Site, _ *Pool) { s.Owner = "My Home" }, `owner: must be`},
		{"no endpoint", func(s *Site, _ *Pool) { s.Endpoints = nil }, `endpoints: must name`},
		{"an endpoint without https", func(s *Site, _ *Pool) { s.Endpoints[0] = "http://pve1:8006" }, `endpoints[0]: must begin with https://, was "http://pve1:8006"`},
		{"an endpoint twice", func(s *Site, _ *Pool) { s.Endpoints = append(s.Endpoints, s.Endpoints[0]) }, `endpoints[1]: must be there once`},
		{"no token file", func(s *Site, _ *Pool) { s.TokenFile = "" }, `tokenFile: must name a file, was ""`},
		{"a fingerprint of SHA-1", func(s *Site, _ *Pool) { s.Fingerprints = []string{"AA:BB"} }, `fingerprints[0]: must be`},
		{"insecure beside a CA", func(s *Site, _ *Pool) { s.Insecure, s.CAFile = true, "ca.pem" }, `insecure: must be false beside caFile or fingerprints`},
		{"a CA beside fingerprints", func(s *Site, _ *Pool) { s.CAFile, s.Fingerprints = "ca.pem", []string{strings.Repeat("ab", 32)} }, `fingerprints: must be omitted beside caFile`},
		{"negative clones", func(s *Site, _ *Pool) { s.ClonesPerStorage = -1 }, `clonesPerStorage: must be ≥ 0, was -1`},
		{"a way with HA that is none", func(s *Site, _ *Pool) { s.HA = "kill" }, `ha: must be wait or purge, was "kill"`},
		{"no pool", func(s *Site, _ *Pool) { s.Pools = nil }, `pools: must name at least one pool, was none`},
		{"a pool twice", func(s *Site, _ *Pool) {
			p := aPool()
			p.VMIDs = placement.VMIDs{First: 2000, Last: 2099}
			s.Pools = append(s.Pools, p)
		}, `pools[1].name: must be another pool's no more, was "web"`},
		{"VMIDs that overlap", func(s *Site, _ *Pool) {
			p := aPool()
			p.Name, p.VMIDs = "db", placement.VMIDs{First: 1099, Last: 1199}
			s.Pools = append(s.Pools, p)
		}, `pools[1].vmids: must not overlap 1000-1099 of pool web, was "1099-1199"`},
		{"VMIDs that hold another pool's template", func(s *Site, _ *Pool) {
			p := aPool()
			p.Name, p.VMIDs, p.Template.VMID = "db", placement.VMIDs{First: 2000, Last: 2099}, 1005
			s.Pools = append(s.Pools, p)
		}, `pools[0].vmids: must not hold the template 1005 of pool db, was "1000-1099"`},
		{"no name", func(_ *Site, p *Pool) { p.Name = "" }, `pools[0].name: must begin a host name`},
		{"a name in upper case", func(_ *Site, p *Pool) { p.Name = "Web" }, `pools[0].name: must begin a host name`},
		{"a name too long for host names", func(_ *Site, p *Pool) { p.Name = strings.Repeat("w", 44) }, `pools[0].name: must begin a host name: 1 to 43`},
		{"no shape", func(_ *Site, p *Pool) { p.Shapes = nil }, `pools[0].shapes: must name at least one shape, was none`},
		{"a shape twice", func(_ *Site, p *Pool) { p.Shapes = append(p.Shapes, p.Shapes[0]) }, `pools[0].shapes[1].name: must be there once, was "small"`},
		{"half a core", func(_ *Site, p *Pool) { p.Shapes[0].CPU = 500 }, `pools[0].shapes[0].cpu: must be a whole number of cores, at least 1, was 500m`},
		{"too little memory", func(_ *Site, p *Pool) { p.Shapes[0].Memory = 16 * pricing.MiB }, `pools[0].shapes[0].memory: must be whole MiB, at least 512, such as 8Gi, was 16MiB`},
		{"a disk in bytes", func(_ *Site, p *Pool) { p.Shapes[0].Disk = 20*pricing.GB + 1 }, `pools[0].shapes[0].disk: must be whole MiB, such as 40Gi`},
		{"a shape smaller than what is reserved", func(_ *Site, p *Pool) { p.Reserved = pricing.Resources{CPU: 3000} }, `pools[0].shapes[0]: must be larger than what is reserved`},
		{"min over max", func(_ *Site, p *Pool) { p.Min = 6 }, `pools[0].min: must be at most max, 5, was 6`},
		{"no max", func(_ *Site, p *Pool) { p.Max = 0 }, `pools[0].max: must be at least 1, was 0`},
		{"drift that is neither kept nor replaced", func(_ *Site, p *Pool) { p.Disruption.Drift = "Recreate" }, `pools[0].disruption.drift: must be Keep or Replace, was "Recreate"`},
		{"machines that hardly last", func(_ *Site, p *Pool) { p.Disruption.ExpireAfter = nodescaler.Duration(time.Minute) }, `pools[0].disruption.expireAfter: must be at least 1h0m0s, or nothing, was 1m0s`},
		{"a budget for no reason", func(_ *Site, p *Pool) {
			p.Disruption.Budgets = []nodescaler.NodeBudget{{Reasons: []nodescaler.Cause{"Tired"}}}
		}, `pools[0].disruption.budgets[0].reasons[0]: must be one of Unhealthy, Expired, Drifted, Empty, Underutilized, was "Tired"`},
		{"a repair of nodes that are not ready", func(_ *Site, p *Pool) {
			p.Disruption.Repair.Conditions = []nodescaler.Ailment{{Type: "Ready", Status: "True", For: nodescaler.Duration(time.Hour)}}
		}, `pools[0].disruption.repair.conditions[0].status: must be False or Unknown, with type Ready, was "True"`},
		{"a condition without a status", func(_ *Site, p *Pool) {
			p.Disruption.Repair.Conditions = []nodescaler.Ailment{{Type: "KernelDeadlock", For: nodescaler.Duration(time.Second)}}
		}, `pools[0].disruption.repair.conditions[0].status: must be True, False or Unknown, was ""`},
		{"a reboot that is hardly waited for", func(_ *Site, p *Pool) {
			p.Disruption.Repair.Conditions = []nodescaler.Ailment{{Type: "KernelDeadlock", Status: "True", For: nodescaler.Duration(time.Hour)}}
			p.Disruption.Repair.Reboot = &nodescaler.RebootRule{Within: nodescaler.Duration(time.Second)}
		}, `pools[0].disruption.repair.reboot.within: must be at least 1m, was 1s`},
		{"a reboot for nothing", func(_ *Site, p *Pool) {
			p.Disruption.Repair.Reboot = &nodescaler.RebootRule{Within: nodescaler.Duration(time.Hour)}
		}, `pools[0].disruption.repair.reboot: must not be set without conditions, was 1h0m0s`},
		{"a window without a beginning", func(_ *Site, p *Pool) {
			p.Disruption.Budgets = []nodescaler.NodeBudget{{Duration: nodescaler.Duration(time.Hour)}}
		}, `pools[0].disruption.budgets[0].duration: must not be set without schedule, was 1h0m0s`},
		{"VMIDs backwards", func(_ *Site, p *Pool) { p.VMIDs = placement.VMIDs{First: 1099, Last: 1000} }, `pools[0].vmids: must run from first to last within 100-999999999, was "1099-1000"`},
		{"VMIDs below 100", func(_ *Site, p *Pool) { p.VMIDs.First = 99 }, `pools[0].vmids: must run from first to last within 100-999999999, was "99-1099"`},
		{"fewer VMIDs than machines", func(_ *Site, p *Pool) { p.VMIDs.Last = 1003 }, `pools[0].vmids: must have room for max, 5 machines, was "1000-1003"`},
		{"VMIDs that hold the template", func(_ *Site, p *Pool) { p.Template.VMID = 1050 }, `pools[0].vmids: must not hold the template 1050 of pool web`},
		{"no template", func(_ *Site, p *Pool) { p.Template = placement.Template{} }, `pools[0].template: must have either vmid or byHost with at least one host, was "vmid 0 and 0 hosts"`},
		{"byHost without hosts", func(_ *Site, p *Pool) { p.Template = placement.Template{ByHost: map[string]int{}} }, `pools[0].template: must have either vmid or byHost`},
		{"both kinds of template", func(_ *Site, p *Pool) { p.Template.ByHost = map[string]int{"pve1": 9001} }, `pools[0].template: must have either`},
		{"a host without a template", func(_ *Site, p *Pool) {
			p.Template, p.Placement.Hosts = placement.Template{ByHost: map[string]int{"pve1": 9001}}, []string{"pve1", "pve2"}
		}, `pools[0].placement.hosts[1]: must have a template in template.byHost, was "pve2"`},
		{"a linked clone elsewhere", func(_ *Site, p *Pool) { p.Storage = "local-lvm" }, `pools[0].storage: must be omitted unless clone is full`},
		{"a linked clone in another format", func(_ *Site, p *Pool) { p.Format = "raw" }, `pools[0].format: must be omitted unless clone is full`},
		{"a way to clone that is none", func(_ *Site, p *Pool) { p.Clone = "half" }, `pools[0].clone: must be linked or full, was "half"`},
		{"a format that is none", func(_ *Site, p *Pool) { p.Clone, p.Format = placement.Full, "vdi" }, `pools[0].format: must be raw, qcow2 or vmdk, was "vdi"`},
		{"no resource pool", func(_ *Site, p *Pool) { p.PVEPool = "" }, `pools[0].pvePool: must name a resource pool: letters, digits, ., _ and -, in up to three parts with / between them, was ""`},
		{"a resource pool too deep", func(_ *Site, p *Pool) { p.PVEPool = "a/b/c/d" }, `pools[0].pvePool: must name a resource pool: letters, digits, ., _ and -, in up to three parts with / between them, was "a/b/c/d"`},
		{"a VLAN that is none", func(_ *Site, p *Pool) { p.VLAN = 4095 }, `pools[0].vlan: must be within 1-4094, or nothing, was 4095`},
		{"a bridge that is none", func(_ *Site, p *Pool) { p.Bridge = "vmbr 0" }, `pools[0].bridge: must name a bridge, was "vmbr 0"`},
		{"a gateway without addresses", func(_ *Site, p *Pool) { p.Network.Gateway = netip.MustParseAddr("10.0.0.1") }, `pools[0].network.first: must be there beside gateway`},
		{"a network too small for the VMIDs", func(_ *Site, p *Pool) {
			p.Network = Addressing{First: netip.MustParsePrefix("10.0.0.200/24"), Gateway: netip.MustParseAddr("10.0.0.1")}
		}, `pools[0].network.first: must leave room in its network for an address for each of the VMIDs 1000-1099, was 10.0.0.200/24`},
		{"a gateway among the machines", func(_ *Site, p *Pool) {
			p.Network = Addressing{First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.0.60")}
		}, `pools[0].network.gateway: must not be one of the machines' addresses 10.0.0.50-10.0.0.149: move network.first, or take fewer vmids, was 10.0.0.60`},
		{"a nameserver among the machines", func(_ *Site, p *Pool) {
			p.Network = static("10.0.0.50/24")
			p.Network.Nameservers = []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.149")}
		}, `pools[0].network.nameservers[1]: must not be one of the machines' addresses 10.0.0.50-10.0.0.149: move network.first, or take fewer vmids, was 10.0.0.149`},
		{"a join server among the machines", func(_ *Site, p *Pool) {
			p.Network = static("10.0.0.50/24")
			p.Join = firstboot.Profile{Kind: firstboot.K3s, Servers: []string{"rke.example", "10.0.0.50:6443"}}
		}, `pools[0].join.servers[1]: must not be one of the machines' addresses 10.0.0.50-10.0.0.149: move network.first, or take fewer vmids, was 10.0.0.50`},
		{"a join server by IPv6 among the machines", func(_ *Site, p *Pool) {
			p.Network = Addressing{First: netip.MustParsePrefix("fd00::50/64"), Gateway: netip.MustParseAddr("fd00::1")}
			p.Join = firstboot.Profile{Kind: firstboot.K3s, Servers: []string{"https://[fd00::60]:6443"}}
		}, `pools[0].join.servers[0]: must not be one of the machines' addresses fd00::50-fd00::b3: move`},
		{"an endpoint among the machines", func(s *Site, p *Pool) {
			p.Network, s.Endpoints = static("10.0.0.50/24"), []string{"https://10.0.0.60:8006"}
		}, `pools[0].network.first: must not hold 10.0.0.60, where https://10.0.0.60:8006 is: move network.first, or take fewer vmids, was 10.0.0.50-10.0.0.149`},
		{"addresses that overlap", func(s *Site, p *Pool) {
			p.Network = static("10.0.0.50/24")
			s.Pools = append(s.Pools, anotherPool(func(o *Pool) { o.Network, o.VLAN = static("10.0.0.149/24"), 7 }))
		}, `pools[1].network.first: must not overlap 10.0.0.50-10.0.0.149 of pool web: move network.first, or take fewer vmids, was 10.0.0.149-10.0.0.158`},
		{"another pool's gateway among the machines", func(s *Site, p *Pool) {
			p.Network = static("10.0.0.50/24")
			s.Pools = append(s.Pools, anotherPool(func(o *Pool) {
				o.Network = static("10.0.0.200/24")
				o.Network.Gateway = netip.MustParseAddr("10.0.0.100")
			}))
		}, `pools[0].network.first: must not hold 10.0.0.100, which is network.gateway of pool db: move`},
		{"another pool's join server among the machines", func(s *Site, p *Pool) {
			p.Network = static("10.0.0.50/24")
			p.Join.Servers = []string{"10.0.2.9"} // one without may be the servers
			s.Pools = append(s.Pools, anotherPool(func(o *Pool) {
				o.Join = firstboot.Profile{Kind: firstboot.K3s, Servers: []string{"10.0.0.99"}}
			}))
		}, `pools[0].network.first: must not hold 10.0.0.99, which is join.servers[0] of pool db: move`},
		{"a gateway elsewhere", func(_ *Site, p *Pool) {
			p.Network = Addressing{First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.1.1")}
		}, `pools[0].network.gateway: must be an address in the network of first`},
		{"a tag that is none", func(_ *Site, p *Pool) { p.Tags = []string{"k8s:web"} }, `pools[0].tags[0]: must be of a-z, 0-9, _, -, + and ., no sign first, was "k8s:web"`},
		{"a tag like ours", func(_ *Site, p *Pool) { p.Tags = []string{"plimsoll_away"} }, `pools[0].tags[0]: must not begin with plimsoll_`},
		{"a host twice", func(_ *Site, p *Pool) { p.Placement.Hosts = []string{"pve1", "pve1"} }, `pools[0].placement.hosts[1]: must be there once, was "pve1"`},
		{"a way to spread that is none", func(_ *Site, p *Pool) { p.Placement.Spread = "wide" }, `pools[0].placement.spread: must be prefer or none, was "wide"`},
		{"a ratio in percent", func(_ *Site, p *Pool) { p.Placement.MemoryRatio = 150 }, `pools[0].placement.memoryRatio: must be above 0 and at most 32, was 150`},
		{"a ratio below 0", func(_ *Site, p *Pool) { p.Placement.CPURatio = -1 }, `pools[0].placement.cpuRatio: must be above 0 and at most 32, was -1`},
		{"a label that is ours", func(_ *Site, p *Pool) { p.Labels = map[string]string{"plimsoll.dev/pool": "x"} }, `pools[0].labels["plimsoll.dev/pool"]: must be left to Plimsoll`},
		{"a label's value that is none", func(_ *Site, p *Pool) { p.Labels = map[string]string{"a": "b c"} }, `pools[0].labels.a: must be at most 63 letters`},
		{"a label that no kubelet may set", func(_ *Site, p *Pool) { p.Labels = map[string]string{"node-role.kubernetes.io/worker": ""} }, `pools[0].labels["node-role.kubernetes.io/worker"]: must be one that a kubelet may give its own node: below kubernetes.io and k8s.io only `},
		{"a zone that is no label", func(_ *Site, p *Pool) { p.Zone = "rack 1" }, `pools[0].zone: must be at most 63 letters, digits, -, _ and ., with a letter or digit at both ends, was "rack 1"`},
		{"one taint twice", func(_ *Site, p *Pool) {
			p.Taints = []Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}, {Key: "a", Value: "c", Effect: "NoSchedule"}}
		}, `pools[0].taints[1]: must be the only taint of its key and effect, was "a=c:NoSchedule"`},
		{"a first address that is the network's", func(_ *Site, p *Pool) {
			p.Network = Addressing{First: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.254")}
		}, `pools[0].network.first: must be an address of a host, not that of its network, was "10.0.0.0/24"`},
		{"a last address that is for all", func(_ *Site, p *Pool) {
			p.Network = Addressing{First: netip.MustParsePrefix("10.0.0.156/24"), Gateway: netip.MustParseAddr("10.0.0.1")}
		}, `pools[0].network.first: must be an address of a host, not the broadcast address, was "10.0.0.255/24"`},
		{"a search domain in capitals", func(_ *Site, p *Pool) {
			p.Network = Addressing{First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.0.1"), Search: "Example.com"}
		}, `pools[0].network.search: must be a DNS name in lower case, was "Example.com"`},
		{"a host by its full name", func(_ *Site, p *Pool) { p.Placement.Hosts = []string{"pve1", "pve2.example"} }, `pools[0].placement.hosts: must be the name of a Proxmox VE node, was "pve2.example"`},
		{"a template for a label that no machine has", func(_ *Site, p *Pool) {
			p.Join.UserDataTemplate, p.ISO.Storage = "x {{.Labels.tier}}", "local"
		}, `pools[0].join.userDataFile: must be a template that can be filled in, was `},
		{"a resource that shapes say", func(_ *Site, p *Pool) { p.Resources = map[string]pricing.Quantity{"cpu": 2} }, `pools[0].resources["cpu"]: must be ephemeral-storage, hugepages-SIZE or the name of an extended resource such as nvidia.com/gpu, was "cpu"`},
		{"a resource that is not there", func(_ *Site, p *Pool) { p.Resources = map[string]pricing.Quantity{"nvidia.com/gpu": 0} }, `pools[0].resources["nvidia.com/gpu"]: must be above 0, was 0`},
		{"a taint that prefers", func(_ *Site, p *Pool) { p.Taints = []Taint{{Key: "a", Effect: "PreferNoSchedule"}} }, `pools[0].taints[0].effect: must be NoSchedule or NoExecute`},
		{"a negative time-out", func(_ *Site, p *Pool) { p.JoinTimeout = -1 }, `pools[0].joinTimeout: must be ≥ 0, was -1ns`},
		{"an option that is managed", func(_ *Site, p *Pool) { p.Guest.Options = map[string]string{"smbios1": "uuid=1"} }, `pools[0].guest.options.smbios1: must be omitted: Plimsoll sets it on every machine`},
		{"an option for root", func(_ *Site, p *Pool) { p.Guest.Options = map[string]string{"args": "-s"} }, `pools[0].guest.options.args: must be omitted: only root@pam may set it`},
		{"an option that is a disk", func(_ *Site, p *Pool) { p.Guest.Options = map[string]string{"scsi1": "local:8"} }, `pools[0].guest.options.scsi1: must be omitted: disks are the template's`},
		{"no storage for the disc", func(_ *Site, p *Pool) { p.Join.Kind, p.Join.UserDataFile = firstboot.Custom, "user-data" }, `pools[0].iso.storage: must name a storage for the discs that the join profile needs, was ""`},
		{"a storage for no disc", func(_ *Site, p *Pool) { p.ISO.Storage = "local" }, `pools[0].iso.storage: must be omitted: the join profile needs no disc`},
		{"a join profile that is none", func(_ *Site, p *Pool) { p.Join.Kind = "rancher" }, `pools[0].join.kind: must be`},
		{"labels that two sets differ in", func(_ *Site, p *Pool) {
			p.Labels, p.Join.Labels = map[string]string{"disk": "ssd"}, map[string]string{"disk": "hdd"}
		}, `pools[0].labels.disk: must be as the profile has it, "hdd", was "ssd"`},
		{"a zone that two sets differ in", func(_ *Site, p *Pool) {
			p.Zone, p.Join.Labels = "rack1", map[string]string{"topology.kubernetes.io/zone": "rack2"}
		}, `pools[0].zone: must be as the profile has it, "rack2", was "rack1"`},
		{"the shape of only one of two", func(_ *Site, p *Pool) {
			p.Shapes, p.Join.Labels = append(p.Shapes, pricing.Shape{Name: "other", CPU: 2000, Memory: pricing.GiB}), map[string]string{"node.kubernetes.io/instance-type": p.Shapes[0].Name}
		}, `pools[0].shapes[1].name: must be as the profile has it, "small", was "other"`},
		{"taints that two sets differ in", func(_ *Site, p *Pool) {
			p.Taints, p.Join.Taints = []Taint{{"team", "a", "NoSchedule"}}, []firstboot.Taint{{Key: "team", Value: "b", Effect: "NoSchedule"}}
		}, `pools[0].taints[0]: must be as the profile has it, team=b:NoSchedule, was "team=a:NoSchedule"`},
		{"a region missing from topology labels", func(_ *Site, p *Pool) {
			p.Region, p.Join.TopologyLabels, p.Join.ProviderID.Scheme = "", true, firstboot.SchemeUUID
		}, `pools[0].region: must be known for topologyLabels, was ""`},
		{"a region missing from provider ids", func(_ *Site, p *Pool) { p.Region = "" }, `pools[0].region: must be known for a provider id with it, was ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := aSite()
			c.change(&s, &s.Pools[0:1][0])
			err := s.Validate()
			if err == nil {
				t.Fatal("it passed")
			}
			for _, line := range strings.Split(err.Error(), "\n") {
				if strings.HasPrefix(line, c.want) {
					return
				}
			}
			t.Errorf("got\n%v\nwant a line that begins with\n%s", err, c.want)
		})
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	s := aSite()
	s.Owner, s.TokenFile = "", ""
	s.Pools[0].Max, s.Pools[0].PVEPool, s.Pools[0].Placement.Spread = 0, "", "wide"
	if got := len(strings.Split(s.Validate().Error(), "\n")); got != 5 {
		t.Errorf("%d faults, want 5:\n%v", got, s.Validate())
	}
}

func TestFaultsKnowTheirPath(t *testing.T) {
	s := aSite()
	s.Pools[0].Max = 0
	err := s.Validate().(interface{ Unwrap() []error }).Unwrap()[0]
	if f, ok := err.(interface{ Path() string }); !ok || f.Path() != "pools[0].max" {
		t.Errorf("got %#v, want the path pools[0].max", err)
	}
}

func TestAddressesFollowTheVMIDs(t *testing.T) {
	n := Addressing{First: netip.MustParsePrefix("10.0.0.250/16")}
	for i, want := range map[int]string{0: "10.0.0.250/16", 5: "10.0.0.255/16", 6: "10.0.1.0/16", 300: "10.0.2.38/16"} {
		if got := n.Address(i).String(); got != want {
			t.Errorf("address %d is %s, want %s", i, got, want)
		}
	}
	six := Addressing{First: netip.MustParsePrefix("fd00::ffff/64")}
	if got, want := six.Address(1).String(), "fd00::1:0/64"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWordsPromiseOnlyWhatAllMachinesHave(t *testing.T) {
	p := aPool()
	p.Labels = map[string]string{"tier": "front"}
	p.Taints = []Taint{{Key: "dedicated", Value: "web", Effect: "NoSchedule"}, {Key: "node.cilium.io/agent-not-ready", Value: "true", Effect: "NoExecute"}}
	p.Join.Taints = []firstboot.Taint{{Key: "startup-taint.cluster-autoscaler.kubernetes.io/csi", Effect: "NoSchedule"}}
	p.Resources = map[string]pricing.Quantity{"nvidia.com/gpu": 1, "hugepages-2Mi": 1 << 30}
	p.Template = placement.Template{ByHost: map[string]int{"pve2": 9002, "pve1": 9001}}
	p.Placement.Maintenance = []string{"pve2"}
	want := nodescaler.Pool{
		Name: "web", Shapes: p.Shapes, Max: 5, Hosts: []string{"pve1", "pve2"}, Maintenance: []string{"pve2"},
		Labels: map[string]string{
			"plimsoll.dev/pool": "web", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "tier": "front",
			"node.kubernetes.io/instance-type": "small", "topology.kubernetes.io/region": "home",
		},
		Taints: []nodescaler.Taint{{Key: "dedicated", Value: "web", Effect: "NoSchedule"}},
		Extra:  pricing.Amounts{{Name: "hugepages-2Mi", N: 1 << 30}, {Name: "nvidia.com/gpu", N: 1}},
	}
	if diff := cmp.Diff(want, p.Words()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p.Join.TopologyLabels = true
	if !p.Words().HostIsZone {
		t.Error("nodes that are labelled with their host are not said to be")
	}
	p.Shapes = append(p.Shapes, pricing.Shape{Name: "large", CPU: 8000, Memory: 8 * pricing.GiB})
	p.Placement.Hosts = []string{"pve2"}
	got := p.Words().Labels
	if _, promised := got["node.kubernetes.io/instance-type"]; promised || got["topology.kubernetes.io/zone"] != "pve2" {
		t.Errorf("got %v, want no instance-type of two shapes, and the only host as zone", got)
	}
	if p.Words().HostIsZone {
		t.Error("a pool of one zone offers machines in several")
	}
	if p.Words().ShapeIsType {
		t.Error("nodes that no disc labels are said to have their shapes as types")
	}
	if p.Join.Kind = firstboot.RKE2; !p.Words().ShapeIsType {
		t.Error("nodes that are labelled with their shapes are not said to be")
	}
}

func TestPoolsSurviveTheirJSON(t *testing.T) {
	p := aPool()
	p.Cooldown = nodescaler.Duration(10 * time.Minute)
	p.Resources = map[string]pricing.Quantity{"nvidia.com/gpu": 1}
	p.Network = Addressing{First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.0.1")}
	p = p.Complete()
	data := must.Get(json.Marshal(p))(t)
	var back Pool
	must.Do(t, json.Unmarshal(data, &back))
	if diff := cmp.Diff(p, back, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("%s\n%s", data, diff)
	}
}

// What machines are made of is digested alike by every version of the program. If this fails, what
// is digested has changed, and machines would drift by an upgrade: give madeBy another value.
func TestMadeIsTheSameInEveryVersion(t *testing.T) {
	p := aPool().Complete()
	if got, want := p.Made("pve1"), "2:8e7ea86dd9b0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMadeDiffers(t *testing.T) {
	p := aPool().Complete()
	made := p.Made("pve1")
	for _, c := range []struct {
		name   string
		change func(*Pool)
		want   bool
	}{
		{"limits", func(p *Pool) { p.Min, p.Max, p.VMIDs.Last = 1, 9, 1200 }, false},
		{"what is counted on", func(p *Pool) { p.Reserved.CPU, p.PodSlots = 100, 50 }, false},
		{"tags", func(p *Pool) { p.Tags = []string{"blue"} }, false},
		{"what may end machines", func(p *Pool) { p.Disruption.Drift = nodescaler.DriftReplace }, false},
		{"what kubeadm trusts", func(p *Pool) { p.Join.CACertHashes = []string{"sha256:0"} }, false},
		{"the version that is installed", func(p *Pool) { p.Join.Install.Version = "v1.34.1+rke2r1" }, false},
		{"labels", func(p *Pool) { p.Labels = map[string]string{"disk": "ssd"} }, true},
		{"the bridge", func(p *Pool) { p.Bridge = "vmbr1" }, true},
		{"hardware", func(p *Pool) { p.Guest.CPUType = "host" }, true},
		{"the template", func(p *Pool) { p.Template.VMID = 9001 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := p
			c.change(&own)
			if got := Differs(made, own.Made("pve1")); got != c.want {
				t.Errorf("differs: %v, want %v", got, c.want)
			}
		})
	}
	for _, other := range []string{"", "0123456789ab", "1:0123456789ab", "3:0123456789ab"} {
		if Differs(other, made) {
			t.Errorf("%q is of another version and differs", other)
		}
	}
}
