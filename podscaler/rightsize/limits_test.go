package rightsize

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
)

const mi = pricing.MiB

func pair(cpu, mem int64) pricing.Resources {
	return pricing.Resources{CPU: pricing.MilliCPU(cpu), Memory: pricing.Bytes(mem) * mi}
}

// The pods of the survey's figures 9 and 10: what they request, and in figure 9 their limits.
var (
	fourPods = []Demand{
		{Pod: "frontend", Requests: pair(330, 50)}, {Pod: "frontend1", Requests: pair(555, 150)},
		{Pod: "frontend2", Requests: pair(111, 250)}, {Pod: "frontend3", Requests: pair(222, 350)},
	}
	twoPods   = []Demand{{Pod: "pod1", Requests: pair(100, 400)}, {Pod: "pod2", Requests: pair(300, 100)}}
	twoLimits = []Demand{{Pod: "pod1", Requests: pair(200, 650)}, {Pod: "pod2", Requests: pair(400, 300)}}
)

func TestLimitsOfThePaper(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		node pricing.Resources
		pods []Demand
		want []pricing.Resources
	}{
		// Figure 10 prints 779m for frontend1, a slip for 799m; the other seven numbers are these.
		// The memory is that of figure 9's node: with the 1990Mi or 2000Mi of the text only three
		// are.
		{"figure 10", MLFDRS, pair(2000, 1800), fourPods, []pricing.Resources{pair(720, 81), pair(799, 245), pair(159, 736), pair(319, 736)}},
		{"section VIII A, of figure 9's requests", DRF, pair(900, 1800), twoPods, []pricing.Resources{pair(300, 1200), pair(600, 200)}},
		{"scenario 40: of figure 9's limits, which the text takes for demands", DRF, pair(900, 1800), twoLimits, []pricing.Resources{pair(343, 1114), pair(557, 418)}},
		{"section VIII C", FFMRA, pair(2000, 2000), fourPods, []pricing.Resources{pair(736, 132), pair(736, 396), pair(176, 736), pair(352, 736)}},
		{"twice the weight, twice the dominant share", DRF, pair(900, 900), []Demand{
			{Pod: "a", Requests: pair(100, 10)}, {Pod: "b", Requests: pair(100, 10), Weight: 2},
		}, []pricing.Resources{pair(300, 30), pair(600, 60)}},
		{"who asks for no CPU goes on when it is used up", DRF, pair(1000, 1000), []Demand{
			{Pod: "a", Requests: pair(500, 0)}, {Pod: "b", Requests: pair(500, 0)}, {Pod: "c", Requests: pair(0, 500)},
		}, []pricing.Resources{pair(500, 0), pair(500, 0), pair(0, 1000)}},
		{"nobody is dominant in memory", FFMRA, pair(1000, 1000), []Demand{
			{Pod: "a", Requests: pair(200, 100)}, {Pod: "b", Requests: pair(400, 100)},
		}, []pricing.Resources{pair(375, 125), pair(375, 125)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := FairLimits(c.rule, c.node, c.pods)
			if err != nil {
				t.Fatal(err)
			}
			var got []pricing.Resources
			for _, l := range all {
				got = append(got, l.Limits)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestAShareBelowTheRequestIsTold(t *testing.T) {
	all, err := FairLimits(DRF, pair(1000, 1000), []Demand{{Pod: "large", Requests: pair(700, 10)}, {Pod: "small", Requests: pair(100, 10)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Reason{
		{Code: ReasonShare, Text: "DRF gives it 50 % of the node's CPU and 1 % of its memory; cpu is dominant"},
		{Code: ReasonBelowRequest, Text: "its share of cpu, 500m, is less than its request, 700m: a limit cannot be"},
		{Code: ReasonBelowRequest, Text: "its share of memory, 7Mi, is less than its request, 10Mi: a limit cannot be"},
	}
	if d := cmp.Diff(want, all[0].Reasons); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestDemandsThatMeanNothingAreRefused(t *testing.T) {
	_, err := FairLimits(DRF, pricing.Resources{CPU: 0, Memory: -1}, []Demand{
		{Requests: pair(1, 1)}, {Pod: "a", Requests: pair(-1, 1), Weight: -2}, {Pod: "a"},
	})
	want := `node.cpu: must be greater than 0, was 0
node.memory: must be greater than 0, was -1B
pods[0].name: must be a pod's name, was ""
pods[a].requests.cpu: must be ≥ 0, was -1m
pods[a].weight: must be ≥ 0, was -2
pods[a]: must be there once, was twice
pods[a].requests: must be greater than 0 of cpu or memory, which shares go by, was nothing`
	if err == nil || err.Error() != want {
		t.Errorf("refused with\n%v\nwant\n%s", err, want)
	}
	if _, err := FairLimits("fair", pair(1, 1), twoPods); err == nil || err.Error() != `rule: must be drf, mlf-drs or ffmra, was "fair"` {
		t.Errorf("an unknown rule is refused with %v", err)
	}
}

// FFMRA's pools, as its paper has them, are numbers of nothing: another unit of memory, another
// number. Of the whole they are the same part in every unit, which is why the limits do not depend
// on it.
func TestMixedPoolsDependOnTheUnit(t *testing.T) {
	for unit, want := range map[pricing.Bytes]string{mi: "2943.5 + 1056.5", pricing.GiB: "1473.2 + 528.8", pricing.MB: "3015.0 + 1082.2"} {
		dominant, other, err := MixedPools(pair(2000, 2000), fourPods, unit)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%.1f + %.1f", dominant, other); got != want {
			t.Errorf("in units of %s: %s, want %s", unit, got, want)
		}
	}
}

// drawNode draws a node and pods, some of which ask for nothing of one resource.
func drawNode(t *rapid.T) (pricing.Resources, []Demand) {
	node := pair(rapid.Int64Range(1, 64000).Draw(t, "cpu"), rapid.Int64Range(1, 64000).Draw(t, "memory"))
	var pods []Demand
	for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
		d := Demand{Pod: fmt.Sprint("p", i), Weight: rapid.Int64Range(0, 3).Draw(t, "weight")}
		d.Requests = pair(rapid.Int64Range(0, 2000).Draw(t, "cpu"), rapid.Int64Range(0, 2000).Draw(t, "memory"))
		if d.Requests == (pricing.Resources{}) {
			d.Requests.CPU = 1
		}
		pods = append(pods, d)
	}
	return node, pods
}

func TestNoRuleGivesMoreThanTheNodeHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, pods := drawNode(t)
		for _, rule := range Rules() {
			all, err := FairLimits(rule, node, pods)
			if err != nil {
				t.Fatal(err)
			}
			var sum pricing.Resources
			for i, l := range all {
				sum = sum.Plus(l.Limits)
				for _, r := range both {
					if r.of(l.Requests) == 0 && r.of(l.Limits) != 0 && (rule == DRF || l.Dominant != r) {
						t.Errorf("%s: pod %d asks for no %s and gets %d", rule, i, r, r.of(l.Limits))
					}
				}
			}
			if !sum.Within(node) {
				t.Errorf("%s gives %+v of %+v", rule, sum, node)
			}
			back, err := FairLimits(rule, node, reversed(pods))
			if d := cmp.Diff(all, back); d != "" || err != nil {
				t.Errorf("%s: in another order of pods: %v\n%s", rule, err, d)
			}
		}
	})
}

func reversed(pods []Demand) []Demand {
	var back []Demand
	for _, p := range pods {
		back = append([]Demand{p}, back...)
	}
	return back
}

// Whole units are within one of the exact share, so that what holds exactly holds but for one.
func TestLimitsAreWithinOneUnitOfTheExactShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var shares []*big.Rat
		for range rapid.IntRange(1, 9).Draw(t, "n") {
			shares = append(shares, big.NewRat(rapid.Int64Range(0, 1000).Draw(t, "numerator"), rapid.Int64Range(1, 30).Draw(t, "denominator")))
		}
		exact, whole := new(big.Rat), int64(0)
		for i, w := range apportion(shares) {
			if diff := new(big.Rat).Sub(big.NewRat(w, 1), shares[i]); diff.Abs(diff).Cmp(big.NewRat(1, 1)) >= 0 {
				t.Errorf("%s becomes %d", shares[i], w)
			}
			exact.Add(exact, shares[i])
			whole += w
		}
		if want := new(big.Int).Quo(exact.Num(), exact.Denom()).Int64(); whole != want {
			t.Errorf("%s in all becomes %d, want %d", exact, whole, want)
		}
	})
}

