package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Release is a major version of Proxmox VE. Privileges come and go with them.
type Release int

// The releases whose privileges are known.
const (
	Release8 Release = 8
	Release9 Release = 9
)

// ParseRelease reads a version such as 9, 8.4 or 9.2.11.
func ParseRelease(version string) (Release, error) {
	major, _, _ := strings.Cut(version, ".")
	switch major {
	case "8":
		return Release8, nil
	case "9":
		return Release9, nil
	}
	return 0, fmt.Errorf("must be %d or %d, was %q", Release8, Release9, version)
}

// agentPrivilege lets a client ask a guest agent how its guest is. Proxmox VE 9 knows VM.Monitor no
// more: roles lost it in the upgrade, and a new role that names it is refused.
func (r Release) agentPrivilege() string {
	if r == Release8 {
		return "VM.Monitor"
	}
	return "VM.GuestAgent.Audit"
}

// Need is a right without which something that the configuration asks for cannot be done.
type Need struct {
	Path       string   `json:"path"` // of the ACL
	Privileges []string `json:"privileges"`
	// Below is whether they are needed on all that lies below the path.
	Below bool `json:"below,omitempty"`
	// Why is what they are for, as it goes on after "to".
	Why string `json:"why"`
	// Key is what asks for it in the configuration; empty if any configuration does.
	Key string `json:"key,omitempty"`
	// Role is what Setup grants them by. What is in a role does not depend on the configuration,
	// so that several installations can share roles.
	Role string `json:"role"`
}

// manyVLANs is how many VLANs rights are asked for one by one: for more, it is the whole bridge.
const manyVLANs = 32

// bridgePaths are where the right to use a bridge or VNet hangs: on itself for a card that is in no
// VLAN of its own, and on each VLAN that the card may be in. Below is whether it is needed there
// too: a card with a great many trunks would fill pages with paths.
func bridgePaths(zones pveapi.Zones, b pveapi.Bridge) (paths []string, below bool) {
	path := zones.Path(b.Name)
	paths = []string{path}
	if b.VLAN != 0 {
		paths[0] += "/" + strconv.Itoa(b.VLAN)
	}
	for vlans := range strings.SplitSeq(b.Trunks, ";") {
		low, high, _ := strings.Cut(vlans, "-")
		first, _ := strconv.Atoi(low)
		last, _ := strconv.Atoi(cmp.Or(high, low))
		for vlan := max(first, 1); vlan <= last; vlan++ {
			if len(paths) > manyVLANs {
				return []string{path}, true
			}
			paths = append(paths, path+"/"+strconv.Itoa(vlan))
		}
	}
	return paths, false
}

// Needs returns the rights that the site's configuration asks for, and no others. Parts are what is
// known of its templates, by VMID, and zones those of networks that are VNets.
func Needs(s *settings.Site, release Release, parts map[int]pveapi.Parts, zones pveapi.Zones) []Need {
	all := []Need{{
		Path: "/", Privileges: []string{"Sys.Audit"}, Role: pveapi.RoleAudit,
		Why: "see who belongs to the cluster, and whether there is quorum",
	}, {
		Path: "/nodes", Privileges: []string{"Sys.Audit"}, Below: true, Role: pveapi.RoleAudit,
		Why: "see how much memory and how many processors the hosts have",
	}}
	for i := range s.Pools {
		p := s.Pools[i].Complete()
		n := needs{key: s.KeyOf(i), release: release, zones: zones}
		n.machines(&p)
		n.options(&p)
		n.templates(&p, parts)
		n.storages(&p, parts)
		all = append(all, n.all...)
	}
	return all
}

// needs collects the rights that a pool asks for.
type needs struct {
	all     []Need
	key     string // of the pool
	release Release
	zones   pveapi.Zones
}

func (n *needs) add(role, path, key, why string, privileges ...string) {
	n.all = append(n.all, Need{Path: path, Privileges: privileges, Why: why, Key: n.key + "." + key, Role: role})
}

// machines are the rights on the machines, which hang on the pool that they are put into.
func (n *needs) machines(p *settings.Pool) {
	need := func(role, key, why string, privileges ...string) {
		n.add(role, "/pool/"+p.PVEPool, key, why, privileges...)
	}
	need(pveapi.RoleMachines, "pvePool", "clone machines into the pool, and delete them", "VM.Allocate")
	need(pveapi.RoleMachines, "pvePool", "see machines, and that they are in the pool", "VM.Audit", "Pool.Audit")
	need(pveapi.RoleMachines, "pvePool", "start and stop machines", "VM.PowerMgmt")
	need(pveapi.RoleMachines, "pvePool", "name machines, mark them as ours and give them the system UUID that they are known by", "VM.Config.Options", "VM.Config.HWType")
	need(pveapi.RoleMachines, "shapes", "give machines their processors and memory", "VM.Config.CPU", "VM.Config.Memory")
	need(pveapi.RoleMachines, "bridge", "attach machines to the network", "VM.Config.Network")
	if slices.ContainsFunc(p.Shapes, func(s pricing.Shape) bool { return s.Disk > 0 }) {
		need(pveapi.RoleDisks, "shapes", "grow disks to the size of the shape", "VM.Config.Disk")
	}
	if p.Guest.Agent {
		need(pveapi.RoleAgent, "guest.agent", "ask guests for their addresses", n.release.agentPrivilege())
	}
	if p.NeedsDisc() {
		need(pveapi.RoleFirstBoot, "iso.storage", "insert first-boot discs, in place of the template's cloud-init drive where there is one", "VM.Config.CDROM", "VM.Config.Cloudinit")
	}
}

