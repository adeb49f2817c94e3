package signals

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestAPresetMeasuresAllItsSignals(t *testing.T) {
	f := newFake(t, istio)
	r := reader(t, f, source(Spec{Preset: Istio}), Options{})
	want := podscaler.Window{
		Latency:  podscaler.Known(0.1 + 0.15*70/75),
		Good:     podscaler.Known(0.95),
		Arrivals: podscaler.Known(100),
		Errors:   podscaler.Known(0.02),
		Since:    noon,
		Over:     time.Minute,
	}
	if d := cmp.Diff(want, read(t, r, "shop/cart", noon), cmp.Comparer(near)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := r.Findings("shop/cart"); got != nil {
		t.Errorf("findings: %s", lines(got))
	}
}

// The queries of every preset, for one workload and for two, as they are sent. That they are
// PromQL is found out by testbed/peers/prometheus, which reads the same file.
func TestPresetsAskWhatTheirGoldenFileSays(t *testing.T) {
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		if name == None {
			continue
		}
		for _, h := range []Histograms{Classic, Native} {
			for _, n := range []int{1, 2} {
				fmt.Fprintf(&got, "# %s, %s, %d\n%s\n\n", name, h, n, strings.Join(queriesOf(t, name, h, n), "\n"))
			}
		}
	}
	golden.Compare(t, "testdata/presets.txt", got.String())
}

func queriesOf(t *testing.T, name Preset, h Histograms, n int) []string {
	t.Helper()
	f := newFake(t, func(string) string { return vector(noon) })
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: f.URL}})
	sources := map[string]Source{}
	for i := range n {
		s := source(Spec{Preset: name, Histograms: h, Match: map[string]string{"cluster": "a"}})
		if i > 0 {
			s.Target.Name = "api.v2"
		}
		if name == Envoy {
			s.Spec.Service = s.Target.Namespace + "_" + s.Target.Name + "_80"
		}
		sources[fmt.Sprint(i)] = s
	}
	must.Do(t, r.Configure(sources))
	r.Prepare(context.Background(), noon)
	return f.asked()
}

// What comes back is unknown with its reason, or it is a measurement: there is nothing between.
func TestWhatIsNoMeasurementIsUnknownAndNeverZero(t *testing.T) {
	own := source(Spec{Queries: Queries{Latency: "lat", Good: "good", Arrivals: "arr", InFlight: "fly"}})
	for _, c := range []struct {
		name, answer string
		known        bool
		code, why    string
	}{
		{"a number", vector(noon, `{} 0.5`), true, "", ""},
		{"a scalar", fmt.Sprintf(`={"resultType":"scalar","result":[%d,"0.5"]}`, noon.Unix()), true, "", ""},
		{"a zero that was measured", vector(noon, `{} 0`), true, "", ""},
		{"nothing", vector(noon), false, CodeMetricsUnknown, "the query returned nothing"},
		{"several", vector(noon, `{a="1"} 1`, `{a="2"} 2`, `{a="3"} 3`), false, CodeManySeries, "the query returned 3 series, must be one"},
		{"NaN", vector(noon, `{} NaN`), false, CodeMetricsUnknown, "the query returned NaN, which is no measurement"},
		{"infinity", vector(noon, `{} +Inf`), false, CodeMetricsUnknown, "the query returned +Inf, which is no measurement"},
		{"less than nothing", vector(noon, `{} -1`), false, CodeMetricsUnknown, "the query returned -1, must be at least 0"},
		{"what was true long ago", vector(noon.Add(-3*time.Minute), `{} 1`), false, CodeMetricsStale, "the answer is 3m0s old by this clock, must be at most 2m0s"},
		{"a matrix", `={"resultType":"matrix","result":[]}`, false, CodeMetricsUnknown, "the query answers with a matrix, must be a number or a vector"},
		{"a histogram", fmt.Sprintf(`={"resultType":"vector","result":[{"metric":{},"histogram":[%d,{"count":"1","sum":"1","buckets":[[0,"0","1","1"]]}]}]}`, noon.Unix()), false, CodeMetricsUnknown, "the query returned a histogram, must be a number"},
		{"an error of the query's", `{"status":"error","errorType":"bad_data","error":"parse error"}`, false, CodeMetricsUnknown, invalidAnswer},
		{"a server that is down", "503", false, CodeMetricsUnknown, invalidAnswer},
		{"another server", "302", false, CodeMetricsUnknown, invalidAnswer},
		{"a server that hangs", "hang", false, CodeMetricsUnknown, unreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, func(string) string { return c.answer })
			r := reader(t, f, own, Options{Timeout: 200 * time.Millisecond})
			w := read(t, r, "shop/cart", noon)
			for name, got := range map[string]podscaler.Reading{latency: w.Latency, arrivals: w.Arrivals, inFlight: w.InFlight} {
				if got.Known != c.known || got.Why != c.why || !got.Known && got.Value != 0 {
					t.Errorf("%s is %+v, want known %t and why %q", name, got, c.known, c.why)
				}
			}
			if got := codes(r.Findings("shop/cart")); !c.known && !slices.Contains(got, c.code) || c.known && got != nil {
				t.Errorf("findings %v, want %s", got, c.code)
			}
		})
	}
}

