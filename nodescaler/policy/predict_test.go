package policy

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestPredictionIsWhatWouldBeOrderedNow(t *testing.T) {
	one := pricing.DefaultBook().Rate(small, "pve1", noon)
	future := aWorld().node("w-1", "pve1")
	future.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 1700}}, Count: 2}}
	for name, c := range map[string]struct {
		world *world
		want  pricing.Rate
	}{
		"nothing waits":               {aWorld(), 0},
		"a node has room":             {aWorld().node("w-1", "pve1").pod("a", "", 600, 100), 0},
		"two machines are needed":     {aWorld().pods(2, "a", "", 1700, 100), 2 * one},
		"replicas to come count, too": {future, one},
	} {
		if got := Predict(&c.world.Snapshot); got != c.want {
			t.Errorf("%s: %s an hour, want %s", name, got, c.want)
		}
	}
}
