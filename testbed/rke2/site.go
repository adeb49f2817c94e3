package rke2

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// Site is where a test bed is built, and how large it is.
type Site struct {
	// Owner names the test bed. It is in the marks of all that is made, and nothing without it is
	// touched; an installation of Plimsoll that is to scale its workers has the same owner.
	Owner string `json:"owner" strict:"required"`
	// Endpoints, TokenFile, CAFile, Fingerprints and Insecure are how Proxmox VE is reached, as in
	// the configuration of plimsoll run. The token makes pools, roles and tokens, too.
	Endpoints    []string `json:"endpoints" strict:"required"`
	TokenFile    string   `json:"tokenFile" strict:"required"`
	CAFile       string   `json:"caFile,omitempty"`
	Fingerprints []string `json:"fingerprints,omitempty"`
	Insecure     bool     `json:"insecure,omitempty"`

	// PVEPool is the resource pool that is made for the machines.
	PVEPool string `json:"pvePool" strict:"required"`
	// Hosts may carry machines; none named means all.
	Hosts    []string           `json:"hosts,omitempty"`
	Template placement.Template `json:"template" strict:"required"`
	// Image is what the template is made of, if it is to be made; it is removed with the test bed
	// then.
	Image   *Image              `json:"image,omitempty"`
	Clone   placement.CloneMode `json:"clone,omitempty"`
	Storage string              `json:"storage,omitempty"` // of full clones
	ISO     settings.ISO        `json:"iso" strict:"required"`
	Bridge  string              `json:"bridge,omitempty"`
	VLAN    int                 `json:"vlan,omitempty"`
	// VMIDs belong to the test bed alone: the first is the control plane's, the second the load
	// machine's, and the others are the workers'.
	VMIDs placement.VMIDs `json:"vmids" strict:"required"`
	// Network has an address for each VMID: the first is the control plane's.
	Network settings.Addressing `json:"network" strict:"required"`

	RKE2    Release `json:"rke2" strict:"required"`
	Control Size    `json:"control" strict:"required"`
	Load    Size    `json:"load" strict:"required"`
	Workers Workers `json:"workers" strict:"required"`

	// User, SSHKeys and Packages are for the guests, as in a join profile.
	User     string   `json:"user,omitempty"`
	SSHKeys  []string `json:"sshKeys,omitempty"`
	Packages []string `json:"packages,omitempty"`
	// Manifests are files that RKE2 applies when the control plane starts.
	Manifests []string `json:"manifests,omitempty"`
	// Run is for experiments on the test bed.
	Run *Run `json:"run,omitempty"`

	// Addons are what it applies besides, made for the site.
	Addons Addons `json:"addons,omitzero"`

	manifests map[string][]byte // by the name that RKE2 finds them under
	ca        []byte            // of Proxmox VE, for Plimsoll in the cluster
}

// Image is a cloud image that a template is made of.
type Image struct {
	// Volume is the image, with content import: local:import/debian-13-genericcloud-amd64.qcow2.
	Volume string `json:"volume" strict:"required"`
	// Host is where the image is read and the template made, and Storage where its disk is put.
	Host    string `json:"host" strict:"required"`
	Storage string `json:"storage" strict:"required"`
}

// Size is that of a machine.
type Size struct {
	CPU    pricing.MilliCPU `json:"cpu" strict:"required"`
	Memory pricing.Bytes    `json:"memory" strict:"required"`
	Disk   pricing.Bytes    `json:"disk,omitempty"`
}

// Workers are the machines that pods run on.
type Workers struct {
	// Name begins their names, and is that of the VMPool by which Plimsoll makes more of them;
	// empty is workers.
	Name   string          `json:"name,omitempty"`
	Shapes []pricing.Shape `json:"shapes" strict:"required"`
	// Start is how many there are when the test bed is up, of the first shape, and Max how many
	// there may ever be.
	Start int `json:"start,omitempty"`
	Max   int `json:"max" strict:"required"`
	// VMPool is how Plimsoll in the cluster looks after them. Without it, no VMPool is made.
	VMPool *VMPool `json:"vmPool,omitempty"`
}

// VMPool is what the workers' VMPool says besides what the site does.
type VMPool struct {
	Mode string `json:"mode" strict:"required"` // Recommend or Active
	// ScaledBy is who decides on machines, Plimsoll or ClusterAutoscaler; empty is Plimsoll.
	ScaledBy string `json:"scaledBy,omitempty"`
}

// Release is which RKE2 is installed, and where it comes from.
type Release struct {
	// Version, such as v1.34.1+rke2r1, is fetched by RKE2's own script.
	Version string `json:"version,omitempty"`
	// Artefacts is a folder in the template with what RKE2 is installed from without a network:
	// install.sh, the tarball of the release, its sums and its images.
	Artefacts string `json:"artefacts,omitempty"`
}

