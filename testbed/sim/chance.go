package sim

import "math/rand/v2"

// draw takes the CPU seconds of one request.
func (d Demand) draw(rng *rand.Rand) float64 {
	s := d.Mean.Seconds()
	if d.Spread == 0 {
		return s
	}
	return s * (1 + d.Spread*(2*rng.Float64()-1))
}
