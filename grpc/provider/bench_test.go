package provider

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// BenchmarkThousandNodes calls at 500 calls a second, one method after the other, a server of 1,000
// nodes in 10 groups, and prints how long the answers took.
func BenchmarkThousandNodes(b *testing.B) {
	const rate, lasts = 500, 5 * time.Second
	p := &port{}
	var pools []Pool
	for i := range 10 {
		name := fmt.Sprintf("pool-%d", i)
		pools = append(pools, Pool{Pool: nodescaler.Pool{Name: name, Max: 200, Shapes: []pricing.Shape{small}}})
		for j := range 100 {
			id := fmt.Sprintf("%d-%d", i, j)
			p.machines = append(p.machines, nodescaler.Machine{
				Name: nodescaler.MachineName(name, id), Order: id, Pool: name, Shape: small, Phase: nodescaler.Joined,
				ProviderID: "rke2://" + nodescaler.MachineName(name, id), Created: noon,
			})
		}
	}
	s := must.Get(New(Config{Pools: pools, Machines: p, Prices: defaultPrices}))(b)
	for range b.N {
		took := map[string][]time.Duration{}
		load(b, s, rate, lasts, func(method string, d time.Duration) { took[method] = append(took[method], d) })
		for _, method := range slices.Sorted(keys(took)) {
			all := took[method]
			slices.Sort(all)
			at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(time.Microsecond) }
			b.Logf("%-28s %5d calls  p50 %8s  p99 %8s  longest %8s", method, len(all), at(.5), at(.99), at(1))
			b.ReportMetric(float64(at(.99).Microseconds()), "p99-µs-"+method)
		}
	}
}

func keys(m map[string][]time.Duration) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// load calls the server evenly, regardless of earlier calls, and reports each.
func load(b *testing.B, s *Server, rate int, lasts time.Duration, tell func(string, time.Duration)) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, address := listen(b)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, Listening{}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	conn := dial(b, address, insecure.NewCredentials())
	c := externalgrpc.NewCloudProviderClient(conn)
	all := calls(c, s)
	var mu sync.Mutex
	var wait sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range rate * int(lasts/time.Second) {
		<-tick.C
		one := all[i%len(all)]
		wait.Go(func() {
			start := time.Now()
			if err := one.do(ctx); err != nil {
				b.Errorf("%s: %v", one.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			tell(one.name, time.Since(start))
		})
	}
	wait.Wait()
}

type namedCall struct {
	name string
	do   func(context.Context) error
}

func calls(c externalgrpc.CloudProviderClient, s *Server) []namedCall {
	group := s.memory.groups[3].id
	node := fake("rke2://pool-3-3-7")
	node.Labels = map[string]string{PoolLabel: "pool-3", ShapeLabel: "small"}
	from, to := timestamppb.New(noon), timestamppb.New(noon.Add(time.Hour))
	return []namedCall{
		{"NodeGroups", func(x context.Context) error {
			_, err := c.NodeGroups(x, &externalgrpc.NodeGroupsRequest{})
			return err
		}},
		{"NodeGroupForNode", func(x context.Context) error {
			_, err := c.NodeGroupForNode(x, &externalgrpc.NodeGroupForNodeRequest{Node: node})
			return err
		}},
		{"NodeGroupTargetSize", func(x context.Context) error {
			_, err := c.NodeGroupTargetSize(x, &externalgrpc.NodeGroupTargetSizeRequest{Id: group})
			return err
		}},
		{"NodeGroupNodes", func(x context.Context) error {
			_, err := c.NodeGroupNodes(x, &externalgrpc.NodeGroupNodesRequest{Id: group})
			return err
		}},
		{"NodeGroupTemplateNodeInfo", func(x context.Context) error {
			_, err := c.NodeGroupTemplateNodeInfo(x, &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: group})
			return err
		}},
		{"NodeGroupGetOptions", func(x context.Context) error {
			_, err := c.NodeGroupGetOptions(x, &externalgrpc.NodeGroupAutoscalingOptionsRequest{Id: group})
			return err
		}},
		{"PricingNodePrice", func(x context.Context) error {
			_, err := c.PricingNodePrice(x, &externalgrpc.PricingNodePriceRequest{Node: node, StartTimestamp: from, EndTimestamp: to})
			return err
		}},
		{"PricingPodPrice", func(x context.Context) error {
			_, err := c.PricingPodPrice(x, &externalgrpc.PricingPodPriceRequest{StartTimestamp: from, EndTimestamp: to})
			return err
		}},
		{"Refresh", func(x context.Context) error { _, err := c.Refresh(x, &externalgrpc.RefreshRequest{}); return err }},
		{"GPULabel", func(x context.Context) error { _, err := c.GPULabel(x, &externalgrpc.GPULabelRequest{}); return err }},
		{"GetAvailableGPUTypes", func(x context.Context) error {
			_, err := c.GetAvailableGPUTypes(x, &externalgrpc.GetAvailableGPUTypesRequest{})
			return err
		}},
		{"Cleanup", func(x context.Context) error { _, err := c.Cleanup(x, &externalgrpc.CleanupRequest{}); return err }},
		{"IncreaseSize-refused", func(x context.Context) error {
			_, _ = c.NodeGroupIncreaseSize(x, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group, Delta: 500})
			return nil
		}},
		{"DecreaseTargetSize-refused", func(x context.Context) error {
			_, _ = c.NodeGroupDecreaseTargetSize(x, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: group, Delta: -1})
			return nil
		}},
		{"DeleteNodes-refused", func(x context.Context) error {
			_, _ = c.NodeGroupDeleteNodes(x, &externalgrpc.NodeGroupDeleteNodesRequest{Id: group, Nodes: []*externalgrpc.ExternalGrpcNode{fake("x")}})
			return nil
		}},
	}
}
