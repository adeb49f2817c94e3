package pve

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// settler takes what was seen over into what is known of the machines.
type settler struct {
	cfg       *FleetConfig
	mu        *guard
	watch     *watch
	records   *records
	catalogue *catalogue
	roster    *roster
	view      *view
	members   *members
	ownership *ownership
	intake    *intake
	lookout   *lookout
	leftovers *leftovers
	crew      *crew
}

// settle takes what was seen over into what is known of the machines. It makes no call.
func (st *settler) settle() {
	st.mu.Lock()
	defer st.records.unlock()
	st.observe()
	if st.view.seen == nil {
		return
	}
	st.members.matchNodes()
	st.view.hidden = 0
	all := st.roster.sorted()
	for _, m := range all {
		if m.busy {
			continue
		}
		before := m.Intent.clone()
		st.settleOne(m)
		if m.unsaved || changed(&before, &m.Intent) {
			_ = st.records.keep(m) // noted there, and kept again before the next move
		}
		if m.hidden && st.catalogue.pools[m.Pool] != nil { // of others nobody could ever tell that they are listed again
			st.view.hidden++
		}
	}
	st.pardon(all)
	st.lookout.freeze()
}

// changed reports whether an intent says something else. All that settling changes has a time or is
// one of these.
func changed(a, b *Intent) bool {
	return !a.Since.Equal(b.Since) || a.Step != b.Step || a.ProviderID != b.ProviderID || (a.Task == nil) != (b.Task == nil) || a.Host != b.Host || a.VMIDs != b.VMIDs ||
		!a.Joined.Equal(b.Joined) || !a.Rejoined.Equal(b.Rejoined) || !a.Gone.Equal(b.Gone) || !a.FailedAt.Equal(b.FailedAt) || a.Disc != b.Disc || (a.Held == nil) != (b.Held == nil) ||
		!a.Returned.Equal(b.Returned) || !a.Stashed.Equal(b.Stashed) || !a.Undrained.Equal(b.Undrained) || !a.Frozen.Equal(b.Frozen) || a.Silent != b.Silent
}

func (st *settler) settleOne(m *tracked) {
	v := st.view
	if m.Task != nil && v.tasksFrom[m.Task.Host] && st.catalogue.pools[m.Pool] != nil { // no other client says how to go on
		if t, listed := v.tasks[pveapi.UPID(m.Task.UPID)]; listed && !t.Running {
			st.crew.ended(m, t)
		} else if listed {
			m.heard = v.seen.At
		}
	}
	st.settleLeft(m)
	st.settleTask(m)
	if !m.Gone.IsZero() {
		return
	}
	if m.Step == StepOrdered && m.Task == nil && !m.Returned.IsZero() {
		st.records.gone(m, "no machine of this order was made, or none is left of it")
		return
	}
	if g := v.seen.Guests[m.VMID]; g != nil {
		m.hidden = false
		if m.problem.Code == CodeHidden {
			m.problem = nodescaler.Reason{}
		}
		st.settleGuest(m, g)
	}
	st.settleNode(m)
	st.settleSilent(m)
	st.settleTime(m)
}

// settleGuest follows a machine that somebody migrated.
func (st *settler) settleGuest(m *tracked, g *placement.Guest) {
	if !m.Stashed.IsZero() {
		st.settleSpare(m, g)
	}
	st.settleHome(m, g)
	if m.Step.before(StepCloned) || g.Host == m.Host || g.Name != m.Name || m.Held != nil || m.Task != nil && m.Task.Kind == TaskClone {
		return
	}
	st.records.say(m, reason(CodeMoved, "from %s to %s", m.Host, g.Host), "")
	m.Host, m.conf = g.Host, nil
}

// settleHome notes in which range and resource pool a machine was made of which that was not kept,
// while it is where its pool makes machines now.
func (st *settler) settleHome(m *tracked, g *placement.Guest) {
	p := st.catalogue.pools[m.Pool]
	if p != nil && m.VMIDs == (placement.VMIDs{}) && !m.Step.before(StepCloned) && g.Name == m.Name && g.Pool == p.PVEPool && p.VMIDs.Holds(m.VMID) {
		m.VMIDs, m.PVEPool = p.VMIDs, p.PVEPool
	}
}

// settleNode sees whether a machine has become a node.
func (st *settler) settleNode(m *tracked) {
	n, there := st.members.nodeOf(m)
	if !there || m.Step.before(StepStarted) {
		return
	}
	st.members.compareIDs(m, n)
	m.unready = m.unready && !n.Ready
	if m.Failed != nil && m.Failed.Code == CodeJoinTimeout && m.Returned.IsZero() && n.Ready && m.Woken.IsZero() {
		st.records.revoke(m, reason(CodeJoined, "node %s came late", n.Name))
	}
	if m.Step == StepStarted && m.Failed == nil && m.Returned.IsZero() && !m.Woken.IsZero() {
		st.rejoin(m, &n)
		return
	}
	if m.Step == StepStarted && m.Failed == nil && m.Returned.IsZero() {
		st.records.joined(m)
		m.unready = !n.Ready
		if n.JoinedAt.After(m.Created) && n.JoinedAt.Before(m.Joined) {
			m.Joined = n.JoinedAt
		}
		st.records.say(m, reason(CodeJoined, "%s after it was ordered", m.Joined.Sub(m.Created).Round(time.Second)), "")
	}
	st.records.readied(m, &n)
}

