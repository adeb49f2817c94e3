package sim

import (
	"sort"
	"time"
)

// Curve is a level over time: straight lines between its points, and level before the first
// and after the last. Two points at the same time make a step.
type Curve []Point

// Point is a level at a time.
type Point struct {
	At    time.Duration
	Level float64
}

// Flat returns a curve that stays at one level.
func Flat(level float64) Curve { return Curve{{Level: level}} }

// At returns the level at time t; at a step, the level after it.
func (c Curve) At(t time.Duration) float64 {
	if len(c) == 0 {
		return 0
	}
	i := sort.Search(len(c), func(i int) bool { return c[i].At > t })
	if i == 0 {
		return c[0].Level
	}
	if i == len(c) {
		return c[i-1].Level
	}
	a, b := c[i-1], c[i]
	return a.Level + (b.Level-a.Level)*float64(t-a.At)/float64(b.At-a.At)
}

// flat reports whether the level never changes.
func (c Curve) flat() bool {
	for _, p := range c {
		if p.Level != c[0].Level {
			return false
		}
	}
	return true
}

// Max returns the highest level.
func (c Curve) Max() float64 {
	top := 0.0
	for _, p := range c {
		top = max(top, p.Level)
	}
	return top
}
