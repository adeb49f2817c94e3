package planner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Namespaces that have quotas. Those whose wants are surely within them are planned for together
// with all that have none, as if there were no others; then each of the others alone, with what
// is left and as far as its quota goes. So no namespace gets less, or later, because another
// wants too much. The price of that is a packing that is less tight: pods of a namespace at its
// quota fill machines of others, and do not share in choosing them.

// Admit is what machines may be ordered for.
func (d *Draft) Admit() nodescaler.Wanted {
	d.Tenants = d.X.Tenants()
	w := d.Tenants.Admit(d.X)
	d.holding, d.at = map[string]*nodescaler.Held{}, w.At
	for _, h := range w.Held {
		d.HoldBack(h.Namespace, &nodescaler.Pod{Workload: h.Workload}, h.Pods, &h.Why)
	}
	admitted := map[*nodescaler.Pod]bool{}
	for _, p := range w.Pending {
		admitted[p] = true
	}
	for _, p := range d.X.Pending {
		if h := d.holding[nodescaler.HeldAs(p)]; h != nil && !admitted[p] {
			d.Park(p, QuotaHelp(p), h.Why)
		}
	}
	return w
}

// QuotaHelp is what would help a pod that its namespace's quota holds.
func QuotaHelp(p *nodescaler.Pod) string { return "a higher quota of namespace " + p.Namespace() }

// HoldBack notes pods that no machine is ordered for.
func (d *Draft) HoldBack(namespace string, p *nodescaler.Pod, count int, why *nodescaler.Reason) {
	nodescaler.Hold(d.holding, namespace, p, count, why)
}

// NoteHeld says what is held for quotas, and which pods no machine helps.
func (d *Draft) NoteHeld() {
	quotas, unhelped := findings{}, findings{}
	for _, key := range slices.Sorted(maps.Keys(d.holding)) {
		h := *d.holding[key]
		d.Plan.Held = append(d.Plan.Held, h)
		of := h.Workload
		if of == "" {
			of = h.Namespace + ", of no workload"
		}
		quotas.add(h.Why.Code, "no machine is ordered for %s of %s: %s", Plural(h.Pods, "pod"), of, h.Why.Text)
	}
	for i := range d.X.Snapshot.Pods {
		p := &d.X.Snapshot.Pods[i]
		if why := d.X.NotHelped(p); why != "" {
			unhelped.add(nodescaler.PodsNotHelped, "no machine is ordered for %s: %s", p.Name, why)
		}
	}
	d.conclude(quotas, "workload")
	d.conclude(unhelped, "pod")
}

// tooMany notes that a namespace wants more pods like one than all machines could carry.
func (d *Draft) tooMany(p *nodescaler.Pod) {
	if d.Tenants.Of(p.Namespace()) != nil {
		d.at[p.Namespace()] = true
	}
}

// charge is what namespaces with quotas take of a machine for these pods.
func (d *Draft) charge(o *packing.Offer, b *bundle) map[string]nodescaler.Take {
	parts := map[string]nodescaler.Take{}
	capacity := o.Shape.Resources()
	if p := d.X.Pool(o.Pool); p != nil {
		capacity = p.Capacity(o.Shape)
	}
	for namespace, rate := range nodescaler.Split(o.Rate, capacity, b.pods) {
		if d.Tenants.Of(namespace) != nil {
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

// order is the order in which machines are ordered: for a namespace that may not get all of them
// those that carry most of its pods first.
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
func (b *bill) allows(d *Draft, o *packing.Offer, of *bundle) bool {
	if b == nil {
		return true
	}
	take := d.charge(o, of)[b.tenant.Namespace]
	if why := b.tenant.Beyond(plus(b.takes, take)); why != nil {
		for _, p := range of.pods {
			d.HoldBack(b.tenant.Namespace, p, 1, why)
		}
		for _, p := range of.asked {
			d.Park(p, QuotaHelp(p), *why)
		}
		return false
	}
	b.add(take)
	return true
}
