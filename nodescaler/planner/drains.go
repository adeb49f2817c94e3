package planner

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
)

// drainer chooses the nodes to empty, and empties them.
type drainer struct {
	*turn
	spares   *spares
	emptying int // nodes on their way out with pods to move
}

// open reports whether pods may be expected to find room on the node.
func (t *drainer) open(n *nodescaler.NodeLoad) bool {
	if n.VM != nil && (t.X.Away(n.VM.Host) || !n.VM.Phase.Live()) {
		return false
	}
	return n.Ready && (!n.Cordoned && !n.Draining || t.inherited(n) && t.leftAlone(n) == nil)
}

// inherited reports whether the node was being emptied when the policy started. Such drains are
// taken back, as upstream does: for how long they have failed by now is not known.
func (t *drainer) inherited(n *nodescaler.NodeLoad) bool {
	_, ours := t.drains[n.Name]
	return n.Draining && n.VM != nil && n.VM.Phase.Live() && !ours
}

// usedOf is what the pods on the node take of it, less those that any other would displace.
func (t *drainer) usedOf(n *nodescaler.NodeLoad) nodescaler.Used {
	used := n.Used
	for _, p := range n.Pods {
		if t.rules.expendable(p) {
			used = used.Without(p)
		}
	}
	return used
}

// carryOn goes on with the drains that this policy began, and takes back the others. The pods
// take room on other nodes before anything else is moved there.
func (t *drainer) carryOn() {
	const unseen = time.Minute // a cordon may take so long to be seen
	drains := since{}
	maps.Copy(drains, t.drains)
	maps.DeleteFunc(drains, func(_ string, begun time.Time) bool { return t.X.Now.Sub(begun) > unseen })
	for i := range t.X.Nodes {
		n := &t.X.Nodes[i]
		if !n.Draining || n.VM == nil || !n.VM.Phase.Live() {
			continue
		}
		if held := t.leftAlone(n); held != nil {
			t.Note(held.Code, "%s stays as it is, half emptied: %s", n.Name, held.Text)
			continue
		}
		held := draft.MachineHeld(t.X, n.VM)
		if t.inherited(n) {
			started := draft.Because(nodescaler.JustStarted, "%s was being emptied when the policy started, for a time that is not known", n.Name)
			t.takeBack(n, *cmp.Or(held, &started))
			continue
		}
		t.leaving(n, 1)
		drains[n.Name] = t.drains[n.Name]
		if held != nil {
			t.takeBack(n, *held)
			continue
		}
		if t.afterReboot(n) {
			continue
		}
		begun, spared := drains[n.Name], t.rebootsOnceEmpty(n) || t.Reserve(n.VM.Pool)
		_, blocked := t.leave(n)
		switch {
		case t.silent(n) && !t.X.Away(n.VM.Host) && n.Cordoned && spared:
			t.finish(n, begun)
		case t.wait(n):
		case !n.Cordoned:
			t.takeBack(n, draft.CalledOff(n))
		case !spared:
			t.takeBack(n, draft.Because(nodescaler.PoolAtMin, "pool %s has no more machines than its minimum", n.VM.Pool))
		case blocked != nil:
			t.takeBack(n, *blocked)
		case len(n.Held()) == 0:
			t.finish(n, begun)
		case t.late(n, begun):
			t.takeBack(n, draft.Because(nodescaler.DrainTimedOut, "%s still holds %s after %s", n.Name, draft.Some("pod", draft.PodNames(n.Held())), t.X.Now.Sub(begun)))
		default:
			t.Note(nodescaler.NodeDraining, "%s is being emptied for %s", n.Name, t.X.Now.Sub(begun))
			t.evict(n, begun)
		}
	}
	t.drains = drains
	maps.DeleteFunc(t.ends, func(node string, _ nodescaler.Reason) bool { _, on := drains[node]; return !on })
	maps.DeleteFunc(t.emptied, func(node string, _ time.Time) bool { _, on := drains[node]; return !on })
	maps.DeleteFunc(t.unended, func(_ string, at time.Time) bool { return t.X.Now.Sub(at) > endAgain })
}

// leftAlone says why nothing is done about a node that is being emptied, or nil: its pool is
// held. It is on nobody's way out then and keeps no other node from going. Once it may be touched
// again it is for a time that is not known that it was being emptied.
func (t *drainer) leftAlone(n *nodescaler.NodeLoad) *nodescaler.Reason {
	if held := t.Held(n.VM.Pool, nodescaler.Return); held != nil || !t.inherited(n) {
		return held
	}
	return t.Held(n.VM.Pool, nodescaler.Uncordon)
}

