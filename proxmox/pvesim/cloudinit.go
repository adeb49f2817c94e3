package pvesim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

//nolint:gosec // instance ids are made with it

// resolver is the name server of every host, which guests are given that have none of their own.
const resolver = "10.255.255.53"

func getCloudInit(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, key := range sorted(m.made) {
		if m.made[key] == "" && m.conf[key] != "" { // added since the disc was made
			all = append(all, map[string]any{"key": key, "pending": shown(key, m.conf[key])})
		}
	}
	for _, key := range strings.Fields("cicustom cipassword citype ciupgrade ciuser nameserver searchdomain sshkeys") {
		value, made := m.conf[key], m.made[key]
		_, differs := m.made[key]
		if value == "" || value == "0" || differs && made == "" {
			continue
		}
		entry := map[string]any{"key": key, "value": shown(key, value)}
		if differs {
			entry["value"], entry["pending"] = shown(key, made), shown(key, value)
		}
		all = append(all, entry)
	}
	for _, key := range sorted(m.made) {
		if m.conf[key] == "" {
			all = append(all, map[string]any{"key": key, "delete": 1})
		}
	}
	return all, nil
}

func putCloudInit(k *call) (any, error) {
	j, id := k.job(), k.id()
	return nil, j.locked(id, waitFile, func() error {
		m, err := j.config(id)
		if err != nil {
			return err
		}
		if err := m.unlocked(); err != nil {
			return err
		}
		if err := j.makeSeed(m); err != nil {
			return err
		}
		m.made = nil
		return nil
	})
}

// makeSeed makes the disc with what Proxmox VE tells cloud-init, if the machine has a drive for it. Its
// volume is made anew if it has gone, as with a snapshot that knew it.
func (j *job) makeSeed(m *vm) error {
	for _, key := range drivesOf(m.conf) {
		d := parseDrive(m.conf[key])
		if !d.cloudInit() {
			continue
		}
		for _, kind := range sorted(m.custom()) {
			if err := j.mustBe(m.custom()[kind]); err != nil {
				return err
			}
		}
		if err := j.remake(m, d); err != nil {
			return err
		}
		j.print("generating cloud-init ISO")
		m.seed = &seed{
			user: j.c.custom(m, "user", userData), network: j.c.custom(m, "network", networkData), meta: j.c.custom(m, "meta", metaData),
		}
	}
	return nil
}

// mustBe refuses a volume that is not there.
func (j *job) mustBe(volid string) error {
	storage, _, _ := splitVolume(volid)
	if _, err := j.c.storageOn(j.host, storage); err != nil {
		return err
	}
	if _, v := j.c.volume(j.host, volid); v == nil {
		return failure.New("volume '%s' does not exist", volid)
	}
	return nil
}

func (j *job) remake(m *vm, d drive) error {
	storage, name, _ := splitVolume(d.file)
	s, err := j.c.storageOn(j.host, storage)
	if err != nil || s.at(j.host)[name] != nil {
		return err
	}
	w := cloudInitWanted(s, m.id, "")
	w.name = name
	_, err = j.allocate(s, w)
	return err
}

// seed is what cloud-init is told.
type seed struct{ user, network, meta []byte }

// custom are the volumes of files that replace what Proxmox VE would say.
func (m *vm) custom() params.Values { return params.PropertyString("qm-cicustom", m.conf["cicustom"]) }

// custom is one of the files of a seed: somebody's own, or what Proxmox VE says.
func (c *Cluster) custom(m *vm, kind string, otherwise func(conf map[string]string, id int) string) []byte {
	if volid := m.custom()[kind]; volid != "" {
		if _, v := c.volume(m.host, volid); v != nil {
			return v.data
		}
	}
	return []byte(otherwise(m.conf, m.id))
}

func getDump(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	conf := m.conf
	switch k.in["type"] {
	case "user":
		return userData(conf, m.id), nil
	case "network":
		return networkData(conf, m.id), nil
	}
	return metaData(conf, m.id), nil
}

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

// userData is the user-data of a machine that has a drive for it.
func userData(conf map[string]string, id int) string {
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

// networkData is the network configuration of a machine that has a drive for it.
func networkData(conf map[string]string, _ int) string {
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

// netConfig is a network card and what its guest is told about it.
type netConfig struct {
	number   string
	card, ip params.Values
}

// cards are the network cards about which guests are told anything.
func cards(conf map[string]string) []netConfig {
	var all []netConfig
	for _, key := range sorted(conf) {
		if number, is := strings.CutPrefix(key, "net"); is && isNet(key) && conf["ipconfig"+number] != "" {
			all = append(all, netConfig{number, parseNet(conf[key]), params.PropertyString("qm-ipconfig", conf["ipconfig"+number])})
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

// metaData names an instance after what it is told, so that cloud-init looks again when that changes.
func metaData(conf map[string]string, id int) string {
	sum := sha1.Sum([]byte(userData(conf, id) + networkData(conf, id))) //nolint:gosec // see above
	instance := hex.EncodeToString(sum[:])
	if nocloud(conf) {
		return "instance-id: " + instance + "\n"
	}
	return "{\n     \"uuid\": \"" + instance + "\",\n     \"network_config\": { \"content_path\": \"/content/0000\" }\n}\n"
}

// seedOf is what a guest finds: on a NoCloud disc that somebody has put into a drive, or on Proxmox VE's
// own.
func (c *Cluster) seedOf(m *vm) (user, meta, network []byte) {
	for _, key := range drivesOf(m.conf) {
		_, v := c.volume(m.host, parseDrive(m.conf[key]).file)
		if v == nil || len(v.data) == 0 {
			continue
		}
		if files, err := readNoCloud(v.data); err == nil {
			return files["user-data"], files["meta-data"], files["network-config"]
		}
	}
	if m.seed != nil {
		return m.seed.user, m.seed.meta, m.seed.network
	}
	return nil, nil, nil
}
