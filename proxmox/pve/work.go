package pve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// work is one machine's move: what was known when it began. Calls are made without the lock, and
// what came of them is written down with it.
type work struct {
	*crew
	m    *tracked
	i    intents.Intent
	p    *settings.Pool
	host string // where the machine is addressed
	seen *placement.Guest
	conf *pveapi.VMConfig
	now  time.Time
	book *pricing.Book
	// finding looks whose the machine is, and does not ask whether its mark names our cluster.
	finding bool
}

// making is the work on a machine until it runs, leaving that which ends it or stops it as a spare,
// and clearing what is looked after when a machine or a task of it is over.
type (
	making   struct{ *work }
	leaving  struct{ *work }
	clearing struct{ *work }
)

// vm is the machine as Proxmox VE's API has it.
func (w *work) vm() pveapi.VM { return w.client.VM(w.host, w.i.VMID) }

// done runs a change of the machine and keeps it.
func (w *work) done(change func()) {
	w.mu.Lock()
	defer w.records.unlock()
	change()
	_ = w.records.keep(w.m) // noted there, and kept again before the next move
}

// before writes down what is about to be done, and reports whether it may be. A spare that was
// woken meanwhile is not to be stopped any more, nor is one stopped or started whose reboot is
// over.
func (w *work) before(change func()) bool {
	w.mu.Lock()
	defer w.records.unlock()
	if !w.i.Stashed.IsZero() && w.m.Stashed.IsZero() || w.i.Reboot != w.m.Reboot {
		return false
	}
	was := w.m.Intent.Clone()
	change()
	if w.records.keep(w.m) != nil {
		w.m.Intent = was
		w.records.pause(w.m, 5*time.Second)
		return false
	}
	w.i = w.m.Intent.Clone()
	return true
}

// callFailed notes that a call failed, and reports whether it is to be made again without limit.
func (w *work) callFailed(err error) (again bool) {
	var e *pveapi.Error
	advice := ""
	if errors.As(err, &e) {
		advice = e.Advice()
	}
	w.noteSilence(err)
	class := pveapi.ClassOf(err)
	if class == pveapi.Forbidden {
		w.view.asked = time.Time{} // look at the permissions at once
	}
	w.records.retry(w.m, reason(pvecode.Retry, "%v", err), advice)
	switch class {
	case pveapi.Locked, pveapi.LockTimeout, pveapi.StorageLock, pveapi.NoQuorum, pveapi.HostUnreachable, pveapi.NoEndpoint, pveapi.Unauthorized, pveapi.Certificate, pveapi.Canceled, pveapi.Unanswered, pveapi.Garbled, pveapi.Changed:
		return true
	default:
		return false
	}
}

// follow makes a task what the machine waits for.
func (w *work) follow(upid pveapi.UPID, kind intents.TaskKind) {
	w.m.Task = &intents.Task{UPID: string(upid), Kind: kind, Host: upid.Node(), At: w.cfg.Now()}
	w.m.heard, w.m.hung = time.Time{}, false
}

// remains says that a machine is what is left of a clone, and what a person can do about it.
func remains(vmid int, host string) (text, advice string) {
	return fmt.Sprintf("VM %d on %s is what is left of a clone that no task works on any more", vmid, host),
		fmt.Sprintf("look at it, and then: qm unlock %[1]d && qm set %[1]d --protection 0 && qm destroy %[1]d --purge", vmid)
}

// know remembers a machine as it was just proved to be ours. The proof's age counts from the
// answer: from the question, one that took longer than a proof lasts would be too old as it came,
// and be asked for for ever.
func (w *work) know(c *pveapi.VMConfig) {
	m := w.m
	m.conf, m.proved, m.MAC = c, w.cfg.Now(), macOf(c)
	if m.MAC == "" && discNames(w.p) {
		m.MAC = plannedMAC(w.cfg.Owner, m.Order)
	}
	mark, ok := readMark(c.Description)
	if ok {
		m.Cluster = mark.Cluster
	}
	if ok && mark.Stage == stageReady && m.Step.Before(intents.StepConfigured) {
		w.records.ahead(m, intents.StepConfigured)
	}
}

