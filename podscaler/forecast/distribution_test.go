package forecast

import (
	"math/rand/v2"
	"testing"
)

// Rounding led past the end of a line once: a quantile was above the next one by its last digit.
func TestALineBetweenQuantilesEndsAtTheUpperOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		low := r.Float64()
		d := Distribution{Known: true, levels: []float64{0.9, 0.95}, values: []float64{low, (2 + 2*r.Float64()) * low}}
		if got := d.Quantile(0.95); got > d.values[1] {
			t.Fatalf("the 95 %% quantile is %v, was set to %v", got, d.values[1])
		}
	}
}
