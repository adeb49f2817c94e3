package upstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// scenarios are the acceptance scenarios of the contract, in order; the numbers are those that they
// are agreed by. What lies between them is tested where it belongs: the crash scenarios in
// crash_test.go, those of Proxmox VE's faults beside the fleet.
var scenarios = []struct {
	number int
	name   string
	holds  func(*testing.T)
}{
	{1, "a machine that has not registered is found and removed by its id alone", removedByID},
	{2, "a control plane's node is nobody's, from memory", controlPlaneNode},
	{3, "options are OK and unset for every release", optionsUnset},
	{4, "options that are asked for have every duration of both generations", optionsWhole},
	{5, "an old client and a new one decode the same template and prices", generationsAgree},
	{6, "an increase shows its machines at once, with the ids that they will have", increaseShows},
	{7, "an increase past the maximum, or by nothing, changes nothing", increaseRefused},
	{8, "a decrease takes back what has not begun and nothing else", decreaseTakesBack},
	{9, "a decrease that is none is refused", decreaseNotNegative},
	{10, "deleting the same node again is OK and lowers the target once", deletedOnce},
	{11, "a batch with a stranger or another group's node deletes nothing", batchRefused},
	{12, "deleting below the minimum is refused", minimumKept},
	{13, "a clone that failed is Creating with its error until it is deleted", failedClone},
	{14, "while Proxmox VE hangs every call is answered from what was seen last", hangs},
	{15, "while Proxmox VE is down nothing is lost and nothing is ordered", down},
	{16, "cleaning up touches nothing", cleanup},
	{17, "the template of an empty group is the node that will join", templateIsTheNode},
	{18, "a template node and a real one of a pool cost the same, and pods in the same unit", pricesAgree},
	{19, "only clients with our certificate are served, and certificates rotate", mutualTLS},
	{20, "a new shape is a new group", reshaped},
	{23, "an increase that is repeated is capped, and the surplus goes", repeatedIncrease},
}

func TestContract(t *testing.T) {
	last := 0
	for _, s := range scenarios {
		if s.number <= last {
			t.Errorf("scenario %d comes after %d", s.number, last)
		}
		last = s.number
		t.Run(fmt.Sprintf("%02d %s", s.number, s.name), s.holds)
	}
}

func removedByID(t *testing.T) {
	for name, when := range map[string]func(w *world, group string) bool{
		"before its clone begins": func(*world, string) bool { return true },
		"while it is cloned":      func(w *world, _ string) bool { return len(w.vms()) == 3 },
		"while it boots":          func(w *world, _ string) bool { return running(w) == 3 },
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, plan{})
			small, big := w.group("small"), w.group("big")
			w.mustIncrease(small, 2)
			w.mustIncrease(big, 1)
			ids := w.ids(small)
			w.until(name, time.Minute, func() bool { return when(w, small) })
			one := placeholder(ids[0])
			if got := w.groupOf(one); got != small {
				t.Errorf("it is in %q, want %q", got, small)
			}
			stay := w.namesOf(ids[1], w.ids(big)[0])
			must.Do(t, w.delete(small, one))
			if got := w.target(small); got != 1 {
				t.Errorf("target %d, want 1", got)
			}
			w.gone(small, 1)
			w.gone(big, 1)
			if diff := cmp.Diff(stay, w.vmNames()); diff != "" {
				t.Errorf("-what stays +what is there:\n%s", diff)
			}
		})
	}
}

// running is how many machines run.
func running(w *world) (n int) {
	for _, v := range w.vms() {
		if v.State == "running" {
			n++
		}
	}
	return n
}

func controlPlaneNode(t *testing.T) {
	w := begin(t, plan{})
	w.door.close() // from now on the cluster answers no call
	calls := len(w.sim.Calls())
	for _, n := range []*externalgrpc.ExternalGrpcNode{
		{Name: "cp-1", ProviderID: "rke2://cp-1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": "true"}},
		{Name: "cp-2", ProviderID: "proxmox://lab/101"},
		{Name: "cp-3"},
	} {
		if got := w.groupOf(n); got != "" {
			t.Errorf("%s is in %q", n.Name, got)
		}
	}
	if got := len(w.sim.Calls()); got != calls {
		t.Errorf("%d calls were made for it", got-calls)
	}
}