// inspect reads the machine and judges whether it is ours.
func (w *work) inspect(ctx context.Context) (*pveapi.VMConfig, verdict, []string, error) {
	c, err := w.vm().Config(ctx)
	if err != nil {
		return nil, unproved, nil, err
	}
	facts := facts{
		vmid: w.i.VMID, name: c.Name, pool: w.seen.Pool, tags: c.Tags, notes: c.Description, uuid: c.UUID, lock: c.Lock,
	}
	if facts.pool == "" {
		at := w.poolOf(ctx)
		facts.pool, facts.hidden = at.pool, at.hidden || at.unread != nil
	}
	v, wrong := w.claim().judge(facts)
	return &c, v, wrong, nil
}

// membership is which of its resource pools a machine was found in.
type membership struct {
	pool   string // empty if it was found in none
	hidden bool   // the pool that machines are put into now cannot be read
	unread error  // why the one that it was put into cannot be read
}

// poolOf asks for the members of the pools that the machine may be in. That a list names no pool
// may only mean that the token may see none. A former pool that is no more has no members; where
// its rights went with it, that cannot be distinguished from rights that were lost.
func (w *work) poolOf(ctx context.Context) membership {
	var at membership
	for _, name := range w.i.PVEPools(w.p) {
		pool, err := w.client.Pool(ctx, name)
		switch {
		case slices.ContainsFunc(pool.Members, func(r pveapi.Resource) bool { return r.VMID == w.i.VMID }):
			return membership{pool: name}
		case err == nil:
		case name == w.p.PVEPool:
			at.hidden = true
		case !pveapi.Is(err, pveapi.NoPool):
			at.unread = err
		}
	}
	return at
}

// claim is what the machine must show to be ours. The range is that of its order: another one says
// which VMIDs are taken from now on, and nothing of machines that were made.
func (w *work) claim() claim {
	c := claim{
		owner: w.cfg.Owner, order: w.i.Order, pool: w.i.Pool, name: w.i.Name,
		pvePools: w.i.PVEPools(w.p), vmids: w.i.VMIDs, vmid: w.i.VMID, cluster: w.cfg.allegiance(),
	}
	c.cluster.adopt = c.cluster.adopt || w.finding
	if c.vmids == (placement.VMIDs{}) {
		c.vmids = w.p.VMIDs
	}
	return c
}

// byHand is what a person can do about a machine that is not touched any more.
func byHand(vmid int) string {
	return fmt.Sprintf("it is not touched any more; if it is not needed: qm stop %[1]d && qm destroy %[1]d --purge", vmid)
}

// doubt puts a machine into quarantine that shows some of what ours shows, and not all.
func (w *work) doubt(wrong []string) {
	w.records.hold(w.m, reason(pvecode.Quarantined, "VM %d on %s is not proved to be ours: %s", w.i.VMID, w.host, list(wrong)),
		byHand(w.i.VMID))
}

// planned is the machine as its first boot is configured with it.
func (w *work) planned() firstboot.Machine { return w.catalogue.planned(w.p, &w.i) }

func (w *work) do(ctx context.Context, mv move) {
	switch mv {
	case moveClaim:
		making{w}.doClaim(ctx)
	case moveFind:
		making{w}.doFind(ctx)
	case moveVerify:
		making{w}.doVerify(ctx)
	case moveSeed:
		making{w}.doSeed(ctx)
	case moveConfigure:
		making{w}.doConfigure(ctx)
	case moveSize:
		making{w}.doSize(ctx)
	case moveStart:
		making{w}.doStart(ctx)
	case moveRestart:
		making{w}.doRestart(ctx)
	case moveTidy:
		clearing{w}.doTidy(ctx)
	case moveExplain:
		clearing{w}.doExplain(ctx)
	case moveProbe:
		clearing{w}.doProbe(ctx)
	case moveRecall:
		clearing{w}.doRecall(ctx)
	case moveCancel:
		clearing{w}.doCancel(ctx)
	case moveStash, moveLeave, moveRevive:
		leaving{w}.do(ctx, mv)
	case moveConfirm:
		clearing{w}.doConfirm(ctx)
	case moveSweep:
		clearing{w}.doSweep(ctx)
	case moveForget:
		clearing{w}.doForget()
	case moveWait:
	}
}

// ground is what most parts of a fleet are built on.
type ground struct {
	client    *pveapi.Client
	cfg       *FleetConfig
	mu        *guard
	watch     *watch
	records   *records
	catalogue *catalogue
	roster    *roster
	view      *view
	members   *members
}

