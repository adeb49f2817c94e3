package provider

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestConfiguredPoolsComeWithTheNextRefresh(t *testing.T) {
	s, _ := made(t, func(c *Config) { c.Pools = nil })
	groups := func() string {
		answer := must.Get(s.NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{}))(t)
		var ids []string
		for _, g := range answer.NodeGroups {
			ids = append(ids, g.Id[:strings.LastIndex(g.Id, ".")])
		}
		return strings.Join(ids, " ")
	}
	if got := groups(); got != "" {
		t.Errorf("without pools the groups are %q", got)
	}
	refresh := func() {
		must.Get(s.Refresh(t.Context(), &externalgrpc.RefreshRequest{}))(t)
	}
	refresh()
	all := pools()
	must.Do(t, s.Configure(all[:1], nil))
	if got := groups(); got != "" {
		t.Errorf("before a refresh the groups are %q", got)
	}
	refresh()
	before := groups()
	if !strings.HasPrefix(before, all[0].Name+".") {
		t.Errorf("after it they are %q", before)
	}
	bad := all[0]
	bad.Shapes = nil
	if err := s.Configure([]Pool{bad}, nil); err == nil || !strings.Contains(err.Error(), "pools[0].shapes") {
		t.Errorf("pools without shapes: %v", err)
	}
	refresh()
	if got := groups(); got != before {
		t.Errorf("after pools that were refused they are %q, want %q", got, before)
	}
}

func TestConfiguredPricesCountAtOnce(t *testing.T) {
	s, _ := made(t, nil)
	g := s.memory.groups[0]
	before := s.pricer.rate(g, s.cfg.Now())
	dear := pricing.DefaultBook()
	double := 2 * pricing.Unit
	dear.PerVCPU, dear.PerGB = double, double
	must.Do(t, s.Configure(pools(), dear))
	if got := s.pricer.rate(g, s.cfg.Now()); got != 2*before {
		t.Errorf("%s, want twice %s", got, before)
	}
}

func TestServerServesAgain(t *testing.T) {
	s, _ := made(t, nil)
	registry := prometheus.NewRegistry()
	for range 2 {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Serve(ctx, l, Listening{Metrics: registry}) }()
		cancel()
		must.Do(t, <-ended)
	}
}
