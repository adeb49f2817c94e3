// Package world is what there is in an emulated cluster: hosts, virtual machines, storages, tasks
// and faults, and what becomes of them by themselves or when a caller is at work on them.
package world

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// World is what there is in an emulated cluster, and what becomes of it. It consists of parts that
// know it; each has its own state.
type World struct {
	*engine.Engine
	Wiring
	reports
	Machines
	Stores
	Config  Config
	Options map[string]any // of the datacenter, as they are set
	Began   time.Time
	Nodes   []*Node // by name
	Access  *access.Access
	HA      *HA
	Chance  map[string]*rand.PCG // what streams draw from, by name; see World.rng
	Faults  faults.Set
	Afoot   []*Fault
}

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

// Node is a host as it is.
type Node struct {
	Host
	ID          int
	IP          string
	Certificate string                   // fingerprint of what it is served with
	Up          bool                     // the machine runs
	Island      int                      // hosts of the same number reach each other
	Members     map[*Node]bool           // that it takes for being there
	Known       map[int]GuestPlace       // when it lost the majority; nil with it
	Heard       map[*Node]*Report        // what hosts last reported to it
	Serving     map[*engine.Process]bool // calls that end when it does
	Workers     []*Worker                // of pvedaemon
	Tasks       []*Task
	PIDs        int
	Since       time.Time             // it is up
	Tells       time.Time             // it reports about itself next
	Returns     time.Time             // it starts again; zero if no one has asked for that
	Follows     time.Time             // does what HA decided; zero is never
	Starting    bool                  // it has started, and not what is to run on it
	Zone        string                // its time zone; empty is UTC
	Files       map[int]*engine.Flock // the locks on configuration files, by VM; see Node.File
}

// Guest is a virtual machine as it is. Its configuration belongs to the cluster, and is there for
// every host at once; host is in whose directory the file lies.
type Guest struct {
	vmconf.Config
	ID       int
	Host     *Node
	State    string // stopped, running, paused, prelaunch
	Since    time.Time
	PID      int             // of its process on the host
	Awake    bool            // the guest has booted
	Agent    bool            // the guest's agent answers
	Guest    *engine.Process // while the guest boots or shuts down
	Outside  Running         // the process that runs the machine, if its guest is not pretended
	Boots    int
	Seed     *Seed             // what its cloud-init drive holds
	Execs    int               // programs that the agent has run
	Files    map[string][]byte // that have been written through the agent
	Firewall map[string]string // the options of its firewall
}

// Store is a storage as it is.
type Store struct {
	Storage
	Volumes map[string]map[string]*Volume // by host ("" when it is shared) and volume name
	Locks   map[string]*engine.Flock      // of each host, or of all
	Filled  map[string]int                // by the same names, how many faults say that it is full
	Conf    map[string]string             // further keys, as in its configuration file
}

// Volume is a disk, image or disc on a storage.
type Volume struct {
	Name    string // what comes after the storage's name and colon
	Content string // images, iso, ...
	Format  string
	Size    int64
	VMID    int
	At      time.Time
	Parent  string // of a linked clone: the name of the volume that it is made of
	Guest   string // what is installed on a disk; see GuestSystem
	Data    []byte // of an uploaded disc
	Notes   string
	Disk    int `json:"-"` // of a machine that has run outside; see Drive
}

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

// Number is a truth as Proxmox VE's JSON has it.
func Number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Sorted are a map's keys in their order.
func Sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

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
