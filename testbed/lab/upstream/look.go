package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
)

const (
	// listAge is how old what is listed of groups may be in which nothing is to come.
	listAge = 2 * time.Minute
	// settled is how long a node has to be there before a group's new nodes are taken to look like
	// it, and the provider is not asked any more.
	settled = time.Minute
	// templateAge is how long that is remembered after the last of the group's nodes is gone: our
	// manifests' --node-info-cache-expire-time.
	templateAge = time.Hour
)

// look asks everything that is to be known of the provider before anything is decided.
func (s *scan) look(ctx context.Context) error {
	if err := s.place(ctx); err != nil {
		return err
	}
	if _, err := call(ctx, s.cfg.Provider.Refresh, &externalgrpc.RefreshRequest{}); err != nil {
		return err
	}
	s.groupOf = map[string]string{}
	var err error
	if s.all, err = s.groups(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.lookAtTemplates(ctx), s.place(ctx)); err != nil {
		return err
	}
	s.gather()
	if err := s.measure(ctx); err != nil {
		return err
	}
	if err := s.list(ctx); err != nil {
		return err
	}
	return s.lookAtNodes(ctx)
}

// groups asks for the groups, in the order of the answer.
func (c *Client) groups(ctx context.Context) ([]*group, error) {
	answer, err := call(ctx, c.cfg.Provider.NodeGroups, &externalgrpc.NodeGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var all []*group
	for _, g := range answer.GetNodeGroups() {
		all = append(all, &group{id: g.GetId(), min: int(g.GetMinSize()), max: int(g.GetMaxSize())})
	}
	return all, nil
}

// place asks which groups the nodes are in. Of nodes that are in one that is asked once until the
// next refresh; of the others it is not remembered.
func (s *scan) place(ctx context.Context) error {
	for i := range s.sight.State.Nodes {
		n := &s.sight.State.Nodes[i]
		if s.groupOf[n.Name] != "" {
			continue
		}
		id, err := s.groupFor(ctx, s.external(n))
		if err != nil {
			return err
		}
		if id != "" {
			s.groupOf[n.Name] = id
		}
	}
	return nil
}

func (s *scan) groupFor(ctx context.Context, n *externalgrpc.ExternalGrpcNode) (string, error) {
	answer, err := call(ctx, s.cfg.Provider.NodeGroupForNode, &externalgrpc.NodeGroupForNodeRequest{Node: n})
	return answer.GetNodeGroup().GetId(), err
}

// external is a node as the contract has it.
func (s *scan) external(n *nodescaler.Node) *externalgrpc.ExternalGrpcNode {
	return &externalgrpc.ExternalGrpcNode{Name: n.Name, ProviderID: s.sight.ProviderIDs[n.Name], Labels: n.Labels}
}

// placeholder is an instance that is no node, as the contract has it.
func placeholder(id string) *externalgrpc.ExternalGrpcNode {
	return &externalgrpc.ExternalGrpcNode{
		ProviderID: id, Name: id, Annotations: map[string]string{"cluster-autoscaler.k8s.io/fake-node-reason": "unregistered"},
	}
}

// lookAtTemplates asks what new nodes would look like in the groups without a node that shows it.
func (s *scan) lookAtTemplates(ctx context.Context) error {
	for _, g := range s.all {
		if s.shown(g.id) {
			s.showed[g.id] = s.now
		}
		at, shown := s.showed[g.id]
		if known := s.templates[g.id]; known != nil && shown && s.now.Sub(at) < templateAge {
			g.template = known
			continue
		}
		answer, err := call(ctx, s.cfg.Provider.NodeGroupTemplateNodeInfo, &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: g.id})
		if err != nil {
			return err
		}
		text := answer.GetNodeBytes()
		if len(text) == 0 {
			text = answer.GetNodeInfo()
		}
		g.template = &corev1.Node{}
		if err := g.template.Unmarshal(text); err != nil {
			return fmt.Errorf("NodeGroupTemplateNodeInfo: %s: %w", g.id, err)
		}
		s.templates[g.id] = g.template
	}
	return nil
}

// shown reports whether there is a node of a group, for long enough.
func (s *scan) shown(id string) bool {
	return slices.ContainsFunc(s.sight.State.Nodes, func(n nodescaler.Node) bool {
		return n.Ready && s.now.Sub(n.Joined) > settled && s.lists(id, s.sight.ProviderIDs[n.Name])
	})
}

// lists reports whether an instance was last listed in a group.
func (s *scan) lists(group, id string) bool {
	return slices.ContainsFunc(s.listed[group], func(i *externalgrpc.Instance) bool { return i.GetId() == id })
}

// gather puts the nodes to their groups.
func (s *scan) gather() {
	for i := range s.sight.State.Nodes {
		n := &s.sight.State.Nodes[i]
		if g := s.group(s.groupOf[n.Name]); g != nil {
			n.Machine, n.Pool = s.sight.ProviderIDs[n.Name], g.id
			g.nodes = append(g.nodes, n)
		}
	}
}

