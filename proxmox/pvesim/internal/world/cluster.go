// Package world is what there is in an emulated cluster: hosts, virtual machines, storages, tasks
// and faults, and what becomes of them by themselves or when a caller is at work on them.
package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Hosts are the names of the cluster's hosts.
func (c *World) Hosts() []string {
	var all []string
	for _, h := range c.Nodes {
		all = append(all, h.Name)
	}
	return all
}

// OnBoot sets what is called with every virtual machine that has booted, and again whenever it
// boots. It is called while the cluster is locked, and must not call it back.
func (c *World) OnBoot(told func(Boot)) { c.With(func() { c.onBoot = told }) }

// SetTimes lets machines take other times from now on. What is under way takes as long as it was
// to.
func (c *World) SetTimes(t timing.Machine) error {
	var err error
	c.With(func() {
		cfg := c.Config
		cfg.Times = t
		if err = cfg.Validate(); err == nil {
			c.Config = cfg
		}
	})
	return err
}

// OnHalt sets what is called with every guest that had booted and is shut down, stopped, reset or
// lost with its host, but not with one that is only paused. It is called while the cluster is
// locked, and must not call it back.
func (c *World) OnHalt(told func(Halt)) { c.With(func() { c.onHalt = told }) }

// RNG is the stream of chance of one name.
func (c *World) RNG(name string) *rand.Rand {
	if c.Chance[name] == nil {
		c.Chance[name] = timing.Source(c.Config.Seed, name)
	}
	return rand.New(c.Chance[name])
}

// File is the host's lock on the configuration file of a virtual machine, whether that is there or
// not.
func (h *Node) File(id int) *engine.Flock {
	if h.Files[id] == nil {
		if h.Files == nil {
			h.Files = map[int]*engine.Flock{}
		}
		h.Files[id] = &engine.Flock{}
	}
	return h.Files[id]
}

// Node is the host of that name, or nil.
func (c *World) Node(name string) *Node {
	for _, h := range c.Nodes {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// AddHost adds a host to the cluster.
func (c *World) AddHost(h Host) {
	if len(h.Bridges) == 0 {
		h.Bridges = []string{"vmbr0"}
	}
	id := len(c.Nodes) + 1
	added := &Node{
		Host: h, ID: id, IP: fmt.Sprintf("10.99.0.%d", id), Up: true, Since: c.Clock.Add(-24 * time.Hour),
		Serving: map[*engine.Process]bool{}, Heard: map[*Node]*Report{},
	}
	added.RestartWorkers()
	c.Nodes = append(c.Nodes, added)
	slices.SortFunc(c.Nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
}

// Since reports whether the cluster's release is this one or a later one.
func (c *World) Since(release string) bool {
	have := strings.Split(c.Config.Release, ".")
	for i, part := range strings.Split(release, ".") {
		want, _ := strconv.Atoi(part)
		is := 0
		if i < len(have) {
			is, _ = strconv.Atoi(have[i])
		}
		if is != want {
			return is > want
		}
	}
	return true
}

// New is a world in which nothing is yet.
func New(cfg Config) *World {
	c := &World{
		Engine: engine.New(cfg.Start, cfg.Speed), Config: cfg, Options: map[string]any{}, Chance: map[string]*rand.PCG{},
	}
	c.Wiring = Wiring{c: c, parted: map[[2]int]bool{}, Lost: map[[2]int]time.Time{}}
	c.reports = reports{c}
	c.Machines = Machines{c: c, VMs: map[int]*Guest{}}
	c.Stores = Stores{c: c, Storages: map[string]*Store{}}
	c.HA = newHA(c)
	c.Access = access.New(cfg.Seed, !c.Since("9"))
	c.Faults.Seed, c.Access.Lost = cfg.Seed, c.Faults.Revoked
	return c
}
