package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// traps are what other providers have fallen into, in order. Where a scenario is about the same,
// the trap's own danger is tested.
var traps = []struct {
	name  string
	holds func(*testing.T)
}{
	{"options that are answered in part count as zero for the rest", optionsTrap},
	{"old clients fall over a duration that is not set", nilDurations},
	{"a machine that has not registered has no labels and no name but its id", idsAlone},
	{"a target without the machines on their way has them ordered again", targetCountsAll},
	{"a decrease deletes a machine", decreaseDeletesNone},
	{"a delta of the wrong sign is taken for the other call", wrongSigns},
	{"a deletion that is repeated lowers the target again", targetFallsOnce},
	{"a call that waits for Proxmox VE runs into its deadline", nothingWaits},
	{"a group's id changes between two calls", groupIDsStay},
	{"an error beside a machine that runs is not seen", errorsAreOfCreating},
	{"a failed machine is deleted for ever", failedVanish},
	{"an empty id stands for all", emptyIsNotAll},
	{"a template without bytes takes cluster-autoscaler down", templatesHaveBytes},
	{"a price by a node's name is none for a template", pricesByLabels},
	{"static pods are forgotten", reservedIsTaken},
	{"one host that is down stops all scaling", oneHostDown},
	{"a list that cannot be read is empty", unreadIsNotEmpty},
	{"cleaning up destroys", cleanupInTheMiddle},
	{"nodes are left to cluster-autoscaler, which deletes none", nodesAreRemoved},
	{"only the new fields are set", oldFieldsToo},
	{"a restart forgets the target", targetOutlives},
	{"one batch is spread over groups", batchOfOneGroup},
	{"generated code falls over reflection", reflectionWorks},
}

func TestTraps(t *testing.T) {
	for i, trap := range traps {
		t.Run(fmt.Sprintf("%02d %s", i+1, trap.name), trap.holds)
	}
}

// stages are the moments of a machine's life on the cluster, each when it has come.
var stages = []struct {
	name string
	come func(w *world) bool
}{
	{"ordered", func(*world) bool { return true }},
	{"being cloned", func(w *world) bool { return len(w.vms()) > 0 }},
	{"booting", func(w *world) bool { return running(w) > 0 }},
	{"a node", func(w *world) bool { return len(w.kube.joined()) > 0 }},
}

// live lets a machine live from its order to its node, and calls at every round.
func (w *world) live(group string, at func(stage string)) {
	w.t.Helper()
	w.mustIncrease(group, 1)
	begun := w.sim.Now()
	for i := 0; i < len(stages); {
		if w.sim.Now().Sub(begun) > 10*time.Minute {
			w.t.Fatalf("never %s\n%s", stages[i].name, w.story())
		}
		at(stages[max(0, i-1)].name)
		for i < len(stages) && stages[i].come(w) {
			i++
		}
		w.round()
	}
	w.until("it runs", time.Minute, func() bool { return w.all(group, "Running", 1) })
	at("a node")
}

// round is one round of the fleet's work, and the time until the next.
func (w *world) round() {
	_ = w.fleet.Tick(context.Background())
	w.sim.Advance(max(step, w.fleet.Pause()))
}

func optionsTrap(t *testing.T) {
	w := begin(t, plan{change: optionsOf})
	// A release whose core has a start time which its messages do not carry would take it for zero.
	if got := w.options(w.group("small"), clients["1.35 to 1.37"]); got != nil {
		t.Errorf("it is told %v", got)
	}
	// One that carries it gets it back.
	with := proto.Clone(clients["1.35 to 1.37"]).(*externalgrpc.NodeGroupAutoscalingOptions)
	with.MaxNodeStartupDuration = durationpb.New(9 * time.Minute)
	got := w.options(w.group("small"), with)
	if got.GetMaxNodeStartupDuration().AsDuration() != 9*time.Minute || got.GetScaleDownUnneededDuration().AsDuration() != 3*time.Minute ||
		got.GetScaleDownUnreadyDuration().AsDuration() != 20*time.Minute || got.GetScaleDownUtilizationThreshold() != .5 {
		t.Errorf("one that sends a start time is told %v", got)
	}
}

