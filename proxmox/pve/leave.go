package pve

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// longPause is how long a machine that waits for a person is left alone.
const longPause = 30 * time.Second

// doLeave takes a machine that was reclaimed one call further out: shut down, stopped, destroyed.
// Each of these calls has its own proof, read immediately before it: what was true a moment ago is
// how strangers' machines are lost.
func (w leaving) doLeave(ctx context.Context) {
	c, status, v, wrong, ok := w.prove(ctx)
	if !ok {
		return
	}
	if v == provedCloned && c.Protection && c.Lock == "" {
		w.unprotect(ctx, c)
		return
	}
	if w.mayNot(c, status, v, wrong) || !w.lastLook(ctx, c, status) {
		return
	}
	if status.Status != "running" {
		w.destroy(ctx)
		return
	}
	w.halt(ctx)
}

// prove reads all that must be known of a machine before it is stopped.
func (w leaving) prove(ctx context.Context) (c *pveapi.VMConfig, status pveapi.VMStatus, v verdict, wrong []string, ok bool) {
	c, v, wrong, err := w.inspect(ctx)
	if uuid := machineUUID(w.cfg.Owner, w.i.Order); err == nil && v == provedCloned && !w.i.Step.before(StepConfigured) && !strings.EqualFold(c.UUID, uuid) {
		v, wrong = doubtful, []string{fmt.Sprintf("its system UUID is %s, not %s, as it was when it was configured", cmp.Or(c.UUID, "empty"), uuid)}
	}
	if err == nil {
		status, err = w.client.Status(ctx, w.host, w.i.VMID)
	}
	if err != nil {
		w.done(func() {
			if pveapi.Is(err, pveapi.Absent) {
				w.records.pause(w.m, lookGap)
				return
			}
			w.upset(err)
		})
	}
	return c, status, v, wrong, err == nil
}

// unprotect takes away the protection that a clone has from its template, and nobody meant for it.
// One that was configured has none but what somebody gave it.
func (w leaving) unprotect(ctx context.Context, c *pveapi.VMConfig) {
	err := w.client.SetConfig(ctx, w.host, w.i.VMID, map[string]string{"protection": "0"}, nil, c.Digest)
	w.done(func() {
		if err != nil {
			w.upset(err)
		}
	})
}

// mayNot notes why a machine is not to be stopped or destroyed, if there is a reason.
func (w leaving) mayNot(c *pveapi.VMConfig, status pveapi.VMStatus, v verdict, wrong []string) bool {
	m := w.m
	stop := true
	w.done(func() {
		switch {
		case v == stranger && w.i.Exit == ExitDestroy:
			w.records.gone(m, "it was destroyed, and its VMID is another VM's now")
		case v == stranger || v == doubtful:
			w.doubt(wrong)
		case v == unproved && (c.Lock == "clone" || c.Lock == "create"):
			if m.doubted.IsZero() {
				m.doubted = w.now
			}
			making{w.work}.cloning(w.watch.since(m.doubted))
		case v == unproved:
			w.records.retry(m, reason(CodeRetry, "%s", list(wrong)), "")
		case c.Lock != "" || status.Lock != "":
			w.locked(cmp.Or(c.Lock, status.Lock))
		case status.HAManaged && w.cfg.HA == settings.HAWait:
			w.records.impede(m, reason(CodeHAManaged, "VM %d was put under high availability", m.VMID), "ha-manager remove vm:"+itoa(m.VMID))
			w.records.pause(m, longPause)
		case c.Protection:
			w.records.impede(m, reason(CodeProtected, "VM %d was protected by hand", m.VMID), "if it may go: qm set "+itoa(m.VMID)+" --protection 0")
			w.records.pause(m, longPause)
		default:
			stop = false
		}
	})
	return stop
}

// lockedFor is how long a machine may be locked without a report. A task that was killed, as
// by a host that went down, leaves its lock for ever.
const lockedFor = 10 * time.Minute