// diskOptions are the keys of a VM's configuration that ask for VM.Config.Disk, by name without
// number. All others that a token may set ask for what machines need in any case.
var diskOptions = []string{"boot", "virtiofs", "vmstatestorage"}

// options are the rights on further keys of the VM's configuration, and on the devices of hosts
// that they name.
func (n *needs) options(p *settings.Pool) {
	for _, option := range slices.Sorted(maps.Keys(p.Guest.Options)) {
		key, name := "guest.options."+option, strings.TrimRight(option, "0123456789")
		if slices.Contains(diskOptions, name) {
			n.add(pveapi.RoleDisks, "/pool/"+p.PVEPool, key, "set "+option, "VM.Config.Disk")
		}
		if device := deviceOf(name, p.Guest.Options[option]); device != "" {
			n.add(pveapi.RoleDevices, "/mapping/"+device, key, "use what is mapped as "+device, "Mapping.Use")
		}
	}
}

// deviceOf returns the resource mapping that a key names, as it is below /mapping, or nothing.
func deviceOf(name, value string) string {
	first, named := pveapi.Properties(value)
	kind, mapping := "", ""
	switch name {
	case "hostpci":
		kind, mapping = "pci/", named["mapping"]
	case "usb":
		kind, mapping = "usb/", named["mapping"]
	case "virtiofs":
		kind, mapping = "dir/", cmp.Or(named["dirid"], first)
	case "rng":
		if cmp.Or(named["source"], first) == "/dev/hwrng" {
			return "hwrng"
		}
	}
	if mapping == "" {
		return ""
	}
	return kind + mapping
}

// templates are the rights to clone: on the templates, and on the networks that they and their
// clones are on.
func (n *needs) templates(p *settings.Pool, parts map[int]pveapi.Parts) {
	for _, id := range p.Template.IDs() {
		n.network(pveapi.Bridge{Name: p.Bridge, VLAN: p.VLAN, Trunks: parts[id].Trunks}, "bridge", "attach machines to the network")
	}
	for _, id := range p.Template.IDs() {
		n.add(pveapi.RoleTemplates, fmt.Sprintf("/vms/%d", id), "template", fmt.Sprintf("see and clone the template %d", id), "VM.Audit", "VM.Clone")
		for _, b := range parts[id].Networks {
			n.network(b, "template", fmt.Sprintf("clone the template %d, which is on that network", id))
		}
	}
}

// network is the right to use a network, once for each path.
func (n *needs) network(b pveapi.Bridge, key, why string) {
	paths, below := bridgePaths(n.zones, b)
	for _, path := range paths {
		at := slices.IndexFunc(n.all, func(o Need) bool { return o.Path == path })
		if at < 0 {
			at = len(n.all)
			n.add(pveapi.RoleNetwork, path, key, why, "SDN.Use")
		}
		n.all[at].Below = n.all[at].Below || below
	}
}

// storages are the rights where disks and discs are kept.
func (n *needs) storages(p *settings.Pool, parts map[int]pveapi.Parts) {
	key, names := "storage", []string{p.Storage}
	if p.Storage == "" {
		key, names = "template", nil
		for _, id := range p.Template.IDs() {
			names = append(names, parts[id].Storages...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	for _, name := range names {
		n.add(pveapi.RoleStorage, "/storage/"+name, key, "make disks, where there is room", "Datastore.AllocateSpace", "Datastore.Audit")
	}
	if p.NeedsDisc() {
		n.add(pveapi.RoleISO, "/storage/"+p.ISO.Storage, "iso.storage", "upload first-boot discs, and remove them when machines have joined",
			"Datastore.AllocateTemplate", "Datastore.Allocate", "Datastore.Audit")
	}
}

// Missing returns what of the needs is not met: those that lack something, with what they lack.
// What is needed below a path is looked for on every path there that has rules of its own.
func Missing(needs []Need, have pveapi.Permissions) []Need {
	var all []Need
	for _, n := range needs {
		paths := []string{n.Path}
		if n.Below {
			paths = []string{n.Path + "/*"}
			for path := range have {
				if strings.HasPrefix(path, n.Path+"/") {
					paths = append(paths, path)
				}
			}
			slices.Sort(paths)
		}
		for _, path := range paths {
			lacks := slices.DeleteFunc(slices.Clone(n.Privileges), func(p string) bool { return have.Has(path, p) })
			if len(lacks) > 0 {
				short := n
				short.Path, short.Privileges = strings.TrimSuffix(path, "/*"), lacks
				short.Below = n.Below && path == n.Path+"/*"
				all = append(all, short)
			}
		}
	}
	return all
}
