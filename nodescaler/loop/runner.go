package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// ErrBudget is what Cluster.Evict answers when disruption budgets do not allow it now. It is
// an ordinary outcome: the next step asks again.
var ErrBudget = errors.New("disruption budget used up")

// ErrRefused is what Machines.Create wraps when the order was surely not taken. Any other error
// leaves that open, and the order counts as a machine until it is listed or given up.
var ErrRefused = errors.New("order refused")

// ErrPoolRefused is ErrRefused where the pool takes no order now, whatever its shape and host.
var ErrPoolRefused = fmt.Errorf("%w by its pool", ErrRefused)

// Codes of what a step itself has to say.
const (
	CodeClusterUnknown  = "ClusterUnknown"  // the cluster could not be read: nothing is decided
	CodeMachinesUnknown = "MachinesUnknown" // the machines could not be read: pods are scaled, machines are not
	CodeSignalsUnknown  = "SignalsUnknown"  // a workload's signals could not be read
	CodeLooking         = "Looking"         // the first step after a start only looks
	CodeNoSuchWorkload  = "NoSuchWorkload"  // a workload has no scale subresource to be found
	CodePlanRefused     = "PlanRefused"     // an action would have broken an invariant and was left out
	CodeOrderLost       = "OrderLost"       // an accepted order never showed up among the machines
	CodeCostUnknown     = "CostUnknown"     // the ledger could not be kept
)

// orderGrace is how long an accepted order may take to show up in List. Until then the runner
// itself counts it as a machine, so that a lagging list buys nothing twice.
const orderGrace = 2 * time.Minute

// Runner makes steps. Between two of them its owner may replace Pools, Offered, Scalers, Nodes,
// ScaledToZero, Pauses and what is held; prices change by Reprice, and all else is set once, before the first. What the runner
// remembers between steps is safe to forget.
type Runner struct {
	Cluster  Cluster
	Machines Machines
	Signals  Signals
	Journal  Journal // nil keeps none
	Pools    []nodescaler.Pool
	Scalers  []*podscaler.Scaler
	Nodes    nodescaler.Policy // nil scales pods only
	Prices   *pricing.Book
	// Limit is what all machines together may cost an hour; 0 is no limit. Whatever a policy plans,
	// no machine is ordered beyond it.
	Limit pricing.Rate
	// Quotas are what namespaces may take of the machines. The first that fits a namespace counts.
	Quotas []nodescaler.Quota
	// Jumped is when the clock jumped, if the runner was made anew for that.
	Jumped time.Time
	// Predict is what the machines will cost that pending pods still need; only workloads
	// whose cost target counts the predicted cost need it.
	Predict func(*nodescaler.Snapshot) pricing.Rate
	// DryRun decides and records, and does nothing.
	DryRun bool
	// Holds are what nothing is done to; HoldsUp and HoldsDown the pools that have no more capacity, or no less,
	// for now. Workloads that are held are decided for and recorded all the same. So are pools while all of them
	// are held; beside one that is not they are planned around.
	Holds              Holds
	HoldsUp, HoldsDown map[string]nodescaler.Reason
	// Soon are the pools that can be ordered from in a moment: they are planned for, so that nothing dearer is
	// ordered meanwhile, and the orders are left to a later step.
	Soon map[string]nodescaler.Reason
	// Pauses are the workloads whose replicas somebody has fixed, or keeps from going one way.
	Pauses map[string]podscaler.Pause
	// Offered are the pools that somebody else orders machines of. None is planned for here, but workloads
	// that want more replicas may count on them.
	Offered []nodescaler.Pool
	// HandedOff says that replicas which are expected beyond those decided on are made known to somebody else
	// who orders machines for them. Here, only those whose places were made so far are planned for.
	HandedOff bool
	// ScaledToZero names the workloads whose status records that replicas of 0 are our own doing. A
	// scaler goes by it at its first look, and by its memory after that.
	ScaledToZero map[string]bool
	// KeepSnapshots puts the whole snapshot into every record, so that another policy can
	// decide it again.
	KeepSnapshots bool

	steps   int
	looked  bool // the cluster was seen once
	listed  bool // so were the machines
	account account
	leads   leads
	orders  []accepted
	refused refusals
	gaps    gaps
	ordered ordered
	helped  nodescaler.Unhelped
	seen    []podscaler.Pod // room for what the next step's views see
}

