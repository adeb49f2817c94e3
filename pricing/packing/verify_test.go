package packing

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
)

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ = []tester{&testing.T{}, &rapid.T{}}

// ledger adds up what a result puts where, by the problem's words alone.
type ledger struct {
	items map[string]Item
	bins  map[string]Bin
	free  map[string]pricing.Resources // what is left of each bin
	slots map[string]int
	pools map[string]int
	hosts map[string]pricing.Resources
	on    map[string][]Item          // what was put into each bin
	extra map[string]pricing.Amounts // what is left of each bin besides
	p     Problem
}

// keepsOff reports whether one of the others shares no machine with the item.
func (p *Problem) keepsOff(it Item, others []Item) bool {
	return slices.ContainsFunc(others, func(o Item) bool {
		return slices.Contains(p.Apart, [2]string{it.Class, o.Class}) || slices.Contains(p.Apart, [2]string{o.Class, it.Class})
	})
}

// verify fails unless the result is a packing of the problem that breaks no limit, and every
// code is what it says.
func verify(t tester, p Problem, r Result) {
	t.Helper()
	l := open(p)
	l.checkPurchases(t, r)
	l.checkPlacements(t, p, r)
	for _, pl := range r.Placements {
		l.checkWhy(t, p, pl)
	}
	if r.LowerBound < 0 || r.LowerBound > r.Rate {
		t.Fatalf("lower bound %s is not within 0 and the rate %s", r.LowerBound, r.Rate)
	}
}

func open(p Problem) *ledger {
	l := &ledger{map[string]Item{}, map[string]Bin{}, map[string]pricing.Resources{}, map[string]int{}, map[string]int{}, map[string]pricing.Resources{}, map[string][]Item{}, map[string]pricing.Amounts{}, p}
	for _, it := range p.Items {
		l.items[it.Name] = it
	}
	for _, b := range p.Bins {
		l.bins[b.Name], l.free[b.Name], l.slots[b.Name], l.extra[b.Name] = b, b.Free, b.Slots, b.Extra
	}
	for name, n := range p.Limits {
		l.pools[name] = n
	}
	for name, room := range p.Hosts {
		l.hosts[name] = room
	}
	return l
}

func (l *ledger) checkPurchases(t tester, r Result) {
	t.Helper()
	rate := pricing.Rate(0)
	for i, buy := range r.Purchases {
		o := buy.Offer
		rate += o.Rate
		l.pools[o.Pool]--
		l.hosts[o.Host] = l.hosts[o.Host].Minus(o.Shape.Resources())
		if l.pools[o.Pool] < 0 || !(pricing.Resources{}).Within(l.hosts[o.Host]) {
			t.Fatalf("purchase %d of %s: pool %s or host %s is overcommitted", i, named(o), o.Pool, o.Host)
		}
		if len(buy.Items) == 0 || len(buy.Items) > o.Slots || !slices.IsSorted(buy.Items) {
			t.Fatalf("purchase %d holds %d items %q, with %d slots", i, len(buy.Items), buy.Items, o.Slots)
		}
		free, extra, lacks := o.Free, o.Extra, ""
		var in []Item
		for _, name := range buy.Items {
			it := l.items[name]
			lacks = cmp.Or(lacks, extra.Lacks(it.Extra, nil))
			free, extra = free.Minus(it.Requests), extra.Minus(it.Extra)
			if l.p.keepsOff(it, in) {
				t.Fatalf("purchase %d holds %s of class %s beside %v, and %v are to be apart", i, name, it.Class, in, l.p.Apart)
			}
			in = append(in, it)
			if _, no := o.Refuses[it.Class]; no {
				t.Fatalf("purchase %d refuses %s of class %s", i, name, it.Class)
			}
		}
		if !(pricing.Resources{}).Within(free) || lacks != "" {
			t.Fatalf("purchase %d of %s is overcommitted: %v", i, named(o), buy.Items)
		}
	}
	if rate != r.Rate {
		t.Fatalf("rate %s, purchases come to %s", r.Rate, rate)
	}
}

func (l *ledger) checkPlacements(t tester, p Problem, r Result) {
	t.Helper()
	if len(r.Placements) != len(p.Items) {
		t.Fatalf("%d placements of %d items", len(r.Placements), len(p.Items))
	}
	bought := make([][]string, len(r.Purchases))
	for i, pl := range r.Placements {
		if i > 0 && r.Placements[i-1].Item >= pl.Item {
			t.Fatalf("placement of %s comes after that of %s", pl.Item, r.Placements[i-1].Item)
		}
		it, known := l.items[pl.Item]
		if want := "asks for " + size(it.Requests) + asksBesides(it) + "; "; !known || !strings.HasPrefix(pl.Text, want) || len(pl.Text) < len(want)+10 {
			t.Fatalf("placement of %q says %q", pl.Item, pl.Text)
		}
		switch {
		case pl.Bin != "" && pl.Purchase == -1:
			l.putInBin(t, it, pl.Bin)
		case pl.Bin == "" && pl.Purchase >= 0:
			bought[pl.Purchase] = append(bought[pl.Purchase], pl.Item)
		case pl.Bin != "" || pl.Purchase != -1:
			t.Fatalf("%s is in bin %q and in purchase %d", pl.Item, pl.Bin, pl.Purchase)
		}
	}
	for i, buy := range r.Purchases {
		if !slices.Equal(bought[i], buy.Items) {
			t.Fatalf("purchase %d holds %q, placements say %q", i, buy.Items, bought[i])
		}
	}
}

