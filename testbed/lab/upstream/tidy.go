package upstream

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
)

// unimplemented reports whether a provider does not have a call.
func unimplemented(err error) bool { return status.Code(err) == codes.Unimplemented }

// defaults are what a group's options are laid over, as releases from 1.35 to 1.37 send them.
func (c *Client) defaults() *externalgrpc.NodeGroupAutoscalingOptions {
	u := &c.cfg.Unneeded
	return &externalgrpc.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold: u.ScaleDownUtilizationThreshold, ScaleDownGpuUtilizationThreshold: u.ScaleDownUtilizationThreshold,
		ScaleDownUnneededDuration: durationpb.New(time.Duration(u.ScaleDownUnneededTime)), ScaleDownUnreadyDuration: durationpb.New(time.Duration(u.ScaleDownUnreadyTime)),
		MaxNodeProvisionDuration: durationpb.New(time.Duration(u.MaxNodeProvisionTime)), IgnoreDaemonSetsUtilization: u.IgnoreDaemonsetsUtilization,
	}
}

// tidy deletes what failed and what has not become a node for too long, and takes back what a
// target is too high by. After that it is said that the sizes have changed, and nothing else is
// done in this scan.
func (s *scan) tidy(ctx context.Context) (shrunk bool, err error) {
	for _, g := range s.all {
		if err := s.giveUp(ctx, g); err != nil {
			return false, err
		}
	}
	short := map[string]time.Time{}
	for _, g := range s.all {
		over := g.target - len(g.nodes) - len(g.coming)
		for _, n := range g.nodes {
			if s.leaves(n.Machine) {
				over++
			}
		}
		if over <= 0 {
			continue
		}
		since, known := s.short[g.id]
		if !known {
			since = s.now
		}
		short[g.id] = since
		late := s.now.Sub(since) > time.Duration(s.cfg.Unneeded.MaxNodeProvisionTime)
		// Of a group without nodes it never finds out.
		if !late || s.open[g.id] || len(g.nodes) == 0 {
			continue
		}
		s.cfg.Log("%s: the target is %d too high for %s and is taken back", g.id, over, s.now.Sub(since))
		if _, err := call(ctx, s.cfg.Provider.NodeGroupDecreaseTargetSize, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: g.id, Delta: -int32(over)}); err != nil {
			return false, err
		}
		shrunk = true
	}
	s.short = short
	return shrunk, nil
}

// giveUp deletes instances that failed, and those that have not become nodes for too long as far as
// the group's minimum allows it. Either of them has the group left alone for a while.
func (s *scan) giveUp(ctx context.Context, g *group) error {
	var late []*externalgrpc.Instance
	spared := g.target - g.min
	coming := g.coming[:0:0]
	for _, i := range g.coming {
		if spared > 0 && s.now.Sub(s.unseen[i.GetId()]) > time.Duration(s.cfg.Unneeded.MaxNodeProvisionTime) {
			late = append(late, i)
			spared--
			continue
		}
		coming = append(coming, i)
	}
	going := append(append([]*externalgrpc.Instance(nil), g.failed...), late...)
	if len(going) == 0 {
		return nil
	}
	s.backoffOf(g.id).fail(s.now, &s.cfg.Unneeded)
	ask := &externalgrpc.NodeGroupDeleteNodesRequest{Id: g.id}
	for _, i := range going {
		s.cfg.Log("%s is given up: %s", i.GetId(), i.GetStatus().GetErrorInfo().GetErrorMessage())
		ask.Nodes = append(ask.Nodes, placeholder(i.GetId()))
	}
	if _, err := call(ctx, s.cfg.Provider.NodeGroupDeleteNodes, ask); err != nil {
		s.cfg.Log("%v", err) // the next scan asks again
		return ctx.Err()
	}
	for _, i := range going {
		s.leaving[i.GetId()] = s.now
	}
	g.coming, s.open[g.id] = coming, true // the list has changed
	return s.size(ctx, g)
}

// backoff is how long a group is left alone after a failure: longer each time, until it has gone
// well for long enough.
type backoff struct {
	until, failed time.Time
	last          time.Duration
}

func (c *Client) backoffOf(id string) *backoff {
	if c.backoffs[id] == nil {
		c.backoffs[id] = &backoff{}
	}
	return c.backoffs[id]
}

// on reports whether the group is to be left alone.
func (b *backoff) on(now time.Time) bool { return b != nil && now.Before(b.until) }

// fail begins a time in which the group is left alone.
func (b *backoff) fail(now time.Time, u *nodepolicy.Unneeded) {
	if now.Sub(b.failed) > time.Duration(u.NodeGroupBackoffResetTimeout) {
		b.last = 0
	}
	b.last = min(max(2*b.last, time.Duration(u.InitialNodeGroupBackoffDuration)), time.Duration(u.MaxNodeGroupBackoffDuration))
	b.failed, b.until = now, now.Add(b.last)
}
