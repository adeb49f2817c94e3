package signals

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// pods are pods whose pages are what a test says. They all answer at one port, by their address.
type pods struct {
	*httptest.Server
	mu    sync.Mutex
	list  []Pod
	pages map[string]string // by the pod's name; "hang" and numbers are what they say
	kind  string
}

func newPods(t interface{ Cleanup(func()) }) *pods {
	p := &pods{pages: map[string]string{}, kind: "text/plain; version=0.0.4"}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.pages[strings.TrimPrefix(r.URL.Path, "/")]
	switch page {
	case "500":
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", p.kind)
	_, _ = w.Write([]byte(page))
}

// scrapeSource reads pages from the pods' server. Their address holds a path, so that many pods
// can be served by one socket.
func (p *pods) source(window time.Duration, every time.Duration) Source {
	u, err := url.Parse(p.URL)
	if err != nil {
		panic(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		panic(err)
	}
	s := source(Spec{Scrape: &Scrape{Port: port, Latency: "req_seconds", InFlight: "busy", Every: podscaler.Duration(every)}})
	s.SLO.Window = window
	return s
}

// rig reads the pods' pages by their names on any address.
func (p *pods) rig(t interface{ Fatal(...any) }, s Source) *Reader {
	r := New(Options{Pods: func() []Pod { p.mu.Lock(); defer p.mu.Unlock(); return append([]Pod(nil), p.list...) }})
	if err := r.Configure(map[string]Source{"shop/cart": s}); err != nil {
		t.Fatal(err)
	}
	for _, sc := range r.plan.scrapes {
		sc.url = func(address string) string { return p.URL + "/" + address }
	}
	return r
}

func (p *pods) set(name, page string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages[name] = page
}

// there makes these the pods there are, all ready, each with its name for an address.
func (p *pods) there(started time.Time, names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = nil
	for _, n := range names {
		p.list = append(p.list, Pod{Workload: "shop/cart", Name: n, Address: n, Ready: true, Started: started})
	}
}

// A pod that has crashed is there for as long as it is started again and again. The requests it
// held then are gone.
func TestACrashedPodHoldsNoRequests(t *testing.T) {
	p := newPods(t)
	r := p.rig(t, p.source(time.Minute, 15*time.Second))
	w := podscaler.Workload{Name: "shop/cart"}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 20 {
		at := began.Add(time.Duration(i) * 15 * time.Second)
		p.there(began.Add(-time.Hour), "a", "b")
		p.set("a", counts(100*i, 100*i, 100*i, 2))
		p.set("b", counts(100*i, 100*i, 100*i, 300))
		if crashed := i >= 10; crashed {
			p.set("b", "500")
			p.list[1].Ready = false
		}
		r.Prepare(t.Context(), at)
		got, _ := r.Read(t.Context(), &w, at)
		want := 304. // of which one each is of another series
		if i > 12 {  // three readings after its last page
			want = 3
		}
		if got.InFlight != podscaler.Known(want) {
			t.Fatalf("reading %d: %+v in flight, want %v", i, got.InFlight, want)
		}
	}
}

// A pod that hangs shows no page and is ready, and its queue is as long as it was at least. For
// five minutes that counts, while it is there, is ready and has not begun anew.
func TestAPodThatHangsHoldsItsRequests(t *testing.T) {
	w := podscaler.Workload{Name: "shop/cart"}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ends   func(*pods, time.Time)
		counts int // readings after its last page
	}{
		"it hangs":               {func(*pods, time.Time) {}, 20},
		"it is not ready":        {func(p *pods, _ time.Time) { p.list[1].Ready = false }, 10},
		"it restarts":            {func(p *pods, at time.Time) { p.list[1].Started = at }, 10},
		"it is gone":             {func(p *pods, _ time.Time) { p.list = p.list[:1] }, 10},
		"its page is back at 99": {func(p *pods, _ time.Time) { p.pages["b"] = counts(0, 0, 0, 99) }, 10},
	} {
		p := newPods(t)
		r := p.rig(t, p.source(time.Minute, 15*time.Second))
		for i := range 30 {
			at := began.Add(time.Duration(i) * 15 * time.Second)
			p.there(began.Add(-time.Hour), "a", "b")
			p.set("a", counts(100*i, 100*i, 100*i, 2))
			p.set("b", counts(100*i, 100*i, 100*i, 300))
			if i > 0 {
				p.set("b", "500")
			}
			if i > 10 {
				c.ends(p, at)
			}
			r.Prepare(t.Context(), at)
			got, _ := r.Read(t.Context(), &w, at)
			want := 304. // of which one each is of another series
			if i > c.counts {
				want = 3
			}
			if p.pages["b"] != "500" && i > 0 {
				want = 103
			}
			if got.InFlight != podscaler.Known(want) {
				t.Errorf("%s, reading %d: %+v in flight, want %v", name, i, got.InFlight, want)
				break
			}
		}
	}
}

// counts is a page with a histogram of three buckets.
func counts(fast, slow, endless, busy int) string {
	return fmt.Sprintf(`# TYPE req_seconds histogram
req_seconds_bucket{le="0.1"} %d
req_seconds_bucket{le="0.25"} %d
req_seconds_bucket{le="+Inf"} %d
req_seconds_sum 12
req_seconds_count %d
# TYPE busy gauge
busy{conn="a"} %d
busy{conn="b"} 1
`, fast, fast+slow, fast+slow+endless, fast+slow+endless, busy)
}

func step(t *testing.T, r *Reader, after time.Duration) podscaler.Window {
	t.Helper()
	now := noon.Add(after)
	r.Prepare(context.Background(), now)
	return read(t, r, "shop/cart", now)
}

func TestPagesGiveTheSignalsOfAPreset(t *testing.T) {
	p := newPods(t)
	p.there(noon.Add(-time.Hour), "a", "b")
	p.set("a", counts(1000, 1000, 1000, 2))
	p.set("b", counts(0, 0, 0, 3))
	r := p.rig(t, p.source(time.Minute, 15*time.Second))
	first := step(t, r, 0)
	if first.Arrivals.Known || first.Latency.Known || first.InFlight != podscaler.Known(7) {
		t.Errorf("what was counted before the first look counts: %+v", first)
	}
	p.set("a", counts(1060, 1030, 1000, 2))
	p.set("b", counts(0, 15, 15, 0))
	got := step(t, r, 15*time.Second)
	want := podscaler.Window{
		Latency:  podscaler.Known(0.25),  // the rank 108 of 120 is above the highest edge
		Good:     podscaler.Known(0.875), // 105 of 120
		Arrivals: podscaler.Known(8),     // 120 in the 15 s there are
		InFlight: podscaler.Known(2 + 1 + 0 + 1),
		Since:    noon.Add(0),
		Over:     time.Minute,
	}
	want.Since = got.Since
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string(nil), codes(r.Findings("shop/cart"))); d != "" {
		t.Errorf("findings:\n%s", lines(r.Findings("shop/cart")))
	}
}

