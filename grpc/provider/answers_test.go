package provider

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestNodesThatAreNotOursHaveAnEmptyGroup(t *testing.T) {
	s, p := made(t, nil)
	id := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, id, 1))
	m := p.machines[0]
	for _, c := range []struct {
		name string
		node *externalgrpc.ExternalGrpcNode
		want string
	}{
		{"one that has not registered", fake(m.ProviderID), id},
		{"one that has", &externalgrpc.ExternalGrpcNode{ProviderID: m.ProviderID, Name: m.Name}, id},
		{"one without a provider id yet", &externalgrpc.ExternalGrpcNode{Name: m.Name}, id},
		{"one of our name with another's id", &externalgrpc.ExternalGrpcNode{ProviderID: "proxmox://lab/7", Name: m.Name}, ""},
		{"a control plane's", &externalgrpc.ExternalGrpcNode{ProviderID: "rke2://cp-1", Name: "cp-1"}, ""},
		{"nothing at all", nil, ""},
	} {
		answer, err := s.NodeGroupForNode(t.Context(), &externalgrpc.NodeGroupForNodeRequest{Node: c.node})
		if err != nil || answer.NodeGroup == nil || answer.NodeGroup.Id != c.want {
			t.Errorf("%s: %v, %v, want %q", c.name, answer, err, c.want)
		}
	}
}

func TestTemplateIsANodeThatHasJustJoined(t *testing.T) {
	s, _ := made(t, nil)
	answer := must.Get(s.NodeGroupTemplateNodeInfo(t.Context(), &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: groupOf(t, s, "workers.small")}))(t)
	if !cmp.Equal(answer.NodeInfo, answer.NodeBytes) || len(answer.NodeBytes) == 0 {
		t.Error("old and new clients see different nodes")
	}
	var n corev1.Node
	must.Do(t, n.Unmarshal(answer.NodeBytes))
	got := map[string]string{}
	for name, q := range n.Status.Allocatable {
		got["allocatable "+string(name)] = q.String()
	}
	for name, q := range n.Status.Capacity {
		got["capacity "+string(name)] = q.String()
	}
	for key, value := range n.Labels {
		got["label "+key] = value
	}
	for _, taint := range n.Spec.Taints {
		got["taint "+taint.Key] = taint.Value + ":" + string(taint.Effect)
	}
	for _, c := range n.Status.Conditions {
		got["condition "+string(c.Type)] = string(c.Status)
	}
	want := map[string]string{
		"capacity cpu": "2", "capacity memory": "8Gi", "capacity pods": "110", "capacity ephemeral-storage": "40Gi",
		"allocatable cpu": "1700m", "allocatable memory": "7Gi", "allocatable pods": "110", "allocatable ephemeral-storage": "35594541452",
		"capacity nvidia.com/gpu": "2", "allocatable nvidia.com/gpu": "2",
		"label kubernetes.io/arch": "amd64", "label kubernetes.io/os": "linux", "label " + PoolLabel: "workers", "label " + ShapeLabel: "small",
		"label topology.kubernetes.io/region": "lab", "taint batch": "yes:NoSchedule", "condition Ready": "True",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestPricesOfNodesAndPodsAreInOneUnit(t *testing.T) {
	s, p := made(t, nil)
	must.Do(t, increase(t, s, groupOf(t, s, "workers.small"), 1))
	price := func(n *externalgrpc.ExternalGrpcNode) float64 {
		answer := must.Get(s.PricingNodePrice(t.Context(), &externalgrpc.PricingNodePriceRequest{
			Node: n, StartTimestamp: timestamppb.New(noon), EndTimestamp: timestamppb.New(noon.Add(90 * time.Minute)),
		}))(t)
		return answer.Price
	}
	template := price(&externalgrpc.ExternalGrpcNode{Name: "template-node-for-x-123", Labels: map[string]string{PoolLabel: "workers", ShapeLabel: "small"}})
	if real := price(fake(p.machines[0].ProviderID)); real != template {
		t.Errorf("a real node costs %g, its template %g", real, template)
	}
	if want := 1.5 * (2 + 8.589934592); math.Abs(template-want) > 1e-9 {
		t.Errorf("the node costs %g, want %g", template, want)
	}
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"),
	}}}}}}
	text := must.Get(pod.Marshal())(t)
	for name, r := range map[string]*externalgrpc.PricingPodPriceRequest{
		"new": {PodBytes: text, StartTimestamp: timestamppb.New(noon), EndTimestamp: timestamppb.New(noon.Add(90 * time.Minute))},
		"old": {Pod: text, StartTime: timestamppb.New(noon), EndTime: timestamppb.New(noon.Add(90 * time.Minute))},
	} {
		if answer, err := s.PricingPodPrice(t.Context(), r); err != nil || answer.Price != template {
			t.Errorf("%s: a pod that fills the node costs %v (%v), the node %g", name, answer, err, template)
		}
	}
}

