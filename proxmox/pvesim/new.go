package pvesim

import (
	"cmp"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
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
		addVM(c.World, v)
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
	c := &Cluster{World: newWorld(cfg)}
	c.front = front{c: c}
	manage(c.World)
	c.startVM = func(h *host, who *access.Identity, id int) { startTask(c.World, h, who, id) }
	return c
}
