package kubesim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Client is one process' way to the server.
type Client struct {
	server *Server
	name   string
	sent   func(Call)
	ahead  atomic.Int64

	// The server's lock holds these.
	faults  Faults
	changed chan struct{}
	asked   map[string]uint64
	calls   []Call
}

// Call is a write that a client sent.
type Call struct {
	Sent, Done   time.Time // when it was sent, and when it was carried out
	Client       string
	Method, Kind string
	Key, Sub     string
	Code         int
	// Was and Is are the object before and after; nil if it was not there.
	Was, Is map[string]any
}

// Client makes a way to the server. What is sent is called with each write before it leaves; it may
// be nil.
func (s *Server) Client(name string, sent func(Call)) *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Client{server: s, name: name, sent: sent, changed: make(chan struct{}), asked: map[string]uint64{}}
	s.clients = append(s.clients, c)
	return c
}

// Config is how clients of Kubernetes' libraries connect.
func (c *Client) Config() *rest.Config {
	return &rest.Config{
		Host: "https://kubesim", Transport: c, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}
}

// Ahead sets how far the process' wall clock is ahead of the true time. It shows in the leases that
// the process reads and writes.
func (c *Client) Ahead(d time.Duration) { c.ahead.Store(int64(d)) }

// Calls returns the client's writes that were carried out or refused by the server itself.
func (c *Client) Calls() []Call {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.calls[:len(c.calls):len(c.calls)]
}

// What a network answers. Clients distinguish these errors.
var (
	errLost    = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
)

// RoundTrip answers a request.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	q, err := c.request(r)
	if err != nil {
		return nil, err
	}
	c.server.mu.Lock()
	c.server.locate(q)
	l := c.draw(q)
	c.server.mu.Unlock()
	call := Call{Sent: time.Now(), Client: c.name, Method: q.method, Key: q.key(), Sub: q.sub}
	if q.table != nil {
		call.Kind = q.table.id()
	}
	if c.sent != nil && q.writes() {
		c.sent(call)
	}
	switch {
	case l.refused:
		return nil, errRefused
	case l.hangs:
		return nil, hang(r.Context(), l.changed)
	case l.answer != nil:
		return l.answer.response(r), nil
	}
	if err := pause(r.Context(), l.before); err != nil {
		return nil, err
	}
	a, stream := c.answer(r.Context(), q, &l, call)
	if stream != nil {
		return &http.Response{
			StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{"Content-Type": {"application/json"}}, Body: stream, Request: r,
			ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		}, nil
	}
	if err := pause(r.Context(), l.after); err != nil {
		return nil, err
	}
	if l.lost {
		return nil, errLost
	}
	return a.response(r), nil
}

// hang waits until the caller gives up, or the faults are others.
func hang(ctx context.Context, changed chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return errLost
	}
}

// pause waits for a while.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (a *answer) response(r *http.Request) *http.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	for key, v := range a.header {
		header.Set(key, v)
	}
	return &http.Response{
		StatusCode: a.code, Status: fmt.Sprintf("%d %s", a.code, http.StatusText(a.code)), Header: header, Request: r,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), ProtoMajor: 1, ProtoMinor: 1,
	}
}

func (c *Client) request(r *http.Request) (*request, error) {
	q := &request{method: r.Method, path: r.URL.Path, query: r.URL.Query(), patch: r.Header.Get("Content-Type")}
	q.metadataOnly = strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	if r.Body == nil {
		return q, nil
	}
	defer r.Body.Close() //nolint:errcheck // a body that was read has nothing to lose
	var err error
	q.body, err = io.ReadAll(r.Body)
	return q, err
}

// answer carries a request out.
func (c *Client) answer(ctx context.Context, q *request, l *luck, call Call) (answer, *stream) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case q.path == "/readyz" && c.faults.Unready:
		return failed(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd failed"), nil
	case q.path == "/readyz":
		return answer{code: http.StatusOK, body: []byte("ok"), header: map[string]string{"Content-Type": "text/plain"}}, nil
	case strings.HasSuffix(q.path, "/selfsubjectaccessreviews"):
		return c.review(q), nil
	case q.table == nil && q.apiVersion != "" && q.method == http.MethodGet:
		if list := s.discovered(q.apiVersion); len(list.APIResources) > 0 {
			return answered(http.StatusOK, list), nil
		}
		return failed(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource"), nil
	case q.table == nil:
		return failed(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource"), nil
	case c.forbidden(q):
		return failed(http.StatusForbidden, metav1.StatusReasonForbidden, "%s is forbidden", q.table.id()), nil
	case q.writes():
		return c.write(q, l, call), nil
	case q.name != "":
		a := s.get(q)
		c.shiftAnswer(q, &a)
		return a, nil
	case l.gone && (q.get("continue") != "" || q.watches() && q.get("resourceVersion") != ""):
		return expired("too old, by chance"), nil
	case q.watches():
		w, a := s.watch(ctx, c, q)
		if w != nil && l.breaks > 0 {
			w.breaks = time.Now().Add(l.breaks)
		}
		return a, w
	}
	return s.list(q), nil
}

// write carries a write out, and notes it.
func (c *Client) write(q *request, l *luck, call Call) answer {
	s := c.server
	c.shiftBody(q)
	if is := q.table.objects[q.key()]; l.crossed && q.name != "" && is != nil {
		raw := runtime.DeepCopyJSON(is.raw)
		merge(raw, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"crossed": fmt.Sprint(s.version)}}})
		s.put(q.table, q.key(), raw)
	}
	was := q.table.objects[q.key()]
	a := s.write(q)
	is := q.table.objects[q.key()]
	call.Done, call.Code, call.Key = time.Now(), a.code, q.key()
	if was != nil {
		call.Was = was.raw
	}
	if is != nil {
		call.Is = is.raw
	}
	c.calls = append(c.calls, call)
	c.shiftAnswer(q, &a)
	return a
}

// review answers what a client may do.
func (c *Client) review(q *request) answer {
	raw, err := q.read()
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	var asks authorizationv1.SelfSubjectAccessReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &asks); err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	asks.Status.Allowed = true
	if a := asks.Spec.ResourceAttributes; a != nil {
		asks.Status.Allowed = !c.forbidden(&request{table: c.server.tables[id(a.Resource, a.Group)]})
	}
	return answered(http.StatusCreated, asks)
}
