package packing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
)

// result names the items of a plan and says why each is where it is.
func (m *model) result(p *plan, bound pricing.Rate) Result {
	w := writer{m: m, p: p, placed: make([]int, len(m.kinds)), asks: make([]string, len(m.kinds))}
	for k := range m.kinds {
		w.asks[k] = "asks for " + size(m.kinds[k].requests) + m.extras.besides(m.kinds[k].extra) + "; "
	}
	w.result = Result{Placements: make([]Placement, len(m.items)), Rate: p.score.rate, LowerBound: bound}
	for i := range m.bins {
		w.bin(i)
	}
	bought := p.machines[len(m.bins):]
	slices.SortFunc(bought, func(a, b machine) int {
		return cmp.Or(cmp.Compare(a.offer, b.offer), slices.CompareFunc(a.load, b.load, func(x, y lot) int {
			return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.n, y.n))
		}))
	})
	for i := range bought {
		w.purchase(&bought[i])
	}
	for k, n := range p.left {
		if n > 0 {
			why, text := w.obstacle(&m.kinds[k])
			w.place(lot{k, n}, Placement{Purchase: -1, Why: why, Text: text + w.nearestNode(k)})
		}
	}
	return w.result
}

// writer turns a plan into a result.
type writer struct {
	m      *model
	p      *plan
	placed []int    // how many items of each kind have been placed
	asks   []string // what an item of each kind asks for
	result Result
}

// place places the next items of a kind and returns which they are. Every text begins with what
// the item asks for.
func (w *writer) place(l lot, pl Placement) []int {
	items := w.m.kinds[l.kind].items[w.placed[l.kind]:][:l.n]
	w.placed[l.kind] += l.n
	pl.Text = w.asks[l.kind] + pl.Text
	for _, i := range items {
		pl.Item = w.m.items[i].Name
		w.result.Placements[i] = pl
	}
	return items
}

func (w *writer) bin(i int) {
	if len(w.p.machines[i].load) == 0 {
		return
	}
	n := &w.m.nodes[w.m.bins[i].node]
	text := fmt.Sprintf("%s is paid for and had %s and %s free", n.Name, size(n.Free)+w.onlyResources(n.extra), pricing.Count(n.Slots, "pod slot"))
	for _, l := range w.p.machines[i].load {
		w.place(l, Placement{Bin: n.Name, Purchase: -1, Why: FitsExisting, Text: text})
	}
}

func (w *writer) purchase(mc *machine) {
	o := w.m.offered[w.m.offers[mc.offer].of].Offer
	var sum pricing.Resources
	total := 0
	for _, l := range mc.load {
		total += l.n
		sum = sum.Plus(w.m.kinds[l.kind].requests.Times(l.n))
	}
	text := fmt.Sprintf("no node has room, so %s is bought at %s an hour for %s, which take %s of its %s",
		named(o), o.Rate, pricing.Count(total, "item"), size(sum), size(o.Free))
	items := make([]int, 0, total)
	for _, l := range mc.load {
		items = append(items, w.place(l, Placement{Purchase: len(w.result.Purchases), Why: CheapestOffer, Text: text})...)
	}
	slices.Sort(items)
	buy := Purchase{Offer: o, Items: make([]string, total)}
	for i, item := range items {
		buy.Items[i] = w.m.items[item].Name
	}
	w.result.Purchases = append(w.result.Purchases, buy)
}

// obstacle is what keeps an item out of every new machine: the first of class, size, limit and
// room that no offer passes.
func (w *writer) obstacle(kd *kind) (Why, string) {
	m := w.m
	taking := w.offersThat(func(o *offered) bool { return m.accepts(o.spec, kd) })
	fitting := w.offersThat(func(o *offered) bool { return m.large(o.spec, kd) })
	having := w.offersThat(func(o *offered) bool { return m.fits(o.spec, kd) })
	open := w.offersThat(func(o *offered) bool { return m.fits(o.spec, kd) && w.p.pools[o.pool] > 0 })
	switch {
	case len(taking) == 0 && (len(m.offered) > 0 || w.nodesRefuse(kd)):
		return Refused, w.refusal(kd)
	case len(taking) == 0:
		return NoOffer, "nothing is on offer"
	case len(fitting) == 0:
		o := nearest(taking, func(o *offered) float64 { return shortage(kd.need[:], m.specs[o.spec].room.all()) })
		return TooBig, fmt.Sprintf("of %s for its class %s comes nearest, with %s and %s",
			pricing.Count(len(taking), "offer"), named(o.Offer), size(o.Free), pricing.Count(o.Slots, "pod slot"))
	case len(having) == 0:
		return NoResource, w.shortOf(kd, fitting)
	case len(open) == 0:
		o := having[0]
		return PoolFull, fmt.Sprintf("%s would hold it, but pool %s may have only %s", named(o.Offer), o.Pool, pricing.Count(m.pools[o.pool], "more machine"))
	}
	o := nearest(open, func(o *offered) float64 { return shortage(o.takes[:], w.p.hosts[o.host].all()) })
	return NoRoom, fmt.Sprintf("%s would hold it and takes %s, but of the hosts for such machines %s comes nearest, with %s left",
		named(o.Offer), size(o.Shape.Resources()), o.Host, size(w.p.hosts[o.host].resources()))
}

