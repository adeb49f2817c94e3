//go:build lab

package machines_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

// p90 is an objective with an edge of the presets' histograms at its target.
var p90 = podscaler.SLO{Quantile: 0.9, Target: 250 * time.Millisecond, Window: 15 * time.Second}

// measured is a reader that measures by the lab's Prometheus.
type measured struct {
	*world
	*signals.Reader
}

func (w *world) measure(sources map[string]signals.Source) *measured {
	w.Helper()
	r := signals.New(signals.Options{Access: signals.Access{FreeQueries: []string{"*"}}, Prometheus: &signals.Prometheus{URL: w.Endpoint(lab.PrometheusPart, "api")}})
	if err := r.Configure(sources); err != nil {
		w.Fatal(err)
	}
	return &measured{w, r}
}

// now measures, and returns what came of it for one workload.
func (m *measured) now(ctx context.Context, workload string) (podscaler.Window, error) {
	at := time.Now()
	m.Prepare(ctx, at)
	return m.Read(ctx, &podscaler.Workload{Name: workload}, at)
}

// TestSignalsOfARealPrometheus holds the presets' queries to a Prometheus that scrapes: what they
// make of a mesh under load, before it, and after it; and of pages whose numbers are known.
func TestSignalsOfARealPrometheus(t *testing.T) {
	w := newWorld(t, &lab.Prometheus{})
	for _, part := range []struct {
		name string
		run  func(*world)
	}{{"every preset", (*world).everyPreset}, {"a mesh", (*world).mesh}} {
		t.Run(part.name, func(t *testing.T) {
			of := *w
			of.TB = t
			part.run(&of)
		})
	}
}

// page is a metrics page on which 10 requests a second are counted, 5 of them within 100 ms, 9
// within 250 ms and all within 500 ms, of which one in ten failed; and 3 are being served.
// Latencies say nothing of failures.
type page struct {
	began time.Time
	write func(p *page)
	text  strings.Builder
}

func (p *page) counter(name, labels string, perSecond float64) {
	fmt.Fprintf(&p.text, "%s{%s} %f\n", name, labels, 1000+perSecond*time.Since(p.began).Seconds())
}

// histogram has a part of the requests.
func (p *page) histogram(name, labels string, perSecond, unit float64) {
	for _, b := range []struct{ edge, share float64 }{{0.1, 0.5}, {0.25, 0.9}, {0.5, 1}, {math.Inf(1), 1}} {
		p.counter(name+"_bucket", fmt.Sprintf(`%s,le="%v"`, labels, b.edge/unit), perSecond*b.share)
	}
	p.counter(name+"_count", labels, perSecond)
}

// byCode counts requests by what became of them.
func (p *page) byCode(name, labels, label, fine, failed string) {
	p.counter(name, fmt.Sprintf("%s,%s=%q", labels, label, fine), 9)
	p.counter(name, fmt.Sprintf("%s,%s=%q", labels, label, failed), 1)
}

func (p *page) gauge(name, labels string) { fmt.Fprintf(&p.text, "%s{%s} 3\n", name, labels) }

func (p *page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	now := page{began: p.began}
	p.write(&now)
	_, _ = fmt.Fprint(w, now.text.String()) // to a Prometheus that may be gone
}

const millisecond = 0.001

// meshes are pages of proxies beside pods.
func meshes(p *page) {
	const istio = `reporter="destination",destination_workload_namespace="shop",destination_workload="cart",response_flags="-"`
	p.byCode("istio_requests_total", istio, "response_code", "200", "503")
	p.histogram("istio_request_duration_milliseconds", istio, 10, millisecond)
	const linkerd = `direction="inbound",namespace="shop",deployment="cart"`
	p.counter("request_total", linkerd, 10)
	p.counter("request_total", linkerd+`,route_name="probe"`, 100)
	p.byCode("response_total", linkerd, "classification", "success", "failure")
	p.histogram("response_latency_ms", linkerd, 10, millisecond)
	const traefik = `service="shop-cart-8080@kubernetes"`
	p.byCode("traefik_service_requests_total", traefik, "code", "200", "502")
	p.histogram("traefik_service_request_duration_seconds", traefik, 10, 1)
	const envoy = `envoy_cluster_name="shop_cart"`
	p.counter("envoy_cluster_upstream_rq_total", envoy, 10)
	p.byCode("envoy_cluster_upstream_rq", envoy, "envoy_response_code", "200", "504")
	p.histogram("envoy_cluster_upstream_rq_time", envoy, 10, millisecond)
	p.gauge("envoy_cluster_upstream_rq_active", envoy)
}

// renamed are pages with labels that Prometheus sets itself, and renames.
func renamed(p *page) {
	const nginx = `namespace="shop",service="cart"`
	p.byCode("nginx_ingress_controller_requests", nginx, "status", "200", "500")
	p.histogram("nginx_ingress_controller_request_duration_seconds", nginx, 10, 1)
	const otel = `job="shop/cart"`
	p.histogram("http_server_request_duration_seconds", otel+`,http_response_status_code="200"`, 9, 1)
	p.histogram("http_server_request_duration_seconds", otel+`,http_response_status_code="500",error_type="500"`, 1, 1)
	p.gauge("http_server_active_requests", otel)
}

