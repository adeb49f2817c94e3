package pvesim

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
)

// task is work that a call has started and does not wait for.
type task struct {
	upid        string
	host        *host
	pid         int
	pstart      int64
	kind, id    string
	user        string // without the token
	token       string
	start, end  time.Time
	exit        string // empty while it runs
	log         []string
	p           *engine.Process
	interrupted bool               // somebody asked for its end
	faults      []*faults.Injected // that spoil it
}

// running reports whether a task is not over.
func (t *task) running() bool { return t.exit == "" }

// print adds a line to the task's log.
func (t *task) print(format string, args ...any) {
	t.log = append(t.log, strings.Split(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n")...)
}

// fork starts a task on a host. Its end is the body's error; an error of the form "WARNINGS: n" is
// a success with warnings.
func (c *World) fork(h *host, who *access.Identity, kind, id string, body func(t *task) error) *task {
	h.pids++
	t := &task{
		host: h, pid: 1000 + h.pids, kind: kind, id: id, user: who.User, token: who.Token, start: c.Clock,
		pstart: int64(c.Clock.Sub(h.since) / (10 * time.Millisecond)),
	}
	user := t.user
	if t.token != "" {
		user += "!" + t.token
	}
	t.upid = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", h.Name, t.pid, t.pstart, t.start.Unix(), kind, id, user)
	h.tasks = append(h.tasks, t)
	t.p = c.Start(func(p *engine.Process) {
		t.p = p
		defer func() { // a task that is killed has not come to its end
			if t.running() {
				t.finish(c.Clock, "unexpected status")
			}
		}()
		err := c.taskFault(t, "begin")
		if err == nil {
			err = body(t)
		}
		t.finish(c.Clock, failure.Text(t.warned(err)))
	})
	return t
}

// finish ends a task's record.
func (t *task) finish(now time.Time, exit string) {
	t.exit, t.end = exit, now
	switch {
	case exit == "OK":
		t.log = append(t.log, "TASK OK")
	case strings.HasPrefix(exit, "WARNINGS: "):
		t.log = append(t.log, "TASK "+exit)
	case exit != "unexpected status":
		t.log = append(t.log, "TASK ERROR: "+exit)
	}
}

// task looks up the call's task on the host that answers.
func (h *host) task(upid string) *task {
	for _, t := range h.tasks {
		if t.upid == upid {
			return t
		}
	}
	return nil
}

// failed reports whether a task has not come to a good end. Warnings are one.
func (t *task) failed() bool { return t.exit != "OK" && !strings.HasPrefix(t.exit, "WARNINGS: ") }

// by is who asked for a task.
func (t *task) by() string {
	if t.token == "" {
		return t.user
	}
	return t.user + "!" + t.token
}
