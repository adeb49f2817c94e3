package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// toMove returns the pods that have to find another place before the node can go.
func (t *scan) toMove(n *nodescaler.NodeLoad) []*nodescaler.Pod {
	return slices.DeleteFunc(n.Held(), func(p *nodescaler.Pod) bool { return p.Terminating || t.expendable(p) })
}

// carryOn goes on with the drains that this policy began, and takes back the others. The pods
// take room on other nodes before anything else is moved there.
func (t *scan) carryOn() {
	const unseen = time.Minute // a cordon may take so long to be seen
	drains := since{}
	maps.Copy(drains, t.drains)
	maps.DeleteFunc(drains, func(_ string, begun time.Time) bool { return t.now.Sub(begun) > unseen })
	for i := range t.x.Nodes {
		n := &t.x.Nodes[i]
		if !n.Draining || n.VM == nil || !n.VM.Phase.Live() {
			continue
		}
		if held := t.leftAlone(n); held != nil {
			t.note(held.Code, "%s stays as it is, half emptied: %s", n.Name, held.Text)
			continue
		}
		held := machineHeld(t.x, n.VM)
		if t.inherited(n) {
			started := because(nodescaler.JustStarted, "%s was being emptied when the policy started, for a time that is not known", n.Name)
			t.takeBack(n, *cmp.Or(held, &started))
			continue
		}
		t.leaving(n, 1)
		drains[n.Name] = t.drains[n.Name]
		if held != nil {
			t.takeBack(n, *held)
			continue
		}
		begun, spared := drains[n.Name], t.reserve(n.VM.Pool)
		_, blocked := t.leave(n)
		switch {
		case t.wait(n):
		case !n.Cordoned:
			t.takeBack(n, calledOff(n))
		case !spared:
			t.takeBack(n, because(nodescaler.PoolAtMin, "pool %s has no more machines than its minimum", n.VM.Pool))
		case blocked != nil:
			t.takeBack(n, *blocked)
		case len(n.Held()) == 0:
			t.finish(n, begun)
		case t.late(n, begun):
			t.takeBack(n, because(nodescaler.DrainTimedOut, "%s still holds %s after %s", n.Name, some("pod", podNames(n.Held())), t.now.Sub(begun)))
		default:
			t.note(nodescaler.NodeDraining, "%s is being emptied for %s", n.Name, t.now.Sub(begun))
			t.evict(n)
		}
	}
	t.drains = drains
}

// leftAlone says why nothing is done about a node that is being emptied, or nil: its pool is held. It is on nobody's
// way out then and keeps no other node from going. Once it may be touched again it is for a time that is not known
// that it was being emptied.
func (t *scan) leftAlone(n *nodescaler.NodeLoad) *nodescaler.Reason {
	if held := t.held(n.VM.Pool, nodescaler.Return); held != nil || !t.inherited(n) {
		return held
	}
	return t.held(n.VM.Pool, nodescaler.Uncordon)
}

// leaving counts a node among those on their way out, or not any more.
func (t *scan) leaving(n *nodescaler.NodeLoad, sign int) {
	t.busy += sign
	if len(n.Held()) > 0 || !n.Ready { // what a node holds that is not ready is not known
		t.drain += sign
	}
}

// wait reports whether it is too early to do anything about a node that is being emptied: what
// is seen of it may not be true any more.
func (t *scan) wait(n *nodescaler.NodeLoad) bool {
	dark := t.now.Sub(t.unready[n.Name])
	switch {
	case t.x.Away(n.VM.Host):
		t.note(nodescaler.HostOffline, "%s stays until its host %s is back", n.Name, n.VM.Host)
	case !n.Ready && dark <= time.Duration(t.cfg.ScaleDownUnreadyTime):
		t.note(nodescaler.NodeNotReady, "%s is being emptied and is not ready for %s, not more than %s", n.Name, dark, t.cfg.ScaleDownUnreadyTime)
	default:
		return false
	}
	return true
}

// takeBack gives up a drain. The failure keeps other nodes from being taken for a while, and
// this one has to be unneeded all over again.
func (t *scan) takeBack(n *nodescaler.NodeLoad, why nodescaler.Reason) {
	if !t.uncordon(n, why) {
		t.leaving(n, -1)
		return
	}
	t.undrained = t.now
	delete(t.idle, n.Name)
}

