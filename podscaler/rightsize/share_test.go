package rightsize

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// onNode is a pod of a node with containers that share it.
type onNode struct {
	name       string
	wants      Wants
	containers []Container
	beside     pricing.Resources // what the pod requests beside its containers
}

func sharedNode(allocatable pricing.Resources, aside pricing.Resources, pods ...onNode) *Shared {
	n := NewShared("a", allocatable)
	n.SetAside(aside)
	for _, p := range pods {
		requests := p.beside
		for _, c := range p.containers {
			requests = requests.Plus(c.asks())
		}
		n.Add(p.name, requests, &Pod{Running: true, Containers: p.containers}, &p.wants)
	}
	return n
}

// asking is a pod of one container.
func asking(name string, rule Rule, requests pricing.Resources) onNode {
	return onNode{name: name, wants: Wants{Mode: InPlace, Limits: rule}, containers: []Container{{Name: "app", Requests: requests}}}
}

// said prints what all that share a node may use.
func said(n *Shared) (all []string) {
	for i, share := range n.share() {
		s := &n.among[i]
		text := fmt.Sprintf("%s/%s %dm %dMi", s.pod, s.Name, share.limits.CPU, share.limits.Memory/mi)
		if share.short {
			text = fmt.Sprintf("%s/%s short", s.pod, s.Name)
		}
		all = append(all, text)
	}
	return all
}

