package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// archive is a Prometheus that has scraped a counter of requests since the beginning.
type archive struct {
	mu     sync.Mutex
	now    time.Time
	broken bool // it knows of no ranges
}

const scraped = 15 * time.Second

// requests are those that came in so many seconds: a swing a day, and each minute a tenth more or
// less than that.
func requests(seconds float64) float64 {
	swing := 80 * 86400 / (2 * math.Pi) * (1 - math.Cos(2*math.Pi*seconds/86400))
	minute := int(seconds / 60)
	return math.Floor(120*seconds + swing + chance()[minute] + (chance()[minute+1]-chance()[minute])*(seconds/60-float64(minute)))
}

// chance is how many more have come by each minute.
var chance = sync.OnceValue(func() []float64 {
	r, sums := rand.New(rand.NewPCG(4, 2)), make([]float64, 5*1440)
	for i := range len(sums) - 1 {
		sums[i+1] = sums[i] + 12*60*r.NormFloat64()
	}
	return sums
})

// rate is what PromQL's rate makes of the samples in the time over before at.
func (a *archive) rate(at time.Time, over time.Duration) (float64, bool) {
	last := at.Truncate(scraped)
	first := at.Add(-over).Truncate(scraped).Add(scraped)
	if first.Before(t0) {
		first = t0
	}
	if !last.After(first) {
		return 0, false
	}
	return (requests(last.Sub(t0).Seconds()) - requests(first.Sub(t0).Seconds())) / last.Sub(first).Seconds(), true
}

func (a *archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	query := r.FormValue("query")
	_, window, _ := strings.Cut(strings.TrimSuffix(query, "]))"), "[")
	over, err := time.ParseDuration(window)
	if err != nil {
		http.Error(w, query, http.StatusBadRequest)
		return
	}
	kind, result := "vector", ""
	if strings.HasSuffix(r.URL.Path, "/query_range") {
		if a.broken {
			http.Error(w, "no ranges here", http.StatusNotFound)
			return
		}
		kind, result = "matrix", fmt.Sprintf(`{"metric":{},"values":[%s]}`, a.span(r, over))
	} else if v, ok := a.rate(a.now, over); ok {
		result = fmt.Sprintf(`{"metric":{},"value":%s}`, sample(a.now, v))
	}
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":%q,"result":[%s]}}`, kind, result)
}

// span are the values of a range.
func (a *archive) span(r *http.Request, over time.Duration) string {
	number := func(key string) float64 { v, _ := strconv.ParseFloat(r.FormValue(key), 64); return v }
	var all []string
	for at := number("start"); at <= number("end"); at += number("step") {
		when := time.UnixMilli(int64(1000 * at)).UTC()
		if v, ok := a.rate(when, over); ok {
			all = append(all, sample(when, v))
		}
	}
	return strings.Join(all, ",")
}

func sample(at time.Time, v float64) string { return fmt.Sprintf(`[%d,"%v"]`, at.Unix(), v) }

// leader is a process that leads, and what it says.
type leader struct {
	*house
	log  *bytes.Buffer
	last *lastStep
}

const foreseeing = `
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: Active
  policy: Predictive
  minReplicas: 1
  maxReplicas: 40
  runPeriod: 1m
  predictive: {period: 5m, horizon: 6, quantile: "0.9", profile: {linear: {perPod: "20"}}}
  signals: {queries: {arrivals: 'sum(rate(visits_total{namespace="$namespace"}[$window]))'}}
`

// leaderOf makes a process that measures by an archive, from a time on.
func leaderOf(t *testing.T, a *archive, url string, from time.Time) *leader {
	l := &leader{newHouse(t), &bytes.Buffer{}, &lastStep{}}
	l.web(active)
	l.autoscaler(foreseeing)
	for i := range 12 {
		l.node("workers", fmt.Sprint(i))
	}
	l.now, l.cfg.NodeScaler, l.cfg.Fleet, l.cfg.Interval, l.cfg.Journal = from, false, nil, time.Minute, l.last
	l.cfg.Log = slog.New(slog.NewTextHandler(l.log, nil))
	l.cfg.Signals = signals.New(signals.Options{Prometheus: &signals.Prometheus{URL: url}, Timeout: time.Minute})
	l.begin()
	return l
}

// until steps up to a time.
func (l *leader) until(a *archive, end time.Time) {
	for l.now.Before(end) {
		a.mu.Lock()
		a.now = l.now
		a.mu.Unlock()
		l.term.Signals.Prepare(l.Context(), l.now)
		l.steps(1)
	}
}

func (l *leader) forecast() podscaler.Forecast {
	if ws := workloadStep(&l.last.Step, "shop/web"); ws != nil && ws.Decision != nil {
		return ws.Decision.Forecast
	}
	return podscaler.Forecast{}
}

