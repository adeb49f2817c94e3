package world

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Config is a cluster before it starts.
type Config struct {
	Seed    uint64    `json:"seed"`
	Start   time.Time `json:"start"`   // zero is 2026-01-01 in UTC
	Release string    `json:"release"` // such as "9.2.11"; empty is the newest that is emulated
	// Speed is how fast time passes by the wall clock: 1 is real time, and 0 lets it pass only
	// while a caller waits.
	Speed    float64        `json:"speed"`
	Name     string         `json:"name"` // of the cluster
	Hosts    []Host         `json:"hosts"`
	Zones    []Zone         `json:"zones,omitempty"` // of its software-defined network
	Storages []Storage      `json:"storages"`
	VMs      []VM           `json:"vms"`
	Images   []Image        `json:"images,omitempty"`
	Pools    []string       `json:"pools"`
	Times    timing.Machine `json:"times"`
	Guests   Guests         `json:"-"` // who runs the machines; nil pretends that they run
}

// Host is a Proxmox VE host.
type Host struct {
	Name    string   `json:"name"`
	CPUs    int      `json:"cpus"`
	Memory  int64    `json:"memory"`  // bytes
	Bridges []string `json:"bridges"` // none is vmbr0
}

// Zone is a zone of the cluster's software-defined network.
type Zone struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`  // simple, vlan, qinq, vxlan or evpn
	Hosts []string `json:"hosts"` // none is all
	VNets []VNet   `json:"vnets"`
}

// VNet is a network of a zone: on its hosts it is a bridge.
type VNet struct {
	Name      string `json:"name"`
	VLANAware bool   `json:"vlanAware"` // machines may be in VLANs there
}

// Image is a disk image that machines can be made of, as content import of a storage. It has a
// system on it that boots.
type Image struct {
	Host    string `json:"host"`
	Storage string `json:"storage"`
	Name    string `json:"name"` // debian-13.qcow2
	Size    int64  `json:"size"` // of the disk that is made of it
}

// Storage is where disks and discs lie.
type Storage struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`   // dir, lvmthin, zfspool, nfs, rbd ...
	Shared  bool     `json:"shared"` // the same on every host
	Hosts   []string `json:"hosts"`  // none is all
	Content []string `json:"content"`
	Total   int64    `json:"total"` // bytes; of each host's own if it is not shared
	Used    int64    `json:"used"`  // by what the emulator does not know
}

// VM is a virtual machine that is there from the start.
type VM struct {
	ID       int               `json:"id"`
	Host     string            `json:"host"`
	Pool     string            `json:"pool"`
	Template bool              `json:"template"`
	Running  bool              `json:"running"`
	Storage  string            `json:"storage"` // of its disk
	Disk     int64             `json:"disk"`    // bytes; 0 for none
	Guest    string            `json:"guest"`   // system (or empty), deaf or none: see GuestSystem
	Config   map[string]string `json:"config"`  // further keys, as in its configuration file
}

// guests are what can be said to be installed on a virtual machine's disk.
var guests = []string{GuestSystem, GuestDeaf, "none"}

// Validate says everything that is wrong with the configuration.
func (cfg *Config) Validate() error {
	var all []error
	must := func(kept bool, key, rule string, was any) {
		if !kept {
			all = append(all, fmt.Errorf("%s: must be %s, was %v", key, rule, was))
		}
	}
	must(len(cfg.Hosts) > 0, "hosts", "given", "none")
	must(cfg.Speed >= 0, "speed", "0 or more", cfg.Speed)
	must(cfg.Guests == nil || cfg.Speed > 0, "speed", "greater than 0 where guests are real", cfg.Speed)
	must(cfg.Times.Clone.Valid() && cfg.Times.Boot.Valid() && cfg.Times.Delete.Valid(), "times", "ranges from 0 up", cfg.Times)
	var hosts, storages []string
	for i, h := range cfg.Hosts {
		key := fmt.Sprintf("hosts[%d]", i)
		must(h.Name != "" && !slices.Contains(hosts, h.Name), key+".name", "given, and be there once", fmt.Sprintf("%q", h.Name))
		must(h.CPUs > 0, key+".cpus", "greater than 0", h.CPUs)
		must(h.Memory > 0, key+".memory", "greater than 0", h.Memory)
		hosts = append(hosts, h.Name)
	}
	cfg.validateZones(hosts, must)
	for i, s := range cfg.Storages {
		key := fmt.Sprintf("storages[%d]", i)
		must(s.Name != "" && !slices.Contains(storages, s.Name), key+".name", "given, and be there once", fmt.Sprintf("%q", s.Name))
		must(s.Total > 0, key+".total", "greater than 0", s.Total)
		for _, h := range s.Hosts {
			must(slices.Contains(hosts, h), key+".hosts", fmt.Sprintf("of %s", hosts), h)
		}
		storages = append(storages, s.Name)
	}
	ids := map[int]bool{}
	for i, v := range cfg.VMs {
		key := fmt.Sprintf("vms[%d]", i)
		must(v.ID >= 100 && !ids[v.ID], key+".id", "100 or more, and be there once", v.ID)
		must(slices.Contains(hosts, v.Host), key+".host", fmt.Sprintf("one of %s", hosts), v.Host)
		must(v.Pool == "" || slices.Contains(cfg.Pools, v.Pool), key+".pool", fmt.Sprintf("one of %s", cfg.Pools), v.Pool)
		must(v.Disk == 0 || slices.Contains(cfg.storagesOn(v.Host), v.Storage), key+".storage", fmt.Sprintf("one of %s", cfg.storagesOn(v.Host)), v.Storage)
		must(v.Disk >= 0, key+".disk", "0 or more", v.Disk)
		must(slices.Contains(guests, cmp.Or(v.Guest, GuestSystem)), key+".guest", fmt.Sprintf("one of %s", guests), v.Guest)
		ids[v.ID] = true
	}
	for i, v := range cfg.Images {
		key := fmt.Sprintf("images[%d]", i)
		must(slices.Contains(hosts, v.Host), key+".host", fmt.Sprintf("one of %s", hosts), v.Host)
		must(slices.Contains(cfg.storagesOn(v.Host), v.Storage), key+".storage", fmt.Sprintf("one of %s", cfg.storagesOn(v.Host)), v.Storage)
		must(Extensions["import"].MatchString(v.Name), key+".name", "one that ends with .qcow2, .raw, .vmdk or .ova", v.Name)
		must(v.Size > 0, key+".size", "greater than 0", v.Size)
	}
	return errors.Join(all...)
}