// Holds are workloads and pools that nothing is done to, by name, each with the reason: they only
// get recommendations, are paused, or are somebody else's to scale.
type Holds struct {
	Workloads, Pools map[string]nodescaler.Reason
}

// heldWorkload says why a workload's replicas are not to be changed, or nil.
func (r *Runner) heldWorkload(name string) *nodescaler.Reason {
	why, held := r.Holds.Workloads[name]
	if !held {
		return nil
	}
	return &why
}

// heldPool says why an action of the kind is not to be done for a pool, or nil.
func (r *Runner) heldPool(pool string, k nodescaler.Kind) *nodescaler.Reason {
	way := r.HoldsDown
	if k.Grows() {
		way = r.HoldsUp
	}
	why, held := r.Holds.Pools[pool]
	if !held {
		why, held = way[pool]
	}
	if !held {
		return nil
	}
	return &why
}

// later says why an action of the plan is not done now, or nil.
func (r *Runner) later(a *nodescaler.Action) *nodescaler.Reason {
	held := r.heldPool(a.Pool, a.Kind)
	if why, soon := r.Soon[a.Pool]; soon && held == nil && a.Kind.Grows() {
		held = &why
	}
	return held
}

// onlyRecommends reports whether all pools are held, both ways. Nothing comes of a plan then: it may as well say
// what would be done to them, and what machines replicas would need that are only recommended. Otherwise
// machines would be ordered, or kept, for what nobody does.
func (r *Runner) onlyRecommends() bool {
	return !slices.ContainsFunc(r.Pools, func(p nodescaler.Pool) bool {
		return r.heldPool(p.Name, nodescaler.Buy) == nil || r.heldPool(p.Name, nodescaler.Return) == nil
	})
}

// planned are the pools as policies are to see them.
func (r *Runner) planned() []nodescaler.Pool {
	if r.onlyRecommends() {
		return r.Pools
	}
	named := func(pool string, why *nodescaler.Reason) *nodescaler.Reason {
		if why != nil {
			why.Text = fmt.Sprintf("pool %s is left as it is: %s", pool, why.Text)
		}
		return why
	}
	pools := slices.Clone(r.Pools)
	for i := range pools {
		p := &pools[i]
		p.HeldUp = named(p.Name, r.heldPool(p.Name, nodescaler.Buy))
		p.HeldDown = named(p.Name, r.heldPool(p.Name, nodescaler.Return))
	}
	return pools
}

// withDaemons returns the pools with what daemons take of their machines.
func withDaemons(pools []nodescaler.Pool, daemons func(*nodescaler.Pool) nodescaler.Daemons) []nodescaler.Pool {
	if daemons == nil {
		return pools
	}
	pools = slices.Clone(pools) // they are the owner's
	for i := range pools {
		pools[i].Daemons = daemons(&pools[i])
	}
	return pools
}

// accepted is an order that Create took and List has not shown yet.
type accepted struct {
	machine nodescaler.Machine
	at      time.Time
}

// Once makes one step: observe, decide, act. It returns the record of it, and an error when
// the cluster could not be observed or the record not be kept; what went wrong with single
// workloads and actions stands in the record.
func (r *Runner) Once(ctx context.Context, now time.Time) (Step, error) {
	r.steps++
	step := Step{ID: fmt.Sprintf("d-%06d", r.steps), Time: now}
	w, err := r.observe(ctx, now, &step)
	if err != nil {
		step.problem(CodeClusterUnknown, err.Error())
		return step, errors.Join(err, r.append(&step))
	}
	r.decide(ctx, w, &step)
	if !r.DryRun {
		r.act(ctx, w, &step)
	}
	return step, r.append(&step)
}