func nilDurations(t *testing.T) {
	w := begin(t, plan{change: optionsOf})
	for release, defaults := range clients {
		got := w.options(w.group("small"), defaults)
		if got == nil {
			continue // and the client takes its own
		}
		for _, name := range []protoreflect.Name{"scaleDownUnneededTime", "scaleDownUnreadyTime", "MaxNodeProvisionTime", "scaleDownUnneededDuration", "scaleDownUnreadyDuration", "MaxNodeProvisionDuration"} {
			field := got.ProtoReflect().Descriptor().Fields().ByName(name)
			if field == nil {
				t.Fatalf("the contract has no %s", name)
			}
			if !got.ProtoReflect().Has(field) {
				t.Errorf("%s: %s is not set", release, name)
			}
		}
	}
}

func idsAlone(t *testing.T) {
	for _, pool := range []string{"small", "big"} {
		w := begin(t, plan{})
		group := w.group(pool)
		seen := map[string]bool{}
		check := func(stage string) {
			seen[stage] = true
			for id, state := range w.states(group) {
				if got := w.groupOf(placeholder(id)); got != group {
					t.Errorf("%s %s (%s) is in %q", stage, id, state, got)
				}
			}
		}
		w.live(group, check)
		must.Do(t, w.delete(group, placeholder(w.ids(group)[0])))
		w.waitFor(5*time.Minute, func() bool { check("going"); return w.all(group, "Running", 0) })
		if len(seen) != len(stages)+1 {
			t.Errorf("%s was seen in %v only", pool, slices.Sorted(maps.Keys(seen)))
		}
	}
}

func targetCountsAll(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.live(small, func(stage string) {
		if got := w.target(small); got != 1 || len(w.instances(small)) != 1 {
			t.Errorf("%s: target %d, instances %v, want 1", stage, got, w.instances(small))
		}
	})
}

func decreaseDeletesNone(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	begun := false
	w.live(small, func(stage string) {
		begun = begun || w.door.writes() > 0
		if !begun {
			return
		}
		want(t, stage, w.decrease(small, -1), codes.FailedPrecondition)
		if got := w.target(small); got != 1 {
			t.Errorf("%s: target %d, want 1", stage, got)
		}
	})
	if got := running(w); got != 1 || !begun {
		t.Errorf("%d machines run, want 1", got)
	}
	// Nor one that failed, or that is going.
	w.destroy(w.vms()[0].ID)
	w.until("it is seen to be gone", time.Minute, func() bool { return w.all(small, "Creating", 1) })
	want(t, "one that failed", w.decrease(small, -1), codes.FailedPrecondition)
	must.Do(t, w.delete(small, placeholder(w.ids(small)[0])))
	want(t, "one that is going", w.decrease(small, -1), codes.FailedPrecondition)
}

func wrongSigns(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	w.unchanged("a delta of the wrong sign", func() {
		for _, by := range []int32{1, 2, 1<<31 - 1} {
			want(t, fmt.Sprint("an increase by ", -by), w.increase(small, -by), codes.InvalidArgument, fmt.Sprint(-by))
			want(t, fmt.Sprint("a decrease by ", by), w.decrease(small, by), codes.InvalidArgument, fmt.Sprint(by))
		}
		want(t, "the least increase", w.increase(small, -1<<31), codes.InvalidArgument)
		want(t, "the least decrease", w.decrease(small, -1<<31), codes.FailedPrecondition)
		w.run(10 * time.Second)
	})
}

func targetFallsOnce(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 4)
	ids := w.ids(small)
	var many sync.WaitGroup
	for range 8 { // and at the same moment
		many.Go(func() {
			if err := w.delete(small, placeholder(ids[0]), placeholder(ids[0]), placeholder(ids[1])); err != nil {
				t.Errorf("at once: %v", err)
			}
		})
	}
	many.Wait()
	for range 20 {
		if err := w.delete(small, placeholder(ids[1]), placeholder(ids[0])); err != nil {
			t.Errorf("again: %v", err)
		}
		if got := w.target(small); got != 2 {
			t.Fatalf("target %d, want 2", got)
		}
		w.round()
	}
	if got := len(w.vms()); got != 2 {
		t.Errorf("%d machines, want 2", got)
	}
}

func nothingWaits(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	node := w.ids(small)[0]
	w.door.close()
	wait := w.work()
	// Each of them is done while nothing is answered: what waited for an answer would never come
	// back.
	w.mustIncrease(small, 2)
	if err := w.decrease(small, -1); err != nil {
		t.Error(err)
	}
	if err := w.delete(small, placeholder(node)); err != nil {
		t.Error(err)
	}
	if got := w.target(small); got != 2 {
		t.Errorf("target %d, want 2", got)
	}
	w.door.open()
	wait()
	w.gone(small, 2)
	if got := w.vmNames(); len(got) != 2 || slices.Contains(got, w.nameOf(node)) {
		t.Errorf("the machines are %v", got)
	}
}

