package pricing

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var dawn = time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return dawn.Add(d) }

func vm(cpu MilliCPU, memory Bytes) Shape { return Shape{Name: "vm", CPU: cpu, Memory: memory} }

// life is one run of a machine, in minutes from dawn; stop is 0 if it runs on.
type life struct {
	id          string
	shape       Shape
	host        string
	start, stop int
}

func minutes(n int) time.Time { return at(time.Duration(n) * time.Minute) }

// ledgerOf enters lives into a ledger in the given order, the starts of a life before its stop.
func ledgerOf(t interface{ Fatal(...any) }, b *Book, lives []life) *Ledger {
	l := NewLedger(b)
	for _, m := range lives {
		if err := l.Start(m.id, m.shape, m.host, minutes(m.start)); err != nil {
			t.Fatal(err)
		}
		if m.stop == 0 {
			continue
		}
		if err := l.Stop(m.id, minutes(m.stop)); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestLedgerChargesWhatRunsForAsLongAsItRuns(t *testing.T) {
	b := DefaultBook()
	b.PerHost = Unit / 2
	l := ledgerOf(t, b, []life{
		{"a", vm(2000, 8*GB), "pve1", 60, 90},
		{"b", vm(2000, 8*GB), "pve1", 75, 0},
		{"c", vm(1000, 1*GB), "", 120, 0},
		{"d", vm(1000, 1*GB), "pve2", 120, 120},
	})
	for _, c := range []struct {
		from, to int
		want     string
	}{
		{0, 60, "0"},
		{60, 75, "2.625"}, // a quarter of 10 and a quarter of pve1's 0.5
		{75, 90, "5.125"}, // both machines, pve1 still once
		{90, 120, "5.25"}, // b alone
		{120, 180, "12.5"},
		{0, 180, "25.5"},
		{180, 180 + 24*60, "300"}, // what runs now runs on
		{180, 0, "-25.5"},
	} {
		if got := l.Between(minutes(c.from), minutes(c.to)).String(); got != c.want {
			t.Errorf("minutes %d to %d cost %s, want %s", c.from, c.to, got, c.want)
		}
	}
	for minute, want := range map[int]string{59: "0", 60: "10.5", 75: "20.5", 89: "20.5", 90: "10.5", 120: "12.5", 100_000: "12.5"} {
		if got := l.Rate(minutes(minute)).String(); got != want {
			t.Errorf("in minute %d the rate is %s, want %s", minute, got, want)
		}
	}
}

func TestLedgerRoundsOnceWhenRead(t *testing.T) {
	l := ledgerOf(t, DefaultBook(), []life{{"a", vm(2000, 8*GiB), "", 0, 30}})
	if got := l.Between(at(0), at(time.Hour)); got != 5_294_967 {
		t.Errorf("2 vCPU and 8 GiB cost %s in 30 minutes, want 5.294967", got)
	}
	want := new(big.Int).Mul(big.NewInt(5_294_967_296), big.NewInt(int64(time.Hour)))
	if got := l.between(at(0), at(time.Hour)); got.Cmp(want) != 0 {
		t.Errorf("before rounding it is %s, want 5.294967296 units", got)
	}
}

func TestLedgerFollowsTariffsIntoTheFuture(t *testing.T) {
	b := DefaultBook()
	b.Tariffs = []Tariff{{From: 22 * 60, To: 6 * 60, Percent: new(Hundred / 2)}}
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	l := ledgerOf(t, b, []life{{"a", vm(2000, 8*GB), "", 12 * 60, 0}})
	if got := l.Between(minutes(12*60), minutes(36*60)); got != 200*Unit {
		t.Errorf("a day with 8 hours at half price costs %s, want 200", got)
	}
	if day, night := l.Rate(minutes(21*60)), l.Rate(minutes(23*60)); day != RateOf(10*Unit) || night != RateOf(5*Unit) {
		t.Errorf("the rate is %s by day and %s by night, want 10 and 5", day, night)
	}
}

func TestLedgerReachesBeyondTheCenturies(t *testing.T) {
	l := ledgerOf(t, DefaultBook(), []life{{"a", vm(1000, 0), "", 0, 0}})
	if got, want := l.Between(time.Time{}, at(0)), Micros(0); got != want {
		t.Errorf("before its start the machine costs %s", got)
	}
	to := dawn.AddDate(400, 0, 0) // 146 097 days
	if got, want := l.Between(time.Time{}, to), 146_097*24*Unit; got != want {
		t.Errorf("400 years cost %s, want %s", got, want)
	}
}

func TestLedgerRefusesWhatCannotHaveHappened(t *testing.T) {
	l := NewLedger(DefaultBook())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error, why string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want %q", err, why)
		}
	}
	refused(l.Stop("a", minutes(1)), "stop a at 2026-03-27T00:01:00Z: it was never started")
	must(l.Start("a", vm(1000, 0), "", minutes(10)))
	refused(l.Start("a", vm(1000, 0), "", minutes(20)), "start a at 2026-03-27T00:20:00Z: it runs since 2026-03-27T00:10:00Z")
	refused(l.Stop("a", minutes(9)), "stop a at 2026-03-27T00:09:00Z: it was started at 2026-03-27T00:10:00Z")
	must(l.Stop("a", minutes(30)))
	refused(l.Stop("a", minutes(40)), "it is stopped since 2026-03-27T00:30:00Z")
	refused(l.Start("a", vm(1000, 0), "", minutes(29)), "it ran until 2026-03-27T00:30:00Z")
	must(l.Start("a", vm(1000, 0), "", minutes(30)))
	if got := l.Between(minutes(0), minutes(70)); got != Unit {
		t.Errorf("two runs of 20 and 40 minutes cost %s, want 1", got)
	}
}

