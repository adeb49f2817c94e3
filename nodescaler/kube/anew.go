package kube

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// A watch that was interrupted for a while does not continue where it ended: it begins with a list.
// The API server may have been restored from a backup meanwhile. Its versions then go back, and a
// watch that continues from a later version misses all changes up to that version, without any
// error: what the restored server no longer has would be seen for ever.

// interruption is how long a watch may be interrupted and still continue: shorter than a restore
// takes, and longer than it takes to open a watch again that ended in the usual way.
func (w *watches) interruption() time.Duration { return w.after / 3 }

// beginsAnew reports whether a request is for a watch that must begin with a list. It does so once,
// because the watch that follows the list continues from that.
func (w *watches) beginsAnew(r *http.Request) bool {
	query := r.URL.Query()
	if query.Get("watch") == "" || query.Get("sendInitialEvents") == "true" {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.at(r.URL.Path)
	if a.ended.IsZero() || time.Since(a.ended) < w.interruption() {
		return false
	}
	a.ended = time.Time{}
	return true
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
