package packing

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
)

func res(milli pricing.MilliCPU, gib pricing.Bytes) pricing.Resources {
	return pricing.Resources{CPU: milli, Memory: gib * pricing.GiB}
}

// pods is items of one class with equal requests, named after their prefix.
func pods(prefix, class string, n int, r pricing.Resources) []Item {
	var items []Item
	for i := range n {
		items = append(items, Item{Name: prefix + string(rune('a'+i)), Class: class, Requests: r})
	}
	return items
}

// sold is an offer whose machine gives all of its shape to pods.
func sold(name, host string, cores pricing.MilliCPU, gib pricing.Bytes, units pricing.Micros) Offer {
	r := res(1000*cores, gib)
	return Offer{
		Pool: "workers", Shape: pricing.Shape{Name: name, CPU: r.CPU, Memory: r.Memory}, Host: host,
		Rate: pricing.RateOf(units * pricing.Unit), Free: r, Slots: 10,
	}
}

// world is a problem on two hosts with plenty of room.
func world(items []Item, bins []Bin, offers ...Offer) Problem {
	return Problem{
		Items: items, Bins: bins, Offers: offers,
		Hosts:  map[string]pricing.Resources{"pve1": res(64000, 256), "pve2": res(64000, 256)},
		Limits: map[string]int{"workers": 100},
	}
}

// placements are lines of item, place and code.
func placements(r Result) []string {
	var lines []string
	for _, pl := range r.Placements {
		place := pl.Bin
		if pl.Purchase >= 0 {
			o := r.Purchases[pl.Purchase].Offer
			place = string(rune('0'+pl.Purchase)) + ":" + o.Shape.Name + "@" + o.Host
		}
		lines = append(lines, strings.TrimSpace(pl.Item+" "+place)+" "+string(pl.Why))
	}
	return lines
}

func TestRatesAreNotAddedUpBeyondTheirRange(t *testing.T) {
	room := pricing.Resources{CPU: 1000, Memory: pricing.GB}
	offer := func(name string, rate pricing.Rate, n int) Offer {
		return Offer{Pool: "p", Shape: pricing.Shape{Name: name, CPU: 1000, Memory: pricing.GB}, Host: "h", Rate: rate, Free: room.Times(n), Slots: 9}
	}
	r := Solve(Problem{
		Items:  []Item{{Name: "a", Requests: room}, {Name: "b", Requests: room}, {Name: "c", Requests: room}},
		Offers: []Offer{offer("cheap", 100, 1), offer("dear", math.MaxInt64, 2)},
		Hosts:  map[string]pricing.Resources{"h": room.Times(9)},
		Limits: map[string]int{"p": 9},
	})
	if r.Rate != 300 || r.LowerBound != 300 {
		t.Errorf("three cheap machines cost %d, at least %d", r.Rate, r.LowerBound)
	}
}

// TestWhatNoItemAsksForChangesNothing holds problems against the same with machines that have more
// than CPU and memory.
func TestWhatNoItemAsksForChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{30, 5, 8})
		q := p
		q.Items, q.Bins, q.Offers = slices.Clone(p.Items), slices.Clone(p.Bins), slices.Clone(p.Offers)
		for i := range q.Items {
			q.Items[i].Extra = nil
		}
		p.Items = q.Items
		for i := range q.Bins {
			q.Bins[i].Extra = nil
		}
		for i := range q.Offers {
			q.Offers[i].Extra = nil
		}
		r := Solve(p)
		for i := range r.Purchases {
			r.Purchases[i].Offer.Extra = nil
		}
		if diff := cmp.Diff(Solve(q), r); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestHugeItemsAreNotCountedRoundTheRange(t *testing.T) {
	if n := (vector{0, 1 << 61, 100}).times(vector{0, 1 << 60, 1}, 16); n != 2 {
		t.Errorf("%d fit, want 2", n)
	}
}

