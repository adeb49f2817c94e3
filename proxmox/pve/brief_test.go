package pve

import (
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestReasonsAreKeptInBrief(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"short":                   {"3 pods wait", "3 pods wait"},
		"just short enough":       {strings.Repeat("x", maxWhy), strings.Repeat("x", maxWhy)},
		"too long":                {strings.Repeat("x", maxWhy+1), strings.Repeat("x", maxWhy-3) + "…"},
		"cut beside a long rune":  {strings.Repeat("x", maxWhy-5) + "€€€", strings.Repeat("x", maxWhy-5) + "…"},
		"nothing but long runes":  {strings.Repeat("€", maxWhy), strings.Repeat("€", (maxWhy-3)/3) + "…"},
		"ends with the last rune": {strings.Repeat("x", maxWhy-3) + "€", strings.Repeat("x", maxWhy-3) + "€"},
	} {
		if got := brief(c.text); got != c.want || len(got) > maxWhy {
			t.Errorf("%s: got %q of %d bytes, want %q", name, got, len(got), c.want)
		}
	}
}

// An intent of an older Plimsoll's is as long as its reasons were; it shrinks when it is next
// written.
func TestReasonsThatWereKeptAtLengthAreCut(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 3}).begin()
	w.run(time.Minute)
	name := w.mustOrder("")
	kept, err := w.intents.Load()
	if err != nil {
		t.Fatal(err)
	}
	kept[0].Why = strings.Repeat("x", 1000)
	must.Do(t, w.intents.Put(kept[0]))
	w.begin()
	w.run(time.Second)
	w.until("it has joined", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	if kept, err = w.intents.Load(); err != nil || len(kept[0].Why) > maxWhy {
		t.Errorf("%v, the reasons are of %d bytes", err, len(kept[0].Why))
	}
}
