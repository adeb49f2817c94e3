package world

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// Work starts a task.
func (c *World) Work(h *Node, who *access.Identity, kind, id string, body func(j *Errand) error) *Task {
	return c.fork(h, who, kind, id, func(t *Task) error {
		return body(&Errand{Caller: Caller{c, who}, Patience: Patience{Process: t.p, Task: t}, Host: h})
	})
}

// Print writes a line into the log of the task, if there is one.
func (j *Patience) Print(format string, args ...any) {
	if t := j.Task; t != nil {
		t.print(format, args...)
	}
}

// Pause lets time pass, unless the task is to stop.
func (j *Patience) Pause(d time.Duration) error {
	j.Await(d, nil)
	if j.told() {
		j.heard = true
		return ErrInterrupted
	}
	return nil
}

// told reports whether a user wants the task to stop.
func (j *Patience) told() bool { return j.Task != nil && j.Task.interrupted && !j.heard }

// Doze lets time pass in which the task would not notice that it is to stop.
func (j *Patience) Doze(d time.Duration) { j.Await(d, nil) }

// Await lets time pass until ready, at most limit, and reports whether it is ready. A task that is
// to stop waits no longer.
func (j *Patience) Await(limit time.Duration, ready func() bool) bool {
	holds := func() bool { return ready != nil && ready() }
	if limit > 0 {
		j.Process.Wait(limit, func() bool { return holds() || j.told() })
	}
	return holds()
}

// Lock takes the lock on a file. A task that must wait says so.
func (j *Patience) Lock(l *engine.Flock, limit time.Duration, file string) error {
	return j.take(func() bool { return !l.Held && l.Shared == 0 }, func() { l.Held = true }, limit, file)
}

// Share takes the lock on a file together with others.
func (j *Patience) Share(l *engine.Flock, limit time.Duration, file string) error {
	return j.take(func() bool { return !l.Held }, func() { l.Shared++ }, limit, file)
}

func (j *Patience) take(free func() bool, take func(), limit time.Duration, file string) error {
	if !free() {
		j.Print("trying to acquire lock...")
		if !j.Await(limit, free) {
			if err := j.Pause(0); err != nil {
				return err
			}
			return failure.New("can't lock file '%s' - got timeout", file)
		}
		j.Print(" OK")
	}
	take()
	return nil
}

// injected is an error of a fault. It ends a task in its own words, not in those that the
// task has for other errors.
type injected struct{ text string }

func (e injected) Error() string { return e.text }

// Stage lets what is to go wrong at this point of a task go wrong.
func (j *Errand) Stage(name string) error {
	if j.Task == nil {
		return nil
	}
	err := j.World.taskFault(j.Task, name)
	if errors.Is(err, ErrInterrupted) {
		j.heard = true
		return err
	}
	if err != nil {
		return injected{failure.Text(err)}
	}
	return nil
}

// Because is an error that says what it comes from.
func Because(what string, err error) error {
	if WasPut(err) {
		return err
	}
	return failure.New("%s%s", what, failure.Text(err))
}

// WasPut reports whether an error is a fault that was injected.
func WasPut(err error) bool {
	var put injected
	return errors.As(err, &put)
}

// Config is a virtual machine's configuration, which must lie with the host at work.
func (j *Errand) Config(id int) (*Guest, error) {
	if m := j.World.VMAt(j.Host, id); m != nil {
		return m, nil
	}
	return nil, failure.New("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", j.Host.Name, id)
}

// Running reports whether a virtual machine runs on the host at work.
func (j *Errand) Running(id int) (bool, error) {
	if m := j.World.VMAt(j.Host, id); m != nil {
		return m.Running(), nil
	}
	return false, failure.New("unable to find configuration file for VM %d on node '%s'", id, j.Host.Name)
}

// Quorate refuses what no host may do that has lost the majority.
func (j *Errand) Quorate() error {
	return j.World.NeedQuorum(j.Host)
}

// daemonPID is of the worker of pvedaemon that makes a call.
const daemonPID = 78

// Write refuses to write a configuration file where the cluster's file system is read-only. It
// comes before every change, so that without quorum nothing changes.
func (j *Errand) Write(id int) error {
	pid := daemonPID
	if j.Task != nil {
		pid = j.Task.PID
	}
	return j.World.canWrite(j.Process, j.Host, fmt.Sprintf("nodes/%s/qemu-server/%d.conf", j.Host.Name, id), pid)
}

// LockFile is the lock on the configuration of a virtual machine.
func LockFile(id int) string { return fmt.Sprintf("/var/lock/qemu-server/lock-%d.conf", id) }

// Locked does something while it holds the lock on a virtual machine's configuration.
func (j *Errand) Locked(id int, limit time.Duration, do func() error) error {
	l := j.Host.File(id)
	if err := j.Lock(l, limit, LockFile(id)); err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}

// All are the privileges that the caller must have on a path.
func (by *Caller) All(path string, privs ...string) error {
	for _, priv := range privs {
		if !by.World.Access.May(by.Who, path, priv) {
			return failure.Denied("%s, %s", path, priv)
		}
	}
	return nil
}

// OneOf are privileges of which the caller must have one.
func (by *Caller) OneOf(path string, privs ...string) error {
	if slices.ContainsFunc(privs, func(priv string) bool { return by.World.Access.May(by.Who, path, priv) }) {
		return nil
	}
	return failure.Denied("%s, %s", path, strings.Join(privs, "|"))
}

// OnVM are privileges that the caller must have on a virtual machine, or on the pool that it is to
// be in.
func (by *Caller) OnVM(id int, pool string, privs ...string) error {
	if pool != "" && by.All("/pool/"+pool, privs...) == nil {
		return nil
	}
	return by.All(VMPath(id), privs...)
}

// VMPath is the path of a virtual machine in access lists.
func VMPath(id int) string { return "/vms/" + strconv.Itoa(id) }

// IsRoot is the administrator with a ticket: not even a token of theirs may all that they may.
func (by *Caller) IsRoot() bool { return by.Who.User == access.RootUser && by.Who.Token == "" }

// EndTask asks a task to end, and kills it if it does not.
func (j *Errand) EndTask(t *Task) {
	if !t.Running() {
		return
	}
	t.interrupted = true
	for range endLimits {
		if j.Process.Wait(endLooks, nil); !t.Running() {
			return
		}
	}
	t.p.Kill()
}

// How a task is ended: it is asked to, looked at once a second, and killed if it does not listen.
const (
	endLooks  = time.Second
	endLimits = 5
)
