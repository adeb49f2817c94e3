package testbed

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

// through is the changes that lead through the given replicas, in order.
func through(replicas ...int) (start int, changes []sim.Change) {
	for i := 1; i < len(replicas); i++ {
		changes = append(changes, sim.Change{From: replicas[i-1], To: replicas[i]})
	}
	return replicas[0], changes
}

func TestThrashCountsSwingsAndNotTrends(t *testing.T) {
	for _, c := range []struct {
		name     string
		replicas []int
		want     int
	}{
		{"nothing happens", []int{3}, 0},
		{"a rise in steps", []int{1, 3, 8, 12}, 0},
		{"a fall in steps", []int{12, 7, 1}, 0},
		{"a hump", []int{2, 9, 20, 11, 3}, 0},
		{"a dip", []int{20, 4, 18}, 0},
		{"a rise that overshoots and comes back", []int{1, 48, 7}, 0},
		{"a dip, then a hump", []int{10, 4, 20, 9}, 0},
		{"a hump, then a dip", []int{10, 20, 4, 9}, 0},
		{"one step back on the way up", []int{1, 5, 3, 9}, 0},
		{"two steps back on the way up", []int{1, 5, 3, 9, 8, 12}, 2},
		{"a second, smaller hump", []int{1, 9, 1, 5, 1}, 8},
		{"to and fro", []int{2, 4, 2, 4, 2}, 4},
		{"a limit cycle", []int{1, 25, 2, 25, 2, 25, 2}, 92},
		{"changes to the same", []int{5, 5, 5}, 0},
	} {
		if start, changes := through(c.replicas...); Thrash(start, changes) != c.want {
			t.Errorf("%s %v: thrash is %d, want %d", c.name, c.replicas, Thrash(start, changes), c.want)
		}
	}
}

func TestThrashKeepsItsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 20).Draw(t, "replicas")
		start, changes := through(replicas...)
		got := Thrash(start, changes)
		if got < 0 {
			t.Fatalf("negative: %d", got)
		}
		back := slices.Clone(replicas)
		slices.Reverse(back)
		if start, changes := through(back...); Thrash(start, changes) != got {
			t.Fatalf("%d forwards, %d backwards", got, Thrash(start, changes))
		}
		moved := slices.Clone(replicas)
		for i := range moved {
			moved[i] = 3*moved[i] + 7
		}
		if start, changes := through(moved...); Thrash(start, changes) != 3*got {
			t.Fatalf("%d, and three times as large %d", got, Thrash(start, changes))
		}
		fine := []int{replicas[0]}
		for i := 1; i < len(replicas); i++ {
			fine = append(fine, (replicas[i-1]+replicas[i])/2, replicas[i])
		}
		if start, changes := through(fine...); Thrash(start, changes) != got {
			t.Fatalf("%d in large steps, %d in small ones", got, Thrash(start, changes))
		}
		// The slow twin walks one replica at a time.
		most := 0
		for i := range replicas {
			for j := i; j < len(replicas); j++ {
				most = max(most, length([]int{start, replicas[i], replicas[j], replicas[len(replicas)-1]}))
			}
		}
		if want := length(replicas) - most; got != want {
			t.Fatalf("thrash is %d, want %d", got, want)
		}
	})
}

func length(replicas []int) int {
	sum := 0
	for i := 1; i < len(replicas); i++ {
		for n := replicas[i-1]; n != replicas[i]; {
			if n < replicas[i] {
				n++
			} else {
				n--
			}
			sum++
		}
	}
	return sum
}
