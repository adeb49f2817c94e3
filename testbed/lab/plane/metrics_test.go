package plane

import (
	"context"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	typed "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
)

// scrape reads metrics as Prometheus does.
func (p *Plane) scrape(t *testing.T, target string) map[string]*dto.MetricFamily {
	t.Helper()
	w := p.get(target)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d, %v", target, w.Code, err)
	}
	return families
}

// series finds the one that has these labels.
func find(t *testing.T, f *dto.MetricFamily, labels map[string]string) (*dto.Metric, map[string]string) {
	t.Helper()
	for _, m := range f.GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		fits := true
		for name, value := range labels {
			fits = fits && has[name] == value
		}
		if fits {
			return m, has
		}
	}
	t.Fatalf("%s has no series with %v", f.GetName(), labels)
	return nil, nil
}

func TestProxiesReportAsIstiosDo(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		p.put(webPod(0, annotated(AnnotationSpread, "0%")))
		for range 3 {
			p.Send(context.Background(), shopWeb) // 100 ms each
		}
		first, second := p.later(), p.later() // 200 ms each, as they share
		<-first
		<-second
		p.put(webPod(0, notReady))
		p.Send(context.Background(), shopWeb)

		all := p.scrape(t, "/metrics")
		for name, want := range map[string]dto.MetricType{"istio_requests_total": dto.MetricType_COUNTER, "istio_request_duration_milliseconds": dto.MetricType_HISTOGRAM} {
			if f := all[name]; f == nil || f.GetType() != want {
				t.Fatalf("%s is %v", name, f)
			}
		}
		requests, durations := all["istio_requests_total"], all["istio_request_duration_milliseconds"]
		served, labels := find(t, durations, map[string]string{"reporter": "destination", "response_code": "200"})
		if diff := cmp.Diff(map[string]string{
			"reporter":        "destination",
			"source_workload": "istio-ingressgateway", "source_workload_namespace": "istio-system", "source_app": "istio-ingressgateway",
			"source_principal": "spiffe://cluster.local/ns/istio-system/sa/istio-ingressgateway", "source_version": "unknown", "source_cluster": "Kubernetes",
			"source_canonical_service": "istio-ingressgateway", "source_canonical_revision": "latest",
			"destination_workload": "web", "destination_workload_namespace": "shop", "destination_app": "web", "destination_version": "unknown",
			"destination_principal": "spiffe://cluster.local/ns/shop/sa/default", "destination_cluster": "Kubernetes",
			"destination_service": "web.shop.svc.cluster.local", "destination_service_name": "web", "destination_service_namespace": "shop",
			"destination_canonical_service": "web", "destination_canonical_revision": "latest",
			"request_protocol": "http", "response_code": "200", "response_flags": "-", "connection_security_policy": "mutual_tls",
			"namespace": "shop", "pod": "web-5d4f-0",
		}, labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		got := map[float64]uint64{}
		for _, b := range served.GetHistogram().GetBucket() {
			got[b.GetUpperBound()] = b.GetCumulativeCount()
		}
		delete(got, math.Inf(1))
		want := map[float64]uint64{}
		for _, e := range []float64{0.5, 1, 5, 10, 25, 50} {
			want[e] = 0
		}
		want[100] = 3
		for _, e := range []float64{250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000} {
			want[e] = 5
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("buckets (-want +got):\n%s", diff)
		}
		if h := served.GetHistogram(); h.GetSampleCount() != 5 || h.GetSampleSum() != 700 {
			t.Errorf("%d requests of %.3f ms in all, want 5 of 700", h.GetSampleCount(), h.GetSampleSum())
		}
		for _, c := range []struct {
			want   float64
			labels map[string]string
		}{
			{5, map[string]string{"reporter": "destination", "destination_workload": "web"}},
			{5, map[string]string{"reporter": "source", "destination_workload": "web", "response_code": "200", "pod": "istio-ingressgateway"}},
			{1, map[string]string{"reporter": "source", "destination_workload": "unknown", "response_code": "503", "response_flags": "UH"}},
		} {
			if m, _ := find(t, requests, c.labels); m.GetCounter().GetValue() != c.want {
				t.Errorf("%v: %v requests, want %v", c.labels, m.GetCounter().GetValue(), c.want)
			}
		}
		cpu, _ := find(t, all["container_cpu_usage_seconds_total"], map[string]string{"namespace": "shop", "pod": "web-5d4f-0", "container": "web", "node": "a"})
		if v := cpu.GetCounter().GetValue(); v < 0.2499 || v > 0.2501 {
			t.Errorf("%.6f s of CPU, want 5 requests' of 50 ms", v)
		}
		if late := all["lab_plane_answer_late_seconds"].GetMetric()[0].GetHistogram(); late.GetSampleCount() != 5 || late.GetSampleSum() != 0 {
			t.Errorf("in virtual time, %d answers are %.6f s late", late.GetSampleCount(), late.GetSampleSum())
		}
	})
}