// clients are the defaults that releases of cluster-autoscaler send along.
var clients = map[string]*externalgrpc.NodeGroupAutoscalingOptions{
	"1.25 to 1.28": {
		ScaleDownUtilizationThreshold: .5, ScaleDownGpuUtilizationThreshold: .5,
		ScaleDownUnneededTime: &externalgrpc.Nanoseconds{Duration: int64(10 * time.Minute)},
		ScaleDownUnreadyTime:  &externalgrpc.Nanoseconds{Duration: int64(20 * time.Minute)},
	},
	"1.29 to 1.34": {
		ScaleDownUtilizationThreshold: .5, ScaleDownGpuUtilizationThreshold: .5,
		ScaleDownUnneededTime: &externalgrpc.Nanoseconds{Duration: int64(10 * time.Minute)},
		ScaleDownUnreadyTime:  &externalgrpc.Nanoseconds{Duration: int64(20 * time.Minute)},
		MaxNodeProvisionTime:  &externalgrpc.Nanoseconds{Duration: int64(15 * time.Minute)},
	},
	"1.35 to 1.37": {
		ScaleDownUtilizationThreshold: .5, ScaleDownGpuUtilizationThreshold: .5,
		ScaleDownUnneededDuration: durationpb.New(10 * time.Minute), ScaleDownUnreadyDuration: durationpb.New(20 * time.Minute),
		MaxNodeProvisionDuration: durationpb.New(15 * time.Minute),
	},
	"none": nil,
}

func (w *world) options(group string, defaults *externalgrpc.NodeGroupAutoscalingOptions) *externalgrpc.NodeGroupAutoscalingOptions {
	w.t.Helper()
	answer := must.Get(w.NodeGroupGetOptions(w.t.Context(), &externalgrpc.NodeGroupAutoscalingOptionsRequest{Id: group, Defaults: defaults}))(w.t)
	return answer.NodeGroupAutoscalingOptions
}

func optionsUnset(t *testing.T) {
	w := begin(t, plan{})
	for _, g := range w.groups() {
		for release, defaults := range clients {
			if got := w.options(g.Id, defaults); got != nil {
				t.Errorf("%s is told of %s: %v", release, g.Id, got)
			}
		}
	}
}

// optionsOf gives the first pool options of its own.
func optionsOf(w *world) {
	unneeded := nodescaler.Duration(3 * time.Minute)
	w.provider.Pools[0].Options = &provider.Options{ScaleDownUnneededTime: &unneeded}
}

func optionsWhole(t *testing.T) {
	w := begin(t, plan{change: optionsOf})
	// The first releases have no field for the time that a node may take, and would take it for
	// zero.
	if got := w.options(w.group("small"), clients["1.25 to 1.28"]); got != nil {
		t.Errorf("1.25 to 1.28 is told %v", got)
	}
	const release = "1.29 to 1.34"
	got := w.options(w.group("small"), clients[release])
	if got == nil {
		t.Fatalf("%s is told nothing", release)
	}
	for field, pair := range map[string][2]time.Duration{
		"unneeded":  {time.Duration(got.ScaleDownUnneededTime.GetDuration()), got.ScaleDownUnneededDuration.AsDuration()},
		"unready":   {time.Duration(got.ScaleDownUnreadyTime.GetDuration()), got.ScaleDownUnreadyDuration.AsDuration()},
		"provision": {time.Duration(got.MaxNodeProvisionTime.GetDuration()), got.MaxNodeProvisionDuration.AsDuration()},
	} {
		want := map[string]time.Duration{"unneeded": 3 * time.Minute, "unready": 20 * time.Minute, "provision": 15 * time.Minute}[field]
		if pair != [2]time.Duration{want, want} {
			t.Errorf("%s: %s is %v, want %s in both generations", release, field, pair, want)
		}
	}
	if got.ScaleDownUtilizationThreshold != .5 || got.ScaleDownGpuUtilizationThreshold != .5 {
		t.Errorf("%s: what is not asked for is not as it was: %v", release, got)
	}
	if got := w.options(w.group("big"), clients["1.29 to 1.34"]); got != nil {
		t.Errorf("the pool without options has %v", got)
	}
}

// hour is a stretch of time in both generations.
func hour(w *world) (from, to *timestamppb.Timestamp) {
	return timestamppb.New(w.sim.Now()), timestamppb.New(w.sim.Now().Add(time.Hour))
}

func (w *world) template(group string) *corev1.Node {
	w.t.Helper()
	answer := must.Get(w.NodeGroupTemplateNodeInfo(w.t.Context(), &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: group}))(w.t)
	var old, recent corev1.Node
	must.Do(w.t, errors.Join(old.Unmarshal(answer.NodeInfo), recent.Unmarshal(answer.NodeBytes)))
	if diff := cmp.Diff(old, recent); diff != "" || len(answer.NodeBytes) == 0 {
		w.t.Errorf("%d bytes; -old +new:\n%s", len(answer.NodeBytes), diff)
	}
	return &recent
}

