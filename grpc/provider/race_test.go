package provider

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
)

// Calls that come all at once take no room twice, and none of them sees more machines than there
// may be.
func TestCallsAtOnceKeepWithinThePool(t *testing.T) {
	s, p := made(t, func(c *Config) { c.Now = time.Now })
	groups := []string{groupOf(t, s, "workers.small"), groupOf(t, s, "workers.large")}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var callers sync.WaitGroup
	again := func(do func(group string)) {
		for _, g := range groups {
			callers.Go(func() {
				for ctx.Err() == nil {
					do(g)
				}
			})
		}
	}
	again(func(g string) {
		_, _ = s.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: g, Delta: 2})
	})
	again(func(g string) {
		_, _ = s.NodeGroupDecreaseTargetSize(ctx, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: g, Delta: -1})
	})
	again(func(g string) {
		answer, err := s.NodeGroupNodes(ctx, &externalgrpc.NodeGroupNodesRequest{Id: g})
		if err != nil || len(answer.Instances) == 0 {
			return
		}
		_, _ = s.NodeGroupDeleteNodes(ctx, &externalgrpc.NodeGroupDeleteNodesRequest{Id: g, Nodes: []*externalgrpc.ExternalGrpcNode{fake(answer.Instances[0].Id)}})
		p.sweep()
	})
	again(func(string) {
		_, _ = s.Refresh(ctx, &externalgrpc.RefreshRequest{})
		_, _ = s.NodeGroups(ctx, &externalgrpc.NodeGroupsRequest{})
		state, _ := p.List(ctx)
		alive := 0
		for _, m := range state.Machines {
			if m.Phase != nodescaler.Deleting {
				alive++
			}
		}
		if alive > 5 {
			t.Errorf("%d machines of at most 5", alive)
		}
		p.mu.Lock()
		p.room = 100
		p.mu.Unlock()
	})
	callers.Wait()
}
