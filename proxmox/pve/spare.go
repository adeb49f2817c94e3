package pve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// A spare is a machine that was a node and is stopped. That it is to be one is written down before
// it is shut down, and that it is to be none any more before it is started: whoever reads the
// intent and looks stops what should be stopped and starts what should run, whatever was done of
// it.

const (
	// spareRest is how long a spare that could not be started says so, and is not to be tried
	// again.
	spareRest = 5 * time.Minute
	// maxMisses is how often in a row that may be before it is taken to be broken.
	maxMisses = 3
	// missedAfter is how long the cluster may go on believing in a node that is gone.
	missedAfter = time.Minute
)

// Stash keeps a machine as a spare: it is shut down, and stays. It makes no call.
func (f *Fleet) Stash(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.records.unlock()
	m := f.roster.named(name)
	switch {
	case m == nil:
		return fmt.Errorf("machine %s does not exist", name)
	case m.phase() == nodescaler.Spare:
		return nil
	case f.cfg.Watch:
		return fmt.Errorf("machine %s: %s", name, watching.Text)
	case f.ownership.untouchable(m) != nil:
		return f.ownership.untouchable(m)
	case m.phase() != nodescaler.Joined || m.Held != nil:
		return fmt.Errorf("machine %s cannot be kept as a spare: it is %s, and must be %s", name, m.phase(), nodescaler.Joined)
	}
	i := m.Intent.clone()
	i.Stashed, i.Keep, i.Exit = f.cfg.Now(), false, ExitNone
	if err := f.records.commit(m, i); err != nil {
		return fmt.Errorf("keep %s as a spare: %w", name, err)
	}
	m.off = false
	f.records.say(m, reason(CodeStashed, "it is shut down, and kept"), "")
	return nil
}

// Wake starts a spare, if its host takes it, or lets one in the making be a machine like any other.
// It makes no call. An error that wraps loop.ErrRefused says that it stays as it was.
func (f *Fleet) Wake(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.records.unlock()
	m := f.roster.named(name)
	switch {
	case m == nil:
		return fmt.Errorf("machine %s does not exist", name)
	case f.cfg.Watch:
		return refused(watching)
	case m.phase() != nodescaler.Spare && !m.Keep:
		return nil
	}
	i := m.Intent.clone()
	i.Keep = false
	if m.phase() == nodescaler.Spare {
		if r := f.sleeps(m); r != nil {
			return refused(*r)
		}
		i.Stashed, i.Woken, i.Exit, i.Frozen = time.Time{}, f.cfg.Now(), ExitNone, time.Time{}
		i.Step, i.Since = StepConfigured, i.Woken
	}
	if err := f.records.commit(m, i); err != nil {
		return fmt.Errorf("keep waking of %s: %w", name, err)
	}
	m.conf, m.mile, m.off = nil, milestone{}, false
	f.records.say(m, reason(CodeWoken, "it is no spare any more"), "")
	return nil
}

// sleeps says why a spare cannot be started now.
func (f *Fleet) sleeps(m *tracked) *nodescaler.Reason {
	if r := cmp.Or(f.view.blind(f.cfg.Now()), f.ownership.holding(m)); r != nil {
		return r
	}
	if r := f.view.frozen; r != nil {
		return no(CodeFrozen, "%s: %s", r.Code, r.Text)
	}
	p, h := f.catalogue.pools[m.Pool], f.view.seen.Host(m.Host)
	switch {
	case p == nil:
		return no(CodePoolUnknown, "there is no pool %q", m.Pool)
	case h == nil:
		return no(placement.CodeHostUnknown, "%s is no host of the cluster", m.Host)
	case !h.Online:
		return no(placement.CodeHostOffline, "%s is offline", m.Host)
	case h.Maintenance || slices.Contains(p.Placement.Maintenance, m.Host):
		return no(placement.CodeHostInMaintenance, "%s is in maintenance", m.Host)
	}
	return f.intake.ground().NoRoom(p.Places(), m.Shape, h)
}

// waking reports whether a spare is being started.
func (m *tracked) waking() bool {
	return !m.Woken.IsZero() && m.Stashed.IsZero() && m.Step.before(StepStarted)
}

// doStash proves that a machine is ours and shuts it down.
func (w leaving) doStash(ctx context.Context) {
	c, status, v, wrong, ok := w.prove(ctx)
	if !ok || w.mayNot(c, status, v, wrong) {
		return
	}
	if status.Status != "running" {
		w.done(func() { w.records.pause(w.m, lookGap) }) // the list does not show it yet
		return
	}
	if w.lastLook(ctx, c, status) {
		w.halt(ctx)
	}
}

// putBack makes a machine that could not be started the spare that it was. Whoever wanted it sees
// that, and orders another.
func (w making) putBack(r nodescaler.Reason) {
	m := w.m
	m.Misses++
	if m.Misses >= maxMisses {
		w.records.fail(m, reason(r.Code, "%s, for the %dth time in a row", r.Text, m.Misses), "")
		return
	}
	m.Stashed, m.Step, m.Since, m.Task = w.now, StepTidied, w.now, nil
	m.conf, m.tries, m.rest = nil, 0, time.Time{}
	w.records.impede(m, r, "")
	w.records.say(m, reason(CodeNotWoken, "%s: %s", r.Code, r.Text), "")
}

// settleSpare sees whether a spare is stopped, and lets it be tried again some time after it could
// not be started.
func (st *settler) settleSpare(m *tracked, g *placement.Guest) {
	m.off = !g.Running && m.Task == nil && m.Step == StepTidied
	if m.off {
		m.Exit = ExitNone // whoever starts it by hand has it shut down again, and not cut off
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
	st.records.ahead(m, StepJoined)
	m.Rejoined, m.Misses = now, 0
	if n.ReadySince.After(m.Woken) && n.ReadySince.Before(now) {
		m.Rejoined = n.ReadySince
	}
	st.records.timed(m, StageWake, m.Woken, m.Rejoined)
	st.records.say(m, reason(CodeJoined, "%s after it was woken", m.Rejoined.Sub(m.Woken).Round(time.Second)), "")
}

// original is the template for machines on a host as it is now; empty if it has not been read.
func (v *view) original(p *settings.Pool, host string) string {
	t, known := v.templates[p.Template.On(host)]
	if !known || t.Digest == "" {
		return ""
	}
	return itoa(t.VMID) + "@" + t.Digest
}

// drift says in what a machine differs from what its pool would make now. What cannot be read now
// has not changed, and a machine of which it was not kept how it was made, or in a way that is not
// known any more, does not differ. Nor does one whose owner has upgraded it to what its pool would
// install.
func (li *listing) drift(m *tracked) string {
	p := li.catalogue.pools[m.Pool]
	if p == nil {
		return ""
	}
	version, node := p.Join.Install.Version, li.members.match.node[m.Name]
	switch now := li.view.original(p, m.Host); {
	case settings.Differs(m.Settings, li.catalogue.settingsOf(p, m.Host)):
		return "the settings of pool " + p.Name + " are others than it was made with"
	case !slices.Contains(p.Shapes, m.Shape):
		return "pool " + p.Name + " has its shape " + m.Shape.Name + " no more"
	case m.Original != "" && now != "" && m.Original != now:
		return fmt.Sprintf("template %d was changed since it was cloned", p.Template.On(m.Host))
	case m.Version != "" && version != "" && m.Version != version && node.Version != "" && node.Version != version:
		return fmt.Sprintf("pool %s installs %s, and its node runs %s", p.Name, version, node.Version)
	}
	return ""
}
