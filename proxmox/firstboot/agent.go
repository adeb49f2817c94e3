package firstboot

import (
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
)

// agents are what the two kinds of agents differ in.
var agents = map[Kind]struct {
	port    int            // of a server, where agents join
	version *regexp.Regexp // what versions look like
	sample  string         // one of them
	script  string         // where the install script is
	prefix  string         // of the script's variables
	env     map[string]string
}{
	RKE2: {
		port:    9345,
		version: regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?\+rke2r\d+$`),
		sample:  "v1.34.1+rke2r1",
		script:  "https://get.rke2.io",
		prefix:  "INSTALL_RKE2_",
		env:     map[string]string{"INSTALL_RKE2_TYPE": "agent"},
	},
	K3s: {
		port:    6443,
		version: regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?\+k3s\d+$`),
		sample:  "v1.34.1+k3s1",
		script:  "https://get.k3s.io",
		prefix:  "INSTALL_K3S_",
		// Enabling starts the agent, and waits for it.
		env: map[string]string{"INSTALL_K3S_EXEC": "agent", "INSTALL_K3S_SKIP_ENABLE": "true"},
	},
}

// isAgent reports whether machines join as agents of RKE2 or k3s.
func (p *Profile) isAgent() bool {
	_, ok := agents[p.Kind]
	return ok
}

// isWritten reports whether the user-data is made of the profile's keys: there is no text of the
// operator's to fill in.
func (p *Profile) isWritten() bool { return p.isAgent() || p.Kind == Kubeadm }

// server is the one that a machine joins through, by its name: when one is down, the machines of
// other names still join, and so does the one that is ordered in place of one that did not.
func (p *Profile) server(name string) string {
	if len(p.Servers) == 0 {
		return ""
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	address, _ := serverURL(p.Kind, p.Servers[h.Sum32()%uint32(len(p.Servers))])
	return address
}

// labels are all that the machine's node is to carry.
func (p *Profile) labels(m *Machine) map[string]string {
	all := map[string]string{}
	if p.TopologyLabels {
		all[regionLabel], all[zoneLabel] = m.Region, m.Host
	}
	maps.Copy(all, p.Labels)
	maps.Copy(all, m.Labels)
	return all
}

// extraTaints are the machine's that the profile does not have as well.
func (p *Profile) extraTaints(m *Machine) []Taint {
	return slices.DeleteFunc(slices.Clone(m.Taints), func(t Taint) bool { return slices.Contains(p.Taints, t) })
}

// taints are all that the machine's node is to carry.
func (p *Profile) taints(m *Machine) []Taint {
	return append(slices.Clone(p.Taints), p.extraTaints(m)...)
}

// config is the config.yaml of the machine's agent.
func (p *Profile) config(m *Machine, id string) string {
	doc := mapping{
		{"server", p.server(m.Name)},
		{"token", string(p.Token)},
		{"node-name", m.Name},
	}
	doc.some("node-label", labelList(p.labels(m)))
	doc.some("node-taint", taintList(p.taints(m)))
	doc.some("kubelet-arg", append([]string{"provider-id=" + id}, p.KubeletArgs...))
	for _, key := range slices.Sorted(maps.Keys(p.Config)) {
		if values := p.Config[key]; len(values) == 1 {
			doc.add(key, values[0])
		} else {
			doc.some(key, values)
		}
	}
	return document(doc)
}

// writtenUserData is the user-data of a machine that joins as an agent or by kubeadm.
func (p *Profile) writtenUserData(m *Machine, id string) string {
	doc := mapping{{"hostname", m.Name}, {"preserve_hostname", false}, {"manage_etc_hosts", "localhost"}}
	if p.User != "" {
		// As a text it is deprecated, and cloud-init calls the machine degraded.
		doc.add("user", mapping{{"name", p.User}})
	}
	doc.some("ssh_authorized_keys", p.SSHKeys)
	if len(p.Packages) > 0 {
		// The template's lists are as old as the template, and name what mirrors have no more.
		doc.add("package_update", true)
	}
	doc.some("packages", p.Packages)
	files, commands := p.joining(m, id)
	doc.add("write_files", files)
	doc.add("runcmd", commands)
	return p.parts("#cloud-config\n" + document(doc))
}

// joining is the files and the commands by which a machine joins.
func (p *Profile) joining(m *Machine, id string) (files, commands list) {
	if p.Kind == Kubeadm {
		// Once joined, the kubelet is to come back with the machine.
		return list{file(kubeadmConfig, "0600", p.joinConfiguration(m, id))},
			list{row{"systemctl", "enable", "kubelet.service"}, row{"kubeadm", "join", "--config", kubeadmConfig}}
	}
	dir := "/etc/rancher/" + string(p.Kind) + "/"
	files = list{file(dir+"config.yaml", "0600", p.config(m, id))}
	if p.Registries != "" {
		files = append(files, file(dir+"registries.yaml", "0600", string(p.Registries)))
	}
	join := start(p.Kind)
	if p.Install.From == fromScript {
		files = append(files, file(joinScript, "0700", p.Install.script(p.Kind)))
		join = row{"sh", joinScript} // the file system may be noexec
	}
	return files, list{join}
}

// start is the command that starts an agent. It does not wait: systemd goes on trying for as
// long as it takes, and the guest's first boot is not held up by a server that is away.
func start(kind Kind) row {
	return row{"systemctl", "enable", "--now", "--no-block", string(kind) + "-agent.service"}
}

func file(path, permissions, content string) mapping {
	return mapping{{"path", path}, {"owner", "root:root"}, {"permissions", permissions}, {"content", text(content)}}
}
