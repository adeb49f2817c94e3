package loader

import (
	"context"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// machin is π by Machin's formula, computed with ten decimals more than are returned.
func machin(decimals int) string {
	one := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)+10), nil)
	arctan := func(inverse int64) *big.Int {
		sum, power := new(big.Int), new(big.Int).Div(one, big.NewInt(inverse))
		for k := int64(1); power.Sign() != 0; k += 2 {
			term := new(big.Int).Div(power, big.NewInt(k))
			if k%4 == 3 {
				term.Neg(term)
			}
			sum.Add(sum, term)
			power.Div(power, big.NewInt(inverse*inverse))
		}
		return sum
	}
	sum := new(big.Int).Mul(arctan(5), big.NewInt(4))
	sum.Sub(sum, arctan(239)).Mul(sum, big.NewInt(4))
	return sum.String()[:decimals+1]
}

func TestPiIsPi(t *testing.T) {
	if got := string(pi(20)); got != "314159265358979323846" {
		t.Errorf("%s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		// Behind the 762nd decimal there are six nines.
		n := rapid.OneOf(rapid.IntRange(1, 1200), rapid.IntRange(755, 775)).Draw(t, "decimals")
		if got, want := string(pi(n)), machin(n); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// machine is a machine on which work takes a time by a law, and some trials take much longer.
type machine struct {
	perDigit, perSquare, perMB, disturbed float64 // nanoseconds, and how often a trial is disturbed
	draw                                  func() float64
	trials                                int
	longest                               time.Duration
}

func (m *machine) takes(w Work) time.Duration {
	n := float64(w.Digits)
	return time.Duration(m.perDigit*n + m.perSquare*n*n + m.perMB*float64(w.Memory)/1e6)
}

func (m *machine) measure(w Work) time.Duration {
	m.trials++
	took := m.takes(w)
	m.longest = max(m.longest, took)
	if m.draw() < m.disturbed {
		return 4 * took
	}
	return took
}

// On any machine, the work that is found takes what was asked for.
func TestTheWorkIsFoundOnAnyMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{
			perDigit: rapid.Float64Range(0, 100).Draw(t, "per digit"), perSquare: rapid.Float64Range(2, 60).Draw(t, "per square"),
			// One in ten, which takes four times as long.
			perMB: rapid.Float64Range(0, 5e5).Draw(t, "per MB"), disturbed: 0.1,
			// What is drawn one by one is small too often.
			draw: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "luck"), 0)).Float64,
		}
		demand := time.Duration(rapid.Int64Range(int64(leastDemand), int64(mostDemand)).Draw(t, "demand"))
		memory := pricing.Bytes(rapid.Int64Range(0, 3e6).Draw(t, "memory"))
		c := must.Get(calibrate(t.Context(), demand, memory, m.measure))(t)
		// A median of few trials may be among the disturbed, and then the one that is found says
		// so.
		if off(c.Demand, m.takes(c.Work)) < 0.01 && off(m.takes(c.Work), demand) > 0.1 {
			t.Fatalf("%+v takes %s of %s, and is said to take %s", c.Work, m.takes(c.Work), demand, c.Demand)
		}
		if m.longest > 5*demand || m.trials > 150 {
			t.Fatalf("%d trials, the longest %s, for %s", m.trials, m.longest, demand)
		}
	})
}

func TestASteadyMachineIsCalibratedClosely(t *testing.T) {
	for _, demand := range []time.Duration{leastDemand, 5 * time.Millisecond, 50 * time.Millisecond, 120 * time.Millisecond, mostDemand} {
		m := &machine{perDigit: 30, perSquare: 12, perMB: 3e5, draw: func() float64 { return 1 }}
		c, err := calibrate(t.Context(), demand, 2*pricing.MB, m.measure)
		if err != nil || off(m.takes(c.Work), demand) > 0.02 || c.Demand != m.takes(c.Work) {
			t.Errorf("%s: %+v takes %s, %v", demand, c, m.takes(c.Work), err)
		}
	}
}

func TestMemoryThatTakesLongerThanTheDemandIsRefused(t *testing.T) {
	m := &machine{perMB: 1e6, perSquare: 10, draw: func() float64 { return 1 }}
	_, err := calibrate(t.Context(), 20*time.Millisecond, 25*pricing.MB, m.measure)
	if want := "calibrate: must be longer than what 25MB of memory take, which is 25ms here, was 20ms"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestTheSearchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := &machine{perSquare: 10, draw: func() float64 { cancel(); return 1 }}
	if _, err := calibrate(ctx, 20*time.Millisecond, 0, m.measure); !errors.Is(err, context.Canceled) || m.trials != 1 {
		t.Errorf("%v after %d trials", err, m.trials)
	}
}

// Requests take of a core what was asked for, within a tenth. Both are read off the CPU clock of
// one thread, one right after the other, so that only a machine whose speed changes in between can
// come between them: that may happen, and not ten times in a row. A calibration that is wrong is
// wrong every time.
func TestRequestsTakeWhatWasAskedFor(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const demand, memory = 25 * time.Millisecond, 2 * pricing.MB
	s := must.Get(New(Config{Work: Work{Memory: memory}, Calibrate: demand, AtOnce: 1, CallTimeout: time.Second}))(t)
	var ratios []float64
	for range 10 {
		must.Get(s.prepare(t.Context()))(t)
		took := make([]time.Duration, 9)
		for i := range took {
			began := threadClock()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			took[i] = threadClock() - began
			if w.Code != http.StatusOK {
				t.Fatalf("%d: %s", w.Code, w.Body)
			}
		}
		slices.Sort(took)
		ratio := float64(took[len(took)/2]) / float64(demand)
		ratios = append(ratios, ratio)
		if math.Abs(ratio-1) <= 0.1 {
			t.Logf("%d decimals; the median request took %.3f of the demand", s.work.Load().Digits, ratio)
			return
		}
	}
	t.Errorf("the median request took these parts of the demand: %.3f", ratios)
}

func BenchmarkPi1000(b *testing.B) {
	for b.Loop() {
		pi(1000)
	}
}
