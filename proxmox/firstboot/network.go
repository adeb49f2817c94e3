package firstboot

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// NIC is how one network interface of a machine gets its addresses. Its place in the list is N
// of Proxmox VE's netN.
type NIC struct {
	// MAC is that of the interface, by which the guest finds it: names differ between systems.
	MAC string `json:"mac"`
	// IPv4 is "dhcp", "none" or an address with its prefix length, such as 10.0.0.5/24.
	IPv4     string `json:"ipv4"`
	Gateway4 string `json:"gateway4,omitempty"`
	// IPv6 is "dhcp", "auto", which is by router advertisements, "none" or an address with its
	// prefix length; empty means "none".
	IPv6     string   `json:"ipv6,omitempty"`
	Gateway6 string   `json:"gateway6,omitempty"`
	DNS      []string `json:"dns,omitempty"`    // servers, by address
	Search   []string `json:"search,omitempty"` // domains that short names are looked for in
}

const (
	dhcp   = "dhcp"
	auto   = "auto"
	noAddr = "none"
)

// static reports whether a way to get an address is an address.
func static(way string) bool { return strings.Contains(way, "/") }

var macPattern = regexp.MustCompile(`^[0-9A-Fa-f][02468ACEace](:[0-9A-Fa-f]{2}){5}$`)

// networkConfig is a network-config of version 2. Gateways are written as gateway4 and
// gateway6: older guests read a default route among routes with a wrong prefix, or not at all,
// and Talos' older ones want names that begin with eth.
func networkConfig(nics []NIC) string {
	var ethernets mapping
	for i, n := range nics {
		m := mapping{{"match", mapping{{"macaddress", strings.ToLower(n.MAC)}}}}
		m.add("dhcp4", n.IPv4 == dhcp)
		if n.IPv4 == dhcp {
			// Clones that kept their template's machine id would ask for the same lease.
			m.add("dhcp-identifier", "mac")
		}
		m.add("dhcp6", n.IPv6 == dhcp)
		if n.IPv6 == auto {
			m.add("accept-ra", true)
		}
		m.some("addresses", n.addresses())
		if n.Gateway4 != "" {
			m.add("gateway4", n.Gateway4)
		}
		if n.Gateway6 != "" {
			m.add("gateway6", n.Gateway6)
		}
		var servers mapping
		servers.some("addresses", n.DNS)
		servers.some("search", n.Search)
		if servers != nil {
			m.add("nameservers", servers)
		}
		ethernets.add("eth"+strconv.Itoa(i), m)
	}
	return document(mapping{{"version", 2}, {"ethernets", ethernets}})
}

// addresses are the static ones.
func (n *NIC) addresses() []string {
	return slices.DeleteFunc([]string{n.IPv4, n.IPv6}, func(way string) bool { return !static(way) })
}

// ipconfig is the interface as Proxmox VE's ipconfigN has it; empty where it gets no address.
func (n *NIC) ipconfig() string {
	var parts []string
	for _, p := range [][2]string{{"ip", n.IPv4}, {"gw", n.Gateway4}, {"ip6", n.IPv6}, {"gw6", n.Gateway6}} {
		if p[1] != "" && p[1] != noAddr {
			parts = append(parts, p[0]+"="+p[1])
		}
	}
	return strings.Join(parts, ",")
}

// nics checks the interfaces of a machine.
func (f *faults) nics(path string, nics []NIC) {
	var gateway4, gateway6 int
	for i := range nics {
		n, path := &nics[i], at(path, i)
		f.must(macPattern.MatchString(n.MAC), path+".mac", "must be a unicast MAC address such as bc:24:11:00:00:01", n.MAC)
		same := slices.IndexFunc(nics[:i], func(o NIC) bool { return strings.EqualFold(o.MAC, n.MAC) })
		f.must(same < 0, path+".mac", "must be no other interface's", n.MAC)
		f.way(path+".ipv4", n.IPv4, 4)
		f.gateway(path+".gateway4", n.Gateway4, "ipv4", n.IPv4)
		if n.IPv6 != "" {
			f.way(path+".ipv6", n.IPv6, 6)
		}
		f.gateway(path+".gateway6", n.Gateway6, "ipv6", n.IPv6)
		f.resolvers(path, n)
		if n.Gateway4 != "" {
			gateway4++
			f.must(gateway4 == 1, path+".gateway4", "must be the machine's only one, for there is one default route", n.Gateway4)
		}
		if n.Gateway6 != "" {
			gateway6++
			f.must(gateway6 == 1, path+".gateway6", "must be the machine's only one, for there is one default route", n.Gateway6)
		}
	}
}

// way checks how an interface gets its address of a family.
func (f *faults) way(path, way string, family int) {
	if way == dhcp || way == noAddr || family == 6 && way == auto {
		return
	}
	rule := `must be "dhcp", "none" or an address with its prefix length, such as 10.0.0.5/24`
	if family == 6 {
		rule = `must be "dhcp", "auto", "none" or an address with its prefix length, such as fd00::5/64`
	}
	p, err := netip.ParsePrefix(way)
	if !f.must(err == nil && p.Addr().Is4() == (family == 4) && !p.Addr().Is4In6(), path, rule, way) {
		return
	}
	// Proxmox VE knows no shorter prefixes.
	if !f.must(p.Bits() >= 8, path, "must have a prefix of at least 8 bits", way) {
		return
	}
	a := p.Addr()
	f.must(p.Bits() >= a.BitLen()-1 || a != p.Masked().Addr(), path, "must be an address of a host, not that of its network", way)
	f.must(p.Bits() >= 31 || a.Is6() || a != broadcast(p), path, "must be an address of a host, not the broadcast address", way)
}

// broadcast is the last address of an IPv4 network.
func broadcast(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b)
}

// gateway checks a gateway against the address on whose network it must be. An IPv6 router may
// also be given by its address on the link.
func (f *faults) gateway(path, gateway, key, way string) {
	if gateway == "" {
		return
	}
	if !f.must(static(way), path, "must be absent unless "+key+" is an address", gateway) {
		return
	}
	own, err := netip.ParsePrefix(way)
	if err != nil {
		return // reported with the address already
	}
	a, err := netip.ParseAddr(gateway)
	kept := err == nil && a.Zone() == "" && a != own.Addr() &&
		(own.Contains(a) || a.Is6() && own.Addr().Is6() && a.IsLinkLocalUnicast())
	f.must(kept, path, fmt.Sprintf("must be another address of %s", own.Masked()), gateway)
}

func (f *faults) resolvers(path string, n *NIC) {
	for i, server := range n.DNS {
		a, err := netip.ParseAddr(server)
		f.must(err == nil && a.Zone() == "", at(path+".dns", i), "must be an address", server)
	}
	for i, domain := range n.Search {
		f.must(len(domain) <= 253 && labelPrefix.MatchString(domain), at(path+".search", i), "must be a DNS name in lower case", domain)
	}
}
