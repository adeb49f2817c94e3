package kubesim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bookmarkEvery is how often a watch brings a bookmark.
const bookmarkEvery = time.Minute

// stream is an open watch, and the body of its answer. It is read by the client alone, and takes
// what it brings from the log when it is read.
type stream struct {
	server *Server
	client *Client
	table  *table
	filter filter
	asked  *request
	ctx    context.Context
	marks  bool
	ends   time.Time // by the timeout that the client asked for

	closing sync.Once
	closed  chan struct{}

	// The server's lock holds these.
	broken bool
	from   int64     // the version up to which all was brought
	marked time.Time // when the last bookmark came
	out    bytes.Buffer
	over   bool
	breaks time.Time // zero for never
}

// watch opens a stream, or says why not. The caller holds the lock.
func (s *Server) watch(ctx context.Context, c *Client, q *request) (*stream, answer) {
	f, err := q.filter()
	if err != nil {
		return nil, failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	starts := q.get("sendInitialEvents") == "true"
	if starts && s.nostart {
		return nil, failed(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	}
	version, _ := strconv.ParseInt(q.get("resourceVersion"), 10, 64)
	if starts && version > s.version {
		return nil, tooLarge(version, s.version)
	}
	now := time.Now()
	w := &stream{
		server: s, client: c, table: q.table, filter: f, asked: q, ctx: ctx, marks: q.get("allowWatchBookmarks") == "true",
		closed: make(chan struct{}), from: s.version, marked: now, ends: now.Add(time.Hour),
	}
	if seconds, _ := strconv.Atoi(q.get("timeoutSeconds")); seconds > 0 {
		w.ends = now.Add(time.Duration(seconds) * time.Second)
	}
	switch {
	case starts:
		w.begin()
		w.mark(`,"annotations":{"k8s.io/initial-events-end":"true"}`)
	case version == 0:
		w.begin()
	case version < q.table.floor:
		return nil, expired(fmt.Sprintf("too old resource version: %d (%d)", version, q.table.floor))
	default:
		w.from = version
	}
	s.streams[w] = true
	return w, answer{}
}

// begin brings all objects that there are.
func (w *stream) begin() {
	for _, o := range w.table.sorted() {
		if w.filter.matches(o) {
			w.event("ADDED", o)
		}
	}
}

func (w *stream) event(kind string, o *object) {
	fmt.Fprintf(&w.out, `{"type":%q,"object":%s}`+"\n", kind, w.asked.shown(o))
}

func (w *stream) mark(more string) {
	apiVersion, kind := w.table.apiVersion(), w.table.Name
	if w.asked.metadataOnly {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	fmt.Fprintf(&w.out, `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"%s}}}`+"\n", apiVersion, kind, w.from, more)
}

// Read returns what has come, or waits for it. A stream that the client gave up ends as a broken
// one does: client-go would pass any other error on, and wait for ever for its reader.
func (w *stream) Read(p []byte) (int, error) {
	for {
		n, wait, moved, err := w.next(p)
		if n > 0 || err != nil {
			return n, err
		}
		pause := time.NewTimer(wait)
		select {
		case <-moved:
		case <-pause.C:
		case <-w.ctx.Done():
			pause.Stop()
			return 0, io.ErrUnexpectedEOF
		case <-w.closed:
			pause.Stop()
			return 0, io.ErrUnexpectedEOF
		}
		pause.Stop()
	}
}

// next takes what there is to read, or says how long to wait for it.
func (w *stream) next(p []byte) (n int, wait time.Duration, moved chan struct{}, err error) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	faults := &w.client.faults
	switch {
	case w.broken || !w.breaks.IsZero() && !now.Before(w.breaks):
		return 0, 0, nil, io.ErrUnexpectedEOF
	case faults.Mute || faults.Hangs: // it does not end either
		return 0, time.Hour, s.moved, nil
	case w.out.Len() == 0 && w.over:
		return 0, 0, nil, io.EOF
	}
	if wait = w.bring(now, faults.Late); w.out.Len() > 0 {
		n, err = w.out.Read(p)
		return n, 0, nil, err
	}
	if w.over = !now.Before(w.ends); w.over {
		return 0, 0, nil, io.EOF
	}
	return 0, max(wait, time.Millisecond), s.moved, nil
}

// bring takes changes from the log that the client may see by now, and returns when more is due.
func (w *stream) bring(now time.Time, late time.Duration) time.Duration {
	due := min(w.ends.Sub(now), bookmarkEvery-now.Sub(w.marked))
	if !w.breaks.IsZero() {
		due = min(due, w.breaks.Sub(now))
	}
	i, _ := slices.BinarySearchFunc(w.table.log, w.from+1, func(c Change, v int64) int { return int(c.Version - v) })
	for ; i < len(w.table.log); i++ {
		c := &w.table.log[i]
		if shows := c.At.Add(late); now.Before(shows) {
			return min(due, shows.Sub(now))
		}
		w.from = c.Version
		w.pass(c)
	}
	if late == 0 {
		w.from = max(w.from, w.server.version)
	}
	if w.marks && now.Sub(w.marked) >= bookmarkEvery {
		w.marked = now
		w.mark("")
	}
	return due
}

// pass brings one change, as it is for those who see some of the objects only.
func (w *stream) pass(c *Change) {
	is, was := c.Type != "DELETED" && w.filter.matches(c.is), w.filter.matches(c.was)
	switch {
	case is && was:
		w.event("MODIFIED", c.is)
	case is:
		w.event("ADDED", c.is)
	case was && c.Type == "DELETED":
		w.event("DELETED", c.is)
	case was: // its last state that was selected, with the version of the change
		raw := make(map[string]any, len(c.was.raw))
		for key, v := range c.was.raw {
			raw[key] = v
		}
		m := map[string]any{}
		for key, v := range metaOf(c.was.raw) {
			m[key] = v
		}
		m["resourceVersion"] = strconv.FormatInt(c.Version, 10)
		raw["metadata"] = m
		w.event("DELETED", newObject(c.Key, c.Version, raw))
	}
}

// Close ends the watch.
func (w *stream) Close() error {
	w.closing.Do(func() {
		close(w.closed)
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		delete(w.server.streams, w)
	})
	return nil
}
