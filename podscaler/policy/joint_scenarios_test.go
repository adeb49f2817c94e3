package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

// needing is a policy that has learnt a service, and what it sees where so many replicas are
// needed.
func needing(t *testing.T, replicas, need int) (podscaler.Bidder, *podscaler.View) {
	p, v := joint(t, policy.Joint{}, 40)
	for rate := 1.0; ; rate++ {
		seen := calm(v.Workload, replicas, rate)
		none := *seen
		none.Replicas = 1 // what is kept of those that there are is no need
		if n := p.Bid(&none).Want; n == need {
			return p, seen
		} else if n > need {
			t.Fatalf("no load needs %d replicas", need)
		}
	}
}

// settled runs as often as it takes for a single replica more to be wanted for good.
func settled(p podscaler.Policy, v *podscaler.View) (r podscaler.Recommendation) {
	for range 4 {
		v.Now = v.Now.Add(time.Second)
		r = p.Desired(v)
	}
	return r
}

// fours has room for so many replicas, four to a machine of 10 an hour.
func fours(ready, coming, most int) *podscaler.Places {
	p := places(ready, coming, most)
	p.PerMachine = 4
	return p
}

// Scenarios 32 and 33: what is paid for is filled up to the machines that are needed; beyond it
// there are as many replicas as the limit leaves machines for.
func TestScenarios32And33ReplicasFillWhatIsPaidForAndNoMore(t *testing.T) {
	limited := func(p *podscaler.Places) *podscaler.Places {
		p.PerMachine, p.Next = 0, pricing.Rate(0)
		return p
	}
	filledTo := func(p *podscaler.Places, filled int) *podscaler.Places {
		p.Filled = filled
		return p
	}
	for _, c := range []struct {
		name               string
		replicas, need, to int
		places             *podscaler.Places
		reason             string
	}{
		{"9 on three machines fill them", 9, 9, 12, fours(12, 12, 12), podscaler.ReasonPaidPlacesFilled},
		{"13 under a limit of 30 stay 12", 12, 13, 12, limited(fours(12, 12, 12)), podscaler.ReasonPlacesLimited},
		{"13 under a limit of 40 want the fourth machine", 12, 13, 13, fours(12, 12, 16), podscaler.ReasonMarginalPrice},
		{"and fill it once it is ordered", 13, 13, 16, fours(12, 16, 16), podscaler.ReasonPaidPlacesFilled},
		{"12 stay 12 while three machines are on their way", 12, 12, 12, fours(12, 24, 24), podscaler.ReasonMarginalPrice},
		{"12 become 10 where all workloads together have room for one beside 9", 12, 9, 10, filledTo(fours(12, 12, 12), 10), podscaler.ReasonPaidPlacesFilled},
		{"9 stay 9 where others have not yet left the room that they do not need", 9, 9, 9, filledTo(fours(9, 9, 13), 12), podscaler.ReasonMarginalPrice},
		{"22 that are needed fill them", 22, 22, 24, fours(24, 24, 24), podscaler.ReasonPaidPlacesFilled},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, v := needing(t, c.replicas, c.need)
			v.Room.Places = c.places
			r := settled(p, v)
			if r.Replicas != c.to || !slices.ContainsFunc(r.Reasons, func(r podscaler.Reason) bool { return r.Code == c.reason }) {
				t.Errorf("from %d to %d, want %d with %s; %q", c.replicas, r.Replicas, c.to, c.reason, r.Reasons)
			}
		})
	}
}

// A load that has grown since the bid has no room yet, for no reason but that.
func TestJointSaysWhyThereIsNoRoomWhereNothingLimitsIt(t *testing.T) {
	p, v := needing(t, 12, 13)
	v.Room.Places = fours(12, 12, 12)
	v.Room.Places.Why = podscaler.Reason{}
	r := settled(p, v)
	i := slices.IndexFunc(r.Reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonPlacesLimited })
	if i < 0 || !strings.HasSuffix(r.Reasons[i].Text, ": no more was asked for in the run before") {
		t.Errorf("%q", r.Reasons)
	}
}
