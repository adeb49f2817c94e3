package planner

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	// circuitAfter is how many failures in a row stop a cause.
	circuitAfter = 3
	// circuitFirst is for how long it is stopped at first, and circuitLongest at most.
	circuitFirst, circuitLongest = time.Hour, 24 * time.Hour
	// emptiedSoon is how soon after its drain an order for a node's pods says that it was needed.
	emptiedSoon = 10 * time.Minute
)

// fail counts a failure of what was to replace machines.
func (t *turn) fail(e end) *circuit {
	c := t.circuits[e]
	if c == nil {
		c = &circuit{}
		t.circuits[e] = c
	}
	c.failed = t.X.Now
	if c.failures++; c.failures >= circuitAfter {
		c.until = t.X.Now.Add(min(circuitFirst<<min(c.failures-circuitAfter, 8), circuitLongest))
	}
	return c
}

// broken says why no machine of a pool goes for a cause now, or nil.
func (t *turn) broken(e end) *nodescaler.Reason {
	c := t.circuits[e]
	if !c.open(t.X.Now) {
		return nil
	}
	r := draft.Because(nodescaler.DisruptionHalted, "no machine of pool %s goes for reason %s until %s: %d times in a row what was to replace such machines failed, or their pods waited for another",
		e.pool, e.cause, c.until.UTC().Format(time.RFC3339), c.failures)
	return &r
}

// noteEmptying notes whose pods leave a node that is little used, and how many there are of each
// workload. Of one that waits already an order will say nothing.
func (t *turn) noteEmptying(n *nodescaler.NodeLoad) {
	pods := map[string]int{}
	for _, p := range n.Held() {
		pods[p.Workload] = 0
	}
	for i := range t.X.Snapshot.Pods {
		p := &t.X.Snapshot.Pods[i]
		if before, moves := pods[p.Workload]; moves && p.Node == "" {
			delete(pods, p.Workload)
		} else if moves && !p.Terminating && !p.Finished() {
			pods[p.Workload] = before + 1
		}
	}
	if len(pods) == 0 {
		return
	}
	t.lately[n.Name] = &emptied{end{n.VM.Pool, nodescaler.Underutilized}, t.X.Now, pods}
}

// lookAtEmptied finds out whether nodes were emptied that were needed after all: a machine is
// ordered for their pods, of which there are no more than before. The scheduler takes pods in an
// order of its own and knows rules that are not seen here. So they need not find the places that
// were found for them, and by such places the next node would be emptied at once. Once a
// machine's worth less is asked for, it is tried again.
func (t *turn) lookAtEmptied() {
	if len(t.lately)+len(t.circuits) == 0 {
		return
	}
	d, needed := t.demanded(), map[end]bool{}
	for _, name := range slices.Sorted(maps.Keys(t.lately)) {
		e := t.lately[name]
		if _, still := t.drains[name]; still {
			e.last = t.X.Now
		}
		waits := func(workload string) bool { return d.ordered[workload] && d.pods[workload] <= e.pods[workload] }
		switch {
		case slices.ContainsFunc(slices.Collect(maps.Keys(e.pods)), waits):
			needed[e.of] = true
		case t.X.Now.Sub(e.last) < emptiedSoon:
			continue
		case t.circuits[e.of] != nil && e.last.After(t.circuits[e.of].failed):
			delete(t.circuits, e.of)
		}
		delete(t.lately, name)
	}
	for e := range needed { // once, for one order
		t.fail(e).asked = d.asked
	}
	for e, c := range t.circuits {
		less := c.asked.Minus(d.asked)
		beyond := func(s pricing.Shape) bool { return less.CPU < s.CPU && less.Memory < s.Memory }
		if p := t.X.Pool(e.pool); p != nil && !slices.ContainsFunc(p.Shapes, beyond) {
			*c = circuit{failures: min(c.failures, circuitAfter-1), failed: c.failed}
		}
	}
}

// demanded is what pods there are.
type demanded struct {
	pods    map[string]int  // by workload
	ordered map[string]bool // workloads that the plan adds machines for
	asked   pricing.Resources
}

func (t *turn) demanded() demanded {
	names := map[string]bool{}
	for i := range t.Plan.Actions {
		for _, pod := range t.Plan.Actions[i].Pods {
			names[pod] = true
		}
	}
	d := demanded{pods: map[string]int{}, ordered: map[string]bool{}}
	for i := range t.X.Snapshot.Pods {
		p := &t.X.Snapshot.Pods[i]
		if !p.Terminating && !p.Daemon && !p.Finished() {
			d.pods[p.Workload]++
			d.asked = d.asked.Plus(p.Requests)
		}
		if names[p.Name] {
			d.ordered[p.Workload] = true
		}
	}
	return d
}

// lookAtReplacements counts the replacements that failed since the last scan, and would be made
// again.
func (t *turn) lookAtReplacements(was map[string]end) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, failed := t.failed[name]; failed && t.X.Machine(name).Drifted == "" {
			t.fail(was[name])
		}
	}
}

