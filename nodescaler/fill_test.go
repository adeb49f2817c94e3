package nodescaler_test

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
)

// Machines take four replicas each. Three workloads have so many and need so many.
func TestWorkloadsFillTheMachinesThatTheyNeedTogether(t *testing.T) {
	for _, c := range []struct {
		name            string
		machines, least int
		has, needs      [3]int
		want            [3]int
	}{
		{"what is over on the machines that stay is kept", 2, 0, [3]int{3, 3, 2}, [3]int{2, 3, 2}, [3]int{3, 3, 2}},
		{"each has less than a machine to give, and together they free one", 3, 0, [3]int{5, 4, 3}, [3]int{3, 3, 2}, [3]int{3, 3, 2}},
		{"a machine that must be there is filled", 3, 3, [3]int{5, 4, 3}, [3]int{3, 3, 2}, [3]int{5, 4, 3}},
		{"who has more than it needs gives way to who needs it", 3, 0, [3]int{6, 4, 2}, [3]int{3, 4, 5}, [3]int{3, 4, 5}},
		{"where no workload has more than it needs none yields", 3, 0, [3]int{4, 4, 4}, [3]int{4, 4, 9}, [3]int{4, 4, 4}},
		{"room on machines in flight goes to the highest bid", 2, 0, [3]int{2, 2, 2}, [3]int{2, 2, 2}, [3]int{2, 2, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fleet(c.least, make([]int, c.machines), nil)
			var asks []nodescaler.Ask
			node := 0
			for w, name := range []string{"api", "render", "web"} {
				a := web(c.has[w], c.needs[w])
				a.Workload, a.Like.Workload = name, name
				for i := range 8 { // beyond what is needed web bids most
					a.Bid.Worth = append(a.Bid.Worth, float64(w)/float64(10+i))
				}
				asks = append(asks, a)
				for i := range c.has[w] {
					s.Pods = append(s.Pods, nodescaler.Pod{
						Pod:      podscaler.Pod{Name: fmt.Sprintf("%s-%d", name, i), Phase: podscaler.Running, Ready: true},
						Workload: name, Node: fmt.Sprintf("node-%d", node%c.machines+1), Requests: a.Like.Requests,
					})
					node++
				}
			}
			var got [3]int
			for i, p := range nodescaler.Share(nodescaler.NewIndex(s), asks) {
				got[i] = p.Filled
			}
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A machine with other pods remains, and its free room may be filled.
func TestWhatStaysForOthersIsFilled(t *testing.T) {
	s := fleet(0, []int{0, 0}, []int{1, 0})
	got := nodescaler.Share(nodescaler.NewIndex(s), []nodescaler.Ask{web(1, 1)})
	if got[0].Filled != 3 {
		t.Errorf("filled with %d, want 3 beside the one pod of another workload", got[0].Filled)
	}
}
