package disruption

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/nodescaler/sample/life"
	"github.com/plimsoll/plimsoll/pricing"
)

const fleets = 50

// fleet is machines of the week's shapes, more or less full, that have held the same pods for an
// hour.
func fleet(seed uint64) *life.Life {
	chance := rand.New(rand.NewPCG(seed, 7))
	l := life.NewWeek(nodescaler.WhenEmptyOrUnderutilized).Life
	l.Pools[0].Disruption.Budgets = []nodescaler.NodeBudget{{Nodes: nodescaler.NodeCount{N: 100, Percent: true}}}
	for i := range 3 + chance.IntN(8) {
		name := fmt.Sprintf("w-%02d", i)
		l.Node(name, l.Hosts[i%len(l.Hosts)].Name)
		m, n := &l.Machines[len(l.Machines)-1], &l.Nodes[len(l.Nodes)-1]
		m.Shape = l.Pools[0].Shapes[chance.IntN(len(l.Pools[0].Shapes))]
		n.Allocatable, n.Labels = m.Shape.Resources().Minus(l.Pools[0].Reserved), l.LabelsOf(m)
		l.Pod("daemon/"+name, name, 100, 256, sample.Daemon)
	}
	for i := range chance.IntN(60) {
		size := []int{300, 700, 1100}[chance.IntN(3)]
		app, n := fmt.Sprintf("ns/app%d", size), &l.Nodes[chance.IntN(len(l.Nodes))]
		l.Pod(fmt.Sprintf("%s-x%02d", app, i), n.Name, pricing.MilliCPU(size), 200, func(p *nodescaler.Pod) {
			p.Workload, p.Created = app, l.Now.Add(-time.Hour)
		})
		p := &l.Pods[len(l.Pods)-1]
		if used := usedOf(l, n.Name, p.Name); nodescaler.Refusal(p, n, used) != "" {
			l.Pods = l.Pods[:len(l.Pods)-1]
		} else {
			l.Wanted[app]++
		}
	}
	return l
}

// usedOf is what pods use of a node, but for one.
func usedOf(l *life.Life, node, but string) (used nodescaler.Used) {
	for i := range l.Pods {
		if p := &l.Pods[i]; p.Node == node && p.Name != but {
			used = used.With(p)
		}
	}
	return used
}

// decided is what Karpenter decides about a fleet at once, or nil.
func decided(t *testing.T, l *life.Life) (*karpenter, *disruption.Command) {
	x := nodescaler.NewIndex(&l.Snapshot)
	k := newKarpenter(t.Context(), x, setting{policy: v1.ConsolidationPolicyWhenEmptyOrUnderutilized})
	k.rounds = 1
	if v := nodescaler.Check(x, k.Decide(x)); len(v) > 0 {
		t.Fatalf("the plan breaks the rules: %v", v)
	}
	all := k.queue.GetCommands()
	if len(all) == 0 {
		return k, nil
	}
	return k, all[0]
}