// times is how many times over a share holds what a pod demands: what it can do with it.
func (c *claim) times(share amounts) *big.Rat {
	var most *big.Rat
	for r, d := range c.demand {
		if d.Sign() == 0 {
			continue
		}
		if n := new(big.Rat).Quo(share[r], d); most == nil || n.Cmp(most) < 0 {
			most = n
		}
	}
	return most
}

func TestDRFLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, pods := drawNode(t)
		capacity, claims := claimsOf(node, pods)
		shares := drf(capacity, claims)
		sum, weights := nothing(), new(big.Rat)
		for i, c := range claims {
			weights.Add(weights, c.weight)
			for r := range sum {
				sum[r].Add(sum[r], shares[i][r])
			}
		}
		for r := range sum {
			if sum[r].Cmp(capacity[r]) > 0 {
				t.Fatalf("%s of %s is given", sum[r], capacity[r])
			}
		}
		for i, c := range claims {
			got := c.times(shares[i])
			// Sharing incentive: no pod would be better off with its weight's part of the node.
			own := nothing()
			for r := range own {
				own[r].Mul(capacity[r], new(big.Rat).Quo(c.weight, weights))
			}
			if c.times(own).Cmp(got) > 0 {
				t.Errorf("pod %d can do %s, and %s with its part of the node", i, got, c.times(own))
			}
			// Pareto efficiency: if a pod could use more of a resource, something that it needs is
			// used up.
			full := false
			for r := range sum {
				full = full || c.demand[r].Sign() > 0 && sum[r].Cmp(capacity[r]) == 0
			}
			if !full {
				t.Errorf("pod %d could have more", i)
			}
			// No envy: no pod would rather have another's share, for the same weight.
			for j, other := range claims {
				theirs := nothing()
				for r := range theirs {
					theirs[r].Mul(shares[j][r], new(big.Rat).Quo(c.weight, other.weight))
				}
				if c.times(theirs).Cmp(got) > 0 {
					t.Errorf("pod %d envies %d: %s, and %s", i, j, got, c.times(theirs))
				}
			}
		}
	})
}

