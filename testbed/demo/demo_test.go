package demo

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

func session(t testing.TB, seed uint64, length time.Duration, journal loop.Journal) *Session {
	t.Helper()
	return must.Get(New(Config{Seed: seed, Length: length, Journal: journal}))(t)
}

// clock is a time of the first day, as a session counts it.
func clock(hour, minute int) time.Duration {
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute - opening
}

// until moves a session on.
func until(t testing.TB, s *Session, at time.Duration) []Event {
	t.Helper()
	return must.Get(s.Advance(context.Background(), at-s.Elapsed()))(t)
}

// wholeDay is a day that no one disturbs.
var wholeDay = sync.OnceValues(func() (*Session, []Event) {
	s, err := New(Config{Seed: 1, Length: 24 * time.Hour})
	if err != nil {
		panic(err)
	}
	events, err := s.Advance(context.Background(), 24*time.Hour)
	if err != nil {
		panic(err)
	}
	return s, events
})

func tally(events []Event, k Kind) (n int) {
	for i := range events {
		if events[i].Kind == k {
			n++
		}
	}
	return n
}

func TestDayShowsEverythingThatAFleetDoes(t *testing.T) {
	s, events := wholeDay()
	for _, k := range []Kind{Grown, Shrunk, Ordered, Joined, Emptying, Returned, Trouble, Fault} {
		if tally(events, k) == 0 {
			t.Errorf("nothing of kind %s happened all day", k)
		}
	}
	if moved, back := tally(events, Moved), tally(events, Returned); moved > back {
		t.Errorf("%d pods were moved for %d reclaimed machines, where workloads leave whole machines", moved, back)
	}
	if n := tally(events, Status); n != 48 {
		t.Errorf("there were %d half hours, want 48", n)
	}
	for i := 1; i < len(events); i++ {
		if events[i].At.Before(events[i-1].At) {
			t.Errorf("%s comes after %s", events[i].Text, events[i-1].Text)
		}
	}
	sum := s.Summary()
	if sum.Orders != tally(events, Ordered) || sum.Returns != tally(events, Returned) {
		t.Errorf("the summary has %d orders and %d returns, the events %d and %d", sum.Orders, sum.Returns, tally(events, Ordered), tally(events, Returned))
	}
	if sum.Spent <= 0 || sum.Spent*10 > sum.StaticSpent*8 {
		t.Errorf("the day cost %s, the static fleet %s: want a fifth less at least", sum.Spent, sum.StaticSpent)
	}
	for i := range sum.Services {
		of := &sum.Services[i]
		if of.Over*100 > sum.Minutes*2 {
			t.Errorf("the objective of %s was missed in %d of %d minutes, want 2 %% at most", of.Name, of.Over, sum.Minutes)
		}
		if most := of.Objective.Target.Seconds(); of.P90 > most || of.P90 < most/10 {
			t.Errorf("of all requests to %s nine of ten took at most %.3f s, where %.3f s are promised", of.Name, of.P90, most)
		}
	}
}

func TestEventsOfDecisionsNameTheirRecord(t *testing.T) {
	s, events := wholeDay()
	last := s.Decided()[len(s.Decided())-1]
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Step == "" {
			continue
		}
		if events[i].Step != last.ID || !events[i].At.Equal(last.Time) {
			t.Errorf("the last decision is shown as %s of %s, was %s", events[i].Step, events[i].At, last.ID)
		}
		return
	}
	t.Error("no event names a record")
}

func TestSameSeedIsTheSameDayHoweverItIsCut(t *testing.T) {
	const length = 3 * time.Hour
	live := func(seed uint64, length time.Duration, piece func() time.Duration) (string, []Event) {
		var journal bytes.Buffer
		s := session(t, seed, length, loop.NewNDJSON(&journal))
		var all []Event
		for !s.Done() {
			all = append(all, until(t, s, s.Elapsed()+piece())...)
		}
		return journal.String(), all
	}
	rng := rand.New(rand.NewPCG(1, 2))
	whole, events := live(5, length, func() time.Duration { return length })
	pieces, eventsOfPieces := live(5, length, func() time.Duration { return time.Duration(rng.Int64N(int64(3 * time.Minute))) })
	if whole != pieces {
		t.Error("in pieces the journal is another one")
	}
	if d := cmp.Diff(events, eventsOfPieces); d != "" {
		t.Errorf("in pieces other things happen:\n%s", d)
	}
	if other, _ := live(6, time.Hour, func() time.Duration { return length }); strings.HasPrefix(whole, other) {
		t.Error("another seed gives the same day")
	}
	if n := strings.Count(whole, "\n"); n < 3*360 {
		t.Errorf("the journal has %d records, want one for each quarter of a minute", n)
	}
}

