package firstboot

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Native returns what a machine gets in Proxmox VE's own cloud-init keys: its user, SSH keys
// and network. It is for templates that join by themselves, and an error for every other
// profile. Labels and taints are such a template's own business. There is never a password.
func (p *Profile) Native(m Machine) (map[string]string, error) {
	var f faults
	p.check(&f)
	p.checkMachine(&f, &m)
	f.must(!p.HasUserData(), "kind", "must be custom without a userDataFile where Proxmox VE's own keys are used", string(p.Kind))
	if err := f.join(); err != nil {
		return nil, err
	}
	keys := map[string]string{"citype": "nocloud"}
	if p.User != "" {
		keys["ciuser"] = p.User
	}
	if len(p.SSHKeys) > 0 {
		keys["sshkeys"] = encodeSSHKeys(p.SSHKeys)
	}
	var dns, search []string
	for i := range m.NICs {
		n := &m.NICs[i]
		if c := n.ipconfig(); c != "" {
			keys[fmt.Sprintf("ipconfig%d", i)] = c
		}
		dns, search = append(dns, n.DNS...), append(search, n.Search...)
	}
	if len(dns) > 0 {
		keys["nameserver"] = strings.Join(unique(dns), " ")
	}
	if len(search) > 0 {
		keys["searchdomain"] = strings.Join(unique(search), " ")
	}
	return keys, nil
}

// encodeSSHKeys percent-encodes keys as Proxmox VE wants them before the encoding of the form:
// it refuses a + for a blank.
func encodeSSHKeys(keys []string) string {
	return strings.ReplaceAll(url.QueryEscape(strings.Join(keys, "\n")+"\n"), "+", "%20")
}

// unique keeps the first of each.
func unique(values []string) []string {
	var out []string
	for _, v := range values {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