func TestEachCodeHasItsCase(t *testing.T) {
	gpu := Refusals{"gpu": "no toleration for gpu=true:NoSchedule"}
	node := Bin{Name: "node-1", Free: res(1500, 2), Slots: 5}
	noGPU := node
	noGPU.Refuses = gpu
	small, large := sold("small", "pve1", 2, 4, 6), sold("large", "pve1", 8, 16, 22)
	smallNoGPU := small
	smallNoGPU.Refuses = gpu
	full := func(p Problem) Problem { p.Limits = map[string]int{"workers": 1}; return p }
	cramped := func(p Problem) Problem {
		p.Hosts = map[string]pricing.Resources{"pve1": res(3000, 16)}
		return p
	}
	gpus := func(n int64) pricing.Amounts { return pricing.AmountsOf(map[string]int64{"gpu": n}) }
	asking := func(n int64, items ...Item) []Item {
		for i := range items {
			items[i].Extra = gpus(n)
		}
		return items
	}
	having, nodeHaving := large, node
	having.Extra, nodeHaving.Extra = gpus(2), gpus(1)
	tests := []struct {
		name string
		p    Problem
		want []string
		text string // of the last item
	}{
		{"onto the node that has the device", world(asking(1, pods("a", "", 1, res(1000, 1))...), []Bin{{Name: "node-0", Free: res(1000, 1), Slots: 9}, nodeHaving}, having),
			[]string{"aa node-1 FitsExisting"},
			"asks for 1 CPU and 1 GiB and 1 gpu; node-1 is paid for and had 1.5 CPU and 2 GiB and 1 gpu and 5 pod slots free"},
		{"two devices to a machine", world(asking(1, pods("a", "", 3, res(100, 1))...), nil, small, having),
			[]string{"aa 0:large@pve1 CheapestOffer", "ab 1:large@pve1 CheapestOffer", "ac 1:large@pve1 CheapestOffer"}, ""},
		{"what needs no device leaves them to what does", world(append(asking(1, pods("a", "", 1, res(1000, 1))...), pods("b", "", 1, res(1500, 2))...), []Bin{{Name: "node-0", Free: res(2000, 2), Slots: 9}, nodeHaving}),
			[]string{"aa node-1 FitsExisting", "ba node-0 FitsExisting"}, ""},
		{"no machine has the device", world(asking(1, pods("a", "", 1, res(1000, 1))...), []Bin{node}, small, large),
			[]string{"aa InsufficientResource"},
			"asks for 1 CPU and 1 GiB and 1 gpu; none of 2 offers for its class that are large enough has any gpu; of 1 node for its class node-1 comes nearest, with 1.5 CPU and 2 GiB and 0 gpu and 5 pod slots left"},
		{"no machine has as many", world(asking(3, pods("a", "", 1, res(1000, 1))...), nil, small, having),
			[]string{"aa InsufficientResource"},
			"asks for 1 CPU and 1 GiB and 3 gpu; none of 2 offers for its class that are large enough has more than 2 gpu"},
		{"onto what is paid for", world(pods("a", "", 1, res(1000, 1)), []Bin{node}, small),
			[]string{"aa node-1 FitsExisting"},
			"asks for 1 CPU and 1 GiB; node-1 is paid for and had 1.5 CPU and 2 GiB and 5 pod slots free"},
		{"onto the node with the least room", world(pods("a", "", 1, res(500, 1)), []Bin{{Name: "node-0", Free: res(4000, 8), Slots: 9}, node}),
			[]string{"aa node-1 FitsExisting"}, ""},
		{"into one machine rather than two", world(pods("a", "", 4, res(2000, 4)), nil, small, large),
			[]string{"aa 0:large@pve1 CheapestOffer", "ab 0:large@pve1 CheapestOffer", "ac 0:large@pve1 CheapestOffer", "ad 0:large@pve1 CheapestOffer"},
			"asks for 2 CPU and 4 GiB; no node has room, so large on pve1 is bought at 22 an hour for 4 items, which take 8 CPU and 16 GiB of its 8 CPU and 16 GiB"},
		{"into two small ones when that is cheaper", world(pods("a", "", 2, res(2000, 4)), nil, small, large),
			[]string{"aa 0:small@pve1 CheapestOffer", "ab 1:small@pve1 CheapestOffer"}, ""},
		{"refused by all", world(pods("a", "gpu", 1, res(100, 1)), []Bin{noGPU}, smallNoGPU),
			[]string{"aa Refused"},
			"asks for 0.1 CPU and 1 GiB; 1 offer and 1 node refuse its class, 2 of them because: no toleration for gpu=true:NoSchedule"},
		{"refused by offers, and the node that takes it is full", world(pods("a", "gpu", 1, res(2000, 1)), []Bin{node}, smallNoGPU),
			[]string{"aa Refused"},
			"asks for 2 CPU and 1 GiB; 1 offer and 0 nodes refuse its class, 1 of them because: no toleration for gpu=true:NoSchedule; of 1 node for its class node-1 comes nearest, with 1.5 CPU and 2 GiB and 5 pod slots left"},
		{"larger than any machine", world(pods("a", "", 1, res(9000, 4)), nil, small, large),
			[]string{"aa TooBig"},
			"asks for 9 CPU and 4 GiB; of 2 offers for its class large on pve1 comes nearest, with 8 CPU and 16 GiB and 10 pod slots"},
		{"no host has room", cramped(world(pods("a", "", 2, res(2000, 1)), nil, small)),
			[]string{"aa 0:small@pve1 CheapestOffer", "ab NoRoom"},
			"asks for 2 CPU and 1 GiB; small on pve1 would hold it and takes 2 CPU and 4 GiB, but of the hosts for such machines pve1 comes nearest, with 1 CPU and 12 GiB left"},
		{"a host that is not listed", world(pods("a", "", 1, res(2000, 1)), nil, sold("small", "pve9", 2, 4, 6)),
			[]string{"aa NoRoom"},
			"asks for 2 CPU and 1 GiB; small on pve9 would hold it and takes 2 CPU and 4 GiB, but of the hosts for such machines pve9 comes nearest, with 0 CPU and 0 MiB left"},
		{"the pool is full", full(world(pods("a", "", 2, res(2000, 1)), nil, small)),
			[]string{"aa 0:small@pve1 CheapestOffer", "ab PoolFull"},
			"asks for 2 CPU and 1 GiB; small on pve1 would hold it, but pool workers may have only 1 more machine"},
		{"nothing on offer", world(pods("a", "", 1, res(2000, 1)), []Bin{node}),
			[]string{"aa NoOffer"},
			"asks for 2 CPU and 1 GiB; nothing is on offer; of 1 node for its class node-1 comes nearest, with 1.5 CPU and 2 GiB and 5 pod slots left"},
		{"nothing on offer, and refused", world(pods("a", "gpu", 1, res(100, 1)), []Bin{noGPU}),
			[]string{"aa Refused"}, ""},
		{"nothing at all", world(pods("a", "", 1, res(100, 1)), nil), []string{"aa NoOffer"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Solve(tt.p)
			verify(t, tt.p, r)
			if diff := cmp.Diff(tt.want, placements(r)); diff != "" {
				t.Error(diff)
			}
			if got := r.Placements[len(r.Placements)-1].Text; tt.text != "" && got != tt.text {
				t.Errorf("got  %s\nwant %s", got, tt.text)
			}
		})
	}
}

