package pve

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// settle takes what was seen over into what is known of the machines. It makes no call.
func (f *Fleet) settle() {
	f.mu.Lock()
	defer f.unlock()
	f.observe()
	if f.view.seen == nil {
		return
	}
	f.matchNodes()
	f.view.hidden = 0
	all := f.sorted()
	for _, m := range all {
		if m.busy {
			continue
		}
		before := m.Intent.clone()
		f.settleOne(m)
		if m.unsaved || changed(&before, &m.Intent) {
			_ = f.keep(m) // noted there, and kept again before the next move
		}
		if m.hidden && f.pools[m.Pool] != nil { // of others nobody could ever tell that they are listed again
			f.view.hidden++
		}
	}
	f.pardon(all)
	f.freeze()
}

// changed reports whether an intent says something else. All that settling changes has a time or is
// one of these.
func changed(a, b *Intent) bool {
	return !a.Since.Equal(b.Since) || a.Step != b.Step || a.ProviderID != b.ProviderID || (a.Task == nil) != (b.Task == nil) || a.Host != b.Host || a.VMIDs != b.VMIDs ||
		!a.Joined.Equal(b.Joined) || !a.Rejoined.Equal(b.Rejoined) || !a.Gone.Equal(b.Gone) || !a.FailedAt.Equal(b.FailedAt) || a.Disc != b.Disc || (a.Held == nil) != (b.Held == nil) ||
		!a.Returned.Equal(b.Returned) || !a.Stashed.Equal(b.Stashed) || !a.Undrained.Equal(b.Undrained) || !a.Frozen.Equal(b.Frozen) || a.Silent != b.Silent
}

func (f *Fleet) settleOne(m *tracked) {
	v := &f.view
	if m.Task != nil && v.tasksFrom[m.Task.Host] && f.pools[m.Pool] != nil { // no other client says how to go on
		if t, listed := v.tasks[pveapi.UPID(m.Task.UPID)]; listed && !t.Running {
			f.ended(m, t)
		} else if listed {
			m.heard = v.seen.At
		}
	}
	f.settleLeft(m)
	f.settleTask(m)
	if !m.Gone.IsZero() {
		return
	}
	if m.Step == StepOrdered && m.Task == nil && !m.Returned.IsZero() {
		f.gone(m, "no machine of this order was made, or none is left of it")
		return
	}
	if g := v.seen.Guests[m.VMID]; g != nil {
		m.hidden = false
		if m.problem.Code == CodeHidden {
			m.problem = nodescaler.Reason{}
		}
		f.settleGuest(m, g)
	}
	f.settleNode(m)
	f.settleSilent(m)
	f.settleTime(m)
}

// settleGuest follows a machine that somebody migrated.
func (f *Fleet) settleGuest(m *tracked, g *placement.Guest) {
	if !m.Stashed.IsZero() {
		f.settleSpare(m, g)
	}
	f.settleHome(m, g)
	if m.Step.before(StepCloned) || g.Host == m.Host || g.Name != m.Name || m.Held != nil || m.Task != nil && m.Task.Kind == TaskClone {
		return
	}
	f.say(m, reason(CodeMoved, "from %s to %s", m.Host, g.Host), "")
	m.Host, m.conf = g.Host, nil
}

// settleHome notes in which range and resource pool a machine was made of which that was not kept,
// while it is where its pool makes machines now.
func (f *Fleet) settleHome(m *tracked, g *placement.Guest) {
	p := f.pools[m.Pool]
	if p != nil && m.VMIDs == (placement.VMIDs{}) && !m.Step.before(StepCloned) && g.Name == m.Name && g.Pool == p.PVEPool && p.VMIDs.Holds(m.VMID) {
		m.VMIDs, m.PVEPool = p.VMIDs, p.PVEPool
	}
}

// settleNode sees whether a machine has become a node.
func (f *Fleet) settleNode(m *tracked) {
	n, there := f.nodeOf(m)
	if !there || m.Step.before(StepStarted) {
		return
	}
	f.compareIDs(m, n)
	m.unready = m.unready && !n.Ready
	if m.Failed != nil && m.Failed.Code == CodeJoinTimeout && m.Returned.IsZero() && n.Ready && m.Woken.IsZero() {
		f.revoke(m, reason(CodeJoined, "node %s came late", n.Name))
	}
	if m.Step == StepStarted && m.Failed == nil && m.Returned.IsZero() && !m.Woken.IsZero() {
		f.rejoin(m, &n)
		return
	}
	if m.Step == StepStarted && m.Failed == nil && m.Returned.IsZero() {
		f.joined(m)
		m.unready = !n.Ready
		if n.JoinedAt.After(m.Created) && n.JoinedAt.Before(m.Joined) {
			m.Joined = n.JoinedAt
		}
		f.say(m, reason(CodeJoined, "%s after it was ordered", m.Joined.Sub(m.Created).Round(time.Second)), "")
	}
	f.readied(m, &n)
}

