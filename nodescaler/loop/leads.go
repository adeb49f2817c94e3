package loop

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// leads are how long machines and replicas have taken to come. A restart forgets them, and then they
// are not known until some have come again.
type leads struct {
	machines, pods nodescaler.Recent
	// coming are the machines that are no nodes yet, by when they were ordered; created the pods by when they
	// were, and zero if how long they take says nothing: they waited for a node, or have been ready before.
	coming, created map[string]time.Time
	before          map[string]time.Time // the one of the step before the last: thousands of pods would else be a new one each step
}

// see takes in what has come since the step before. Pods that are there at the first sight were not seen to
// come: one that is not ready then may have been for days.
func (l *leads) see(s *nodescaler.Snapshot, machinesKnown bool) {
	if machinesKnown {
		l.seeMachines(s)
	}
	was, first := l.created, l.created == nil
	clear(l.before)
	l.created, l.before = l.before, was
	if l.created == nil {
		l.created = make(map[string]time.Time, len(s.Pods))
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Workload == "" || p.Terminating || p.Finished() {
			continue
		}
		since, known := was[p.Name]
		switch {
		case p.Ready && known && !since.IsZero():
			l.pods.Add(p.ReadyChanged.Sub(since))
			since = time.Time{}
		case first, p.Ready, p.Unschedulable:
			since = time.Time{}
		case !known:
			since = p.Created
		}
		l.created[p.Name] = since
	}
}

func (l *leads) seeMachines(s *nodescaler.Snapshot) {
	was := l.coming
	l.coming = map[string]time.Time{}
	for i := range s.Machines {
		m := &s.Machines[i]
		if !m.Woken.IsZero() { // it came from being a spare, which says nothing of one that is ordered
			continue
		}
		since, known := was[m.Name]
		switch m.Phase {
		case nodescaler.Ordered, nodescaler.Booting:
			if !known {
				since = m.Since
				if !m.Created.IsZero() {
					since = m.Created
				}
			}
			l.coming[m.Name] = since
		case nodescaler.Joined:
			if known {
				l.machines.Add(m.Since.Sub(since))
			}
		case nodescaler.Spare, nodescaler.Deleting, nodescaler.Failed:
		}
	}
}

// machine is how long it takes from an order to a replica that is ready on the machine.
func (l *leads) machine() time.Duration {
	if len(l.machines) == 0 {
		return 0
	}
	return l.machines.Usual() + l.pods.Usual()
}
