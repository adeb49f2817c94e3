// Package loop draws order ids; run.go is excused from the clock, not from this.
package loop

import "math/rand/v2"

var id = rand.Uint64()