func groupIDsStay(t *testing.T) {
	w := begin(t, plan{})
	ids := func() (all []string) {
		for _, g := range w.groups() {
			all = append(all, g.Id)
		}
		return all
	}
	before := ids()
	same := func(stage string) {
		t.Helper()
		if diff := cmp.Diff(before, ids()); diff != "" {
			t.Errorf("%s: -before +now:\n%s", stage, diff)
		}
	}
	w.live(w.group("small"), same)
	must.Do(t, w.refresh())
	same("after a refresh")
	w.pool("big").Max, w.pool("big").MaxFailures = 9, 9 // nothing that a node shows
	w.reshape()
	w.start()
	same("after a restart, while nothing has been seen")
	w.run(time.Second)
	same("after a restart")
}

func errorsAreOfCreating(t *testing.T) {
	for name, c := range failures {
		w := begin(t, plan{change: impatient})
		small := w.group("small")
		c(w, small)
		for _, i := range w.instances(small) {
			if i.State != "Creating" || i.Code == "" || i.Text == "" || i.Class != 1 && i.Class != 99 {
				t.Errorf("%s: %+v", name, i)
			}
		}
		if len(w.instances(small)) != 1 {
			t.Errorf("%s: %v, want one", name, w.instances(small))
		}
	}
}

// failures let a machine of a group fail, each in its way.
var failures = map[string]func(w *world, group string){
	"the clone fails": func(w *world, group string) {
		w.inject("fail clone")
		w.mustIncrease(group, 1)
		w.failed(group)
	},
	"the storage is full": func(w *world, group string) {
		w.inject(`fail clone text="clone failed: no space left on device"`)
		w.mustIncrease(group, 1)
		w.failed(group)
	},
	"it does not start": func(w *world, group string) {
		w.inject("fail start")
		w.mustIncrease(group, 1)
		w.failed(group)
	},
	"its boot hangs": func(w *world, group string) {
		w.inject("fail boot")
		w.mustIncrease(group, 1)
		w.failed(group)
	},
	"it boots and never joins": func(w *world, group string) {
		w.kube.deaf = func(string) bool { return true }
		w.mustIncrease(group, 1)
		w.failed(group)
	},
	"somebody destroys it on its way": func(w *world, group string) {
		w.mustIncrease(group, 1)
		w.until("it boots", time.Minute, func() bool { return running(w) == 1 })
		w.destroy(w.vms()[0].ID)
		w.failed(group)
	},
	"somebody destroys it when it has joined": func(w *world, group string) {
		w.joined(group, 1)
		w.destroy(w.vms()[0].ID)
		w.failed(group)
	},
}

// impatient lets machines that do not join fail soon.
func impatient(w *world) {
	for i := range w.site.Pools {
		w.site.Pools[i].JoinTimeout = 2 * 60 * 1e9
	}
}

func (w *world) failed(group string) {
	w.t.Helper()
	w.until("it has failed", 30*time.Minute, func() bool { all := w.instances(group); return len(all) == 1 && all[0].Code != "" })
}