func TestOnePodsProxyTellsOfItAlone(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		p.put(webPod(0), webPod(1, func(p *corev1.Pod) { p.Status.PodIP = "10.128.0.1" }))
		for range 20 {
			p.Send(context.Background(), shopWeb)
		}
		one := p.scrape(t, "/pods/shop/web-5d4f-1/metrics")
		m, _ := find(t, one["istio_requests_total"], map[string]string{"pod": "web-5d4f-1"})
		if n := len(one["istio_requests_total"].GetMetric()); n != 1 || m.GetCounter().GetValue() == 20 {
			t.Errorf("%d series, the pod has had %v requests", n, m.GetCounter().GetValue())
		}
		r := httptest.NewRequest(http.MethodGet, "http://10.128.0.1:15020/stats/prometheus", nil) // as a proxy is asked
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `pod="web-5d4f-1"`) || strings.Contains(w.Body.String(), `pod="web-5d4f-0"`) {
			t.Errorf("at its address: %d %s", w.Code, w.Body)
		}
		p.removed("shop/web-5d4f-1")
		w = httptest.NewRecorder()
		if p.Handler().ServeHTTP(w, r); w.Code != http.StatusNotFound {
			t.Errorf("at its address when it is gone: %d %s", w.Code, w.Body)
		}
		if gone := p.scrape(t, "/pods/shop/web-5d4f-1/metrics"); len(gone) != 0 {
			t.Errorf("a pod that is gone tells %v", slices.Collect(maps.Keys(gone)))
		}
	})
}

func TestHistogramsHaveTheEdgesThatAreAskedFor(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		p.put(webPod(0, annotated(AnnotationBuckets, `{"istiocustom":[100,300],"cluster.xds-grpc":[1]}`)))
		p.Send(context.Background(), shopWeb)
		m, _ := find(t, p.scrape(t, "/metrics")["istio_request_duration_milliseconds"], map[string]string{"reporter": "destination"})
		var edges []float64
		for _, b := range m.GetHistogram().GetBucket() {
			edges = append(edges, b.GetUpperBound())
		}
		if !slices.Equal(edges[:2], []float64{100, 300}) || len(edges) != 3 {
			t.Errorf("edges %v", edges)
		}
	})
}

// direct asks a handler without a network, so that virtual time passes.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// client is the one that the HorizontalPodAutoscaler and kubectl use.
func (p *Plane) client(t *testing.T) *versioned.Clientset {
	t.Helper()
	c, err := versioned.NewForConfig(&rest.Config{Host: "http://plane", Transport: direct{p.resources()}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestResourceMetricsSayWhatWasUsedAndOverWhichSpan(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		began := time.Now()
		ctx, api := context.Background(), p.client(t).MetricsV1beta1()
		p.observedNode(nodeOf("a"))
		idle := webPod(7, annotated(AnnotationCPU, "120m"))
		delete(idle.Annotations, AnnotationDemand)
		idle.Labels["app"] = "idle"
		p.put(webPod(0, annotated(AnnotationSpread, "0%")), idle)

		time.Sleep(5 * time.Second)
		p.Sample()
		if list, err := api.PodMetricses("").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("5 s after their start: %v, %v", list, err)
		}
		for range 30 { // 30 × 50 ms of CPU in 3 s, and 12 s of nothing
			p.Send(ctx, shopWeb)
		}
		time.Sleep(12 * time.Second)
		p.Sample()
		time.Sleep(4 * time.Second) // no sample is older than what is said of it

		list, err := api.PodMetricses("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		m := list.Items[0]
		if m.Name != "web-5d4f-0" || m.Namespace != "shop" || m.Labels["app"] != "web" || !m.Timestamp.Time.Equal(began.Add(20*time.Second).Truncate(time.Second)) || m.Window.Duration != 15*time.Second {
			t.Errorf("%+v", m)
		}
		if diff := cmp.Diff(map[string]string{"web": "100m 250Mi", "istio-proxy": "0 128Mi"}, usages(m)); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
		other, err := api.PodMetricses("shop").Get(ctx, "web-5d4f-7", metav1.GetOptions{})
		if err != nil || usages(*other)["web"] != "120m 250Mi" {
			t.Errorf("%v, %v", other, err)
		}
		node, err := api.NodeMetricses().Get(ctx, "a", metav1.GetOptions{})
		if err != nil || node.Usage.Cpu().String() != "220m" || node.Usage.Memory().String() != "756Mi" || node.Window.Duration != 15*time.Second {
			t.Errorf("%+v, %v", node, err)
		}
	})
}

func usages(m v1beta1.PodMetrics) map[string]string {
	all := map[string]string{}
	for _, c := range m.Containers {
		all[c.Name] = c.Usage.Cpu().String() + " " + c.Usage.Memory().String()
	}
	return all
}

// Pods that have run longer than metrics-server asks for are shown after the first sample, with the
// span since their start.
func TestFirstSamplesReachBackToTheStart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		time.Sleep(3 * time.Second)
		p.put(webPod(0))
		time.Sleep(12 * time.Second)
		p.Sample()
		all := p.podMetrics("shop", func(*observed) bool { return true })
		if len(all) != 1 || all[0].Window.Duration != 12*time.Second {
			t.Errorf("%+v", all)
		}
	})
}

