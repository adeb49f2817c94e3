package loop

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Why no machine is planned for replicas that a workload asks for and that are not there as pods.
const (
	CodeReplicaFailure = "ReplicaFailure" // its controller says that it cannot create pods
	// pods have not come in time, for a reason that is not known
	CodeReplicasNotCreated = "ReplicasNotCreated"
)

const (
	// GapGrace is how long replicas are expected to become pods. A controller creates hundreds in
	// that time; what has not come by then is refused by a quota, a webhook or a security policy,
	// and may never come. Pods that come later are seen as pods that wait, some seconds after they
	// could have been foreseen.
	GapGrace = 3 * time.Minute
	// gapPrompt is how soon pods come where nothing is in the way. A namespace has credit for
	// later ones: lateMost, which lasts for four workloads whose pods never come. It gets back a
	// minute in lateFades minutes: what one such workload takes in nearly four hours. Machines
	// that were bought in vain go within half an hour.
	gapPrompt = 20 * time.Second
	lateMost  = 10 * time.Minute
	lateFades = 80
	// gapLook is how far looks at what came are apart at least. Every pod that waits wakes the
	// loop: without it, two pods that hurry from workload to workload would be those that each
	// promised.
	gapLook = 5 * time.Second
)

// gaps are the workloads that ask for more replicas than they have pods, or did of late, and for
// how long their namespaces had such whose pods were late. No matter what a tenant writes, each
// gap that machines are bought for either closes, by pods that are there at once, or is late, and
// uses up what its namespace has. A restart forgets that. Gaps that are there at the first look at
// a workload are not bought for at all: they may be old.
type gaps struct {
	of   map[string]*gap
	late map[string]time.Duration // by namespace
	last map[string]bool          // the workloads that were seen at the last step
	at   time.Time                // of the last look at what came
	// turns are of workloads whose pods come in order.
	turns map[string]turn
}

// turn is since when a workload waits for its next pod: since it had as many as never before, or
// all that were asked for.
type turn struct {
	pods  int
	since time.Time
}

// gap closes when as many pods are there at once as were asked for at most. Asking for fewer does
// not close it: who asks for many for a moment, again and again, would else have machines all the
// time.
type gap struct {
	since      time.Time // since when pods are expected; those that come put it off by their share
	want, most int       // the most replicas that were asked for, and the most pods that were there
	vain       bool      // no pods are expected any more, until it is closed
}

// see looks at what workloads ask for and have.
func (g *gaps) see(now time.Time, replicas, alive map[string]int, failing map[string]string) {
	if g.of == nil {
		g.of, g.late = map[string]*gap{}, map[string]time.Duration{}
	}
	if passed := now.Sub(g.at); passed < 0 || passed >= gapLook {
		g.count(now, min(max(passed, 0), GapGrace), replicas, alive)
		g.at = now
	}
	for name, asked := range replicas {
		if failing[name] == "" {
			g.expect(now, name, asked, alive[name])
		}
	}
	g.last = make(map[string]bool, len(replicas))
	for name := range replicas {
		g.last[name] = true
	}
}

// takeTurns looks at what came of workloads whose pods come in order.
func (g *gaps) takeTurns(now time.Time, ordered map[string]bool, replicas, alive map[string]int) {
	turns := make(map[string]turn, len(ordered))
	for name := range ordered {
		t := g.turns[name]
		if n := alive[name]; n > t.pods && g.last[name] || n >= replicas[name] {
			t = turn{n, now}
		}
		turns[name] = t
	}
	g.turns = turns
}

// comeInTurn reports whether the pods of a workload still come, one after another.
func (g *gaps) comeInTurn(now time.Time, name string) bool {
	return now.Sub(g.turns[name].since) < lateMost
}

// expect opens a gap, or widens it. None is opened in a namespace that has used up what it has:
// nothing is bought for it that could be in vain.
func (g *gaps) expect(now time.Time, name string, want, alive int) {
	is := g.of[name]
	switch {
	case want <= alive || g.usedUp(name):
	case is == nil:
		g.of[name] = &gap{since: now, want: want, most: alive, vain: !g.last[name]}
	default:
		is.want = max(is.want, want)
	}
}

// count looks at what came of the gaps in the time that has passed.
func (g *gaps) count(now time.Time, passed time.Duration, replicas, alive map[string]int) {
	late := map[string]bool{}
	for name, is := range g.of {
		if is.come(now, alive[name]); is.most >= is.want {
			delete(g.of, name)
			continue
		}
		age := now.Sub(is.since)
		if !is.vain && age >= gapPrompt {
			late[nodescaler.NamespaceOf(name)] = true
		}
		is.vain = is.vain || age >= GapGrace || age < 0
		if is.vain && replicas[name] <= alive[name] {
			delete(g.of, name)
		}
	}
	for namespace := range late {
		g.late[namespace] += passed
	}
	for namespace := range g.late {
		if g.late[namespace] -= passed / lateFades; g.late[namespace] <= 0 {
			delete(g.late, namespace)
		}
	}
}

// come counts pods beyond the most there were: ones that go and come again are no progress. Where
// half of those come that are missing, the rest has been missing for half as long.
func (is *gap) come(now time.Time, alive int) {
	most := max(is.most, alive)
	left := float64(is.want-most) / float64(is.want-is.most)
	is.since, is.most = now.Add(-time.Duration(left*float64(now.Sub(is.since)))), most
}

func (g *gaps) usedUp(name string) bool {
	return g.late[nodescaler.NamespaceOf(name)] >= lateMost
}

// uncounted says why replicas beyond the pods that are there are not planned for, or nil.
func (g *gaps) uncounted(name string, asked, alive int, failing map[string]string) *nodescaler.Reason {
	if asked <= alive {
		return nil
	}
	code, why := CodeReplicasNotCreated, ""
	is := g.of[name]
	switch said, fails := failing[name]; {
	case fails:
		code, why = CodeReplicaFailure, "for pods cannot be created: "+said
	case is != nil && is.vain:
		why = fmt.Sprintf("until they are pods: they were missing at the first look, or have been for %s", GapGrace)
	case g.usedUp(name):
		why = fmt.Sprintf("until they are pods: pods of namespace %s came late or never, for %s", nodescaler.NamespaceOf(name), lateMost)
	default:
		return nil
	}
	return &nodescaler.Reason{Code: code, Text: fmt.Sprintf(
		"%s asked for and %s there; no machine is planned for the rest %s", pricing.Are(asked, "replica"), pricing.Are(alive, "pod"), why)}
}
