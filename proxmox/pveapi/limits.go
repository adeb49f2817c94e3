package pveapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// Each host does the work in three workers. A question to a guest agent that is not there holds one
// of them for three seconds, and a few of those together make everything else wait or fail.
const (
	maxAgentCalls = 1
	maxWrites     = 3
)

// limits are how much is asked of each host at a time.
type limits struct {
	mu    sync.Mutex
	hosts map[string]*slots
}

type slots struct{ agent, write chan struct{} }

// enter waits for room at the host that a call is for, and returns what leaves it.
func (l *limits) enter(ctx context.Context, method, path string) (leave func(), err error) {
	slot := l.slot(method, path)
	if slot == nil {
		return func() {}, nil
	}
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	default:
	}
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, canceled(ctx, method, path)
	}
}

// slot returns where the call queues, or nil.
func (l *limits) slot(method, path string) chan struct{} {
	agent := strings.Contains(path, "/agent/")
	if method == http.MethodGet && !agent {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	host := hostOf(path)
	if l.hosts == nil {
		l.hosts = map[string]*slots{}
	}
	s := l.hosts[host]
	if s == nil {
		s = &slots{agent: make(chan struct{}, maxAgentCalls), write: make(chan struct{}, maxWrites)}
		l.hosts[host] = s
	}
	if agent {
		return s.agent
	}
	return s.write
}

// hostOf returns the host that a path is about, or nothing.
func hostOf(path string) string {
	rest, found := strings.CutPrefix(path, "/nodes/")
	if !found {
		return ""
	}
	host, _, _ := strings.Cut(rest, "/")
	return host
}
