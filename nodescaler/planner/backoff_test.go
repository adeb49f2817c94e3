package planner

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/sample"
)

// A pool is left alone for twice as long each time that it fails again, up to a limit.
func TestHowLongAPoolIsLeftAlone(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		name  string
		fails []time.Duration // since noon
		until time.Duration
	}{
		{"once", []time.Duration{0}, 5 * m},
		{"two of one order", []time.Duration{0, m}, 6 * m},
		{"just before the end", []time.Duration{0, 5*m - 1}, 10*m - 1},
		{"at the end", []time.Duration{0, 5 * m}, 15 * m},
		{"again and again", []time.Duration{0, 5 * m, 15 * m}, 27 * m},
		{"long after, but remembered", []time.Duration{0, 60 * m}, 70 * m},
		{"long after, and forgotten", []time.Duration{0, 60*m + 1}, 65*m + 1},
	} {
		b := &backoff{first: 5 * m, longest: 12 * m, forget: 60 * m}
		for _, at := range c.fails {
			b.fail(sample.Noon.Add(at))
		}
		if !b.on(sample.Noon.Add(c.until-1)) || b.on(sample.Noon.Add(c.until)) {
			t.Errorf("%s: left alone until %s, want %s", c.name, b.until.Sub(sample.Noon), c.until)
		}
	}
	if none := (*backoff)(nil); none.on(sample.Noon) {
		t.Error("a pool that never failed is left alone")
	}
}

// A resume ends what a pool is left alone for, and nothing of what fails later.
func TestAResumeEndsThatAPoolIsLeftAlone(t *testing.T) {
	failed := sample.Noon.Add(-time.Minute)
	for name, c := range map[string]struct {
		resumed time.Time
		makes   bool
	}{
		"none":   {},
		"before": {resumed: failed.Add(-time.Second)},
		"after":  {resumed: failed.Add(time.Second), makes: true},
	} {
		w := sample.New()
		w.Pools[0].Resumed = c.resumed
		s := scanOf(w)
		s.spares.backoffOf("w").fail(failed)
		if s.run(); s.spares.makes("w") != c.makes {
			t.Errorf("%s: machines are made: %t", name, !c.makes)
		}
	}
}
