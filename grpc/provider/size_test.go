package provider

import (
	"fmt"
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestIncreaseShowsItsMachinesAtOnce(t *testing.T) {
	s, _ := made(t, nil)
	id := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, id, 3))
	if got := target(t, s, id); got != 3 {
		t.Errorf("target %d, want 3", got)
	}
	ids := map[string]bool{}
	for _, i := range instances(t, s, id) {
		ids[i.Id] = true
		if i.Status.InstanceState != externalgrpc.InstanceStatus_instanceCreating || i.Status.ErrorInfo != nil {
			t.Errorf("%s is %v", i.Id, i.Status)
		}
	}
	if len(ids) != 3 {
		t.Errorf("ids %v, want 3", ids)
	}
}

func TestRefusedSizesChangeNothing(t *testing.T) {
	s, p := made(t, nil)
	small, edge := groupOf(t, s, "workers.small"), groupOf(t, s, "edge.small")
	must.Do(t, increase(t, s, edge, 2))
	theirs := instances(t, s, edge)
	shrink := func(id string, by int32) error {
		_, err := s.NodeGroupDecreaseTargetSize(t.Context(), &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: id, Delta: by})
		return err
	}
	p.set(nodescaler.Joined, nil)
	before := fmt.Sprint(p.machines)
	for _, c := range []struct {
		name string
		do   func() error
		want codes.Code
	}{
		{"unknown group", func() error { return increase(t, s, "nope", 1) }, codes.NotFound},
		{"empty group", func() error { return increase(t, s, "", 1) }, codes.InvalidArgument},
		{"nothing more", func() error { return increase(t, s, small, 0) }, codes.InvalidArgument},
		{"fewer", func() error { return increase(t, s, small, -1) }, codes.InvalidArgument},
		{"least number", func() error { return increase(t, s, small, math.MinInt32) }, codes.InvalidArgument},
		{"beyond the maximum", func() error { return increase(t, s, small, 6) }, codes.OutOfRange},
		{"greatest number", func() error { return increase(t, s, small, math.MaxInt32) }, codes.OutOfRange},
		{"a decrease that grows", func() error { return shrink(edge, 1) }, codes.InvalidArgument},
		{"a decrease by nothing", func() error { return shrink(edge, 0) }, codes.InvalidArgument},
		{"a decrease below what is there", func() error { return shrink(edge, -1) }, codes.FailedPrecondition},
		{"the least decrease", func() error { return shrink(edge, math.MinInt32) }, codes.FailedPrecondition},
		{"a node of nobody's", func() error { return remove(t, s, edge, "proxmox://lab/999") }, codes.NotFound},
		{"a node without a name", func() error { return remove(t, s, edge, "") }, codes.InvalidArgument},
		{"a good node and a stranger", func() error { return remove(t, s, edge, theirs[0].Id, "proxmox://lab/999") }, codes.NotFound},
		{"another group's node", func() error { return remove(t, s, small, theirs[0].Id) }, codes.InvalidArgument},
		{"below the minimum", func() error { return remove(t, s, edge, theirs[0].Id, theirs[1].Id) }, codes.FailedPrecondition},
	} {
		if got := status.Code(c.do()); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if after := fmt.Sprint(p.machines); after != before {
			t.Fatalf("%s changed the machines:\n%s\n%s", c.name, before, after)
		}
	}
}

// A machine that failed is no capacity, in no group of the pool.
func TestFailedMachinesDoNotCountForTheMinimum(t *testing.T) {
	for what, of := range map[string]string{"of its group": "edge.small", "of another group": "edge.large"} {
		all := pools()
		all[1].Shapes = append(all[1].Shapes, large)
		s, p := made(t, func(c *Config) { c.Pools = all })
		id, other := groupOf(t, s, "edge.small"), groupOf(t, s, of)
		must.Do(t, increase(t, s, id, 1))
		must.Do(t, increase(t, s, other, 1))
		p.set(nodescaler.Joined, nil)
		p.machines[1].Phase = nodescaler.Failed
		if got := status.Code(remove(t, s, id, p.machines[0].ProviderID)); got != codes.FailedPrecondition {
			t.Errorf("the last sound one beside a failed one %s: %s, want FailedPrecondition", what, got)
		}
		must.Do(t, remove(t, s, other, p.machines[1].ProviderID))
	}
}

