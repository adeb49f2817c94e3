package signals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// The lines that jobs wait in. None has a slot of another's: pods that hang must not keep a
// Prometheus from being asked, nor owners' queries what a preset asks of the same server, nor
// servers that objects name anything but one another.
const (
	linePresets = iota // what we ask of the shared Prometheus
	lineQueries        // what owners ask of it
	lineOwn            // servers that objects name
	linePages          // of pods
	lineCount
)

// newLines are the lines of a reader. What waits for a server takes no more than a connection, so
// that of servers that objects name many may be waited for.
func newLines(o *Options) (all [lineCount]*line) {
	enough := patience(o)
	all[linePresets] = newLine(o.Parallel, o.Parallel, enough)
	all[lineQueries] = newLine(max(1, o.Parallel/2), o.Parallel, enough)
	all[lineOwn] = newLine(8*o.Parallel, 4, enough)
	all[linePages] = newLine(o.Parallel, o.Parallel, enough)
	return all
}

// patience is how long a server is waited for that an object names. All wait for a round, so that a
// server which never answers must not take all of its time.
func patience(o *Options) time.Duration { return o.Timeout * 3 / 5 }

// round is one measuring of everything: jobs that run side by side, each of which leaves what
// came of it where only it writes, and then sums that are made of them in order.
type round struct {
	ctx      context.Context
	now      time.Time
	options  *Options
	pages    *door // through which pages are read
	lines    [lineCount]*line
	jobs     [lineCount][]*job
	measured map[string]*measurement
	answers  map[*endpoint][]*answer
	units    map[unit][]asked
	opened   map[*endpoint]func(ctx context.Context) error
	all, own *room            // what answers to ours and presets' queries may take, and to owners'
	rooms    map[tenure]*room // and those to a namespace
}

// tenure is a namespace's part of the room for presets' answers, or for owners'.
type tenure struct {
	namespace string
	own       bool
}

func (r *round) add(line int, j *job) { r.jobs[line] = append(r.jobs[line], j) }

// room is what answers may take, with no namespace to ours. What owners ask, or servers that they
// name answer, leaves the room alone that presets' answers have.
func (r *round) room(t tenure) *room {
	if t.namespace == "" {
		return r.all
	}
	above := r.all
	if t.own {
		above = r.own
	}
	if r.rooms[t] == nil {
		r.rooms[t] = &room{left: maxKeptOwn, above: above}
	}
	return r.rooms[t]
}

// run does the jobs of all lines side by side.
func (r *round) run() {
	var wg sync.WaitGroup
	for i, l := range r.lines {
		named := map[flow]bool{}
		for _, j := range r.jobs[i] {
			named[j.flow] = true
		}
		l.forget(r.now, func(f flow) bool { return named[f] })
		wg.Go(func() { l.run(r.ctx, r.now, r.jobs[i]) })
	}
	wg.Wait()
}

// complain has the log say what is wrong with each Prometheus.
func (r *round) complain() {
	for e, all := range r.answers {
		var err error
		for _, a := range all {
			switch {
			case err != nil:
			case a.err != nil:
				err = a.err
			case a.warnings != "":
				err = invalid("it warns: %s", a.warnings)
			}
		}
		e.complaint.hear(r.options.Log, e.namespace, e.server.URL, err)
	}
}

// request is a query, and what of its answer is kept.
type request struct {
	text      string
	labels    []string
	namespace string // for which it is asked, empty for ours
	unit      string // what is measured by it
	owned     bool   // an owner wrote it
}

// unit is queries that are measured whole or not at all.
type unit struct {
	line int
	flow flow
	name string
}

// query adds a query to the round; its answer is there when the jobs are done.
func (r *round) query(e *endpoint, q *request) *answer {
	line := linePresets
	switch {
	case e.namespace != "":
		line = lineOwn
	case q.owned:
		line = lineQueries
	}
	of := unit{line, flow{q.namespace, e.server.URL}, q.unit}
	keep, key := r.room(tenure{q.namespace, line != linePresets}), askedKey{line, q.namespace, q.text, strings.Join(q.labels, " ")}
	one, there := e.kept[key]
	if age := r.now.Sub(one.at); !there || age < 0 || age > r.options.MaxAge || !keep.take(one.answer.size) {
		one = asked{endpoint: e, key: key, answer: &answer{code: CodeMetricsUnknown}, at: r.now}
		r.add(line, r.job(e, q, of, keep, one.answer))
	}
	r.answers[e], r.units[of] = append(r.answers[e], one.answer), append(r.units[of], one)
	return one.answer
}

