package pve

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// A pool's maximum holds on Proxmox VE, however many processes order machines of it and however
// little each of them remembers. What a process writes there the others see, so a machine that has
// never run is started in two phases:
//
//  1. Its notes say stage=ready. That is the flag that it is about to be started; it is written
//     with the digest of the configuration that was proved to be ours, and stays until the machine
//     is destroyed.
//  2. The process then lists the machines anew, counts the others of the pool that show the flag,
//     and starts its own only if they are fewer than the maximum.
//
// No more than the maximum are ever started, in any interleaving of the processes' calls and
// whenever one dies: of the machines that were started, take the one whose count began last. All
// others had shown their flags before their own counts, and so before that one, and show them
// still; had they been as many as the maximum, it would not have been started.
//
// When too many flags are seen, all processes rank them in the same way: those that run, then by
// when their orders were taken, then by VMID. Whose machine ranks beyond the maximum removes it,
// never started; the others wait until that is done. Clocks only say who goes first. A process
// removes nothing but what it made itself.

// entry is a machine of the pool as it ranks among others.
type entry struct {
	vmid    int
	created time.Time
	order   string
	runs    bool // or ran
	unread  bool // its notes could not be read: it counts, and has no rank
}

// before reports whether a machine ranks before another one.
func (e entry) before(o entry) bool {
	if e.runs != o.runs {
		return e.runs
	}
	return cmp.Or(e.created.Compare(o.created), cmp.Compare(e.vmid, o.vmid)) < 0
}

// admission is what becomes of a machine that is to be started.
type admission string

const (
	admit    admission = "admit"    // start it
	postpone admission = "postpone" // others that rank after it have to go first
	cancel   admission = "cancel"   // remove it
)

// admits decides on one machine by the others that show the flag. Where two processes took an order
// of one name, one of the two machines goes: their nodes would have one name, too.
func admits(most int, mine entry, others []entry) admission {
	ahead := 0
	for _, o := range others {
		switch {
		case o.unread || !o.before(mine):
		case o.order == mine.order:
			return cancel
		default:
			ahead++
		}
	}
	twin := slices.ContainsFunc(others, func(o entry) bool { return !o.unread && o.order == mine.order })
	switch {
	case ahead >= most:
		return cancel
	case len(others) >= most || twin:
		return postpone
	}
	return admit
}

// admitted reports whether a machine may be started now. One that ran before has been counted by
// all since.
func (w making) admitted(ctx context.Context) bool {
	if w.m.admitted || !w.i.Joined.IsZero() || !w.i.Woken.IsZero() {
		return true
	}
	others, err := w.census(ctx)
	w.mu.Lock()
	defer w.records.unlock()
	m := w.m
	if err != nil {
		w.callFailed(err)
		return false
	}
	if w.ownership.contest(); w.ownership.shut[w.p.Name] != nil {
		return false
	}
	mine := entry{vmid: m.VMID, created: m.Created, order: m.Order}
	switch admits(w.p.Max, mine, others) {
	case admit:
		m.admitted = true // from now on all others count it
	case cancel:
		r := reason(pvecode.PoolAtMax, "pool %s has %d other machines on Proxmox VE, of at most %d: it is removed, and was never started", m.Pool, len(others), w.p.Max)
		w.records.fail(m, r, "see which other Plimsoll makes machines of owner "+w.cfg.Owner)
		m.Returned = w.cfg.Now()
		_ = w.records.keep(m) // noted there, and kept again before the next move
	case postpone:
		w.records.noteProblem(m, reason(pvecode.PoolAtMax, "pool %s has %d other machines on Proxmox VE, of at most %d, and this one waits for those that are to go", m.Pool, len(others), w.p.Max),
			"see which other Plimsoll makes machines of owner "+w.cfg.Owner)
		w.records.pause(m, lookGap)
	}
	// Or else it is proved again, and started then.
	return m.admitted && w.cfg.Now().Sub(m.proved) <= proofLasts
}

