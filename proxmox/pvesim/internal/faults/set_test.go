package faults

import (
	"testing"
	"time"
)

func TestSlownessHasItsQuantiles(t *testing.T) {
	all, err := Parse("slow start p50=40s p99=3m")
	if err != nil {
		t.Fatal(err)
	}
	f := (&Set{Seed: 1}).Add(all[0], time.Time{})
	const n = 4000
	below := map[time.Duration]int{40 * time.Second: 0, 3 * time.Minute: 0}
	for range n {
		f.Seen++
		d := f.Delay()
		for limit := range below {
			if d <= limit {
				below[limit]++
			}
		}
	}
	if half := float64(below[40*time.Second]) / n; half < 0.47 || half > 0.53 {
		t.Errorf("%.3f are at most 40 s", half)
	}
	if most := float64(below[3*time.Minute]) / n; most < 0.98 || most > 0.998 {
		t.Errorf("%.3f are at most 3 min", most)
	}
}
