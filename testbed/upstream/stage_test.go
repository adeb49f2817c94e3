package upstream_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
)

// heard is a call by what it is and what it is about: a group, or a node.
type heard struct{ method, about string }

func (h heard) String() string {
	if h.about == "" {
		return h.method
	}
	return h.method + "(" + h.about + ")"
}

// stage is a recording as a world to play in: the provider answers as the recorded one did at the
// time, and the cluster is as the recorded one was. What a player does to the cluster is added to
// that; what it asks the provider to change is only heard, and answered as the recorded call was.
type stage struct {
	externalgrpc.CloudProviderClient // what is not answered below is nobody's to call
	all                              []recorded
	next                             int // of all, what has not happened yet
	now                              time.Duration
	nodes                            map[string]*nodescaler.Node
	pods                             map[string]*nodescaler.Pod
	marks                            map[string]bool // by the player
	budget                           bool            // lets nothing go
	calls                            []heard         // of the player, in this scan
	answers                          map[heard][]*exchange
	last                             map[heard]*exchange
}

// tookForm is how long a call took that the client gave up: five seconds are its deadline.
var tookForm = regexp.MustCompile(`\(([0-9.]+) ms[^)]*\)$`)

// newStage makes a stage of a recording, in which calls that hung are calls without an answer.
func newStage(all []recorded) *stage {
	for i := range all {
		if m := tookForm.FindStringSubmatch(all[i].text); all[i].call != nil && m != nil {
			if ms, err := strconv.ParseFloat(m[1], 64); err == nil && ms > 4900 {
				all[i].call.refused = codes.DeadlineExceeded.String()
			}
		}
	}
	return &stage{all: all, nodes: map[string]*nodescaler.Node{}, pods: map[string]*nodescaler.Pod{}, marks: map[string]bool{}, last: map[heard]*exchange{}}
}

// midnight is when recordings begin.
var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *stage) clock() time.Time { return midnight.Add(s.now) }

// scene is a scan of the recorded cluster-autoscaler: what it asked, from just before its refresh
// until the next scan.
type scene struct {
	at    time.Duration
	lines []recorded
}

// scenes cuts a recording into scans.
func scenes(all []recorded) (cut []scene) {
	for i := range all {
		r := &all[i]
		if r.kind == "rpc" && r.call.method == "Refresh" {
			from := i // what is asked of nodes right before belongs to it
			for from > 0 && all[from-1].kind == "rpc" && all[from-1].call.method == "NodeGroupForNode" && r.at-all[from-1].at < 200*time.Millisecond {
				from--
			}
			if n := len(cut); n > 0 {
				cut[n-1].lines = slices.DeleteFunc(cut[n-1].lines, func(l recorded) bool { return l.line >= all[from].line })
			}
			cut = append(cut, scene{at: r.at, lines: slices.Clone(all[from:i])})
		}
		if len(cut) > 0 {
			cut[len(cut)-1].lines = append(cut[len(cut)-1].lines, *r)
		}
	}
	return cut
}

// about is what a recorded call is about.
func about(e *exchange) heard {
	h := heard{e.method, e.group}
	switch e.method {
	case "NodeGroupForNode":
		h.about = e.nodes[0]
	case "PricingNodePrice":
		group, _, _ := strings.Cut(strings.TrimPrefix(e.nodes[0], "template-node-for-"), "-")
		h.about = group
	case "NodeGroupDeleteNodes":
		h.about = strings.Join(e.nodes, ",")
	case "NodeGroupIncreaseSize", "NodeGroupDecreaseTargetSize":
		h.about = fmt.Sprintf("%s %+d", e.group, e.delta)
	}
	return h
}

// begin lets everything happen that had before a scan of the recording, and makes the answers of it
// ready.
func (s *stage) begin(sc *scene) {
	for ; s.next < len(s.all) && s.all[s.next].at <= sc.at; s.next++ {
		s.happen(&s.all[s.next])
	}
	s.now, s.calls, s.answers = sc.at, nil, map[heard][]*exchange{}
	for i := range sc.lines {
		if c := sc.lines[i].call; c != nil {
			s.answers[about(c)] = append(s.answers[about(c)], c)
		}
	}
}

// happen makes a line of the recording true.
func (s *stage) happen(r *recorded) {
	switch r.kind {
	case "rpc":
		s.last[about(r.call)] = r.call
	case "ctl":
		s.budget = s.budget || strings.Contains(r.text, "note=R5")
	case "k8s":
		words := strings.Fields(r.text)
		if words[0] == "node" {
			s.node(words[1], words[2], r)
		} else {
			s.pod(words[1], words[2:], r)
		}
	}
}

func (s *stage) node(name, what string, r *recorded) {
	if what == "deleted" {
		delete(s.nodes, name)
		delete(s.marks, name)
		return
	}
	if s.nodes[name] == nil {
		s.nodes[name] = &nodescaler.Node{Name: name, Joined: midnight.Add(r.at), Allocatable: sizeOf(name), Labels: map[string]string{"name": name}}
	}
	s.nodes[name].Ready = strings.Contains(r.text, "ready=True") && !strings.Contains(r.text, "not-ready")
}

