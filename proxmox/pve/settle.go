package pve

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// settler takes what was seen over into what is known of the machines.
type settler struct {
	*ground
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
		before := m.Intent.Clone()
		st.settleOne(m)
		if m.unsaved || changed(&before, &m.Intent) {
			_ = st.records.keep(m) // noted there, and kept again before the next move
		}
		if m.hidden && st.catalogue.pools[m.Pool] != nil {
			st.view.hidden++
		}
	}
	st.pardon(all)
	st.lookout.freeze()
}

// changed reports whether an intent says something else. All that settling changes has a time or is
// one of these.
func changed(a, b *intents.Intent) bool {
	return !a.Since.Equal(b.Since) || a.Step != b.Step || a.ProviderID != b.ProviderID || (a.Task == nil) != (b.Task == nil) || a.Host != b.Host || a.VMIDs != b.VMIDs ||
		!a.Joined.Equal(b.Joined) || !a.Rejoined.Equal(b.Rejoined) || !a.Gone.Equal(b.Gone) || !a.FailedAt.Equal(b.FailedAt) || a.Disc != b.Disc || (a.Held == nil) != (b.Held == nil) ||
		!a.Returned.Equal(b.Returned) || !a.Stashed.Equal(b.Stashed) || !a.Undrained.Equal(b.Undrained) || !a.Frozen.Equal(b.Frozen) || a.Silent != b.Silent || a.Reboot != b.Reboot
}