func TestOrderThatIsRefusedHalfwayIsTakenBack(t *testing.T) {
	s, p := made(t, nil)
	p.room = 2
	if got := status.Code(increase(t, s, groupOf(t, s, "workers.small"), 3)); got != codes.ResourceExhausted {
		t.Errorf("%s, want ResourceExhausted", got)
	}
	if len(p.machines) != 0 {
		t.Errorf("%d machines are left of it", len(p.machines))
	}
}

// An outage that began after the last look backs no group off: it passes.
func TestOrderThatMeetsAnOutageIsUnavailable(t *testing.T) {
	s, p := made(t, nil)
	p.unseen = true
	if got := status.Code(increase(t, s, groupOf(t, s, "workers.small"), 3)); got != codes.Unavailable {
		t.Errorf("%s, want Unavailable", got)
	}
	if len(p.machines) != 0 {
		t.Errorf("%d machines are left of it", len(p.machines))
	}
}

func TestShapesOfAPoolShareItsMaximum(t *testing.T) {
	s, _ := made(t, nil)
	must.Do(t, increase(t, s, groupOf(t, s, "workers.small"), 4))
	if got := status.Code(increase(t, s, groupOf(t, s, "workers.large"), 2)); got != codes.OutOfRange {
		t.Errorf("a sixth machine of 5: %s, want OutOfRange", got)
	}
}

func TestDeletingTwiceLowersTheTargetOnce(t *testing.T) {
	s, p := made(t, nil)
	id := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, id, 3))
	p.set(nodescaler.Joined, nil)
	one := instances(t, s, id)[1].Id
	for range 3 {
		must.Do(t, remove(t, s, id, one, one))
	}
	p.sweep()
	s.memory.renew(t.Context())
	if err := remove(t, s, id, one); err != nil {
		t.Errorf("when it is gone: %v", err)
	}
	if got := target(t, s, id); got != 2 {
		t.Errorf("target %d, want 2", got)
	}
	stranger := &externalgrpc.NodeGroupDeleteNodesRequest{Id: id, Nodes: []*externalgrpc.ExternalGrpcNode{{ProviderID: one, Name: "stranger"}}}
	if _, err := s.NodeGroupDeleteNodes(t.Context(), stranger); status.Code(err) != codes.NotFound {
		t.Errorf("a stranger's node with the id of one that is gone: %v, want NotFound", err)
	}
}

func TestFailedMachineIsCreatingWithItsErrorUntilItIsDeleted(t *testing.T) {
	s, p := made(t, nil)
	id := groupOf(t, s, "edge.small")
	must.Do(t, increase(t, s, id, 1))
	for _, c := range []struct {
		noRoom bool
		class  int32
	}{{true, 1}, {false, 99}} {
		p.set(nodescaler.Failed, func(m *nodescaler.Machine) { m.Problem, m.NoRoom = "storage local is full", c.noRoom })
		i := instances(t, s, id)[0]
		e := i.Status.GetErrorInfo()
		if i.Status.InstanceState != externalgrpc.InstanceStatus_instanceCreating || e.GetErrorCode() == "" || e.GetInstanceErrorClass() != c.class {
			t.Errorf("no room %t: %v", c.noRoom, i)
		}
	}
	// It is the group's last, and goes all the same: it was never capacity.
	if err := remove(t, s, id, instances(t, s, id)[0].Id); err != nil {
		t.Error(err)
	}
	p.sweep()
	if left := instances(t, s, id); len(left) != 0 {
		t.Errorf("it is still there: %v", left)
	}
}

func TestUnreadableMachinesFreezeSizesAndKeepLists(t *testing.T) {
	s, p := made(t, nil)
	id := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, id, 2))
	instances(t, s, id)
	p.down = errDown
	if got := len(instances(t, s, id)); got != 2 {
		t.Errorf("%d instances, want the last 2", got)
	}
	if got := status.Code(increase(t, s, id, 1)); got != codes.Unavailable {
		t.Errorf("increase: %s, want Unavailable", got)
	}
	if _, err := s.Refresh(t.Context(), &externalgrpc.RefreshRequest{}); err != nil {
		t.Errorf("refresh: %v", err)
	}
	if s.Healthy(t.Context()) == nil {
		t.Error("healthy")
	}
}