func failedVanish(t *testing.T) {
	for name, c := range failures {
		w := begin(t, plan{change: impatient})
		small := w.group("small")
		c(w, small)
		w.sim.Heal()
		deletions := 0
		vanished := w.waitFor(10*time.Minute, func() bool {
			for _, i := range w.instances(small) { // as cluster-autoscaler does in every loop
				deletions++
				if err := w.delete(small, placeholder(i.ID)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			return len(w.instances(small)) == 0
		})
		w.run(time.Minute)
		if !vanished || w.target(small) != 0 || len(w.vms()) != 0 || len(w.discs()) != 0 || len(w.kube.joined()) != 0 {
			t.Errorf("%s: after %d deletions there are %v, machines %v, discs %v and nodes %v", name, deletions, w.instances(small), w.vmNames(), w.discs(), w.kube.joined())
		}
	}
}

func emptyIsNotAll(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	w.unchanged("an empty id", func() {
		ctx := t.Context()
		_, err := w.NodeGroupTargetSize(ctx, &externalgrpc.NodeGroupTargetSizeRequest{})
		want(t, "target", err, codes.InvalidArgument, "id")
		_, err = w.NodeGroupNodes(ctx, &externalgrpc.NodeGroupNodesRequest{})
		want(t, "nodes", err, codes.InvalidArgument, "id")
		_, err = w.NodeGroupTemplateNodeInfo(ctx, &externalgrpc.NodeGroupTemplateNodeInfoRequest{})
		want(t, "template", err, codes.InvalidArgument, "id")
		_, err = w.NodeGroupGetOptions(ctx, &externalgrpc.NodeGroupAutoscalingOptionsRequest{})
		want(t, "options", err, codes.InvalidArgument, "id")
		want(t, "increase", w.increase("", 1), codes.InvalidArgument, "id")
		want(t, "decrease", w.decrease("", -1), codes.InvalidArgument, "id")
		want(t, "delete", w.delete("", placeholder(w.ids(small)[0])), codes.InvalidArgument, "id")
		want(t, "delete nobody", w.delete(small, placeholder("")), codes.InvalidArgument, "nodes[0]")
		if err := w.delete(small); err != nil {
			t.Errorf("a deletion of no node: %v", err)
		}
		if got := w.groupOf(&externalgrpc.ExternalGrpcNode{}); got != "" {
			t.Errorf("nobody is in %q", got)
		}
		w.run(20 * time.Second)
	})
}

func templatesHaveBytes(t *testing.T) {
	w := begin(t, plan{})
	w.joined(w.group("small"), 1)
	w.pool("small").Shapes[0].CPU *= 2 // and a group of a shape that is gone
	w.reshape()
	w.start()
	every := func(when string) {
		t.Helper()
		for _, g := range w.groups() {
			if cpu := w.template(g.Id).Status.Capacity.Cpu(); cpu.IsZero() {
				t.Errorf("%s: %s has no processors", when, g.Id)
			}
		}
	}
	every("before anything is seen")
	w.run(time.Second)
	// Groups come with it only.
	must.Get(w.Refresh(t.Context(), &externalgrpc.RefreshRequest{}))(t)
	if got := len(w.groups()); got != 3 {
		t.Errorf("%d groups, want 3", got)
	}
	every("when all is seen")
	_, err := w.NodeGroupTemplateNodeInfo(t.Context(), &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: "nope"})
	want(t, "a group that is not ours", err, codes.NotFound, "nope")
}

func pricesByLabels(t *testing.T) {
	w := begin(t, plan{})
	from, to := hour(w)
	price := func(name string, labels map[string]string) float64 {
		answer := must.Get(w.PricingNodePrice(t.Context(), &externalgrpc.PricingNodePriceRequest{
			Node: &externalgrpc.ExternalGrpcNode{Name: name, Labels: labels}, StartTimestamp: from, EndTimestamp: to,
		}))(t)
		return answer.Price
	}
	small, big := w.template(w.group("small")).Labels, w.template(w.group("big")).Labels
	cheap := price("template-node-for-small-1", small)
	for _, name := range []string{"", "template-node-for-big-2", "big-mjuoht5o-0", w.group("big")} {
		if got := price(name, small); got != cheap {
			t.Errorf("a small node called %q costs %g, not %g", name, got, cheap)
		}
	}
	if dear := price("template-node-for-small-1", big); dear <= cheap {
		t.Errorf("a big node costs %g, a small one %g", dear, cheap)
	}
}

func reservedIsTaken(t *testing.T) {
	w := begin(t, plan{})
	for _, pool := range []string{"small", "big"} {
		n := w.template(w.group(pool))
		reserved := w.pool(pool).Reserved
		cpu := n.Status.Capacity.Cpu().MilliValue() - n.Status.Allocatable.Cpu().MilliValue()
		memory := n.Status.Capacity.Memory().Value() - n.Status.Allocatable.Memory().Value()
		if (pricing.Resources{CPU: pricing.MilliCPU(cpu), Memory: pricing.Bytes(memory)}) != reserved || cpu == 0 || memory == 0 {
			t.Errorf("%s: %dm and %d bytes are kept, want %v", pool, cpu, memory, reserved)
		}
	}
}

func oneHostDown(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 3) // one on each host
	before := w.states(small)
	w.inject("host pve3 down")
	for range 10 {
		w.run(30 * time.Second)
		if err := w.refresh(); err != nil {
			t.Fatalf("refresh: %v", err)
		}
		if diff := cmp.Diff(before, w.states(small)); diff != "" {
			t.Fatalf("-before +while a host is down:\n%s", diff)
		}
	}
	w.mustIncrease(small, 1)
	w.until("one more has joined on a host that is there", 5*time.Minute, func() bool { return w.all(small, "Running", 4) })
	if err := w.server.Healthy(t.Context()); err != nil {
		t.Errorf("the provider is not well: %v", err)
	}
}

