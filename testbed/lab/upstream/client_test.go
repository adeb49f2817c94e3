package upstream

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a provider and a cluster at once: what is ordered is there at once as an instance, and
// joins when it is asked to.
type world struct {
	externalgrpc.CloudProviderClient
	now       time.Time
	groups    []*externalgrpc.NodeGroup
	instances map[string][]*externalgrpc.Instance
	extra     map[string]int32 // of targets, over their instances
	refuses   map[string]bool  // groups that no machine can be ordered from
	prices    map[string]float64
	options   *externalgrpc.NodeGroupAutoscalingOptions
	away      bool
	sight     Sight
	did       []string
}

// sizes are those of new nodes, by group.
var sizes = map[string]pricing.Resources{
	"small": {CPU: 2000, Memory: 8 * pricing.GiB}, "big": {CPU: 8000, Memory: 32 * pricing.GiB},
}

func newWorld() *world {
	return &world{
		now: noon, instances: map[string][]*externalgrpc.Instance{}, extra: map[string]int32{}, refuses: map[string]bool{},
		prices: map[string]float64{"small": 2, "big": 8}, sight: Sight{ProviderIDs: map[string]string{}},
		groups: []*externalgrpc.NodeGroup{{Id: "big", MaxSize: 5}, {Id: "small", MaxSize: 5}},
	}
}

func (w *world) done(format string, args ...any) {
	w.did = append(w.did, fmt.Sprintf("%s ", w.now.Sub(noon))+fmt.Sprintf(format, args...))
}

// instance adds one in a state.
func (w *world) instance(group, id string, state externalgrpc.InstanceStatus_InstanceState, fault string) {
	i := &externalgrpc.Instance{Id: id, Status: &externalgrpc.InstanceStatus{InstanceState: state}}
	if fault != "" {
		i.Status.ErrorInfo = &externalgrpc.InstanceErrorInfo{ErrorCode: fault, InstanceErrorClass: 1}
	}
	w.instances[group] = append(w.instances[group], i)
}

// node adds a node of a group, which joined an hour ago.
func (w *world) node(group, name string) {
	w.instance(group, "id-"+name, externalgrpc.InstanceStatus_instanceRunning, "")
	w.joins(name, group, noon.Add(-time.Hour))
}

func (w *world) joins(name, group string, at time.Time) {
	w.sight.State.Nodes = append(w.sight.State.Nodes, nodescaler.Node{Name: name, Ready: true, Joined: at, Allocatable: sizes[group]})
	w.sight.ProviderIDs[name] = "id-" + name
}

// pods adds pods of one workload, on a node or waiting since a minute.
func (w *world) pods(n int, workload, node string, cpu pricing.MilliCPU) {
	for i := range n {
		w.sight.State.Pods = append(w.sight.State.Pods, nodescaler.Pod{
			Pod: podscaler.Pod{Name: fmt.Sprintf("%s-%s-%d", workload, node, i)}, Workload: workload, Node: node, Unschedulable: node == "",
			Created: noon.Add(-time.Minute), Requests: pricing.Resources{CPU: cpu, Memory: pricing.GiB},
		})
	}
}

func (w *world) Observe(context.Context) (Sight, error) {
	seen := w.sight
	seen.State.Nodes, seen.State.Pods = slices.Clone(w.sight.State.Nodes), slices.Clone(w.sight.State.Pods)
	return seen, nil
}

func (w *world) Mark(_ context.Context, node string, marked bool) error {
	w.done("mark %s %t", node, marked)
	for i := range w.sight.State.Nodes {
		if n := &w.sight.State.Nodes[i]; n.Name == node {
			n.Draining, n.Cordoned = marked, marked
		}
	}
	return nil
}

func (w *world) Evict(_ context.Context, pod string) error {
	w.done("evict %s", pod)
	w.sight.State.Pods = slices.DeleteFunc(w.sight.State.Pods, func(p nodescaler.Pod) bool { return p.Name == pod })
	return nil
}