// census lists the machines of the pool that show the flag, without the one that is worked on.
func (w making) census(ctx context.Context) ([]entry, error) {
	resources, err := w.client.Resources(ctx)
	if err != nil {
		return nil, err
	}
	listed := map[int]*placement.Guest{}
	for i := range resources {
		if r := &resources[i]; r.Type == "qemu" {
			listed[r.VMID] = SeenGuest(r)
		}
	}
	all, unknown := w.tallied(listed)
	for _, g := range unknown {
		e, counts, err := w.entryOf(ctx, g)
		if err != nil {
			return nil, err
		}
		if counts {
			all = append(all, e)
		}
	}
	return all, nil
}

// tallied are the machines that this process knows to show the flag, and those that have to be
// asked.
func (w making) tallied(listed map[int]*placement.Guest) (all []entry, unknown []*placement.Guest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := map[int]bool{w.i.VMID: true}
	for _, m := range w.roster.machines {
		if m == w.m || !m.Gone.IsZero() || w.ownership.side(m) == sideForeign {
			continue
		}
		known[m.VMID] = known[m.VMID] || !m.Step.Before(intents.StepClaimed) && !m.unsure
		if m.Pool == w.i.Pool && (!m.Step.Before(intents.StepConfigured) || m.Adopted) {
			all = append(all, entry{vmid: m.VMID, created: m.Created, order: m.Order, runs: !m.Step.Before(intents.StepStarted) || !m.Woken.IsZero()})
		}
	}
	for id, g := range listed {
		if known[id] || !w.suspect(g) {
			continue
		}
		if !w.view.silent[g.Host].IsZero() {
			all = append(all, entry{vmid: id, unread: true})
			continue
		}
		unknown = append(unknown, g)
	}
	slices.SortFunc(unknown, func(a, b *placement.Guest) int { return cmp.Compare(a.VMID, b.VMID) })
	return all, unknown
}

// suspect reports whether a guest may be one of the pool's machines, by what is listed of it: with
// our tag anywhere, or in the pool's range, where a list may lack its name for a moment.
func (w making) suspect(g *placement.Guest) bool {
	named := namedFor(w.p, g) && slices.Contains(g.Tags, settings.OwnerTag(w.cfg.Owner))
	here := w.p.VMIDs.Holds(g.VMID) && !g.Template && !g.Container && (g.Unnamed() || namedFor(w.p, g))
	return (named || here) && !w.ownership.stranger(g)
}

// entryOf asks whether a machine that no intent knows of shows the flag. One that cannot be read
// counts as if it did.
func (w making) entryOf(ctx context.Context, g *placement.Guest) (entry, bool, error) {
	c, err := w.client.VM(g.Host, g.VMID).Config(ctx)
	switch {
	case pveapi.Is(err, pveapi.Absent):
		return entry{}, false, nil
	case err != nil && ctx.Err() != nil:
		return entry{}, false, err
	case err != nil:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.noteSilence(err)
		return entry{vmid: g.VMID, unread: true}, true, nil
	}
	m, marked := readMark(c.Description)
	if !marked || m.Owner != w.cfg.Owner || m.Pool != w.i.Pool || m.VMID != g.VMID {
		return entry{}, false, nil
	}
	if w.cfg.allegiance().of(m.Cluster) == sideForeign {
		if w.p.VMIDs.Holds(g.VMID) {
			w.ownership.notOurs(foundling{guest: g, looks: appearance(g)}, &rival{vmid: g.VMID, host: g.Host, pool: m.Pool, cluster: m.Cluster, created: m.Created})
		}
		return entry{}, false, nil
	}
	if m.Stage != stageReady {
		return entry{}, false, nil
	}
	e := entry{vmid: g.VMID, created: m.Created, order: m.Order, runs: g.Running}
	if !e.runs { // the list is some seconds late
		status, err := w.client.VM(g.Host, g.VMID).Status(ctx)
		if err != nil {
			e.unread = true
		}
		e.runs = status.Status == "running"
	}
	return e, true, nil
}
