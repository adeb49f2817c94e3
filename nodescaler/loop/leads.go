package loop

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// leads are how long machines and replicas have taken to come. A restart forgets them, and then
// they are not known until some have come again.
type leads struct {
	machines, pods nodescaler.Recent
	// own are pods' by workload: one that is slow to start says nothing of the others.
	own map[string]nodescaler.Recent
	// coming are the machines that are no nodes yet, by when they were ordered; created the pods
	// by when they were, and zero if how long they take says nothing: they waited for a node, or
	// have been ready before.
	coming, created map[string]time.Time
	// joined are the machines that have been nodes: one that has no node for a while, as when its
	// host was away, is not new.
	joined map[string]bool
}

// see takes in what has come since the step before. Pods that are there at the first sight were
// not seen to come: one that is not ready then may have been for days.
func (l *leads) see(s *nodescaler.Snapshot, machinesKnown bool) {
	if machinesKnown {
		l.seeMachines(s)
	}
	first, there := l.created == nil, 0
	if first {
		l.created = make(map[string]time.Time, len(s.Pods))
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if !comes(p) {
			continue
		}
		there++
		was, known := l.created[p.Name]
		since := was
		switch {
		case p.Ready && known && !was.IsZero():
			l.came(p.Workload, p.ReadyChanged.Sub(was))
			since = time.Time{}
		case first, p.Ready, p.Unschedulable:
			since = time.Time{}
		case !known:
			since = p.Created
		}
		if !known || !since.Equal(was) { // of thousands of pods, hardly any
			l.created[p.Name] = since
		}
	}
	if len(l.created) > there {
		l.forget(s, there)
	}
}

// came takes in how long a workload's replica took to come.
func (l *leads) came(workload string, took time.Duration) {
	l.pods.Add(took)
	if l.own == nil {
		l.own = map[string]nodescaler.Recent{}
	}
	of := l.own[workload]
	of.Add(took)
	l.own[workload] = of
}

// comes reports whether the pod is a replica that comes, or has come.
func comes(p *nodescaler.Pod) bool { return p.Workload != "" && !p.Terminating && !p.Finished() }

// forget forgets the pods that are gone; so many are there.
func (l *leads) forget(s *nodescaler.Snapshot, there int) {
	was := l.created
	l.created = make(map[string]time.Time, there)
	for i := range s.Pods {
		if p := &s.Pods[i]; comes(p) {
			l.created[p.Name] = was[p.Name]
		}
	}
}

func (l *leads) seeMachines(s *nodescaler.Snapshot) {
	was, there := l.coming, l.joined
	l.coming, l.joined = map[string]time.Time{}, map[string]bool{}
	for i := range s.Machines {
		m := &s.Machines[i]
		// it came from being a spare, which says nothing of one that is ordered
		if !m.Woken.IsZero() {
			continue
		}
		since, known := was[m.Name]
		if l.joined[m.Name] = there[m.Name] || m.Phase == nodescaler.Joined; there[m.Name] {
			continue
		}
		switch m.Phase {
		case nodescaler.Ordered, nodescaler.Booting:
			switch { // the wait for its turn goes with the queue of clones, and is no part of it
			case !m.Created.IsZero():
				since = m.Created
			case !known:
				since = m.Since
			}
			if !s.Jumped.After(since) { // else the jump would count as time that it took
				l.coming[m.Name] = since
			}
		case nodescaler.Joined:
			if known {
				l.machines.Add(m.Since.Sub(since))
			}
		case nodescaler.Spare, nodescaler.Deleting, nodescaler.Failed:
		}
	}
}

// pod is how long a workload's replica takes to come. Until one was seen to, it is as long as the
// others' take.
func (l *leads) pod(workload string) time.Duration {
	if own := l.own[workload]; len(own) > 0 {
		return own.Usual()
	}
	return l.pods.Usual()
}

// machine is how long it takes from an order to a workload's replica that is ready on the machine.
func (l *leads) machine(workload string) time.Duration {
	if len(l.machines) == 0 {
		return 0
	}
	return l.machines.Usual() + l.pod(workload)
}