// Fault is one thing that is wrong with a site, or with where it is to be built.
type Fault struct {
	Field string   `json:"field"`
	Text  string   `json:"text"`
	Mend  []string `json:"mend,omitempty"`
}

// Error names field and fault.
func (f *Fault) Error() string { return f.Field + ": " + f.Text }

// Path is the field at fault, as it is written in the site's file.
func (f *Fault) Path() string { return f.Field }

// Faults are what is at fault with where a site is to be built.
type Faults []Fault

// Error lists all of them, each on a line.
func (f Faults) Error() string {
	var lines []string
	for i := range f {
		lines = append(lines, f[i].Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns each by itself.
func (f Faults) Unwrap() []error {
	var all []error
	for i := range f {
		all = append(all, &f[i])
	}
	return all
}

// ErrUnreachable is that no endpoint answers.
var ErrUnreachable = errors.New("no endpoint answers")

// The pools of machines, in the order of their VMIDs.
const (
	control = iota
	load
	workers
)

const (
	controlPool = "control"
	loadPool    = "load"
)

var (
	version     = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?\+rke2r\d+$`)
	imageVolume = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]:import/[A-Za-z0-9._-]+\.(qcow2|raw|vmdk)$`)
	hostName    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`)
	storageName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]$`)

	// manifestName is what RKE2 names an add-on after.
	manifestName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?\.ya?ml$`)
)

// Validate reports every fault of the site. It makes no call.
func (s *Site) Validate() error {
	var faults []error
	must := func(kept bool, key, rule string, was any) {
		if text, ok := was.(string); ok {
			was = fmt.Sprintf("%q", text)
		}
		if !kept {
			faults = append(faults, &Fault{Field: key, Text: fmt.Sprintf("must %s, was %v", rule, was)})
		}
	}
	r := &s.RKE2
	must((r.Version == "") != (r.Artefacts == ""), "rke2", "have either version or artefacts", fmt.Sprintf("version %q and artefacts %q", r.Version, r.Artefacts))
	must(r.Version == "" || version.MatchString(r.Version), "rke2.version", "be a version such as v1.34.1+rke2r1", r.Version)
	must(r.Artefacts == "" || path.IsAbs(r.Artefacts) && path.Clean(r.Artefacts) == r.Artefacts && !strings.ContainsAny(r.Artefacts, "'\"\\$`\n "), "rke2.artefacts", "be a folder's whole path, without blanks and quotes", r.Artefacts)
	must(s.Network.Static(), "network.first", "be the control plane's address with its prefix length, such as 10.0.0.10/24", s.Network.First)
	must(s.Workers.Start >= 0 && s.Workers.Start <= s.Workers.Max, "workers.start", fmt.Sprintf("be from 0 to max, %d", s.Workers.Max), s.Workers.Start)
	if p := s.Workers.VMPool; p != nil {
		must(slices.Contains([]string{"Recommend", "Active"}, p.Mode), "workers.vmPool.mode", "be Recommend or Active", p.Mode)
		must(slices.Contains([]string{"", "Plimsoll", "ClusterAutoscaler"}, p.ScaledBy), "workers.vmPool.scaledBy", "be Plimsoll or ClusterAutoscaler", p.ScaledBy)
	}
	s.Addons.validate(s, must)
	need := s.Workers.Max + 2
	must(s.VMIDs.First >= 100 && s.VMIDs.First <= s.VMIDs.Last && s.VMIDs.Len() >= need, "vmids",
		fmt.Sprintf("be a range with room for the control plane, the load machine and workers.max, %d in all", need), s.VMIDs.String())
	if i := s.Image; i != nil {
		must(imageVolume.MatchString(i.Volume), "image.volume", "be STORAGE:import/NAME with .qcow2, .raw or .vmdk behind", i.Volume)
		must(hostName.MatchString(i.Host), "image.host", "name a host", i.Host)
		must(storageName.MatchString(i.Storage), "image.storage", "name a storage", i.Storage)
		must(s.Template.VMID != 0, "template.vmid", "be there beside image, for the template to be made by", s.Template.VMID)
	}
	must(!slices.Contains([]string{controlPool, loadPool}, s.Workers.Name), "workers.name", "not be that of the other machines", s.Workers.Name)
	s.Run.check(must)
	if len(faults) > 0 {
		return errors.Join(faults...) // what follows would only repeat them in other words
	}
	p, err := s.proxmox(placeholders())
	if err != nil {
		return err
	}
	return s.inOwnWords(p.Validate())
}

// inOwnWords are the faults of what the site comes to, with the site's own keys, each once.
func (s *Site) inOwnWords(err error) error {
	var faults []error
	seen := map[string]bool{}
	for _, e := range strict.Split(err) {
		var keyed interface{ Path() string }
		if !errors.As(e, &keyed) {
			faults = append(faults, e)
			continue
		}
		f := &Fault{Field: fieldOf(keyed.Path()), Text: strings.TrimPrefix(e.Error(), keyed.Path()+": ")}
		if key := f.Error(); !seen[key] {
			seen[key] = true
			faults = append(faults, f)
		}
	}
	return errors.Join(faults...)
}

// ofPool are the site's keys for those of a pool that have other names there.
var ofPool = []struct{ was, is string }{
	{"placement.hosts", "hosts"}, {"placement", "hosts"}, {"join.install.version", "rke2.version"}, {"join.", ""},
}

var poolKey = regexp.MustCompile(`pools\[(\d)\]\.`)

// fieldOf is the site's key for one of what it comes to.
func fieldOf(key string) string {
	at := poolKey.FindStringSubmatch(key)
	if at == nil {
		return key
	}
	rest := strings.TrimPrefix(key, at[0])
	for i, owner := range []string{controlPool, loadPool} {
		if at[1] == fmt.Sprint(i) && strings.HasPrefix(rest, "shapes") {
			_, size, _ := strings.Cut(rest, ".")
			return strings.TrimSuffix(owner+"."+size, ".")
		}
	}
	for _, own := range []string{"shapes", "max", "min", "name"} {
		if strings.HasPrefix(rest, own) {
			return "workers." + rest
		}
	}
	for _, p := range ofPool {
		if tail, found := strings.CutPrefix(rest, p.was); found {
			return p.is + tail
		}
	}
	return rest
}

// proxmox is the site in the settings of Proxmox VE's fleet, with what machines are given of the
// cluster.
func (s *Site) proxmox(c *secrets) (*settings.Site, error) {
	pools := []settings.Pool{
		s.pool(controlPool, s.VMIDs.First, s.VMIDs.First, []pricing.Shape{s.Control.shape(controlPool)}),
		s.pool(loadPool, s.VMIDs.First+1, s.VMIDs.First+1, []pricing.Shape{s.Load.shape(loadPool)}),
		s.pool(s.workersName(), s.VMIDs.First+2, s.VMIDs.Last, s.Workers.Shapes),
	}
	pools[workers].Max = s.Workers.Max
	for i := range pools[:workers] {
		pools[i].Max = 1
		// There is one VMID for the one machine: what replaces it cannot wait for another.
		pools[i].Cooldown = nodescaler.Duration(time.Second)
	}
	agent := s.agentJoin(c)
	pools[load].Join, pools[workers].Join = agent, agent
	userData, err := s.serverUserData(c, &pools[workers])
	if err != nil {
		return nil, err
	}
	pools[control].Join = firstboot.Profile{
		Kind: firstboot.Custom, ProviderID: agent.ProviderID, Token: agent.Token, UserDataTemplate: userData,
		User: s.User, SSHKeys: s.SSHKeys,
	}
	pools[load].Labels = map[string]string{loadLabel: "true"}
	pools[load].Taints = []settings.Taint{{Key: loadLabel, Value: "true", Effect: "NoSchedule"}}
	return &settings.Site{
		Owner: s.Owner, Endpoints: s.Endpoints, TokenFile: s.TokenFile, CAFile: s.CAFile, Fingerprints: s.Fingerprints, Insecure: s.Insecure,
		Pools: pools,
	}, nil
}

// loadLabel marks the node that sends the load, and keeps all else from it.
const loadLabel = "plimsoll.dev/load"

func (s *Site) workersName() string {
	if s.Workers.Name == "" {
		return "workers"
	}
	return s.Workers.Name
}

func (s *Site) pool(name string, first, last int, shapes []pricing.Shape) settings.Pool {
	network := s.Network
	network.First = netip.PrefixFrom(network.Address(first-s.VMIDs.First).Addr(), network.First.Bits())
	return settings.Pool{
		Name: name, Shapes: shapes, Template: s.Template, Clone: s.Clone, Storage: s.Storage, ISO: s.ISO,
		Bridge: s.Bridge, VLAN: s.VLAN, Network: network, PVEPool: s.PVEPool, VMIDs: placement.VMIDs{First: first, Last: last},
		Placement: placement.Rules{Hosts: s.Hosts}, Guest: settings.Guest{Agent: true},
	}
}

func (s *Size) shape(name string) pricing.Shape {
	return pricing.Shape{Name: name, CPU: s.CPU, Memory: s.Memory, Disk: s.Disk}
}

// address is the control plane's.
func (s *Site) address() netip.Addr { return s.Network.First.Addr() }
