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
				resource, _ := pricing.Sharing(x.Name)
				names[x.Name], names[resource] = 0, 0
			}
		}
	}
	if len(names) > 0 {
		m.extras = enumerate(names)
	}
	m.units, m.shared = make([]int, len(m.extras)), make([][]int, len(m.extras))
	for i, name := range m.extras {
		m.units[i] = -1
		if resource, shared := pricing.Sharing(name); shared {
			m.units[i] = slices.Index(m.extras, resource)
			m.shared[m.units[i]] = append(m.shared[m.units[i]], i)
		}
	}
}

// extraNames are what items ask for besides CPU and memory; nil if none does.
type extraNames []string

// asked is how much of each is asked for; nil if none is.
func (names extraNames) asked(of pricing.Amounts) []int64 {
	if !slices.ContainsFunc(of, func(x pricing.NamedAmount) bool { return x.N > 0 }) {
		return nil
	}
	need := make([]int64, len(names))
	for i, name := range names {
		need[i] = max(0, of.Of(name))
	}
	return need
}

// amounts is how much there is of each, and 1 of a shared unit that is there. What is negative
// counts as none.
func (names extraNames) amounts(of pricing.Amounts) []int64 {
	if names == nil {
		return nil
	}
	all := make([]int64, len(names))
	for i, name := range names {
		if _, shared := pricing.Sharing(name); !shared {
			all[i] = max(0, of.Left(name))
		} else if of.Of(name) < 0 {
			all[i] = 1
		}
	}
	return all
}

// has reports whether an empty machine of spec s has what an item of the kind asks for besides.
func (m *model) has(s int, k *kind) bool {
	for i := range k.extra {
		if m.takes(s, nil, k, i) > m.specs[s].extra[i] {
			return false
		}
	}
	return true
}

// takes is how much of one of the extras the first item of the kind takes of a machine of spec s
// with the load. A shared unit takes one of its resource, where it is not there yet.
func (m *model) takes(s int, load []lot, k *kind, i int) int64 {
	if m.units[i] >= 0 {
		return 0
	}
	n := k.extra[i]
	for _, unit := range m.shared[i] {
		if k.extra[unit] > 0 && m.remains(s, load, unit) == 0 {
			n++
		}
	}
	return n
}

// spare is for how many of n items of kind k a machine of spec s with the load has what they ask
// for besides.
func (m *model) spare(s int, load []lot, k, n int) int {
	kd := &m.kinds[k]
	for i, each := range kd.extra {
		first := m.takes(s, load, kd, i)
		if n == 0 || first == 0 {
			continue
		}
		switch left := m.remains(s, load, i) - first; {
		case left < 0:
			n = 0
		case each > 0:
			n = int(min(int64(n), 1+left/each))
		}
	}
	return n
}

// remains is how much a machine of spec s with the load has left of one of the extras; of a shared
// unit it is 1 where that is there.
func (m *model) remains(s int, load []lot, i int) int64 {
	free := m.specs[s].extra[i]
	for _, l := range load {
		if of := m.kinds[l.kind].extra; of == nil {
		} else if m.units[i] < 0 {
			free -= int64(l.n) * of[i]
		} else if l.n > 0 && of[i] > 0 {
			return 1
		}
	}
	for _, unit := range m.shared[i] {
		if m.remains(s, load, unit) > m.specs[s].extra[unit] {
			free--
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
	for i := range kd.extra {
		most, need := int64(0), int64(0)
		for _, o := range offers {
			most, need = max(most, m.specs[o.spec].extra[i]), m.takes(o.spec, nil, kd, i)
		}
		if need > most {
			return i, most
		}
	}
	return -1, 0
}