func podOf(cpu, memory string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}}}}}
}

func generationsAgree(t *testing.T) {
	w := begin(t, plan{})
	w.template(w.group("small"))
	from, to := hour(w)
	node := &externalgrpc.ExternalGrpcNode{Name: "template-node-for-x-1", Labels: w.template(w.group("small")).Labels}
	old := must.Get(w.PricingNodePrice(t.Context(), &externalgrpc.PricingNodePriceRequest{Node: node, StartTime: from, EndTime: to}))(t)
	recent := must.Get(w.PricingNodePrice(t.Context(), &externalgrpc.PricingNodePriceRequest{Node: node, StartTimestamp: from, EndTimestamp: to}))(t)
	if old.Price != recent.Price || old.Price <= 0 {
		t.Errorf("an old client pays %g for a node, a new one %g", old.Price, recent.Price)
	}
	pod := must.Get(podOf("1500m", "1Gi").Marshal())(t)
	oldPod := must.Get(w.PricingPodPrice(t.Context(), &externalgrpc.PricingPodPriceRequest{Pod: pod, StartTime: from, EndTime: to}))(t)
	newPod := must.Get(w.PricingPodPrice(t.Context(), &externalgrpc.PricingPodPriceRequest{PodBytes: pod, StartTimestamp: from, EndTimestamp: to}))(t)
	if oldPod.Price != newPod.Price || oldPod.Price <= 0 {
		t.Errorf("an old client pays %g for a pod, a new one %g", oldPod.Price, newPod.Price)
	}
}

func increaseShows(t *testing.T) {
	for _, pool := range []string{"small", "big"} { // ids of VMIDs, and of names
		t.Run(pool, func(t *testing.T) {
			w := begin(t, plan{})
			group := w.group(pool)
			w.door.close() // no answer can have waited for the cluster
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			must.Get(w.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group, Delta: 3}))(t)
			if got := w.target(group); got != 3 || !w.all(group, "Creating", 3) {
				t.Errorf("target %d, want 3; instances %v", got, w.instances(group))
			}
			ids := w.ids(group)
			w.door.open()
			w.until("all have joined", 5*time.Minute, func() bool { return w.all(group, "Running", 3) })
			var nodes []string
			for _, n := range w.kube.joined() {
				nodes = append(nodes, n.ProviderID)
			}
			slices.Sort(nodes)
			if diff := cmp.Diff(ids, nodes); diff != "" {
				t.Errorf("-ids that were shown +ids of the nodes:\n%s", diff)
			}
		})
	}
}

func increaseRefused(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	for by, code := range map[int32]codes.Code{4: codes.OutOfRange, 1<<31 - 1: codes.OutOfRange, 0: codes.InvalidArgument, -1: codes.InvalidArgument, -1 << 31: codes.InvalidArgument} {
		w.unchanged(fmt.Sprintf("an increase by %d", by), func() {
			want(t, fmt.Sprintf("by %d", by), w.increase(small, by), code, "delta", fmt.Sprint(by))
			w.run(10 * time.Second)
		})
	}
	if got := len(w.vms()); got != 2 {
		t.Errorf("%d machines, want 2", got)
	}
}

func decreaseTakesBack(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	registered := ""
	w.kube.deaf = func(name string) bool {
		if registered == "" {
			registered = name
		}
		return name != registered
	}
	w.mustIncrease(small, 3)
	w.until("one of three has registered", 5*time.Minute, func() bool { return running(w) == 3 && len(w.kube.joined()) == 1 })
	w.run(10 * time.Second)
	w.unchanged("a decrease below what is there", func() {
		want(t, "below what is there", w.decrease(small, -1), codes.FailedPrecondition, "delta", "-1")
	})
	w.mustIncrease(small, 1) // and nothing is done for it yet
	w.unchanged("a decrease by more than has not begun", func() {
		want(t, "by two", w.decrease(small, -2), codes.FailedPrecondition, "delta", "-2")
	})
	before := w.vmNames()
	if err := w.decrease(small, -1); err != nil {
		t.Fatalf("by the one that has not begun: %v", err)
	}
	if got := w.target(small); got != 3 {
		t.Errorf("target %d, want 3", got)
	}
	w.run(time.Minute)
	if diff := cmp.Diff(before, w.vmNames()); diff != "" || len(w.instances(small)) != 3 {
		t.Errorf("%d instances; machines: -before +after:\n%s", len(w.instances(small)), diff)
	}
}

