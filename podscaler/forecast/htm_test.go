package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
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
	fields, bits := lay(21)
	b := make([]bool, bits)
	fields[0].number(n, b)
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
	f := field{first: 3, bits: 112, on: 7}
	at := func(place int) []bool {
		bits := make([]bool, 3+112)
		f.round(place, 1440, bits)
		return bits
	}
	for place, want := range map[int]int{0: 7, 1439: 6, 13: 6, 720: 0} {
		if got := shared(at(0), at(place)); got != want {
			t.Errorf("place %d shares %d bits with the first, want %d", place, got, want)
		}
	}
}

func TestTheRulerTellsTheUsualApartAndHasRoomForTheRest(t *testing.T) {
	r := newRuler([]float64{50, 60, 45, 52, 58, 49})
	if r.unit != 52 {
		t.Errorf("the unit is %v, should be the median, 52", r.unit)
	}
	if a, b := r.steps(50), r.steps(58); b-a < 3 || b-a > 12 {
		t.Errorf("a usual change is %d steps, should be about 5", b-a)
	}
	if far := r.steps(1500); far < 2*r.steps(60) || far > 10*r.steps(60) {
		t.Errorf("thirty times the load is at %d steps, and 60 at %d", far, r.steps(60))
	}
	if a, b := r.steps(math.MaxFloat64), r.steps(1e20); a != b {
		t.Errorf("what is off the ruler is at %d and %d", a, b)
	}
}

func TestAsManyColumnsWinAsAreToAndNoneTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns, winners := rapid.IntRange(8, 100).Draw(t, "columns"), rapid.IntRange(1, 8).Draw(t, "winners")
		p := newPooler(40, columns, winners, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		var active []int32
		for range 5 {
			bits := rapid.SliceOfN(rapid.Bool(), 40, 40).Draw(t, "bits")
			active = p.pool(bits, active)
			if len(active) != winners || !slices.IsSorted(active) || len(slices.Compact(slices.Clone(active))) != winners {
				t.Fatalf("%v win, should be %d columns", active, winners)
			}
			p.checkWinners(t, active)
			p.learn(bits, active)
		}
	})
}

// checkWinners holds the winners against a plain sort of all scores.
func (p *pooler) checkWinners(t *rapid.T, active []int32) {
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
	_, bits := lay(21)
	p := newPooler(bits, 256, 12, rand.New(rand.NewPCG(1, 0)))
	r := rand.New(rand.NewPCG(2, 0))
	for range 500 {
		b := inputOf(r.IntN(200))
		p.learn(b, p.pool(b, nil))
	}
	var overlap [4]float64
	for n := 20; n < 180; n++ {
		a := p.pool(inputOf(n), nil)
		for i, off := range []int{0, 2, 8, 60} {
			overlap[i] += float64(common(a, p.pool(inputOf(n+off), nil))) / 160
		}
	}
	if overlap[0] < 11.99 || overlap[1] < 7 || overlap[1] < overlap[2]+2 || overlap[2] < overlap[3]+2 || overlap[3] > 2 {
		t.Errorf("numbers that are 0, 2, 8 and 60 apart share %v columns of 12", overlap)
	}
}

// Held back, those that win too often leave room for the others.
func TestMoreColumnsAreOfUseWhereWinnersAreHeldBack(t *testing.T) {
	idle := func(boost float64) (n int) {
		_, bits := lay(21)
		p := newPooler(bits, 128, 8, rand.New(rand.NewPCG(1, 0)))
		p.boost = boost
		r := rand.New(rand.NewPCG(2, 0))
		for range 3000 {
			b := inputOf(r.IntN(100))
			p.learn(b, p.pool(b, nil))
		}
		for _, d := range p.duty {
			if d < p.share()/20 {
				n++
			}
		}
		return n
	}
	if none, usual, much := idle(0), idle(usualBoost), idle(50); none <= usual || usual <= much || much > 2 {
		t.Errorf("of 128 columns %d are of no use where nobody is held back, %d as usual, %d where they are held back much", none, usual, much)
	}
}

// predicted returns the columns that have a predicted cell, in their order.
func (m *temporal) predicted() (columns []int32) {
	for column := range m.came {
		if m.predicts(int32(column)) {
			columns = append(columns, int32(column))
		}
	}
	return columns
}

