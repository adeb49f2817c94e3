package pvesim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Transport answers requests without a socket. The host that is asked is the one that the URL
// names, by name or by address; 127.0.0.1 and localhost are the first. A cluster whose time follows
// the wall clock obeys the request's context; in one whose time passes only while a caller waits, a
// request is over before the caller could change its mind.
func (c *Cluster) Transport() http.RoundTripper { return transport{c} }

type transport struct{ c *Cluster }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	r, err := readRequest(req)
	if err != nil {
		return nil, err
	}
	h, err := t.c.dial(req.URL.Hostname())
	if err != nil {
		return nil, err
	}
	if r.tooLong() {
		return nil, io.EOF
	}
	answer, err := t.c.ask(req.Context(), h, r)
	if err != nil {
		return nil, err
	}
	return answer.http(req, t.c), nil
}

func readRequest(req *http.Request) (*request, error) {
	r := &request{method: req.Method, path: req.URL.EscapedPath(), query: req.URL.RawQuery, header: req.Header}
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		r.body = body
	}
	if req.ContentLength < 0 && req.Body != nil && req.Body != http.NoBody || len(r.body) > 0 && req.ContentLength == 0 {
		r.encoding = "chunked"
	}
	return r, nil
}

// tooLong reports whether the header is one on which the server hangs up.
func (r *request) tooLong() bool {
	lines, size := 1, 0
	for name, values := range r.header {
		for _, v := range values {
			lines++
			size += len(name) + len(": ") + len(v)
		}
	}
	return lines >= maxHeaderLines || size >= maxHeaderBytes
}

// ask has a request answered by a host.
func (f *front) ask(ctx context.Context, h *world.Node, r *request) (*response, error) {
	answered := make(chan *response, 1)
	serve := func() {
		var answer *response
		f.c.Do(func(p *engine.Process) { answer = f.serveAndLog(p, h, r) })
		answered <- answer
	}
	if f.c.Speed == 0 || ctx.Done() == nil {
		serve()
	} else {
		go serve()
	}
	select {
	case answer := <-answered:
		switch {
		case answer == nil: // the cluster was closed
			return nil, io.ErrUnexpectedEOF
		case answer.lost != nil:
			return nil, answer.lost
		}
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dial finds a host that is up.
func (f *front) dial(name string) (*world.Node, error) {
	var h *world.Node
	up := false
	f.c.With(func() {
		if h = f.lookUp(name); h != nil {
			up = h.Up
		}
	})
	if h == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}}
	}
	if !up {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addrOf(h), Err: syscall.EHOSTUNREACH}
	}
	return h, nil
}

func addrOf(h *world.Node) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(h.IP), 8006))
}

func (f *front) lookUp(name string) *world.Node {
	for _, h := range f.c.Nodes {
		if h.Name == name || h.IP == name {
			return h
		}
	}
	if name == "localhost" || name == "127.0.0.1" || name == "::1" {
		return f.c.Nodes[0]
	}
	return nil
}

// http is the answer as package net/http has it.
func (a *response) http(req *http.Request, c *Cluster) *http.Response {
	resp := &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, a.reason), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: a.header(c), Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}
	if a.bare {
		resp.ContentLength, resp.Body = -1, http.NoBody
	}
	resp.Close = a.status >= 400
	return resp
}

// header is what every answer says, and what this one does besides.
func (a *response) header(c *Cluster) http.Header {
	date := c.Now().UTC().Format(http.TimeFormat)
	h := http.Header{
		"Cache-Control": {"max-age=0"}, "Date": {date}, "Pragma": {"no-cache"}, "Server": {"pve-api-daemon/3.0"}, "Expires": {date},
	}
	for name, value := range map[string]string{"Content-Type": a.kind, "Content-Encoding": a.coding, "Location": a.location} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if !a.bare {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	return h
}
