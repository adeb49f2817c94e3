package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
)

// The pending policy does what kproximate 0.2 does, as far as its rules are rules. It polls. What
// unschedulable pods ask for, less the capacity on its way, is divided by one machine shape. A node
// goes when one fewer would hold the load with some headroom.
//
// Its faults are kept, since they are what it is compared for. It adds up requests and does
// not look at taints, selectors or how pods fit, so it may order machines that the pods cannot
// use, and orders them again for as long as those pods wait. It counts a machine as its whole
// shape (countAs), so a pod between what a node can give and the shape's size makes it do so
// for ever. It does not see a node that has just joined and whose pods are about to be bound.
// It shrinks without asking whether the pods fit elsewhere. It never gives back its last
// machine, nor one that died. A drain that budgets hold up holds up every later one.
//
// Not kept is its queue, in which an order waits for one of the workers and is carried out even
// when its pods are gone: what cannot be ordered at once is reckoned anew at the next poll. A world
// that takes every order and makes a few machines at a time shows that (the shipped experiments
// do). Nor are crashes (bare pods) and the deletion of nodes whose pods were refused eviction. Nor
// is the random choice between equal nodes, nor that of the least loaded node by cores plus bytes
// per MiB, in which memory outweighs CPU a million to one: it goes by the larger of the two shares
// here.

// Pending is the settings of the pending policy, named as kproximate's where it has them.
type Pending struct {
	// Pool is the pool whose machines it orders; it may be omitted if there is only one.
	Pool string `json:"pool,omitempty"`
	// Shape is the name of the one shape that it orders; the pool's first if omitted.
	Shape        string              `json:"shape,omitempty"`
	PollInterval nodescaler.Duration `json:"pollInterval"`
	// Parallel is how many machines may be on their way at once: kproximate's workers.
	Parallel int `json:"parallel"`
	// LoadHeadroom is the share of the load that has to stay free on top of it when a node is
	// reclaimed.
	LoadHeadroom float64 `json:"loadHeadroom"`
	CountAs      CountAs `json:"countAs"`
	// WaitForJoin is how long a machine that has joined still counts as on its way while its
	// node is not ready.
	WaitForJoin nodescaler.Duration `json:"waitForJoin"`
}

// CountAs says what a machine counts as, when load is divided by machines.
type CountAs string

// What a machine counts as.
const (
	CountShape       CountAs = "shape"       // its vCPU and memory: what kproximate does
	CountAllocatable CountAs = "allocatable" // that less the pool's reserve: what pods can use
)

// DefaultPending is kproximate's defaults.
func DefaultPending() Pending {
	return Pending{PollInterval: seconds(10), Parallel: 3, LoadHeadroom: 0.2, CountAs: CountShape, WaitForJoin: seconds(60)}
}

// UnmarshalJSON reads settings over the defaults and refuses unknown ones.
func (c *Pending) UnmarshalJSON(data []byte) error {
	type fields Pending
	f := fields(DefaultPending())
	err := decode("pending", data, &f)
	*c = Pending(f)
	return err
}

// Validate reports everything that is wrong with the settings.
func (c *Pending) Validate() error {
	f := &faults{block: "pending"}
	f.positive("pollInterval", c.PollInterval)
	f.must(c.Parallel >= 1, "parallel", "at least 1", c.Parallel)
	f.must(c.LoadHeadroom >= 0 && c.LoadHeadroom <= 10, "loadHeadroom", "between 0 and 10", c.LoadHeadroom)
	f.must(c.CountAs == CountShape || c.CountAs == CountAllocatable, "countAs", "shape or allocatable", c.CountAs)
	f.notNegative("waitForJoin", c.WaitForJoin)
	return f.err()
}

