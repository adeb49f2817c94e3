package planner

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Namespaces that have quotas. Those whose wants are surely within them are planned for together
// with all that have none, as if there were no others; then each of the others alone, with what
// is left and as far as its quota goes. So no namespace gets less, or later, because another
// wants too much. The price of that is a packing that is less tight: pods of a namespace at its
// quota fill machines of others, and do not share in choosing them.

// charge is what namespaces with quotas take of a machine for these pods.
func charge(d *draft.Draft, o *packing.Offer, b *bundle) map[string]nodescaler.Take {
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

// add counts what the namespace takes, and forgo no more.
func (b *bill) add(take nodescaler.Take) {
	if b != nil {
		b.takes = plus(b.takes, take)
	}
}

func (b *bill) forgo(take nodescaler.Take) {
	b.add(nodescaler.Take{Rate: -take.Rate, Replicas: -take.Replicas, Orders: -take.Orders})
}

// allows returns what the namespace takes of a machine for these pods, or why it may not.
func (b *bill) allows(d *draft.Draft, o *packing.Offer, of *bundle) (take nodescaler.Take, why *nodescaler.Reason) {
	if b != nil {
		take = charge(d, o, of)[b.tenant.Namespace]
		why = b.tenant.Beyond(plus(b.takes, take))
	}
	return take, why
}

// hold holds the pods for the namespace's quota.
func (b *bill) hold(d *draft.Draft, of *bundle, why *nodescaler.Reason) {
	of.short(nodescaler.NamespaceQuota, "its namespace is at its quota")
	for _, p := range of.pods {
		d.HoldBack(b.tenant.Namespace, p, 1, why)
	}
	for _, p := range of.asked {
		d.Park(p, draft.QuotaHelp(p), *why)
	}
}
