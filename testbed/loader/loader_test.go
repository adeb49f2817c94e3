package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// small is a loader whose work takes next to nothing.
func small() Config {
	return Config{Work: Work{Digits: 4}, AtOnce: 8, CallTimeout: 20 * time.Second, Grace: 20 * time.Second}
}

func ready(t *testing.T, c Config) *Service {
	t.Helper()
	s := must.Get(New(c))(t)
	must.Get(s.prepare(t.Context()))(t)
	return s
}

func TestFaultsAreToldByKeyRuleAndValue(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":                                                           func(*Config) {},
		"digits: must be 1 to 50000, was 0":                          func(c *Config) { c.Digits = 0 },
		"digits: must be 1 to 50000, was 50001":                      func(c *Config) { c.Digits = 50_001 },
		"memory: must be at most 4GB, was 5GB":                       func(c *Config) { c.Memory = 5e9 },
		"at-once: must be 1 or more, was 0":                          func(c *Config) { c.AtOnce = 0 },
		"spread: must be from 0% to below 100%, was 100%":            func(c *Config) { c.Spread = 1 },
		"linger: must be 0 or more, was -1s":                         func(c *Config) { c.Linger = -time.Second },
		"grace: must be 0 or more, was -1s":                          func(c *Config) { c.Grace = -time.Second },
		"call-timeout: must be greater than 0, was 0s":               func(c *Config) { c.CallTimeout = 0 },
		`call: must be an address such as http://next:8080, was "b"`: func(c *Config) { c.Calls = []string{"http://a", "b"} },
		"digits: must be omitted with calibrate, was 4":              func(c *Config) { c.Calibrate = time.Second },
		"calibrate: must be from 2ms to 2s, was 1ms":                 func(c *Config) { c.Calibrate, c.Digits = time.Millisecond, 0 },
		"calibrate: must be from 2ms to 2s, was 3s":                  func(c *Config) { c.Calibrate, c.Digits = 3*time.Second, 0 },
	} {
		c := small()
		change(&c)
		got := ""
		if _, err := New(c); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// get asks a handler for a path, and returns what it answers.
func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// samples are a service's metrics: counts of histograms by name and labels, and gauges.
func samples(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families := must.Get(parser.TextToMetricFamilies(get(h, "/metrics").Body))(t)
	all := map[string]float64{}
	for name, f := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			all[key] = float64(m.GetHistogram().GetSampleCount()) + m.GetGauge().GetValue()
		}
	}
	return all
}

func TestRequestsAreAnsweredAndCounted(t *testing.T) {
	s := ready(t, small())
	before := map[string]float64{
		"http_server_request_duration_seconds 200": 0, "http_server_active_requests": 0, "plimsoll_loader_digits": 4, "plimsoll_loader_demand_seconds": 0,
	}
	if diff := cmp.Diff(before, samples(t, s)); diff != "" {
		t.Errorf("before, -want +got:\n%s", diff)
	}
	for range 3 {
		w := get(s, "/any/path")
		if w.Code != http.StatusOK || w.Body.String() != "3.1415\n" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if timing := w.Header().Get("Server-Timing"); !regexp.MustCompile(`^loader;dur=[0-9]+\.[0-9]{3}$`).MatchString(timing) {
			t.Errorf("Server-Timing: %q", timing)
		}
	}
	before["http_server_request_duration_seconds 200"] = 3
	if diff := cmp.Diff(before, samples(t, s)); diff != "" {
		t.Errorf("after, -want +got:\n%s", diff)
	}
}

func TestNothingIsServedBeforeTheWorkIsKnown(t *testing.T) {
	s := must.Get(New(small()))(t)
	want := func(path string, status int) {
		t.Helper()
		if w := get(s, path); w.Code != status {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, status)
		}
	}
	want("/healthz", 200)
	want("/readyz", 503)
	want("/", 503)
	must.Get(s.prepare(t.Context()))(t)
	want("/readyz", 200)
	want("/", 200)
}

// Beyond what is worked on at a time, requests wait; one whose client goes away waits no longer.
func TestRequestsWaitForEachOther(t *testing.T) {
	c := small()
	c.AtOnce = 1
	s := ready(t, c)
	s.slots <- struct{}{}
	ctx, leave := context.WithCancel(t.Context())
	codes := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		codes <- w.Code
	}()
	until(t, "a request waits", func() bool { return s.meters.underWay.Load() == 1 })
	if got := samples(t, s)["http_server_active_requests"]; got != 1 {
		t.Errorf("%v requests are reported under way, want 1", got)
	}
	leave()
	if code := <-codes; code != statusGone {
		t.Errorf("who went away is answered %d", code)
	}
	go func() { codes <- get(s, "/").Code }()
	until(t, "another waits", func() bool { return s.meters.underWay.Load() == 1 })
	<-s.slots
	if code := <-codes; code != http.StatusOK {
		t.Errorf("who waited is answered %d", code)
	}
}

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so that %s", what)
		}
	}
}

// order notes which servers were called, and how many at a time.
type order struct {
	mu        sync.Mutex
	called    []string
	now, most int
	meet      sync.WaitGroup // if it is waited for, all servers wait for each other
}

