package pvesim

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

// errand is a caller at work on a host: a task, or a call that answers when it is done. Both do the
// same things, but only a task has a log and can be interrupted.
type errand struct {
	caller
	patience
	host *host
}

// patience is how work lets time pass.
type patience struct {
	p *engine.Process
	t *task // nil for a call
	// heard is whether the task has taken note that it is to stop. What it does then to tidy up
	// is not interrupted again.
	heard bool
}

// work starts a task.
func (c *World) work(h *host, who *access.Identity, kind, id string, body func(j *errand) error) *task {
	return c.fork(h, who, kind, id, func(t *task) error {
		return body(&errand{caller: caller{c, who}, patience: patience{p: t.p, t: t}, host: h})
	})
}

func (j *patience) print(format string, args ...any) {
	if t := j.t; t != nil {
		t.print(format, args...)
	}
}

// errInterrupted is what a task ends with when a user stops it where it waits.
var errInterrupted = errors.New("received interrupt")

// pause lets time pass, unless the task is to stop.
func (j *patience) pause(d time.Duration) error {
	j.await(d, nil)
	if j.told() {
		j.heard = true
		return errInterrupted
	}
	return nil
}

// told reports whether a user wants the task to stop.
func (j *patience) told() bool { return j.t != nil && j.t.interrupted && !j.heard }

// doze lets time pass in which the task would not notice that it is to stop.
func (j *patience) doze(d time.Duration) { j.await(d, nil) }

// await lets time pass until ready, at most limit, and reports whether it is ready. A task that is
// to stop waits no longer.
func (j *patience) await(limit time.Duration, ready func() bool) bool {
	holds := func() bool { return ready != nil && ready() }
	if limit > 0 {
		j.p.Wait(limit, func() bool { return holds() || j.told() })
	}
	return holds()
}

// lock takes the lock on a file. A task that must wait says so.
func (j *patience) lock(l *engine.Flock, limit time.Duration, file string) error {
	return j.take(func() bool { return !l.Held && l.Shared == 0 }, func() { l.Held = true }, limit, file)
}

// share takes the lock on a file together with others.
func (j *patience) share(l *engine.Flock, limit time.Duration, file string) error {
	return j.take(func() bool { return !l.Held }, func() { l.Shared++ }, limit, file)
}

func (j *patience) take(free func() bool, take func(), limit time.Duration, file string) error {
	if !free() {
		j.print("trying to acquire lock...")
		if !j.await(limit, free) {
			if err := j.pause(0); err != nil {
				return err
			}
			return failure.New("can't lock file '%s' - got timeout", file)
		}
		j.print(" OK")
	}
	take()
	return nil
}

// injected is an error of a fault. It ends a task in its own words, not in those that the
// task has for other errors.
type injected struct{ text string }

func (e injected) Error() string { return e.text }

// stage lets what is to go wrong at this point of a task go wrong.
func (j *errand) stage(name string) error {
	if j.t == nil {
		return nil
	}
	err := j.c.taskFault(j.t, name)
	if errors.Is(err, errInterrupted) {
		j.heard = true
		return err
	}
	if err != nil {
		return injected{failure.Text(err)}
	}
	return nil
}

// because is an error that says what it comes from.
func because(what string, err error) error {
	if wasPut(err) {
		return err
	}
	return failure.New("%s%s", what, failure.Text(err))
}

func wasPut(err error) bool {
	var put injected
	return errors.As(err, &put)
}

// config is a virtual machine's configuration, which must lie with the host at work.
func (j *errand) config(id int) (*vm, error) {
	if m := j.c.vmAt(j.host, id); m != nil {
		return m, nil
	}
	return nil, failure.New("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", j.host.Name, id)
}

// running reports whether a virtual machine runs on the host at work.
func (j *errand) running(id int) (bool, error) {
	if m := j.c.vmAt(j.host, id); m != nil {
		return m.running(), nil
	}
	return false, failure.New("unable to find configuration file for VM %d on node '%s'", id, j.host.Name)
}

// quorate refuses what no host may do that has lost the majority.
func (j *errand) quorate() error {
	return j.c.needQuorum(j.host)
}

// daemonPID is of the worker of pvedaemon that makes a call.
const daemonPID = 78

// write refuses to write a configuration file where the cluster's file system is read-only. It
// comes before every change, so that without quorum nothing changes.
func (j *errand) write(id int) error {
	pid := daemonPID
	if j.t != nil {
		pid = j.t.pid
	}
	return j.c.canWrite(j.p, j.host, fmt.Sprintf("nodes/%s/qemu-server/%d.conf", j.host.Name, id), pid)
}

func lockFile(id int) string { return fmt.Sprintf("/var/lock/qemu-server/lock-%d.conf", id) }

// locked does something while it holds the lock on a virtual machine's configuration.
func (j *errand) locked(id int, limit time.Duration, do func() error) error {
	l := j.host.file(id)
	if err := j.lock(l, limit, lockFile(id)); err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}

// caller is who asks for something, and of which cluster.
type caller struct {
	c   *World
	who *access.Identity
}

// all are the privileges that somebody must have on a path.
func (by *caller) all(path string, privs ...string) error {
	for _, priv := range privs {
		if !by.c.access.May(by.who, path, priv) {
			return failure.Denied("%s, %s", path, priv)
		}
	}
	return nil
}

// oneOf are privileges of which somebody must have one.
func (by *caller) oneOf(path string, privs ...string) error {
	if slices.ContainsFunc(privs, func(priv string) bool { return by.c.access.May(by.who, path, priv) }) {
		return nil
	}
	return failure.Denied("%s, %s", path, strings.Join(privs, "|"))
}

// onVM are privileges that somebody must have on a virtual machine, or on the pool that it is to be
// in.
func (by *caller) onVM(id int, pool string, privs ...string) error {
	if pool != "" && by.all("/pool/"+pool, privs...) == nil {
		return nil
	}
	return by.all(vmPath(id), privs...)
}

func vmPath(id int) string { return "/vms/" + strconv.Itoa(id) }

// isRoot is the administrator with a ticket: not even a token of theirs may all that they may.
func (by *caller) isRoot() bool { return by.who.User == access.RootUser && by.who.Token == "" }

// endTask tells a task to end, and kills it if it does not.
func (j *errand) endTask(t *task) {
	if !t.running() {
		return
	}
	t.interrupted = true
	for range endLimits {
		if j.p.Wait(endLooks, nil); !t.running() {
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