func (r *Runner) append(s *Step) error {
	if r.Journal == nil {
		return nil
	}
	if err := r.Journal.Append(s); err != nil {
		return fmt.Errorf("journal %s: %w", s.ID, err)
	}
	return nil
}

// world is what one step works on: the snapshot, and what the pod side needs beside it.
type world struct {
	snap          nodescaler.Snapshot
	replicas      map[string]int
	rollouts      map[string]podscaler.Rollout
	placed        map[string]int // placeholders that are on a node, by workload
	failing       map[string]string
	alive         map[string]int // pods that are there and stay, by workload
	machinesKnown bool
	offered       []nodescaler.Pool // Runner.Offered, told what they refuse
	// The first sight of the cluster, and of the machines, is only looked at.
	newCluster, newMachines bool
	byWorkload              map[string][]int // indices into snap.Pods
	seen                    []podscaler.Pod  // in the views of this step
	lost                    map[string]bool  // nodes
	booting                 int
	joined, all             pricing.Rate // what the joined machines cost now, and what all do
	// predicted is what Predict said when so many kinds of future pods were known; -1 is not asked.
	predicted   pricing.Rate
	predictedOf int
}

func (r *Runner) observe(ctx context.Context, now time.Time, step *Step) (*world, error) {
	cs, err := r.Cluster.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("observe cluster: %w", err)
	}
	w := &world{
		snap: nodescaler.Snapshot{
			Now: now, Jumped: r.Jumped, Pools: withDaemons(r.planned(), cs.Daemons), Prices: r.Prices, Limit: r.Limit, Quotas: r.Quotas,
			Nodes: cs.Nodes, Pods: cs.Pods, Budgets: cs.Budgets,
		},
		replicas: cs.Replicas, rollouts: cs.Rollouts, placed: cs.Placed, failing: cs.Failing, newCluster: !r.looked, predictedOf: -1,
	}
	r.looked = true
	ms, err := r.Machines.List(ctx)
	if err != nil {
		step.problem(CodeMachinesUnknown, err.Error())
	} else {
		w.machinesKnown, w.newMachines = true, !r.listed
		r.listed = true
		w.snap.Hosts, w.snap.Machines = ms.Hosts, r.withOrders(ms.Machines, now, step)
		w.offered = without(withDaemons(r.Offered, cs.Daemons), ms.Refused)
		w.snap.Pools = without(without(w.snap.Pools, ms.Refused), r.refused.now(now))
		if err := r.account.see(r.Prices, w.snap.Machines, now); err != nil {
			step.problem(CodeCostUnknown, err.Error())
		}
		w.joined, w.all = rates(&w.snap)
	}
	w.index()
	r.gaps.see(now, w.replicas, w.alive, w.failing)
	r.helped.Mark(&w.snap)
	if len(r.Quotas) > 0 && w.machinesKnown {
		if w.newMachines {
			r.ordered.recall(&w.snap)
		}
		w.snap.Ordered = r.ordered.count(now)
	}
	r.leads.see(&w.snap, w.machinesKnown)
	step.Observed = r.observed(w)
	if r.KeepSnapshots {
		step.Snapshot = &w.snap
	}
	return w, nil
}

