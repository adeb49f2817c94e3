package signals

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

func TestWhatFailedIsToldByTheSourcesOwnWords(t *testing.T) {
	const failed, fine, unsure = "failed", "fine", "unsure"
	for _, c := range []struct {
		preset Preset
		labels string // name=value, apart by ;
		want   string
	}{
		{Istio, "response_code=200;response_flags=-", fine},
		{Istio, "response_code=404;response_flags=NR", fine},
		{Istio, "response_code=500;response_flags=-", failed},
		{Istio, "response_code=429;response_flags=-", failed},
		{Istio, "response_code=503;response_flags=UO,URX", failed},
		{Istio, "response_code=0;response_flags=DC", fine}, // the client went away
		{Istio, "response_code=0;response_flags=UT", failed},
		{Istio, "response_code=0;response_flags=-", failed},
		{Istio, "response_code=200;response_flags=UC", failed}, // cut off within the answer
		{Istio, "response_code=200;grpc_response_status=14", failed},
		{Istio, "response_code=200;grpc_response_status=5", fine}, // not found
		{Istio, "reporter=destination", unsure},
		{Linkerd, "classification=success;status_code=404", fine},
		{Linkerd, "classification=failure;status_code=200", failed},
		{Linkerd, "status_code=500", unsure},
		{Traefik, "code=502", failed},
		{Traefik, "code=499", fine}, // the client went away
		{Traefik, "code=0", unsure},
		{IngressNginx, "status=503", failed},
		{IngressNginx, "status=301", fine},
		{Envoy, "envoy_response_code=504", failed},
		{Envoy, "envoy_response_code=204", fine},
		{OTel, "http_response_status_code=500;error_type=500", failed},
		{OTel, "http_response_status_code=422", fine},
		{OTel, "error_type=java.net.SocketException", failed},
		{OTel, "http_request_method=GET", unsure},
	} {
		labels := map[string]string{}
		for pair := range strings.SplitSeq(c.labels, ";") {
			name, value, _ := strings.Cut(pair, "=")
			labels[name] = value
		}
		did, known := presets[c.preset].outcome.failed(func(l string) string { return labels[l] })
		got := unsure
		if known {
			got = map[bool]string{true: failed, false: fine}[did]
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.preset, c.labels, got, c.want)
		}
	}
}

// The error rate is optional: without it all else stays known, and nothing counts as a gap.
func TestUnknownErrorsLeaveTheRestKnown(t *testing.T) {
	const of = `{destination_workload_namespace="shop";destination_workload="cart"`
	for _, c := range []struct{ name, answer, why string }{
		{"the query fails", "503", "invalid answer"},
		{"no series", vector(noon), `no series of istio_requests_total has two samples in the window of 1m0s and destination_workload_namespace="shop",destination_workload="cart"`},
		{"a label that tells nothing", vector(noon, of+`;response_code=""} 1`), "a series of istio_requests_total does not show by response_code, response_flags, grpc_response_status whether requests failed"},
		{"nobody asked", vector(noon, of+`;response_code="200"} 0`), "istio_requests_total counts no request"},
		{"no number", vector(noon, of+`;response_code="200"} NaN`), "the query returned NaN, which is no measurement"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, istio)
			r := reader(t, f, source(Spec{Preset: Istio}), Options{})
			f.answer = func(q string) string {
				if strings.Contains(q, "response_code") {
					return c.answer
				}
				return istio(q)
			}
			later := noon.Add(30 * time.Second)
			r.Prepare(t.Context(), later)
			w := read(t, r, "shop/cart", later)
			if w.Errors != (podscaler.Reading{Why: c.why}) {
				t.Errorf("got %+v, want why %q", w.Errors, c.why)
			}
			if !w.Latency.Known || !w.Arrivals.Known || !w.Since.Equal(noon) {
				t.Errorf("the rest: %+v", w)
			}
			if got := r.Findings("shop/cart"); got != nil {
				t.Errorf("findings: %s", lines(got))
			}
		})
	}
}