func TestRequestsOfPodsThatAreGoneCountUntilTheyLeaveTheWindow(t *testing.T) {
	p := newPods(t)
	r := p.rig(t, p.source(time.Minute, 15*time.Second))
	p.there(noon.Add(-time.Hour), "a", "b")
	p.set("a", counts(0, 0, 0, 0))
	p.set("b", counts(0, 0, 0, 0))
	step(t, r, 0)
	p.set("a", counts(60, 0, 0, 0))
	p.set("b", counts(0, 60, 0, 0))
	step(t, r, 15*time.Second)
	p.there(noon.Add(-time.Hour), "a")
	for _, c := range []struct {
		after    time.Duration
		arrivals float64
	}{{30, 4}, {45, 2.66667}, {60, 2}, {70, 2}, {75, 0}} {
		if got := step(t, r, c.after*time.Second); !near(got.Arrivals.Value, c.arrivals) || !got.Arrivals.Known {
			t.Errorf("after %ds: %+v a second, want %v", c.after, got.Arrivals, c.arrivals)
		}
	}
	if n := len(r.plan.scrapes["shop/cart"].pods); n != 1 {
		t.Errorf("%d pods are kept, want 1", n)
	}
}

func TestARestartIsNotANegativeRate(t *testing.T) {
	for _, c := range []struct {
		name   string
		before string
		after  string
		want   float64 // requests
		good   float64
	}{
		{"all counters fell", counts(50, 50, 50, 0), counts(3, 0, 0, 0), 3, 1},
		{"one of a histogram fell, one is above its old value by chance", counts(10, 0, 90, 0), counts(20, 5, 0, 0), 25, 1},
		{"the process goes on", counts(1, 1, 1, 0), counts(10, 10, 2, 0), 19, 0.947368},
		{
			"another process on its page did", "process_start_time_seconds 1\n" + counts(4_999_900, 0, 100, 0),
			"process_start_time_seconds 2\n" + counts(4_999_918, 0, 101, 0), 19, 0.947368,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPods(t)
			r := p.rig(t, p.source(time.Minute, time.Second))
			p.there(noon.Add(-time.Hour), "a")
			p.set("a", c.before)
			step(t, r, 0)
			p.set("a", c.after)
			got := step(t, r, time.Second)
			if got.Arrivals != podscaler.Known(c.want) || !near(got.Good.Value, c.good) {
				t.Errorf("got %+v and good %+v, want %v and %v", got.Arrivals, got.Good, c.want, c.good)
			}
		})
	}
}