func TestMachinesNeverSeenAreNotAnEmptyList(t *testing.T) {
	s, p := made(t, nil)
	p.down = errDown
	id := groupOf(t, s, "workers.small") // groups are known from the configuration
	if _, err := s.NodeGroupNodes(t.Context(), &externalgrpc.NodeGroupNodesRequest{Id: id}); status.Code(err) != codes.Unavailable {
		t.Errorf("nodes: %v, want Unavailable", err)
	}
	if _, err := s.NodeGroupTargetSize(t.Context(), &externalgrpc.NodeGroupTargetSizeRequest{Id: id}); status.Code(err) != codes.Unavailable {
		t.Errorf("target: %v, want Unavailable", err)
	}
}

func TestMachinesOfAShapeThatIsGoneOnlyShrink(t *testing.T) {
	s, p := made(t, nil)
	must.Do(t, increase(t, s, groupOf(t, s, "edge.small"), 2))
	p.set(nodescaler.Joined, nil)
	reshaped := pools()
	reshaped[1].Shapes[0].CPU = 4000
	after := must.Get(New(Config{Pools: reshaped, Machines: p, Prices: s.cfg.Prices, Now: s.cfg.Now}))(t)
	old := groupOf(t, after, "edge.small.retired")
	if got := status.Code(increase(t, after, old, 1)); got != codes.OutOfRange {
		t.Errorf("increase: %s, want OutOfRange", got)
	}
	if err := remove(t, after, old, instances(t, after, old)[0].Id); err != nil {
		t.Error(err)
	}
	if before, now := groupOf(t, s, "edge.small."), groupOf(t, after, "edge.small."); before == now {
		t.Errorf("the group is still %s", now)
	}
}

// After any calls, a group's target is the number of its instances that are not going, no pool
// grows beyond its maximum, and nothing that is refused changes anything.
func TestTargetsAndInstancesAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, p := made(t, nil)
		groups := []string{groupOf(t, s, "workers.small"), groupOf(t, s, "workers.large"), groupOf(t, s, "edge.small")}
		p.room = rapid.IntRange(0, 12).Draw(rt, "room")
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			id := rapid.SampledFrom(groups).Draw(rt, "group")
			by := rapid.Int32Range(-3, 4).Draw(rt, "by")
			before := fmt.Sprint(p.machines)
			var err error
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				err = increase(t, s, id, by)
			case 1:
				_, err = s.NodeGroupDecreaseTargetSize(t.Context(), &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: id, Delta: by})
			case 2:
				var ids []string
				for _, i := range instances(t, s, rapid.SampledFrom(groups).Draw(rt, "whose")) {
					if rapid.Bool().Draw(rt, "take") {
						ids = append(ids, i.Id)
					}
				}
				err = remove(t, s, id, ids...)
			case 3:
				p.sweep()
			case 4:
				phase := rapid.SampledFrom([]nodescaler.Phase{nodescaler.Booting, nodescaler.Joined, nodescaler.Failed}).Draw(rt, "phase")
				for i := range p.machines {
					if p.machines[i].Phase != nodescaler.Deleting && rapid.Bool().Draw(rt, "moves") {
						p.machines[i].Phase, p.machines[i].Created = phase, p.machines[i].Since
					}
				}
			}
			if err != nil && fmt.Sprint(p.machines) != before {
				rt.Fatalf("%v, and the machines changed:\n%s\n%v", err, before, p.machines)
			}
			all := map[string]int{}
			for _, g := range groups {
				alive := 0
				s.memory.renew(t.Context())
				for _, i := range instances(t, s, g) {
					if i.Status.InstanceState != externalgrpc.InstanceStatus_instanceDeleting {
						alive++
					}
				}
				if got := int(target(t, s, g)); got != alive {
					rt.Fatalf("%s: target %d, instances %d", g, got, alive)
				}
				all[g[:4]] += alive
			}
			if all["work"] > 5 || all["edge"] > 3 {
				rt.Fatalf("beyond the maximum: %v", all)
			}
		}
	})
}
