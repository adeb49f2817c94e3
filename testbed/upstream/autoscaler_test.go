package upstream_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// autoscaler asks as cluster-autoscaler does.
type autoscaler struct {
	t testing.TB
	externalgrpc.CloudProviderClient
}

// instance is an instance as cluster-autoscaler sees it.
type instance struct {
	ID    string
	State string // Running, Creating, Deleting
	Code  string // of its error, if it has one
	Class int32
	Text  string
}

func (c *autoscaler) groups() []*externalgrpc.NodeGroup {
	c.t.Helper()
	answer := must.Get(c.NodeGroups(c.t.Context(), &externalgrpc.NodeGroupsRequest{}))(c.t)
	return answer.NodeGroups
}

// group is the id of the group of a pool.
func (c *autoscaler) group(pool string) string {
	c.t.Helper()
	for _, g := range c.groups() {
		if strings.HasPrefix(g.Id, pool+".") && !strings.Contains(g.Id, ".retired-") {
			return g.Id
		}
	}
	c.t.Fatalf("no group of pool %s among %v", pool, c.groups())
	return ""
}

func (c *autoscaler) target(group string) int {
	c.t.Helper()
	answer := must.Get(c.NodeGroupTargetSize(c.t.Context(), &externalgrpc.NodeGroupTargetSizeRequest{Id: group}))(c.t)
	return int(answer.TargetSize)
}

func (c *autoscaler) instances(group string) []instance {
	c.t.Helper()
	answer := must.Get(c.NodeGroupNodes(c.t.Context(), &externalgrpc.NodeGroupNodesRequest{Id: group}))(c.t)
	return read(answer)
}

func read(answer *externalgrpc.NodeGroupNodesResponse) []instance {
	all := []instance{}
	for _, i := range answer.Instances {
		e := i.Status.GetErrorInfo()
		all = append(all, instance{
			ID: i.Id, State: strings.TrimPrefix(i.Status.GetInstanceState().String(), "instance"),
			Code: e.GetErrorCode(), Class: e.GetInstanceErrorClass(), Text: e.GetErrorMessage(),
		})
	}
	return all
}

// states are the states of a group's instances, by id.
func (c *autoscaler) states(group string) map[string]string {
	c.t.Helper()
	all := map[string]string{}
	for _, i := range c.instances(group) {
		all[i.ID] = i.State
	}
	return all
}

// all reports whether a group has that many instances, and all of them in one state.
func (c *autoscaler) all(group, state string, n int) bool {
	c.t.Helper()
	states := c.states(group)
	for _, s := range states {
		if s != state {
			return false
		}
	}
	return len(states) == n
}

// ids are those of a group's instances.
func (c *autoscaler) ids(group string) (ids []string) {
	c.t.Helper()
	for _, i := range c.instances(group) {
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	return ids
}

func (c *autoscaler) increase(group string, by int32) error {
	c.t.Helper()
	_, err := c.NodeGroupIncreaseSize(c.t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group, Delta: by})
	return err
}

func (c *autoscaler) mustIncrease(group string, by int32) {
	c.t.Helper()
	must.Do(c.t, c.increase(group, by))
}

func (c *autoscaler) decrease(group string, by int32) error {
	c.t.Helper()
	_, err := c.NodeGroupDecreaseTargetSize(c.t.Context(), &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: group, Delta: by})
	return err
}

func (c *autoscaler) delete(group string, nodes ...*externalgrpc.ExternalGrpcNode) error {
	c.t.Helper()
	_, err := c.NodeGroupDeleteNodes(c.t.Context(), &externalgrpc.NodeGroupDeleteNodesRequest{Id: group, Nodes: nodes})
	return err
}

// groupOf is the group that a node is in, empty if it is not one of ours.
func (c *autoscaler) groupOf(n *externalgrpc.ExternalGrpcNode) string {
	c.t.Helper()
	answer := must.Get(c.NodeGroupForNode(c.t.Context(), &externalgrpc.NodeGroupForNodeRequest{Node: n}))(c.t)
	return answer.GetNodeGroup().GetId()
}

func (c *autoscaler) refresh() error {
	_, err := c.Refresh(context.Background(), &externalgrpc.RefreshRequest{})
	return err
}

// want fails unless an error is of a code, and says what it should with the words given.
func want(t testing.TB, what string, err error, code codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(status.Convert(err).Message(), word) {
			t.Errorf("%s: %q does not say %q", what, status.Convert(err).Message(), word)
		}
	}
}
