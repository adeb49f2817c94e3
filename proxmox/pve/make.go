package pve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
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

// makingFailed notes that a call failed for a machine in the making, which fails when that goes on.
func (w making) makingFailed(err error) {
	switch again := w.callFailed(err); {
	case again || !w.m.Returned.IsZero():
	case w.m.waking():
		w.putBack(reason(failedFor(err), "it could not be started: %v", err))
	case w.m.tries >= maxTries && w.m.rebooting():
		w.m.Reboot = intents.RebootNone // it is tried again as one that has stopped by itself
	case w.m.tries >= maxTries:
		w.records.fail(w.m, reason(failedFor(err), "%v", err), "")
	}
}

// doClaim tests the VMID, writes down that it is about to be used, and asks for the clone.
func (w making) doClaim(ctx context.Context) {
	w.mu.Lock()
	moved := !w.p.VMIDs.Holds(w.i.VMID) || w.intake.addressed(w.p)[w.i.VMID]
	w.mu.Unlock()
	if moved {
		w.done(w.takeVMID) // the pool has another range since the order was taken
		return
	}
	free, err := w.client.VMIDFree(ctx, w.i.VMID)
	if err != nil {
		w.done(func() { w.callFailed(err) })
		return
	}
	if !free {
		w.done(w.giveUpVMID)
		return
	}
	w.mu.Lock()
	from, r := w.intake.ground().From(w.p.Places(), w.i.Host)
	if r != nil {
		w.records.retry(w.m, *r, "")
	}
	returned := !w.m.Returned.IsZero() // meanwhile
	w.records.unlock()
	if returned || r != nil || !w.before(w.claimed) {
		return
	}
	upid, err := w.client.VM(from.Host, from.VMID).Clone(ctx, w.cloneOptions(from.Target))
	w.done(func() { w.cloneAnswered(upid, err) })
}

func (w making) claimed() {
	w.m.Step, w.m.Since = intents.StepClaimed, w.now
	w.m.Original = w.view.original(w.p, w.m.Host)
	w.m.Cloned = w.p.Cloned(w.m.Host)
	w.m.VMIDs, w.m.PVEPool = w.p.VMIDs, w.p.PVEPool
	w.m.Cluster = w.cfg.Cluster
	w.records.reached(w.m, intents.StepClaimed, w.now)
	if w.m.Asked.IsZero() {
		w.m.Asked = w.now
	}
}

func (w making) cloneOptions(target string) pveapi.CloneOptions {
	full := w.p.Clone == placement.Full
	return pveapi.CloneOptions{
		NewID: w.i.VMID, Name: w.i.Name, Pool: w.p.PVEPool, Target: target, Full: &full,
		Storage: w.p.Storage, Format: w.p.Format,
		Description: notes(&w.i, w.cfg.Owner, stageCloned, ""),
	}
}

// giveUpVMID gives up a VMID that is another owner's and takes another one. Whoever has it is not
// looked at and not touched.
func (w making) giveUpVMID() {
	m := w.m
	w.records.say(m, reason(pvecode.VMIDTaken, "VMID %d is taken", m.VMID), "keep other machines out of "+w.p.VMIDs.String())
	w.ownership.taken[m.VMID] = w.now
	m.Spent = append(m.Spent, m.VMID)
	m.Step, m.unsure, m.doubted = intents.StepOrdered, false, time.Time{}
	w.takeVMID()
}

// takeVMID takes another VMID for a machine that is not made yet.
func (w making) takeVMID() {
	m := w.m
	id := w.intake.freeID(w.p, m.Spent)
	if id == 0 || len(m.Spent) > maxSpent {
		why := w.intake.exhausted(w.p)
		w.records.fail(m, reason(why.Code, "%s; %d turned out to be taken", why.Text, len(m.Spent)), "keep other machines out of the range, or widen it")
		return
	}
	w.catalogue.renumber(m, id)
}