func TestNodesAreShared(t *testing.T) {
	two := func(a, b Rule) []onNode {
		return []onNode{asking("pod1", a, pair(100, 400)), asking("pod2", b, pair(300, 100))}
	}
	with := func(change func(*onNode), p onNode) []onNode {
		change(&p)
		return []onNode{p, asking("z", DRF, pair(100, 100))}
	}
	for _, c := range []struct {
		name        string
		node, aside pricing.Resources
		pods        []onNode
		want        []string
	}{
		{"as the survey has it", pair(900, 1800), pair(0, 0), two(DRF, DRF), []string{"pod1/app 300m 1200Mi", "pod2/app 600m 200Mi"}},
		{"what all else requests is set aside", pair(1000, 2000), pair(100, 200), two(DRF, DRF), []string{"pod1/app 300m 1200Mi", "pod2/app 600m 200Mi"}},
		{"so is what a pod requests beside its containers", pair(1000, 2000), pair(0, 0), func() []onNode {
			pods := two(DRF, DRF)
			pods[0].beside = pair(100, 200)
			return pods
		}(), []string{"pod1/app 300m 1200Mi", "pod2/app 600m 200Mi"}},
		{"each rule has its part, by what is requested", pair(800, 1000), pair(0, 0), two(DRF, FFMRA), []string{"pod1/app 200m 800Mi", "pod2/app 300m 100Mi"}},
		{"one that would have less than it requests leaves the rest", pair(1000, 1000), pair(0, 0),
			[]onNode{asking("large", DRF, pair(700, 10)), asking("small", DRF, pair(100, 10))}, []string{"large/app short", "small/app 300m 30Mi"}},
		{"all request more than there is", pair(1000, 1000), pair(0, 0),
			[]onNode{asking("a", DRF, pair(700, 10)), asking("b", DRF, pair(700, 10))}, []string{"a/app short", "b/app short"}},
		{"nothing is left", pair(1000, 1000), pair(2000, 0), two(DRF, MLFDRS), []string{"pod1/app short", "pod2/app short"}},
		{"nothing is left of what none requests", pair(1000, 1000), pair(1000, 0),
			[]onNode{asking("a", DRF, pair(0, 100)), asking("b", FFMRA, pair(0, 100))}, []string{"a/app 0m 500Mi", "b/app 0m 500Mi"}},
		{"a container that is left alone", pair(1000, 1000), pair(0, 0), with(func(p *onNode) {
			p.wants.Policies = Policies{{Container: "app", Off: true}}
		}, asking("a", DRF, pair(500, 500))), []string{"z/app 500m 500Mi"}},
		{"one that requests nothing", pair(1000, 1000), pair(0, 0), with(func(*onNode) {}, asking("a", DRF, pair(0, 0))), []string{"z/app 1000m 1000Mi"}},
		{"limits that are requests stay", pair(1000, 1000), pair(0, 0), with(func(p *onNode) {
			p.containers[0].Limits = pair(500, 500)
		}, asking("a", DRF, pair(500, 500))), []string{"z/app 500m 500Mi"}},
		{"a limit without a request is one", pair(1000, 1000), pair(0, 0), with(func(p *onNode) {
			p.containers[0].Requests.CPU, p.containers[0].Limits.CPU = 0, 100
		}, asking("a", DRF, pair(0, 100))), []string{"a/app 500m 500Mi", "z/app 500m 500Mi"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, said(sharedNode(c.node, c.aside, c.pods...))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// filled is DRF, slow and obvious. Every container takes one more spoon of what it requests, and
// all spoons are as large in their dominant resource. It stops when something that it requests has
// run out: there was no full spoon of it for one of them.
func filled(node pricing.Resources, asks []pricing.Resources, spoons int) [][2]float64 {
	capacity := [2]float64{float64(node.CPU), float64(node.Memory) / float64(mi)}
	left, out, has := capacity, [2]bool{}, make([][2]float64, len(asks))
	for range spoons {
		for i, a := range asks {
			demand := [2]float64{float64(a.CPU), float64(a.Memory) / float64(mi)}
			dominant := max(demand[0]/capacity[0], demand[1]/capacity[1])
			spoon := [2]float64{demand[0] / dominant / float64(spoons), demand[1] / dominant / float64(spoons)}
			for r := range spoon {
				out[r] = out[r] || spoon[r] > left[r]
			}
			if demand[0] > 0 && out[0] || demand[1] > 0 && out[1] {
				continue
			}
			for r := range spoon {
				has[i][r] += spoon[r]
				left[r] -= spoon[r]
			}
		}
	}
	return has
}

// What containers have of a node by DRF is what they would fill themselves, spoon by spoon, but for
// the size of the spoons.
func TestSharesAreThoseOfTheSlowTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, demands := drawNode(t)
		const spoons = 10_000
		var pods []onNode
		for _, d := range demands {
			pods = append(pods, asking(d.Pod, DRF, d.Requests))
		}
		aside := pair(rapid.Int64Range(0, int64(node.CPU)-1).Draw(t, "aside"), rapid.Int64Range(0, int64(node.Memory/mi)-1).Draw(t, "aside"))
		n := sharedNode(node, aside, pods...)
		shares := n.share()
		left := node.Minus(aside)
		var in []int
		for i := range shares { // those that have no share only leave what they do not request
			if shares[i].short {
				left = left.Minus(n.among[i].asks())
			} else {
				in = append(in, i)
			}
		}
		if len(in) == 0 || left.CPU <= 0 || left.Memory <= 0 {
			return
		}
		var asks []pricing.Resources
		for _, i := range in {
			asks = append(asks, n.among[i].asks())
		}
		for at, want := range filled(left, asks, spoons) {
			got := shares[in[at]].limits
			for r, amount := range [2]float64{float64(got.CPU), float64(got.Memory) / float64(mi)} {
				all := [2]float64{float64(left.CPU), float64(left.Memory) / float64(mi)}[r]
				if off := math.Abs(amount - want[r]); off > 2+3*float64(len(in))*all/spoons {
					t.Fatalf("%s has %g of %s, and its twin %g, of %g", n.among[in[at]].pod, amount, both[r], want[r], all)
				}
			}
		}
	})
}

// drawShared draws a node that has what its pods request, and pods that share it by any rule.
func drawShared(t *rapid.T) (node, aside pricing.Resources, pods []onNode) {
	for i := range rapid.IntRange(1, 6).Draw(t, "pods") {
		p := onNode{name: fmt.Sprint("p", i), wants: Wants{Mode: InPlace, Limits: rapid.SampledFrom(Rules()).Draw(t, "rule")}}
		for j := range rapid.IntRange(1, 2).Draw(t, "containers") {
			c := Container{Name: fmt.Sprint("c", j), Requests: pair(rapid.Int64Range(0, 2000).Draw(t, "cpu"), rapid.Int64Range(0, 2000).Draw(t, "memory"))}
			for _, r := range both {
				if rapid.Bool().Draw(t, "limited") {
					r.set(&c.Limits, r.of(c.Requests)*rapid.Int64Range(1, 8).Draw(t, "times"))
				}
			}
			p.containers, node = append(p.containers, c), node.Plus(c.asks())
		}
		pods = append(pods, p)
	}
	aside = pair(rapid.Int64Range(0, 2000).Draw(t, "aside"), rapid.Int64Range(0, 2000).Draw(t, "aside"))
	return node.Plus(aside).Plus(pair(rapid.Int64Range(1, 8000).Draw(t, "cpu"), rapid.Int64Range(1, 8000).Draw(t, "memory"))), aside, pods
}

// No container may use more than its node has, and all together, with what everything else
// requests, no more than that either. One that has a share has at least what it requests.
func TestNoPodIsAboveItsNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, aside, pods := drawShared(t)
		n := sharedNode(node, aside, pods...)
		sum := node.Minus(n.left)
		for i, share := range n.share() {
			s := &n.among[i]
			if share.short {
				sum = sum.Plus(s.asks())
				continue
			}
			sum = sum.Plus(share.limits)
			if !s.asks().Within(share.limits) {
				t.Fatalf("%s/%s requests %v and may use %v", s.pod, s.Name, s.asks(), share.limits)
			}
		}
		if !sum.Within(node) {
			t.Fatalf("%v of %v", sum, node)
		}
		slices.Reverse(pods)
		back := sharedNode(node, aside, pods...)
		a, b := said(n), said(back)
		slices.Sort(a)
		slices.Sort(b)
		if d := cmp.Diff(a, b); d != "" {
			t.Fatalf("in another order of pods:\n%s", d)
		}
	})
}

