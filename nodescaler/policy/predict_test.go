package policy

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestPredictionIsWhatWouldBeOrderedNow(t *testing.T) {
	one := pricing.DefaultBook().Rate(sample.Small, "pve1", sample.Noon)
	future := sample.New().Node("w-1", "pve1")
	future.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 1700}}, Count: 2}}
	for name, c := range map[string]struct {
		world *sample.World
		want  pricing.Rate
	}{
		"nothing waits":               {sample.New(), 0},
		"a node has room":             {sample.New().Node("w-1", "pve1").Pod("a", "", 600, 100), 0},
		"two machines are needed":     {sample.New().Several(2, "a", "", 1700, 100), 2 * one},
		"replicas to come count, too": {future, one},
	} {
		if got := Predict(nodescaler.NewIndex(&c.world.Snapshot)); got != c.want {
			t.Errorf("%s: %s an hour, want %s", name, got, c.want)
		}
	}
}
