package kube

import (
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// signal is a bell that can be waited for. It rings at once, and then at most once in a while,
// however often it is pulled: a hundred pods that turn unschedulable together are one reason to
// look.
type signal struct {
	c     chan struct{}
	every time.Duration

	mu      sync.Mutex
	last    time.Time
	waiting bool
}

func newSignal(every time.Duration) *signal {
	return &signal{c: make(chan struct{}, 1), every: every}
}

func (s *signal) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting {
		return
	}
	wait := s.every - time.Since(s.last)
	if s.last.IsZero() || wait <= 0 {
		s.sound()
		return
	}
	s.waiting = true
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = false
		s.sound()
	})
}

func (s *signal) sound() {
	s.last = time.Now()
	select {
	case s.c <- struct{}{}:
	default: // the last one has not been heard yet
	}
}

// podCame rings when a pod turns unschedulable.
func (s *signal) podCame(before, after any, first bool) {
	is, ok := after.(*kept.Pod)
	was, _ := before.(*kept.Pod)
	if ok && !first && is.Said.Unschedulable && !is.Said.Daemon && !is.IsPlaceholder() && (was == nil || !was.Said.Unschedulable) {
		s.ring()
	}
}
