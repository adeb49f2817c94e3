package sim

import (
	"sort"
	"time"
)

// histogram is a latency histogram as a service exports it and Prometheus scrapes it: counts
// by bucket edge, seen only every so often.
type histogram struct {
	edges   []time.Duration
	counts  []uint64 // one more than edges: the last is +Inf
	every   time.Duration
	scrapes []scrape
	keep    time.Duration
}

// scrape is the counts at a time.
type scrape struct {
	at     time.Duration
	counts []uint64
}

func newHistogram(edges []time.Duration, every, keep time.Duration) *histogram {
	return &histogram{edges: edges, counts: make([]uint64, len(edges)+1), every: every, keep: keep}
}

func (h *histogram) add(latency time.Duration) {
	h.counts[sort.Search(len(h.edges), func(i int) bool { return latency <= h.edges[i] })]++
}

// scrape takes the counts down, and forgets those no window reaches back to.
func (h *histogram) scrape(now time.Duration) {
	h.scrapes = append(h.scrapes, scrape{now, append([]uint64(nil), h.counts...)})
	old := 0
	for old < len(h.scrapes)-1 && h.scrapes[old].at < now-h.keep-h.every {
		old++
	}
	h.scrapes = h.scrapes[old:]
}

// window returns the growth of each bucket over the scrapes of the window, or nil when there
// are fewer than two: what increase() has to go by.
func (h *histogram) window(now, window time.Duration) []uint64 {
	first := sort.Search(len(h.scrapes), func(i int) bool { return h.scrapes[i].at >= now-window })
	last := sort.Search(len(h.scrapes), func(i int) bool { return h.scrapes[i].at > now })
	if last-first < 2 {
		return nil
	}
	from, to := h.scrapes[first].counts, h.scrapes[last-1].counts
	grown := make([]uint64, len(to))
	for i := range to {
		grown[i] = to[i] - from[i]
	}
	return grown
}

// bucketQuantile is histogram_quantile: a straight line within the bucket that the rank
// falls into, and the highest edge for what lies beyond it. It is unknown without counts.
func bucketQuantile(q float64, edges []time.Duration, counts []uint64) (float64, bool) {
	total := uint64(0)
	for _, c := range counts {
		total += c
	}
	if total == 0 {
		return 0, false
	}
	rank := q * float64(total)
	below := 0.0
	for i, c := range counts {
		if below+float64(c) < rank || c == 0 {
			below += float64(c)
			continue
		}
		if i == len(edges) {
			return edges[i-1].Seconds(), true
		}
		low := 0.0
		if i > 0 {
			low = edges[i-1].Seconds()
		}
		return low + (edges[i].Seconds()-low)*(rank-below)/float64(c), true
	}
	return edges[len(edges)-1].Seconds(), true
}

// goodFraction is the share of requests in the buckets up to the target: exact when an edge
// is at it, too low when none is, and unknown when none is below either. Within is the edge that it
// goes up to.
func goodFraction(target time.Duration, edges []time.Duration, counts []uint64) (good float64, within time.Duration, known bool) {
	total, below := uint64(0), uint64(0)
	for i, c := range counts {
		total += c
		if i < len(edges) && edges[i] <= target {
			below, within = below+c, edges[i]
		}
	}
	if total == 0 || within == 0 {
		return 0, 0, false
	}
	return float64(below) / float64(total), within, true
}
