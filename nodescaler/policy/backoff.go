package policy

import "time"

// backoff keeps a pool from being ordered from while its machines keep failing: each time for
// twice as long, up to a limit, until it has not failed for long.
type backoff struct {
	first, longest, forget time.Duration
	length                 time.Duration
	until, failed          time.Time
}

// fail notes a failure. Several machines of one order that fail together make it no longer.
func (b *backoff) fail(now time.Time) {
	switch {
	case b.length == 0 || now.Sub(b.failed) > b.forget:
		b.length = b.first
	case !now.Before(b.until):
		b.length = min(2*b.length, b.longest)
	}
	b.failed, b.until = now, now.Add(b.length)
}

// on reports whether the pool is still left alone.
func (b *backoff) on(now time.Time) bool { return b != nil && now.Before(b.until) }
