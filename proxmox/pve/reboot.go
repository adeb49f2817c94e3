package pve

import (
	"context"
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
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
	upid, err := w.client.Start(ctx, w.host, w.i.VMID)
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
