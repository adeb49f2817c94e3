package pve

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Tick makes one round: it looks, and then moves every machine that can be moved, without waiting
// for a task. It returns an error when the cluster could not be read; nothing is changed then. Two
// ticks at a time are one after the other.
func (f *Fleet) Tick(ctx context.Context) error {
	f.ticking.Lock()
	defer f.ticking.Unlock()
	f.lookout.readNodes(ctx)
	f.settler.settle()
	if f.lookDue() {
		if err := f.lookout.look(ctx); err != nil {
			return err
		}
		f.settler.settle()
		f.adoption.adopt(ctx)
	}
	if !f.cfg.Watch {
		f.moveAll(ctx)
	}
	return ctx.Err()
}

// lookDue reports whether what was seen is too old: when there is something to do, and now and then
// when there is not. Of pools that are new nothing was seen.
func (f *Fleet) lookDue() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view.seen == nil || f.view.failed != nil || len(f.lookout.unread()) > 0 {
		return true
	}
	age := f.cfg.Now().Sub(f.view.seen.At)
	if age < lookGap && age >= 0 {
		return false
	}
	if age >= idleGap || age < 0 || f.view.frozen != nil {
		return true
	}
	for _, m := range f.roster.machines {
		if !m.settled() && !m.booting() || m.Task != nil {
			return true
		}
	}
	return false
}

// maxMoves is how many moves a machine makes in one round, at most: more are a mistake of ours, and
// must not become a storm of calls.
const maxMoves = 8

// moveAll moves machines until none can be moved without a new look. Orders that arrive meanwhile
// are among them.
func (f *Fleet) moveAll(ctx context.Context) {
	f.mu.Lock()
	for _, m := range f.roster.machines {
		m.moves = 0
	}
	f.mu.Unlock()
	if f.cfg.Parallel == 1 {
		f.moveSome(ctx)
		return
	}
	var workers sync.WaitGroup
	for range f.cfg.Parallel {
		workers.Go(func() { f.moveSome(ctx) })
	}
	workers.Wait()
}

func (f *Fleet) moveSome(ctx context.Context) {
	for ctx.Err() == nil {
		w, mv := f.pick()
		if w == nil {
			return
		}
		w.do(ctx, mv)
		f.mu.Lock()
		w.m.busy = false
		f.mu.Unlock()
	}
}

// pick chooses the next machine to move, the oldest order first.
func (f *Fleet) pick() (*work, move) {
	f.mu.Lock()
	defer f.records.unlock()
	var t *turns
	for _, m := range f.roster.sorted() {
		if m.moves >= maxMoves || m.busy {
			continue
		}
		if m.unsaved && f.records.keep(m) != nil {
			continue
		}
		s := f.agenda.scene(m)
		if m.Step == StepOrdered && m.Gone.IsZero() && !s.frozen {
			if t == nil {
				t = f.agenda.turns()
			}
			s.slot = f.agenda.slot(t, m)
		}
		if mv := m.next(s); mv != moveWait {
			m.busy = true
			m.moves++
			return f.crew.workFor(m), mv
		}
	}
	return nil, moveWait
}

func (w *work) do(ctx context.Context, mv move) {
	switch mv {
	case moveClaim:
		making{w}.doClaim(ctx)
	case moveFind:
		making{w}.doFind(ctx)
	case moveVerify:
		making{w}.doVerify(ctx)
	case moveSeed:
		making{w}.doSeed(ctx)
	case moveConfigure:
		making{w}.doConfigure(ctx)
	case moveSize:
		making{w}.doSize(ctx)
	case moveStart:
		making{w}.doStart(ctx)
	case moveTidy:
		clearing{w}.doTidy(ctx)
	case moveExplain:
		clearing{w}.doExplain(ctx)
	case moveProbe:
		clearing{w}.doProbe(ctx)
	case moveRecall:
		clearing{w}.doRecall(ctx)
	case moveCancel:
		clearing{w}.doCancel(ctx)
	case moveStash:
		leaving{w}.doStash(ctx)
	case moveLeave:
		leaving{w}.doLeave(ctx)
	case moveConfirm:
		clearing{w}.doConfirm(ctx)
	case moveSweep:
		clearing{w}.doSweep(ctx)
	case moveForget:
		clearing{w}.doForget()
	case moveWait:
	}
}

// Pause is how long the next tick may be waited for: not at all when there is something to do now,
// a moment while machines are on their way, longer when all is quiet. After a look that failed it
// grows with each failure in a row.
func (f *Fleet) Pause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view.failed != nil {
		return min(lookGap<<min(f.view.failures, 5), longPause)
	}
	gap := idleGap
	for _, m := range f.roster.machines {
		if !m.settled() {
			gap = lookGap
		}
	}
	return gap
}

// booting reports whether a machine is left to itself until it is a node.
func (m *tracked) booting() bool {
	return m.Step == StepStarted && m.Task == nil && m.Returned.IsZero() && m.Failed == nil
}

// settled reports whether a machine is where it will stay until somebody does something.
func (m *tracked) settled() bool {
	switch {
	case !m.Gone.IsZero():
		return m.Disc == ""
	case m.Held != nil || !m.Frozen.IsZero() || slices.Contains(deferring, m.problem.Code):
		return true
	case !m.Returned.IsZero():
		return false
	case m.Failed != nil:
		return m.Last == "" || len(m.Hints) > 0
	case !m.Stashed.IsZero():
		return m.off
	}
	return m.Step == StepTidied
}

// Run ticks until the context ends: at once when an order arrives, soon while machines are on their
// way, and seldom otherwise. What goes wrong is told by events, and does not end it.
func (f *Fleet) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.records.wake:
		case <-timer.C:
		}
		_ = f.Tick(ctx) // told as an event by the look itself
		timer.Reset(f.Pause())
	}
}
