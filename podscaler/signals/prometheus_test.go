package signals

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestTLSTrustsTheAuthorityThatIsGiven(t *testing.T) {
	f := &fake{answer: istio}
	f.Server = httptest.NewUnstartedServer(f)
	f.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	f.StartTLS()
	t.Cleanup(f.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	for _, c := range []struct {
		name  string
		creds Credentials
		want  string
	}{
		{"it", Credentials{CA: ca}, ""},
		{"the system's", Credentials{}, "unreachable"},
		{"a key that is none", Credentials{CA: ca, Key: []byte("key")}, "tls.crt and tls.key: must be a pair in PEM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Credentials: func(context.Context, string, Prometheus) (Credentials, error) { return c.creds, nil }}
			w := read(t, reader(t, f, source(Spec{Preset: Istio}), o), "shop/cart", noon)
			if w.Latency.Known != (c.want == "") || !strings.Contains(w.Latency.Why, c.want) {
				t.Errorf("got %+v", w.Latency)
			}
		})
	}
}

func TestAServerThatTakesNoPOSTIsAskedByGET(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_, _ = w.Write([]byte(`{"status":"success","data":` + vector(noon, `{} 3`)[1:] + `}`))
	}))
	t.Cleanup(server.Close)
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: server.URL}})
	must.Do(t, r.Configure(map[string]Source{"shop/cart": source(Spec{Queries: Queries{Arrivals: "x"}})}))
	r.Prepare(context.Background(), noon)
	if got := read(t, r, "shop/cart", noon).Arrivals; got != podscaler.Known(3) {
		t.Errorf("got %+v", got)
	}
}

// Prometheus reads timeouts as it does durations in queries, without fractions, and answers with an
// error otherwise.
func TestTimeoutsAreInWordsThatPrometheusKnows(t *testing.T) {
	for _, left := range []time.Duration{-time.Second, 1, 999999 * time.Nanosecond, 300*time.Millisecond + 1, time.Second - 1, 4999742 * time.Microsecond, 61*time.Second + 1} {
		said := writable(left)
		if _, err := model.ParseDuration(said.String()); err != nil || said > max(left, time.Millisecond) {
			t.Errorf("of %s Prometheus is told %s (%v)", left, said, err)
		}
	}
	f := newFake(t, istio)
	read(t, reader(t, f, source(Spec{Preset: Istio}), Options{}), "shop/cart", noon)
	for _, r := range f.seen {
		if _, err := model.ParseDuration(r.FormValue("timeout")); err != nil {
			t.Errorf("timeout: %v", err)
		}
	}
}

// What an error says must not change while its cause does not, or it would be reported again and
// again.
func TestErrorsSayTheSameEachTime(t *testing.T) {
	reset := func(port int) error {
		return &url.Error{Op: "Post", URL: "http://p/api", Err: &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port},
			Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 9090}, Err: errors.New("connection reset by peer"),
		}}
	}
	want := "read 10.0.0.2:9090: connection reset by peer"
	for _, port := range []int{40001, 40002} {
		if got := plain(context.Background(), reset(port)).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := plain(context.Background(), &net.DNSError{Name: "prometheus.monitoring", Server: "10.0.0.10:53"}).Error(); got != "no address for prometheus.monitoring" {
		t.Errorf("got %s", got)
	}
	long := plain(context.Background(), errors.New(strings.Repeat("é\n", 1000))).Error()
	if len(long) > maxText+len("…") || strings.Contains(long, "\n") {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

func TestTimesAreWrittenAsPrometheusReadsThem(t *testing.T) {
	for d, want := range map[time.Duration]string{
		4999498837: "4s", time.Second: "1s", 999999999: "999ms", 1: "1ms", -1: "1ms", 90 * time.Second: "1m30s",
	} {
		got := writable(d).String()
		if _, err := model.ParseDuration(got); got != want || err != nil {
			t.Errorf("%d: got %s, %v, want %s", d, got, err, want)
		}
	}
}

func TestPrepareEndsInTimeWhateverHangs(t *testing.T) {
	f := newFake(t, func(q string) string {
		if strings.HasPrefix(q, "slow") {
			return "hang"
		}
		return vector(noon, `{} 1`)
	})
	spec := Spec{Queries: Queries{Arrivals: "quick"}}
	for _, name := range strings.Fields("a b c d e f g h") {
		spec.Metrics = append(spec.Metrics, Series{Name: name, Query: "slow" + name})
	}
	r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: f.URL}, Timeout: 300 * time.Millisecond, Parallel: 2})
	must.Do(t, r.Configure(map[string]Source{"shop/cart": source(spec)}))
	done := make(chan struct{})
	go func() { r.Prepare(context.Background(), noon); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it hangs")
	}
	w := read(t, r, "shop/cart", noon)
	if w.Arrivals != podscaler.Known(1) || w.Metrics["a"].Why != unreachable || w.Metrics["h"].Why != errPutOff.Error() {
		t.Errorf("got %+v", w)
	}
}

// For any answer of a server: no number comes out that it did not measure.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"le":"1"},"value":[1772366400,"1"]}]}}`)
	f.Add(`{"status":"success","data":{"resultType":"scalar","result":[1772366400,"NaN"]}}`)
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1772366400,{"count":"1","sum":"2","buckets":[[3,"-1","1","1"]]}]}]}}`)
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"destination_workload_namespace":"shop","destination_workload":"cart","le":"+Inf"},"value":[1772366400,"1"]}]}}`)
	f.Add(`{"status":"error"}`)
	f.Add(`null`)
	s := source(Spec{Preset: Istio})
	g := &group{preset: presets[Istio], window: time.Minute, members: []member{{workload: "shop/cart", source: &s, names: byTarget(&s)}}}
	f.Fuzz(func(t *testing.T, body string) {
		a := newDecoding(context.Background(), append(g.labelNames(), "pod", "version"), &room{left: 1 << 20}).answer(strings.NewReader(body))
		m := &measurement{}
		r := &round{now: noon, options: &New(Options{Access: lenient}).options, measured: map[string]*measurement{"shop/cart": m}}
		g.share(r, &answers{buckets: &a, arrivals: &a, newest: &a, scrapes: &a, inFlight: &a, errors: &a})
		use{workload: "shop/cart", signal: "m"}.take(m, &a)
		use{workload: "shop/cart", signal: "p", perPod: "pod"}.take(m, &a)
		use{workload: "shop/cart", signal: registration, perVersion: "version"}.take(m, &a)
		m.settle(&s)
		w := m.window
		for _, got := range []podscaler.Reading{w.Latency, w.Good, w.Arrivals, w.InFlight, w.Errors, w.Registered, w.Metrics["m"].Total} {
			if got.Known != podscaler.Known(got.Value).Known && got.Known || !got.Known && got.Value != 0 {
				t.Errorf("%q: %+v", body, w)
			}
		}
		for _, v := range w.Metrics["p"].PerPod {
			if !podscaler.Known(v).Known {
				t.Errorf("%q: %+v", body, w)
			}
		}
	})
}