// leaving counts a node among those on their way out, or not any more.
func (t *drainer) leaving(n *nodescaler.NodeLoad, sign int) {
	t.busy += sign
	if len(n.Held()) > 0 || !n.Ready { // what a node holds that is not ready is not known
		t.emptying += sign
	}
}

// wait reports whether it is too early to do anything about a node that is being emptied: what
// is seen of it may not be true any more.
func (t *drainer) wait(n *nodescaler.NodeLoad) bool {
	dark := t.X.Now.Sub(t.unready[n.Name])
	switch {
	case t.X.Away(n.VM.Host):
		t.Note(nodescaler.HostOffline, "%s stays until its host %s is back", n.Name, n.VM.Host)
	case !n.Ready && dark <= time.Duration(t.rules.ScaleDownUnreadyTime):
		t.Note(nodescaler.NodeNotReady, "%s is being emptied and is not ready for %s, not more than %s", n.Name, dark, t.rules.ScaleDownUnreadyTime)
	default:
		return false
	}
	return true
}

// takeBack gives up a drain. The failure keeps other nodes from being taken for a while, and
// this one has to be unneeded all over again.
func (t *drainer) takeBack(n *nodescaler.NodeLoad, why nodescaler.Reason) {
	if !t.Uncordon(n, why) {
		t.leaving(n, -1)
		return
	}
	t.undrained = t.X.Now
	delete(t.lately, n.Name)
	if _, ends := t.ends[n.Name]; ends {
		t.unended[n.Name] = t.X.Now
	}
	delete(t.idle, n.Name)
}

// finish gives back a node that is empty, unless a pod may have come while it was cordoned.
func (t *drainer) finish(n *nodescaler.NodeLoad, begun time.Time) {
	if passed := t.X.Now.Sub(begun); passed < time.Duration(t.rules.NodeDeleteDelayAfterTaint) {
		t.Note(nodescaler.NodeDraining, "%s is empty and was cordoned %s ago, less than %s", n.Name, passed, t.rules.NodeDeleteDelayAfterTaint)
		return
	}
	if t.detaches(n) {
		return
	}
	if t.rebootsOnceEmpty(n) {
		t.reboot(n, t.ends[n.Name])
		return
	}
	t.deleted = t.X.Now
	switch why, ends := t.ends[n.Name]; {
	case t.silent(n):
		t.Return(n.VM, why, draft.Because(nodescaler.NodeNotReady, "%s is not ready, and what it ran ends with its machine", n.Name))
		return
	case ends:
		t.Return(n.VM, why, draft.Because(nodescaler.NodeEmpty, "%s was drained: only pods of DaemonSets are left on it", n.Name))
		return
	}
	if t.spares.stashes(n) {
		return
	}
	t.Return(n.VM, draft.Because(nodescaler.NodeEmpty, "%s was drained: only pods of DaemonSets are left on it", n.Name))
}

// late reports whether the drain has taken too long: with pods that could not be evicted,
// or with pods that were and are still there.
func (t *drainer) late(n *nodescaler.NodeLoad, begun time.Time) bool {
	limit := time.Duration(t.rules.MaxPodEvictionTime)
	if _, ends := t.ends[n.Name]; ends {
		limit = max(limit, endWithin)
	}
	if grace := t.grace(n); grace > 0 {
		limit = max(limit, grace+forcedWithin)
	}
	told := !slices.ContainsFunc(n.Held(), func(p *nodescaler.Pod) bool { return !p.Terminating })
	if told {
		limit += time.Duration(t.rules.MaxGracefulTermination)
	}
	return t.X.Now.Sub(begun) > limit
}

// leave moves the node's pods elsewhere in the simulation and returns where to, or the reason
// for which one of them must stay or has no place.
func (t *drainer) leave(n *nodescaler.NodeLoad) ([]string, *nodescaler.Reason) {
	held := n.Held()
	if t.grace(n) > 0 { // none of them keeps it for ever
		held = nil
	}
	to, blocked := t.places.leave(n.Node, held, t.toMove(n))
	return nodesOf(to), blocked
}

// toMove returns the pods that have to find another place before the node can go, and headroom that
// is kept there.
func (t *drainer) toMove(n *nodescaler.NodeLoad) []*nodescaler.Pod {
	moving := slices.DeleteFunc(n.Held(), func(p *nodescaler.Pod) bool { return p.Terminating || t.rules.expendable(p) })
	return append(moving, t.headroom[n.Name]...)
}

