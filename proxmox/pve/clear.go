package pve

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// A task that works on a storage that does not answer never ends, and may not even be killed.
// Whoever waits for it says so, and does not keep others waiting.

const (
	// cloneLimit is how long a clone may take, and taskLimit any other task, before it is reported.
	// Much of a disk is copied in an hour; all else is a matter of seconds.
	cloneLimit, taskLimit = makeWithin, 15 * time.Minute
	// cancelAgain is how long a task that was stopped is waited for before it is reported again.
	// The server kills it when it does not end by itself; what waits in the kernel ends neither
	// way.
	cancelAgain = 5 * time.Minute
)

// hanging says what a machine waits for too long, and perhaps what can be done about it.
func (m *tracked) hanging(advise bool) nodescaler.Reason {
	r := reason(pvecode.TaskHangs, "its task %s on %s has not ended since %s", m.Task.Kind, m.Task.Host, m.Task.At.UTC().Format(time.RFC3339))
	if advise {
		r.Text += "; " + m.unhang()
	}
	return r
}

// doRecall asks for a task that its host's list does not show.
func (w clearing) doRecall(ctx context.Context) {
	status, err := w.client.Task(ctx, pveapi.UPID(w.i.Task.UPID))
	if err == nil && w.i.Task.Kind == intents.TaskStart {
		status = w.explained(ctx, status)
	}
	w.done(func() {
		switch {
		case w.catalogue.pools[w.m.Pool] == nil && w.m.Gone.IsZero(): // removed meanwhile
		case pveapi.Is(err, pveapi.NoTask):
			w.ended(w.m, pveapi.TaskStatus{UPID: pveapi.UPID(w.i.Task.UPID), Exit: "unexpected status"})
		case err != nil:
			w.callFailed(err)
		case status.Running:
			w.m.heard, w.m.tries = w.cfg.Now(), 0
			if w.m.problem.Code == pvecode.Retry {
				w.m.problem = nodescaler.Reason{}
			}
		default:
			w.ended(w.m, status)
		}
	})
}

// doCancel ends a task that keeps a machine from going. It is ours, by the order that was answered
// with it or by its log, and so whoever has our token may end it. That it has ended is seen as of
// all others.
func (w clearing) doCancel(ctx context.Context) {
	err := w.client.StopTask(ctx, pveapi.UPID(w.i.Task.UPID))
	w.done(func() {
		w.records.pause(w.m, cancelAgain)
		switch {
		case w.m.Task == nil || pveapi.Is(err, pveapi.NoTask):
		case err != nil:
			w.records.say(w.m, reason(pvecode.TaskHangs, "its task %s on %s could not be stopped: %v", w.m.Task.Kind, w.m.Task.Host, err), w.m.unhang())
		default:
			w.records.say(w.m, reason(pvecode.TaskHangs, "its task %s on %s was stopped", w.m.Task.Kind, w.m.Task.Host), "")
		}
	})
}

// doConfirm asks whether a machine is gone. That it is not listed says nothing; that its VMID is
// free does, when there is a majority and the host that had it is online or has left.
func (w clearing) doConfirm(ctx context.Context) {
	free, err := w.client.VMIDGone(ctx, w.i.VMID)
	if err == nil && !free {
		w.doProbe(ctx) // somewhere else, hidden, or somebody's
		return
	}
	w.done(func() {
		if err != nil {
			w.callFailed(err)
			return
		}
		w.records.gone(w.m, freed)
	})
}

// doProbe asks whether a machine exists that is not listed any more.
func (w clearing) doProbe(ctx context.Context) {
	free, err := w.client.VMIDGone(ctx, w.i.VMID)
	at := membership{hidden: true}
	if err == nil && !free && w.i.Held == nil {
		at = w.poolOf(ctx)
	}
	w.done(func() {
		m := w.m
		switch {
		case err != nil:
			w.callFailed(err)
		case !free && m.Held != nil:
			w.records.pause(m, longPause)
		case !free && (at.hidden || at.pool != ""):
			w.hide(cmp.Or(at.pool, w.p.PVEPool))
		case !free && at.unread != nil:
			w.missFormer(at.unread)
		case !free:
			m.hidden = false
			w.records.hold(m, reason(pvecode.Quarantined, "VM %d was taken out of pool %s", m.VMID, w.i.PVEPools(w.p)[0]), byHand(m.VMID))
		case m.Held != nil && !m.Returned.IsZero():
			w.records.gone(m, freed)
		default:
			// There is nothing left to destroy; whoever gives the machine back is done at once.
			m.Held, m.hidden, m.conf = nil, false, nil
			m.Step, m.Since = intents.StepOrdered, w.now
			w.records.say(m, reason(pvecode.Vanished, "another client removed it"), "")
			w.records.fail(m, reason(pvecode.Vanished, "VM %d was removed by another client", m.VMID), "")
		}
	})
}

// hide notes that a machine exists and is not listed, in the resource pool that it is in or would
// be.
func (w clearing) hide(pool string) {
	w.m.hidden = true
	w.records.noteProblem(w.m, reason(pvecode.Hidden, "VM %d exists and is not listed", w.m.VMID), "the token needs VM.Audit on /pool/"+pool)
	w.records.pause(w.m, 5*time.Second)
}

