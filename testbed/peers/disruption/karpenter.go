package disruption

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktest "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	claims "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/podevents"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	poolName   = "default"
	daemonName = "daemon"
	// Karpenter waits 15 seconds between deciding and acting, so that it acts so often in a minute.
	mostRounds = 4
)

// karpenter is a node policy. Karpenter's controllers decide: which pods need machines and of which
// shapes, which machines drift, are empty, underutilized or unhealthy, and which go, together with
// what replaces them. Ours is what is around them: the API that they read and write, and that a
// claimed machine is ordered, and a deleted one cordoned, drained and returned.
type karpenter struct {
	ctx      context.Context
	when     when
	store    *store
	cloud    *cloud
	cluster  *state.Cluster
	reserved pricing.Resources
	pods     map[string]podState
	ordered  map[string]bool // machines, by name, that the fleet has or had
	rounds   int

	provisioner *provisioning.Provisioner
	queue       *disruption.Queue
	disruption  *disruption.Controller
	marks       *claims.Controller
	podEvents   *podevents.Controller
	health      *health.Controller
}

// quiet takes events and keeps none.
type quiet struct{}

func (quiet) Publish(...events.Event) {}

// setting is what an administrator would write.
type setting struct {
	policy v1.ConsolidationPolicy
	after  time.Duration
}

// newKarpenter decides about fleets of one pool, such as that of the index.
func newKarpenter(ctx context.Context, x *nodescaler.Index, s setting) *karpenter {
	log.SetLogger(logr.Discard())
	ctx = (&options.Options{
		CPURequests: 1000, IgnoreDRARequests: true, FeatureGates: options.DefaultFeatureGates(), BatchMaxDuration: 10 * time.Second,
		PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict,
	}).ToContext(ctx)
	k := &karpenter{
		ctx: ctx, when: when{clocktest.NewFakeClock(x.Now)}, cloud: newCloud(x), reserved: x.Pools[0].Reserved,
		pods: map[string]podState{}, ordered: map[string]bool{}, rounds: mostRounds,
	}
	k.store = newStore(func() metav1.Time { return metav1.NewTime(k.when.Now()) })
	k.cluster = state.NewCluster(k.when, k.store, k.cloud)
	says := quiet{}
	k.provisioner = provisioning.NewProvisioner(k.store, says, k.cloud, k.cluster, k.when, nil, nil)
	k.queue = disruption.NewQueue(k.store, says, k.cluster, k.when, k.provisioner)
	k.disruption = disruption.NewController(k.when, k.store, k.provisioner, k.cloud, says, k.cluster, k.queue, nil)
	k.marks = claims.NewController(k.when, k.store, k.cloud)
	k.podEvents = podevents.NewController(k.when, k.store, k.cloud)
	k.health = health.NewController(k.store, k.cloud, k.when, says)
	k.store.put(k.nodePool(x.Pools[0].Pool, s))
	for _, p := range x.Pools[0].Daemons.Sets {
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "daemon", Name: daemonName}}
		d.Spec.Template.Spec = podSpec(p.Requests)
		k.store.put(d)
	}
	k.store.changed = k.inform
	return k
}

// inform keeps Karpenter's state of the cluster as its informers do.
func (k *karpenter) inform(o client.Object) {
	switch o := o.(type) {
	case *v1.NodeClaim:
		k.cluster.UpdateNodeClaim(clone(o))
	case *corev1.Node:
		k.must(k.cluster.UpdateNode(k.ctx, clone(o)))
	case *corev1.Pod:
		k.must(k.cluster.UpdatePod(k.ctx, clone(o)))
	}
}

func (k *karpenter) nodePool(p *nodescaler.Pool, s setting) *v1.NodePool {
	n := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: poolName}}
	n.Spec.Template.Spec.NodeClassRef = nodeClass()
	// Without it Karpenter replaces by spot machines, which are not on offer.
	n.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{
		{Key: v1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{v1.CapacityTypeOnDemand}},
	}
	n.Spec.Disruption = v1.Disruption{ConsolidationPolicy: s.policy, ConsolidateAfter: v1.NillableDuration{Duration: &s.after}}
	for _, b := range p.Disruption.Budgets {
		n.Spec.Disruption.Budgets = append(n.Spec.Disruption.Budgets, v1.Budget{Nodes: b.Nodes.String()})
	}
	set := n.StatusConditions(k.at())
	set.SetTrue(v1.ConditionTypeValidationSucceeded)
	set.SetTrue(v1.ConditionTypeNodeClassReady)
	return n
}

func nodeClass() *v1.NodeClassReference {
	return &v1.NodeClassReference{Group: "karpenter.test.sh", Kind: "TestNodeClass", Name: "default"}
}

// at stamps conditions with the fleet's time.
func (k *karpenter) at() status.ForOption { return status.WithClock(k.when) }

// must is for what cannot fail in memory.
func (k *karpenter) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("at %s: %v", k.when.Now(), err))
	}
}

// claims are all, sorted by name.
func (k *karpenter) claims() (all []*v1.NodeClaim) {
	found := &v1.NodeClaimList{}
	k.must(k.store.List(k.ctx, found))
	for i := range found.Items {
		all = append(all, &found.Items[i])
	}
	return all
}

// claim is that of a machine, or nil.
func (k *karpenter) claim(machine string) *v1.NodeClaim {
	for _, c := range k.claims() {
		if c.Status.ProviderID == machine {
			return c
		}
	}
	return nil
}

