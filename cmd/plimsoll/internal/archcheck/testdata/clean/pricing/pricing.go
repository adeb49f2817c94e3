// Package pricing is a clean leaf.
package pricing

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"gonum.org/v1/gonum/stat"
)

// Draw takes the generator it is handed; here rand is a parameter and no package.
func Draw(rand *rand.Rand, at time.Time) string {
	return fmt.Sprint(rand.IntN(6), at.Add(time.Minute), stat.Mean(nil, nil), url.PathEscape("/"))
}

// NewRand makes a generator of its own.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

type wall struct{}

// Now is a method of ours and reads no clock.
func (wall) Now() time.Time { return time.Unix(0, 0) }

// At shadows a package by a variable.
func At() time.Time {
	time := wall{}
	return time.Now()
}
