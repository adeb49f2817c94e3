package pveapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// record keeps the calls that were tried.
type record struct {
	mu    sync.Mutex
	calls []Call
	warns []string
}

func (r *record) in(c *Connection) {
	c.Observer = func(call Call) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, call)
	}
	c.Warn = func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.warns = append(r.warns, text)
	}
}

// hosts returns which of the virtual hosts were tried, in order, and forgets them.
func (r *record) hosts() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, c := range r.calls {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(c.Endpoint, "https://"), ":8006"))
	}
	r.calls = nil
	return strings.Join(names, " ")
}

func (r *record) warned() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.warns)
}

var (
	goodVersion = data(`{"version":"9.2.11","release":"9.2"}`)
	goodTask    = data(`"UPID:pve1:0000018A:0002E506:6B00A8B8:qmstart:310:auto@pve!t1:"`)
)

// answerTo gives a read a version and a write a task.
func answerTo(r *http.Request) reply {
	if r.Method == http.MethodGet {
		return goodVersion
	}
	return goodTask
}

func read(ctx context.Context, c *Client) error  { _, err := c.Version(ctx); return err }
func write(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Start(ctx); return err }

// What the hosts do, what is asked, and who is tried.
func TestWhoIsAskedNext(t *testing.T) {
	type hosts map[string]reply
	broken, lost, silent := reply{}, reply{status: 595, reason: "No route to host"}, reply{status: 596, reason: "Broken pipe"}
	page := reply{status: 200, reason: "OK", body: "<html>sign in"}
	for _, c := range []struct {
		name  string
		hosts hosts // the others answer well
		ask   func(context.Context, *Client) error
		tried string
		class Class
	}{
		{"a host that is not there is passed over", hosts{"pve1": refuseDial}, read, "pve1 pve2", ""},
		{"for orders too, since nothing was sent", hosts{"pve1": refuseDial, "pve2": refuseDial}, write, "pve1 pve2 pve3", ""},
		{"nobody is there", hosts{"pve1": refuseDial, "pve2": refuseDial, "pve3": refuseDial}, write, "pve1 pve2 pve3", NoEndpoint},
		{"a read that was not answered goes to another host", hosts{"pve1": broken}, read, "pve1 pve2", ""},
		{"once", hosts{"pve1": broken, "pve2": broken}, read, "pve1 pve2", Unanswered},
		{"an order that was not answered goes nowhere", hosts{"pve1": broken}, write, "pve1", Unanswered},
		{"a host that one does not reach may be reached by another", hosts{"pve1": lost}, read, "pve1 pve2", ""},
		{"for a read", hosts{"pve1": lost}, write, "pve1", HostUnreachable},
		{"or by none", hosts{"pve1": lost, "pve2": lost}, read, "pve1 pve2", HostUnreachable},
		{"what was not answered in time", hosts{"pve1": silent}, read, "pve1 pve2", ""},
		{"may have been done", hosts{"pve1": silent}, write, "pve1", Unanswered},
		{"a page is no answer", hosts{"pve1": page}, read, "pve1 pve2", ""},
		{"nor is it one to an order", hosts{"pve1": page}, write, "pve1", Unanswered},
		{"a refusal is an answer", hosts{"pve1": fault(403, "Permission check failed")}, read, "pve1", Forbidden},
		{"so is a failure", hosts{"pve1": fault(500, "VM is locked (backup)")}, write, "pve1", Locked},
		{"the first failure is told", hosts{"pve1": lost, "pve2": refuseDial, "pve3": refuseDial}, read, "pve1 pve2 pve3", HostUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r record
			client, _ := virtual(t, 3, func(req *http.Request, _ string) reply {
				name, _, _ := strings.Cut(req.URL.Host, ":")
				if a, set := c.hosts[name]; set {
					return a
				}
				return answerTo(req)
			}, r.in)
			if err := c.ask(t.Context(), client); ClassOf(err) != c.class {
				t.Errorf("%v, want %q", err, c.class)
			}
			if tried := r.hosts(); tried != c.tried {
				t.Errorf("tried %s, want %s", tried, c.tried)
			}
		})
	}
}

func TestABrokenConnectionToTheOnlyHostIsTriedOnceMoreForAReadOnly(t *testing.T) {
	var n atomic.Int32
	h := newHost(t, func(r *http.Request, _ string) reply {
		if n.Add(1)%2 == 1 {
			return reply{}
		}
		return answerTo(r)
	})
	c := connected(t, []*host{h})
	if err := read(t.Context(), c); err != nil || n.Load() != 2 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
	if err := write(t.Context(), c); !Is(err, Unanswered) || n.Load() != 3 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
}

