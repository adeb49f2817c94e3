package pve

import (
	"context"
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// A task that works on a storage that does not answer never ends, and may not even be killed.
// Whoever waits for it says so, and does not keep others waiting.

const (
	// cloneLimit is how long a clone may take, and taskLimit any other task, before that is told.
	// Much of a disk is copied in an hour; all else is a matter of seconds.
	cloneLimit, taskLimit = makeWithin, 15 * time.Minute
	// cancelAgain is how long a task that was stopped is waited for before it is told again. The
	// server kills it when it does not end by itself; what waits in the kernel ends neither way.
	cancelAgain = 5 * time.Minute
)

// hinders reports whether the way out is free without the task. One that removes something is the
// way out, and would only be asked for again.
func (k TaskKind) hinders() bool { return k != TaskDestroy && k != TaskErase }

// settleTask tells of a task that takes too long. It is not given up: what it does to the machine
// may be done yet, and nothing else is done to it while the task may run.
func (st *settler) settleTask(m *tracked) {
	if m.Task == nil || m.hung || !st.view.seen.Online(m.Task.Host) {
		return
	}
	limit := taskLimit
	if p := st.catalogue.pools[m.Pool]; m.Task.Kind == TaskClone {
		limit = cloneLimit
	} else if p != nil && m.Task.Kind == TaskShutdown {
		limit += time.Duration(p.ShutdownGrace)
	}
	if st.watch.since(m.Task.At) > limit {
		m.hung = true
		st.records.say(m, m.hanging(false), m.unhang())
	}
}

// hanging says what a machine waits for too long, and perhaps what can be done about it.
func (m *tracked) hanging(advise bool) nodescaler.Reason {
	r := reason(CodeTaskHangs, "its task %s on %s has not ended since %s", m.Task.Kind, m.Task.Host, m.Task.At.UTC().Format(time.RFC3339))
	if advise {
		r.Text += "; " + m.unhang()
	}
	return r
}

// unhang is what a person can do about a task that does not end.
func (m *tracked) unhang() string {
	return fmt.Sprintf("look at the host and at its storages; pvenode task log '%s' on %s shows how far it is, and this ends it: pvesh delete '/nodes/%[2]s/tasks/%[1]s'",
		m.Task.UPID, m.Task.Host)
}

// doRecall asks for a task that its host's list does not show.
func (w clearing) doRecall(ctx context.Context) {
	status, err := w.client.Task(ctx, pveapi.UPID(w.i.Task.UPID))
	w.done(func() {
		switch {
		case pveapi.Is(err, pveapi.NoTask):
			w.ended(w.m, pveapi.TaskStatus{UPID: pveapi.UPID(w.i.Task.UPID), Exit: "unexpected status"})
		case err != nil:
			w.upset(err)
		case status.Running:
			w.m.heard, w.m.tries = w.cfg.Now(), 0
			if w.m.problem.Code == CodeRetry {
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
			w.records.say(w.m, reason(CodeTaskHangs, "its task %s on %s could not be stopped: %v", w.m.Task.Kind, w.m.Task.Host, err), w.m.unhang())
		default:
			w.records.say(w.m, reason(CodeTaskHangs, "its task %s on %s was stopped", w.m.Task.Kind, w.m.Task.Host), "")
		}
	})
}
