package signals

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// job is one request of a round.
type job struct {
	flow flow
	// unit is what is measured whole or not at all: what was not finished begins with it the next
	// time.
	unit string
	// limit is how long it may take.
	limit time.Duration
	// run makes the request. Its error is one of the server's, or nil.
	run func(ctx context.Context) error
	// refused is given what keeps the job from being run.
	refused func(why error)

	order int // in which it was begun
}

// flow is what is asked of one server for one namespace, empty for what is ours.
type flow struct{ namespace, server string }

// errPutOff is what there is of a job whose turn did not come, or not in time to be finished.
var errPutOff = errors.New("not asked yet: its turn comes in one of the next rounds")

// line is where jobs wait that share slots. Each namespace has the same part of the slots, however
// many jobs others queue; within it the servers take turns. What was not finished comes first in
// the next round.
type line struct {
	slots, perFlow int
	// A job that had less before the round ended was not long enough to count.
	enough time.Duration

	mu       sync.Mutex
	freed    *sync.Cond
	tenants  []*tenant
	next     int
	from     start            // the namespace to begin with
	within   map[string]start // and of each namespace the server
	began    int              // jobs of this round
	cut      map[string]*job  // by namespace: the first that the end of the round cut short
	share    int              // of the slots, a namespace's
	breakers map[flow]*breaker
	resume   map[flow]string // the unit that comes first
}

func newLine(slots, perFlow int, enough time.Duration) *line {
	l := &line{slots: slots, perFlow: perFlow, enough: enough, breakers: map[flow]*breaker{}, resume: map[flow]string{}, within: map[string]start{}, cut: map[string]*job{}}
	l.freed = sync.NewCond(&l.mu)
	return l
}

// tenant is a namespace with its servers.
type tenant struct {
	name    string
	streams []*stream
	next    int
	busy    int
}

// stream is a flow's jobs in order.
type stream struct {
	flow    flow
	jobs    []*job
	units   []string // of all of them
	busy    int
	breaker *breaker
	undone  map[string]bool // units
}

// run does jobs until all are done or the round ends.
func (l *line) run(ctx context.Context, now time.Time, jobs []*job) {
	l.sort(jobs)
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.freed.Broadcast()
	})()
	var wg sync.WaitGroup
	for range min(l.slots, len(jobs)) {
		wg.Go(func() {
			for t, s, j := l.take(ctx, now); j != nil; t, s, j = l.take(ctx, now) {
				hung, cut := j.do(ctx, l.enough)
				l.done(now, t, s, j, hung, cut)
			}
		})
	}
	wg.Wait()
	l.putOff()
}

// do runs a job. One that the end of the round cut short is neither done nor has it failed.
func (j *job) do(ctx context.Context, enough time.Duration) (hung, cut bool) {
	one, cancel := context.WithTimeout(ctx, j.limit)
	defer cancel()
	began := time.Now()
	err := j.run(one)
	if err != nil && ctx.Err() != nil && time.Since(began) < min(enough, j.limit) {
		j.refused(errPutOff)
		return false, true
	}
	var f *failure
	return errors.As(err, &f) && f.hung, false
}

// sort puts the jobs in line.
func (l *line) sort(jobs []*job) {
	byFlow, byName := map[flow]*stream{}, map[string]*tenant{}
	l.tenants, l.next = nil, 0
	for _, j := range jobs {
		s := byFlow[j.flow]
		if s == nil {
			if l.breakers[j.flow] == nil {
				l.breakers[j.flow] = &breaker{}
			}
			s = &stream{flow: j.flow, breaker: l.breakers[j.flow], undone: map[string]bool{}}
			byFlow[j.flow] = s
			t := byName[j.flow.namespace]
			if t == nil {
				t = &tenant{name: j.flow.namespace}
				byName[t.name] = t
				l.tenants = append(l.tenants, t)
			}
			t.streams = append(t.streams, s)
		}
		s.jobs = append(s.jobs, j)
	}
	slices.SortFunc(l.tenants, func(a, b *tenant) int { return l.from.compare(a.name, b.name) })
	for _, t := range l.tenants {
		slices.SortFunc(t.streams, func(a, b *stream) int { return l.within[t.name].compare(a.flow.server, b.flow.server) })
	}
	clear(l.within)
	clear(l.cut)
	l.began = 0
	l.share = max(1, l.slots/max(1, len(l.tenants)))
	for _, s := range byFlow {
		if i := slices.IndexFunc(s.jobs, func(j *job) bool { return j.unit == l.resume[s.flow] }); i > 0 {
			s.jobs = slices.Concat(s.jobs[i:], s.jobs[:i])
		}
		for _, j := range s.jobs {
			s.units = append(s.units, j.unit)
		}
	}
	clear(l.resume)
}

