package pveapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
)

const (
	userAgent = "plimsoll"
	apiRoot   = "/api2/json"
	// anyEndpoint is the host that go-proxmox asks; the wire puts an endpoint in its place.
	anyEndpoint = "https://cluster.invalid"
	// maxAnswer is far more than a large cluster's list of resources, and no more than fits in
	// memory.
	maxAnswer = 32 << 20
)

// wire is the transport below go-proxmox. It finds an endpoint, adds the token, and turns all that
// is no good answer into an *Error, so that nothing above can take it for one.
type wire struct {
	reads   http.RoundTripper
	writes  http.RoundTripper
	traced  bool // the two report when they have a connection
	hosts   *endpoints
	gate    *gate
	limits  limits
	now     func() time.Time
	warn    func(string)
	observe func(Call)
	timeout time.Duration
}

func newWire(c *Connection) *wire {
	w := &wire{
		reads: c.Transport, writes: c.Transport, hosts: newEndpoints(c.Endpoints, c.Now),
		gate: &gate{ask: c.Token, now: c.Now, warn: c.Warn},
		now:  c.Now, warn: c.Warn, observe: c.Observer, timeout: c.Timeout,
	}
	if c.Transport == nil {
		// A write has a connection of its own. One that was idle may be closed by the server in the
		// moment it is used, and then no one knows whether the order arrived.
		reads, writes := network(c), network(c)
		writes.DisableKeepAlives = true
		w.reads, w.writes, w.traced = reads, writes, true
	}
	return w
}

// close gives up idle connections.
func (w *wire) close() {
	if t, ok := w.reads.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// via returns what carries a question.
func (w *wire) via(q *question) http.RoundTripper {
	if q.read() {
		return w.reads
	}
	return w.writes
}

// question is a request before it is known who is asked.
type question struct {
	method, path string
	target       string // the path as it is sent, with query
	contentType  string
	body         []byte
	open         func() (io.ReadCloser, error) // in place of a body that is too large to be kept
	size         int64
}

// maxKept is how large a body may be to be kept: larger than all but images of disks.
const maxKept = 16 << 20

func (q *question) read() bool { return q.method == http.MethodGet }

// RoundTrip asks one endpoint after the other, as far as that is safe.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	q, err := readQuestion(req)
	if err != nil {
		return nil, err
	}
	leave, err := w.limits.enter(req.Context(), q.method, q.path)
	if err != nil {
		return nil, err
	}
	defer leave()
	data, err := w.ask(req.Context(), q)
	if err != nil {
		return nil, err
	}
	if into, ok := req.Context().Value(answered{}).(*json.RawMessage); ok {
		*into = data
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": {"application/json"}},
		Body:    http.NoBody,
		Request: req,
	}, nil
}

func readQuestion(req *http.Request) (*question, error) {
	q := &question{
		method:      req.Method,
		path:        strings.TrimPrefix(req.URL.Path, apiRoot),
		target:      req.URL.RequestURI(),
		contentType: req.Header.Get("Content-Type"),
	}
	if req.Body == nil {
		return q, nil
	}
	defer func() { _ = req.Body.Close() }()
	if req.GetBody != nil && req.ContentLength > maxKept {
		q.open, q.size = req.GetBody, req.ContentLength
		return q, nil
	}
	var err error
	q.body, err = io.ReadAll(req.Body)
	return q, err
}

// answered is the key of a context under which the data of a good answer is put: go-proxmox
// would read the answer once more.
type answered struct{}

// answerer is the key of a context under which it is noted which endpoint has answered.
type answerer struct{}

// ask returns a good answer's data. For any question, an endpoint that cannot be connected to is
// passed over; a read that was not answered is asked once more, elsewhere if there is anywhere; all
// else is final.
func (w *wire) ask(ctx context.Context, q *question) (json.RawMessage, error) {
	began := w.now()
	var unanswered *Error
	to := w.hosts.order(q.read())
	for i := 0; i < len(to); i++ {
		data, failed := w.try(ctx, q, to[i])
		if failed == nil {
			if who, ok := ctx.Value(answerer{}).(*string); ok {
				*who = to[i].url
			}
			return data, nil
		}
		switch failed.Class() {
		case NoEndpoint, Certificate:
		case HostUnreachable, Unanswered, Garbled:
			if !q.read() || unanswered != nil || w.now().Sub(began) > w.timeout/2 {
				return nil, failed
			}
			unanswered = failed
			if len(to) == 1 && failed.Status == 0 {
				to = append(to, to[0]) // a connection that broke, as they do
			}
		default:
			return nil, failed
		}
	}
	if unanswered != nil {
		return nil, unanswered
	}
	class, message := w.hosts.why()
	return nil, &Error{Method: q.method, Path: q.path, Message: message, class: class}
}

