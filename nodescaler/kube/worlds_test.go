package kube

import (
	"flag"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/race"
)

var (
	worldsFrom = flag.Uint64("worlds.from", 1, "the first seed of the worlds")
	worldsMany = flag.Int("worlds.n", 4, "how many worlds there are")
	worldsOnce = flag.Bool("worlds.once", false, "end at the first world that goes wrong, as it is")
)

// quiet has Kubernetes' libraries log nothing.
var quiet = sync.OnceFunc(func() { LogTo(slog.New(slog.DiscardHandler)) })

// TestWorlds has many worlds pass. Of one that goes wrong it prints what happened, with as few
// events as still go wrong.
func TestWorlds(t *testing.T) {
	quiet()
	many := *worldsMany
	if race.On {
		many = min(many, 1)
	}
	did := map[string]int{}
	for i := range many {
		seed := *worldsFrom + uint64(i)
		events := eventsOfWorld(seed)
		w := live(t, seed, events)
		for what, n := range w.did {
			did[what] += n
		}
		if w.isWrong() && *worldsOnce {
			t.Fatalf("seed %d: %s", seed, strings.Join(w.wrong, "\n"))
		} else if w.isWrong() {
			events, w = shrinkWorld(t, seed, events, w)
			t.Errorf("seed %d: %s\nevents: %v\n%s", seed, strings.Join(w.wrong, "\n"), events, strings.Join(w.log, "\n"))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(did)) {
		t.Logf("%8d %s", did[what], what)
	}
}
