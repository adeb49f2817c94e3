package copies

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
)

// gate delays requests for copies while the API server does not answer. Informers back off after
// each failure, up to a minute, and would still wait long after the server is ready again. Requests
// that wait at the gate have failed once, and proceed as soon as the server is ready.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{} // nil while the gate is open; closed when it opens
	hurry chan struct{} // rung when it shuts, to have the API server asked at once
}

func newGate() *gate { return &gate{hurry: make(chan struct{}, 1)} }

// close shuts the gate.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return
	}
	g.shut = make(chan struct{})
	select {
	case g.hurry <- struct{}{}:
	default:
	}
}

// open lets all pass who wait.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// isShut reports whether requests are kept back.
func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}

// wait returns once the gate is open, or with the context's error when that ends first.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return nil
	}
	select {
	case <-shut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gone is the answer of an API server that no longer has the version from which a watch is to
// continue. Informers list anew then.
func gone(r *http.Request) *http.Response {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"the watch was interrupted for too long"}`
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)), ContentLength: int64(len(status)),
	}
}