// Pods of a node are limited in any order. No limit is raised while the node has no room for it
// beside the others. No limit is set below what is requested, or to less memory than is used. In
// the end no limit of CPU is more than its share.
func TestLimitsAreSetOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, aside, pods := drawShared(t)
		n := sharedNode(node, aside, pods...)
		candidates := make([]Candidate, len(pods))
		for i, p := range pods {
			candidates[i] = Candidate{Name: p.name, Node: n, Pod: Pod{Running: true, Containers: p.containers}}
			for _, c := range p.containers {
				uses := podscaler.ContainerUse{Name: c.Name}
				uses.Memory = podscaler.Sample{Known: rapid.IntRange(0, 3).Draw(t, "known") > 0, Value: float64(mi) * rapid.Float64Range(0, 3000).Draw(t, "used")}
				candidates[i].Uses = append(candidates[i].Uses, uses)
			}
		}
		fixed := false // a pod has more, and may not be made guaranteed
		set := func(p *Candidate) bool {
			changes, why := n.limit(p, nil)
			fixed = fixed || slices.ContainsFunc(why, func(r Reason) bool { return r.Code == ReasonQoSFixed })
			if len(changes) > 0 && len(why) == 0 {
				t.Fatalf("%s: %v without a reason", p.Name, changes)
			}
			for _, c := range changes {
				at := slices.IndexFunc(p.Containers, func(o Container) bool { return o.Name == c.Container })
				was := p.Containers[at]
				for _, r := range both {
					limit, old := r.of(c.Limits), r.of(was.Limits)
					switch {
					case limit > 0 && limit < was.request(r), limit == 0 && old > 0:
						t.Fatalf("%s: limit of %s %d, of a request of %d", p.Name, r, limit, was.request(r))
					case r == Memory && limit > 0 && (limit < old || old == 0) && !(p.Uses[at].Memory.Known && p.Uses[at].Memory.Value <= float64(limit)):
						t.Fatalf("%s: memory is lowered from %d to %d below what is used: %v", p.Name, old, limit, p.Uses[at].Memory)
					}
				}
			}
			raised := slices.ContainsFunc(changes, func(c Change) bool {
				was := p.Containers[slices.IndexFunc(p.Containers, func(o Container) bool { return o.Name == c.Container })]
				return was.Limits.CPU > 0 && c.Limits.CPU > was.Limits.CPU
			})
			p.Containers = p.changed(changes)
			n.Took(p.Name, changes)
			if sum := taken(n); raised && sum.CPU > n.left.CPU {
				t.Fatalf("%s is raised, and %v of %v is taken", p.Name, sum, n.left)
			}
			return len(changes) > 0
		}
		for range 30 {
			set(&candidates[rapid.IntRange(0, len(candidates)-1).Draw(t, "pod")])
		}
		for round := 0; ; round++ {
			changed := false
			for i := range candidates {
				changed = set(&candidates[i]) || changed
			}
			if !changed {
				break
			}
			if round > 10 {
				t.Fatalf("limits do not settle: %v", candidates)
			}
		}
		if fixed {
			return
		}
		for i, share := range n.share() {
			if s := &n.among[i]; !share.short && s.Limits.CPU > share.limits.CPU && share.limits.CPU > 0 {
				t.Fatalf("%s/%s is limited to %v, and its share is %v", s.pod, s.Name, s.Limits, share.limits)
			}
		}
		if sum := taken(n); sum.CPU > n.left.CPU {
			t.Fatalf("in the end %v of %v is taken", sum, n.left)
		}
	})
}

