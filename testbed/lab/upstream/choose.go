package upstream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// option is a group that could take the pods that wait, and by how many nodes more.
type option struct {
	*group
	count int
	pods  []*nodescaler.Pod
	worth float64 // the lower the better
}

// choose finds the group to order from: of those that could take pods that wait, the one that the
// expander likes best. It is nil where nothing is to be ordered. What each could take is said by
// the policy, to which that group alone may grow.
func (s *scan) choose(ctx context.Context) (*option, error) {
	if s.tooNew() {
		return nil, nil
	}
	var options []option
	for _, g := range s.all {
		n, err := s.wanted(g)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			options = append(options, option{group: g, count: n, pods: s.takes(g)})
		}
	}
	if len(options) == 0 {
		return nil, nil
	}
	// Else it is for a group's minimum.
	if slices.ContainsFunc(options, func(o option) bool { return len(o.pods) > 0 }) {
		if err := s.consider(ctx, options); err != nil {
			return nil, err
		}
	}
	best := slices.MinFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.worth, b.worth), cmp.Compare(a.count, b.count), cmp.Compare(a.id, b.id))
	})
	return &best, nil
}

// newPods is how young all pods that wait must be for nothing to be ordered: more of them may come.
const newPods = 2 * time.Second

// tooNew reports whether pods wait, and all of them so shortly that the next scan sees better how
// many there are.
func (s *scan) tooNew() bool {
	waiting := false
	for i := range s.sight.State.Pods {
		p := &s.sight.State.Pods[i]
		if !p.Unschedulable {
			continue
		}
		waiting = true
		if s.now.Sub(p.Created) >= newPods {
			return false
		}
	}
	return waiting
}

// wanted is by how many nodes a group would grow if it alone could.
func (s *scan) wanted(g *group) (n int, err error) {
	if s.backoffs[g.id].on(s.now) {
		return 0, nil
	}
	policy, err := s.decider()
	if err != nil {
		return 0, err
	}
	snapshot := s.snapshot(&option{group: g})
	for i := range snapshot.Nodes { // a policy that has just begun would open what another empties
		n := &snapshot.Nodes[i]
		n.Cordoned, n.Draining = n.Cordoned || n.Draining, false
	}
	plan := policy.Decide(nodescaler.NewIndex(snapshot))
	return bought(&plan), nil
}

func bought(p *nodescaler.Plan) (n int) {
	for i := range p.Actions {
		if p.Actions[i].Kind == nodescaler.Buy {
			n++
		}
	}
	return n
}

// takes are the pods that wait and that a new node of the group would take.
func (s *scan) takes(g *group) (pods []*nodescaler.Pod) {
	pool := g.pool()
	room := pool.Capacity(pool.Shapes[0])
	fits := func(p *nodescaler.Pod) bool {
		return p.Requests.Within(room) && nodescaler.Accepts(p, pool.NodeOn(pool.Shapes[0], "")) == ""
	}
	for i := range s.sight.State.Pods {
		if p := &s.sight.State.Pods[i]; p.Unschedulable && fits(p) {
			pods = append(pods, p)
		}
	}
	for i := range s.buffers() {
		if f := &s.sight.Buffers[i]; fits(&f.Like) {
			pods = append(pods, slices.Repeat([]*nodescaler.Pod{&f.Like}, f.Ahead)...)
		}
	}
	return pods
}

// buffers are those that room is kept for.
func (s *scan) buffers() []nodescaler.Future {
	if !s.cfg.Unneeded.CapacityBufferPodInjectionEnabled {
		return nil
	}
	return s.sight.Buffers
}

// consider asks what is to be known of groups that may grow, and says what each is worth.
func (s *scan) consider(ctx context.Context, options []option) error {
	for i := range options {
		if err := s.size(ctx, options[i].group); err != nil {
			return err
		}
		if err := s.options(ctx, options[i].group); err != nil {
			return err
		}
	}
	if s.cfg.Expander == Price {
		return s.price(ctx, options)
	}
	for i := range options {
		options[i].worth = options[i].waste()
	}
	return nil
}

