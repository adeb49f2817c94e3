package policy

import (
	"cmp"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
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
	d.conclude(quotas, "workload")
	d.conclude(unhelped, "pod")
}

// tooMany notes that a namespace wants more pods like one than all machines could carry.
func (d *draft) tooMany(p *nodescaler.Pod) {
	if d.tenants.Of(p.Namespace()) != nil {
		d.at[p.Namespace()] = true
	}
}

// charge is what namespaces with quotas take of a machine for these pods.
func (d *draft) charge(o *packing.Offer, b *bundle) map[string]nodescaler.Take {
	parts := map[string]nodescaler.Take{}
	capacity := o.Shape.Resources()
	if p := d.x.Pool(o.Pool); p != nil {
		capacity = p.Capacity(o.Shape)
	}
	for namespace, rate := range nodescaler.Split(o.Rate, capacity, b.pods) {
		if d.tenants.Of(namespace) != nil {
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
func (b *bill) allows(d *draft, o *packing.Offer, of *bundle) bool {
	if b == nil {
		return true
	}
	take := d.charge(o, of)[b.tenant.Namespace]
	if why := b.tenant.Beyond(plus(b.takes, take)); why != nil {
		for _, p := range of.pods {
			d.holdBack(b.tenant.Namespace, p, 1, why)
		}
		for _, p := range of.asked {
			d.park(p, quotaHelp(p), *why)
		}
		return false
	}
	b.add(take)
	return true
}
