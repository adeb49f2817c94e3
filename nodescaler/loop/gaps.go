package loop

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Why no machine is planned for replicas that a workload asks for and that are not there as pods.
const (
	CodeReplicaFailure     = "ReplicaFailure"     // its controller says that it cannot create pods
	CodeReplicasNotCreated = "ReplicasNotCreated" // no pod has come for some minutes, for a reason that is not known
)

const (
	// gapGrace is how long replicas are expected to become pods. A controller creates hundreds in that time; what
	// has not come by then is refused by a quota, a webhook or a security policy, and may never come. Pods that
	// come later are seen as pods that wait, some seconds after they could have been foreseen.
	gapGrace = 3 * time.Minute
	// gapKept is how long a gap is remembered that was closed by asking for fewer. Who asks for many again would
	// else begin a new gap each time.
	gapKept = time.Hour
)

// gaps are the workloads that ask for more replicas than they have pods. A restart forgets since when, and so do
// workloads that are new: their gaps count as old. That buys nothing for replicas that may never come.
type gaps struct {
	of   map[string]*gap
	last map[string]bool // the workloads that were seen at the last step
}

// gap is a workload that asks for more replicas than it has pods, or did of late.
type gap struct {
	since  time.Time // since when no pod has come
	most   int       // pods it had at most until then
	closed time.Time // since when it asks for no more than it has; zero while it does
	vain   bool      // no pod has come in time
}

// see looks at what workloads ask for and have.
func (g *gaps) see(now time.Time, replicas, alive map[string]int) {
	if g.of == nil {
		g.of = map[string]*gap{}
	}
	for name, is := range g.of {
		if _, there := replicas[name]; !there && is.closed.IsZero() {
			is.closed = now
		}
		if !is.closed.IsZero() && now.Sub(is.closed) > gapKept {
			delete(g.of, name)
		}
	}
	for name, asked := range replicas {
		g.one(now, name, asked, alive[name])
	}
	g.last = make(map[string]bool, len(replicas))
	for name := range replicas {
		g.last[name] = true
	}
}

func (g *gaps) one(now time.Time, name string, asked, alive int) {
	is, open := g.of[name], asked > alive
	switch {
	case is == nil && !open:
		return
	case is == nil:
		g.of[name] = &gap{since: now, most: alive, vain: !g.last[name]}
		return
	case alive > is.most && !open:
		delete(g.of, name)
		return
	case alive > is.most:
		*is = gap{since: now, most: alive}
	case open:
		is.closed = time.Time{}
	case is.closed.IsZero():
		is.closed = now
	}
	if passed := now.Sub(is.since); passed >= gapGrace || passed < 0 {
		is.vain = true
	}
}

// uncounted says why replicas beyond the pods that are there are not planned for, or nil.
func (g *gaps) uncounted(name string, asked, alive int, failing map[string]string) *nodescaler.Reason {
	if asked <= alive {
		return nil
	}
	if why, fails := failing[name]; fails {
		return &nodescaler.Reason{Code: CodeReplicaFailure, Text: fmt.Sprintf(
			"%d replicas are asked for and %d pods are there; no machine is planned for the rest, for pods cannot be created: %s", asked, alive, why)}
	}
	if is := g.of[name]; is != nil && is.vain {
		return &nodescaler.Reason{Code: CodeReplicasNotCreated, Text: fmt.Sprintf(
			"%d replicas are asked for and %d pods are there; no machine is planned for the rest until pods are created: none has come for %s or since the start",
			asked, alive, gapGrace)}
	}
	return nil
}
