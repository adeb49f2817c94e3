package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// patience is how long a part may take to answer, on a machine that is busy with other things.
	// The control plane starts two servers, one after the other, and allows each 5 minutes.
	patience = 11 * time.Minute
	// farewell is how long a part may take to stop in good order.
	farewell = 20 * time.Second
)

// Status reports every part, the control plane first.
func (l *Lab) Status() []Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Status, 0, len(l.members))
	for _, m := range l.members {
		all = append(all, m.status)
	}
	return all
}

// Add starts one more part, as the last.
func (l *Lab) Add(ctx context.Context, p Part) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	if err := l.build(ctx, p); err != nil {
		return err
	}
	if err := l.admit(p); err != nil {
		return err
	}
	return l.startMember(ctx, l.members[len(l.members)-1])
}

// Start starts a part that is down again, with its data and at its address.
func (l *Lab) Start(ctx context.Context, part string) error {
	return l.change(part, func(m *member) error { return l.startMember(ctx, m) })
}

// Stop stops one part in good order and leaves the others up.
func (l *Lab) Stop(ctx context.Context, part string) error {
	return l.change(part, func(m *member) error { return l.stopMember(ctx, m) })
}

// Kill ends one part as a crash would.
func (l *Lab) Kill(part string) error {
	return l.change(part, l.killMember)
}

// change does something to one member, when nothing else is done to any.
func (l *Lab) change(part string, do func(*member) error) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	m, err := l.member(part)
	if err != nil {
		return err
	}
	return errors.Join(do(m), l.record())
}

func (l *Lab) member(name string) (*member, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		if m.status.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("the lab has no part %q", name)
}

// running is what a member runs as, or nil.
func (l *Lab) running(m *member) *Running {
	l.mu.Lock()
	defer l.mu.Unlock()
	return m.running
}

// set notes how far a member has come.
func (l *Lab) set(m *member, s Status, r *Running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Since = time.Now()
	m.status, m.running = s, r
}

// takeOff notes that a member was asked to stop, and returns what it ran as, or nil.
func (l *Lab) takeOff(m *member) *Running {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := m.running
	if r != nil {
		m.running = nil
		m.status = Status{Name: m.status.Name, State: StateStopped, Since: time.Now()}
	}
	return r
}

// startMember starts a member unless it is up.
func (l *Lab) startMember(ctx context.Context, m *member) error {
	name := m.part.Name()
	if l.running(m) != nil {
		return nil
	}
	begun := time.Now()
	l.set(m, Status{Name: name, State: StateStarting}, nil)
	if err := l.record(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not answer within %s", patience))
	defer cancel()
	r, err := m.part.Start(ctx, l)
	if err != nil {
		l.set(m, Status{Name: name, State: StateEnded, Fault: err.Error()}, nil)
		return fmt.Errorf("%s: %w", name, err)
	}
	l.set(m, Status{Name: name, State: StateUp, PID: r.PID, Endpoints: r.Endpoints}, r)
	if r.Ended != nil {
		go l.watch(m, r)
	}
	l.progress(fmt.Sprintf("%s is up after %.1f s", name, time.Since(begun).Seconds()))
	return l.record()
}

// stopMember stops a member if it is up.
func (l *Lab) stopMember(ctx context.Context, m *member) error {
	r := l.takeOff(m)
	if r == nil {
		return nil
	}
	begun := time.Now()
	if err := r.Stop(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.part.Name(), err)
	}
	l.progress(fmt.Sprintf("%s is stopped after %.1f s", m.part.Name(), time.Since(begun).Seconds()))
	return nil
}

// killMember kills a member if it is up.
func (l *Lab) killMember(m *member) error {
	if r := l.running(m); r != nil && r.Kill == nil {
		return fmt.Errorf("%s: it cannot be killed alone", m.part.Name())
	}
	r := l.takeOff(m)
	if r == nil {
		return nil
	}
	return r.Kill()
}

// watch notes that a member has ended by itself.
func (l *Lab) watch(m *member, r *Running) {
	err, open := <-r.Ended
	if !open {
		return // it was stopped
	}
	l.mu.Lock()
	ours := m.running == r
	if ours {
		m.running = nil
		m.status = Status{Name: m.status.Name, State: StateEnded, Since: time.Now(), Fault: fmt.Sprint(err)}
	}
	l.mu.Unlock()
	if ours {
		l.progress(fmt.Sprintf("%s has ended: %v", m.part.Name(), err))
		if err := l.record(); err != nil {
			l.progress(err.Error())
		}
	}
}
