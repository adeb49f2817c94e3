package provider

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/pricing"
)

// NodeGroupTemplateNodeInfo shows what a new node of a group would look like, in both generations.
func (s *Server) NodeGroupTemplateNodeInfo(ctx context.Context, r *externalgrpc.NodeGroupTemplateNodeInfoRequest) (*externalgrpc.NodeGroupTemplateNodeInfoResponse, error) {
	g, err := s.memory.look(ctx).group(r.GetId())
	if err != nil {
		return nil, err
	}
	node := g.node()
	text, err := node.Marshal()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the node of %s: %s", g.id, err)
	}
	return &externalgrpc.NodeGroupTemplateNodeInfoResponse{NodeInfo: text, NodeBytes: text}, nil
}

// defaultPodSlots is how many pods Kubernetes lets a node take by default.
const defaultPodSlots = 110

// node is a node of the group as it is when it has just joined. Static pods cannot be known of, so
// they are in what is reserved, with what the system keeps.
func (g *group) node() *corev1.Node {
	slots := g.pool.PodSlots
	if slots == 0 {
		slots = defaultPodSlots
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "template-" + g.pool.Name + "-" + g.shape.Name, Labels: g.labels()},
		Status: corev1.NodeStatus{
			Capacity:    resources(g.shape.Resources(), g.capacity(), slots),
			Allocatable: resources(g.shape.Resources().Minus(g.pool.Reserved), g.pool.Extras(g.shape), slots),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
	for _, t := range g.pool.Taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return n
}

// capacity is what a node of the group has besides CPU and memory, of which pods may use less of
// the disk.
func (g *group) capacity() pricing.Amounts {
	all := g.pool.Extras(g.shape)
	if g.shape.Disk > 0 {
		disk := pricing.Amounts{{Name: pricing.EphemeralStorage, N: int64(g.shape.Disk)}}
		return all.Minus(all.Least(disk)).Plus(disk)
	}
	return all
}

func resources(r pricing.Resources, extra pricing.Amounts, slots int) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(max(0, int64(r.CPU)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(max(0, int64(r.Memory)), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(int64(slots), resource.DecimalSI),
	}
	for _, x := range extra {
		format := resource.DecimalSI
		if pricing.InBytes(x.Name) {
			format = resource.BinarySI
		}
		list[corev1.ResourceName(x.Name)] = *resource.NewQuantity(x.N, format)
	}
	return list
}
