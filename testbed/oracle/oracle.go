// Package oracle is the yardstick that policies are measured against: a schedule made in full
// knowledge of the load to come.
//
// It is feasible rather than ideal: machines need their time to boot, pods fill whole
// machines, and every change goes through the same loop, scheduler and drain as any policy's.
// It knows of no faults. What it does not pay for is ignorance. It buys each machine just early
// enough, keeps one through a lull that is shorter than a new one's boot, and starts with the
// machines that the first minutes need. Its cost is near the least possible, not proven to be it.
package oracle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// margin is the share of the objective's latency that the schedule plans for: what is left is
// for the moments in which pods start and move.
const margin = 0.9

// settle is how long a trial of a number of machines under a steady load runs.
const settle = 6 * time.Minute

// Schedule says how many machines a run needs at each moment.
type Schedule struct {
	start  time.Time
	slots  int // pods a machine holds
	max    int // replicas
	fewest int // machines
	steps  []step
	clones int // at a time; 0 for no limit
	clone  time.Duration
	ahead  time.Duration // from the start of a clone to a pod that serves
	soon   time.Duration // from a change of replicas to a pod that serves
}

// step is the number of machines that are needed from a time on.
type step struct {
	at       time.Duration
	machines int
}

// Plan makes the schedule for a world of one workload and one pool of one shape, over the
// given time. maxReplicas bounds the workload as it bounds every policy.
func Plan(cfg sim.Config, maxReplicas int, length time.Duration) (*Schedule, error) {
	if len(cfg.Workloads) != 1 || len(cfg.Pools) != 1 || len(cfg.Pools[0].Shapes) != 1 {
		return nil, fmt.Errorf("the oracle plans for one workload on one pool of one shape, not for %d on %d", len(cfg.Workloads), len(cfg.Pools))
	}
	pool, wl := &cfg.Pools[0], &cfg.Workloads[0]
	s := &Schedule{start: cfg.Start, slots: slots(pool, wl), max: maxReplicas, fewest: max(1, pool.Min)}
	if s.slots == 0 {
		return nil, fmt.Errorf("no pod of %s fits on a machine of pool %s", wl.Name, pool.Name)
	}
	if pool.Max < 1 || maxReplicas < 1 {
		return nil, fmt.Errorf("machines and replicas: must be at least 1 at most, was %d and %d", pool.Max, maxReplicas)
	}
	most := min(pool.Max, (maxReplicas+s.slots-1)/s.slots) // more would be empty
	need, err := s.capacities(cfg, most)
	if err != nil {
		return nil, err
	}
	s.clones, s.clone = cfg.Clones, cfg.Delays.Clone.Max
	s.soon = cfg.Delays.PodStart.Max + 2*cfg.Tick
	s.ahead = cfg.Delays.Clone.Max + cfg.Delays.Boot.Max + s.soon
	s.steps = s.sequence(wl.Load.Level, need, length)
	s.bridge()
	return s, nil
}

func slots(pool *nodescaler.Pool, wl *sim.Workload) int {
	room, most := pool.Shapes[0].Resources().Minus(pool.Reserved), pool.Extras(pool.Shapes[0]).Times(wl.Extra, nodescaler.Slots(pool.PodSlots))
	n := 0
	for n < most && wl.Requests.Times(n+1).Within(room) {
		n++
	}
	return n
}

// capacities tries out which level of load each number of machines carries within the margin;
// the result's index n is what n machines carry. It ends where the hosts are full.
func (s *Schedule) capacities(cfg sim.Config, most int) ([]float64, error) {
	top := cfg.Workloads[0].Load.Level.Max()
	carries := []float64{0}
	for n := 1; n <= most && carries[n-1] < top; n++ {
		lo, hi := carries[n-1], top+1
		for hi-lo > 0.5 {
			mid := (lo + hi) / 2
			ok, err := s.holds(cfg, n, mid)
			switch {
			case errors.Is(err, sim.ErrNoRoom) && n > 1:
				return carries, nil
			case err != nil:
				return nil, err
			}
			if ok {
				lo = mid
			} else {
				hi = mid
			}
		}
		carries = append(carries, lo)
	}
	return carries, nil
}