// taken is what all that share a node take of it.
func taken(n *Shared) (sum pricing.Resources) {
	for i, share := range n.share() {
		sum = sum.Plus(n.among[i].takes(n.among[i].Limits, share))
	}
	return sum
}

// What is done about the limits of one pod, and why.
func TestLimit(t *testing.T) {
	uses := func(mebibytes float64) []podscaler.ContainerUse {
		return []podscaler.ContainerUse{{Name: "app", Memory: podscaler.Sample{Known: true, Value: mebibytes * float64(mi)}}}
	}
	app := Container{Name: "app", Requests: pair(100, 100)}
	with := func(change func(*Container)) Container { c := app; change(&c); return c }
	limited := func(cpu, memory int64) Container { return with(func(c *Container) { c.Limits = pair(cpu, memory) }) }
	for _, c := range []struct {
		name    string
		pod     Container // beside another one that may use 500m and 500Mi of 1000m and 1000Mi
		other   pricing.Resources
		wants   Wants
		uses    []podscaler.ContainerUse
		changes []Change
		want    string
		codes   []string
	}{
		{name: "no limit", pod: app, uses: uses(90), want: "100m 100Mi of 500m 500Mi", codes: []string{"Share"}},
		{name: "more than its share", pod: limited(600, 600), uses: uses(90), want: "100m 100Mi of 500m 500Mi", codes: []string{"Share"}},
		{name: "its share", pod: limited(500, 500), uses: uses(90)},
		{name: "less by less than a tenth", pod: limited(460, 460), uses: uses(90)},
		{name: "less by a tenth", pod: limited(450, 450), other: pair(500, 500), uses: uses(90), want: "100m 100Mi of 500m 500Mi", codes: []string{"Share"}},
		{name: "less, while the other has more than its share", pod: limited(400, 400), other: pair(600, 550), uses: uses(90), codes: []string{"OverNode", "OverNode"}},
		{name: "more memory is in use", pod: limited(600, 600), uses: uses(501), want: "100m 100Mi of 500m 600Mi", codes: []string{"Share", "BelowUse"}},
		{name: "how much is not known", pod: app, want: "100m 100Mi of 500m 0Mi", codes: []string{"Share", "BelowUse"}},
		{name: "it would restart", pod: with(func(c *Container) { c.Restarts = []Resource{Memory} }), uses: uses(90), want: "100m 100Mi of 500m 0Mi", codes: []string{"Share", "Restarts"}},
		{name: "only CPU is sized", pod: app, wants: Wants{Policies: Policies{{Container: "app", Controls: []Resource{CPU}}}}, want: "100m 100Mi of 500m 0Mi", codes: []string{"Share"}},
		{name: "no memory is requested", pod: with(func(c *Container) { c.Requests.Memory = 0 }), want: "100m 0Mi of 500m 0Mi", codes: []string{"Share"}},
		{name: "requests change, and limits with them", pod: limited(200, 200), uses: uses(90), changes: []Change{{"app", false, pair(200, 100), pair(400, 200)}},
			want: "200m 100Mi of 500m 250Mi", codes: []string{"Share"}},
		{name: "they change to more than its share", pod: limited(200, 200), uses: uses(90), changes: []Change{{"app", false, pair(950, 100), pair(1900, 200)}},
			want: "950m 100Mi of 950m 200Mi", codes: []string{"BelowRequest"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.wants.Mode, c.wants.Limits = InPlace, DRF
			other := asking("z", DRF, pair(100, 100))
			other.containers[0].Limits = c.other
			n := sharedNode(pair(1000, 1000), pair(0, 0), onNode{name: "a", wants: c.wants, containers: []Container{c.pod}}, other)
			changes, why := n.limit(&Candidate{Name: "a", Node: n, Uses: c.uses, Pod: Pod{Running: true, Containers: []Container{c.pod}}}, c.changes)
			var got string
			for _, ch := range changes {
				got = fmt.Sprintf("%dm %dMi of %dm %dMi", ch.Requests.CPU, ch.Requests.Memory/mi, ch.Limits.CPU, ch.Limits.Memory/mi)
			}
			var codes []string
			for _, r := range why {
				codes = append(codes, r.Code)
			}
			if got != c.want || !slices.Equal(codes, c.codes) {
				t.Errorf("%q by %v, want %q by %v", got, why, c.want, c.codes)
			}
		})
	}
}