func (w *world) everyPreset() {
	for name, write := range map[string]func(*page){"meshes": meshes, "renamed": renamed} {
		server := httptest.NewServer(&page{began: time.Now(), write: write})
		w.Cleanup(server.Close)
		job := lab.ScrapeJob{Name: name, Targets: []string{server.Listener.Addr().(*net.TCPAddr).String()}}
		if name == "renamed" {
			job.Labels = map[string]string{"namespace": "ingress-nginx", "service": "controller"}
		}
		if err := w.Scrape(job); err != nil {
			w.Fatal(err)
		}
	}
	sources := map[string]signals.Source{}
	for _, preset := range []signals.Preset{signals.Istio, signals.Linkerd, signals.Traefik, signals.IngressNginx, signals.Envoy, signals.OTel} {
		s := signals.Source{Target: signals.Target{Namespace: "shop", Kind: "Deployment", Name: "cart"}, SLO: p90, Spec: signals.Spec{Preset: preset}}
		if preset == signals.Envoy {
			s.Spec.Service = "shop_cart"
		}
		sources[string(preset)] = s
	}
	m := w.measure(sources)
	for _, preset := range slices.Sorted(maps.Keys(sources)) {
		want := podscaler.Window{Latency: podscaler.Known(0.25), Good: podscaler.Known(0.9), Arrivals: podscaler.Known(10), Errors: podscaler.Known(0.1)}
		if preset == string(signals.Envoy) || preset == string(signals.OTel) {
			want.InFlight = podscaler.Known(3)
		}
		w.until(preset+" is measured", func(ctx context.Context) error {
			got, err := m.now(ctx, preset)
			if err == nil {
				err = close10(&want, &got)
			}
			if found := m.Findings(preset); err == nil && len(found) > 0 {
				err = fmt.Errorf("findings %v", found)
			}
			return err
		})
	}
}

// close10 wants what was measured to be within a tenth: scrapes come a little early or late.
func close10(want, got *podscaler.Window) error {
	for name, pair := range map[string][2]podscaler.Reading{
		"latency": {want.Latency, got.Latency}, "good": {want.Good, got.Good}, "arrivals": {want.Arrivals, got.Arrivals},
		"errors": {want.Errors, got.Errors}, "inFlight": {want.InFlight, got.InFlight},
	} {
		if want, got := pair[0], pair[1]; want.Known != got.Known || math.Abs(want.Value-got.Value) > 0.1*want.Value {
			return fmt.Errorf("%s is %+v, want %v", name, got, want.Value)
		}
	}
	return nil
}

// mesh is pods that serve, as their proxies and the gateway's report it.
func (w *world) mesh() {
	web := signals.Target{Namespace: "default", Kind: "Deployment", Name: "web"}
	m := w.measure(map[string]signals.Source{
		"pods":    {Target: web, SLO: p90, Spec: signals.Spec{Preset: signals.Istio}},
		"gateway": {Target: web, SLO: p90, Spec: signals.Spec{Preset: signals.Istio, Match: map[string]string{"reporter": "source"}}},
	})
	got, err := m.now(w.Context(), "pods")
	if why := "no series of istio_requests_total has two samples"; err != nil || got.Arrivals.Known || got.Latency.Known || got.Errors.Known || !strings.HasPrefix(got.Arrivals.Why, why) {
		w.Errorf("before any request: %+v, %v", got, err)
	}
	w.bigNode()
	w.deploy(4)
	w.until("the pods serve", w.serving(4))
	stop := w.users(20)
	defer stop()
	served := func(ctx context.Context) error {
		got, err := m.now(ctx, "pods")
		switch {
		case err != nil:
		case !got.Arrivals.Known || !got.Latency.Known || !got.Good.Known || got.Errors != podscaler.Known(0):
			err = fmt.Errorf("%+v", got)
		case got.Arrivals.Value < 5 || got.Arrivals.Value > 25 || got.Latency.Value < 0.03 || got.Latency.Value > 10:
			err = fmt.Errorf("20 users' requests are %+v", got)
		}
		return err
	}
	w.until("requests are measured", served)
	var killed time.Time
	w.until("killed requests are errors", func(ctx context.Context) error {
		if time.Since(killed) > 10*time.Second { // in between, pods have to come and be asked again
			killed = time.Now()
			if err := w.kill(ctx); err != nil {
				return err
			}
		}
		got, err := m.now(ctx, "gateway")
		if err == nil && (!got.Errors.Known || got.Errors.Value == 0) {
			err = fmt.Errorf("%+v", got.Errors)
		}
		return err
	})
	w.until("pods that came in their place are measured", served)
	if err := w.Scrape(lab.ScrapeJob{Name: plane.PartName}); err != nil {
		w.Fatal(err)
	}
	for _, c := range []struct{ what, code, why string }{
		{"what is not sampled any more is stale", signals.CodeMetricsStale, "there is no sample in what Prometheus looks back by"},
		{"and then not there", signals.CodeMetricsUnknown, "no series of istio_requests_total has two samples"},
	} {
		w.until(c.what, func(ctx context.Context) error {
			got, err := m.now(ctx, "pods")
			found := m.Findings("pods")
			if err == nil && (got.Arrivals.Known || got.Latency.Known || got.Errors.Known || !strings.HasPrefix(got.Arrivals.Why, c.why) || len(found) == 0 || found[0].Code != c.code) {
				err = fmt.Errorf("%+v, findings %v", got, found)
			}
			return err
		})
	}
}

// kill ends pods without letting them finish what they have.
func (w *world) kill(ctx context.Context) error {
	now := int64(0)
	return w.kube.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: "app=web"})
}
