package pvesim

import (
	"errors"
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
func (c *Cluster) work(h *host, who *access.Identity, kind, id string, body func(j *errand) error) *task {
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