func (w *world) Refresh(context.Context, *externalgrpc.RefreshRequest, ...grpc.CallOption) (*externalgrpc.RefreshResponse, error) {
	if w.away {
		return nil, status.Error(codes.Unavailable, "away")
	}
	return &externalgrpc.RefreshResponse{}, nil
}

func (w *world) NodeGroups(context.Context, *externalgrpc.NodeGroupsRequest, ...grpc.CallOption) (*externalgrpc.NodeGroupsResponse, error) {
	return &externalgrpc.NodeGroupsResponse{NodeGroups: w.groups}, nil
}

func (w *world) NodeGroupForNode(_ context.Context, r *externalgrpc.NodeGroupForNodeRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupForNodeResponse, error) {
	for group, all := range w.instances {
		if slices.ContainsFunc(all, func(i *externalgrpc.Instance) bool { return i.Id == r.Node.ProviderID }) {
			return &externalgrpc.NodeGroupForNodeResponse{NodeGroup: &externalgrpc.NodeGroup{Id: group}}, nil
		}
	}
	return &externalgrpc.NodeGroupForNodeResponse{NodeGroup: &externalgrpc.NodeGroup{}}, nil
}

func (w *world) NodeGroupTargetSize(_ context.Context, r *externalgrpc.NodeGroupTargetSizeRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupTargetSizeResponse, error) {
	n := w.extra[r.Id]
	for _, i := range w.instances[r.Id] {
		if i.Status.InstanceState != externalgrpc.InstanceStatus_instanceDeleting {
			n++
		}
	}
	return &externalgrpc.NodeGroupTargetSizeResponse{TargetSize: n}, nil
}

func (w *world) NodeGroupNodes(_ context.Context, r *externalgrpc.NodeGroupNodesRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupNodesResponse, error) {
	return &externalgrpc.NodeGroupNodesResponse{Instances: slices.Clone(w.instances[r.Id])}, nil
}

func (w *world) NodeGroupTemplateNodeInfo(_ context.Context, r *externalgrpc.NodeGroupTemplateNodeInfoRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupTemplateNodeInfoResponse, error) {
	size := sizes[r.Id]
	all := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(size.CPU), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(size.Memory), resource.BinarySI),
	}
	text, err := (&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"group": r.Id}}, Status: corev1.NodeStatus{Capacity: all, Allocatable: all}}).Marshal()
	return &externalgrpc.NodeGroupTemplateNodeInfoResponse{NodeBytes: text}, err
}

func (w *world) NodeGroupGetOptions(context.Context, *externalgrpc.NodeGroupAutoscalingOptionsRequest, ...grpc.CallOption) (*externalgrpc.NodeGroupAutoscalingOptionsResponse, error) {
	return &externalgrpc.NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: w.options}, nil
}

func (w *world) GPULabel(context.Context, *externalgrpc.GPULabelRequest, ...grpc.CallOption) (*externalgrpc.GPULabelResponse, error) {
	return &externalgrpc.GPULabelResponse{}, nil
}

func (w *world) GetAvailableGPUTypes(context.Context, *externalgrpc.GetAvailableGPUTypesRequest, ...grpc.CallOption) (*externalgrpc.GetAvailableGPUTypesResponse, error) {
	return nil, status.Error(codes.Unimplemented, "no devices")
}

func (w *world) PricingNodePrice(_ context.Context, r *externalgrpc.PricingNodePriceRequest, _ ...grpc.CallOption) (*externalgrpc.PricingNodePriceResponse, error) {
	return &externalgrpc.PricingNodePriceResponse{Price: w.prices[r.Node.Labels["group"]]}, nil
}

func (w *world) PricingPodPrice(context.Context, *externalgrpc.PricingPodPriceRequest, ...grpc.CallOption) (*externalgrpc.PricingPodPriceResponse, error) {
	return &externalgrpc.PricingPodPriceResponse{Price: 1}, nil
}

