// Package firstboot makes the configuration that a machine reads at its first boot, and the disc
// that carries it.
//
// A Profile is how the machines of a pool join their cluster: as agents of RKE2 or k3s, as
// workers of Talos, or by a text of the administrator's own. UserData makes of it, for one machine,
// the files of cloud-init's NoCloud source; Disc puts them onto an ISO image. Machines whose
// template joins by itself need no disc; Native gives the keys that Proxmox VE's own cloud-init
// drive is made from.
//
// A node's name and provider id are planned before its machine is started, and the name is
// never used again: RKE2 and k3s refuse a second machine of the same name, and provider ids are
// immutable.
package firstboot

import (
	"bytes"
	"errors"
	"fmt"
)

// Kind is how machines join.
type Kind string

// The kinds of profiles.
const (
	RKE2   Kind = "rke2"   // as an agent of RKE2, by cloud-init and systemd
	K3s    Kind = "k3s"    // as an agent of k3s, by cloud-init and systemd
	Talos  Kind = "talos"  // by a machine configuration of Talos
	Custom Kind = "custom" // by user-data of your own, or by what is in the template already
)

// Profile is how the machines of a pool join their cluster. Read fills in what is in files of
// its own.
type Profile struct {
	Kind Kind `json:"kind"`
	// Servers are what agents join through: the address of a load balancer or of the servers.
	// Each machine gets one of them, chosen by its name; agents learn the others from it. An
	// address is written https://HOST:PORT; omitted, the scheme is https, and the port is 9345
	// for RKE2 and 6443 for k3s.
	Servers []string `json:"servers,omitempty"`
	// TokenFile holds the token that agents join with: with RKE2 and k3s the agents' own, which
	// their servers are given as agent-token. With the servers' token, whoever gets hold of one
	// worker can join as a server, and has the cluster.
	TokenFile string `json:"tokenFile,omitempty"`
	Token     Secret `json:"-"`

	ProviderID ProviderID `json:"providerID"`
	// Labels and Taints are those of the pool's nodes, which their kubelets give to themselves.
	Labels map[string]string `json:"labels,omitempty"`
	Taints []Taint           `json:"taints,omitempty"`
	// TopologyLabels has nodes labelled with the region and, as their zone, the host, which a cloud
	// controller does where there is one. A zone that the machine has by itself goes before that.
	// It stays when a machine is migrated.
	TopologyLabels bool `json:"topologyLabels,omitempty"`
	// KubeletArgs are further arguments of agents' kubelets, as NAME=VALUE.
	KubeletArgs []string `json:"kubeletArgs,omitempty"`
	// Config holds further keys of the agents' config.yaml. Each has a list of values, as a
	// flag may be given several times. What the template has in config.yaml.d goes over it.
	Config map[string][]string `json:"config,omitempty"`
	// RegistriesFile holds a registries.yaml for the agents: mirrors, and their credentials.
	RegistriesFile string `json:"registriesFile,omitempty"`
	Registries     Secret `json:"-"`
	// Install is where RKE2 or k3s comes from; the zero value is the template.
	Install Install `json:"install,omitzero"`

	// User names the guest's user; empty is the image's own. SSHKeys let one in as that user.
	User    string   `json:"user,omitempty"`
	SSHKeys []string `json:"sshKeys,omitempty"`
	// Packages are installed before the machine joins.
	Packages []string `json:"packages,omitempty"`
	// CloudConfigFile holds user-data of your own to go beside the profile's: a cloud-config,
	// with jinja or without, a script or a boothook. Of a cloud-config's keys that the profile
	// has too, lists are put before the profile's, so that your runcmd runs before the machine
	// joins, and other values do not count.
	CloudConfigFile string `json:"cloudConfigFile,omitempty"`
	CloudConfig     Secret `json:"-"`

	// UserDataFile holds the whole user-data of kind custom, or Talos' machine configuration, as
	// a text/template with these fields:
	//
	//	.Name .Host .Region .UUID .VMID     the machine
	//	.ProviderID                         its node's id
	//	.Server .Token                      the server it is to join through
	//	.Labels .Taints                     a map, and a list with .Key .Value .Effect
	//	.NodeLabels .NodeTaints             the same as lists of key=value and key=value:Effect
	//	.User .SSHKeys                      as in the profile
	//
	// and the functions yaml, which quotes a string, and join, as in {{join .NodeLabels ","}}.
	// A field or label that is not there is an error.
	//
	// A Talos configuration must set the node's name, in the document HostnameConfig from Talos
	// 1.12 on or at machine.network.hostname before, but not at both. Labels go to
	// machine.nodeLabels; where no cloud controller sets provider ids, .ProviderID goes to
	// machine.kubelet.extraArgs.provider-id.
	UserDataFile     string `json:"userDataFile,omitempty"`
	UserDataTemplate Secret `json:"-"`
}

