package plane

import (
	"sort"
	"time"
)

// outcome is how requests ended that are counted together.
type outcome struct {
	code  int
	flags string
}

// series is a histogram: how many values there were up to each edge and beyond the last, not
// cumulated, and their sum.
type series struct {
	edges  []float64
	counts []uint64
	sum    float64
}

// lateEdges are in seconds.
var lateEdges = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}

func newSeries(edges []float64) *series {
	return &series{edges: edges, counts: make([]uint64, len(edges)+1)}
}

func (s *series) observe(v float64) {
	s.counts[sort.SearchFloat64s(s.edges, v)]++
	s.sum += v
}

// cumulated is how many values there were in all, and up to each edge.
func (s *series) cumulated() (total uint64, upTo map[float64]uint64) {
	upTo = make(map[float64]uint64, len(s.edges))
	for i, n := range s.counts {
		total += n
		if i < len(s.edges) {
			upTo[s.edges[i]] = total
		}
	}
	return total, upTo
}

// record counts a request.
func record(all map[outcome]*series, o outcome, edges []float64, took time.Duration) {
	if all[o] == nil {
		all[o] = newSeries(edges)
	}
	all[o].observe(float64(took) / float64(time.Millisecond))
}
