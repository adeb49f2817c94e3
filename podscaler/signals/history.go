package signals

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll/plimsoll/podscaler"
)

// recallTimeout is how long the shared Prometheus is waited for to evaluate a query over a week.
const recallTimeout = 30 * time.Second

// Recall reads what came of requests before now, by the query that measures it in each round, and
// hands over each workload's history, or why it has none, which is for the administrator's log. It
// does so from several goroutines, and returns when all were asked or the context is done. A
// workload whose turn has not come by then is to be asked for again.
func (r *Reader) Recall(ctx context.Context, now time.Time, lacks map[string]podscaler.Lack, got func(workload string, h *podscaler.History, err error)) {
	r.recall.Lock()
	defer r.recall.Unlock()
	r.mu.Lock()
	p := r.plan
	r.mu.Unlock()
	var jobs []*job
	named := map[flow]bool{}
	for _, name := range slices.Sorted(maps.Keys(lacks)) {
		q, err := p.past(name)
		if err != nil {
			got(name, nil, detailed(err))
			continue
		}
		limit := recallTimeout
		if q.endpoint.namespace != "" {
			limit = r.options.Timeout
		}
		of := flow{p.sources[name].Target.Namespace, q.endpoint.server.URL}
		named[of] = true
		jobs = append(jobs, &job{
			flow: of, unit: name, limit: limit,
			run: func(one context.Context) error {
				h, err := q.read(one, &r.options, now, lacks[name])
				if err == nil || ctx.Err() == nil {
					got(name, h, detailed(err))
				}
				return err
			},
			refused: func(why error) {
				if !errors.Is(why, errPutOff) {
					got(name, nil, detailed(why))
				}
			},
		})
	}
	r.past.forget(now, func(f flow) bool { return named[f] })
	r.past.run(ctx, now, jobs)
}

// detailed is an error with what a status must not say.
func detailed(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.detail
	}
	return err
}

// pastQuery asks for one workload's arrivals.
type pastQuery struct {
	endpoint *endpoint
	text     string
	sum      bool // a workload may be known by several services' names
}

// past is how a workload's arrivals are asked for by themselves.
func (p *plan) past(workload string) (*pastQuery, error) {
	if why, nowhere := p.nowhere[workload]; nowhere {
		return nil, errors.New(why)
	}
	for _, q := range p.own {
		if slices.ContainsFunc(q.uses, func(u use) bool { return u.workload == workload && u.signal == arrivals }) {
			return &pastQuery{endpoint: q.endpoint, text: q.text}, q.refused
		}
	}
	for _, g := range p.groups {
		for _, m := range g.members {
			if m.workload == workload {
				alone := *g
				alone.members = []member{m}
				return &pastQuery{endpoint: g.endpoint, text: alone.write(asksArrivals, 0), sum: true}, nil
			}
		}
	}
	return nil, errors.New("its arrivals are not read from a Prometheus, which would have the days past")
}

// pieceOfPast is how many readings are asked for at once. A server refuses, or takes long, by how
// many samples a query has in memory: of a day it has a seventh of what a week takes.
const pieceOfPast = 24 * 60

// read asks for the readings up to now.
func (q *pastQuery) read(ctx context.Context, o *Options, now time.Time, lack podscaler.Lack) (*podscaler.History, error) {
	e := q.endpoint
	if err := open(ctx, o, e.door, e.namespace, e.server); err != nil {
		return nil, err
	}
	h := &podscaler.History{End: now.Truncate(lack.Step), Step: lack.Step, Over: lack.Over}
	from := h.End.Add(-time.Duration(lack.Count-1) * lack.Step)
	var ranges [][]model.SamplePair
	for at := 0; at < lack.Count; at += pieceOfPast {
		d := newDecoding(ctx, nil, nil)
		d.ranged = true
		last := min(at+pieceOfPast, lack.Count) - 1
		a := e.exchange(ctx, e.ranges, url.Values{
			"query": {q.text}, "step": {strconv.FormatFloat(lack.Step.Seconds(), 'f', -1, 64)},
			"start": {unix(from.Add(time.Duration(at) * lack.Step))}, "end": {unix(from.Add(time.Duration(last) * lack.Step))},
		}, d)
		if a.err != nil {
			return nil, a.err
		}
		ranges = append(ranges, a.ranges...)
	}
	return h, q.fill(h, from, lack.Count, ranges)
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', 3, 64) }

// fill puts the values of an answer at their places. What would not be believed now was no
// measurement then.
func (q *pastQuery) fill(h *podscaler.History, from time.Time, count int, ranges [][]model.SamplePair) error {
	h.Arrivals = slices.Repeat([]float64{-1}, count)
	known := 0
	series := make([]int, count) // with a value then
	for _, values := range ranges {
		for _, v := range values {
			i := int((v.Timestamp.Time().Sub(from) + h.Step/2) / h.Step)
			if i < 0 || i >= count || nonsense(arrivals, float64(v.Value)) != "" {
				continue
			}
			if series[i]++; series[i] == 1 {
				h.Arrivals[i], known = 0, known+1
			}
			h.Arrivals[i] += float64(v.Value)
		}
	}
	for i, n := range series {
		if n > 1 && !q.sum {
			h.Arrivals[i], known = -1, known-1
		}
	}
	if known == 0 {
		return fmt.Errorf("its Prometheus has nothing of the last %s", time.Duration(count)*h.Step)
	}
	return nil
}