// placed holds the places that Karpenter has in mind for the pods to our rules, and returns the
// shape of the machine that is bought for them, if one is.
func placed(t *testing.T, l *life.Life, c *disruption.Command) (bought *pricing.Shape) {
	t.Helper()
	waits := map[string]*nodescaler.Pod{}
	goes := map[string]bool{}
	for _, candidate := range c.Candidates {
		goes[candidate.Name()] = true
	}
	for i := range l.Pods {
		if p := &l.Pods[i]; goes[p.Node] && !p.Daemon {
			waits[p.Name] = p
		}
	}
	put := func(n *nodescaler.Node, used nodescaler.Used, pods []*corev1.Pod) {
		for _, pod := range pods {
			p := waits[pod.Namespace+"/"+pod.Name]
			if p == nil {
				t.Fatalf("%s/%s does not have to move, or has moved", pod.Namespace, pod.Name)
			}
			if why := nodescaler.Refusal(p, n, used); why != "" {
				t.Errorf("%s does not fit onto %s: %s", p.Name, n.Name, why)
			}
			used = used.With(p)
			delete(waits, p.Name)
		}
	}
	for _, e := range c.Results.ExistingNodes {
		i := slices.IndexFunc(l.Nodes, func(n nodescaler.Node) bool { return n.Name == e.Name() })
		if goes[e.Name()] || i < 0 {
			t.Fatalf("%s takes pods and goes, or is not there", e.Name())
		}
		put(&l.Nodes[i], usedOf(l, e.Name(), ""), e.Pods)
	}
	for _, r := range c.Replacements {
		shape := l.Pools[0].Shapes[slices.IndexFunc(l.Pools[0].Shapes, func(s pricing.Shape) bool {
			return s.Name == r.InstanceTypeOptions.OrderByPrice(r.Requirements)[0].Name
		})]
		daemon := nodescaler.Used{}.With(l.Pools[0].Daemons.Sets[0])
		put(&nodescaler.Node{Name: "its replacement", Ready: true, Allocatable: shape.Resources().Minus(l.Pools[0].Reserved)}, daemon, r.Pods)
		bought = &shape
	}
	if len(waits) > 0 {
		t.Errorf("%d pods have no place", len(waits))
	}
	return bought
}

// What Karpenter decides about fifty fleets is feasible by our rules and saves what it says by our
// prices, and our policy, when the same machines have to go, finds places for the same pods at
// about the same price.
func TestFiftyFleetsAreDecidedOnAlike(t *testing.T) {
	acted, moved := 0, 0
	for seed := range uint64(fleets) {
		l := fleet(seed)
		_, c := decided(t, l)
		if c == nil {
			continue
		}
		acted++
		bought := placed(t, l, c)
		x := nodescaler.NewIndex(&l.Snapshot)
		var saved pricing.Rate
		if bought != nil {
			saved -= x.Rate(*bought, l.Hosts[0].Name)
		}
		for _, candidate := range c.Candidates {
			saved += x.Rate(x.Machine(candidate.Name()).Shape, l.Hosts[0].Name)
			moved += len(x.NodeOf(candidate.Name()).Held())
		}
		if saved <= 0 || float64(saved) != c.EstimatedSavings() {
			t.Errorf("fleet %d: by our prices %s/h are saved, Karpenter says %.0f millionths", seed, saved, c.EstimatedSavings())
		}
		forced(t, l, c, l.Rate()-saved)
	}
	t.Logf("of %d fleets Karpenter acts on %d, and moves %d pods", fleets, acted, moved)
	if acted < fleets/2 {
		t.Errorf("Karpenter acts on %d of %d fleets only", acted, fleets)
	}
}

// forced has our policy empty the machines of the command, because they drifted. No pod may wait in
// the end, and all may cost at most a small machine more than by the command: the scheduler binds
// pods where it likes, and not where one of the two policies had them in mind.
func forced(t *testing.T, l *life.Life, c *disruption.Command, most pricing.Rate) {
	t.Helper()
	l.Pools[0].Disruption.Consolidation.Policy = ""
	for i := range l.Machines {
		m := &l.Machines[i]
		if slices.ContainsFunc(c.Candidates, func(c *disruption.Candidate) bool { return c.Name() == m.Name }) {
			sample.Drifted(m)
		}
	}
	l.Live(t, joint(t), 3*time.Hour)
	for i := range l.Machines {
		if m := &l.Machines[i]; m.Drifted != "" {
			t.Errorf("our policy has no place for the pods of %s", m.Name)
		}
	}
	most += l.Prices.Rate(sample.Small, l.Hosts[0].Name, l.Now)
	if waiting := l.Waiting(); len(waiting) > 0 || l.Rate() > most {
		t.Errorf("with our policy %v wait, and all costs %s/h, want %s/h at most", waiting, l.Rate(), most)
	}
}

func joint(t *testing.T) nodescaler.Policy {
	p, err := policy.New(policy.Spec{Policy: "joint"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