// Shares that are requests would make a pod guaranteed, which a resize may not do.
func TestAClassOfServiceStays(t *testing.T) {
	p := asking("a", DRF, pair(500, 500))
	n := sharedNode(pair(500, 500), pair(0, 0), p)
	c := &Candidate{Name: "a", Node: n, Pod: Pod{Running: true, Containers: p.containers}, Uses: []podscaler.ContainerUse{{Name: "app", Memory: podscaler.Sample{Known: true}}}}
	changes, why := n.limit(c, nil)
	if len(changes) > 0 || len(why) != 1 || why[0].Code != ReasonQoSFixed {
		t.Errorf("%v, %v", changes, why)
	}
}

// What a workload's containers may use is said of all of its pods together.
func TestLimitsOfAWorkload(t *testing.T) {
	pod := func(name string, n *Shared) Candidate { return Candidate{Name: name, Node: n} }
	wide := sharedNode(pair(4000, 4000), pair(0, 0), asking("a", DRF, pair(100, 100)))
	small := sharedNode(pair(1000, 2000), pair(0, 0), asking("b", DRF, pair(100, 100)))
	full := sharedNode(pair(1000, 1000), pair(950, 0), asking("c", DRF, pair(100, 100)))
	got := limitsOf([]Candidate{pod("a", wide), pod("b", small), pod("c", full), pod("d", nil)})
	want := []ContainerLimits{{
		Container: "app", Least: pair(1000, 1000), Most: pair(4000, 4000),
		Reasons: []Reason{
			{Code: ReasonShare, Text: "pod b: container app: by DRF it has 1 and 1000Mi of the 1 and 2000Mi that containers of node a share"},
			{Code: ReasonBelowRequest, Text: "pod c: container app: by DRF it has 50m and 50Mi of node a, less than it requests, 100m and 100Mi: a limit cannot be, and others share what it leaves"},
		},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if text := (Change{"app", false, pair(100, 100), pair(500, 0)}).String(); !strings.HasSuffix(text, "is to request 100m and 100Mi, limited to 500m of cpu") {
		t.Error(text)
	}
}

func BenchmarkShareOfAFullNode(b *testing.B) {
	var pods []onNode
	for i := range int64(110) {
		pods = append(pods, asking(fmt.Sprint("p", i), DRF, pricing.Resources{CPU: pricing.MilliCPU(50 + 7*i), Memory: pricing.Bytes(100_000_007 + 999_983*i)}))
	}
	for b.Loop() {
		sharedNode(pair(64000, 256<<10), pair(1000, 1000), pods...).share()
	}
}
