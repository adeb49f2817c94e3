package loop

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
)

// scalePods decides on replicas.
func (d *decider) scalePods() {
	if d.newCluster || d.newMachines {
		d.step.problem(CodeLooking, "the first step after a start decides nothing")
	}
	for _, err := range d.keep(d.in.Workloads) {
		d.step.problem(CodePolicyInvalid, err.Error())
	}
	for name, h := range d.o.Histories {
		if s := d.scalers[name]; s != nil {
			s.Learn(h)
		}
	}
	// thousands of pods would else be a megabyte of garbage each step
	d.seen = slices.Grow(d.seen[:0], len(d.snap.Pods))
	var all []asked
	for i := range d.in.Workloads {
		if s := d.scalers[d.in.Workloads[i].Name]; s != nil {
			all = append(all, d.ask(&d.in.Workloads[i], s))
		}
	}
	d.share(all)
	quotas := newHeadcount(d, all)
	for i := range all {
		ws := d.answer(&all[i])
		quotas.hold(&ws)
		d.agree(&all[i], &ws)
		d.expect(&all[i], &ws)
		d.step.Workloads = append(d.step.Workloads, ws)
	}
}

// expect puts replicas that are decided on and not created yet, or expected to be, into the
// snapshot: those of which it can be thought that they become pods. Of a workload that is held
// none are, unless nothing comes of the plan at all: its pods are seen once there are any.
func (d *decider) expect(a *asked, ws *WorkloadStep) {
	wl := a.of.Workload()
	want, ahead := ws.Replicas, 0
	if ws.Decision != nil {
		want, ahead = ws.Decision.To, ws.Decision.Ahead
	}
	alive, comes := d.alive[wl.Name], d.comes(wl.Name, want)
	if ws.Unplanned = d.gaps.uncounted(wl.Name, max(comes, ahead), alive, d.o.Cluster.Failing); ws.Unplanned != nil {
		return
	}
	if ws.Held != nil && !d.in.onlyRecommends() {
		return
	}
	// it is written, and may be taken back before it is ever seen
	if ws.Held == nil && !d.in.DryRun {
		d.gaps.expect(d.snap.Now, wl.Name, comes, alive)
	}
	if d.in.HandedOff && !d.in.DryRun {
		ahead = min(ahead, want+d.o.Cluster.Placed[ws.Workload])
	}
	if d.o.Cluster.Ordered[wl.Name] && d.gaps.comeInTurn(d.snap.Now, wl.Name) {
		comes = want // their machines come together
	}
	f := nodescaler.Future{Like: d.like(wl), Count: max(comes-alive, 0), Ahead: max(ahead-max(want, alive), 0)}
	if f.Count+f.Ahead > 0 {
		d.snap.Future = append(d.snap.Future, f)
	}
}

// agree has people asked about a decision, if it is not covered.
func (d *decider) agree(a *asked, ws *WorkloadStep) {
	if ws.Decision == nil || ws.Held != nil {
		return
	}
	like := d.like(a.of.Workload())
	ws.Held = d.consult.Scale(d.x, ws.Decision, &like)
}

// counted is how many of a workload's replicas count where the others' places are worked out:
// those that are not pods do while they are expected to become some.
func (d *decider) counted(a *asked) int {
	alive := d.alive[a.Workload]
	if a.Held != nil && !d.in.onlyRecommends() || d.gaps.uncounted(a.Workload, a.Replicas, alive, d.o.Cluster.Failing) != nil {
		return min(a.Replicas, alive)
	}
	return a.Replicas
}

// asked is a workload in a step. Without a view it is not its turn.
type asked struct {
	WorkloadStep
	of   *scaler
	view *podscaler.View
	bid  podscaler.Bid
	most int // replicas that may be decided on
}

// ask sees whether it is a workload's turn, and what is known of it if it is.
func (d *decider) ask(in *Workload, s *scaler) asked {
	wl := s.Workload()
	a := asked{WorkloadStep: WorkloadStep{Workload: wl.Name, Held: in.Held}, of: s}
	replicas, ok := d.o.Cluster.Replicas[wl.Name]
	if !ok {
		d.step.problem(CodeNoSuchWorkload, wl.Name+" is not in the cluster")
		return a
	}
	pods := d.podsOf(wl.Name, in.ByContainer)
	a.Replicas, a.most = replicas, s.Most(&podscaler.View{Now: d.snap.Now, Replicas: replicas, ScaledToZero: in.ScaledToZero, Pause: in.Pause})
	for i := range pods {
		if pods[i].Ready && !pods[i].Terminating {
			a.Ready++
		}
	}
	a.Pending = max(0, replicas-a.Ready)
	if d.newCluster || s.New() {
		s.Look(&podscaler.View{Now: d.snap.Now, Workload: wl, Replicas: replicas, ScaledToZero: in.ScaledToZero, SwitchedOff: in.SwitchedOff})
		return a
	}
	window, turn := d.o.Windows[wl.Name]
	if !turn {
		return a
	}
	if window.Err != nil {
		d.step.problem(CodeSignalsUnknown, fmt.Sprintf("%s: %v", wl.Name, window.Err))
	}
	a.view = &podscaler.View{
		Now: d.snap.Now, Workload: wl, Replicas: replicas, Pods: pods, Window: window.Window,
		Rollout: d.o.Cluster.Rollouts[wl.Name], Pause: in.Pause, Held: in.Held != nil && !in.Paused || d.in.DryRun,
		Room: podscaler.Room{
			PendingReplicas: a.Pending, BootingMachines: d.booting,
			PodLead: d.leads.pod(wl.Name), MachineLead: d.leads.machine(wl.Name),
		},
	}
	a.bid = s.Bid(a.view)
	return a
}