func TestAnAnswerThatIsTooLongIsNotTakenIn(t *testing.T) {
	var log logbook
	f := newFake(t, func(string) string {
		return vector(noon, slices.Repeat([]string{`{a="b"} 1`}, 10000)...)
	})
	r := reader(t, f, source(Spec{Queries: Queries{Arrivals: "x"}}), Options{MaxBytes: 1 << 16, Log: slog.New(&log)})
	if got := read(t, r, "shop/cart", noon).Arrivals; got.Known || got.Why != invalidAnswer || !strings.HasSuffix(log.all(), "because the answer is longer than 65536 bytes") {
		t.Errorf("got %+v", got)
	}
}

func TestOneSignalThatFailsDoesNotLoseTheOthers(t *testing.T) {
	f := newFake(t, func(q string) string {
		if strings.Contains(q, "_bucket{") {
			return "503"
		}
		return istio(q)
	})
	r := reader(t, f, source(Spec{Preset: Istio, Metrics: []Series{{Name: "queue", Query: "depth"}}}), Options{})
	w := read(t, r, "shop/cart", noon)
	want := podscaler.Window{
		Latency:  podscaler.Reading{Why: "invalid answer"},
		Good:     podscaler.Reading{Why: "invalid answer"},
		Arrivals: podscaler.Known(100),
		Errors:   podscaler.Known(0.02),
		Since:    noon,
		Over:     time.Minute,
		Metrics:  map[string]podscaler.Metric{"queue": {Total: podscaler.Known(100)}},
	}
	if d := cmp.Diff(want, w); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := lines(r.Findings("shop/cart")); got != "MetricsUnknown: latency, good: invalid answer" {
		t.Errorf("findings:\n%s", got)
	}
}

func TestTwoHundredWorkloadsCostAHandfulOfQueries(t *testing.T) {
	sources := map[string]Source{}
	for i := range 200 {
		s := source(Spec{Preset: Istio})
		s.Target.Name = fmt.Sprintf("app-%03d", i)
		s.SLO.Quantile = 0.5 + float64(i)/1000
		sources["shop/"+s.Target.Name] = s
	}
	f := newFake(t, func(q string) string {
		var series []string
		for i := range 200 {
			of := fmt.Sprintf(`{destination_workload_namespace="shop";destination_workload="app-%03d"`, i)
			switch {
			case !strings.Contains(q, fmt.Sprintf("app-%03d", i)):
			case strings.Contains(q, "_bucket{"):
				series = append(series, of+`;le="250"} 50`, of+`;le="500"} 100`, of+`;le="+Inf"} 100`)
			case strings.Contains(q, "timestamp("):
				series = append(series, fmt.Sprintf("%s} %d", of, noon.Unix()))
			default:
				series = append(series, fmt.Sprintf("%s} %d", of, 10+i))
			}
		}
		return vector(noon, series...)
	})
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: f.URL}})
	must.Do(t, r.Configure(sources))
	r.Prepare(context.Background(), noon)
	if n := len(f.asked()); n != 10 {
		t.Errorf("%d queries, want 5 for each 100 workloads", n)
	}
	for i := range 200 {
		w := read(t, r, fmt.Sprintf("shop/app-%03d", i), noon)
		if w.Arrivals != podscaler.Known(float64(10+i)) || !near(w.Latency.Value, 0.25+0.25*float64(i)/500) && i > 0 {
			t.Errorf("app-%03d: got %+v", i, w)
		}
	}
}