func TestDayHasItsNightItsLunchAndItsCrowd(t *testing.T) {
	for seed := range uint64(50) {
		curve := rates(seed, 24*time.Hour)[0]
		rate := func(h float64) float64 { return curve.At(time.Duration(h*float64(time.Hour)) - opening) }
		night, crowd := rate(4), curve.Max()
		if night < 20 || night > 30 || crowd < 285 || crowd > 400 {
			t.Errorf("seed %d: %.0f requests/s at night, %.0f at most", seed, night, crowd)
		}
		if rate(12.3) < 1.15*rate(10) && rate(12.3) < 200 {
			t.Errorf("seed %d: %.0f requests/s at ten, %.0f at lunch", seed, rate(10), rate(12.3))
		}
		for _, p := range curve {
			if p.Level < 0 {
				t.Errorf("seed %d: %.0f users at %s", seed, p.Level, p.At)
			}
		}
	}
}

func TestDaysFollowEachOther(t *testing.T) {
	curve := rates(1, 49*time.Hour)[0]
	if last := curve[len(curve)-1].At; last != 72*time.Hour-opening {
		t.Errorf("49 hours are drawn up to %s, want whole days", last)
	}
	if a, b := curve.At(clock(13, 0)), curve.At(clock(37, 0)); a == b {
		t.Error("both days are the same")
	}
}

func TestStaticFleetIsTheSmallestThatHolds(t *testing.T) {
	rates := rates(3, 24*time.Hour)
	f := must.Get(newStatic(3, rates, 24*time.Hour, prices(1)))(t)
	from := peak(rates, 24*time.Hour)
	var room, wanted pricing.MilliCPU
	for i, s := range services() {
		wanted += s.Pod.CPU * pricing.MilliCPU(f.pods[i])
		for pods, want := range map[int]bool{f.pods[i]: true, f.pods[i] - 1: false} {
			if got, err := holds(3, i, rates[i].From(from), pods); err != nil || got != want {
				t.Errorf("%d pods hold the busiest minutes of %s: %t (%v), want %t", pods, s.Name, got, err, want)
			}
		}
	}
	for _, m := range f.machines {
		room += m.Shape.CPU - pools()[0].Reserved.CPU
	}
	if room < wanted {
		t.Errorf("%s have room for %s CPU, of %s", f, room.Cores(), wanted.Cores())
	}
}

// Above its cost target a workload has no headroom. What that saves is seen over several days, for
// a queue that headroom would have prevented costs replicas later.
func TestDoubledPricesTakeTheHeadroom(t *testing.T) {
	noon, end := clock(12, 10), clock(14, 0)
	var usual, dear pricing.Micros
	for seed := range uint64(3) {
		for _, double := range []bool{false, true} {
			s := session(t, seed+1, end, nil)
			until(t, s, noon)
			before, sum := s.State().Spent, &usual
			if double {
				sum = &dear
				must.Do(t, s.DoublePrices(true))
			}
			until(t, s, noon+40*time.Minute)
			*sum += s.State().Spent - before
		}
	}
	if dear >= 2*usual {
		t.Errorf("%s are spent at the double price, %s at the usual one: want less than twice as much", dear, usual)
	}
}