// A connection that the server has closed while it was idle costs a read nothing, and cannot meet
// a write, which has one of its own.
func TestOrdersDoNotMeetAClosedConnection(t *testing.T) {
	h := newHost(t, func(r *http.Request, _ string) reply {
		a := answerTo(r)
		a.close = true // without a word
		return a
	})
	c := connected(t, []*host{h})
	for range 20 {
		if err := read(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := write(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadsShareAConnection(t *testing.T) {
	h := newHost(t, func(r *http.Request, _ string) reply { return answerTo(r) })
	c := connected(t, []*host{h})
	for range 10 {
		if err := read(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns != 1 {
		t.Errorf("%d connections", h.conns)
	}
}

// Nothing is repeated once half of the time for a request is over.
func TestAReadIsNotRepeatedForLong(t *testing.T) {
	var r record
	var k *clock
	client, k := virtual(t, 2, func(*http.Request, string) reply {
		return reply{status: 596, reason: "Connection timed out", wait: func() { k.Advance(30 * time.Second) }}
	}, r.in)
	if err := read(t.Context(), client); !Is(err, Unanswered) || r.hosts() != "pve1" {
		t.Errorf("%v", err)
	}
}

func TestADeadEndpointIsLeftAloneForAGrowingWhile(t *testing.T) {
	var r record
	var dead atomic.Bool
	dead.Store(true)
	c, k := virtual(t, 2, func(req *http.Request, _ string) reply {
		if dead.Load() && strings.HasPrefix(req.URL.Host, "pve1") {
			return refuseDial
		}
		return answerTo(req)
	}, r.in)
	// Each line: how much time passes, what is asked, and who is tried.
	for i, step := range []struct {
		pass  time.Duration
		ask   func(context.Context, *Client) error
		tried string
	}{
		{0, read, "pve1 pve2"},
		{0, read, "pve2"},
		{999 * time.Millisecond, read, "pve2"},
		{time.Millisecond, read, "pve1 pve2"}, // 1 s is over
		{time.Second, read, "pve2"},
		{time.Second, read, "pve1 pve2"}, // 2 s
		{3 * time.Second, read, "pve2"},
		// 4 s are over, and orders go where answers come from.
		{time.Second, write, "pve2"},
		{5 * time.Second, read, "pve1 pve2"},  // 4 s
		{8 * time.Second, read, "pve1 pve2"},  // 8 s
		{16 * time.Second, read, "pve1 pve2"}, // 16 s
		{29 * time.Second, read, "pve2"},      // it would be 32 s, and is 30
		{time.Second, read, "pve1 pve2"},      //
		{30 * time.Second, read, "pve1 pve2"}, //
		{30 * time.Second, func(ctx context.Context, c *Client) error { dead.Store(false); return read(ctx, c) }, "pve1"},
		{0, write, "pve1"}, // it is well again
	} {
		k.Advance(step.pass)
		if err := step.ask(t.Context(), c); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
		if tried := r.hosts(); tried != step.tried {
			t.Errorf("step %d: tried %s, want %s", i, tried, step.tried)
		}
	}
}

func TestWhenAllAreDeadNobodyIsTried(t *testing.T) {
	var r record
	c, k := virtual(t, 2, func(*http.Request, string) reply { return refuseDial }, r.in)
	for range 2 {
		err := read(t.Context(), c)
		if !Is(err, NoEndpoint) || !Retryable(err) || !strings.Contains(err.Error(), "https://pve1:8006: ") || !strings.Contains(err.Error(), "https://pve2:8006: ") {
			t.Errorf("%v", err)
		}
	}
	if tried := r.hosts(); tried != "pve1 pve2" {
		t.Errorf("tried %s", tried)
	}
	k.Advance(time.Second)
	_ = write(t.Context(), c)
	if tried := r.hosts(); tried != "pve1 pve2" {
		t.Errorf("tried %s", tried)
	}
}

// One request at a time finds out whether a dead endpoint is well again.
func TestADeadEndpointIsTriedByOne(t *testing.T) {
	var waiting atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	var onPve1 atomic.Int32
	c, k := virtual(t, 2, func(req *http.Request, _ string) reply {
		if !strings.HasPrefix(req.URL.Host, "pve1") {
			return answerTo(req)
		}
		onPve1.Add(1)
		if waiting.Load() {
			close(entered)
			<-release
		}
		return refuseDial
	})
	_ = read(t.Context(), c)
	k.Advance(time.Second)
	waiting.Store(true)
	var first sync.WaitGroup
	first.Go(func() { _ = read(t.Context(), c) })
	<-entered
	for range 5 {
		if err := read(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	close(release)
	first.Wait()
	if n := onPve1.Load(); n != 2 {
		t.Errorf("%d requests went to the dead one", n)
	}
}

// A read that is due to find out whether a dead endpoint is well again is not put off by orders,
// however many there are: they go elsewhere and find out nothing.
func TestOrdersDoNotPutOffTheTrialOfADeadEndpoint(t *testing.T) {
	var r record
	var dead atomic.Bool
	dead.Store(true)
	c, k := virtual(t, 2, func(req *http.Request, _ string) reply {
		if dead.Load() && strings.HasPrefix(req.URL.Host, "pve1") {
			return refuseDial
		}
		return answerTo(req)
	}, r.in)
	_ = read(t.Context(), c)
	dead.Store(false)
	k.Advance(firstRest)
	r.hosts()
	for _, ask := range []func(context.Context, *Client) error{write, write, read, write} {
		if err := ask(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	if tried := r.hosts(); tried != "pve2 pve2 pve1 pve1" {
		t.Errorf("tried %s", tried)
	}
}

// A clock that is set back does not make a short pause a long one.
func TestAClockThatIsSetBackLengthensNoPause(t *testing.T) {
	var r record
	answer := refuseDial
	c, k := virtual(t, 1, func(req *http.Request, _ string) reply {
		if answer.status != 0 {
			return answer
		}
		return answerTo(req)
	}, r.in)
	for _, bad := range []reply{refuseDial, {status: 401, reason: "No ticket"}} {
		answer = bad
		_ = read(t.Context(), c)
		k.Advance(-time.Hour)
		answer = reply{}
		if err := read(t.Context(), c); err != nil {
			t.Errorf("after %d: %v", bad.status, err)
		}
	}
}

// A host that has lost the others serves what it last knew of them, and refuses orders: as long as
// that is so, another one is asked.
func TestAHostOfAMinorityIsAskedAfterTheOthers(t *testing.T) {
	status := func(quorate int) reply {
		return data(fmt.Sprintf(`[{"type":"cluster","name":"lab","quorate":%d},{"type":"node","name":"pve1","online":1},{"type":"node","name":"pve2","online":1}]`, quorate))
	}
	for name, ask := range map[string]func(context.Context, *Client) error{
		"it says so": func(ctx context.Context, c *Client) error { _, err := c.ClusterStatus(ctx); return err },
		"it refuses": write,
	} {
		var r record
		c, _ := virtual(t, 3, func(req *http.Request, _ string) reply {
			alone := strings.HasPrefix(req.URL.Host, "pve1")
			switch {
			case strings.HasSuffix(req.URL.Path, "/cluster/status") && alone:
				return status(0)
			case strings.HasSuffix(req.URL.Path, "/cluster/status"):
				return status(1)
			case req.Method != http.MethodGet && alone:
				return fault(500, "cluster not ready - no quorum?")
			}
			return answerTo(req)
		}, r.in)
		_ = ask(t.Context(), c)
		if err := write(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s, err := c.ClusterStatus(t.Context()); err != nil || !s.Quorate {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if tried := r.hosts(); tried != "pve1 pve2 pve2" {
			t.Errorf("%s: tried %s", name, tried)
		}
	}
}

// A connection that is to be used for something else has no answer in it, and no end.
func TestAnotherProtocolIsNoAnswer(t *testing.T) {
	certificate, _ := selfSigned(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		}
	}()
	c := connected(t, nil, func(c *Connection) {
		c.Endpoints, c.Fingerprint, c.Insecure = []string{"https://" + ln.Addr().String()}, "", true
		c.Timeout = 200 * time.Millisecond
	})
	answered := make(chan error, 1)
	go func() { answered <- read(t.Context(), c) }()
	select {
	case err := <-answered:
		if !Is(err, Unknown) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it is waited for without end")
	}
}

func TestASilentHostIsLeftAlone(t *testing.T) {
	silent := newHost(t, func(*http.Request, string) reply { return reply{stall: true} })
	well := newHost(t, func(r *http.Request, _ string) reply { return answerTo(r) })
	c := connected(t, []*host{silent, well}, func(c *Connection) { c.Timeout = 200 * time.Millisecond })
	if err := write(t.Context(), c); !Is(err, Unanswered) {
		t.Errorf("%v", err)
	}
	if err := write(t.Context(), c); err != nil {
		t.Errorf("%v", err)
	}
	if len(silent.asked()) != 1 || len(well.asked()) != 1 {
		t.Errorf("%d and %d", len(silent.asked()), len(well.asked()))
	}
}

func TestAnEndpointThatCannotBeDialledOverTheNetworkIsPassedOver(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "https://" + ln.Addr().String()
	_ = ln.Close()
	h := newHost(t, func(r *http.Request, _ string) reply { return answerTo(r) })
	var r record
	c := connected(t, []*host{h}, r.in, func(c *Connection) { c.Endpoints = []string{gone, h.URL} })
	if err := write(t.Context(), c); err != nil {
		t.Error(err)
	}
	var op *net.OpError
	if len(r.calls) != 2 || r.calls[0].Status != 0 || !errors.As(r.calls[0].Err, &op) || r.calls[1].Status != 200 {
		t.Errorf("%+v", r.calls)
	}
}

// A plain HTTP door, or anything else that is no TLS, is not there.
func TestADoorWithoutTLSIsNotThere(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 301 Moved Permanently\r\nLocation: https://pve1:8006/\r\nContent-Length: 0\r\n\r\n")
			_ = conn.Close()
		}
	}()
	h := newHost(t, func(r *http.Request, _ string) reply { return answerTo(r) })
	c := connected(t, []*host{h}, func(c *Connection) { c.Endpoints = []string{"https://" + ln.Addr().String(), h.URL} })
	if err := write(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func TestCertificatesAreTrustedByPinOrAuthorityOnly(t *testing.T) {
	a := newHost(t, func(r *http.Request, _ string) reply { return answerTo(r) })
	b := newHost(t, func(r *http.Request, _ string) reply { return answerTo(r) })
	for _, c := range []struct {
		name   string
		change func(*Connection)
		asked  [2]int // reads that come to a and to b
		class  Class
		warns  int
	}{
		{"both pins", func(*Connection) {}, [2]int{1, 0}, "", 0},
		{"only b's pin", func(c *Connection) { c.Fingerprint = b.Fingerprint }, [2]int{0, 1}, "", 1},
		{"b's pin in another spelling", func(c *Connection) { c.Fingerprint = strings.ToLower(strings.ReplaceAll(b.Fingerprint, ":", "")) }, [2]int{0, 1}, "", 1},
		{"nobody's pin", func(c *Connection) { c.Fingerprint = strings.Repeat("00", 32) }, [2]int{0, 0}, Certificate, 2},
		{"a's authority", func(c *Connection) { c.Fingerprint, c.CA = "", a.CA }, [2]int{1, 0}, "", 0},
		{"b's authority", func(c *Connection) { c.Fingerprint, c.CA = "", b.CA }, [2]int{0, 1}, "", 1},
		{"the system's authorities", func(c *Connection) { c.Fingerprint = "" }, [2]int{0, 0}, Certificate, 2},
		{"any", func(c *Connection) { c.Fingerprint, c.Insecure = "", true }, [2]int{1, 0}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := [2]int{len(a.asked()), len(b.asked())}
			var r record
			client := connected(t, []*host{a, b}, r.in, c.change)
			err := write(t.Context(), client)
			if ClassOf(err) != c.class || Retryable(err) {
				t.Errorf("%v, want %q", err, c.class)
			}
			if got := [2]int{len(a.asked()) - before[0], len(b.asked()) - before[1]}; got != c.asked {
				t.Errorf("asked %v, want %v", got, c.asked)
			}
			_ = read(t.Context(), client)
			if warns := r.warned(); len(warns) != c.warns {
				t.Errorf("warned %q", warns)
			}
		})
	}
}

// A certificate that is not trusted is reported once, and again only when it was well in between.
func TestACertificateThatIsNotTrustedIsReportedOnce(t *testing.T) {
	var r record
	var bad atomic.Bool
	bad.Store(true)
	c, k := virtual(t, 1, nil, r.in, func(c *Connection) {
		c.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			if bad.Load() {
				return nil, &certificateError{text: "the certificate's fingerprint is 00, which is not pinned"}
			}
			return inMemory(func(req *http.Request, _ string) reply { return answerTo(req) }).RoundTrip(req)
		})
	})
	for _, step := range []struct {
		bad   bool
		warns int
	}{{true, 1}, {true, 1}, {true, 1}, {false, 1}, {true, 2}} {
		bad.Store(step.bad)
		if err := write(t.Context(), c); ClassOf(err) != map[bool]Class{true: Certificate}[step.bad] {
			t.Errorf("%v", err)
		}
		if warns := r.warned(); len(warns) != step.warns {
			t.Errorf("warned %q, want %d", warns, step.warns)
		}
		k.Advance(maxRest)
	}
}

// No redirect is followed, and a redirect is no answer, with any body.
func TestARedirectIsNoAnswer(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308, 399} {
		c, _ := virtual(t, 1, func(r *http.Request, b string) reply {
			a := goodAnswer(r, b)
			a.status = status
			return a
		})
		for name, calls := range everyCall {
			var e *Error
			if err := calls[0](t.Context(), c); !errors.As(err, &e) || e.Status != status || e.Class() != Unknown {
				t.Errorf("%d: %s: %v", status, name, err)
			}
		}
	}
}

// The error for a wrong fingerprint names the one that was shown.
func TestAWrongFingerprintIsNamed(t *testing.T) {
	h := newHost(t, func(r *http.Request, _ string) reply { return answerTo(r) })
	c := connected(t, []*host{h}, func(c *Connection) { c.Fingerprint = strings.Repeat("00", 32) })
	err := read(t.Context(), c)
	if !Is(err, Certificate) || !strings.Contains(err.Error(), h.Fingerprint) || !strings.Contains(err.Error(), h.URL) {
		t.Errorf("%v", err)
	}
	for range 2 { // those left alone are probed too
		if p := c.Probe(t.Context()); len(p) != 1 || !Is(p[0].Err, Certificate) || !strings.Contains(p[0].Err.Error(), h.Fingerprint) {
			t.Errorf("%+v", p)
		}
	}
	if n := len(h.asked()); n != 0 {
		t.Errorf("%d requests were sent to a host that is not trusted", n)
	}
}

func TestProbeAsksEveryEndpoint(t *testing.T) {
	a := newHost(t, func(r *http.Request, _ string) reply { return goodVersion })
	b := newHost(t, func(r *http.Request, _ string) reply { return data(`{}`) })
	d := newHost(t, func(r *http.Request, _ string) reply { return fault(500, "no") })
	got := connected(t, []*host{a, b, d}).Probe(t.Context())
	if len(got) != 3 || got[0].Err != nil || got[0].Version.Release != "9.2" || got[0].Endpoint != a.URL ||
		!Is(got[1].Err, Garbled) || !Is(got[2].Err, Unknown) {
		t.Errorf("%+v", got)
	}
}

func TestABodyThatBreaksOffIsNoAnswer(t *testing.T) {
	short := func(r *http.Request, _ string) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Status: "200 OK", Body: http.NoBody, Request: r}, nil
	}
	for name, answer := range map[string]func(*http.Request, string) (*http.Response, error){
		"empty": short,
		"broken": func(r *http.Request, _ string) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Status: "200 OK", Body: brokenBody{}, Request: r}, nil
		},
		"endless": func(r *http.Request, _ string) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Status: "200 OK", Body: endlessBody{}, Request: r}, nil
		},
	} {
		c, _ := virtual(t, 1, nil, func(c *Connection) {
			c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) { return answer(r, "") })
		})
		if err := read(t.Context(), c); !Is(err, Unanswered, Garbled) || !Retryable(err) {
			t.Errorf("%s: a read: %v", name, err)
		}
		if err := write(t.Context(), c); !Is(err, Unanswered) || Retryable(err) {
			t.Errorf("%s: a write: %v", name, err)
		}
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }
func (brokenBody) Close() error             { return nil }