// waste is the part of the new nodes that the pods leave unused, of CPU and memory on the mean.
func (o *option) waste() float64 {
	pool := o.pool()
	all := pool.Capacity(pool.Shapes[0]).Times(o.count)
	var used pricing.Resources
	for _, p := range o.pods {
		used = used.Plus(p.Requests)
	}
	share := func(used, of int64) float64 { return 1 - min(1, float64(used)/float64(max(1, of))) }
	return (share(int64(used.CPU), int64(all.CPU)) + share(int64(used.Memory), int64(all.Memory))) / 2
}

// standard is the pod that the price expander asks for first.
var standard = nodescaler.Pod{Requests: pricing.Resources{CPU: 500, Memory: 500 * pricing.MiB}}

// price is what the new nodes of each option cost, over what the room costs that its pods ask for.
func (s *scan) price(ctx context.Context, options []option) error {
	if _, err := s.podPrice(ctx, &standard); err != nil {
		return err
	}
	for i := range options {
		o := &options[i]
		from, to := timestamppb.New(s.now), timestamppb.New(s.now.Add(time.Hour))
		answer, err := call(ctx, s.cfg.Provider.PricingNodePrice, &externalgrpc.PricingNodePriceRequest{
			Node:           &externalgrpc.ExternalGrpcNode{Name: "template-node-for-" + o.id, Labels: o.template.Labels},
			StartTimestamp: from, EndTimestamp: to,
		})
		if err != nil {
			return err
		}
		pods := 0.0
		for _, p := range o.pods {
			price, err := s.podPrice(ctx, p)
			if err != nil {
				return err
			}
			pods += price
		}
		o.worth = answer.GetPrice() * float64(o.count) / max(pods, 1e-9)
	}
	return nil
}

func (s *scan) podPrice(ctx context.Context, p *nodescaler.Pod) (float64, error) {
	text, err := (&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "priced"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "all", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(p.Requests.CPU), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(p.Requests.Memory), resource.BinarySI),
		}}}}},
	}).Marshal()
	if err != nil {
		return 0, err
	}
	answer, err := call(ctx, s.cfg.Provider.PricingPodPrice, &externalgrpc.PricingPodPriceRequest{
		PodBytes: text, StartTimestamp: timestamppb.New(s.now), EndTimestamp: timestamppb.New(s.now.Add(time.Hour)),
	})
	return answer.GetPrice(), err
}

// increase orders what the plan buys, from the chosen group. Where that is refused, the group is
// left alone for a while; where no answer comes, it may have been done.
func (s *scan) increase(ctx context.Context, plan *nodescaler.Plan, chosen *option) (bool, error) {
	if n := bought(plan); n > 0 {
		return s.grow(ctx, chosen, n)
	}
	return false, s.measure(ctx)
}

func (s *scan) grow(ctx context.Context, chosen *option, n int) (bool, error) {
	if err := s.devices(ctx); err != nil {
		return false, err
	}
	s.cfg.Log("%s: %d more", chosen.id, n)
	_, err := call(ctx, s.cfg.Provider.NodeGroupIncreaseSize, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: chosen.id, Delta: int32(n)})
	s.open[chosen.id] = true
	if err != nil {
		s.cfg.Log("%v", err)
		s.backoffOf(chosen.id).fail(s.now, &s.cfg.Unneeded)
		return false, ctx.Err()
	}
	return true, errors.Join(s.options(ctx, chosen.group), s.measure(ctx))
}

// devices asks once what the provider has.
func (s *scan) devices(ctx context.Context) error {
	if !s.asked.gpuLabel {
		if _, err := call(ctx, s.cfg.Provider.GPULabel, &externalgrpc.GPULabelRequest{}); err != nil && !unimplemented(err) {
			return err
		}
		s.asked.gpuLabel = true
	}
	if !s.asked.gpuTypes {
		if _, err := call(ctx, s.cfg.Provider.GetAvailableGPUTypes, &externalgrpc.GetAvailableGPUTypesRequest{}); err != nil && !unimplemented(err) {
			return err
		}
		s.asked.gpuTypes = true
	}
	return nil
}