func TestAnOwnersQueryForErrorsIsTold(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         podscaler.Reading
		finding      string
	}{
		{"a fraction", vector(noon, `{} 0.25`), podscaler.Known(0.25), ""},
		{"percent", vector(noon, `{} 25`), podscaler.Reading{Why: "the query returned 25, must be a fraction between 0 and 1"},
			"MetricsUnknown: errors: the query returned 25, must be a fraction between 0 and 1"},
		{"nothing", vector(noon), podscaler.Reading{Why: "the query returned nothing"}, "MetricsUnknown: errors: the query returned nothing"},
		{"a part", `{"status":"success","warnings":["store 2 does not answer"],"data":` + vector(noon, `{} 0.25`)[1:] + `}`, podscaler.Known(0.25),
			"MetricsPartial: errors: the answer came with a warning"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, func(q string) string {
				if q == "mine" {
					return c.answer
				}
				return istio(q)
			})
			r := reader(t, f, source(Spec{Preset: Istio, Queries: Queries{Errors: "mine"}}), Options{})
			later := noon.Add(30 * time.Second)
			r.Prepare(t.Context(), later)
			w := read(t, r, "shop/cart", later)
			if w.Errors != c.want || !w.Arrivals.Known || !w.Since.Equal(noon) {
				t.Errorf("got %+v, want errors %+v and no gap", w, c.want)
			}
			if got := lines(r.Findings("shop/cart")); got != c.finding {
				t.Errorf("findings:\n%s\nwant:\n%s", got, c.finding)
			}
		})
	}
}

func TestErrorsWithoutRequestsAreNoFault(t *testing.T) {
	f := newFake(t, func(q string) string {
		return map[string]string{"arr": vector(noon, `{} 0`), "err": vector(noon, `{} NaN`)}[q]
	})
	r := reader(t, f, source(Spec{Queries: Queries{Arrivals: "arr", Errors: "err"}}), Options{})
	if got := read(t, r, "shop/cart", noon).Errors; got != (podscaler.Reading{Why: "there was no request in 1m0s"}) || r.Findings("shop/cart") != nil {
		t.Errorf("got %+v, %s", got, lines(r.Findings("shop/cart")))
	}
}

// A page's failures count as its requests do: from the second look on, and with what restarted or
// is gone.
func TestPagesTellWhatFailed(t *testing.T) {
	page := func(ok, failed int) string {
		return fmt.Sprintf("http_requests_total{code=\"200\"} %d\nhttp_requests_total{code=\"503\"} %d\n", ok, failed)
	}
	p := newPods(t)
	s := p.source(time.Minute, 15*time.Second)
	s.Spec.Scrape.Requests, s.Spec.Scrape.StatusLabel = "http_requests_total", "code"
	r := p.rig(t, s)
	p.there(noon.Add(-time.Hour), "a", "b")
	p.set("a", counts(0, 0, 0, 0)+page(100, 0))
	p.set("b", counts(0, 0, 0, 0)+page(0, 1000))
	if got := step(t, r, 0).Errors; got != (podscaler.Reading{Why: "http_requests_total counts no request"}) {
		t.Errorf("what was counted before the first look counts: %+v", got)
	}
	p.set("a", counts(150, 0, 0, 0)+page(190, 0))
	p.set("b", counts(10, 0, 0, 0)+page(0, 10)) // it restarted
	got := step(t, r, 15*time.Second)
	if got.Errors != podscaler.Known(0.1) || got.Arrivals != podscaler.Known(6.66667) {
		t.Errorf("10 of 100 failed: got %+v of %+v", got.Errors, got.Arrivals)
	}
	p.there(noon.Add(-time.Hour), "a")
	if got := step(t, r, 30*time.Second).Errors; got != podscaler.Known(0.1) {
		t.Errorf("of a pod that is gone: %+v", got)
	}
	p.set("a", counts(150, 0, 0, 0)+page(190, 0)+"http_requests_total 7\n")
	got = step(t, r, 45*time.Second)
	if got.Errors.Known || !got.Arrivals.Known || !got.Since.Equal(noon) {
		t.Errorf("without a code: %+v", got)
	}
}

func TestASidecarsPageTellsWhatFailed(t *testing.T) {
	p := newPods(t)
	s := p.source(time.Minute, 15*time.Second)
	s.Spec.Preset = Linkerd
	s.Spec.Scrape.Latency = ""
	r := p.rig(t, s)
	page := func(requests, fine, failed int) string {
		return fmt.Sprintf("request_total{direction=\"inbound\"} %d\nresponse_total{direction=\"inbound\",classification=\"success\"} %d\n"+
			"response_total{direction=\"inbound\",classification=\"failure\"} %d\nresponse_total{direction=\"outbound\",classification=\"failure\"} %d\n", requests, fine, failed, 9*requests)
	}
	p.there(noon.Add(-time.Hour), "a")
	p.set("a", page(0, 0, 0))
	step(t, r, 0)
	p.set("a", page(100, 60, 20)) // 20 are being served
	if got := step(t, r, 15*time.Second); got.Errors != podscaler.Known(0.25) || got.Arrivals != podscaler.Known(6.66667) {
		t.Errorf("got %+v of %+v", got.Errors, got.Arrivals)
	}
}