func (l *ledger) putInBin(t tester, it Item, bin string) {
	t.Helper()
	b, known := l.bins[bin]
	if _, no := b.Refuses[it.Class]; !known || no || !l.roomIn(bin, it) {
		t.Fatalf("%s is in bin %q, which is unknown, refuses it or has no room", it.Name, bin)
	}
	l.free[bin] = l.free[bin].Minus(it.Requests)
	l.slots[bin]--
	l.extra[bin] = l.extra[bin].Minus(it.Extra)
	l.on[bin] = append(l.on[bin], it)
}

// roomIn reports whether the bin has room for the item; what is not asked for need not be there.
func (l *ledger) roomIn(bin string, it Item) bool {
	free := l.free[bin]
	return l.slots[bin] > 0 && l.extra[bin].Lacks(it.Extra, nil) == "" && !l.p.keepsOff(it, l.on[bin]) && (it.Requests.CPU == 0 || it.Requests.CPU <= free.CPU) && (it.Requests.Memory == 0 || it.Requests.Memory <= free.Memory)
}

// checkWhy fails unless the code is the first obstacle of all offers, no bin had room for an item
// that was placed elsewhere, and no item was omitted that could be placed.
func (l *ledger) checkWhy(t tester, p Problem, pl Placement) {
	t.Helper()
	it := l.items[pl.Item]
	if pl.Bin != "" {
		if pl.Why != FitsExisting {
			t.Fatalf("%s is in bin %s because of %s", pl.Item, pl.Bin, pl.Why)
		}
		return
	}
	for _, b := range p.Bins {
		if _, no := b.Refuses[it.Class]; !no && l.roomIn(b.Name, it) {
			t.Fatalf("%s: %s, but bin %s has room for it", pl.Item, pl.Why, b.Name)
		}
	}
	if want := l.obstacle(p, it); pl.Purchase < 0 && pl.Why != want {
		t.Fatalf("%s is unplaced because of %s, want %s: %s", pl.Item, pl.Why, want, pl.Text)
	}
	if pl.Purchase >= 0 && pl.Why != CheapestOffer {
		t.Fatalf("%s is in a purchase because of %s", pl.Item, pl.Why)
	}
}

func (l *ledger) obstacle(p Problem, it Item) Why {
	var takes, large, fits, open, buys bool
	for _, o := range p.Offers {
		_, no := o.Refuses[it.Class]
		f := !no && o.Slots > 0 && it.Requests.Within(o.Free)
		room, known := l.hosts[o.Host]
		takes, large = takes || !no, large || f
		f = f && o.Extra.Lacks(it.Extra, nil) == ""
		fits = fits || f
		open = open || f && l.pools[o.Pool] > 0
		buys = buys || f && l.pools[o.Pool] > 0 && known && o.Shape.Resources().Within(room)
	}
	refused := len(p.Bins) > 0
	for _, b := range p.Bins {
		_, no := b.Refuses[it.Class]
		refused = refused && no
	}
	switch {
	case buys:
		return "none: it could have been bought for"
	case open:
		return NoRoom
	case fits:
		return PoolFull
	case large:
		return NoResource
	case takes:
		return TooBig
	case len(p.Offers) > 0 || refused:
		return Refused
	}
	return NoOffer
}

// scoreOf is how good a result is in the order of the goals.
func scoreOf(p Problem, r Result) score {
	s := score{rate: r.Rate, bought: len(r.Purchases)}
	sizes := sizesOf(p)
	for _, pl := range r.Placements {
		if pl.Bin != "" || pl.Purchase >= 0 {
			s.placed++
			s.size += sizes[pl.Item]
		}
	}
	return s
}

// sizesOf is each item's dominant share of the largest machine, in millionths.
func sizesOf(p Problem) map[string]int64 {
	largest := pricing.Resources{CPU: 1, Memory: 1}
	for _, b := range p.Bins {
		largest = pricing.Resources{CPU: max(largest.CPU, b.Free.CPU), Memory: max(largest.Memory, b.Free.Memory)}
	}
	for _, o := range p.Offers {
		largest = pricing.Resources{CPU: max(largest.CPU, o.Free.CPU), Memory: max(largest.Memory, o.Free.Memory)}
	}
	sizes := map[string]int64{}
	for _, it := range p.Items {
		sizes[it.Name] = int64(1e6 * max(float64(it.Requests.CPU)/float64(largest.CPU), float64(it.Requests.Memory)/float64(largest.Memory)))
	}
	return sizes
}