func decreaseNotNegative(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.mustIncrease(small, 2)
	for _, by := range []int32{0, 1, 1<<31 - 1} {
		w.unchanged(fmt.Sprintf("a decrease by %d", by), func() {
			want(t, fmt.Sprintf("by %d", by), w.decrease(small, by), codes.InvalidArgument, "delta", fmt.Sprint(by))
		})
	}
}

func deletedOnce(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 3)
	node := w.kube.joined()[0]
	again := func(when string) {
		t.Helper()
		if err := w.delete(small, node.asked(), node.asked()); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if got := w.target(small); got != 2 {
			t.Errorf("%s: target %d, want 2", when, got)
		}
	}
	again("first")
	again("at once")
	w.waitFor(5*time.Minute, func() bool { again("while it goes"); return w.all(small, "Running", 2) })
	again("when it is gone")
	if diff := cmp.Diff(w.namesOf(w.ids(small)...), w.vmNames()); diff != "" || len(w.vms()) != 2 {
		t.Errorf("-listed +there:\n%s", diff)
	}
}

func batchRefused(t *testing.T) {
	database := pvesim.VM{ID: 500, Host: "pve1", Pool: "others", Running: true, Storage: "local-lvm", Disk: 8 * gib, Config: map[string]string{"name": "database"}}
	squatter := pvesim.VM{ID: 1050, Host: "pve2", Pool: "plimsoll", Running: true, Storage: "local-lvm", Disk: 8 * gib, Config: map[string]string{"name": "small-x"}}
	w := begin(t, plan{vms: []pvesim.VM{database, squatter}})
	small, big := w.group("small"), w.group("big")
	w.joined(small, 2)
	w.joined(big, 1)
	good := placeholder(w.ids(small)[0])
	for name, c := range map[string]struct {
		with *externalgrpc.ExternalGrpcNode
		code codes.Code
	}{
		"another group's":                 {placeholder(w.ids(big)[0]), codes.InvalidArgument},
		"nobody's":                        {&externalgrpc.ExternalGrpcNode{Name: "database", ProviderID: "proxmox://lab/500"}, codes.NotFound},
		"a stranger's in our range":       {&externalgrpc.ExternalGrpcNode{Name: "small-x", ProviderID: "proxmox://lab/1050"}, codes.NotFound},
		"one of our name, another's id":   {&externalgrpc.ExternalGrpcNode{Name: w.nameOf(w.ids(small)[1]), ProviderID: "proxmox://lab/500"}, codes.NotFound},
		"one without a name and an id":    {&externalgrpc.ExternalGrpcNode{}, codes.InvalidArgument},
		"a node that is not there at all": {nil, codes.InvalidArgument},
	} {
		w.unchanged(name, func() {
			if c.with != nil {
				want(t, name, w.delete(small, c.with), c.code, "nodes[0]")
				want(t, name+" after a good one", w.delete(small, good, c.with), c.code, "nodes[1]")
				want(t, name+" before a good one", w.delete(small, c.with, good), c.code, "nodes[0]")
			}
			w.run(20 * time.Second)
		})
	}
	if got := running(w); got != 5 {
		t.Errorf("%d machines run, want 3 of ours and 2 of others", got)
	}
}

func minimumKept(t *testing.T) {
	w := begin(t, plan{change: func(w *world) { w.pool("small").Min = 2; w.reshape() }})
	small := w.group("small")
	w.joined(small, 3)
	ids := w.ids(small)
	w.unchanged("a deletion below the minimum", func() {
		want(t, "two of three", w.delete(small, placeholder(ids[0]), placeholder(ids[1])), codes.FailedPrecondition, "must keep 2", "2 of 3")
		w.run(20 * time.Second)
	})
	if err := w.delete(small, placeholder(ids[0])); err != nil {
		t.Errorf("down to the minimum: %v", err)
	}
	w.gone(small, 2)
	w.unchanged("a deletion at the minimum", func() {
		want(t, "one of two", w.delete(small, placeholder(ids[1])), codes.FailedPrecondition)
	})
	// What will never be a node is no part of the minimum.
	w.destroy(w.vmid(w.nameOf(ids[1])))
	w.until("it is seen to be gone", time.Minute, func() bool { return w.states(small)[ids[1]] == "Creating" })
	if err := w.delete(small, placeholder(ids[1])); err != nil {
		t.Errorf("a machine that failed: %v", err)
	}
}

