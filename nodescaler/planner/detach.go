package planner

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

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
		t.Note(nodescaler.VolumesAttached, "%s is empty for %s and still has %s attached: its machine goes all the same", n.Name, passed, Some("volume", n.Attached))
		return false
	}
	t.Note(nodescaler.VolumesAttached, "%s is empty and waits, for up to %s, until these are detached: %s", n.Name, detachWithin, Some("volume", n.Attached))
	return true
}