const horizon = 4 * 24 * 60 // minutes in which drawn lives begin and end

func drawLives(t *rapid.T) []life {
	shapes := []Shape{vm(2000, 8*GB), vm(2000, 8*GiB), {Name: "odd", CPU: 333, Memory: 1_234_567_891}, {Name: "flat", CPU: 1000, Memory: GB}}
	lives := make([]life, rapid.IntRange(0, 12).Draw(t, "machines"))
	for i := range lives {
		m := life{
			id:    fmt.Sprintf("m%d", i),
			shape: rapid.SampledFrom(shapes).Draw(t, "shape"),
			host:  rapid.SampledFrom([]string{"", "pve1", "pve2"}).Draw(t, "host"),
			start: rapid.IntRange(0, horizon).Draw(t, "start"),
		}
		if rapid.Bool().Draw(t, "stops") {
			m.stop = m.start + rapid.IntRange(0, horizon/2).Draw(t, "length")
		}
		lives[i] = m
	}
	return lives
}

// drawPrices draws a book whose fixed parts, shapes and windows all matter; Berlin's clocks
// change within the horizon.
func drawPrices(t *rapid.T) *Book {
	b := DefaultBook()
	b.PerHost = Micros(rapid.Int64Range(0, 300_000).Draw(t, "fixed"))
	b.Hosts = map[string]HostPrices{"pve2": {Prices: Prices{PerVCPU: new(Micros(31_600))}, PerHost: new(Micros(7))}}
	b.Shapes = map[string]ShapePrices{"flat": {PerHour: new(Micros(123_457))}}
	if err := b.Zone.UnmarshalText([]byte("Europe/Berlin")); err != nil {
		t.Fatal(err)
	}
	b.Tariffs = rapid.SampledFrom([][]Tariff{
		nil,
		{{From: 22 * 60, To: 6 * 60, Percent: new(Percent(61_803))}},
		{{From: 2*60 + 30, To: 5 * 60, Percent: new(Percent(33_333))}, {From: 17 * 60, To: 20 * 60, Weekdays: []Weekday{1, 6}, PerHost: nil, Prices: Prices{PerGiB: new(Micros(999_999))}}},
	}).Draw(t, "tariffs")
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	return b
}

func drawMinute(t *rapid.T, name string) int {
	return rapid.IntRange(-100, horizon+horizon/2).Draw(t, name)
}

// running lists what runs in a minute.
func running(lives []life, m int) (there []Placed) {
	for _, v := range lives {
		if v.start <= m && (v.stop == 0 || m < v.stop) {
			there = append(there, Placed{Shape: v.shape, Host: v.host})
		}
	}
	return there
}

// TestLedgerEqualsItsSlowTwin checks against a walk, minute by minute, over what runs.
func TestLedgerEqualsItsSlowTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, lives := drawPrices(t), drawLives(t)
		l := ledgerOf(t, b, lives)
		from := drawMinute(t, "from")
		to := from + rapid.IntRange(0, 3*24*60).Draw(t, "length")
		want := new(big.Int)
		for m := from; m < to; m++ {
			rate := b.Total(running(lives, m), minutes(m))
			if got := l.Rate(minutes(m)); got != rate {
				t.Fatalf("in minute %d the rate is %s, want %s", m, got, rate)
			}
			want.Add(want, new(big.Int).Mul(big.NewInt(int64(rate)), big.NewInt(int64(time.Minute))))
		}
		if got := l.between(minutes(from), minutes(to)); got.Cmp(want) != 0 {
			t.Fatalf("minutes %d to %d cost %s, want %s", from, to, got, want)
		}
	})
}

