package htm

import (
	"math"
	"slices"
)

// Ruler is what an HTM reads a series by: straight for what is less than usual, and logarithmic
// above, so that a flash crowd of thirty times the load has a place on it, and leaves the rest
// where it is.
type Ruler struct {
	Unit float64 // what is usual
	step float64 // the smallest difference that counts
}

const (
	// resolution is the part of the usual change between two values that is distinguished from no
	// change. With finer steps no two situations are alike; with coarser ones all of them are.
	resolution = 0.2
	// finest is the least step, for a series that does not move most of the time.
	finest = 0.002
	// farthest is how many units a value is taken for at most.
	farthest = 1e6
)

// NewRuler makes a ruler for a series of which it gets some values, all of them above 0.
func NewRuler(values []float64) Ruler {
	r := Ruler{Unit: Median(values)}
	changes := make([]float64, 0, len(values))
	for i := 1; i < len(values); i++ {
		changes = append(changes, math.Abs(r.place(values[i])-r.place(values[i-1])))
	}
	r.step = max(finest, resolution*Median(changes))
	return r
}

// Median is the median of values, the higher one of two.
func Median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// place returns where a value is on the ruler.
func (r Ruler) place(v float64) float64 { return math.Log1p(min(v/r.Unit, farthest)) }

// Steps returns how many steps from 0 a value is.
func (r Ruler) Steps(v float64) int { return int(math.Round(r.place(v) / r.step)) }

// Field is a part of the bits that an HTM sees. Some of its bits are on, and the nearer two numbers
// are the more of them are the same.
type Field struct{ first, bits, on int }

// Lay returns fields side by side, by how many bits are on in each, and how many bits they have.
// A sixteenth of them is on, so that it hardly ever happens that two numbers share a bit by chance.
func Lay(on ...int) (fields []Field, bits int) {
	for _, n := range on {
		fields = append(fields, Field{first: bits, bits: 16 * n, on: n})
		bits += 16 * n
	}
	return fields, bits
}

// Number switches on the bits of a number. Every number has a bit of its own, by chance, and
// brings those of the numbers around it with it, so that there is no end to the numbers that can
// be distinguished: the random distributed scalar encoder (Purdy 2016).
func (f Field) Number(n int, bits []bool) {
	for i := n - f.on/2; i < n-f.on/2+f.on; i++ {
		bits[f.first+int(scatter(i, f.first)%uint64(f.bits))] = true
	}
}

// Round switches on the bits of a place on a circle of so many places.
func (f Field) Round(place, places int, bits []bool) {
	from := int(float64(place) / float64(places) * float64(f.bits))
	for i := range f.on {
		bits[f.first+(from+i)%f.bits] = true
	}
}

// scatter turns a number into one that looks like chance (the finalizer of splitmix64).
func scatter(n, salt int) uint64 {
	x := uint64(n) + 0x9e3779b97f4a7c15*uint64(salt+1)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