func TestWhatDoesNotRunHasNoMetrics(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		ctx, api := context.Background(), p.client(t).MetricsV1beta1()
		p.observedNode(nodeOf("a"))
		p.put(webPod(0), webPod(1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }))
		for range 2 {
			time.Sleep(15 * time.Second)
			p.Sample()
		}
		if list, err := api.PodMetricses("").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		p.observedNode(nodeOf("a", AnnotationHalted, "true"))
		for what, ask := range map[string]func() error{
			"pod on a machine that is off": func() error {
				_, err := api.PodMetricses("shop").Get(ctx, "web-5d4f-0", metav1.GetOptions{})
				return err
			},
			"pod that is pending": func() error {
				_, err := api.PodMetricses("shop").Get(ctx, "web-5d4f-1", metav1.GetOptions{})
				return err
			},
			"pod that nobody knows":           func() error { _, err := api.PodMetricses("shop").Get(ctx, "none", metav1.GetOptions{}); return err },
			"node whose machine is off":       func() error { _, err := api.NodeMetricses().Get(ctx, "a", metav1.GetOptions{}); return err },
			"node whose machine is off, then": func() error { p.Sample(); _, err := api.NodeMetricses().Get(ctx, "a", metav1.GetOptions{}); return err },
		} {
			if err := ask(); !apierrors.IsNotFound(err) {
				t.Errorf("%s: %v, want NotFound", what, err)
			}
		}
		p.observedNode(nodeOf("a"))
		time.Sleep(15 * time.Second)
		p.Sample()
		if m, err := api.PodMetricses("shop").Get(ctx, "web-5d4f-0", metav1.GetOptions{}); err != nil || m.Window.Duration != 15*time.Second {
			t.Errorf("when it is on again: %v, %v", m, err)
		}
		p.removedNode("a")
		if list, err := api.NodeMetricses().List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

func TestResourceMetricsCanBeDiscoveredAndRefuseWhatTheyDoNotKnow(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p *Plane) {
		c := p.client(t)
		list, err := c.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, r := range list.APIResources {
			got[r.Name] = r.Kind + " " + strings.Join(r.Verbs, ",")
		}
		if diff := cmp.Diff(map[string]string{"nodes": "NodeMetrics get,list", "pods": "PodMetrics get,list"}, got); diff != "" {
			t.Errorf("resources (-want +got):\n%s", diff)
		}
		groups, err := c.Discovery().ServerGroups()
		if err != nil || len(groups.Groups) != 1 || groups.Groups[0].PreferredVersion.GroupVersion != "metrics.k8s.io/v1beta1" {
			t.Errorf("%v, %v", groups, err)
		}
		ctx, api := context.Background(), c.MetricsV1beta1()
		if _, err := api.PodMetricses("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"}); !apierrors.IsBadRequest(err) {
			t.Errorf("a field that is not known: %v", err)
		}
		if _, err := watchNodes(ctx, api); !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
			t.Errorf("a resource that is not known: %v", err)
		}
		if d, err := c.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1"); !apierrors.IsNotFound(err) {
			t.Errorf("%v, %v", d, err)
		}

	})
}

func watchNodes(ctx context.Context, api typed.MetricsV1beta1Interface) (any, error) {
	return nil, api.RESTClient().Delete().Resource("nodes").Name("a").Do(ctx).Error()
}
