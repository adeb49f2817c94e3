package loop

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// A pod for which others order machines is theirs to say something of; one that their pools do not
// take either is ours.
func TestPodsThatOthersHelpAreNotUnplaced(t *testing.T) {
	shapes := []pricing.Shape{{Name: "small", CPU: 2000, Memory: 4 * pricing.GiB}}
	ours := []nodescaler.Pool{{Name: "ours", Shapes: shapes}}
	theirs := []nodescaler.Pool{{Name: "theirs", Shapes: shapes, Labels: map[string]string{"disk": "ssd"}}}
	pod := func(name string, selector map[string]string) nodescaler.Pod {
		return nodescaler.Pod{Pod: podscaler.Pod{Name: name}, Selector: selector}
	}
	pods := []nodescaler.Pod{pod("ns/ssd", map[string]string{"disk": "ssd"}), pod("ns/tape", map[string]string{"disk": "tape"})}
	future := []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/web", Selector: pods[0].Selector}, Count: 2}}
	all := []nodescaler.Unplaced{{Pods: []string{"ns/ssd"}, Count: 1}, {Pods: []string{"ns/tape"}, Count: 1}, {Workload: "ns/web", Coming: 2}}
	for _, c := range []struct {
		name          string
		pools, others []nodescaler.Pool
		want          int
	}{
		{"ours alone", ours, nil, 3},
		{"both", ours, theirs, 1},
		{"theirs alone", nil, theirs, 0},
	} {
		d := &decider{snap: nodescaler.Snapshot{Pools: c.pools, Pods: pods, Future: future}, offered: c.others}
		if is := d.unoffered(all); len(is) != c.want {
			t.Errorf("%s: %+v, want %d", c.name, is, c.want)
		}
	}
	if len(all[0].Pods) == 0 {
		t.Error("the policy's own list was changed")
	}
}