func (st *settler) settleOne(m *tracked) {
	v := st.view
	if m.Task != nil && v.tasksFrom[m.Task.Host] && st.catalogue.pools[m.Pool] != nil {
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
	if m.Step == intents.StepOrdered && m.Task == nil && !m.Returned.IsZero() {
		st.records.gone(m, "no machine of this order was made, or none is left of it")
		return
	}
	if g := v.seen.Guests[m.VMID]; g != nil {
		m.hidden = false
		if m.problem.Code == pvecode.Hidden {
			m.problem = nodescaler.Reason{}
		}
		st.settleGuest(m, g)
	}
	st.settleNode(m)
	st.settleSilent(m)
	st.settleTime(m)
}

// settleGuest follows a machine that an administrator migrated.
func (st *settler) settleGuest(m *tracked, g *placement.Guest) {
	if !m.Stashed.IsZero() {
		st.settleSpare(m, g)
	} else if m.rebooting() {
		st.settleReboot(m, g)
	}
	st.settleDown(m)
	st.settleHome(m, g)
	if m.Step.Before(intents.StepCloned) || g.Host == m.Host || g.Name != m.Name || m.Held != nil || m.Task != nil && m.Task.Kind == intents.TaskClone {
		return
	}
	st.records.say(m, reason(pvecode.Moved, "from %s to %s", m.Host, g.Host), "")
	m.Host, m.conf = g.Host, nil
}

// settleHome notes in which range and resource pool a machine was made of which that was not kept,
// while it is where its pool makes machines now.
func (st *settler) settleHome(m *tracked, g *placement.Guest) {
	p := st.catalogue.pools[m.Pool]
	if p != nil && m.VMIDs == (placement.VMIDs{}) && !m.Step.Before(intents.StepCloned) && g.Name == m.Name && g.Pool == p.PVEPool && p.VMIDs.Holds(m.VMID) {
		m.VMIDs, m.PVEPool = p.VMIDs, p.PVEPool
	}
}

// settleNode sees whether a machine has become a node.
func (st *settler) settleNode(m *tracked) {
	n, there := st.members.nodeOf(m)
	if !there || m.Step.Before(intents.StepStarted) {
		return
	}
	st.members.compareIDs(m, n)
	m.unready = m.unready && !n.Ready
	if m.Failed != nil && m.Failed.Code == pvecode.JoinTimeout && m.Returned.IsZero() && n.Ready && m.Woken.IsZero() {
		st.records.revoke(m, reason(pvecode.Joined, "node %s came late", n.Name))
	}
	if m.Step == intents.StepStarted && m.Failed == nil && m.Returned.IsZero() && !m.Woken.IsZero() {
		st.rejoin(m, &n)
		return
	}
	if m.Step == intents.StepStarted && m.Failed == nil && m.Returned.IsZero() {
		st.records.joined(m)
		m.unready = !n.Ready
		if n.JoinedAt.After(m.Created) && n.JoinedAt.Before(m.Joined) {
			m.Joined = n.JoinedAt
		}
		st.records.say(m, reason(pvecode.Joined, "%s after it was ordered", m.Joined.Sub(m.Created).Round(time.Second)), "")
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
	case r != nil && overdue && r.Code == pvecode.NeverJoined:
		st.records.noteProblem(m, *r, "look what it is; if it is not needed: qm stop "+itoa(m.VMID)+" && qm destroy "+itoa(m.VMID)+" --purge")
	case r != nil: // it would be given up by who may not
	case m.Step == intents.StepOrdered && st.ownership.shut[m.Pool] != nil:
		st.records.fail(m, *st.ownership.shut[m.Pool], "")
	case m.Step == intents.StepOrdered && st.intake.count(p) > p.Max:
		// The intents were lost, and machines were found after this order was taken.
		st.records.fail(m, *no(pvecode.PoolAtMax, "pool %s has %d machines without it, of at most %d", p.Name, st.intake.count(p)-1, p.Max), "")
	case overdue:
		st.records.fail(m, reason(pvecode.JoinTimeout, "it was started %s ago and is no node", st.cfg.Now().Sub(m.Since).Round(time.Second)),
			"look at its console, at the join profile and at the way from it to the servers")
	default:
		if r := st.unmade(m); r != nil && st.view.seen.Online(m.Host) {
			st.records.fail(m, *r, "")
		}
	}
}

// unmade is why a machine has failed that is in the making for too long, or nil. Of a task that
// takes too long it must be known that it runs: what no host reports may be done.
func (st *settler) unmade(m *tracked) *nodescaler.Reason {
	late := m.Step.Before(intents.StepStarted) && !m.Asked.IsZero() && st.watch.since(m.Asked) > makeWithin && st.watch.since(m.Woken) > makeWithin
	switch {
	case late && m.Task == nil:
		return no(pvecode.MachineFailed, "it could not be made within %s: %s", makeWithin, m.problem.Text)
	case late && m.hung && st.cfg.Now().Sub(m.heard) < maxAge:
		r := m.hanging(true)
		return &r
	}
	return nil
}

// settleLeft lets no machine wait for what was on hosts that have left. A task there has come to no
// end that could be seen. A disc there is out of reach; one on storage that others share is found
// among the orphans.
func (st *settler) settleLeft(m *tracked) {
	if m.Task != nil && st.view.left(m.Task.Host) && st.catalogue.pools[m.Pool] != nil {
		st.crew.ended(m, pveapi.TaskStatus{UPID: pveapi.UPID(m.Task.UPID), Exit: "unexpected status"})
	}
	if !m.Gone.IsZero() && m.Task == nil && m.Disc != "" && st.view.left(m.DiscHost) {
		m.Disc = ""
	}
}

// settleTask reports a task that takes too long. It is not given up: what it does to the machine
// may be done yet, and nothing else is done to it while the task may run.
func (st *settler) settleTask(m *tracked) {
	if m.Task == nil || m.hung {
		return
	}
	if m.Task.Kind == intents.TaskErase && m.Gone.IsZero() && st.watch.since(m.Task.At) > taskLimit {
		st.leaveDisc(m)
		return
	}
	if !st.view.seen.Online(m.Task.Host) {
		return
	}
	limit := taskLimit
	if p := st.catalogue.pools[m.Pool]; m.Task.Kind == intents.TaskClone {
		limit = cloneLimit
	} else if p != nil && m.Task.Kind == intents.TaskShutdown {
		limit += time.Duration(p.ShutdownGrace)
	}
	if st.watch.since(m.Task.At) > limit {
		m.hung = true
		st.records.say(m, m.hanging(false), m.unhang())
	}
}

// leaveDisc lets a machine go on whose first-boot disc is not removed in time. It needs neither the
// disc nor the task, which does nothing to it. The disc is asked to be removed again when the
// machine is gone.
func (st *settler) leaveDisc(m *tracked) {
	st.records.say(m, m.hanging(false), m.unhang())
	m.Last, m.Task, m.rest = m.Task.UPID, nil, time.Time{}
	if m.Step == intents.StepJoined {
		st.records.ahead(m, intents.StepTidied)
	}
	st.records.noteProblem(m, reason(pvecode.DiscKept, "%s could not be removed within %s", m.Disc, taskLimit), "remove "+m.Disc+" by hand: it holds the join token")
}

// pardon has what failed before its pool's last success count no more. That is written down: the
// success is forgotten once its machine is gone, and the failures would be in a row again.
func (st *settler) pardon(all []*tracked) {
	successes := st.roster.successes()
	for _, m := range all {
		if m.busy || m.Failed == nil || m.Pardoned || m.FailedAt.After(successes[m.Pool]) {
			continue
		}
		m.Pardoned = true
		_ = st.records.keep(m) // noted there, and kept again before the next move
	}
}

// settleSilent revokes that a machine is to go since its node was away, when that is ready again.
func (st *settler) settleSilent(m *tracked) {
	n, there := st.members.nodeOf(m)
	if !m.Silent || m.Returned.IsZero() && m.Stashed.IsZero() && m.Reboot != intents.RebootStop || m.Exit != intents.ExitNone || !there || !n.Ready || st.members.contradicted(m) != nil {
		return
	}
	st.records.revoke(m, reason(pvecode.Revoked, "node %s is ready", n.Name))
}

// settleSpare sees whether a spare is stopped, and lets it be tried again some time after it could
// not be started.
func (st *settler) settleSpare(m *tracked, g *placement.Guest) {
	m.off = g.Stopped && m.Task == nil && m.Step == intents.StepTidied
	if m.off {
		m.Exit = intents.ExitNone // started by hand, it is shut down again, and not cut off
	}
	if m.off && m.problem.Code != "" && st.cfg.Now().Sub(m.since) > spareRest {
		m.problem = nodescaler.Reason{}
	}
}

// rejoin sees whether a machine that was woken is a node again. Its node was there all the time: it
// counts once it says that it became ready after that, or says so still when it would have been
// missed.
func (st *settler) rejoin(m *tracked, n *Node) {
	now := st.cfg.Now()
	if !n.Ready || !n.ReadySince.After(m.Woken) && st.watch.since(m.Woken) <= missedAfter {
		return
	}
	st.records.ahead(m, intents.StepJoined)
	m.Rejoined, m.Misses = now, 0
	if n.ReadySince.After(m.Woken) && n.ReadySince.Before(now) {
		m.Rejoined = n.ReadySince
	}
	st.records.timed(m, StageWake, m.Woken, m.Rejoined)
	st.records.say(m, reason(pvecode.Joined, "%s after it was woken", m.Rejoined.Sub(m.Woken).Round(time.Second)), "")
}

// observe watches the clock, and corrects what was kept when it went back.
func (st *settler) observe() {
	now := st.cfg.Now()
	if !st.watch.steady.see(now) {
		return
	}
	st.roster.correct(now)
	for _, m := range st.roster.machines {
		m.rest = time.Time{}
	}
	v := st.view
	v.asked, v.surveyed = time.Time{}, time.Time{}
	for host, a := range v.missing {
		a.since = soonest(a.since, now)
		v.missing[host] = a
	}
	for _, times := range []map[string]time.Time{st.leftovers.noticed, st.catalogue.dropped} {
		for key, at := range times {
			times[key] = soonest(at, now)
		}
	}
	for id, at := range st.ownership.taken {
		st.ownership.taken[id] = soonest(at, now)
	}
	for id, r := range st.ownership.fresh {
		r.since = soonest(r.since, now)
		st.ownership.fresh[id] = r
	}
	st.watch.began = soonest(st.watch.began, now)
}
