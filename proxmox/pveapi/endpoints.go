package pveapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// endpoint is one host that serves the API.
type endpoint struct {
	url      string // https://host:8006
	failures int    // in a row
	until    time.Time
	class    Class // why it is left alone
	why      string
	doubts   int // answers since the last proof that it is one of the cluster's majority
}

// endpoints are the hosts of the cluster and how they are.
type endpoints struct {
	now func() time.Time

	mu  sync.Mutex
	all []*endpoint
}

const (
	firstRest = time.Second
	maxRest   = 30 * time.Second
	// trialRest keeps a second request from trying an endpoint that another request is trying.
	trialRest = connectTimeout
)

func newEndpoints(urls []string, now func() time.Time) *endpoints {
	e := &endpoints{now: now}
	for _, u := range urls {
		e.all = append(e.all, &endpoint{url: strings.TrimSuffix(u, "/")})
	}
	return e
}

func (e *endpoints) urls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	urls := make([]string, len(e.all))
	for i, p := range e.all {
		urls[i] = p.url
	}
	return urls
}

// order returns the endpoints to ask, the best first. What failed is skipped for a growing while.
// After it, one read goes there first, so that an endpoint that is well again is found to be, and a
// write goes where answers came from. Nothing is returned while all are skipped.
func (e *endpoints) order(read bool) []*endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	var well, due []*endpoint
	for _, p := range e.all {
		// More than the longest rest is left only when the clock was set back.
		switch left := p.until.Sub(now); {
		case p.failures == 0:
			well = append(well, p)
		case left <= 0 || left > maxRest:
			due = append(due, p)
		}
	}
	slices.SortStableFunc(well, func(a, b *endpoint) int { return a.doubts - b.doubts })
	if !read && len(well) > 0 {
		return append(well, due...) // most likely tries none of those due
	}
	for _, p := range due {
		p.until = now.Add(trialRest)
	}
	return append(due, well...)
}

// failed notes that an endpoint could not be reached, and reports whether that is news.
func (e *endpoints) failed(p *endpoint, class Class, why string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.until = e.now().Add(min(firstRest<<min(p.failures, 10), maxRest))
	p.failures++
	news := p.class != class
	p.class, p.why = class, why
	return news
}

// answered notes that an endpoint is there.
func (e *endpoints) answered(p *endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.failures, p.class, p.why = 0, "", ""
}

// doubt notes that an endpoint seems to have lost the others, and comes after them.
func (e *endpoints) doubt(p *endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.doubts++
}

// believe notes that an endpoint is one of the cluster's majority.
func (e *endpoints) believe(p *endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.doubts = 0
}

// why says why no one can be asked: for their certificates, if it is nothing else.
func (e *endpoints) why() (Class, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	class := Certificate
	var said []string
	for _, p := range e.all {
		if p.failures > 0 {
			said = append(said, fmt.Sprintf("%s: %s", p.url, p.why))
		}
		if p.class != Certificate {
			class = NoEndpoint
		}
	}
	return class, strings.Join(said, "; ")
}