// try asks one endpoint.
func (w *wire) try(ctx context.Context, q *question, p *endpoint) (json.RawMessage, *Error) {
	if ctx.Err() != nil {
		return nil, canceled(ctx, q.method, q.path)
	}
	pass, err := w.gate.take()
	if err != nil {
		return nil, &Error{Method: q.method, Path: q.path, Message: err.Error(), TokenID: pass.id, class: Unauthorized, cause: err}
	}
	began := w.now()
	status, data, failed := w.send(ctx, q, p, pass)
	if failed != nil {
		failed.Method, failed.Path, failed.Endpoint, failed.TokenID = q.method, q.path, p.url, pass.id
		failed.hide(pass, q)
	}
	w.gate.report(pass, status != 0, status == http.StatusUnauthorized, failed.said())
	w.judge(p, q, data, failed)
	call := Call{Method: q.method, Path: q.path, Endpoint: p.url, Status: status, Duration: w.now().Sub(began)}
	if failed != nil {
		call.Err = failed
	}
	w.observe(call)
	return data, failed
}

// judge sees by an answer whether an endpoint has lost the cluster. Such a host still serves what
// it last knew, so that a good answer to a read proves nothing; it refuses everybody's token, or
// orders, while the others may well accept them.
func (w *wire) judge(p *endpoint, q *question, data json.RawMessage, failed *Error) {
	status := q.read() && q.path == clusterStatus
	switch {
	case failed != nil && failed.Status != 0 && Is(failed, Unauthorized, NoQuorum), failed == nil && status && inMinority(data):
		w.hosts.doubt(p)
	case failed == nil && (status || !q.read()):
		w.hosts.believe(p)
	}
}

// inMinority reports whether the status of the cluster is that of a host without quorum.
func inMinority(data json.RawMessage) bool {
	var list []statusRead
	return json.Unmarshal(data, &list) == nil && slices.ContainsFunc(list, func(e statusRead) bool { return e.Type == "cluster" && !e.Quorate.is() })
}

// send makes one request and reads its answer.
func (w *wire) send(ctx context.Context, q *question, p *endpoint, pass pass) (status int, data json.RawMessage, failed *Error) {
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var connected atomic.Bool
	if w.traced {
		limited = httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
		})
	}
	req, err := http.NewRequestWithContext(limited, q.method, p.url+q.target, bytes.NewReader(q.body))
	if err != nil {
		return 0, nil, &Error{Message: err.Error(), class: Invalid, cause: err}
	}
	switch {
	case q.open != nil:
		req.GetBody, req.ContentLength = q.open, q.size
		if req.Body, err = q.open(); err != nil {
			return 0, nil, &Error{Message: err.Error(), class: Invalid, cause: err}
		}
	case len(q.body) == 0:
		req.Body, req.GetBody = http.NoBody, nil
	}
	req.Header.Set("Authorization", "PVEAPIToken="+pass.token)
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "application/json")
	if q.contentType != "" {
		req.Header.Set("Content-Type", q.contentType)
	}

	res, err := w.via(q).RoundTrip(req)
	if err != nil {
		if sent := !isDial(err) && (!w.traced || connected.Load()); sent {
			return 0, nil, w.unanswered(ctx, limited, q, p, err)
		}
		return 0, nil, w.unreached(ctx, p, err)
	}
	defer func() { _ = res.Body.Close() }()
	w.hosts.answered(p)
	if res.StatusCode < 200 {
		// What follows is another protocol's, and ends with neither the answer nor the context.
		return res.StatusCode, nil, newError(res, nil)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case res.StatusCode >= 300:
		return res.StatusCode, nil, newError(res, body)
	case err != nil:
		return res.StatusCode, nil, w.unanswered(ctx, limited, q, p, err)
	}
	data, fault := unwrap(body)
	if fault != "" {
		return res.StatusCode, nil, &Error{Status: res.StatusCode, Message: fault, class: notUnderstood(q.method)}
	}
	return res.StatusCode, data, nil
}