// locked waits for whoever has locked the machine.
func (w leaving) locked(by string) {
	m := w.m
	why := reason(CodeRetry, "VM %d is locked (%s)", m.VMID, by)
	if m.problem.Code == CodeLocked || m.problem == why && w.watch.since(m.since) >= lockedFor {
		why.Code = CodeLocked
	}
	w.records.retry(m, why, "if no task works on it any more: qm unlock "+itoa(m.VMID))
}

// halt lets a guest shut down that was a node, and stops all others and those that did not go.
func (w leaving) halt(ctx context.Context) {
	was := w.i.Exit
	if !w.i.Joined.IsZero() && was == ExitNone && w.i.Failed == nil {
		if !w.before(func() { w.m.Exit = ExitShutdown }) {
			return
		}
		upid, err := w.client.Shutdown(ctx, w.host, w.i.VMID, time.Duration(w.p.ShutdownGrace), false)
		w.done(func() { w.askedOut(upid, TaskShutdown, err) })
		return
	}
	if !w.before(func() { w.m.Exit = ExitStop }) {
		return
	}
	// A shutdown that hangs would keep the stop waiting for its lock.
	upid, err := w.client.Stop(ctx, w.host, w.i.VMID, was == ExitShutdown)
	w.done(func() { w.askedOut(upid, TaskStop, err) })
}

func (w leaving) destroy(ctx context.Context) {
	if !w.before(func() { w.m.Exit = ExitDestroy }) {
		return
	}
	upid, err := w.client.Destroy(ctx, w.host, w.i.VMID, true)
	w.done(func() {
		w.askedOut(upid, TaskDestroy, err)
		if err == nil {
			w.records.say(w.m, reason(CodeDestroyAsked, "it is proved to be ours and stopped"), "")
		}
	})
}

// askedOut notes what the server said to an order on the way out; it is given again until done.
func (w leaving) askedOut(upid pveapi.UPID, kind TaskKind, err error) {
	if err == nil {
		w.follow(upid, kind)
		return
	}
	w.upset(err)
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
			w.upset(err)
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
			w.upset(err)
		case !free && m.Held != nil:
			w.records.pause(m, longPause)
		case !free && (at.hidden || at.pool != ""):
			w.hide(cmp.Or(at.pool, w.p.PVEPool))
		case !free && at.unread != nil:
			w.missFormer(at.unread)
		case !free:
			m.hidden = false
			w.records.hold(m, reason(CodeQuarantined, "VM %d was taken out of pool %s", m.VMID, w.i.pvePools(w.p)[0]), byHand(m.VMID))
		case m.Held != nil && !m.Returned.IsZero():
			w.records.gone(m, freed)
		default:
			// There is nothing left to destroy; whoever gives the machine back is done at once.
			m.Held, m.hidden, m.conf = nil, false, nil
			m.Step, m.Since = StepOrdered, w.now
			w.records.say(m, reason(CodeVanished, "somebody removed it"), "")
			w.records.fail(m, reason(CodeVanished, "VM %d was removed by another client", m.VMID), "")
		}
	})
}

// hide notes that a machine exists and is not listed, in the resource pool that it is in or would
// be.
func (w clearing) hide(pool string) {
	w.m.hidden = true
	w.records.impede(w.m, reason(CodeHidden, "VM %d exists and is not listed", w.m.VMID), "the token needs VM.Audit on /pool/"+pool)
	w.records.pause(w.m, 5*time.Second)
}

// missFormer notes that a machine exists, is not listed, and may be in a resource pool of a former
// configuration, which cannot be read. That pool may be no more, so that nobody could ever thaw a
// fleet that froze for it; the machine alone waits.
func (w clearing) missFormer(err error) {
	former, present := w.i.PVEPool, w.p.PVEPool
	w.m.hidden = false
	w.records.impede(w.m, reason(CodeHidden, "VM %d exists and is not listed, and pool %s, which it was put into, cannot be read: %v", w.m.VMID, former, err),
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
		w.records.retry(w.m, reason(CodeIntentNotKept, "%v", err), "")
		return
	}
	delete(w.roster.machines, w.i.Order)
}
