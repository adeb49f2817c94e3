package rightsize

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
)

// Rule is how a node's capacity is shared out over its pods as limits.
type Rule string

// The rules. They share by requests, and each takes care not to mix units: CPU is only ever
// compared with memory as parts of a node.
const (
	// DRF is dominant resource fairness: every pod gets the same multiple of what it requests,
	// weighted, in terms of the resource of which it requests the largest part of the node; until a
	// resource is used up.
	DRF Rule = "drf"
	// MLFDRS is multi-level fair dominant resource scheduling, as its figures have it. A pod counts
	// in its dominant resource with at least an even share of the node, in the other with its
	// request. The node is shared out in proportion to that.
	MLFDRS Rule = "mlf-drs"
	// FFMRA is the fully fair multi-resource allocation: each resource is split into a part for the
	// pods it is dominant for, shared evenly, and one for the others, shared by requests. How large
	// the parts are follows from how much of the node all pods request of their dominant and of
	// their other resource.
	FFMRA Rule = "ffmra"
)

// Rules returns all rules.
func Rules() []Rule { return []Rule{DRF, MLFDRS, FFMRA} }

// ParseRule returns the rule of a name.
func ParseRule(name string) (Rule, error) {
	if !slices.Contains(Rules(), Rule(name)) {
		return "", fmt.Errorf("must be drf, mlf-drs or ffmra, was %q", name)
	}
	return Rule(name), nil
}

// Demand is what a pod on the node requests.
type Demand struct {
	Pod      string
	Requests pricing.Resources
	// Weight is how many times a pod counts under DRF, as many as it may be worth; 0 is 1.
	Weight int64
}

// Limit is what a pod may use. It is in whole millicores and mebibytes.
type Limit struct {
	Pod string `json:"pod"`
	// Dominant is the resource of which the pod requests the larger part of the node; CPU, if
	// equal.
	Dominant Resource          `json:"dominant"`
	Requests pricing.Resources `json:"requests"`
	// Limits are 0 for what the pod requests nothing of: it has no share, and there is no limit to
	// set.
	Limits  pricing.Resources `json:"limits"`
	Reasons []Reason          `json:"reasons"`
}

// FairLimits shares a node out over its pods, by name. All together they get no more than the node
// has.
func FairLimits(rule Rule, node pricing.Resources, pods []Demand) ([]Limit, error) {
	if err := validateDemands(node, pods); err != nil {
		return nil, err
	}
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b Demand) int { return cmp.Compare(a.Pod, b.Pod) })
	capacity, claims := claimsOf(node, sorted)
	var shares []amounts
	round := apportion
	switch rule {
	case DRF:
		shares = drf(capacity, claims)
	case MLFDRS:
		shares, round = mlfDRS(capacity, claims), truncate // the figures drop fractions
	case FFMRA:
		shares = ffmra(capacity, claims)
	default:
		_, err := ParseRule(string(rule))
		return nil, fmt.Errorf("rule: %w", err)
	}
	return limits(rule, node, sorted, claims, shares, round), nil
}

func validateDemands(node pricing.Resources, pods []Demand) error {
	faults := []error{
		refuse(node.CPU > 0, "node.cpu", "must be greater than 0", node.CPU),
		refuse(node.Memory > 0, "node.memory", "must be greater than 0", node.Memory),
		refuse(len(pods) > 0, "pods", "must be one or more", "none"),
	}
	seen := make(map[string]bool)
	for i, p := range pods {
		key := fmt.Sprintf("pods[%s]", p.Pod)
		faults = append(faults,
			refuse(p.Pod != "", fmt.Sprintf("pods[%d].name", i), "must be a pod's name", `""`),
			refuse(!seen[p.Pod], key, "must be there once", "twice"),
			refuse(p.Requests.CPU >= 0, key+".requests.cpu", "must be ≥ 0", p.Requests.CPU),
			refuse(p.Requests.Memory >= 0, key+".requests.memory", "must be ≥ 0", int64(p.Requests.Memory)),
			refuse(p.Requests != pricing.Resources{}, key+".requests", "must be greater than 0 of cpu or memory, which shares go by", "nothing"),
			refuse(p.Weight >= 0, key+".weight", "must be ≥ 0", p.Weight))
		seen[p.Pod] = true
	}
	return errors.Join(faults...)
}

// amounts are exact amounts of CPU, in millicores, and memory, in mebibytes.
type amounts [2]*big.Rat

