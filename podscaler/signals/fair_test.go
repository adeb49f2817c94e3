package signals

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// played is a server as a line sees it: it answers after a while, or never.
type played struct {
	mu       sync.Mutex
	done     map[string]int // jobs that had an answer, by unit
	putOff   map[string]int
	refused  map[string]int
	hung     map[string]int
	at       map[string]time.Duration // of the last answer, from the round's beginning
	began    time.Time
	busy     map[flow]int
	busyIn   map[string]int
	most     map[flow]int
	mostIn   map[string]int
	mostEver int
}

func newPlayed() *played {
	return &played{
		done: map[string]int{}, putOff: map[string]int{}, refused: map[string]int{}, hung: map[string]int{}, at: map[string]time.Duration{},
		busy: map[flow]int{}, busyIn: map[string]int{}, most: map[flow]int{}, mostIn: map[string]int{},
	}
}

// job takes so long, or for ever if that is 0.
func (p *played) job(f flow, unit string, takes, limit time.Duration) *job {
	return &job{flow: f, unit: unit, limit: limit,
		run: func(ctx context.Context) error {
			p.count(f, 1)
			defer p.count(f, -1)
			if takes > 0 {
				select {
				case <-time.After(takes):
					p.mu.Lock()
					defer p.mu.Unlock()
					p.done[unit]++
					p.at[unit] = time.Since(p.began)
					return nil
				case <-ctx.Done():
				}
			}
			<-ctx.Done()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.hung[unit]++
			return failed(ctx, ctx.Err())
		},
		refused: func(why error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if errors.Is(why, errPutOff) {
				p.putOff[unit]++
			} else {
				p.refused[unit]++
			}
		},
	}
}

func (p *played) count(f flow, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[f] += n
	p.busyIn[f.namespace] += n
	p.most[f] = max(p.most[f], p.busy[f])
	p.mostIn[f.namespace] = max(p.mostIn[f.namespace], p.busyIn[f.namespace])
	all := 0
	for _, n := range p.busy {
		all += n
	}
	p.mostEver = max(p.mostEver, all)
}

// round has a line do jobs for as long.
func (p *played) round(l *line, now time.Time, timeout time.Duration, jobs ...*job) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	p.began = time.Now()
	l.run(ctx, now, jobs)
	return time.Since(p.began)
}

// Where there is more to ask than a round has time for, all have their turn within a few rounds,
// and none more often than another.
func TestAllAreMeasuredInTurnWhereOneRoundIsTooShort(t *testing.T) {
	for _, servers := range []int{1, 3, 80} {
		inTurn(t, servers, 1)
		inTurn(t, servers, 5)
	}
}

func inTurn(t *testing.T, servers, namespaces int) {
	synctest.Test(t, func(t *testing.T) {
		const all, rounds = 80, 10
		l, p := newLine(8, 16, 2*time.Second), newPlayed()
		for i := range rounds {
			var jobs []*job
			for n := range all {
				jobs = append(jobs, p.job(flow{fmt.Sprint("ns-", n%namespaces), fmt.Sprint("s-", n%servers)}, fmt.Sprintf("w-%02d", n), 1200*time.Millisecond, 5*time.Second))
			}
			p.round(l, noon.Add(time.Duration(i)*10*time.Second), 5*time.Second, jobs...)
			if i == 4 && len(p.done) < all { // four are enough where no turn is lost
				t.Errorf("%d servers, %d namespaces: after five rounds %d of %d were asked", servers, namespaces, len(p.done), all)
			}
		}
		least, most := rounds, 0
		for _, n := range p.done {
			least, most = min(least, n), max(most, n)
		}
		if len(p.refused) > 0 || most-least > min(servers, 2) || least < rounds*4*(8/namespaces)*namespaces/all-1 {
			t.Errorf("each was asked %d to %d times, and %d refused", least, most, len(p.refused))
		}
	})
}