// shortOf says of what the offers that are large enough for an item have too little.
func (w *writer) shortOf(kd *kind, offers []*offered) string {
	switch i, most := w.m.missing(kd, offers); {
	case i < 0:
		return fmt.Sprintf("none of %s for its class that are large enough has%s", pricing.Count(len(offers), "offer"), strings.TrimPrefix(w.m.extras.besides(kd.extra), " and"))
	case most == 0:
		return fmt.Sprintf("none of %s for its class that are large enough has any %s", pricing.Count(len(offers), "offer"), w.m.extras[i])
	default:
		return fmt.Sprintf("none of %s for its class that are large enough has more than %s", pricing.Count(len(offers), "offer"), pricing.NamedAmount{Name: w.m.extras[i], N: most})
	}
}

func (w *writer) offersThat(do func(*offered) bool) []*offered {
	var some []*offered
	for i := range w.m.offered {
		if o := &w.m.offered[i]; do(o) {
			some = append(some, o)
		}
	}
	return some
}

// nodesRefuse reports whether there are nodes, and all refuse the kind.
func (w *writer) nodesRefuse(kd *kind) bool {
	return len(w.m.nodes) > 0 && !slices.ContainsFunc(w.m.nodes, func(n node) bool { return w.m.accepts(n.spec, kd) })
}

// refusal says which machines refuse the kind, and the reason that most of them give.
func (w *writer) refusal(kd *kind) string {
	class, reasons := w.m.classes[kd.class], map[string]int{}
	nodes := 0
	for i := range w.m.nodes {
		if why, no := w.m.nodes[i].Refuses[class]; no {
			reasons[why]++
			nodes++
		}
	}
	for i := range w.m.offered {
		reasons[w.m.offered[i].Refuses[class]]++
	}
	most, n := "", 0
	for why, times := range reasons {
		if times > n || times == n && why < most {
			most, n = why, times
		}
	}
	return fmt.Sprintf("%s and %s refuse its class, %d of them because: %s", pricing.Count(len(w.m.offered), "offer"), pricing.Count(nodes, "node"), n, most)
}

// nearestNode says which node that takes the kind comes nearest to having room for it.
func (w *writer) nearestNode(k int) string {
	kd := &w.m.kinds[k]
	var taking []*node
	for i := range w.m.nodes {
		n := &w.m.nodes[i]
		if w.m.accepts(n.spec, kd) && (n.bin < 0 || w.m.beside(w.p.machines[n.bin].load, k, 1) > 0) {
			taking = append(taking, n)
		}
	}
	if len(taking) == 0 {
		return ""
	}
	n := nearest(taking, func(n *node) float64 {
		return max(shortage(kd.need[:], w.free(n).all()), shortage(kd.extra, w.rest(n)))
	})
	return fmt.Sprintf("; of %s for its class %s comes nearest, with %s and %s left",
		pricing.Count(len(taking), "node"), n.Name, size(w.free(n).resources())+w.onlyAsked(kd, w.rest(n)), pricing.Count(int(w.free(n)[slots]), "pod slot"))
}

// free is the room that the plan leaves on a node.
func (w *writer) free(n *node) vector {
	if n.bin < 0 {
		return w.m.specs[n.spec].room
	}
	return w.p.machines[n.bin].free
}

// rest is what the plan leaves on a node of the extras.
func (w *writer) rest(n *node) []int64 {
	left := slices.Clone(n.extra)
	for i := range left {
		if w.m.units[i] >= 0 {
			left[i] = 1 // nothing is short of it
		} else if n.bin >= 0 {
			left[i] = w.m.remains(n.spec, w.p.machines[n.bin].load, i)
		}
	}
	return left
}

// onlyAsked prints of what is left on a node that which the kind asks for.
func (w *writer) onlyAsked(kd *kind, left []int64) (text string) {
	for i, need := range kd.extra {
		if need > 0 && w.m.units[i] < 0 {
			text += " and " + pricing.NamedAmount{Name: w.m.extras[i], N: left[i]}.String()
		}
	}
	return text
}

// onlyResources prints what a machine has free besides. Shared units are what is taken.
func (w *writer) onlyResources(extra []int64) string {
	free := slices.Clone(extra)
	for i := range free {
		if w.m.units[i] >= 0 {
			free[i] = 0
		}
	}
	return w.m.extras.besides(free)
}

// nearest is what has the least shortage, the first of equals.
func nearest[T any](of []T, short func(T) float64) T {
	return slices.MinFunc(of, func(a, b T) int { return cmp.Compare(short(a), short(b)) })
}

// shortage is how many times what there is of it need is, where it is most.
func shortage(need, room []int64) float64 {
	most := 0.0
	for d := range need {
		switch {
		case need[d] == 0:
		case room[d] == 0:
			return math.Inf(1)
		default:
			most = max(most, float64(need[d])/float64(room[d]))
		}
	}
	return most
}

// named is how an offer is called in a sentence.
func named(o Offer) string { return fmt.Sprintf("%s on %s", o.Shape.Name, o.Host) }

// size is resources as people write them: 1.5 CPU and 512 MiB.
func size(r pricing.Resources) string {
	unit, name := pricing.MiB, "MiB"
	if max(r.Memory, -r.Memory) >= pricing.GiB {
		unit, name = pricing.GiB, "GiB"
	}
	mem := math.Round(float64(r.Memory)/float64(unit)*100) / 100
	return fmt.Sprintf("%s CPU and %s %s", decimal(float64(r.CPU)/1000), decimal(mem), name)
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