// sizeOf is how large the recorded nodes are, as far as the pods that were put on them show.
func sizeOf(name string) pricing.Resources {
	switch {
	case strings.HasPrefix(name, "small"):
		return pricing.Resources{CPU: 2000, Memory: 4 * pricing.GiB}
	case strings.HasPrefix(name, "big"):
		return pricing.Resources{CPU: 8000, Memory: 16 * pricing.GiB}
	}
	return pricing.Resources{CPU: 1000, Memory: 4 * pricing.GiB}
}

func (s *stage) pod(name string, did []string, r *recorded) {
	workload, _, _ := strings.Cut(name, "-")
	switch did[0] {
	case "created":
		p := &nodescaler.Pod{
			Pod: podscaler.Pod{Name: "default/" + name}, Workload: "default/" + workload, Created: midnight.Add(r.at), Unschedulable: true,
			Requests: pricing.Resources{CPU: 1500, Memory: 256 * pricing.MiB},
		}
		if workload == "sm" {
			p.Requests.CPU = 450
			// As in the part without a static node, where a node is used 15 % by one.
			if len(s.nodes) < 3 {
				p.Requests.CPU = 300
			}
		}
		s.pods[name] = p
	case "bound":
		s.pods[name].Node, s.pods[name].Unschedulable = did[2], false
	case "on":
		s.pods[name].Terminating = true
	case "deleted":
		delete(s.pods, name)
	}
}

// Observe is the cluster as it is now.
func (s *stage) Observe(context.Context) (upstream.Sight, error) {
	seen := upstream.Sight{ProviderIDs: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := *s.nodes[name]
		n.Draining, n.Cordoned = s.marks[name], s.marks[name]
		seen.State.Nodes = append(seen.State.Nodes, n)
		seen.ProviderIDs[name] = "lab://" + name
	}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		seen.State.Pods = append(seen.State.Pods, *s.pods[name])
	}
	if s.budget {
		seen.State.Budgets = []nodescaler.Budget{{Workload: "default/sm"}}
	}
	return seen, nil
}

// Mark is what the player does to a node.
func (s *stage) Mark(_ context.Context, node string, marked bool) error {
	s.marks[node] = marked
	return nil
}

// Evict does nothing: pods go when they did.
func (s *stage) Evict(context.Context, string) error { return nil }

// answer hears a call and finds the recorded answer: of the calls of this scan one after the other,
// or else the last.
func (s *stage) answer(h heard) (*exchange, error) {
	s.calls = append(s.calls, h)
	e := s.last[h]
	if here := s.answers[h]; len(here) > 0 {
		e = here[0]
		if len(here) > 1 {
			s.answers[h] = here[1:]
		}
	}
	if e == nil {
		return &exchange{}, nil
	}
	if e.refused != "" {
		return e, status.Error(codeOf(e.refused), "as recorded")
	}
	return e, nil
}

func codeOf(name string) codes.Code {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == name {
			return c
		}
	}
	return codes.Unknown
}

func (s *stage) Refresh(context.Context, *externalgrpc.RefreshRequest, ...grpc.CallOption) (*externalgrpc.RefreshResponse, error) {
	_, err := s.answer(heard{"Refresh", ""})
	return &externalgrpc.RefreshResponse{}, err
}

func (s *stage) NodeGroups(context.Context, *externalgrpc.NodeGroupsRequest, ...grpc.CallOption) (*externalgrpc.NodeGroupsResponse, error) {
	e, err := s.answer(heard{"NodeGroups", ""})
	if err != nil {
		return nil, err
	}
	all := &externalgrpc.NodeGroupsResponse{}
	for _, id := range e.groups {
		all.NodeGroups = append(all.NodeGroups, &externalgrpc.NodeGroup{Id: id, MinSize: s.min(id), MaxSize: 5})
	}
	return all, nil
}

// min is what the experimenter has set.
func (s *stage) min(group string) (n int32) {
	for i := range s.all[:s.next] {
		if _, err := fmt.Sscanf(s.all[i].text, "min."+group+"=%d", &n); s.all[i].kind == "ctl" && err != nil {
			continue
		}
	}
	return n
}

func (s *stage) NodeGroupForNode(_ context.Context, r *externalgrpc.NodeGroupForNodeRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupForNodeResponse, error) {
	e, err := s.answer(heard{"NodeGroupForNode", r.Node.Name})
	return &externalgrpc.NodeGroupForNodeResponse{NodeGroup: &externalgrpc.NodeGroup{Id: e.ofNode}}, err
}

func (s *stage) NodeGroupTargetSize(_ context.Context, r *externalgrpc.NodeGroupTargetSizeRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupTargetSizeResponse, error) {
	e, err := s.answer(heard{"NodeGroupTargetSize", r.Id})
	return &externalgrpc.NodeGroupTargetSizeResponse{TargetSize: int32(e.target)}, err
}