// claim is a pod as the rules see it.
type claim struct {
	demand   amounts
	part     amounts // of the node
	dominant int     // index of the resource that the larger part is requested of
	weight   *big.Rat
}

func nothing() amounts { return amounts{new(big.Rat), new(big.Rat)} }

func exact(r pricing.Resources) amounts {
	return amounts{big.NewRat(int64(r.CPU), 1), big.NewRat(int64(r.Memory), int64(pricing.MiB))}
}

func claimsOf(node pricing.Resources, pods []Demand) (amounts, []claim) {
	capacity := exact(node)
	claims := make([]claim, len(pods))
	for i, p := range pods {
		c := claim{demand: exact(p.Requests), part: nothing(), weight: big.NewRat(max(p.Weight, 1), 1)}
		for r := range capacity {
			c.part[r].Quo(c.demand[r], capacity[r])
		}
		if c.part[1].Cmp(c.part[0]) > 0 {
			c.dominant = 1
		}
		claims[i] = c
	}
	return capacity, claims
}

// drf grows all pods at the same speed in their dominant resource, each times its weight. A pod
// stops when something that it requests is used up; the others go on.
func drf(capacity amounts, claims []claim) []amounts {
	left := amounts{new(big.Rat).Set(capacity[0]), new(big.Rat).Set(capacity[1])}
	shares := make([]amounts, len(claims))
	// Of each pod, per part of the node in its dominant resource.
	speed := make([]amounts, len(claims))
	growing := make(map[int]bool)
	for i, c := range claims {
		shares[i], speed[i] = nothing(), nothing()
		times := new(big.Rat).Quo(c.weight, c.part[c.dominant])
		for r := range capacity {
			speed[i][r].Mul(c.demand[r], times)
		}
		growing[i] = true
	}
	for len(growing) > 0 {
		full, by := firstFull(left, speed, growing)
		for i := range claims {
			if !growing[i] {
				continue
			}
			for r := range capacity {
				more := new(big.Rat).Mul(speed[i][r], by)
				shares[i][r].Add(shares[i][r], more)
				left[r].Sub(left[r], more)
			}
			if speed[i][full].Sign() > 0 {
				delete(growing, i)
			}
		}
	}
	return shares
}

// firstFull returns the resource that growing pods use up first, and how far they grow until then.
func firstFull(left amounts, speed []amounts, growing map[int]bool) (full int, by *big.Rat) {
	for r := range left {
		sum := new(big.Rat)
		for i := range growing { // a sum of exact numbers is the same in any order
			sum.Add(sum, speed[i][r])
		}
		if sum.Sign() == 0 {
			continue
		}
		if until := new(big.Rat).Quo(left[r], sum); by == nil || until.Cmp(by) < 0 {
			full, by = r, until
		}
	}
	return full, by
}

// mlfDRS shares each resource in proportion to requests, of which the dominant ones are raised to
// an even share of the node. The text of its paper adds a second stage to that, with other
// results than its own figures, and with CPU's even share where memory's is meant.
func mlfDRS(capacity amounts, claims []claim) []amounts {
	shares := make([]amounts, len(claims))
	for i := range shares {
		shares[i] = nothing()
	}
	for r := range capacity {
		even := new(big.Rat).Quo(capacity[r], big.NewRat(int64(len(claims)), 1))
		counts := make([]*big.Rat, len(claims))
		for i, c := range claims {
			counts[i] = c.demand[r]
			if c.dominant == r && even.Cmp(counts[i]) > 0 {
				counts[i] = even
			}
		}
		split(capacity[r], counts, func(i int) *big.Rat { return shares[i][r] })
	}
	return shares
}

// ffmra splits each resource between those it is dominant for and the others. Its paper splits the
// sum of all capacities first, and that split by resource; the sum, which would mix units, cancels
// out. MixedPools shows it.
func ffmra(capacity amounts, claims []claim) []amounts {
	dominant, all := new(big.Rat), new(big.Rat)
	for _, c := range claims {
		dominant.Add(dominant, c.part[c.dominant])
		all.Add(all, new(big.Rat).Add(c.part[0], c.part[1]))
	}
	part := new(big.Rat).Quo(dominant, all)
	shares := make([]amounts, len(claims))
	for i := range shares {
		shares[i] = nothing()
	}
	for r := range capacity {
		pool := new(big.Rat).Mul(capacity[r], part)
		evenly, byRequest := make([]*big.Rat, len(claims)), make([]*big.Rat, len(claims))
		for i, c := range claims {
			evenly[i], byRequest[i] = new(big.Rat), new(big.Rat)
			if c.dominant == r {
				evenly[i].SetInt64(1)
			} else {
				byRequest[i] = c.demand[r]
			}
		}
		of := func(i int) *big.Rat { return shares[i][r] }
		split(pool, evenly, of)
		split(new(big.Rat).Sub(capacity[r], pool), byRequest, of)
	}
	return shares
}