// noteBroken says of each pool for which causes none of its machines goes now.
func (t *turn) noteBroken() {
	for i := range t.X.Pools {
		pool := t.X.Pools[i].Name
		var texts []string
		for _, cause := range nodescaler.Causes {
			if r := t.broken(end{pool, cause}); r != nil {
				texts = append(texts, r.Text)
				t.Plan.Reasons = append(t.Plan.Reasons, *r)
			}
		}
		if len(texts) == 0 {
			continue
		}
		if t.Plan.Halted == nil {
			t.Plan.Halted = map[string]nodescaler.Reason{}
		}
		t.Plan.Halted[pool] = draft.Because(nodescaler.DisruptionHalted, "%s", strings.Join(texts, "; "))
	}
}

const (
	// endAgain is how long a node is left alone that could not be drained.
	endAgain = 10 * time.Minute
	// endWithin is how long its pods may take to be evicted. A disruption budget of pods lets them
	// go one by one, each once the one before is ready elsewhere.
	endWithin = 15 * time.Minute
)

// candidate is a node that might be reclaimed.
type candidate struct {
	*nodescaler.NodeLoad
	used  float64
	since time.Time     // unneeded; now, if it was not in the last scan
	wait  time.Duration // how long it has to be
	to    []string      // where its pods would go
}

// emptied is a node whose pods are being moved elsewhere, or were of late.
type emptied struct {
	of   end
	last time.Time      // seen being emptied
	pods map[string]int // of each workload of its pods, in all
}

// ending is a candidate.
type ending struct {
	*nodescaler.NodeLoad
	cause nodescaler.Cause
	why   nodescaler.Reason
	cost  float64
}

func (e *ending) end() end { return end{e.VM.Pool, e.cause} }

// waitedFor reports whether what is to go waits for the machine.
func (t *turn) waitedFor(machine string) bool { _, is := t.replacing[machine]; return is }

// outgoing counts them, by pool. A node that is not ready is as good as on its way out.
func (t *turn) outgoing() map[string]*going {
	if t.going != nil {
		return t.going
	}
	t.going = map[string]*going{}
	for i := range t.X.Pools {
		t.going[t.X.Pools[i].Name] = &going{}
	}
	for _, m := range t.X.Machines {
		g, n := t.going[m.Pool], t.X.AnyNodeOf(m.Name)
		if g == nil || m.Kept() || m.Phase != nodescaler.Joined && (m.Phase != nodescaler.Deleting || n == nil) {
			continue
		}
		_, begun := t.drains[m.Name]
		if n != nil {
			_, begun = t.drains[n.Name]
		}
		g.all++
		if m.Phase == nodescaler.Deleting || n == nil || n.Draining || begun || !n.Ready {
			g.out++
		}
	}
	return t.going
}

// spend takes one from the pool's budgets for a cause, or says why not.
func (t *turn) spend(pool string, cause nodescaler.Cause) *nodescaler.Reason {
	p, g := t.X.Pool(pool), t.outgoing()[pool]
	if p == nil || g == nil {
		return nil
	}
	limit, by := p.Disruption.Limit(cause, t.X.Now, g.all)
	if by != nil && g.out >= limit {
		r := draft.Because(nodescaler.NodeBudgetSpent, "%d of pool %s's %s are on their way out or not ready, and a budget of %s allows %d for reason %s now",
			g.out, pool, pricing.Count(g.all, "machine"), by.Nodes, limit, cause)
		return &r
	}
	g.out++
	return nil
}

// keeps says why a machine stays that is to go, or nil. Of one whose node is lost an annotation
// counts no more: nothing on it works.
func (t *turn) keeps(n *nodescaler.NodeLoad, lost bool) *nodescaler.Reason {
	var r nodescaler.Reason
	held, failed := t.Stays(n.VM), t.unended[n.Name]
	switch {
	case held != nil:
		return held
	case t.X.Away(n.VM.Host):
		r = draft.Because(nodescaler.HostOffline, "its host %s is away", n.VM.Host)
	case n.Pinned != "" && !lost:
		r = draft.Because(nodescaler.NodePinned, "its node is %s", n.Pinned)
	case n.Cordoned:
		r = draft.Because(nodescaler.NodeCordoned, "its node was cordoned by another client")
	case !n.Ready && !lost:
		r = draft.Because(nodescaler.NodeNotReady, "its node is not ready")
	case !failed.IsZero() && t.X.Now.Sub(failed) < endAgain:
		r = draft.Because(nodescaler.CoolingDown, "its drain failed %s ago, less than %s", t.X.Now.Sub(failed), endAgain)
	default:
		return nil
	}
	return &r
}

// silent reports whether the node is on its way out because it is not ready.
func (t *turn) silent(n *nodescaler.NodeLoad) bool {
	return !n.Ready && t.ends[n.Name].Code == nodescaler.MachineUnhealthy
}
