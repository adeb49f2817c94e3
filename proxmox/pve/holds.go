package pve

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// A machine that is stopped while its node is away, silent or full loses what runs on it. One at a
// time that is the way to get rid of a machine that has died. Of many at a time it is more likely
// that what shows the nodes is wrong: a database restored from an old copy, a kubeconfig of another
// cluster, rights that were taken away. So few may go that way in an hour, and when there would be
// more, none goes until a person has looked or the nodes are back.

const (
	// brakeWindow is the time in which machines that go undrained are counted.
	brakeWindow = time.Hour
	// brakeShare is of how many machines one may go undrained in that time.
	brakeShare = 10
	// So many may go where there are fewer: of a pool, and of all pools together.
	brakePool, brakeAll = 1, 2
)

// holds are what keeps machines from being stopped or destroyed: whose they are, what their nodes
// say, and the brake.
type holds struct {
	cfg       *FleetConfig
	watch     *watch
	records   *records
	roster    *roster
	members   *members
	ownership *ownership
}

// brake is what is known when one more machine is to go undrained.
type brake struct {
	pool, all tally
	frozen    bool // one of the pool that was not to go waits still
}

// tally counts machines of a pool, or of all.
type tally struct {
	machines int // that were nodes once, those in gone among them
	gone     int // that went undrained in the last hour
}

func (t tally) plus(o tally) tally { return tally{t.machines + o.machines, t.gone + o.gone} }

// most is how many of the machines may go undrained in an hour.
func (t tally) most(least int) int { return max(least, t.machines/brakeShare) }

// holds reports whether one more has to wait.
func (b brake) holds() bool {
	return b.frozen || b.pool.gone >= b.pool.most(brakePool) || b.all.gone >= b.all.most(brakeAll)
}

const (
	// lookWithin is how long a last look is waited for.
	lookWithin = 10 * time.Second
	// podsPatience is how long a machine whose node holds pods waits for them to go. Whoever
	// drained it believes that it is empty, and can only see that it is not when it is a node
	// again.
	podsPatience = 2 * time.Minute
	// frozenRest is how long a machine that the brake holds is left alone, unless its node is seen
	// to be back.
	frozenRest = 5 * time.Minute
)

// deferring are the problems that keep a machine from being stopped or destroyed.
var deferring = []string{
	pvecode.Braked, pvecode.NodeHoldsPods, pvecode.StrangeDevice, pvecode.LastLookFailed,
	nodescaler.LocalVolume, nodescaler.DuplicateNode, nodescaler.NodeContradicts,
}

// resumeBy is what a person can do about a pool that is frozen.
func resumeBy(pool string) string {
	return "look whether its nodes are shown as they are; when they are back it goes on by itself, and plimsoll resume --pool " + pool + " lets those go that wait now"
}

// brake is what the brake goes by for a machine, and how many others that were nodes are none now.
func (hs *holds) brake(m *tracked) (b brake, away int) {
	for _, o := range hs.roster.machines {
		of := tally{}
		if o != m && hs.undrained(o) {
			of.gone = 1
		}
		if (o.Gone.IsZero() || of.gone > 0) && o.wasNode() {
			of.machines = 1
		}
		b.all = b.all.plus(of)
		if o.Pool != m.Pool {
			continue
		}
		b.pool = b.pool.plus(of)
		if !o.Gone.IsZero() || of.machines == 0 {
			continue
		}
		_, node := hs.members.nodeOf(o)
		b.frozen = b.frozen || !o.Frozen.IsZero()
		if o != m && hs.members.nodes != nil && !node && o.Stashed.IsZero() && o.Exit == intents.ExitNone {
			away++
		}
	}
	return b, away
}

// undrained reports whether a machine went without a drain within the last hour.
func (hs *holds) undrained(m *tracked) bool {
	return !m.Undrained.IsZero() && hs.watch.since(m.Undrained) < brakeWindow
}

// silent reports whether a machine that was a node is seen to be none now.
func (hs *holds) silent(m *tracked) bool {
	n, _ := hs.members.nodeOf(m)
	return m.wasNode() && m.Stashed.IsZero() && hs.members.nodes != nil && !n.Ready
}

// heldBy is why nothing stops or destroys a machine now, or nil.
func (hs *holds) heldBy(m *tracked) *nodescaler.Reason {
	switch belongs, contradicted := hs.ownership.holding(m), hs.members.contradicted(m); {
	case m.Held != nil:
		return m.Held
	case m.Step == intents.StepOrdered:
		return nil // there is nothing, or nothing any more
	case belongs != nil:
		return belongs
	case contradicted != nil:
		return contradicted
	case !m.Frozen.IsZero():
		r := hs.roster.braked(m.Pool)
		return &r
	case slices.Contains(deferring, m.problem.Code) && !(m.Returned.IsZero() && m.Stashed.IsZero() && !m.rebooting()):
		r := m.problem
		return &r
	}
	return nil
}

// unfinished reports whether a machine that is being made will not be: it is held, or not ours
// until it is adopted.
func (hs *holds) unfinished(m *tracked) bool {
	return m.Held != nil || hs.ownership.side(m) == sideUnmarked
}

// letAllGo lets machines of pools go that were resumed since the brake has held them.
func (hs *holds) letAllGo(pools []settings.Pool) error {
	for _, p := range pools {
		if err := hs.letGo(p.Name, p.Resumed); err != nil {
			return err
		}
	}
	return nil
}

// letGo lets machines go that the brake has held since before a person said so.
func (hs *holds) letGo(pool string, said time.Time) error {
	let := 0
	for _, m := range hs.roster.sorted() {
		if m.Pool != pool || m.Frozen.IsZero() || !m.Gone.IsZero() || m.Frozen.After(said) {
			continue
		}
		i := m.Intent.Clone()
		i.Frozen, i.Silent, i.Resumed = time.Time{}, false, hs.cfg.Now()
		if err := hs.records.store.Put(i); err != nil {
			m.unsaved = true
			return fmt.Errorf("keep that %s may go: %w", m.Name, err)
		}
		m.Frozen, m.Silent, m.Resumed, m.rest = i.Frozen, i.Silent, i.Resumed, time.Time{}
		let++
	}
	if let > 0 {
		hs.records.events = append(hs.records.events, Event{At: hs.cfg.Now(), Code: pvecode.PoolResumed, Text: fmt.Sprintf("a person lets %d machines go without a drain", let), Pool: pool})
		hs.records.nudge()
	}
	return nil
}