func (m *temporal) predicts(column int32) bool {
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
	m := newTemporal(columns, 8, active, rand.New(rand.NewPCG(1, 0)))
	play := func(letters string) {
		m.reset()
		for _, l := range letters {
			m.observe(letter(l))
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
	if len(m.foretold) > 0 || len(m.active) != 8*active {
		t.Errorf("at what was not foretold %d cells are active, should be all %d", len(m.active), 8*active)
	}
}

func TestWhatDoesNotComeAnyMoreIsUnlearnt(t *testing.T) {
	m := newTemporal(64, 4, 4, rand.New(rand.NewPCG(1, 0)))
	a, b, c := []int32{0, 1, 2, 3}, []int32{8, 9, 10, 11}, []int32{20, 21, 22, 23}
	after := func(next []int32, times int) []int32 {
		for range times {
			m.reset()
			m.observe(a)
			m.observe(next)
		}
		m.reset()
		m.observe(a)
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
		m := newTemporal(16, 2, 4, rand.New(rand.NewPCG(1, 0)))
		for range rapid.IntRange(1, 300).Draw(t, "periods") {
			m.observe(rapid.SampledFrom([][]int32{{0, 1, 2, 3}, {1, 2, 3, 4}, {4, 5, 8, 9}, {3, 9, 11, 15}, {12, 13, 14, 15}}).Draw(t, "columns"))
			if rapid.IntRange(0, 20).Draw(t, "reset") == 0 {
				m.reset()
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
	c := newClassifier([]float64{0, 10, 20, 40}, 30)
	if _, ok := c.mean([]int32{1}); ok {
		t.Error("it knows something before it has learnt")
	}
	patterns := map[float64][]int32{3: {1, 2, 3, 20}, 17: {4, 5, 6, 20}, 40: {7, 8, 9, 20}, 55: {10, 11, 12, 20}}
	for range 300 {
		for _, v := range []float64{3, 17, 40, 55} {
			c.learn(patterns[v], v)
		}
	}
	for v, p := range patterns {
		if got, _ := c.mean(p); math.Abs(got-min(v, 40)) > 0.6 {
			t.Errorf("%v is expected where %v always came", got, v)
		}
	}
	// What comes by chance is expected in the mean.
	r, sum := rand.New(rand.NewPCG(1, 0)), 0.0
	for range 2000 {
		c.learn([]int32{25, 26}, []float64{0, 40}[r.IntN(2)])
		mean, _ := c.mean([]int32{25, 26})
		sum += mean / 2000
	}
	if math.Abs(sum-20) > 1.5 {
		t.Errorf("%v is expected where 0 and 40 are equally likely", sum)
	}
}

// A season in which no value predicts the next is learnt from its sequence. HTM takes its time for
// it.
func TestHTMLearnsASeasonWithinAHundredAndTwenty(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	season := make([]float64, 20)
	for i := range season {
		season[i] = float64(10 + r.IntN(130))
	}
	m := must.Get(New(Spec{Type: "HTM", HTM: &HTM{Columns: 256, Active: 10, History: 5, Horizons: []int{1, 3}}}))(t)
	pass := func() (one, three float64) {
		for i, v := range season {
			f, _ := m.Predict(1)
			one += math.Abs(f-v) / float64(len(season))
			f, _ = m.Predict(3)
			three += math.Abs(f-season[(i+2)%len(season)]) / float64(len(season))
			m.Observe(v)
		}
		return one, three
	}
	for range 120 {
		pass()
	}
	if one, three := pass(); one > 6.5 || three > 6.5 {
		t.Errorf("it is off by %.1f one period ahead and by %.1f three ahead, of a swing of 130", one, three)
	}
}

// What is between two horizons is on a line between them, and a gap brings all of them nearer.
func TestHTMSpeaksForTheHorizonsBetween(t *testing.T) {
	m := must.Get(New(Spec{Type: "HTM", HTM: &HTM{Columns: 64, Active: 4, Cells: 2, Horizons: []int{2, 4}}}))(t)
	r := rand.New(rand.NewPCG(5, 0))
	last := 0.0
	for range 300 {
		last = float64(50 + r.IntN(50))
		m.Observe(last)
	}
	at := func(h int) float64 {
		f, ok := m.Predict(h)
		if !ok {
			t.Fatalf("%d ahead nothing is known", h)
		}
		return f
	}
	one, two, three, four, five := at(1), at(2), at(3), at(4), at(5)
	if math.Abs(one-(last+two)/2) > 1e-9 || math.Abs(three-(two+four)/2) > 1e-9 || four != five || two == four {
		t.Errorf("after %v it expects %v, %v, %v, %v, %v", last, one, two, three, four, five)
	}
	m.Observe(math.NaN())
	if got := at(1); got != two {
		t.Errorf("after a gap it expects %v, should be %v, what it expected two ahead", got, two)
	}
	for range stale {
		m.Observe(math.NaN())
	}
	if _, ok := m.Predict(1); ok {
		t.Error("it knows what comes after a gap of ten")
	}
}

// A load that has become another one is read by another ruler, or all of it would be one step.
func TestHTMLearnsAnewWhereTheLoadIsAnotherOne(t *testing.T) {
	built := must.Get(New(Spec{Type: "HTM", HTM: &HTM{Columns: 64, Active: 4, Cells: 2}}))(t)
	m := built.(*htm)
	m.Observe(0)
	for i := range settling {
		if m.ruler.unit != 0 {
			t.Fatalf("the unit is chosen after %d values", i)
		}
		m.Observe(1000)
	}
	m.Observe(57000)
	if m.ruler.unit != 1000 {
		t.Errorf("the unit is %v, should be 1000", m.ruler.unit)
	}
	for range 3000 {
		m.Observe(10)
	}
	if f, ok := m.Predict(1); m.ruler.unit != 10 || !ok || math.Abs(f-10) > 0.1 {
		t.Errorf("the unit is %v and %v is expected (known: %t), should be 10", m.ruler.unit, f, ok)
	}
}

func TestHTMOfNothingExpectsNothing(t *testing.T) {
	m := must.Get(New(Spec{Type: "HTM"}))(t)
	for range settling {
		if _, ok := m.Predict(1); ok {
			t.Fatal("it knows what comes before it can")
		}
		m.Observe(0)
	}
	if f, ok := m.Predict(7); f != 0 || !ok {
		t.Errorf("it expects %v (known: %t) where there never was anything", f, ok)
	}
}

// anything is a series of the worst kind: from nothing to the most that is believed, with gaps.
func anything(t *rapid.T, n int) (series []float64) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "chance"), 0))
	size := rapid.SampledFrom([]float64{1e-300, 1e-25, 1, 1e6, Most}).Draw(t, "size")
	for range n {
		v := size * r.Float64()
		switch r.IntN(20) {
		case 0:
			v = math.NaN()
		case 1:
			v = []float64{0, -1, math.Inf(1), Most, math.SmallestNonzeroFloat64, 100}[r.IntN(6)]
		}
		series = append(series, v)
	}
	return series
}

func smallHTM(t rapid.TB) *htm {
	m := must.Get(New(Spec{Type: "HTM", HTM: &HTM{Columns: 64, Active: 5, Cells: 3, Horizons: []int{1, 4}, Season: 50}}))(t)
	return m.(*htm)
}

func TestHTMStandsWhateverComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallHTM(t)
		if rapid.Bool().Draw(t, "trained") {
			m.Train(anything(t, 100))
		}
		for i, v := range anything(t, 120) {
			m.Observe(v)
			if f, ok := m.Predict(1 + i%9); !(f >= 0) || math.IsInf(f, 1) {
				t.Fatalf("after %d values it expects %v (known: %t)", i, f, ok)
			}
		}
	})
}

// By a power of four all arithmetic is the same.
func TestHTMDoesNotDependOnTheUnit(t *testing.T) {
	small, large := smallHTM(t), smallHTM(t)
	r := rand.New(rand.NewPCG(6, 0))
	for i := range 1000 {
		v := float64(20 + r.IntN(60))
		small.Observe(v)
		large.Observe(v * 4096)
		a, known := small.Predict(1 + i%5)
		if b, ok := large.Predict(1 + i%5); a*4096 != b || known != ok {
			t.Fatalf("after %d values it expects %v, and %v of 4096 times as much", i, a, b)
		}
	}
}

func TestHTMOfWhatStandsStillIsExact(t *testing.T) {
	m := smallHTM(t)
	for range 200 {
		m.Observe(7)
	}
	for h := 1; h < 10; h++ {
		if f, ok := m.Predict(h); f != 7 || !ok {
			t.Errorf("%d ahead it expects %v (known: %t) of what was always 7", h, f, ok)
		}
	}
}
