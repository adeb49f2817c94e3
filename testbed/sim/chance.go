package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// stream returns the stream of chance of one name. Streams of different names share nothing,
// so that one more draw in one does not shift the others.
func stream(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// draw takes a duration out of the range.
func (r Range) draw(rng *rand.Rand) time.Duration {
	if r.Max <= r.Min {
		return r.Min
	}
	return r.Min + time.Duration(rng.Int64N(int64(r.Max-r.Min)+1))
}

// draw takes the CPU seconds of one request.
func (d Demand) draw(rng *rand.Rand) float64 {
	s := d.Mean.Seconds()
	if d.Spread == 0 {
		return s
	}
	return s * (1 + d.Spread*(2*rng.Float64()-1))
}
