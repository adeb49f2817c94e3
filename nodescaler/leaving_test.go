package nodescaler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// fleet is machines of one pool, each with so many ready pods of the workload web; others are pods
// of something else on them.
func fleet(least int, web, others []int) *nodescaler.Snapshot {
	shape := pricing.Shape{Name: "small", CPU: 2000, Memory: 8 * pricing.GB}
	s := &nodescaler.Snapshot{
		Now:   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Pools: []nodescaler.Pool{{Name: "workers", Shapes: []pricing.Shape{shape}, Min: least, Max: 10}},
		Hosts: []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: shape.Resources().Times(10)}, Online: true}},
	}
	for i := range web {
		name := fmt.Sprintf("node-%d", i+1)
		s.Machines = append(s.Machines, nodescaler.Machine{Name: name, Order: name, Pool: "workers", Shape: shape, Host: "pve1", Phase: nodescaler.Joined})
		s.Nodes = append(s.Nodes, nodescaler.Node{Name: name, Machine: name, Pool: "workers", Allocatable: shape.Resources(), Ready: true})
		put := func(workload string, n int) {
			for j := range n {
				s.Pods = append(s.Pods, nodescaler.Pod{
					Pod:      podscaler.Pod{Name: fmt.Sprintf("%s-%d-%d", workload, i+1, j+1), Phase: podscaler.Running, Ready: true},
					Workload: workload, Node: name, Requests: pricing.Resources{CPU: 400, Memory: pricing.GB},
				})
			}
		}
		put("web", web[i])
		if others != nil {
			put("other", others[i])
		}
	}
	return s
}

func TestShrinkingLeavesWholeMachines(t *testing.T) {
	for name, c := range map[string]struct {
		least, count int
		web, others  []int
		want         []int // pods that go, by machine
	}{
		"two machines of five are free":              {0, 10, []int{4, 4, 4, 4, 4}, nil, []int{4, 4, 2, 0, 0}},
		"those with the fewest pods go first":        {0, 3, []int{4, 1, 2}, nil, []int{0, 1, 2}},
		"one that carries others is not freed by it": {0, 4, []int{4, 4}, []int{1, 0}, []int{0, 4}},
		"what a pool must keep is not emptied":       {4, 10, []int{4, 4, 4, 4, 4}, nil, []int{4, 0, 0, 0, 0}},
		"too few to free one are all from the first": {0, 2, []int{4, 3}, nil, []int{0, 2}},
		"nothing goes where nothing is to go":        {0, 0, []int{4}, nil, []int{0}},
		"all may go":                                 {0, 9, []int{3, 3, 3}, nil, []int{3, 3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			got := make([]int, len(c.web))
			s := fleet(c.least, c.web, c.others)
			for _, pod := range nodescaler.Leaving(nodescaler.NewIndex(s), "web", c.count) {
				var node, n int
				must.Get(fmt.Sscanf(pod, "web-%d-%d", &node, &n))(t)
				got[node-1]++
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%v go, want %v", got, c.want)
			}
		})
	}
}

func TestPodsThatDoNotRunGoBeforeThoseChosen(t *testing.T) {
	s := fleet(0, []int{2, 2}, nil)
	s.Pods[0].Ready = false
	got := nodescaler.Leaving(nodescaler.NewIndex(s), "web", 2)
	if fmt.Sprint(got) != "[web-1-2]" {
		t.Errorf("%v go beside the one that is not ready, want [web-1-2]", got)
	}
}

func TestPodsDoNotLeaveWhatStaysAnyway(t *testing.T) {
	s := fleet(0, []int{1, 2}, nil)
	s.Nodes[0].LocalClaims = []string{"shop/data-0"}
	got := nodescaler.Leaving(nodescaler.NewIndex(s), "web", 2)
	if fmt.Sprint(got) != "[web-2-1 web-2-2]" {
		t.Errorf("%v go, want those of the machine that can be reclaimed", got)
	}
}
