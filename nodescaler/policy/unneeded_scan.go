package policy

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// scan is one turn of the unneeded policy.
type scan struct {
	*draft
	*unneeded
	now    time.Time
	first  bool // the policy has just started, and only looks and orders
	places *places
	coming []*nodescaler.Machine // expected to become nodes
	busy   int                   // nodes and machines on their way out
	drain  int                   // of those, nodes with pods to move
	// spares make way for a machine: its money is not to be spent on others
	cleared bool
	worths  map[string]worth // of spares, by pool
	more    []dueMachine     // that the plan adds
	// what machines that are not there yet were planned to carry
	filled map[string]nodescaler.Used
	// pods that preferences are about, once there are preferences
	marked map[string]map[*nodescaler.Node]int
}

func newScan(u *unneeded, x *nodescaler.Index, first bool) *scan {
	t := &scan{draft: newDraft(x), unneeded: u, now: x.Now, first: first, worths: map[string]worth{}, filled: map[string]nodescaler.Used{}}
	var open []*nodescaler.NodeLoad
	for i := range x.Nodes {
		if n := &x.Nodes[i]; t.open(n) {
			open = append(open, n)
		}
	}
	t.repelled = func(p *nodescaler.Pod, n *nodescaler.Node) bool { return t.places.domains.Repelled(p, n) }
	t.places = newPlaces(open, nodescaler.NewDomains(x), t.used)
	return t
}

func (t *scan) run() {
	t.lookAtReadiness()
	if !t.healthy() {
		t.idle = nil
		t.parkAll("nodes that are ready again", t.plan.Reasons[len(t.plan.Reasons)-1])
		t.noteUnplaced(nil, nil)
		return
	}
	t.lookAtMachines()
	ordered := t.grow()
	t.carryOn()
	t.tend(ordered || t.cleared)
	if ordered {
		t.added = t.now
		t.note(nodescaler.ActivityElsewhere, "no node is looked at for giving back in a scan that orders")
		return
	}
	unneeded := t.judge()
	if t.first {
		t.note(nodescaler.JustStarted, "no node is given back at the first look")
		return
	}
	t.startDrains(unneeded)
}

// open reports whether pods may be expected to find room on the node.
func (t *scan) open(n *nodescaler.NodeLoad) bool {
	if n.VM != nil && (t.x.Away(n.VM.Host) || !n.VM.Phase.Live()) {
		return false
	}
	return n.Ready && (!n.Cordoned && !n.Draining || t.inherited(n) && t.leftAlone(n) == nil)
}

// inherited reports whether the node was being emptied when the policy started. Such drains are
// taken back, as upstream does: for how long they have failed by now is not known.
func (t *scan) inherited(n *nodescaler.NodeLoad) bool {
	_, ours := t.drains[n.Name]
	return n.Draining && n.VM != nil && n.VM.Phase.Live() && !ours
}

// used is what the pods on the node take of it, less those that any other would displace.
func (t *scan) used(n *nodescaler.NodeLoad) nodescaler.Used {
	used := n.Used
	for _, p := range n.Pods {
		if t.expendable(p) {
			used = used.Without(p)
		}
	}
	return used
}

func (t *scan) expendable(p *nodescaler.Pod) bool {
	return p.Priority < t.cfg.ExpendablePodsPriorityCutoff
}

// lookAtReadiness starts a clock for each node that is not ready.
func (t *scan) lookAtReadiness() {
	unready := since{}
	for i := range t.x.Nodes {
		if n := &t.x.Nodes[i]; !n.Ready {
			unready.keep(t.unready, n.Name, t.now)
		}
	}
	t.unready = unready
}

// starting reports whether the node is not ready because it is new.
func (t *scan) starting(n *nodescaler.NodeLoad) bool {
	return n.Starting(t.now, time.Duration(t.cfg.MaxNodeStartupTime))
}

