package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

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

// publish writes statuses and events. Statuses are written beside the next steps: what went wrong
// with some since the last step is a problem of this one.
func (t *term) publish(ctx context.Context, d *desk, s *loop.Step, m *counted) error {
	errs := t.statuses.failures()
	for _, err := range errs {
		s.Problems = append(s.Problems, *because(CodeStatusNotWritten, "%v", err))
	}
	all := t.statements(d, s, m)
	about := make([]client.Object, len(all))
	for i, o := range all {
		about[i], t.said[o.about.GetUID()] = o.about, o.status
		for _, e := range o.events {
			t.Cluster.About(o.about, e)
		}
	}
	t.statuses.write(&t.beside, about, func(o client.Object) error { return t.Cluster.SetStatus(ctx, o) })
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

// writers is how many statuses are written at once.
const writers = 8

// statuses writes statuses beside the steps, and of each object only the latest: those of some
// hundred objects may take longer than all the rest of a step.
type statuses struct {
	mu      sync.Mutex
	working int
	waiting []client.Object // oldest first
	busy    map[types.UID]bool
	failed  []error
}

// write has statuses written, by goroutines that beside starts.
func (w *statuses) write(beside *sync.WaitGroup, all []client.Object, set func(client.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := make(map[types.UID]int, len(w.waiting))
	for i, o := range w.waiting {
		at[o.GetUID()] = i
	}
	for _, o := range all {
		if i, waits := at[o.GetUID()]; waits {
			w.waiting[i] = o
		} else {
			w.waiting = append(w.waiting, o)
		}
	}
	for ; w.working < min(writers, len(w.waiting)); w.working++ {
		beside.Go(func() { w.work(set) })
	}
}

// work writes until nothing waits but what others write an earlier status of: they go on with it.
func (w *statuses) work(set func(client.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		i := slices.IndexFunc(w.waiting, func(o client.Object) bool { return !w.busy[o.GetUID()] })
		if i < 0 {
			w.working--
			return
		}
		o := w.waiting[i]
		w.waiting = slices.Delete(w.waiting, i, i+1)
		if w.busy == nil {
			w.busy = map[types.UID]bool{}
		}
		w.busy[o.GetUID()] = true
		w.mu.Unlock()
		err := set(o)
		w.mu.Lock()
		delete(w.busy, o.GetUID())
		if err != nil {
			w.failed = append(w.failed, fmt.Errorf("%s %s: %w", kindOf(o), o.GetName(), err))
		}
	}
}

// failures are those since they were last asked for.
func (w *statuses) failures() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := w.failed
	w.failed = nil
	return failed
}

func (t *term) floor(m *counted) *floor {
	f := &floor{known: m.err == nil, machines: m.state.Machines, nodes: m.nodes, prices: t.prices}
	if m.err != nil {
		f.why, f.untried = m.err.Error(), errors.Is(m.err, loop.ErrUnread)
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

// headroomReporter is a Cluster that writes what became of headroom into the objects that ask for
// it.
type headroomReporter interface {
	ReportHeadroom(ctx context.Context, states []nodescaler.HeadroomState) error
}

// reportHeadroom has what became of headroom written, where this process decides on machines.
func (t *term) reportHeadroom(ctx context.Context, s *loop.Step) {
	to, can := t.Cluster.(headroomReporter)
	if !can || !t.NodeScaler {
		return
	}
	if err := to.ReportHeadroom(ctx, s.Plan.Headroom); err != nil && t.Active {
		s.Problems = append(s.Problems, *because(CodeStatusNotWritten, "%v", err))
	}
}