// An exporter may have a label for each client or request. Its series come and never come back;
// what is kept of them is bounded, and each counts once.
func TestSeriesThatAreGoneAreForgotten(t *testing.T) {
	for fresh, most := range map[int]int{10: 1000, 300: 2 * 1000, 9000: maxSeries} {
		t.Run(strconv.Itoa(fresh), func(t *testing.T) {
			s := source(Spec{Scrape: &Scrape{Port: 1, Requests: "requests_total"}})
			s.SLO.Window = time.Minute
			sc := newScrape("shop/cart", &s, nil)
			pod := Pod{Workload: "shop/cart", Name: "a", Address: "a", Ready: true, Started: noon.Add(-time.Hour)}
			for i := range 100 {
				var page strings.Builder
				for n := range fresh {
					fmt.Fprintf(&page, "requests_total{client=\"%d\"} 1\n", i*fresh+n)
				}
				r := &round{now: noon.Add(time.Duration(i) * 15 * time.Second), options: &Options{}, measured: map[string]*measurement{"shop/cart": {}}}
				pages := sc.read(r, nil, errors.New("not yet"), []Pod{pod})
				pages[0].err = sc.parse(strings.NewReader(page.String()), false, pages[0])
				sc.take(r, pages)
				if n := len(sc.pods["a"].series); n > most {
					t.Fatalf("%d series are kept after page %d, want at most %d", n, i+1, most)
				}
				if got, want := sc.sum(r.now).requests, float64(min(i, 4)*fresh); !near(got, want) {
					t.Fatalf("page %d: %v requests, want %v", i+1, got, want)
				}
			}
		})
	}
}