// The leader is killed in the middle of a week, and another process leads four minutes later. Its
// first forecast is that of the leader if it had lived, within 0.5 %, and those of the next three
// hours are within 2 %: the two sample at different moments, and so do two that are never killed.
// One that gets no history foresees nothing for hours, says why once, and goes on.
func TestAForecastOutlivesItsLeader(t *testing.T) {
	a := &archive{}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	killed := t0.Add(84*time.Hour + 7*time.Second)
	whole := leaderOf(t, a, server.URL, t0.Add(7*time.Second))
	whole.until(a, killed.Add(6*time.Minute))

	begins := killed.Add(4*time.Minute + 20*time.Second)
	next := leaderOf(t, a, server.URL, begins)
	var tape segments
	tape.Open = func(time.Time) (io.WriteCloser, error) {
		tape.all = append(tape.all, &bytes.Buffer{})
		return noClose{tape.all[len(tape.all)-1]}, nil
	}
	next.term.Recording = &tape
	next.term.forget(recording.Nothing)
	next.replicas["shop/web"] = whole.replicas["shop/web"]
	next.until(a, begins.Add(90*time.Second)) // its first step looks, the second decides

	a.broken = true
	blind := leaderOf(t, a, server.URL, begins)
	blind.until(a, begins.Add(90*time.Second))
	for i := range 36 {
		want, got, without := whole.forecast(), next.forecast(), blind.forecast()
		near := 0.02
		if i == 0 {
			near = 0.005
		}
		if !want.Known() || !got.Known() || math.Abs(got.Load-want.Load) > near*want.Load {
			t.Errorf("step %d: foresees %+v, should %+v as one that was never killed", i, got, want)
		}
		if without.Known() && i < 20 {
			t.Errorf("step %d: foresees %+v without a history: this shows nothing", i, without)
		}
		for _, l := range []*leader{whole, next, blind} {
			l.until(a, l.now.Add(5*time.Minute))
		}
	}
	decideAgain(t, &tape)
	for text, want := range map[string]int{"a policy starts without the load before its start": 1, "404 Not Found: no ranges here": 1} {
		if n := strings.Count(blind.log.String(), text); n != want {
			t.Errorf("%q is logged %d times, should be %d: %s", text, n, want, blind.log)
		}
	}
	if !strings.Contains(next.log.String(), "has learnt from the load before its start") {
		t.Errorf("that it knows the days past is not logged: %s", next.log)
	}
}

// A plan is made by the forecast of a leader that has seen all the time. Where the days past cannot
// be read, it is made without one, and says why.
func TestAPlanKnowsTheDaysPast(t *testing.T) {
	a := &archive{}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	whole := leaderOf(t, a, server.URL, t0.Add(7*time.Second))
	whole.until(a, t0.Add(60*time.Hour+7*time.Second))
	want := whole.forecast()

	plan := func() Foreseen {
		// A leader's own signals have measured before; those of a plan are new.
		l := leaderOf(t, a, server.URL, whole.now)
		l.replicas["shop/web"] = whole.replicas["shop/web"]
		state := must.Get(l.Observe(t.Context()))(t)
		targets := must.Get(l.Targets(t.Context()))(t)
		autoscalers := must.Get(l.Autoscalers())(t)
		seen := &Seen{Picture: &kube.Picture{State: state, Autoscalers: autoscalers, Targets: targets}, Machines: l.machines}
		return must.Get(l.cfg.Foresee(t.Context(), seen, l.now))(t).Workloads[0]
	}
	w := plan()
	if got := w.Step.Decision.Forecast; !want.Known() || !got.Known() || math.Abs(got.Load-want.Load) > 0.02*want.Load {
		t.Errorf("the plan foresees %+v, should %+v as one that has seen all the time", got, want)
	}
	if w.Unlearnt != "" {
		t.Errorf("it says why there is no history, of which there is one: %s", w.Unlearnt)
	}
	a.broken = true
	if w = plan(); w.Step.Decision.Forecast.Known() || !strings.Contains(w.Unlearnt, "404 Not Found: no ranges here") {
		t.Errorf("without the days past it foresees %+v, and says why: %q", w.Step.Decision.Forecast, w.Unlearnt)
	}
}

// decideAgain decides what was recorded again: by the history that was recorded, each step comes to
// the same.
func decideAgain(t *testing.T, tape *segments) {
	t.Helper()
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	var replay recording.Replay
	histories := 0
	for _, segment := range tape.all {
		err := recording.Read(segment, func(m *recording.Moment) error {
			histories += len(m.Observation.Histories)
			s, same, err := replay.Decide(m)
			if err != nil || !same {
				t.Errorf("%s, decided again, comes to something else: %v", s.ID, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if histories != 1 {
		t.Errorf("%d histories are recorded, should be the one that was handed over", histories)
	}
}

// forgetful are signals that have no history, and take a while to say so.
type forgetful struct {
	measured
	takes time.Duration
	asked *[]time.Time
}

func (f forgetful) Recall(_ context.Context, now time.Time, lacks map[string]podscaler.Lack, got func(string, *podscaler.History, error)) {
	*f.asked = append(*f.asked, now)
	time.Sleep(f.takes)
	for name := range lacks {
		got(name, nil, errors.New("there is no such time"))
	}
}

func TestAHistoryIsAskedForAtIntervals(t *testing.T) {
	h := newHouse(t)
	var asked []time.Time
	h.cfg.Interval, h.cfg.Signals = time.Minute, forgetful{measured{h}, 0, &asked}
	h.web(active)
	h.autoscaler(foreseeing)
	h.begin().steps(5 * 60)
	var after []float64
	for _, at := range asked {
		after = append(after, at.Sub(t0).Minutes())
	}
	h.expect("minutes at which it is asked for", []float64{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}, after)

	// Another policy lacks a history of its own, and who has none any more lacks none.
	asked = nil
	h.autoscalers["shop/web"].Spec.Predictive.Horizon = 7
	h.steps(1)
	h.expect("asked for another policy", 1, len(asked))
	h.web(active)
	h.steps(2)
	h.expect("asked for what is kept of one that is gone", 0, len(h.term.past.of))
}

func TestNoStepWaitsForTheDaysPast(t *testing.T) {
	h := newHouse(t)
	h.web(active)
	h.autoscaler(foreseeing)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer cancel()
		var asked []time.Time
		var steps stepsMade
		h.cfg.Now, h.cfg.Signals, h.cfg.Journal = time.Now, forgetful{measured{h}, 10 * time.Minute, &asked}, &steps
		h.begin().term.run(ctx, ctx)
		h.term.beside.Wait()
		h.expect("steps after the first", 6, int(steps)-1)
		h.expect("times that the past was asked for", 1, len(asked))
	})
}