// networkName is what zones and VNets may be called.
var networkName = regexp.MustCompile(`^[a-z][a-z0-9]{1,7}$`)

func (cfg *Config) validateZones(hosts []string, must func(kept bool, key, rule string, was any)) {
	seen := map[string]bool{}
	for _, h := range cfg.Hosts {
		for _, name := range h.Bridges {
			seen["net "+name] = true
		}
	}
	named := func(kind, key, name string) {
		must(networkName.MatchString(name) && !seen[kind+name], key+".name", "2 to 8 small letters and digits, a letter first, and be there once", fmt.Sprintf("%q", name))
		seen[kind+name] = true
	}
	types := []string{"simple", "vlan", "qinq", "vxlan", "evpn"}
	for i, z := range cfg.Zones {
		key := fmt.Sprintf("zones[%d]", i)
		named("zone ", key, z.Name)
		must(slices.Contains(types, z.Type), key+".type", fmt.Sprintf("one of %s", types), fmt.Sprintf("%q", z.Type))
		for _, h := range z.Hosts {
			must(slices.Contains(hosts, h), key+".hosts", fmt.Sprintf("of %s", hosts), h)
		}
		for j, v := range z.VNets {
			named("net ", fmt.Sprintf("%s.vnets[%d]", key, j), v.Name)
		}
	}
}

// On reports whether the zone is there on a host.
func (z *Zone) On(host string) bool { return len(z.Hosts) == 0 || slices.Contains(z.Hosts, host) }

// VNet is the VNet of that name with its zone, or nil twice.
func (cfg *Config) VNet(name string) (*Zone, *VNet) {
	for i := range cfg.Zones {
		for j := range cfg.Zones[i].VNets {
			if v := &cfg.Zones[i].VNets[j]; v.Name == name {
				return &cfg.Zones[i], v
			}
		}
	}
	return nil, nil
}

// NetworkPath is where rights on a bridge or VNet hang.
func (cfg *Config) NetworkPath(name string) string {
	if z, _ := cfg.VNet(name); z != nil {
		return ZonePath(z.Name) + "/" + name
	}
	return ZonePath(LocalNetwork) + "/" + name
}

// LocalNetwork is the zone of bridges that are no VNets.
const LocalNetwork = "localnetwork"

// ZonePath is where rights on a zone hang.
func ZonePath(zone string) string { return "/sdn/zones/" + zone }

// storagesOn are the storages that are there on a host.
func (cfg *Config) storagesOn(host string) []string {
	var there []string
	for _, s := range cfg.Storages {
		if len(s.Hosts) == 0 || slices.Contains(s.Hosts, host) {
			there = append(there, s.Name)
		}
	}
	return there
}

// Extensions are what names of uploaded files must end with.
var Extensions = map[string]*regexp.Regexp{
	"iso":    regexp.MustCompile(`(?i)\.(?:iso|img)$`),
	"vztmpl": regexp.MustCompile(`\.tar\.(?:gz|xz|zst|bz2)$`),
	"import": regexp.MustCompile(`\.(?:ova|qcow2|raw|vmdk)$`),
}

// What is installed on a disk, and so what becomes of a virtual machine that starts from it. A disk
// that the API has made is empty; what is cloned has what its source has.
const (
	GuestNone   = ""       // nothing: it never boots, and hears no request to shut down
	GuestSystem = "system" // it boots, its agent answers, and it shuts down when asked
	GuestDeaf   = "deaf"   // it boots, but ignores requests to shut down
)