// Each namespace is asked for by itself: of 50 of them there are 250 queries, which a Prometheus
// that takes 100 ms for each answers in a third of a round.
func TestAHundredWorkloadsOfFiftyNamespacesAreMeasuredInOneRound(t *testing.T) {
	f := newFake(t, func(q string) string {
		time.Sleep(100 * time.Millisecond)
		_, name, _ := strings.Cut(q, `destination_workload_namespace="`)
		name, _, _ = strings.Cut(name, `"`)
		return strings.ReplaceAll(istio(q), `"shop"`, `"`+name+`"`)
	})
	sources := map[string]Source{}
	for i := range 100 {
		s := source(Spec{Preset: Istio})
		s.Target.Namespace = fmt.Sprintf("ns-%02d", i/2)
		if i%2 > 0 {
			s.Target.Name = "idle"
		}
		sources[s.Target.Namespace+"/"+s.Target.Name] = s
	}
	r := New(Options{Prometheus: &Prometheus{URL: f.URL}})
	must.Do(t, r.Configure(sources))
	began := time.Now()
	r.Prepare(context.Background(), noon)
	if n, took := len(f.asked()), time.Since(began); n != 250 || took > 4*time.Second {
		t.Errorf("%d queries in %s, want 5 for each namespace", n, took)
	}
	for i := range 50 {
		if w := read(t, r, fmt.Sprintf("ns-%02d/cart", i), noon); !w.Latency.Known || !w.Errors.Known {
			t.Errorf("ns-%02d: %+v", i, w)
		}
	}
}

func TestWorkloadsThatAskTheSameShareTheAnswer(t *testing.T) {
	f := newFake(t, func(string) string { return vector(noon, `{} 7`) })
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: f.URL}})
	spec := Spec{Queries: Queries{Arrivals: "sum(all)"}, Metrics: []Series{{Name: "depth", Query: "sum(all)"}}}
	must.Do(t, r.Configure(map[string]Source{"a/a": source(spec), "b/b": source(spec)}))
	r.Prepare(context.Background(), noon)
	if got := f.asked(); len(got) != 1 {
		t.Errorf("asked %q", got)
	}
	if w := read(t, r, "b/b", noon); w.Arrivals != podscaler.Known(7) || w.Metrics["depth"].Total != podscaler.Known(7) {
		t.Errorf("got %+v", w)
	}
}

func TestSeriesWithAValueForEachPod(t *testing.T) {
	for _, c := range []struct {
		name   string
		series []string
		want   podscaler.Metric
		code   []string
	}{
		{"by name", []string{`{pod="a"} 1`, `{pod="b"} 2`, `{pod="c"} NaN`}, podscaler.Metric{PerPod: map[string]float64{"a": 1, "b": 2}}, nil},
		{"twice for one", []string{`{pod="a";x="1"} 1`, `{pod="a";x="2"} 2`}, podscaler.Metric{Why: "the query returned several series for pod a, must be one"}, []string{CodeManySeries}},
		{"for nobody", []string{`{x="1"} 1`}, podscaler.Metric{Why: "the query returned a series without the label pod, which is to name its pod"}, []string{CodeManySeries}},
		{"no number", []string{`{pod="a"} NaN`}, podscaler.Metric{Why: "the query returned no number for any pod"}, []string{CodeMetricsUnknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, func(string) string { return vector(noon, c.series...) })
			r := reader(t, f, source(Spec{Metrics: []Series{{Name: "rps", Query: "sum by (pod) (x)", PerPod: "pod"}}}), Options{})
			if d := cmp.Diff(c.want, read(t, r, "shop/cart", noon).Metrics["rps"]); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.code, codes(r.Findings("shop/cart"))); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
		})
	}
}

