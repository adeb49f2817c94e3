package rke2

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
)

// hostOf is an address as it is in a URL.
func hostOf(a netip.Addr) string {
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}

// agentJoin is how the load machine and the workers join.
func (s *Site) agentJoin(c *secrets) firstboot.Profile {
	p := firstboot.Profile{
		// RKE2's own cloud controller sets these ids.
		Kind: firstboot.RKE2, ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeRKE2},
		Servers: []string{hostOf(s.address())}, Token: firstboot.Secret(c.AgentToken),
		User: s.User, SSHKeys: s.SSHKeys, Packages: s.Packages,
	}
	if s.RKE2.Version != "" {
		p.Install = firstboot.Install{From: "script", Version: s.RKE2.Version}
	} else {
		// The profile's own command starts what this one has installed.
		p.CloudConfig = firstboot.Secret("#cloud-config\nruncmd:\n  - [sh, -c, " + `"` + s.RKE2.offline("agent") + `"` + "]\n")
	}
	return p
}

// offline is the command that installs RKE2 without a network, as its documentation has it.
func (r *Release) offline(kind string) string {
	return fmt.Sprintf("INSTALL_RKE2_TYPE=%s INSTALL_RKE2_ARTIFACT_PATH=%s sh %s/install.sh", kind, r.Artefacts, r.Artefacts)
}

// The places where RKE2 looks for its configuration.
const (
	configFile   = "/etc/rancher/rke2/config.yaml"
	tlsFolder    = "/var/lib/rancher/rke2/server/tls/"
	addonsFolder = "/var/lib/rancher/rke2/server/manifests/"
	installFile  = "/var/lib/plimsoll/install.sh"
)

// cloudConfig is as much of cloud-init's user-data as the control plane needs.
type cloudConfig struct {
	Hostname string      `yaml:"hostname"`
	Preserve bool        `yaml:"preserve_hostname"`
	Hosts    string      `yaml:"manage_etc_hosts"`
	User     guestUser   `yaml:"user,omitempty"`
	Keys     []string    `yaml:"ssh_authorized_keys,omitempty"`
	Update   bool        `yaml:"package_update,omitempty"`
	Packages []string    `yaml:"packages,omitempty"`
	Files    []guestFile `yaml:"write_files"`
	Run      [][]string  `yaml:"runcmd"`
}

// guestUser overrides the image's own user. As a text, cloud-init has deprecated it.
type guestUser struct {
	Name string `yaml:"name"`
}

// guestFile is a file on a machine.
type guestFile struct {
	Path        string `yaml:"path"`
	Owner       string `yaml:"owner"`
	Permissions string `yaml:"permissions"`
	Encoding    string `yaml:"encoding,omitempty"`
	Content     string `yaml:"content"`
}

// serverUserData is the user-data of the control plane, as a template of package firstboot. What is
// given of the machine is filled in when it is made; all else is in it literally.
func (s *Site) serverUserData(c *secrets, mine *settings.Pool) (firstboot.Secret, error) {
	doc := cloudConfig{
		Hostname: "{{.Name}}", Hosts: "localhost", User: guestUser{literal(s.User)}, Update: len(s.Packages) > 0, Packages: literals(s.Packages), Keys: literals(s.SSHKeys),
		Files: []guestFile{plain(configFile, "0600", s.serverConfig(c))},
		Run:   [][]string{{"sh", installFile}},
	}
	for name, a := range map[string]authority{"server-ca": c.ServerCA, "client-ca": c.ClientCA} {
		doc.Files = append(doc.Files, plain(tlsFolder+name+".crt", "0600", a.Cert), plain(tlsFolder+name+".key", "0600", a.Key))
	}
	slices.SortFunc(doc.Files, func(a, b guestFile) int { return strings.Compare(a.Path, b.Path) })
	addons, err := s.addons(c, mine)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(addons)) {
		content, err := packed(addons[name])
		if err != nil {
			return "", err
		}
		doc.Files = append(doc.Files, guestFile{addonsFolder + name, "root:root", "0600", "gz+b64", content})
	}
	doc.Files = append(doc.Files, plain(installFile, "0700", s.RKE2.serverScript()))
	text, err := yaml.Marshal(&doc)
	return firstboot.Secret("#cloud-config\n" + string(text)), err
}

func plain(path, permissions, content string) guestFile {
	return guestFile{Path: path, Owner: "root:root", Permissions: permissions, Content: content}
}

// literal is a text that a template gives as it is.
func literal(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) }

func literals(all []string) []string {
	out := make([]string, 0, len(all))
	for _, text := range all {
		out = append(out, literal(text))
	}
	return out
}