// job asks a query.
func (r *round) job(e *endpoint, q *request, of unit, keep *room, a *answer) *job {
	open, limit := r.open(e), r.options.Timeout
	if e.namespace != "" {
		limit = patience(r.options)
	}
	return &job{
		flow: of.flow, unit: of.name, limit: limit,
		run: func(ctx context.Context) error {
			if a.err = open(ctx); a.err != nil {
				return a.err
			}
			if *a = e.ask(ctx, q.text, q.labels, keep); a.err == nil {
				a.old(r.now, r.options.MaxAge)
				return nil
			}
			return a.err
		},
		refused: func(why error) { *a = answer{code: CodeMetricsUnknown, err: why} },
	}
}

// old makes an error of an answer that speaks of another time: from a cache, or because one of
// the two clocks is wrong.
func (a *answer) old(now time.Time, maxAge time.Duration) {
	for _, s := range a.vector {
		if age := now.Sub(s.Timestamp.Time()); age > maxAge {
			a.vector, a.code = nil, CodeMetricsStale
			a.err = fmt.Errorf("the answer is %s old by this clock, must be at most %s", age.Round(time.Minute), maxAge)
			return
		}
	}
}

// keep keeps for the next round what was answered of a unit of which the rest was put off. Where no
// round has time for a whole unit of each namespace, none would ever be measured without it.
func (r *round) keep() {
	for e := range r.answers {
		e.kept = map[askedKey]asked{}
	}
	for _, all := range r.units {
		if !slices.ContainsFunc(all, func(one asked) bool { return errors.Is(one.answer.err, errPutOff) }) {
			continue
		}
		for _, one := range all {
			if one.answer.err == nil {
				one.endpoint.kept[one.key] = one
			}
		}
	}
}

// open reads the credentials of a Prometheus once in a round.
func (r *round) open(e *endpoint) func(ctx context.Context) error {
	if r.opened[e] == nil {
		once := sync.Once{}
		var err error
		r.opened[e] = func(ctx context.Context) error {
			once.Do(func() { err = open(ctx, r.options, e.door, e.namespace, e.server) })
			return err
		}
	}
	return r.opened[e]
}

// open reads what a server wants to see.
func open(ctx context.Context, o *Options, d *door, namespace string, server Prometheus) error {
	var c Credentials
	if o.Credentials != nil {
		var err error
		if c, err = o.Credentials(ctx, namespace, server); err != nil {
			return fmt.Errorf("its credentials cannot be read: %w", err)
		}
	}
	return d.open(c)
}

// Options are what a Reader is made with. All of them may be omitted.
type Options struct {
	// Prometheus is asked for the workloads that name none of their own.
	Prometheus *Prometheus
	// Credentials returns what a Prometheus, or a service registry in the shape of one, wants to
	// see. It is called once for each in every Prepare, so that a changed token counts at once.
	// namespace is that of the workload that names p, and empty for the one above.
	Credentials func(ctx context.Context, namespace string, p Prometheus) (Credentials, error)
	// Pods returns the pods whose pages may be scraped.
	Pods func() []Pod
	// ScrapeCredentials are for all pages that are scraped over https; no other sees them.
	ScrapeCredentials func(ctx context.Context) (Credentials, error)
	// Access says what objects may make this program ask; empty, they name no server of their own.
	Access Access
	// Log is for the administrator, who reads there what servers say; nil logs nothing.
	Log *slog.Logger
	// NodePrices returns what the price book asks for each node, in units an hour.
	NodePrices func() map[string]float64

	Timeout  time.Duration // the longest that a Prepare takes; 0 is 5s
	Parallel int           // queries that one server is asked at once, and as many pages; 0 is 16
	MaxAge   time.Duration // older measurements and samples are stale; 0 is 2m
	MaxBytes int64         // of an answer; 0 is 32 MiB
}

// Pod is a pod whose metrics page may be read.
type Pod struct {
	Workload string // whose pod it is, by the podscaler.Workload's name
	Name     string
	Address  string // its IP
	Ready    bool
	Started  time.Time // when its containers started; zero if that is not known
}