// settleTime gives up on machines that take too long.
func (st *settler) settleTime(m *tracked) {
	p := st.catalogue.pools[m.Pool]
	if p == nil || m.Failed != nil || !m.Returned.IsZero() || !m.Stashed.IsZero() || m.Held != nil || st.view.frozen != nil {
		return
	}
	overdue := st.ownership.overdue(m, p)
	switch r := st.ownership.holding(m); {
	case r != nil && overdue && r.Code == CodeNeverJoined:
		st.records.impede(m, *r, "look what it is; if it is not needed: qm stop "+itoa(m.VMID)+" && qm destroy "+itoa(m.VMID)+" --purge")
	case r != nil: // it would be given up by who may not
	case m.Step == StepOrdered && st.ownership.shut[m.Pool] != nil:
		st.records.fail(m, *st.ownership.shut[m.Pool], "")
	case m.Step == StepOrdered && st.intake.count(p) > p.Max:
		// The intents were lost, and machines were found after this order was taken.
		st.records.fail(m, *no(CodePoolAtMax, "pool %s has %d machines without it, of at most %d", p.Name, st.intake.count(p)-1, p.Max), "")
	case overdue:
		st.records.fail(m, reason(CodeJoinTimeout, "it was started %s ago and is no node", st.cfg.Now().Sub(m.Since).Round(time.Second)),
			"look at its console, at the join profile and at the way from it to the servers")
	default:
		if r := st.unmade(m); r != nil && st.view.seen.Online(m.Host) {
			st.records.fail(m, *r, "")
		}
	}
}

// unmade is why a machine has failed that is in the making for too long, or nil. Of a task that
// takes too long it must be known that it runs: what nobody tells of may be done.
func (st *settler) unmade(m *tracked) *nodescaler.Reason {
	late := m.Step.before(StepStarted) && !m.Asked.IsZero() && st.watch.since(m.Asked) > makeWithin && st.watch.since(m.Woken) > makeWithin
	switch {
	case late && m.Task == nil:
		return no(CodeMachineFailed, "it could not be made within %s: %s", makeWithin, m.problem.Text)
	case late && m.hung && st.cfg.Now().Sub(m.heard) < maxAge:
		r := m.hanging(true)
		return &r
	}
	return nil
}

// crew is what work on machines is done with.
type crew struct {
	client    *pveapi.Client
	cfg       *FleetConfig
	mu        *guard
	watch     *watch
	records   *records
	catalogue *catalogue
	roster    *roster
	view      *view
	members   *members
	ownership *ownership
	holds     *holds
	intake    *intake
}

// ended takes over how the task that a machine waits for has ended.
func (cr *crew) ended(m *tracked, t pveapi.TaskStatus) {
	kind := m.Task.Kind
	m.Last, m.Task = m.Task.UPID, nil
	m.Since = cr.cfg.Now()
	if m.hung { // it rested from ending the task
		m.heard, m.hung, m.rest = time.Time{}, false, time.Time{}
	}
	if t.Warnings {
		cr.records.say(m, reason(CodeTaskWarnings, "%s ended with %s", kind, t.Exit), "look at the task's log")
	}
	if t.OK {
		cr.well(m, kind)
		return
	}
	cr.unwell(m, kind, t)
}

// well goes on from a task that did what it should.
func (cr *crew) well(m *tracked, kind TaskKind) {
	switch kind {
	case TaskClone:
		cr.records.ahead(m, StepCloned)
		m.conf = nil
	case TaskUpload:
		cr.records.ahead(m, StepSeeded)
	case TaskResize:
		cr.records.ahead(m, StepSized)
	case TaskStart:
		cr.records.started(m)
	case TaskErase:
		cr.records.erased(m)
	case TaskShutdown, TaskStop, TaskDestroy:
		m.tries, m.rest, m.problem = 0, time.Time{}, nodescaler.Reason{}
		if kind == TaskStop { // under high availability the task ends before the machine does
			cr.records.pause(m, lookGap)
		}
	}
}

// unwell goes on from a task that failed.
func (cr *crew) unwell(m *tracked, kind TaskKind, t pveapi.TaskStatus) {
	err := t.Err()
	class := pveapi.ClassOf(err)
	switch {
	case kind == TaskStart && class == pveapi.Running:
		cr.records.started(m) // by an order whose answer was lost
		return
	case kind == TaskResize && class == pveapi.Unsupported:
		cr.records.ahead(m, StepSized) // the template's disk is larger
		return
	case kind == TaskShutdown && class == pveapi.GuestSilent:
		cr.records.say(m, reason(CodeTaskFailed, "%s: %s", kind, t.Exit), "")
		return // it is stopped next
	}
	w := cr.workFor(m)
	if kind == TaskClone && class == pveapi.Exists && !m.unsure {
		making{w}.spend()
		return
	}
	m.conf = nil
	cr.records.say(m, reason(CodeTaskFailed, "%s: %s", kind, t.Exit), "")
	switch kind {
	case TaskShutdown, TaskStop, TaskDestroy, TaskErase:
		w.upset(err)
	case TaskClone, TaskUpload, TaskResize, TaskStart:
		if class == pveapi.Interrupted {
			w.upset(err)
			return
		}
		making{w}.upsetMaking(err)
		if class == pveapi.StorageFull {
			cr.records.fail(m, reason(placement.CodeStorageFull, "%s", t.Exit), "")
		}
	}
}

// workFor is the work on a machine as it is now.
func (cr *crew) workFor(m *tracked) *work {
	w := &work{crew: cr, m: m, i: m.Intent.clone(), p: cr.catalogue.pools[m.Pool], host: m.Host, conf: m.conf, now: cr.cfg.Now(), book: cr.catalogue.prices}
	if cr.view.seen == nil {
		return w
	}
	if g := cr.view.seen.Guests[m.VMID]; g != nil {
		w.seen, w.host = g, g.Host
	}
	return w
}
