package packing

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
)

// vector is an amount of everything that machines have and items take: CPU, memory, pod slots.
type vector [dims]int64

const (
	cpu = iota
	memory
	slots
	dims
)

// roomOf is what a machine has to give. What is negative counts as none: an overcommitted
// node still takes a pod that asks for none of what it lacks, as the scheduler sees it.
func roomOf(r pricing.Resources, n int) vector {
	return vector{max(0, int64(r.CPU)), max(0, int64(r.Memory)), max(0, int64(n))}
}

// resources is v without the slots.
func (v vector) resources() pricing.Resources {
	return pricing.Resources{CPU: pricing.MilliCPU(v[cpu]), Memory: pricing.Bytes(v[memory])}
}

// all is v as a list.
func (v vector) all() []int64 { return v[:] }

// holds reports whether need fits into v.
func (v vector) holds(need vector) bool {
	return need[cpu] <= v[cpu] && need[memory] <= v[memory] && need[slots] <= v[slots]
}

// times is how often need fits into v, at most n times.
func (v vector) times(need vector, n int) int {
	if !v.holds(need) {
		return 0
	}
	for d := 0; d < dims && n > 1; d++ {
		if need[d] > 0 && v[d]/need[d] < int64(n) {
			n = int(v[d] / need[d])
		}
	}
	return n
}

// plus returns v with n times o added; n may be negative.
func (v vector) plus(o vector, n int) vector {
	for d := range v {
		v[d] += o[d] * int64(n)
	}
	return v
}

// model is a problem sorted by name and contents, grouped, and in numbers.
type model struct {
	items   []Item // by name
	classes []string
	extras  extraNames
	units   []int   // of each of them the one that it is a shared unit of, or -1
	shared  [][]int // of each of them its shared units
	// apart marks for each class those that share no machine with it; nil without such classes.
	apart [][]bool
	masks [][]bool // sets of classes that are refused
	specs []spec
	kinds []kind // largest first
	count []int  // of each kind
	order []int  // the kinds that fit somewhere, to be placed in this order
	small []int  // the same, but the smallest first
	total int    // how many items these are

	nodes   []node    // by name, all bins
	bins    []bin     // by name, the nodes with room for something
	offered []offered // by name, all offers
	offers  []offer   // by name, those that can be bought and hold something
	selling []int     // the specs of offers
	bySpec  [][]int   // the offers of each spec

	pools []int         // limit of each pool
	hosts []vector      // room of each host
	scale [dims]float64 // the largest machine, never 0
}

// kind is a group of items that are alike to every machine.
type kind struct {
	class    int // index into model.classes
	requests pricing.Resources
	need     vector
	extra    []int64 // of each of model.extras; nil if it asks for none
	size     int64   // dominant share of the largest machine, in millionths
	items    []int   // index into model.items, in the order in which they are placed: by name
}

// spec is what decides which items fit an empty machine. Offers that differ only in price,
// pool or host share one, so that what fits is worked out once for all of them.
type spec struct {
	room  vector
	extra []int64 // of each of model.extras
	mask  int     // index into model.masks
}

// node is a Bin as the problem gave it.
type node struct {
	Bin
	room  vector
	extra []int64
	mask  string
	spec  int
	bin   int // index into model.bins, or -1
}

// bin is a node with room for something.
type bin struct{ node, spec int }

// offered is an Offer as the problem gave it.
type offered struct {
	Offer
	room             vector
	extra            []int64
	mask             string
	spec, pool, host int
	takes            vector // from the host; no slots
}

// offer is an offered machine that can be bought and holds something.
type offer struct {
	of               int // index into model.offered
	spec, pool, host int
	rate             pricing.Rate
	takes            vector
}

func newModel(p Problem) *model {
	m := &model{}
	m.gatherKinds(p.Items)
	m.gatherApart(p.Apart)
	m.gatherNodes(p.Bins)
	m.gatherOffers(p)
	m.number()
	m.measure()
	m.pick()
	m.arrange()
	return m
}

