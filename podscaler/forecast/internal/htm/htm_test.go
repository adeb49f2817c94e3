package htm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// common is how many elements two sorted lists share.
func common(a, b []int32) (n int) {
	for _, x := range a {
		if _, ok := slices.BinarySearch(b, x); ok {
			n++
		}
	}
	return n
}

// seen returns the bits of a number, in one field.
func inputOf(n int) []bool {
	fields, bits := Lay(21)
	b := make([]bool, bits)
	fields[0].Number(n, b)
	return b
}

func shared(a, b []bool) (n int) {
	for i := range a {
		if a[i] && b[i] {
			n++
		}
	}
	return n
}

func TestNearNumbersShareBitsAndFarOnesDoNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(-1_000_000, 1_000_000).Draw(t, "n")
		far := n + rapid.IntRange(21, 5000).Draw(t, "distance")
		self, near, off := shared(inputOf(n), inputOf(n)), shared(inputOf(n), inputOf(n+4)), shared(inputOf(n), inputOf(far))
		if self < 16 || self > 21 || near < self-4 || off > 9 || off >= near {
			t.Fatalf("%d has %d bits, of which %d are shared with %d and %d with %d", n, self, near, n+4, off, far)
		}
	})
}

func TestAPlaceInTheSeasonGoesRound(t *testing.T) {
	f := Field{first: 3, bits: 112, on: 7}
	at := func(place int) []bool {
		bits := make([]bool, 3+112)
		f.Round(place, 1440, bits)
		return bits
	}
	for place, want := range map[int]int{0: 7, 1439: 6, 13: 6, 720: 0} {
		if got := shared(at(0), at(place)); got != want {
			t.Errorf("place %d shares %d bits with the first, want %d", place, got, want)
		}
	}
}

func TestTheRulerTellsTheUsualApartAndHasRoomForTheRest(t *testing.T) {
	r := NewRuler([]float64{50, 60, 45, 52, 58, 49})
	if r.Unit != 52 {
		t.Errorf("the unit is %v, should be the median, 52", r.Unit)
	}
	if a, b := r.Steps(50), r.Steps(58); b-a < 3 || b-a > 12 {
		t.Errorf("a usual change is %d steps, should be about 5", b-a)
	}
	if far := r.Steps(1500); far < 2*r.Steps(60) || far > 10*r.Steps(60) {
		t.Errorf("thirty times the load is at %d steps, and 60 at %d", far, r.Steps(60))
	}
	if a, b := r.Steps(math.MaxFloat64), r.Steps(1e20); a != b {
		t.Errorf("what is off the ruler is at %d and %d", a, b)
	}
}

func TestAsManyColumnsWinAsAreToAndNoneTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns, winners := rapid.IntRange(8, 100).Draw(t, "columns"), rapid.IntRange(1, 8).Draw(t, "winners")
		p := NewPooler(40, columns, winners, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		var active []int32
		for range 5 {
			bits := rapid.SliceOfN(rapid.Bool(), 40, 40).Draw(t, "bits")
			active = p.Pool(bits, active)
			if len(active) != winners || !slices.IsSorted(active) || len(slices.Compact(slices.Clone(active))) != winners {
				t.Fatalf("%v win, should be %d columns", active, winners)
			}
			p.checkWinners(t, active)
			p.Learn(bits, active)
		}
	})
}

