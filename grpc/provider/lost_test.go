package provider

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// An id that was listed and lost goes as ids of machines do: it is Deleting and then not there. The
// machine goes on under its next id, and neither the target nor any other machine changes.
func TestLostIDGoesAndItsMachineStays(t *testing.T) {
	s, p := made(t, nil)
	small, edge := groupOf(t, s, "workers.small"), groupOf(t, s, "edge.small")
	must.Do(t, increase(t, s, small, 1))
	lost := p.machines[0].ProviderID
	p.set(nodescaler.Ordered, func(m *nodescaler.Machine) { m.ProviderID, m.LostIDs = "proxmox://lab/2000", []string{lost} })
	states := map[string]externalgrpc.InstanceStatus_InstanceState{}
	for _, i := range instances(t, s, small) {
		states[i.Id] = i.Status.InstanceState
	}
	if len(states) != 2 || states[lost] != externalgrpc.InstanceStatus_instanceDeleting || states["proxmox://lab/2000"] != externalgrpc.InstanceStatus_instanceCreating {
		t.Errorf("instances %v", states)
	}
	if got := target(t, s, small); got != 1 {
		t.Errorf("target %d, want 1", got)
	}
	if err := remove(t, s, small, lost); err != nil {
		t.Errorf("deleting what goes anyway: %v", err)
	}
	if got := status.Code(remove(t, s, edge, lost)); got != codes.NotFound {
		t.Errorf("deleting it from another group: %s, want NotFound", got)
	}
	if p.machines[0].Phase != nodescaler.Ordered || len(p.machines) != 1 {
		t.Errorf("the machine is %v", p.machines)
	}
	for _, c := range []struct {
		name string
		node *externalgrpc.ExternalGrpcNode
		want string
	}{
		{"the placeholder", fake(lost), small},
		{"a stranger's node that has the id", &externalgrpc.ExternalGrpcNode{ProviderID: lost, Name: "stranger"}, ""},
	} {
		answer, err := s.NodeGroupForNode(t.Context(), &externalgrpc.NodeGroupForNodeRequest{Node: c.node})
		if err != nil || answer.NodeGroup.Id != c.want {
			t.Errorf("%s: %v, %v, want %q", c.name, answer, err, c.want)
		}
	}
}

func TestLostIDThatAnotherMachineHasIsThatMachines(t *testing.T) {
	s, p := made(t, nil)
	small := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, small, 2))
	p.machines[0].LostIDs = []string{p.machines[1].ProviderID}
	s.memory.renew(t.Context())
	if got := instances(t, s, small); len(got) != 2 {
		t.Errorf("instances %v, want the two machines", got)
	}
	if err := remove(t, s, small, p.machines[1].ProviderID); err != nil || len(p.machines) != 1 {
		t.Errorf("%v, %d machines left, want 1", err, len(p.machines))
	}
}
