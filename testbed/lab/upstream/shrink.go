package upstream

import (
	"context"
	"errors"
	"slices"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
)

// shrink asks by which options nodes are unneeded, and does what the plan says of nodes that are
// there. What cannot be done is logged, and found again by the next scan.
func (s *scan) shrink(ctx context.Context, plan *nodescaler.Plan) error {
	for _, g := range s.all {
		for range g.nodes {
			if err := s.options(ctx, g); err != nil {
				return err
			}
		}
	}
	for i := range plan.Actions {
		a := &plan.Actions[i]
		var err error
		switch a.Kind {
		case nodescaler.Cordon, nodescaler.Uncordon:
			err = s.cfg.Cluster.Mark(ctx, a.Node, a.Kind == nodescaler.Cordon)
		case nodescaler.Evict:
			if err = s.cfg.Cluster.Evict(ctx, a.Pod); err == nil {
				s.evictions.Add(1)
			}
		case nodescaler.Return:
			err = s.remove(ctx, a)
		case nodescaler.Buy, nodescaler.DeletePod, nodescaler.Stash, nodescaler.Wake:
			continue
		}
		s.cfg.Log("%s %s%s: %s", a.Kind, a.Node, a.Pod, outcome(err))
	}
	return errors.Join(ctx.Err(), s.measure(ctx))
}

func outcome(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

// remove deletes a node that was emptied.
func (s *scan) remove(ctx context.Context, a *nodescaler.Action) error {
	i := slices.IndexFunc(s.sight.State.Nodes, func(n nodescaler.Node) bool { return n.Name == a.Node })
	if i < 0 {
		return errors.New("it is no node any more")
	}
	n := &s.sight.State.Nodes[i]
	_, err := call(ctx, s.cfg.Provider.NodeGroupDeleteNodes, &externalgrpc.NodeGroupDeleteNodesRequest{
		Id: n.Pool, Nodes: []*externalgrpc.ExternalGrpcNode{s.external(n)},
	})
	if err == nil {
		s.leaving[n.Machine] = s.now
	}
	return err
}