// checkWinners holds the winners against a plain sort of all scores.
func (p *Pooler) checkWinners(t *rapid.T, active []int32) {
	all := make([]int32, p.columns)
	for c := range all {
		all[c] = int32(c)
	}
	slices.SortStableFunc(all, func(a, b int32) int {
		switch x, y := p.score(int(a)), p.score(int(b)); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	best := slices.Sorted(slices.Values(all[:p.winners]))
	if !slices.Equal(best, active) {
		t.Fatalf("%v win, should be %v", active, best)
	}
}

func TestTheMoreAlikeTheBitsTheMoreColumnsAreTheSame(t *testing.T) {
	_, bits := Lay(21)
	p := NewPooler(bits, 256, 12, rand.New(rand.NewPCG(1, 0)))
	r := rand.New(rand.NewPCG(2, 0))
	for range 500 {
		b := inputOf(r.IntN(200))
		p.Learn(b, p.Pool(b, nil))
	}
	var overlap [4]float64
	for n := 20; n < 180; n++ {
		a := p.Pool(inputOf(n), nil)
		for i, off := range []int{0, 2, 8, 60} {
			overlap[i] += float64(common(a, p.Pool(inputOf(n+off), nil))) / 160
		}
	}
	if overlap[0] < 11.99 || overlap[1] < 7 || overlap[1] < overlap[2]+2 || overlap[2] < overlap[3]+2 || overlap[3] > 2 {
		t.Errorf("numbers that are 0, 2, 8 and 60 apart share %v columns of 12", overlap)
	}
}

// Held back, those that win too often leave room for the others.
func TestMoreColumnsAreOfUseWhereWinnersAreHeldBack(t *testing.T) {
	idle := func(boost float64) (n int) {
		_, bits := Lay(21)
		p := NewPooler(bits, 128, 8, rand.New(rand.NewPCG(1, 0)))
		p.boost = boost
		r := rand.New(rand.NewPCG(2, 0))
		for range 3000 {
			b := inputOf(r.IntN(100))
			p.Learn(b, p.Pool(b, nil))
		}
		for _, d := range p.duty {
			if d < p.share()/20 {
				n++
			}
		}
		return n
	}
	if none, usual, much := idle(0), idle(usualBoost), idle(50); none <= usual || usual <= much || much > 2 {
		t.Errorf("of 128 columns %d are of no use where none is held back, %d as usual, %d where they are held back much", none, usual, much)
	}
}

// predicted returns the columns that have a predicted cell, in their order.
func (m *Temporal) predicted() (columns []int32) {
	for column := range m.came {
		if m.predicts(int32(column)) {
			columns = append(columns, int32(column))
		}
	}
	return columns
}

func (m *Temporal) predicts(column int32) bool {
	for c := column * int32(m.cells); c < (column+1)*int32(m.cells); c++ {
		for _, s := range m.of[c] {
			if m.count[s] >= int32(m.threshold) {
				return true
			}
		}
	}
	return false
}

// The published test of high-order sequences: after A B C comes D, and after X B C comes Y. What
// comes after C is said two letters before it, in the cells alone.
func TestWhatFollowsDependsOnWhatWasBefore(t *testing.T) {
	const columns, active = 128, 8
	letter := func(name rune) (a []int32) {
		first := map[rune]int32{'A': 0, 'B': 1, 'C': 2, 'D': 3, 'X': 4, 'Y': 5}[name] * active
		for i := range int32(active) {
			a = append(a, first+i)
		}
		return a
	}
	m := NewTemporal(columns, 8, active, rand.New(rand.NewPCG(1, 0)))
	play := func(letters string) {
		m.Reset()
		for _, l := range letters {
			m.Observe(letter(l))
		}
	}
	play("ABC")
	if got := m.predicted(); len(got) > 0 {
		t.Fatalf("columns %v are predicted by what was never seen", got)
	}
	for range 60 {
		play("ABCD")
		play("XBCY")
	}
	for _, s := range []string{"AB", "ABC", "ABCD", "XB", "XBC", "XBCY"} {
		before, after := s[:len(s)-1], rune(s[len(s)-1])
		play(before)
		if got := m.predicted(); !slices.Equal(got, letter(after)) {
			t.Errorf("after %s columns %v are predicted, should be %c: %v", before, got, after, letter(after))
		}
	}
	// Without a beginning both are possible.
	play("BC")
	if got, want := m.predicted(), append(letter('D'), letter('Y')...); !slices.Equal(got, want) {
		t.Errorf("after B C columns %v are predicted, should be D and Y: %v", got, want)
	}
	play("ABCY")
	if len(m.Foretold) > 0 || len(m.active) != 8*active {
		t.Errorf("at what was not foretold %d cells are active, should be all %d", len(m.active), 8*active)
	}
}

func TestWhatDoesNotComeAnyMoreIsUnlearnt(t *testing.T) {
	m := NewTemporal(64, 4, 4, rand.New(rand.NewPCG(1, 0)))
	a, b, c := []int32{0, 1, 2, 3}, []int32{8, 9, 10, 11}, []int32{20, 21, 22, 23}
	after := func(next []int32, times int) []int32 {
		for range times {
			m.Reset()
			m.Observe(a)
			m.Observe(next)
		}
		m.Reset()
		m.Observe(a)
		return m.predicted()
	}
	if got := after(b, 20); !slices.Equal(got, b) {
		t.Fatalf("%v is predicted, should be %v", got, b)
	}
	if got := after(c, 20); !slices.Equal(got, append(slices.Clone(b), c...)) {
		t.Errorf("%v is predicted, should be both", got)
	}
	if got := after(c, 200); !slices.Equal(got, c) {
		t.Errorf("%v is predicted, should be %v alone", got, c)
	}
}

// The lists by which synapses are found from either end always agree.
func TestSynapsesAreListedWhereTheyStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewTemporal(16, 2, 4, rand.New(rand.NewPCG(1, 0)))
		for range rapid.IntRange(1, 300).Draw(t, "periods") {
			m.Observe(rapid.SampledFrom([][]int32{{0, 1, 2, 3}, {1, 2, 3, 4}, {4, 5, 8, 9}, {3, 9, 11, 15}, {12, 13, 14, 15}}).Draw(t, "columns"))
			if rapid.IntRange(0, 20).Draw(t, "reset") == 0 {
				m.Reset()
			}
		}
		n := 0
		for cell, out := range m.out {
			for _, synapse := range out {
				n++
				if m.from[synapse] != int32(cell) {
					t.Fatalf("synapse %d starts at %d, and is listed at %d", synapse, m.from[synapse], cell)
				}
			}
		}
		for s := range m.owner {
			cells := map[int32]bool{}
			for i := s * m.synapses; i < (s+1)*m.synapses; i++ {
				switch from := m.from[i]; {
				case from < 0:
				case cells[from]:
					t.Fatalf("segment %d has two synapses from %d", s, from)
				default:
					cells[from] = true
					n--
				}
			}
		}
		if n != 0 {
			t.Fatalf("%d synapses more are listed than there are", n)
		}
	})
}

func TestTheClassifierTellsPatternsApart(t *testing.T) {
	c := NewClassifier([]float64{0, 10, 20, 40}, 30)
	if _, ok := c.Mean([]int32{1}); ok {
		t.Error("it knows something before it has learnt")
	}
	patterns := map[float64][]int32{3: {1, 2, 3, 20}, 17: {4, 5, 6, 20}, 40: {7, 8, 9, 20}, 55: {10, 11, 12, 20}}
	for range 300 {
		for _, v := range []float64{3, 17, 40, 55} {
			c.Learn(patterns[v], v)
		}
	}
	for v, p := range patterns {
		if got, _ := c.Mean(p); math.Abs(got-min(v, 40)) > 0.6 {
			t.Errorf("%v is expected where %v always came", got, v)
		}
	}
	// What comes by chance is expected in the mean.
	r, sum := rand.New(rand.NewPCG(1, 0)), 0.0
	for range 2000 {
		c.Learn([]int32{25, 26}, []float64{0, 40}[r.IntN(2)])
		mean, _ := c.Mean([]int32{25, 26})
		sum += mean / 2000
	}
	if math.Abs(sum-20) > 1.5 {
		t.Errorf("%v is expected where 0 and 40 are equally likely", sum)
	}
}
