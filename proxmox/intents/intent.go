// Package intents keeps what the machine port means to do with each machine, written before it is
// done, so that it survives the process.
package intents

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Intent is what the fleet means to do about one order, kept so that it survives the process. It is
// written before the call that it is about: at any moment that the process dies at, what may have
// been done is known, and looking shows whether it was.
type Intent struct {
	Order   string        `json:"order"`
	Pool    string        `json:"pool"`
	Name    string        `json:"name"` // of the machine and of its node
	Shape   pricing.Shape `json:"shape"`
	Host    string        `json:"host"`
	VMID    int           `json:"vmid"`
	Created time.Time     `json:"created"` // when the order was accepted
	Why     string        `json:"why,omitempty"`
	// Cluster is the UID that is in the mark of the machine's notes; empty where the mark is of
	// before there was one.
	Cluster string `json:"cluster,omitempty"`
	// ProviderID is what the node will carry, planned with the order: once it was given it stays,
	// regardless of what becomes of the pool's configuration. What the node does carry takes its
	// place.
	ProviderID string `json:"providerID,omitempty"`
	// LostIDs are provider ids that went with VMIDs that turned out to be strangers'.
	LostIDs []string `json:"lostIDs,omitempty"`

	Step  Step      `json:"step"`
	Since time.Time `json:"since"` // it is at this step
	// Task is what the machine waits for.
	Task *Task `json:"task,omitempty"`
	// Last is the last task that ended; its log may explain a failure.
	Last string `json:"last,omitempty"`
	// Joined is when it was first seen as a node; zero is never.
	Joined time.Time `json:"joined,omitzero"`

	Making
	Leaving
	Sparing
	Rebooting
	Failing
}

// Making is what a machine was made with and of, or was found to be. It stays what the machine is
// recognised and judged by when the pool's configuration changes.
type Making struct {
	// VMIDs and PVEPool are the range and the resource pool that its clone was asked for in. They
	// distinguish it from others' machines; empty is unknown.
	VMIDs   placement.VMIDs `json:"vmids,omitzero"`
	PVEPool string          `json:"pvePool,omitempty"`
	// Asked is when the clone was first asked for; zero is never.
	Asked time.Time `json:"asked,omitzero"`
	// Spent are VMIDs that turned out to be strangers'.
	Spent []int `json:"spent,omitempty"`
	// MAC is that of the first interface, which the clone was given.
	MAC string `json:"mac,omitempty"`
	// Disc is the volume of the first-boot disc, from before it is uploaded until it is gone.
	Disc     string `json:"disc,omitempty"`
	DiscHost string `json:"discHost,omitempty"`
	// Devices are the drives that it was configured with, with their volumes, and what it has of
	// its host's; empty is unknown.
	Devices map[string]string `json:"devices,omitempty"`
	// Settings and Original are digests of what of the pool's configuration it was made with, and
	// of the template that it was cloned from; empty is unknown.
	Settings string `json:"settings,omitempty"`
	Original string `json:"original,omitempty"`
	// Cloned and Seeded are digests of the settings that it was cloned by, and that its disc was
	// made by, until it is configured; empty is unknown, or no disc.
	Cloned string `json:"cloned,omitempty"`
	Seeded string `json:"seeded,omitempty"`
	// Version is what the pool's join profile had installed; empty is what was in the template, or
	// unknown.
	Version string `json:"version,omitempty"`
	// Recipe is a digest of the pool's configuration: failures under another one say nothing.
	Recipe string `json:"recipe,omitempty"`
	// Adopted machines were found with all proofs and without an intent; Running says that it ran
	// then, and was never ours to boot.
	Adopted bool `json:"adopted,omitempty"`
	Running bool `json:"running,omitempty"`
}

// Leaving is how a machine goes, from its return until its VMID may be used again.
type Leaving struct {
	// Returned is when the machine was returned; zero is not.
	Returned time.Time `json:"returned,omitzero"`
	// Forced says that cluster-autoscaler gave it back, which evicts what it evicts and then wants
	// the machine gone.
	Forced bool `json:"forced,omitempty"`
	// Undrained is when it was let go without a drain that emptied it; zero is never. Frozen is
	// since when the brake keeps it from that, and Resumed when a person let it go all the same.
	// Silent says that it is to go since its node was away or not ready.
	Undrained time.Time `json:"undrained,omitzero"`
	Frozen    time.Time `json:"frozen,omitzero"`
	Silent    bool      `json:"silent,omitempty"`
	Resumed   time.Time `json:"resumed,omitzero"`
	// Exit is what was done to delete it, or to stop it as a spare.
	Exit Exit `json:"exit,omitempty"`
	// Gone is when the machine was proved to be no more. The intent stays for the cool-down of
	// its VMID, and for what it says about its pool.
	Gone time.Time `json:"gone,omitzero"`
	// NodeGone says that the node object is gone too.
	NodeGone bool `json:"nodeGone,omitempty"`
}