// Series that are on no page for long, as when an application's part is missing from a merged one,
// go on where they ended, though they are more than are remembered of those that are gone.
func TestSeriesThatComeBackCountWhatCameIn(t *testing.T) {
	for _, clients := range []int{1, remembered + 100} {
		t.Run(strconv.Itoa(clients), func(t *testing.T) {
			p := newPods(t)
			r := p.rig(t, p.source(time.Minute, 15*time.Second))
			p.there(noon.Add(-time.Hour), "a")
			for i := range 20 {
				page := strings.Builder{}
				page.WriteString("busy 1\n")
				for client := range clients {
					if i == 0 || i == 19 {
						fmt.Fprintf(&page, "req_seconds_bucket{le=\"0.1\",client=\"%[1]d\"} %[2]d\nreq_seconds_bucket{le=\"+Inf\",client=\"%[1]d\"} %[2]d\nreq_seconds_count{client=\"%[1]d\"} %[2]d\n", client, 1_000_000+i)
					}
				}
				p.set("a", page.String())
				got := step(t, r, time.Duration(i)*15*time.Second)
				if i == 19 && (!got.Arrivals.Known || got.Arrivals.Value == 0 || got.Arrivals.Value > float64(19*clients)) {
					t.Errorf("%+v arrive, want what came in", got.Arrivals)
				}
			}
		})
	}
}

func TestAPodThatStartedInTheWindowCountsFromItsFirstRequest(t *testing.T) {
	for _, c := range []struct {
		name    string
		started time.Time
		want    float64
	}{
		{"it started after the first round", noon.Add(time.Second), 40},
		{"it was there before", noon.Add(-time.Second), 0},
		{"nobody knows", time.Time{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPods(t)
			r := p.rig(t, p.source(time.Minute, 10*time.Second))
			p.there(noon.Add(-time.Hour), "a")
			p.set("a", counts(0, 0, 0, 0))
			step(t, r, 0)
			p.there(c.started, "a", "b")
			p.set("b", counts(40, 0, 0, 0))
			if got := step(t, r, 10*time.Second); got.Arrivals != podscaler.Known(c.want/10) {
				t.Errorf("got %+v, want %v requests in 10s", got.Arrivals, c.want)
			}
		})
	}
}

func TestWhatCameInOverALongTimeIsSharedOut(t *testing.T) {
	p := newPods(t)
	r := p.rig(t, p.source(time.Minute, 15*time.Second))
	p.there(noon.Add(-time.Hour), "a")
	p.set("a", counts(0, 0, 0, 0))
	step(t, r, 0)
	p.set("a", counts(1200, 0, 0, 0))
	if got := step(t, r, 10*time.Minute); got.Arrivals != podscaler.Known(2) {
		t.Errorf("1200 requests in 10 minutes are %+v a second, want 2", got.Arrivals)
	}
}

// A constant load is what it is, whether or not the pages are read at the window's ends, and in the
// time that the window and the readings have in common alone.
func TestAConstantLoadIsReadAsItIs(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name          string
		window, every time.Duration
		jitter        []time.Duration // of the rounds, in turn
	}{
		{"the window is a multiple of the time between", time.Minute, 20 * time.Second, []time.Duration{0}},
		{"the clock is early and late", time.Minute, 20 * time.Second, []time.Duration{0, ms, -ms, ms, 0, -ms, -ms}},
		{"the window is no multiple", 30 * time.Second, 20 * time.Second, []time.Duration{0}},
		{"nor is it, with a clock that is early and late", 50 * time.Second, 20 * time.Second, []time.Duration{ms, 0, -ms}},
		{"the window is shorter", 10 * time.Second, 20 * time.Second, []time.Duration{0, ms, -ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPods(t)
			r := p.rig(t, p.source(c.window, c.every))
			p.there(noon.Add(-time.Hour), "a")
			for i := range 20 {
				after := time.Duration(i)*c.every + c.jitter[i%len(c.jitter)]
				n := int(after / ms) // 1000 requests a second, of which a quarter is slow
				p.set("a", counts(n-n/4, n/4, 0, 0))
				got := step(t, r, after)
				if i == 0 {
					continue
				}
				if !got.Arrivals.Known || math.Abs(got.Arrivals.Value-1000) > 0.01 || math.Abs(got.Latency.Value-0.19) > 0.001 {
					t.Errorf("round %d, after %s: %+v a second and %+v, want 1000 and 0.19", i, after, got.Arrivals, got.Latency)
				}
			}
		})
	}
}