// FFMRA as printed goes through the sum of all capacities. It cancels out in every unit: these are
// the limits that come of it, beside those that never mix.
func TestTheMixedSumCancelsOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, pods := drawNode(t)
		unit := rapid.SampledFrom([]pricing.Bytes{1, mi, pricing.GB}).Draw(t, "unit")
		dominant, other, err := MixedPools(node, pods, unit)
		if err != nil {
			t.Fatal(err)
		}
		capacity, claims := claimsOf(node, pods)
		sum := new(big.Rat)
		for _, c := range claims {
			sum.Add(sum, new(big.Rat).Add(c.part[0], c.part[1]))
		}
		for r := range capacity {
			of, pool := nothing(), new(big.Rat)
			for i, share := range ffmra(capacity, claims) {
				if claims[i].dominant == r {
					pool.Add(pool, share[r])
				}
				of[r].Add(of[r], share[r])
			}
			if pool.Sign() == 0 {
				continue // nobody's dominant resource
			}
			want := dominant / (dominant + other)
			if got, _ := new(big.Rat).Quo(pool, capacity[r]).Float64(); got < want-1e-9 || got > want+1e-9 {
				t.Errorf("%s: dominant pods get %g of it, and %g as printed", both[r], got, want)
			}
		}
	})
}

func TestRulesAreReadByName(t *testing.T) {
	for _, r := range Rules() {
		if got, err := ParseRule(string(r)); got != r || err != nil {
			t.Errorf("%s is read as %s, %v", r, got, err)
		}
	}
	if _, err := ParseRule("DRF"); err == nil || !strings.Contains(err.Error(), `was "DRF"`) {
		t.Errorf("DRF is read with %v", err)
	}
}
