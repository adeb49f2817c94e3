package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Event is something that happened in a session.
type Event struct {
	At   time.Time
	Kind Kind
	Text string
	Why  string // the reason that decided it, if anybody decided it
	// Step is the record that explains it; empty where none does.
	Step  string
	State *State // of Status
}

// Kind is what kind of thing happened.
type Kind string

// The kinds of event.
const (
	Grown    Kind = "Grown"    // more replicas were asked for
	Shrunk   Kind = "Shrunk"   // fewer were
	Ordered  Kind = "Ordered"  // a machine was bought
	Joined   Kind = "Joined"   // a machine became a node
	Emptying Kind = "Emptying" // a node takes no new pods, and loses those it has
	Kept     Kind = "Kept"     // a node that was being emptied is kept after all
	Moved    Kind = "Moved"    // pods were moved off a node
	Returned Kind = "Returned" // a machine was reclaimed
	Trouble  Kind = "Trouble"  // something went wrong or could not be done
	Relief   Kind = "Relief"   // and is right again
	Fault    Kind = "Fault"    // the session's caller broke something
	Price    Kind = "Price"    // the session's caller changed the prices
	Status   Kind = "Status"   // nothing happened: this is the present state
)

// watch finds in the records what happened, by comparing each with the one before.
type watch struct {
	machines map[string]nodescaler.Phase
	ordered  map[string]time.Time
	away     map[string]bool // hosts
	problems map[string]bool // by code
}

// step returns what a record says has happened.
func (w *watch) step(s *loop.Step) []Event {
	first := w.machines == nil
	events := w.hosts(s)
	events = append(events, w.progress(s)...)
	events = append(events, w.failures(s)...)
	for i := range events {
		events[i].At = s.Time
	}
	if first { // what is there at the start has not happened
		return nil
	}
	decided := append(scaled(s), w.planned(s)...)
	for i := range decided {
		decided[i].At, decided[i].Step = s.Time, s.ID
	}
	return append(events, decided...)
}

// hosts says which hosts went away and came back.
func (w *watch) hosts(s *loop.Step) (events []Event) {
	if w.away == nil {
		w.away = map[string]bool{}
	}
	for i := range s.Observed.Hosts {
		h := &s.Observed.Hosts[i]
		switch {
		case !h.Online && !w.away[h.Name]:
			events = append(events, Event{Kind: Trouble, Text: h.Name + " is down"})
		case h.Online && w.away[h.Name]:
			events = append(events, Event{Kind: Relief, Text: h.Name + " is back"})
		}
		w.away[h.Name] = !h.Online
	}
	return events
}

// progress says which machines joined and which failed.
func (w *watch) progress(s *loop.Step) (events []Event) {
	if s.Observed.Machines == nil { // they could not be read: nothing is known to have happened
		return nil
	}
	now := map[string]nodescaler.Phase{}
	for i := range s.Observed.Hosts {
		h := &s.Observed.Hosts[i]
		for j := range h.Machines {
			m := &h.Machines[j]
			now[m.Name] = m.Phase
			if w.machines[m.Name] == m.Phase {
				continue
			}
			switch at, known := w.ordered[m.Name]; {
			case m.Phase == nodescaler.Failed:
				events = append(events, Event{Kind: Trouble, Text: m.Name + " failed, and will never join"})
			case m.Phase == nodescaler.Joined && known:
				events = append(events, Event{Kind: Joined, Text: fmt.Sprintf("%s joined on %s, %s after its order", m.Name, h.Name, s.Time.Sub(at).Round(time.Second))})
				delete(w.ordered, m.Name)
			case m.Phase == nodescaler.Joined:
				events = append(events, Event{Kind: Joined, Text: m.Name + " joined again"})
			}
		}
	}
	w.machines = now
	return events
}