// The fewer machines are the cheaper, and no pod is worth more for what having a machine costs.
func TestHavingAMachineIsInTheNodesPriceAndNotInThePods(t *testing.T) {
	book := *defaultPrices
	book.PerMachine = pricing.Unit
	s, _ := made(t, func(c *Config) { c.Prices = &book })
	from, to := timestamppb.New(noon), timestamppb.New(noon.Add(time.Hour))
	node, err := s.PricingNodePrice(t.Context(), &externalgrpc.PricingNodePriceRequest{
		Node: &externalgrpc.ExternalGrpcNode{Labels: map[string]string{PoolLabel: "workers", ShapeLabel: "small"}}, StartTimestamp: from, EndTimestamp: to,
	})
	if want := 1 + 2 + 8.589934592; err != nil || math.Abs(node.Price-want) > 1e-9 {
		t.Errorf("the node costs %v (%v), want %g", node, err, want)
	}
	text := podAsking(t, "1")
	if answer, err := s.PricingPodPrice(t.Context(), &externalgrpc.PricingPodPriceRequest{PodBytes: text, StartTimestamp: from, EndTimestamp: to}); err != nil || answer.Price != 1 {
		t.Errorf("the pod costs %v (%v), want 1", answer, err)
	}
	if worth := s.worth(&externalgrpc.Option{PodBytes: [][]byte{text, text}}); worth.Cmp(big.NewInt(int64(pricing.RateOf(2*pricing.Unit)))) != 0 {
		t.Errorf("two pods are worth %s", worth)
	}
}

// podAsking is a pod that asks for so much CPU, as it comes over the wire.
func podAsking(t *testing.T, cpu string) []byte {
	text := must.Get((&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}}}).Marshal())(t)
	return text
}

func TestPricesAreNeverMadeUp(t *testing.T) {
	s, _ := made(t, nil)
	ours := map[string]string{PoolLabel: "workers", ShapeLabel: "small"}
	at, later := timestamppb.New(noon), timestamppb.New(noon.Add(time.Hour))
	for name, c := range map[string]struct {
		r    *externalgrpc.PricingNodePriceRequest
		want codes.Code
	}{
		"unknown pool":    {&externalgrpc.PricingNodePriceRequest{Node: &externalgrpc.ExternalGrpcNode{Name: "x", Labels: map[string]string{PoolLabel: "nope"}}, StartTimestamp: at, EndTimestamp: later}, codes.NotFound},
		"no node":         {&externalgrpc.PricingNodePriceRequest{StartTimestamp: at, EndTimestamp: later}, codes.NotFound},
		"no times":        {&externalgrpc.PricingNodePriceRequest{Node: &externalgrpc.ExternalGrpcNode{Labels: ours}}, codes.InvalidArgument},
		"end before from": {&externalgrpc.PricingNodePriceRequest{Node: &externalgrpc.ExternalGrpcNode{Labels: ours}, StartTimestamp: later, EndTimestamp: at}, codes.InvalidArgument},
		"no time at all":  {&externalgrpc.PricingNodePriceRequest{Node: &externalgrpc.ExternalGrpcNode{Labels: ours}, StartTimestamp: &timestamppb.Timestamp{Nanos: -1}, EndTimestamp: later}, codes.InvalidArgument},
		"a thousand years": {&externalgrpc.PricingNodePriceRequest{Node: &externalgrpc.ExternalGrpcNode{Labels: ours}, StartTimestamp: at,
			EndTimestamp: timestamppb.New(noon.AddDate(1000, 0, 0))}, codes.InvalidArgument},
	} {
		if answer, err := s.PricingNodePrice(t.Context(), c.r); status.Code(err) != c.want {
			t.Errorf("%s: %v, %v, want %s", name, answer, err, c.want)
		}
	}
}

func TestPodRoomCountsWhatRunsTogether(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	of := func(cpu string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	sidecar := of("300m")
	sidecar.RestartPolicy = &always
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want pricing.MilliCPU
	}{
		"containers add up":                 {corev1.PodSpec{Containers: []corev1.Container{of("200m"), of("300m")}}, 500},
		"a large first step counts":         {corev1.PodSpec{Containers: []corev1.Container{of("200m")}, InitContainers: []corev1.Container{of("2")}}, 2000},
		"sidecars run with all":             {corev1.PodSpec{Containers: []corev1.Container{of("200m")}, InitContainers: []corev1.Container{sidecar, of("400m")}}, 700},
		"overhead comes on top":             {corev1.PodSpec{Containers: []corev1.Container{of("200m")}, Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}}, 250},
		"a pod that asks for nothing":       {corev1.PodSpec{Containers: []corev1.Container{{}}}, 0},
		"a request below zero is no income": {corev1.PodSpec{Containers: []corev1.Container{of("-5")}}, 0},
	} {
		text := must.Get((&corev1.Pod{Spec: c.spec}).Marshal())(t)
		if got, err := requests(text); err != nil || got.CPU != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got.CPU, err, c.want)
		}
	}
}