func (s *stage) NodeGroupNodes(_ context.Context, r *externalgrpc.NodeGroupNodesRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupNodesResponse, error) {
	e, err := s.answer(heard{"NodeGroupNodes", r.Id})
	all := &externalgrpc.NodeGroupNodesResponse{}
	for _, i := range e.instances {
		state := externalgrpc.InstanceStatus_InstanceState(externalgrpc.InstanceStatus_InstanceState_value["instance"+i.State])
		one := &externalgrpc.Instance{Id: i.ID, Status: &externalgrpc.InstanceStatus{InstanceState: state}}
		if i.Code != "" {
			one.Status.ErrorInfo = &externalgrpc.InstanceErrorInfo{ErrorCode: i.Code, InstanceErrorClass: i.Class}
		}
		all.Instances = append(all.Instances, one)
	}
	return all, err
}

func (s *stage) NodeGroupTemplateNodeInfo(_ context.Context, r *externalgrpc.NodeGroupTemplateNodeInfoRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupTemplateNodeInfoResponse, error) {
	if _, err := s.answer(heard{"NodeGroupTemplateNodeInfo", r.Id}); err != nil {
		return nil, err
	}
	size := sizeOf(r.Id)
	all := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(size.CPU), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(size.Memory), resource.BinarySI),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	text, err := (&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Id, Labels: map[string]string{"group": r.Id}}, Status: corev1.NodeStatus{Capacity: all, Allocatable: all}}).Marshal()
	return &externalgrpc.NodeGroupTemplateNodeInfoResponse{NodeBytes: text}, err
}

func (s *stage) NodeGroupGetOptions(_ context.Context, r *externalgrpc.NodeGroupAutoscalingOptionsRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupAutoscalingOptionsResponse, error) {
	_, err := s.answer(heard{"NodeGroupGetOptions", r.Id})
	return &externalgrpc.NodeGroupAutoscalingOptionsResponse{}, err
}

func (s *stage) GPULabel(context.Context, *externalgrpc.GPULabelRequest, ...grpc.CallOption) (*externalgrpc.GPULabelResponse, error) {
	_, err := s.answer(heard{"GPULabel", ""})
	return &externalgrpc.GPULabelResponse{}, err
}

func (s *stage) GetAvailableGPUTypes(context.Context, *externalgrpc.GetAvailableGPUTypesRequest, ...grpc.CallOption) (*externalgrpc.GetAvailableGPUTypesResponse, error) {
	_, err := s.answer(heard{"GetAvailableGPUTypes", ""})
	return &externalgrpc.GetAvailableGPUTypesResponse{}, err
}

func (s *stage) PricingNodePrice(_ context.Context, r *externalgrpc.PricingNodePriceRequest, _ ...grpc.CallOption) (*externalgrpc.PricingNodePriceResponse, error) {
	group := r.Node.Labels["group"]
	_, err := s.answer(heard{"PricingNodePrice", group})
	return &externalgrpc.PricingNodePriceResponse{Price: float64(sizeOf(group).CPU)}, err
}

func (s *stage) PricingPodPrice(context.Context, *externalgrpc.PricingPodPriceRequest, ...grpc.CallOption) (*externalgrpc.PricingPodPriceResponse, error) {
	_, err := s.answer(heard{"PricingPodPrice", ""})
	return &externalgrpc.PricingPodPriceResponse{Price: 1}, err
}

func (s *stage) NodeGroupIncreaseSize(_ context.Context, r *externalgrpc.NodeGroupIncreaseSizeRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupIncreaseSizeResponse, error) {
	_, err := s.answer(heard{"NodeGroupIncreaseSize", fmt.Sprintf("%s %+d", r.Id, r.Delta)})
	return &externalgrpc.NodeGroupIncreaseSizeResponse{}, err
}

func (s *stage) NodeGroupDecreaseTargetSize(_ context.Context, r *externalgrpc.NodeGroupDecreaseTargetSizeRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupDecreaseTargetSizeResponse, error) {
	_, err := s.answer(heard{"NodeGroupDecreaseTargetSize", fmt.Sprintf("%s %+d", r.Id, r.Delta)})
	return &externalgrpc.NodeGroupDecreaseTargetSizeResponse{}, err
}

func (s *stage) NodeGroupDeleteNodes(_ context.Context, r *externalgrpc.NodeGroupDeleteNodesRequest, _ ...grpc.CallOption) (*externalgrpc.NodeGroupDeleteNodesResponse, error) {
	var names []string
	for _, n := range r.Nodes {
		names = append(names, n.Name)
	}
	_, err := s.answer(heard{"NodeGroupDeleteNodes", strings.Join(names, ",")})
	return &externalgrpc.NodeGroupDeleteNodesResponse{}, err
}

func (s *stage) Cleanup(context.Context, *externalgrpc.CleanupRequest, ...grpc.CallOption) (*externalgrpc.CleanupResponse, error) {
	_, err := s.answer(heard{"Cleanup", ""})
	return &externalgrpc.CleanupResponse{}, err
}