func unreadIsNotEmpty(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	before := w.states(small)
	for name, fault := range map[string]string{
		"the right to see machines is taken": "revoke VM.Audit",
		"the token has expired":              "expire token plimsoll@pve!fleet",
		"there is no quorum":                 "no quorum",
		"lists are answered with an error":   "answer 500 GET /cluster/resources",
	} {
		w.inject(fault)
		for range 12 {
			w.run(20 * time.Second)
			if diff := cmp.Diff(before, w.states(small)); diff != "" || w.target(small) != 2 {
				t.Fatalf("%s: target %d; -before +now:\n%s", name, w.target(small), diff)
			}
		}
		w.sim.Heal()
		w.until("it is well again", 10*time.Minute, func() bool { return w.server.Healthy(t.Context()) == nil })
	}
	// A process that has seen nothing yet says so.
	w.inject("host pve1 down", "host pve2 down", "host pve3 down")
	w.start()
	w.round()
	_, err := w.NodeGroupNodes(t.Context(), &externalgrpc.NodeGroupNodesRequest{Id: small})
	want(t, "nodes", err, codes.Unavailable)
	_, err = w.NodeGroupTargetSize(t.Context(), &externalgrpc.NodeGroupTargetSizeRequest{Id: small})
	want(t, "target", err, codes.Unavailable)
	_, err = w.NodeGroupForNode(t.Context(), &externalgrpc.NodeGroupForNodeRequest{Node: placeholder("proxmox://lab/1004")})
	want(t, "group of a node", err, codes.Unavailable)
	if err := w.refresh(); err != nil {
		t.Errorf("refresh: %v", err)
	}
}

func cleanupInTheMiddle(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	must.Do(t, w.delete(small, placeholder(w.ids(small)[0])))
	w.mustIncrease(small, 2)
	w.run(5 * time.Second)
	w.unchanged("cleaning up", func() {
		must.Get(w.Cleanup(t.Context(), &externalgrpc.CleanupRequest{}))(t)
	})
	w.gone(small, 3) // what was on its way comes, and what was going goes
	if got := len(w.vms()); got != 3 {
		t.Errorf("%d machines, want 3", got)
	}
}

func nodesAreRemoved(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	node := w.kube.joined()[0]
	must.Do(t, w.delete(small, node.asked()))
	w.until("its node is gone", 5*time.Minute, func() bool {
		if w.vmid(node.Name) != 0 && w.kube.node(node.Name) == nil {
			t.Error("its node goes before its machine has")
		}
		return w.kube.node(node.Name) == nil
	})
	if len(w.kube.joined()) != 1 {
		t.Errorf("the nodes are %v, want the other one", w.kube.joined())
	}
	// A name is never used again, for agents of RKE2 and k3s are refused under one that was.
	w.joined(small, 3)
	for name, times := range w.kube.ever {
		if times != 1 {
			t.Errorf("%s joined %d times", name, times)
		}
	}
}

func oldFieldsToo(t *testing.T) {
	w := begin(t, plan{change: optionsOf})
	small := w.group("small")
	template := must.Get(w.NodeGroupTemplateNodeInfo(t.Context(), &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: small}))(t)
	if got := fields(t, template); !bytes.Equal(got[1], got[2]) || len(got[1]) == 0 {
		t.Errorf("an old client finds %d bytes of a node in field 1, a new one %d in field 2", len(got[1]), len(got[2]))
	}
	options := must.Get(w.NodeGroupGetOptions(t.Context(), &externalgrpc.NodeGroupAutoscalingOptionsRequest{Id: small, Defaults: clients["1.29 to 1.34"]}))(t)
	inner := fields(t, options)[1]
	var got externalgrpc.NodeGroupAutoscalingOptions
	must.Do(t, proto.Unmarshal(inner, &got))
	for old, recent := range map[protowire.Number]protowire.Number{3: 8, 4: 9, 5: 10} {
		if all := fields(t, &got); len(all[old]) == 0 || len(all[recent]) == 0 {
			t.Errorf("of the durations %d and %d, an old client finds %d bytes and a new one %d", old, recent, len(all[old]), len(all[recent]))
		}
	}
}