// failures returns problems that are new, and those that are over. That the first step only looks
// does not count as one.
func (w *watch) failures(s *loop.Step) (events []Event) {
	now := map[string]bool{}
	for _, p := range s.Problems {
		if p.Code == loop.CodeLooking {
			continue
		}
		now[p.Code] = true
		if !w.problems[p.Code] {
			events = append(events, Event{Kind: Trouble, Text: p.String(), Step: s.ID})
		}
	}
	if w.problems[loop.CodeSignalsUnknown] && !now[loop.CodeSignalsUnknown] {
		// Between two runs of a policy no one reads its signals: only a run shows that they
		// are back.
		if ran(s) {
			events = append(events, Event{Kind: Relief, Text: "metrics are back"})
		} else {
			now[loop.CodeSignalsUnknown] = true
		}
	}
	w.problems = now
	return events
}

func ran(s *loop.Step) bool {
	return slices.ContainsFunc(s.Workloads, func(w loop.WorkloadStep) bool { return w.Decision != nil })
}

// scaled says which workloads got more replicas or fewer.
func scaled(s *loop.Step) (events []Event) {
	for i := range s.Workloads {
		d := s.Workloads[i].Decision
		if d == nil || d.To == d.From {
			continue
		}
		e := Event{Kind: Grown, Text: fmt.Sprintf("%s %d → %d replicas", d.Workload, d.From, d.To)}
		switch done := s.Rescaled(d.Workload); {
		case done != nil && done.Error != "":
			e.Kind, e.Text = Trouble, e.Text+": "+done.Error
		case d.To < d.From:
			e.Kind = Shrunk
		}
		e.Why = podscaler.Decisive(d.Reasons).Text
		events = append(events, e)
	}
	return events
}

// planned says what the plan did. Pods that were moved off one node are one event.
func (w *watch) planned(s *loop.Step) (events []Event) {
	moved := map[string]int{} // by node: the place of its event among events
	pods := map[string]int{}
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		if err, tried := outcome(s, i); !tried || err != "" {
			if err != "" {
				events = append(events, Event{Kind: Trouble, Text: fmt.Sprintf("%s: %s", a.Kind, err)})
			}
			continue
		}
		if a.Kind != nodescaler.Evict {
			events = append(events, w.done(s, a))
			continue
		}
		pods[a.Node]++
		if _, known := moved[a.Node]; !known {
			moved[a.Node] = len(events)
			events = append(events, Event{Kind: Moved})
		}
		events[moved[a.Node]].Text = fmt.Sprintf("%s moved off %s", pricing.Count(pods[a.Node], "pod"), a.Node)
	}
	return events
}

// done is the event of one action that was carried out.
func (w *watch) done(s *loop.Step, a *nodescaler.Action) Event {
	e := Event{}
	rate := a.Rate.Display(s.Observed.Cost.Unit)
	switch a.Kind {
	case nodescaler.Buy:
		if w.ordered == nil {
			w.ordered = map[string]time.Time{}
		}
		name := nodescaler.MachineName(a.Pool, a.Order)
		w.ordered[name] = s.Time
		e.Kind, e.Text = Ordered, fmt.Sprintf("%s ordered: %s on %s, +%s", name, a.Shape.Name, a.Host, rate)
	case nodescaler.Cordon:
		e.Kind, e.Text = Emptying, a.Node+" is being emptied"
	case nodescaler.Uncordon:
		e.Kind, e.Text = Kept, a.Node+" is kept after all"
	case nodescaler.Return:
		e.Kind, e.Text = Returned, fmt.Sprintf("%s reclaimed, %s", a.Machine, rate)
	case nodescaler.Stash:
		e.Kind, e.Text = Returned, fmt.Sprintf("%s stopped and kept, %s", a.Machine, rate)
	case nodescaler.Wake:
		e.Kind, e.Text = Ordered, fmt.Sprintf("%s woken, +%s", a.Machine, rate)
	case nodescaler.Reboot:
		e.Kind, e.Text = Emptying, a.Machine+" rebooted"
	case nodescaler.Evict, nodescaler.DeletePod: // shown with the node
	}
	if len(a.Reasons) > 0 {
		e.Why = a.Reasons[0].Text
	}
	return e
}

// outcome returns the error that came of an action, and whether it was tried.
func outcome(s *loop.Step, action int) (err string, tried bool) {
	for _, o := range s.Outcomes {
		if o.Action == action {
			return o.Error, true
		}
	}
	return "", false
}
