package firstboot

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Validate reports every fault of the profile, as Faults joined together. What is in files of
// their own is looked at as far as it has been read.
func (p *Profile) Validate() error {
	var f faults
	p.check(&f)
	return f.join()
}

func (p *Profile) check(f *faults) {
	known := oneOf(f, "kind", p.Kind, RKE2, K3s, Kubeadm, Talos, Custom)
	p.ProviderID.check(f, "providerID.")
	f.labels("labels", p.Labels, "")
	f.taints("taints", p.Taints)
	for _, key := range []string{regionLabel, zoneLabel} {
		value, given := p.Labels[key]
		f.must(!given || !p.TopologyLabels, under("labels", key), "must be absent beside topologyLabels", value)
	}
	p.checkGuest(f)
	p.checkAgent(f)
	if !known {
		return // the rest is right for one kind and wrong for another
	}
	p.checkMeant(f)
	p.checkScheme(f)
	p.checkServers(f)
	p.checkToken(f)
	p.checkKubeadm(f)
	p.Install.check(f, p.Kind)
	p.checkTemplate(f)
}

// checkMeant refuses what the kind has no use for: ignored, it would be thought to work.
func (p *Profile) checkMeant(f *faults) {
	agent, written := p.isAgent(), p.isWritten()
	elsewhere := "be written into the userDataFile"
	if p.Kind == Kubeadm {
		elsewhere = "be in the template, or come by a cloudConfigFile"
	}
	for _, c := range []struct {
		path  string
		given bool
		meant bool
		rule  string
	}{
		{"kubeletArgs", len(p.KubeletArgs) > 0, written, elsewhere},
		{"config", len(p.Config) > 0, agent, elsewhere},
		{"registriesFile", p.RegistriesFile != "" || p.Registries != "", agent, elsewhere},
		{"install", p.Install.given(), agent, elsewhere},
		{"packages", len(p.Packages) > 0, written, elsewhere},
		{"cloudConfigFile", p.CloudConfigFile != "" || p.CloudConfig != "", written, elsewhere},
		{"caCertHashes", len(p.CACertHashes) > 0, p.Kind == Kubeadm, "be absent, for only kubeadm joins by them"},
		{"userDataFile", p.UserDataFile != "" || p.UserDataTemplate != "", !written, "be a cloudConfigFile"},
		{"user", p.User != "", p.Kind != Talos, "be absent, for Talos has no users"},
		{"sshKeys", len(p.SSHKeys) > 0, p.Kind != Talos, "be absent, for Talos has no SSH"},
		{"servers", len(p.Servers) > 0, p.HasUserData(), "have a userDataFile to be written to"},
		{"tokenFile", p.TokenFile != "" || p.Token != "", p.HasUserData(), "have a userDataFile to be written to"},
		{"labels", len(p.Labels) > 0, p.HasUserData(), "have a userDataFile to be written to"},
		{"taints", len(p.Taints) > 0, p.HasUserData(), "have a userDataFile to be written to"},
		{"topologyLabels", p.TopologyLabels, p.HasUserData(), "have a userDataFile to be written to"},
	} {
		f.must(!c.given || c.meant, c.path, fmt.Sprintf("must %s, with kind %s", c.rule, p.Kind), words("given"))
	}
}

// owners are the kinds whose own controllers set the ids of a scheme.
var owners = map[Scheme]Kind{SchemeRKE2: RKE2, SchemeK3s: K3s, SchemeTalos: Talos}

// checkScheme refuses the ids that belong to another kind's own controller.
func (p *Profile) checkScheme(f *faults) {
	owner, owned := owners[p.ProviderID.Scheme]
	f.must(!owned || owner == p.Kind || p.Kind == Custom, "providerID.scheme",
		fmt.Sprintf("must not be that of %s with kind %s", owner, p.Kind), string(p.ProviderID.Scheme))
}

func (p *Profile) checkServers(f *faults) {
	if p.isWritten() {
		f.must(len(p.Servers) > 0, "servers", "must name a server at least", words("empty"))
	}
	for i, s := range p.Servers {
		_, rule := serverURL(p.Kind, s)
		f.must(rule == "", at("servers", i), rule, address(s))
	}
}