// A namespace whose server never answers has no more than its part of the slots, for any number of
// requests and any order of the names.
func TestANamespaceThatHangsTakesNoMoreThanItsPart(t *testing.T) {
	for _, slots := range []int{2, 8, 128} {
		synctest.Test(t, func(t *testing.T) {
			l, p := newLine(slots, slots, 2*time.Second), newPlayed()
			var jobs []*job
			for n := range 300 {
				jobs = append(jobs, p.job(flow{"aaa", fmt.Sprintf("s-%d", n%7)}, fmt.Sprintf("a-%d", n), 0, 5*time.Second))
			}
			for n := range 20 {
				jobs = append(jobs, p.job(flow{"shop", "healthy"}, fmt.Sprintf("b-%d", n), 100*time.Millisecond, 5*time.Second))
			}
			p.round(l, noon, 5*time.Second, jobs...)
			if p.mostIn["aaa"] > slots/2 {
				t.Errorf("%d slots of %d", p.mostIn["aaa"], slots)
			}
			for n := range 20 {
				if at := p.at[fmt.Sprintf("b-%d", n)]; at == 0 || at > 20*100*time.Millisecond {
					t.Errorf("%d slots: b-%d was answered after %s", slots, n, at)
				}
			}
		})
	}
}

// A server that does not answer is left alone, asked again by one request, and by all once that is
// answered.
func TestAServerThatHangsIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, there := newLine(16, 4, 2*time.Second), time.Duration(0)
		round := func(at time.Duration) (*played, time.Duration) {
			p := newPlayed()
			var jobs []*job
			for n := range 10 {
				jobs = append(jobs, p.job(flow{"shop", "s"}, fmt.Sprint(n), there, 2*time.Second))
			}
			return p, p.round(l, noon.Add(at), 5*time.Second, jobs...)
		}
		for _, c := range []struct {
			at                  time.Duration
			hung, done, refused int
			took                time.Duration
		}{
			{0, 4, 0, 6, 2 * time.Second}, // as many as are asked at once
			{10 * time.Second, 0, 0, 10, 0},
			{30 * time.Second, 1, 0, 9, 2 * time.Second},
			{80 * time.Second, 0, 0, 10, 0},
			{90 * time.Second, 1, 0, 9, 2 * time.Second},
			{209 * time.Second, 0, 0, 10, 0},
			{-time.Hour, 1, 0, 9, 2 * time.Second}, // a clock that was put back
			{-time.Hour + 10*time.Second, 0, 0, 10, 0},
		} {
			p, took := round(c.at)
			if len(p.hung) != c.hung || len(p.done) != c.done || len(p.refused) != c.refused || took != c.took {
				t.Errorf("at %s: %d hung, %d answered, %d refused in %s, want %+v", c.at, len(p.hung), len(p.done), len(p.refused), took, c)
			}
		}
		there = 100 * time.Millisecond
		if p, took := round(time.Hour); len(p.done) != 10 || took != 400*time.Millisecond {
			t.Errorf("once it is there again: %d answered in %s, want 10 in 400ms, the first by itself", len(p.done), took)
		}
	})
}

func TestBreakersWaitLongerEachTimeAndNoLongerThanFiveMinutes(t *testing.T) {
	var b breaker
	now := noon
	for i, want := range []time.Duration{0, 0, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		if !b.admits(now) {
			t.Fatalf("%d: it is not asked", i)
		}
		b.settle(now, true)
		if got := b.until.Sub(now); b.opened != (want > 0) || b.opened && got != want {
			t.Errorf("%d: opened %t for %s, want %s", i, b.opened, got, want)
		}
		if want > 0 && b.admits(now.Add(want-1)) {
			t.Errorf("%d: it is asked before", i)
		}
		now = now.Add(want)
	}
	b.settle(now, true)
	b.settle(now, false)
	if b != (breaker{}) {
		t.Errorf("after an answer: %+v", b)
	}
}

// For any queue: every job has its answer, is refused, or is put off, and just one of them; no
// bound is crossed; and the round ends in time.
func TestLinesKeepTheirBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			slots, perFlow := rapid.IntRange(1, 9).Draw(rt, "slots"), rapid.IntRange(1, 9).Draw(rt, "per server")
			l := newLine(slots, perFlow, 2*time.Second)
			for i := range rapid.IntRange(1, 3).Draw(rt, "rounds") {
				p := newPlayed()
				var jobs []*job
				n := rapid.IntRange(0, 40).Draw(rt, "jobs")
				for j := range n {
					f := flow{rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "namespace"), rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "server")}
					takes := time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second
					jobs = append(jobs, p.job(f, fmt.Sprint(j), takes, 2*time.Second))
				}
				took := p.round(l, noon.Add(time.Duration(i)*time.Minute), 5*time.Second, jobs...)
				if took > 5*time.Second || p.mostEver > slots {
					t.Errorf("%s, %d at once", took, p.mostEver)
				}
				for f, most := range p.most {
					if most > perFlow {
						t.Errorf("%v is asked %d at once, %d may be", f, most, perFlow)
					}
				}
				for j := range n {
					name := fmt.Sprint(j)
					// One that was cut short has hung for those that ask, and is put off.
					if ends := p.done[name] + p.refused[name] + p.putOff[name]; ends > 1 || ends+p.hung[name] < 1 || p.done[name]+p.hung[name] > 1 {
						t.Errorf("job %s: answered %d, hung %d, refused %d, put off %d", name, p.done[name], p.hung[name], p.refused[name], p.putOff[name])
					}
				}
			}
		})
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