// settleTime gives up on machines that take too long.
func (f *Fleet) settleTime(m *tracked) {
	p := f.pools[m.Pool]
	if p == nil || m.Failed != nil || !m.Returned.IsZero() || !m.Stashed.IsZero() || m.Held != nil || f.view.frozen != nil {
		return
	}
	overdue := f.overdue(m, p)
	switch r := f.holding(m); {
	case r != nil && overdue && r.Code == CodeNeverJoined:
		f.impede(m, *r, "look what it is; if it is not needed: qm stop "+itoa(m.VMID)+" && qm destroy "+itoa(m.VMID)+" --purge")
	case r != nil: // it would be given up by who may not
	case m.Step == StepOrdered && f.shut[m.Pool] != nil:
		f.fail(m, *f.shut[m.Pool], "")
	case m.Step == StepOrdered && f.count(p) > p.Max:
		// The intents were lost, and machines were found after this order was taken.
		f.fail(m, *no(CodePoolAtMax, "pool %s has %d machines without it, of at most %d", p.Name, f.count(p)-1, p.Max), "")
	case overdue:
		f.fail(m, reason(CodeJoinTimeout, "it was started %s ago and is no node", f.cfg.Now().Sub(m.Since).Round(time.Second)),
			"look at its console, at the join profile and at the way from it to the servers")
	default:
		if r := f.unmade(m); r != nil && f.view.seen.Online(m.Host) {
			f.fail(m, *r, "")
		}
	}
}

// unmade is why a machine has failed that is in the making for too long, or nil. Of a task that
// takes too long it must be known that it runs: what nobody tells of may be done.
func (f *Fleet) unmade(m *tracked) *nodescaler.Reason {
	late := m.Step.before(StepStarted) && !m.Asked.IsZero() && f.since(m.Asked) > makeWithin && f.since(m.Woken) > makeWithin
	switch {
	case late && m.Task == nil:
		return no(CodeMachineFailed, "it could not be made within %s: %s", makeWithin, m.problem.Text)
	case late && m.hung && f.cfg.Now().Sub(m.heard) < maxAge:
		r := m.hanging(true)
		return &r
	}
	return nil
}

// ended takes over how the task that a machine waits for has ended.
func (f *Fleet) ended(m *tracked, t pveapi.TaskStatus) {
	kind := m.Task.Kind
	m.Last, m.Task = m.Task.UPID, nil
	m.Since = f.cfg.Now()
	if m.hung { // it rested from ending the task
		m.heard, m.hung, m.rest = time.Time{}, false, time.Time{}
	}
	if t.Warnings {
		f.say(m, reason(CodeTaskWarnings, "%s ended with %s", kind, t.Exit), "look at the task's log")
	}
	if t.OK {
		f.well(m, kind)
		return
	}
	f.unwell(m, kind, t)
}

// well goes on from a task that did what it should.
func (f *Fleet) well(m *tracked, kind TaskKind) {
	switch kind {
	case TaskClone:
		f.ahead(m, StepCloned)
		m.conf = nil
	case TaskUpload:
		f.ahead(m, StepSeeded)
	case TaskResize:
		f.ahead(m, StepSized)
	case TaskStart:
		f.started(m)
	case TaskErase:
		f.erased(m)
	case TaskShutdown, TaskStop, TaskDestroy:
		m.tries, m.rest, m.problem = 0, time.Time{}, nodescaler.Reason{}
		if kind == TaskStop { // under high availability the task ends before the machine does
			f.pause(m, lookGap)
		}
	}
}

// unwell goes on from a task that failed.
func (f *Fleet) unwell(m *tracked, kind TaskKind, t pveapi.TaskStatus) {
	err := t.Err()
	class := pveapi.ClassOf(err)
	switch {
	case kind == TaskStart && class == pveapi.Running:
		f.started(m) // by an order whose answer was lost
		return
	case kind == TaskResize && class == pveapi.Unsupported:
		f.ahead(m, StepSized) // the template's disk is larger
		return
	case kind == TaskShutdown && class == pveapi.GuestSilent:
		f.say(m, reason(CodeTaskFailed, "%s: %s", kind, t.Exit), "")
		return // it is stopped next
	}
	w := f.workFor(m)
	if kind == TaskClone && class == pveapi.Exists && !m.unsure {
		w.spend()
		return
	}
	m.conf = nil
	f.say(m, reason(CodeTaskFailed, "%s: %s", kind, t.Exit), "")
	switch kind {
	case TaskShutdown, TaskStop, TaskDestroy, TaskErase:
		w.upset(err)
	case TaskClone, TaskUpload, TaskResize, TaskStart:
		if class == pveapi.Interrupted {
			w.upset(err)
			return
		}
		w.upsetMaking(err)
		if class == pveapi.StorageFull {
			f.fail(m, reason(placement.CodeStorageFull, "%s", t.Exit), "")
		}
	}
}

// workFor is the work on a machine as it is now.
func (f *Fleet) workFor(m *tracked) *work {
	w := &work{Fleet: f, m: m, i: m.Intent.clone(), p: f.pools[m.Pool], host: m.Host, conf: m.conf, now: f.cfg.Now(), book: f.prices}
	if f.view.seen == nil {
		return w
	}
	if g := f.view.seen.Guests[m.VMID]; g != nil {
		w.seen, w.host = g, g.Host
	}
	return w
}
