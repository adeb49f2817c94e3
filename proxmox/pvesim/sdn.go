package pvesim

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

var sdnEndpoints = []api.Endpoint{
	{Method: "GET", Path: "/cluster/sdn/zones", May: api.Anybody, Do: getZones,
		In: `pending?:bool running?:bool type?:enum(evpn,faucet,qinq,simple,vlan,vxlan)`},
	{Method: "GET", Path: "/cluster/sdn/vnets", May: api.Anybody, Do: getVNets, In: `pending?:bool running?:bool`},
	{Method: "GET", Path: "/nodes/{node}/sdn/zones/{zone}/content", May: api.May("/sdn/zones/{zone}", "SDN.Audit"), Protected: true,
		Do: getZoneContent},
}

// getZones lists the zones whose settings the caller may see: the right to use them is not enough.
func getZones(k *api.Call) (any, error) {
	all := []any{}
	for _, z := range k.World.Config.Zones {
		wanted := !k.In.Has("type") || k.In["type"] == z.Type
		if wanted && k.World.Access.MayAny(k.Who, world.ZonePath(z.Name), "SDN.Audit", "SDN.Allocate") {
			e := map[string]any{"zone": z.Name, "type": z.Type, "digest": digestOfNothing}
			if len(z.Hosts) > 0 {
				e["nodes"] = strings.Join(z.Hosts, ",")
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// getVNets lists the VNets whose settings the caller may see, with their zones.
func getVNets(k *api.Call) (any, error) {
	all := []any{}
	for _, z := range k.World.Config.Zones {
		for _, v := range z.VNets {
			if k.World.Access.MayAny(k.Who, k.World.Config.NetworkPath(v.Name), "SDN.Audit", "SDN.Allocate") {
				all = append(all, map[string]any{
					"vnet": v.Name, "type": "vnet", "zone": z.Name, "vlanaware": world.Number(v.VLANAware), "digest": digestOfNothing,
				})
			}
		}
	}
	return all, nil
}

// getZoneContent lists the VNets of a zone that the host has.
func getZoneContent(k *api.Call) (any, error) {
	all := []any{}
	for _, z := range k.World.Config.Zones {
		for _, v := range z.VNets {
			if z.Name == k.In["zone"] && z.On(k.Node.Name) {
				all = append(all, map[string]any{"vnet": v.Name, "status": "available"})
			}
		}
	}
	return all, nil
}

// vnetsOf are the VNets that a host has, as interfaces.
func vnetsOf(k *api.Call) []map[string]any {
	var all []map[string]any
	for _, z := range k.World.Config.Zones {
		for _, v := range z.VNets {
			if z.On(k.Node.Name) {
				all = append(all, map[string]any{"iface": v.Name, "type": "vnet", "active": "1", "ipam": 0, "vlanaware": world.Number(v.VLANAware)})
			}
		}
	}
	return all
}

// seesNetwork reports whether the caller is shown a bridge or VNet: rights on one of its VLANs do.
func (k view) seesNetwork(name string) bool {
	path := k.World.Config.NetworkPath(name)
	return slices.ContainsFunc(append(world.Sorted(k.World.Access.ACL), path), func(at string) bool {
		return (at == path || strings.HasPrefix(at, path+"/")) && k.World.Access.MayAny(k.Who, at, "SDN.Audit", "SDN.Use")
	})
}
