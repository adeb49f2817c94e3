package signals

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// BenchmarkTwoHundredWorkloads is one step's measuring of 200 workloads with a preset, in one
// namespace and in 50: what Prepare takes with a Prometheus that answers at once, and what the
// reading then costs.
func BenchmarkTwoHundredWorkloads(b *testing.B) {
	for _, namespaces := range []int{1, 50} {
		b.Run(fmt.Sprint("namespaces=", namespaces), func(b *testing.B) { twoHundred(b, namespaces) })
	}
}

func twoHundred(b *testing.B, namespaces int) {
	sources, series := map[string]Source{}, map[string][]string{}
	var first string
	for i := range 200 {
		s := source(Spec{Preset: Istio})
		s.Target.Namespace, s.Target.Name = fmt.Sprintf("ns-%02d", i%namespaces), fmt.Sprintf("app-%03d", i)
		name := s.Target.Namespace + "/" + s.Target.Name
		sources[name], first = s, cmp.Or(first, name)
		of := fmt.Sprintf(`{destination_workload_namespace=%q;destination_workload=%q`, s.Target.Namespace, s.Target.Name)
		add := func(part, text string) {
			series[s.Target.Namespace+part] = append(series[s.Target.Namespace+part], of+text)
		}
		for e := range 19 {
			add("_bucket{", fmt.Sprintf(`;le="%d"} %d.25`, 1<<e, e*10))
		}
		add("_bucket{", `;le="+Inf"} 200`)
		add("timestamp(", fmt.Sprintf("} %d", noon.Unix()))
		add("", "} 200")
	}
	answers := map[string]string{}
	for key, all := range series {
		answers[key] = `{"status":"success","data":` + vector(noon, all...)[1:] + `}`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, part := r.FormValue("query"), ""
		for _, p := range []string{"_bucket{", "timestamp("} {
			if strings.Contains(query, p) {
				part = p
			}
		}
		_, namespace, _ := strings.Cut(query, `destination_workload_namespace="`)
		namespace, _, _ = strings.Cut(namespace, `"`)
		_, _ = w.Write([]byte(answers[namespace+part]))
	}))
	b.Cleanup(server.Close)
	r := New(Options{Prometheus: &Prometheus{URL: server.URL}})
	must.Do(b, r.Configure(sources))
	b.Run("Prepare", func(b *testing.B) {
		for b.Loop() {
			r.Prepare(context.Background(), noon)
		}
	})
	b.Run("Read", func(b *testing.B) {
		w := &podscaler.Workload{Name: first}
		for b.Loop() {
			if got, err := r.Read(context.Background(), w, noon); err != nil || !got.Latency.Known {
				b.Fatal(got, err)
			}
		}
	})
	b.Run("Configure", func(b *testing.B) {
		for b.Loop() {
			must.Do(b, r.Configure(sources))
		}
	})
}

// BenchmarkThousandPods is what a round of 1,000 scraped pods costs, with what they have shown
// in 20 minutes.
func BenchmarkThousandPods(b *testing.B) {
	s := source(Spec{Scrape: &Scrape{Port: 1, Latency: "req_seconds", InFlight: "busy"}})
	s.SLO.Window = 20 * time.Minute
	sc := newScrape("shop/cart", &s, nil)
	var pods []Pod
	for i := range 1000 {
		name := fmt.Sprintf("p%d", i)
		pods = append(pods, Pod{Workload: "shop/cart", Name: name, Address: name, Ready: true})
	}
	now, n := noon, 0
	round1 := func() {
		now, n = now.Add(15*time.Second), n+10
		m := &measurement{}
		r := &round{now: now, options: &Options{}, measured: map[string]*measurement{"shop/cart": m}}
		pages := sc.read(r, nil, nil, pods)
		body := []byte(counts(n, n, n, 1))
		for _, got := range pages {
			got.err = sc.parse(bytes.NewReader(body), false, got)
		}
		sc.take(r, pages)
	}
	for range 80 {
		round1()
	}
	for b.Loop() {
		round1()
	}
}

// BenchmarkUsageOfThirtyThousandPods is reading the CPU of a large cluster's pods, which have a
// proxy each.
func BenchmarkUsageOfThirtyThousandPods(b *testing.B) {
	var page strings.Builder
	page.WriteString(`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[`)
	for i := range 30_000 {
		if i > 0 {
			page.WriteString(",")
		}
		fmt.Fprintf(&page, `{"metadata":{"name":"app-%03d-777bcd78d-%05d","namespace":"team-%02d","creationTimestamp":"2026-03-01T12:00:01Z","labels":{"app":"app-%03d","pod-template-hash":"777bcd78d"}},`+
			`"timestamp":"2026-03-01T12:00:00Z","window":"15.001s","containers":[{"name":"server","usage":{"cpu":"%dn","memory":"60Mi"}},{"name":"proxy","usage":{"cpu":"0","memory":"20Mi"}}]}`,
			i%200, i, i%20, i%200, 1000*i)
	}
	page.WriteString("]}")
	body := page.String()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	b.Cleanup(server.Close)
	for name, sized := range map[string]func() map[string]bool{"sized": nil, "unsized": func() map[string]bool { return nil }} {
		b.Run(name, func(b *testing.B) {
			u := &Usage{Client: server.Client(), Host: server.URL, Sized: sized}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if got, err := u.Pods(context.Background()); err != nil || len(got) != 30_000 {
					b.Fatal(len(got), err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(live(u))/30_000, "B/pod-kept")
		})
	}
}

// live is what is kept of a reading.
func live(u *Usage) uint64 {
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	u.containers = nil
	runtime.GC()
	runtime.ReadMemStats(&without)
	return with.HeapAlloc - without.HeapAlloc
}