// bounds is how large the problems are that arbitrary makes.
type bounds struct{ items, bins, offers int }

// arbitrary makes a problem in which now and then something is scarce. Everything follows from
// one drawn seed: numbers drawn one by one favour the extremes, and hardly ever make a problem
// in which anything is bought.
func arbitrary(t *rapid.T, b bounds) Problem {
	return random(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), b)
}

func random(r *rand.Rand, b bounds) Problem {
	p := Problem{Hosts: map[string]pricing.Resources{}, Limits: map[string]int{}}
	for _, host := range []string{"pve1", "pve2"} {
		p.Hosts[host] = chunk(r, 10)
		if r.IntN(3) > 0 {
			p.Hosts[host] = p.Hosts[host].Plus(chunk(r, 50)).Plus(pricing.Resources{CPU: 9000, Memory: 9 * pricing.GiB})
		}
	}
	for _, pool := range []string{"blue", "red"} {
		p.Limits[pool] = r.IntN(4) + 20*r.IntN(2)
	}
	for i := range b.items/2 + r.IntN(b.items/2+1) {
		p.Items = append(p.Items, Item{Name: fmt.Sprintf("pod-%02d", i), Class: classes[r.IntN(len(classes))], Requests: chunk(r, 10)})
	}
	for i := range r.IntN(b.bins + 1) {
		free := chunk(r, 12).Minus(pricing.Resources{CPU: 250})
		p.Bins = append(p.Bins, Bin{Name: fmt.Sprintf("node-%d", i), Free: free, Slots: r.IntN(6), Refuses: refusals(r)})
	}
	for i := range r.IntN(b.offers+1) + r.IntN(2) {
		p.Offers = append(p.Offers, arbitraryOffer(r, i))
	}
	if r.IntN(2) > 0 {
		for range r.IntN(4) {
			p.Apart = append(p.Apart, [2]string{classes[r.IntN(len(classes))], classes[r.IntN(len(classes))]})
		}
	}
	if r.IntN(2) > 0 {
		p.besides(r)
	}
	return p
}

// besides has some items ask for disk and devices, some of which they share, and some machines have
// them.
func (p *Problem) besides(r *rand.Rand) {
	draw := func(of int, most int64) pricing.Amounts {
		all := map[string]int64{}
		for _, name := range []string{"disk", "gpu"} {
			if r.IntN(of) == 0 {
				all[name] = r.Int64N(most + 1)
			}
		}
		return pricing.AmountsOf(all)
	}
	shares := func() pricing.Amounts {
		if r.IntN(3) > 0 {
			return nil
		}
		return pricing.Amounts{{Name: pricing.Shared("gpu", []string{"a", "b"}[r.IntN(2)]), N: 1}}
	}
	for i := range p.Items {
		p.Items[i].Extra = draw(3, 2).Plus(shares())
	}
	for i := range p.Bins {
		p.Bins[i].Extra = draw(2, 5).Minus(draw(5, 2)).Minus(shares())
	}
	for i := range p.Offers {
		p.Offers[i].Extra = draw(2, 6)
	}
}

// asksBesides is how what an item asks for besides is put after its size.
func asksBesides(it Item) (text string) {
	for _, x := range it.Extra {
		text += " and " + x.String()
	}
	return text
}

var classes = []string{"", "", "", "db", "gpu"}

// chunk is up to most pieces of CPU and of memory.
func chunk(r *rand.Rand, most int) pricing.Resources {
	return pricing.Resources{CPU: pricing.MilliCPU(r.IntN(most+1)) * 250, Memory: pricing.Bytes(r.IntN(most+1)) * 256 * pricing.MiB}
}

func refusals(r *rand.Rand) Refusals {
	no := Refusals{}
	for _, c := range classes {
		if r.IntN(8) == 0 {
			no[c] = []string{"taint", "selector"}[r.IntN(2)]
		}
	}
	return no
}

func arbitraryOffer(r *rand.Rand, i int) Offer {
	shape := chunk(r, 16).Plus(pricing.Resources{CPU: 250, Memory: 256 * pricing.MiB})
	return Offer{
		Pool:    []string{"blue", "red"}[r.IntN(2)],
		Shape:   pricing.Shape{Name: fmt.Sprintf("shape-%d", i), CPU: shape.CPU, Memory: shape.Memory},
		Host:    []string{"pve1", "pve2", "pve2", "pve1", "pve3"}[r.IntN(5)], // there is no pve3
		Rate:    pricing.Rate(r.IntN(20)) * 1e8,
		Free:    shape.Minus(pricing.Resources{CPU: 100, Memory: 100 * pricing.MiB}),
		Slots:   r.IntN(12),
		Refuses: refusals(r),
	}
}
