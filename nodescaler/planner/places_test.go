package planner

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func TestFirstFitFindsWhatLookingAtEveryPlaceFinds(t *testing.T) {
	amount := func(t *rapid.T, what string, low int) pricing.Resources {
		return pricing.Resources{CPU: pricing.MilliCPU(rapid.IntRange(low, 4).Draw(t, what)), Memory: pricing.Bytes(rapid.IntRange(low, 4).Draw(t, what))}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 9).Draw(t, "places")
		f := newFirstFit(n)
		rooms := make([]room, n)
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			if n == 0 {
				break
			}
			i := rapid.IntRange(0, n-1).Draw(t, "place")
			rooms[i] = sample.OneOf(t, "room", none, room{amount(t, "free", -1), rapid.IntRange(0, 2).Draw(t, "slots")})
			f.set(i, rooms[i])
		}
		from, p := rapid.IntRange(0, n+1).Draw(t, "from"), amount(t, "pod", 0)
		want := -1
		for i := from; i < n && want < 0; i++ {
			if rooms[i].takes(p) {
				want = i
			}
		}
		if got := f.next(from, p); got != want {
			t.Fatalf("next(%d, %+v) = %d, want %d of %+v", from, p, got, want, rooms)
		}
	})
}

func TestMovesThatFailLeaveEverythingAsItWas(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("x", "w-1", 300, 1)
	x := nodescaler.NewIndex(&w.Snapshot)
	s := newPlaces(x, nodescaler.NewDomains(x), func(*nodescaler.NodeLoad) bool { return true }, func(n *nodescaler.NodeLoad) nodescaler.Used { return n.Used })
	pod := func(cpu pricing.MilliCPU) *nodescaler.Pod {
		return &nodescaler.Pod{Requests: pricing.Resources{CPU: cpu}}
	}
	if _, stuck := s.move(x.Nodes[0].Node, []*nodescaler.Pod{pod(1400), pod(1400), pod(700)}); stuck == nil || stuck.Requests.CPU != 700 {
		t.Fatalf("stuck is %+v", stuck)
	}
	to, stuck := s.move(x.Nodes[0].Node, []*nodescaler.Pod{pod(1500), pod(1800)})
	if stuck != nil || len(to) != 2 || s.taken["w-1"] != 1 || s.taken["w-2"] != 1 {
		t.Fatalf("after a move that failed, the whole room is not there: %v, %+v, %v", to, stuck, s.taken)
	}
}

// A place takes what fits exactly, and what asks for nothing where too much is promised.
func TestWhatAPlaceTakes(t *testing.T) {
	asks := func(cpu pricing.MilliCPU, memory pricing.Bytes) pricing.Resources {
		return pricing.Resources{CPU: cpu, Memory: memory}
	}
	for _, c := range []struct {
		name string
		free pricing.Resources
		pods int
		asks pricing.Resources
		want bool
	}{
		{"what fits exactly", asks(100, 10), 1, asks(100, 10), true},
		{"too much CPU", asks(100, 10), 1, asks(101, 10), false},
		{"too much memory", asks(100, 10), 1, asks(100, 11), false},
		{"one pod too many", asks(100, 10), 0, asks(0, 0), false},
		{"nothing where nothing is free", asks(0, 0), 1, asks(0, 0), true},
		{"no CPU where too much is promised", asks(-1, 10), 1, asks(0, 10), true},
		{"no memory where too much is promised", asks(100, -1), 1, asks(100, 0), true},
		{"memory where too much is promised", asks(100, -1), 1, asks(0, 1), false},
	} {
		if got := (room{c.free, c.pods}).takes(c.asks); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// Nodes with other taints are no place for a pod that tolerates those of one.
func TestAPodIsPlacedByTheTaintsOfEachNode(t *testing.T) {
	taint := func(key string) func(*nodescaler.Node) {
		return func(n *nodescaler.Node) { n.Taints = []nodescaler.Taint{{Key: key, Effect: "NoSchedule"}} }
	}
	w := sample.New().Node("n1", "pve1", taint("gpu")).Node("n2", "pve2", taint("db")).Pod("x", "n1", 100, 100)
	s := scanOf(w)
	for key, want := range map[string]string{"gpu": "n1", "db": "n2", "ssd": ""} {
		at, found := s.places.find(&nodescaler.Pod{Tolerations: []nodescaler.Toleration{{Key: key}}})
		if found != (want != "") || found && at.node() != want {
			t.Errorf("%s: found %t, want a place on %q", key, found, want)
		}
	}
}
