package pvesim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
)

// newest is the release that is emulated when none is named.
const newest = "9.2.11"

// New builds a cluster and lets its time begin. Everything that is wrong with the configuration is
// said at once.
func New(cfg Config) (*Cluster, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Release = cmp.Or(cfg.Release, newest)
	c := blank(cfg)
	if c.Clock.IsZero() {
		c.Clock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	c.began = c.Clock
	for _, h := range cfg.Hosts {
		c.addHost(h)
	}
	for _, s := range cfg.Storages {
		c.storages[s.Name] = newStorage(s)
	}
	for _, name := range cfg.Pools {
		c.access.Pools[name] = access.NewPool(name, "")
	}
	for _, v := range cfg.VMs {
		c.addVM(v)
	}
	for _, i := range cfg.Images {
		c.addImage(i)
	}
	c.reports.begin()
	c.Engine.Begin()
	return c, nil
}

// blank is a cluster in which nothing is yet.
func blank(cfg Config) *Cluster {
	c := &Cluster{
		cfg: cfg, options: map[string]any{}, chance: map[string]*rand.PCG{},
		Engine: engine.New(cfg.Start, cfg.Speed),
	}
	c.wiring = wiring{c: c, parted: map[[2]int]bool{}, lost: map[[2]int]time.Time{}}
	c.reports = reports{c}
	c.machines = machines{c: c, vms: map[int]*vm{}}
	c.stores = stores{c: c, storages: map[string]*storage{}}
	c.front = front{c: c}
	c.ha = newHA(c)
	c.startVM = func(h *host, id int) { c.startTask(h, &access.Identity{User: access.RootUser}, id) }
	c.access = access.New(cfg.Seed, !c.since("9"))
	c.faults.Seed, c.access.Lost = cfg.Seed, c.faults.Revoked
	return c
}

func (c *Cluster) addHost(h Host) {
	if len(h.Bridges) == 0 {
		h.Bridges = []string{"vmbr0"}
	}
	id := len(c.hosts) + 1
	added := &host{
		Host: h, id: id, ip: fmt.Sprintf("10.99.0.%d", id), up: true, since: c.Clock.Add(-24 * time.Hour),
		serving: map[*engine.Process]bool{}, heard: map[*host]*report{},
	}
	added.restartWorkers()
	c.hosts = append(c.hosts, added)
	slices.SortFunc(c.hosts, func(a, b *host) int { return strings.Compare(a.Name, b.Name) })
}

func newStorage(s Storage) *storage {
	return &storage{Storage: s, volumes: map[string]map[string]*volume{}, locks: map[string]*engine.Flock{}, filled: map[string]int{}, conf: map[string]string{}}
}

// addVM puts a virtual machine where the configuration has it.
func (c *Cluster) addVM(v VM) {
	m := &vm{
		Config: vmconf.New(map[string]string{}), id: v.ID, host: c.host(v.Host), state: "stopped", since: c.Clock,
	}
	for key, value := range v.Config {
		m.Conf[key] = value
	}
	if v.Template {
		m.Conf["template"] = "1"
	}
	c.vms[v.ID] = m
	if v.Pool != "" {
		c.access.Pools[v.Pool].Vms[v.ID] = true
	}
	c.furnish(m, v)
}

func (c *Cluster) addImage(i Image) {
	name := "import/" + i.Name
	c.storages[i.Storage].at(c.host(i.Host))[name] = &volume{
		name: name, content: "import", format: strings.TrimPrefix(extensions["import"].FindString(i.Name), "."), size: i.Size, at: c.Clock, guest: guestSystem,
	}
}

// guests are what can be said to be installed on a virtual machine's disk.
var guests = []string{guestSystem, guestDeaf, "none"}

// validate says everything that is wrong with the configuration.
func (cfg *Config) validate() error {
	var all []error
	must := func(kept bool, key, rule string, was any) {
		if !kept {
			all = append(all, fmt.Errorf("%s: must be %s, was %v", key, rule, was))
		}
	}
	must(len(cfg.Hosts) > 0, "hosts", "given", "none")
	must(cfg.Speed >= 0, "speed", "0 or more", cfg.Speed)
	must(cfg.Times.Clone.Valid() && cfg.Times.Boot.Valid() && cfg.Times.Delete.Valid(), "times", "ranges from 0 up", cfg.Times)
	var hosts, storages []string
	for i, h := range cfg.Hosts {
		key := fmt.Sprintf("hosts[%d]", i)
		must(h.Name != "" && !slices.Contains(hosts, h.Name), key+".name", "given, and be there once", fmt.Sprintf("%q", h.Name))
		must(h.CPUs > 0, key+".cpus", "greater than 0", h.CPUs)
		must(h.Memory > 0, key+".memory", "greater than 0", h.Memory)
		hosts = append(hosts, h.Name)
	}
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
		must(slices.Contains(guests, cmp.Or(v.Guest, guestSystem)), key+".guest", fmt.Sprintf("one of %s", guests), v.Guest)
		ids[v.ID] = true
	}
	for i, v := range cfg.Images {
		key := fmt.Sprintf("images[%d]", i)
		must(slices.Contains(hosts, v.Host), key+".host", fmt.Sprintf("one of %s", hosts), v.Host)
		must(slices.Contains(cfg.storagesOn(v.Host), v.Storage), key+".storage", fmt.Sprintf("one of %s", cfg.storagesOn(v.Host)), v.Storage)
		must(extensions["import"].MatchString(v.Name), key+".name", "one that ends with .qcow2, .raw, .vmdk or .ova", v.Name)
		must(v.Size > 0, key+".size", "greater than 0", v.Size)
	}
	return errors.Join(all...)
}

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
