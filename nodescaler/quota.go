package nodescaler

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
)

// Quota limits what each matching namespace may take of all machines. Pods beyond it are held: no
// machine is ordered for them, and no other namespace waits for them. Pods that the scheduler binds
// to existing room are not held.
type Quota struct {
	// Namespace is a name, in which * is any letters. Of several quotas that fit, the first counts.
	Namespace string
	// Rate limits the hourly cost of the namespace's part of the machines, Replicas the pods with
	// a machine, without daemons, and Orders the machines ordered for it in an hour. 0 is no limit.
	Rate     pricing.Rate `json:",omitempty"`
	Replicas int          `json:",omitempty"`
	Orders   int          `json:",omitempty"`
}

// Fits reports whether the quota matches a namespace.
func (q *Quota) Fits(namespace string) bool {
	fits, err := path.Match(q.Namespace, namespace)
	return fits && err == nil
}

// QuotaOf is the quota of a namespace, or nil.
func (s *Snapshot) QuotaOf(namespace string) *Quota {
	for i := range s.Quotas {
		if s.Quotas[i].Fits(namespace) {
			return &s.Quotas[i]
		}
	}
	return nil
}

// NamespaceOf is the namespace of a name that begins with it; empty if it does not.
func NamespaceOf(name string) string {
	namespace, _, named := strings.Cut(name, "/")
	if !named {
		return ""
	}
	return namespace
}

// Namespace is the pod's namespace.
func (p *Pod) Namespace() string { return NamespaceOf(cmp.Or(p.Workload, p.Name)) }

// Tenants are the namespaces that have quotas, and what they take of what is there.
type Tenants struct {
	x     *Index
	of    map[string]*Tenant
	least map[pricing.Resources]pricing.Rate
}

// Tenant is a namespace that has a quota, what it takes, and what is held of what it wants.
type Tenant struct {
	Namespace string
	*Quota
	Takes Take
}

// Take is a part of the machines.
type Take struct {
	Rate             pricing.Rate
	Replicas, Orders int
}

// Tenants computes what namespaces with quotas take. It returns nil without quotas; every method
// accepts nil.
func (x *Index) Tenants() *Tenants {
	if len(x.Quotas) == 0 {
		return nil
	}
	t := &Tenants{x: x, of: map[string]*Tenant{}, least: map[pricing.Resources]pricing.Rate{}}
	for i := range x.loads {
		n := &x.loads[i]
		pods := slices.DeleteFunc(slices.Clone(n.Pods), func(p *Pod) bool { return !p.Counts() })
		for _, p := range pods {
			if tenant := t.Of(p.Namespace()); tenant != nil {
				tenant.Takes.Replicas++
			}
		}
		if n.VM == nil {
			continue
		}
		for namespace, rate := range Split(x.Rate(n.VM.Shape, n.VM.Host), n.Allocatable, pods) {
			if tenant := t.Of(namespace); tenant != nil {
				tenant.Takes.Rate = sum(tenant.Takes.Rate, rate)
			}
		}
	}
	return t
}

// Of is the namespace if it has a quota, or nil.
func (t *Tenants) Of(namespace string) *Tenant {
	if t == nil {
		return nil
	}
	tenant, known := t.of[namespace]
	if !known {
		if q := t.x.QuotaOf(namespace); q != nil {
			tenant = &Tenant{Namespace: namespace, Quota: q, Takes: Take{Orders: t.x.Ordered[namespace]}}
		}
		t.of[namespace] = tenant
	}
	return tenant
}

// Split divides the price of a machine between the namespaces of its pods, by their requests. The
// whole price is divided: a namespace with the only pod on a machine pays for all of it.
func Split(rate pricing.Rate, capacity pricing.Resources, pods []*Pod) map[string]pricing.Rate {
	weights, all := map[string]float64{}, 0.0
	for _, p := range pods {
		// A pod without requests needs its machine, too.
		w := weight(p.Requests, capacity) + 1e-6
		weights[p.Namespace()] += w
		all += w
	}
	parts := make(map[string]pricing.Rate, len(weights))
	for namespace, w := range weights {
		parts[namespace] = min(pricing.Rate(math.Ceil(float64(rate)*(w/all))), rate)
	}
	return parts
}

// weight is the part of a machine that requests take: the sum of their parts of its CPU and memory.
func weight(r, capacity pricing.Resources) float64 {
	return max(float64(r.CPU), 0)/float64(max(capacity.CPU, 1)) + max(float64(r.Memory), 0)/float64(max(capacity.Memory, 1))
}

// Least is the lowest cost that a pod can have, on any machine and beside any other pods. The
// weights of the pods on a full machine sum up to two at most.
func (t *Tenants) Least(requests pricing.Resources) pricing.Rate {
	if rate, known := t.least[requests]; known {
		return rate
	}
	least := pricing.Rate(math.MaxInt64)
	for i := range t.x.Pools {
		p := &t.x.Pools[i]
		for _, s := range p.Shapes {
			for h := range t.x.Hosts {
				whole := float64(t.x.Rate(s, t.x.Hosts[h].Name))
				least = min(least, pricing.Rate(whole*min(weight(requests, p.Capacity(s))/2.001, 1)))
			}
		}
	}
	if least == math.MaxInt64 {
		least = 0
	}
	t.least[requests] = least
	return least
}

