package pveapi

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Network is a bridge, or another interface, of a host.
type Network struct {
	Name      string
	Type      string // bridge, OVSBridge, vnet
	Active    *bool  // nil where the server does not say
	VLANAware *bool  // nil where the server does not say, as of Open vSwitch, which is always
}

// Networks returns the bridges that machines of a host can be put on and the token may see.
func (c *Client) Networks(ctx context.Context, node string) ([]Network, error) {
	path, err := onNode(http.MethodGet, node, "/network")
	if err != nil {
		return nil, err
	}
	list, err := get[[]fields](ctx, c, path, url.Values{"type": {"any_bridge"}})
	if err != nil {
		return nil, err
	}
	all := make([]Network, 0, len(list))
	for _, f := range list {
		n := Network{Name: f.text("iface"), Type: f.text("type"), Active: f.flag("active"), VLANAware: f.flag("vlanaware")}
		if n.Type == "bridge" { // which says so only where it is
			aware := f.is("bridge_vlan_aware")
			n.VLANAware = &aware
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Network) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Zones are the zones of Proxmox VE's software-defined network that VNets belong to, by VNet.
type Zones map[string]string

// localNetwork is the zone of bridges that are no VNets.
const localNetwork = "localnetwork"

// Path is where rights on a bridge or VNet hang. What is not known to be a VNet is taken for a
// bridge.
func (z Zones) Path(network string) string {
	return "/sdn/zones/" + cmp.Or(z[network], localNetwork) + "/" + network
}

// Zones returns the zones of the VNets whose settings the token may see: that takes SDN.Audit on
// /sdn/zones/ZONE/VNET, for which SDN.Use is not enough. Where the server has no such networks,
// the error is Unsupported.
func (c *Client) Zones(ctx context.Context) (Zones, error) {
	list, err := get[[]fields](ctx, c, "/cluster/sdn/vnets", nil)
	if err != nil {
		return nil, err
	}
	all := make(Zones, len(list))
	for _, f := range list {
		all[f.text("vnet")] = f.text("zone")
	}
	return all, nil
}

// Zones are the zones of the VNets that the token may use. One that may not see their settings
// knows their zones by that. What it may use as a bridge is taken for one: rights outlive VNets.
func (p Permissions) Zones() Zones {
	all := Zones{}
	for _, path := range slices.Sorted(maps.Keys(p)) {
		rest, below := strings.CutPrefix(path, "/sdn/zones/")
		zone, network, named := strings.Cut(rest, "/")
		network, _, _ = strings.Cut(network, "/")
		if below && named && p.Has(path, "SDN.Use") && all[network] != localNetwork {
			all[network] = zone
		}
	}
	maps.DeleteFunc(all, func(_, zone string) bool { return zone == localNetwork })
	return all
}

// HostTime asks a host for its time. It needs Sys.Audit on /nodes/HOST.
func (c *Client) HostTime(ctx context.Context, node string) (time.Time, error) {
	path, err := onNode(http.MethodGet, node, "/time")
	if err != nil {
		return time.Time{}, err
	}
	f, err := get[fields](ctx, c, path, nil)
	if err != nil {
		return time.Time{}, err
	}
	at := f.whole("time")
	if at == nil {
		return time.Time{}, &Error{Method: http.MethodGet, Path: path, Message: "the answer has no time", class: Garbled}
	}
	return time.Unix(*at, 0), nil
}