// crew is what work on machines is done with.
type crew struct {
	*ground
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
		cr.records.say(m, reason(pvecode.TaskWarnings, "%s ended with %s", kind, t.Exit), "look at the task's log")
	}
	if t.OK {
		cr.well(m, kind)
		return
	}
	cr.unwell(m, kind, t)
}

// well goes on from a task that did what it should.
func (cr *crew) well(m *tracked, kind intents.TaskKind) {
	switch kind {
	case intents.TaskClone:
		cr.records.ahead(m, intents.StepCloned)
		m.conf = nil
	case intents.TaskUpload:
		cr.records.ahead(m, intents.StepSeeded)
	case intents.TaskResize:
		cr.records.ahead(m, intents.StepSized)
	case intents.TaskStart:
		cr.records.started(m)
	case intents.TaskErase:
		cr.records.erased(m)
	case intents.TaskShutdown, intents.TaskStop, intents.TaskDestroy:
		m.tries, m.rest, m.problem = 0, time.Time{}, nodescaler.Reason{}
		if kind == intents.TaskStop { // with high availability the task ends before the machine
			cr.records.pause(m, lookGap)
		}
	}
}

// unwell goes on from a task that failed.
func (cr *crew) unwell(m *tracked, kind intents.TaskKind, t pveapi.TaskStatus) {
	err := t.Err()
	class := pveapi.ClassOf(err)
	switch {
	case kind == intents.TaskStart && class == pveapi.Running:
		cr.records.started(m) // by an order whose answer was lost
		return
	case kind == intents.TaskResize && class == pveapi.Unsupported:
		cr.records.ahead(m, intents.StepSized) // the template's disk is larger
		return
	case kind == intents.TaskShutdown && class == pveapi.GuestSilent:
		cr.records.say(m, reason(pvecode.TaskFailed, "%s: %s", kind, t.Exit), "")
		return // it is stopped next
	}
	w := cr.workFor(m)
	if kind == intents.TaskClone && class == pveapi.Exists && !m.unsure {
		making{w}.giveUpVMID()
		return
	}
	m.conf = nil
	cr.records.say(m, reason(pvecode.TaskFailed, "%s: %s", kind, t.Exit), "")
	switch kind {
	case intents.TaskShutdown, intents.TaskStop, intents.TaskDestroy, intents.TaskErase:
		w.callFailed(err)
	case intents.TaskClone, intents.TaskUpload, intents.TaskResize, intents.TaskStart:
		if class == pveapi.Interrupted {
			w.callFailed(err)
			return
		}
		making{w}.makingFailed(err)
		if class == pveapi.StorageFull {
			cr.records.fail(m, reason(placement.CodeStorageFull, "%s", t.Exit), "")
		}
	}
}

// startLog is how many lines of a start's log may say why it failed.
const startLog = 10

// explained adds a lack of room to the exit text of a start that failed: that says no more than
// that QEMU ended, and what QEMU said of it is in the log.
func (g *ground) explained(ctx context.Context, t pveapi.TaskStatus) pveapi.TaskStatus {
	if err := t.Err(); err == nil || pveapi.ClassOf(err) != pveapi.Unknown {
		return t
	}
	// Without its log, it failed for a reason that is not known.
	lines, _ := g.client.TaskLog(ctx, t.UPID, startLog)
	for _, line := range lines {
		if c := pveapi.Classify(line); c == pveapi.MemoryFull || c == pveapi.StorageFull {
			t.Exit += ": " + brief(line)
			break
		}
	}
	return t
}

// workFor is the work on a machine as it is now.
func (cr *crew) workFor(m *tracked) *work {
	w := &work{crew: cr, m: m, i: m.Intent.Clone(), p: cr.catalogue.pools[m.Pool], host: m.Host, conf: m.conf, now: cr.cfg.Now(), book: cr.catalogue.prices}
	if cr.view.seen == nil {
		return w
	}
	if g := cr.view.seen.Guests[m.VMID]; g != nil {
		w.seen, w.host = g, g.Host
	}
	return w
}

// noteSilence notes that a host did not answer a move, so that the machines that are there do not
// all wait for it, one after the other, and the others with them.
func (w *work) noteSilence(err error) {
	if e, ok := errors.AsType[*pveapi.Error](err); ok && pveapi.Is(err, pveapi.Unanswered, pveapi.HostUnreachable) && w.cfg.Now().Sub(w.now) >= hostPatience && e.Host() != "" {
		w.view.silent[e.Host()] = w.cfg.Now()
	}
}
