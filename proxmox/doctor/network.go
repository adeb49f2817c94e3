package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// networkExam looks whether the hosts have the networks that machines are put on.
type networkExam struct {
	*examination
	seen map[string][]pveapi.Network // by host
}

// plug is a network that a pool's machines are on, at a host.
type plug struct {
	pveapi.Bridge
	pool *settings.Pool
	host string
	key  string // what asks for it in the configuration
	of   string // whose it is, in words
}

func (n *plug) subject() string { return n.Name + " on " + n.host + " for " + n.of }

// examineNetwork looks at the pool's network, on which the first card of its machines is, and at
// those of the template's further cards.
func (e *networkExam) examineNetwork() {
	for i := range e.site.Pools {
		p := &e.site.Pools[i]
		e.skipHostless("network.bridge", p)
		for _, host := range e.candidates(p) {
			id := p.Template.On(host)
			config := e.templates[id].asRead()
			parts := config.Parts()
			e.examinePlug(&plug{
				Bridge: pveapi.Bridge{Name: p.Bridge, VLAN: p.VLAN, Trunks: parts.Trunks},
				pool:   p, host: host, key: e.site.KeyOf(i) + ".bridge", of: "pool " + p.Name,
			})
			looked := []pveapi.Bridge{{Name: p.Bridge, VLAN: p.VLAN, Trunks: parts.Trunks}}
			for _, b := range parts.Further {
				if !slices.Contains(looked, b) {
					looked = append(looked, b)
					e.examinePlug(&plug{Bridge: b, pool: p, host: host, key: e.site.KeyOf(i) + ".template", of: fmt.Sprintf("template %d of pool %s", id, p.Name)})
				}
			}
		}
	}
}

// examinePlug reads the host's networks if the token may see that one.
func (e *networkExam) examinePlug(n *plug) {
	if paths, _ := bridgePaths(e.zones, n.Bridge); !e.have.Has(paths[0], "SDN.Use") {
		e.skip("network.bridge", n.subject(), "not looked at: it takes SDN.Use on %s", paths[0])
		return
	}
	if _, read := e.seen[n.host]; !read {
		list, err := e.client.Networks(e.ctx, n.host)
		if err != nil {
			e.failed("network.bridge", n.subject(), err)
			return
		}
		e.seen[n.host] = list
	}
	e.examineBridge(n, e.seen[n.host])
}

func (e *networkExam) examineBridge(n *plug, all []pveapi.Network) {
	at := slices.IndexFunc(all, func(o pveapi.Network) bool { return o.Name == n.Name })
	if at < 0 {
		e.missesBridge(n, all)
		return
	}
	found, kind := &all[at], "bridge"
	if found.Type == "vnet" {
		kind = "VNet"
	}
	unaware := found.VLANAware != nil && !*found.VLANAware
	// In the file and not through the API, which takes a bridge's addresses away in every change
	// that does not repeat them: hosts are mostly reached by that bridge.
	aware := []string{"bridge-vlan-aware yes and bridge-vids 2-4094, below iface " + n.Name + " in /etc/network/interfaces (on " + n.host + "), and then ifreload -a"}
	switch {
	case found.Active != nil && !*found.Active:
		e.add(Warn, "network.bridge", n.subject(), []string{"ifup " + pveapi.Shell(n.Name) + " (on " + n.host + ")"}, "%s %s is not up on %s", kind, n.Name, n.host)
	case kind == "VNet" && unaware && (n.VLAN != 0 || n.Trunks != ""):
		e.add(e.block(n.host, n.pool.Name), "network.bridge", n.subject(), []string{
			"pvesh set /cluster/sdn/vnets/" + n.Name + " --vlanaware 1; pvesh set /cluster/sdn",
			n.key + ": a network whose cards have neither tag nor trunks, such as a VNet that is in the VLAN itself",
		}, "VNet %s does not know VLANs, and %s starts no machine that has a tag or trunks there", n.Name, n.host)
	case unaware && n.Trunks != "":
		e.add(e.block(n.host, n.pool.Name), "network.bridge", n.subject(), aware, "bridge %s does not know VLANs, and %s starts no machine that has trunks there", n.Name, n.host)
	case n.VLAN != 0 && unaware:
		e.add(Warn, "network.bridge", n.subject(), aware, "bridge %s on %s does not know VLANs: each VLAN gets a bridge of its own there", n.Name, n.host)
	default:
		e.ok("network.bridge", n.subject(), "%s has %s %s", n.host, kind, n.Name)
	}
}

// missesBridge reports a network that a host does not have, or does not show.
func (e *networkExam) missesBridge(n *plug, all []pveapi.Network) {
	var names []string
	for _, o := range all {
		names = append(names, o.Name)
	}
	kind, fix := "bridge "+n.Name, []string{
		"pvesh create /nodes/" + n.host + "/network --iface " + pveapi.Shell(n.Name) + " --type bridge --bridge_ports PORT --autostart 1; pvesh set /nodes/" + n.host + "/network",
	}
	if zone := e.zones[n.Name]; zone != "" {
		kind = fmt.Sprintf("VNet %s of zone %s", n.Name, zone)
		fix = []string{"pvesh set /cluster/sdn, if the VNet is new; else pvesh set /cluster/sdn/zones/" + zone + " --nodes HOSTS (with " + n.host + " among them) before it"}
	}
	what := "a bridge that all its hosts have"
	if strings.HasSuffix(n.key, ".template") {
		what = "one whose networks all its hosts have"
	}
	paths, _ := bridgePaths(e.zones, n.Bridge)
	fix = append(fix, fmt.Sprintf("%s: %s, or placement.hosts without %s", n.key, what, n.host))
	e.add(e.block(n.host, n.pool.Name), "network.bridge", n.subject(), append(fix, e.zoneHint(paths[0])...),
		"%s has no %s; the token sees %s", n.host, kind, cmp.Or(strings.Join(names, ", "), "none"))
}

// SDNName is what zones and VNets may be called. Bridges are mostly called vmbr0 and so on.
var SDNName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{1,7}$`)

// zoneHint is what else may help where a network was taken for a bridge, and the right to use it
// hangs on a path: it may be a VNet whose settings the token does not see.
func (e *examination) zoneHint(path string) []string {
	rest, local := strings.CutPrefix(path, pveapi.Zones{}.Path(""))
	name, _, _ := strings.Cut(rest, "/")
	if !local || !SDNName.MatchString(name) || strings.HasPrefix(name, "vmbr") {
		return nil
	}
	hint := "if " + name + " is a VNet: SDN.Use on /sdn/zones/ZONE/" + rest + " (pvesh get /cluster/sdn/vnets shows ZONE)"
	if slices.ContainsFunc(e.site.Pools, func(p settings.Pool) bool { return p.Bridge == name }) {
		hint += ", by plimsoll pve setup --zone " + name + "=ZONE"
	}
	return []string{hint}
}
