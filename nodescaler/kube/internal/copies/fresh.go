package copies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// How it is known that the copies are up to date. Three things must hold:
//
//   - The API server says it is ready, asked a few times within StaleAfter, and more often while it
//     does not. A server that hangs, or has lost its database, does not.
//   - The watch of every kind is open, and all that it had to catch up on has arrived. An
//     interruption shorter than StaleAfter does not count: every watch ends now and then and is
//     opened again.
//   - The watch is not silent. API servers send a bookmark about every minute whether or not
//     anything happened; silentAfter without a byte is a watch that leads nowhere.
//
// All of it is measured by the monotonic clock, so that a clock that is set changes nothing.
const (
	staleAfter  = 30 * time.Second
	silentAfter = 4 * time.Minute
)

// ErrStale is returned by a read while the copies are incomplete or may be stale.
var ErrStale = errors.New("the picture of the cluster may be old")

// watches follows the watches that a client has open, by path.
type watches struct {
	next  http.RoundTripper
	under string        // the path that the API is served below; mostly none
	after time.Duration // StaleAfter
	gate  *gate

	mu      sync.Mutex
	byPath  map[string]*watched
	readyAt time.Time // when the API server last said so, for the second time in a row
	once    bool      // it has said so once since it did not
	doubted bool      // and no more than once
	unready error
}

// watched is the watch of one path.
type watched struct {
	open int // two for a moment, when one takes over from another
	// ended is when the last one ended; zero while one is open, and once a list was asked for.
	ended  time.Time
	opened time.Time
	heard  time.Time // when bytes last came
	good   time.Time // when everything was known to have arrived; zero for never
	// A watch that begins with a list is good once the list has arrived: when version is another
	// than it was.
	listing bool
	version string
	synced  func() (version string, ok bool)
	denied  bool // the last list or watch was forbidden
}

func newWatches(after time.Duration) *watches {
	if after == 0 {
		after = staleAfter
	}
	return &watches{after: after, gate: newGate(), byPath: map[string]*watched{}}
}

// settle is how long a watch that was opened again may take to bring what was missed.
func (w *watches) settle() time.Duration { return w.after / 15 }

// follow has a path be part of the picture. synced returns the version that its copies have, and
// whether they have any.
func (w *watches) follow(path string, synced func() (string, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at(path).synced = synced
}

// heed has it be noted whether what is at a path may be read.
func (w *watches) heed(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at(path)
}

func (w *watches) denied(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byPath[path] != nil && w.byPath[path].denied
}

// note takes in with which status a read was answered.
func (w *watches) note(path string, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.byPath[path]; a != nil && (status == http.StatusOK || status == http.StatusForbidden) {
		a.denied = status == http.StatusForbidden
	}
}

func (w *watches) follows(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.byPath[path]
	return a != nil && a.synced != nil
}

func (w *watches) at(path string) *watched {
	if w.byPath[path] == nil {
		w.byPath[path] = &watched{}
	}
	return w.byPath[path]
}

// path is the path of a request in the API.
func (w *watches) path(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, w.under) }

// RoundTrip passes a request on, and looks after the answer if it is a watch.
func (w *watches) RoundTrip(r *http.Request) (*http.Response, error) {
	path, query := w.path(r), r.URL.Query()
	response, err := w.guarded(r)
	if err == nil && r.Method == http.MethodGet {
		w.note(path, response.StatusCode)
	}
	if err != nil || response.StatusCode != http.StatusOK || query.Get("watch") == "" {
		return response, err
	}
	w.opened(path, query.Get("sendInitialEvents") == "true")
	response.Body = &watchBody{ReadCloser: response.Body, watches: w, path: path}
	return response, nil
}

func (w *watches) opened(path string, listing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.at(path)
	now := time.Now()
	a.update(now, w.settle())
	a.open++
	a.ended = time.Time{}
	a.opened, a.heard, a.listing = now, now, listing
	if a.synced != nil {
		a.version, _ = a.synced()
	}
}

func (w *watches) heard(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at(path).heard = time.Now()
}

func (w *watches) closed(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.at(path)
	now := time.Now()
	a.update(now, w.settle())
	if a.open--; a.open == 0 {
		a.ended = now
	}
}