// healthy reports whether enough nodes are ready for the picture to be trusted. A host that is
// known to be away says why its nodes are not, and so does a machine that has failed, as one that
// a person has removed: machines elsewhere are what their pods wait for.
//
// Where so many are not ready for no reason that is known, something is broken that all share, or
// is not seen right. Not even machines are ordered then, as upstream has it: what broke the others
// would mostly break them, and a minute in which no node reports its status would cost a second
// fleet.
func (t *scan) healthy() bool {
	all, dark := 0, 0
	for i := range t.x.Nodes {
		n := &t.x.Nodes[i]
		if n.VM != nil && (t.x.Away(n.VM.Host) || n.VM.Phase == nodescaler.Failed && !n.Ready) {
			continue
		}
		if all++; !n.Ready && !t.starting(n) {
			dark++
		}
	}
	percent := 100 * share(int64(dark), int64(all))
	if dark <= t.cfg.OKTotalUnreadyCount || percent <= t.cfg.MaxTotalUnreadyPercentage {
		return true
	}
	t.note(nodescaler.ClusterUnhealthy, "%d of %d nodes on hosts that are there are not ready, more than %d and %.0f %%: nothing is done", dark, all, t.cfg.OKTotalUnreadyCount, t.cfg.MaxTotalUnreadyPercentage)
	return false
}

// lookAtMachines sorts out which machines will become nodes, and gives back those that will
// not.
func (t *scan) lookAtMachines() {
	lost, failed := since{}, since{}
	for _, m := range t.x.Machines {
		asked := askedFor(m)
		if m.Phase != nodescaler.Failed && asked.After(t.added) {
			t.added = asked
		}
		n := t.x.NodeOf(m.Name)
		waited := t.now.Sub(asked)
		// by a clock that was put forward all machines on their way would be late
		if t.x.Jumped.After(asked) {
			waited = t.now.Sub(t.x.Jumped)
		}
		switch {
		case m.Phase == nodescaler.Deleting:
			t.busy++
			continue
		case m.Phase == nodescaler.Failed:
			t.giveUp(m, failed, because(nodescaler.MachineFailed, "%s failed: %s", m.Name, m.Problem))
			continue
		case n != nil: // also when it boots again: it has been a node, and is judged as one
			if t.starting(n) && !n.Draining {
				t.expect(m)
			}
			continue
		case m.Phase == nodescaler.Joined:
			waited = t.now.Sub(lost.keep(t.lost, m.Name, t.now))
		}
		if waited <= time.Duration(t.cfg.MaxNodeProvisionTime) {
			if !m.Waking() || waited <= wakeWithin {
				t.expect(m)
			}
			continue
		}
		t.giveUp(m, failed, because(nodescaler.ProvisionTimedOut, "%s has not been a node for %s, more than %s", m.Name, waited, t.cfg.MaxNodeProvisionTime))
	}
	t.lost, t.failed = lost, failed
}

// expect counts on a machine to become a node, unless its host is away: pods would wait for
// the host's return as long as it is counted on.
func (t *scan) expect(m *nodescaler.Machine) {
	if !t.x.Away(m.Host) {
		t.coming = append(t.coming, m)
	}
}

// askedFor is since when a machine is on its way. One that waits for its turn to be cloned does
// not exist yet and has no Created; counted from that, it would be given up at once.
func askedFor(m *nodescaler.Machine) time.Time {
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
// time. The pool's minimum counts machines that may still come, so one of those may stay.
func (t *scan) giveUp(m *nodescaler.Machine, failed since, why nodescaler.Reason) {
	if _, counted := t.failed[m.Name]; !counted {
		t.backoffOf(m.Pool).fail(t.now)
	}
	failed.keep(t.failed, m.Name, t.now)
	held := t.stays(m)
	switch {
	case held != nil:
		t.note(held.Code, "%s stays: %s (%s)", m.Name, held.Text, why.Text)
	case t.first:
		t.note(nodescaler.JustStarted, "%s is not given back at the first look (%s)", m.Name, why.Text)
	case t.x.Away(m.Host):
		t.note(nodescaler.HostOffline, "%s stays until its host %s is back (%s)", m.Name, m.Host, why.Text)
	case m.Phase != nodescaler.Failed && !t.reserve(m.Pool):
		t.note(nodescaler.PoolAtMin, "%s stays, since pool %s has no more machines than its minimum (%s)", m.Name, m.Pool, why.Text)
	default:
		t.giveBack(m, why)
	}
}

func (u *unneeded) backoffOf(pool string) *backoff {
	if u.backoffs[pool] == nil {
		u.backoffs[pool] = &backoff{
			first:   time.Duration(u.cfg.InitialNodeGroupBackoffDuration),
			longest: time.Duration(u.cfg.MaxNodeGroupBackoffDuration),
			forget:  time.Duration(u.cfg.NodeGroupBackoffResetTimeout),
		}
	}
	return u.backoffs[pool]
}

// percent prints a share for people.
func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
