package forecast

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTheLastErrorsAreKeptInTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 8).Draw(t, "window")
		f := newFollower(1, window, 0.005, coverage)
		errors := rapid.SliceOfN(rapid.SampledFrom([]float64{-30, -1, 0, 0.5, 2, 30}), 1, 40).Draw(t, "errors")
		for i, s := range errors {
			f.keep(s)
			want := slices.Clone(errors[max(0, i+1-window) : i+1])
			if slices.Sort(want); !slices.Equal(f.sorted, want) {
				t.Fatalf("after %v the errors are %v, want %v", errors[:i+1], f.sorted, want)
			}
		}
	})
}