type endlessBody struct{}

func (endlessBody) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
func (endlessBody) Close() error { return nil }

// An answer to an order that names no task leaves open what was done.
func TestAnOrderWithoutATaskIsUnanswered(t *testing.T) {
	for _, body := range []string{`{"data":null}`, `{"data":""}`, `{"data":{}}`, `{"data":"done"}`, `{"data":1}`, `{}`, `[]`, `null`, ``, `{"data":`, `<html>`} {
		c, _ := virtual(t, 1, func(*http.Request, string) reply { return reply{status: 200, reason: "OK", body: body} })
		if err := write(t.Context(), c); !Is(err, Unanswered) || Retryable(err) {
			t.Errorf("%s: %v", body, err)
		}
		if err := read(t.Context(), c); err == nil && body != `{"data":{}}` {
			t.Errorf("%s: a read took it", body)
		}
	}
}

func TestContextsThatEnd(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var asked atomic.Int32
	c, _ := virtual(t, 1, func(r *http.Request, _ string) reply { asked.Add(1); return answerTo(r) })
	for _, ask := range []func(context.Context, *Client) error{read, write} {
		if err := ask(over, c); !Is(err, Canceled) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	if asked.Load() != 0 {
		t.Error("something was sent after the context's end")
	}
	// While it is under way, a read is given up, and an order may have been done.
	c, _ = virtual(t, 1, nil, func(c *Connection) {
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
	})
	for want, ask := range map[Class]func(context.Context, *Client) error{Canceled: read, Unanswered: write} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := ask(ctx, c); !Is(err, want) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %s", err, want)
		}
		cancel()
	}
}

