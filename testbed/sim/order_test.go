package sim

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// names of a service's pods, in the order in which they would be given up.
func ranked(s *service, pods ...*pod) []string {
	s.rank(pods)
	var out []string
	for _, p := range pods {
		out = append(out, p.obs.Name)
	}
	return out
}

func TestPodsAreGivenUpInTheOrderOfAReplicaSet(t *testing.T) {
	full, spare := &node{}, &node{}
	at := func(name string, n *node, phase podscaler.Phase, ready bool, since, made time.Duration) *pod {
		p := &pod{node: n, made: made}
		p.obs.Name, p.obs.Phase, p.obs.Ready, p.obs.ReadyChanged = name, phase, ready, start.Add(since)
		return p
	}
	got := ranked(&service{},
		at("old", spare, podscaler.Running, true, 1, 1),
		at("young", spare, podscaler.Running, true, 9, 2),
		at("doubled", full, podscaler.Running, true, 1, 3),
		at("unready", full, podscaler.Running, false, 1, 4),
		at("starting", full, podscaler.Pending, false, 0, 5),
		at("unbound", nil, podscaler.Pending, false, 0, 6),
	)
	want := []string{"unbound", "starting", "unready", "doubled", "young", "old"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestImportantAndOldPodsAreBoundFirst(t *testing.T) {
	cfg := small(0)
	other := cfg.Workloads[0]
	other.Name, other.Priority, other.Replicas = "shop/zz", 7, 2
	cfg.Workloads = append(cfg.Workloads, other)
	cfg.Workloads[0].Replicas = 1
	w := live(t, cfg, time.Minute)
	_ = w.SetReplicas(context.Background(), "shop/web", 2) // waits: the node has room for three
	_ = w.SetReplicas(context.Background(), "shop/zz", 3)
	run(t, w, 2*time.Minute)
	buy(t, w, "a")
	w.cfg.Pools[0].Reserved.CPU = 1400 // room for one
	run(t, w, 5*time.Minute)
	if p := w.service("shop/zz").pods[2]; p.node == nil {
		t.Error("the more important pod still waits")
	}
	if p := w.service("shop/web").pods[1]; p.node != nil {
		t.Error("the less important one came first")
	}
}

// Nine requests of 50 ms a second use 0.45 cores.
func TestReadingsAreWhatHappened(t *testing.T) {
	cfg := small(0)
	cfg.Workloads[0].Load = Load{Kind: Open, Even: true, Level: Curve{{0, 4}, {10 * time.Minute, 4}, {10 * time.Minute, 9}}}
	cfg.Workloads[0].Demand.Spread = 0
	w := live(t, cfg, 11*time.Minute+30*time.Second)
	got, err := w.Read(context.Background(), &podscaler.Workload{Name: "shop/web", SLO: podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond, Window: time.Minute}}, time.Time{})
	if err != nil || math.Abs(got.Arrivals.Value-9) > .05 || got.Good.Value != 1 || math.Abs(got.Latency.Value-.1) > .001 {
		t.Errorf("read %+v, %v; want 9 arrivals a second, all good, 100 ms", got, err)
	}
	s, _ := w.Observe(context.Background())
	if c := s.Pods[0].CPU; math.Abs(c.Value-.45) > .01 || c.Span != 15*time.Second {
		t.Errorf("CPU %+v, want 0.45 cores over 15 s", c)
	}
	if g := w.Scores()[0]; g.Good != g.Requests || g.PodTime != w.Now() {
		t.Errorf("%d of %d good, %s of pods, want all and %s", g.Good, g.Requests, g.PodTime, w.Now())
	}
}

func TestFailedRequestsViolateTheirMinute(t *testing.T) {
	cfg := small(5)
	cfg.Workloads[0].Replicas = 0
	for _, m := range live(t, cfg, 5*time.Minute).Scores()[0].Minutes {
		if !m.Violated || !math.IsInf(m.Latency, 1) || m.Failed != m.Requests {
			t.Errorf("minute %+v, want it violated", m)
		}
	}
}

// two is a world of two hosts with a machine on each.
func two(users float64, replicas int) Config {
	cfg := small(users)
	cfg.Hosts = append(cfg.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: cfg.Hosts[0].Room}, Online: true})
	cfg.Initial["worker"] = 2
	cfg.Workloads[0].Replicas = replicas
	return cfg
}

func run(t *testing.T, w *World, until time.Duration) {
	t.Helper()
	must.Do(t, w.Run(context.Background(), until))
}