// What is a part of the window's has its fraction of the requests, of the fast and of the failed
// alike.
func TestAPartOfWhatAPageShowsCountsAlike(t *testing.T) {
	whole := added{at: noon, from: noon.Add(-20 * time.Second), requests: 40, ended: tally{requests: 20, failed: 4}, below: map[float64]float64{0.1: 10, inf: 40}}
	for _, c := range []struct {
		window, after time.Duration
		part          float64
	}{
		{time.Minute, 0, 1}, {20 * time.Second, 0, 1}, {15 * time.Second, 0, 0.75}, {time.Minute, 40 * time.Second, 1},
		{time.Minute, 45 * time.Second, 0.75}, {time.Minute, 59 * time.Second, 0.05}, {time.Minute, time.Minute, 0},
	} {
		s := &scrape{window: c.window, pods: map[string]*scraped{"a": {added: []added{whole}}}}
		got := s.sum(noon.Add(c.after))
		want := []float64{40 * c.part, 20 * c.part, 4 * c.part, 10 * c.part, 40 * c.part}
		for i, v := range []float64{got.requests, got.ended.requests, got.ended.failed, got.below[0.1], got.below[inf]} {
			if !near(v, want[i]) {
				t.Errorf("%s after it in a window of %s: %+v, want %v of it", c.after, c.window, got, c.part)
				break
			}
		}
	}
}

func TestAClockThatIsPutBackBeginsAnew(t *testing.T) {
	p := newPods(t)
	r := p.rig(t, p.source(time.Minute, 15*time.Second))
	p.there(noon.Add(-time.Hour), "a")
	p.set("a", counts(0, 0, 0, 0))
	step(t, r, 0)
	p.set("a", counts(600, 0, 0, 0))
	step(t, r, 15*time.Second)
	if got := step(t, r, -10*time.Minute); got.Arrivals.Known || !got.Since.Equal(noon.Add(-10*time.Minute)) {
		t.Errorf("just after it: %+v", got)
	}
	p.set("a", counts(630, 0, 0, 0))
	if got := step(t, r, -10*time.Minute+15*time.Second); got.Arrivals != podscaler.Known(2) {
		t.Errorf("15 s after it: %+v", got)
	}
}

func TestSilentPodsAreMissed(t *testing.T) {
	for _, c := range []struct {
		name   string
		silent int
		known  bool
		want   string
	}{
		{"none", 0, true, ""},
		{"some: enough to grow by", 1, true, "MetricsPartial: latency, good, arrivals, inFlight: 1 of 4 ready pods show no page: p0: the page answers 500 Internal Server Error"},
		{"most", 3, false, "MetricsStale: latency, good, arrivals, inFlight: 3 of 4 ready pods show no page: p0, p1, p2: the page answers 500 Internal Server Error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPods(t)
			r := p.rig(t, p.source(time.Minute, 10*time.Second))
			p.there(noon.Add(-time.Hour), "p0", "p1", "p2", "p3")
			for i := range 4 {
				p.set(fmt.Sprintf("p%d", i), counts(i, 0, 0, 0))
			}
			step(t, r, 0)
			for i := range 4 {
				p.set(fmt.Sprintf("p%d", i), counts(50, 0, 0, 0))
			}
			for i := range c.silent {
				p.set(fmt.Sprintf("p%d", i), "500")
			}
			var got podscaler.Window
			for after := 10; after <= 40; after += 10 {
				got = step(t, r, time.Duration(after)*time.Second)
			}
			if got.Latency.Known != c.known || got.Arrivals.Known != c.known || got.InFlight.Known != c.known {
				t.Errorf("got %+v, want known %t", got, c.known)
			}
			if f := lines(r.Findings("shop/cart")); f != c.want {
				t.Errorf("findings:\n%s\nwant:\n%s", f, c.want)
			}
			if gap := got.Since.Equal(noon.Add(40 * time.Second)); gap != (c.silent > 0) {
				t.Errorf("measured without a gap since %s", got.Since)
			}
		})
	}
}

