package testbed

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// In the simulated world a row whose machines cluster-autoscaler decides on is played by what
// plays it, and comes out as the same row without that word.
func TestUnneededStandsForClusterAutoscaler(t *testing.T) {
	e := must.Get(Parse(read(t, "experiments/upstream.yaml")))(t)
	o := Options{Users: []int{40}, Trials: 1}
	said := must.Get(Run(t.Context(), e, o))(t)
	upstream := 0
	for i := range e.Policies {
		if e.Policies[i].Upstream() {
			e.Policies[i].Nodes.ScaledBy = ""
			upstream++
		}
	}
	unsaid := must.Get(Run(t.Context(), e, o))(t)
	if diff := cmp.Diff(unsaid.Runs, said.Runs); diff != "" || upstream == 0 {
		t.Errorf("%d rows; without the word -, with it +:\n%s", upstream, diff)
	}
}