// gatherKinds groups the items.
func (m *model) gatherKinds(items []Item) {
	type key struct {
		class    string
		requests pricing.Resources
		extra    string
		more     int
	}
	m.items = byName(items)
	m.gatherExtras()
	groups, classes := map[key]int{}, map[string]int{}
	at := 0
	for i := range m.items {
		it := &m.items[i]
		if i == 0 || !it.like(&m.items[i-1]) { // few are not like the one before
			k := key{it.Class, it.Requests, it.Extra.Key(), it.More}
			if _, known := groups[k]; !known {
				groups[k], classes[it.Class] = len(m.kinds), 0
				m.kinds = append(m.kinds, kind{requests: it.Requests, need: roomOf(it.Requests, 1+it.More), extra: m.extras.asked(it.Extra)})
			}
			at = groups[k]
		}
		m.kinds[at].items = append(m.kinds[at].items, i)
	}
	m.classes = enumerate(classes)
	for i := range m.kinds {
		k := &m.kinds[i]
		k.class = classes[m.items[k.items[0]].Class]
	}
}

func (m *model) gatherApart(pairs [][2]string) {
	m.apart = make([][]bool, len(m.classes))
	note := func(class, other string) {
		a, known := slices.BinarySearch(m.classes, class)
		b, others := slices.BinarySearch(m.classes, other)
		if !known || !others {
			return
		}
		if m.apart[a] == nil {
			m.apart[a] = make([]bool, len(m.classes))
		}
		m.apart[a][b] = true
	}
	for _, pair := range pairs {
		note(pair[0], pair[1])
		note(pair[1], pair[0])
	}
}

// joins is how many of n items of kind k may share a machine of spec s with the load, CPU, memory
// and slots aside.
func (m *model) joins(s int, load []lot, k, n int) int {
	if m.kinds[k].extra != nil {
		n = m.spare(s, load, k, n)
	}
	return m.beside(load, k, n)
}

// beside is how many of n items of kind k may share a machine with the load, its room aside.
func (m *model) beside(load []lot, k, n int) int {
	class := m.kinds[k].class
	apart := m.apart[class]
	if apart == nil || n == 0 {
		return n
	}
	for _, l := range load {
		if l.n > 0 && apart[m.kinds[l.kind].class] {
			return 0
		}
	}
	if apart[class] {
		return 1
	}
	return n
}

// byName sorts items by name. Thousands of strings take long to sort, and who asks has mostly
// sorted them.
func byName(items []Item) []Item {
	order := func(a, b Item) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Class, b.Class),
			cmp.Compare(a.Requests.CPU, b.Requests.CPU), cmp.Compare(a.Requests.Memory, b.Requests.Memory), compareExtra(a.Extra, b.Extra), cmp.Compare(a.More, b.More))
	}
	if slices.IsSortedFunc(items, order) {
		return items
	}
	items = slices.Clone(items)
	slices.SortFunc(items, order)
	return items
}

// enumerate sorts the names and gives each its index.
func enumerate(of map[string]int) []string {
	names := slices.Sorted(maps.Keys(of))
	for i, n := range names {
		of[n] = i
	}
	return names
}

// mask says which of the problem's classes are refused, with a byte for each.
func (m *model) mask(r Refusals) string {
	key := []byte(strings.Repeat("-", len(m.classes)))
	for i := 0; i < len(m.classes) && len(r) > 0; i++ {
		if _, no := r[m.classes[i]]; no {
			key[i] = 'x'
		}
	}
	return string(key)
}

func (m *model) gatherNodes(bins []Bin) {
	for _, b := range bins {
		m.nodes = append(m.nodes, node{Bin: b, room: roomOf(b.Free, b.Slots), extra: m.extras.amounts(b.Extra), mask: m.mask(b.Refuses), bin: -1})
	}
	slices.SortFunc(m.nodes, func(a, b node) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), slices.Compare(a.room[:], b.room[:]), slices.Compare(a.extra, b.extra), strings.Compare(a.mask, b.mask))
	})
}