// withOrders returns the listed machines and those that were ordered and are not listed yet.
func (r *Runner) withOrders(listed []nodescaler.Machine, now time.Time, step *Step) []nodescaler.Machine {
	if len(r.orders) == 0 {
		return listed
	}
	seen := make(map[string]bool, len(listed))
	for i := range listed {
		seen[listed[i].Order] = true
	}
	r.orders = slices.DeleteFunc(r.orders, func(a accepted) bool {
		if !seen[a.machine.Order] && now.Sub(a.at) > orderGrace {
			step.problem(CodeOrderLost, fmt.Sprintf("order %s was accepted %s ago and is not listed", a.machine.Order, now.Sub(a.at)))
			return true
		}
		return seen[a.machine.Order]
	})
	if len(r.orders) == 0 {
		return listed
	}
	all := slices.Clone(listed)
	for _, a := range r.orders {
		all = append(all, a.machine)
	}
	slices.SortFunc(all, func(a, b nodescaler.Machine) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (w *world) index() {
	w.lost = lostNodes(&w.snap)
	w.byWorkload, w.alive = make(map[string][]int, len(w.replicas)), make(map[string]int, len(w.replicas))
	for i := range w.snap.Pods {
		p := &w.snap.Pods[i]
		if p.Workload == "" {
			continue
		}
		if w.byWorkload[p.Workload] = append(w.byWorkload[p.Workload], i); !p.Terminating && !p.Finished() {
			w.alive[p.Workload]++
		}
	}
	for i := range w.snap.Machines {
		m := &w.snap.Machines[i]
		if (m.Phase == nodescaler.Ordered || m.Phase == nodescaler.Booting) && !m.Kept() {
			w.booting++
		}
	}
}

// decide asks the pod scalers first and the node policy after them, so that machines are
// planned for the pods that were just decided on.
func (r *Runner) decide(ctx context.Context, w *world, step *Step) {
	if w.newCluster || w.newMachines {
		step.problem(CodeLooking, "the first step after a start decides nothing")
	}
	w.seen = slices.Grow(r.seen[:0], len(w.snap.Pods)) // thousands of pods would else be a megabyte of garbage each step
	asked := make([]asked, len(r.Scalers))
	for i, s := range r.Scalers {
		asked[i] = r.ask(ctx, w, s, step)
	}
	r.seen = w.seen
	r.share(w, asked)
	quotas := newHeadcount(w)
	for i, s := range r.Scalers {
		ws := r.answer(w, s, &asked[i])
		quotas.hold(&ws)
		r.expect(w, s.Workload(), &ws)
		step.Workloads = append(step.Workloads, ws)
	}
	if r.Nodes == nil || !w.machinesKnown || w.newMachines || w.newCluster {
		return
	}
	step.Plan = r.refuse(w, r.Nodes.Decide(&w.snap), step)
	step.Plan.Unplaced = unoffered(w, step.Plan.Unplaced)
	unplanned(w, step)
}

// expect puts replicas that are decided on and not created yet, or expected to be, into the snapshot: those of
// which it can be thought that they become pods. Of a workload that is held none are, unless nothing comes of the
// plan at all: its pods are seen once there are any.
func (r *Runner) expect(w *world, wl *podscaler.Workload, ws *WorkloadStep) {
	want, ahead := ws.Replicas, 0
	if ws.Decision != nil {
		want, ahead = ws.Decision.To, ws.Decision.Ahead
	}
	alive := w.alive[wl.Name]
	if ws.Unplanned = r.gaps.uncounted(wl.Name, max(want, ahead), alive, w.failing); ws.Unplanned != nil {
		return
	}
	if ws.Held != nil && !r.onlyRecommends() {
		return
	}
	if ws.Held == nil && !r.DryRun { // it is written, and may be taken back before it is ever seen
		r.gaps.expect(w.snap.Now, wl.Name, want, alive)
	}
	if r.HandedOff {
		ahead = min(ahead, want+w.placed[ws.Workload])
	}
	f := nodescaler.Future{Like: w.like(wl), Count: max(want-alive, 0), Ahead: max(ahead-max(want, alive), 0)}
	if f.Count+f.Ahead > 0 {
		w.snap.Future = append(w.snap.Future, f)
	}
}

// counted is how many of a workload's replicas count where the others' places are worked out: those that are not
// pods do while they are expected to become some.
func (r *Runner) counted(w *world, a *asked) int {
	alive := w.alive[a.Workload]
	if a.Replicas > alive && (a.Held != nil && !r.onlyRecommends() || r.gaps.uncounted(a.Workload, a.Replicas, alive, w.failing) != nil) {
		return alive
	}
	return a.Replicas
}

// refuse leaves out of a plan what would break an invariant, and says so. What is left is
// looked at again: an eviction rests on the cordon before it.
func (r *Runner) refuse(w *world, p nodescaler.Plan, step *Step) nodescaler.Plan {
	for {
		bad := map[int]bool{}
		for _, v := range nodescaler.Check(&w.snap, p) {
			a := &p.Actions[v.Action]
			step.problem(CodePlanRefused, fmt.Sprintf("%s %s: %s: %s", a.Kind, cmp.Or(a.Pod, a.Machine, a.Node, a.Order), v.Code, v.Text))
			bad[v.Action] = true
		}
		if len(bad) == 0 {
			return p
		}
		kept := p.Actions[:0:0]
		for i, a := range p.Actions {
			if !bad[i] {
				kept = append(kept, a)
			}
		}
		p.Actions = kept
	}
}

// asked is a workload in a step. Without a view it is not its turn.
type asked struct {
	WorkloadStep
	view *podscaler.View
	bid  podscaler.Bid
}

// ask sees whether it is a workload's turn, and what is known of it if it is.
func (r *Runner) ask(ctx context.Context, w *world, s *podscaler.Scaler, step *Step) asked {
	wl := s.Workload()
	a := asked{WorkloadStep: WorkloadStep{Workload: wl.Name, Held: r.heldWorkload(wl.Name)}}
	replicas, ok := w.replicas[wl.Name]
	if !ok {
		step.problem(CodeNoSuchWorkload, wl.Name+" is not in the cluster")
		return a
	}
	pods := w.podsOf(wl.Name)
	a.Replicas = replicas
	for i := range pods {
		if pods[i].Ready && !pods[i].Terminating {
			a.Ready++
		}
	}
	a.Pending = max(0, replicas-a.Ready)
	if w.newCluster || s.New() {
		s.Look(&podscaler.View{Now: w.snap.Now, Workload: wl, Replicas: replicas, ScaledToZero: r.ScaledToZero[wl.Name]})
		return a
	}
	if !s.Due(w.snap.Now) {
		return a
	}
	window, err := r.Signals.Read(ctx, wl, w.snap.Now)
	if err != nil {
		step.problem(CodeSignalsUnknown, fmt.Sprintf("%s: %v", wl.Name, err))
		window = podscaler.Window{}
	}
	a.view = &podscaler.View{
		Now: w.snap.Now, Workload: wl, Replicas: replicas, Pods: pods, Window: window,
		Rollout: w.rollouts[wl.Name], Pause: r.Pauses[wl.Name],
		Room: podscaler.Room{
			PendingReplicas: a.Pending, BootingMachines: w.booting,
			PodLead: r.leads.pods.Usual(), MachineLead: r.leads.machine(),
		},
	}
	a.bid = s.Bid(a.view)
	return a
}

// share tells the workloads that bid where their replicas would go. Those whose turn it is not keep
// what they have asked for. So do those that are held, for the others: a replica that nobody creates must not
// keep one from its place that somebody will. What they themselves would get is worked out beside all others.
func (r *Runner) share(w *world, all []asked) {
	if !w.machinesKnown || !slices.ContainsFunc(all, func(a asked) bool { return a.view != nil && a.bid.Known }) {
		return
	}
	known := w.snap
	known.Pools = slices.Concat(w.snap.Pools, w.offered)
	x := nodescaler.NewIndex(&known)
	asks := r.asks(w, all)
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
		if len(known.Pools) == 0 {
			places[i].Most, places[i].Why = asks[i].Most, anybodys
		}
		if all[i].view != nil {
			all[i].view.Room.Places = &places[i]
		}
	}
}

// asks are what the workloads ask for.
func (r *Runner) asks(w *world, all []asked) []nodescaler.Ask {
	asks := make([]nodescaler.Ask, len(all))
	for i := range all {
		wl := r.Scalers[i].Workload()
		replicas := r.counted(w, &all[i])
		asks[i] = nodescaler.Ask{Workload: wl.Name, Like: w.like(wl), Replicas: replicas, Most: max(wl.Max, replicas), Bid: all[i].bid}
		if _, there := w.replicas[wl.Name]; !there {
			asks[i].Most = 0
		}
	}
	return asks
}

// anybodys is why nothing is said of further machines where no pool is known: somebody else may order them,
// or nobody.
var anybodys = nodescaler.Reason{Code: nodescaler.PoolUnknown, Text: "no pool is known that machines come from"}

// answer decides for a workload whose turn it is.
func (r *Runner) answer(w *world, s *podscaler.Scaler, a *asked) WorkloadStep {
	if a.view != nil {
		a.view.Cost = r.cost(w, s.Workload())
		d := s.Decide(a.view)
		a.Decision, a.Inputs = &d, inputs(s.Workload(), &a.view.Window, a.view.Cost)
	}
	return a.WorkloadStep
}

func (w *world) podsOf(workload string) []podscaler.Pod {
	from := len(w.seen)
	for _, j := range w.byWorkload[workload] {
		p := w.snap.Pods[j].Pod
		p.Lost = w.lost[w.snap.Pods[j].Node]
		w.seen = append(w.seen, p)
	}
	return w.seen[from:len(w.seen):len(w.seen)]
}

// lostNodes are the nodes that nobody on them is answered by: their host is away, or they were ready once and have
// gone silent.
func lostNodes(s *nodescaler.Snapshot) map[string]bool {
	hosts, machines := map[string]bool{}, map[string]bool{} // that are away
	for i := range s.Hosts {
		hosts[s.Hosts[i].Name] = !s.Hosts[i].Online
	}
	for i := range s.Machines {
		machines[s.Machines[i].Name] = hosts[s.Machines[i].Host]
	}
	lost := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if machines[n.Machine] || !n.Ready && !n.Starting(s.Now, nodescaler.NodeStartup) {
			lost[n.Name] = true
		}
	}
	return lost
}

