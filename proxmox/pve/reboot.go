package pve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// A reboot is a shutdown, or a stop where the guest does not obey, and a start. What is meant is
// written down before either, so that a process that starts goes on: it stops what runs while it is
// to be stopped, and starts what does not run while it is to be started. The stop follows on the
// proof and the last look that any other machine's does, and counts under the brake if the node is
// away or not ready.

// Reboot has a machine stopped and started, whose node is unhealthy. It makes no call.
func (f *Fleet) Reboot(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.records.unlock()
	m := f.roster.named(name)
	switch {
	case m == nil:
		return fmt.Errorf("machine %s does not exist", name)
	case m.Reboot != intents.RebootNone:
		return nil
	case f.cfg.Watch:
		return fmt.Errorf("machine %s: %s", name, watching.Text)
	case f.ownership.untouchable(m) != nil:
		return f.ownership.untouchable(m)
	case m.Phase() != nodescaler.Joined || m.Held != nil:
		return fmt.Errorf("machine %s cannot be rebooted: it is %s, and must be %s", name, m.Phase(), nodescaler.Joined)
	}
	i := m.Intent.Clone()
	i.Reboot, i.Rebooted, i.Exit, i.Silent = intents.RebootStop, f.cfg.Now(), intents.ExitNone, f.holds.silent(m)
	if err := f.records.commit(m, i); err != nil {
		return fmt.Errorf("keep reboot of %s: %w", name, err)
	}
	f.records.say(m, reason(pvecode.RebootBegun, "it is stopped, and then started: its node is unhealthy"), "")
	return nil
}

// nextReboot is the next move of a machine that is to be stopped, and then started.
func (m *tracked) nextReboot(s *scene) move {
	switch {
	case s.guest == nil:
		return m.nextUnlisted(s)
	case m.Reboot == intents.RebootStop && s.guest.Running:
		return moveStash
	case m.Reboot == intents.RebootStop || !s.guest.Stopped:
		return moveWait // the next look settles that
	case m.conf == nil || s.now.Sub(m.proved) > proofLasts:
		return moveVerify
	}
	return moveRestart
}

// doRestart starts a machine again that was stopped, and was just proved to be ours.
func (w making) doRestart(ctx context.Context) {
	if !w.before(func() {}) {
		return
	}
	upid, err := w.vm().Start(ctx)
	w.done(func() {
		if pveapi.Is(err, pveapi.Running) {
			w.records.rebooted(w.m) // by an order whose answer was lost
			return
		}
		w.asked(upid, intents.TaskStart, err)
	})
}

// settleReboot sees whether a machine that is to be stopped is, and whether one that is to be
// started runs.
func (st *settler) settleReboot(m *tracked, g *placement.Guest) {
	switch {
	case m.Task != nil || !st.view.seen.At.After(m.Rebooted):
	case m.Reboot == intents.RebootStop && g.Stopped:
		m.Reboot, m.Exit, m.Since = intents.RebootStart, intents.ExitNone, st.cfg.Now()
		m.conf, m.tries, m.problem = nil, 0, nodescaler.Reason{}
	case m.Reboot == intents.RebootStart && g.Running:
		st.records.rebooted(m)
	}
}

// rebooted notes that a machine runs again.
func (rs *records) rebooted(m *tracked) {
	m.Reboot, m.Exit, m.Since, m.Silent = intents.RebootNone, intents.ExitNone, rs.clock(), false
	m.conf, m.tries, m.problem = nil, 0, nodescaler.Reason{}
	rs.say(m, reason(pvecode.Rebooted, "it runs again, %s after that was asked for", m.Since.Sub(m.Rebooted).Round(time.Second)), "")
}

// A machine that should run and does not, as after a power cut of its host, is started as the
// second half of a reboot is. One that stops itself again and again has failed, and is replaced.

const (
	// startAfter is how long a machine must be stopped before it is started the first time, and
	// before it is taken to be broken. Each further start waits four times as long.
	startAfter = time.Minute
	// startHolds is how long a start must have held for the next not to count with it. In a row
	// there are maxMisses at most.
	startHolds = time.Hour
)

// starts is how often in a row a machine was started that had stopped by itself.
func (m *tracked) starts() int {
	if m.down.Sub(m.Rebooted) >= startHolds {
		return 0
	}
	return m.Starts
}