// unreached is a request that never left.
func (w *wire) unreached(ctx context.Context, p *endpoint, err error) *Error {
	if ctx.Err() != nil {
		return canceled(ctx, "", "")
	}
	class := NoEndpoint
	if isCertificate(err) {
		class = Certificate
	}
	if w.hosts.failed(p, class, err.Error()) && class == Certificate {
		w.warn("endpoint " + p.url + " is not trusted and not used: " + err.Error())
	}
	return &Error{Message: err.Error(), class: class, cause: err}
}

// unanswered is a request that may have arrived. An endpoint that is silent for the whole time is
// left alone; one that broke a connection is not, because they do that now and then.
func (w *wire) unanswered(ctx, limited context.Context, q *question, p *endpoint, err error) *Error {
	e := &Error{class: Unanswered, cause: err, Message: "the connection broke before the answer: " + err.Error()}
	switch {
	case ctx.Err() != nil:
		e.Message, e.cause = "given up before the answer: "+context.Cause(ctx).Error(), ctx.Err()
		if q.read() {
			e.class = Canceled
		}
	case limited.Err() != nil:
		e.Message = "no answer within " + w.timeout.String()
		w.hosts.failed(p, NoEndpoint, e.Message)
	}
	return e
}

// isDial reports whether a request failed before there was a connection.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || isCertificate(err)
}

// notUnderstood is the class of an answer that cannot be read: a write was done, perhaps.
func notUnderstood(method string) Class {
	if method == http.MethodGet {
		return Garbled
	}
	return Unanswered
}

// bareData is the data of an answer that has nothing else, as that of every list has: it is read
// once less. If anything follows the data, what is between the braces is no JSON.
func bareData(body []byte) (json.RawMessage, bool) {
	data, first := bytes.CutPrefix(body, []byte(`{"data":`))
	data, last := bytes.CutSuffix(data, []byte("}"))
	return bytes.TrimSpace(data), first && last && json.Valid(data)
}

// unwrap returns the data of an answer, or why its body is not what every good answer is: an
// object with data in it. Without this, a proxy's page in place of the answer to an order would
// count as done.
func unwrap(body []byte) (data json.RawMessage, fault string) {
	if len(body) > maxAnswer {
		return nil, fmt.Sprintf("the answer has more than %d bytes", maxAnswer)
	}
	if data, bare := bareData(body); bare {
		return data, ""
	}
	var envelope fields
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, "the answer is not from Proxmox VE: " + err.Error()
	}
	data, found := envelope["data"]
	if !found {
		return nil, "the answer is not from Proxmox VE: it has no data"
	}
	return data, ""
}

// newError reads an answer that is no good one.
func newError(res *http.Response, body []byte) *Error {
	_, reason, _ := strings.Cut(res.Status, " ")
	e := &Error{Status: res.StatusCode, Reason: clip(reason)}
	var envelope fields
	if json.Unmarshal(body, &envelope) == nil {
		e.Message = clip(envelope.text("message"))
		for name, text := range envelope.object("errors") {
			if e.Errors == nil {
				e.Errors = map[string]string{}
			}
			if len(e.Errors) < maxErrors {
				e.Errors[clip(name)] = clip(asText(text))
			}
		}
	} else if text := clip(string(body)); len(text) < maxText && !strings.HasPrefix(text, "<") {
		e.Message = text
	}
	e.read()
	e.class = classify(e)
	return e
}

// What is reported of an answer that no one can have meant to be read.
const (
	maxText   = 2000
	maxErrors = 100
)

// clip cuts a text to what fits in a log, without what a terminal would take for an order.
func clip(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// said is what the server said, or nothing.
func (e *Error) said() string {
	if e == nil {
		return ""
	}
	return e.Text()
}

// hide takes out of the texts what must not be in a log: the token, and passwords that the server
// repeats when it does not like them.
func (e *Error) hide(p pass, q *question) {
	_, secret, _ := strings.Cut(p.token, "=")
	secrets := []string{secret}
	var sent map[string]json.RawMessage
	if json.Unmarshal(q.body, &sent) == nil {
		for _, name := range []string{"cipassword", "password"} {
			secrets = append(secrets, asText(sent[name]))
		}
	}
	for _, s := range secrets {
		if s == "" {
			continue
		}
		e.Reason, e.Message = strings.ReplaceAll(e.Reason, s, "***"), strings.ReplaceAll(e.Message, s, "***")
		for name, text := range e.Errors {
			e.Errors[name] = strings.ReplaceAll(text, s, "***")
		}
	}
}
