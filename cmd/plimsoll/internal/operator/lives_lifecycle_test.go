package operator

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// sickness is a condition by which a node says that it is broken.
const sickness = "KernelDeadlock"

// viaLifecycle reports whether a life meets what keeps machines and what ends their drains: one of
// three in which we decide on machines and the town shows its own objects.
func viaLifecycle(seed uint64) bool {
	return !viaAPI(seed) && !viaProvider(seed) && rand.New(rand.NewPCG(seed, 11)).IntN(3) == 0
}

// lifecycleHappenings are what such a life may meet besides.
var lifecycleHappenings = map[string]func(*life, *rand.Rand){
	"drains end": func(l *life, r *rand.Rand) {
		p := l.pools["aa"]
		if p.Spec.Disruption == nil {
			p.Spec.Disruption = &v1alpha1.Disruption{Drift: "Replace", Budgets: []v1alpha1.NodeBudget{{Nodes: "50%"}}}
		}
		p.Spec.Disruption.TerminationGracePeriod = one(r, []v1alpha1.Duration{"", "1m", "3m"})
		p.Generation++
		for _, pod := range l.pods {
			pod.pinned = one(r, []string{"", "", "", "annotated"})
		}
	},
	"headroom": func(l *life, r *rand.Rand) {
		l.headroom = nil
		for i := range r.IntN(3) {
			name := fmt.Sprintf("shop/room%d", i)
			l.headroom = append(l.headroom, nodescaler.Headroom{Name: name, Count: r.IntN(4), Like: nodescaler.Pod{
				Workload: "shop/CapacityBuffer/" + name[5:], Requests: pricing.Resources{CPU: pricing.MilliCPU(200 + r.IntN(1500)), Memory: 256 * pricing.MiB},
			}})
		}
	},
	"nodes sicken": func(l *life, r *rand.Rand) {
		l.repairs(r, sickness, "True")
		for _, n := range l.nodes {
			if r.IntN(3) == 0 {
				n.sick = l.sim.Now()
			}
		}
	},
	"kubelets hang": func(l *life, r *rand.Rand) { // until their machines boot, or for a while
		l.repairs(r, nodescaler.Ready, "Unknown")
		for _, n := range l.nodes {
			if r.IntN(3) == 0 {
				n.ready = l.sim.Now().Add(time.Duration(5+r.IntN(20)) * time.Minute)
			}
		}
	},
	"volumes": func(l *life, r *rand.Rand) { one(r, l.services).volumes = r.IntN(3) > 0 },
}

// repairs has the pool repair nodes that say that they are broken.
func (l *life) repairs(r *rand.Rand, condition, status string) {
	p := l.pools["aa"]
	if p.Spec.Disruption == nil {
		p.Spec.Disruption = &v1alpha1.Disruption{}
	}
	p.Spec.Disruption.Repair = &v1alpha1.Repair{
		Conditions: []v1alpha1.NodeAilment{{Type: condition, Status: status, For: "2m"}}, MaxUnhealthy: one(r, []v1alpha1.NodeCount{"1", "100%"}),
		Reboot: one(r, []*v1alpha1.Reboot{nil, {Within: "4m"}, {Within: "8m"}}),
	}
	p.Generation++
}
