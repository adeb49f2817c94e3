package signals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Reader measures workloads and keeps what it measured.
type Reader struct {
	options Options
	pages   *door
	one     sync.Mutex // held by Prepare: there is one at a time
	lines   [lineCount]*line
	recall  sync.Mutex // held by Recall
	past    *line      // where its queries wait

	mu     sync.Mutex // guards what follows
	plan   *plan
	states map[string]*state
}

// state is what is known of a workload since the last Prepare.
type state struct {
	window   podscaler.Window
	findings []podscaler.Reason
	at       time.Time
	since    time.Time // since when there has been no gap
}

// New returns a reader that measures nothing until it is configured.
func New(o Options) *Reader {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Parallel = cmp.Or(o.Parallel, 16)
	o.MaxAge = cmp.Or(o.MaxAge, 2*time.Minute)
	o.MaxBytes = cmp.Or(o.MaxBytes, 32<<20)
	return &Reader{
		options: o, pages: &door{maxBytes: o.MaxBytes, secured: true}, lines: newLines(&o), plan: &plan{}, states: map[string]*state{},
		past: newLine(2, 1, patience(&o)),
	}
}

// Configure says which workloads are measured from now on, by name, and where from. What was
// measured of a workload that did not change is kept. The workloads whose source is at fault
// are not measured, and the error names all faults.
func (r *Reader) Configure(sources map[string]Source) error {
	var errs []error
	valid := map[string]*Source{}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		s := sources[name]
		if err := s.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		valid[name] = &s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.plan
	for name, s := range old.sources {
		if valid[name] != nil && reflect.DeepEqual(s, valid[name]) {
			valid[name] = s
		}
	}
	if maps.Equal(valid, old.sources) {
		return errors.Join(errs...) // as at most steps
	}
	r.plan = newPlan(valid, &r.options, old)
	for name := range r.states {
		if s := r.plan.sources[name]; s == nil || s != old.sources[name] {
			delete(r.states, name)
		}
	}
	return errors.Join(errs...)
}

// Prepare measures all workloads, and returns when that is done or has taken as long as it may:
// what has not been answered by then is unknown. now is the time of the step that it is for.
func (r *Reader) Prepare(ctx context.Context, now time.Time) {
	r.one.Lock()
	defer r.one.Unlock()
	r.mu.Lock()
	p := r.plan
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	measured := p.measure(newRound(ctx, now, r))
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range measured {
		if m.putOff && r.states[name].fresh(now, r.options.MaxAge) {
			continue
		}
		if r.plan.sources[name] == p.sources[name] { // else it was configured anew meanwhile
			r.states[name] = r.states[name].next(m, now, r.options.MaxAge)
			r.states[name].window.Over = p.sources[name].over()
		}
	}
}

func newRound(ctx context.Context, now time.Time, r *Reader) *round {
	return &round{
		ctx: ctx, now: now, options: &r.options, pages: r.pages, lines: r.lines,
		measured: map[string]*measurement{}, answers: map[*endpoint][]*answer{}, units: map[unit][]asked{}, opened: map[*endpoint]func(context.Context) error{},
		all: &room{left: maxKeptGroup}, own: &room{left: maxKeptAll}, rooms: map[tenure]*room{},
	}
}

// fresh reports whether what was measured before still counts, where a workload's turn did not
// come.
func (s *state) fresh(now time.Time, maxAge time.Duration) bool {
	return s != nil && now.Sub(s.at) <= maxAge && !now.Before(s.at)
}

// next is the state after a measurement. A time without any is a gap, too.
func (s *state) next(m *measurement, now time.Time, maxAge time.Duration) *state {
	n := &state{window: rounded(m.window), findings: m.reasons(), at: now, since: now}
	if !m.gap && s.fresh(now, maxAge) {
		n.since = s.since
	}
	n.window.Since = n.since
	return n
}

// rounded is what was measured, without digits that mean nothing. They would be a sixth of a
// recording.
func rounded(w podscaler.Window) podscaler.Window {
	for _, r := range []*podscaler.Reading{&w.Latency, &w.Good, &w.Arrivals, &w.InFlight, &w.Errors} {
		r.Value = podscaler.Rounded(r.Value)
	}
	return w
}

// Read returns what the last Prepare measured of a workload. It errs only for workloads that
// are not measured at all; in all other cases what is unknown says why.
func (r *Reader) Read(_ context.Context, w *podscaler.Workload, now time.Time) (podscaler.Window, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	source := r.plan.sources[w.Name]
	if source == nil {
		return podscaler.Window{}, fmt.Errorf("workload %s is not measured: its signals are not configured", w.Name)
	}
	s, why := r.states[w.Name], ""
	switch {
	case s == nil:
		why = "it has not been measured yet"
	case now.Sub(s.at) > r.options.MaxAge:
		why = fmt.Sprintf("it was last measured at %s, which is longer ago than %s", s.at.UTC().Format(time.TimeOnly), r.options.MaxAge)
	default:
		return s.window, nil
	}
	m := measurement{window: podscaler.Window{Since: now, Over: source.over()}}
	for _, signal := range []string{latency, good, arrivals, inFlight, errorRate} {
		m.reading(signal, podscaler.Reading{Why: why})
	}
	for _, series := range source.Spec.Metrics {
		m.metric(series.Name, podscaler.Metric{Why: why})
	}
	if source.Spec.Registration != nil {
		m.reading(registration, podscaler.Reading{Why: why})
	}
	return m.window, nil
}

// Findings returns what the last Prepare found amiss with a workload's signals, in a stable
// order. A finding's text stays the same as long as its cause does.
func (r *Reader) Findings(workload string) []podscaler.Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[workload]; s != nil {
		return slices.Clone(s.findings)
	}
	return nil
}
