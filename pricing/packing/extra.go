package packing

import (
	"cmp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
)

// What items ask for besides CPU and memory is no dimension of vector: most problems have none of
// it. Each kind that asks for some keeps a list, and what is left of it on a machine is worked out
// from the machine's load. Bounds and fractions do without, which makes them lower and never wrong.

// gatherExtras lists what items ask for, by name.
func (m *model) gatherExtras() {
	names := map[string]int{}
	for i := range m.items {
		for _, x := range m.items[i].Extra {
			if x.N > 0 {
				names[x.Name] = 0
			}
		}
	}
	if len(names) > 0 {
		m.extras = enumerate(names)
	}
}

// extraNames are what items ask for besides CPU and memory; nil if none does.
type extraNames []string

// asked is how much of each is asked for; nil if none is.
func (names extraNames) asked(of pricing.Amounts) []int64 {
	need := names.amounts(of)
	if !slices.ContainsFunc(need, func(n int64) bool { return n > 0 }) {
		return nil
	}
	return need
}

// amounts is how much there is of each. What is negative counts as none.
func (names extraNames) amounts(of pricing.Amounts) []int64 {
	if names == nil {
		return nil
	}
	all := make([]int64, len(names))
	for i, name := range names {
		all[i] = max(0, of.Of(name))
	}
	return all
}

// has reports whether an empty machine of spec s has what an item of the kind asks for besides.
func (m *model) has(s int, k *kind) bool {
	for i, need := range k.extra {
		if need > m.specs[s].extra[i] {
			return false
		}
	}
	return true
}

// spare is for how many of n items of kind k a machine of spec s with the load has what they ask
// for besides.
func (m *model) spare(s int, load []lot, k, n int) int {
	for i, need := range m.kinds[k].extra {
		if need > 0 && n > 0 {
			n = int(min(int64(n), max(0, m.remains(s, load, i)/need)))
		}
	}
	return n
}

// remains is how much a machine of spec s with the load has left of one of the extras.
func (m *model) remains(s int, load []lot, i int) int64 {
	free := m.specs[s].extra[i]
	for _, l := range load {
		if of := m.kinds[l.kind].extra; of != nil {
			free -= int64(l.n) * of[i]
		}
	}
	return free
}

// evenExtras reports whether two machines with their loads have the same left of all extras.
func (m *model) evenExtras(a, b *machine) bool {
	for i := range m.extras {
		if m.remains(a.spec, a.load, i) != m.remains(b.spec, b.load, i) {
			return false
		}
	}
	return true
}

// scarceFirst puts the kinds first that ask for extras: few machines have any, and others may fill
// up their CPU and memory.
func (m *model) scarceFirst(order []int) []int {
	if m.extras == nil {
		return order
	}
	rank := func(k int) int {
		if m.kinds[k].extra != nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// like reports whether two items are alike to every machine.
func (it *Item) like(o *Item) bool {
	return it.Class == o.Class && it.Requests == o.Requests && it.More == o.More && slices.Equal(it.Extra, o.Extra)
}

func compareExtra(a, b pricing.Amounts) int {
	return slices.CompareFunc(a, b, func(x, y pricing.NamedAmount) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), cmp.Compare(x.N, y.N))
	})
}

// besides prints of what there is, or is asked for, that which any item asks for.
func (names extraNames) besides(extra []int64) (text string) {
	for i, n := range extra {
		if n > 0 {
			text += " and " + pricing.NamedAmount{Name: names[i], N: n}.String()
		}
	}
	return text
}

// missing is the first extra of which a kind asks for more than an empty machine of any of the
// specs has.
func (m *model) missing(kd *kind, offers []*offered) (i int, most int64) {
	for i, need := range kd.extra {
		most = 0
		for _, o := range offers {
			most = max(most, m.specs[o.spec].extra[i])
		}
		if need > most {
			return i, most
		}
	}
	return -1, 0
}