// holds reports whether n full machines keep the objective under a steady load.
func (s *Schedule) holds(cfg sim.Config, n int, level float64) (bool, error) {
	wl := cfg.Workloads[0]
	wl.Load.Level, wl.Replicas = sim.Flat(level), min(s.max, n*s.slots)
	cfg.Workloads = []sim.Workload{wl}
	cfg.Initial = map[string]int{cfg.Pools[0].Name: n}
	cfg.Faults = nil
	w, err := sim.New(cfg, nil)
	if err != nil {
		return false, err
	}
	if err := w.Run(context.Background(), settle); err != nil {
		return false, err
	}
	got := w.Scores()[0]
	return got.Failed == 0 && got.Latencies.Quantile(wl.GoalQuantile) <= margin*wl.LatencyGoal.Seconds(), nil
}

// sequence is the number of machines over time, second by second.
func (s *Schedule) sequence(level sim.Curve, carries []float64, length time.Duration) []step {
	var steps []step
	for at := time.Duration(0); at <= length; at += time.Second {
		n := sort.SearchFloat64s(carries, level.At(at))
		n = max(s.fewest, min(n, len(carries)-1))
		if len(steps) == 0 || steps[len(steps)-1].machines != n {
			steps = append(steps, step{at, n})
		}
	}
	return steps
}

// bridge fills lulls in which giving machines back would cost more than keeping them: a new
// one is paid for while it boots.
func (s *Schedule) bridge() {
	for i := 1; i+1 < len(s.steps); {
		before, here, after := s.steps[i-1], s.steps[i], s.steps[i+1]
		if here.machines < before.machines && here.machines < after.machines && after.at-here.at <= s.ahead {
			s.steps[i].machines = min(before.machines, after.machines)
			s.merge()
			i = 1
			continue
		}
		i++
	}
}

func (s *Schedule) merge() {
	s.steps = slices.CompactFunc(s.steps, func(a, b step) bool { return a.machines == b.machines })
}

// most is the highest number of machines needed within [from, to].
func (s *Schedule) most(from, to time.Duration) int {
	n := 0
	for i, st := range s.steps {
		ends := i+1 == len(s.steps) || s.steps[i+1].at > from
		if ends && st.at <= to {
			n = max(n, st.machines)
		}
	}
	return n
}

// lead is how long the n-th of the orders that wait takes to become a pod that serves: clones
// are made so many at a time.
func (s *Schedule) lead(n int) time.Duration {
	if s.clones == 0 || n < 1 {
		return s.ahead
	}
	return s.ahead + time.Duration((n-1)/s.clones)*s.clone
}

// wanted is how many machines there should be at t, of which have are there or ordered, and
// waiting of these not cloned yet: as many as are needed by the time the last of them serves.
func (s *Schedule) wanted(t time.Duration, have, waiting int) int {
	top := 0
	for _, st := range s.steps {
		top = max(top, st.machines)
	}
	for n := top; n > have; n-- {
		if s.most(t, t+s.lead(waiting+n-have)) >= n {
			return n
		}
	}
	// What will be needed before a new one could be had is kept.
	return min(have, s.most(t, t+s.lead(top)))
}

// Machines is how many machines the run starts with.
func (s *Schedule) Machines() int { return s.most(0, s.ahead) }

// Replicas is how many replicas the run starts with.
func (s *Schedule) Replicas() int { return s.replicas(s.start) }

func (s *Schedule) replicas(now time.Time) int {
	t := now.Sub(s.start)
	return min(s.max, s.slots*s.most(t, t+s.soon))
}

// Pods is the pod half of the schedule.
func (s *Schedule) Pods() podscaler.Policy { return pods{s} }

// Nodes is the node half of the schedule.
func (s *Schedule) Nodes() nodescaler.Policy { return nodes{s} }

type pods struct{ *Schedule }

// Desired fills the machines that the schedule has by now.
func (p pods) Desired(v *podscaler.View) podscaler.Recommendation {
	n := p.replicas(v.Now)
	return podscaler.Recommendation{Known: true, Replicas: n, Reasons: []podscaler.Reason{
		{Code: "Foreseen", Text: fmt.Sprintf("the schedule has %d replicas now", n)},
	}}
}