// Beyond is the reason why a namespace may not take so much more, or nil if it may.
func (t *Tenant) Beyond(more Take) *Reason {
	text := ""
	switch would := (Take{sum(t.Takes.Rate, more.Rate), t.Takes.Replicas + more.Replicas, t.Takes.Orders + more.Orders}); {
	case t.Rate > 0 && would.Rate > t.Rate:
		text = fmt.Sprintf("its part of the machines would cost %s/h of at most %s/h", would.Rate, t.Rate)
	case t.Replicas > 0 && would.Replicas > t.Replicas:
		text = fmt.Sprintf("it would have %d pods of at most %d", would.Replicas, t.Replicas)
	case t.Orders > 0 && more.Orders > 0 && would.Orders > t.Orders:
		text = fmt.Sprintf("%d machines were ordered for it in the last hour, of at most %d", t.Takes.Orders, t.Orders)
	default:
		return nil
	}
	return &Reason{Code: NamespaceQuota, Text: fmt.Sprintf("namespace %s is at its quota: %s", t.Namespace, text)}
}

// room is how many more pods of this cost a namespace may have.
func (t *Tenant) room(more Take, each pricing.Rate) int {
	n := math.MaxInt
	if t.Replicas > 0 {
		n = max(t.Replicas-t.Takes.Replicas-more.Replicas, 0)
	}
	if t.Rate > 0 && each > 0 {
		n = min(n, int(max(t.Rate-sum(t.Takes.Rate, more.Rate), 0)/each))
	}
	return n
}

// Held is a number of pods of a workload that no machine is ordered for, and why.
type Held struct {
	// Workload is as pods have it; empty are bare pods.
	Workload  string `json:"workload,omitempty"`
	Namespace string `json:"namespace"`
	Pods      int    `json:"pods"`
	Why       Reason `json:"why"`
}

// Wanted is what machines may be ordered for.
type Wanted struct {
	Pending []*Pod // in the order of the index
	Future  []Future
	// Held is what exceeds quotas, by namespace and workload, and At the namespaces that it is held
	// of.
	Held []Held
	At   map[string]bool
}

// Admit selects the pending pods and future replicas that machines may be ordered for. For a
// namespace with a quota these are the longest waiting pods, then replicas that are decided on,
// then expected ones, at most as many as the quota may have room for. The exact room is known only
// after packing. Pods that no machine helps are never selected.
func (t *Tenants) Admit(x *Index) Wanted {
	if t == nil {
		return Wanted{Pending: x.Pending, Future: x.Future}
	}
	w := Wanted{Future: slices.Clone(x.Future), At: map[string]bool{}}
	more, refused := map[string]Take{}, map[*Pod]bool{}
	held := map[string]*Held{}
	for _, p := range slices.SortedStableFunc(slices.Values(x.Pending), func(a, b *Pod) int { return a.Created.Compare(b.Created) }) {
		if t.admit(more, held, p, 1) == 0 {
			refused[p] = true
		}
	}
	w.Pending = slices.DeleteFunc(slices.Clone(x.Pending), func(p *Pod) bool { return refused[p] })
	for i := range w.Future {
		f := &w.Future[i]
		f.Count = t.admit(more, held, &f.Like, f.Count)
	}
	for i := range w.Future {
		f := &w.Future[i]
		f.Ahead = t.admit(more, held, &f.Like, f.Ahead)
	}
	for _, workload := range slices.Sorted(maps.Keys(held)) {
		w.Held = append(w.Held, *held[workload])
		w.At[held[workload].Namespace] = true
	}
	return w
}

// admit returns how many of count equal pods their namespace may have, and notes the rest as held.
func (t *Tenants) admit(more map[string]Take, held map[string]*Held, p *Pod, count int) int {
	tenant := t.Of(p.Namespace())
	if tenant == nil || count <= 0 {
		return max(count, 0)
	}
	each, m := t.Least(p.Requests), more[tenant.Namespace]
	n := min(count, tenant.room(m, each))
	m.Replicas, m.Rate = m.Replicas+n, m.Rate+each*pricing.Rate(n)
	more[tenant.Namespace] = m
	if n < count {
		next := Take{Rate: sum(m.Rate, each), Replicas: m.Replicas + 1}
		Hold(held, tenant.Namespace, p, count-n, tenant.Beyond(next))
	}
	return n
}

// Hold notes that so many pods like this one are held.
func Hold(held map[string]*Held, namespace string, p *Pod, count int, why *Reason) {
	key := cmp.Or(p.Workload, namespace+"/")
	if held[key] == nil {
		held[key] = &Held{Workload: p.Workload, Namespace: namespace, Why: *why}
	}
	held[key].Pods += count
}

// HeldAs is the key by which Hold notes what is held of a pod's kind.
func HeldAs(p *Pod) string { return cmp.Or(p.Workload, p.Namespace()+"/") }

// Room returns for how many pods of each headroom room may be kept within the quotas of their
// namespaces, and why not for all.
func (t *Tenants) Room(all []Headroom) (counts []int, why []*Reason) {
	counts, why = make([]int, len(all)), make([]*Reason, len(all))
	more := map[string]Take{}
	for i := range all {
		counts[i] = max(all[i].Count, 0)
		if t == nil {
			continue
		}
		held := map[string]*Held{}
		counts[i] = t.admit(more, held, &all[i].Like, counts[i])
		if h := held[HeldAs(&all[i].Like)]; h != nil {
			why[i] = &h.Why
		}
	}
	return counts, why
}