// share works out where the replicas of the workloads that bid would go. Those whose turn it is not
// keep what they have asked for. For the others, so do those that are held: a replica that is not
// created must not take the place of one that is. What they themselves would get is worked out
// beside all others.
func (d *decider) share(all []asked) {
	if !d.machinesKnown || !slices.ContainsFunc(all, func(a asked) bool { return a.bid.Known }) {
		return
	}
	x := d.x
	if len(d.offered) > 0 {
		// Policies must not plan for the pools that cluster-autoscaler orders from, so that these
		// are in a snapshot of their own, with its own index.
		known := d.snap
		known.Pools = slices.Concat(d.snap.Pools, d.offered)
		x = nodescaler.NewIndex(&known)
	}
	asks := d.asks(all)
	places := nodescaler.Share(x, asks)
	if held := func(a asked) bool { return a.Held != nil }; slices.ContainsFunc(all, held) {
		sure := slices.Clone(asks)
		for i := range all {
			if held(all[i]) {
				sure[i].Bid, sure[i].Most = podscaler.Bid{}, sure[i].Replicas
			}
		}
		for i, p := range nodescaler.Share(x, sure) {
			if all[i].Held == nil {
				places[i] = p
			}
		}
	}
	for i := range all {
		if len(x.Pools) == 0 {
			places[i].Most, places[i].Why = asks[i].Most, noPool
		}
		if all[i].view != nil {
			all[i].view.Room.Places = &places[i]
		}
	}
}

// asks are what the workloads ask for.
func (d *decider) asks(all []asked) []nodescaler.Ask {
	asks := make([]nodescaler.Ask, len(all))
	for i := range all {
		wl := all[i].of.Workload()
		replicas := d.counted(&all[i])
		asks[i] = nodescaler.Ask{Workload: wl.Name, Like: d.like(wl), Replicas: replicas, Most: max(all[i].most, replicas), Bid: all[i].bid}
		if _, there := d.o.Cluster.Replicas[wl.Name]; !there {
			asks[i].Most = 0
		}
	}
	return asks
}

// noPool is why nothing is said of further machines where no pool is known: another autoscaler may
// order them, or none does.
var noPool = nodescaler.Reason{Code: nodescaler.PoolUnknown, Text: "no pool is known that machines come from"}

// answer decides for a workload whose turn it is.
func (d *decider) answer(a *asked) WorkloadStep {
	if a.view != nil {
		wl := a.of.Workload()
		a.view.Cost = d.cost(wl)
		decision := a.of.Decide(a.view)
		a.Decision, a.Inputs = &decision, inputs(wl, &a.view.Window, a.view.Cost)
		a.Inputs.Budget = budgetOf(a.of.Budget(d.o.Time))
	}
	return a.WorkloadStep
}

// podsOf are a workload's pods as its policy sees them: with what their containers use, if it goes
// by that.
func (d *decider) podsOf(workload string, byContainer bool) []podscaler.Pod {
	from := len(d.seen)
	for _, j := range d.byWorkload[workload] {
		p := d.snap.Pods[j].Pod
		if p.Lost = d.lost[d.snap.Pods[j].Node]; byContainer {
			p.Uses = d.o.Uses[p.Name]
		}
		d.seen = append(d.seen, p)
	}
	return d.seen[from:len(d.seen):len(d.seen)]
}

// lostNodes are the nodes whose pods do not answer: their host is away, or they were ready once and
// have become silent.
func lostNodes(x *nodescaler.Index) map[string]bool {
	lost := map[string]bool{}
	for i := range x.Snapshot.Nodes {
		n := &x.Snapshot.Nodes[i]
		if x.Dark(n) || !n.Ready && !n.Starting(x.Now, nodescaler.NodeStartup) {
			lost[n.Name] = true
		}
	}
	return lost
}

// like is what another pod of the workload would be.
func (d *decider) like(wl *podscaler.Workload) nodescaler.Pod {
	pods := d.byWorkload[wl.Name]
	i := slices.IndexFunc(pods, func(j int) bool { return !d.snap.Pods[j].Terminating && !d.snap.Pods[j].Finished() })
	if i < 0 {
		return nodescaler.Pod{Workload: wl.Name, Requests: wl.Pod}
	}
	p := &d.snap.Pods[pods[i]]
	like := nodescaler.Pod{
		Workload: wl.Name, Requests: p.Requests, Extra: p.Extra, Priority: p.Priority, Selector: p.Selector, Affinity: p.Affinity,
		Volumes: p.Volumes, Tolerations: p.Tolerations, Has: p.Has, Repels: p.Repels, Topology: p.Topology,
		Prefers: p.Prefers, Noted: p.Noted,
	}
	if p.Another != nil {
		like.Volumes, like.Selector, like.Extra = p.Another.Volumes, p.Another.Selector, p.Another.Extra
	}
	return like
}