// An item that is several pods takes as many slots, on machines that are there and on those that
// are bought.
func TestItemsOfSeveralPodsTakeASlotForEach(t *testing.T) {
	items := pods("a", "", 6, res(100, 0))
	for i := range items {
		items[i].More = 3
	}
	offer := sold("small", "pve1", 16, 16, 5)
	offer.Slots = 10
	bin := Bin{Name: "node-1", Free: res(16000, 16), Slots: 7}
	// One item fits onto the node, and two into a machine.
	for n, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2, 6: 3} {
		r := Solve(world(items[:n], []Bin{bin}, offer))
		if len(r.Purchases) != want || slices.ContainsFunc(r.Purchases, func(p Purchase) bool { return len(p.Items) > 2 }) {
			t.Errorf("%d items: %d purchases, want %d", n, len(r.Purchases), want)
		}
	}
}

func TestGoalsComeInTheirOrder(t *testing.T) {
	mixed := append(pods("a", "", 1, res(3000, 3)), pods("b", "", 2, res(1500, 1))...)
	tests := []struct {
		name string
		p    Problem
		want []string
	}{
		{"two small items rather than a large one", world(mixed, []Bin{{Name: "node-1", Free: res(3000, 3), Slots: 9}}),
			[]string{"aa NoOffer", "ba node-1 FitsExisting", "bb node-1 FitsExisting"}},
		{"the larger of two", world(mixed[:2], []Bin{{Name: "node-1", Free: res(3000, 3), Slots: 9}}),
			[]string{"aa node-1 FitsExisting", "ba NoOffer"}},
		{"the lower rate rather than fewer machines", world(pods("a", "", 2, res(2000, 2)), nil, sold("small", "pve1", 2, 2, 5), sold("large", "pve1", 4, 4, 11)),
			[]string{"aa 0:small@pve1 CheapestOffer", "ab 1:small@pve1 CheapestOffer"}},
		{"fewer machines at the same rate", world(pods("a", "", 2, res(2000, 2)), nil, sold("small", "pve1", 2, 2, 5), sold("large", "pve1", 4, 4, 10)),
			[]string{"aa 0:large@pve1 CheapestOffer", "ab 0:large@pve1 CheapestOffer"}},
		{"the first by name", world(pods("a", "", 1, res(2000, 2)), nil, sold("small", "pve2", 2, 2, 5), sold("small", "pve1", 2, 2, 5)),
			[]string{"aa 0:small@pve1 CheapestOffer"}},
		{"the host that is cheaper", world(pods("a", "", 1, res(2000, 2)), nil, sold("small", "pve2", 2, 2, 4), sold("small", "pve1", 2, 2, 5)),
			[]string{"aa 0:small@pve2 CheapestOffer"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Solve(tt.p)
			verify(t, tt.p, r)
			if diff := cmp.Diff(tt.want, placements(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOnlyABinTakesTheItemThatNothingOnOfferHolds(t *testing.T) {
	small := sold("small", "pve1", 2, 2, 5)
	small.Refuses = Refusals{"db": "selector"}
	p := world(append(pods("a", "", 3, res(2000, 2)), pods("z", "db", 1, res(1000, 1))...), []Bin{{Name: "node-1", Free: res(2000, 2), Slots: 9}}, small)
	for _, effort := range []int{0, DefaultEffort} {
		r := SolveWithin(p, effort)
		verify(t, p, r)
		if last := r.Placements[3]; last.Bin != "node-1" || len(r.Purchases) != 3 {
			t.Errorf("effort %d: %s in %q beside %d purchases", effort, last.Item, last.Bin, len(r.Purchases))
		}
	}
}

func TestOvercommittedNodeTakesWhatAsksForNoneOfWhatItLacks(t *testing.T) {
	p := world(append(pods("a", "", 1, pricing.Resources{}), pods("b", "", 1, res(0, 1))...), []Bin{{Name: "node-1", Free: res(-500, 2), Slots: 9}})
	want := []string{"aa node-1 FitsExisting", "ba node-1 FitsExisting"}
	if diff := cmp.Diff(want, placements(Solve(p))); diff != "" {
		t.Error(diff)
	}
}

func TestNoItemsNoPurchases(t *testing.T) {
	if diff := cmp.Diff(Result{Placements: []Placement{}}, Solve(world(nil, nil, sold("small", "pve1", 2, 4, 6)))); diff != "" {
		t.Error(diff)
	}
}

func TestSolveLeavesTheProblemAlone(t *testing.T) {
	p := modest(mixes[0], 1, 30)
	q := p
	q.Items, q.Bins, q.Offers = slices.Clone(p.Items), slices.Clone(p.Bins), slices.Clone(p.Offers)
	Solve(p)
	if diff := cmp.Diff(q, p); diff != "" {
		t.Error(diff)
	}
}
