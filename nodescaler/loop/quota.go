package loop

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// headcount is how many pods namespaces with quotas have, and are to have by what was decided so
// far. Replicas that are not pods count while they are expected to become some: in a rollout a pod
// goes before the next one is there.
type headcount struct {
	d       *decider
	of      map[string]int
	missing map[string]int // replicas of workloads, of those in of
}

func newHeadcount(d *decider, all []asked) *headcount {
	r := &headcount{d: d, of: map[string]int{}, missing: map[string]int{}}
	if len(d.snap.Quotas) == 0 {
		return r
	}
	for i := range d.snap.Pods {
		if p := &d.snap.Pods[i]; p.Counts() && !p.Terminating && !p.Finished() {
			r.of[p.Namespace()]++
		}
	}
	for i := range all {
		name := all[i].Workload
		if more := d.counted(&all[i]) - d.alive[name]; more > 0 {
			r.missing[name] = more
			r.of[nodescaler.NamespaceOf(name)] += more
		}
	}
	return r
}

// hold lowers a decision to grow to what the quota of the namespace allows, and never below what
// there is.
func (r *headcount) hold(ws *WorkloadStep) {
	d, namespace := ws.Decision, nodescaler.NamespaceOf(ws.Workload)
	if d == nil || d.To <= d.From || ws.Held != nil {
		return
	}
	q := r.d.snap.QuotaOf(namespace)
	if q == nil || q.Replicas == 0 {
		return
	}
	has := r.d.alive[ws.Workload] + r.missing[ws.Workload]
	most := max(d.From, has+max(q.Replicas-r.of[namespace], 0))
	if d.To > most {
		why := podscaler.Because(nodescaler.NamespaceQuota, "%d replicas in place of %d: namespace %s has %d pods, or is to have them, of at most %d",
			most, d.To, namespace, r.of[namespace], q.Replicas)
		d.Reasons = slices.Concat([]nodescaler.Reason{why}, d.Reasons)
		d.To, d.Ahead = most, min(d.Ahead, most)
	}
	r.of[namespace] += max(d.To-has, 0)
}

// unoffered drops what machines of pools that others order from would hold: it is for those to say
// what they do.
func (d *decider) unoffered(all []nodescaler.Unplaced) []nodescaler.Unplaced {
	if len(d.offered) == 0 {
		return all
	}
	if len(d.snap.Pools) == 0 {
		return nil
	}
	pods := map[string]*nodescaler.Pod{}
	for i := range d.snap.Pods {
		pods[d.snap.Pods[i].Name] = &d.snap.Pods[i]
	}
	for i := range d.snap.Future {
		pods["like "+d.snap.Future[i].Like.Workload] = &d.snap.Future[i].Like
	}
	held := func(p *nodescaler.Pod) bool {
		return p != nil && slices.ContainsFunc(d.offered, func(o nodescaler.Pool) bool {
			return slices.ContainsFunc(d.x.HostsApart(&o), func(host string) bool {
				return slices.ContainsFunc(o.Shapes, func(s pricing.Shape) bool { return o.Holds(p, s, host) })
			})
		})
	}
	return slices.DeleteFunc(slices.Clone(all), func(u nodescaler.Unplaced) bool {
		if len(u.Pods) > 0 {
			return held(pods[u.Pods[0]])
		}
		return held(pods["like "+u.Workload])
	})
}

// unplanned says of workloads for which of their pods no machine is ordered.
func (d *decider) unplanned() {
	step := d.step
	why := map[string]*nodescaler.Reason{}
	for i := range step.Plan.Unplaced {
		if u := &step.Plan.Unplaced[i]; why[u.Workload] == nil {
			why[u.Workload] = &nodescaler.Reason{Code: u.Why.Code, Text: fmt.Sprintf("no machine is ordered for %d pods: %s", u.Count+u.Coming, u.Text())}
		}
	}
	for i := range d.snap.Pods {
		p := &d.snap.Pods[i]
		if not := d.snap.NotHelped(p); not != "" {
			why[p.Workload] = &nodescaler.Reason{Code: nodescaler.PodsNotHelped, Text: p.Name + ": " + not}
		}
	}
	for i := range step.Plan.Held {
		h := &step.Plan.Held[i]
		why[h.Workload] = &nodescaler.Reason{Code: h.Why.Code, Text: fmt.Sprintf("no machine is ordered for %d pods: %s", h.Pods, h.Why.Text)}
	}
	for i := range step.Workloads {
		if ws := &step.Workloads[i]; ws.Unplanned == nil {
			ws.Unplanned = why[ws.Workload]
		}
	}
}
