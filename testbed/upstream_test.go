package testbed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// In the simulated world a row whose machines cluster-autoscaler decides on is played by what stands for it, and comes out
// as the same row without that word.
func TestUnneededStandsForClusterAutoscaler(t *testing.T) {
	e, err := Parse(read(t, "experiments/upstream.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Users: []int{40}, Trials: 1}
	said, err := Run(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	upstream := 0
	for i := range e.Policies {
		if e.Policies[i].Upstream() {
			e.Policies[i].Nodes.ScaledBy = ""
			upstream++
		}
	}
	unsaid, err := Run(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(unsaid.Runs, said.Runs); diff != "" || upstream == 0 {
		t.Errorf("%d rows; without the word -, with it +:\n%s", upstream, diff)
	}
}
