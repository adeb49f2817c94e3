// Package loop draws order ids.
package loop

import "math/rand/v2"

var id = rand.Uint64()