func init() {
	register("pending", func(s Spec) (nodescaler.Policy, error) {
		c := DefaultPending()
		if s.Pending != nil {
			c = *s.Pending
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return &pending{cfg: c}, nil
	})
}

// pending remembers nothing but when it last polled, and what had no place then.
type pending struct {
	cfg      Pending
	last     time.Time
	unplaced []nodescaler.Unplaced
}

// Decide polls when the interval is over.
func (p *pending) Decide(x *nodescaler.Index) nodescaler.Plan {
	interval := time.Duration(p.cfg.PollInterval)
	if since := x.Now.Sub(p.last); !p.last.IsZero() && since >= 0 && since < interval {
		return nodescaler.Plan{LookAgain: p.last.Add(interval), Unplaced: p.unplaced}
	}
	first := p.last.IsZero()
	p.last = x.Now
	d := draft.New(x)
	if t, ok := newPoll(&p.cfg, d); ok {
		t.grow()
		if first {
			d.Note(nodescaler.JustStarted, "nothing is reclaimed at the first look")
		} else {
			t.shrink()
			t.DismissSpares()
		}
	} else {
		d.ParkAll("a pool and a shape that the settings of the node policy pending name", d.Plan.Reasons[len(d.Plan.Reasons)-1])
		d.NoteUnplaced(nil, nil)
	}
	d.Plan.LookAgain = x.Now.Add(interval)
	p.unplaced = d.Plan.Unplaced
	return d.Plan
}

// poll is one poll: the pool's machines and nodes as they are.
type poll struct {
	*draft.Draft
	cfg      *Pending
	pool     *nodescaler.PoolSize
	shape    pricing.Shape
	size     pricing.Resources // what one machine counts as
	failed   []*nodescaler.Machine
	inFlight []string               // machines on their way in
	leaving  []string               // machines on their way out
	nodes    []*nodescaler.NodeLoad // that stay
	draining []*nodescaler.NodeLoad
	wait     bool // there are pods to wait for before anything is reclaimed
}

func newPoll(cfg *Pending, d *draft.Draft) (*poll, bool) {
	t := &poll{Draft: d, cfg: cfg}
	if !t.choosePool() || !t.chooseShape() {
		return nil, false
	}
	t.size = t.shape.Resources()
	if cfg.CountAs == CountAllocatable {
		t.size = t.pool.Capacity(t.shape)
	}
	if t.size.CPU <= 0 || t.size.Memory <= 0 {
		d.Note(nodescaler.PoolUnknown, "shape %s of pool %s counts as %s, which holds no pod", t.shape.Name, t.pool.Name, nodescaler.Amount(t.size))
		return nil, false
	}
	for _, m := range d.X.Machines {
		if m.Pool == t.pool.Name {
			t.sort(m)
		}
	}
	return t, true
}

func (t *poll) choosePool() bool {
	switch {
	case t.cfg.Pool != "":
		t.pool = t.X.Pool(t.cfg.Pool)
	case len(t.X.Pools) == 1:
		t.pool = &t.X.Pools[0]
	}
	if t.pool == nil {
		t.Note(nodescaler.PoolUnknown, "there are %d pools, and none that pending.pool names (%q)", len(t.X.Pools), t.cfg.Pool)
	}
	return t.pool != nil
}

func (t *poll) chooseShape() bool {
	i := 0
	if t.cfg.Shape != "" {
		i = slices.IndexFunc(t.pool.Shapes, func(s pricing.Shape) bool { return s.Name == t.cfg.Shape })
	}
	if i < 0 || i >= len(t.pool.Shapes) {
		t.Note(nodescaler.PoolUnknown, "pool %s has %d shapes, and none that pending.shape names (%q)", t.pool.Name, len(t.pool.Shapes), t.cfg.Shape)
		return false
	}
	t.shape = t.pool.Shapes[i]
	return true
}

// sort puts a machine of the pool where it belongs.
func (t *poll) sort(m *nodescaler.Machine) {
	n := t.X.NodeOf(m.Name)
	switch {
	case m.Phase == nodescaler.Failed:
		t.failed = append(t.failed, m)
	case m.Phase == nodescaler.Deleting:
		t.leaving = append(t.leaving, m.Name)
	case m.Phase != nodescaler.Joined || (n == nil || !n.Ready) && t.X.Now.Sub(m.Since) <= time.Duration(t.cfg.WaitForJoin):
		t.inFlight = append(t.inFlight, m.Name)
	case n == nil || n.VM != m: // gone, or not known to be ours
	case n.Draining:
		t.draining = append(t.draining, n)
	default:
		t.nodes = append(t.nodes, n)
	}
}

// grow orders as many machines as the larger of the two sums needs, and the pool's minimum. What
// namespaces ask for that may not have all of it is added up apart, and comes after the rest.
func (t *poll) grow() {
	w := t.Admit()
	var pods, last, tooBig []*nodescaler.Pod
	apart := t.beyond(w)
	for _, p := range w.Pending {
		switch {
		case !p.Requests.Within(t.size):
			tooBig = append(tooBig, p)
		case apart[p.Namespace()]:
			last = append(last, p)
		default:
			pods = append(pods, p)
		}
	}
	if t.wait = len(pods)+len(last) > 0; len(tooBig) > 0 {
		t.Note(nodescaler.PodTooBig, "ignored, since a machine counts as %s: %s", nodescaler.Amount(t.size), draft.Some("pod", draft.PodNames(tooBig)))
	}
	asked := asksOf(pods)
	need, why := t.need(asked, pods)
	if short := t.pool.Min - t.pool.Live; short > need {
		need = short
		why = draft.Because(nodescaler.PoolBelowMin, "pool %s has %d live machines of at least %d", t.pool.Name, t.pool.Live, t.pool.Min)
	} else if need == 0 && len(pods) > 0 {
		t.Note(nodescaler.CapacityInFlight, "%s", why.Text)
	}
	t.buyUpTo(need, why, t.forOf(pods))
	t.growLast(last, t.size.Times(len(t.inFlight)).Minus(asked))
	t.NoteHeld()
	t.strandAll(w.Pending)
}

// strandAll notes the pods that its one shape of machine does not help. Where machines are on their
// way those may.
func (t *poll) strandAll(pods []*nodescaler.Pod) {
	pool, only := *t.pool.Pool, *t.pool
	pool.Shapes, only.Pool = []pricing.Shape{t.shape}, &pool
	of := []nodescaler.PoolSize{only}
	shut := func(p *nodescaler.PoolSize) *nodescaler.Reason { return p.Shut() }
	for _, p := range pods {
		if len(t.inFlight)+t.Bought == 0 || !t.Suits(p, &of[0]) {
			t.Strand([]*nodescaler.Pod{p}, "", nil)
		}
	}
	t.NoteUnplaced(of, shut)
}

// need is how many machines the larger of the two sums needs beside those on their way.
func (t *poll) need(asked pricing.Resources, pods []*nodescaler.Pod) (int, nodescaler.Reason) {
	coming := t.size.Times(len(t.inFlight))
	return t.machines(asked.Minus(coming)), draft.Because(nodescaler.PodsPending, "%s asked for by %s; %s on the way in %s; a machine counts as %s",
		nodescaler.Amount(asked), draft.Some("pod", draft.PodNames(pods)), nodescaler.Amount(coming), draft.Some("machine", t.inFlight), nodescaler.Amount(t.size))
}

// machines is how many machines hold what is asked for.
func (t *poll) machines(asked pricing.Resources) int {
	return max(machines(int64(asked.CPU), int64(t.size.CPU)), machines(int64(asked.Memory), int64(t.size.Memory)))
}

func asksOf(pods []*nodescaler.Pod) (sum pricing.Resources) {
	for _, p := range pods {
		sum = sum.Plus(p.Requests)
	}
	return sum
}

// forOf says for which namespaces with quotas the next machine is, after so many: each needs as
// many as hold what it asks for.
func (t *poll) forOf(pods []*nodescaler.Pod) func(after int) []string {
	asked := map[string]pricing.Resources{}
	for _, p := range pods {
		if n := p.Namespace(); t.Tenants.Of(n) != nil {
			asked[n] = asked[n].Plus(p.Requests)
		}
	}
	return func(after int) (names []string) {
		for _, n := range slices.Sorted(maps.Keys(asked)) {
			if t.machines(asked[n]) > after {
				names = append(names, n)
			}
		}
		return names
	}
}

// beyond are the namespaces that may not have as many whole machines as they ask for.
func (t *poll) beyond(w nodescaler.Wanted) map[string]bool {
	by, beyond := map[string][]*nodescaler.Pod{}, maps.Clone(w.At)
	for _, p := range w.Pending {
		if n := p.Namespace(); t.Tenants.Of(n) != nil && p.Requests.Within(t.size) {
			by[n] = append(by[n], p)
		}
	}
	for n, pods := range by {
		if _, why := t.may(n, t.machines(asksOf(pods))); why != nil {
			beyond[n] = true
		}
	}
	return beyond
}

// may is how many machines the namespace's quota allows beside what it takes, of so many. Those on
// their way count as its own, as they do against what it asks for. It says why not, if it does not
// allow all.
func (t *poll) may(namespace string, need int) (n int, why *nodescaler.Reason) {
	rate := pricing.Rate(0)
	for i := range t.X.Hosts {
		if h := &t.X.Hosts[i]; t.pool.Takes(h.Host) {
			rate = max(rate, t.X.Rate(t.shape, h.Name))
		}
	}
	for n = need; n > 0; n-- {
		beyond := t.Tenants.Of(namespace).Beyond(nodescaler.Take{Rate: rate * pricing.Rate(n), Orders: max(n-len(t.inFlight), 0)})
		if beyond == nil {
			break
		}
		why = beyond
	}
	return n, why
}

// growLast orders for each of the namespaces that may not have all that they ask for as many
// machines as they may have, beside what is left of those on their way.
func (t *poll) growLast(pods []*nodescaler.Pod, coming pricing.Resources) {
	by := map[string][]*nodescaler.Pod{}
	for _, p := range pods {
		by[p.Namespace()] = append(by[p.Namespace()], p)
	}
	for _, n := range slices.Sorted(maps.Keys(by)) {
		asked := asksOf(by[n])
		may, why := t.may(n, t.machines(asked))
		if why != nil {
			t.HoldBack(n, by[n][0], len(by[n]), why)
			if may == 0 {
				for _, p := range by[n] {
					t.Park(p, draft.QuotaHelp(p), *why)
				}
			}
		}
		whole := t.size.Times(may)
		asked = pricing.Resources{CPU: min(asked.CPU, whole.CPU), Memory: min(asked.Memory, whole.Memory)}
		left := pricing.Resources{CPU: max(coming.CPU, 0), Memory: max(coming.Memory, 0)}
		coming = left.Minus(asked)
		only := []string{n}
		t.buyUpTo(t.machines(asked.Minus(left)), draft.Because(nodescaler.PodsPending, "%s of what is asked for by %s, which is what namespace %s may have; a machine counts as %s",
			nodescaler.Amount(asked), draft.Some("pod", draft.PodNames(by[n])), n, nodescaler.Amount(t.size)), func(int) []string { return only })
	}
}

// machines is how many machines of a size hold what is asked for.
func machines(asked, size int64) int {
	return int((max(asked, 0) + size - 1) / size)
}

// buyUpTo orders machines one by one, for as long as it may.
func (t *poll) buyUpTo(need int, why nodescaler.Reason, of func(after int) []string) {
	if need == 0 {
		return
	}
	count := draft.Because(nodescaler.LargestOfNeed, "the larger of the needs for CPU and memory is %s of shape %s", pricing.Count(need, "machine"), t.shape.Name)
	at := t.hostsInUse()
	for i := range need {
		switch host, reason := t.host(at); {
		case len(t.inFlight)+t.Bought >= t.cfg.Parallel:
			t.Note(nodescaler.ParallelLimit, "%s ordered of %s, since no more than %d may be on their way at once", pricing.Count(i, "machine"), pricing.Count(need, "machine"), t.cfg.Parallel)
			return
		case t.pool.Shut() != nil:
			t.Plan.Reasons = append(t.Plan.Reasons, *t.pool.Shut())
			return
		case t.Room[t.pool.Name] < 1:
			t.Note(nodescaler.PoolAtMax, "%s ordered of %s, since pool %s may have no more than %d", pricing.Count(i, "machine"), pricing.Count(need, "machine"), t.pool.Name, t.pool.Max)
			return
		case host == "":
			t.NoteRefused()
			t.Note(nodescaler.NoHostRoom, "%s ordered of %s, since no host of pool %s has room for %s", pricing.Count(i, "machine"), pricing.Count(need, "machine"), t.pool.Name, nodescaler.Amount(t.shape.Resources()))
			return
		case !t.Affords(t.shape, host):
			return
		default:
			t.Buy(t.pool.Name, t.shape, host, why, count, reason)
			t.Plan.Actions[len(t.Plan.Actions)-1].For = of(i)
			at[host] = true
		}
	}
}

// hostsInUse are the hosts that carry machines of the pool.
func (t *poll) hostsInUse() map[string]bool {
	at := map[string]bool{}
	for _, m := range t.X.Machines {
		if m.Pool == t.pool.Name {
			at[m.Host] = true
		}
	}
	return at
}

// host chooses one without the pool's machines, or else the one with the most memory left.
func (t *poll) host(inUse map[string]bool) (string, nodescaler.Reason) {
	var empty, all []*nodescaler.HostRoom
	for i := range t.X.Hosts {
		h := &t.X.Hosts[i]
		if !t.Holds(t.pool.Pool, t.shape, h.Host) {
			continue
		}
		if all = append(all, h); !inUse[h.Name] {
			empty = append(empty, h)
		}
	}
	fullness := func(h *nodescaler.HostRoom) pricing.Bytes { return -t.Free[h.Name].Memory }
	switch {
	case len(empty) > 0:
		name := draft.Least(empty, fullness).Name
		return name, draft.Because(nodescaler.SpreadHost, "%s carries no machine of pool %s yet, as %d of %d hosts with room", name, t.pool.Name, len(empty), len(all))
	case len(all) > 0:
		name := draft.Least(all, fullness).Name
		return name, draft.Because(nodescaler.RoomiestHost, "%s has the most memory left of %d hosts with room: %s", name, len(all), nodescaler.Amount(t.Free[name]))
	}
	return "", nodescaler.Reason{}
}

// shrink gives back what failed, carries on with a drain, or else starts one.
func (t *poll) shrink() {
	if held := t.pool.HeldDown; held != nil {
		t.Plan.Reasons = append(t.Plan.Reasons, *held)
		return
	}
	for _, m := range t.failed {
		if t.X.Away(m.Host) {
			t.Note(nodescaler.HostOffline, "%s failed (%s) and stays until its host %s is back", m.Name, m.Problem, m.Host)
			continue
		}
		if held := t.Stays(m); held != nil {
			t.Note(held.Code, "%s failed and stays: %s", m.Name, held.Text)
			continue
		}
		t.Return(m, draft.Because(nodescaler.MachineFailed, "%s failed: %s", m.Name, m.Problem))
	}
	for _, n := range t.draining {
		t.carryOn(n)
	}
	if t.mayShrink() {
		t.startDrain()
	}
}

// unknown reports whether what is seen of the node may be out of date.
func (t *poll) unknown(n *nodescaler.NodeLoad) bool { return !n.Ready || t.X.Away(n.VM.Host) }

// carryOn empties a node further, and gives its machine back once it is empty.
func (t *poll) carryOn(n *nodescaler.NodeLoad) {
	held := n.Held()
	pinned := slices.IndexFunc(held, func(p *nodescaler.Pod) bool { return p.Pinned != "" })
	if why := draft.MachineHeld(t.X, n.VM); why != nil {
		t.Uncordon(n, *why)
		return
	}
	switch {
	case t.unknown(n):
		t.Note(nodescaler.NodeNotReady, "%s is being emptied and is not ready, or its host is away; what is on it is not known", n.Name)
	case !n.Cordoned:
		t.Uncordon(n, draft.CalledOff(n))
	case !t.Reserve(t.pool.Name):
		t.Uncordon(n, draft.Because(nodescaler.PoolAtMin, "pool %s has %d live machines of at least %d", t.pool.Name, t.pool.Live, t.pool.Min))
	case pinned >= 0:
		t.Uncordon(n, draft.Because(nodescaler.PodPinned, "%s holds %s, which must not be evicted: %s", n.Name, held[pinned].Name, held[pinned].Pinned))
	case len(held) == 0:
		t.Return(n.VM, draft.Because(nodescaler.NodeEmpty, "%s was emptied", n.Name))
	default:
		t.Evict(n)
	}
}

// mayShrink reports whether all is quiet and one node fewer would do.
func (t *poll) mayShrink() bool {
	busy := append(append(slices.Clone(t.inFlight), t.leaving...), nodeNames(t.draining)...)
	unready := slices.IndexFunc(t.nodes, t.unknown)
	switch {
	case t.wait:
		t.Note(nodescaler.ActivityElsewhere, "nothing is reclaimed while pods are pending")
	case len(busy) > 0:
		t.Note(nodescaler.ActivityElsewhere, "nothing is reclaimed with %s on the way in or out", draft.Some("machine", busy))
	case unready >= 0:
		t.Note(nodescaler.NodeNotReady, "nothing is reclaimed while %s is not ready, or its host is away", t.nodes[unready].Name)
	case t.Spare[t.pool.Name] < 1:
		t.Note(nodescaler.PoolAtMin, "pool %s has %d live machines of at least %d", t.pool.Name, t.pool.Live, t.pool.Min)
	default:
		return t.fewerWouldDo()
	}
	return false
}

func nodeNames(nodes []*nodescaler.NodeLoad) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}