// Sparing is how a machine is kept as a spare, and started again.
type Sparing struct {
	// Keep says that it was ordered to become a spare. Stashed is since when it is one, zero if it
	// is not one; whoever finds it set sees to it that the machine is stopped. Woken is when it was
	// last started from being one, and Rejoined when it was a node again after that.
	Keep     bool      `json:"keep,omitempty"`
	Stashed  time.Time `json:"stashed,omitzero"`
	Woken    time.Time `json:"woken,omitzero"`
	Rejoined time.Time `json:"rejoined,omitzero"`
	// Misses counts the times in a row that it could not be started again.
	Misses int `json:"misses,omitempty"`
}

// Rebooting is how a machine is stopped and started again, whose node is unhealthy, or started that
// has stopped by itself.
type Rebooting struct {
	// Reboot is what is to be done; Rebooted is when that was last asked for, zero is never.
	Reboot   Reboot    `json:"reboot,omitempty"`
	Rebooted time.Time `json:"rebooted,omitzero"`
	// Starts is how often in a row it was started that had stopped by itself, the last time when it
	// was Rebooted.
	Starts int `json:"starts,omitempty"`
}

// Reboot is how far a machine has come in being rebooted.
type Reboot string

// The stages of a reboot, in order.
const (
	RebootNone  Reboot = ""
	RebootStop  Reboot = "stop"  // it is to be stopped
	RebootStart Reboot = "start" // it is stopped, and is to be started
)

// Failing is why a machine is no use, or is not touched.
type Failing struct {
	// Failed is why the machine will never join.
	Failed   *nodescaler.Reason `json:"failed,omitempty"`
	FailedAt time.Time          `json:"failedAt,omitzero"`
	// Pardoned failures do not count any more.
	Pardoned bool     `json:"pardoned,omitempty"`
	Hints    []string `json:"hints,omitempty"` // what may explain a failure
	// Held is why the machine is not touched any more, until a person has looked at it.
	Held *nodescaler.Reason `json:"held,omitempty"`
}

// Step is how far a machine has come in being made.
type Step string

// The steps, in order. Each names what is known to be done, but for StepClaimed, which names what
// may have been.
const (
	StepOrdered    Step = "ordered"    // accepted, and nothing asked of the server
	StepClaimed    Step = "claimed"    // the clone may have been asked for
	StepCloned     Step = "cloned"     // the clone is there, and ours
	StepSized      Step = "sized"      // its disk is as large as the shape's
	StepSeeded     Step = "seeded"     // its first-boot disc is uploaded
	StepConfigured Step = "configured" // with its size, network, notes, tags and UUID
	StepStarted    Step = "started"    // it runs
	StepJoined     Step = "joined"     // it is a node
	StepTidied     Step = "tidied"     // and its first-boot disc is gone
)

// Steps are all of them, in order.
var Steps = []Step{StepOrdered, StepClaimed, StepCloned, StepSized, StepSeeded, StepConfigured, StepStarted, StepJoined, StepTidied}

// Before reports whether the step comes before another one.
func (s Step) Before(o Step) bool { return slices.Index(Steps, s) < slices.Index(Steps, o) }

// Exit is how far a machine has come in being deleted.
type Exit string

// The stages of deletion, in order.
const (
	ExitNone     Exit = ""
	ExitShutdown Exit = "shutdown" // the guest was asked to shut down
	ExitStop     Exit = "stop"     // it was stopped
	ExitDestroy  Exit = "destroy"  // it may have been destroyed
	ExitTidy     Exit = "tidy"     // it is gone, and its disc may be left
)

// Task is a task of the server that a machine waits for.
type Task struct {
	UPID string    `json:"upid"`
	Kind TaskKind  `json:"kind"`
	Host string    `json:"host"`
	At   time.Time `json:"at"` // it was asked for
}

// TaskKind is what a task does to a machine.
type TaskKind string

// The kinds of task.
const (
	TaskClone    TaskKind = "clone"
	TaskUpload   TaskKind = "upload"
	TaskResize   TaskKind = "resize"
	TaskStart    TaskKind = "start"
	TaskShutdown TaskKind = "shutdown"
	TaskStop     TaskKind = "stop"
	TaskDestroy  TaskKind = "destroy"
	TaskErase    TaskKind = "erase" // of its first-boot disc
)

// Clone returns a copy that shares nothing that is changed in place.
func (i Intent) Clone() Intent {
	i.Spent = slices.Clone(i.Spent)
	i.LostIDs = slices.Clone(i.LostIDs)
	i.Hints = slices.Clone(i.Hints)
	i.Devices = maps.Clone(i.Devices)
	if i.Task != nil {
		t := *i.Task
		i.Task = &t
	}
	return i
}

