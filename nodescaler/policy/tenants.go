package policy

import (
	"cmp"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Namespaces that have quotas. Those whose wants are surely within them are planned for together with all that have
// none, as if there were no others; then each of the others alone, with what is left and as far as its quota goes.
// So no namespace gets less, or later, because another wants too much. The price of that is a packing that is less
// tight: pods of a namespace at its quota fill machines of others, and do not share in choosing them.

// admit is what machines may be ordered for.
func (d *draft) admit() nodescaler.Wanted {
	d.tenants = d.x.Tenants()
	w := d.tenants.Admit(d.x)
	d.holding, d.at = map[string]*nodescaler.Held{}, w.At
	for _, h := range w.Held {
		d.holdBack(h.Namespace, &nodescaler.Pod{Workload: h.Workload}, h.Pods, &h.Why)
	}
	admitted := map[*nodescaler.Pod]bool{}
	for _, p := range w.Pending {
		admitted[p] = true
	}
	for _, p := range d.x.Pending {
		if h := d.holding[nodescaler.HeldAs(p)]; h != nil && !admitted[p] {
			d.park(p, quotaHelp(p), h.Why)
		}
	}
	return w
}

func quotaHelp(p *nodescaler.Pod) string { return "a higher quota of namespace " + p.Namespace() }

// holdBack notes pods that no machine is ordered for.
func (d *draft) holdBack(namespace string, p *nodescaler.Pod, count int, why *nodescaler.Reason) {
	nodescaler.Hold(d.holding, namespace, p, count, why)
}

// noteHeld says what is held for quotas, and which pods no machine helps.
func (d *draft) noteHeld() {
	quotas, unhelped := findings{}, findings{}
	for _, key := range slices.Sorted(maps.Keys(d.holding)) {
		h := *d.holding[key]
		d.plan.Held = append(d.plan.Held, h)
		of := h.Workload
		if of == "" {
			of = h.Namespace + ", of no workload"
		}
		quotas.add(h.Why.Code, "no machine is ordered for %s of %s: %s", plural(h.Pods, "pod"), of, h.Why.Text)
	}
	for i := range d.x.Snapshot.Pods {
		if p := &d.x.Snapshot.Pods[i]; p.Unhelped != "" {
			unhelped.add(nodescaler.PodsNotHelped, "no machine is ordered for %s: %s", p.Name, p.Unhelped)
		}
	}
	quotas.tell(d, "workload")
	unhelped.tell(d, "pod")
}

// tooMany notes that a namespace wants more pods like one than all machines could carry.
func (d *draft) tooMany(p *nodescaler.Pod) {
	if d.tenants.Of(p.Namespace()) != nil {
		d.at[p.Namespace()] = true
	}
}

// serve plans for what is wanted.
func (t *scan) serve(wants []want, offers []packing.Offer) {
	if t.tenants == nil {
		t.settle(wants, packing.Solve(t.problem(wants, offers)), nil)
		return
	}
	apart := maps.Clone(t.at)
	in := func(w want) bool { return apart[w.pod.Namespace()] }
	for {
		together := slices.DeleteFunc(slices.Clone(wants), in)
		if len(together) == 0 {
			break
		}
		r := packing.Solve(t.problem(together, offers))
		beyond := t.beyond(together, r)
		if len(beyond) == 0 {
			t.settle(together, r, nil)
			break
		}
		maps.Copy(apart, beyond)
	}
	for _, namespace := range slices.Sorted(maps.Keys(apart)) {
		own := slices.DeleteFunc(slices.Clone(wants), func(w want) bool { return w.pod.Namespace() != namespace })
		if len(own) == 0 {
			continue
		}
		r := packing.Solve(t.problem(own, offers))
		b := &bill{tenant: t.tenants.Of(namespace)}
		b.add(t.charges(own, r)[namespace])
		t.settle(own, r, b)
	}
}

// beyond are the namespaces whose quotas the packing exceeds.
func (t *scan) beyond(wants []want, r packing.Result) map[string]bool {
	all := t.charges(wants, r)
	bundles := make([]bundle, len(r.Purchases))
	for i := range r.Placements {
		if p := &r.Placements[i]; p.Purchase >= 0 {
			bundles[p.Purchase].add(&wants[i])
		}
	}
	for i := range bundles {
		for namespace, take := range t.charge(&r.Purchases[i].Offer, &bundles[i]) {
			all[namespace] = plus(all[namespace], take)
		}
	}
	beyond := map[string]bool{}
	for namespace, take := range all {
		if t.tenants.Of(namespace).Beyond(take) != nil {
			beyond[namespace] = true
		}
	}
	return beyond
}

// charges is what namespaces with quotas take of nodes and of machines on their way by a packing. A machine that is
// on its way is paid for by those who wait for it.
func (t *scan) charges(wants []want, r packing.Result) map[string]nodescaler.Take {
	all, coming := map[string]nodescaler.Take{}, map[string]*bundle{}
	for i := range r.Placements {
		bin := r.Placements[i].Bin
		if bin == "" {
			continue
		}
		if coming[bin] == nil {
			coming[bin] = &bundle{}
		}
		coming[bin].add(&wants[i])
	}
	due := map[string]dueMachine{}
	for _, m := range t.due() {
		due[m.name] = m
	}
	for bin, b := range coming {
		m, is := due[bin]
		for namespace, take := range t.charge(&packing.Offer{Pool: m.pool, Shape: m.shape, Rate: m.rate}, b) {
			if take.Orders = 0; !is || m.used.Pods > 0 { // others pay for it
				take.Rate = 0
			}
			all[namespace] = plus(all[namespace], take)
		}
	}
	return all
}

// charge is what namespaces with quotas take of a machine for these pods.
func (t *scan) charge(o *packing.Offer, b *bundle) map[string]nodescaler.Take {
	parts := map[string]nodescaler.Take{}
	capacity := o.Shape.Resources()
	if p := t.x.Pool(o.Pool); p != nil {
		capacity = p.Capacity(o.Shape)
	}
	for namespace, rate := range nodescaler.Split(o.Rate, capacity, b.pods) {
		if t.tenants.Of(namespace) != nil {
			parts[namespace] = nodescaler.Take{Rate: rate, Orders: 1}
		}
	}
	for _, p := range b.pods {
		if take, has := parts[p.Namespace()]; has {
			take.Replicas++
			parts[p.Namespace()] = take
		}
	}
	return parts
}

func plus(a, b nodescaler.Take) nodescaler.Take {
	return nodescaler.Take{Rate: a.Rate + b.Rate, Replicas: a.Replicas + b.Replicas, Orders: a.Orders + b.Orders}
}

// bill is what a namespace that is planned for alone takes by the plan.
type bill struct {
	tenant *nodescaler.Tenant
	takes  nodescaler.Take
}

// order is the order in which machines are ordered: for a namespace that may not get all of them those that carry
// most of its pods first.
func (b *bill) order(bundles []bundle) []int {
	all := make([]int, len(bundles))
	for i := range all {
		all[i] = i
	}
	if b != nil {
		slices.SortStableFunc(all, func(i, j int) int { return cmp.Compare(len(bundles[j].pods), len(bundles[i].pods)) })
	}
	return all
}

func (b *bill) add(take nodescaler.Take) { b.takes = plus(b.takes, take) }

// allows reports whether the namespace may have a machine for these pods, and holds them if not.
func (b *bill) allows(t *scan, o *packing.Offer, of *bundle) bool {
	if b == nil {
		return true
	}
	take := t.charge(o, of)[b.tenant.Namespace]
	if why := b.tenant.Beyond(plus(b.takes, take)); why != nil {
		for _, p := range of.pods {
			t.holdBack(b.tenant.Namespace, p, 1, why)
		}
		for _, p := range of.asked {
			t.park(p, quotaHelp(p), *why)
		}
		return false
	}
	b.add(take)
	return true
}

// dueMachine is a machine that is not there yet, and what it was planned to carry.
type dueMachine struct {
	name, pool string
	shape      pricing.Shape
	rate       pricing.Rate
	used       nodescaler.Used
	crowd      nodescaler.Crowd // of its node, which is starting
}

// due are the machines on their way, and those that the plan adds, with what they were planned to carry.
func (t *scan) due() []dueMachine {
	all := make([]dueMachine, 0, len(t.coming)+len(t.more))
	for _, m := range t.coming {
		d := dueMachine{name: m.Name, pool: m.Pool, shape: m.Shape, rate: t.x.Rate(m.Shape, m.Host), used: t.filled[m.Name]}
		if n := t.x.NodeOf(m.Name); n != nil { // what does not wait for the rest of it may be on it
			for _, p := range n.Held() {
				d.used, d.crowd = d.used.With(p), d.crowd.With(p)
			}
		}
		all = append(all, d)
	}
	for _, m := range t.more {
		m.used = t.filled[m.name]
		all = append(all, m)
	}
	return all
}

// fill puts a pod onto a machine that is not there yet.
func (t *scan) fill(machine string, p *nodescaler.Pod) {
	if t.tenants != nil {
		t.filled[machine] = t.filled[machine].With(p)
		t.places.crowds[machine] = t.places.crowds[machine].With(p)
	}
}

// boughtFor notes for which pods and namespaces the plan's last action adds a machine, whose room
// is left to others.
func (t *scan) boughtFor(o *packing.Offer, b *bundle) {
	a := &t.plan.Actions[len(t.plan.Actions)-1]
	a.Pods = b.names
	if t.tenants == nil {
		return
	}
	a.For = slices.Sorted(maps.Keys(t.charge(o, b)))
	name := a.Machine
	if name == "" {
		name = nodescaler.MachineName(a.Pool, a.Order)
	}
	t.more = append(t.more, dueMachine{name: name, pool: o.Pool, shape: o.Shape, rate: o.Rate})
	for _, p := range b.pods {
		t.fill(name, p)
	}
}
