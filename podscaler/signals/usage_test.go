package signals

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const podMetricsPage = `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
{"metadata":{"name":"cart-1","namespace":"shop","labels":{"app":"cart"}},"timestamp":"2026-03-01T12:00:00Z","window":"15.3s","containers":[
 {"name":"cart","usage":{"cpu":"250m","memory":"100Mi"}},{"name":"proxy","usage":{"cpu":"12345678n","memory":"1Gi"}}]},
{"metadata":{"name":"cart-2","namespace":"shop"},"timestamp":"2026-03-01T12:00:00Z","window":"15s","containers":[{"name":"cart","usage":{"cpu":"2"}},{"name":"proxy","usage":{"memory":"1Gi"}}]},
{"metadata":{"name":"cart-3","namespace":"shop"},"timestamp":"2026-03-01T12:00:00Z","window":"15s","containers":[]},
{"metadata":{"name":"cart-4","namespace":"shop"},"window":"15s","containers":[{"name":"cart","usage":{"cpu":"1"}}]},
{"metadata":{"name":"idle","namespace":"shop"},"timestamp":"2026-03-01T12:00:00Z","window":"15s","containers":[{"name":"cart","usage":{"cpu":"0"}}]}
]}`

func TestAPodsCPUIsTheSumOfItsContainers(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/metrics.k8s.io/v1beta1/pods", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(podMetricsPage)) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	got := must.Get((&Usage{Client: server.Client(), Host: server.URL + "/"}).Pods(context.Background()))(t)
	// Of cart-2 a container was not measured, cart-3 has none, and the time of cart-4's samples is
	// unknown: none of these is 0.
	want := map[string]podscaler.Sample{
		"shop/cart-1": {Known: true, Value: 0.263, At: noon, Span: 15300 * time.Millisecond},
		"shop/idle":   {Known: true, Value: 0, At: noon, Span: 15 * time.Second},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(near)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A container counts by itself: what was not measured of one is unknown, and nothing of the others
// is.
func TestContainersAreKnownFromTheSameReading(t *testing.T) {
	reads := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		_, _ = w.Write([]byte(podMetricsPage))
	}))
	t.Cleanup(server.Close)
	u := &Usage{Client: server.Client(), Host: server.URL}
	if got := u.Containers(); len(got) > 0 {
		t.Errorf("before the first reading there are %v", got)
	}
	must.Get(u.Pods(context.Background()))(t)
	over := func(span time.Duration, value float64) podscaler.Sample {
		return podscaler.Sample{Known: true, Value: value, At: noon, Span: span}
	}
	const long, short = 15300 * time.Millisecond, 15 * time.Second
	want := map[string][]podscaler.ContainerUse{
		"shop/cart-1": {
			{Name: "cart", CPU: over(long, 0.25), Memory: over(long, 100<<20)},
			{Name: "proxy", CPU: over(long, 0.012345678), Memory: over(long, 1<<30)},
		},
		"shop/cart-2": {{Name: "cart", CPU: over(short, 2)}, {Name: "proxy", Memory: over(short, 1<<30)}},
		"shop/idle":   {{Name: "cart", CPU: over(short, 0)}},
	}
	if d := cmp.Diff(want, u.Containers(), cmp.Comparer(near)); d != "" || reads != 1 {
		t.Errorf("%d readings (-want +got):\n%s", reads, d)
	}
}

// Where the requests of no pod are looked at, nothing is kept of containers.
func TestContainersOfOtherNamespacesAreNotKept(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(podMetricsPage)) }))
	t.Cleanup(server.Close)
	for sized, want := range map[string]int{"shop": 3, "bank": 0} {
		u := &Usage{Client: server.Client(), Host: server.URL, Sized: func() map[string]bool { return map[string]bool{sized: true} }}
		if got, err := u.Pods(context.Background()); err != nil || len(got) != 2 {
			t.Errorf("%v, %v", got, err)
		}
		if got := u.Containers(); len(got) != want {
			t.Errorf("with %s sized, the containers of %d pods are kept, want %d: %v", sized, len(got), want, got)
		}
	}
}