// PVEPools are the resource pools that the machine may be in: the one that it was put into, and the
// one that its pool has now, for whoever changes that may take the machines along. Another client's
// is neither.
func (m *Making) PVEPools(p *settings.Pool) []string {
	if m.PVEPool == "" || m.PVEPool == p.PVEPool {
		return []string{p.PVEPool}
	}
	return []string{m.PVEPool, p.PVEPool}
}

// Phase is the intent in the loop's words.
func (i *Intent) Phase() nodescaler.Phase {
	switch {
	case !i.Returned.IsZero():
		return nodescaler.Deleting
	case i.Failed != nil:
		return nodescaler.Failed
	case !i.Stashed.IsZero():
		return nodescaler.Spare
	case i.Step.Before(StepStarted):
		return nodescaler.Ordered
	case i.Step == StepStarted:
		return nodescaler.Booting
	}
	return nodescaler.Joined
}

// Store keeps the intents. What Put has returned nil for is there after a crash; what it was
// interrupted in may be or not.
type Store interface {
	Load() ([]Intent, error)
	Put(Intent) error
	Remove(order string) error
}

// Memory keeps intents in memory, for tests and for worlds that end with the process. The
// zero Memory is empty.
type Memory struct {
	mu   sync.Mutex
	kept map[string]Intent
}

// Load returns the intents, by order.
func (m *Memory) Load() ([]Intent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Intent, 0, len(m.kept))
	for _, i := range m.kept {
		all = append(all, i.Clone())
	}
	sortIntents(all)
	return all, nil
}

// Put keeps an intent in place of the one with the same order.
func (m *Memory) Put(i Intent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[string]Intent{}
	}
	m.kept[i.Order] = i.Clone()
	return nil
}

// Remove forgets the intent of an order.
func (m *Memory) Remove(order string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, order)
	return nil
}

func sortIntents(all []Intent) {
	slices.SortFunc(all, func(a, b Intent) int {
		switch {
		case a.Order < b.Order:
			return -1
		case a.Order > b.Order:
			return 1
		}
		return 0
	})
}

// FoundRunning reports whether the machine ran when it was found. Whether it ever was a node of
// this cluster is not known then, so that it is never given up for not being one. Of those that
// were adopted before clusters were marked it was not kept whether they ran.
func (i *Intent) FoundRunning() bool { return i.Adopted && (i.Running || i.Cluster == "") }

// Placed is the machine as far as it takes room.
func (i *Intent) Placed() placement.Machine {
	return placement.Machine{
		VMID: i.VMID, Name: i.Name, Pool: i.Pool, Host: i.Host, Shape: i.Shape,
		Cloned: !i.Step.Before(StepCloned), Filling: i.Step.Before(StepStarted) && i.Woken.IsZero(), Stopped: !i.Stashed.IsZero(),
	}
}

// Blamed reports whether a failure says something about its pool. What others did to the machine,
// and what another configuration led to, does not.
func (i *Intent) Blamed(recipe string, now time.Time) bool {
	return !i.Pardoned && i.speaks(recipe, now)
}

// BlamesHost reports whether a failure says something about its host, as it does for a while. A
// machine that joins on another host pardons it for the pool, and says nothing of this host.
func (i *Intent) BlamesHost(recipe string, now time.Time) bool {
	return i.speaks(recipe, now) && now.Sub(i.FailedAt) < HostFails+HostRest && i.Failed.Code != pvecode.VMIDsExhausted
}

// HostRest is the longest that a host rests after machines failed on it.
const HostRest = 30 * time.Minute

// HostFails is how long before the last failure on a host others make its rest longer.
const HostFails = 90 * time.Minute

// speaks reports whether a failure says something about how machines are made.
func (i *Intent) speaks(recipe string, now time.Time) bool {
	if i.Failed == nil || i.Recipe != recipe || i.Cramped() && now.Sub(i.FailedAt) >= crampedFor {
		return false
	}
	return !slices.Contains([]string{pvecode.Vanished, pvecode.Unfinished, pvecode.PoolAtMax, pvecode.OtherCluster, pvecode.Stopped}, i.Failed.Code)
}

// Ran reports whether the machine was ever started. Unknown is yes, as it is of one that was found
// configured and stopped.
func (i *Intent) Ran() bool {
	return !i.Step.Before(StepStarted) || !i.Joined.IsZero() || !i.Woken.IsZero() || i.Adopted && !i.Step.Before(StepConfigured)
}

// Hinders reports whether the way out is free without the task. One that removes something is the
// way out, and would only be asked for again.
func (k TaskKind) Hinders() bool { return k != TaskDestroy && k != TaskErase }

// crampedFor is how long a lack of room says something. No number of them pauses a pool, so without
// an end as many would be kept as there are tries until there is room.
const crampedFor = 24 * time.Hour

// Cramped reports whether the machine failed for lack of room.
func (f *Failing) Cramped() bool { return f.Failed != nil && placement.Scarce(f.Failed.Code) }
