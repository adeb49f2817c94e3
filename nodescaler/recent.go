package nodescaler

import (
	"slices"
	"time"
)

// Recent are the last few times of a kind, such as how long machines have taken to come.
type Recent []time.Duration

// RecentKept is how many are: enough for a quantile, few enough to follow what becomes another.
const RecentKept = 32

// Add takes one in, and forgets the oldest of too many.
func (r *Recent) Add(d time.Duration) {
	if len(*r) == RecentKept {
		*r = slices.Delete(*r, 0, 1)
	}
	*r = append(*r, max(d, 0))
}

// Usual is what nine in ten stayed within; 0 if there are none.
func (r Recent) Usual() time.Duration {
	if len(r) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r))
	return sorted[(9*len(sorted)+9)/10-1]
}