// like is what another pod of the workload would be.
func (w *world) like(wl *podscaler.Workload) nodescaler.Pod {
	pods := w.byWorkload[wl.Name]
	i := slices.IndexFunc(pods, func(j int) bool { return !w.snap.Pods[j].Terminating && !w.snap.Pods[j].Finished() })
	if i < 0 {
		return nodescaler.Pod{Workload: wl.Name, Requests: wl.Pod}
	}
	p := &w.snap.Pods[pods[i]]
	like := nodescaler.Pod{
		Workload: wl.Name, Requests: p.Requests, Extra: p.Extra, Priority: p.Priority, Selector: p.Selector, Affinity: p.Affinity,
		Volumes: p.Volumes, Tolerations: p.Tolerations, Has: p.Has, Repels: p.Repels, Topology: p.Topology,
		Prefers: p.Prefers, Noted: p.Noted,
	}
	if p.Another != nil {
		like.Volumes, like.Selector = p.Another.Volumes, p.Another.Selector
	}
	return like
}

// act carries the step out, in order, and records what came of each part. After a failure
// with a node or machine, the rest of the plan for it is left for the next step.
func (r *Runner) act(ctx context.Context, w *world, step *Step) {
	for i := range step.Workloads {
		d := step.Workloads[i].Decision
		if d == nil || d.To == d.From || step.Workloads[i].Held != nil {
			continue
		}
		o := Outcome{Action: -1, Workload: d.Workload}
		if err := r.scale(ctx, w, d); err != nil {
			o.Error = err.Error()
		}
		step.Outcomes = append(step.Outcomes, o)
	}
	failed := map[string]bool{}
	for i, a := range step.Plan.Actions {
		if ctx.Err() != nil {
			return
		}
		if why := r.later(&a); why != nil {
			step.Outcomes = append(step.Outcomes, Outcome{Action: i, Held: why})
			continue
		}
		if a.Node != "" && failed[a.Node] {
			continue
		}
		o := Outcome{Action: i}
		if err := r.do(ctx, w, a); err != nil {
			o.Error = err.Error()
			if a.Node != "" && !errors.Is(err, ErrBudget) {
				failed[a.Node] = true
			}
		}
		step.Outcomes = append(step.Outcomes, o)
	}
}

