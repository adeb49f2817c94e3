package planner

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// end is why machines of a pool go.
type end struct {
	pool  string
	cause nodescaler.Cause
}

// circuit stops machines of a pool from going for a cause once what was to replace them has failed
// some times in a row: what broke those would break the next. Each further failure stops them for
// twice as long.
type circuit struct {
	failures int
	until    time.Time
}

const (
	// circuitAfter is how many failures in a row stop a cause.
	circuitAfter = 3
	// circuitFirst is for how long it is stopped at first, and circuitLongest at most.
	circuitFirst, circuitLongest = time.Hour, 24 * time.Hour
)

// fail counts a failure of what was to replace machines.
func (t *turn) fail(e end) {
	c := t.circuits[e]
	if c == nil {
		c = &circuit{}
		t.circuits[e] = c
	}
	if c.failures++; c.failures >= circuitAfter {
		c.until = t.X.Now.Add(min(circuitFirst<<min(c.failures-circuitAfter, 8), circuitLongest))
	}
}

// broken says why no machine of a pool goes for a cause now, or nil.
func (t *turn) broken(e end) *nodescaler.Reason {
	c := t.circuits[e]
	if c == nil || !t.X.Now.Before(c.until) {
		return nil
	}
	r := Because(nodescaler.DisruptionHalted, "no machine of pool %s goes for reason %s until %s: what was to replace such machines failed %d times in a row",
		e.pool, e.cause, c.until.UTC().Format(time.RFC3339), c.failures)
	return &r
}

// lookAtReplacements counts the replacements that failed since the last scan, and would be made
// again.
func (t *turn) lookAtReplacements(was map[string]end) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, failed := t.failed[name]; failed && t.X.Machine(name).Drifted == "" {
			t.fail(was[name])
		}
	}
}

// noteBroken says of each pool for which causes none of its machines goes now.
func (t *turn) noteBroken() {
	for i := range t.X.Pools {
		pool := t.X.Pools[i].Name
		var texts []string
		for _, cause := range nodescaler.Causes {
			if r := t.broken(end{pool, cause}); r != nil {
				texts = append(texts, r.Text)
				t.Plan.Reasons = append(t.Plan.Reasons, *r)
			}
		}
		if len(texts) == 0 {
			continue
		}
		if t.Plan.Halted == nil {
			t.Plan.Halted = map[string]nodescaler.Reason{}
		}
		t.Plan.Halted[pool] = Because(nodescaler.DisruptionHalted, "%s", strings.Join(texts, "; "))
	}
}