// judge finds the nodes that are unneeded now, in the order in which to take them, and starts
// or keeps their clocks. What it finds holds for all of them together: the room that one
// leaves or takes is no longer there for the next.
func (t *drainer) judge() []candidate {
	kept := draft.Findings{}
	var unneeded []candidate
	idle := since{}
	for _, c := range t.candidates(kept) {
		if t.takesPods(c.Name) {
			kept.Add(nodescaler.NodeTakesPods, "%s has room that pending or moved pods need", c.Name)
			continue
		}
		if p := t.unbudgeted(c.NodeLoad); p != nil {
			kept.Add(nodescaler.BudgetExhausted, "%s holds %s, whose PodDisruptionBudget allows no eviction now", c.Name, p.Name)
			continue
		}
		reopen := t.places.close(c.Node)
		to, blocked := t.leave(c.NodeLoad)
		if blocked != nil {
			reopen()
			kept.Add(blocked.Code, "%s", blocked.Text)
			continue
		}
		idle[c.Name], c.to = c.since, to
		unneeded = append(unneeded, c)
	}
	t.idle = idle
	t.Conclude(kept, "node")
	return unneeded
}

// candidates are our nodes that are little used: those first whose time is up first, so that a
// node which is about to go is not passed over for another, and then the least used.
func (t *drainer) candidates(kept draft.Findings) []candidate {
	var list []candidate
	t.unasked = map[string]bool{}
	for i := range t.X.Nodes {
		n := &t.X.Nodes[i]
		_, ends := t.ends[n.Name]
		if n.VM == nil || n.VM.Phase != nodescaler.Joined || n.Draining || ends {
			continue
		}
		used, held := t.utilisation(n), t.Stays(n.VM)
		replaces := t.replaces(n)
		switch {
		case held != nil:
			t.unasked[n.Name] = held.Code == nodescaler.MachineHeld
			kept.Add(held.Code, "%s stays: %s", n.Name, held.Text)
		case t.X.Away(n.VM.Host):
			kept.Add(nodescaler.HostOffline, "%s stays until its host %s is back", n.Name, n.VM.Host)
		case n.Cordoned:
			kept.Add(nodescaler.NodeCordoned, "%s was cordoned by another client", n.Name)
		case n.Pinned != "":
			kept.Add(nodescaler.NodePinned, "%s stays: it is %s", n.Name, n.Pinned)
		case replaces:
			kept.Add(nodescaler.NodeTakesPods, "%s stays: it replaces another, or is to be replaced", n.Name)
		case t.consolidation(n.VM.Pool).Policy == nodescaler.WhenEmpty && len(n.Held()) > 0:
			kept.Add(nodescaler.WhenEmptyOnly, "%s stays: the consolidation of pool %s is %s, and it holds pods", n.Name, n.VM.Pool, nodescaler.WhenEmpty)
		case t.Spare[n.VM.Pool] < 1:
			kept.Add(nodescaler.PoolAtMin, "%s stays, since pool %s has no more machines than its minimum", n.Name, n.VM.Pool)
		case len(n.Held()) > 0 && t.broken(end{n.VM.Pool, nodescaler.Underutilized}) != nil:
			t.unasked[n.Name] = true
			kept.Add(nodescaler.DisruptionHalted, "%s stays: nodes that were emptied before it were needed after all", n.Name)
		case used >= t.rules.ScaleDownUtilizationThreshold:
			kept.Add(nodescaler.NodeBusy, "pods request %[2]s of %[1]s, which is not below the threshold of %[3]s", n.Name, draft.Percent(used), draft.Percent(t.rules.ScaleDownUtilizationThreshold))
		default:
			list = append(list, t.candidate(n, used))
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(a.since.Add(a.wait).Compare(b.since.Add(b.wait)), cmp.Compare(a.used, b.used))
	})
	return list
}

func (t *drainer) candidate(n *nodescaler.NodeLoad, used float64) candidate {
	c := candidate{NodeLoad: n, used: used, since: t.X.Now, wait: time.Duration(t.rules.ScaleDownUnneededTime)}
	if t.rules.Hold != nil {
		c.wait = t.rules.Hold(n)
	}
	if after := t.consolidation(n.VM.Pool).After; after > 0 {
		c.wait = time.Duration(after)
	}
	if before, ok := t.idle[n.Name]; ok {
		c.since = before
	}
	if !n.Ready {
		c.wait = time.Duration(t.rules.ScaleDownUnreadyTime)
	}
	return c
}

// utilisation is the larger of the shares of CPU and memory that the node's pods ask for. Pods
// that are leaving and those that anyone may displace do not count.
func (t *drainer) utilisation(n *nodescaler.NodeLoad) float64 {
	var used pricing.Resources
	capacity := n.Allocatable
	for _, p := range n.Pods {
		switch {
		case p.Terminating || t.rules.expendable(p):
		case p.Daemon && t.rules.IgnoreDaemonsetsUtilization:
			capacity = capacity.Minus(p.Requests)
		default:
			used = used.Plus(p.Requests)
		}
	}
	return draft.Dominant(used, capacity)
}