// hanging is a server that takes requests and never answers.
func hanging(t *testing.T) *httptest.Server {
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-gone:
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(gone) })
	return s
}

// One namespace names a Prometheus that never answers, in as many objects and queries as it likes.
// What the others are measured by answers, be it the shared one or one of their own; and a step
// waits for the one that hangs for a part of its time, and not at every step.
func TestAnObjectsPrometheusThatHangsBlindsNobodyElse(t *testing.T) {
	bad, shared, own := hanging(t), newFake(t, istio), newFake(t, istio)
	sources := map[string]Source{}
	for n := range 20 {
		s := source(Spec{Preset: Istio, Prometheus: &Prometheus{URL: fmt.Sprintf("%s/%d", bad.URL, n)}})
		s.Target = Target{Namespace: "aaa", Kind: "Deployment", Name: fmt.Sprintf("w-%d", n)}
		for m := range 16 {
			s.Spec.Metrics = append(s.Spec.Metrics, Series{Name: fmt.Sprintf("m-%d", m), Query: fmt.Sprintf("up + %d", m)})
		}
		sources["aaa/"+s.Target.Name] = s
	}
	sources["shop/cart"] = source(Spec{Preset: Istio})
	sources["shop/own"] = source(Spec{Preset: Istio, Prometheus: &Prometheus{URL: own.URL}})
	const timeout = 2 * time.Second
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: shared.URL}, Timeout: timeout})
	must.Do(t, r.Configure(sources))
	for i := range 4 {
		now := noon.Add(time.Duration(i) * time.Second)
		r.Prepare(t.Context(), now)
		for _, name := range []string{"shop/cart", "shop/own"} {
			if w := read(t, r, name, now); !w.Latency.Known || !w.Since.Equal(noon) {
				t.Errorf("round %d: %s: %+v", i, name, w)
			}
		}
		if got := lines(r.Findings("aaa/w-0")); !strings.Contains(got, unreachable) {
			t.Errorf("round %d: %s", i, got)
		}
	}
	began := time.Now()
	r.Prepare(t.Context(), noon.Add(5*time.Second))
	if took := time.Since(began); took >= timeout*3/5 {
		t.Errorf("a round takes %s when all that hangs is known to, which is waiting for one of them", took)
	}
	if got := lines(r.Findings("aaa/w-0")); !strings.Contains(got, "unreachable: it does not answer in time, and is asked again at intervals") {
		t.Errorf("the status says %s", got)
	}
}

// So it is with the administrator's own: what does not need it is measured.
func TestASharedPrometheusThatHangsBlindsNobodyElse(t *testing.T) {
	bad, own := hanging(t), newFake(t, istio)
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: bad.URL}, Timeout: time.Second})
	sources := map[string]Source{"shop/own": source(Spec{Preset: Istio, Prometheus: &Prometheus{URL: own.URL}})}
	for n := range 30 {
		s := source(Spec{Preset: Istio, Queries: Queries{InFlight: fmt.Sprintf("up + %d", n)}})
		s.Target = Target{Namespace: "aaa", Kind: "Deployment", Name: fmt.Sprintf("w-%d", n)}
		sources["aaa/"+s.Target.Name] = s
	}
	must.Do(t, r.Configure(sources))
	for i := range 3 {
		now := noon.Add(time.Duration(i) * time.Second)
		r.Prepare(t.Context(), now)
		if w := read(t, r, "shop/own", now); !w.Latency.Known {
			t.Errorf("round %d: %+v", i, w)
		}
	}
}

