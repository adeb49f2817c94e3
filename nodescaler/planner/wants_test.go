package planner

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestNumbersHaveTheOrderOfTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 2500).Draw(t, "n")
		var got, want []string
		for i := range numbers(n) {
			got = append(got, strconv.Itoa(i))
		}
		for i := range n {
			want = append(want, strconv.Itoa(i+1))
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
