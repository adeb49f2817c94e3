package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/planner"
)

// The joint policy is the node half of planning pods and machines together. At every step it orders
// the cheapest machines for pods that have no place, for replicas that are decided on, and for
// those that their policy expects to want by the time a machine is there. No pod has to be pending
// first. As many are on their way at once as the hosts' storages make.
//
// A machine that is not needed is held for as long as keeping it is likely to be cheaper than
// buying another. Until enough is known of how long machines here are not needed, that is until
// holding has cost what a new one costs before it carries anything, and not at all for an empty
// one. From there on it is the time that would have been cheapest of late. Then it is emptied,
// however many pods it carries, as long as those have places elsewhere.
//
// It needs a pod policy that says what it expects; with one that does not, it still orders before
// pods are pending, and gives back sooner than unneeded does. It loses where pods are dear to move:
// each machine reclaimed that is not empty moves some.

// Joint is the settings of the joint policy.
type Joint struct {
	// Lead is the most that a machine is taken to need from its order until it is a node. Less
	// counts once machines have been seen to need less.
	Lead nodescaler.Duration `json:"lead"`
	// Rebuy is what buying a machine again costs beside the time that it is paid for and carries
	// nothing yet, as time for which it could be held.
	Rebuy nodescaler.Duration `json:"rebuy"`
	// Drains is how many machines that carry pods are emptied at once.
	Drains int `json:"drains"`
	// Spares is how many machines are kept stopped, to be started in place of orders.
	Spares planner.Spared `json:"spares"`
}

// DefaultJoint is the defaults.
func DefaultJoint() Joint {
	return Joint{Lead: minutes(3), Drains: 1, Spares: planner.DefaultSpared()}
}

// UnmarshalJSON reads settings over the defaults and refuses unknown ones.
func (c *Joint) UnmarshalJSON(data []byte) error {
	type fields Joint
	f := fields(DefaultJoint())
	err := decode("joint", data, &f)
	*c = Joint(f)
	return err
}

// Validate reports everything that is wrong with the settings.
func (c *Joint) Validate() error {
	f := &faults{block: "joint"}
	f.positive("lead", c.Lead)
	f.notNegative("rebuy", c.Rebuy)
	f.must(c.Drains >= 1, "drains", "at least 1", c.Drains)
	f.must(c.Spares.Most >= 0, "spares.most", "0 or more", c.Spares.Most)
	f.must(c.Spares.BudgetPercent >= 0 && c.Spares.BudgetPercent <= 100, "spares.budgetPercent", "0 to 100", c.Spares.BudgetPercent)
	f.must(c.Spares.Worth > 0 && c.Spares.Worth <= 1e6, "spares.worth", "above 0 and at most 1000000", c.Spares.Worth)
	return f.err()
}

