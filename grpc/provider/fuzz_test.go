package provider

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// asked decodes a request and makes the call.
func asked[Q any, P interface {
	*Q
	proto.Message
}, A any](method func(*Server) func(context.Context, P) (A, error)) func(*Server, []byte) (error, bool) {
	return func(s *Server, text []byte) (error, bool) {
		var q Q
		decoded := proto.Unmarshal(text, P(&q)) == nil
		if !decoded {
			return nil, false
		}
		_, err := method(s)(context.Background(), &q)
		return err, true
	}
}

// methods are all calls, in the order of the contract.
var methods = []func(*Server, []byte) (error, bool){
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupsRequest) (*externalgrpc.NodeGroupsResponse, error) {
		return s.NodeGroups
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupForNodeRequest) (*externalgrpc.NodeGroupForNodeResponse, error) {
		return s.NodeGroupForNode
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.PricingNodePriceRequest) (*externalgrpc.PricingNodePriceResponse, error) {
		return s.PricingNodePrice
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.PricingPodPriceRequest) (*externalgrpc.PricingPodPriceResponse, error) {
		return s.PricingPodPrice
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.GPULabelRequest) (*externalgrpc.GPULabelResponse, error) {
		return s.GPULabel
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.GetAvailableGPUTypesRequest) (*externalgrpc.GetAvailableGPUTypesResponse, error) {
		return s.GetAvailableGPUTypes
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.CleanupRequest) (*externalgrpc.CleanupResponse, error) {
		return s.Cleanup
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.RefreshRequest) (*externalgrpc.RefreshResponse, error) {
		return s.Refresh
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupTargetSizeRequest) (*externalgrpc.NodeGroupTargetSizeResponse, error) {
		return s.NodeGroupTargetSize
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupIncreaseSizeRequest) (*externalgrpc.NodeGroupIncreaseSizeResponse, error) {
		return s.NodeGroupIncreaseSize
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupDeleteNodesRequest) (*externalgrpc.NodeGroupDeleteNodesResponse, error) {
		return s.NodeGroupDeleteNodes
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupDecreaseTargetSizeRequest) (*externalgrpc.NodeGroupDecreaseTargetSizeResponse, error) {
		return s.NodeGroupDecreaseTargetSize
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupNodesRequest) (*externalgrpc.NodeGroupNodesResponse, error) {
		return s.NodeGroupNodes
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupTemplateNodeInfoRequest) (*externalgrpc.NodeGroupTemplateNodeInfoResponse, error) {
		return s.NodeGroupTemplateNodeInfo
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.NodeGroupAutoscalingOptionsRequest) (*externalgrpc.NodeGroupAutoscalingOptionsResponse, error) {
		return s.NodeGroupGetOptions
	}),
	asked(func(s *Server) func(context.Context, *externalgrpc.BestOptionsRequest) (*externalgrpc.BestOptionsResponse, error) {
		return s.BestOptions
	}),
}

// No bytes that a client may send make the server panic, fail without a reason of its own, or
// change something and fail.
func FuzzCalls(f *testing.F) {
	seed := func(method int, m proto.Message) {
		text := must.Get(proto.Marshal(m))(f)
		f.Add(method, text)
	}
	all := pools()
	groups := must.Get(newGroups(all))(f)
	group, id := groups[0].id, "proxmox://lab/1001" // of edge, as is the first machine
	for method := range methods {
		// A field that most requests have.
		seed(method, &externalgrpc.NodeGroupTargetSizeRequest{Id: group})
	}
	seed(1, &externalgrpc.NodeGroupForNodeRequest{Node: fake(id)})
	seed(2, &externalgrpc.PricingNodePriceRequest{Node: &externalgrpc.ExternalGrpcNode{Labels: map[string]string{PoolLabel: "edge", ShapeLabel: "small"}}})
	seed(9, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group, Delta: -1 << 31})
	seed(9, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group, Delta: 1<<31 - 1})
	seed(9, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group, Delta: 1})
	seed(10, &externalgrpc.NodeGroupDeleteNodesRequest{Id: group, Nodes: []*externalgrpc.ExternalGrpcNode{fake(id)}})
	seed(11, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: group, Delta: -1})
	seed(10, &externalgrpc.NodeGroupDeleteNodesRequest{Id: group, Nodes: []*externalgrpc.ExternalGrpcNode{fake(id), nil}})
	seed(11, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: group, Delta: -1 << 31})
	seed(14, &externalgrpc.NodeGroupAutoscalingOptionsRequest{Id: group, Defaults: &externalgrpc.NodeGroupAutoscalingOptions{}})
	seed(15, &externalgrpc.BestOptionsRequest{Options: []*externalgrpc.Option{{NodeGroupId: group, NodeCount: 1 << 30, PodBytes: [][]byte{{0xff}}}}})
	f.Fuzz(func(t *testing.T, method int, text []byte) {
		p := &port{room: 10}
		s := must.Get(New(Config{Pools: all, Machines: p, Prices: defaultPrices}))(t)
		for _, g := range groups {
			must.Do(t, increase(t, s, g.id, 1))
		}
		before := slices.Clone(p.machines)
		err, decoded := methods[uint(method)%uint(len(methods))](s, text)
		if decoded && err != nil && (status.Code(err) == codes.Unknown || status.Code(err) == codes.Internal) {
			t.Errorf("%v", err)
		}
		if len(p.machines) > 8 {
			t.Errorf("%d machines", len(p.machines))
		}
		if err != nil && !reflect.DeepEqual(p.machines, before) {
			t.Errorf("%v, and machines changed", err)
		}
	})
}

// No bytes that are said to be a pod make the server panic, or cost less than nothing.
func FuzzPodBytes(f *testing.F) {
	text := must.Get((&corev1.Pod{Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}}}},
		InitContainers: []corev1.Container{{}},
	}}).Marshal())(f)
	f.Add(text)
	f.Add([]byte{})
	f.Add([]byte("workers.small"))
	f.Fuzz(func(t *testing.T, text []byte) {
		room, err := requests(text)
		if err == nil && (room.CPU < 0 || room.Memory < 0) {
			t.Errorf("%v", room)
		}
	})
}