type nodes struct{ *Schedule }

// Decide buys what will be needed by the time it has booted, and drains what no one needs
// until a new one would have.
func (p nodes) Decide(x *nodescaler.Index) nodescaler.Plan {
	d := draft{x: x, left: map[string]int{}}
	for _, b := range x.Budgets {
		d.left[b.Workload] = b.Allowed
	}
	have, waiting := 0, 0
	for _, m := range d.x.Machines {
		switch m.Phase {
		case nodescaler.Deleting:
		case nodescaler.Failed:
			d.giveBack(m.Name, "", "it failed")
		case nodescaler.Ordered:
			waiting++
			have++
		default:
			have++
		}
	}
	for i := range d.x.Nodes {
		if n := &d.x.Nodes[i]; n.Draining {
			have--
			d.empty(n)
		}
	}
	want := p.wanted(x.Now.Sub(p.start), have, waiting)
	d.buy(want - have)
	d.drain(have - want)
	return d.plan
}

// draft is a plan being written.
type draft struct {
	x    *nodescaler.Index
	left map[string]int // evictions, of workloads with a budget
	plan nodescaler.Plan
}

func (d *draft) add(a nodescaler.Action, why string) {
	a.Reasons = []nodescaler.Reason{{Code: "Foreseen", Text: why}}
	d.plan.Actions = append(d.plan.Actions, a)
}

// buy orders n machines, each on the host with the most memory left.
func (d *draft) buy(n int) {
	pool, free := d.x.Pools[0], make([]pricing.Resources, len(d.x.Hosts))
	for i := range d.x.Hosts {
		free[i] = d.x.Hosts[i].Free
	}
	shape := &d.x.Snapshot.Pools[0].Shapes[0]
	for id := 0; n > 0; id++ {
		order := nodescaler.OrderID(d.x.Now, id)
		if d.x.Machine(nodescaler.MachineName(pool.Name, order)) != nil {
			continue // of another step at this moment
		}
		on := -1
		for i := range d.x.Hosts {
			if pool.Takes(d.x.Hosts[i].Host) && shape.Resources().Within(free[i]) && (on < 0 || free[i].Memory > free[on].Memory) {
				on = i
			}
		}
		if on < 0 {
			return
		}
		n--
		free[on] = free[on].Minus(shape.Resources())
		d.add(nodescaler.Action{Kind: nodescaler.Buy, Order: order, Pool: pool.Name, Shape: shape, Host: d.x.Hosts[on].Name},
			"the load to come needs it by the time it has booted")
	}
}

// drain begins to empty the n nodes with the fewest pods, and leaves one.
func (d *draft) drain(n int) {
	var open []*nodescaler.NodeLoad
	for i := range d.x.Nodes {
		if node := &d.x.Nodes[i]; node.Machine != "" && !node.Draining {
			open = append(open, node)
		}
	}
	slices.SortStableFunc(open, func(a, b *nodescaler.NodeLoad) int { return cmp.Compare(len(a.Pods), len(b.Pods)) })
	for _, node := range open[:max(0, min(n, len(open)-1))] {
		d.add(nodescaler.Action{Kind: nodescaler.Cordon, Node: node.Name}, "the load to come does not need it")
		d.empty(node)
	}
}

// empty evicts what the budgets let go of a node, or gives its machine back when nothing is
// left.
func (d *draft) empty(node *nodescaler.NodeLoad) {
	held := node.Held()
	if len(held) == 0 {
		d.giveBack(node.Machine, node.Name, "its node is empty")
	}
	for _, pod := range held {
		allowed, limited := d.left[pod.Workload]
		if pod.Terminating || limited && allowed < 1 {
			continue
		}
		if limited {
			d.left[pod.Workload]--
		}
		d.add(nodescaler.Action{Kind: nodescaler.Evict, Pod: pod.Name, Node: node.Name}, "its node is reclaimed")
	}
}

func (d *draft) giveBack(machine, node, why string) {
	d.add(nodescaler.Action{Kind: nodescaler.Return, Machine: machine, Node: node}, why)
}
