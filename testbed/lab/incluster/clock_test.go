//go:build lab

package incluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A clock that jumps by ten minutes, forward and back, takes no machine away, and orders none
// twice.
func TestClockThatJumpsLosesNothing(t *testing.T) {
	w := newWorld(t)
	set := w.movedClock()
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	c := w.start("podscaler,nodescaler", strings.Replace(quick, "scaleDownUnneededTime: 3s", "scaleDownUnneededTime: 2m", 1))
	w.deployment("web", 6, "700m")
	w.until("all pods run", func() bool { return w.running() == 6 && len(w.nodes()) == 3 })
	before := w.machineNames()
	w.deployment("web", 2, "700m")
	w.until("few pods are left", func() bool { return len(w.pods()) == 2 })
	time.Sleep(5 * time.Second) // in which nodes are seen to be unneeded

	set(10 * time.Minute)
	w.stays(20*time.Second, "3 machines, unneeded for less than two minutes", func() bool { return len(w.vms()) == 3 && len(w.nodes()) == 3 })
	most := 0
	w.deployment("web", 10, "700m")
	w.until("machines are on their way", func() bool { return len(w.vms()) > 3 })
	set(0)
	w.until("all pods run", func() bool { most = max(most, len(w.vms())); return w.running() == 10 && len(w.nodes()) == 5 })
	set(-10 * time.Minute)
	w.stays(10*time.Second, "5 machines", func() bool { most = max(most, len(w.vms())); return len(w.vms()) == 5 })
	w.deployment("web", 12, "700m")
	w.until("it goes on", func() bool { most = max(most, len(w.vms())); return w.running() == 12 && len(w.nodes()) == 6 })
	if most > 6 {
		t.Errorf("there were %d machines, and never more than 6 were needed", most)
	}
	after := w.machineNames()
	for _, name := range before {
		if !slices.Contains(after, name) {
			t.Errorf("machine %s was lost", name)
		}
	}
	said, err := os.ReadFile(c.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(said), "the clock has jumped"); n != 3 {
		t.Errorf("it is told %d times that the clock has jumped", n)
	}
}

// movedClock has programs that are started from now on go by a clock that can be set. They are the
// binary as its own tests have it, for the binary itself takes no clock from anybody.
func (w *world) movedClock() (set func(off time.Duration)) {
	w.Helper()
	folder := w.TempDir()
	w.binary = filepath.Join(folder, "plimsoll-moved")
	out, err := exec.Command("go", "test", "-c", "-o", w.binary, "github.com/plimsoll/plimsoll/cmd/plimsoll").CombinedOutput()
	if err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	clock := filepath.Join(folder, "clock")
	w.env = append(w.env, "PLIMSOLL_CLOCK="+clock)
	set = func(off time.Duration) {
		w.Helper()
		// Renamed, so that no one reads half of it.
		if err := os.WriteFile(clock+".new", []byte(off.String()), 0o600); err != nil {
			w.Fatal(err)
		}
		if err := os.Rename(clock+".new", clock); err != nil {
			w.Fatal(err)
		}
		w.Logf("%6.1fs  the clock is off by %s", time.Since(w.began).Seconds(), off)
	}
	set(0)
	return set
}