func TestARateWithoutNewSamplesIsStale(t *testing.T) {
	for _, c := range []struct {
		name, newest string
		want         string
	}{
		{"the last sample is old", vector(noon, fmt.Sprintf(`{destination_workload_namespace="shop";destination_workload="cart"} %d`, noon.Unix()-121)),
			"MetricsStale: arrivals, latency, good: the newest sample is of 11:57:59, which is longer ago than 2m0s"},
		{"there is none any more", vector(noon), "MetricsStale: arrivals, latency, good: there is no sample in what Prometheus looks back by"},
		{"how old it is cannot be told", "503", "MetricsUnknown: the time of the newest sample: invalid answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, func(q string) string {
				if strings.Contains(q, "timestamp(") {
					return c.newest
				}
				return istio(q)
			})
			r := reader(t, f, source(Spec{Preset: Istio}), Options{})
			if got := lines(r.Findings("shop/cart")); got != c.want {
				t.Errorf("findings:\n%s\nwant:\n%s", got, c.want)
			}
			if w := read(t, r, "shop/cart", noon); w.Latency.Known != (c.newest == "503") {
				t.Errorf("got %+v", w)
			}
		})
	}
}

func TestAWindowOfThreeSamplesIsTold(t *testing.T) {
	f := newFake(t, func(q string) string {
		if strings.Contains(q, "count_over_time(") {
			return vector(noon, `{destination_workload_namespace="shop";destination_workload="cart"} 3`)
		}
		return istio(q)
	})
	r := reader(t, f, source(Spec{Preset: Istio}), Options{})
	want := "FewScrapes: the window of 1m0s holds fewer than 4 samples of each series: make slo.window longer, or sample more often"
	if got := lines(r.Findings("shop/cart")); got != want {
		t.Errorf("findings:\n%s", got)
	}
	if !read(t, r, "shop/cart", noon).Latency.Known {
		t.Error("a warning made the latency unknown")
	}
}

func TestAPartialAnswerIsEnoughToGrowBy(t *testing.T) {
	for name, partial := range map[string]string{
		"a warning":              `"warnings":["store 2 does not answer"],"data":%s`,
		"VictoriaMetrics":        `"isPartial":true,"data":%s`,
		"both, and none to read": `"isPartial":true,"warnings":[],"data":%s`,
		"of the query":           `"warnings":["PromQL warning: encountered a mix of histograms and floats"],"data":%s`,
		"beside a notice":        `"warnings":["PromQL info: metric might not be a counter","store 2 does not answer"],"data":%s`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, istio)
			r := reader(t, f, source(Spec{Preset: Istio}), Options{})
			f.answer = func(q string) string {
				return `{"status":"success",` + fmt.Sprintf(partial, istio(q)[1:]) + `}`
			}
			later := noon.Add(30 * time.Second)
			r.Prepare(context.Background(), later)
			w := read(t, r, "shop/cart", later)
			if !w.Latency.Known || !w.Since.Equal(later) {
				t.Errorf("got %+v, want it known, and measured without a gap since %s only", w, later)
			}
			want := "MetricsPartial: arrivals, latency, good: the answer came with a warning"
			if got := lines(r.Findings("shop/cart")); got != want {
				t.Errorf("findings:\n%s", got)
			}
		})
	}
}