// No host gets more than three orders and one question to an agent at a time, whoever asks.
func TestHostsAreNotAskedTooMuchAtATime(t *testing.T) {
	type load struct{ now, most atomic.Int32 }
	loads := map[string]*load{}
	for _, host := range []string{"pve1", "pve2"} {
		for _, kind := range []string{"agent", "write", "read"} {
			loads[host+kind] = &load{}
		}
	}
	c, _ := virtual(t, 1, func(r *http.Request, _ string) reply {
		kind := "read"
		switch {
		case strings.Contains(r.URL.Path, "/agent/"):
			kind = "agent"
		case r.Method != http.MethodGet:
			kind = "write"
		}
		l := loads[hostOf(strings.TrimPrefix(r.URL.Path, apiRoot))+kind]
		n := l.now.Add(1)
		for most := l.most.Load(); n > most && !l.most.CompareAndSwap(most, n); most = l.most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		l.now.Add(-1)
		switch kind {
		case "agent":
			return data(`{"result":[]}`)
		case "write":
			return goodTask
		}
		return data(`{"status":"running"}`)
	})
	var all sync.WaitGroup
	for i := range 12 {
		for _, node := range []string{"pve1", "pve2"} {
			all.Go(func() {
				if _, err := c.VM(node, 300+i).AgentInterfaces(t.Context()); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if _, err := c.VM(node, 300+i).Start(t.Context()); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if _, err := c.VM(node, 300+i).Status(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	for name, l := range loads {
		most := l.most.Load()
		switch {
		case strings.HasSuffix(name, "agent") && most != 1,
			strings.HasSuffix(name, "write") && (most > 3 || most < 2),
			strings.HasSuffix(name, "read") && most <= 3:
			t.Errorf("%s: %d at a time", name, most)
		}
	}
}

func TestWhoWaitsForRoomMayGiveUp(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	c, _ := virtual(t, 1, func(*http.Request, string) reply {
		entered <- struct{}{}
		<-release
		return data(`{"result":[]}`)
	})
	var first sync.WaitGroup
	first.Go(func() { _, _ = c.VM("pve1", 300).AgentInterfaces(t.Context()) })
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.VM("pve1", 301).AgentInterfaces(ctx); !Is(err, Canceled) {
		t.Errorf("%v", err)
	}
	close(release)
	first.Wait()
}

func TestEveryTryIsObserved(t *testing.T) {
	var r record
	c, _ := virtual(t, 2, func(req *http.Request, _ string) reply {
		if strings.HasPrefix(req.URL.Host, "pve1") {
			return refuseDial
		}
		return fault(500, "VM is locked (backup)")
	}, r.in)
	_, _ = c.VM("pve1", 310).Destroy(t.Context(), true)
	if len(r.calls) != 2 {
		t.Fatalf("%+v", r.calls)
	}
	first, second := r.calls[0], r.calls[1]
	if first.Endpoint != "https://pve1:8006" || first.Status != 0 || !Is(first.Err, NoEndpoint) ||
		second.Method != "DELETE" || second.Path != "/nodes/pve1/qemu/310" || second.Status != 500 || !Is(second.Err, Locked) {
		t.Errorf("%+v", r.calls)
	}
}

func TestRequestsCarryWhatTheServerWants(t *testing.T) {
	var header http.Header
	h := newHost(t, func(r *http.Request, _ string) reply { header = r.Header; return answerTo(r) })
	c := connected(t, []*host{h})
	if err := write(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := header.Get("Authorization"); got != "PVEAPIToken="+testToken {
		t.Errorf("authorization %q", got)
	}
	if header.Get("User-Agent") != "plimsoll" || header.Get("Content-Type") != "" || header.Get("Accept-Encoding") != "" {
		t.Errorf("%v", header)
	}
}
