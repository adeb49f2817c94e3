package pve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

const (
	// unsureFor is how long a clone whose answer was lost may still be about to begin: longer than
	// the server waits for anything before it gives up.
	unsureFor = 45 * time.Second
	// incompleteFor is how long a machine that was cloned may lack what comes last.
	incompleteFor = time.Minute
	// stuckAfter is how long a clone may hold its lock when no task is known to work on it.
	stuckAfter = 10 * time.Minute
	maxSpent   = 20        // VMIDs that may turn out to be taken
	maxTries   = 5         // of a call that fails for no reason that passes
	makeWithin = time.Hour // from the first clone that was asked for to the start
)

// work is one machine's move: what was known when it began. Calls are made without the lock, and
// what came of them is written down with it.
type work struct {
	*Fleet
	m    *tracked
	i    Intent
	p    *settings.Pool
	host string // where the machine is addressed
	seen *placement.Guest
	conf *pveapi.VMConfig
	now  time.Time
	book *pricing.Book
	// finding looks whose the machine is, and does not ask whether its mark names our cluster.
	finding bool
}

// done runs a change of the machine and keeps it.
func (w *work) done(change func()) {
	w.mu.Lock()
	defer w.unlock()
	change()
	_ = w.keep(w.m) // noted there, and kept again before the next move
}

// before writes down what is about to be done, and reports whether it may be. A spare that was
// woken meanwhile is not to be stopped any more.
func (w *work) before(change func()) bool {
	w.mu.Lock()
	defer w.unlock()
	if !w.i.Stashed.IsZero() && w.m.Stashed.IsZero() {
		return false
	}
	was := w.m.Intent.clone()
	change()
	if w.keep(w.m) != nil {
		w.m.Intent = was
		w.pause(w.m, 5*time.Second)
		return false
	}
	w.i = w.m.Intent.clone()
	return true
}

// upset notes that a call failed, and reports whether it is to be made again without limit.
func (w *work) upset(err error) (again bool) {
	var e *pveapi.Error
	advice := ""
	if errors.As(err, &e) {
		advice = e.Advice()
	}
	w.hush(err)
	class := pveapi.ClassOf(err)
	if class == pveapi.Forbidden {
		w.view.asked = time.Time{} // look at the permissions at once
	}
	w.retry(w.m, reason(CodeRetry, "%v", err), advice)
	switch class {
	case pveapi.Locked, pveapi.LockTimeout, pveapi.StorageLock, pveapi.NoQuorum, pveapi.HostUnreachable, pveapi.NoEndpoint, pveapi.Unauthorized, pveapi.Certificate, pveapi.Canceled, pveapi.Unanswered, pveapi.Garbled, pveapi.Changed:
		return true
	default:
		return false
	}
}

// upsetMaking notes that a call failed for a machine in the making, which fails when that goes on.
func (w *work) upsetMaking(err error) {
	switch again := w.upset(err); {
	case again || !w.m.Returned.IsZero():
	case w.m.waking():
		w.putBack(reason(failedFor(err), "it could not be started: %v", err))
	case w.m.tries >= maxTries:
		w.fail(w.m, reason(failedFor(err), "%v", err), "")
	}
}

// doClaim tests the VMID, writes down that it is about to be used, and asks for the clone.
func (w *work) doClaim(ctx context.Context) {
	if !w.p.VMIDs.Holds(w.i.VMID) {
		w.done(w.another) // the pool has another range since the order was taken
		return
	}
	free, err := w.client.VMIDFree(ctx, w.i.VMID)
	if err != nil {
		w.done(func() { w.upset(err) })
		return
	}
	if !free {
		w.done(w.spend)
		return
	}
	w.mu.Lock()
	from, r := w.ground().From(w.p.Places(), w.i.Host)
	if r != nil {
		w.retry(w.m, *r, "")
	}
	returned := !w.m.Returned.IsZero() // meanwhile
	w.unlock()
	if returned || r != nil || !w.before(w.claimed) {
		return
	}
	upid, err := w.client.Clone(ctx, from.Host, from.VMID, w.cloneOptions(from.Target))
	w.done(func() { w.cloneAnswered(upid, err) })
}