// update moves good on to now if everything has arrived.
func (a *watched) update(now time.Time, settle time.Duration) {
	if a.synced == nil || a.open == 0 || now.Sub(a.opened) < settle || now.Sub(a.heard) > silentAfter {
		return
	}
	version, ok := a.synced()
	if !ok || a.listing && version == a.version {
		return
	}
	a.listing, a.good = false, now
}

// fresh returns nil, or what is not known to be up to date.
func (w *watches) fresh() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	var worst error
	var longest time.Duration
	for _, path := range slices.Sorted(maps.Keys(w.byPath)) {
		a := w.byPath[path]
		if a.synced == nil {
			continue
		}
		if _, ok := a.synced(); !ok {
			return fmt.Errorf("%w: %s has not been read yet", ErrStale, path)
		}
		a.update(now, w.settle())
		if a.good.IsZero() { // the first list has arrived just now
			a.good = now
		}
		if age := now.Sub(a.good); age > w.after && age > longest {
			longest, worst = age, fmt.Errorf("%w: %s has not been followed for %s", ErrStale, path, age.Round(time.Second))
		}
	}
	if worst == nil && now.Sub(w.readyAt) > w.after {
		return w.silent(now)
	}
	return worst
}

// silent says how long the API server has not been ready, and what it said instead.
func (w *watches) silent(now time.Time) error {
	how := "yet"
	if !w.readyAt.IsZero() {
		how = "for " + now.Sub(w.readyAt).Round(time.Second).String()
	}
	if w.unready == nil {
		return fmt.Errorf("%w: the API server has not said %s that it is ready", ErrStale, how)
	}
	return fmt.Errorf("%w: the API server has not said %s that it is ready: %w", ErrStale, how, w.unready)
}

// ask asks the API server again and again whether it is ready, until the context is done.
func (w *watches) ask(ctx context.Context, client rest.Interface) {
	for {
		asking, cancel := context.WithTimeout(ctx, w.after/6)
		err := client.Get().AbsPath("/readyz").MaxRetries(0).Do(asking).Error()
		cancel()
		w.answered(err)
		select {
		case <-ctx.Done():
			return
		case <-w.gate.hurry:
		case <-time.After(w.pause()):
		}
	}
}

// pause is how long the next question waits: not long while the answer is awaited by others.
func (w *watches) pause() time.Duration {
	shut := w.gate.isShut()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case shut || !w.once:
		return w.after / 30
	case w.doubted: // the second answer counts
		return w.settle()
	}
	return w.after / 6
}

// answered takes in one answer. After a no, one yes is not enough: the watches may still be
// catching up.
func (w *watches) answered(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.doubted = err != nil || !w.once && !w.readyAt.IsZero(); !w.doubted {
		w.readyAt = time.Now()
	}
	w.once, w.unready = err == nil, err
	if err == nil {
		w.gate.open()
	} else {
		w.gate.close()
	}
}

// watchBody reports when bytes come, and when the stream has ended.
type watchBody struct {
	io.ReadCloser
	watches *watches
	path    string
	closed  sync.Once
}

func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watches.heard(b.path)
	}
	if err != nil {
		b.end()
	}
	return n, err
}

// Close ends the watch.
func (b *watchBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

func (b *watchBody) end() { b.closed.Do(func() { b.watches.closed(b.path) }) }

// guarded passes a request on: one for copies once the gate is open. If it is not answered, or by a
// server that has a fault of its own, those that follow wait.
func (w *watches) guarded(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || !w.follows(w.path(r)) {
		return w.next.RoundTrip(r)
	}
	if err := w.gate.wait(r.Context()); err != nil {
		return nil, err
	}
	if w.beginsAnew(r) {
		return gone(r), nil
	}
	response, err := w.next.RoundTrip(r)
	if err != nil && r.Context().Err() == nil || err == nil && response.StatusCode >= http.StatusInternalServerError {
		w.gate.close()
	}
	return response, err
}

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
	a := w.at(w.path(r))
	if a.ended.IsZero() || time.Since(a.ended) < w.interruption() {
		return false
	}
	a.ended = time.Time{}
	return true
}