func (m *model) gatherOffers(p Problem) {
	pools, hosts := map[string]int{}, map[string]int{}
	for _, o := range p.Offers {
		pools[o.Pool], hosts[o.Host] = 0, 0
	}
	for _, name := range enumerate(pools) {
		m.pools = append(m.pools, max(0, p.Limits[name]))
	}
	for _, name := range enumerate(hosts) {
		m.hosts = append(m.hosts, roomOf(p.Hosts[name], 0))
	}
	for _, o := range p.Offers {
		m.offered = append(m.offered, offered{
			Offer: o, room: roomOf(o.Free, o.Slots), extra: m.extras.amounts(o.Extra), mask: m.mask(o.Refuses),
			pool: pools[o.Pool], host: hosts[o.Host], takes: roomOf(o.Shape.Resources(), 0),
		})
	}
	slices.SortFunc(m.offered, func(a, b offered) int {
		return cmp.Or(compareOffers(&a.Offer, &b.Offer), slices.Compare(a.room[:], b.room[:]), slices.Compare(a.extra, b.extra), strings.Compare(a.mask, b.mask))
	})
}

func compareOffers(a, b *Offer) int {
	return cmp.Or(
		strings.Compare(a.Pool, b.Pool),
		strings.Compare(a.Shape.Name, b.Shape.Name),
		strings.Compare(a.Host, b.Host),
		cmp.Compare(a.Rate, b.Rate),
		cmp.Compare(a.Shape.CPU, b.Shape.CPU),
		cmp.Compare(a.Shape.Memory, b.Shape.Memory),
		cmp.Compare(a.Shape.Disk, b.Shape.Disk),
	)
}

// number gives nodes and offers their specs, in order of name.
func (m *model) number() {
	type key struct {
		room        vector
		extra, mask string
	}
	specs, masks := map[key]int{}, map[string]int{}
	specOf := func(room vector, extra []int64, mask string) int {
		k := key{room, "", mask}
		if extra != nil {
			k.extra = fmt.Sprint(extra)
		}
		if _, known := masks[mask]; !known {
			masks[mask] = len(m.masks)
			m.masks = append(m.masks, refused(mask))
		}
		if _, known := specs[k]; !known {
			specs[k] = len(m.specs)
			m.specs = append(m.specs, spec{room, extra, masks[mask]})
		}
		return specs[k]
	}
	for i := range m.nodes {
		m.nodes[i].spec = specOf(m.nodes[i].room, m.nodes[i].extra, m.nodes[i].mask)
	}
	for i := range m.offered {
		m.offered[i].spec = specOf(m.offered[i].room, m.offered[i].extra, m.offered[i].mask)
	}
}

// refused is a mask by class.
func refused(mask string) []bool {
	no := make([]bool, len(mask))
	for i := range mask {
		no[i] = mask[i] == 'x'
	}
	return no
}

// whole is the size of what fills the largest machine.
const whole = 1e6

// measure sets the scale, and with it the kinds' sizes and order.
func (m *model) measure() {
	m.scale = [dims]float64{1, 1, 1}
	for _, sp := range m.specs {
		for d := range m.scale {
			m.scale[d] = max(m.scale[d], float64(sp.room[d]))
		}
	}
	for i := range m.kinds {
		k := &m.kinds[i]
		k.size = int64(whole * max(float64(k.need[cpu])/m.scale[cpu], float64(k.need[memory])/m.scale[memory]))
	}
	slices.SortFunc(m.kinds, func(a, b kind) int {
		return cmp.Or(
			cmp.Compare(b.size, a.size),
			cmp.Compare(b.requests.CPU, a.requests.CPU),
			cmp.Compare(b.requests.Memory, a.requests.Memory),
			cmp.Compare(a.class, b.class),
			slices.Compare(a.extra, b.extra),
			cmp.Compare(b.need[slots], a.need[slots]),
		)
	})
	for _, k := range m.kinds {
		m.count = append(m.count, len(k.items))
	}
}