// Machine is what is planned of a machine before it is started.
type Machine struct {
	Name   string // of the machine and of its node
	Host   string // the Proxmox VE node that carries it
	Region string // the Proxmox VE cluster, as its cloud controller calls it
	UUID   string // of its SMBIOS
	VMID   int
	// Labels and Taints go with the profile's.
	Labels map[string]string
	Taints []Taint
	// NICs are its network interfaces, in order. Without any, the guest asks for an address by
	// DHCP on its first.
	NICs []NIC
}

// HasUserData reports whether machines get instructions to join, which takes a disc. The others
// take Native.
func (p *Profile) HasUserData() bool {
	return p.Kind != Custom || p.UserDataFile != "" || p.UserDataTemplate != ""
}

// fileOf is a file that a profile names, and where its text goes.
type fileOf struct {
	key, path string
	text      *Secret
}

func (p *Profile) files() []fileOf {
	return []fileOf{
		{"tokenFile", p.TokenFile, &p.Token},
		{"registriesFile", p.RegistriesFile, &p.Registries},
		{"cloudConfigFile", p.CloudConfigFile, &p.CloudConfig},
		{"userDataFile", p.UserDataFile, &p.UserDataTemplate},
	}
}

// Read fills in what the profile has in files of its own. One newline at the end of the token's
// file is not part of the token. Where a file cannot be read, what was read before stays. Whether
// a text will do is for Validate to say.
func (p *Profile) Read(read func(path string) ([]byte, error)) error {
	var errs []error
	for _, f := range p.files() {
		if f.path == "" {
			continue
		}
		data, err := read(f.path)
		if f.text == &p.Token {
			data = bytes.TrimPrefix(data, []byte("\ufeff")) // which some editors begin a file with
			data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", f.key, err))
		case len(data) == 0:
			errs = append(errs, &Fault{f.key, "must be a file with something in it", show(f.path)})
		default:
			*f.text = Secret(data)
		}
	}
	return errors.Join(errs...)
}

// UserData returns the files by which a machine joins: user-data, meta-data and, where
// its interfaces are planned, network-config. They hold the join token.
func (p *Profile) UserData(m Machine) (Files, error) {
	var f faults
	p.check(&f)
	p.checkMachine(&f, &m)
	id := p.ProviderID.of(&f, &m)
	for _, file := range p.files() {
		f.must(file.path == "" || *file.text != "", file.key, "must have been read", file.path)
	}
	f.must(p.HasUserData(), "userDataFile", "must be there, for a profile without it has no user-data", absent)
	if err := f.join(); err != nil {
		return nil, err
	}
	return p.userFiles(&m, id)
}

// userFiles are the files for a machine that was checked.
func (p *Profile) userFiles(m *Machine, id string) (Files, error) {
	user, err := p.userData(m, id)
	if err != nil {
		return nil, err
	}
	files := Files{UserData: []byte(user), MetaData: []byte(p.metaData(m, id))}
	if len(m.NICs) > 0 {
		files[NetworkConfig] = []byte(networkConfig(m.NICs))
	}
	return files, nil
}

func (p *Profile) userData(m *Machine, id string) (string, error) {
	if p.isAgent() {
		return p.agentUserData(m, id), nil
	}
	return p.render(m, id)
}

// metaData names the machine. The name is never used again, so cloud-init also sees that what it
// did for the template does not count.
func (p *Profile) metaData(m *Machine, id string) string {
	doc := mapping{{"instance-id", m.Name}, {"local-hostname", m.Name}}
	if p.Kind == Talos {
		// Talos' cloud controller takes these. To cloud-init a region means a mirror of packages.
		doc.add("provider-id", id)
		if m.Region != "" {
			doc.add("region", m.Region)
		}
		if m.Host != "" {
			doc.add("zone", m.Host)
		}
	}
	return document(doc)
}