// fields are the length-delimited fields of a message as it was on the wire.
func fields(t *testing.T, m proto.Message) map[protowire.Number][]byte {
	t.Helper()
	text := must.Get(proto.Marshal(m))(t)
	all := map[protowire.Number][]byte{}
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeTag(text)
		size := protowire.ConsumeFieldValue(number, kind, text[n:])
		if n < 0 || size < 0 {
			t.Fatalf("%v is no message", m)
		}
		if kind == protowire.BytesType {
			all[number], _ = protowire.ConsumeBytes(text[n:])
		}
		text = text[n+size:]
	}
	return all
}

func targetOutlives(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.joined(small, 2)
	w.mustIncrease(small, 2) // and nothing was done for these
	must.Do(t, w.delete(small, placeholder(w.ids(small)[0])))
	target, states := w.target(small), w.states(small)
	w.start()
	w.round()
	if diff := cmp.Diff(states, w.states(small)); diff != "" || w.target(small) != target {
		t.Errorf("target %d, was %d; -before the restart +after:\n%s", w.target(small), target, diff)
	}
	w.gone(small, 3)
	if diff := cmp.Diff(w.namesOf(w.ids(small)...), w.vmNames()); diff != "" {
		t.Errorf("-listed +there:\n%s", diff)
	}
}

func batchOfOneGroup(t *testing.T) {
	w := begin(t, plan{})
	small, big := w.group("small"), w.group("big")
	w.joined(small, 1)
	w.joined(big, 1)
	ours, theirs := placeholder(w.ids(small)[0]), placeholder(w.ids(big)[0])
	w.unchanged("a batch across groups", func() {
		for _, group := range []string{small, big} {
			want(t, "one way", w.delete(group, ours, theirs), codes.InvalidArgument, "must be of the group")
			want(t, "the other", w.delete(group, theirs, ours), codes.InvalidArgument, "must be of the group")
		}
		w.run(20 * time.Second)
	})
}

func reflectionWorks(t *testing.T) {
	w := begin(t, plan{})
	conn := w.dial(t, provider.Listening{}, insecure.NewCredentials())
	stream := must.Get(reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context()))(t)
	const service = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
	for _, ask := range []*reflectionpb.ServerReflectionRequest{
		{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}},
		{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}},
	} {
		must.Do(t, stream.Send(ask))
		answer, err := stream.Recv()
		if err != nil || answer.GetErrorResponse() != nil || !strings.Contains(answer.String(), "CloudProvider") {
			t.Errorf("%v: %v, %v", ask, answer, err)
		}
	}
	// Messages that carry Kubernetes' own types as bytes can be walked through.
	w.joined(w.group("small"), 1)
	template := must.Get(w.NodeGroupTemplateNodeInfo(t.Context(), &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: w.group("small")}))(t)
	seen := 0
	template.ProtoReflect().Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool { seen++; return true })
	if seen != 2 {
		t.Errorf("%d fields of the template, want 2", seen)
	}
	var node corev1.Node
	must.Do(t, node.Unmarshal(template.NodeBytes))
}

// An id of a VMID that was lost to a stranger goes as ids do, and the machine goes on under its
// next one: the target stays, the group is not backed off, and the stranger's machine is its
// owner's.
func TestLostIDGoesAndItsMachineJoins(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.inject("steal id nth=1")
	w.mustIncrease(small, 1)
	lost := w.ids(small)[0]
	w.until("its VMID is lost", time.Minute, func() bool { return len(w.events.of(pvecode.VMIDTaken)) > 0 })
	states := w.states(small)
	if len(states) != 2 || states[lost] != "Deleting" || w.target(small) != 1 {
		t.Fatalf("target %d, instances %v", w.target(small), states)
	}
	if err := w.delete(small, placeholder(lost)); err != nil {
		t.Errorf("deleting what goes already: %v", err)
	}
	if got := w.groupOf(&externalgrpc.ExternalGrpcNode{ProviderID: lost, Name: "strangers-node"}); got != "" {
		t.Errorf("a node of the stranger's machine is in %q", got)
	}
	w.start()
	w.round()
	if diff := cmp.Diff(states, w.states(small)); diff != "" {
		t.Errorf("-before a restart +after:\n%s", diff)
	}
	w.until("it has joined", 5*time.Minute, func() bool { return w.all(small, "Running", 1) })
	if _, still := w.states(small)[lost]; still {
		t.Errorf("the lost id runs: %v", w.instances(small))
	}
	if n := w.kube.joined(); len(n) != 1 || n[0].ProviderID != w.ids(small)[0] {
		t.Errorf("instances %v, nodes %v", w.instances(small), n)
	}
	if !slices.ContainsFunc(w.vmNames(), func(name string) bool { return strings.HasPrefix(name, "foreign-") }) {
		t.Errorf("the stranger's machine is gone: %v", w.vmNames())
	}
}