// scale writes the replicas of a decision. Before a workload shrinks, the pods are chosen that are to go,
// where the node policy wants whole machines left; that this fails is told, and holds nothing up.
func (r *Runner) scale(ctx context.Context, w *world, d *podscaler.Decision) error {
	var chosen error
	if c, can := r.Cluster.(Chooser); can && d.To < d.From && w.machinesKnown && empties(r.Nodes) {
		// None is a choice, too: an earlier one is forgotten by it.
		chosen = c.Choose(ctx, d.Workload, nodescaler.Leaving(nodescaler.NewIndex(&w.snap), d.Workload, d.From-d.To))
	}
	return errors.Join(chosen, r.Cluster.SetReplicas(ctx, d.Workload, d.To))
}

func empties(p nodescaler.Policy) bool {
	e, is := p.(nodescaler.Emptier)
	return is && e.Empties()
}

func (r *Runner) do(ctx context.Context, w *world, a nodescaler.Action) error {
	switch a.Kind {
	case nodescaler.Buy:
		return r.buy(ctx, a, w.snap.Now)
	case nodescaler.Cordon, nodescaler.Uncordon:
		return r.Cluster.SetDraining(ctx, a.Node, a.Kind == nodescaler.Cordon)
	case nodescaler.Evict:
		return r.Cluster.Evict(ctx, a.Pod)
	case nodescaler.Return:
		return r.Machines.Delete(ctx, a.Machine)
	case nodescaler.Stash, nodescaler.Wake:
		err := r.keep(ctx, a)
		if err == nil {
			r.ordered.note(a.For, w.snap.Now)
		}
		return err
	}
	return fmt.Errorf("unknown action %q", a.Kind)
}

