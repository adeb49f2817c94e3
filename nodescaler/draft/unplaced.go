package draft

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Pods that wait and that nothing in the plan helps have a reason each, in the words of those who
// write pods and pools. It says what keeps them from the machines of each pool, the pool that comes
// nearest first, and the change that would help.

// Packed is why the packing has no place for a pod.
func Packed(p *packing.Placement) *nodescaler.Reason {
	codes := map[packing.Why]string{
		packing.NoOffer: nodescaler.PoolClosed, packing.Refused: nodescaler.RequirementUnmet, packing.TooBig: nodescaler.PodTooBig,
		packing.PoolFull: nodescaler.PoolAtMax, packing.NoRoom: nodescaler.NoHostRoom, packing.NoResource: nodescaler.InsufficientResource,
	}
	return &nodescaler.Reason{Code: codes[p.Why], Text: p.Text}
}

// NoteUnplaced puts into the plan what was noted. Shut says why a pool makes no machines now, or
// nil.
func (d *Draft) NoteUnplaced(pools []nodescaler.PoolSize, shut func(*nodescaler.PoolSize) *nodescaler.Reason) {
	d.parkUnhelped()
	s := search{Draft: d, pools: pools, shut: shut, found: map[string]unplaced{}}
	slices.SortStableFunc(d.unplaced, func(a, b unplaced) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	all, seen := map[string]*nodescaler.Unplaced{}, map[string]bool{}
	for _, u := range d.unplaced {
		if seen[u.pod.Name] || d.settles(u.pod) {
			continue
		}
		if u.why == nil {
			u = s.explain(u)
		}
		if u.why == nil {
			continue // a machine may be ordered for it
		}
		key := strconv.Quote(u.pod.Workload) + u.why.Code + " " + u.why.Text
		if all[key] == nil {
			all[key] = &nodescaler.Unplaced{Workload: u.pod.Workload, Why: *u.why, Help: u.help}
		}
		g := all[key]
		if u.pod.Name == "" {
			g.Coming++
			continue
		}
		seen[u.pod.Name] = true
		if g.Count++; len(g.Pods) < nodescaler.UnplacedNamed {
			g.Pods = append(g.Pods, u.pod.Name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		d.Plan.Unplaced = append(d.Plan.Unplaced, *all[key])
	}
}

// claimsTake is how long after a pod its claims may be made and bound, which is nothing to say a
// word about.
const claimsTake = time.Minute

// settles reports whether the pod is new and has a claim that is not ready for it.
func (d *Draft) settles(p *nodescaler.Pod) bool {
	return p.Selector[nodescaler.SelectHelp] != "" && d.X.Now.Sub(p.Created) < claimsTake
}

// parkUnhelped notes the pods that room did not help.
func (d *Draft) parkUnhelped() {
	for i := range d.X.Snapshot.Pods {
		p := &d.X.Snapshot.Pods[i]
		if why := d.X.NotHelped(p); why != "" {
			d.Park(p, "what the scheduler says in the pod's events", nodescaler.Reason{Code: nodescaler.PodsNotHelped, Text: why})
		}
	}
}

// search looks for what keeps pods from the machines that may be ordered.
type search struct {
	*Draft
	pools []nodescaler.PoolSize
	shut  func(*nodescaler.PoolSize) *nodescaler.Reason
	found map[string]unplaced // by what is looked at in a pod
}

func (s *search) explain(u unplaced) unplaced {
	key := fmt.Sprintf("%v %s %v", u.pod.Requests, nodescaler.Class(u.pod), u.pod.Topology)
	found, ok := s.found[key]
	if !ok {
		found.why, found.help = s.obstacle(u.pod)
		s.found[key] = found
	}
	if u.why = u.known; found.why != nil {
		u.why, u.help = found.why, found.help
	}
	return u
}

// obstacle is what keeps a pod from a pool's machines.
type obstacle struct {
	stage          stage
	code, is, help string
	pools          []string
}

// stage is how near the pool comes to having a machine for the pod.
type stage int

const (
	otherLabels stage = iota
	tainted
	refusing // for another reason
	tooSmall
	crowded // by DaemonSets
	closed
	full
	noHost
	tooDear
)

// obstacle says what keeps the pod from all pools, or nil if a machine may be had.
func (s *search) obstacle(p *nodescaler.Pod) (why *nodescaler.Reason, help string) {
	if what := p.Selector[nodescaler.SelectNowhere]; what != "" {
		r := Because(nodescaler.RequirementUnmet, "the pod asks for %s, and no pool is known to have one", what)
		return &r, cmp.Or(p.Selector[nodescaler.SelectHelp], "a node of that kind which joins without Plimsoll, or a pod that does not ask for it")
	}
	if len(s.pools) == 0 {
		r := Because(nodescaler.PoolUnknown, "there is no pool that a machine could be ordered from")
		return &r, "a VMPool that is Ready"
	}
	var all []obstacle
	for i := range s.pools {
		o := s.at(p, &s.pools[i])
		if o == nil {
			return nil, ""
		}
		same := slices.IndexFunc(all, func(a obstacle) bool { return a.code == o.code && a.is == o.is })
		if same < 0 {
			all, same = append(all, *o), len(all)
		}
		all[same].pools = append(all[same].pools, s.pools[i].Name)
	}
	slices.SortStableFunc(all, func(a, b obstacle) int { return -cmp.Compare(a.stage, b.stage) })
	return &nodescaler.Reason{Code: all[0].code, Text: together(all)}, all[0].help
}

// together puts obstacles into a sentence.
func together(all []obstacle) string {
	const shown = 3
	var parts []string
	for i := range all[:min(len(all), shown)] {
		o := &all[i]
		what := "pool "
		if len(o.pools) > 1 {
			what = "pools "
		}
		names := strings.Join(o.pools[:min(len(o.pools), shown)], ", ")
		if more := len(o.pools) - shown; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, what+names+": "+o.is)
	}
	more := 0
	for i := shown; i < len(all); i++ {
		more += len(all[i].pools)
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and %s more do not take it", pricing.Count(more, "pool")))
	}
	return strings.Join(parts, "; ")
}

// at is what keeps the pod from the pool's machines, or nil: the first thing that one would have
// to change.
func (s *search) at(p *nodescaler.Pod, pool *nodescaler.PoolSize) *obstacle {
	on, takes, no := s.taken(p, pool)
	if no != nil {
		return no
	}
	fits := slices.DeleteFunc(slices.Clone(takes), func(shape pricing.Shape) bool { return !pool.Holds(p, shape, on[0]) })
	if len(fits) == 0 {
		return s.small(p, pool, takes)
	}
	if why := s.shut(pool); why != nil {
		code := nodescaler.PoolClosed
		if why.Code == nodescaler.PoolBackingOff {
			code = why.Code
		}
		return &obstacle{stage: closed, code: code, is: "makes no machines now: " + why.Text, help: "pool " + pool.Name + " making machines again; its conditions and events say what is wrong"}
	}
	if s.Room[pool.Name] < 1 {
		return &obstacle{
			stage: full, code: nodescaler.PoolAtMax, is: fmt.Sprintf("at its maximum of %s", pricing.Count(pool.Max, "machine")),
			help: fmt.Sprintf("a max of pool %s above %d", pool.Name, pool.Max),
		}
	}
	return s.hosts(pool, fits, on)
}

// taken are the hosts and the shapes of the pool's machines that take pods of this kind, their room
// aside; or what keeps the pod from all of them.
func (s *search) taken(p *nodescaler.Pod, pool *nodescaler.PoolSize) (on []string, shapes []pricing.Shape, no *obstacle) {
	var nearest *obstacle
	for _, kind := range s.X.Kinds(pool.Pool) {
		if o := s.refused(p, pool.NodeOn(kind.Shapes[0], kind.Host)); o != nil {
			if nearest == nil || nearest.stage < o.stage {
				nearest = o
			}
			continue
		}
		if !slices.Contains(on, kind.Host) {
			on = append(on, kind.Host)
		}
		if on[0] == kind.Host {
			shapes = append(shapes, kind.Shapes...)
		}
	}
	if len(on) == 0 {
		return nil, nil, nearest
	}
	return on, shapes, nil
}

// Suits reports whether a machine of the pool would hold the pod, if one were made.
func (d *Draft) Suits(p *nodescaler.Pod, pool *nodescaler.PoolSize) bool {
	o := (&search{Draft: d, shut: (*nodescaler.PoolSize).Shut}).at(p, pool)
	return o == nil || o.stage >= closed
}

// refused is why a new node does not take a pod of this kind, or nil. Labels come before taints:
// the machines that have what a pod selects are those that are meant for it.
func (s *search) refused(p *nodescaler.Pod, n *nodescaler.Node) *obstacle {
	code := nodescaler.Accepts(p, n)
	if code == "" && s.Repelled != nil && s.Repelled(p, n) {
		return &obstacle{
			stage: refusing, code: nodescaler.PodsApart, is: "its zone, or another domain, has a pod that is to be apart from this one",
			help: "a pool in another zone, or a looser anti-affinity of one of the two",
		}
	}
	if code == "" {
		return nil
	}
	if key, want, mismatch := mislabelled(p, n); mismatch {
		label := key + "=" + want
		o := &obstacle{stage: otherLabels, code: nodescaler.SelectorMismatch, is: "no label " + label, help: "the label " + label + " on a pool, or another nodeSelector of the pod"}
		if slices.ContainsFunc(p.Topology, func(t nodescaler.Topology) bool { return t.Key == key }) {
			o.is = "not in " + label + ", which is next for the pod by its spread or anti-affinity"
		}
		return o
	}
	if p.Affinity != nil && !p.Affinity.Meets(n) {
		return &obstacle{
			stage: otherLabels, code: nodescaler.SelectorMismatch, is: fmt.Sprintf("the pod's node affinity is not met, which requires %s", p.Affinity),
			help: "labels of a pool that meet it, or another node affinity of the pod",
		}
	}
	for _, v := range p.Volumes {
		if !v.Meets(n) {
			return &obstacle{
				stage: otherLabels, code: nodescaler.VolumeElsewhere, is: fmt.Sprintf("a volume or device of the pod is out of reach, which requires %s", v),
				help: "a pool whose nodes have that, or a volume or device elsewhere",
			}
		}
	}
	for i, t := range n.Taints {
		if !nodescaler.Tolerates(p, n.Taints[i:i+1]) {
			text := taintText(t)
			return &obstacle{stage: tainted, code: nodescaler.TaintNotTolerated, is: "taint " + text + " is not tolerated", help: "a toleration of " + text + " in the pod"}
		}
	}
	return &obstacle{stage: refusing, code: code, is: nodescaler.Mismatch(p, n), help: "other labels of the pool, or another rule in the pod"}
}

// mislabelled is the first label that the pod selects and the node lacks.
func mislabelled(p *nodescaler.Pod, n *nodescaler.Node) (key, value string, is bool) {
	for _, key := range slices.Sorted(maps.Keys(p.Selector)) {
		if got, ok := n.Labels[key]; !ok || got != p.Selector[key] {
			return key, p.Selector[key], true
		}
	}
	return "", "", false
}

// taintText is a taint as kubectl writes it.
func taintText(t nodescaler.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// small is why none of the pool's shapes that take the pod's kind holds the pod.
func (s *search) small(p *nodescaler.Pod, pool *nodescaler.PoolSize, shapes []pricing.Shape) *obstacle {
	if len(pool.Shapes) == 0 {
		return &obstacle{stage: tooSmall, code: nodescaler.PodTooBig, is: "it has no shape", help: "a shape for pool " + pool.Name}
	}
	nearest := Least(shapes, func(shape pricing.Shape) float64 { return Dominant(p.Requests, pool.Capacity(shape)) })
	room := pool.Empty(nearest)
	o := &obstacle{stage: tooSmall, help: fmt.Sprintf("a larger shape for pool %s, or lower requests", pool.Name)}
	switch {
	case p.Requests.Memory > max(room.Free.Memory, 0):
		o.code = nodescaler.InsufficientMemory
	case p.Requests.CPU > max(room.Free.CPU, 0):
		o.code = nodescaler.InsufficientCPU
	case room.Extra.Lacks(p.Extra, nil) != "":
		return s.without(room.Extra.Lacks(p.Extra, nil), p, pool, nearest)
	case room.Slots < 1:
		return &obstacle{stage: tooSmall, code: nodescaler.NoPodSlot, is: "DaemonSets take all pod slots of " + nearest.Name, help: "more podSlots for pool " + pool.Name}
	case room.Crowd.Clash(p) != nil:
		return &obstacle{stage: crowded, code: nodescaler.PodsApart, is: "each machine " + nodescaler.Clashing(p, room.Crowd.Clash(p)), help: "another port or anti-affinity of the pod, or of that DaemonSet"}
	default:
		o.code = nodescaler.PodTooBig
	}
	o.is = fmt.Sprintf("its nearest shape, %s, has %s for pods, and the pod asks for %s%s",
		nearest.Name, nodescaler.Amount(room.Free), nodescaler.Amount(p.Requests), s.DaemonsShare(p, packing.TooBig))
	return o
}

// DaemonsShare names what DaemonSets take of the machines that a pod is too big for, if it fits
// without them.
func (d *Draft) DaemonsShare(p *nodescaler.Pod, why packing.Why) string {
	if why != packing.TooBig {
		return ""
	}
	for i := range d.X.Pools {
		pool := &d.X.Pools[i]
		without := *pool.Pool
		without.Daemons = nodescaler.Daemons{}
		for _, s := range pool.Shapes {
			if slices.ContainsFunc(d.X.HostsApart(&without), func(host string) bool { return without.Holds(p, s, host) }) {
				takes := without.Capacity(s).Minus(pool.Capacity(s))
				return fmt.Sprintf("; DaemonSets and static pods take %s of each %s of pool %s, which would hold it without them%s",
					nodescaler.Amount(takes), s.Name, pool.Name, largest(pool.Daemons.Sets))
			}
		}
	}
	return ""
}

// largest names the DaemonSet that asks for the most CPU.
func largest(sets []*nodescaler.Pod) string {
	if len(sets) == 0 {
		return ""
	}
	d := slices.MaxFunc(sets, func(a, b *nodescaler.Pod) int { return cmp.Compare(a.Requests.CPU, b.Requests.CPU) })
	return fmt.Sprintf("; the largest is %s, with %s", d.Name, nodescaler.Amount(d.Requests))
}

// without is that the pool's machines have too little of a resource besides CPU and memory.
func (s *search) without(name string, p *nodescaler.Pod, pool *nodescaler.PoolSize, nearest pricing.Shape) *obstacle {
	asks := pricing.NamedAmount{Name: name, N: -pricing.Amounts{}.Minus(p.Extra).Left(name)}
	has := pricing.NamedAmount{Name: name, N: max(pool.Empty(nearest).Extra.Of(name), 0)}
	o := &obstacle{
		stage: tooSmall, code: nodescaler.InsufficientResource,
		is:   fmt.Sprintf("its nearest shape, %s, has %s for pods, and the pod asks for %s", nearest.Name, has, asks),
		help: fmt.Sprintf("machines of pool %s with more %s, which the pool says by resources, or a lower request", pool.Name, name),
	}
	if !pool.Has(name) {
		o.is, o.help = "its machines have no "+name, name+" among the resources of a pool whose machines have it, or a pod that does not ask for it"
	}
	if name == pricing.EphemeralStorage {
		o.help = fmt.Sprintf("a larger disk for pool %s, or a lower request", pool.Name)
	}
	if driver, is := strings.CutPrefix(name, nodescaler.AttachableVolumes); is {
		o.help = fmt.Sprintf("a pool whose machines take more volumes of %s, or fewer volumes in the pod", driver)
	}
	return o
}

// hosts is why none of the shapes can be made now, on one of the hosts or on any where they have no
// name; or nil.
func (s *search) hosts(pool *nodescaler.PoolSize, shapes []pricing.Shape, on []string) *obstacle {
	var roomy, made *packing.Offer
	taken := false
	for _, shape := range shapes {
		for i := range s.X.Hosts {
			h := &s.X.Hosts[i]
			if on[0] != "" && !slices.Contains(on, h.Name) {
				continue
			}
			taken = taken || pool.Takes(h.Host)
			if !pool.Makes(shape, h.Host) {
				continue
			}
			o := packing.Offer{Shape: shape, Host: h.Name, Rate: s.X.Rate(shape, h.Name)}
			if made == nil || s.Free[o.Host].Memory > s.Free[made.Host].Memory {
				made = &o
			}
			if !shape.Resources().Within(s.Free[h.Name]) {
				continue
			}
			if _, within := s.Paid.With(shape, h.Name); within {
				return nil
			}
			if roomy == nil || o.Rate < roomy.Rate {
				roomy = &o
			}
		}
	}
	switch {
	case roomy != nil:
		rate, _ := s.Paid.With(roomy.Shape, roomy.Host)
		return &obstacle{stage: tooDear, code: nodescaler.LimitReached, is: fmt.Sprintf("with another %s all machines would cost %s/h of at most %s/h", roomy.Shape.Name, rate, s.X.Limit), help: "a higher limit on the cost"}
	case made != nil:
		return &obstacle{
			stage: noHost, code: nodescaler.NoHostRoom, help: "room on a host of pool " + pool.Name + ", another host, or a smaller shape",
			is: fmt.Sprintf("no host has room for its %s of %s; %s has most left, %s", made.Shape.Name, nodescaler.Amount(made.Shape.Resources()), made.Host, nodescaler.Amount(s.Free[made.Host])),
		}
	case taken && len(pool.Refused) > 0:
		return &obstacle{stage: noHost, code: nodescaler.RefusedLately, is: "makes no such machine now: " + pool.Refused[0].Why.Text, help: "what that says; it is tried again by itself"}
	}
	return &obstacle{stage: noHost, code: nodescaler.NoHostRoom, is: "none of its hosts takes new machines", help: "a host of pool " + pool.Name + " that is on line and neither cordoned nor in maintenance"}
}