// A workload whose turn did not come in a round goes on with what was measured before.
func TestAWorkloadThatIsPutOffKeepsItsMeasurement(t *testing.T) {
	var slow atomic.Bool
	f := newFake(t, func(q string) string {
		if slow.Load() {
			time.Sleep(time.Second)
		}
		return vector(noon, `{} 1`)
	})
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: f.URL}, Timeout: 3 * time.Second, Parallel: 16})
	sources := map[string]Source{}
	for n := range 20 {
		sources[fmt.Sprintf("shop/w-%02d", n)] = source(Spec{Queries: Queries{Arrivals: fmt.Sprintf("up + %d", n)}})
	}
	must.Do(t, r.Configure(sources))
	r.Prepare(t.Context(), noon)
	slow.Store(true)
	for i := 1; i < 4; i++ {
		now := noon.Add(time.Duration(i) * 10 * time.Second)
		r.Prepare(t.Context(), now)
		for name := range sources {
			if w := read(t, r, name, now); w.Arrivals != podscaler.Known(1) || !w.Since.Equal(noon) {
				t.Errorf("round %d: %s: %+v", i, name, w)
			}
		}
	}
	if n := len(f.asked()); n < 20+3*8 || n > 20+3*24 {
		t.Errorf("%d queries", n)
	}
}

// Answers that are as long as may be, of more series than any workload has, take little room all
// together and end with the round.
func TestLongAnswersTakeLittleRoomAndTime(t *testing.T) {
	head := []byte(`{"status":"success","data":{"resultType":"vector","result":[`)
	for _, c := range []struct{ name, of string }{
		{"many series", `{"metric":{"__name__":"m","pod":"p","namespace":"a-namespace"},"value":[1772366400,"1"]},`},
		{"series with many labels", `{"metric":{` + strings.Repeat(`"a":"",`, 6000) + `"pod":"p"},"value":[1772366400,"1"]},`},
		{"long series", `{"metric":{"pod":"` + strings.Repeat("p", 4<<20) + `"},"value":[1772366400,"1"]},`},
		{"blanks", strings.Repeat(" ", 1<<20)},
		{"deep nesting", strings.Repeat(`[`, 1<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write(head)
				chunk := []byte(c.of)
				for sent := 0; sent < 31<<20; sent += len(chunk) {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
				_, _ = w.Write([]byte(`{"metric":{"pod":"p"},"value":[1772366400,"1"]}]}}`))
			}))
			t.Cleanup(s.Close)
			sources := map[string]Source{}
			for n := range 16 {
				spec := Spec{Prometheus: &Prometheus{URL: s.URL}, Metrics: []Series{{Name: "m", Query: fmt.Sprintf("up + %d", n), PerPod: "pod"}}}
				one := source(spec)
				// So that no one's share holds them back.
				one.Target.Namespace = fmt.Sprintf("ns-%d", n)
				sources[fmt.Sprintf("ns-%d/w", n)] = one
			}
			const timeout = 5 * time.Second
			r := New(Options{Access: lenient, Timeout: timeout})
			must.Do(t, r.Configure(sources))
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			var peak atomic.Uint64
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak.Store(max(peak.Load(), m.HeapAlloc))
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
					}
				}
			}()
			began := time.Now()
			r.Prepare(t.Context(), noon)
			took := time.Since(began)
			close(stop)
			<-stopped
			if grown := int64(peak.Load()) - int64(before.HeapAlloc); grown > 256<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			} else {
				t.Logf("the heap grew by %d MiB in %s", grown>>20, took)
			}
			if took > timeout+time.Second {
				t.Errorf("it took %s", took)
			}
			if w := read(t, r, "ns-0/w", noon); w.Metrics["m"].Why != invalidAnswer && w.Metrics["m"].Why != unreachable {
				t.Errorf("got %+v", w.Metrics)
			}
		})
	}
}

// What is kept of all answers is bounded for one, for a namespace, and for all.
func TestRoomIsSharedOut(t *testing.T) {
	all := &room{left: 100}
	a, b := &room{left: 60, above: all}, &room{left: 60, above: all}
	for _, c := range []struct {
		of   *room
		take int64
		fits bool
	}{{a, 61, false}, {a, 60, true}, {a, 1, false}, {b, 50, false}, {b, 40, true}, {b, 1, false}} {
		if got := c.of.take(c.take); got != c.fits {
			t.Errorf("taking %d: %t", c.take, got)
		}
	}
	if a.left != 0 || b.left != 20 || all.left != 0 {
		t.Errorf("left are %d, %d, %d", a.left, b.left, all.left)
	}
	r := newRound(t.Context(), noon, New(Options{}))
	for n := range 5 { // as many namespaces as it takes to fill all that there is for owners
		r.room(tenure{fmt.Sprint("bank-", n), true}).take(maxKeptOwn)
	}
	if r.room(tenure{"shop", true}).take(1) || !r.room(tenure{"shop", false}).take(1) || !r.room(tenure{}).take(1) {
		t.Error("what owners ask takes the room of what presets ask")
	}
}

