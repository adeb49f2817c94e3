package loop

import (
	"context"
	"errors"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Expecter is a Cluster that makes known to whoever orders machines how many replicas a workload is
// expected to want beyond those that it is to have.
type Expecter interface {
	Expect(ctx context.Context, workload string, more int) error
}

// Expectation is what is made known of a workload. While it is held, nothing is asked for.
type Expectation struct {
	Workload string             `json:"workload"`
	More     int                `json:"more"`
	To       int                `json:"to"` // replicas that it is to have
	Held     *nodescaler.Reason `json:"held,omitempty"`
	Error    string             `json:"error,omitempty"`
	Err      error              `json:"-"`
}

// expectations decides what is made known of the workloads. At the first look nothing is decided,
// and so nothing is taken back.
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
	case w.Held == nil && (ws.Decision == nil || !ws.Decision.Known):
		return nil
	case ws.Decision == nil:
		return &Expectation{Held: w.Held}
	}
	return &Expectation{More: max(ws.Decision.Ahead-ws.Decision.To, 0), To: ws.Decision.To, Held: w.Held}
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