var dnsName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?$`)

// serverURL completes the address of a server, or returns the rule that it breaks.
func serverURL(kind Kind, s string) (address, rule string) {
	full := s
	if !strings.Contains(s, "://") {
		full = "https://" + s
	}
	u, err := url.Parse(full)
	// What is more than scheme and host would be dropped.
	if err != nil || u.Scheme != "https" || full != "https://"+u.Host || !isHost(u.Hostname()) {
		return "", "must be HOST, HOST:PORT or https://HOST:PORT, with an IPv6 address in brackets"
	}
	port := portOf(kind)
	if u.Port() != "" {
		port, _ = strconv.Atoi(u.Port()) // 0, which is no port, where it is too large
	}
	if rule := portRule(kind, port); rule != "" {
		return "", rule
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("https://%s:%d", host, port), ""
}

func isHost(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == "" || dnsName.MatchString(s)
}

// portRule returns the rule that the port of a server breaks, or "".
func portRule(kind Kind, port int) string {
	switch {
	case port < 1 || port > 65535:
		return "must have a port from 1 to 65535"
	case kind == RKE2 && port == agents[K3s].port:
		return "must not be at 6443, the port of the Kubernetes API, for agents of RKE2 join at 9345"
	case kind == K3s && port == agents[RKE2].port:
		return "must not be at 9345, the port of RKE2, for agents of k3s join at 6443"
	case kind == Kubeadm && port == agents[RKE2].port:
		return "must not be at 9345, the port of RKE2, for kubeadm joins at the Kubernetes API, which is 6443"
	}
	return ""
}

func (p *Profile) checkToken(f *faults) {
	t := string(p.Token)
	if t == "" {
		f.must(!p.isWritten() || p.TokenFile != "", "tokenFile", "must be there, for machines join with a token", absent)
		return
	}
	f.must(printable(t) && strings.TrimSpace(t) == t, "tokenFile", "must hold one line of text without blanks around it", hidden(t))
}

// What the profile sets itself.
var (
	ownKeys = []string{"server", "token", "token-file", "node-name", "with-node-id", "node-label", "node-taint", "kubelet-arg", "config"}
	ownArgs = []string{"provider-id", "node-labels", "register-with-taints", "hostname-override"}
)

var flagName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// checkAgent checks what is for agents of RKE2 and k3s.
func (p *Profile) checkAgent(f *faults) {
	for i, arg := range p.KubeletArgs {
		name, value, found := strings.Cut(arg, "=")
		f.must(found && flagName.MatchString(name) && value != "" && printable(value), at("kubeletArgs", i), "must be NAME=VALUE, without dashes before the name", arg)
		f.must(!slices.Contains(ownArgs, name), at("kubeletArgs", i), "must not be one of "+strings.Join(ownArgs, ", ")+", which the profile sets", arg)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Config)) {
		path, values := under("config", key), p.Config[key]
		f.must(flagName.MatchString(key), path, "must be the name of a flag, without dashes before it", key)
		f.must(!slices.Contains(ownKeys, key), path, "must not be one of "+strings.Join(ownKeys, ", ")+", which the profile sets", values)
		f.must(len(values) > 0, path, "must have a value at least", words("empty"))
		for i, v := range values {
			f.must(v != "" && printable(v), at(path, i), "must be one line of text", v)
		}
	}
	for i, name := range p.Packages {
		f.must(packageName.MatchString(name), at("packages", i), "must be the name of a package", name)
	}
	f.must(utf8.ValidString(string(p.Registries)), "registriesFile", "must be UTF-8", words("something else"))
	p.checkCloudConfig(f)
}

var packageName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9+._:=~/]*$`)

var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// checkGuest checks how people get into a machine.
func (p *Profile) checkGuest(f *faults) {
	f.must(p.User == "" || userName.MatchString(p.User), "user", "must be the name of a user, in lower case", p.User)
	for i, k := range p.SSHKeys {
		was := any(k)
		if strings.Contains(k, "PRIVATE") {
			was = words("a private key, it seems")
		}
		f.must(sshKey(k), at("sshKeys", i), "must be a public key as in an authorized_keys file: its type, its base64 and perhaps a comment, on one line", was)
	}
}

// sshKey reports whether a line is a public key whose body is of the type that it says. Proxmox
// VE refuses others, and a guest would let no one in.
func sshKey(line string) bool {
	if !printable(line) {
		return false
	}
	kind, rest, _ := strings.Cut(line, " ")
	body, _, _ := strings.Cut(rest, " ")
	blob, err := base64.StdEncoding.DecodeString(body)
	if err != nil || len(blob) < 4 {
		return false
	}
	n := binary.BigEndian.Uint32(blob)
	return n > 0 && uint64(len(blob)) > 4+uint64(n) && string(blob[4:4+n]) == kind
}

// CheckMachine reports every fault that UserData, Disc and Native would find with a machine, as
// Faults joined together. It leaves the profile to Validate, and skips files that are not read.
func (p *Profile) CheckMachine(m Machine) error {
	var f faults
	p.checkMachine(&f, &m)
	id := p.ProviderID.of(&f, &m)
	unread := func(file fileOf) bool { return file.path != "" && *file.text == "" }
	if f != nil || !p.isWritten() && p.UserDataTemplate == "" || slices.ContainsFunc(p.files(), unread) {
		return f.join()
	}
	files, err := p.userFiles(&m, id)
	if err == nil {
		err = checkDisc(files, time.Unix(0, 0))
	}
	return err
}

// checkMachine checks what is planned of a machine, beside the profile.
func (p *Profile) checkMachine(f *faults, m *Machine) {
	m.checkIdentity(f)
	f.must(!p.TopologyLabels || m.Region != "", "machine.region", "must be known for topologyLabels", m.Region)
	f.must(!p.TopologyLabels || m.Host != "", "machine.host", "must be known for topologyLabels", m.Host)
	f.labels("machine.labels", m.Labels, m.Name)
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		if said, ok := p.Labels[key]; ok {
			f.must(said == m.Labels[key], under("machine.labels", key), "must be as the profile has it, "+show(said), m.Labels[key])
		}
	}
	f.taints("machine.taints", m.Taints)
	for i, t := range m.Taints {
		for _, said := range p.Taints {
			f.must(said.Key != t.Key || said.Effect != t.Effect || said == t, at("machine.taints", i), "must be as the profile has it, "+said.String(), t.String())
		}
	}
	f.nics("machine.nics", m.NICs)
}

// checkIdentity checks what ids are made of.
func (m *Machine) checkIdentity(f *faults) {
	f.name("machine.name", m.Name)
	f.must(m.Host == "" || len(m.Host) <= 63 && hostPattern.MatchString(m.Host), "machine.host", "must be the name of a Proxmox VE node", m.Host)
	f.must(m.Region == "" || len(m.Region) <= 63 && regionPattern.MatchString(m.Region), "machine.region",
		"must be at most 63 letters, digits, -, _ and ., with a letter or digit at both ends", m.Region)
	f.must(m.UUID == "" || uuidPattern.MatchString(strings.ToLower(m.UUID)), "machine.uuid", "must be a UUID", m.UUID)
}
