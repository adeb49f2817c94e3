package pricing

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Amounts are how much there is, or is asked for, of resources that have a name and no field in
// Resources: ephemeral storage and huge pages in bytes, devices by number. They are sorted by name;
// what is not among them is 0. Nil is nothing at all, which costs nothing. Like a string, one is
// only read: what changes one makes another.
type Amounts []NamedAmount

// NamedAmount is an amount of one resource.
type NamedAmount struct {
	Name string
	N    int64
}

// EphemeralStorage is the resource that is the node's own disk, in bytes.
const EphemeralStorage = "ephemeral-storage"

// Boundless is an amount that no request comes near: it is not known that there is an end to it.
const Boundless int64 = 1 << 62

// AmountsOf are the amounts of a map that are not 0.
func AmountsOf[N ~int64](all map[string]N) Amounts {
	var a Amounts
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != 0 {
			a = append(a, NamedAmount{name, int64(all[name])})
		}
	}
	return a
}

// Of is the amount of a resource.
func (a Amounts) Of(name string) int64 {
	for i := range a {
		if a[i].Name == name {
			return a[i].N
		}
	}
	return 0
}

// Plus returns a and b together.
func (a Amounts) Plus(b Amounts) Amounts { return a.merge(b, 1) }

// Minus returns a less b, of which there may be less than none then.
func (a Amounts) Minus(b Amounts) Amounts { return a.merge(b, -1) }

// merge returns a with b added so many times.
func (a Amounts) merge(b Amounts, times int64) Amounts {
	if len(b) == 0 {
		return a
	}
	sum := make(Amounts, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		var next NamedAmount
		switch order := first(a, b); {
		case order < 0:
			next, a = a[0], a[1:]
		case order > 0:
			next, b = NamedAmount{b[0].Name, times * b[0].N}, b[1:]
		default:
			next, a, b = NamedAmount{a[0].Name, add(a[0].N, times*b[0].N)}, a[1:], b[1:]
		}
		if next.N != 0 {
			sum = append(sum, next)
		}
	}
	if len(sum) == 0 {
		return nil
	}
	return sum
}

// add is the sum, or the number nearest to it.
func add(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// first compares what comes first in a and in b. An empty one comes last.
func first(a, b Amounts) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return cmp.Compare(a[0].Name, b[0].Name)
}

// Shared names a unit of a resource that all share who ask for it by this name, such as a volume: a
// node attaches it once for all of its pods. Amounts of the name count those who have it.
func Shared(resource, unit string) string { return resource + " " + unit }

// Sharing is the resource that the amount of a name is a shared unit of, or the name itself.
func Sharing(name string) (resource string, shared bool) {
	resource, _, shared = strings.Cut(name, " ")
	return resource, shared
}

// Lacks is the first resource that need asks for more of than there is in a, less what is used of
// it, or "". What is not asked for may be overcommitted. It allocates nothing.
func (a Amounts) Lacks(need, used Amounts) string {
	for i := range need {
		if need[i].N <= 0 {
			continue
		}
		name, shared := Sharing(need[i].Name)
		if shared && a.shares(used, need[i].Name) {
			continue
		}
		if need.Of(name)+need.units(name, a, used) > a.left(name, used) {
			return name
		}
	}
	return ""
}

// Left is how much there is of a resource, less the units of it that are shared.
func (a Amounts) Left(name string) int64 { return a.left(name, nil) }

func (a Amounts) left(name string, used Amounts) int64 {
	n := a.Of(name) - used.Of(name)
	for i := range a {
		if unitOf(a[i].Name, name) && a[i].N < used.Of(a[i].Name) {
			n--
		}
	}
	for i := range used {
		if unitOf(used[i].Name, name) && used[i].N > 0 && a.Of(used[i].Name) == 0 {
			n--
		}
	}
	return n
}

// units is how many shared units of a resource are asked for that nothing there has yet.
func (a Amounts) units(name string, there, used Amounts) (n int64) {
	for i := range a {
		if a[i].N > 0 && unitOf(a[i].Name, name) && !there.shares(used, a[i].Name) {
			n++
		}
	}
	return n
}

func (a Amounts) shares(used Amounts, unit string) bool { return a.Of(unit) < used.Of(unit) }

func unitOf(unit, resource string) bool {
	return len(unit) > len(resource) && unit[len(resource)] == ' ' && unit[:len(resource)] == resource
}

// Least is the lesser amount of each resource.
func (a Amounts) Least(b Amounts) (least Amounts) {
	for _, one := range a {
		if n := min(one.N, b.Of(one.Name)); n != 0 {
			least = append(least, NamedAmount{one.Name, n})
		}
	}
	return least
}

// Most is the larger amount of each resource.
func (a Amounts) Most(b Amounts) Amounts {
	most := map[string]int64{}
	for _, one := range slices.Concat(a, b) {
		most[one.Name] = max(most[one.Name], one.N)
	}
	return AmountsOf(most)
}

// Times is how often need fits into a, at most n times.
func (a Amounts) Times(need Amounts, n int) int {
	if a.Lacks(need, nil) != "" {
		return 0
	}
	for i := range need {
		if name, shared := Sharing(need[i].Name); !shared && need[i].N > 0 {
			n = int(min(int64(n), (a.left(name, nil)-need.units(name, a, nil))/need[i].N))
		}
	}
	return n
}

// Key is the same for the same amounts, and for no others; empty for none.
func (a Amounts) Key() string {
	var b []byte
	for _, one := range a {
		b = append(strconv.AppendInt(append(strconv.AppendQuote(b, one.Name), '='), one.N, 10), ' ')
	}
	return string(b)
}

// String prints the amounts for people: "20.0 GiB ephemeral-storage and 1 nvidia.com/gpu".
func (a Amounts) String() string {
	text := ""
	for i, one := range a {
		if i > 0 {
			text += " and "
		}
		text += one.String()
	}
	return text
}

// String prints one amount: bytes by their unit, others as a number.
func (a NamedAmount) String() string { return a.Amount() + " " + a.Name }

// Amount is how much it is, without the name.
func (a NamedAmount) Amount() string {
	switch {
	case a.N > Boundless/2:
		return "any amount of"
	case !InBytes(a.Name):
		return strconv.FormatInt(a.N, 10)
	}
	return Bytes(a.N).Rounded()
}

// InBytes reports whether a resource is counted in bytes.
func InBytes(name string) bool {
	return name == EphemeralStorage || len(name) > len(hugePages) && name[:len(hugePages)] == hugePages
}

const hugePages = "hugepages-"

// MarshalJSON writes the amounts by name.
func (a Amounts) MarshalJSON() ([]byte, error) {
	all := make(map[string]int64, len(a))
	for _, one := range a {
		all[one.Name] = one.N
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads amounts by name.
func (a *Amounts) UnmarshalJSON(data []byte) error {
	var all map[string]int64
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*a = AmountsOf(all)
	return nil
}

// Quantity is an amount of a named resource as people write it: a number of devices, 2, or a size
// in bytes, 20Gi.
type Quantity int64

// UnmarshalText reads a whole number or a size.
func (q *Quantity) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		size, wrong := ParseBytes(string(text))
		if wrong != nil {
			return fault("must be a whole number such as 2, or a size such as 20Gi", string(text))
		}
		n = int64(size)
	}
	if n < 0 || n >= Boundless {
		return fault(fmt.Sprintf("must be from 0 to %d", Boundless-1), string(text))
	}
	*q = Quantity(n)
	return nil
}

// UnmarshalJSON reads a number or a string.
func (q *Quantity) UnmarshalJSON(data []byte) error { return unmarshalJSON(data, q.UnmarshalText) }