// Decide lets the controllers run once they see the snapshot, and plans what they wrote.
func (k *karpenter) Decide(x *nodescaler.Index) nodescaler.Plan {
	k.when.SetTime(x.Now)
	k.mirror(x)
	for _, c := range k.claims() {
		_, err := k.marks.Reconcile(k.ctx, c)
		k.must(err)
	}
	nodes := &corev1.NodeList{}
	k.must(k.store.List(k.ctx, nodes))
	for i := range nodes.Items {
		_, err := k.health.Reconcile(k.ctx, &nodes.Items[i])
		k.must(err)
	}
	for _, c := range k.queue.GetCommands() {
		_, err := k.queue.Reconcile(k.ctx, c.Candidates[0].NodeClaim)
		k.must(err)
	}
	plan := nodescaler.Plan{LookAgain: x.Now.Add(1)}
	k.provision(x, &plan)
	for range k.rounds {
		before := len(k.queue.GetCommands())
		_, err := k.disruption.Reconcile(k.ctx)
		k.must(err)
		k.order(x, &plan)
		if len(k.queue.GetCommands()) == before {
			break
		}
	}
	k.end(x, &plan)
	return plan
}

// provision has machines claimed for pods that wait, as the provisioner does once it has a batch.
func (k *karpenter) provision(x *nodescaler.Index, plan *nodescaler.Plan) {
	results, err := k.provisioner.Schedule(k.ctx)
	k.must(err)
	_, err = k.provisioner.CreateNodeClaims(k.ctx, results.NewNodeClaims, provisioning.RecordPodNomination)
	k.must(err)
	k.order(x, plan)
}

var why = []nodescaler.Reason{{Code: "Karpenter", Text: "Karpenter's controllers decided it"}}

// order orders the cheapest machine that each new claim allows, as cloud providers do.
func (k *karpenter) order(x *nodescaler.Index, plan *nodescaler.Plan) {
	pool := x.Pools[0].Pool
	for _, c := range k.claims() {
		if c.Status.ProviderID != "" {
			continue
		}
		shape := cheapest(x, c)
		a := nodescaler.Action{
			Kind: nodescaler.Buy, Order: c.Name, Pool: pool.Name, Shape: &shape, Host: roomiest(x, plan, shape), Reasons: why,
		}
		plan.Actions = append(plan.Actions, a)
		k.launch(c, nodescaler.MachineName(a.Pool, a.Order), shape)
	}
}

// cheapest is the cheapest shape that the claim allows and that holds what it asks for.
func cheapest(x *nodescaler.Index, c *v1.NodeClaim) (best pricing.Shape) {
	pool, least := x.Pools[0].Pool, pricing.Rate(0)
	for _, r := range c.Spec.Requirements {
		if r.Key != corev1.LabelInstanceTypeStable {
			continue
		}
		for _, s := range pool.Shapes {
			rate := x.Rate(s, x.Hosts[0].Name)
			fits := resources.Fits(c.Spec.Resources.Requests, list(s.Resources().Minus(pool.Reserved), slots))
			if slices.Contains(r.Values, s.Name) && fits && (best.Name == "" || rate < least) {
				best, least = s, rate
			}
		}
	}
	return best
}

// roomiest is the host with the most CPU left beside what the plan orders.
func roomiest(x *nodescaler.Index, plan *nodescaler.Plan, s pricing.Shape) (name string) {
	var most pricing.MilliCPU
	for _, h := range x.Hosts {
		free := h.Free.CPU
		for i := range plan.Actions {
			if a := &plan.Actions[i]; a.Kind == nodescaler.Buy && a.Host == h.Name {
				free -= a.Shape.CPU
			}
		}
		if name == "" || free > most {
			name, most = h.Name, free
		}
	}
	return name
}

// end has the nodes cordoned that Karpenter tainted, those of deleted claims drained, and their
// machines returned once nothing runs on them, as its termination does.
func (k *karpenter) end(x *nodescaler.Index, plan *nodescaler.Plan) {
	do := func(a nodescaler.Action) {
		a.Reasons = why
		plan.Actions = append(plan.Actions, a)
	}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		c, node := k.claim(n.Machine), &corev1.Node{}
		k.must(k.store.Get(k.ctx, client.ObjectKey{Name: n.Name}, node))
		deleted := c.DeletionTimestamp != nil
		tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&v1.DisruptedNoScheduleTaint) })
		switch out := deleted || tainted; {
		case out && !n.Draining:
			do(nodescaler.Action{Kind: nodescaler.Cordon, Node: n.Name, Pool: n.Pool})
		case !out && n.Draining:
			do(nodescaler.Action{Kind: nodescaler.Uncordon, Node: n.Name, Pool: n.Pool})
		}
		if !deleted {
			continue
		}
		left := false
		for j := range x.Snapshot.Pods {
			if p := &x.Snapshot.Pods[j]; p.Node == n.Name && !p.Daemon {
				if left = true; !p.Terminating {
					do(nodescaler.Action{Kind: nodescaler.Evict, Node: n.Name, Pool: n.Pool, Pod: p.Name})
				}
			}
		}
		if !left {
			do(nodescaler.Action{Kind: nodescaler.Return, Machine: n.Machine, Node: n.Name, Pool: n.Pool})
		}
	}
}
