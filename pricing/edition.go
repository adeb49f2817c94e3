package pricing

import (
	"fmt"
	"sort"
	"time"
)

// edition is a book, and since when it counts. The first one's since is zero: it counts from
// the beginning.
type edition struct {
	since time.Time
	book  *Book
}

// Reprice charges by another book from a moment on. Earlier time remains charged by the earlier
// book, and machines that run go on running. Calls must be in order of time; of two for the same
// moment the later call counts.
func (l *Ledger) Reprice(b *Book, at time.Time) error {
	at = at.Round(0)
	last := l.editions[len(l.editions)-1]
	switch {
	case at.Before(last.since):
		return fmt.Errorf("reprice at %s: prices changed at %s", stamp(at), stamp(last.since))
	case b.Unit != last.book.Unit:
		return fmt.Errorf("reprice at %s: the ledger is kept in %s, the new prices are in %s", stamp(at), last.book.Unit, b.Unit)
	}
	// Points at this very moment hold the old rate, so they are taken back too.
	l.rewind(sort.Search(len(l.events), func(i int) bool { return !l.events[i].at.Before(at) }), at.Add(-1))
	l.editions = append(l.editions, edition{since: at, book: b})
	return nil
}

// edition returns the index of the book that counts at a moment.
func (l *Ledger) edition(at time.Time) int {
	later := sort.Search(len(l.editions), func(i int) bool { return l.editions[i].since.After(at) })
	return max(later-1, 0)
}

// nextChange returns when, after a moment, prices next change: the tariff, or the book.
func (l *Ledger) nextChange(after time.Time) (time.Time, bool) {
	i := l.edition(after)
	next, ok := l.editions[i].book.NextChange(after)
	for _, e := range l.editions[i+1:] {
		if e.since.After(after) && (!ok || e.since.Before(next)) {
			next, ok = e.since, true
		}
	}
	return next, ok
}