// settleDown notes since when a machine is stopped that should run.
func (st *settler) settleDown(m *tracked) {
	down := st.view.stopped(m) && !m.rebooting() && m.Task == nil
	switch {
	case !down:
		m.down = time.Time{}
	case m.down.IsZero():
		m.down = st.view.seen.At
	}
	if !down && m.problem.Code == pvecode.Stopped {
		m.problem = nodescaler.Reason{}
	}
}

// stoppedItself reports whether a machine has stopped by itself that people want to run.
func (c *catalogue) stoppedItself(m *tracked) bool {
	return !m.down.IsZero() && !m.Step.Before(intents.StepJoined) && !c.resting[m.Pool]
}

// revives reports whether a machine was stopped by itself for so long that it is to be started.
func (ag *agenda) revives(m *tracked, p *settings.Pool) bool {
	h, wait := ag.view.seen.Host(m.Host), startAfter
	if n := m.starts(); n < maxMisses {
		wait <<= 2 * n
	}
	return ag.catalogue.stoppedItself(m) && ag.cfg.Now().Sub(m.down) >= wait && ag.holds.heldBy(m) == nil &&
		h != nil && !h.Maintenance && !slices.Contains(p.Placement.Maintenance, m.Host)
}

// doRevive proves that a machine is ours and stopped, and has it started.
func (w leaving) doRevive(ctx context.Context) {
	c, status, v, wrong, ok := w.prove(ctx)
	if !ok {
		return
	}
	sight, err := w.sight(ctx)
	w.done(func() {
		m, n := w.m, w.m.starts()
		kept, advice := w.keptStopped(c, status, sight, err)
		switch {
		case changed(&w.i, &m.Intent): // meanwhile
		case v == stranger || v == doubtful:
			w.doubt(wrong)
		case v != provedReady:
			w.records.retry(m, reason(pvecode.Retry, "%s", list(wrong)), "")
		case status.Status == "running":
			w.records.pause(m, lookGap) // the list does not show it yet
		case kept != "":
			w.records.noteProblem(m, reason(pvecode.Stopped, "VM %d does not run, and is not started: %s", m.VMID, kept), advice)
			w.records.pause(m, longPause)
		case n >= maxMisses:
			w.records.fail(m, reason(pvecode.Stopped, "VM %d does not run: it was started %d times in a row, and stopped within %s each time", m.VMID, n, pricing.Short(startHolds)), "look at its console, and at the log of its host")
		default:
			m.Reboot, m.Rebooted, m.Exit, m.Starts = intents.RebootStart, w.cfg.Now(), intents.ExitNone, n+1
			m.tries, m.problem, m.down = 0, nodescaler.Reason{}, time.Time{}
			w.know(c)
			w.records.say(m, reason(pvecode.Stopped, "VM %d does not run, and should: it is started (%d of at most %d times in a row)", m.VMID, n+1, maxMisses),
				"to keep it stopped, cordon its node")
		}
	})
}

// keptStopped says who keeps a machine from being started: a person, or high availability, which
// starts what it manages itself.
func (w leaving) keptStopped(c *pveapi.VMConfig, status pveapi.VMStatus, sight *nodescaler.Sight, err error) (why, advice string) {
	lock := cmp.Or(c.Lock, status.Lock)
	switch {
	case err != nil:
		return fmt.Sprintf("its node cannot be read: %v", err), ""
	case lock != "":
		return "it is locked (" + lock + ")", "if no task works on it any more: qm unlock " + itoa(w.i.VMID)
	case status.HAManaged:
		return "it is under high availability", "if that should start it: ha-manager set vm:" + itoa(w.i.VMID) + " --state started"
	case c.Protection:
		return "it is protected", "if it may run: qm start " + itoa(w.i.VMID)
	case sight == nil || w.cfg.LastLook == nil:
		return "", ""
	case !slices.ContainsFunc(sight.Nodes, func(n nodescaler.SeenNode) bool { return n.UID != "" }):
		return "its node was deleted", "if it may run: qm start " + itoa(w.i.VMID)
	}
	for _, n := range sight.Nodes {
		switch {
		case n.UID == "": // what is left of one
		case n.Ready:
			return "node " + n.Name + " is ready", ""
		case !n.Open:
			return "node " + n.Name + " is cordoned", "if it may run: kubectl uncordon " + n.Name
		}
	}
	return "", ""
}