func (w *work) claimed() {
	w.m.Step, w.m.Since = StepClaimed, w.now
	w.m.Original = w.view.original(w.p, w.m.Host)
	w.m.Cloned = w.p.Cloned(w.m.Host)
	w.m.VMIDs, w.m.PVEPool = w.p.VMIDs, w.p.PVEPool
	w.m.Cluster = w.cfg.Cluster
	w.reached(w.m, StepClaimed, w.now)
	if w.m.Asked.IsZero() {
		w.m.Asked = w.now
	}
}

func (w *work) cloneOptions(target string) pveapi.CloneOptions {
	full := w.p.Clone == placement.Full
	return pveapi.CloneOptions{
		NewID: w.i.VMID, Name: w.i.Name, Pool: w.p.PVEPool, Target: target, Full: &full,
		Storage: w.p.Storage, Format: w.p.Format,
		Description: notes(&w.i, w.cfg.Owner, stageCloned, ""),
	}
}

// spend gives up a VMID that is another owner's and takes another one. Whoever has it is not looked
// at and not touched.
func (w *work) spend() {
	m := w.m
	w.say(m, reason(CodeVMIDTaken, "VMID %d is taken", m.VMID), "keep other machines out of "+w.p.VMIDs.String())
	w.taken[m.VMID] = w.now
	m.Spent = append(m.Spent, m.VMID)
	m.Step, m.unsure, m.doubted = StepOrdered, false, time.Time{}
	w.another()
}

// another takes another VMID for a machine that is not made yet.
func (w *work) another() {
	m := w.m
	id := w.freeID(w.p, m.Spent)
	if id == 0 || len(m.Spent) > maxSpent {
		w.fail(m, reason(CodeVMIDsExhausted, "no VMID of %s is left; %d turned out to be taken", w.p.VMIDs, len(m.Spent)), "keep other machines out of the range")
		return
	}
	w.renumber(m, id)
}

// cloneAnswered notes what the server said to the order of a clone.
func (w *work) cloneAnswered(upid pveapi.UPID, err error) {
	m := w.m
	if err == nil {
		m.unsure = false
		w.follow(upid, TaskClone)
		w.say(m, reason(CodeCloneAsked, "from template %d", w.p.Template.On(m.Host)), "")
		return
	}
	switch pveapi.ClassOf(err) {
	case pveapi.Exists:
		// If the same was asked before, the machine that is in the way may be our own.
		if !m.unsure {
			w.spend()
		}
	case pveapi.Unanswered, pveapi.Garbled, pveapi.Unknown:
		m.unsure, m.doubted = true, w.now
		w.hush(err)
		w.impede(m, reason(CodeAnswerLost, "whether the clone was begun is not known: %v", err), "")
		w.pause(m, lookGap)
	default:
		w.upsetMaking(err)
		if !m.unsure {
			m.Step, m.Since = StepOrdered, w.now
		}
		if pveapi.Is(err, pveapi.StorageFull) {
			w.fail(m, reason(placement.CodeStorageFull, "%v", err), "")
		}
	}
}

// follow makes a task what the machine waits for.
func (w *work) follow(upid pveapi.UPID, kind TaskKind) {
	w.m.Task = &Task{UPID: string(upid), Kind: kind, Host: upid.Node(), At: w.cfg.Now()}
	w.m.heard, w.m.hung = time.Time{}, false
}

// doFind sees what became of a clone whose task is not known, or failed.
func (w *work) doFind(ctx context.Context) {
	if w.seen == nil {
		w.findUnlisted(ctx)
		return
	}
	c, v, wrong, err := w.inspect(ctx)
	w.done(func() {
		m := w.m
		if m.doubted.IsZero() {
			m.doubted = w.now
		}
		doubt := w.since(m.doubted)
		switch {
		case pveapi.Is(err, pveapi.Absent):
			w.pause(m, lookGap)
		case err != nil:
			w.upset(err)
		case v == provedCloned || v == provedReady:
			w.cloned(c)
		case v == stranger:
			w.spend()
		case v == doubtful && doubt > incompleteFor:
			w.doubt(wrong)
		case v == unproved && c.Lock != "":
			w.cloning(doubt)
		default:
			w.impede(m, reason(CodeRetry, "%s", list(wrong)), "")
			w.pause(m, lookGap)
		}
	})
}

