package planner

import (
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
)

// The end of a drain. A pool with a terminationGracePeriod bounds the drains of machines that are
// unhealthy, expired or drifted: annotations and disruption budgets keep pods there until then, and
// no longer. Each is deleted so early that its own grace period fits. The machine goes once its
// pods are gone, as after any drain. What keeps a machine, such as a hold or an annotation of the
// node, keeps it as before.

// forcedWithin is how much longer a drain may take to be observed as done.
const forcedWithin = 2 * time.Minute

// forced are the causes for which a drain has an end.
var forced = []string{nodescaler.MachineUnhealthy, nodescaler.MachineExpired, nodescaler.MachineDrifted}

// grace is the pool's bound on the drain of a node that goes or is to go; 0 is no bound.
func (t *turn) grace(n *nodescaler.NodeLoad) time.Duration {
	why, ends := t.ends[n.Name]
	if !ends {
		why, ends = t.ending[n.Name]
	}
	p := t.X.Pool(n.VM.Pool)
	if !ends || p == nil || !n.Ready || !slices.Contains(forced, why.Code) {
		return 0
	}
	return time.Duration(p.Disruption.TerminationGracePeriod)
}

// evict moves what may be moved off a node that is being emptied, and deletes what is out of time.
func (t *drainer) evict(n *nodescaler.NodeLoad, begun time.Time) {
	if grace := t.grace(n); grace > 0 {
		t.force(n, begun.Add(grace))
	}
	t.Evict(n)
}

// force deletes the pods whose grace periods end with the drain. One that was evicted with more
// time than is left is deleted anew.
func (t *drainer) force(n *nodescaler.NodeLoad, by time.Time) {
	const least = time.Second // with none, the pod would be gone before its process is
	left := by.Sub(t.X.Now)
	for _, p := range n.Held() {
		grace := p.GracePeriod()
		if p.Terminating && left > 0 || left > grace {
			continue
		}
		grace = min(grace, max(left, least))
		t.Forced[p.Name] = true
		t.Act(nodescaler.Action{
			Kind: nodescaler.DeletePod, Pod: p.Name, Node: n.Name, Machine: n.Machine, Pool: n.VM.Pool, Grace: nodescaler.Duration(grace),
			Reasons: []nodescaler.Reason{draft.Because(nodescaler.DrainEnds, "the drain of %s ends at %s by pool %s's terminationGracePeriod: the pod has %s to end",
				n.Name, by.UTC().Format(time.RFC3339), n.VM.Pool, pricing.Short(grace))},
		})
	}
}

// detachWithin is how long a machine whose pods are gone waits for their volumes to be detached.
// Kubernetes itself detaches a volume by force after as long.
const detachWithin = 6 * time.Minute

// detaches reports whether volumes of pods that left are still attached to the node. A machine that
// stops with them would keep these pods from starting elsewhere, or have them written to twice.
func (t *drainer) detaches(n *nodescaler.NodeLoad) bool {
	if len(n.Attached) == 0 || t.silent(n) {
		delete(t.emptied, n.Name)
		return false
	}
	since, known := t.emptied[n.Name]
	if !known {
		since = t.X.Now
		t.emptied[n.Name] = since
	}
	passed := t.X.Now.Sub(since)
	if passed > detachWithin {
		t.Note(nodescaler.VolumesAttached, "%s is empty for %s and still has %s attached: its machine goes all the same", n.Name, passed, draft.Some("volume", n.Attached))
		return false
	}
	t.Note(nodescaler.VolumesAttached, "%s is empty and waits, for up to %s, until these are detached: %s", n.Name, detachWithin, draft.Some("volume", n.Attached))
	return true
}
