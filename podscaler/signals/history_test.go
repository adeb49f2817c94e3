package signals

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// minutely are ten minutes.
var minutely = podscaler.Lack{Step: time.Minute, Over: time.Minute, Count: 10}

// matrix is an answer of series, each of which has a value a minute up to noon, or 0 where it has
// not.
func matrix(series ...[]float64) string {
	var all []string
	for i, values := range series {
		var pairs []string
		for k, v := range values {
			if v != 0 {
				pairs = append(pairs, fmt.Sprintf(`[%d,"%v"]`, noon.Add(time.Duration(k+1-len(values))*time.Minute).Unix(), v))
			}
		}
		all = append(all, fmt.Sprintf(`{"metric":{"i":"%d"},"values":[%s]}`, i, strings.Join(pairs, ",")))
	}
	return `={"resultType":"matrix","result":[` + strings.Join(all, ",") + `]}`
}

// recall is what a reader hands over, as text.
func recall(t *testing.T, r *Reader, now time.Time, workloads ...string) map[string]string {
	t.Helper()
	lacks, all := map[string]podscaler.Lack{}, map[string]string{}
	for _, w := range workloads {
		lacks[w] = minutely
	}
	var mu sync.Mutex
	r.Recall(t.Context(), now, lacks, func(workload string, h *podscaler.History, err error) {
		mu.Lock()
		defer mu.Unlock()
		if all[workload] != "" {
			t.Errorf("%s is handed over twice", workload)
		}
		all[workload] = fmt.Sprint(err)
		if err == nil {
			all[workload] = fmt.Sprintf("to %s: %v", h.End.Format(time.TimeOnly), h.Arrivals)
		}
	})
	return all
}

// The past is asked for by the query of the present, each workload by itself, at whole steps.
func TestThePastIsAskedForAsThePresentIs(t *testing.T) {
	f := newFake(t, func(string) string { return matrix([]float64{1, 2, 3}, []float64{0, 10, 0}) })
	r := New(Options{Prometheus: &Prometheus{URL: f.URL}})
	cart, till := source(Spec{Preset: Istio}), source(Spec{Queries: Queries{Arrivals: `sum(rate(x{namespace="$namespace"}[$window]))`}})
	till.Target.Name = "till"
	other := cart
	other.Target.Name = "other"
	must.Do(t, r.Configure(map[string]Source{"shop/cart": cart, "shop/till": till, "shop/other": other}))
	got := recall(t, r, noon.Add(42*time.Second), "shop/cart", "shop/till")
	if diff := cmp.Diff(map[string]string{
		"shop/cart": "to 12:00:00: [-1 -1 -1 -1 -1 -1 -1 1 12 3]", // of two services
		"shop/till": "to 12:00:00: [-1 -1 -1 -1 -1 -1 -1 1 -1 3]", // two where one was meant
	}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		`sum by (destination_workload_namespace, destination_workload) (rate(istio_requests_total{reporter="destination",destination_workload_namespace="shop",destination_workload="cart"}[60s]))`,
		`sum(rate(x{namespace="shop"}[60s]))`,
	}, f.asked()); diff != "" {
		t.Error(diff)
	}
	for _, req := range f.seen {
		said := strings.Join([]string{req.URL.Path, req.FormValue("start"), req.FormValue("end"), req.FormValue("step")}, " ")
		if want := fmt.Sprintf("/api/v1/query_range %d.000 %d.000 60", noon.Add(-9*time.Minute).Unix(), noon.Unix()); said != want {
			t.Errorf("asked for %s, want %s", said, want)
		}
	}
}

// A week is asked for day by day, and no reading twice.
func TestAWeekIsReadInDays(t *testing.T) {
	var spans []string
	f := newFake(t, func(string) string { return matrix([]float64{5}) })
	r := New(Options{Prometheus: &Prometheus{URL: f.URL}})
	must.Do(t, r.Configure(map[string]Source{"shop/cart": source(Spec{Preset: Istio})}))
	lacks := map[string]podscaler.Lack{"shop/cart": {Step: time.Minute, Over: time.Minute, Count: 2*pieceOfPast + 1}}
	r.Recall(t.Context(), noon, lacks, func(_ string, h *podscaler.History, err error) {
		// the last is 5 in each of three answers
		if n := 2*pieceOfPast + 1; err != nil || len(h.Arrivals) != n || h.Arrivals[n-1] != 15 {
			t.Errorf("%d readings, %v", len(h.Arrivals), err)
		}
	})
	for _, req := range f.seen {
		var from, to float64
		_, _ = fmt.Sscan(req.FormValue("start")+" "+req.FormValue("end"), &from, &to)
		spans = append(spans, fmt.Sprintf("%v to %v", (from-float64(noon.Unix()))/60, (to-float64(noon.Unix()))/60))
	}
	if diff := cmp.Diff([]string{"-2880 to -1441", "-1440 to -1", "0 to 0"}, spans); diff != "" {
		t.Error(diff)
	}
}

func TestWhyThereIsNoPast(t *testing.T) {
	own := Spec{Queries: Queries{Arrivals: `x{namespace="shop"}`}}
	for _, c := range []struct {
		name   string
		spec   Spec
		answer string
		want   string
	}{
		{"nothing was stored", own, matrix(), "its Prometheus has nothing of the last 10m0s"},
		{"only what is no load", own, matrix([]float64{-1, -2}), "its Prometheus has nothing of the last 10m0s"},
		{"another type", own, vector(noon, "{} 1"), `of a range the answer is of type "vector"`},
		{"no answer", own, "503", "503 Service Unavailable: <html>unavailable"},
		{"no server", Spec{Queries: own.Queries, Prometheus: &Prometheus{URL: "http://elsewhere.invalid"}}, "", "refused by policy"},
		{"a query beyond the namespace", Spec{Queries: Queries{Arrivals: "x"}}, "", "refused by policy: on the Prometheus that all namespaces share a query"},
		{"pods' own pages", Spec{Preset: OTel, Scrape: &Scrape{}}, "", "its arrivals are not read from a Prometheus"},
		{"a series too long", own, matrix(make([]float64, 10), filled(100_000)), "a part of the answer is longer than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, func(string) string { return c.answer })
			r := New(Options{Prometheus: &Prometheus{URL: f.URL}})
			must.Do(t, r.Configure(map[string]Source{"shop/cart": source(c.spec)}))
			if got := recall(t, r, noon, "shop/cart")["shop/cart"]; !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func filled(n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = float64(n + i)
	}
	return all
}