// start is where a round begins among names: behind one that was served, or with one that was not.
type start struct {
	name string
	with bool
}

// compare orders names from the start on, and round to it.
func (p start) compare(a, b string) int {
	later := func(name string) bool { return name > p.name || p.with && name == p.name }
	switch first, second := later(a), later(b); {
	case first == second && a == b:
		return 0
	case first == second && a < b, first && !second:
		return -1
	}
	return 1
}

// take waits for the next job that may be run, nil if there are no more.
func (l *line) take(ctx context.Context, now time.Time) (*tenant, *stream, *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return nil, nil, nil
		}
		waiting := false
		for i := range l.tenants {
			at := (l.next + i) % len(l.tenants)
			t := l.tenants[at]
			s, more := t.pick(l.perFlow, l.share, now)
			waiting = waiting || more
			if s == nil {
				continue
			}
			j := s.jobs[0]
			s.jobs = s.jobs[1:]
			s.busy++
			t.busy++
			l.next, l.from, l.within[t.name] = (at+1)%len(l.tenants), start{name: t.name}, start{name: s.flow.server}
			l.began++
			j.order = l.began
			return t, s, j
		}
		if !waiting {
			return nil, nil, nil
		}
		l.freed.Wait()
	}
}

// pick is the next of a namespace's servers with a job that may be run now, and whether any waits.
// The jobs of a server that is not asked at present are refused.
func (t *tenant) pick(perFlow, share int, now time.Time) (found *stream, waiting bool) {
	for i := range t.streams {
		at := (t.next + i) % len(t.streams)
		s := t.streams[at]
		if len(s.jobs) > 0 && s.busy == 0 && !s.breaker.admits(now) {
			for _, j := range s.jobs {
				j.refused(errOpen)
			}
			s.jobs = nil
		}
		if len(s.jobs) == 0 {
			continue
		}
		waiting = true
		most := perFlow
		if s.breaker.hung > 0 {
			most = 1 // which finds out whether the server is there
		}
		if found == nil && t.busy < share && s.busy < most {
			found, t.next = s, (at+1)%len(t.streams)
		}
	}
	return found, waiting
}

func (l *line) done(now time.Time, t *tenant, s *stream, j *job, hung, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.busy--
	s.busy--
	if cut {
		s.undone[j.unit] = true
		if first := l.cut[t.name]; first == nil || j.order < first.order {
			l.cut[t.name] = j
		}
	} else {
		s.breaker.settle(now, hung)
	}
	l.freed.Broadcast()
}

// putOff refuses what is left, and has it come first in the next round. A round that began behind
// what was cut short would cut the same each time.
func (l *line) putOff() {
	first := l.began + 1
	for namespace, j := range l.cut {
		l.within[namespace] = start{j.flow.server, true}
		if j.order < first {
			first, l.from = j.order, start{namespace, true}
		}
	}
	for _, t := range l.tenants {
		for _, s := range t.streams {
			for _, j := range s.jobs {
				s.undone[j.unit] = true
				j.refused(errPutOff)
			}
			if i := slices.IndexFunc(s.units, func(u string) bool { return s.undone[u] }); i >= 0 {
				l.resume[s.flow] = s.units[i]
			}
		}
	}
	l.tenants = nil
}

// forget lets go of servers that nothing names any more, once they would be asked again.
func (l *line) forget(now time.Time, named func(flow) bool) {
	for f, b := range l.breakers {
		if !named(f) && !now.Before(b.until) {
			delete(l.breakers, f)
		}
	}
}

// breaker leaves a server alone that does not answer in time, and asks it again at intervals, with
// one request first.
type breaker struct {
	opened bool
	hung   int // requests in a row that had no answer in time
	wait   time.Duration
	at     time.Time // it was opened
	until  time.Time
}

const (
	breakAfter   = 3
	shortestWait = 30 * time.Second
	longestWait  = 5 * time.Minute
)

var errOpen = &failure{
	word:   unreachable + ": it does not answer in time, and is asked again at intervals",
	detail: errors.New("it does not answer in time, and is asked again at intervals"),
}

// admits reports whether the server may be asked. A clock that was put back lets it.
func (b *breaker) admits(now time.Time) bool {
	return !b.opened || !now.Before(b.until) || now.Before(b.at)
}

// settle takes in what came of a request.
func (b *breaker) settle(now time.Time, hung bool) {
	if !hung {
		*b = breaker{}
		return
	}
	b.hung++
	switch {
	case b.opened && !b.admits(now): // a request that was under way when it was opened
	case b.opened:
		b.wait = min(2*b.wait, longestWait)
		b.at, b.until = now, now.Add(b.wait)
	case b.hung >= breakAfter:
		b.opened, b.wait = true, shortestWait
		b.at, b.until = now, now.Add(b.wait)
	}
}