func TestAWholeAnswerIsNoGap(t *testing.T) {
	for name, whole := range map[string]string{
		"VictoriaMetrics":  `"isPartial":false,"data":%s`,
		"a notice":         `"warnings":["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"a\" (1:1)"],"data":%s`,
		"no warning":       `"warnings":[],"data":%s`,
		"of a later major": `"infos":["PromQL info: metric might not be a counter"],"data":%s`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, istio)
			r := reader(t, f, source(Spec{Preset: Istio}), Options{})
			f.answer = func(q string) string { return `{"status":"success",` + fmt.Sprintf(whole, istio(q)[1:]) + `}` }
			later := noon.Add(30 * time.Second)
			r.Prepare(context.Background(), later)
			if w := read(t, r, "shop/cart", later); !w.Since.Equal(noon) || r.Findings("shop/cart") != nil {
				t.Errorf("got %+v, %s", w, lines(r.Findings("shop/cart")))
			}
		})
	}
}

// Scenario: Prometheus is gone for a while. What the guards need to know is since when there
// has been no gap.
func TestAnOutageIsAGapThatEndsWithTheFirstFullMeasurement(t *testing.T) {
	f := newFake(t, istio)
	r := reader(t, f, source(Spec{Preset: Istio}), Options{})
	for _, c := range []struct {
		after time.Duration
		down  bool
		since time.Duration
	}{
		{15 * time.Second, false, 0},
		{30 * time.Second, true, 30 * time.Second},
		{45 * time.Second, true, 45 * time.Second},
		{60 * time.Second, false, 45 * time.Second},
		{75 * time.Second, false, 45 * time.Second},
		// Nothing was measured for longer than it keeps.
		{75*time.Second + 3*time.Minute, false, 75*time.Second + 3*time.Minute},
	} {
		now := noon.Add(c.after)
		f.answer = func(q string) string {
			if c.down {
				return "503"
			}
			return strings.NewReplacer(fmt.Sprint(noon.Unix()), fmt.Sprint(now.Unix()), fmt.Sprint(noon.Unix()-5), fmt.Sprint(now.Unix())).Replace(istio(q))
		}
		r.Prepare(context.Background(), now)
		w := read(t, r, "shop/cart", now)
		if w.Latency.Known == c.down || !w.Since.Equal(noon.Add(c.since)) {
			t.Errorf("after %s: known %t, since %s", c.after, w.Latency.Known, w.Since.Sub(noon))
		}
	}
}

// A workload without an objective has a window as well, if there is anything to be measured of it.
func TestAWindowKnowsHowLongItIs(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		slo  podscaler.SLO
		want time.Duration
	}{
		{"with an objective", Spec{Preset: Istio}, podscaler.SLO{Quantile: .9, Target: time.Second, Window: 5 * time.Minute}, 5 * time.Minute},
		{"without", Spec{Metrics: []Series{{Name: "queue", Query: "queue"}}}, podscaler.SLO{}, time.Minute},
		{"with nothing to measure", Spec{}, podscaler.SLO{}, 0},
	} {
		s := source(c.spec)
		s.SLO = c.slo
		r := reader(t, newFake(t, istio), s, Options{})
		if w := read(t, r, "shop/cart", noon); w.Over != c.want {
			t.Errorf("%s, before it is measured: %s, want %s", c.name, w.Over, c.want)
		}
		r.Prepare(context.Background(), noon)
		if w := read(t, r, "shop/cart", noon); w.Over != c.want {
			t.Errorf("%s: %s, want %s", c.name, w.Over, c.want)
		}
	}
}

func TestAMeasurementThatIsTooOldIsUnknown(t *testing.T) {
	f := newFake(t, istio)
	r := reader(t, f, source(Spec{Preset: Istio, Metrics: []Series{{Name: "queue", Query: "x"}}}), Options{})
	w := read(t, r, "shop/cart", noon.Add(2*time.Minute+time.Second))
	why := "it was last measured at 12:00:00, which is longer ago than 2m0s"
	if w.Latency.Why != why || w.Latency.Known || w.Metrics["queue"].Why != why || w.Metrics["queue"].Total.Known {
		t.Errorf("got %+v", w)
	}
}

