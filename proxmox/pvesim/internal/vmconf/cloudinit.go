package vmconf

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

// resolver is the name server of every host, which guests are given that have none of their own.
const resolver = "10.255.255.53"

func nocloud(conf map[string]string) bool {
	if conf["citype"] != "" {
		return conf["citype"] == "nocloud"
	}
	return !strings.HasPrefix(conf["ostype"], "w")
}

func hostname(conf map[string]string, id int) (short, fqdn string) {
	name := conf["name"]
	if name == "" {
		name = "VM" + strconv.Itoa(id)
	}
	short, _, dotted := strings.Cut(name, ".")
	switch {
	case dotted:
		return short, name
	case conf["searchdomain"] != "":
		return name, name + "." + conf["searchdomain"]
	}
	return name, name
}

// UserData is the user-data of a machine that has a drive for it.
func UserData(conf map[string]string, id int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	short, fqdn := hostname(conf, id)
	line("#cloud-config\nhostname: %s\nmanage_etc_hosts: true\nfqdn: %s", short, fqdn)
	user, named := conf["ciuser"]
	if named {
		line("user: %s", user)
	}
	if user == "root" {
		line("disable_root: False")
	}
	if conf["cipassword"] != "" {
		line("password: %s", conf["cipassword"])
	}
	if keys, err := url.PathUnescape(conf["sshkeys"]); err == nil && keys != "" {
		line("ssh_authorized_keys:")
		for key := range strings.SplitSeq(keys, "\n") {
			if strings.TrimSpace(key) != "" {
				line("  - %s", key)
			}
		}
	}
	line("chpasswd:\n  expire: False")
	if user != "root" {
		line("users:\n  - default")
	}
	if conf["ciupgrade"] != "0" {
		line("package_upgrade: true")
	}
	return b.String()
}

// resolvers are the name servers and search domains that a guest is given.
func resolvers(conf map[string]string) (servers, domains []string) {
	servers = strings.Fields(conf["nameserver"])
	if conf["nameserver"] == "" {
		servers = []string{resolver}
	}
	return servers, strings.Fields(conf["searchdomain"])
}

// NetworkData is the network configuration of a machine that has a drive for it.
func NetworkData(conf map[string]string, _ int) string {
	if !nocloud(conf) {
		return debianNetwork(conf)
	}
	var b strings.Builder
	line := func(indent int, format string, args ...any) {
		b.WriteString(strings.Repeat(" ", indent))
		fmt.Fprintf(&b, format+"\n", args...)
	}
	line(0, "version: 1\nconfig:")
	for _, n := range cards(conf) {
		line(4, "- type: physical")
		line(6, "name: eth%s", n.number)
		line(6, "mac_address: '%s'", strings.ToLower(n.card["macaddr"]))
		line(6, "subnets:")
		for _, text := range n.subnets() {
			line(6, "%s", text)
		}
	}
	servers, domains := resolvers(conf)
	line(4, "- type: nameserver")
	quoted := func(name string, all []string) {
		if len(all) > 0 {
			line(6, "%s:", name)
		}
		for _, one := range all {
			line(6, "- '%s'", one)
		}
	}
	quoted("address", servers)
	quoted("search", domains)
	return b.String()
}

// netConfig is a network card and what its guest learns of it.
type netConfig struct {
	number   string
	card, ip params.Values
}

// cards are the network cards about which guests learn anything.
func cards(conf map[string]string) []netConfig {
	var all []netConfig
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		if number, is := strings.CutPrefix(key, "net"); is && IsNet(key) && conf["ipconfig"+number] != "" {
			all = append(all, netConfig{number, ParseNet(conf[key]), params.PropertyString("qm-ipconfig", conf["ipconfig"+number])})
		}
	}
	return all
}

// subnets are the lines that say which addresses a card has.
func (n netConfig) subnets() []string {
	var all []string
	switch ip := n.ip["ip"]; {
	case ip == "dhcp":
		all = append(all, "- type: dhcp4")
	case ip != "":
		address, mask := splitPrefix(ip)
		all = append(all, "- type: static", "  address: '"+address+"'", "  netmask: '"+mask+"'")
		if n.ip.Has("gw") {
			all = append(all, "  gateway: '"+n.ip["gw"]+"'")
		}
	}
	switch ip := n.ip["ip6"]; {
	case ip == "dhcp":
		all = append(all, "- type: dhcp6")
	case ip == "auto":
		all = append(all, "- type: ipv6_slaac")
	case ip != "":
		all = append(all, "- type: static6", "  address: '"+ip+"'")
		if n.ip.Has("gw6") {
			all = append(all, "  gateway: '"+n.ip["gw6"]+"'")
		}
	}
	return all
}

// splitPrefix is an address with its mask as it was written before there were prefixes.
func splitPrefix(text string) (address, mask string) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return text, ""
	}
	return p.Addr().String(), net.IP(net.CIDRMask(p.Bits(), p.Addr().BitLen())).String()
}

// debianNetwork is the network configuration in the form of Debian's file of interfaces.
func debianNetwork(conf map[string]string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("auto lo\niface lo inet loopback\n")
	servers, domains := resolvers(conf)
	line("        dns_nameservers %s", strings.Join(servers, " "))
	if len(domains) > 0 {
		line("        dns_search %s", strings.Join(domains, " "))
	}
	for _, n := range cards(conf) {
		name := "eth" + n.number
		line("auto %s", name)
		for _, family := range []struct{ inet, ip, gw string }{{"inet", n.ip["ip"], n.ip["gw"]}, {"inet6", n.ip["ip6"], n.ip["gw6"]}} {
			switch family.ip {
			case "":
				continue
			case "dhcp", "auto":
				line("iface %s %s %s", name, family.inet, family.ip)
				continue
			}
			address, mask := splitPrefix(family.ip)
			if family.inet == "inet6" {
				_, mask, _ = strings.Cut(family.ip, "/")
			}
			line("iface %s %s static\n        address %s\n        netmask %s", name, family.inet, address, mask)
			if family.gw != "" {
				line("        gateway %s", family.gw)
			}
		}
	}
	return b.String()
}

// MetaData names an instance after what it holds, so that cloud-init looks again when that
// changes.
func MetaData(conf map[string]string, id int) string {
	sum := sha1.Sum([]byte(UserData(conf, id) + NetworkData(conf, id))) //nolint:gosec // see above
	instance := hex.EncodeToString(sum[:])
	if nocloud(conf) {
		return "instance-id: " + instance + "\n"
	}
	return "{\n     \"uuid\": \"" + instance + "\",\n     \"network_config\": { \"content_path\": \"/content/0000\" }\n}\n"
}