func (w *world) NodeGroupIncreaseSize(_ context.Context, r *externalgrpc.NodeGroupIncreaseSizeRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupIncreaseSizeResponse, error) {
	if w.refuses[r.Id] {
		w.done("refused %s %+d", r.Id, r.Delta)
		return nil, status.Error(codes.ResourceExhausted, "full")
	}
	w.done("increase %s %+d", r.Id, r.Delta)
	for range r.Delta {
		w.instance(r.Id, fmt.Sprintf("id-%s-%d", r.Id, len(w.instances[r.Id])), externalgrpc.InstanceStatus_instanceCreating, "")
	}
	return &externalgrpc.NodeGroupIncreaseSizeResponse{}, nil
}

func (w *world) NodeGroupDecreaseTargetSize(_ context.Context, r *externalgrpc.NodeGroupDecreaseTargetSizeRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupDecreaseTargetSizeResponse, error) {
	w.done("decrease %s %+d", r.Id, r.Delta)
	w.extra[r.Id] += r.Delta
	return &externalgrpc.NodeGroupDecreaseTargetSizeResponse{}, nil
}

func (w *world) NodeGroupDeleteNodes(_ context.Context, r *externalgrpc.NodeGroupDeleteNodesRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupDeleteNodesResponse, error) {
	for _, n := range r.Nodes {
		w.done("delete %s", n.Name)
		w.instances[r.Id] = slices.DeleteFunc(w.instances[r.Id], func(i *externalgrpc.Instance) bool { return i.Id == n.ProviderID })
		w.sight.State.Nodes = slices.DeleteFunc(w.sight.State.Nodes, func(o nodescaler.Node) bool { return o.Name == n.Name })
	}
	return &externalgrpc.NodeGroupDeleteNodesResponse{}, nil
}

