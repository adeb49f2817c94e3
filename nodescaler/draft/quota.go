package draft

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Admit is what machines may be ordered for.
func (d *Draft) Admit() nodescaler.Wanted {
	d.Tenants = d.X.Tenants()
	w := d.Tenants.Admit(d.X)
	d.holding, d.At = map[string]*nodescaler.Held{}, w.At
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
	quotas, unhelped := Findings{}, Findings{}
	for _, key := range slices.Sorted(maps.Keys(d.holding)) {
		h := *d.holding[key]
		d.Plan.Held = append(d.Plan.Held, h)
		of := h.Workload
		if of == "" {
			of = h.Namespace + ", of no workload"
		}
		quotas.Add(h.Why.Code, "no machine is ordered for %s of %s: %s", pricing.Count(h.Pods, "pod"), of, h.Why.Text)
	}
	for i := range d.X.Snapshot.Pods {
		p := &d.X.Snapshot.Pods[i]
		if why := d.X.NotHelped(p); why != "" {
			unhelped.Add(nodescaler.PodsNotHelped, "no machine is ordered for %s: %s", p.Name, why)
		}
	}
	d.Conclude(quotas, "workload")
	d.Conclude(unhelped, "pod")
}

// TooMany notes that a namespace wants more pods like one than all machines could carry.
func (d *Draft) TooMany(p *nodescaler.Pod) {
	if d.Tenants.Of(p.Namespace()) != nil {
		d.At[p.Namespace()] = true
	}
}