func TestPodsThatNeverAnsweredAreNotAnIdleWorkload(t *testing.T) {
	p := newPods(t)
	r := p.rig(t, p.source(time.Minute, 10*time.Second))
	p.there(noon.Add(-time.Hour), "a")
	p.set("a", "500")
	for _, after := range []time.Duration{0, 10 * time.Second} {
		if got := step(t, r, after); got.Arrivals.Known || got.Since.Before(noon.Add(after)) {
			t.Errorf("got %+v", got)
		}
	}
	p.there(noon)
	if got := step(t, r, 20*time.Second); got.Arrivals.Known || got.Arrivals.Why != "the workload has no ready pod to read" {
		t.Errorf("without pods: %+v", got)
	}
}

func TestAPageThatCannotBeReadIsNoPage(t *testing.T) {
	for _, c := range []struct{ name, page, kind, want string }{
		{"no number", "req_seconds_count x\n", "text/plain", "line 1: a value must be a number"},
		{"a negative counter", "req_seconds_count -1\n", "text/plain", "line 1: a counter must be a number of at least 0, was -1"},
		{"a bucket without edge", "req_seconds_bucket 1\n", "text/plain", "line 1: a bucket must have its edge in le"},
		{"a series twice", "req_seconds_count 1\nreq_seconds_count 1\n", "text/plain", "line 2: a series must be on a page once"},
		{"half of it", counts(1, 1, 1, 1), "application/openmetrics-text; version=1.0.0", "the page ends without # EOF"},
		{"nothing that is wanted", "up 1\n", "text/plain", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPods(t)
			p.kind = c.kind
			r := p.rig(t, p.source(time.Minute, 10*time.Second))
			p.there(noon.Add(-time.Hour), "a")
			p.set("a", c.page)
			step(t, r, 0)
			got := step(t, r, 10*time.Second)
			if got.Latency.Known || !strings.Contains(lines(r.Findings("shop/cart")), c.want) {
				t.Errorf("got %+v\n%s", got.Latency, lines(r.Findings("shop/cart")))
			}
			if c.want == "" && got.Latency.Why != "no page has a histogram req_seconds" {
				t.Errorf("got %q", got.Latency.Why)
			}
		})
	}
}

func TestOnlyTheSeriesOfServedRequestsCount(t *testing.T) {
	s := source(Spec{Preset: Istio, Scrape: &Scrape{}})
	sc := newScrape("shop/cart", &s, nil)
	if got := sc.url("10.0.0.7"); got != "http://10.0.0.7:15020/stats/prometheus" {
		t.Errorf("url %s", got)
	}
	if got := sc.url("fd00::7"); got != "http://[fd00::7]:15020/stats/prometheus" {
		t.Errorf("url %s", got)
	}
	for _, c := range []struct {
		name  string
		match map[string]string
		own   Scrape
		want  int
	}{
		{"at the side that serves", nil, Scrape{}, 2},
		{"of one kind", map[string]string{"code": "500"}, Scrape{}, 1},
		{"at another side", map[string]string{"reporter": "source"}, Scrape{}, 1},
		// Beside those of failures.
		{"one's own have none of the preset's labels", nil, Scrape{Latency: "mine"}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := source(Spec{Preset: Istio, Match: c.match, Scrape: &c.own})
			var got page
			err := newScrape("shop/cart", &s, nil).parse(strings.NewReader(`istio_requests_total{reporter="source"} 5
istio_requests_total{reporter="destination",code="200"} 7
istio_requests_total{reporter="destination",code="500"} 1
mine_count 7
`), false, &got)
			if err != nil || len(got.series) != c.want {
				t.Errorf("got %v, %v", got.series, err)
			}
		})
	}
}

