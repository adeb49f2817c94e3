// Package timing says how long machines take, and draws it. The simulated world and the Proxmox
// emulator take their times from here, so that what was tuned in the one holds in the other.
package timing

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Machine is how long the stages of a virtual machine's life take.
type Machine struct {
	Clone  Range // from the start of a clone to a machine that starts
	Boot   Range // from there to a node that is ready
	Delete Range // from the order to delete a machine until it is gone
}

// Range is a duration drawn evenly between two bounds.
type Range struct{ Min, Max time.Duration }

// Valid reports whether there is anything to draw from.
func (r Range) Valid() bool { return r.Min >= 0 && r.Max >= r.Min }

// Draw takes a duration out of the range.
func (r Range) Draw(rng *rand.Rand) time.Duration {
	if r.Max <= r.Min {
		return r.Min
	}
	return r.Min + time.Duration(rng.Int64N(int64(r.Max-r.Min)+1))
}

// Stream returns the stream of chance of one name. Streams of different names share nothing,
// so that one more draw in one does not shift the others.
func Stream(seed uint64, name string) *rand.Rand { return rand.New(Source(seed, name)) }

// Source is what a stream draws from, for who must save how far it has come.
func Source(seed uint64, name string) *rand.PCG {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.NewPCG(seed, h.Sum64())
}