func TestNamespacesAreReadOneByOneUntilThereAreMany(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, strings.TrimPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1/"))
		if strings.Contains(r.URL.Path, "closed") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","message":"pods.metrics.k8s.io is forbidden"}`))
			return
		}
		_, _ = w.Write([]byte(podMetricsPage))
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		name       string
		namespaces []string
		asked      []string
		pods       int
		err        string
	}{
		{"a few", []string{"shop", "pay", "shop"}, []string{"namespaces/pay/pods", "namespaces/shop/pods"}, 2, ""},
		{"none", nil, nil, 0, ""},
		{"many", strings.Split("a b c d e f g h i j", " "), []string{"pods"}, 2, ""},
		{"one that may not be read", []string{"closed", "shop"}, []string{"namespaces/closed/pods", "namespaces/shop/pods"}, 2,
			"resource metrics /apis/metrics.k8s.io/v1beta1/namespaces/closed/pods: 403 Forbidden: pods.metrics.k8s.io is forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = nil
			u := Usage{Client: server.Client(), Host: server.URL, Namespaces: func() []string { return c.namespaces }}
			got, err := u.Pods(context.Background())
			if len(got) != c.pods || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
				t.Errorf("got %d pods and %v", len(got), err)
			}
			if d := cmp.Diff(c.asked, asked); d != "" {
				t.Errorf("asked (-want +got):\n%s", d)
			}
		})
	}
}

func TestUsageThatCannotBeReadIsAnError(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"no JSON", "<html>", "invalid character"},
		{"a quantity that is none", `{"items":[{"metadata":{"name":"a"},"containers":[{"usage":{"cpu":"lots"}}]}]}`, "quantities must match"},
		{"too much", `{"items":[` + strings.Repeat(" ", 5000) + `]}`, "the answer is longer than 1000 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.body)) }))
			t.Cleanup(server.Close)
			got, err := (&Usage{Client: server.Client(), Host: server.URL, MaxBytes: 1000}).Pods(context.Background())
			if err == nil || !strings.Contains(err.Error(), c.want) || len(got) > 0 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestAListOfUsageThatIsNoneIsAnError(t *testing.T) {
	const one = `{"metadata":{"name":"a","namespace":"shop"},"timestamp":"2026-03-01T12:00:00Z","window":"15s","containers":[{"usage":{"cpu":"1"}}]}`
	for _, c := range []struct {
		name, page string
		pods       int
		fails      bool
	}{
		{"empty", `{"items":[]}`, 0, false},
		{"without items", `{"kind":"PodMetricsList","metadata":{"continue":"x","deep":[{"items":[1]}]}}`, 0, false},
		{"null", `{"items":null,"kind":"PodMetricsList"}`, 0, false},
		{"one", `{"items":[` + one + `],"metadata":{}}`, 1, false},
		{"broken off", `{"items":[` + one + `,`, 1, true},
		{"broken off at the end", `{"items":[` + one + `]`, 1, true},
		{"a number", `{"items":3}`, 0, true},
		{"no object", `[]`, 0, true},
		{"a CPU that is none", `{"items":[{"containers":[{"usage":{"cpu":"much"}}]}]}`, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.page)) }))
			t.Cleanup(server.Close)
			got, err := (&Usage{Client: server.Client(), Host: server.URL}).Pods(context.Background())
			if len(got) != c.pods || (err != nil) != c.fails {
				t.Errorf("%d pods, %v", len(got), err)
			}
		})
	}
}

// What the API serves besides CPU and memory is known by its name.
func TestOtherResourcesAreKnownByTheirNames(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"a","namespace":"shop"},"timestamp":"2026-03-01T12:00:00Z","window":"15s",
"containers":[{"name":"app","usage":{"cpu":"1","memory":"1Ki","example.com/tokens":"2500m"}},{"name":"proxy","usage":{}}]}]}`))
	}))
	t.Cleanup(server.Close)
	u := &Usage{Client: server.Client(), Host: server.URL}
	must.Get(u.Pods(context.Background()))(t)
	all := u.Containers()["shop/a"]
	if len(all) != 2 || all[0].Of("example.com/tokens").Value != 2.5 || all[0].Of("memory").Value != 1024 || all[1].Of("example.com/tokens").Known {
		t.Errorf("%+v", all)
	}
}

// What is written as most often is read as the same is that is written otherwise.
func TestUsageIsReadTheSameHoweverItIsWritten(t *testing.T) {
	for _, text := range []string{
		`"cpu":"1n","memory":"2Ki"`, `"cpu":"250m","memory":"1e3"`, `"cpu":"","memory":"1"`, `"cpu":"1","memory":"much"`,
		`"cpu":"1","memory":"2","disk":"3"`, `"cpu":"1\u006e","memory":"2Ki"`, `"memory":"2Ki","cpu":"1n"`, `"cpu":"1n"`,
	} {
		var usual, other usage
		err, wants := json.Unmarshal([]byte("{"+text+"}"), &usual), json.Unmarshal([]byte("{ "+text+" }"), &other)
		if (err == nil) != (wants == nil) || err == nil && !reflect.DeepEqual(usual, other) {
			t.Errorf("%s: %v and %v, want %v and %v", text, usual, err, other, wants)
		}
	}
}
