package pvesim

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
	wiring
	reports
	machines
	stores
	cfg     Config
	options map[string]any // of the datacenter, as they are set
	began   time.Time
	hosts   []*host // by name
	access  *access.Access
	ha      *ha
	chance  map[string]*rand.PCG // what streams draw from, by name; see World.rng
	faults  faults.Set
	afoot   []*fault
}

// Hosts are the names of the cluster's hosts.
func (c *World) Hosts() []string {
	var all []string
	for _, h := range c.hosts {
		all = append(all, h.Name)
	}
	return all
}

// OnBoot sets what is told of every virtual machine that has booted, and again whenever it boots.
// It is called while the cluster stands still, and must not call it back.
func (c *World) OnBoot(told func(Boot)) { c.With(func() { c.onBoot = told }) }

// SetTimes lets machines take other times from now on. What is under way takes as long as it was
// to.
func (c *World) SetTimes(t timing.Machine) error {
	var err error
	c.With(func() {
		cfg := c.cfg
		cfg.Times = t
		if err = cfg.validate(); err == nil {
			c.cfg = cfg
		}
	})
	return err
}

// OnHalt sets what is told of every guest that had booted and is shut down, stopped, reset or lost
// with its host. Of one that is only paused nothing is told. It is called while the cluster stands
// still, and must not call it back.
func (c *World) OnHalt(told func(Halt)) { c.With(func() { c.onHalt = told }) }

// host is a host as it is.
type host struct {
	Host
	id          int
	ip          string
	certificate string                   // fingerprint of what it is served with
	up          bool                     // the machine runs
	island      int                      // hosts of the same number reach each other
	members     map[*host]bool           // that it takes for being there
	known       map[int]guestPlace       // the virtual machines that it knew when it lost the majority; nil with it
	heard       map[*host]*report        // what hosts last told it
	serving     map[*engine.Process]bool // calls that end when it does
	workers     []*worker                // of pvedaemon
	tasks       []*task
	pids        int
	since       time.Time             // it is up
	tells       time.Time             // it tells about itself next
	returns     time.Time             // it starts again; zero if no one has asked for that
	follows     time.Time             // its manager of high availability does what was decided; zero is never
	starting    bool                  // it has started, and not what is to run on it
	zone        string                // its time zone; empty is UTC
	files       map[int]*engine.Flock // the locks on configuration files, by VM; see host.file
}

// vm is a virtual machine as it is. Its configuration belongs to the cluster, and is there for
// every host at once; host is in whose directory the file lies.
type vm struct {
	vmconf.Config
	id    int
	host  *host
	state string // stopped, running, paused, prelaunch
	since time.Time
	pid   int             // of its process on the host
	awake bool            // the guest has booted
	agent bool            // the guest's agent answers
	guest *engine.Process // while the guest boots or shuts down
	boots int
	seed  *seed             // what its cloud-init drive tells
	execs int               // programs that the agent has run
	files map[string][]byte // that have been written through the agent
	fw    map[string]string // the options of its firewall
}

// storage is a storage as it is.
type storage struct {
	Storage
	volumes map[string]map[string]*volume // by host ("" when it is shared) and volume name
	locks   map[string]*engine.Flock      // of each host, or of all
	filled  map[string]int                // by the same names, how many faults say that it is full
	conf    map[string]string             // further keys, as in its configuration file
}

type volume struct {
	name    string // what stands after the storage's name and colon
	content string // images, iso, ...
	format  string
	size    int64
	vmid    int
	at      time.Time
	parent  string // of a linked clone: the name of the volume that it is made of
	guest   string // what is installed on a disk; see guestSystem
	data    []byte // of an uploaded disc
	notes   string
}

// rng is the stream of chance of one name.
func (c *World) rng(name string) *rand.Rand {
	if c.chance[name] == nil {
		c.chance[name] = timing.Source(c.cfg.Seed, name)
	}
	return rand.New(c.chance[name])
}

// file is the host's lock on the configuration file of a virtual machine, whether that is there or
// not.
func (h *host) file(id int) *engine.Flock {
	if h.files[id] == nil {
		if h.files == nil {
			h.files = map[int]*engine.Flock{}
		}
		h.files[id] = &engine.Flock{}
	}
	return h.files[id]
}

func (c *World) host(name string) *host {
	for _, h := range c.hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

func (c *World) addHost(h Host) {
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

// since reports whether the cluster's release is this one or a later one.
func (c *World) since(release string) bool {
	have := strings.Split(c.cfg.Release, ".")
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

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// sorted are a map's keys in their order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// newWorld is a world in which nothing is yet.
func newWorld(cfg Config) *World {
	c := &World{
		Engine: engine.New(cfg.Start, cfg.Speed), cfg: cfg, options: map[string]any{}, chance: map[string]*rand.PCG{},
	}
	c.wiring = wiring{c: c, parted: map[[2]int]bool{}, lost: map[[2]int]time.Time{}}
	c.reports = reports{c}
	c.machines = machines{c: c, vms: map[int]*vm{}}
	c.stores = stores{c: c, storages: map[string]*storage{}}
	c.ha = newHA(c)
	c.access = access.New(cfg.Seed, !c.since("9"))
	c.faults.Seed, c.access.Lost = cfg.Seed, c.faults.Revoked
	return c
}