// cloning is a machine that is locked by a clone. A clone that was killed keeps its lock for ever.
func (w *work) cloning(doubt time.Duration) {
	limit := stuckAfter
	if !w.m.unsure {
		limit = incompleteFor // its task has ended
	}
	if doubt > limit {
		text, advice := remains(w.m.VMID, w.host)
		w.hold(w.m, reason(CodeQuarantined, "%s", text), advice)
		return
	}
	w.pause(w.m, lookGap)
}

// remains says that a machine is what is left of a clone, and what a person can do about it.
func remains(vmid int, host string) (text, advice string) {
	return fmt.Sprintf("VM %d on %s is what is left of a clone that no task works on any more", vmid, host),
		fmt.Sprintf("look at it, and then: qm unlock %[1]d && qm set %[1]d --protection 0 && qm destroy %[1]d --purge", vmid)
}

// findUnlisted goes on from a VMID that is not listed. It is free, or its machine cannot be seen: a
// clone is no member of its pool before its end, and who may see the pool only does not see it.
func (w *work) findUnlisted(ctx context.Context) {
	free, err := w.client.VMIDFree(ctx, w.i.VMID)
	var upid pveapi.UPID
	var ours bool
	if err == nil && !free && w.m.unsure {
		upid, ours, err = w.findTask(ctx)
	}
	w.done(func() {
		m := w.m
		if m.doubted.IsZero() {
			m.doubted = w.now
		}
		doubt := w.since(m.doubted)
		switch {
		case err != nil:
			w.upset(err)
		case free:
			w.notThere(doubt)
		case m.unsure && ours:
			m.unsure = false
			w.follow(upid, TaskClone)
		case m.unsure && doubt > unsureFor:
			w.spend() // no clone of ours was ever begun: another client has it
		default:
			w.cloning(doubt)
		}
	})
}

// findTask looks for the task of a clone whose order was not answered.
func (w *work) findTask(ctx context.Context) (pveapi.UPID, bool, error) {
	w.mu.Lock()
	from, r := w.ground().From(w.p.Places(), w.i.Host)
	w.mu.Unlock()
	if r != nil {
		return "", false, fmt.Errorf("%s: %s", r.Code, r.Text)
	}
	return w.client.FindClone(ctx, from.Host, from.VMID, w.i.VMID, w.i.Asked.Add(-time.Second))
}

// notThere goes on from a VMID that nothing has.
func (w *work) notThere(doubt time.Duration) {
	m := w.m
	if m.unsure && doubt < unsureFor {
		w.pause(m, lookGap)
		return
	}
	m.Step, m.Since, m.unsure, m.doubted = StepOrdered, w.now, false, time.Time{}
	if m.tries >= maxTries {
		w.fail(m, m.problem, "")
	}
}

// cloned takes a clone that is proved to be ours.
func (w *work) cloned(c *pveapi.VMConfig) {
	m := w.m
	w.ahead(m, StepCloned)
	m.unsure, m.Host = false, w.host
	w.know(c)
}

// know remembers a machine as it was just proved to be ours. The proof's age counts from the
// answer: from the question, one that took longer than a proof lasts would be too old as it came,
// and be asked for for ever.
func (w *work) know(c *pveapi.VMConfig) {
	m := w.m
	m.conf, m.proved, m.MAC = c, w.cfg.Now(), macOf(c)
	mark, ok := readMark(c.Description)
	if ok {
		m.Cluster = mark.Cluster
	}
	if ok && mark.Stage == stageReady && m.Step.before(StepConfigured) {
		w.ahead(m, StepConfigured)
	}
}