func TestOptionsAreUnsetUnlessTheClientCanTakeThem(t *testing.T) {
	unneeded := nodescaler.Duration(3 * time.Minute)
	s, _ := made(t, func(c *Config) { c.Pools[0].Options = &Options{ScaleDownUnneededTime: &unneeded} })
	ask := func(group string, d *externalgrpc.NodeGroupAutoscalingOptions) *externalgrpc.NodeGroupAutoscalingOptions {
		answer := must.Get(s.NodeGroupGetOptions(t.Context(), &externalgrpc.NodeGroupAutoscalingOptionsRequest{Id: groupOf(t, s, group), Defaults: d}))(t)
		return answer.NodeGroupAutoscalingOptions
	}
	old := &externalgrpc.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold: .5, ScaleDownUnneededTime: &externalgrpc.Nanoseconds{Duration: int64(10 * time.Minute)},
		ScaleDownUnreadyTime: &externalgrpc.Nanoseconds{Duration: int64(20 * time.Minute)},
		MaxNodeProvisionTime: &externalgrpc.Nanoseconds{Duration: int64(15 * time.Minute)},
	}
	gap := &externalgrpc.NodeGroupAutoscalingOptions{ScaleDownUnneededDuration: durationpb.New(10 * time.Minute)}
	recent := &externalgrpc.NodeGroupAutoscalingOptions{
		ScaleDownUnneededDuration: durationpb.New(10 * time.Minute), MaxNodeStartupDuration: durationpb.New(7 * time.Minute),
	}
	if got := ask("edge", old); got != nil {
		t.Errorf("a pool without options: %v", got)
	}
	if got := ask("workers.small", gap); got != nil {
		t.Errorf("releases that would take every start for late: %v", got)
	}
	for name, d := range map[string]*externalgrpc.NodeGroupAutoscalingOptions{"old": old, "new": recent} {
		got := ask("workers.small", d)
		if got.GetScaleDownUnneededTime().GetDuration() != int64(3*time.Minute) || got.GetScaleDownUnneededDuration().AsDuration() != 3*time.Minute {
			t.Errorf("%s: unneeded %v", name, got)
		}
		for what, unset := range map[string]bool{
			"old unready": got.GetScaleDownUnreadyTime() == nil, "new unready": got.GetScaleDownUnreadyDuration() == nil,
			"old provision": got.GetMaxNodeProvisionTime() == nil, "new provision": got.GetMaxNodeProvisionDuration() == nil,
			"startup": got.GetMaxNodeStartupDuration() == nil,
		} {
			if unset {
				t.Errorf("%s: %s is unset, which is taken for zero", name, what)
			}
		}
	}
	if got := ask("workers.small", recent).GetMaxNodeStartupDuration().AsDuration(); got != 7*time.Minute {
		t.Errorf("the client's own start time became %s", got)
	}
}

func TestExpanderTakesTheCheapest(t *testing.T) {
	s, _ := made(t, nil)
	small, large := groupOf(t, s, "workers.small"), groupOf(t, s, "workers.large")
	option := func(id string, n int32, pods ...[]byte) *externalgrpc.Option {
		return &externalgrpc.Option{NodeGroupId: id, NodeCount: n, PodBytes: pods}
	}
	pod := podAsking(t, "1")
	one, three := [][]byte{pod}, [][]byte{pod, pod, pod}
	for name, c := range map[string]struct {
		options []*externalgrpc.Option
		want    string
	}{
		"the same pods on less":       {[]*externalgrpc.Option{option(large, 1, three...), option(small, 3, three...)}, small},
		"five small cost more":        {[]*externalgrpc.Option{option(large, 1, three...), option(small, 5, three...)}, large},
		"more pods for the money":     {[]*externalgrpc.Option{option(small, 1, one...), option(small, 2, three...)}, small},
		"pods that are no pods":       {[]*externalgrpc.Option{option(large, 1, []byte("workers.small")), option(small, 3, []byte("x"))}, small},
		"groups of nobody's are left": {[]*externalgrpc.Option{option("theirs", 1, one...), option(large, 1, one...)}, large},
	} {
		answer, err := s.BestOptions(t.Context(), &externalgrpc.BestOptionsRequest{Options: c.options})
		if err != nil || len(answer.Options) != 1 || answer.Options[0].NodeGroupId != c.want {
			t.Errorf("%s: %v, %v, want %s", name, answer, err, c.want)
		}
	}
	if _, err := s.BestOptions(t.Context(), &externalgrpc.BestOptionsRequest{}); status.Code(err) != codes.NotFound {
		t.Errorf("no options: %v", err)
	}
}

func TestFaultyPoolsAreRefusedWithKeyRuleAndValue(t *testing.T) {
	share := 1.5
	_, err := New(Config{Pools: []Pool{
		{Pool: nodescaler.Pool{Name: "a", Min: 3, Max: 2}},
		{Pool: nodescaler.Pool{Name: "a", Max: 2, Shapes: []pricing.Shape{small, small}}, Options: &Options{ScaleDownUtilizationThreshold: &share}},
	}})
	want := `pools[0].shapes: must be at least one, was none
pools[0].min: must be from 0 to max, was 3
pools[1].name: must be given, and be there once, was "a"
pools[1].shapes[1].name: must be given, and be there once, was "small"
pools[1].options.scaleDownUtilizationThreshold: must be from 0 to 1, was 1.5`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}
