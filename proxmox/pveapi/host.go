package pveapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Network is a bridge, or another interface, of a host.
type Network struct {
	Name      string
	Type      string // bridge, OVSBridge, vnet
	Active    *bool  // nil where the server does not say
	VLANAware bool
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
		all = append(all, Network{Name: f.text("iface"), Type: f.text("type"), Active: f.flag("active"), VLANAware: f.is("bridge_vlan_aware")})
	}
	slices.SortFunc(all, func(a, b Network) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
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