// measure asks for the targets of all groups.
func (s *scan) measure(ctx context.Context) error {
	for _, g := range s.all {
		if err := s.size(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) size(ctx context.Context, g *group) error {
	answer, err := call(ctx, s.cfg.Provider.NodeGroupTargetSize, &externalgrpc.NodeGroupTargetSizeRequest{Id: g.id})
	g.target = int(answer.GetTargetSize())
	return err
}

// list asks for the instances of groups in which some are to come, and of all from time to time.
// What is to come has to be known; of the rest, what was listed before still counts.
func (s *scan) list(ctx context.Context) error {
	if s.now.Sub(s.renewed) >= listAge {
		return s.listAll(ctx, s.all)
	}
	for _, g := range s.all {
		if _, known := s.listed[g.id]; s.open[g.id] || !known {
			if err := s.listOne(ctx, g.id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Client) listAll(ctx context.Context, groups []*group) error {
	for id := range c.listed {
		if !slices.ContainsFunc(groups, func(g *group) bool { return g.id == id }) {
			delete(c.listed, id)
		}
	}
	for _, g := range groups {
		if err := c.listOne(ctx, g.id); err != nil {
			c.cfg.Log("%s stays as it was listed last: %v", g.id, err)
		}
	}
	c.renewed = c.cfg.Now()
	return ctx.Err()
}

func (c *Client) listOne(ctx context.Context, id string) error {
	answer, err := call(ctx, c.cfg.Provider.NodeGroupNodes, &externalgrpc.NodeGroupNodesRequest{Id: id})
	if err == nil {
		c.listed[id] = answer.GetInstances()
	}
	return err
}

// lookAtNodes asks by which options the nodes and instances of groups are to be judged, and finds
// out which instances are no nodes.
func (s *scan) lookAtNodes(ctx context.Context) error {
	for _, g := range s.all {
		for range g.nodes {
			if err := s.options(ctx, g); err != nil {
				return err
			}
		}
	}
	joined := map[string]bool{}
	for _, id := range s.sight.ProviderIDs {
		joined[id] = true
	}
	unseen := map[string]time.Time{}
	for _, g := range s.all {
		for _, i := range s.listed[g.id] {
			if joined[i.GetId()] {
				continue
			}
			if err := s.lookAtInstance(ctx, g, i, unseen); err != nil {
				return err
			}
		}
	}
	s.unseen = unseen
	s.settle(joined)
	return nil
}

// lookAtInstance judges an instance that is no node. One that the provider does not know any more,
// or that goes, is waited for no longer.
func (s *scan) lookAtInstance(ctx context.Context, g *group, i *externalgrpc.Instance, unseen map[string]time.Time) error {
	if i.GetStatus().GetErrorInfo().GetErrorCode() != "" && i.GetStatus().GetInstanceState() == externalgrpc.InstanceStatus_instanceCreating {
		g.failed = append(g.failed, i)
		return s.options(ctx, g)
	}
	of, err := s.groupFor(ctx, placeholder(i.GetId()))
	if err != nil || of != g.id || i.GetStatus().GetInstanceState() == externalgrpc.InstanceStatus_instanceDeleting || s.leaves(i.GetId()) {
		return err
	}
	since, known := s.unseen[i.GetId()]
	if !known {
		since = s.now
	}
	unseen[i.GetId()] = since
	g.coming = append(g.coming, i)
	return s.options(ctx, g)
}

// settle closes increases that have come about, and forgets nodes that were deleted.
func (s *scan) settle(joined map[string]bool) {
	for _, g := range s.all {
		ready := !slices.ContainsFunc(g.nodes, func(n *nodescaler.Node) bool { return !n.Ready })
		if ready && len(g.coming) == 0 && len(g.failed) == 0 && len(g.nodes) >= g.target {
			delete(s.open, g.id)
		}
	}
	for id, asked := range s.leaving {
		listed := slices.ContainsFunc(s.all, func(g *group) bool { return s.lists(g.id, id) })
		if !joined[id] && !listed {
			delete(s.leaving, id)
		} else if s.renewed.After(asked) && s.runs(id) { // the provider keeps it
			delete(s.leaving, id)
		}
	}
}

// leaves reports whether the deletion of a node was asked for.
func (s *scan) leaves(id string) bool {
	_, asked := s.leaving[id]
	return asked
}

// runs reports whether an instance is listed as one that runs.
func (s *scan) runs(id string) bool {
	return slices.ContainsFunc(s.all, func(g *group) bool {
		return slices.ContainsFunc(s.listed[g.id], func(i *externalgrpc.Instance) bool {
			return i.GetId() == id && i.GetStatus().GetInstanceState() == externalgrpc.InstanceStatus_instanceRunning
		})
	})
}

// errOptions is what a group's own options are refused with.
var errOptions = errors.New("the group has options of its own, and this client goes by one set of settings")

// options asks for a group's own options. Providers may have none, and say so by not implementing
// the call.
func (s *scan) options(ctx context.Context, g *group) error {
	answer, err := call(ctx, s.cfg.Provider.NodeGroupGetOptions, &externalgrpc.NodeGroupAutoscalingOptionsRequest{Id: g.id, Defaults: s.defaults()})
	switch {
	case unimplemented(err):
		return nil
	case err == nil && answer.GetNodeGroupAutoscalingOptions() != nil:
		return fmt.Errorf("NodeGroupGetOptions: %s: %w", g.id, errOptions)
	}
	return err
}