// Law: as pods come, go, restart and stay silent, a window holds exactly the requests that their
// pages showed within it; of those that came in since before it began, its part.
func TestAWindowIsTheSumOfWhatEachPodShowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := source(Spec{Scrape: &Scrape{Port: 1, Latency: "h", Every: podscaler.Duration(10 * time.Second)}})
		s.SLO.Window = time.Duration(rapid.IntRange(10, 100).Draw(t, "window")) * time.Second
		sc := newScrape("shop/cart", &s, nil)
		type shown struct {
			from, at time.Time
			below    [3]int
		}
		type life struct {
			pod       Pod
			counted   [3]int // by this process
			seen, new bool
			last      time.Time
			pending   [3]int // since the last page
		}
		var truth []shown
		lives := map[string]*life{}
		edges := []string{"0.1", "0.25", "+Inf"}
		for i := range rapid.IntRange(1, 25).Draw(t, "rounds") {
			now := noon.Add(time.Duration(i) * 10 * time.Second)
			if len(lives) == 0 || rapid.IntRange(0, 3).Draw(t, "born") == 0 {
				name := fmt.Sprintf("p%d", i)
				l := &life{pod: Pod{Workload: "shop/cart", Name: name, Address: name, Ready: true, Started: now.Add(-time.Second)}}
				l.new = i > 0
				lives[name] = l
			}
			var pods []Pod
			r := &round{now: now, options: &Options{}, measured: map[string]*measurement{"shop/cart": {}}}
			bodies := map[string]string{}
			for _, name := range sortedKeys(lives) {
				l := lives[name]
				switch rapid.SampledFrom([]string{"serve", "serve", "serve", "restart", "gone", "silent"}).Draw(t, "fate") {
				case "gone":
					delete(lives, name)
					continue
				case "restart":
					// What was counted after the last page is lost with the process: no page shows
					// it. Nor does the next one show that it restarted, unless it has less.
					if l.counted[2]-l.pending[2] > 3*50 {
						l.counted, l.pending = [3]int{}, [3]int{}
					}
				case "silent":
					pods = append(pods, l.pod)
					n := rapid.IntRange(0, 50).Draw(t, "n")
					for b := range 3 {
						l.counted[b] += n
						l.pending[b] += n
					}
					continue
				}
				below := 0
				for b := range 3 {
					below += rapid.IntRange(0, 50).Draw(t, "n")
					l.counted[b] += below
					l.pending[b] += below
				}
				page := ""
				for b, e := range edges {
					page += fmt.Sprintf("h_bucket{le=%q} %d\n", e, l.counted[b])
				}
				bodies[name] = page + fmt.Sprintf("h_count %d\n", l.counted[2])
				pods = append(pods, l.pod)
				if !l.seen {
					l.last = l.pod.Started
				}
				if l.seen || l.new {
					truth = append(truth, shown{l.last, now, l.pending})
				}
				l.seen, l.last, l.pending = true, now, [3]int{}
			}
			pages := sc.read(r, nil, nil, pods)
			for _, got := range pages {
				body, there := bodies[got.pod.Name]
				got.err = fmt.Errorf("silent")
				if there {
					got.err = sc.parse(strings.NewReader(body), false, got)
				}
			}
			sc.take(r, pages)

			var want [3]float64
			for _, x := range truth {
				inside := min(x.at.Sub(x.from), x.at.Sub(now.Add(-s.SLO.Window)))
				for b := range 3 {
					want[b] += float64(x.below[b]) * max(0, inside.Seconds()) / x.at.Sub(x.from).Seconds()
				}
			}
			sum := sc.sum(now)
			got := [3]float64{sum.below[0.1], sum.below[0.25], sum.below[inf]}
			if !near(got[0], want[0]) || !near(got[1], want[1]) || !near(got[2], want[2]) || !near(sum.requests, want[2]) {
				t.Fatalf("round %d: %v and %v requests, the pods showed %v", i, got, sum.requests, want)
			}
		}
	})
}