// split adds to each share its part of a pool, in proportion to what it counts. If no one counts,
// no one gets it.
func split(pool *big.Rat, counts []*big.Rat, share func(i int) *big.Rat) {
	sum := new(big.Rat)
	for _, c := range counts {
		sum.Add(sum, c)
	}
	if sum.Sign() == 0 {
		return
	}
	for i, c := range counts {
		part := new(big.Rat).Quo(c, sum)
		share(i).Add(share(i), part.Mul(part, pool))
	}
}

// limits rounds shares to whole units and says how each came about.
func limits(rule Rule, node pricing.Resources, pods []Demand, claims []claim, shares []amounts, round func([]*big.Rat) []int64) []Limit {
	all := make([]Limit, len(pods))
	for i, p := range pods {
		all[i] = Limit{Pod: p.Pod, Dominant: both[claims[i].dominant], Requests: p.Requests}
	}
	for r, resource := range both {
		column := make([]*big.Rat, len(shares))
		for i := range shares {
			column[i] = shares[i][r]
		}
		unit := []int64{1, int64(pricing.MiB)}[r]
		for i, v := range round(column) {
			resource.set(&all[i].Limits, v*unit)
		}
	}
	for i := range all {
		all[i].explain(rule, node)
	}
	return all
}

func (l *Limit) explain(rule Rule, node pricing.Resources) {
	percent := func(r Resource) float64 { return 100 * float64(r.of(l.Limits)) / float64(r.of(node)) }
	l.Reasons = append(l.Reasons, because(ReasonShare, "%s gives it %.0f %% of the node's CPU and %.0f %% of its memory; %s is dominant",
		strings.ToUpper(string(rule)), percent(CPU), percent(Memory), l.Dominant))
	for _, r := range both {
		limit, request := r.of(l.Limits), r.of(l.Requests)
		if limit < request {
			l.Reasons = append(l.Reasons, because(ReasonBelowRequest, "its share of %s, %s, is less than its request, %s: a limit cannot be",
				r, r.text(limit), r.text(request)))
		}
	}
}

// truncate drops fractions.
func truncate(shares []*big.Rat) []int64 {
	whole := make([]int64, len(shares))
	for i, s := range shares {
		whole[i] = new(big.Int).Quo(s.Num(), s.Denom()).Int64()
	}
	return whole
}

// apportion rounds to whole units whose sum is that of the shares without its fraction: what is
// dropped goes to the largest fractions, one each; ties go to the first name.
func apportion(shares []*big.Rat) []int64 {
	whole, sum := truncate(shares), new(big.Rat)
	order := make([]int, len(shares))
	fractions := make([]*big.Rat, len(shares))
	for i, s := range shares {
		sum.Add(sum, s)
		order[i] = i
		fractions[i] = new(big.Rat).Sub(s, big.NewRat(whole[i], 1))
	}
	left := truncate([]*big.Rat{sum})[0]
	for _, w := range whole {
		left -= w
	}
	slices.SortStableFunc(order, func(a, b int) int { return fractions[b].Cmp(fractions[a]) })
	for _, i := range order[:left] {
		whole[i]++
	}
	return whole
}

// MixedPools returns the two parts of the node's whole capacity that FFMRA's paper prints, for pods
// by their dominant and by their other resource. It MIXES UNITS, as the paper does: millicores are
// added to memory in the given unit, and what comes out is a number of nothing, another one in
// every unit. It is here to be shown beside FFMRA's limits, which do not need it.
func MixedPools(node pricing.Resources, pods []Demand, unit pricing.Bytes) (dominant, other float64, err error) {
	if err := validateDemands(node, pods); err != nil {
		return 0, 0, err
	}
	_, claims := claimsOf(node, pods)
	sums := [2]float64{}
	for _, c := range claims {
		for r := range c.part {
			part, _ := c.part[r].Float64()
			if r == c.dominant {
				sums[0] += part
			} else {
				sums[1] += part
			}
		}
	}
	whole := float64(node.CPU) + float64(node.Memory)/float64(unit)
	all := sums[0] + sums[1]
	return whole * sums[0] / all, whole * sums[1] / all, nil
}
