package packing

import (
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// lot is a number of items of one kind.
type lot struct{ kind, n int }

// machine is a bin or a purchase with what was put into it.
type machine struct {
	spec  int
	offer int // index into model.offers, or -1 for a bin
	free  vector
	load  []lot
	gone  bool // bought, and removed since
}

// plan is a packing in the making. It never overcommits: put and buy are only called for what
// fits, which every caller asks first.
type plan struct {
	m        *model
	left     []int     // of each kind, the items that are nowhere
	machines []machine // the bins, then the purchases
	pools    []int     // machines still allowed, by pool
	hosts    []vector  // room left, by host
	score    score
	journal  []step // what was done since the last keep, for undo
}

// score is how good a plan is, in the order of the goals.
type score struct {
	placed int
	size   int64
	rate   pricing.Rate
	bought int
}

// better reports whether a is the better score.
func (a score) better(b score) bool {
	switch {
	case a.placed != b.placed:
		return a.placed > b.placed
	case a.size != b.size:
		return a.size > b.size
	case a.rate != b.rate:
		return a.rate < b.rate
	}
	return a.bought < b.bought
}

// step is one change of a plan: n of kind put into machine, or, with n = 0, machine bought with its
// stock, or removed.
type step struct{ machine, kind, n int }

func newPlan(m *model) *plan {
	p := &plan{m: m, left: slices.Clone(m.count), pools: slices.Clone(m.pools), hosts: slices.Clone(m.hosts)}
	p.machines = make([]machine, len(m.bins))
	for i, b := range m.bins {
		p.machines[i] = machine{spec: b.spec, offer: -1, free: m.specs[b.spec].room}
	}
	return p
}

// clone copies p with an empty journal. All loads share one block of memory, each with its own end.
func (p *plan) clone() *plan {
	c := *p
	c.left, c.pools, c.hosts, c.journal = slices.Clone(p.left), slices.Clone(p.pools), slices.Clone(p.hosts), nil
	c.machines = make([]machine, 0, len(p.machines)+p.toBuy())
	lots := 0
	for i := range p.machines {
		lots += len(p.machines[i].load)
	}
	block := make([]lot, 0, lots)
	for _, mc := range p.machines {
		if !mc.gone {
			from := len(block)
			block = append(block, mc.load...)
			mc.load = block[from:len(block):len(block)]
			c.machines = append(c.machines, mc)
		}
	}
	return &c
}

// toBuy is about how many machines it takes for what is left, and some to move about: for these a
// copy has room from the first.
func (p *plan) toBuy() int {
	size, allowed := int64(0), 0
	for k, n := range p.left {
		size += int64(n) * min(p.m.kinds[k].size, whole)
	}
	machines := int(size / whole * 5 / 4)
	for _, n := range p.pools {
		allowed += min(n, machines-allowed)
	}
	return 16 + allowed
}

// fits is how many items of kind k machine i takes, at most n.
func (p *plan) fits(i, k, n int) int {
	mc, kd := &p.machines[i], &p.m.kinds[k]
	if mc.gone || !p.m.accepts(mc.spec, kd) {
		return 0
	}
	return p.m.joins(mc.spec, mc.load, k, mc.free.times(kd.need, n))
}

// put places n items of kind k in machine i, or takes -n out of it.
func (p *plan) put(i, k, n int) {
	p.place(i, k, n)
	p.journal = append(p.journal, step{i, k, n})
}

func (p *plan) place(i, k, n int) {
	mc := &p.machines[i]
	mc.free = mc.free.plus(p.m.kinds[k].need, -n)
	mc.add(k, n)
	p.count(k, n)
}

// count notes that n items of kind k were placed somewhere.
func (p *plan) count(k, n int) {
	p.left[k] -= n
	p.score.placed += n
	p.score.size += int64(n) * p.m.kinds[k].size
}

// add notes n more of kind k in the machine's load.
func (mc *machine) add(k, n int) {
	for i := range mc.load {
		if mc.load[i].kind != k {
			continue
		}
		if mc.load[i].n += n; mc.load[i].n == 0 {
			last := len(mc.load) - 1
			mc.load[i] = mc.load[last]
			mc.load = mc.load[:last]
		}
		return
	}
	mc.load = append(mc.load, lot{k, n})
}

// canBuy is how many machines of offer o may be bought, at most n.
func (p *plan) canBuy(o, n int) int {
	of := &p.m.offers[o]
	return min(p.pools[of.pool], p.hosts[of.host].times(of.takes, n))
}

// buy adds a machine of offer o and returns its index.
func (p *plan) buy(o int) int {
	s := p.m.offers[o].spec
	p.machines = append(p.machines, machine{spec: s, offer: o, free: p.m.specs[s].room})
	i := len(p.machines) - 1
	p.account(i, 1)
	p.journal = append(p.journal, step{machine: i})
	return i
}

// stock adds a machine of offer o with the load in it, which it must hold and of which so many must
// be left.
func (p *plan) stock(o int, load []lot) {
	i := p.buy(o) // before the machines are looked at, which it may move
	mc := &p.machines[i]
	mc.load = slices.Clone(load)
	for _, l := range load {
		mc.free = mc.free.plus(p.m.kinds[l.kind].need, -l.n)
		p.count(l.kind, l.n)
	}
}

// sell empties machine i and gives it back; a bin is emptied and stays.
func (p *plan) sell(i int) {
	for mc := &p.machines[i]; len(mc.load) > 0; {
		l := mc.load[len(mc.load)-1]
		p.put(i, l.kind, -l.n)
	}
	if p.machines[i].offer >= 0 {
		p.machines[i].gone = true
		p.account(i, -1)
		p.journal = append(p.journal, step{machine: i})
	}
}

// account books machine i once more, or with n = -1 once less.
func (p *plan) account(i, n int) {
	of := &p.m.offers[p.machines[i].offer]
	p.pools[of.pool] -= n
	p.hosts[of.host] = p.hosts[of.host].plus(of.takes, -n)
	p.score.rate += pricing.Rate(n) * of.rate
	p.score.bought += n
}

// keep makes what was done since the last keep final.
func (p *plan) keep() { p.journal = p.journal[:0] }

// undo takes back what was done since the journal had the given length.
func (p *plan) undo(to int) {
	for len(p.journal) > to {
		last := len(p.journal) - 1
		st := p.journal[last]
		p.journal = p.journal[:last]
		switch {
		case st.n != 0:
			p.place(st.machine, st.kind, -st.n)
		case p.machines[st.machine].gone:
			p.machines[st.machine].gone = false
			p.account(st.machine, 1)
		default:
			// Only the initial stock is left.
			for _, l := range p.machines[st.machine].load {
				p.count(l.kind, -l.n)
			}
			p.account(st.machine, -1)
			p.machines = p.machines[:st.machine]
		}
	}
}

// seat places items in the bins that they were meant for.
func (p *plan) seat() {
	at := make(map[string]int, len(p.m.bins))
	for i, b := range p.m.bins {
		at[p.m.nodes[b.node].Name] = i
	}
	for k := range p.m.kinds {
		for _, it := range p.m.kinds[k].items {
			if i, is := at[p.m.items[it].Bin]; is && p.fits(i, k, 1) > 0 {
				p.put(i, k, 1)
			}
		}
	}
}

// complete reports whether every item that fits somewhere is placed.
func (p *plan) complete() bool { return p.score.placed == p.m.total }

// scope is which machines are to be filled.
type scope int

const (
	all    scope = iota
	opened       // those that hold something already
	bins         // those that are paid for
)

// fillGaps places what is left where there is room, in the given order of kinds.
func (p *plan) fillGaps(order []int, sc scope) {
	for _, k := range order {
		for p.left[k] > 0 {
			i := p.tightest(k, sc)
			if i < 0 {
				break
			}
			p.put(i, k, p.fits(i, k, p.left[k]))
		}
	}
}

// tightest is the machine with the least room that still takes an item of kind k, or -1.
// Having taken one it is tighter still, so it may be filled up before another is sought.
func (p *plan) tightest(k int, sc scope) int {
	best, least := -1, 0.0
	need, machines := p.m.kinds[k].need, p.machines
	if sc == bins {
		machines = machines[:len(p.m.bins)]
	}
	for i := range machines {
		mc := &machines[i]
		if !mc.free.holds(need) || p.fits(i, k, 1) == 0 || sc == opened && len(mc.load) == 0 {
			continue
		}
		if room := p.m.share(mc.free); best < 0 || room < least {
			best, least = i, room
		}
	}
	return best
}

// settle moves into bins what was bought for and fits there after all, gives back what is
// empty then, and takes for each purchase the cheapest machine that holds the same.
func (p *plan) settle() {
	for i := len(p.m.bins); i < len(p.machines); i++ {
		for _, l := range slices.Clone(p.machines[i].load) {
			before := p.left[l.kind]
			p.put(i, l.kind, -l.n)
			p.fillGaps([]int{l.kind}, bins)
			if n := p.left[l.kind] - before; n > 0 {
				p.put(i, l.kind, n)
			}
		}
		if !p.machines[i].gone {
			p.downsize(i)
		}
	}
}

// downsize exchanges purchase i for the cheapest machine that holds the same, or for none when
// it holds nothing.
func (p *plan) downsize(i int) {
	load, now := slices.Clone(p.machines[i].load), p.machines[i].offer
	best := now
	p.sell(i)
	if len(load) == 0 {
		return
	}
	// The last spec, and whether it holds the load: offers of one spec follow each other.
	spec, carries := -1, false
	for o := range p.m.offers {
		of := &p.m.offers[o]
		if of.rate >= p.m.offers[best].rate || p.canBuy(o, 1) == 0 {
			continue
		}
		if of.spec != spec {
			spec, carries = of.spec, p.m.carries(of.spec, load)
		}
		if carries {
			best = o
		}
	}
	if best == now {
		p.undo(len(p.journal) - len(load) - 1)
		return
	}
	p.stock(best, load)
}

// cheapestFor is the cheapest offer that can be bought and holds one item of kind k, or -1.
func (p *plan) cheapestFor(k int) int {
	best := -1
	for o := range p.m.offers {
		of := &p.m.offers[o]
		if (best < 0 || of.rate < p.m.offers[best].rate) && p.m.fits(of.spec, &p.m.kinds[k]) && p.canBuy(o, 1) > 0 {
			best = o
		}
	}
	return best
}
