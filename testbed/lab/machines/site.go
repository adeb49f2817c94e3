package machines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// What there is in the lab's Proxmox VE from the start.
const (
	template  = 9000
	resources = "plimsoll" // the resource pool
	images    = "ceph"     // the storage of disks
	discs     = "discs"    // that of first-boot discs
	bridge    = "vmbr0"
	server    = "rke2.lab.internal"
)

// The files of the part's folder.
const (
	siteFile      = "site.yaml"
	tokenFile     = "token"
	joinTokenFile = "join-token"
	clusterFile   = "cluster.json"
	certFile      = "server.crt"
	keyFile       = "server.key"
)

// account is who Plimsoll is to the lab's Proxmox VE.
var account = pveapi.Account{User: "plimsoll@pve", Token: "lab"}

// cluster is a Proxmox VE cluster as a small company has it.
func (p *Part) cluster() pvesim.Config {
	cfg := pvesim.Config{
		Seed: p.Seed, Start: time.Now().UTC().Truncate(time.Second), Speed: p.speed(), Name: "lab", Times: p.times(), Guests: p.Guests,
		Storages: []pvesim.Storage{
			{Name: images, Type: "rbd", Shared: true, Content: []string{"images"}, Total: 64 << 40},
			{Name: discs, Type: "nfs", Shared: true, Content: []string{"iso"}, Total: 1 << 40},
		},
		VMs: []pvesim.VM{{
			ID: template, Host: "pve1", Template: true, Storage: images, Disk: 16 << 30,
			Config: map[string]string{"name": "debian-13-rke2", "cores": "2", "memory": "4096", "agent": "1", "serial0": "socket"},
		}},
	}
	for _, id := range slices.Sorted(maps.Keys(p.Templates)) {
		other := cfg.VMs[0]
		other.ID, other.Guest = id, p.Templates[id]
		cfg.VMs = append(cfg.VMs, other)
	}
	for i := range p.hosts() {
		cfg.Hosts = append(cfg.Hosts, pvesim.Host{Name: fmt.Sprintf("pve%d", i+1), CPUs: 64, Memory: 256 << 30, Bridges: []string{bridge}})
	}
	return cfg
}

// times are those of a linked clone on shared storage, and of a small Debian with the agent in its
// template.
func (p *Part) times() timing.Machine {
	if p.Times != (timing.Machine{}) {
		return p.Times
	}
	between := func(least, most time.Duration) timing.Range { return timing.Range{Min: least, Max: most} }
	return timing.Machine{
		Clone: between(5*time.Second, 15*time.Second), Boot: between(15*time.Second, 40*time.Second), Delete: between(2*time.Second, 5*time.Second),
	}
}

// site is how Plimsoll is to use that cluster: what is reserved on a node is what its kubelet keeps
// for itself, by the disc.
func (p *Part) site(folder string, endpoints []string, fingerprint string) *settings.Site {
	s := &settings.Site{
		Owner: "lab", Endpoints: endpoints, Fingerprints: []string{fingerprint}, TokenFile: filepath.Join(folder, tokenFile),
		Pools: []settings.Pool{{
			Name: "workers", Max: 16,
			Shapes:   []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 8 * pricing.GiB, Disk: 20 * pricing.GiB}},
			Template: placement.Template{VMID: template}, Bridge: bridge, PVEPool: resources, VMIDs: placement.VMIDs{First: 5000, Last: 5199},
			Cooldown: nodescaler.Duration(time.Minute), Region: "lab", Guest: settings.Guest{Agent: true}, ISO: settings.ISO{Storage: discs},
			Reserved: pricing.Resources{CPU: 200, Memory: 100 * pricing.MiB},
			Join: firstboot.Profile{
				Kind: firstboot.RKE2, Servers: []string{server}, TokenFile: filepath.Join(folder, joinTokenFile), TopologyLabels: true,
				ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeUUID}, KubeletArgs: []string{"system-reserved=cpu=200m"},
			},
		}},
	}
	if p.Site != nil {
		p.Site(s)
	}
	return s
}

// withTemplates is a site that has a pool for each further template, so that rights are given for
// it.
func (p *Part) withTemplates(s *settings.Site) *settings.Site {
	all := *s
	all.Pools = slices.Clone(s.Pools)
	for _, id := range slices.Sorted(maps.Keys(p.Templates)) {
		pool := s.Pools[0]
		pool.Template = placement.Template{VMID: id}
		all.Pools = append(all.Pools, pool)
	}
	return &all
}

// setUp gives Plimsoll its rights as `plimsoll pve setup` prints them, and returns the token, which
// is shown when it is made. On a cluster that was set up before, it returns no token and changes
// nothing else.
func setUp(c *pvesim.Cluster, s *settings.Site) (token string, err error) {
	shell := c.Console()
	parts := map[int]pveapi.Parts{}
	for i := range s.Pools {
		parts[s.Pools[i].Template.VMID] = pveapi.Parts{Storages: []string{images}, Networks: []pveapi.Bridge{{Name: bridge}}}
	}
	for _, block := range doctor.Setup(s, doctor.Needs(s, doctor.Release9, parts, nil), account) {
		for _, command := range block.Commands {
			if err := shell.Run(command); err != nil {
				return "", fmt.Errorf("%s: %w", command, err)
			}
		}
	}
	return shell.Tokens[account.String()], nil
}

// config is the file for plimsoll run: the site, and where its state is kept.
type config struct {
	settings.Site
	State      string `json:"state"`
	Kubeconfig string `json:"kubeconfig"`
}

// writeSite writes the configuration that plimsoll is run with.
func writeSite(folder, kubeconfig string, s *settings.Site) error {
	text, err := written(config{*s, filepath.Join(folder, "state"), kubeconfig})
	if err != nil {
		return err
	}
	head := "# Plimsoll on this lab: plimsoll run --config " + filepath.Join(folder, siteFile) + "\n"
	return writeFile(folder, siteFile, append([]byte(head), text...))
}

// written is a value as people write it: sizes have their units, without which files are refused.
func written(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if err := withUnits(tree); err != nil {
		return nil, err
	}
	return yaml.Marshal(tree)
}

// withUnits gives the sizes in a tree their units.
func withUnits(tree any) error {
	switch t := tree.(type) {
	case []any:
		for _, below := range t {
			if err := withUnits(below); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, value := range t {
			number, is := value.(json.Number)
			if !is || !slices.Contains([]string{"memory", "disk", "memoryReserve", "storageReserve"}, key) {
				if err := withUnits(value); err != nil {
					return err
				}
				continue
			}
			n, err := number.Int64()
			if err != nil {
				return err
			}
			t[key] = pricing.Bytes(n).String()
		}
	}
	return nil
}

func writeFile(folder, name string, data []byte) error {
	return os.WriteFile(filepath.Join(folder, name), data, 0o600)
}

// readFile reads a file that may not be there yet.
func readFile(folder, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