func TestReadAnswersForConfiguredWorkloadsOnly(t *testing.T) {
	f := newFake(t, istio)
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: f.URL}})
	bad, fine := source(Spec{Preset: "Kong"}), source(Spec{Preset: Istio})
	err := r.Configure(map[string]Source{"shop/bad": bad, "shop/cart": fine})
	if err == nil || !strings.HasPrefix(err.Error(), "shop/bad: signals.preset: must be") {
		t.Errorf("got %v", err)
	}
	if got := read(t, r, "shop/cart", noon).Latency.Why; got != "it has not been measured yet" {
		t.Errorf("before the first time: %q", got)
	}
	if _, err := r.Read(context.Background(), &podscaler.Workload{Name: "shop/bad"}, noon); err == nil {
		t.Error("a workload at fault was read")
	}
	r.Prepare(context.Background(), noon)
	must.Do(t, r.Configure(map[string]Source{"shop/cart": fine}))
	if !read(t, r, "shop/cart", noon).Latency.Known {
		t.Error("a workload that did not change was forgotten")
	}
	fine.SLO.Window = time.Hour
	must.Do(t, r.Configure(map[string]Source{"shop/cart": fine}))
	if read(t, r, "shop/cart", noon).Latency.Known {
		t.Error("a workload is read by what was measured over another window")
	}
}

func TestWithoutAPrometheusItIsSaidWhatIsMissing(t *testing.T) {
	r := reader(t, nil, source(Spec{Preset: Istio, Metrics: []Series{{Name: "queue", Query: "x"}}}), Options{})
	want := "MetricsUnknown: latency, good, arrivals, queue: no Prometheus is known to ask: set signals.prometheus.url, or prometheus.url in the configuration file for all"
	if got := lines(r.Findings("shop/cart")); got != want {
		t.Errorf("findings:\n%s", got)
	}
}

func TestAServerSeesItsOwnCredentialsOnly(t *testing.T) {
	shared, own := newFake(t, istio), newFake(t, istio)
	token := "first"
	credentials := func(_ context.Context, namespace string, p Prometheus) (Credentials, error) {
		if namespace == "" {
			return Credentials{Token: token}, nil
		}
		return Credentials{Username: namespace, Password: p.SecretName}, nil
	}
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: shared.URL}, Credentials: credentials})
	must.Do(t, r.Configure(map[string]Source{
		"shop/cart": source(Spec{Preset: Istio}),
		"shop/own":  source(Spec{Preset: Istio, Prometheus: &Prometheus{URL: own.URL, SecretName: "prom", Headers: map[string]string{"X-Scope-OrgID": "shop"}}}),
	}))
	r.Prepare(context.Background(), noon)
	token = "second"
	r.Prepare(context.Background(), noon)
	if first, last := shared.seen[0].Header.Get("Authorization"), shared.seen[len(shared.seen)-1].Header.Get("Authorization"); first != "Bearer first" || last != "Bearer second" {
		t.Errorf("the shared server saw %q, then %q", first, last)
	}
	user, password, _ := own.seen[0].BasicAuth()
	if user != "shop" || password != "prom" || own.seen[0].Header.Get("X-Scope-OrgID") != "shop" {
		t.Errorf("the own server saw %v", own.seen[0].Header)
	}
	if own.seen[0].Method != http.MethodPost {
		t.Errorf("method %s", own.seen[0].Method)
	}
}

func TestCredentialsThatCannotBeReadMakeAllUnknown(t *testing.T) {
	f := newFake(t, istio)
	o := Options{Credentials: func(context.Context, string, Prometheus) (Credentials, error) {
		return Credentials{CA: []byte("no certificate")}, nil
	}}
	r := reader(t, f, source(Spec{Preset: Istio}), o)
	if got := read(t, r, "shop/cart", noon).Latency.Why; got != "ca.crt: must hold certificates in PEM, holds none" {
		t.Errorf("got %q", got)
	}
	if len(f.asked()) > 0 {
		t.Error("the server was asked without what it wants to see")
	}
}