// finish gives back a node that is empty, unless a pod may have come while it was cordoned.
func (t *scan) finish(n *nodescaler.NodeLoad, begun time.Time) {
	if passed := t.now.Sub(begun); passed < time.Duration(t.cfg.NodeDeleteDelayAfterTaint) {
		t.note(nodescaler.NodeDraining, "%s is empty and was cordoned %s ago, less than %s", n.Name, passed, t.cfg.NodeDeleteDelayAfterTaint)
		return
	}
	t.deleted = t.now
	if t.stashes(n) {
		return
	}
	t.giveBack(n.VM, because(nodescaler.NodeEmpty, "%s was emptied; its daemons go with it", n.Name))
}

// late reports whether the drain has taken too long: with pods that could not be told to go,
// or with pods that were told and are still there.
func (t *scan) late(n *nodescaler.NodeLoad, begun time.Time) bool {
	limit := time.Duration(t.cfg.MaxPodEvictionTime)
	told := !slices.ContainsFunc(n.Held(), func(p *nodescaler.Pod) bool { return !p.Terminating })
	if told {
		limit += time.Duration(t.cfg.MaxGracefulTermination)
	}
	return t.now.Sub(begun) > limit
}

// leave moves the node's pods elsewhere in the simulation and returns where to, or the reason
// for which one of them must stay or has no place.
func (t *scan) leave(n *nodescaler.NodeLoad) ([]string, *nodescaler.Reason) {
	to, blocked := t.places.leave(n.Node, n.Held(), t.toMove(n))
	return nodesOf(to), blocked
}

// candidate is a node that might be given back.
type candidate struct {
	*nodescaler.NodeLoad
	used  float64
	since time.Time     // unneeded; now, if it was not in the last scan
	wait  time.Duration // how long it has to be
	to    []string      // where its pods would go
}

// judge finds the nodes that are unneeded now, in the order in which to take them, and starts
// or keeps their clocks. What it finds holds for all of them together: the room that one
// leaves or takes is no longer there for the next.
func (t *scan) judge() []candidate {
	kept := findings{}
	var unneeded []candidate
	idle := since{}
	for _, c := range t.candidates(kept) {
		if t.places.taken[c.Name] > 0 {
			kept.add(nodescaler.NodeTakesPods, "%s takes in pods that wait or leave other nodes", c.Name)
			continue
		}
		if p := t.unbudgeted(c.NodeLoad); p != nil {
			kept.add(nodescaler.BudgetExhausted, "%s holds %s, whose budget lets none go now", c.Name, p.Name)
			continue
		}
		reopen := t.places.close(c.Node)
		to, blocked := t.leave(c.NodeLoad)
		if blocked != nil {
			reopen()
			kept.add(blocked.Code, "%s", blocked.Text)
			continue
		}
		idle[c.Name], c.to = c.since, to
		unneeded = append(unneeded, c)
	}
	t.idle = idle
	kept.tell(t.draft, "node")
	return unneeded
}

// candidates are our nodes that are little used: those first whose time is up first, so that a
// node which is about to go is not passed over for another, and then the least used.
func (t *scan) candidates(kept findings) []candidate {
	var list []candidate
	t.unasked = map[string]bool{}
	for i := range t.x.Nodes {
		n := &t.x.Nodes[i]
		if n.VM == nil || n.VM.Phase != nodescaler.Joined || n.Draining {
			continue
		}
		used, held := t.utilisation(n), t.stays(n.VM)
		switch {
		case held != nil:
			t.unasked[n.Name] = held.Code == nodescaler.MachineHeld
			kept.add(held.Code, "%s stays: %s", n.Name, held.Text)
		case t.x.Away(n.VM.Host):
			kept.add(nodescaler.HostOffline, "%s stays until its host %s is back", n.Name, n.VM.Host)
		case n.Cordoned:
			kept.add(nodescaler.NodeCordoned, "%s was cordoned by somebody else", n.Name)
		case t.spare[n.VM.Pool] < 1:
			kept.add(nodescaler.PoolAtMin, "%s stays, since pool %s has no more machines than its minimum", n.Name, n.VM.Pool)
		case used >= t.cfg.ScaleDownUtilizationThreshold:
			kept.add(nodescaler.NodeBusy, "%s is used %s, not below %s", n.Name, percent(used), percent(t.cfg.ScaleDownUtilizationThreshold))
		default:
			list = append(list, t.candidate(n, used))
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(a.since.Add(a.wait).Compare(b.since.Add(b.wait)), cmp.Compare(a.used, b.used))
	})
	return list
}

