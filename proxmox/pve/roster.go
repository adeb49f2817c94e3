package pve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// hosts are those that a machine, its first-boot disc and its task are on.
func (m *tracked) hosts() []string {
	all := []string{m.Host}
	if m.Disc != "" {
		all = append(all, m.DiscHost)
	}
	if m.Task != nil {
		all = append(all, m.Task.Host)
	}
	return all
}

// roster is the machines, by order.
type roster struct{ machines map[string]*tracked }

// tracked is an intent, and what is remembered of it only while the process lives.
type tracked struct {
	intents.Intent
	unsaved bool // the intent is ahead of what is kept
	busy    bool // a call for it is under way
	moves   int  // made in this round

	uuid    string            // the system UUID that it has or will have
	problem nodescaler.Reason // what is in the way now
	since   time.Time         // of that problem
	tries   int               // failures in a row
	rest    time.Time         // nothing is tried before
	conf    *pveapi.VMConfig  // as it was proved to be ours, while nothing has been changed since
	proved  time.Time         // when that was
	unsure  bool              // the clone may have been asked for in vain, or twice
	doubted time.Time         // since when the server does not show what it should
	hidden  bool              // it exists and is not listed
	heard   time.Time         // when its task was last known to run
	hung    bool              // its task takes longer than it may
	mile    milestone         // on its way to a ready node
	off     bool              // it is a spare, and was seen to be stopped
	down    time.Time         // since when it is stopped, and should run
	unready bool              // it became a node under this process, which has not been ready since
	// admitted says that it was counted before its first start, and that the pool's maximum holds
	// with it.
	admitted bool
}

// sorted returns the machines in the order of their orders' age.
func (ro *roster) sorted() []*tracked {
	all := slices.Collect(maps.Values(ro.machines))
	slices.SortFunc(all, func(a, b *tracked) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Order, b.Order))
	})
	return all
}

// phaseBefore is the phase that the machine was returned in.
func (m *tracked) phaseBefore() nodescaler.Phase {
	i := m.Intent
	i.Returned = time.Time{}
	return i.Phase()
}

// named returns the machine of that name that is not gone, or nil.
func (ro *roster) named(name string) *tracked {
	for _, m := range ro.machines {
		if m.Name == name && m.Gone.IsZero() {
			return m
		}
	}
	return nil
}

// unhang is what a person can do about a task that does not end.
func (m *tracked) unhang() string {
	return fmt.Sprintf("look at the host and at its storages; pvenode task log '%s' on %s shows how far it is, and this ends it: pvesh delete '/nodes/%[2]s/tasks/%[1]s'",
		m.Task.UPID, m.Task.Host)
}

// successes are when machines last joined, by pool.
func (ro *roster) successes() map[string]time.Time {
	last := map[string]time.Time{}
	for _, m := range ro.machines {
		if m.Joined.After(last[m.Pool]) {
			last[m.Pool] = m.Joined
		}
	}
	return last
}

// noRoom reports whether what is wrong with the machine is a lack of room.
func (m *tracked) noRoom() bool {
	if m.Failed != nil {
		return m.Cramped()
	}
	return placement.Scarce(m.problem.Code)
}

// wasNode reports whether the machine had a node that was ready. Unknown is yes: of one that was
// found running, and of one that joined before the process began.
func (m *tracked) wasNode() bool {
	return (!m.Joined.IsZero() || m.Adopted && m.Ran()) && !m.unready
}

// braked is what is said of a pool that the brake holds.
func (ro *roster) braked(pool string) nodescaler.Reason {
	n := 0
	for _, m := range ro.machines {
		if m.Pool == pool && m.Gone.IsZero() && !m.Frozen.IsZero() {
			n++
		}
	}
	return reason(pvecode.Braked, "%d machines of pool %s are to go without a drain that emptied them, more than may within an hour, and none does; %s", n, pool, resumeBy(pool))
}

// shown is the phase that others see: one that the brake holds is what it was before it was to go.
func (m *tracked) shown() nodescaler.Phase {
	if m.Frozen.IsZero() {
		return m.Phase()
	}
	i := m.Intent
	i.Returned, i.Stashed = time.Time{}, time.Time{}
	return i.Phase()
}

// lostIDs are the ids that the machine lost and that a client may still wait for.
func (m *tracked) lostIDs() []string {
	if !m.Step.Before(intents.StepJoined) {
		return nil
	}
	return slices.Clone(m.LostIDs)
}

// machineNamed is the machine of a name, or nil.
func (ro *roster) machineNamed(name string) *tracked {
	for _, m := range ro.machines {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// booting reports whether a machine is left to itself until it is a node.
func (m *tracked) booting() bool {
	return m.Step == intents.StepStarted && m.Task == nil && m.Returned.IsZero() && m.Failed == nil
}

// settled reports whether a machine is where it will stay until an administrator or a client does
// something.
func (m *tracked) settled() bool {
	switch {
	case !m.Gone.IsZero():
		return m.Disc == ""
	case m.Held != nil || !m.Frozen.IsZero() || slices.Contains(deferring, m.problem.Code):
		return true
	case !m.Returned.IsZero():
		return false
	case m.Failed != nil:
		return m.Last == "" || len(m.Hints) > 0
	case !m.Stashed.IsZero():
		return m.off
	case m.rebooting():
		return false
	}
	return m.Step == intents.StepTidied
}

// rebooting reports whether a machine is being stopped and started.
func (m *tracked) rebooting() bool {
	return m.Reboot != intents.RebootNone && !m.Step.Before(intents.StepJoined)
}

// waking reports whether a spare is being started.
func (m *tracked) waking() bool {
	return !m.Woken.IsZero() && m.Stashed.IsZero() && m.Step.Before(intents.StepStarted)
}

// correct puts what was stamped by a clock that ran ahead to the present: it would be waited for
// until then.
func (ro *roster) correct(now time.Time) {
	for _, m := range ro.machines {
		for _, at := range m.times() {
			if at.After(now) {
				*at, m.unsaved = now, true
			}
		}
	}
}

// times are those of the past that are kept of a machine.
func (m *tracked) times() []*time.Time {
	i := &m.Intent
	all := []*time.Time{
		&i.Created, &i.Since, &i.Asked, &i.Returned, &i.Undrained, &i.Frozen, &i.Resumed, &i.FailedAt, &i.Joined, &i.Stashed,
		&i.Woken, &i.Rejoined, &i.Rebooted, &i.Gone, &m.since, &m.proved, &m.doubted, &m.heard, &m.mile.at, &m.down,
	}
	if i.Task != nil {
		all = append(all, &i.Task.At)
	}
	return all
}
