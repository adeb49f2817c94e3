package sim

import "time"

// Minutes makes a curve of requests a second of a recorded load: each minute at its own mean rate.
func Minutes(counts []float64) Curve {
	c := make(Curve, 0, 2*len(counts))
	for i, n := range counts {
		at, rate := time.Duration(i)*time.Minute, n/60
		c = append(c, Point{at, rate}, Point{at + time.Minute, rate})
	}
	return c
}

// Scaled returns the curve with every level multiplied.
func (c Curve) Scaled(by float64) Curve {
	out := make(Curve, len(c))
	for i, p := range c {
		out[i] = Point{p.At, p.Level * by}
	}
	return out
}

// From returns the curve as it goes on from a time, which becomes its start.
func (c Curve) From(start time.Duration) Curve {
	out := Curve{{0, c.At(start)}}
	for _, p := range c {
		if p.At > start {
			out = append(out, Point{p.At - start, p.Level})
		}
	}
	return out
}

// Until returns the curve's points up to a time. Its last level holds on.
func (c Curve) Until(end time.Duration) Curve {
	out := Curve{}
	for _, p := range c {
		if p.At < end {
			out = append(out, p)
		}
	}
	return out
}
