package signals

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Access says what the objects of a namespace may make this program ask. Empty, none of them names
// a server of its own, and none asks the shared Prometheus for series of another namespace.
type Access struct {
	// AllowedHosts are the servers that objects may name.
	AllowedHosts []AllowedHosts `json:"allowedHosts,omitempty"`
	// FreeQueries are the namespaces whose own queries and presets may read every series of the
	// shared Prometheus; * is all of them.
	FreeQueries []string `json:"freeQueries,omitempty"`
	// APIServers are the API server's addresses, as host:port. No object may name them.
	APIServers []string `json:"-"`
}

// AllowedHosts are servers that the objects of some namespaces may name.
type AllowedHosts struct {
	// Hosts are names or addresses, with a port or for all but those of a control plane. A server
	// whose address is loopback, our own, link-local, unspecified, multicast, an IPv6 tunnel's
	// or the API server's is asked only if that address is here.
	Hosts []string `json:"hosts" strict:"required"`
	// Namespaces are those whose objects may name them; without any, all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Headers are the names of those that objects may have sent there.
	Headers []string `json:"headers,omitempty"`
	// PlaintextCredentials has what Secrets hold sent there without TLS, too.
	PlaintextCredentials bool `json:"plaintextCredentials,omitempty"`
}

// everyNamespace is all of them, in FreeQueries.
const everyNamespace = "*"

// Validate returns every fault of the settings, with the key that each is under, or nil.
func (a *Access) Validate() error {
	var f podscaler.Faults
	for i := range a.AllowedHosts {
		h, key := &a.AllowedHosts[i], fmt.Sprintf("allowedHosts[%d]", i)
		f.Unless(len(h.Hosts) > 0, key+".hosts", "must name a host", "none")
		for j, host := range h.Hosts {
			f.Unless(hostForm(host), fmt.Sprintf("%s.hosts[%d]", key, j),
				"must be a DNS name in lower case or an address, with a port or without, such as prometheus.monitoring:9090, and 127.0.0.1 or ::1 for localhost", strconv.Quote(host))
		}
		for j, n := range h.Namespaces {
			f.Unless(nameForm.MatchString(n), fmt.Sprintf("%s.namespaces[%d]", key, j), "must be the name of a namespace", strconv.Quote(n))
		}
		for j, name := range h.Headers {
			f.Unless(headerForm.MatchString(name) && !ownHeader(name), fmt.Sprintf("%s.headers[%d]", key, j),
				"must be the name of a header that HTTP itself makes no use of, and that carries no credentials", strconv.Quote(name))
		}
	}
	for i, n := range a.FreeQueries {
		f.Unless(n == everyNamespace || nameForm.MatchString(n), fmt.Sprintf("freeQueries[%d]", i), "must be the name of a namespace, or *", strconv.Quote(n))
	}
	return errors.Join(f...)
}

// ownHeader reports whether a header is HTTP's own business, or carries credentials: those come
// from Secrets and the administrator's files.
func ownHeader(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "connection", "content-encoding", "content-length", "content-type", "cookie", "expect", "host",
		"keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

var dnsForm = regexp.MustCompile(`^[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*$`)

func hostForm(text string) bool {
	host, port := splitHost(text)
	if _, err := netip.ParseAddr(host); err == nil {
		return portForm(port)
	}
	// localhost is a name for addresses that must be listed as such.
	return dnsForm.MatchString(host) && host != "localhost" && len(host) <= 253 && portForm(port)
}

func portForm(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// splitHost parts host:port. What has no port has none of its own, IPv6 addresses without brackets
// among them.
func splitHost(text string) (host, port string) {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return addr.Unmap().String(), ""
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return text, ""
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().String()
	}
	return host, port
}

// free reports whether a namespace's queries may read every series of the shared Prometheus.
func (a *Access) free(namespace string) bool {
	return slices.Contains(a.FreeQueries, namespace) || slices.Contains(a.FreeQueries, everyNamespace)
}

// permit is what an object may do at a server that it names.
type permit struct {
	access    *Access
	namespace string
	secure    bool // by TLS
	plaintext bool // credentials may go there without
}

// permit looks whether the objects of a namespace may name a server, and may have headers sent
// there.
func (a *Access) permit(namespace, server string, headers map[string]string) (*permit, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return nil, denied("%s is no address", strconv.Quote(redactText(server)))
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	p := &permit{access: a, namespace: namespace, secure: u.Scheme == "https"}
	listed := a.listed(namespace, host, port)
	switch {
	case len(listed) == 0 && slices.Contains(controlPlane, port):
		return nil, denied("%s is not in signals.allowedHosts for namespace %s: port %s is listed only by a host with that port",
			net.JoinHostPort(host, port), namespace, port)
	case len(listed) == 0:
		return nil, denied("%s is not in signals.allowedHosts for namespace %s", net.JoinHostPort(host, port), namespace)
	}
	var sent []string
	for _, h := range listed {
		p.plaintext = p.plaintext || h.PlaintextCredentials
		sent = append(sent, h.Headers...)
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if !slices.ContainsFunc(sent, func(s string) bool { return strings.EqualFold(s, name) }) {
			return nil, denied("header %s is not in signals.allowedHosts for %s and namespace %s", name, net.JoinHostPort(host, port), namespace)
		}
	}
	return p, nil
}

// controlPlane are ports of what runs a cluster and its machines: etcd, API servers, Proxmox VE,
// RKE2, kubelets, controllers and Talos. A name may lead to any node, so that these are reached
// only where the administrator lists a host with one of them.
var controlPlane = []string{"2379", "2380", "6443", "6444", "8006", "9345", "10250", "10255", "10256", "10257", "10259", "50000", "50001"}

// listed are the settings that name a server for a namespace.
func (a *Access) listed(namespace, host, port string) []*AllowedHosts {
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().String()
	}
	var all []*AllowedHosts
	for i := range a.AllowedHosts {
		h := &a.AllowedHosts[i]
		if len(h.Namespaces) > 0 && !slices.Contains(h.Namespaces, namespace) {
			continue
		}
		if slices.ContainsFunc(h.Hosts, func(text string) bool {
			name, only := splitHost(text)
			return name == host && (only == port || only == "" && !slices.Contains(controlPlane, port))
		}) {
			all = append(all, h)
		}
	}
	return all
}