// packed is a file's content as cloud-init unpacks it: manifests of kinds are long, and a machine's
// user-data must fit onto its disc.
func packed(data []byte) (string, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// controlTaint keeps pods off the control plane that do not tolerate it, such as the application's.
// RKE2's own pods and Plimsoll's do. The node has no label of a pool: Plimsoll keeps off nodes that
// it may delete.
const controlTaint = "node-role.kubernetes.io/control-plane"

// serverConfig is the config.yaml of the control plane.
func (s *Site) serverConfig(c *secrets) string {
	return `node-name: {{yaml .Name}}
token: ` + c.Token + `
agent-token: ` + c.AgentToken + `
tls-san:
  - ` + fmt.Sprintf("%q", s.address().String()) + `
node-taint:
  - ` + controlTaint + `=true:NoSchedule
kubelet-arg:
  - {{yaml (printf "provider-id=%s" .ProviderID)}}
`
}

// serverScript installs RKE2 and starts its server.
func (r *Release) serverScript() string {
	const start = "systemctl enable --now --no-block rke2-server.service\n"
	if r.Artefacts != "" {
		return "#!/bin/sh\nset -eu\n" + r.offline("server") + "\n" + start
	}
	// Not into a pipe: a shell runs the half of a script whose other half did not come.
	return "#!/bin/sh\nset -eu\nexport INSTALL_RKE2_TYPE=server INSTALL_RKE2_VERSION='" + r.Version + "'\n" +
		"script=$(mktemp)\ncurl -fsSL --retry 10 --retry-delay 6 --retry-connrefused -o \"$script\" https://get.rke2.io\nsh \"$script\"\nrm -f \"$script\"\n" + start
}

// Where Plimsoll's own manifests look for the tokens that it needs.
const (
	productNamespace = "plimsoll"
	productSecret    = "plimsoll-proxmox"
	providerSecret   = "plimsoll-provider" // what it shows cluster-autoscaler
	secretAddon      = "plimsoll-bench-secret.yaml"
	poolAddon        = "plimsoll-bench-workers.yaml"
)

// The files in that secret, by which Plimsoll's configuration and the VMPool name them.
const (
	tokenKey       = "token"
	joinTokenKey   = "join-token"
	cloudConfigKey = "cloud-config"
	caKey          = "proxmox-ca.crt"
)

// secretFiles are the secrets with the files that Plimsoll in the cluster looks for, and what
// cluster-autoscaler shows it.
func (s *Site) secretFiles(c *secrets, mine *settings.Pool) ([]byte, error) {
	files := map[string]any{tokenKey: c.Proxmox + "\n", joinTokenKey: c.AgentToken + "\n"}
	if mine.Join.CloudConfig != "" {
		files[cloudConfigKey] = string(mine.Join.CloudConfig)
	}
	if s.ca != nil {
		files[caKey] = string(s.ca)
	}
	all := []map[string]any{secret(productNamespace, productSecret, files)}
	p := s.Addons.Plimsoll
	if p == nil { // whose manifests hold the namespace, and say more of it
		all = slices.Insert(all, 0, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": productNamespace}})
	} else if p.Nodes == byAutoscaler {
		client := deploy.UsualAutoscaler()
		all = append(
			all, secret(productNamespace, providerSecret, c.Provider.of(c.Provider.Server)),
			secret(client.Namespace, client.Secret, c.Provider.of(c.Provider.Client)),
		)
	}
	return documents(all...)
}

func secret(namespace, name string, files map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": namespace}, "stringData": files,
	}
}

func documents(objects ...map[string]any) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	for _, o := range objects {
		if err := e.Encode(o); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), e.Close()
}

// vmPool is the workers' pool as an object for Plimsoll in the cluster.
func vmPool(p settings.Pool, how VMPool) (map[string]any, error) {
	p.Join.TokenFile = joinTokenKey
	if p.Join.CloudConfig != "" {
		p.Join.CloudConfigFile = cloudConfigKey
	}
	o, err := product.Object("VMPool", p.Name, p)
	if err != nil {
		return nil, err
	}
	spec, _ := o["spec"].(map[string]any)
	withUnits(spec)
	spec["mode"] = how.Mode
	if how.ScaledBy != "" {
		spec["scaledBy"] = how.ScaledBy
	}
	return o, nil
}

// withUnits gives the sizes in a tree the units without which the API refuses them. All are whole
// MiB.
func withUnits(tree any) {
	switch t := tree.(type) {
	case []any:
		for _, below := range t {
			withUnits(below)
		}
	case map[string]any:
		for key, value := range t {
			if n, is := value.(int64); is && (key == "memory" || key == "disk") {
				t[key] = fmt.Sprintf("%dMi", n>>20)
				continue
			}
			withUnits(value)
		}
	}
}