// missFormer notes that a machine exists, is not listed, and may be in a resource pool of a former
// configuration, which cannot be read. That pool may be no more, so that no one could ever thaw a
// fleet that froze for it; the machine alone waits.
func (w clearing) missFormer(err error) {
	former, present := w.i.PVEPool, w.p.PVEPool
	w.m.hidden = false
	w.records.noteProblem(w.m, reason(pvecode.Hidden, "VM %d exists and is not listed, and pool %s, which it was put into, cannot be read: %v", w.m.VMID, former, err),
		fmt.Sprintf("put it into pool %s; or, if it is still in pool %s, the token needs VM.Audit and Pool.Audit on /pool/%[2]s", present, former))
	w.records.pause(w.m, 5*time.Second)
}

// doSweep removes what is left of a machine that is gone: its first-boot disc, and its node object.
func (w clearing) doSweep(ctx context.Context) {
	if w.i.Disc != "" {
		w.erase(ctx)
		return
	}
	w.unnode(ctx)
}

// doForget lets a VMID be used again.
func (w clearing) doForget() {
	w.mu.Lock()
	defer w.records.unlock()
	if err := w.records.store.Remove(w.i.Order); err != nil {
		w.records.retry(w.m, reason(pvecode.IntentNotKept, "%v", err), "")
		return
	}
	delete(w.roster.machines, w.i.Order)
}

// doTidy takes the first-boot disc out of the drive and removes it: it holds the join token.
func (w clearing) doTidy(ctx context.Context) {
	if w.i.Disc == "" {
		w.done(func() { w.records.ahead(w.m, intents.StepTidied) })
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
		w.done(func() { w.callFailed(err) })
		return
	}
	w.erase(ctx)
}

// eject empties the drive that the disc is in.
func (w clearing) eject(ctx context.Context, c *pveapi.VMConfig) error {
	for key, d := range c.Disks {
		if d.ID == w.i.Disc {
			return w.vm().SetConfig(ctx, map[string]string{key: emptyDrive}, nil, c.Digest)
		}
	}
	return nil
}

// erase removes the disc. The server takes no offence at one that is gone already.
func (w clearing) erase(ctx context.Context) {
	upid, err := w.client.DeleteVolume(ctx, w.i.DiscHost, pveapi.ParseVolume(w.i.Disc).Storage, w.i.Disc)
	w.done(func() {
		switch {
		case err == nil && upid != "":
			w.follow(upid, intents.TaskErase)
		case err == nil:
			w.records.erased(w.m)
		default:
			w.callFailed(err)
			w.records.noteProblem(w.m, reason(pvecode.DiscKept, "%v", err), "remove "+w.i.Disc+" by hand: it holds the join token")
		}
	})
}

// doExplain collects what may say why a machine did not join: the end of its last task's log, what
// QEMU says of it, and what its guest agent shows.
func (w clearing) doExplain(ctx context.Context) {
	var hints []string
	if lines, err := w.client.TaskLog(ctx, pveapi.UPID(w.i.Last), 5); err == nil && len(lines) > 0 {
		hints = append(hints, "last task: "+list(lines))
	}
	advice := "look at its console"
	if w.seen != nil && w.seen.Running {
		status, err := w.vm().Status(ctx)
		if err == nil && status.QMPStatus != "running" && status.QMPStatus != "" {
			hints = append(hints, "QEMU: "+status.QMPStatus)
		}
		if status.QMPStatus == "io-error" {
			advice = "it could not write to its disk: look whether the disk's storage has room"
		}
	}
	if w.p.Guest.Agent && w.seen != nil && w.seen.Running {
		hints = append(hints, w.agentSays(ctx))
	} else if w.seen != nil && w.seen.Stopped {
		hints = append(hints, "the machine is not running")
	}
	if len(hints) == 0 {
		hints = []string{"nothing more is known"}
	}
	w.done(func() {
		w.m.Hints = hints
		w.records.say(w.m, reason(pvecode.MachineFailed, "%s", list(hints)), advice)
	})
}

func (w clearing) agentSays(ctx context.Context) string {
	interfaces, err := w.vm().AgentInterfaces(ctx)
	if err != nil {
		return "agent: " + err.Error()
	}
	var all []string
	for _, i := range interfaces {
		all = append(all, fmt.Sprintf("%s %v", i.Name, i.Addresses))
	}
	return "agent: interfaces " + list(all)
}

// unnode removes the node objects of a machine that is gone.
func (w clearing) unnode(ctx context.Context) {
	w.mu.Lock()
	unseen := w.cfg.Nodes != nil && w.members.nodes == nil
	names := w.members.nodesOfGone(w.m)
	w.mu.Unlock()
	if unseen { // a node of that name may be another machine's
		w.done(func() { w.records.retry(w.m, reason(pvecode.NodesUnknown, "which node was its cannot be seen"), "") })
		return
	}
	var err error
	for _, name := range names {
		err = cmp.Or(err, w.cfg.RemoveNode(ctx, name))
	}
	w.done(func() {
		if err != nil {
			w.records.retry(w.m, reason(pvecode.NodeNotRemoved, "%v", err), "")
			return
		}
		w.m.NodeGone = true
	})
}
