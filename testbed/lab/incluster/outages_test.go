//go:build lab

package incluster

import (
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/lab"
)

// While Proxmox VE does not answer, or the API server is away, nothing is taken for gone; and afterwards
// it goes on.
func TestOutagesTakeNothingAwayAndEnd(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	c := w.start("podscaler,nodescaler", quick)
	w.deployment("web", 4, "700m")
	w.until("all pods run", func() bool { return w.running() == 4 })
	before := w.machineNames()
	stop := func(part string, whenDown func()) {
		if err := w.lab.Stop(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		w.Logf("%6.1fs  %s is stopped", time.Since(w.began).Seconds(), part)
		whenDown()
		if err := w.lab.Start(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		w.Logf("%6.1fs  %s is started", time.Since(w.began).Seconds(), part)
	}
	stop("pve", func() {
		w.deployment("web", 6, "700m") // for which a machine is needed
		time.Sleep(15 * time.Second)
		if n := len(w.nodes()); n != 2 {
			t.Errorf("%d nodes while Proxmox VE is away", n)
		}
	})
	w.until("what was wanted meanwhile is there", func() bool { return w.running() == 6 && len(w.vms()) == 3 })
	stop(lab.ControlPlanePart, func() { time.Sleep(15 * time.Second) })
	w.until("it leads again", func() bool { return c.leads(w) })
	after := w.machineNames()
	for _, name := range before {
		if !slices.Contains(after, name) {
			t.Errorf("machine %s was lost", name)
		}
	}
	w.deployment("web", 8, "700m")
	w.until("it goes on", func() bool { return w.running() == 8 && len(w.vms()) == 4 })
}

// machineNames are the machines' names.
func (w *world) machineNames() []string {
	var all []string
	for _, v := range w.vms() {
		all = append(all, v.Config["name"])
	}
	return all
}
