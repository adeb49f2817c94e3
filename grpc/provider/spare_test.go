package provider

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// To cluster-autoscaler a spare would be a node that is lost, or one to delete: it does not see
// any, and can do nothing to one.
func TestSpareIsNoInstanceOfAnyGroup(t *testing.T) {
	s, p := made(t, nil)
	small := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, small, 3))
	p.set(nodescaler.Joined, func(*nodescaler.Machine) {})
	_, most := s.memory.look(t.Context()).limits(s.memory.look(t.Context()).byID[small])
	spare, making := &p.machines[0], &p.machines[1]
	spare.Phase = nodescaler.Spare
	making.Keep = true
	s.memory.renew(t.Context())
	if got := instances(t, s, small); len(got) != 1 || got[0].Id != p.machines[2].ProviderID {
		t.Errorf("instances %v, want the third machine alone", got)
	}
	if got := target(t, s, small); got != 1 {
		t.Errorf("target %d, want 1", got)
	}
	v := s.memory.look(t.Context())
	if _, now := v.limits(v.byID[small]); now != most-2 {
		t.Errorf("the group may have %d machines, want %d: two are taken by spares", now, most-2)
	}
	node := &externalgrpc.ExternalGrpcNode{ProviderID: spare.ProviderID, Name: spare.Name}
	if answer, err := s.NodeGroupForNode(t.Context(), &externalgrpc.NodeGroupForNodeRequest{Node: node}); err != nil || answer.NodeGroup.Id != "" {
		t.Errorf("its node is of the group %v, %v", answer, err)
	}
	if got := status.Code(remove(t, s, small, spare.ProviderID)); got != codes.NotFound || len(p.machines) != 3 {
		t.Errorf("deleting it: %s, and %d machines are left", got, len(p.machines))
	}
	spare.Phase, spare.Woken = nodescaler.Booting, time.Now()
	s.memory.renew(t.Context())
	if got := instances(t, s, small); len(got) != 2 {
		t.Errorf("woken it is no instance: %v", got)
	}
}