func (t *scan) candidate(n *nodescaler.NodeLoad, used float64) candidate {
	c := candidate{NodeLoad: n, used: used, since: t.now, wait: time.Duration(t.cfg.ScaleDownUnneededTime)}
	if t.hold != nil {
		c.wait = t.hold(n)
	}
	if before, ok := t.idle[n.Name]; ok {
		c.since = before
	}
	if !n.Ready {
		c.wait = time.Duration(t.cfg.ScaleDownUnreadyTime)
	}
	return c
}

// utilisation is the larger of the shares of CPU and memory that the node's pods ask for. Pods
// that are leaving and those that anyone may displace do not count.
func (t *scan) utilisation(n *nodescaler.NodeLoad) float64 {
	var used pricing.Resources
	capacity := n.Allocatable
	for _, p := range n.Pods {
		switch {
		case p.Terminating || t.expendable(p):
		case p.Daemon && t.cfg.IgnoreDaemonsetsUtilization:
			capacity = capacity.Minus(p.Requests)
		default:
			used = used.Plus(p.Requests)
		}
	}
	return dominant(used, capacity)
}

// unbudgeted returns a pod on the node whose budget allows no eviction at all. With a budget
// for fewer pods than there are, the drain only takes longer.
func (t *scan) unbudgeted(n *nodescaler.NodeLoad) *nodescaler.Pod {
	for _, p := range t.toMove(n) {
		if !t.allows(p) {
			return p
		}
	}
	return nil
}

// startDrains closes the nodes that have been unneeded for long enough, as many as may go at
// once, empty ones before others.
func (t *scan) startDrains(unneeded []candidate) {
	kept := findings{}
	var empty, full []candidate
	t.hasten(unneeded)
	for _, c := range unneeded {
		switch passed := t.now.Sub(c.since); {
		case passed <= c.wait:
			kept.add(nodescaler.NodeUnneeded, "%s is used %s and unneeded for %s, not yet more than %s", c.Name, percent(c.used), passed.Round(time.Second), c.wait.Round(time.Second))
		case len(c.Held()) == 0:
			empty = append(empty, c)
		default:
			full = append(full, c)
		}
	}
	if len(empty)+len(full) > 0 && t.rested() {
		free := t.cfg.MaxScaleDownParallelism - t.busy
		free -= t.close(empty, min(free, t.cfg.MaxEmptyBulkDelete), kept)
		t.close(full, min(free, t.cfg.MaxDrainParallelism-t.drain), kept)
	}
	kept.tell(t.draft, "node")
}

// rested reports whether the last order, return and failed drain are long enough ago. Those
// before the policy started are not known, and might have been just before.
func (t *scan) rested() bool {
	for _, c := range []struct {
		what  string
		at    time.Time
		delay nodescaler.Duration
	}{
		{"an order", t.added, t.cfg.ScaleDownDelayAfterAdd},
		{"a return", t.deleted, t.cfg.ScaleDownDelayAfterDelete},
		{"a failed drain", t.undrained, t.cfg.ScaleDownDelayAfterFailure},
	} {
		if t.started.After(c.at) {
			c.what, c.at = "the policy's start", t.started
		}
		if passed := t.now.Sub(c.at); passed < time.Duration(c.delay) {
			t.note(nodescaler.CoolingDown, "no node is taken within %s of %s, which was %s ago", c.delay, c.what, passed)
			return false
		}
	}
	return true
}

// close cordons up to limit of the nodes and starts to empty them, and returns how many.
func (t *scan) close(list []candidate, limit int, kept findings) int {
	closed := 0
	for _, c := range list {
		switch {
		case closed >= max(limit, 0):
			kept.add(nodescaler.ParallelLimit, "%s waits, since as many nodes are on their way out as may be at once", c.Name)
		case !t.reserve(c.VM.Pool):
			kept.add(nodescaler.PoolAtMin, "%s stays, since pool %s has no more machines than its minimum", c.Name, c.VM.Pool)
		default:
			closed++
			t.drains[c.Name] = t.now
			t.cordon(c.NodeLoad, t.whyUnneeded(c))
			t.evict(c.NodeLoad)
		}
	}
	return closed
}

func (t *scan) whyUnneeded(c candidate) nodescaler.Reason {
	where := "nothing on it has to move"
	if len(c.to) > 0 {
		where = "there is room for its " + some("pod", podNames(t.toMove(c.NodeLoad))) + " on " + some("node", c.to)
	}
	return because(nodescaler.NodeUnneeded, "%s is used %s, below %s, and unneeded for %s; %s",
		c.Name, percent(c.used), percent(t.cfg.ScaleDownUtilizationThreshold), t.now.Sub(c.since), where)
}