// cloneAnswered notes what the server said to the order of a clone.
func (w making) cloneAnswered(upid pveapi.UPID, err error) {
	m := w.m
	if err == nil {
		m.unsure = false
		w.follow(upid, intents.TaskClone)
		w.records.say(m, reason(pvecode.CloneAsked, "from template %d", w.p.Template.On(m.Host)), "")
		return
	}
	switch pveapi.ClassOf(err) {
	case pveapi.Exists:
		// If the same was asked before, the machine that is in the way may be our own.
		if !m.unsure {
			w.giveUpVMID()
		}
	case pveapi.Unanswered, pveapi.Garbled, pveapi.Unknown:
		m.unsure, m.doubted = true, w.now
		w.noteSilence(err)
		w.records.noteProblem(m, reason(pvecode.AnswerLost, "whether the clone was begun is not known: %v", err), "")
		w.records.pause(m, lookGap)
	default:
		w.makingFailed(err)
		if !m.unsure {
			m.Step, m.Since = intents.StepOrdered, w.now
		}
		if pveapi.Is(err, pveapi.StorageFull) {
			w.records.fail(m, reason(placement.CodeStorageFull, "%v", err), "")
		}
	}
}

// doFind sees what became of a clone whose task is not known, or failed.
func (w making) doFind(ctx context.Context) {
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
		doubt := w.watch.since(m.doubted)
		switch {
		case pveapi.Is(err, pveapi.Absent):
			w.records.pause(m, lookGap)
		case err != nil:
			w.callFailed(err)
		case v == provedCloned || v == provedReady:
			w.cloned(c)
		case v == stranger:
			w.giveUpVMID()
		case v == doubtful && doubt > incompleteFor:
			w.doubt(wrong)
		case v == unproved && c.Lock != "":
			w.cloning(doubt)
		default:
			w.records.noteProblem(m, reason(pvecode.Retry, "%s", list(wrong)), "")
			w.records.pause(m, lookGap)
		}
	})
}

// cloning is a machine that is locked by a clone. A clone that was killed keeps its lock for ever.
func (w making) cloning(doubt time.Duration) {
	limit := stuckAfter
	if !w.m.unsure {
		limit = incompleteFor // its task has ended
	}
	if doubt > limit {
		text, advice := remains(w.m.VMID, w.host)
		w.records.hold(w.m, reason(pvecode.Quarantined, "%s", text), advice)
		return
	}
	w.records.pause(w.m, lookGap)
}

// findUnlisted goes on from a VMID that is not listed. It is free, or its machine cannot be seen: a
// clone is no member of its pool before its end, and who may see the pool only does not see it.
func (w making) findUnlisted(ctx context.Context) {
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
		doubt := w.watch.since(m.doubted)
		switch {
		case err != nil:
			w.callFailed(err)
		case free:
			w.notThere(doubt)
		case m.unsure && ours:
			m.unsure = false
			w.follow(upid, intents.TaskClone)
		case m.unsure && doubt > unsureFor:
			w.giveUpVMID() // no clone of ours was ever begun: another client has it
		default:
			w.cloning(doubt)
		}
	})
}

// findTask looks for the task of a clone whose order was not answered.
func (w making) findTask(ctx context.Context) (pveapi.UPID, bool, error) {
	w.mu.Lock()
	from, r := w.intake.ground().From(w.p.Places(), w.i.Host)
	w.mu.Unlock()
	if r != nil {
		return "", false, fmt.Errorf("%s: %s", r.Code, r.Text)
	}
	return w.client.FindClone(ctx, from.Host, from.VMID, w.i.VMID, w.i.Asked.Add(-time.Second))
}

// notThere goes on from a VMID that nothing has.
func (w making) notThere(doubt time.Duration) {
	m := w.m
	if m.unsure && doubt < unsureFor {
		w.records.pause(m, lookGap)
		return
	}
	m.Step, m.Since, m.unsure, m.doubted = intents.StepOrdered, w.now, false, time.Time{}
	if m.tries >= maxTries {
		w.records.fail(m, m.problem, "")
	}
}

// cloned takes a clone that is proved to be ours.
func (w making) cloned(c *pveapi.VMConfig) {
	m := w.m
	w.records.ahead(m, intents.StepCloned)
	m.unsure, m.Host = false, w.host
	w.know(c)
}