// One namespace has as many groups as it has objects, for each has another window. Those of others
// are measured in every round all the same.
func TestANamespaceOfManyGroupsDelaysNoOther(t *testing.T) {
	f := newFake(t, func(q string) string {
		time.Sleep(50 * time.Millisecond)
		return istio(q)
	})
	sources := map[string]Source{"shop/cart": source(Spec{Preset: Istio})}
	for n := range 1000 {
		s := source(Spec{Preset: Istio})
		s.Target = Target{Namespace: "aaa", Kind: "Deployment", Name: fmt.Sprintf("w-%d", n)}
		s.SLO.Window = time.Minute + time.Duration(n)*time.Second
		sources["aaa/"+s.Target.Name] = s
	}
	r := New(Options{Prometheus: &Prometheus{URL: f.URL}, Timeout: 3 * time.Second})
	must.Do(t, r.Configure(sources))
	for i := range 2 {
		now := noon.Add(time.Duration(i) * 10 * time.Second)
		r.Prepare(t.Context(), now)
		if w := read(t, r, "shop/cart", now); !w.Latency.Known || r.states["shop/cart"].at != now {
			t.Errorf("round %d: %+v", i, w)
		}
	}
}

// What spoils an answer to one namespace spoils none to another.
func TestAnAnswerThatCannotBeReadIsUnknownForItsNamespaceAlone(t *testing.T) {
	const theirs = `{destination_workload_namespace="bank";destination_workload="teller"`
	var edges []string
	for n := range maxSeries + 1 {
		edges = append(edges, fmt.Sprintf(`%s;le="%d"} 1`, theirs, n))
	}
	for name, spoilt := range map[string]string{
		"a long label":  vector(noon, theirs+`;le="`+strings.Repeat("9", maxLabel+1)+`"} 1`),
		"many edges":    vector(noon, edges...),
		"a bad request": "503",
	} {
		f := newFake(t, func(q string) string {
			if strings.Contains(q, "bank") {
				return spoilt
			}
			return istio(q)
		})
		teller := source(Spec{Preset: Istio})
		teller.Target = Target{Namespace: "bank", Kind: "Deployment", Name: "teller"}
		r := New(Options{Prometheus: &Prometheus{URL: f.URL}})
		must.Do(t, r.Configure(map[string]Source{"shop/cart": source(Spec{Preset: Istio}), "bank/teller": teller}))
		r.Prepare(t.Context(), noon)
		if w := read(t, r, "shop/cart", noon); !w.Latency.Known || !w.Arrivals.Known || !w.Errors.Known {
			t.Errorf("%s: %+v", name, w)
		}
		if w := read(t, r, "bank/teller", noon); w.Latency.Known {
			t.Errorf("%s: bank's own: %+v", name, w)
		}
	}
}

// Where a round has no time for all that a namespace's workloads are measured by, what it had time
// for counts with what the next rounds ask.
func TestManyNamespacesAreMeasuredWhereRoundsAreShort(t *testing.T) {
	const namespaces, rounds = 20, 15
	f := newFake(t, func(q string) string {
		time.Sleep(40 * time.Millisecond)
		for n := range namespaces {
			if name := fmt.Sprintf("ns-%02d", n); strings.Contains(q, name) {
				return strings.ReplaceAll(istio(q), `"shop"`, `"`+name+`"`)
			}
		}
		return "503"
	})
	sources := map[string]Source{}
	for n := range namespaces {
		s := source(Spec{Preset: Istio})
		s.Target.Namespace = fmt.Sprintf("ns-%02d", n)
		sources[s.Target.Namespace] = s
	}
	r := New(Options{Prometheus: &Prometheus{URL: f.URL}, Timeout: 400 * time.Millisecond, Parallel: 2})
	must.Do(t, r.Configure(sources))
	times := map[string]int{}
	for i := range rounds {
		now := noon.Add(time.Duration(i) * time.Second)
		r.Prepare(t.Context(), now)
		for name := range sources {
			if s := r.states[name]; s.window.Latency.Known && s.at.Equal(now) {
				times[name]++
			}
		}
	}
	for name := range sources {
		if times[name] == 0 {
			t.Errorf("%s was not measured in %d rounds", name, rounds)
		}
	}
	if n := len(f.asked()); n > rounds*20 {
		t.Errorf("%d queries", n)
	}
}
