package pvesim

import (
	"cmp"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/ha"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/machines"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// newest is the release that is emulated when none is named.
const newest = "9.2.11"

// New builds a cluster and lets its time begin. Everything that is wrong with the configuration is
// said at once.
func New(cfg world.Config) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Release = cmp.Or(cfg.Release, newest)
	c := blank(cfg)
	if c.Clock.IsZero() {
		c.Clock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	c.Began = c.Clock
	for _, h := range cfg.Hosts {
		c.AddHost(h)
	}
	for _, s := range cfg.Storages {
		c.Storages[s.Name] = world.NewStorage(s)
	}
	for _, name := range cfg.Pools {
		c.Access.Pools[name] = access.NewPool(name, "")
	}
	for _, v := range cfg.VMs {
		machines.Add(c.World, v)
	}
	for _, i := range cfg.Images {
		c.AddImage(i)
	}
	c.Acquaint()
	c.Engine.Begin()
	return c, nil
}

// blank is a cluster in which nothing is yet.
func blank(cfg world.Config) *Cluster {
	c := &Cluster{World: world.New(cfg)}
	c.front = front{c: c}
	ha.Manage(c.World)
	c.StartVM = func(h *world.Node, who *access.Identity, id int) { machines.StartTask(c.World, h, who, id) }
	return c
}
