//go:build lab

package incluster

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var randomSets = flag.Int("sets", 40, "how many random sets of workloads get their machines")

// known are sets of which it is known how many machines they take.
var known = map[string]struct {
	set
	machines int
}{
	"anti-affinity": {set{apps: []app{small("db", 3, apart("db", hostKey))}}, 3},
	"host-spread":   {set{apps: []app{small("web", 3, spreads("web", hostKey, 1, ", minDomains: 3"))}}, 3},
	"zone-spread":   {set{apps: []app{small("web", 3, spreads("web", zoneKey, 1, ", minDomains: 3"))}}, 3},
	"port":          {set{apps: []app{{name: "edge", replicas: 3, cpu: "100m", memory: "64Mi", port: 8080}}}, 3},
	"affinity":      {set{apps: []app{small("cache", 1, ""), small("web", 3, beside("cache", hostKey))}}, 1},
	"device":        {set{apps: []app{{name: "train", replicas: 2, cpu: "100m", memory: "64Mi", device: true}}}, 2},
	"claim":         {set{apps: []app{{name: "train", replicas: 2, cpu: "100m", memory: "64Mi", claim: true}}}, 2},
	// of 1800m
	"daemon": {set{apps: []app{{name: "big", replicas: 1, cpu: "1600m", memory: "64Mi"}}, critical: true}, 1},
}

func small(name string, replicas int, rule string) app {
	return app{name: name, replicas: replicas, cpu: "100m", memory: "64Mi", rule: rule}
}

// The scheduler has its own mind of where pods go, and does not know what a plan had in mind. What
// machines are bought for runs all the same, after two plans but in few sets. Those of which it is
// known take no machine more than they need; no machine stays empty; and nothing waits for ever
// that has a place.
func TestPodsRunOnWhatIsBoughtForThem(t *testing.T) {
	var sets []*set
	for _, name := range slices.Sorted(maps.Keys(known)) {
		s := known[name].set
		s.name = name
		sets = append(sets, &s)
	}
	for n := range *randomSets {
		sets = append(sets, draw(n))
	}
	f := newField(newWorldOn(t, pveOfSets()), sets)
	stranded := f.settles()
	plans, late, machines := map[int]int{}, []string{}, f.bought()
	for _, s := range sets {
		plans[s.plans]++
		if s.plans > 2 {
			late = append(late, s.name)
		}
	}
	if len(late) > len(sets)/8 {
		t.Errorf("more than two plans were made for each of %v", late)
	}
	f.shrinks()
	for name, want := range known {
		if s := f.sets[name]; s.bought != want.machines || s.plans > 2 {
			t.Errorf("%s: %d machines were bought by %d plans, want %d by 2 at most", name, s.bought, s.plans, want.machines)
		}
	}
	t.Logf("%d sets with %d pods, for which %d machines were bought: sets by plans %v, more than two for %v; a machine was empty for up to %s; stranded are %v",
		len(sets), len(f.podsOfSets()), machines, plans, late, f.longest, stranded)
	if f.longest > mayBeEmpty {
		t.Errorf("a machine was empty for %s, which is more than %s", f.longest, mayBeEmpty)
	}
}

// shrinks leaves one replica of each workload of those that are known, for which one machine of
// each is enough. The program is started anew with a policy that waits for seconds where another
// waits for minutes.
func (f *field) shrinks() {
	f.Helper()
	f.begins(quick)
	for name := range known {
		for _, a := range f.sets[name].apps {
			a.replicas = 1
			f.apply(a.manifests(name)[0])
		}
	}
	f.until("no machine is empty, and one machine of each set is left that is known", func() bool {
		for name := range known {
			if f.sets[name].machines != 1 {
				return false
			}
		}
		return len(f.empty) == 0
	})
}

// draw draws a set, each of whose pods has a place on machines of its own.
func draw(n int) *set {
	c := chance{rand.New(rand.NewPCG(uint64(n), 24))}
	s := &set{name: fmt.Sprintf("set-%02d", n), critical: c.one(3)}
	for i := range 2 + c.IntN(2) {
		a := app{
			name: fmt.Sprintf("app-%d", i), replicas: 1 + c.IntN(3),
			cpu:    pick(c, "50m", "100m", "250m", "500m", "750m", "1500m"),
			memory: pick(c, "64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi"),
		}
		if c.one(8) {
			a.port = 9000 + c.IntN(3)
		}
		a.device, a.claim = c.one(12), c.one(12)
		last := a.name
		if i > 0 {
			last = s.apps[i-1].name
		}
		c.rule(&a, last)
		s.apps = append(s.apps, a)
	}
	return s
}

// chance draws.
type chance struct{ *rand.Rand }

// one is true once in n times.
func (c chance) one(n int) bool { return c.IntN(n) == 0 }

func pick[T any](c chance, of ...T) T { return of[c.IntN(len(of))] }

// rule gives the app a rule about where its pods may be, or none.
func (c chance) rule(a *app, last string) {
	zone := pick(c, zones...)
	switch c.IntN(10) {
	case 0:
		a.rule = fmt.Sprintf("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{%s}]}}}",
			inZones(strings.Join(slices.Compact([]string{zone, pick(c, zones...)}), ", ")))
	case 1:
		a.rule = spreads(a.name, zoneKey, 1+c.IntN(2), pick(c, "", ", minDomains: 2", ", minDomains: 3"))
	case 2:
		a.rule = spreads(a.name, hostKey, 1+c.IntN(3), pick(c, "", ", minDomains: 3"))
	case 3:
		a.rule = apart(a.name, hostKey)
	case 4:
		a.rule = apart(last, hostKey)
	case 5:
		a.rule = beside(a.name, zoneKey)
	case 6:
		a.rule = beside(last, zoneKey)
	case 7: // few, and small, for one node is to hold them all
		a.rule, a.replicas, a.cpu, a.memory, a.port, a.device, a.claim = beside(a.name, hostKey), min(a.replicas, 4), "500m", "512Mi", 0, false, false
	case 8:
		a.volume = zone
	}
}