func init() {
	register("joint", func(s Spec) (nodescaler.Policy, error) {
		c := DefaultJoint()
		if s.Joint != nil {
			c = *s.Joint
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return newJoint(c), nil
	})
}

// joint looks ahead, and holds machines by what they cost.
type joint struct {
	cfg      Joint
	planner  *planner.Planner
	last     time.Time
	unplaced []nodescaler.Unplaced // by the last scan
	headroom []nodescaler.HeadroomState

	coming map[string]time.Time // machines that are no nodes yet, by when they were ordered
	leads  nodescaler.Recent    // from order to node
	idles  nodescaler.Recent    // for how long machines were not needed
	gone   []time.Time          // since when the machines reclaimed last were not needed
}

func newJoint(c Joint) *joint {
	j := &joint{cfg: c, coming: map[string]time.Time{}}
	r := planner.DefaultRules()
	r.Hold, r.Spares = j.hold, &c.Spares
	r.EnforceNodeGroupMinSize = true
	r.CapacityBufferPodInjectionEnabled = true
	r.ScaleDownUtilizationThreshold = 1
	r.ScaleDownDelayAfterAdd = 0
	r.Cancel = j.lead
	r.MaxDrainParallelism = c.Drains
	// A clone that failed has cost its time already, and pods wait for the next one. Where they go
	// on failing the pool is left alone for twice as long each time.
	r.InitialNodeGroupBackoffDuration = seconds(15)
	j.planner = planner.New(r)
	return j
}

// Empties is true: machines that workloads leave whole are reclaimed without moving a pod.
func (j *joint) Empties() bool { return true }

// Decide scans, and learns from what it sees and does.
func (j *joint) Decide(x *nodescaler.Index) nodescaler.Plan {
	s := x.Snapshot
	j.see(s)
	j.planner.See(s, j.lead())
	plan := nodescaler.Plan{Unplaced: j.unplaced, Headroom: j.headroom}
	if !s.Now.Equal(j.last) {
		was := j.planner.Idle()
		plan = j.planner.Scan(x)
		j.last, j.unplaced, j.headroom = s.Now, plan.Unplaced, plan.Headroom
		j.learn(x, was, &plan)
	}
	plan.LookAgain = s.Now.Add(1) // the next step
	return plan
}

// see measures how long machines take to come.
func (j *joint) see(s *nodescaler.Snapshot) {
	was := j.coming
	j.coming = map[string]time.Time{}
	for i := range s.Machines {
		m := &s.Machines[i]
		ordered, known := was[m.Name]
		switch {
		case m.Keep || !m.Woken.IsZero(): // what spares take says nothing of orders
		case m.Phase == nodescaler.Ordered || m.Phase == nodescaler.Booting:
			// Else the jump would count as time that it took.
			if at := planner.AskedFor(m); !s.Jumped.After(at) {
				j.coming[m.Name] = at
			}
		case m.Phase == nodescaler.Joined && known:
			j.leads.Add(m.Since.Sub(ordered))
		}
	}
}

// learn notes for how long machines were not needed: those that are needed again, and, by the next
// order, those that were reclaimed.
func (j *joint) learn(x *nodescaler.Index, was map[string]time.Time, p *nodescaler.Plan) {
	drained := map[string]bool{}
	for i := range p.Actions {
		switch a := &p.Actions[i]; a.Kind {
		case nodescaler.Cordon:
			drained[a.Node] = true
			if idle, was := was[a.Node]; was {
				j.gone = append(j.gone, idle)
			}
		case nodescaler.Buy, nodescaler.Wake:
			if a.Keep {
				continue
			}
			if n := len(j.gone); n > 0 {
				j.idles.Add(x.Now.Sub(j.gone[n-1]))
				j.gone = j.gone[:n-1]
			}
		case nodescaler.Uncordon, nodescaler.Evict, nodescaler.DeletePod, nodescaler.Return, nodescaler.Stash, nodescaler.Reboot:
			// Steps of what was decided before.
		}
	}
	if extra := len(j.gone) - nodescaler.RecentKept; extra > 0 {
		j.gone = slices.Delete(j.gone, 0, extra)
	}
	idle := j.planner.Idle()
	if idle == nil {
		return // the cluster is not trusted, and nothing was looked at
	}
	works := working(x)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, still := idle[name]; !still && works[name] && !drained[name] && j.planner.Asked(name) {
			j.idles.Add(x.Now.Sub(was[name]))
		}
	}
}

// working are the nodes that can be seen to be needed or not: those of which it is known how they
// are, and that are not being emptied because they were not.
func working(x *nodescaler.Index) map[string]bool {
	works := map[string]bool{}
	for i := range x.Snapshot.Nodes {
		n := &x.Snapshot.Nodes[i]
		p := x.Pool(n.Pool) // of one that is held no machine is looked at
		works[n.Name] = n.Ready && !n.Draining && !x.Dark(n) && (p == nil || p.HeldDown == nil)
	}
	return works
}

// hold is for how long a machine that is not needed is to be held. One that carries nothing was
// held before, by those who decide on its pods and kept them: until it is known better it is not
// held again.
func (j *joint) hold(n *nodescaler.NodeLoad) time.Duration {
	if len(n.Held()) == 0 && len(j.idles) < few {
		return 0
	}
	return cheapest(j.idles, j.lead()+time.Duration(j.cfg.Rebuy))
}

// lead is what a machine is taken to need from its order until it is a node.
func (j *joint) lead() time.Duration {
	lead := time.Duration(j.cfg.Lead)
	if seen := j.leads.Usual(); seen > 0 {
		// What is learned must not be longer than what a fresh policy goes by.
		lead = min(lead, seen)
	}
	return lead
}

// few are too few to choose by.
const few = 8

// cheapest is the time to hold for that would have cost least over these idle times, if being
// without a machine at the end of one costs as much as holding it for the time given. That itself
// is the answer while little is known: it costs at most twice what foresight would, and the same is
// the most that is ever held.
func cheapest(idles nodescaler.Recent, again time.Duration) time.Duration {
	if len(idles) < few {
		return again
	}
	best, least := again, idleCost(idles, again, again)
	for _, d := range append(slices.Sorted(slices.Values(idles)), 0) {
		d++ // a moment longer than what it bridges
		if cost := idleCost(idles, d, again); d <= again && cost < least {
			best, least = d, cost
		}
	}
	return best
}

func idleCost(idles nodescaler.Recent, hold, again time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range idles {
		if sum += min(d, hold); d > hold {
			sum += again
		}
	}
	return sum
}
