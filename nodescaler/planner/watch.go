package planner

import (
	"maps"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
)

// watcher is which nodes and machines can be counted on.
type watcher struct{ *market }

// lookAtReadiness starts a clock for each node that is not ready.
func (t *watcher) lookAtReadiness() {
	unready := since{}
	for i := range t.X.Nodes {
		if n := &t.X.Nodes[i]; !n.Ready {
			unready.keep(t.unready, n.Name, t.X.Now)
		}
	}
	t.unready = unready
}

// starting reports whether the node is not ready because it is new.
func (t *watcher) starting(n *nodescaler.NodeLoad) bool {
	return n.Starting(t.X.Now, time.Duration(t.rules.MaxNodeStartupTime))
}

// healthy reports whether enough nodes are ready for the picture to be trusted. A host that is
// known to be away says why its nodes are not, and so does a machine that has failed, as one that
// a person has removed: machines elsewhere are what their pods wait for.
//
// Where so many are not ready for no reason that is known, something is broken that all share, or
// is not seen right. Not even machines are ordered then, as upstream has it: what broke the others
// would mostly break them, and a minute in which no node reports its status would cost a second
// fleet.
func (t *watcher) healthy() bool {
	all, dark := 0, 0
	for i := range t.X.Nodes {
		n := &t.X.Nodes[i]
		if n.VM != nil && (t.X.Away(n.VM.Host) || n.VM.Phase == nodescaler.Failed && !n.Ready) {
			continue
		}
		if all++; !n.Ready && !t.starting(n) {
			dark++
		}
	}
	percent := 100 * draft.Share(int64(dark), int64(all))
	if dark <= t.rules.OKTotalUnreadyCount || percent <= t.rules.MaxTotalUnreadyPercentage {
		return true
	}
	t.Note(nodescaler.ClusterUnhealthy, "%d of %d nodes on hosts that are there are not ready, more than %d and %.0f %%: nothing is done", dark, all, t.rules.OKTotalUnreadyCount, t.rules.MaxTotalUnreadyPercentage)
	return false
}

// lookAtResumes forgets the failures of pools that a person has resumed since.
func (t *watcher) lookAtResumes() {
	for i := range t.X.Pools {
		p := &t.X.Pools[i]
		if b := t.backoffs[p.Name]; b != nil && p.Resumed.After(b.failed) {
			delete(t.backoffs, p.Name)
		}
	}
}

// lookAtRevisions forgets the failures of pools whose machines are made from something else by now:
// they say nothing of that, as when a rollout has gone back.
func (t *watcher) lookAtRevisions() {
	for i := range t.X.Pools {
		pool, now := t.X.Pools[i].Name, t.X.Pools[i].Rolling.Compared
		if now == "" || now == t.compared[pool] {
			continue
		}
		if t.compared[pool] != "" {
			delete(t.backoffs, pool)
			maps.DeleteFunc(t.circuits, func(e end, _ *circuit) bool { return e.pool == pool })
		}
		t.compared[pool] = now
	}
}

// lookAtMachines sorts out which machines will become nodes, and gives back those that will
// not.
func (t *watcher) lookAtMachines() {
	lost, failed := since{}, since{}
	for _, m := range t.X.Machines {
		asked := AskedFor(m)
		if m.Phase != nodescaler.Failed && asked.After(t.added) {
			t.added = asked
		}
		n := t.X.NodeOf(m.Name)
		waited := t.X.Now.Sub(asked)
		// by a clock that was put forward all machines on their way would be late
		if t.X.Jumped.After(asked) {
			waited = t.X.Now.Sub(t.X.Jumped)
		}
		switch {
		case m.Phase == nodescaler.Deleting:
			t.busy++
			continue
		case m.Phase == nodescaler.Failed:
			t.giveUp(m, failed, draft.Because(nodescaler.MachineFailed, "%s failed: %s", m.Name, m.Problem))
			continue
		case n != nil: // also when it boots again: it has been a node, and is judged as one
			if t.starting(n) && !n.Draining {
				t.expect(m)
			}
			continue
		case m.Phase == nodescaler.Joined:
			waited = t.X.Now.Sub(lost.keep(t.lost, m.Name, t.X.Now))
		}
		if waited <= time.Duration(t.rules.MaxNodeProvisionTime) {
			if !m.Waking() || waited <= wakeWithin {
				t.expect(m)
			}
			continue
		}
		t.giveUp(m, failed, draft.Because(nodescaler.ProvisionTimedOut, "%s has not been a node for %s, more than %s", m.Name, waited, t.rules.MaxNodeProvisionTime))
	}
	t.lost, t.failed = lost, failed
}

// expect counts on a machine to become a node, unless its host is away: pods would wait for
// the host's return as long as it is counted on.
func (t *watcher) expect(m *nodescaler.Machine) {
	if !t.X.Away(m.Host) {
		t.coming = append(t.coming, m)
	}
}

// AskedFor is since when a machine is on its way. One that waits for its turn to be cloned does
// not exist yet and has no Created; counted from that, it would be given up at once.
func AskedFor(m *nodescaler.Machine) time.Time {
	switch {
	case m.Waking() && m.Since.After(m.Woken):
		return m.Since // it boots again, as once its host is back
	case !m.Woken.IsZero():
		return m.Woken
	case m.Created.IsZero():
		return m.Since
	}
	return m.Created
}

// wakeWithin is how long pods are taken to wait for a spare that was woken. One that has not come
// by then may still come, and another machine is ordered.
const wakeWithin = 2 * time.Minute

// giveUp gives back a machine that will not be a node, and has its pool left alone for some
// time, if the pool would make the same again. The pool's minimum counts machines that may still
// come, so one of those may stay.
func (t *watcher) giveUp(m *nodescaler.Machine, failed since, why nodescaler.Reason) {
	if _, counted := t.failed[m.Name]; !counted && m.Drifted == "" {
		t.backoffOf(m.Pool).fail(t.X.Now)
	}
	failed.keep(t.failed, m.Name, t.X.Now)
	held := t.Stays(m)
	switch {
	case held != nil:
		t.Note(held.Code, "%s stays: %s (%s)", m.Name, held.Text, why.Text)
	case t.first:
		t.Note(nodescaler.JustStarted, "%s is not reclaimed at the first look (%s)", m.Name, why.Text)
	case t.X.Away(m.Host):
		t.Note(nodescaler.HostOffline, "%s stays until its host %s is back (%s)", m.Name, m.Host, why.Text)
	case m.Phase != nodescaler.Failed && !t.Reserve(m.Pool):
		t.Note(nodescaler.PoolAtMin, "%s stays, since pool %s has no more machines than its minimum (%s)", m.Name, m.Pool, why.Text)
	default:
		t.Return(m, why)
	}
}
