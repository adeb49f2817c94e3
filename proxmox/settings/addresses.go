package settings

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// span is a range of addresses, both ends included.
type span struct{ first, last netip.Addr }

func (s span) holds(a netip.Addr) bool { return s.first.Compare(a) <= 0 && a.Compare(s.last) <= 0 }

func (s span) String() string { return s.first.String() + "-" + s.last.String() }

// addresses are those that machines of the pool may get: any VMID of its range may be taken.
func (p *Pool) addresses() (all span, known bool) {
	n := p.VMIDs.Len()
	if !p.Network.Static() || n < 1 || n > 1<<24 {
		return span{}, false // by DHCP, or the VMIDs are at fault and said to be
	}
	return span{p.Network.First.Addr(), p.Network.Address(n - 1).Addr()}, true
}

// used is an address that is in use already, and the key of the pool that names it.
type used struct {
	key string
	at  netip.Addr
}

// uses are the addresses that the pool's machines need to find others at, as far as they are
// written as addresses.
func (p *Pool) uses() []used {
	all := []used{{"network.gateway", p.Network.Gateway}}
	for i, a := range p.Network.Nameservers {
		all = append(all, used{fmt.Sprintf("network.nameservers[%d]", i), a})
	}
	for i, s := range p.Join.Servers {
		all = append(all, used{fmt.Sprintf("join.servers[%d]", i), addressIn(s)})
	}
	return all
}

// addressIn is the address in HOST, HOST:PORT or https://HOST:PORT; the zero value if HOST is a
// name.
func addressIn(server string) netip.Addr {
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	u, err := url.Parse(server)
	if err != nil {
		return netip.Addr{} // said to be at fault where it is checked
	}
	a, _ := netip.ParseAddr(u.Hostname())
	return a.Unmap().WithZone("")
}

// elsewhere is the way out of all faults of ranges.
const elsewhere = ": move network.first, or take fewer vmids"

// checkAddresses refuses ranges that hold what the cluster works through. A machine that answers
// in the place of a join server or a nameserver takes the cluster down, and not itself.
func (p *Pool) checkAddresses(f Faults) {
	own, known := p.addresses()
	if !known {
		return
	}
	for _, u := range p.uses() {
		f.Must(!own.holds(u.at), u.key, fmt.Sprintf("not be one of the machines' addresses %s%s", own, elsewhere), u.at)
	}
}

// checkAddresses refuses ranges of two pools that overlap, and those that hold what another pool
// or this program works through. Bridges and VLANs do not matter: all machines are nodes of one
// cluster, which routes by their addresses.
func (s *Site) checkAddresses(f Faults) {
	for i := range s.Pools {
		p, at := &s.Pools[i], f.index("pools", i)
		own, known := p.addresses()
		if !known {
			continue
		}
		not := func(kept bool, what string) { at.Must(kept, "network.first", "not "+what+elsewhere, own) }
		for j := range s.Pools {
			q := &s.Pools[j]
			if i == j {
				continue
			}
			if other, known := q.addresses(); known && j < i {
				apart := own.last.Less(other.first) || other.last.Less(own.first)
				not(apart, fmt.Sprintf("overlap %s of pool %s", other, q.Name))
			}
			for _, u := range q.uses() {
				if len(p.Join.Servers) == 0 && strings.HasPrefix(u.key, "join.") {
					continue // they join none, and may be the servers
				}
				not(!own.holds(u.at), fmt.Sprintf("hold %s, which is %s of pool %s", u.at, u.key, q.Name))
			}
		}
		for _, e := range s.Endpoints {
			a := addressIn(e)
			not(!own.holds(a), fmt.Sprintf("hold %s, where %s is", a, e))
		}
	}
}
