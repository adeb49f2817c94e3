package loop

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Expecter is a Cluster that makes known to whoever orders machines how many replicas a workload is
// expected to want beyond those that it is to have.
type Expecter interface {
	Expect(ctx context.Context, workload string, more int) error
}

// expectations decides what is made known of the workloads. At the first look nothing is decided,
// and so nothing is taken back. Where pods cannot be created, it may be for a ResourceQuota that
// placeholders have used up.
func (d *decider) expectations() {
	if !d.in.HandedOff || d.newCluster || d.newMachines {
		return
	}
	steps := make(map[string]*WorkloadStep, len(d.step.Workloads))
	for i := range d.step.Workloads {
		steps[d.step.Workloads[i].Workload] = &d.step.Workloads[i]
	}
	for i := range d.in.Workloads {
		w := &d.in.Workloads[i]
		if e := w.expectation(steps[w.Name]); e != nil {
			if s := d.scalers[w.Name]; s != nil && e.Held == nil {
				e.More = s.hopes.more(d.o.Time, e, cmp.Or(d.leads.machine(w.Name), usualLead))
			}
			if said, fails := d.o.Cluster.Failing[w.Name]; fails && e.Held == nil {
				e.Held = &nodescaler.Reason{Code: CodeReplicaFailure, Text: "pods cannot be created: " + said}
			}
			e.Workload = w.Name
			d.step.Expected = append(d.step.Expected, *e)
		}
	}
}

// expectation is what is expected of a workload. Nil leaves what was made known as it is: it was
// not the workload's turn, what it wants is not known, or everything about it is to stay as it is.
func (w *Workload) expectation(ws *WorkloadStep) *Expectation {
	switch {
	case w.Paused:
		return nil
	// one that may not grow wants no room to grow into
	case ws == nil || w.Pause.Replicas != nil || w.Pause.Up:
		return &Expectation{Held: w.Held}
	case w.Held == nil && ws.Held != nil: // it may not be done before people have approved it
		return &Expectation{To: ws.Decision.From, Held: ws.Held}
	case w.Held == nil && (ws.Decision == nil || !ws.Decision.Known):
		return nil
	case ws.Decision == nil:
		return &Expectation{Held: w.Held}
	}
	return &Expectation{More: max(ws.Decision.Ahead-ws.Decision.To, 0), To: ws.Decision.To, Held: w.Held}
}

// hopes are how many replicas were expected of late, oldest first; each above those after it. A
// machine is ordered for an expectation, and takes its time: taken back sooner, it would have no
// reason before it is there, and others would remove it.
type hopes []hope

type hope struct {
	at       time.Time
	replicas int
}

// usualLead is how long a machine is taken to need until some have come.
const usualLead = 3 * time.Minute

// more is how many replicas more than there are to be are expected, or were within the time that a
// machine takes. Where none may be asked for, what was expected is over.
func (h *hopes) more(now time.Time, e *Expectation, lead time.Duration) int {
	if e.To == 0 {
		*h = nil
		return e.More
	}
	all := slices.DeleteFunc(*h, func(x hope) bool { return now.Sub(x.at) > lead || x.replicas <= e.To+e.More })
	if e.More > 0 {
		all = append(all, hope{now, e.To + e.More})
	}
	if *h = all; len(all) == 0 {
		return 0
	}
	return max(all[0].replicas-e.To, 0)
}

// expect makes known what is expected.
func (p *Ports) expect(ctx context.Context, all []Expectation) {
	for i := range all {
		e := &all[i]
		c, can := p.Cluster.(Expecter)
		switch {
		case !can:
			e.Err = errors.New("what is expected cannot be made known here")
		case e.Held != nil:
			e.Err = c.Expect(ctx, e.Workload, 0)
		default:
			e.Err = c.Expect(ctx, e.Workload, e.More)
		}
		if e.Err != nil {
			e.Error = e.Err.Error()
		}
	}
}