// doVerify reads the machine and proves that it is ours, before anything in it is changed.
func (w making) doVerify(ctx context.Context) {
	c, v, wrong, err := w.inspect(ctx)
	w.done(func() {
		switch {
		case pveapi.Is(err, pveapi.Absent):
			w.records.pause(w.m, lookGap)
		case err != nil:
			w.makingFailed(err)
		case v == provedReady || v == provedCloned:
			if v == provedCloned && !w.m.Step.Before(intents.StepConfigured) {
				w.records.ahead(w.m, intents.StepSized) // it was configured, and is not any more
			}
			w.know(c)
		case v == unproved:
			w.records.retry(w.m, reason(pvecode.Retry, "%s", list(wrong)), "")
		default:
			w.doubt(wrong)
		}
	})
}

// doSize grows the disk, if it is smaller than the shape's.
func (w making) doSize(ctx context.Context) {
	disk := w.conf.BootDisk()
	if disk == "" || int64(w.i.Shape.Disk) <= w.conf.Disks[disk].Size {
		w.done(func() { w.records.ahead(w.m, intents.StepSized) })
		return
	}
	upid, err := w.vm().Resize(ctx, disk, w.i.Shape.Disk)
	w.done(func() { w.asked(upid, intents.TaskResize, err) })
}

// doSeed uploads the first-boot disc. That it may be there is written down before.
func (w making) doSeed(ctx context.Context) {
	files, err := w.p.Join.UserData(w.planned())
	var disc []byte
	if err == nil {
		disc, err = firstboot.Disc(files, w.i.Created)
	}
	if err != nil {
		w.done(func() {
			w.records.fail(w.m, reason(pvecode.MachineFailed, "its first-boot disc cannot be made: %v", err), "fix the pool's join profile")
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
	w.done(func() { w.asked(upid, intents.TaskUpload, err) })
}

// asked notes what the server said to the order of a task that does no harm twice.
func (w making) asked(upid pveapi.UPID, kind intents.TaskKind, err error) {
	if err == nil {
		w.follow(upid, kind)
		return
	}
	w.m.conf = nil // it may have changed
	w.makingFailed(err)
}

// madeWith is the digest of what a machine is made with that is configured by the pool now. The
// pool may have had other settings when it was cloned, or when its disc was made.
func madeWith(i *intents.Intent, p *settings.Pool) string {
	now := p.Made(i.Host)
	if i.Cloned != "" && i.Cloned != p.Cloned(i.Host) || i.Seeded != "" && i.Seeded != now {
		return settings.Mixed(i.Cloned, i.Seeded, now)
	}
	return now
}

// doConfigure writes all of the machine's configuration in one call. The server removes before it
// sets, and removes no drive of a machine that is protected, as the clone of a protected template.
func (w making) doConfigure(ctx context.Context) {
	w.i.Settings = madeWith(&w.i, w.p)
	values, remove, err := w.settings()
	if err != nil {
		w.done(func() {
			w.records.fail(w.m, reason(pvecode.MachineFailed, "its configuration cannot be made: %v", err), "fix the pool's configuration")
		})
		return
	}
	drive := func(key string) bool { _, is := w.conf.Disks[key]; return is }
	if w.conf.Raw["protection"] == "1" && slices.ContainsFunc(remove, drive) {
		err := w.vm().SetConfig(ctx, map[string]string{"protection": "0"}, nil, w.conf.Digest)
		w.done(func() {
			if w.m.conf = nil; err != nil {
				w.makingFailed(err)
			}
		})
		return
	}
	err = w.vm().SetConfig(ctx, values, remove, w.conf.Digest)
	w.done(func() {
		if err != nil {
			w.m.conf = nil // as it may not be any more
			w.makingFailed(err)
			return
		}
		w.records.ahead(w.m, intents.StepConfigured)
		w.m.Settings, w.m.Cloned, w.m.Seeded = w.i.Settings, "", ""
		w.m.Devices = configured(w.conf, values, w.i.VMID)
		w.m.proved = w.cfg.Now() // the server took the digest of what was proved
	})
}

func (w making) doStart(ctx context.Context) {
	if !w.admitted(ctx) {
		return
	}
	upid, err := w.vm().Start(ctx)
	w.done(func() { w.asked(upid, intents.TaskStart, err) })
}
