package world

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
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

// Wiring is which hosts reach each other, and what they have agreed on about that.
type Wiring struct {
	c       *World
	changes int                  // of which hosts there are, as far as hosts know
	Moving  bool                 // hosts are agreeing on that; what writes waits meanwhile
	Until   time.Time            // they have agreed
	parted  map[[2]int]bool      // pairs of hosts, by number, between which no calls come through
	Lost    map[[2]int]time.Time // since when calls of one host do not come through to another
}

// GuestPlace is what the configuration file of a virtual machine, or its place, shows all hosts at
// once.
type GuestPlace struct {
	Host       *Node
	Tags, Lock string
}

// Worker is one of pvedaemon's.
type Worker struct {
	Line     []float64 // calls that wait in pveproxy for a connection to it, by their turns
	Underway int       // calls that it has been passed, that which it serves among them
	Busy     bool
}

// Machines are the virtual machines of all hosts, with who is notified of them.
type Machines struct {
	c      *World
	VMs    map[int]*Guest
	onBoot func(Boot)
	onHalt func(Halt)
	disks  int // that machines have run from outside
	// StartVM starts a machine in a task.
	StartVM func(h *Node, who *access.Identity, id int)
}

// Boot is a virtual machine that has booted, with its cloud-init data.
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

// Halt is a virtual machine whose guest, which had booted, runs no more.
type Halt struct {
	VMID       int
	Name, Host string
	UUID       string
	At         time.Time
}

// Stores are the storages of all hosts.
type Stores struct {
	c        *World
	Storages map[string]*Store
}

// reports is what hosts know of each other.
type reports struct{ c *World }

// Task is work that a call has started and does not wait for.
type Task struct {
	UPID        string
	Host        *Node `json:"-"` // where it is saved
	PID         int
	PStart      int64
	Kind, ID    string
	User        string // without the token
	Token       string
	Start, End  time.Time
	Exit        string // empty while it runs
	Log         []string
	p           *engine.Process
	interrupted bool               // a caller asked for its end
	faults      []*faults.Injected // that spoil it
}

// Errand is a caller at work on a host: a task, or a call that answers when it is done. Both do the
// same things, but only a task has a log and can be interrupted.
type Errand struct {
	Caller
	Patience
	Host *Node
}

// Patience is how work lets time pass.
type Patience struct {
	Process *engine.Process
	Task    *Task // nil for a call
	// heard is whether the task has taken note that it is to stop. What it does then to tidy up
	// is not interrupted again.
	heard bool
}

// Caller is who asks for something, and of which cluster.
type Caller struct {
	World *World
	Who   *access.Identity
}

// ErrInterrupted is what a task ends with when a user stops it where it waits.
var ErrInterrupted = errors.New("received interrupt")

// Guests run the cluster's machines for real, outside of it. Without them guests are pretended.
type Guests interface {
	// Start begins to run a machine, and returns at once. When the machine's process has ended,
	// over is called from another goroutine.
	Start(m *Machine, over func()) Running
	// Discard removes a disk that is needed no more.
	Discard(disk int)
}

// Running is a machine from its start until its process ends.
type Running interface {
	Up() error // waits until the process is there
	Kill()     // asks for the process's end, and returns at once
	// Monitor has QEMU do something, and Agent the agent in the guest.
	Monitor(command string, arguments map[string]any) (any, error)
	Agent(command string, arguments map[string]any) (any, error)
}

// Machine is what is to run.
type Machine struct {
	VMID   int
	UUID   string
	CPUs   int
	Memory int64 // bytes
	Drives []Drive
	MACs   []string // of its network cards
	Agent  bool     // there is a channel to one
}

// Drive is a disk, a disc or an empty drive.
type Drive struct {
	Key    string // scsi0
	Disk   int    // distinguishes disks, also those of other machines and those that are gone
	Size   int64  // bytes
	System bool   // a system is installed on it before the first start
	Disc   []byte
	Seed   map[string][]byte // the files on Proxmox VE's own cloud-init disc
	Empty  bool              // a drive without a disc
}

// Fault is a fault that was put in, with what brings it about.
type Fault struct {
	*faults.Injected
	Acts   bool      // on something that is to be left alone again
	Loaded time.Time // with its cluster
	undo   func()
	p      *engine.Process
}

// HA is what high availability manages. What is in maps is in configuration files; the rest is the
// manager's.
type HA struct {
	World     *World
	Resources map[string]map[string]string // by service, such as vm:201
	Groups    map[string]map[string]string
	Rules     map[string]map[string]string
	Ordinal   int // of rules
	Services  map[string]*Service
	Wishes    []Wish
	Master    *Node // nil while the manager sleeps
	Stamp     time.Time
	Away      map[string]time.Time // hosts that are not there, and since when
	Next      time.Time            // the manager looks around
	Process   *engine.Process
	Round     func() // what the manager does when it looks around
}

// Service is a resource as the manager has it.
type Service struct {
	Host  *Node
	State string
	Goal  *Node // of a migration
	Fails int
	Limit time.Duration // that it has to shut down; 0 is the usual one, below 0 it has no time
}

// Wish is something that the manager is asked, and takes note of in its next round.
type Wish struct {
	SID, State, Target string
	Limit              time.Duration // as a service's
}

// Report is what pvestatd of a host sends all hosts about itself, every ten seconds. It is saved as
// it is.
type Report struct {
	At       time.Time              `json:"at"`
	Node     NodeReport             `json:"node"`
	Guests   map[int]GuestReport    `json:"guests"`
	Storages map[string]SpaceReport `json:"storages"`
}

// NodeReport is what a host reports of itself.
type NodeReport struct {
	Uptime  int64   `json:"uptime"`
	CPU     float64 `json:"cpu"`
	MaxCPU  int     `json:"maxcpu"`
	Mem     int64   `json:"mem"`
	MaxMem  int64   `json:"maxmem"`
	Disk    int64   `json:"disk"` // of the root file system
	MaxDisk int64   `json:"maxdisk"`
}

// GuestReport is what a host reports of a virtual machine.
type GuestReport struct {
	At       time.Time `json:"at"`
	Name     string    `json:"name"`
	Status   string    `json:"status"`
	Template bool      `json:"template"`
	Uptime   int64     `json:"uptime"`
	CPU      float64   `json:"cpu"`
	MaxCPU   int       `json:"maxcpu"`
	Mem      int64     `json:"mem"`
	MaxMem   int64     `json:"maxmem"`
	MaxDisk  int64     `json:"maxdisk"`
}

// SpaceReport is what a host reports of a storage.
type SpaceReport struct {
	Used  int64 `json:"used"`
	Total int64 `json:"total"`
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
