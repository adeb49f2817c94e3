// Package capacity throws dice.
package capacity

import (
	"crypto/rand"
	old "math/rand"
	dice "math/rand/v2"
)

// Throw throws.
func Throw(r *dice.Rand) int {
	old.Seed(1)
	old.Shuffle(0, nil)
	f := dice.IntN
	_ = dice.N(6)
	_, _ = rand.Read(nil)
	return f(6) + r.IntN(6) + old.New(old.NewSource(1)).Intn(6)
}