// unbudgeted returns a pod on the node whose budget allows no eviction at all. With a budget
// for fewer pods than there are, the drain only takes longer.
func (t *drainer) unbudgeted(n *nodescaler.NodeLoad) *nodescaler.Pod {
	for _, p := range t.toMove(n) {
		if !t.Allows(p) {
			return p
		}
	}
	return nil
}

// startDrains closes the nodes that have been unneeded for long enough, as many as may go at
// once, empty ones before others.
func (t *drainer) startDrains(unneeded []candidate) {
	kept := draft.Findings{}
	var empty, full []candidate
	t.spares.hasten(unneeded)
	for _, c := range unneeded {
		switch passed := t.X.Now.Sub(c.since); {
		case passed <= c.wait:
			kept.Add(nodescaler.NodeUnneeded, "pods request %[2]s of %[1]s, which is unneeded for %[3]s and has to be for more than %[4]s", c.Name, draft.Percent(c.used), passed.Round(time.Second), c.wait.Round(time.Second))
		case len(c.Held()) == 0:
			empty = append(empty, c)
		default:
			full = append(full, c)
		}
	}
	if len(empty)+len(full) > 0 && t.rested() {
		free := t.rules.MaxScaleDownParallelism - t.busy
		free -= t.close(empty, min(free, t.rules.MaxEmptyBulkDelete), kept)
		t.close(full, min(free, t.rules.MaxDrainParallelism-t.emptying), kept)
	}
	t.Conclude(kept, "node")
}

// rested reports whether the last order, return and failed drain are long enough ago. Those
// before the policy started are not known, and might have been just before.
func (t *drainer) rested() bool {
	for _, c := range []struct {
		what  string
		at    time.Time
		delay nodescaler.Duration
	}{
		{"an order", t.added, t.rules.ScaleDownDelayAfterAdd},
		{"a return", t.deleted, t.rules.ScaleDownDelayAfterDelete},
		{"a failed drain", t.undrained, t.rules.ScaleDownDelayAfterFailure},
	} {
		if t.started.After(c.at) {
			c.what, c.at = "the policy's start", t.started
		}
		if passed := t.X.Now.Sub(c.at); passed < time.Duration(c.delay) {
			t.Note(nodescaler.CoolingDown, "no node is taken within %s of %s, which was %s ago", c.delay, c.what, passed)
			return false
		}
	}
	return true
}

// close cordons up to limit of the nodes and starts to empty them, and returns how many.
func (t *drainer) close(list []candidate, limit int, kept draft.Findings) int {
	closed := 0
	for _, c := range list {
		cause := nodescaler.Underutilized
		if len(c.Held()) == 0 {
			cause = nodescaler.Empty
		}
		if closed >= max(limit, 0) {
			kept.Add(nodescaler.ParallelLimit, "%s waits, since as many nodes are on their way out as may be at once", c.Name)
			continue
		}
		spent := t.spend(c.VM.Pool, cause)
		switch {
		case spent != nil:
			kept.Add(spent.Code, "%s waits: %s", c.Name, spent.Text)
		case !t.Reserve(c.VM.Pool):
			kept.Add(nodescaler.PoolAtMin, "%s stays, since pool %s has no more machines than its minimum", c.Name, c.VM.Pool)
		default:
			closed++
			t.drains[c.Name] = t.X.Now
			t.noteEmptying(c.NodeLoad)
			t.Cordon(c.NodeLoad, t.whyUnneeded(c))
			t.Evict(c.NodeLoad)
		}
	}
	return closed
}

func (t *drainer) whyUnneeded(c candidate) nodescaler.Reason {
	where := "nothing on it has to move"
	if len(c.to) > 0 {
		where = "there is room for its " + draft.Some("pod", draft.PodNames(t.toMove(c.NodeLoad))) + " on " + draft.Some("node", c.to)
	}
	return draft.Because(nodescaler.NodeUnneeded, "pods request %[2]s of %[1]s, below the threshold of %[3]s, and it is unneeded for %[4]s: %[5]s",
		c.Name, draft.Percent(c.used), draft.Percent(t.rules.ScaleDownUtilizationThreshold), t.X.Now.Sub(c.since), where)
}

// consolidation is that of a pool.
func (t *turn) consolidation(pool string) nodescaler.Consolidation {
	if p := t.X.Pool(pool); p != nil {
		return p.Disruption.Consolidation
	}
	return nodescaler.Consolidation{}
}

// replaces reports whether the node takes in pods of machines that are to go, or is one of these.
func (t *turn) replaces(n *nodescaler.NodeLoad) bool {
	_, machine := t.replacing[n.VM.Name]
	_, node := t.replacing[n.Name]
	return machine || node
}
