package loop

import (
	"maps"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// leads are how long machines and replicas have taken to come. A restart forgets them, and then they
// are not known until some have come again.
type leads struct {
	machines, pods nodescaler.Recent
	coming         map[string]time.Time // the machines that are no nodes yet, by when they were ordered
	created        map[string]*arrival  // pods
	steps          int
}

// arrival is a pod that was seen.
type arrival struct {
	// since is when it was created, and zero if how long it takes says nothing: it waited for a node, or has been
	// ready before.
	since time.Time
	step  int // that saw it last
}

// see takes in what has come since the step before. Pods that are there at the first sight were not seen to
// come: one that is not ready then may have been for days.
func (l *leads) see(s *nodescaler.Snapshot, machinesKnown bool) {
	if machinesKnown {
		l.seeMachines(s)
	}
	first, there := l.created == nil, 0
	if first {
		l.created = make(map[string]*arrival, len(s.Pods))
	}
	l.steps++
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Workload == "" || p.Terminating || p.Finished() {
			continue
		}
		there++
		a := l.created[p.Name]
		if a == nil {
			a = &arrival{since: p.Created}
			l.created[p.Name] = a
		} else if p.Ready && !a.since.IsZero() {
			l.pods.Add(p.ReadyChanged.Sub(a.since))
		}
		if a.step = l.steps; first || p.Ready || p.Unschedulable {
			a.since = time.Time{}
		}
	}
	if len(l.created) > there {
		maps.DeleteFunc(l.created, func(_ string, a *arrival) bool { return a.step < l.steps })
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
