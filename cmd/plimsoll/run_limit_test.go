package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
)

// What two who order have ordered counts for both; an order that is repeated counts once.
func TestOrdersOfTwoKeepToOneLimit(t *testing.T) {
	shape := pricing.Shape{Name: "small", CPU: 2000, Memory: 4 * pricing.GB} // 6 an hour
	s := &nodescaler.Snapshot{Limit: pricing.RateOf(12 * pricing.Unit)}
	order := func(id string) error {
		err := withinLimit(s, loop.Order{ID: id, Action: nodescaler.Action{Shape: &shape}})
		if err == nil && !slices.ContainsFunc(s.Machines, func(m nodescaler.Machine) bool { return m.Order == id }) {
			s.Machines = append(s.Machines, nodescaler.Machine{Name: "w-" + id, Order: id, Shape: shape, Phase: nodescaler.Ordered})
		}
		return err
	}
	for _, id := range []string{"loop", "autoscaler"} {
		if err := order(id); err != nil {
			t.Error(err)
		}
	}
	if err := order("autoscaler"); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if err := order("third"); !errors.Is(err, loop.ErrRefused) || !strings.HasSuffix(err.Error(), "LimitReached: all machines would cost 18/h of at most 12/h") {
		t.Error(err)
	}
	s.Limit = 0
	if err := order("third"); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// With the provider alone, a file with pools may have a limit, and cluster-autoscaler is held to
// it.
func TestProviderAloneKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	site, err := os.ReadFile(filepath.Join(s.folder, "site.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("site.yaml", "limit: {amount: 7, per: 1h}\n"+string(site)) // a machine costs 6.295
	s.start()
	ca := s.client()
	var group *externalgrpc.NodeGroup
	s.until("the group is listed, with one machine to be had", func() bool {
		answer, err := ca.NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{})
		if err == nil && len(answer.NodeGroups) == 1 {
			group = answer.NodeGroups[0]
		}
		return group.GetMaxSize() == 1
	})
	_, err = ca.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group.Id, Delta: 3})
	if want := "and must cost at most 7.000 units/h, which allows 1, was 3"; grpcstatus.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	s.until("the one is taken", func() bool {
		_, err = ca.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group.Id, Delta: 1})
		return err == nil
	})
	if _, err = ca.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group.Id, Delta: 1}); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

// Cluster-autoscaler's orders go by the same lock and limit as the loop's.
func TestOrdersOfTheAutoscalerAreHeldToTheLimit(t *testing.T) {
	f := &limitedFleet{timedFleet: timedFleet{Fleet: &pve.Fleet{}}}
	if got, ok := f.ForAutoscaler().(limitedAutoscaler); !ok || got.fleet != f {
		t.Errorf("it orders by %T", got)
	}
}