// keep stops a machine that was emptied, or starts one and lets its node take pods again. The node of a
// spare stays closed from its drain on; where it could not be opened, the policy finds it closed and takes
// that back.
func (r *Runner) keep(ctx context.Context, a nodescaler.Action) error {
	k, can := r.Machines.(Keeper)
	switch {
	case !can:
		return errors.New("machines cannot be kept as spares here")
	case a.Kind == nodescaler.Stash:
		return k.Stash(ctx, a.Machine)
	}
	if err := k.Wake(ctx, a.Machine); err != nil || a.Node == "" {
		return err
	}
	return r.Cluster.SetDraining(ctx, a.Node, false)
}

func (r *Runner) buy(ctx context.Context, a nodescaler.Action, now time.Time) error {
	err := r.Machines.Create(ctx, Order{ID: a.Order, Action: a, At: now})
	if err != nil {
		err = fmt.Errorf("order %s: %w", a.Order, err)
	}
	if errors.Is(err, ErrRefused) {
		r.refused.note(&a, err, now)
		return err
	}
	if err == nil {
		r.refused.taken(&a)
	}
	r.ordered.note(a.For, now)
	r.orders = append(r.orders, accepted{at: now, machine: nodescaler.Machine{
		Name: nodescaler.MachineName(a.Pool, a.Order), Order: a.Order, Pool: a.Pool, Shape: *a.Shape,
		Host: a.Host, Phase: nodescaler.Ordered, Since: now, Keep: a.Keep,
	}})
	return err
}

func (s *Step) problem(code, text string) {
	s.Problems = append(s.Problems, nodescaler.Reason{Code: code, Text: text})
}