// fewerWouldDo is kproximate's rule: the load and its headroom stay below what one node fewer
// is of the whole, in CPU and in memory. For a single node that is never so.
func (t *poll) fewerWouldDo() bool {
	if len(t.nodes) == 0 {
		return false
	}
	var used pricing.Resources
	for _, n := range t.nodes {
		used = used.Plus(n.Used.Requests)
	}
	n := len(t.nodes)
	whole, limit := t.size.Times(n), float64(n-1)/float64(n)
	// The slack keeps a load that is exactly at the limit from passing it by a rounding.
	const slack = 1e-9
	cpu := draft.Share(int64(used.CPU), int64(whole.CPU)) * (1 + t.cfg.LoadHeadroom)
	mem := draft.Share(int64(used.Memory), int64(whole.Memory)) * (1 + t.cfg.LoadHeadroom)
	if cpu+slack < limit && mem+slack < limit {
		return true
	}
	t.Note(nodescaler.LoadNeedsAll, "%s asked for on %s; with %.0f %% headroom that is %.2f of their CPU and %.2f of their memory, and one fewer would be %.2f",
		nodescaler.Amount(used), pricing.Count(n, "node"), 100*t.cfg.LoadHeadroom, cpu, mem, limit)
	return false
}

// startDrain closes the least loaded node and starts to empty it. A node that another client
// cordoned is theirs, and one with a pinned pod cannot be emptied.
func (t *poll) startDrain() {
	var may []*nodescaler.NodeLoad
	for _, n := range t.nodes {
		held := n.Held()
		pinned := slices.IndexFunc(held, func(p *nodescaler.Pod) bool { return p.Pinned != "" })
		why := t.Stays(n.VM)
		switch {
		case why != nil:
			t.Note(why.Code, "%s stays: %s", n.Name, why.Text)
		case n.Cordoned:
			t.Note(nodescaler.NodeCordoned, "%s was cordoned by another client", n.Name)
		case n.Pinned != "":
			t.Note(nodescaler.NodePinned, "%s stays: it is %s", n.Name, n.Pinned)
		case pinned >= 0:
			t.Note(nodescaler.PodPinned, "%s holds %s, which must not be evicted: %s", n.Name, held[pinned].Name, held[pinned].Pinned)
		default:
			may = append(may, n)
		}
	}
	if len(may) == 0 {
		return
	}
	load := func(n *nodescaler.NodeLoad) float64 { return draft.Dominant(n.Used.Requests, t.size) }
	n := draft.Least(may, load)
	t.Cordon(n,
		draft.Because(nodescaler.LoadFitsFewer, "%s would hold what %s carry, with %.0f %% headroom", pricing.Count(len(t.nodes)-1, "node"), pricing.Count(len(t.nodes), "node"), 100*t.cfg.LoadHeadroom),
		draft.Because(nodescaler.LeastLoaded, "%s carries %s, %.0f %% of a machine", n.Name, nodescaler.Amount(n.Used.Requests), 100*load(n)))
	t.Evict(n)
}