func failedClone(t *testing.T) {
	for name, c := range map[string]struct {
		fault string
		code  string
		class int32
	}{
		"for a full storage":      {`fail clone text="clone failed: no space left on device"`, "NoRoom", 1},
		"for any other reason":    {"fail clone", "MachineFailed", 99},
		"for lack of memory":      {`fail start log="kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory"`, "NoRoom", 1},
		"of a kind never met yet": {`fail start text="start failed: the moon is full"`, "MachineFailed", 99},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, plan{})
			small := w.group("small")
			w.inject(c.fault)
			w.mustIncrease(small, 1)
			id := w.ids(small)[0]
			w.until("it has failed", 30*time.Minute, func() bool { return w.instances(small)[0].Code != "" })
			got := w.instances(small)[0]
			if got.ID != id || got.State != "Creating" || got.Code != c.code || got.Class != c.class || got.Text == "" {
				t.Errorf("it is %+v, want %s of class %d", got, c.code, c.class)
			}
			if n := w.target(small); n != 1 {
				t.Errorf("target %d while it is there, want 1", n)
			}
			must.Do(t, w.delete(small, placeholder(id)))
			w.gone(small, 0)
			if w.target(small) != 0 || len(w.vms()) != 0 || len(w.discs()) != 0 {
				t.Errorf("target %d, machines %v and discs %v are left", w.target(small), w.vmNames(), w.discs())
			}
		})
	}
}

// work lets the fleet work while the test goes on, and returns what waits for the end of the round.
func (w *world) work() (wait func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.fleet.Tick(ctx)
	}()
	w.t.Cleanup(cancel)
	return func() { <-ended }
}

func hangs(t *testing.T) {
	w := begin(t, plan{})
	small, big := w.group("small"), w.group("big")
	w.joined(small, 2)
	w.mustIncrease(big, 2)
	w.run(5 * time.Second)
	before := map[string]any{"small": w.states(small), "big": w.states(big), "groups": fmt.Sprint(w.groups())}
	w.door.close()
	wait := w.work() // and does not come back
	for range 7 {
		w.sim.Advance(20 * time.Second)
		for _, call := range w.calls(small, w.ids(small)[0]) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := call.do(ctx)
			cancel()
			if err != nil {
				t.Errorf("%s: %v", call.name, err)
			}
		}
		now := map[string]any{"small": w.states(small), "big": w.states(big), "groups": fmt.Sprint(w.groups())}
		if diff := cmp.Diff(before, now); diff != "" {
			t.Fatalf("what is told changes while nothing can be seen: -before +now:\n%s", diff)
		}
	}
	w.door.open()
	wait()
	w.until("the machines that were on their way have joined", 5*time.Minute, func() bool { return w.all(big, "Running", 2) })
}

type namedCall struct {
	name string
	do   func(context.Context) error
}

// calls are one call of every kind that changes nothing.
func (w *world) calls(group, id string) []namedCall {
	from, to := hour(w)
	node := placeholder(id)
	node.Labels = w.template(group).Labels
	of := func(name string, do func(x context.Context) error) namedCall { return namedCall{name, do} }
	return []namedCall{
		of("NodeGroups", func(x context.Context) error {
			_, err := w.NodeGroups(x, &externalgrpc.NodeGroupsRequest{})
			return err
		}),
		of("NodeGroupForNode", func(x context.Context) error {
			_, err := w.NodeGroupForNode(x, &externalgrpc.NodeGroupForNodeRequest{Node: node})
			return err
		}),
		of("PricingNodePrice", func(x context.Context) error {
			_, err := w.PricingNodePrice(x, &externalgrpc.PricingNodePriceRequest{Node: node, StartTimestamp: from, EndTimestamp: to})
			return err
		}),
		of("PricingPodPrice", func(x context.Context) error {
			_, err := w.PricingPodPrice(x, &externalgrpc.PricingPodPriceRequest{StartTimestamp: from, EndTimestamp: to})
			return err
		}),
		of("GPULabel", func(x context.Context) error { _, err := w.GPULabel(x, &externalgrpc.GPULabelRequest{}); return err }),
		of("GetAvailableGPUTypes", func(x context.Context) error {
			_, err := w.GetAvailableGPUTypes(x, &externalgrpc.GetAvailableGPUTypesRequest{})
			return err
		}),
		of("Cleanup", func(x context.Context) error { _, err := w.Cleanup(x, &externalgrpc.CleanupRequest{}); return err }),
		of("Refresh", func(x context.Context) error { _, err := w.Refresh(x, &externalgrpc.RefreshRequest{}); return err }),
		of("NodeGroupTargetSize", func(x context.Context) error {
			_, err := w.NodeGroupTargetSize(x, &externalgrpc.NodeGroupTargetSizeRequest{Id: group})
			return err
		}),
		of("NodeGroupNodes", func(x context.Context) error {
			_, err := w.NodeGroupNodes(x, &externalgrpc.NodeGroupNodesRequest{Id: group})
			return err
		}),
		of("NodeGroupTemplateNodeInfo", func(x context.Context) error {
			_, err := w.NodeGroupTemplateNodeInfo(x, &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: group})
			return err
		}),
		of("NodeGroupGetOptions", func(x context.Context) error {
			_, err := w.NodeGroupGetOptions(x, &externalgrpc.NodeGroupAutoscalingOptionsRequest{Id: group})
			return err
		}),
		// The three that change something are refused, and that must come as soon.
		of("NodeGroupIncreaseSize", func(x context.Context) error {
			_, err := w.NodeGroupIncreaseSize(x, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group, Delta: 100})
			return refused(err)
		}),
		of("NodeGroupDecreaseTargetSize", func(x context.Context) error {
			_, err := w.NodeGroupDecreaseTargetSize(x, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: group, Delta: -100})
			return refused(err)
		}),
		of("NodeGroupDeleteNodes", func(x context.Context) error {
			_, err := w.NodeGroupDeleteNodes(x, &externalgrpc.NodeGroupDeleteNodesRequest{Id: group, Nodes: []*externalgrpc.ExternalGrpcNode{placeholder("nobody")}})
			return refused(err)
		}),
	}
}

