package testbed

import "github.com/plimsoll/plimsoll/testbed/sim"

// Thrash is how many replicas a run moved for nothing: the sum of all its changes, less the
// longest way that turns at most twice between the places where the run has been, in their
// order.
//
// A rise, a fall, a hump, a dip, and a dip with a hump are therefore free, however high they
// are; every further swing counts, there and back. Many small changes in one direction count
// like one large one. A load that swings needs replicas that swing, so the number compares
// policies under the same load; it is no measure across loads.
func Thrash(start int, changes []sim.Change) int {
	been := []int{start}
	moved := 0
	for _, c := range changes {
		moved += distance(been[len(been)-1], c.To)
		been = append(been, c.To)
	}
	longest, end := 0, been[len(been)-1]
	for i, first := range been {
		for _, second := range been[i:] {
			longest = max(longest, distance(start, first)+distance(first, second)+distance(second, end))
		}
	}
	return moved - longest
}

func distance(a, b int) int { return max(a-b, b-a) }