func TestCostOfTwoStretchesIsTheCostOfBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledgerOf(t, drawPrices(t), drawLives(t))
		nanos := func(name string) time.Time {
			return at(time.Duration(rapid.Int64Range(0, 9*int64(day)).Draw(t, name)))
		}
		a, b, c := nanos("a"), nanos("b"), nanos("c")
		whole, parts := l.between(a, c), new(big.Int).Add(l.between(a, b), l.between(b, c))
		if whole.Cmp(parts) != 0 {
			t.Fatalf("%s as a whole, %s in parts", whole, parts)
		}
	})
}

// TestOrderOfEntriesDoesNotMatter also reads the ledger between entries, so that cached sums have
// to be discarded.
func TestOrderOfEntriesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, lives := drawPrices(t), drawLives(t)
		want := ledgerOf(t, b, lives)
		got := NewLedger(b)
		var stops []life
		for _, m := range rapid.Permutation(lives).Draw(t, "order") {
			if err := got.Start(m.id, m.shape, m.host, minutes(m.start)); err != nil {
				t.Fatal(err)
			}
			got.Rate(minutes(drawMinute(t, "look")))
			if m.stop != 0 {
				stops = append(stops, m)
			}
		}
		for _, m := range rapid.Permutation(stops).Draw(t, "stops") {
			if err := got.Stop(m.id, minutes(m.stop)); err != nil {
				t.Fatal(err)
			}
			got.Rate(minutes(drawMinute(t, "look")))
		}
		from, to := minutes(drawMinute(t, "from")), minutes(drawMinute(t, "to"))
		if a, b := got.between(from, to), want.between(from, to); a.Cmp(b) != 0 {
			t.Fatalf("the cost is %s in one order and %s in another", a, b)
		}
	})
}

func TestSharesAddUpToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, lives := drawPrices(t), drawLives(t)
		l := ledgerOf(t, b, lives)
		from := drawMinute(t, "from")
		to := from + rapid.IntRange(0, 3*24*60).Draw(t, "length")
		sum := new(big.Int)
		for _, s := range l.Each(minutes(from), minutes(to)) {
			if (s.Machine == "") == (s.Host == "") {
				t.Fatalf("%+v is neither a machine's nor a host's", s)
			}
			sum.Add(sum, s.exact)
			if i := slices.IndexFunc(lives, func(m life) bool { return m.id == s.Machine }); i >= 0 {
				alone := ledgerOf(t, b, lives[i:i+1])
				alone.runs[0].host = none // its own cost, without the host's
				if own := alone.Each(minutes(from), minutes(to))[0].exact; own.Cmp(s.exact) != 0 {
					t.Fatalf("%s costs %s among others and %s alone", s.Machine, s.exact, own)
				}
			}
		}
		if whole := l.between(minutes(from), minutes(to)); sum.Cmp(whole) != 0 {
			t.Fatalf("the shares add up to %s of %s", sum, whole)
		}
	})
}

func TestSharesAreByMachineThenByHost(t *testing.T) {
	b := DefaultBook()
	b.PerHost = Unit
	l := ledgerOf(t, b, []life{
		{"b", vm(2000, 8*GB), "pve1", 0, 30},
		{"a", vm(1000, 1*GB), "pve1", 15, 45},
		{"b", vm(1000, 1*GB), "pve1", 60, 0},
		{"never", vm(1000, 1*GB), "pve2", 200, 0},
	})
	want := "{a  1} {b  6} { pve1 1.25}"
	var got []string
	for _, s := range l.Each(time.Time{}, minutes(90)) {
		got = append(got, fmt.Sprintf("{%s %s %s}", s.Machine, s.Host, s.Cost))
	}
	if strings.Join(got, " ") != want {
		t.Errorf("the shares are %s, want %s", got, want)
	}
}

func TestTwiceThePricesIsTwiceTheCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t)
		for i := range lives {
			lives[i].shape.Memory = lives[i].shape.Memory / MB * MB // whose rate needs no rounding
		}
		once := DefaultBook()
		once.PerVCPU = Micros(rapid.Int64Range(0, 1_000_000).Draw(t, "vCPU"))
		once.PerGB = Micros(rapid.Int64Range(0, 1_000_000).Draw(t, "GB"))
		once.PerHost = Micros(rapid.Int64Range(0, 1_000_000).Draw(t, "fixed"))
		twice := *once
		twice.PerVCPU, twice.PerGB, twice.PerHost = 2*once.PerVCPU, 2*once.PerGB, 2*once.PerHost
		from, to := minutes(drawMinute(t, "from")), minutes(drawMinute(t, "to"))
		a, b := ledgerOf(t, once, lives).between(from, to), ledgerOf(t, &twice, lives).between(from, to)
		if a.Lsh(a, 1).Cmp(b) != 0 {
			t.Fatalf("twice %s is not %s", a, b)
		}
	})
}

func BenchmarkLedger(b *testing.B) {
	book := DefaultBook()
	book.PerHost = Unit / 10
	book.Tariffs = []Tariff{{From: 22 * 60, To: 6 * 60, Percent: new(Hundred / 2)}}
	chance := rand.New(rand.NewPCG(1, 2))
	const machines = 10_000
	fill := func() *Ledger {
		l := NewLedger(book)
		for i := range machines { // a month in which machines come and go, entered as it happens
			id := fmt.Sprint(i)
			start := i * 30 * 24 * 60 / machines
			_ = l.Start(id, vm(2000, 8*GB), fmt.Sprintf("pve%d", i%8), minutes(start))
			_ = l.Stop(id, minutes(start+chance.IntN(600)))
		}
		return l
	}
	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
			fill().Rate(minutes(0))
		}
	})
	l := fill()
	b.Run("between", func(b *testing.B) {
		for b.Loop() {
			l.Between(minutes(chance.IntN(20*24*60)), minutes(chance.IntN(40*24*60)))
		}
	})
	b.Run("step", func(b *testing.B) { // one machine in, one out, and a look ahead
		l, n := fill(), 0
		for b.Loop() {
			n++
			id, now := fmt.Sprint("n", n), minutes(31*24*60+n)
			_ = l.Start(id, vm(2000, 8*GB), "pve1", now)
			_ = l.Stop(id, now.Add(10*time.Minute))
			l.Between(now, now.Add(time.Hour))
		}
	})
	b.Run("each", func(b *testing.B) {
		for b.Loop() {
			l.Each(minutes(0), minutes(30*24*60))
		}
	})
}

func TestAMachineThatIsKeptCostsItsDiskAndItsHostsPart(t *testing.T) {
	b := &Book{Unit: "EUR", PerVCPU: Unit, PerGB: Unit, PerDiskGB: Unit / 100, PerMachine: 2 * Unit, PerHost: 3 * Unit}
	s := Shape{Name: "small", CPU: 2 * Core, Memory: 8 * GB, Disk: 50 * GB}
	l, at := NewLedger(b), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return at.Add(time.Duration(n) * time.Hour) }
	for i, err := range []error{
		l.Start("a", s, "pve1", hour(0)), l.Keep("a", s, "pve1", hour(1)), l.Start("a", s, "pve1", hour(3)), l.Keep("a", s, "pve1", hour(4)), l.Stop("a", hour(5)),
		l.Keep("b", s, "", hour(0)), l.Stop("b", hour(2)),
	} {
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	for _, c := range []struct {
		from, to int
		want     Micros
	}{{0, 1, 15*Unit + Unit/2}, {1, 2, 3*Unit + Unit}, {2, 3, 3*Unit + Unit/2}, {3, 4, 15 * Unit}, {4, 5, 3*Unit + Unit/2}, {5, 9, 0}} {
		if got := l.Between(hour(c.from), hour(c.to)); got != c.want {
			t.Errorf("from hour %d to %d it cost %s, want %s", c.from, c.to, got, c.want)
		}
	}
	if l.Keep("c", s, "pve1", hour(1)) != nil || l.Keep("c", s, "pve1", hour(2)) == nil {
		t.Error("it can be kept twice at a time")
	}
	placed := []Placed{{Shape: s, Host: "pve1"}, {Shape: s, Host: "pve1", Stopped: true}}
	if got := b.Total(placed, at); got != Rate(15*Unit+Unit/2)*1000 {
		t.Errorf("one that runs and one that is kept cost %s/h", got)
	}
}