func (o *order) server(t *testing.T, name string, status int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.called = append(o.called, fmt.Sprintf("%s depth=%s trace=%s", name, r.Header.Get(depthHeader), r.Header.Get("Traceparent")))
		o.now++
		o.most = max(o.most, o.now)
		o.mu.Unlock()
		o.meet.Wait()
		o.mu.Lock()
		o.now--
		o.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestCallsInSequenceEndWithTheFirstThatFails(t *testing.T) {
	var o order
	c := small()
	c.Calls = []string{o.server(t, "a", 200), o.server(t, "b", 503), o.server(t, "c", 200)}
	s := ready(t, c)
	w := get(s, "/", "Traceparent", "00-1-2-01", depthHeader, "4")
	if w.Code != http.StatusBadGateway || w.Body.String() != "call "+c.Calls[1]+": it answers 503\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if diff := cmp.Diff([]string{"a depth=5 trace=00-1-2-01", "b depth=5 trace=00-1-2-01"}, o.called); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got := samples(t, s)
	for key, want := range map[string]float64{
		"http_client_request_duration_seconds 200 " + c.Calls[0]: 1, "http_client_request_duration_seconds 503 " + c.Calls[1]: 1,
		"http_client_request_duration_seconds 200 " + c.Calls[2]: 0, "http_server_request_duration_seconds 502": 1,
	} {
		if n, there := got[key]; n != want || !there {
			t.Errorf("%s: %v (%v), want %v", key, n, there, want)
		}
	}
}

func TestCallsInParallelAreMadeAtOnce(t *testing.T) {
	var o order
	o.meet.Add(1)
	c := small()
	c.Parallel = true
	c.Calls = []string{o.server(t, "a", 200), o.server(t, "b", 200), o.server(t, "c", 200)}
	s := ready(t, c)
	code := make(chan int)
	go func() { code <- get(s, "/").Code }()
	until(t, "three calls are under way", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.now == 3 })
	o.meet.Done()
	if got := <-code; got != http.StatusOK {
		t.Errorf("%d", got)
	}
}

func TestCallsThatAreNotAnsweredAreTold(t *testing.T) {
	var o order
	o.meet.Add(1)
	c := small()
	c.CallTimeout = 50 * time.Millisecond
	c.Calls = []string{o.server(t, "a", 200)}
	w := get(ready(t, c), "/")
	o.meet.Done()
	if w.Code != http.StatusGatewayTimeout || w.Body.String() != "call "+c.Calls[0]+": no answer within 50ms\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	c.CallTimeout = 20 * time.Second
	c.Calls = []string{"http://127.0.0.1:1"}
	if w := get(ready(t, c), "/"); w.Code != http.StatusBadGateway || !strings.HasPrefix(w.Body.String(), "call http://127.0.0.1:1: ") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Loaders that call each other in a circle come to an end, and say why.
func TestCirclesAreBroken(t *testing.T) {
	var served http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	c := small()
	c.AtOnce, c.Calls = 1, []string{server.URL}
	s := ready(t, c)
	served = s
	if w := get(s, "/"); w.Code != http.StatusLoopDetected {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := samples(t, s)["http_server_request_duration_seconds 508"]; got != mostDepth+1 {
		t.Errorf("%v requests, want %d", got, mostDepth+1)
	}
	if w := get(s, "/", depthHeader, "deep"); w.Code != http.StatusBadRequest || w.Body.String() != depthHeader+": must be a whole number from 0 up, was \"deep\"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// running runs a service with one request under way, which waits for a call to be answered.
func running(t *testing.T, c Config) (url string, stop func(), finish func(), answer <-chan string, end <-chan error) {
	t.Helper()
	o := &order{}
	o.meet.Add(1)
	c.Calls = []string{o.server(t, "slow", 200)}
	s := must.Get(New(c))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended, started, answered := make(chan error, 1), make(chan Calibration, 1), make(chan string, 1)
	go func() { ended <- s.Run(ctx, l, func(c Calibration) error { started <- c; return nil }) }()
	if c := <-started; c.Digits != 4 {
		t.Errorf("it starts with %+v", c)
	}
	url = "http://" + l.Addr().String()
	go func() {
		response, err := http.Get(url)
		if err != nil {
			answered <- err.Error()
			return
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		answered <- string(text)
	}()
	until(t, "the call is under way", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.now == 1 })
	finish = sync.OnceFunc(o.meet.Done)
	t.Cleanup(finish)
	return url, cancel, finish, answered, ended
}

func TestWhatIsUnderWayIsFinished(t *testing.T) {
	c := small()
	c.Linger = time.Second
	url, stop, finish, answer, end := running(t, c)
	stop()
	until(t, "it lingers, not ready", func() bool {
		response, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatalf("it does not linger: %v", err)
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusServiceUnavailable
	})
	until(t, "nothing new is taken", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-end:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	finish()
	if got := <-answer; got != "3.1415\n" {
		t.Errorf("the request is answered %s", got)
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}

func TestWhatIsCutOffIsTold(t *testing.T) {
	c := small()
	c.Grace = 10 * time.Millisecond
	_, stop, finish, answer, end := running(t, c)
	stop()
	if err := <-end; !errors.Is(err, ErrUnfinished) || !strings.HasSuffix(err.Error(), ": 1 of them, after 10ms") {
		t.Error(err)
	}
	finish()
	if got := <-answer; strings.HasPrefix(got, "3.") {
		t.Errorf("the request is answered %s", got)
	}
}

// The mean of all is the demand, and none is farther from it than the spread.
func TestSpreadIsOfTheWorkAndNotOfItsDigits(t *testing.T) {
	const steps, spread = 1000, 0.2
	w := Work{Digits: 1000}
	sum := 0.0
	for i := range steps {
		digits := float64(w.spread(spread * (2*(float64(i)+0.5)/steps - 1)).Digits)
		part := digits * digits / 1e6
		if part < 0.798 || part > 1.202 {
			t.Fatalf("%g digits are %g of the work", digits, part)
		}
		sum += part
	}
	if mean := sum / steps; math.Abs(mean-1) > 1e-3 {
		t.Errorf("the mean is %g", mean)
	}
	if got := (Work{Digits: 1}).spread(-0.9).Digits; got != 1 {
		t.Errorf("%d digits", got)
	}
}