func FuzzScrapedPage(f *testing.F) {
	f.Add(counts(1, 2, 3, 4), counts(0, 5, 3, 4))
	f.Add("req_seconds_bucket{le=\"1\"} 1e300\n", "req_seconds_bucket{le=\"1\"} 5\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		s := source(Spec{Scrape: &Scrape{Port: 1, Latency: "req_seconds", InFlight: "busy"}})
		sc := newScrape("shop/cart", &s, nil)
		var m *measurement
		for i, body := range []string{first, second} {
			m = &measurement{}
			r := &round{now: noon.Add(time.Duration(i) * 15 * time.Second), options: &Options{}, measured: map[string]*measurement{"shop/cart": m}}
			pages := sc.read(r, nil, nil, []Pod{{Workload: "shop/cart", Name: "a", Address: "a", Ready: true}})
			pages[0].err = sc.parse(strings.NewReader(body), false, pages[0])
			sc.take(r, pages)
		}
		m.settle(&s)
		for _, got := range []podscaler.Reading{m.window.Latency, m.window.Good, m.window.Arrivals} {
			if got.Known && (math.IsNaN(got.Value) || got.Value < 0) || !got.Known && got.Value != 0 {
				t.Errorf("%q then %q: %+v", first, second, m.window)
			}
		}
		if m.window.Good.Known && m.window.Good.Value > 1+1e-9 {
			t.Errorf("%q then %q: good %v", first, second, m.window.Good.Value)
		}
	})
}

// What pods want to see is shown over TLS only, and only to servers that the authority vouches for.
func TestCredentialsForPagesAreShownOverTLSOnly(t *testing.T) {
	var mu sync.Mutex
	var shown []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(counts(1, 1, 1, 1)))
	})
	secured, open := httptest.NewTLSServer(handler), httptest.NewServer(handler)
	t.Cleanup(secured.Close)
	t.Cleanup(open.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})
	for _, c := range []struct {
		name   string
		server *httptest.Server
		creds  Credentials
		err    error
		shown  []string
		why    string
	}{
		{"over TLS", secured, Credentials{Token: "t", CA: ca, ServerName: "example.com"}, nil, []string{"Bearer t"}, ""},
		{"in the open", open, Credentials{Token: "t"}, nil, []string{""}, ""},
		{"in the open, whatever is wrong with them", open, Credentials{}, errors.New("no file"), []string{""}, ""},
		{"to another name", secured, Credentials{Token: "t", CA: ca, ServerName: "pods.internal"}, nil, nil, "not pods.internal"},
		{"to nobody without them", secured, Credentials{}, errors.New("no file"), nil, "the credentials for metrics pages cannot be read: no file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shown = nil
			u := must.Get(url.Parse(c.server.URL))(t)
			port := must.Get(strconv.Atoi(u.Port()))(t)
			s := source(Spec{Scrape: &Scrape{Port: port, Scheme: u.Scheme, Latency: "req_seconds", InFlight: "busy"}})
			r := reader(t, nil, s, Options{
				Pods:              func() []Pod { return []Pod{{Workload: "shop/cart", Name: "a", Address: u.Hostname(), Ready: true}} },
				ScrapeCredentials: func(context.Context) (Credentials, error) { return c.creds, c.err },
			})
			if d := cmp.Diff(c.shown, shown); d != "" {
				t.Errorf("shown (-want +got):\n%s", d)
			}
			w := read(t, r, "shop/cart", noon)
			if w.InFlight.Known != (c.why == "") || !strings.Contains(w.InFlight.Why, c.why) {
				t.Errorf("got %+v, want why %q", w.InFlight, c.why)
			}
		})
	}
}
