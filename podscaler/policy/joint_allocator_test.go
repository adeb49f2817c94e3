package policy_test

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
)

// Six pods of half a core that answer 40 requests a second need no seventh. With so many in flight
// they hold a queue, for which seven are wanted, or many more once it is seen to be of users.
func TestAMachineForOneReplicaWaitsUntilSeveralRunsWantIt(t *testing.T) {
	const none, small, large = 4.8, 22, 120
	for _, c := range []struct {
		name     string
		inFlight []float64 // run by run
		to       []int
	}{
		{"a queue that one run sees", []float64{small, none, small, none}, []int{6, 6, 6, 6}},
		{"one that four in a row see", []float64{small, small + 1, small, small + 1, small}, []int{6, 6, 6, 6, 7}},
		{"one that needs more than a machine's worth", []float64{large, large + 1}, []int{6, 12}},
		{"one that grows, as of requests that do not depend on each other", []float64{100, 200, 300}, []int{6, 9, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, v := joint(t, policy.Joint{}, 40)
			v.Room.Places = places(6, 6, 12)
			for i, n := range c.inFlight {
				v.Now = v.Now.Add(5 * time.Second)
				v.Window.InFlight = podscaler.Known(n)
				if r := p.Desired(v); r.Replicas != c.to[i] {
					t.Errorf("run %d, with %v in flight: goes to %d, should to %d: %q", i+1, n, r.Replicas, c.to[i], r.Reasons)
				}
			}
		})
	}
}
