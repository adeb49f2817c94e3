package pricing

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestLedgerChargesTheOldBookBeforeAndTheNewOneAfter(t *testing.T) {
	dear := DefaultBook()
	dear.PerVCPU, dear.PerGB = 2*Unit, 2*Unit
	l := ledgerOf(t, DefaultBook(), []life{{"a", vm(2000, 8*GB), "", 0, 0}})
	must.Do(t, l.Reprice(dear, minutes(60)))
	must.Do(t, l.Reprice(DefaultBook(), minutes(90)))
	for _, c := range []struct {
		from, to int
		want     string
	}{{0, 60, "10"}, {60, 90, "10"}, {90, 150, "10"}, {59, 61, "0.5"}, {0, 150, "30"}} {
		if got := l.Between(minutes(c.from), minutes(c.to)).String(); got != c.want {
			t.Errorf("minutes %d to %d cost %s, want %s", c.from, c.to, got, c.want)
		}
	}
	if before, during := l.Rate(minutes(59)), l.Rate(minutes(60)); before != RateOf(10*Unit) || during != RateOf(20*Unit) {
		t.Errorf("the rate is %s before and %s after, want 10 and 20", before, during)
	}
}

func TestLedgerRefusesPricesOutOfOrderOrInOtherMoney(t *testing.T) {
	l := NewLedger(DefaultBook())
	must.Do(t, l.Reprice(DefaultBook(), minutes(60)))
	err := l.Reprice(DefaultBook(), minutes(59))
	if err == nil || !strings.Contains(err.Error(), "reprice at 2026-03-27T00:59:00Z: prices changed at 2026-03-27T01:00:00Z") {
		t.Errorf("an earlier change gave %v", err)
	}
	err = l.Reprice(&Book{Unit: "EUR"}, minutes(61))
	if err == nil || !strings.Contains(err.Error(), "kept in units, the new prices are in EUR") {
		t.Errorf("another currency gave %v", err)
	}
}

// TestRepricedLedgerEqualsItsSlowTwin checks against a walk, minute by minute, over what runs,
// each minute by the book that counts in it, whether the books came before the machines, after
// them, or after the cost was first read.
func TestRepricedLedgerEqualsItsSlowTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		books := []*Book{drawPrices(t), drawPrices(t), drawPrices(t)}
		first := rapid.IntRange(0, horizon).Draw(t, "first")
		since := []int{-1 << 30, first, first + rapid.IntRange(0, horizon).Draw(t, "second")}
		bookAt := func(m int) (b *Book) {
			for i := range books {
				if since[i] <= m {
					b = books[i]
				}
			}
			return b
		}
		lives := drawLives(t)
		l := NewLedger(books[0])
		early := rapid.Bool().Draw(t, "books first")
		reprice := func() {
			for i := 1; i < len(books); i++ {
				must.Do(t, l.Reprice(books[i], minutes(since[i])))
			}
		}
		if early {
			reprice()
		}
		for _, m := range lives {
			must.Do(t, l.Start(m.id, m.shape, m.host, minutes(m.start)))
			if m.stop != 0 {
				must.Do(t, l.Stop(m.id, minutes(m.stop)))
			}
		}
		if !early {
			l.Between(minutes(0), minutes(2*horizon))
			reprice()
		}
		from := drawMinute(t, "from")
		to := from + rapid.IntRange(0, 3*24*60).Draw(t, "length")
		want := new(big.Int)
		for m := from; m < to; m++ {
			rate := bookAt(m).Total(running(lives, m), minutes(m))
			if got := l.Rate(minutes(m)); got != rate {
				t.Fatalf("in minute %d the rate is %s, want %s", m, got, rate)
			}
			want.Add(want, new(big.Int).Mul(big.NewInt(int64(rate)), big.NewInt(int64(time.Minute))))
		}
		if got := l.between(minutes(from), minutes(to)); got.Cmp(want) != 0 {
			t.Fatalf("minutes %d to %d cost %s, want %s", from, to, got, want)
		}
		sum := new(big.Int)
		for _, s := range l.Each(minutes(from), minutes(to)) {
			sum.Add(sum, s.exact)
		}
		if sum.Cmp(want) != 0 {
			t.Fatalf("the shares add up to %s, want %s", sum, want)
		}
	})
}
