package operator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// recall gives the objects the statuses that were last stated, where they were: what is read of
// them may be older, and mere numbers are not written every time.
func (t *term) recall(o *objects) {
	said := map[types.UID]any{}
	for i, a := range o.autoscalers {
		if st, ok := t.said[a.UID].(v1alpha1.WorkloadAutoscalerStatus); ok {
			c := *a
			c.Status, o.autoscalers[i], said[a.UID] = st, &c, st
		}
	}
	for i, p := range o.pools {
		if st, ok := t.said[p.UID].(v1alpha1.VMPoolStatus); ok {
			c := *p
			c.Status, o.pools[i], said[p.UID] = st, &c, st
		}
	}
	for i, b := range o.books {
		if st, ok := t.said[b.UID].(v1alpha1.PriceBookStatus); ok {
			c := *b
			c.Status, o.books[i], said[b.UID] = st, &c, st
		}
	}
	t.said = said
}

// statement is what is to be said of an object.
type statement struct {
	about  client.Object // with its status
	status any
	events []kube.Event
}

// publish writes statuses and events.
func (t *term) publish(ctx context.Context, d *desk, s *loop.Step, m *counted) error {
	all := t.statements(d, s, m)
	errs := t.state(ctx, all)
	for i, o := range all {
		t.said[o.about.GetUID()] = o.status
		if errs[i] != nil {
			s.Problems = append(s.Problems, *because(CodeStatusNotWritten, "%s %s: %v", kindOf(o.about), o.about.GetName(), errs[i]))
		}
		for _, e := range o.events {
			t.Cluster.Tell(o.about, e)
		}
	}
	t.eventsAboutPods(s)
	t.eventsOfActions(s)
	return errors.Join(errs...)
}

// statements are what is to be said of every object after a step.
func (t *term) statements(d *desk, s *loop.Step, m *counted) []statement {
	var all []statement
	for _, w := range d.workloads {
		o := *w.object
		o.Status = w.status(s)
		events := w.events(s, &o.Status)
		t.noticeWorkload(w, &o.Status, events)
		all = append(all, statement{&o, o.Status, append(events, t.unheard(w)...)})
	}
	f := t.floor(m)
	for _, p := range d.pools {
		o := *p.object
		held := m.heldOf(p.object.Name)
		o.Status = p.status(s, f, held)
		t.noticePool(p, &o.Status)
		all = append(all, statement{&o, o.Status, append(p.events(s, &o.Status), heldEvents(held)...)})
	}
	for _, b := range d.books {
		o := *b.object
		o.Status = b.status(d)
		all = append(all, statement{&o, o.Status, b.events(&o.Status)})
	}
	t.forgetAlerts(d)
	return all
}

// writers is how many statuses are written at once. One after the other, those of some hundred
// objects would keep the next step waiting for longer than all the rest of this one took.
const writers = 8

// state writes the statuses, and returns what went wrong with each.
func (t *term) state(ctx context.Context, all []statement) []error {
	errs := make([]error, len(all))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(writers, len(all)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				errs[i] = t.Cluster.SetStatus(ctx, all[i].about)
			}
		})
	}
	group.Wait()
	return errs
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *v1alpha1.WorkloadAutoscaler:
		return v1alpha1.KindWorkloadAutoscaler
	case *v1alpha1.VMPool:
		return v1alpha1.KindVMPool
	}
	return v1alpha1.KindPriceBook
}

func (t *term) floor(m *counted) *floor {
	f := &floor{known: m.err == nil, machines: m.state.Machines, nodes: m.nodes, prices: t.prices}
	if m.err != nil {
		f.why = m.err.Error()
	}
	if t.fleet != nil {
		f.paused = map[string]nodescaler.Reason{}
		for name, refused := range m.state.Refused {
			if len(refused) > 0 && refused[0].All() {
				f.paused[name] = refused[0].Why
			}
		}
		f.braked = t.fleet.Braked()
	}
	return f
}