func TestDoubledPricesCountFromThatMomentOn(t *testing.T) {
	noon, end := clock(12, 10), clock(14, 0)
	usual, dear := session(t, 1, end, nil), session(t, 1, end, nil)
	until(t, usual, noon)
	until(t, dear, noon)
	before, staticBefore := dear.State().Spent, dear.State().StaticSpent
	must.Do(t, dear.DoublePrices(true))
	if s := dear.State(); s.Spent != before || s.StaticSpent != staticBefore {
		t.Errorf("doubling changed the bill from %s and %s to %s and %s", before, staticBefore, s.Spent, s.StaticSpent)
	}
	until(t, usual, noon+40*time.Minute)
	until(t, dear, noon+40*time.Minute)
	a, b := usual.State(), dear.State()
	if got, want := b.StaticSpent-staticBefore, 2*(a.StaticSpent-staticBefore); got != want {
		t.Errorf("the static fleet cost %s since, want %s", got, want)
	}
	for s, want := range map[*Session]bool{usual: false, dear: true} {
		reasons := s.last.Workloads[0].Decision.Reasons
		if got := slices.ContainsFunc(reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonCostAboveTarget }); got != want {
			t.Errorf("that the cost is above its target is said: %t, want %t: %v", got, want, reasons)
		}
	}
	middle := dear.State().Spent
	must.Do(t, dear.DoublePrices(false))
	if s := dear.State(); s.Spent != middle || s.Static != a.Static {
		t.Errorf("back at the usual price the bill is %s, was %s; the static fleet costs %s, want %s", s.Spent, middle, s.Static, a.Static)
	}
}

func TestDeadHostIsGotOverBeforeItIsBack(t *testing.T) {
	s := session(t, 1, clock(11, 0), nil)
	until(t, s, clock(9, 30))
	before := s.State().Services[0].Ready
	must.Do(t, s.Inject(sim.HostDies))
	events := until(t, s, s.Elapsed()+15*time.Minute)
	if st := s.State().Services[0]; st.Ready < before-1 || !st.Latency.Known || st.Latency.Value > .4 {
		t.Errorf("a quarter of an hour later %d of %d pods are ready, %d before; p90 %v", st.Ready, st.Replicas, before, st.Latency)
	}
	events = append(events, until(t, s, clock(11, 0))...)
	for _, want := range []struct {
		kind Kind
		text string
	}{{Fault, "dies, and every machine on it, for 30m"}, {Trouble, "is down"}, {Relief, "is back"}} {
		if !slices.ContainsFunc(events, func(e Event) bool { return e.Kind == want.kind && strings.Contains(e.Text, want.text) }) {
			t.Errorf("nothing tells that a host %s", want.text)
		}
	}
}

func TestWithoutMetricsNothingShrinks(t *testing.T) {
	s := session(t, 1, 24*time.Hour, nil)
	until(t, s, clock(12, 50)) // lunch ends: with metrics it shrinks every few minutes
	must.Do(t, s.Inject(sim.MetricsVanish))
	events := until(t, s, s.Elapsed()+blind-time.Second)
	if n := tally(events, Shrunk); n != 0 {
		t.Errorf("it shrank %d times while nothing was known", n)
	}
	for _, st := range s.State().Services {
		if st.Latency.Known || st.Arrivals.Known {
			t.Errorf("the state knows %v and %v of %s", st.Latency, st.Arrivals, st.Name)
		}
	}
	if events = until(t, s, s.Elapsed()+20*time.Minute); tally(events, Relief) == 0 || tally(events, Shrunk) == 0 {
		t.Error("it did not go on when the metrics were back")
	}
}

func TestFailedCloneIsGivenBackAndOrderedAgain(t *testing.T) {
	_, events := wholeDay()
	at := slices.IndexFunc(events, func(e Event) bool {
		return e.Kind == Trouble && strings.HasSuffix(e.Text, "failed, and will never join")
	})
	if at < 0 {
		t.Fatal("no clone failed")
	}
	name, _, _ := strings.Cut(events[at].Text, " ")
	back := slices.IndexFunc(events, func(e Event) bool { return e.Kind == Returned && strings.HasPrefix(e.Text, name) })
	if back < at || tally(events[back:], Ordered) == 0 {
		t.Errorf("%s failed and was not replaced", name)
	}
}

func TestSessionsHaveALength(t *testing.T) {
	if _, err := New(Config{}); err == nil || err.Error() != "length: must be greater than 0, was 0s" {
		t.Errorf("without a length: %v", err)
	}
	s := session(t, 1, time.Minute, nil)
	until(t, s, time.Hour)
	if !s.Done() || s.Elapsed() != time.Minute {
		t.Errorf("a minute took %s", s.Elapsed())
	}
	if err := s.Inject("flood"); err == nil {
		t.Error("a fault that there is not was injected")
	}
}

func BenchmarkDay(b *testing.B) {
	for b.Loop() {
		s := session(b, 1, 24*time.Hour, nil)
		until(b, s, 24*time.Hour)
	}
}
