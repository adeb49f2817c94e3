package nodescaler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFewLowersTheLargest(t *testing.T) {
	for _, c := range []struct {
		counts []int
		most   int
		want   []int
	}{
		{nil, 5, []int{}},
		{[]int{2, 3}, 5, []int{2, 3}},
		{[]int{2, 3}, 4, []int{2, 2}},
		{[]int{1, 1_000_000}, 11, []int{1, 10}},
		{[]int{1_000_000, 1_000_000, 2}, 12, []int{5, 5, 2}},
		{[]int{9, 9, 9}, 0, []int{1, 1, 1}},
		{[]int{-3, 0, 4}, 2, []int{0, 0, 2}},
	} {
		if got := Few(c.counts, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%v, at most %d: %v, want %v", c.counts, c.most, got, c.want)
		}
	}
}

// Together they are no more than most, or one each; none is more than it was; and the level is the
// highest.
func TestFewIsAsManyAsMayBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 8).Draw(t, "counts")
		most := rapid.IntRange(0, 200).Draw(t, "most")
		few, sum, level, more := Few(counts, most), 0, 0, 0
		for i, n := range few {
			if n > counts[i] || n < counts[i] && n < slices.Max(few) {
				t.Fatalf("%v of %v", few, counts)
			}
			sum, level = sum+n, max(level, n)
		}
		for _, n := range counts {
			more += min(n, level+1)
		}
		if sum > max(most, len(counts)) || more <= most && more > sum {
			t.Fatalf("%v of %v, at most %d", few, counts, most)
		}
	})
}