func TestWhatIsDone(t *testing.T) {
	creating, wants := externalgrpc.InstanceStatus_instanceCreating, podscaler.Duration(2*time.Minute)
	tests := []struct {
		name     string
		world    func(w *world)
		flags    func(f *Flags)
		expander Expander
		scans    int // one each ten seconds; 3 if zero
		want     []string
	}{
		{name: "nothing waits", world: func(w *world) { w.node("small", "a"); w.pods(2, "web", "a", 600) }},
		{name: "pods that wait get nodes of the group that wastes least", world: func(w *world) { w.pods(3, "web", "", 1500) }, want: []string{"0s increase small +3"}},
		{name: "of the one that costs least for them", world: func(w *world) { w.pods(3, "web", "", 1500); w.prices["big"] = 3 }, expander: Price, want: []string{"0s increase big +1"}},
		{name: "of the only one that takes them", world: func(w *world) { w.pods(1, "web", "", 3000) }, want: []string{"0s increase big +1"}},
		{name: "no more than the group may have", world: func(w *world) { w.pods(9, "web", "", 1500); w.groups = w.groups[1:] }, want: []string{"0s increase small +5"}},
		{name: "none if there is room", world: func(w *world) { w.node("small", "a"); w.pods(1, "web", "", 600) }},
		{name: "none if room is to come", world: func(w *world) { w.instance("small", "id-b", creating, ""); w.pods(1, "web", "", 600) }},
		{name: "none yet if all have just begun to wait", world: func(w *world) {
			w.pods(1, "web", "", 600)
			w.sight.State.Pods[0].Created = noon.Add(-time.Second)
		}, want: []string{"10s increase small +1"}},
		{name: "another group where one refuses", world: func(w *world) { w.pods(1, "web", "", 600); w.refuses["small"] = true }, want: []string{"0s refused small +1", "10s increase big +1"}},
		{name: "a group that refused is left alone, and asked again", world: func(w *world) { w.pods(1, "web", "", 600); w.refuses["small"], w.groups = true, w.groups[1:] }, scans: 60,
			want: []string{"0s refused small +1", "5m0s refused small +1"}},
		{name: "room for buffers", world: func(w *world) {
			w.sight.Buffers = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "web", Requests: pricing.Resources{CPU: 1500, Memory: pricing.GiB}}, Ahead: 2}}
		}, flags: func(f *Flags) { f.CapacityBufferPodInjectionEnabled = true }, want: []string{"0s increase small +2"}},
		{name: "no room for buffers that nobody reads", world: func(w *world) {
			w.sight.Buffers = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "web", Requests: pricing.Resources{CPU: 1500, Memory: pricing.GiB}}, Ahead: 2}}
		}},
		{name: "a group's minimum, if it is to be enforced", world: func(w *world) { w.groups[1].MinSize = 2 }, flags: func(f *Flags) { f.EnforceNodeGroupMinSize = true }, want: []string{"0s increase small +2"}},
		{name: "what failed is deleted at once", world: func(w *world) { w.instance("small", "id-b", creating, "Broken") }, want: []string{"0s delete id-b"}},
		{name: "what never becomes a node is deleted", world: func(w *world) { w.instance("small", "id-b", creating, "") }, flags: func(f *Flags) { f.MaxNodeProvisionTime = wants }, scans: 20, want: []string{"2m10s delete id-b"}},
		{name: "but not below the minimum", world: func(w *world) { w.instance("small", "id-b", creating, ""); w.groups[1].MinSize = 1 }, flags: func(f *Flags) { f.MaxNodeProvisionTime = wants }, scans: 20},
		{name: "a target that is too high is taken back", world: func(w *world) { w.node("small", "a"); w.pods(2, "web", "a", 600); w.extra["small"] = 1 }, flags: func(f *Flags) { f.MaxNodeProvisionTime = wants }, scans: 20,
			want: []string{"2m10s decrease small -1"}},
		{name: "an empty node goes after ten minutes", world: func(w *world) { w.node("small", "a"); w.node("small", "b"); w.pods(2, "web", "a", 600) }, scans: 70,
			want: []string{"10m10s mark b true", "10m20s delete b"}},
		{name: "one of two that are little used is emptied", world: func(w *world) {
			w.node("small", "a")
			w.node("small", "b")
			w.pods(1, "web", "a", 900)
			w.pods(1, "web", "b", 300)
		}, scans: 70, want: []string{"10m10s mark b true", "10m10s evict web-b-0", "10m20s delete b"}},
		{name: "not where a budget lets none go", world: func(w *world) {
			w.node("small", "a")
			w.node("small", "b")
			w.pods(1, "web", "a", 900)
			w.pods(1, "db", "b", 300)
			w.sight.State.Budgets = []nodescaler.Budget{{Workload: "db"}, {Workload: "web"}}
		}, scans: 70},
		{name: "not below the minimum, either", world: func(w *world) { w.node("small", "a"); w.groups[1].MinSize = 1 }, scans: 70},
		{name: "nodes of nobody are left alone", world: func(w *world) { w.joins("static", "small", noon) }, scans: 70},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, f := newWorld(), DefaultFlags()
			test.world(w)
			if test.flags != nil {
				test.flags(&f)
			}
			c := w.client(t, f, test.expander)
			if test.scans == 0 {
				test.scans = 3
			}
			for range test.scans {
				if _, err := c.Once(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.now = w.now.Add(10 * time.Second)
			}
			if diff := cmp.Diff(test.want, w.did); diff != "" {
				t.Errorf("-want +did:\n%s", diff)
			}
		})
	}
}

func (w *world) client(t *testing.T, f Flags, expander Expander) *Client {
	t.Helper()
	c, err := New(Config{Provider: w, Cluster: w, Unneeded: f, Expander: expander, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A scan that does not see everything changes nothing.
func TestNothingIsDoneBlindly(t *testing.T) {
	threshold := &externalgrpc.NodeGroupAutoscalingOptions{ScaleDownUtilizationThreshold: 0.3}
	for what, change := range map[string]func(w *world){
		"the provider is away":             func(w *world) { w.away = true },
		"the group has options of its own": func(w *world) { w.options = threshold },
	} {
		w := newWorld()
		w.node("small", "a")
		w.pods(4, "web", "", 1500)
		change(w)
		if _, err := w.client(t, DefaultFlags(), "").Once(t.Context()); err == nil {
			t.Errorf("%s: no error", what)
		}
		if len(w.did) > 0 {
			t.Errorf("%s: %v", what, w.did)
		}
	}
}

func TestUnknownExpandersAreRefused(t *testing.T) {
	_, err := New(Config{Unneeded: DefaultFlags(), Expander: "random"})
	if want := `expander: must be least-waste or price, was "random"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