// refused is an error unless a call was refused for what it asked, or because nothing is changed
// now.
func refused(err error) error {
	if slices.Contains([]codes.Code{codes.OutOfRange, codes.FailedPrecondition, codes.NotFound, codes.Unavailable}, status.Code(err)) {
		return nil
	}
	return fmt.Errorf("it is not refused: %w", err)
}

func down(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	ids, groups := w.states(small), fmt.Sprint(w.groups())
	w.inject("host pve1 down", "host pve2 down", "host pve3 down")
	for range 10 {
		w.run(30 * time.Second)
		if err := w.refresh(); err != nil {
			t.Fatalf("refresh: %v", err)
		}
		if diff := cmp.Diff(ids, w.states(small)); diff != "" || fmt.Sprint(w.groups()) != groups || w.target(small) != 2 {
			t.Fatalf("target %d, groups %v; instances: -before +now:\n%s", w.target(small), w.groups(), diff)
		}
		err := w.increase(small, 1)
		if code := status.Code(err); code != codes.Unavailable && code != codes.ResourceExhausted || !strings.Contains(err.Error(), "/cluster/status") {
			t.Fatalf("increase: %v, want a refusal that says what is not answered", err)
		}
	}
	if err := w.server.Healthy(t.Context()); err == nil {
		t.Error("the provider says that it is well")
	}
	if got, gauge := w.health(t); got != healthpb.HealthCheckResponse_NOT_SERVING || gauge != 0 {
		t.Errorf("health is %s, the metric %g", got, gauge)
	}
	w.sim.Heal()
	w.until("it is well again", 10*time.Minute, func() bool { return w.server.Healthy(t.Context()) == nil })
	if got, gauge := w.health(t); got != healthpb.HealthCheckResponse_SERVING || gauge != 1 {
		t.Errorf("when it is well again, health is %s, the metric %g", got, gauge)
	}
}

// health is what the health service and the metric of another server of the same provider say.
func (w *world) health(t *testing.T) (state healthpb.HealthCheckResponse_ServingStatus, gauge float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	conn := w.dial(t, provider.Listening{Metrics: registry}, insecure.NewCredentials())
	answer := must.Get(healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: externalgrpc.CloudProvider_ServiceDesc.ServiceName}))(t)
	families := must.Get(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == "plimsoll_provider_machines_seen" {
			return answer.Status, f.Metric[0].Gauge.GetValue()
		}
	}
	t.Fatal("no metric says whether the provider is healthy")
	return
}

