package pvesim

import (
	"math/rand/v2"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Config is a cluster before it starts.
type Config struct {
	Seed    uint64    `json:"seed"`
	Start   time.Time `json:"start"`   // zero is 2026-01-01 in UTC
	Release string    `json:"release"` // such as "9.2.11"; empty is the newest that is emulated
	// Speed is how fast time passes by the wall clock: 1 is real time, and 0 lets it pass only
	// while somebody waits.
	Speed    float64        `json:"speed"`
	Name     string         `json:"name"` // of the cluster
	Hosts    []Host         `json:"hosts"`
	Storages []Storage      `json:"storages"`
	VMs      []VM           `json:"vms"`
	Images   []Image        `json:"images,omitempty"`
	Pools    []string       `json:"pools"`
	Times    timing.Machine `json:"times"`
}

// Host is a Proxmox VE host.
type Host struct {
	Name    string   `json:"name"`
	CPUs    int      `json:"cpus"`
	Memory  int64    `json:"memory"`  // bytes
	Bridges []string `json:"bridges"` // none is vmbr0
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
	Guest    string            `json:"guest"`   // system (or empty), deaf or none: see guestSystem
	Config   map[string]string `json:"config"`  // further keys, as in its configuration file
}

// Cluster is an emulated Proxmox VE cluster. It consists of parts that know it; each has its own
// state.
type Cluster struct {
	*engine.Engine
	wiring
	reports
	machines
	stores
	front
	cfg     Config
	options map[string]any // of the datacenter, as they are set
	began   time.Time
	hosts   []*host // by name
	access  *access.Access
	ha      ha
	chance  map[string]*rand.PCG // what streams draw from, by name; see Cluster.rng
	faults  faults.Set
	afoot   []*fault
}

// Boot is a virtual machine that has booted, with what it was told.
type Boot struct {
	VMID          int
	Name, Host    string
	UUID          string // of its system management BIOS, which the guest sees as its own
	Config        map[string]string
	UserData      []byte // of its NoCloud disc, or of Proxmox VE's own keys
	MetaData      []byte
	NetworkConfig []byte
	At            time.Time
}

// Hosts are the names of the cluster's hosts.
func (c *Cluster) Hosts() []string {
	var all []string
	for _, h := range c.hosts {
		all = append(all, h.Name)
	}
	return all
}

// OnBoot sets what is told of every virtual machine that has booted, and again whenever it boots.
// It is called while the cluster stands still, and must not call it back.
func (c *Cluster) OnBoot(told func(Boot)) { c.With(func() { c.onBoot = told }) }

// SetTimes lets machines take other times from now on. What is under way takes as long as it was
// to.
func (c *Cluster) SetTimes(t timing.Machine) error {
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

// Halt is a virtual machine whose guest, which had booted, runs no more.
type Halt struct {
	VMID       int
	Name, Host string
	UUID       string
	At         time.Time
}

// OnHalt sets what is told of every guest that had booted and is shut down, stopped, reset or lost
// with its host. Of one that is only paused nothing is told. It is called while the cluster stands
// still, and must not call it back.
func (c *Cluster) OnHalt(told func(Halt)) { c.With(func() { c.onHalt = told }) }

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
func (c *Cluster) rng(name string) *rand.Rand {
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

func (c *Cluster) host(name string) *host {
	for _, h := range c.hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}
