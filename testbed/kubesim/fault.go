package kubesim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Faults are what a client meets. With the zero value all is well. Shares are between 0 and 1.
type Faults struct {
	// Refused has nothing be reached, and Hangs nothing be answered.
	Refused, Hangs bool
	// Unready has the server answer that it is not ready.
	Unready bool
	// Errors is the share of requests that are answered with an error of the server, and Busy that
	// of those that are to come again.
	Errors, Busy float64
	// Slow is how long requests and answers each take at most.
	Slow time.Duration
	// Lost is the share of writes that are carried out without an answer.
	Lost float64
	// Crossed is the share of writes before which another client changes the object.
	Crossed float64
	// Gone is the share of watches and pages that begin too far in the past.
	Gone float64
	// Breaks is how long watches last at most before they break.
	Breaks time.Duration
	// Late is how long after a change watches bring it.
	Late time.Duration
	// Mute has watches bring nothing, and not end.
	Mute bool
	// Forbidden are kinds that the client may neither read nor write, such as deployments.apps.
	Forbidden []string
}

// String lists the faults that are set.
func (f Faults) String() string {
	var all []string
	add := func(set bool, format string, args ...any) {
		if set {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(f.Refused, "refused")
	add(f.Hangs, "hangs")
	add(f.Unready, "unready")
	add(f.Errors > 0, "errors %.2f", f.Errors)
	add(f.Busy > 0, "busy %.2f", f.Busy)
	add(f.Slow > 0, "slow %s", f.Slow)
	add(f.Lost > 0, "lost %.2f", f.Lost)
	add(f.Crossed > 0, "crossed %.2f", f.Crossed)
	add(f.Gone > 0, "gone %.2f", f.Gone)
	add(f.Breaks > 0, "breaks %s", f.Breaks)
	add(f.Late > 0, "late %s", f.Late)
	add(f.Mute, "mute")
	add(len(f.Forbidden) > 0, "forbidden %v", f.Forbidden)
	if len(all) == 0 {
		return "no fault"
	}
	return strings.Join(all, ", ")
}

// Fail has the client meet these faults from now on, and no others.
func (c *Client) Fail(f Faults) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	was := c.faults
	c.faults = f
	if f.Refused && !was.Refused || f.Breaks > 0 && was.Breaks == 0 {
		s.breakStreams(c)
	}
	close(c.changed)
	c.changed = make(chan struct{})
	s.announce()
}

// Freeze has the client's watches bring nothing more, until Fail is called. Wait until all is idle
// before a process is stopped in a bubble: controller-runtime would wait for ever with an event
// that came while its informer ended.
func (c *Client) Freeze() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.faults.Mute = true
}

// Break ends the client's watches in mid-air.
func (c *Client) Break() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.breakStreams(c)
	c.server.announce()
}

func (s *Server) breakStreams(c *Client) {
	for w := range s.streams {
		w.broken = w.broken || w.client == c
	}
}

// StreamingLists sets whether a watch can begin with a list, as it can from Kubernetes 1.34 on.
func (s *Server) StreamingLists(known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nostart = !known
}

// chance is the luck of one request: a generator of its own, that follows from the seed, from what
// is asked and from how often the client asked it before.
func (c *Client) chance(q *request) *rand.Rand {
	what := q.method + " " + q.path
	c.asked[what]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d", c.name, what, c.asked[what])
	return rand.New(rand.NewPCG(c.server.seed, h.Sum64()))
}

// luck is which faults one request meets.
type luck struct {
	refused, hangs, lost, crossed, gone bool
	before, after                       time.Duration
	answer                              *answer
	breaks                              time.Duration
	changed                             chan struct{}
}

// draw decides which faults a request meets. The caller holds the lock.
func (c *Client) draw(q *request) luck {
	r, f := c.chance(q), &c.faults
	l := luck{refused: f.Refused, hangs: f.Hangs, changed: c.changed}
	l.lost = r.Float64() < f.Lost && q.writes()
	l.crossed = r.Float64() < f.Crossed && q.writes()
	l.gone = r.Float64() < f.Gone
	if fails, busy := r.Float64() < f.Errors, r.Float64() < f.Busy; fails {
		code := []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}[r.IntN(4)]
		l.answer = &answer{code: code, body: []byte("upstream"), header: map[string]string{"Content-Type": "text/plain"}}
	} else if busy {
		a := failed(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests")
		a.header = map[string]string{"Retry-After": "1"}
		l.answer = &a
	}
	if f.Slow > 0 {
		l.before, l.after = time.Duration(r.Int64N(int64(f.Slow))), time.Duration(r.Int64N(int64(f.Slow)))
	}
	if f.Breaks > 0 {
		l.breaks = time.Duration(r.Int64N(int64(f.Breaks))) + time.Millisecond
	}
	return l
}

// forbidden reports whether the client may not do this.
func (c *Client) forbidden(q *request) bool {
	return q.table != nil && slices.Contains(c.faults.Forbidden, q.table.id())
}