// dial serves the provider once more, and connects to it.
func (w *world) dial(t *testing.T, how provider.Listening, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	address := w.serve(t, how)
	conn := must.Get(grpc.NewClient(address, grpc.WithTransportCredentials(creds)))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (w *world) serve(t *testing.T, how provider.Listening) (address string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.server.Serve(ctx, l, how) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func cleanup(t *testing.T) {
	w := begin(t, plan{})
	w.joined(w.group("small"), 2)
	w.joined(w.group("big"), 1)
	w.run(time.Minute)
	w.unchanged("cleaning up", func() {
		must.Get(w.Cleanup(t.Context(), &externalgrpc.CleanupRequest{}))(t)
		w.run(10 * time.Minute)
	})
}

func templateIsTheNode(t *testing.T) {
	w := begin(t, plan{change: func(w *world) {
		p := w.pool("small")
		p.Labels, p.Taints = map[string]string{"tier": "web"}, []settings.Taint{{Key: "batch", Value: "yes", Effect: "NoSchedule"}}
		p.Join.Labels = map[string]string{"team": "blue"}
		w.reshape()
	}})
	small := w.group("small")
	n := w.template(small)
	got := map[string]string{}
	for name, q := range n.Status.Capacity {
		got["capacity "+string(name)] = q.String()
	}
	for name, q := range n.Status.Allocatable {
		got["allocatable "+string(name)] = q.String()
	}
	for _, c := range n.Status.Conditions {
		got["condition "+string(c.Type)] = string(c.Status)
	}
	expected := map[string]string{
		"capacity cpu": "2", "capacity memory": "4Gi", "capacity pods": "110", "capacity ephemeral-storage": "20Gi",
		"allocatable cpu": "1700m", "allocatable memory": "3328Mi", "allocatable pods": "110", "allocatable ephemeral-storage": "17340930444",
		"condition Ready": "True",
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.joined(small, 1)
	node := w.kube.joined()[0]
	for _, key := range []string{"topology.kubernetes.io/zone", "kubernetes.io/hostname"} {
		delete(node.labels, key) // no two nodes of a group need have the same
	}
	if diff := cmp.Diff(node.labels, n.Labels); diff != "" {
		t.Errorf("labels: -of the node +of the template:\n%s", diff)
	}
	var taints []string
	for _, taint := range n.Spec.Taints {
		taints = append(taints, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
	}
	if diff := cmp.Diff(node.taints, taints); diff != "" {
		t.Errorf("taints: -of the node +of the template:\n%s", diff)
	}
}

func pricesAgree(t *testing.T) {
	w := begin(t, plan{})
	from, to := hour(w)
	price := func(n *externalgrpc.ExternalGrpcNode) (float64, error) {
		answer, err := w.PricingNodePrice(t.Context(), &externalgrpc.PricingNodePriceRequest{Node: n, StartTimestamp: from, EndTimestamp: to})
		return answer.GetPrice(), err
	}
	book := pricing.DefaultBook()
	for pool, shape := range map[string]pricing.Shape{"small": smallShape, "big": bigShape} {
		w.joined(w.group(pool), 1)
		real := w.kube.node(w.nameOf(w.ids(w.group(pool))[0]))
		template := must.Get(price(&externalgrpc.ExternalGrpcNode{Name: "template-node-for-" + pool + "-8639181", Labels: w.template(w.group(pool)).Labels}))(t)
		other := must.Get(price(real.asked()))(t)
		unregistered := must.Get(price(placeholder(real.ProviderID)))(t)
		rate := float64(book.Rate(shape, "", w.sim.Now())) / 1e9
		if template != other || template != unregistered || template < rate*(1-1e-9) || template > rate*(1+1e-9) {
			t.Errorf("%s: an hour costs %g by its template, %g by a node, %g by a placeholder; the book says %g", pool, template, other, unregistered, rate)
		}
		pod := must.Get(podOf(shape.CPU.Cores(), fmt.Sprint(int64(shape.Memory))).Marshal())(t)
		if answer, err := w.PricingPodPrice(t.Context(), &externalgrpc.PricingPodPriceRequest{PodBytes: pod, StartTimestamp: from, EndTimestamp: to}); err != nil || answer.Price != template {
			t.Errorf("%s: a pod that takes all of it costs %g, %v, the node %g", pool, answer.GetPrice(), err, template)
		}
	}
	for name, n := range map[string]*externalgrpc.ExternalGrpcNode{
		"an unknown pool":  {Name: "x", Labels: map[string]string{provider.PoolLabel: "nope", provider.ShapeLabel: "small"}},
		"an unknown shape": {Name: "x", Labels: map[string]string{provider.PoolLabel: "small", provider.ShapeLabel: "huge"}},
		"no labels":        {Name: "cp-1", ProviderID: "rke2://cp-1"},
	} {
		got, err := price(n)
		want(t, name, err, codes.NotFound, provider.PoolLabel)
		if got != 0 {
			t.Errorf("%s costs %g", name, got)
		}
	}
}

func mutualTLS(t *testing.T) {
	w := begin(t, plan{})
	made := func() *provider.Certificates {
		return must.Get(provider.SelfMade([]string{"127.0.0.1"}, time.Now(), time.Hour))(t)
	}
	first, second := made(), made()
	var force atomic.Pointer[provider.Certificates] // what lies on disk
	force.Store(first)
	address := w.serve(t, provider.Listening{TLS: &provider.TLS{
		Certificate: func() ([]byte, error) { return force.Load().Server, nil },
		Key:         func() ([]byte, error) { return force.Load().ServerKey, nil },
		ClientCA:    func() ([]byte, error) { return force.Load().CA, nil },
		Clients:     []string{provider.SelfMadeClient},
	}})
	ask := func(creds credentials.TransportCredentials) error {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_, err = externalgrpc.NewCloudProviderClient(conn).NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{})
		return err
	}
	if err := ask(certified(t, first, first)); err != nil {
		t.Errorf("our own client: %v", err)
	}
	for name, creds := range map[string]credentials.TransportCredentials{
		"no certificate": certified(t, first, nil), "another authority's": certified(t, first, second), "plain text": insecure.NewCredentials(),
	} {
		if err := ask(creds); err == nil {
			t.Errorf("%s: is served", name)
		}
	}
	force.Store(second)
	if err := ask(certified(t, second, second)); err != nil {
		t.Errorf("after the rotation, a client of the new certificates: %v", err)
	}
	if err := ask(certified(t, first, first)); err == nil {
		t.Error("after the rotation, a client of the old certificates is served")
	}
}

// certified is how cluster-autoscaler connects that trusts the authority of one set and has the
// certificate of another, or none.
func certified(t *testing.T, trusts, has *provider.Certificates) credentials.TransportCredentials {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusts.CA)
	cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if has != nil {
		pair := must.Get(tls.X509KeyPair(has.Client, has.ClientKey))(t)
		cfg.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(cfg)
}

func reshaped(t *testing.T) {
	w := begin(t, plan{})
	small, big := w.group("small"), w.group("big")
	w.joined(big, 1)
	for _, pool := range []string{"small", "big"} { // one empty, one not
		w.pool(pool).Shapes[0].CPU *= 2
	}
	w.reshape()
	w.start()
	w.run(time.Second)
	if now := w.group("small"); now == small {
		t.Errorf("the group is still %s", now)
	}
	if slices.ContainsFunc(w.groups(), func(g *externalgrpc.NodeGroup) bool { return g.Id == small }) {
		t.Errorf("the empty group of the old shape is still there: %v", w.groups())
	}
	if cpu := w.template(w.group("small")).Status.Capacity.Cpu(); cpu.Value() != 4 {
		t.Errorf("the template has %s processors, want 4", cpu)
	}
	w.joined(w.group("small"), 1)
	if got := w.vms(); !slices.ContainsFunc(got, func(v pvesim.VMState) bool {
		return strings.HasPrefix(v.Config["name"], "small-") && v.Config["cores"] == "4"
	}) {
		t.Errorf("no machine has the new shape: %v", got)
	}
	// The machine of the old shape is in a group of its own, which only shrinks.
	node := w.kube.joined()[0]
	old := w.groupOf(node.asked())
	if old == w.group("big") || old == "" || w.target(old) != 1 {
		t.Fatalf("the machine of the old shape is in %q", old)
	}
	want(t, "more of the old shape", w.increase(old, 1), codes.OutOfRange)
	if cpu := w.template(old).Status.Capacity.Cpu(); cpu.Value() != 8 {
		t.Errorf("the old group's template has %s processors, want 8", cpu)
	}
	must.Do(t, w.delete(old, node.asked()))
	w.until("it is gone", 5*time.Minute, func() bool { return w.vmid(node.Name) == 0 })
	_ = big
}

func repeatedIncrease(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	within := func(when string) {
		t.Helper()
		if w.target(small) > 5 || len(w.vms()) > 5 {
			t.Errorf("%s: target %d, %d machines, of at most 5", when, w.target(small), len(w.vms()))
		}
	}
	w.mustIncrease(small, 3)
	w.run(4 * time.Second)
	// Cluster-autoscaler starts anew, takes nothing for upcoming that it has not asked for itself,
	// and asks again.
	want(t, "the same again", w.increase(small, 3), codes.OutOfRange, "no more than 5")
	w.mustIncrease(small, 2) // as many as the error leaves room for
	within("after the repetition")
	want(t, "and again", w.increase(small, 1), codes.OutOfRange)
	w.waitFor(5*time.Minute, func() bool { within("on the way"); return w.all(small, "Running", 5) })
	surplus := w.ids(small)[:2]
	must.Do(t, w.delete(small, placeholder(surplus[0]), placeholder(surplus[1])))
	w.gone(small, 3)
	if got := len(w.vms()); got != 3 || w.target(small) != 3 {
		t.Errorf("%d machines, target %d, want 3", got, w.target(small))
	}
}
