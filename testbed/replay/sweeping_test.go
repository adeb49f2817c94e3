package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestASweepInPiecesIsTheSweep(t *testing.T) {
	const train = 600
	load := Diurnal(1, 3).Times(60)
	values := []float64{0.8, 0.9}
	for _, name := range []string{"oracle", "hpa", "hpa-plus", "ar"} {
		k := must.Get(Find(name))(t)
		want := must.Get(Sweep(load, train, k, Default(), values))(t)
		heard := 0
		s := must.Get(NewSweep(k, Default(), values, func(i int) Hear {
			if i == 0 {
				return nil
			}
			return func(i int, p capacity.Period, _, _ string) {
				if heard != i || p.Arrived != load.Counts[train+i]/60 {
					t.Fatalf("%s: minute %d has %v, after %d", name, i, p.Arrived, heard)
				}
				heard++
			}
		}))(t)
		must.Do(t, s.Warm(load.Counts[:train]))
		for at := train; at < len(load.Counts); at += 77 {
			must.Do(t, s.Feed(load.Counts[at:min(at+77, len(load.Counts))]...))
		}
		got := s.Results()
		for i := range got {
			got[i].Trace = want[i].Trace // pieces have no name
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if heard != len(load.Counts)-train {
			t.Errorf("%s: %d minutes were heard of", name, heard)
		}
	}
}

func TestASweepOfWhatCannotBePlayedIsRefused(t *testing.T) {
	k := must.Get(Find("hpa-v2"))(t)
	if _, err := NewSweep(k, Default(), []float64{0.9, 1.2}, nil); err == nil {
		t.Error("use above 1 is a target")
	}
}