// shows looks whether a server may see credentials.
func (p *permit) shows(c *Credentials) error {
	secret := c.Token != "" || c.Username != "" || c.Password != "" || len(c.Key) > 0
	if p == nil || p.secure || p.plaintext || !secret {
		return nil
	}
	return denied("credentials go over TLS alone, unless signals.allowedHosts has plaintextCredentials for the host")
}

// dialTimeout is the longest that a connection takes to be made.
const dialTimeout = 3 * time.Second

// dial connects to what a name means at that moment, if that may be asked: a name may mean another
// address each time it is looked up.
func (p *permit) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		return p.reaches(ctx, address)
	}}
	return d.DialContext(ctx, network, address)
}

// reaches looks whether an address may be connected to, which is host:port with the host an IP.
func (p *permit) reaches(ctx context.Context, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return denied("%s is no address", address)
	}
	ip := at.Addr().Unmap().WithZone("")
	if len(p.access.listed(p.namespace, ip.String(), strconv.Itoa(int(at.Port())))) > 0 {
		return nil
	}
	for _, is := range append(carried(ip), ip) {
		switch {
		case amiss(is):
			return denied("%s is loopback, this machine's own, link-local, unspecified, multicast or an IPv6 tunnel's, and not itself in signals.allowedHosts for namespace %s",
				ip, p.namespace)
		case p.access.serves(ctx, is, at.Port()):
			return denied("%s is the API server, and not itself in signals.allowedHosts for namespace %s", at, p.namespace)
		}
	}
	return nil
}

// amissRanges are what the methods of an address do not know. Tunnels through IPv4 (compatible and
// translated addresses, Teredo, 6to4) are of no more use than to get around a rule about IPv4.
var amissRanges = ranges("0.0.0.0/8", "240.0.0.0/4", "::/96", "::ffff:0:0:0/96", "2001::/32", "2002::/16")

func ranges(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// amiss reports whether a name may not lead to an address. A cluster's services are at private
// ones.
func amiss(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() ||
		slices.ContainsFunc(amissRanges, func(r netip.Prefix) bool { return r.Contains(ip) }) {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(own, func(a net.Addr) bool {
		is, err := netip.ParsePrefix(a.String())
		return err == nil && is.Addr().Unmap().WithZone("") == ip
	})
}

// nat64 are the ranges of addresses that gateways translate: the one for all sites, and a site's
// own.
var nat64 = ranges("64:ff9b::/96", "64:ff9b:1::/48")

// carried are the IPv4 addresses that one of NAT64 may lead to. A site's does not say how long its
// prefix is, so that each way to read it counts but those that lead nowhere.
func carried(ip netip.Addr) []netip.Addr {
	b := ip.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case nat64[0].Contains(ip):
		return []netip.Addr{last}
	case !nat64[1].Contains(ip):
		return nil
	}
	all := []netip.Addr{ // RFC 6052: byte 8 is not part of the address
		netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}), netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}), netip.AddrFrom4([4]byte(b[9:13])), last,
	}
	some := slices.DeleteFunc(slices.Clone(all), amissRanges[0].Contains)
	if len(some) == 0 {
		return all
	}
	return some
}

// serves reports whether the API server is at an address.
func (a *Access) serves(ctx context.Context, ip netip.Addr, port uint16) bool {
	for _, server := range a.APIServers {
		host, on := splitHost(server)
		if on != strconv.Itoa(int(port)) {
			continue
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			if addr == ip {
				return true
			}
			continue
		}
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err == nil && slices.ContainsFunc(all, func(b netip.Addr) bool { return b.Unmap() == ip }) {
			return true
		}
	}
	return false
}
