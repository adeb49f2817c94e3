package world

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// Running reports whether a task is not over.
func (t *Task) Running() bool { return t.Exit == "" }

// print adds a line to the task's log.
func (t *Task) print(format string, args ...any) {
	t.Log = append(t.Log, strings.Split(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n")...)
}

// fork starts a task on a host. Its end is the body's error; an error of the form "WARNINGS: n" is
// a success with warnings.
func (c *World) fork(h *Node, who *access.Identity, kind, id string, body func(t *Task) error) *Task {
	h.PIDs++
	t := &Task{
		Host: h, PID: 1000 + h.PIDs, Kind: kind, ID: id, User: who.User, Token: who.Token, Start: c.Clock,
		PStart: int64(c.Clock.Sub(h.Since) / (10 * time.Millisecond)),
	}
	user := t.User
	if t.Token != "" {
		user += "!" + t.Token
	}
	t.UPID = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", h.Name, t.PID, t.PStart, t.Start.Unix(), kind, id, user)
	h.Tasks = append(h.Tasks, t)
	t.p = c.Start(func(p *engine.Process) {
		t.p = p
		defer func() { // a task that is killed has not come to its end
			if t.Running() {
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
func (t *Task) finish(now time.Time, exit string) {
	t.Exit, t.End = exit, now
	switch {
	case exit == "OK":
		t.Log = append(t.Log, "TASK OK")
	case strings.HasPrefix(exit, "WARNINGS: "):
		t.Log = append(t.Log, "TASK "+exit)
	case exit != "unexpected status":
		t.Log = append(t.Log, "TASK ERROR: "+exit)
	}
}

// Task looks up the call's task on the host that answers.
func (h *Node) Task(upid string) *Task {
	for _, t := range h.Tasks {
		if t.UPID == upid {
			return t
		}
	}
	return nil
}

// Failed reports whether a task has not come to a good end. Warnings are one.
func (t *Task) Failed() bool { return t.Exit != "OK" && !strings.HasPrefix(t.Exit, "WARNINGS: ") }

// By is who asked for a task.
func (t *Task) By() string {
	if t.Token == "" {
		return t.User
	}
	return t.User + "!" + t.Token
}