// inspect reads the machine and judges whether it is ours.
func (w *work) inspect(ctx context.Context) (*pveapi.VMConfig, verdict, []string, error) {
	c, err := w.client.Config(ctx, w.host, w.i.VMID)
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
// its rights went with it, that cannot be told from rights that were lost.
func (w *work) poolOf(ctx context.Context) membership {
	var at membership
	for _, name := range w.i.pvePools(w.p) {
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
		pvePools: w.i.pvePools(w.p), vmids: w.i.VMIDs, vmid: w.i.VMID, cluster: w.cfg.allegiance(),
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
	w.hold(w.m, reason(CodeQuarantined, "VM %d on %s is not proved to be ours: %s", w.i.VMID, w.host, list(wrong)),
		byHand(w.i.VMID))
}

// doVerify reads the machine and proves that it is ours, before anything in it is changed.
func (w *work) doVerify(ctx context.Context) {
	c, v, wrong, err := w.inspect(ctx)
	w.done(func() {
		switch {
		case pveapi.Is(err, pveapi.Absent):
			w.pause(w.m, lookGap)
		case err != nil:
			w.upsetMaking(err)
		case v == provedReady || v == provedCloned:
			if v == provedCloned && !w.m.Step.before(StepConfigured) {
				w.ahead(w.m, StepSized) // it was configured, and is not any more
			}
			w.know(c)
		case v == unproved:
			w.retry(w.m, reason(CodeRetry, "%s", list(wrong)), "")
		default:
			w.doubt(wrong)
		}
	})
}

// planned is the machine as its first boot is told of it.
func (w *work) planned() firstboot.Machine {
	i := &w.i
	return w.p.FirstBoot(settings.MachineOf{
		Name: i.Name, Host: i.Host, UUID: machineUUID(w.cfg.Owner, i.Order), MAC: i.MAC, Shape: i.Shape.Name, VMID: i.VMID, VMIDs: i.VMIDs,
	})
}

// doSize grows the disk, if it is smaller than the shape's.
func (w *work) doSize(ctx context.Context) {
	disk := w.conf.BootDisk()
	if disk == "" || int64(w.i.Shape.Disk) <= w.conf.Disks[disk].Size {
		w.done(func() { w.ahead(w.m, StepSized) })
		return
	}
	upid, err := w.client.Resize(ctx, w.host, w.i.VMID, disk, w.i.Shape.Disk)
	w.done(func() { w.asked(upid, TaskResize, err) })
}

// doSeed uploads the first-boot disc. That it may be there is written down before.
func (w *work) doSeed(ctx context.Context) {
	files, err := w.p.Join.UserData(w.planned())
	var disc []byte
	if err == nil {
		disc, err = firstboot.Disc(files, w.i.Created)
	}
	if err != nil {
		w.done(func() {
			w.fail(w.m, reason(CodeMachineFailed, "its first-boot disc cannot be made: %v", err), "fix the pool's join profile")
		})
		return
	}
	name := seedDisc(w.cfg.Owner, w.i.Name)
	if !w.before(func() {
		w.m.Disc, w.m.DiscHost = w.p.ISO.Storage+":iso/"+name, w.host
		w.m.Seeded, w.m.Version = w.p.Made(w.m.Host), w.p.Join.Install.Version
	}) {
		return
	}
	upid, err := w.client.Upload(ctx, w.host, w.p.ISO.Storage, name, disc)
	w.done(func() { w.asked(upid, TaskUpload, err) })
}

// asked notes what the server said to the order of a task that does no harm twice.
func (w *work) asked(upid pveapi.UPID, kind TaskKind, err error) {
	if err == nil {
		w.follow(upid, kind)
		return
	}
	w.m.conf = nil // whatever may have been done
	w.upsetMaking(err)
}

// madeWith is the digest of what a machine is made with that is configured by the pool now. The
// pool may have had other settings when it was cloned, or when its disc was made.
func madeWith(i *Intent, p *settings.Pool) string {
	now := p.Made(i.Host)
	if i.Cloned != "" && i.Cloned != p.Cloned(i.Host) || i.Seeded != "" && i.Seeded != now {
		return settings.Mixed(i.Cloned, i.Seeded, now)
	}
	return now
}

// doConfigure writes all of the machine's configuration in one call.
func (w *work) doConfigure(ctx context.Context) {
	w.i.Settings = madeWith(&w.i, w.p)
	values, remove, err := w.settings()
	if err != nil {
		w.done(func() {
			w.fail(w.m, reason(CodeMachineFailed, "its configuration cannot be made: %v", err), "fix the pool's configuration")
		})
		return
	}
	err = w.client.SetConfig(ctx, w.host, w.i.VMID, values, remove, w.conf.Digest)
	w.done(func() {
		if err != nil {
			w.m.conf = nil // as it may not be any more
			w.upsetMaking(err)
			return
		}
		w.ahead(w.m, StepConfigured)
		w.m.Settings, w.m.Cloned, w.m.Seeded = w.i.Settings, "", ""
		w.m.Devices = configured(w.conf, values, w.i.VMID)
		w.m.proved = w.cfg.Now() // the server took the digest of what was proved
	})
}

func (w *work) doStart(ctx context.Context) {
	if !w.admitted(ctx) {
		return
	}
	upid, err := w.client.Start(ctx, w.host, w.i.VMID)
	w.done(func() { w.asked(upid, TaskStart, err) })
}

// doTidy takes the first-boot disc out of the drive and removes it: it holds the join token.
func (w *work) doTidy(ctx context.Context) {
	if w.i.Disc == "" {
		w.done(func() { w.ahead(w.m, StepTidied) })
		return
	}
	c, v, wrong, err := w.inspect(ctx)
	if err == nil && v != provedReady {
		err = fmt.Errorf("it is not proved to be ours: %s", list(wrong))
	}
	if err == nil {
		err = w.eject(ctx, c)
	}
	if err != nil {
		w.done(func() { w.upset(err) })
		return
	}
	w.erase(ctx)
}

// eject empties the drive that the disc is in.
func (w *work) eject(ctx context.Context, c *pveapi.VMConfig) error {
	for key, d := range c.Disks {
		if d.ID == w.i.Disc {
			return w.client.SetConfig(ctx, w.host, w.i.VMID, map[string]string{key: emptyDrive}, nil, c.Digest)
		}
	}
	return nil
}

// erase removes the disc. The server takes no offence at one that is gone already.
func (w *work) erase(ctx context.Context) {
	upid, err := w.client.DeleteVolume(ctx, w.i.DiscHost, pveapi.ParseVolume(w.i.Disc).Storage, w.i.Disc)
	w.done(func() {
		switch {
		case err == nil && upid != "":
			w.follow(upid, TaskErase)
		case err == nil:
			w.erased(w.m)
		default:
			w.upset(err)
			w.impede(w.m, reason(CodeDiscKept, "%v", err), "remove "+w.i.Disc+" by hand: it holds the join token")
		}
	})
}

// doExplain collects what may say why a machine did not join: the end of its last task's log, and
// what its guest agent shows.
func (w *work) doExplain(ctx context.Context) {
	var hints []string
	if lines, err := w.client.TaskLog(ctx, pveapi.UPID(w.i.Last), 5); err == nil && len(lines) > 0 {
		hints = append(hints, "last task: "+list(lines))
	}
	if w.p.Guest.Agent && w.seen != nil && w.seen.Running {
		hints = append(hints, w.agentSays(ctx))
	} else if w.seen != nil && !w.seen.Running {
		hints = append(hints, "the machine is not running")
	}
	if len(hints) == 0 {
		hints = []string{"nothing more is known"}
	}
	w.done(func() {
		w.m.Hints = hints
		w.say(w.m, reason(CodeMachineFailed, "%s", list(hints)), "look at its console")
	})
}

func (w *work) agentSays(ctx context.Context) string {
	interfaces, err := w.client.AgentInterfaces(ctx, w.host, w.i.VMID)
	if err != nil {
		return "agent: " + err.Error()
	}
	var all []string
	for _, i := range interfaces {
		all = append(all, fmt.Sprintf("%s %v", i.Name, i.Addresses))
	}
	return "agent: interfaces " + list(all)
}
