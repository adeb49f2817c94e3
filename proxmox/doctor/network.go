package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// examineNetwork looks whether the hosts have the networks that machines are put on.
func (e *examination) examineNetwork() {
	seen := map[string][]pveapi.Network{}
	for i := range e.site.Pools {
		p := &e.site.Pools[i]
		e.skipHostless("network.bridge", p)
		path := bridgePath(pveapi.Bridge{Name: p.Bridge, VLAN: p.VLAN})
		for _, host := range e.candidates(p) {
			subject := p.Bridge + " on " + host + " for pool " + p.Name
			if !e.have.Has(path, "SDN.Use") {
				e.skip("network.bridge", subject, "not looked at: it takes SDN.Use on %s", path)
				continue
			}
			if _, read := seen[host]; !read {
				list, err := e.client.Networks(e.ctx, host)
				if err != nil {
					e.failed("network.bridge", subject, err)
					continue
				}
				seen[host] = list
			}
			e.examineBridge(i, p, host, subject, seen[host])
		}
	}
}

func (e *examination) examineBridge(i int, p *settings.Pool, host, subject string, all []pveapi.Network) {
	at := slices.IndexFunc(all, func(n pveapi.Network) bool { return n.Name == p.Bridge })
	switch {
	case at < 0:
		var names []string
		for _, n := range all {
			names = append(names, n.Name)
		}
		e.add(e.block(host, p.Name), "network.bridge", subject, []string{
			"pvesh create /nodes/" + host + "/network --iface " + pveapi.Shell(p.Bridge) + " --type bridge --bridge_ports PORT --autostart 1; pvesh set /nodes/" + host + "/network",
			fmt.Sprintf("%s.bridge: a bridge that all its hosts have, or placement.hosts without %s", e.site.KeyOf(i), host),
		}, "%s has no bridge %s; the token sees %s", host, p.Bridge, cmp.Or(strings.Join(names, ", "), "none"))
	case all[at].Active != nil && !*all[at].Active:
		e.add(Warn, "network.bridge", subject, []string{"ifup " + pveapi.Shell(p.Bridge) + " (on " + host + ")"}, "bridge %s is not up on %s", p.Bridge, host)
	case p.VLAN != 0 && all[at].Type == "bridge" && !all[at].VLANAware:
		// In the file and not through the API, which takes a bridge's addresses away in every
		// change that does not repeat them: hosts are mostly reached by that bridge.
		e.add(Warn, "network.bridge", subject, []string{
			"bridge-vlan-aware yes and bridge-vids 2-4094, below iface " + p.Bridge + " in /etc/network/interfaces (on " + host + "), and then ifreload -a",
		},
			"bridge %s on %s does not know VLANs: each VLAN gets a bridge of its own there", p.Bridge, host)
	default:
		e.ok("network.bridge", subject, "%s has bridge %s", host, p.Bridge)
	}
}