// A storage that is full for a while makes the group one that cluster-autoscaler backs off from,
// and no more: when there is room again, machines are made without anybody's help.
func TestFullStoragePassesByItself(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.inject("full storage local-lvm")
	w.mustIncrease(small, 4)
	w.until("all have failed", 10*time.Minute, func() bool {
		return !slices.ContainsFunc(w.instances(small), func(i instance) bool { return i.Code != "NoRoom" })
	})
	var nodes []*externalgrpc.ExternalGrpcNode
	for _, id := range w.ids(small) {
		nodes = append(nodes, placeholder(id))
	}
	must.Do(t, w.delete(small, nodes...))
	w.gone(small, 0)
	want(t, "at once", w.increase(small, 1), codes.ResourceExhausted, pvecode.PoolBackingOff)
	w.sim.Heal()
	w.run(30 * time.Minute)
	w.joined(small, 2)
}

// Where something else in the cluster sets the ids of nodes, a machine goes by what its node
// carries: by the id that was planned it would never register, and be deleted while it works.
func TestMachineGoesByTheIDOfItsNode(t *testing.T) {
	w := begin(t, plan{})
	small := w.group("small")
	w.kube.idOf = func(name string) string { return "rke2://" + name }
	w.joined(small, 2)
	var nodes []string
	for _, n := range w.kube.joined() {
		nodes = append(nodes, n.ProviderID)
		if got := w.groupOf(n.asked()); got != small {
			t.Errorf("node %s is in %q", n.Name, got)
		}
	}
	slices.Sort(nodes)
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(nodes, w.ids(small)); diff != "" || !w.all(small, "Running", 2) {
			t.Errorf("%s: -ids of the nodes +ids of the instances:\n%s", when, diff)
		}
	}
	same("when they have joined")
	if got := len(w.events.of(pvecode.IDMismatch)); got != 2 {
		t.Errorf("it was told %d times, want once for each", got)
	}
	w.start()
	w.round()
	same("after a restart")
	must.Do(t, w.delete(small, placeholder(nodes[0])))
	w.gone(small, 1)
}

// An increase that cannot be had whole is refused, and nothing of it is left on order.
func TestIncreaseIsWholeOrNothing(t *testing.T) {
	w := begin(t, plan{change: func(w *world) { w.pool("small").Placement.MaxPerHost = 1 }})
	small := w.group("small")
	want(t, "four for three hosts", w.increase(small, 4), codes.ResourceExhausted, "order 4 of 4", placement.CodeHostAtLimit)
	w.run(time.Minute)
	if w.target(small) != 0 || len(w.instances(small)) != 0 || len(w.vms()) != 0 {
		t.Errorf("target %d, instances %v, machines %v are left", w.target(small), w.instances(small), w.vmNames())
	}
	w.joined(small, 3)
}

// While a machine goes its group's target is below its size, and cluster-autoscaler takes that for
// room. An order that is refused then has the group backed off for minutes; it waits for its place
// instead.
func TestTheRoomOfAMachineThatGoesCanBeHad(t *testing.T) {
	w := begin(t, plan{change: func(w *world) { w.pool("small").Max = 2; w.reshape() }})
	small := w.group("small")
	w.joined(small, 2)
	must.Do(t, w.delete(small, placeholder(w.ids(small)[0])))
	if got := w.target(small); got != 1 {
		t.Fatalf("target %d, want 1", got)
	}
	want(t, "two in place of one", w.increase(small, 2), codes.OutOfRange)
	w.mustIncrease(small, 1)
	w.until("there are two nodes again", time.Hour, func() bool {
		if len(w.vms()) > 2 {
			t.Fatalf("there are %v, and may be 2", w.vmNames())
		}
		return w.target(small) == 2 && w.all(small, "Running", 2)
	})
}