// pick picks out the nodes and offers that can be of use.
func (m *model) pick() {
	useful := make([]bool, len(m.specs))
	for s := range m.specs {
		useful[s] = slices.ContainsFunc(m.kinds, func(k kind) bool { return m.fits(s, &k) })
	}
	for i := range m.nodes {
		if n := &m.nodes[i]; useful[n.spec] {
			n.bin = len(m.bins)
			m.bins = append(m.bins, bin{i, n.spec})
		}
	}
	// A plan buys no more machines than there are items. Their rates must not wrap round when
	// they are added up: the dearest plan would become the cheapest.
	items := 0
	for _, n := range m.count {
		items += n
	}
	dearest := pricing.Rate(math.MaxInt64 / int64(2*(items+1)))
	m.bySpec = make([][]int, len(m.specs))
	for i, o := range m.offered {
		if m.pools[o.pool] == 0 || !m.hosts[o.host].holds(o.takes) || !useful[o.spec] {
			continue
		}
		if len(m.bySpec[o.spec]) == 0 {
			m.selling = append(m.selling, o.spec)
		}
		m.bySpec[o.spec] = append(m.bySpec[o.spec], len(m.offers))
		m.offers = append(m.offers, offer{i, o.spec, o.pool, o.host, min(o.Rate, dearest), o.takes})
	}
}

// arrange orders the kinds that fit somewhere. Those that nothing on offer holds come before
// the others, for only bins can take them.
func (m *model) arrange() {
	var sold []int
	for k := range m.kinds {
		fits := func(s int) bool { return m.fits(s, &m.kinds[k]) }
		switch {
		case slices.ContainsFunc(m.selling, fits):
			sold = append(sold, k)
		case slices.ContainsFunc(m.bins, func(b bin) bool { return fits(b.spec) }):
			m.order = append(m.order, k)
		}
	}
	m.order = append(m.scarceFirst(m.order), m.scarceFirst(sold)...)
	m.small = slices.Clone(m.order)
	slices.Reverse(m.small)
	m.small = m.scarceFirst(m.small)
	for _, k := range m.order {
		m.total += m.count[k]
	}
}

// accepts reports whether machines of spec s take k's class.
func (m *model) accepts(s int, k *kind) bool { return !m.masks[m.specs[s].mask][k.class] }

// fits reports whether an empty machine of spec s takes an item of kind k.
func (m *model) fits(s int, k *kind) bool { return m.large(s, k) && m.has(s, k) }

// large reports whether an empty machine of spec s takes k's class and has the CPU, memory and
// slots for an item.
func (m *model) large(s int, k *kind) bool { return m.specs[s].room.holds(k.need) && m.accepts(s, k) }

// carries reports whether an empty machine of spec s takes the load.
func (m *model) carries(s int, load []lot) bool {
	free := m.specs[s].room
	for i, l := range load {
		kd := &m.kinds[l.kind]
		if !m.accepts(s, kd) || m.joins(s, load[:i], l.kind, free.times(kd.need, l.n)) < l.n {
			return false
		}
		free = free.plus(kd.need, -l.n)
	}
	return true
}

// share is v as a part of the largest machine, CPU and memory alike.
func (m *model) share(v vector) float64 {
	return float64(v[cpu])/m.scale[cpu] + float64(v[memory])/m.scale[memory]
}

// dearest is the highest rate on offer, or 1.
func (m *model) dearest() float64 {
	most := 1.0
	for i := range m.offers {
		most = max(most, float64(m.offers[i].rate))
	}
	return most
}
